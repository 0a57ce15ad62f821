"""Secure Boot for real: MokManager shows what gpuwright stages, and after that the kernel takes the module.

Real are firmware, shim, MokManager, grub, kernel, mokutil, openssl and the signature. The key, the request, the words
of the dialogue and the reading of the state are the product's. One emulated machine, from its first boot on.
"""

from __future__ import annotations

import base64
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from gpuwright_vm.paths import REPOSITORY
from gpuwright_vm.secure import DOWN, ENTER, SecureMachine

sys.path.insert(0, str(REPOSITORY / "tests/node_library"))
from gpuwright.host.bounded import Finished, run_bounded
from gpuwright.host.secure_boot.efi_variables import read_state
from gpuwright.host.secure_boot.module_key import DKMS_PLACE, KeyPlace, read_module_key
from gpuwright.host.secure_boot.mok_request import DIALOGUE, Outcome, prepare
from gpuwright.probe.module_signature import read_kernel_keys

PLACE = KeyPlace(*DKMS_PLACE)
PASSWORD = "enrol-this-42"
SHIM = "605dab50-e046-4300-abb6-3dd810dd8b23"
EFIVARS = "sys/firmware/efi/efivars"
BOOT_ID = "proc/sys/kernel/random/boot_id"


def hash_of(password: str) -> str:
    command = ["openssl", "passwd", "-6", "-stdin"]
    return subprocess.run(command, input=password, check=True, capture_output=True, text=True).stdout.strip()


class Node:
    """The files that the machine's system has, on the controller: what the kernel showed is put there after a boot."""

    def __init__(self, folder: Path) -> None:
        self.root = folder / "root"
        (self.root / "run").mkdir(parents=True)
        self.machine = SecureMachine(folder)
        self.boots = 0

    def put(self, path: str, content: bytes) -> None:
        file = self.root / path.lstrip("/")
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(content)

    def path(self, path: str) -> Path:
        return self.root / path.lstrip("/")

    def mokutil(self, command: list[str], timeout: float) -> Finished:
        """Debian's mokutil, told where the variables are; it writes what it would write to the firmware."""
        if command[0] != "mokutil":
            return run_bounded(command, timeout)
        parts = self.machine.parts
        places = {"EFIVARFS_PATH": f"{self.root}/{EFIVARS}/", "LD_LIBRARY_PATH": f"{parts}/usr/lib/x86_64-linux-gnu"}
        environment = {**os.environ, **places}
        return run_bounded([str(parts / "usr/bin/mokutil"), *command[1:]], timeout, environment=environment)

    def prepare(self) -> Outcome:
        """What the role does, and the variables that it wrote in the machine's flash."""
        found = prepare(str(self.root), PLACE, HASH, run=self.mokutil)
        for name in ("MokNew", "MokAuth"):
            self.machine.flash.add(name, self.path(f"{EFIVARS}/{name}-{SHIM}").read_bytes()[4:])
        return found

    def forget_variables(self) -> None:
        for file in self.path(EFIVARS).glob("*"):
            file.unlink()

    def system(self) -> bool:
        """From grub to the end of the system, whose files are then the node's; whether it took the module."""
        shown = self.machine.wait_for("THE END")
        self.machine.wait_off()
        self.boots += 1
        self.forget_variables()
        self.put(BOOT_ID, f"boot {self.boots}\n".encode())
        for path, content in re.findall(r"FILE (\S+) (\S*) END", re.sub(r"[\r\n]", "", shown)):
            self.put(path, base64.b64decode(content))
        assert "MODULE taken" in shown or "MODULE refused" in shown, shown[-2000:]
        return "MODULE taken" in shown

    @property
    def key_state(self) -> str:
        return read_module_key(str(self.root), "debian", "6.1")["state"]


HASH = hash_of(PASSWORD)


@pytest.fixture(scope="module")
def node(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Node]:
    """After a first boot with a module of a key that nobody has enrolled."""
    made = Node(tmp_path_factory.mktemp("secure"))
    # The variables of a boot with Secure Boot, until the first has shown the real ones.
    for name in ("SecureBoot", "SetupMode"):
        made.put(f"{EFIVARS}/{name}-8be4df61-93ca-11d2-aa0d-00e098032b8c", b"\6\0\0\0" + bytes([name == "SecureBoot"]))
    prepare(str(made.root), PLACE, HASH, run=made.mokutil)
    made.machine.put_module(made.path(PLACE.private_key), made.path(PLACE.certificate))
    made.machine.boot()
    made.taken = made.system()  # type: ignore[attr-defined]
    yield made
    made.machine.stop()


def test_a_module_of_a_key_that_is_not_enrolled_is_refused(node: Node) -> None:
    assert node.taken is False  # type: ignore[attr-defined]
    assert read_state(str(node.root)) == {"state": "enabled", "because": ""}
    assert node.key_state == "not_enrolled"
    assert any("Debian" in key["name"] for key in read_kernel_keys(str(node.root)))


def test_a_request_that_nobody_confirms_is_gone(node: Node) -> None:
    assert node.prepare().state == "staged"
    assert node.key_state == "staged" and "MokNew" in node.machine.flash.variables()
    node.machine.boot()
    node.machine.wait_for("Press any key to perform MOK management")
    assert node.system() is False
    assert "MokNew" not in node.machine.flash.variables()
    assert node.key_state == "not_enrolled"


def test_the_dialogue_is_shown_word_for_word(node: Node) -> None:
    found = node.prepare()
    assert found.state == "staged" and "was not confirmed" in found.remarks[0]
    words = [line.split(":")[0] for line in DIALOGUE]
    console = node.machine
    console.boot()
    console.wait_for(words[0])
    console.press(" ")
    console.wait_for(words[1])
    assert console.wait_for("Enroll MOK").count("\n") >= 0
    console.press(DOWN, ENTER)
    console.wait_for(words[2])
    console.wait_for("View key 0")
    console.press(ENTER)
    shown = " ".join(console.wait_for("[Fingerprint]").split())
    assert "DKMS module signing key" in shown
    digits = subprocess.run(
        ["openssl", "x509", "-inform", "DER", "-in", node.path(PLACE.certificate), "-noout", "-fingerprint", "-sha1"],
        check=True, capture_output=True, text=True,
    ).stdout.split("=")[1].strip().split(":")  # fmt: skip
    console.wait_for(" ".join(digits[:10]))
    console.press(ENTER)
    console.wait_for("Continue")
    console.press(DOWN, ENTER)
    console.wait_for(words[3])
    console.press(DOWN, ENTER)
    console.wait_for(words[4])
    console.press(*PASSWORD, ENTER)
    console.wait_for("Perform MOK management")
    console.wait_for("Reboot")
    console.press(ENTER)
    console.wait_off()
    assert node.path(PLACE.certificate).read_bytes() in console.flash.variables()["MokList"]


def test_the_kernel_takes_the_module_of_the_confirmed_key(node: Node) -> None:
    node.machine.boot()
    assert node.system() is True
    assert node.key_state == "enrolled"
    assert prepare(str(node.root), PLACE, HASH, run=node.mokutil) == Outcome("enrolled", False, [], [])
