"""Of all keys that a server sends, the pinned one alone is kept, read by a real gpg."""

from __future__ import annotations

import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest
from signing_keys import signing_key


def primary_keys(path: Path) -> list[str]:
    """Fingerprints of all primary keys in a file, as gpg shows them."""
    done = subprocess.run(
        ["gpg", "--batch", "--show-keys", "--with-colons", str(path)], capture_output=True, text=True, check=True
    )
    lines = [line.split(":") for line in done.stdout.splitlines()]
    return [after[9] for line, after in zip(lines, lines[1:], strict=False) if line[0] == "pub"]


@pytest.fixture
def keep(run_module: Callable[..., dict], tmp_path: Path) -> Callable[..., dict]:
    """The module on a key file that a server has, given as bytes."""

    def run(sent: bytes, pinned: str, check: bool = False, **changes: object) -> dict:
        (tmp_path / "sent").write_bytes(sent)
        arguments = {"url": f"file://{tmp_path}/sent", "fingerprint": pinned, "dest": str(tmp_path / "kept.asc")}
        return run_module("repository_key", {**arguments, **changes}, check=check)

    return run


VENDOR, OTHER = signing_key("vendor"), signing_key("other")


@pytest.mark.parametrize(
    "sent", [VENDOR.public, VENDOR.gpg("--export", VENDOR.fingerprint)], ids=["armoured", "binary"]
)
def test_the_pinned_key_is_kept(keep: Callable[..., dict], tmp_path: Path, sent: bytes) -> None:
    spaced = " ".join([VENDOR.fingerprint[:20], VENDOR.fingerprint[20:].lower()])
    answer = keep(sent, spaced)
    assert answer["changed"] and not answer.get("failed"), answer
    assert primary_keys(tmp_path / "kept.asc") == [VENDOR.fingerprint]
    assert (tmp_path / "kept.asc").stat().st_mode & 0o777 == 0o644
    assert answer["left_out"] == []
    assert not keep(b"gone", spaced)["changed"], "fetched again, or written again"


def test_a_file_with_two_keys_is_reduced_without_asking_anybody(keep: Callable[..., dict], tmp_path: Path) -> None:
    (tmp_path / "kept.asc").write_bytes(VENDOR.public + OTHER.public)
    assert keep(b"", VENDOR.fingerprint, check=True)["changed"]
    assert len(primary_keys(tmp_path / "kept.asc")) == 2
    answer = keep(b"", VENDOR.fingerprint)
    assert answer["changed"] and answer["left_out"] == [OTHER.fingerprint]
    assert primary_keys(tmp_path / "kept.asc") == [VENDOR.fingerprint]


@pytest.mark.parametrize(
    ("sent", "words"),
    [
        (OTHER.public, f"it holds {OTHER.fingerprint} instead of {VENDOR.fingerprint}"),
        (VENDOR.public + OTHER.public, f"it holds 2 primary keys, but only {VENDOR.fingerprint} is expected"),
        (OTHER.public + VENDOR.public, f"also in it: {OTHER.fingerprint}"),
        (VENDOR.gpg("--export") + OTHER.gpg("--export"), "it holds 2 primary keys"),
        (b"<html>log in</html>", "it holds no key at all"),
        (b"", "it holds no key at all"),
        (b"\0" * (1024 * 1024 + 2), "larger than 1 MiB"),
    ],
    ids=["another", "appended", "prepended", "binary", "portal", "empty", "large"],
)
def test_anything_else_changes_nothing(keep: Callable[..., dict], tmp_path: Path, sent: bytes, words: str) -> None:
    (tmp_path / "kept.asc").write_bytes(OTHER.public)
    answer = keep(sent, VENDOR.fingerprint)
    assert answer["failed"] and words in answer["msg"] and "nothing was changed" in answer["msg"]
    assert (tmp_path / "kept.asc").read_bytes() == OTHER.public


def test_a_subkey_is_not_the_key(keep: Callable[..., dict]) -> None:
    owner = signing_key("subkeys")
    owner.gpg("--passphrase", "", "--quick-add-key", owner.fingerprint, "rsa2048", "sign", "never")
    lines = owner.gpg("--with-colons", "--list-keys").decode().splitlines()
    subkey = [line.split(":")[9] for line in lines if line.startswith("fpr")][1]
    assert keep(owner.public, subkey)["failed"]
    assert keep(owner.public, owner.fingerprint)["changed"]


def test_a_key_that_its_owner_revoked_is_refused(keep: Callable[..., dict]) -> None:
    owner = signing_key("revoked")
    certificate = Path(owner.home, "openpgp-revocs.d", owner.fingerprint + ".rev").read_text()
    owner.gpg("--import", data=certificate.replace(":-----BEGIN", "-----BEGIN").encode())
    answer = keep(owner.public, owner.fingerprint)
    assert answer["failed"] and "revoked" in answer["msg"]


def test_an_address_that_does_not_answer(keep: Callable[..., dict], tmp_path: Path) -> None:
    answer = keep(b"", VENDOR.fingerprint, url=f"file://{tmp_path}/nowhere", url_username="u", url_password="canary-9")
    assert answer["failed"] and "cannot be fetched" in answer["msg"] and "canary-9" not in str(answer)


def test_a_host_without_gpg(
    run_module: Callable[..., dict], keep: Callable, fake_bin: Callable, tmp_path: Path
) -> None:
    fake_bin("gpg", "#!/bin/sh\necho broken >&2\nexit 2\n")
    answer = keep(VENDOR.public, VENDOR.fingerprint)
    assert answer["failed"] and "gpg: broken" in answer["msg"] and not (tmp_path / "kept.asc").exists()
