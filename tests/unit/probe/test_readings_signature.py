"""Who signed the module, and which keys are trusted, from the words of modinfo, mokutil and the kernel."""

from __future__ import annotations

import shutil
import subprocess

import pytest
from gpuwright.probe.module_signature import (
    parse_certificates,
    plain,
    read_enforced,
    read_enrolled_keys,
    read_kernel_keys,
    read_module_signature,
)
from healthy_files import ENROLLED, MODINFO
from host_tree import RUNNING, HostTree, answers
from node_names import MOK

LONG = "version: 1\nsig_id: PKCS#7\nsigner: NVIDIA\nsig_key: {}\nsig_hashalgo: sha256\n"


def test_a_signed_module():
    found = read_module_signature("/", answers(modinfo=MODINFO), RUNNING)
    assert found == {"signer": "DKMS module signing key", "key": MOK}


def test_no_module_and_no_signature():
    assert read_module_signature("/", answers(), RUNNING) is None
    found = read_module_signature("/", answers(modinfo="version: 580.95.05\nlicense: NVIDIA\n"), RUNNING)
    assert found == {"signer": "", "key": ""}


@pytest.mark.parametrize(
    "text",
    [
        "version: 1\nsig_id: PKCS#7\nsigner:\nsig_key:\nsig_hashalgo: md4\n",
        "version: 1\nsig_id: PKCS#7\n",
        "version: 1\nsigner: NVIDIA\n",
        LONG.format(""),
    ],
)
def test_a_signature_of_which_modinfo_knows_nothing_is_not_unsigned(text):
    with pytest.raises(ValueError, match="does not say whose"):
        read_module_signature("/", answers(modinfo=text), RUNNING)


def test_enrolled_keys():
    ask = {"--list-enrolled": ENROLLED, "--db": "db is empty\n"}
    found = read_enrolled_keys("/nonexistent", lambda command: ask[command[1]])
    assert found == [{"name": "DKMS module signing key", "numbers": [MOK, "d939395a3c4c0e2a"]}]


@pytest.mark.parametrize(
    ("answer", "expected"),
    [
        ("MokListRT is empty\n", []),
        ("", []),
        (None, OSError),
        ("EFI variables are not supported on this system\n", OSError),
        ("Failed to read MokListRT: Permission denied\n", OSError),
    ],
)
def test_no_key_and_no_answer_are_two_things(answer, expected):
    if expected == []:
        assert read_enrolled_keys("/nonexistent", lambda command: answer) == []
    else:
        with pytest.raises(OSError, match="mokutil --list-enrolled"):
            read_enrolled_keys("/nonexistent", lambda command: answer)


@pytest.mark.parametrize(
    ("serial", "expected"),
    [
        ("Serial Number: 1 (0x1)", "1"),
        ("Serial Number: 12345678 (0xbc614e)", "bc614e"),
        ("Serial Number:\n            00:ed:54:A1", "ed54a1"),
        ("Serial Number:\n            7f:ed:54", "7fed54"),
    ],
)
def test_serial_numbers_as_openssl_prints_them(serial, expected):
    text = f"Certificate:\n  Data:\n   {serial}\n        Issuer: C = US, O = X, CN = Some Key\n"
    assert parse_certificates(text) == [{"name": "Some Key", "numbers": [expected]}]


@pytest.mark.parametrize("text", ["01:0A:FF", "1:0a:ff", "0x10aff", "10AFF", "00:01:0a:ff"])
def test_one_number_in_many_spellings(text):
    assert plain(text) == "10aff"


@pytest.mark.skipif(not shutil.which("openssl"), reason="needs openssl")
@pytest.mark.parametrize("serial", ["1", "0x27ed54a1d5af8748948d9f8932ee9c7c34a0b1c2"])
def test_a_certificate_as_this_machines_openssl_prints_it(tmp_path, serial):
    command = ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-subj", "/CN=DKMS module signing key"]
    files = ["-keyout", str(tmp_path / "key"), "-out", str(tmp_path / "cert"), "-set_serial", serial]
    subprocess.run([*command, *files], check=True, capture_output=True)
    text = subprocess.run(
        ["openssl", "x509", "-in", tmp_path / "cert", "-noout", "-text"], check=True, capture_output=True, text=True
    ).stdout
    (found,) = parse_certificates("[key 1]\n" + text)
    assert found["name"] == "DKMS module signing key" and found["numbers"][0] == plain(serial)
    assert len(found["numbers"]) == 2


def test_keys_of_the_kernel(tmp_path):
    host = HostTree(tmp_path)
    host.put(
        "/proc/keys",
        "01 I------ 1 perm 1f030000 0 0 asymmetri Red Hat Enterprise Linux kernel signing key: "
        "0c51b9a1d1e0a3f5d6a0f0c5a1d0b2c3d4e5f607: X509.rsa d4e5f607 []\n"
        "02 I------ 1 perm 1f030000 0 0 asymmetri Debian Secure Boot CA: 6ccece7e4c6c0d1f6149f3dd27dfcc5cbb419ea1: "
        "X509.rsa bb419ea1 []\n03 I--Q--- 4 perm 3f030000 0 65534 keyring _ses: 1\n",
    )
    assert read_kernel_keys(host.root) == [
        {"name": "Red Hat Enterprise Linux kernel signing key", "numbers": ["c51b9a1d1e0a3f5d6a0f0c5a1d0b2c3d4e5f607"]},
        {"name": "Debian Secure Boot CA", "numbers": ["6ccece7e4c6c0d1f6149f3dd27dfcc5cbb419ea1"]},
    ]


@pytest.mark.parametrize("text", [None, "", "03 I--Q--- 4 perm 3f030000 0 65534 keyring _ses: 1\n"])
def test_keys_that_an_ordinary_user_is_not_shown_are_not_none(tmp_path, text):
    host = HostTree(tmp_path)
    if text is not None:
        host.put("/proc/keys", text)
    with pytest.raises(PermissionError, match="shows no certificate"):
        read_kernel_keys(host.root)


@pytest.mark.parametrize(("text", "expected"), [("Y\n", True), ("N\n", False), (None, False)])
def test_enforced(tmp_path, text, expected):
    host = HostTree(tmp_path)
    if text:
        host.put("/sys/module/module/parameters/sig_enforce", text)
    assert read_enforced(host.root) is expected
