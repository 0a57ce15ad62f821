# SPDX-License-Identifier: Apache-2.0
"""The training data, reported before training starts: images found, used and left out, their sizes and modes."""

from __future__ import annotations

import hashlib
import statistics
from collections import Counter
from dataclasses import asdict
from pathlib import Path
from typing import Any, Iterable, NamedTuple

from PIL import Image

from ..config import Config, ConfigError, make_config
from ..own import is_own
from .colours import transform_of
from .image_files import SUFFIXES
from .images import FolderImages, LabelledImages, OwnImages, folders_of
from .pixels import ALPHA, ORIENTATION, UNREADABLE

# Images whose header is read, spread evenly over all: enough to find a rare kind, in a second on a network file system.
LOOKED_AT = 500
KINDS_NAMED = 5
# Images below which augmentation is worth a try (models/augment.py).
FEW = 10_000
# Folders of one set that was divided.
PARTS = {"train", "training", "val", "valid", "validation", "test", "testing"}


class Census(NamedTuple):
    """What `data` contains.

    lines    for people
    content  what a resumed run compares (runs/drift.py), in plain values: the number of `images` or shards, a digest of
             their list (`files`) and how many images each of the `classes` has, where these are known
    """

    lines: list[str]
    content: dict[str, Any]


def describe(config: Config) -> list[str]:
    """What `data` contains, one line each; DataError if there is nothing to train on."""
    return take(config).lines


def take(config: Config) -> Census:
    """Look at the data; DataError if there is nothing to train on."""
    if config.data == "synthetic":
        line = (
            f"data: synthetic, {config.synthetic_images} made-up discs that test the machine and teach nothing; "
            "for your own pictures set data to a folder of images"
        )
        return Census([line], {})
    if is_own(config.data):
        count = len(OwnImages(config))
        return Census([f"data: {count} images from {config.data}"], {"images": count})
    if config.data.endswith(".tar"):
        # Imported here, since no other kind of data needs this library.
        from .shards import list_shards

        shards = list_shards(config.data)
        local = [Path(name) for name in shards if "://" not in name]
        size = sum(path.stat().st_size for path in local) / 1e9
        line = f"data: {len(shards)} tar shards" + (f", {size:.2f} GB" if len(local) == len(shards) else "")
        # A local shard that was written anew has another size.
        sizes = {name: Path(name).stat().st_size for name in map(str, local)}
        listed = (f"{Path(name).name} {sizes.get(name, '')}" for name in shards)
        return Census([line], {"images": None, "shards": len(shards), "files": digest(listed)})
    given = (config.data, config.image_size, config.max_bad_images, config.background)
    images = LabelledImages(*given, config.classes) if config.classes else FolderImages(*given)
    listing, classes = images.listing, []
    content: dict[str, Any] = {"images": len(images)}
    content["files"] = digest(path.relative_to(config.data).as_posix() for path in listing.files)
    if isinstance(images, LabelledImages):
        classes = ["data: classes: " + ", ".join(f"{number} {name}" for number, name in enumerate(images.names))]
        counts = Counter(images.labels)
        content["classes"] = {name: counts[number] for number, name in enumerate(images.names)}
    kinds = counted(Counter(path.suffix.lower()[1:] for path in listing.files))
    followed = f", {listing.links} linked folder(s) followed" if listing.links else ""
    lines = [f"data: {len(listing.files)} images in {config.data} ({kinds}){followed}"]
    if listing.left_out:
        lines.append(f"data: left out: {counted(listing.left_out)}; images end in {', '.join(SUFFIXES)}")
    lines += (classes or one_kind(listing.files, config)) + few(len(listing.files), config)
    return Census(lines + look(listing.files, config), content)


def few(count: int, config: Config) -> list[str]:
    """A line where a discriminator soon knows all images by heart, and nothing is done about it."""
    if count >= FEW or config.task != "gan" or config.augment != "none":
        return []
    return [f"data: {count} images are few: augment=ada keeps the discriminator from knowing them by heart"]


def one_kind(files: list[Path], config: Config) -> list[str]:
    """A line where all images are in several folders, which are trained as one kind."""
    kinds, loose = folders_of(files, Path(config.data))
    count = len(set(kinds))
    if loose or count < 2:
        return []
    line = f"data: {count} folders found in {config.data}; they are trained as one kind"
    without = ", without cache_dir," if config.cache_dir else ""
    try:
        make_config({**asdict(config), "classes": count, "cache_dir": ""})
    except ConfigError:
        return [line]
    divided = {kind.lower() for kind in kinds} <= PARTS
    return [line if divided else f"{line}; classes={count}{without} learns them apart"]


def digest(names: Iterable[str]) -> str:
    """Of a list, in its order. A name may have bytes that are no text."""
    found = hashlib.sha256()
    for name in names:
        found.update(name.encode("utf-8", "surrogateescape") + b"\0")
    return found.hexdigest()


def look(files: list[Path], config: Config) -> list[str]:
    """Sizes and modes from the headers of some of the images, one line; the loader deals with unreadable ones."""
    step = max(1, len(files) // LOOKED_AT)
    sizes: list[tuple[int, int]] = []
    modes: Counter[str] = Counter()
    remarks: Counter[str] = Counter()
    for path in files[::step]:
        try:
            with Image.open(path) as image:
                sizes.append(image.size)
                modes[image.mode] += 1
                if image.mode in ALPHA or "transparency" in image.info:
                    remarks[f"with transparency, laid on {config.background}"] += 1
                if image.mode.startswith("I;16"):
                    remarks["of 16 bits, scaled to 8"] += 1
                if transform_of(bytes(image.info.get("icc_profile") or b"")):
                    remarks["with a colour profile of their own, shown in sRGB"] += 1
                if getattr(image, "n_frames", 1) > 1:
                    remarks["of several pictures, the first is used"] += 1
                if "exif" in image.info and image.getexif().get(ORIENTATION, 1) != 1:
                    remarks["turned upright"] += 1
                if min(image.size) < config.image_size:
                    remarks[f"smaller than image_size {config.image_size}, scaled up"] += 1
        except UNREADABLE:
            remarks["unreadable"] += 1
    if not sizes:
        return []
    small, large = min(sizes, key=min), max(sizes, key=min)
    middle = int(statistics.median(min(size) for size in sizes))
    found = f"{small[0]}x{small[1]} to {large[0]}x{large[1]}, short edge {middle} in the middle; {counted(modes)}"
    more = "".join(f"; {number} {what}" for what, number in remarks.most_common())
    return [f"data: of {len(files[::step])} looked at: {found}{more}"]


def counted(counts: Counter[str]) -> str:
    """Such as "546 png, 60 bmp and 3 more kinds (12)"; the most frequent first."""
    rows = counts.most_common()
    named = ", ".join(f"{number} {name}" for name, number in rows[:KINDS_NAMED])
    rest = rows[KINDS_NAMED:]
    return named + (f" and {len(rest)} more kinds ({sum(number for _, number in rest)})" if rest else "")
