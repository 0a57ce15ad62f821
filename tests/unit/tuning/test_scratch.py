"""The scratch disk: every way in which a disk can hold something is a refusal, with the real wipefs and blkid."""

from __future__ import annotations

import errno
import os
import random
import shutil
import subprocess
import uuid
from collections.abc import Callable
from pathlib import Path

import pytest
from gpuwright.tuning import scratch
from gpuwright.tuning.scratch import Refused
from host_tree import HostTree

SERIAL = "S4J0NX0R123456"
MIB = 1024 * 1024
SIZE = 300 * MIB
ROWS = random.Random(1).randbytes(8 * MIB)
DISK = "/sys/block/nvme1n1"
# As mkfs.xfs is called; the file system is another where there is no xfsprogs, with the same UUID.
MKFS = """#!/bin/sh
echo "$*" >> {calls}
for argument; do case "$argument" in uuid=*) uuid=${{argument#uuid=}} ;; esac; device=$argument; done
exec {mkfs} -q -F -U "$uuid" "$device"
"""

pytestmark = pytest.mark.skipif(
    not all(shutil.which(name, path="/usr/sbin:/sbin:/usr/bin:/bin") for name in ("wipefs", "blkid", "mkfs.ext4")),
    reason="this machine has no wipefs, blkid or mkfs.ext4",
)


class Host(HostTree):
    """A host with a second disk, its programs, and what mkfs was called with."""

    def __init__(self, folder: Path, fake_bin: Callable[[str, str], Path]) -> None:
        super().__init__(folder / "node")
        self.calls, self.fake_bin = folder / "calls", fake_bin


@pytest.fixture
def host(tmp_path, fake_bin, monkeypatch):
    host = Host(tmp_path, fake_bin)
    host.put("/dev/nvme1n1")
    os.truncate(device(host), SIZE)
    for path, text in {
        DISK + "/device/serial": SERIAL + "      \n",
        DISK + "/dev": "259:5\n",
        DISK + "/ro": "0\n",
        "/sys/block/nvme0n1/device/serial": "S1SYSTEM\n",
        "/sys/block/sda/device/serial": SERIAL + "\n",
        "/proc/self/mountinfo": "22 1 259:2 / / rw - xfs /dev/nvme0n1p2 rw\n",
        "/proc/swaps": "Filename Type Size Used Priority\n/dev/nvme0n1p3 partition 1 0 -2\n",
    }.items():
        host.put(path, text)
    (host.folder / (DISK + "/holders").lstrip("/")).mkdir()
    monkeypatch.setenv("PATH", f"{tmp_path / 'fake_bin'}:/usr/sbin:/usr/bin:/sbin:/bin")
    mkfs = shutil.which("mkfs.ext4", path="/usr/sbin:/sbin")
    fake_bin("mkfs.xfs", MKFS.format(calls=tmp_path / "calls", mkfs=mkfs))
    return host


def device(host: HostTree) -> Path:
    return host.folder / "dev/nvme1n1"


def put_bytes(host: HostTree, place: int, data: bytes) -> None:
    with device(host).open("r+b") as file:
        file.seek(place)
        file.write(data)


def content(host: HostTree) -> tuple[int, dict[int, bytes]] | None:
    """The device's size, and its bytes by MiB where they are not all zeros; what was never written is not read."""
    if not device(host).exists():
        return None
    found: dict[int, bytes] = {}
    with device(host).open("rb", buffering=0) as file:
        size, place = os.lseek(file.fileno(), 0, os.SEEK_END), 0
        while place < size:
            try:
                place = os.lseek(file.fileno(), place, os.SEEK_DATA) // MIB * MIB
            except OSError as error:
                assert error.errno == errno.ENXIO
                break
            data = os.pread(file.fileno(), MIB, place)
            if data.strip(b"\0"):
                found[place] = data
            place += MIB
    return size, found


def run(*command: object) -> None:
    subprocess.run([str(word) for word in command], check=True, capture_output=True)


def test_an_empty_disk_is_formatted_once_and_known_again(host):
    disk = scratch.find_disk(host.root, SERIAL)
    assert disk == "nvme1n1"
    assert scratch.evidence(host.root, disk) == []
    assert not scratch.is_ours(host.root, disk, SERIAL)
    scratch.format_disk(host.root, disk, SERIAL)
    assert scratch.is_ours(host.root, disk, SERIAL)
    assert not scratch.is_ours(host.root, disk, "another serial number")
    (call,) = host.calls.read_text().splitlines()
    assert "-f" not in call.split() and f"uuid={scratch.uuid_for(SERIAL)}" in call.split()


