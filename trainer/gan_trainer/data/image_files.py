# SPDX-License-Identifier: Apache-2.0
"""The image files of a folder: found at any depth, and counted if they are left out."""

from __future__ import annotations

import os
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path

# Formats that Pillow always decodes.
SUFFIXES = (".jpg", ".jpeg", ".jfif", ".png", ".webp", ".bmp", ".gif", ".tif", ".tiff", ".ppm", ".pgm")


@dataclass
class Listing:
    """The files of a folder; `left_out` counts files that are not images here, by suffix or reason."""

    files: list[Path] = field(default_factory=list)
    left_out: Counter[str] = field(default_factory=Counter)
    links: int = 0


def list_images(folder: Path) -> Listing:
    """All images at any depth, in the order of their paths. Links to folders are followed, each folder once."""
    listing, seen, open_folders = Listing(), set(), [folder]
    while open_folders:
        current = open_folders.pop()
        try:
            status = current.stat()
            entries = list(os.scandir(current)) if (status.st_dev, status.st_ino) not in seen else []
        except OSError as error:
            listing.left_out[f"folder that cannot be read ({error.strerror})"] += 1
            continue
        seen.add((status.st_dev, status.st_ino))
        for entry in entries:
            path = Path(entry.path)
            if entry.is_dir():
                listing.links += entry.is_symlink()
                open_folders.append(path)
            elif not entry.is_file():
                listing.left_out["broken link" if entry.is_symlink() else "special file"] += 1
            elif entry.name.startswith("."):
                # macOS leaves ._NAME.jpg beside each image on foreign file systems.
                listing.left_out["hidden file"] += 1
            elif path.suffix.lower() in SUFFIXES:
                listing.files.append(path)
            else:
                listing.left_out[path.suffix.lower() or "without a suffix"] += 1
    listing.files.sort()
    return listing


def read_at(file: int, length: int, start: int) -> bytes:
    """`length` bytes of an open file from `start` on, fewer only where it ends.

    A network file system may give a part at a time.
    """
    found = os.pread(file, length, start)
    while found and len(found) < length:
        more = os.pread(file, length - len(found), start + len(found))
        if not more:
            break
        found += more
    return found
