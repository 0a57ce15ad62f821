# SPDX-License-Identifier: Apache-2.0
"""Make a bundle: the questions of its hosts, its wheels, and the signed list at the end.

Beside the bundle's folder lies another, NAME.work, with the questions, what the builders answered, and parts of wheels.
It is kept, so that a run that was interrupted continues, and a second run downloads nothing.
"""

from __future__ import annotations

import contextlib
import datetime
import json
import shutil
from collections.abc import Callable, Collection, Mapping
from pathlib import Path
from typing import Any, NamedTuple

from ansible_collections.gpuwright.node.plugins.module_utils.host.whole_file import write_whole

from ..doctor_pyz import version as toolkit_version
from . import wheels
from .index import configuration, sources_of
from .listing import LIST, SIGNATURE, BundleError, Listing, read_listing, text_of
from .signature import public_fingerprint, sign, signer_of
from .verified import entry_of, files_in
from .wanted import check_question, digest_of, identity, release_of

MIB = 1024**2
SPARE_BYTES = 64 * MIB
# Of a bundle, besides the packages in targets/: what lies in them is wanted by this bundle, or goes.
OWN_FOLDERS = ("wheels", "collection", "controller", "matrix", "images")
OWN_MARK = "own"
Say = Callable[[str], None]


class Places(NamedTuple):
    """The folders of a bundle that is being made."""

    bundle: Path

    @property
    def work(self) -> Path:
        return self.bundle.with_name(f"{self.bundle.name}.work")

    @property
    def plans(self) -> Path:
        return self.work / "plans"

    @property
    def targets(self) -> Path:
        return self.work / "targets"

    @property
    def parts(self) -> Path:
        return self.work / "parts"


def write_question(places: Places, host: str, question: Mapping[str, Any]) -> bool:
    """Keep what a host asks for; whether it is new or another one."""
    check_question(question, host)
    places.plans.mkdir(parents=True, exist_ok=True)
    file = places.plans / f"{host}.json"
    data = (json.dumps(question, sort_keys=True, indent=1) + "\n").encode()
    if file.exists() and file.read_bytes() == data:
        return False
    write_whole(str(file), data)
    return True


def read_questions(places: Places) -> dict[str, dict[str, Any]]:
    """By host. BundleError if there are none, or one cannot be read."""
    found = {}
    for file in sorted(places.plans.glob("*.json")):
        try:
            question = json.loads(file.read_text())
            check_question(question, file.stem)
        except (ValueError, KeyError, TypeError) as error:
            raise BundleError(
                "bundle.question", "A host's plan cannot be read", f"{file}: {error}", f"Remove {file}"
            ) from None
        found[file.stem] = question
    if not found:
        raise BundleError(
            "bundle.question",
            "There are no plans to make a bundle for",
            str(places.plans),
            "Run the first part beside the nodes: ansible-playbook playbooks/bundle.yml -e bundle_part=plans",
        )
    return found


def check_no_plans(places: Places) -> None:
    """BundleError where a bundle for nodes is made already: one for the controller alone would lose their packages."""
    for folder in (places.plans, places.bundle / "targets"):
        if folder.is_dir() and any(folder.iterdir()):
            raise BundleError(
                "bundle.folder",
                "The folder is that of a bundle for nodes, which has all that is needed on the controller",
                str(folder),
                "Use that bundle, or name another folder in bundle_folder for the controller alone",
            )


def claim(places: Places, dry: bool) -> None:
    """Make the folder the toolkit's own, which removes from it what a bundle no longer needs.

    BundleError for one that has somebody's files: it is neither a bundle nor one that an earlier run has begun.
    """
    bundle, mark = places.bundle, places.work / OWN_MARK
    if bundle.exists() and (not bundle.is_dir() or (any(bundle.iterdir()) and not (bundle / LIST).is_file())):
        status = bundle.stat()
        if not mark.is_file() or mark.read_text() != f"{status.st_dev} {status.st_ino}\n":
            seen = ", ".join(sorted(path.name for path in bundle.iterdir())[:3]) if bundle.is_dir() else "it is a file"
            raise BundleError(
                "bundle.folder",
                "The folder is not that of a bundle, and what a bundle does not need is removed from its folder",
                f"{bundle}: {seen}",
                "Name a folder in bundle_folder that is empty or not there yet",
            )
    if not dry:
        bundle.mkdir(parents=True, exist_ok=True)
        places.work.mkdir(parents=True, exist_ok=True)
        status = bundle.stat()
        # It says which folder it is for: the work folder may be carried to another machine.
        write_whole(str(mark), f"{status.st_dev} {status.st_ino}\n".encode())


def check_room(folder: Path, needed: int) -> None:
    """BundleError if the file system of the folder has less than that, in bytes, before anything is downloaded."""
    free = shutil.disk_usage(folder).free
    if needed and free < needed + SPARE_BYTES:
        raise BundleError(
            "bundle.space",
            f"{folder} has no room for what is to be downloaded",
            f"{needed // MIB} MiB to download, {free // MIB} MiB free",
            "Make room there, or name another folder in bundle_folder, and run again; what is there is kept",
        )


