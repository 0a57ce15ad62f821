# SPDX-License-Identifier: Apache-2.0
"""What of the toolkit's changes stays on the node all the same, since somebody else's packages or files need it."""

import contextlib
import os
import re
from typing import Any, Callable, Dict, Iterable, List, Mapping, Sequence, Set

from ..host.files import below, read_text
from .places import OWN_TREES, is_own
from .what_goes_back import REMOVE, STAYS, Row, home_of, packages_of, to_do

# What programs leave in a home without anybody's doing; bash's files come from /etc/skel.
HIDDEN = "."
RELEASE = "/proc/sys/kernel/osrelease"
# What a boot of an RPM kernel needs; headers are none of it.
KERNEL = re.compile(r"kernel(-rt|-64k|-uek)?(-core|-modules|-modules-core|-modules-extra)?([.]\w+)?$")

Removable = Callable[..., Dict[str, str]]
Owners = Callable[..., Dict[str, str]]


def with_needed(rows: Sequence[Row], family: str, removable: Removable) -> List[Row]:
    """Packages that something else needs stay, and the rows say who needs them. OSError."""
    going: Dict[str, str] = {}
    for row in rows:
        if row.kind == "packages" and row.step == REMOVE and not row.name.startswith("gpg-pubkey."):
            for name in packages_of([row], family)["remove"]:
                # rpm's own commands know no epoch.
                going[row.name if family == "debian" else re.sub(r"-[0-9]+:", "-", name)] = row.name
    needed = {going[name]: who for name, who in removable(list(going), family).items()} if going else {}
    return _staying(rows, {("packages", name): f"{who} needs it" for name, who in needed.items()})


def with_running(rows: Sequence[Row], root: str = "/") -> List[Row]:
    """The kernel that runs stays, as one of a patch day: a package manager removes none that is in use."""
    release = read_text(root, RELEASE) or ""
    image = re.compile(r"linux-(image|modules|modules-extra)-(unsigned-)?" + re.escape(release) + "(:|$)")
    # rpm's rows have the versions apart, without the architecture that the release ends with.
    version = release.rpartition(".")[0]
    running = [
        row.name
        for row in rows
        if row.kind == "packages" and (image.match(row.name) or (KERNEL.match(row.name) and version in row.found))
    ]
    return _staying(rows, {("packages", name): "it is of the kernel that runs" for name in running if version})


def with_used(rows: Sequence[Row], family: str, owners: Owners, root: str = "/") -> List[Row]:
    """Once packages are gone: files of packages that stay, folders with others' files, and the accounts of those."""
    doing = to_do(rows)
    going = [row.name for row in doing if row.kind == "files" and row.step == REMOVE]
    kept = {
        ("files", path): f"it belongs to the package {name}"
        for path, name in owners([path for path in going if not is_own(path)], family).items()
    }
    gone = {path for path in going if ("files", path) not in kept}
    # A home is judged by what its account has put there, below.
    homes = {home_of(row.found) for row in doing if row.kind == "users"}
    numbers: Set[str] = set()
    for path in sorted(gone - homes):
        left = _files_below(root, path, gone)
        if left:
            kept["files", path] = (
                f"it holds {len(left)} file{'s' if len(left) > 1 else ''} that no run of the toolkit wrote"
            )
            numbers.update(str(os.lstat(below(root, name)).st_uid) for name in left)
    for row in doing:
        home = home_of(row.found) if row.kind == "users" else ""
        if row.kind == "users" and (row.found.partition(":")[0] in numbers or (home and _is_used(below(root, home)))):
            kept["users", row.name] = "files that stay belong to it"
            # The group of an account that stays, and the account's home.
            kept["groups", row.name] = kept["files", home] = f"the account {row.name} stays"
    return _staying(rows, kept)


def _staying(rows: Iterable[Row], kept: Mapping[Any, str]) -> List[Row]:
    return [
        row._replace(step=STAYS, why=kept[row.kind, row.name])
        if row.step != STAYS and (row.kind, row.name) in kept
        else row
        for row in rows
    ]


def _files_below(root: str, path: str, going: Set[str]) -> List[str]:
    """Files in a folder that are not removed themselves."""
    top = below(root, path)
    if os.path.islink(top) or path in OWN_TREES:
        return []
    found = []
    for folder, folders, names in os.walk(top):
        inside = path + folder[len(top) :]
        folders[:] = [name for name in folders if os.path.join(inside, name) not in OWN_TREES]
        links = [name for name in folders if os.path.islink(os.path.join(folder, name))]
        found += [os.path.join(inside, name) for name in [*names, *links] if os.path.join(inside, name) not in going]
    return found


def _is_used(home: str) -> bool:
    """Whether a home holds more than what programs leave there by themselves."""
    with contextlib.suppress(FileNotFoundError, NotADirectoryError):
        return any(not name.startswith(HIDDEN) for name in os.listdir(home))
    return False
