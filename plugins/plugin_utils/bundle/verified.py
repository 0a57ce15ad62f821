# SPDX-License-Identifier: Apache-2.0
"""Hold a bundle to its list before any host is contacted: signature, dates, and every file.

Nothing of the bundle is opened as anything but bytes until its signature is good, and no link in it is followed.
"""

from __future__ import annotations

import concurrent.futures
import datetime
import hashlib
import os
import stat
from collections.abc import Iterator
from pathlib import Path

from .listing import LIST, MOST_BYTES, SIGNATURE, BundleError, Entry, Listing, read_listing
from .signature import verify

BLOCK_BYTES = 4 * 1024 * 1024
SHOWN = 3
COPIED_AGAIN = "Copy the bundle again from where it was made, and compare its size there"


def verified(folder: Path, fingerprint: str, now: datetime.datetime, workers: int = 4) -> Listing:
    """The list of a bundle that is whole. Raises BundleError with all files that are not as they were signed."""
    listing = signed_listing(folder, fingerprint)
    check_dates(listing, now)
    try:
        there = dict(files_in(folder))
    except OSError as error:
        raise BundleError("bundle.incomplete", "The bundle cannot be read", str(error), COPIED_AGAIN) from None
    expected = {LIST, SIGNATURE, *listing.files}
    odd = [f"{path}: {kind}" for path, kind in there.items() if kind != "file"]
    odd += [f"{path}: not in the list" for path, kind in there.items() if kind == "file" and path not in expected]
    missing = sorted(expected - set(there))
    if missing:
        seen = f"{_some(missing)}: missing"
        raise BundleError("bundle.incomplete", "The bundle is not complete", seen, COPIED_AGAIN)
    if odd:
        step = "Remove what somebody has put into the bundle's folder, or copy the bundle again from where it was made"
        raise BundleError("bundle.extra", "The bundle holds what its list does not name", _some(odd), step)
    with concurrent.futures.ThreadPoolExecutor(workers) as pool:
        whys = pool.map(lambda item: why_not(folder / item[0], item[1]), sorted(listing.files.items()))
        altered = [f"{path}: {why}" for path, why in zip(sorted(listing.files), whys, strict=True) if why]
    if altered:
        raise BundleError(
            "bundle.altered", "Files of the bundle are not those that were signed", _some(altered), COPIED_AGAIN
        )
    return listing


def signed_listing(folder: Path, fingerprint: str) -> Listing:
    """The list, whose signature is good; its files are not looked at. Raises BundleError."""
    data, signature = (_read(folder, name) for name in (LIST, SIGNATURE))
    verify(data, signature, fingerprint)
    return read_listing(data)


def _read(folder: Path, name: str) -> bytes:
    path = folder / name
    try:
        if not stat.S_ISREG(path.lstat().st_mode):
            raise BundleError("bundle.extra", f"{name} of the bundle is no file", str(path), COPIED_AGAIN)
        with path.open("rb") as file:
            data = file.read(MOST_BYTES + 1)
    except OSError as error:
        raise BundleError(
            "bundle.missing",
            "There is no bundle where gpuwright_bundle says",
            f"{path}: {error.strerror}",
            "Name the folder that holds bundle.json, on the controller; is its medium mounted?",
        ) from None
    if len(data) > MOST_BYTES:
        raise BundleError("bundle.list", f"{name} is too long to be one of a bundle", str(path))
    return data


def check_dates(listing: Listing, now: datetime.datetime) -> None:
    """BundleError for a bundle that has expired, or that was made after `now`: then one of the clocks is wrong."""
    if now >= listing.expires:
        raise BundleError(
            "bundle.expired",
            f"The bundle has expired on {listing.expires:%Y-%m-%d}: it has no security update since it was made",
            f"made at {listing.made_at:%Y-%m-%d %H:%M} UTC; the controller's clock says {now:%Y-%m-%d %H:%M} UTC",
        )
    if now < listing.made_at - datetime.timedelta(days=1):
        raise BundleError(
            "bundle.clock",
            "The bundle was made in the future, so nobody can say whether it has expired",
            f"made at {listing.made_at:%Y-%m-%d %H:%M} UTC; the controller's clock says {now:%Y-%m-%d %H:%M} UTC",
            "Set the controller's clock",
        )


def files_in(folder: Path, below: str = "") -> Iterator[tuple[str, str]]:
    """Path relative to the folder, and "file", "link" or "special"; folders alone are nothing."""
    with os.scandir(folder / below) as entries:
        for entry in sorted(entries, key=lambda one: one.name):
            path = f"{below}/{entry.name}" if below else entry.name
            if entry.is_symlink():
                yield path, "a link, which could lead anywhere"
            elif entry.is_dir(follow_symlinks=False):
                yield from files_in(folder, path)
            else:
                yield path, "file" if entry.is_file(follow_symlinks=False) else "neither a file nor a folder"


def why_not(path: Path, entry: Entry) -> str:
    """One phrase; "" if the file has the size and the SHA-256 of the list."""
    try:
        handle = os.open(path, os.O_RDONLY | os.O_NOFOLLOW)
        with os.fdopen(handle, "rb") as file:
            size = os.fstat(file.fileno()).st_size
            if size != entry.size:
                return f"{size} bytes instead of {entry.size}"
            digest = hashlib.sha256()
            while block := file.read(BLOCK_BYTES):
                digest.update(block)
    except OSError as error:
        return f"cannot be read: {error.strerror}"
    return "" if digest.hexdigest() == entry.sha256 else "its SHA-256 is another one"


def entry_of(path: Path) -> Entry:
    """Size and SHA-256 of a file; OSError."""
    digest = hashlib.sha256()
    with path.open("rb") as file:
        while block := file.read(BLOCK_BYTES):
            digest.update(block)
    return Entry(path.stat().st_size, digest.hexdigest())


def _some(lines: list[str]) -> str:
    more = len(lines) - SHOWN
    return ", ".join(lines[:SHOWN]) + (f" and {more} more" if more > 0 else "")
