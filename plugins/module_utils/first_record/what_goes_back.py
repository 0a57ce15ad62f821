# SPDX-License-Identifier: Apache-2.0
"""What an uninstallation does about each difference between a node and its first record, and what stays, and why."""

from typing import Any, Dict, Iterable, List, Mapping, NamedTuple

from .places import FOLDER, KEPT_BY_PACKAGES, OWN_TREES, parents

REMOVE, RESTORE, STAYS = "remove", "restore", "stays"
NOTHING = "nothing"


class Row(NamedTuple):
    """One difference. Lines have no content: kind, mode, owner and hash of a file, versions of a package.

    kind   files, packages, users or groups       step   remove, restore, or stays (why says it)
    was    the line of the first record            found  the line now; "nothing" where there is none
    ours   whether the toolkit's runs made the difference
    """

    kind: str
    name: str
    was: str
    found: str
    step: str
    why: str
    ours: bool


def compare(record: Mapping[str, Any], ledger: Mapping[str, Any], now: Mapping[str, Any]) -> List[Row]:
    """A row for each difference, by kind and name."""
    rows = []
    for kind in ("packages", "files", "users", "groups"):
        was, found = record[kind], now[kind]
        for name in sorted(set(was) | set(found)):
            if was.get(name) != found.get(name):
                rows.append(_row(kind, name, record, ledger, now))
    return _without_covered(rows)


def _row(kind: str, name: str, record: Mapping[str, Any], ledger: Mapping[str, Any], now: Mapping[str, Any]) -> Row:
    was, found = record[kind].get(name, ""), now[kind].get(name, "")
    left = ledger["ours"][kind].get(name)
    step, why = (RESTORE if was else REMOVE), ""
    ours = left is not None or (kind == "files" and _left_by_packages(name, record, ledger))
    if not ours:
        step, why = STAYS, "it was not changed by a run of this toolkit"
    elif left and found and found != left[0] and kind != "packages":
        step, why = STAYS, "somebody has changed it since"
    elif left and f"{kind} {name}" in ledger["foreign"]:
        step, why = STAYS, "somebody had changed it before a run of this toolkit did"
    elif kind == "packages" and left and was and found and found != left[0]:
        step, why = STAYS, "somebody has updated it since"
    elif kind == "files" and was and not _can_be_put_back(was, record):
        step, why = STAYS, "what it was is not recorded: it was too large, or no file"
    elif kind in ("users", "groups") and was and found:
        step, why = (RESTORE, "") if kind == "groups" else (STAYS, "an account that was there is left as it is")
    return Row(kind, name, was or NOTHING, found or NOTHING, step, why, ours)


def _left_by_packages(path: str, record: Mapping[str, Any], ledger: Mapping[str, Any]) -> bool:
    """What a package manager kept of a file that a run of ours had written."""
    for ending in KEPT_BY_PACKAGES:
        if path.endswith(ending) and path not in record["files"]:
            return path[: -len(ending)] in ledger["ours"]["files"]
    return False


def _can_be_put_back(line: str, record: Mapping[str, Any]) -> bool:
    words = line.split(" ")
    if words[0] in ("link", "folder"):
        return True
    return words[0] == "file" and len(words) > 3 and words[3] in record["contents"]


def _without_covered(rows: Iterable[Row]) -> List[Row]:
    """A folder that is somebody else's, and one too many, says all about what is in it."""
    kept: List[Row] = []
    others = {row.name for row in rows if row.kind == "files" and not row.ours and row.was == NOTHING}
    for row in rows:
        if not (row.kind == "files" and not row.ours and any(parent in others for parent in parents(row.name))):
            kept.append(row)
    return kept


def to_do(rows: Iterable[Row]) -> List[Row]:
    return [row for row in rows if row.step != STAYS]


def own_trees(record: Mapping[str, Any]) -> List[str]:
    """Folders of the toolkit that were not there before."""
    return [tree for tree in OWN_TREES if tree not in record["files"]]


def home_of(line: str) -> str:
    """The home of an account's line (user, group, comment, home, shell), if it is one that the toolkit names."""
    words = line.split(":")
    home = words[3] if len(words) > 3 else ""
    return home if home.startswith(FOLDER + "-") else ""


def packages_of(rows: Iterable[Row], family: str) -> Dict[str, List[str]]:
    """`{remove, install, keys}`: what the package manager is asked for; names with versions for rpm, ids of keys."""
    remove, install, keys = [], [], []
    for row in rows:
        if row.kind != "packages" or row.step == STAYS:
            continue
        was, found = _versions(row.was), _versions(row.found)
        name = row.name
        if name.startswith("gpg-pubkey."):
            keys += [version.partition(":")[2].partition("-")[0] for version in sorted(found - was)]
        elif family == "debian":
            plain = name.partition(":")[0]
            remove += [plain] if not was else []
            install += [f"{plain}={version}" for version in sorted(was)]
        else:
            # A version that takes another's place goes with the installation of that.
            remove += [_rpm(name, version) for version in sorted(found - was) if not was - found]
            install += [_rpm(name, version) for version in sorted(was - found)]
    return {"remove": remove, "install": install, "keys": keys}


def _versions(line: str) -> Any:
    return set() if line == NOTHING else set(line.split(" "))


def _rpm(name: str, version: str) -> str:
    """name-version-release.arch, as rpm and dnf understand it; an epoch is for dnf alone, and 0 is none."""
    plain, _, arch = name.rpartition(".")
    epoch, _, rest = version.partition(":")
    return f"{plain}-{rest}.{arch}" if epoch == "0" else f"{plain}-{epoch}:{rest}.{arch}"
