# SPDX-License-Identifier: Apache-2.0
"""Whether the file systems of a node are writable and have room for what a plan will put there."""

import os
from typing import Any, Iterable, List, Mapping

from ..host.files import below
from .problem import (
    Problem,
    problem,
)

# Folders that the roles write into; a driver's images go to /boot, an environment's download to /tmp.
WRITTEN = ("/etc", "/usr", "/usr/local", "/var", "/opt")
FOLDERS = WRITTEN + ("/tmp", "/boot")
# Names of the images that dracut and update-initramfs write.
INITRAMFS = ("initramfs-", "initrd.img-", "initrd-")
# Without CUDA's libraries, which are large and few: a sixth of the MiB, and as many files.
CPU_ENVIRONMENT_PARTS = 6
CLEAN = {"redhat": "sudo dnf clean packages", "debian": "sudo apt-get clean"}


def read_filesystem(root: str, folder: str) -> Any:
    """`{device, free_mib, free_inodes, read_only}` of the file system that a folder is on, None if unknown.

    `free_inodes` is None if the file system has no fixed number.
    """
    try:
        path = below(root, folder)
        status, device = os.statvfs(path), os.stat(path).st_dev
    except OSError:
        return None
    mib = status.f_bavail * status.f_frsize // (1024 * 1024)
    free_inodes = status.f_favail if status.f_files else None
    return {
        "device": device,
        "free_mib": mib,
        "free_inodes": free_inodes,
        "read_only": bool(status.f_flag & os.ST_RDONLY),
    }


def largest_initramfs_mib(root: str = "/") -> int:
    """Size of the largest image in /boot, MiB rounded up; 0 if there is none or it cannot be read."""
    try:
        with os.scandir(below(root, "/boot")) as entries:
            sizes = [entry.stat().st_size for entry in entries if entry.name.startswith(INITRAMFS) and entry.is_file()]
    except OSError:
        return 0
    return -(-max(sizes or [0]) // (1024 * 1024))


def space_needed(plan: Mapping[str, Any], facts: Mapping[str, Any], wishes: Mapping[str, Any]) -> List[Any]:
    """`[(what, folder, MiB, files)]` for what is not installed yet."""
    space, has = wishes["space"], facts["has"]
    needs = []

    def add(what: str, folder: str, key: str, parts: int = 1) -> None:
        row = space[key]
        needs.append((what, folder, row["mib"] // parts, row["files"]))
        cache = "/tmp" if folder == "/opt" else "/var"
        needs.append(("download of " + what, cache, row["download_mib"] // parts, 0))

    if not plan["driver"]["present"]:
        add("driver", "/usr", "driver")
        # A new image is written beside the old one, kernel by kernel, because it must no longer contain nouveau.
        needs.append(("initramfs", "/boot", facts["initramfs_mib"] or space["boot"]["mib"], 1))
        if wishes["allow_kernel_update"]:
            add("kernel", "/boot", "boot")
    if plan["cuda"]["version"] and not has["cuda"]:
        add("CUDA toolkit", "/usr/local", "cuda")
    if plan["cudnn"]["version"] and not has["cudnn"]:
        add("cuDNN", "/usr", "cudnn")
    if not has["environment"]:
        add(
            "Python environment",
            "/opt",
            "environment",
            1 if plan["pytorch"]["build"] != "cpu" else CPU_ENVIRONMENT_PARTS,
        )
        if plan["tensorflow"]["version"]:
            add("TensorFlow", "/opt", "tensorflow")
    return needs


def read_only_folders(facts: Mapping[str, Any], others: Iterable[str] = ()) -> List[str]:
    """Those folders that the roles always write into, and of `others`, whose file system is read-only."""
    systems = facts["filesystems"]
    return sorted(name for name in {*WRITTEN, *others} if systems.get(name) and systems[name]["read_only"])


def read_only_problems(facts: Mapping[str, Any], needs: Iterable[Any]) -> List[Problem]:
    """File systems that accept no new file: mounted read-only, or made so by the kernel after an error."""
    closed = read_only_folders(facts, {need[1] for need in needs})
    if not closed:
        return []
    step = (
        "Find out why (`sudo dmesg | grep -iE 'remount|I/O error'`, `findmnt -T {}`): after a disk error, repair the "
        "disk "
        "first; otherwise `sudo mount -o remount,rw` what is mounted there, and fix /etc/fstab."
    )
    text = f"The file system of {', '.join(closed)} is mounted read-only"
    return [problem("space.read_only", text, "mount option ro", step.format(closed[0]))]


def space_problems(
    facts: Mapping[str, Any], needs: Iterable[Any], percent: float, family: str = "redhat"
) -> List[Problem]:
    """File systems that are too small for all that will be put there, `percent` of the estimate."""
    found = []
    known = [(need, facts["filesystems"].get(need[1])) for need in needs]
    # Space that cannot be read does not count as enough; a missing /tmp or /opt would be created below /.
    unreadable = sorted({need[1] for need, system in known if system is None})
    for folder in unreadable:
        found.append(
            problem(
                "space.unreadable",
                f"The free space of {folder} cannot be read",
                "statvfs failed",
                f"Look at `df {folder}`.",
            )
        )
    for device in sorted({system["device"] for _need, system in known if system}):
        here = [(need, system) for need, system in known if system and system["device"] == device]
        mib = sum(need[2] for need, _system in here) * percent // 100
        files = sum(need[3] for need, _system in here) * percent // 100
        system = here[0][1]
        folders = ", ".join(sorted({need[1] for need, _system in here}))
        parts = ", ".join(f"{need[0]} {need[2]} MiB" for need, _system in here if need[2])
        step = "On the node: `{}`, or free space that `df -h` shows; preflight_space_percent scales the estimate."
        if system["free_mib"] < mib:
            text = f"The file system of {folders} has {system['free_mib']} MiB free, but about {mib} MiB are needed"
            found.append(problem("space.free", text, parts, step.format(CLEAN[family])))
        if system["free_inodes"] is not None and system["free_inodes"] < files:
            text = "The file system of {} has {} inodes free, but about {} are needed"
            found.append(
                problem(
                    "space.inodes",
                    text.format(folders, system["free_inodes"], files),
                    "df -i",
                    "Remove small files there (`df -i`).",
                )
            )
    return found
