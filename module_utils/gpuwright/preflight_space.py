# SPDX-License-Identifier: Apache-2.0
"""Whether the file systems of a node hold what a plan will put there."""

import os

from .hostfiles import below
from .problem import problem

# As dracut and update-initramfs call what they write.
INITRAMFS = ("initramfs-", "initrd.img-", "initrd-")
CPU_ENVIRONMENT_PARTS = 6


def largest_initramfs_mib(root="/"):
    """Size of the largest image in /boot, MiB rounded up; 0 where there is none or nobody can tell."""
    try:
        with os.scandir(below(root, "/boot")) as entries:
            sizes = [entry.stat().st_size for entry in entries if entry.name.startswith(INITRAMFS) and entry.is_file()]
    except OSError:
        return 0
    return -(-max(sizes or [0]) // (1024 * 1024))


def space_needed(plan, facts, wishes):
    """`[(what, folder, MiB, files)]` of what is not there yet."""
    space, has = wishes["space"], facts["has"]
    needs = []

    def add(what, folder, key, parts=1):
        row = space[key]
        needs.append((what, folder, row["mib"] // parts, row["files"] // parts))
        cache = "/tmp" if key == "environment" else "/var"
        needs.append(("download of " + what, cache, row["download_mib"] // parts, 0))

    if not plan["driver"]["present"]:
        add("driver", "/usr", "driver")
        # A new image is written beside the old one, kernel by kernel, because nouveau must not be in it any more.
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
    return needs


def space_problems(facts, needs, percent):
    """File systems that are too small for the sum of what goes there, `percent` of the estimate."""
    found = []
    known = [(need, facts["filesystems"].get(need[1])) for need in needs]
    # What cannot be read is not taken for enough; /tmp or /opt that is missing would be made below /.
    unreadable = sorted({need[1] for need, system in known if system is None})
    for folder in unreadable:
        found.append(
            problem(
                "The free space of {} cannot be read".format(folder),
                "statvfs failed",
                "Look at `df {}`.".format(folder),
            )
        )
    for device in sorted({system["device"] for _need, system in known if system}):
        here = [(need, system) for need, system in known if system and system["device"] == device]
        mib = sum(need[2] for need, _system in here) * percent // 100
        files = sum(need[3] for need, _system in here) * percent // 100
        system = here[0][1]
        folders = ", ".join(sorted({need[1] for need, _system in here}))
        parts = ", ".join("{} {} MiB".format(need[0], need[2]) for need, _system in here if need[2])
        step = "Free space there (`df -h`, `dnf clean packages`); preflight_space_percent scales the estimate."
        if system["free_mib"] < mib:
            text = "The file system of {} has {} MiB free and about {} MiB are needed".format(
                folders, system["free_mib"], mib
            )
            found.append(problem(text, parts, step))
        if system["free_inodes"] is not None and system["free_inodes"] < files:
            text = "The file system of {} has {} inodes free and about {} are needed"
            found.append(
                problem(
                    text.format(folders, system["free_inodes"], files), "df -i", "Remove small files there (`df -i`)."
                )
            )
    return found
