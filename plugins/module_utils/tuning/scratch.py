# SPDX-License-Identifier: Apache-2.0
"""A scratch file system on an empty NVMe disk, identified by its serial number. A disk with anything on it is refused.

The UUID of the file system is derived from the serial number, so that a later run recognises it.
"""

import errno
import hashlib
import os
import re
import uuid
from typing import Any

from ..host.bounded import run_bounded
from ..host.files import exists, names_in, read_text
from .disk import device_file, mount_table

NVME = re.compile(r"nvme[0-9]+n[0-9]+")
NAMESPACE = uuid.UUID("6f0e5a5e-3a55-5d0b-9c0e-6d1c7f0b8a51")
LABEL = "gpuw-scratch"
COMMAND_SECONDS = 60
FORMAT_SECONDS = 600
SAMPLE_BYTES = 1024 * 1024
SAMPLES = 64
# Exit status of blkid(8) if it finds nothing.
NOTHING_FOUND = 2


class Refused(Exception):
    """The disk will not be formatted; the message says why, with evidence."""


def uuid_for(serial: str) -> str:
    # Version 8 (RFC 9562) of SHA-256: version 5 is SHA-1, which FIPS 140-3 modules withdraw.
    digest = bytearray(hashlib.sha256(NAMESPACE.bytes + serial.encode("utf-8")).digest()[:16])
    digest[6], digest[8] = digest[6] & 0x0F | 0x80, digest[8] & 0x3F | 0x80
    return str(uuid.UUID(bytes=bytes(digest)))


def find_disk(root: str, serial: str) -> str:
    """Name of the one NVMe disk with this serial number."""
    serials = {}
    for name in names_in(root, "/sys/block"):
        if NVME.fullmatch(name):
            serials[name] = read_text(root, f"/sys/block/{name}/device/serial") or "unreadable"
    found = sorted(name for name, known in serials.items() if known == serial)
    if len(found) == 1:
        return found[0]
    there = ", ".join(f"{name} {known}" for name, known in sorted(serials.items())) or "none"
    if found:
        raise Refused(f"{len(found)} disks have the serial number {serial}: {', '.join(found)}")
    raise Refused(f"no NVMe disk has the serial number {serial}; there are: {there}")


def is_ours(root: str, disk: str, serial: str) -> bool:
    """Whether the disk carries the file system that an earlier run made."""
    return probe(root, disk).get("UUID") == uuid_for(serial)


def probe(root: str, disk: str) -> Any:
    """What blkid reads from the disk itself, {} for nothing; Refused if it cannot tell."""
    done = run_bounded(["blkid", "--probe", "--output", "export", device_file(root, disk)], COMMAND_SECONDS)
    if done.rc == NOTHING_FOUND and not done.stdout.strip():
        return {}
    if done.rc != 0:
        raise Refused(f"blkid cannot tell what {disk} holds: {done.problem or done.stderr.strip() or done.rc}")
    return dict(line.split("=", 1) for line in done.stdout.splitlines() if "=" in line)


def evidence(root: str, disk: str) -> Any:
    """Sentences about what the disk holds or who uses it; empty only for a disk that holds nothing."""
    folder = "/sys/block/" + disk
    found = []
    for name in names_in(root, folder):
        if exists(root, f"{folder}/{name}/partition"):
            found.append(f"it has the partition {name}")
    for holder in names_in(root, folder + "/holders"):
        found.append(f"{holder} is built on it (LVM, RAID or device mapper)")
    number = read_text(root, folder + "/dev")
    for point, device, kind in mount_table(root):
        if device == number:
            found.append(f"it is mounted on {point} ({kind})")
    if re.search(rf"^/dev/{re.escape(disk)}\b", read_text(root, "/proc/swaps") or "", re.MULTILINE):
        found.append("it is used for swap")
    if read_text(root, folder + "/ro") != "0":
        found.append("the kernel does not say that it can be written")
    return found + _signatures(root, disk) + _in_use_or_data(root, disk)


def _signatures(root: str, disk: str) -> Any:
    done = run_bounded(["wipefs", "--no-act", "--parsable", device_file(root, disk)], COMMAND_SECONDS)
    if done.rc != 0:
        return [f"wipefs cannot tell what it holds: {done.problem or done.stderr.strip() or done.rc}"]
    lines = [line for line in done.stdout.splitlines() if line.strip() and not line.startswith("#")]
    found = [f"wipefs finds a signature: {line}" for line in lines]
    known = probe(root, disk)
    kind = known.get("TYPE") or known.get("PTTYPE") or (known and "something")
    return found + ([f"blkid finds {kind}"] if kind else [])


def _in_use_or_data(root: str, disk: str) -> Any:
    """Open the disk exclusively, which works only if it is unused, and read samples: empty means all zeros or ones."""
    try:
        handle = os.open(device_file(root, disk), os.O_RDONLY | os.O_EXCL)
    except OSError as error:
        if error.errno == errno.EBUSY:
            return ["the kernel has it in use (mounted, LVM, RAID or ZFS)"]
        return [f"it cannot be opened: {error.strerror}"]
    try:
        size = os.lseek(handle, 0, os.SEEK_END)
        if size < SAMPLES * SAMPLE_BYTES:
            return [f"it has only {size} bytes"]
        for index in range(SAMPLES):
            place = (size - SAMPLE_BYTES) * index // (SAMPLES - 1)
            data = os.pread(handle, SAMPLE_BYTES, place)
            if len(data) != SAMPLE_BYTES:
                return [f"{SAMPLE_BYTES} bytes at {place} cannot be read"]
            if data.strip(b"\0") and data.strip(b"\xff"):
                return [f"it holds data without a signature, near byte {place}"]
    except OSError as error:
        return [f"it cannot be read: {error.strerror}"]
    finally:
        os.close(handle)
    return []


def refuse_unless_empty(root: str, disk: str, serial: str) -> None:
    found = evidence(root, disk)
    if found:
        text = "{} (serial number {}) is not empty: {}. It was not touched. See: lsblk -f /dev/{} ; wipefs -n /dev/{}"
        raise Refused(text.format(disk, serial, "; ".join(found), disk, disk))


def format_disk(root: str, disk: str, serial: str) -> None:
    """Run mkfs.xfs without -f, so that it once more looks for signatures itself. OSError if it fails."""
    command = ["mkfs.xfs", "-q", "-L", LABEL, "-m", "uuid=" + uuid_for(serial), device_file(root, disk)]
    done = run_bounded(command, FORMAT_SECONDS)
    if done.missing:
        raise Refused(
            "mkfs.xfs is not installed. Next: sudo dnf install xfsprogs (Debian, Ubuntu: sudo apt-get install xfsprogs)"
        )
    if done.rc != 0:
        raise OSError(f"{' '.join(command)}: {done.problem or done.stderr.strip() or done.rc}")
    if not is_ours(root, disk, serial):
        raise OSError(f"mkfs.xfs succeeded, but {disk} does not hold its file system")
