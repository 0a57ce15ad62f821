# SPDX-License-Identifier: Apache-2.0
"""Other sources of a repository that the toolkit relies on: which are taken over, which are only named, and the edits.

A source that is taken over is put into comments, in its file: whoever looks there sees what it was and where it went.
One that a tool writes again and again is not touched, nor is one that an uninstallation could not put back.
"""

import hashlib
import json
import re
from typing import Callable, Collection, Dict, List, Mapping, NamedTuple, Sequence, Set

from . import apt_files, dnf_files
from .relied import Entry, Relied, is_address, is_relied, is_written

MARK = "# "
NOTE = "# gpuwright has taken this source over: {id} is in {file}. playbooks/uninstall.yml brings it back."
# In a comment of a file that a tool keeps as it is; cloud-init, which writes once for an instance, is none of them.
TOOL = re.compile(
    r"^\s*[#;].*\b(managed by|do not edit|puppet|chef|salt(stack)?|cfengine|ansible.managed|subscription-manager)\b.*",
    re.IGNORECASE | re.MULTILINE,
)
URIS = re.compile(r"uris\s*:", re.IGNORECASE)

# function(path): why the node's first record could not bring this file back, "" if it can.
Irreplaceable = Callable[[str], str]


class Other(NamedTuple):
    """A source beside ours. `why` it cannot be taken over, "" if it can; `step` is what to do about it."""

    relied: Relied
    entry: Entry
    why: str
    step: str


class Known(NamedTuple):
    """What is known of the node beside its files.

    taken  digests of entries that were taken over before, by path         irreplaceable  as above
    """

    taken: Mapping[str, Collection[str]]
    irreplaceable: Irreplaceable


def dnf_others(relied: Sequence[Relied], files: Sequence[dnf_files.File], known: Known) -> List[Other]:
    """In dnf's order. What we have written is none of them."""
    found = []
    for file in files:
        for one in relied:
            mine = [entry for entry in file.entries if is_relied(entry, one)]
            if file.problem and (mine or file.path == one.file or _names(file.text, one)):
                entry = Entry(file.path, _number(file.problem), 0, "", (), True, {})
                found.append(Other(one, entry, f"dnf cannot parse it: {file.problem}", "Mend that line"))
                continue
            found += [_other(one, entry, file.text, known) for entry in mine if not is_written(entry, one)]
    return found


def apt_others(relied: Sequence[Relied], texts: Mapping[str, str], architecture: str, known: Known) -> List[Other]:
    """In apt's order. What we have written is none of them."""
    found = []
    for path, text in texts.items():
        for entry in apt_files.parse(path, text, architecture):
            for one in relied:
                if is_relied(entry, one) and not is_written(entry, one):
                    found.append(_other(one, entry, text, known))
    return found


def _number(problem: str) -> int:
    match = re.match(r"line (\d+)", problem)
    return int(match.group(1)) if match else 1


def _names(text: str, one: Relied) -> bool:
    """Whether a text that cannot be parsed is about this repository, as far as one can see."""
    addresses = [url.partition("://")[2].rstrip("/") for url in (one.url, one.also) if url]
    return f"[{one.id}]" in text or any(address in text for address in addresses)


def _other(one: Relied, entry: Entry, text: str, known: Known) -> Other:
    tool = TOOL.search(text)
    lost = known.irreplaceable(entry.path)
    if digest_of(entry) in known.taken.get(entry.path, ()):
        why = "it was taken over before and has come back, so something writes it again"
        step = "Find what writes it (configuration management, a package, cloud-init), and have that leave it out"
    elif tool:
        why = f"a tool keeps that file as it is ({tool.group().strip()[:80]!r})"
        step = "Have that tool leave it out, or let it write what gpuwright does"
    elif lost:
        why, step = f"an uninstallation could not bring it back ({lost})", "Remove it from that file"
    elif _partly(one, entry):
        why, step = "it is one stanza with other suites of the same address", "Give each suite a stanza of its own"
    else:
        return Other(one, entry, "", "")
    return Other(one, entry, why, step)


def _partly(one: Relied, entry: Entry) -> bool:
    """Whether one URI of a stanza is this repository with one of the suites, and another one with another."""
    if entry.id or "suites" not in entry.values:
        return False
    suites = len(entry.values["suites"].split())
    rows = [entry.addresses[start : start + suites] for start in range(0, len(entry.addresses), suites)]
    return any(0 < sum(is_address(address, one) for address in row) < suites for row in rows)


def digest_of(entry: Entry) -> str:
    """The same for the same source, wherever in its file it stands."""
    record = json.dumps([entry.id, entry.values], sort_keys=True)
    return hashlib.sha256(record.encode("utf-8", "surrogateescape")).hexdigest()[:16]


def without(text: str, others: Sequence[Other], architecture: str = "") -> str:
    """The text of one file with these sources in comments; all other lines stay."""
    lines = text.splitlines(True)
    if lines and not lines[-1].endswith("\n"):
        lines[-1] += "\n"
    done: Set[int] = set()
    for other in sorted(others, key=lambda other: other.entry.line, reverse=True):
        entry = other.entry
        if entry.line in done:
            # Two of our repositories in one source, as two sections of one address.
            continue
        done.add(entry.line)
        note = NOTE.format(id=other.relied.id, file=other.relied.file) + "\n"
        stanza = lines[entry.line - 1 : entry.last]
        kept = _kept_uris(entry, [one.relied for one in others if one.entry.line == entry.line], architecture)
        if kept:
            stanza = _with_uris(stanza, kept)
        else:
            stanza = [MARK + line if line.strip() and not line.startswith("#") else line for line in stanza]
        lines[entry.line - 1 : entry.last] = [note, *stanza]
    return "".join(lines)


def _kept_uris(entry: Entry, relied: Sequence[Relied], architecture: str) -> List[str]:
    """URIs of a stanza that are other places than these repositories; none for a source that goes as a whole."""
    if entry.id or not entry.path.endswith(".sources"):
        return []
    suite = entry.values["suites"].split()[0]
    kept = []
    for uri in entry.values["uris"].split():
        address = apt_files.address_of(uri, suite, architecture)
        if not any(is_address(address, one) for one in relied):
            kept.append(uri)
    return kept


def _with_uris(stanza: Sequence[str], uris: Sequence[str]) -> List[str]:
    """The stanza with these URIs alone; what it had is a comment above."""
    lines, inside = [], False
    for line in stanza:
        if URIS.match(line):
            inside = True
            lines += [f"URIs: {' '.join(uris)}\n", MARK + line]
        elif inside and line[:1] in (" ", "\t"):
            lines.append(MARK + line)
        else:
            inside = inside and line.startswith("#")
            lines.append(line)
    return lines


def refused(others: Sequence[Other]) -> List[Other]:
    return [other for other in others if other.why]


def words(other: Other) -> str:
    """For a message: file, line, and which repository it is."""
    return f"{other.entry.place} names {other.relied.id} ({other.relied.url}), and {other.why}. {other.step}."


def taken_texts(others: Sequence[Other], texts: Mapping[str, str], architecture: str = "") -> Dict[str, str]:
    """`{path: text}` of the files whose sources are taken over."""
    found = {}
    for path in {other.entry.path for other in others}:
        found[path] = without(texts[path], [one for one in others if one.entry.path == path], architecture)
    return found