def test_a_disk_of_ones_is_empty_too(host):
    with device(host).open("r+b") as file:
        for _ in range(SIZE // MIB):
            file.write(b"\xff" * MIB)
    assert scratch.evidence(host.root, "nvme1n1") == []


def busy(host, monkeypatch):
    real = os.open

    def refuses(path, flags, *rest, **more):
        if str(path) == str(device(host)) and flags & os.O_EXCL:
            raise OSError(16, "Device or resource busy")
        return real(path, flags, *rest, **more)

    monkeypatch.setattr(os, "open", refuses)


def swap(host, monkeypatch):
    run("/sbin/mkswap", device(host))


def file_system(host, monkeypatch):
    run("/sbin/mkfs.ext4", "-q", "-F", device(host))


def partition_table(host, monkeypatch):
    # A table without partitions: a boot sector's signature alone.
    put_bytes(host, 510, b"\x55\xaa")


HOLDING = [
    ("a partition", lambda host, m: host.put(DISK + "/nvme1n1p1/partition", "1\n"), "the partition nvme1n1p1"),
    ("LVM or RAID", lambda host, m: host.put(DISK + "/holders/dm-3"), "dm-3 is built on it"),
    (
        "a mount",
        lambda host, m: host.put("/proc/self/mountinfo", "30 1 259:5 / /data rw - ext4 /dev/nvme1n1 rw\n"),
        "mounted on /data (ext4)",
    ),
    ("swap in use", lambda host, m: host.put("/proc/swaps", "/dev/nvme1n1 partition 1 0 -2\n"), "used for swap"),
    ("read-only", lambda host, m: host.put(DISK + "/ro", "1\n"), "does not say that it can be written"),
    ("nobody knows", lambda host, m: (host.folder / (DISK + "/ro").lstrip("/")).unlink(), "does not say"),
    ("swap signature", swap, "wipefs finds a signature"),
    ("a file system", file_system, "blkid finds ext4"),
    ("an empty partition table", partition_table, "wipefs finds a signature"),
    ("LVM signature", lambda host, m: put_bytes(host, 512, b"LABELONE" + b"\0" * 16 + b"LVM2 001"), "it holds data"),
    ("data at the beginning", lambda host, m: put_bytes(host, 4096, b"rows"), "near byte 0"),
    ("data at the end", lambda host, m: put_bytes(host, SIZE - 4, b"rows"), "it holds data"),
    (
        "data in the middle",
        lambda host, m: put_bytes(host, SIZE // 2, ROWS),
        "it holds data",
    ),
    ("in use by the kernel", busy, "the kernel has it in use"),
    ("too small", lambda host, m: os.truncate(device(host), 4096), "only 4096 bytes"),
    ("no device", lambda host, m: device(host).unlink(), "cannot"),
    ("wipefs fails", lambda host, m: host.fake_bin("wipefs", "#!/bin/sh\nexit 1\n"), "wipefs cannot tell"),
    ("no wipefs", lambda host, m: host.fake_bin("wipefs", "#!/bin/sh\nexit 127\n"), "wipefs cannot tell"),
    ("ambivalent", lambda host, m: host.fake_bin("blkid", "#!/bin/sh\nexit 8\n"), "blkid cannot tell"),
]


@pytest.mark.parametrize(("spoil", "words"), [row[1:] for row in HOLDING], ids=[row[0] for row in HOLDING])
def test_a_disk_that_holds_anything_is_refused_and_untouched(host, monkeypatch, spoil, words):
    spoil(host, monkeypatch)
    before = content(host)
    with pytest.raises(Refused) as refused:
        scratch.refuse_unless_empty(host.root, "nvme1n1", SERIAL)
    assert words in str(refused.value)
    assert not host.calls.exists()
    assert content(host) == before


def test_all_evidence_is_told_at_once(host, monkeypatch):
    host.put(DISK + "/nvme1n1p1/partition", "1\n")
    host.put(DISK + "/holders/md0")
    with pytest.raises(Refused) as refused:
        scratch.refuse_unless_empty(host.root, "nvme1n1", SERIAL)
    for words in ("nvme1n1p1", "md0 is built on it", "It was not touched", "lsblk -f /dev/nvme1n1", SERIAL):
        assert words in str(refused.value)


def test_an_unknown_serial_number_names_those_that_are_there(host):
    with pytest.raises(
        Refused, match="no NVMe disk has the serial number X1; there are: nvme0n1 S1SYSTEM, nvme1n1 S4J"
    ):
        scratch.find_disk(host.root, "X1")


def test_two_disks_of_one_serial_number_are_refused(host):
    host.put("/sys/block/nvme1n2/device/serial", SERIAL + "\n")
    with pytest.raises(Refused, match="2 disks have the serial number"):
        scratch.find_disk(host.root, SERIAL)


def test_a_formatting_that_did_nothing_is_no_success(host):
    host.fake_bin("mkfs.xfs", "#!/bin/sh\nexit 0\n")
    with pytest.raises(OSError, match="does not hold its file system"):
        scratch.format_disk(host.root, "nvme1n1", SERIAL)


def test_a_formatting_that_fails_says_why(host):
    host.fake_bin("mkfs.xfs", "#!/bin/sh\necho 'no space' >&2\nexit 1\n")
    with pytest.raises(OSError, match="no space"):
        scratch.format_disk(host.root, "nvme1n1", SERIAL)


def test_the_module_refuses_in_check_mode_too(run_module):
    for check in (True, False):
        answer = run_module("scratch_disk", {"serial": "NO-SUCH-DISK"}, check=check)
        assert answer["failed"] is True and "no NVMe disk has the serial number NO-SUCH-DISK" in answer["msg"]
    assert "serial is empty" in run_module("scratch_disk", {"serial": " "})["msg"]


def test_a_serial_number_has_one_uuid() -> None:
    told = [uuid.UUID(scratch.uuid_for(serial)) for serial in (SERIAL, SERIAL + "x", "Größe", "")]
    assert len(set(told)) == 4 and told[0] == uuid.UUID(scratch.uuid_for(SERIAL))
    assert {one.variant for one in told} == {uuid.RFC_4122} and {one.bytes[6] >> 4 for one in told} == {8}
