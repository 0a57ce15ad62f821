"""Scratch over several disks: all of them empty or none touched, one array, recognised later, and never half of one."""

from __future__ import annotations

import os
import shutil
from pathlib import Path
from typing import Any

import pytest
from gpuwright.tuning import scratch, scratch_array
from gpuwright.tuning.scratch import Refused
from host_tree import HostTree

MIB = 1024 * 1024
SERIALS = {"nvme1n1": "S-ONE", "nvme2n1": "S-TWO", "nvme3n1": "S-THREE"}
# mdadm as far as it is used: it marks each device as blkid sees a member, and builds the array on them. blkid is
# replaced for the members alone.
MDADM = """#!/bin/sh
echo "$*" >> {folder}/calls
for word; do case "$word" in --uuid=*) uuid=${{word#--uuid=}} ;; esac; done
if [ "$1" = --assemble ]; then set -- $(cd {folder}/members && grep -l "$uuid" *); else shift; fi
for word; do
    name=${{word##*/}}
    case "$word" in --* | /dev/md/*) continue ;; esac
    echo "$uuid" > {folder}/members/$name
    mkdir -p {root}/sys/block/$name/holders/md127
done
[ -e {root}/dev/md127 ] || truncate -s 300M {root}/dev/md127
"""
BLKID = """#!/bin/sh
for device; do :; done
member={folder}/members/${{device##*/}}
[ ! -s "$member" ] || {{ printf 'TYPE=linux_raid_member\\nUUID=%s\\n' "$(cat "$member")"; exit 0; }}
exec {blkid} "$@"
"""
MKFS = """#!/bin/sh
echo "mkfs $*" >> {folder}/calls
for word; do case "$word" in uuid=*) uuid=${{word#uuid=}} ;; esac; device=$word; done
exec {mkfs} -q -F -U "$uuid" "$device"
"""

pytestmark = pytest.mark.skipif(
    not all(shutil.which(name, path="/usr/sbin:/sbin:/usr/bin:/bin") for name in ("wipefs", "blkid", "mkfs.ext4")),
    reason="this machine has no wipefs, blkid or mkfs.ext4",
)


@pytest.fixture
def host(tmp_path: Path, fake_bin: Any, monkeypatch: pytest.MonkeyPatch) -> HostTree:
    host = HostTree(tmp_path / "node")
    (tmp_path / "members").mkdir()
    for number, (disk, serial) in enumerate(SERIALS.items()):
        host.put(f"/dev/{disk}")
        os.truncate(host.folder / "dev" / disk, 300 * MIB)
        for name, text in {"device/serial": serial + "   \n", "dev": f"259:{number}\n", "ro": "0\n"}.items():
            host.put(f"/sys/block/{disk}/{name}", text)
        (host.folder / f"sys/block/{disk}/holders").mkdir()
    host.put("/sys/block/md127/dev", "9:127\n")
    host.put("/sys/block/md127/ro", "0\n")
    host.put("/proc/self/mountinfo", "22 1 259:9 / / rw - xfs /dev/nvme0n1p2 rw\n")
    host.put("/proc/swaps", "Filename Type Size Used Priority\n")
    words = {"folder": tmp_path, "root": host.root}
    found = {name: shutil.which(name, path="/usr/sbin:/sbin:/usr/bin:/bin") for name in ("blkid", "mkfs.ext4")}
    fake_bin("mdadm", MDADM.format(**words))
    fake_bin("blkid", BLKID.format(**words, blkid=found["blkid"]))
    fake_bin("mkfs.xfs", MKFS.format(**words, mkfs=found["mkfs.ext4"]))
    monkeypatch.setenv("PATH", f"{tmp_path / 'fake_bin'}:/usr/sbin:/usr/bin:/sbin:/bin")
    return host


def calls(host: HostTree) -> list[str]:
    file = host.folder.parent / "calls"
    return file.read_text().splitlines() if file.exists() else []


ALL = list(SERIALS.values())


