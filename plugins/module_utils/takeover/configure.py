# SPDX-License-Identifier: Apache-2.0
"""What repositories of both package managers have in common: other sources of the same, refusals, files."""

import os
from typing import Any, Dict, List, Mapping, Sequence

from ..first_record import taken
from ..host import placing
from ..sources.effective import Difference, words
from ..sources.others import Known, Other, digest_of, refused
from ..sources.others import words as other_words

PUBLIC, PRIVATE = 0o644, 0o600


class Refused(Exception):
    """Nothing was changed, or all is as it was before; the message ends with an id."""


def known(root: str = "/") -> Known:
    """For `sources.others`. OSError, ValueError."""
    return Known(taken.remembered(root) or {}, lambda path: taken.why_irreplaceable(path, root))


def refuse(others: Sequence[Other]) -> None:
    """`Refused` if one of them cannot be taken over."""
    bad = refused(others)
    if bad:
        said = " ".join(dict.fromkeys(map(other_words, bad)))
        raise Refused(f"There is another source of a repository: {said} Nothing was changed. [repository.elsewhere]")


def refuse_differences(differences: Sequence[Difference], manager: str, undone: str) -> None:
    """`Refused` if the package manager makes something else of it than was asked for."""
    if differences:
        said = "; ".join(map(words, differences))
        raise Refused(
            f"{manager} uses the repository otherwise than it was configured: {said}. {undone} Look for what else sets "
            "that, and correct or remove it there. [repository.effective]"
        )


def digests(others: Sequence[Other]) -> Dict[str, List[str]]:
    """Of the sources in each file."""
    found: Dict[str, List[str]] = {}
    for other in others:
        found.setdefault(other.entry.path, []).append(digest_of(other.entry))
    return found


def shown(others: Sequence[Other]) -> List[Dict[str, Any]]:
    """For --diff. A file may have a login: of its content, only the place is told."""
    return [
        {
            "before": {"path": other.entry.path, "source": f"line {other.entry.line} names {other.relied.url}"},
            "after": {"path": other.entry.path, "source": f"line {other.entry.line} is in comments"},
        }
        for other in others
    ]


def places_of(others: Sequence[Other]) -> List[str]:
    return list(dict.fromkeys(other.entry.place for other in others))


def wanted_file(path: str, text: str, mode: int) -> placing.Wanted:
    return placing.Wanted(path, "file", text.encode("utf-8"), "", mode, os.geteuid(), os.getegid())


def gone(path: str) -> placing.Wanted:
    return placing.Wanted(path, "absent", b"", "", 0, 0, 0)


def put_back(before: Mapping[str, placing.Found]) -> None:
    """Files as they were; OSError."""
    for path, found in before.items():
        wanted = gone(path)
        if found.state == "file":
            wanted = placing.Wanted(path, "file", found.content, "", found.mode, found.uid, found.gid)
        placing.place(wanted, placing.differences(placing.found_at(path), wanted))
