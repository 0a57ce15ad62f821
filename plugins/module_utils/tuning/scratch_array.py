# SPDX-License-Identifier: Apache-2.0
"""A scratch file system over several empty NVMe disks: a RAID 0 of them, or the one disk alone.

Each disk is judged as a single one is, and none is touched before all of them have passed. The UUIDs of array and file
system are made from the serial numbers, so that a later run knows its own work, also a half of it.
"""

from typing import Any, List, Sequence, Tuple

from ..host.bounded import run_bounded
from ..host.files import names_in
from . import scratch
from .disk import device_file
from .scratch import COMMAND_SECONDS, Refused

NAME = "gpuwright_scratch"
MEMBER = "linux_raid_member"


def prepare(root: str, serials: Sequence[str], only_look: bool) -> Tuple[bool, List[str], str]:
    """`(changed, disks, uuid)` of the file system on the disks with these serial numbers; Refused or OSError if none.

    only_look  checks and refuses as usual, and changes nothing
    """
    key = ",".join(sorted(serials))
    if len(set(serials)) != len(serials):
        raise Refused(f"a serial number is given twice: {', '.join(serials)}")
    disks = [scratch.find_disk(root, serial) for serial in serials]
    if len(disks) == 1:
        changed = not scratch.is_ours(root, disks[0], key)
        if changed:
            scratch.refuse_unless_empty(root, disks[0], key)
        if changed and not only_look:
            scratch.format_disk(root, disks[0], key)
        return changed, disks, scratch.uuid_for(key)
    ours = [disk for disk in disks if _is_member(root, disk, key)]
    if ours and len(ours) < len(disks):
        others = ", ".join(disk for disk in disks if disk not in ours)
        text = "{} is part of the array of these serial numbers, and {} is not: its creation was cut short, or a disk "
        text += "changed. Nothing was touched. If nothing on them is needed: mdadm --stop, wipefs --all of each"
        raise Refused(text.format(", ".join(ours), others))
    if not ours:
        for index, disk in enumerate(disks):
            scratch.refuse_unless_empty(root, disk, serials[index])
        if only_look:
            return True, disks, scratch.uuid_for(key)
        _mdadm(_create(root, disks, key))
    array = _array_of(root, disks) or (_assembled(root, disks, key) if not only_look else "")
    if not array:
        return True, disks, scratch.uuid_for(key)
    changed = not scratch.is_ours(root, array, key)
    if changed:
        scratch.refuse_unless_empty(root, array, key)
        if not only_look:
            scratch.format_disk(root, array, key)
    return changed or not ours, disks, scratch.uuid_for(key)


def _is_member(root: str, disk: str, key: str) -> bool:
    known = scratch.probe(root, disk)
    return known.get("TYPE") == MEMBER and _plain(known.get("UUID", "")) == _plain(_array_uuid(key))


def _array_uuid(key: str) -> str:
    return scratch.uuid_for("array " + key)


def _plain(text: str) -> str:
    return text.replace(":", "").replace("-", "").lower()


def _create(root: str, disks: Sequence[str], key: str) -> List[str]:
    # homehost=any: udev assembles it at each boot, whatever the host is called and without a line in mdadm.conf.
    words = ["mdadm", "--create", f"/dev/md/{NAME}", "--run", "--level=0", "--metadata=1.2", "--homehost=any"]
    words += [f"--name={NAME}", f"--uuid={_array_uuid(key)}", f"--raid-devices={len(disks)}"]
    return words + [device_file(root, disk) for disk in disks]


def _assembled(root: str, disks: Sequence[str], key: str) -> str:
    """The array of these disks, which nothing has put together at this boot."""
    _mdadm(["mdadm", "--assemble", f"/dev/md/{NAME}", f"--uuid={_array_uuid(key)}"])
    array = _array_of(root, disks)
    if not array:
        raise OSError("mdadm succeeded, but no array is built on " + ", ".join(disks))
    return array


def _array_of(root: str, disks: Sequence[str]) -> str:
    """Name of the array that is built on all of these disks and on nothing else; "" for none, Refused for a mixture."""
    holders = [set(names_in(root, f"/sys/block/{disk}/holders")) for disk in disks]
    found = set.union(*holders)
    if len(found) > 1 or any(each != found for each in holders):
        raise Refused(f"{', '.join(disks)} are not all of one array: built on them are {', '.join(sorted(found))}")
    return found.pop() if found else ""


def _mdadm(words: List[str]) -> Any:
    done = run_bounded(words, COMMAND_SECONDS)
    if done.missing:
        raise Refused(
            "mdadm is not installed. Next: sudo dnf install mdadm (Debian, Ubuntu: sudo apt-get install mdadm)"
        )
    if done.rc != 0:
        raise OSError(f"{' '.join(words)}: {done.problem or done.stderr.strip() or done.rc}")