def test_several_empty_disks_become_one_file_system_once(host: HostTree) -> None:
    changed, disks, made = scratch_array.prepare(host.root, ALL, False)
    assert changed and disks == list(SERIALS) and made == scratch.uuid_for(",".join(sorted(ALL)))
    create, mkfs = calls(host)
    assert create.startswith("--create /dev/md/gpuwright_scratch --run --level=0") and "--raid-devices=3" in create
    assert "uuid=" + made in mkfs and mkfs.endswith("md127")
    # The order in which they are listed is not that of the array.
    assert scratch_array.prepare(host.root, ALL[::-1], False) == (False, list(SERIALS)[::-1], made)
    assert len(calls(host)) == 2


def test_check_mode_judges_all_of_them_and_changes_nothing(host: HostTree) -> None:
    assert scratch_array.prepare(host.root, ALL, True)[0] and calls(host) == []


@pytest.mark.parametrize("disk", SERIALS)
def test_one_disk_that_holds_anything_keeps_all_untouched(host: HostTree, disk: str) -> None:
    with (host.folder / "dev" / disk).open("r+b") as file:
        file.write(b"somebody's data")
    with pytest.raises(Refused, match=rf"{disk} \(serial number {SERIALS[disk]}\) is not empty"):
        scratch_array.prepare(host.root, ALL, False)
    assert calls(host) == []


def test_a_half_of_an_array_is_named_and_not_finished(host: HostTree) -> None:
    scratch_array.prepare(host.root, ALL, False)
    (host.folder.parent / "members/nvme2n1").unlink()
    with pytest.raises(Refused, match="nvme1n1, nvme3n1 is part of the array of these .*, and nvme2n1 is not"):
        scratch_array.prepare(host.root, ALL, False)
    assert len(calls(host)) == 2


def test_an_array_of_other_disks_is_somebodys_data(host: HostTree) -> None:
    scratch_array.prepare(host.root, ALL, False)
    with pytest.raises(Refused, match="is not empty: md127 is built on it"):
        scratch_array.prepare(host.root, ALL[:2], False)
    with pytest.raises(Refused, match="is not empty"):
        scratch_array.prepare(host.root, ALL[:1], False)


def test_a_run_that_was_killed_before_the_file_system_goes_on(host: HostTree, monkeypatch: pytest.MonkeyPatch) -> None:
    with monkeypatch.context() as killed:
        killed.setattr(scratch, "format_disk", lambda *_: (_ for _ in ()).throw(OSError("killed")))
        with pytest.raises(OSError, match="killed"):
            scratch_array.prepare(host.root, ALL, False)
    assert (
        scratch_array.prepare(host.root, ALL, False)[0]
        and [line for line in calls(host) if "--create" in line][1:] == []
    )
    assert not scratch_array.prepare(host.root, ALL, False)[0]


def test_an_array_that_nothing_has_assembled_is_assembled(host: HostTree) -> None:
    scratch_array.prepare(host.root, ALL, False)
    for disk in SERIALS:
        (host.folder / f"sys/block/{disk}/holders/md127").rmdir()
    assert not scratch_array.prepare(host.root, ALL, False)[0]
    assert calls(host)[-1].startswith("--assemble /dev/md/gpuwright_scratch --uuid=")


def test_a_serial_number_twice_and_no_mdadm_are_refused(host: HostTree) -> None:
    with pytest.raises(Refused, match="given twice"):
        scratch_array.prepare(host.root, ["S-ONE", "S-ONE"], False)
    (host.folder.parent / "fake_bin/mdadm").unlink()
    if shutil.which("mdadm", path="/usr/sbin:/sbin") is None:
        with pytest.raises(Refused, match="mdadm is not installed"):
            scratch_array.prepare(host.root, ALL, False)


def test_one_disk_is_what_it_was(host: HostTree) -> None:
    changed, disks, made = scratch_array.prepare(host.root, ["S-TWO"], False)
    assert changed and disks == ["nvme2n1"] and made == scratch.uuid_for("S-TWO")
    assert not scratch_array.prepare(host.root, ["S-TWO"], False)[0] and not any(
        "mdadm" in line for line in calls(host)
    )
