# SPDX-License-Identifier: Apache-2.0
"""What a host's roles get from a bundle: the files to copy to the node, and the variables that point at them there."""

from __future__ import annotations

import contextlib
import datetime
import fcntl
import hashlib
import json
import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from ansible_collections.gpuwright.node.plugins.module_utils.host.whole_file import write_whole

from .listing import LIST, BundleError, Listing
from .verified import check_dates, files_in, signed_listing, verified
from .wanted import EPEL, NVIDIA, check_question, differences, digest_of, identity

ON_NODE = "/var/lib/gpuwright/bundle"
# By the id of a repository in a bundle: the variables of the role that configures it.
ROLES = {EPEL: "system_kernel_epel", NVIDIA: "system_driver_repository"}


def cache_folder() -> Path:
    """Where it is remembered which files were read, as XDG says."""
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "gpuwright/bundles"


def found_in_bundle(
    folder: Path, signer: str, host: str, question: Mapping[str, Any], now: datetime.datetime
) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    """The fact `gpu_node_bundle` for the question, and what is wrong, as rows of preflight's table.

    signer    fingerprint of the key that signs bundles
    question  what the host's plan needs of a bundle; empty verifies the bundle alone
    """
    try:
        listing = listing_of(folder, signer, now, cache_folder())
        if not question:
            return {}, []
        entry = entry_for(listing, host, question)
    except BundleError as error:
        row = error.row
        return {}, [row]
    except OSError as error:
        step = "Look at that on the controller"
        return {}, [BundleError("bundle.missing", "The bundle cannot be read", str(error), step).row]
    return {**part_of(listing, entry, folder), "variables": variables_of(listing, entry)}, []


def listing_of(folder: Path, fingerprint: str, now: datetime.datetime, cache: Path) -> Listing:
    """The list of a bundle that is whole.

    Hosts of one run ask at the same time, and files are gigabytes: one process reads them, and what it found counts as
    long as no file's inode, size, mtime or ctime changes. Whatever happens later, nodes check what they get.
    """
    cache.mkdir(mode=0o700, parents=True, exist_ok=True)
    name = hashlib.sha256(os.fsencode(folder.absolute())).hexdigest()[:32]
    with _alone(cache / f"{name}.lock"):
        record = cache / f"{name}.json"
        listing = signed_listing(folder, fingerprint)
        check_dates(listing, now)
        with contextlib.suppress(OSError, ValueError):
            if json.loads(record.read_text()) == _state(folder):
                return listing
        # Taken before the files are read: a file that changes meanwhile is read again the next time.
        state = _state(folder) if folder.is_dir() else []
        found = verified(folder, fingerprint, now)
        with contextlib.suppress(OSError):
            write_whole(str(record), json.dumps(state).encode(), mode=0o600)
        return found


@contextlib.contextmanager
def _alone(path: Path) -> Iterator[None]:
    with path.open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


def _state(folder: Path) -> list[Any]:
    """Everything in the folder, as it changes when somebody writes to it."""
    rows: list[Any] = []
    for path, kind in files_in(folder):
        status = (folder / path).lstat()
        rows.append([path, kind, status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns, status.st_ctime_ns])
    return rows


def entry_for(listing: Listing, host: str, question: Mapping[str, Any]) -> dict[str, Any]:
    """The part of the bundle that is for this plan, whichever host it was made for. BundleError names what differs."""
    check_question(question, host)
    asked = identity(question)
    digest = digest_of(asked)
    for entry in listing.hosts.values():
        if entry["digest"] == digest and digest_of(entry["plan"]) == digest:
            return entry
    # The host's own entry, or the most similar one: what differs there tells what has changed.
    likely: Mapping[str, Any] = listing.hosts.get(host) or min(
        listing.hosts.values(), key=lambda entry: len(differences(entry["plan"], asked)), default={"plan": {}}
    )
    raise BundleError(
        "bundle.plan",
        "The bundle was made for another plan than this host's",
        "; ".join(differences(likely["plan"], asked)) or f"{LIST}: its digest of {host} is not that of its plan",
        "Make a bundle for this inventory on a connected machine (ansible-playbook playbooks/bundle.yml), or pin the "
        "versions that the bundle has (docs/air-gapped.md)",
    )


def part_of(listing: Listing, entry: Mapping[str, Any], folder: Path) -> dict[str, Any]:
    """What the role bundle copies to the node and configures there."""
    target = listing.targets[entry["target"]]
    below = target["folder"] + "/"
    paths = [path for path in listing.files if path.startswith(below) or path in entry["wheels"]]
    return {
        "source": str(folder.absolute()),
        "dest": ON_NODE,
        "made_at": f"{listing.made_at:%Y-%m-%d}",
        "files": {path: listing.files[path]._asdict() for path in paths},
        "repositories": [row for row in target["repositories"] if row["id"] not in ROLES],
    }


def variables_of(listing: Listing, entry: Mapping[str, Any]) -> dict[str, Any]:
    """The roles' own variables, which the role bundle sets: a bundle is a mirror, and the roles stay as they are."""
    target = listing.targets[entry["target"]]
    found: dict[str, Any] = {}
    for row in target["repositories"]:
        if row["id"] in ROLES:
            name = ROLES[row["id"]]
            found[f"{name}_url"] = f"file://{ON_NODE}/{row['folder']}"
            # The key's fingerprint is still that of the plan or the inventory.
            found[f"{name}_key_url"] = f"file://{ON_NODE}/{target['folder']}/keys/{row['id']}.asc"
            found[f"{name}_metadata_signed"] = False
    found["framework_pytorch_wheelhouse"] = f"{ON_NODE}/wheels"
    found["system_cuda_wheelhouse"] = f"{ON_NODE}/wheels"
    return found
