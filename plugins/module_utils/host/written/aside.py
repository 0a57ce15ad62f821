# SPDX-License-Identifier: Apache-2.0
"""A damaged state file that cannot be made again is set aside, under a name beside it, and another one begins.

Only whoever is about to write the file does so: readers, check mode and users other than root change nothing. What is
lost is said at once, however the rest ends. The first record, from which a node goes back, is never set aside: the next
run would take the node of today for that of before. The settings from before the tuning are, since their files are in
that record, too.
"""

import contextlib
import os
import time
from typing import List

from .owning import open_folder

MARK = ".damaged-"
# Damage that comes back would otherwise fill the disk.
MOST_KEPT = 3


def set_aside(path: str) -> str:
    """Rename the damaged file; its new path, with the UTC time in its name. OSError: then it is where it was."""
    with open_folder(os.path.dirname(path) or ".") as folder:
        name = os.path.basename(path)
        stem = name + MARK + time.strftime("%Y-%m-%dT%H%M%SZ", time.gmtime())
        there = set(os.listdir(folder))
        # Two within a second.
        new = next(one for one in [stem] + [f"{stem}-{number}" for number in range(2, 100)] if one not in there)
        os.rename(name, new, src_dir_fd=folder, dst_dir_fd=folder)
        os.fsync(folder)
        for old in sorted(one for one in there if one.startswith(name + MARK))[: 1 - MOST_KEPT]:
            # Of a folder in its place, nothing is removed.
            with contextlib.suppress(OSError):
                os.unlink(old, dir_fd=folder)
    return os.path.join(os.path.dirname(path), new)


def set_aside_before(path: str) -> List[str]:
    """Names of the damaged files beside `path`, the oldest first."""
    try:
        return sorted(
            one for one in os.listdir(os.path.dirname(path) or ".") if one.startswith(os.path.basename(path) + MARK)
        )
    except OSError:
        return []


def begin_anew(path: str, why: object, lost: str, may_write: bool = True) -> str:
    """Set the file aside, where the caller may write it; what happened and what is lost, as a sentence. OSError.

    why    the error of its reader, with the file and the place in it      lost   as in "which hosts are done"
    """
    kept = os.path.basename(set_aside(path)) if may_write else ""
    done = f"It was set aside as {kept}" if kept else "It would be set aside"
    return f"{why}. {done}, and what it said is lost: {lost}"
