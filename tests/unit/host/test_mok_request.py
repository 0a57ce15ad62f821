"""The signing key is made and its import staged: with the real openssl, and a stand-in for mokutil and the firmware."""

from __future__ import annotations

import json
import stat
import struct
import subprocess
from collections.abc import Callable
from pathlib import Path

import efi
import pytest
from gpuwright.host.bounded import Finished, run_bounded
from gpuwright.host.secure_boot.certificates import describe_certificate, digest, fingerprint
from gpuwright.host.secure_boot.efi_variables import read_certificates
from gpuwright.host.secure_boot.module_key import DKMS_PLACE, UBUNTU_PLACE, KeyPlace
from gpuwright.host.secure_boot.mok_password import hash_problem, made_with
from gpuwright.host.secure_boot.mok_request import RECORD, Outcome, dialogue, prepare
from gpuwright.host.secure_boot.signing_pair import Refused
from host_tree import HostTree

HASH, OTHER_HASH = "$6$0123456789abcdef$" + "x" * 86, "$6$fedcba9876543210$" + "y" * 86
PLACE = KeyPlace(*DKMS_PLACE)
WITHOUT_REQUEST = 4 + 172


def request_of(text: str) -> bytes:
    """MokAuth as mokutil 0.6.0 writes it for a $6$ hash."""
    salt = text.split("$")[-2].encode()
    rounds = int(text.split("rounds=")[1].split("$")[0]) if "rounds=" in text else 5000
    return struct.pack("<HQH32s128s", {"5": 3, "6": 4}[text[1]], rounds, len(salt), salt, b"digest")