def get_wheels(places: Places, questions: Mapping[str, Mapping[str, Any]], say: Say, dry: bool) -> dict[str, list[str]]:
    """Download the wheels that are not there yet; returns the wheels of each host."""
    folder = places.bundle / "wheels"
    for place in (folder, places.parts):
        if not dry:
            place.mkdir(parents=True, exist_ok=True)
    known = wheels.there(folder)
    wanted = {host: _wanted(question) for host, question in questions.items()}
    for host, question in questions.items():
        lacking = [one for one in wanted[host] if not wheels.held(one, known)]
        own = [Path(path) for path in question["own_wheels"]]
        lacking = [one for one in lacking if not any(wheels.rank_of(path.name, one) is not None for path in own)]
        for path in own if not dry else []:
            _copy(path, folder / path.name)
            known[path.name] = wheels.sha256_of(folder / path.name)
        if not lacking:
            continue
        sources = sources_of(configuration(), question["index_url"], question["extra_index_url"])
        known.update(download(places, host, wheels.locate(lacking, sources), folder, say, dry))
    return {
        host: sorted({f"wheels/{name}" for one in some if (name := wheels.held(one, known))})
        for host, some in wanted.items()
    }


def download(places: Places, who: str, found: list[wheels.Found], folder: Path, say: Say, dry: bool) -> dict[str, str]:
    """Say how large the wheels are, and get them; returns the SHA-256 of each by its name."""
    size = sum(one.size for one in found)
    say(f"{who}: {len(found)} wheels to download, {size / MIB:.0f} MiB")
    if dry:
        return {}
    check_room(places.bundle, size)
    paths = [wheels.fetch(one, folder, places.parts) for one in found]
    return {path.name: wheels.sha256_of(path) for path in paths}


def _wanted(question: Mapping[str, Any]) -> list[wheels.Wanted]:
    locks = [question["lock"], question["cudnn_lock"]]
    return [one for text in locks for one in wheels.read_lock(text, question["python"])]


def _copy(source: Path, target: Path) -> None:
    if not target.exists() or entry_of(target) != entry_of(source):
        write_whole(str(target), source.read_bytes())


def finished(
    places: Places,
    hosts: dict[str, list[str]],
    key: Path,
    days: int,
    now: datetime.datetime,
    carried: Collection[str] = (),
) -> bool:
    """Write and sign the list of what is in the folder; whether the bundle is another one than before.

    `hosts`: the wheels of each host; none for a bundle for the controller alone.
    `carried`: paths of what the bundle has besides packages and wheels of nodes; nothing else stays beside these.
    """
    questions = read_questions(places) if hosts else {}
    targets = {}
    for question in questions.values():
        name = release_of(question)
        file = places.targets / f"{name}.json"
        if not file.exists():
            raise BundleError(
                "bundle.builder",
                f"No machine has got the packages of {name}",
                f"{file} is not there",
                f"Put a connected machine with {question['os']['name']} into the inventory's group bundle_builders",
            )
        targets[name] = json.loads(file.read_text())
    entries = {}
    for host, question in questions.items():
        plan = identity(question)
        entries[host] = {"plan": plan, "digest": digest_of(plan), "target": release_of(question), "wheels": hosts[host]}
    _remove_left(places.bundle, targets, {*carried, *(path for some in hosts.values() for path in some)})
    files = {path: entry_of(places.bundle / path) for path, kind in files_in(places.bundle) if kind == "file"}
    files = {path: entry for path, entry in files.items() if path not in (LIST, SIGNATURE)}
    made = Listing(
        now.replace(microsecond=0), now + datetime.timedelta(days=days), toolkit_version(), files, entries, targets
    )
    if _is_the_same(places.bundle, made, key, now):
        return False
    data = text_of(made).encode()
    # What is signed must be readable as a list, or nobody could use it.
    read_listing(data)
    (places.bundle / SIGNATURE).unlink(missing_ok=True)
    signature = sign(data, key)
    write_whole(str(places.bundle / LIST), data)
    write_whole(str(places.bundle / SIGNATURE), signature)
    return True


def _is_the_same(folder: Path, made: Listing, key: Path, now: datetime.datetime) -> bool:
    with contextlib.suppress(OSError, BundleError, ValueError):
        before = read_listing((folder / LIST).read_bytes())
        same = before._replace(made_at=made.made_at, expires=made.expires) == made
        signer = signer_of((folder / LIST).read_bytes(), (folder / SIGNATURE).read_bytes())
        # One that has lived for half of its time is signed anew.
        young = now < before.made_at + (before.expires - before.made_at) / 2
        return same and young and signer == public_fingerprint(key)
    return False


def _remove_left(folder: Path, targets: Mapping[str, Any], wanted: set[str]) -> None:
    """What earlier bundles in this folder had and this one has not; the folder is the toolkit's own."""
    for name in OWN_FOLDERS:
        for path, _kind in list(files_in(folder, name)) if (folder / name).is_dir() else []:
            if path not in wanted:
                (folder / path).unlink()
    for place in sorted((folder / "targets").glob("*")):
        if place.name not in targets:
            shutil.rmtree(place)
