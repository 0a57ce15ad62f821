# SPDX-License-Identifier: Apache-2.0
"""A repository of dnf as the only one of its id and address: other sources first, then its file, then dnf is asked."""

from typing import Any, Dict, List, Mapping, NamedTuple, Sequence, Tuple

from ..first_record import taken
from ..host import placing
from ..host.bounded import find_program, run_bounded
from ..packages import dnf_repository
from ..packages.kept_key import Source, kept_key, read_key
from ..sources import ask_dnf, dnf_files
from ..sources.effective import of_dnf
from ..sources.others import Other, dnf_others, taken_texts
from ..sources.relied import Relied
from .configure import (
    PRIVATE,
    PUBLIC,
    digests,
    known,
    places_of,
    put_back,
    refuse,
    refuse_differences,
    shown,
    wanted_file,
)

BACK = "All is as it was before, apart from the key."


class Done(NamedTuple):
    """Files that were written, or in check mode would be; differences for people; places of what was taken over."""

    written: Tuple[str, ...]
    diff: List[Dict[str, Any]]
    taken_over: List[str]


def look(relied: Relied) -> List[Any]:
    """Other sources that would be taken over; `Refused` where that is not possible. Before anything is written."""
    others = dnf_others([relied], dnf_files.read_files(), known())
    refuse(others)
    return others


def keep_key(relied: Relied, source: Source, dry: bool) -> Tuple[List[Dict[str, Any]], List[str]]:
    """The key's file, and rpm's trust in it: what differs, and what was left out of the file. `KeyRefused`, OSError."""
    there = read_key(relied.key_file)
    if dry and not find_program("gpg"):
        return ([] if there else [{"before": "", "after": "", "before_header": relied.key_file}]), []
    text, left_out = kept_key(there, source)
    wanted, found = wanted_file(relied.key_file, text, PUBLIC), placing.found_at(relied.key_file)
    differs = placing.differences(found, wanted)
    diff = [placing.shown(found, wanted, differs)] if differs else []
    if not dry:
        placing.place(wanted, differs)
    if not dnf_repository.is_trusted(relied.fingerprint):
        if not dry:
            dnf_repository.trust(relied.key_file)
        key = {"path": relied.key_file}
        diff.append({"before": dict(key, rpm="not trusted"), "after": dict(key, rpm="trusted")})
    return diff, left_out


def section(relied: Relied, description: str, login: Mapping[str, str]) -> Dict[str, str]:
    """The settings of the repository's section, as dnf reads it."""
    return {
        "name": description,
        "baseurl": relied.url,
        "gpgkey": f"file://{relied.key_file}",
        "gpgcheck": str(int(relied.packages_signed)),
        "repo_gpgcheck": str(int(relied.metadata_signed)),
        "sslverify": "1",
        **login,
    }


def configure(
    relied: Relied, description: str, login: Mapping[str, str], dry: bool, run: ask_dnf.RunProgram = run_bounded
) -> Done:
    """`Refused`, OSError, ValueError. login: {username, password} or empty; with one, only root reads the file."""
    others = look(relied)
    texts = {file.path: file.text for file in dnf_files.read_files()}
    new = taken_texts(others, texts)
    found = placing.found_at(relied.file)
    text = dnf_repository.repository_text(
        found.content.decode("utf-8", "surrogateescape"),
        relied.id,
        section(relied, description, login),
        _beside(others, relied),
    )
    if relied.file in new:
        # A file of somebody else's under the name that ours has.
        new[relied.file] = text
    wanted = wanted_file(relied.file, text, PRIVATE if login else PUBLIC)
    differs = placing.differences(found, wanted)
    diff = shown(others) + ([placing.shown(found, wanted, differs)] if differs else [])
    written = sorted({*new, *([relied.file] if differs else [])})
    done = Done(tuple(written), diff, places_of(others))
    if dry:
        return done
    kept: List[taken.Before] = []
    try:
        kept = taken.take(new, digests(others))
        placing.place(wanted, placing.differences(placing.found_at(relied.file), wanted))
        _ask(relied, run)
    except BaseException:
        put_back({relied.file: found})
        taken.give_back(kept)
        raise
    return done


def _ask(relied: Relied, run: ask_dnf.RunProgram) -> None:
    try:
        answer = ask_dnf.ask(run)
    except ask_dnf.NoDnf:
        # Nothing could be installed here, whatever the file says.
        return
    refuse_differences(of_dnf(relied, answer, dnf_files.read_files()), "dnf", BACK)


def _beside(others: Sequence[Other], relied: Relied) -> List[str]:
    """Other sections of our own file that are the same repository under another id."""
    return [one.entry.id for one in others if one.entry.path == relied.file and one.entry.id != relied.id]