class Node(HostTree):
    """A Secure Boot host whose mokutil writes the variables that the real one writes."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        self.commands: list[list[str]] = []
        self.hash_files: list[tuple[str, int]] = []
        self.broken = ""
        efi.secure_boot_on(self)
        (folder / "run").mkdir()
        self.boot()

    def boot(self, confirm: bool = False, through_shim: bool = True) -> None:
        """Another boot: MokManager takes the request away, and grants it where somebody confirms."""
        number = sum(1 for _ in self.folder.glob("boots-*"))
        self.put(f"/boots-{number}")
        self.put("/proc/sys/kernel/random/boot_id", f"boot {number}\n")
        staged = self.staged()
        if through_shim:
            self.forget()
        if confirm:
            efi.put_keys(self, "MokListRT", *staged)

    def forget(self) -> None:
        for name in ("MokNew", "MokAuth"):
            (self.folder / f"{efi.FOLDER[1:]}/{name}-{efi.SHIM}").unlink(missing_ok=True)

    def staged(self) -> list[bytes]:
        return read_certificates(self.root, "MokNew")

    def certificate(self, place: KeyPlace = PLACE) -> bytes:
        return (self.folder / place.certificate[1:]).read_bytes()

    def run(self, command: list[str], timeout: float) -> Finished:
        self.commands.append(command)
        if command[0] != "mokutil":
            return run_bounded(command, timeout)
        if self.broken:
            return Finished(1, "", self.broken, False, False, False, "")
        if command[1] == "--import":
            file = Path(command[4])
            self.hash_files.append((file.read_text(), stat.S_IMODE(file.stat().st_mode)))
            efi.put_keys(self, "MokNew", Path(command[2]).read_bytes(), *self.staged())
            efi.put_variable(self, "MokAuth", request_of(file.read_text()))
        elif command[1] == "--revoke-import":
            self.forget()
        return Finished(0, "", "", False, False, False, "")

    def prepare(self, text: str = HASH, place: KeyPlace = PLACE, check: bool = False) -> Outcome:
        return prepare(self.root, place, text, check=check, run=self.run)


@pytest.fixture
def node(tmp_path: Path) -> Node:
    return Node(tmp_path)


def pair(node: Node, certificate: bytes = b"") -> None:
    """A pair that is there; with a certificate of its own where one is given."""
    node.prepare()
    node.boot()
    if certificate:
        node.put(PLACE.certificate, certificate)


@pytest.mark.parametrize("paths", [DKMS_PLACE, UBUNTU_PLACE])
def test_a_bare_host_gets_a_key_and_a_request(node, paths):
    place = KeyPlace(*paths)
    found = node.prepare(place=place)
    assert (found.state, found.changed, found.remarks) == ("staged", True, [])
    assert found.done == [f"made the key {place.private_key}", "staged the import"]
    assert node.staged() == [node.certificate(place)]
    assert stat.S_IMODE((node.folder / place.private_key[1:]).stat().st_mode) == 0o600
    assert sorted(file.name for file in (node.folder / place.private_key[1:]).parent.iterdir()) == sorted(
        Path(path).name for path in paths
    ), "nothing is left beside the pair"


def test_the_key_is_for_modules_alone(node):
    node.prepare()
    assert describe_certificate(node.certificate())["name"] == "DKMS module signing key"
    command = ["openssl", "x509", "-inform", "DER", "-in", node.folder / PLACE.certificate[1:], "-noout", "-text"]
    text = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    assert "Code Signing" in text and "1.3.6.1.4.1.2312.16.1.2" in text and "CA:FALSE" in text
    assert "Public-Key: (2048 bit)" in text


def test_the_hash_is_in_no_argument_and_its_file_is_gone(node):
    node.prepare()
    assert node.hash_files == [(HASH, 0o600)], "no new line: mokutil would refuse a $2y$ hash"
    assert not any(HASH in word for command in node.commands for word in command)
    left = [path for path in node.folder.rglob("*") if path.is_file() and HASH.encode() in path.read_bytes()]
    assert left == [] and list((node.folder / "run").iterdir()) == []


def test_a_file_with_the_hash_is_gone_after_a_failure(node):
    node.broken = "Failed to enroll new keys"
    with pytest.raises(Refused, match="mokutil --import failed: Failed to enroll new keys"):
        node.prepare()
    assert list((node.folder / "run").iterdir()) == []


def test_a_rerun_while_it_waits_stages_nothing_again(node):
    node.prepare()
    node.commands.clear()
    found = node.prepare()
    assert found == Outcome("staged", False, [], [])
    assert not any(command[0] == "mokutil" for command in node.commands)


def test_a_forgotten_password_can_be_replaced(node):
    node.prepare()
    found = node.prepare(OTHER_HASH)
    assert (found.state, found.changed, found.done) == ("staged", True, ["staged the import again"])
    assert [words[1] for words in node.commands if words[0] == "mokutil"] == ["--import", "--revoke-import", "--import"]
    assert len(node.staged()) == 1 and node.hash_files[-1][0] == OTHER_HASH


def test_a_confirmed_key_needs_nothing(node):
    node.prepare()
    node.boot(confirm=True)
    assert node.prepare() == Outcome("enrolled", False, [], [])


def test_a_request_that_nobody_confirmed_is_staged_again_and_told(node):
    node.prepare()
    node.boot()
    found = node.prepare()
    assert (found.state, found.done) == ("staged", ["staged the import again"])
    assert "was not confirmed" in found.remarks[0] and len(found.remarks) == 1


def test_a_request_that_outlives_a_boot_is_told(node):
    node.prepare()
    node.boot(through_shim=False)
    found = node.prepare()
    assert (found.state, found.changed) == ("staged", False)
    assert "does not boot through shim" in found.remarks[0]


def test_a_key_that_was_replaced_while_the_old_one_waits(node):
    """The old key, which nobody may have any more, is not confirmed along with the new one."""
    node.prepare()
    old = node.certificate()
    for path in PLACE:
        (node.folder / path[1:]).unlink()
    node.boot(through_shim=False)
    found = node.prepare()
    assert node.staged() == [node.certificate()] and old not in node.staged()
    assert found.done[0].startswith("made the key") and "replaced since" in found.remarks[0]


def test_a_key_that_was_replaced_after_the_old_one_was_enrolled(node):
    node.prepare()
    node.boot(confirm=True)
    for path in PLACE:
        (node.folder / path[1:]).unlink()
    found = node.prepare()
    assert found.state == "staged" and node.staged() == [node.certificate()]


def test_the_request_of_somebody_else_stays_and_is_told(node):
    efi.put_keys(node, "MokNew", efi.OTHER_KEY)
    found = node.prepare()
    assert node.staged() == [node.certificate(), efi.OTHER_KEY]
    assert "1 other keys wait" in found.remarks[0]
    with pytest.raises(Refused, match="Another key waits"):
        node.prepare(OTHER_HASH)
    assert len(node.staged()) == 2


@pytest.mark.parametrize("gone", [0, 1])
def test_half_a_pair_is_not_made_whole(node, gone):
    pair(node)
    (node.folder / PLACE[gone][1:]).unlink()
    with pytest.raises(Refused, match="without"):
        node.prepare()
    assert not (node.folder / PLACE[gone][1:]).exists()


def test_a_certificate_of_another_key(node):
    pair(node, efi.KEY)
    with pytest.raises(Refused, match="is not the key of the certificate"):
        node.prepare()


def test_a_damaged_certificate_and_a_key_that_asks_for_a_passphrase(node):
    pair(node, b"garbage")
    with pytest.raises(Refused, match="openssl x509 failed"):
        node.prepare()
    with pytest.raises(Refused, match="cannot be prepared.*certificate"):
        node.prepare(check=True)


def test_a_revoked_key(node):
    pair(node)
    efi.put_keys(node, "MokListXRT", node.certificate())
    with pytest.raises(Refused, match="revoked"):
        node.prepare()
    assert node.staged() == []


def test_a_key_in_a_token(node):
    place = KeyPlace("pkcs11:token=site", "/etc/pki/site.der")
    with pytest.raises(Refused, match=r"There is no /etc/pki/site\.der"):
        node.prepare(place=place)
    node.put(place.certificate, efi.KEY)
    assert node.prepare(place=place).done == ["staged the import"]
    assert node.staged() == [efi.KEY]


def test_mokutil_that_only_says_that_it_did(node):
    node.run = lambda command, timeout: (
        run_bounded(command, timeout) if command[0] == "openssl" else Finished(0, "", "", False, False, False, "")
    )
    with pytest.raises(Refused, match="is not among the firmware's variables"):
        node.prepare()


def test_unreadable_variables_stop(node):
    pair(node)
    node.put(f"{efi.FOLDER}/MokListRT-{efi.SHIM}", b"\x06\0\0\0" + b"x" * 30)
    with pytest.raises(Refused, match="cannot be prepared"):
        node.prepare()
    assert node.staged() == []


def test_check_mode_changes_nothing(node):
    found = node.prepare(check=True)
    assert (found.state, found.changed) == ("staged", True)
    assert found.done == [f"make the key {PLACE.private_key}", "stage its import"]
    assert not (node.folder / PLACE.private_key[1:]).exists() and node.commands == []
    pair(node)
    node.commands.clear()
    assert node.prepare(check=True).done == ["would have staged the import again"]
    assert node.commands == [] and node.staged() == []


@pytest.mark.parametrize("text", ["", "{", "[]", "null", '{"boot_id": 5, "sha256": []}'])
def test_a_damaged_record_does_no_harm(node, text):
    node.put(RECORD, text)
    efi.put_keys(node, "MokNew", efi.OTHER_KEY)
    folder = (node.folder / RECORD[1:]).parent
    node.prepare(check=True)
    assert not list(folder.glob("*.damaged-*"))
    done = node.prepare()
    assert done.state == "staged" and "is lost: how the earlier request ended." in " ".join(done.remarks)
    assert [one.read_text() for one in folder.glob("*.damaged-*")] == [text]
    record = json.loads((node.folder / RECORD[1:]).read_text())
    assert record == {"schema": 1, "sha256": digest(node.certificate()), "boot_id": "boot 0"}


def test_a_damaged_record_is_said_where_the_request_fails(node):
    pair(node)
    node.put(RECORD, "{")
    node.run = lambda command, timeout: (
        run_bounded(command, timeout) if command[0] == "openssl" else Finished(1, "", "", False, False, False, "")
    )
    with pytest.raises(Refused, match="is lost: how the earlier request ended"):
        node.prepare()
    [aside] = (node.folder / RECORD[1:]).parent.glob("*.damaged-*")
    assert aside.read_text() == "{"


def test_the_dialogue_is_mokmanagers(node):
    node.prepare()
    lines = dialogue(node.root, PLACE.certificate)
    words = [
        "Press any key to perform MOK management",
        "Enroll MOK",
        "Continue",
        "Enroll the key(s)?: Yes",
        "Password:",
    ]
    assert [word for word, line in zip([*words, "Reboot"], lines, strict=True) if word not in line] == []
    assert lines[-1].endswith("Reboot") and "US" in lines[4] and "10 s" in lines[0]
    assert fingerprint(node.certificate()).replace(":", " ").upper() in lines[2]
    assert "unknown" in dialogue(node.root, "/none")[2]


GOOD = [
    HASH,
    "$5$salt$" + "x" * 43,
    "$6$rounds=5000$salt$" + "./Az09" * 14 + "zz",
    "$2y$10$" + "x" * 53,
    "$2a$05$" + "x" * 53,
]
BAD = [
    "", "secret", "hunter2", "$6$salt$" + "x" * 85, "$6$salt$" + "x" * 87, "$6$" + "s" * 17 + "$" + "x" * 86,
    "$6$$" + "x" * 86, "$6$salt$" + "x" * 85 + "!", "$6$rounds=9$salt$" + "x" * 86, "$6$rounds=x$salt$" + "x" * 86,
    "$5$salt$" + "x" * 86, "$1$salt$" + "x" * 22, "$y$j9T$salt$" + "x" * 43, "$2b$10$" + "x" * 53, "$2y$99$" + "x" * 53,
    HASH + "\n", " " + HASH, "{{ vault }}", "x" * 13, "a" * 128,
]  # fmt: skip


def test_forms_of_a_hash():
    assert [text for text in GOOD if hash_problem(text)] == []
    for text in BAD:
        said = hash_problem(text)
        assert "openssl passwd -6" in said and (not text or text not in said), text


def test_yescrypt_is_named_since_mkpasswd_makes_it_unasked():
    assert "yescrypt" in hash_problem("$y$j9T$salt$" + "x" * 43)
    assert "must not be given here" in hash_problem("hunter2")


@pytest.mark.parametrize("text", GOOD[:3])
def test_a_request_is_known_by_method_rounds_and_salt(text):
    request = request_of(text)
    assert made_with(request, text)
    assert not made_with(request, OTHER_HASH) and not made_with(request[:40], text) and not made_with(request, "")
    method = text[:3]
    others = [text.replace(method, method + "rounds=4999$"), text.replace("salt", "SALT").replace("0123", "3210")]
    good = [other for other in others if other != text and hash_problem(other) == ""]
    assert good and not any(made_with(request, other) for other in good)


def test_a_request_with_a_blowfish_hash():
    """mokutil keeps all before the hash as its salt, with a zero behind it, and no rounds."""
    request = struct.pack("<HQH32s128s", 5, 0, 30, b"$2y$10$" + b"x" * 22, b"x" * 31)
    assert made_with(request, GOOD[3]) and not made_with(request, "$2y$11$" + "x" * 53)


def test_the_module_refuses_a_hash_and_does_not_repeat_it(run_module: Callable[..., dict]) -> None:
    paths = {"certificate": "/var/lib/dkms/mok.pub", "private_key": "/var/lib/dkms/mok.key"}
    for check in (False, True):
        answer = run_module("module_signing_key", {**paths, "password_hash": "hunter2 in clear"}, check=check)
        assert answer["failed"] and "openssl passwd -6" in answer["msg"]
        assert "hunter2" not in json.dumps(answer)


def test_the_module_in_check_mode_says_what_it_would_do(run_module: Callable[..., dict], tmp_path: Path) -> None:
    paths = {"certificate": str(tmp_path / "mok.pub"), "private_key": str(tmp_path / "mok.key")}
    answer = run_module("module_signing_key", {**paths, "password_hash": HASH}, check=True)
    assert answer["state"] == "staged" and answer["changed"] is True and len(answer["dialogue"]) == 6
    assert HASH not in json.dumps(answer) and not (tmp_path / "mok.key").exists()
