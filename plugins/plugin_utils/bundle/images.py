# SPDX-License-Identifier: Apache-2.0
"""A container image in a bundle: a file as `podman save` or `docker save` writes it, which the operator names.

It is carried and signed; nodes do not get it by themselves, and nothing of it is unpacked here.
"""

from __future__ import annotations

import shutil
import tarfile
from pathlib import Path

from ansible_collections.gpuwright.node.plugins.module_utils.host.whole_file import sync_file, sync_folder

from .listing import BundleError, is_safe
from .making import MIB, Places, Say, check_room
from .verified import entry_of

FOLDER = "images"
# One of them is at the top of an archive, of Docker's form and of OCI's.
MARKS = ("manifest.json", "oci-layout")
MODE = 0o644


def carried_image(places: Places, file: str, say: Say, dry: bool) -> set[str]:
    """Put the image into the bundle, "" for none; returns its path there. BundleError, OSError."""
    if not file:
        return set()
    source = Path(file)
    check_image(source)
    path = f"{FOLDER}/{source.name}"
    target = places.bundle / path
    if not target.is_file() or entry_of(target) != entry_of(source):
        size = source.stat().st_size
        say(f"container image: {source.name}, {size / MIB:.0f} MiB to copy")
        if not dry:
            _copy(source, target, places, size)
    return {path}


def check_image(file: Path) -> None:
    """BundleError for what neither podman nor docker could load, such as a half of an archive."""
    try:
        with tarfile.open(file, "r:") as archive:
            # To its end, which tells whether it is whole; the data in between is skipped.
            names = {member.name.removeprefix("./") for member in archive}
        why = "" if names & set(MARKS) else f"neither {MARKS[0]} nor {MARKS[1]} is in it"
    except (OSError, tarfile.TarError, EOFError) as error:
        why = str(error)
    if not why and not is_safe(file.name):
        why = "its name may have letters, digits and ._-+ alone"
    if why:
        raise BundleError(
            "bundle.image",
            "bundle_container_image must be a file as `podman save` writes it, not compressed",
            f"{file}: {why}",
            "Write it again (podman save --format docker-archive --output FILE.tar IMAGE), and name its whole path",
        )


def _copy(source: Path, target: Path, places: Places, size: int) -> None:
    for folder in (target.parent, places.parts):
        folder.mkdir(parents=True, exist_ok=True)
    check_room(places.bundle, size)
    part = places.parts / f"{source.name}.part"
    shutil.copyfile(source, part)
    part.chmod(MODE)
    sync_file(str(part))
    part.rename(target)
    sync_folder(str(target))
