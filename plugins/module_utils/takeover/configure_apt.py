# SPDX-License-Identifier: Apache-2.0
"""A flat repository of apt with its key and login: asked before, written, read, asked again, or all as it was."""

import re
import time
from typing import Any, Callable, Dict, List, NamedTuple, Tuple

from ..first_record import taken
from ..host import placing
from ..host.bounded import Finished, find_program, run_bounded
from ..packages.kept_key import Source, kept_key, read_key
from ..sources import apt_files, ask_apt
from ..sources.effective import of_apt
from ..sources.others import apt_others, taken_texts
from ..sources.relied import Relied
from .configure import (
    PRIVATE,
    PUBLIC,
    Refused,
    digests,
    gone,
    known,
    places_of,
    put_back,
    refuse,
    refuse_differences,
    shown,
    wanted_file,
)

UPDATE = ("apt-get", "update", "--quiet=2", "--option", "APT::Update::Error-Mode=any")
UPDATE_SECONDS = 600
# Another apt that is at the same lists, and a network that does not answer: tried again after so many seconds.
PAUSES = (1, 3, 6, 0)
AGAIN = re.compile(
    r"lock|Temporary failure|Could not connect|[Tt]imed out|Connection (reset|refused)|Hash Sum mismatch"
)
BACK = "All is as it was before."
SOURCE = """# {description}. Written by gpuwright.
Types: deb
URIs: {uri}
Suites: /
Signed-By: {key_file}
Allow-Insecure: no
Allow-Downgrade-To-Insecure: no
"""
BAD_SIGNATURE = re.compile(r"NO_PUBKEY|EXPKEYSIG|REVKEYSIG|BADSIG|signatures? (couldn't|could not|were invalid)")
# function(command, seconds)
RunProgram = Callable[..., Finished]


class Wish(NamedTuple):
    """The repository: `path` is its file, `also` the vendor's address of a mirror, `key` where the key comes from."""

    id: str
    description: str
    uri: str
    also: str
    path: str
    key_file: str
    key: Source


class Done(NamedTuple):
    """Files that were written, or in check mode would be; differences for people; what else was there."""

    written: Tuple[str, ...]
    diff: List[Dict[str, Any]]
    taken_over: List[str]
    left_out: List[str]


def configure(wish: Wish, login: str, login_file: str, dry: bool, run: RunProgram = run_bounded) -> Done:
    """`Refused`, `KeyRefused`, OSError, ValueError; then all is as it was before.

    login  the text of `login_file`, "" for none; never in what is returned
    """
    places = ask_apt.read_places(run)
    texts = apt_files.read_texts(places)
    relied = Relied(wish.id, wish.uri, wish.also, wish.path, wish.key_file, wish.key.fingerprint, True, True)
    others = apt_others([relied], texts, places.architecture, known())
    refuse(others)
    key, left_out = _key(wish, dry)
    source = SOURCE.format(description=wish.description, uri=wish.uri, key_file=wish.key_file)
    new = taken_texts(others, texts, places.architecture)
    if wish.path in new:
        # A file of somebody else's under the name that ours has.
        new[wish.path] = source
    _rehearsed(relied, dict(new, **{wish.path: source}), places, run)
    wanted = [
        *([wanted_file(wish.key_file, key, PUBLIC)] if key is not None else []),
        wanted_file(login_file, login, PRIVATE) if login else gone(login_file),
        wanted_file(wish.path, source, PUBLIC),
    ]
    found = {one.path: placing.found_at(one.path) for one in wanted}
    differs = {one.path: placing.differences(found[one.path], one) for one in wanted}
    todo = [one for one in wanted if differs[one.path]]
    diff = [_shown(found[one.path], one, differs[one.path], one.path == login_file) for one in todo] + shown(others)
    done = Done(tuple(sorted({*new, *(one.path for one in todo)})), diff, places_of(others), left_out)
    if dry or not diff:
        return done
    before: List[taken.Before] = []
    try:
        before = taken.take(new, digests(others))
        for one in todo:
            placing.place(one, placing.differences(placing.found_at(one.path), one))
        _read(relied, run)
    except BaseException:
        put_back({one.path: found[one.path] for one in todo})
        taken.give_back(before)
        raise
    return done


def _key(wish: Wish, dry: bool) -> Tuple[Any, List[str]]:
    """The text of the key's file, None where check mode cannot know it, and what else was in it."""
    if dry and not find_program("gpg"):
        # The role installs GnuPG on a host without it, but not in check mode.
        return None, []
    return kept_key(read_key(wish.key_file), wish.key)


def _shown(found: placing.Found, wanted: placing.Wanted, differs: List[str], hidden: bool) -> Dict[str, Any]:
    if not hidden:
        return placing.shown(found, wanted, differs)
    return {"before": {"path": wanted.path}, "after": {"path": wanted.path, "login": "not shown"}}


def _rehearsed(relied: Relied, texts: Dict[str, str], places: apt_files.Places, run: RunProgram) -> None:
    """Whether apt would read all its files with these texts, and take the repository from ours alone."""
    answer = ask_apt.rehearse(texts, places, run)
    if answer.problem:
        raise Refused(
            f"apt refuses its sources, so it could install nothing: {answer.problem}. Mend or remove what it names; "
            "nothing was changed. [repository.sources]"
        )
    after = dict(apt_files.read_texts(places), **texts)
    nothing = ask_apt.Answer((), "")
    refuse_differences(of_apt(relied, answer, nothing, after, places), "apt", "Nothing was changed.")


def _read(relied: Relied, run: RunProgram) -> None:
    """Fetch the lists, and ask apt what it has made of them."""
    for pause in PAUSES:
        done = run(list(UPDATE), UPDATE_SECONDS)
        if done.rc == 0 or not AGAIN.search(done.stderr):
            break
        time.sleep(pause)
    if done.rc != 0:
        said = done.problem or done.stderr.strip()[-600:] or f"it ended with status {done.rc}"
        host = relied.url.partition("://")[2].partition("/")[0]
        ours = [line for line in done.stderr.splitlines() if host in line and BAD_SIGNATURE.search(line)]
        if ours:
            raise Refused(f"apt does not trust its lists: {said} {BACK} [repository.key]")
        raise Refused(
            f"apt cannot read its package lists: {said} {BACK} Correct or remove the source that apt names. "
            "[repository.lists]"
        )
    places = ask_apt.read_places(run)
    answer, fetched = ask_apt.ask(run=run), ask_apt.ask(fetched=True, run=run)
    texts = apt_files.read_texts(places)
    refuse_differences(of_apt(relied, answer, fetched, texts, places), "apt", BACK)
