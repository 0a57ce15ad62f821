# SPDX-License-Identifier: Apache-2.0
"""What dnf or apt makes of the repositories that the node relies on, and the files from which it does so.

Level standard asks the package manager, without a network. Level quick only compares the files with those of the last
verification.
"""

import hashlib
import os
from typing import Any, Callable, Dict, List, Mapping, Optional, Sequence

from ...host.bounded import Finished, run_bounded
from ...host.files import below, exists, names_in
from ...packages.kept_key import read_key
from ...packages.signing_key import key_fingerprints
from ...sources import apt_files, ask_apt, ask_dnf, dnf_files
from ...sources.effective import Difference, of_apt, of_dnf, of_others, unsigned_of_apt, unsigned_of_dnf
from ...sources.others import Known, apt_others, dnf_others
from ...sources.relied import Relied, is_relied, is_written, relied_of
from ...verdict.expectations import REPOSITORIES as NAME
from ...verdict.report import REPORT_PATH, read_json

RunProgram = Callable[..., Finished]
# Nothing is taken over here, so nothing has to be put back.
NOTHING_KNOWN = Known({}, lambda path: "")
DIGEST_LETTERS = 16


def read_repositories(
    root: str, expectations: Mapping[str, Any], probe: Mapping[str, Any], run: RunProgram = run_bounded
) -> Optional[Dict[str, Any]]:
    """`{manager, relied, problems, weak, files}`; null where no repository is expected. OSError, ValueError.

    relied    ids of those that somebody has configured
    problems  `[{id, place, what, wanted, found}]` of those       weak  the same of what else lets in something unsigned
    files     `{path: digest}` of all files that this comes from
    """
    rows = expectations.get(NAME) or []
    if not rows:
        return None
    family = _family(probe)
    relied = [relied_of(row, family) for row in rows]
    files = file_digests(family, relied, root)
    if family == "redhat":
        problems, weak, known = _of_dnf(relied, root, run)
    else:
        problems, weak, known = _of_apt(relied, root, run)
    for one in relied:
        problems += _of_key(one, root) if exists(root, one.file) else []
    mine = {(one.place, one.what) for one in problems}
    return {
        "manager": "dnf" if family == "redhat" else "apt",
        "relied": sorted(known),
        "problems": [dict(one._asdict()) for one in problems],
        "weak": [dict(one._asdict()) for one in weak if (one.place, one.what) not in mine],
        "files": files,
    }


def _family(probe: Mapping[str, Any]) -> str:
    if not probe.get("os"):
        raise OSError("the probe does not say which system this is, and so not which package manager it has")
    return str(probe["os"]["family"])


def _of_dnf(relied: Sequence[Relied], root: str, run: RunProgram) -> Any:
    answer, files = ask_dnf.ask(run), dnf_files.read_files(root)
    problems: List[Difference] = []
    for one in relied:
        found = of_dnf(one, answer, files, root)
        # Beside one of ours; what others have configured alone is judged for what it lets in.
        if exists(root, one.file):
            found = of_others(dnf_others([one], files, NOTHING_KNOWN)) + found
        problems += found
    named = {one.id for one in relied if one.id in answer.repositories}
    return problems, unsigned_of_dnf(answer, files), named


def _of_apt(relied: Sequence[Relied], root: str, run: RunProgram) -> Any:
    places = ask_apt.read_places(run)
    texts = apt_files.read_texts(places, root)
    answer = ask_apt.ask(run=run)
    written = [one for one in relied if one.file in texts]
    # apt names the address of two that contradict each other, and not the files.
    problems = of_others(apt_others(written, texts, places.architecture, NOTHING_KNOWN))
    if answer.problem:
        said = Difference("", places.list + "*", "what apt makes of its sources", "readable", answer.problem)
        return [*problems, said], [], set()
    fetched = ask_apt.ask(fetched=True, run=run)
    for one in relied:
        problems += of_apt(one, answer, fetched, texts, places)
    entries = [entry for path, text in texts.items() for entry in apt_files.parse(path, text, places.architecture)]
    named = {one.id for one in relied if any(is_relied(entry, one) for entry in entries)}
    settings = {path: _read(root, path).decode("utf-8", "replace") for path in apt_files.settings_files(root)}
    return problems, unsigned_of_apt(texts, settings), named


def _of_key(one: Relied, root: str) -> List[Difference]:
    """The key's file has the pinned key alone: apt trusts every key in it, and dnf imports them all."""
    if not one.fingerprint:
        return []
    data = read_key(below(root, one.key_file))
    found = key_fingerprints(data) if data else []
    if found == [one.fingerprint]:
        return []
    return [Difference(one.id, one.key_file, "the key", one.fingerprint, " ".join(found) or "nothing")]


def file_digests(family: str, relied: Sequence[Relied], root: str = "/") -> Dict[str, str]:
    """`{path: digest}` of the files that name these repositories or cannot be parsed, their keys, and settings for all.

    No program is asked, so the folders are those that the package manager has without a setting. OSError.
    """
    paths = [one.key_file for one in relied]
    if family == "redhat":
        paths += dnf_files.settings_files(root)
        for folder in dnf_files.folders(root):
            paths += [f"{folder}/{name}" for name in names_in(root, folder) if name.endswith(".repo")]
    else:
        paths += [*apt_files.settings_files(root), *apt_files.paths(root=root)]
    found = {}
    for path in paths:
        data = _read(root, path)
        if data and _matters(path, data.decode("utf-8", "surrogateescape"), family, relied, root):
            found[path] = hashlib.sha256(data).hexdigest()[:DIGEST_LETTERS]
    return found


def _read(root: str, path: str) -> bytes:
    """The whole file, empty where there is none; OSError, also where only root may read it."""
    try:
        with open(below(root, path), "rb") as file:
            return file.read()
    except (FileNotFoundError, IsADirectoryError):
        return b""


def _matters(path: str, text: str, family: str, relied: Sequence[Relied], root: str) -> bool:
    if family == "redhat" and path.endswith(".repo"):
        file = dnf_files.parse(path, text, root, dnf_files.release(root))
        return bool(file.problem) or _names(file.entries, relied)
    if family == "debian" and os.path.basename(path) != "apt.conf" and apt_files.NAME.fullmatch(os.path.basename(path)):
        return _names(apt_files.parse(path, text), relied)
    return True


def _names(entries: Any, relied: Sequence[Relied]) -> bool:
    return any(is_relied(entry, one) or is_written(entry, one) for entry in entries for one in relied)


def read_repository_files(
    root: str, expectations: Mapping[str, Any], probe: Mapping[str, Any], report: str = REPORT_PATH
) -> Optional[Dict[str, Any]]:
    """`{now, then, problems}`: digests of the files now and at the last verification that asked, and what that found.

    Null where there was none.
    """
    rows = expectations.get(NAME) or []
    if not rows:
        return None
    try:
        readings = read_json(below(root, report)).get("readings")
    except FileNotFoundError:
        return None
    kept = readings.get(NAME) if isinstance(readings, dict) else None
    if not isinstance(kept, dict) or not isinstance(kept.get("files"), dict):
        return None
    family = _family(probe)
    now = file_digests(family, [relied_of(row, family) for row in rows], root)
    return {"now": now, "then": kept["files"], "problems": kept.get("problems")}
