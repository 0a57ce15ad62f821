# SPDX-License-Identifier: Apache-2.0
"""What a bundle has for the controller beside the nodes: the collection, Python's packages for it, and the matrix.

Nodes get nothing of it. All of it is in the signed list, like packages and wheels.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from ansible_collections.gpuwright.node.plugins.module_utils.host.whole_file import write_whole

from ..plan.matrix import SHIPPED
from ..started import ROOT
from . import collection, wheels
from .index import Sources
from .making import Places, Say, download

# Those that ansible-core of the lock file runs on.
PYTHONS = ("3.10", "3.11", "3.12")
LOCK = ROOT / "requirements/controller.lock"
CONTROLLER, MATRIX = "controller", "matrix"


def for_controller(places: Places, pythons: Sequence[str], sources: Sources, say: Say, dry: bool) -> set[str]:
    """Put all of it into the bundle; returns the paths. BundleError, OSError."""
    found = environment(places, pythons, sources, say, dry)
    if dry:
        return found
    made = collection.archive(places.bundle / collection.FOLDER)
    found.add(f"{collection.FOLDER}/{made.name}")
    for file in sorted(SHIPPED.glob("*.yml")):
        found.add(_kept(places.bundle, f"{MATRIX}/{file.name}", file.read_bytes()))
    return found


def environment(places: Places, pythons: Sequence[str], sources: Sources, say: Say, dry: bool) -> set[str]:
    """The lock file of the controller's environment, and its wheels for each Python; nothing without a Python."""
    if not pythons:
        return set()
    folder = places.bundle / CONTROLLER / "wheels"
    for place in (folder, places.parts) if not dry else ():
        place.mkdir(parents=True, exist_ok=True)
    text = LOCK.read_text("utf-8")
    wanted = [one for python in pythons for one in wheels.read_lock(text, python)]
    known = wheels.there(folder)
    lacking = [one for one in wanted if not wheels.held(one, known)]
    # One wheel serves several Pythons.
    found = list({one.link.file: one for one in wheels.locate(lacking, sources)}.values())
    if found:
        known.update(download(places, "controller", found, folder, say, dry))
    if dry:
        return set()
    lock = _kept(places.bundle, f"{CONTROLLER}/{LOCK.name}", text.encode())
    return {lock, *(f"{CONTROLLER}/wheels/{wheels.held(one, known)}" for one in wanted)}


def _kept(bundle: Path, path: str, data: bytes) -> str:
    place = bundle / path
    place.parent.mkdir(parents=True, exist_ok=True)
    if not place.is_file() or place.read_bytes() != data:
        write_whole(str(place), data)
    return path
