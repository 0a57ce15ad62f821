"""The door for text that others chose: secrets by key and by form, control characters, length."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest
from gpuwright.doctor.bundle.masking import Masker
from gpuwright.host import placing
from gpuwright.host.written.told import is_secret, printable, told, told_lines, values_hidden, without_secrets
from gpuwright.launch.calibration import measuring
from gpuwright.launch.runtime_policy import LaunchError
from gpuwright.packages.addresses import without_login

S = "S3cr3tCanary"
SECRETS = [
    f"https://user:{S}@mirror.example/x",
    f"https://user:{S}/rest@mirror.example/x",
    f"https://u:12/{S}@mirror.example/x",
    f"https://u:{S}?a@mirror.example/",
    f"https://u:{S}#a@mirror.example/",
    f"https://{S}@mirror.example/",
    f"ftp://u:{S}@m/x",
    f"alice:{S}@mirror.example",
    f"alice:{S}@10.0.0.1:8080",
    f"password={S}",
    f"PASSWORD: {S}",
    f"passwd = {S}",
    f"pwd={S};uid=1",
    f"DB_PASS={S}",
    f"passphrase='{S} and more {S}'",
    f'"password": "{S}"',
    f"{{'password': '{S}', 'a': 1}}",
    f'{{"hf_token":"{S}"}}',
    f"{{'api_key': '{S}'}}",
    f"HF_TOKEN={S}",
    f"export WANDB_API_KEY={S}",
    f"AWS_SECRET_ACCESS_KEY={S}",
    f"aws_session_token = {S}",
    f"--password {S}",
    f"--password={S}",
    f"--hf-token {S}",
    f"--api-key '{S}'",
    f"--registry-password={S}",
    f"curl -u alice:{S} https://m/",
    f"curl --user alice:{S}",
    f"Authorization: Bearer {S}abc",
    f"authorization: Basic {S}==",
    f"Bearer {S}.{S}.{S}",
    f"X-Auth-Token: {S}",
    f"X-Api-Key: {S}",
    f"Cookie: session={S}",
    f"rd.iscsi.password={S}",
    f"rd.iscsi.in.password={S}",
    f"netroot=iscsi:user:{S}:in:{S}@10.0.0.1::::iqn.2010-01.example:a",
    f"//nas/share /mnt cifs username=a,password={S},uid=0",
    f"mount -o user=a,pass={S}",
    f"machine m login alice password {S}",
    f"sshpass -p {S} ssh m",
    f"<password>{S}</password>",
    f"password => {S}",
    f'password: "{S} with blanks {S}"',
    f"https://m/x?token={S}&a=1",
    f"https://m/x?X-Amz-Signature={S}",
    f"https://m/?sig={S}",
    f"ghp_{S * 3}",
    f"hf_{S * 2}",
    f"sk-{S * 2}",
    f"xoxb-{S}",
    f"nvapi-{S * 2}",
    f"glpat-{S * 2}",
    "AKIA" + "S3CR3TCANARY" + "AAAA",
    f"eyJ{S}abc.{S}.{S}",
    f"root:$6$salt{S}${S}:19000",
    f"-----BEGIN OPENSSH PRIVATE KEY-----\n{S}\n{S}\n-----END OPENSSH PRIVATE KEY-----",
    f"private_key: {S}",
    f"client_secret={S}",
    f'\\"password\\": \\"{S}\\"',
    f"proxy_password={S}",
    f"credentials={S}",
]
INNOCENT = [
    "max_tokens=512",
    "tokens: 512 per second",
    "PASS=5 FAIL=0",
    "verdict PASS: 12 checks",
    "kernel.xid:48@0000:3b:00",
    "gpu-job@a.service",
    "nvidia-driver-3:570.172.08-1.el8.x86_64",
    "https://mirror.example:8443/a/b",
    "http://10.0.0.1:8080/rest",
    "author: somebody",
    "no password is set",
    "key: value",
    "compass=north",
    "git@github.com:a/b",
    "passed: 3",
    "a secret of 3 words",
    "sha256:" + "0" * 64,
]


@pytest.mark.parametrize("text", SECRETS)
def test_a_secret_is_known_by_its_key_or_its_form(text: str) -> None:
    lead = f"dnf said: {text} and went on"
    for found in (told(lead), without_secrets(lead), Masker().text(lead), without_login(lead)):
        assert S not in found and "S3CR3T" not in found, found
        assert found.startswith("dnf said: ")


@pytest.mark.parametrize("text", INNOCENT)
def test_what_is_no_secret_stays(text: str) -> None:
    assert told(f"dnf said: {text} and went on") == f"dnf said: {text} and went on"


def test_fields_are_known_by_their_names() -> None:
    names = (
        "password",
        "hf_token",
        "db-password2",
        "API_KEY",
        "clientSecret",
        "proxy_password",
        "passphrase",
        "password_hash",
    )
    assert [name for name in names if not is_secret(name)] == []
    assert [
        name for name in ("max_tokens", "passed", "key", "tokenizer", "author", "keyboard") if is_secret(name)
    ] == []
    hidden = values_hidden({"a": [{"hf_token": S, "b": f"pwd={S}", "password": ""}], "n": 1})
    assert hidden == {"a": [{"hf_token": "***", "b": "pwd=***", "password": ""}], "n": 1}
    assert S not in json.dumps(Masker().value({"a": [{"hf_token": S}]}))


@pytest.mark.parametrize(
    "char", ["\x1b", "\x9b", "\r", "\n", "\b", "\x07", "\u202e", "\u2066", "\u200b", "\u2028", "\ufeff", "\x7f"]
)
def test_what_a_terminal_obeys_is_taken_out(char: str) -> None:
    assert char not in told(f"a{char}b") and char not in printable(f"a{char}b") and told(f"a{char}b")[0] == "a"


def test_a_text_has_a_greatest_length() -> None:
    assert len(told("a" * 10**6)) == 4000 and told("a" * 10, 6) == "aaaa.." and printable("ä b") == "ä b"
    assert told_lines("\n".join("abcdefg"), 2) == "f\ng" and len(told_lines("a" * 10**6, 3)) <= 3 * 4001


def test_a_long_line_is_looked_at_in_little_time() -> None:
    """Each repetition is bounded: a log may hold a line of megabytes, which a user chose."""
    for piece in ("password", "a:", "--a-b-c-", "https://a:b", "eyJ", "a@", "'", "\\", "x" * 50 + "="):
        without_secrets(piece * (200_000 // len(piece)))


def test_a_difference_shows_neither_the_old_nor_the_new_secret() -> None:
    """no_log knows what a file will hold, not what it held."""
    old, new = (f"[a]\nbaseurl=https://u:{S}{n}@m/x\npassword={S}{n}\nenabled={n}\n".encode() for n in (1, 2))
    found = placing.Found("file", old, "", 0o644, 0, 0)
    wanted = placing.Wanted("/etc/yum.repos.d/a.repo", "file", new, "", 0o644, 0, 0)
    told_of = placing.shown(found, wanted, ["content"])
    assert S not in str(told_of) and "enabled=1" in told_of["before"] and "enabled=2" in told_of["after"]
    same = placing.shown(found, wanted._replace(content=old.replace(b"Canary1", b"Canary3")), ["content"])
    assert S not in str(same) and same["before"] != same["after"]


def test_what_a_command_of_another_user_printed_is_bounded_and_safe(tmp_path: Path) -> None:
    script = tmp_path / "command"
    much, words = "head -c 3000000 /dev/zero | tr '\\0' x", f"printf '\\033]0;title\\007 token=%s\\n' {S}"
    script.write_text(f"#!/bin/sh\n{much}\n{words}\nexit 3\n")
    script.chmod(0o755)
    with pytest.raises(LaunchError) as failure:
        measuring.run_once(measuring.Way(dict(os.environ), None), [str(script)], None)
    said = str(failure.value)
    assert len(said) < 800 and "\x1b" not in said and "\x07" not in said and S not in said and "exit code 3" in said
