# SPDX-License-Identifier: Apache-2.0
"""What apt itself makes of all its sources: asked of the files as they are, or as they would be."""

import os
import re
import shlex
import shutil
import tempfile
from typing import Any, Callable, Dict, List, Mapping, NamedTuple, Optional, Tuple

from ..host.bounded import Finished, run_bounded
from .apt_files import Places, address_of, read_texts

SECONDS = 60
RunProgram = Callable[..., Finished]
PLACES = ("list", "Dir::Etc::sourcelist/f", "parts", "Dir::Etc::sourceparts/d", "arch", "APT::Architecture")
# An index that was not fetched yet is listed, too.
UNFETCHED = "--no-release-info"
FORMAT = "$(SOURCESENTRY)|$(REPO_URI)|$(RELEASE)"
FETCHED = "$(SOURCESENTRY)|$(REPO_URI)|$(RELEASE)|$(TRUSTED)"
ENTRY = re.compile(r"[^|]+:\d+\|")


class Target(NamedTuple):
    """An index that apt would read, or has read: its file, number of the line or stanza there, address, trust.

    trusted  "yes" or "no", as apt found the signature of what it fetched; "" where nothing was fetched
    """

    path: str
    number: int
    address: str
    trusted: str


class Answer(NamedTuple):
    """`problem`: apt's own words where it refuses its sources as a whole, "" where it reads them."""

    targets: Tuple[Target, ...]
    problem: str


def read_places(run: RunProgram = run_bounded) -> Places:
    """OSError."""
    done = run(["apt-config", "shell", *PLACES], SECONDS)
    found = dict(word.partition("=")[::2] for word in shlex.split(done.stdout)) if done.rc == 0 else {}
    if not {"list", "parts", "arch"} <= set(found):
        raise OSError(f"apt-config cannot say where apt's sources are: {done.problem or done.stderr.strip()[:300]}")
    return Places(found["list"], found["parts"].rstrip("/"), found["arch"])


def ask(options: Tuple[str, ...] = (), fetched: bool = False, run: RunProgram = run_bounded) -> Answer:
    """What apt makes of its sources, without a network. OSError if apt does not answer at all.

    fetched  only what it has fetched, with whether it trusts that
    """
    how = ["--format", FETCHED if fetched else FORMAT, *([] if fetched else [UNFETCHED])]
    done = run(["apt-get", *options, "indextargets", *how, "Created-By: Packages"], SECONDS)
    if done.rc is None:
        raise OSError(f"apt-get indextargets: {done.problem}")
    if done.rc != 0:
        lines = [line for line in done.stderr.splitlines() if line.startswith("E: ")]
        said = [line[3:] for line in lines if "list of sources could not be read" not in line]
        return Answer((), " ".join(dict.fromkeys(said)) or f"apt-get indextargets ended with status {done.rc}")
    return Answer(tuple(_targets(done.stdout)), "")


def _targets(text: str) -> List[Target]:
    found = []
    for line in text.splitlines():
        words = line.split("|")
        if not ENTRY.match(line) or len(words) < 3:
            continue
        path, _colon, number = words[0].rpartition(":")
        # A flat repository has no name of a release, or the folder that its suite is.
        address = address_of(words[1], words[2] or "/")
        trusted = words[3] if len(words) > 3 and words[3] in ("yes", "no") else ""
        found.append(Target(path, int(number), address, trusted))
    return found


def rehearse(changed: Mapping[str, Optional[str]], places: Places, run: RunProgram = run_bounded) -> Answer:
    """The same for the files as they would be with these texts; None is a file that would be gone. Changes nothing."""
    texts: Dict[str, Any] = dict(read_texts(places), **changed)
    folder = tempfile.mkdtemp(prefix="gpuwright-sources-")
    try:
        copies = {path: _copy(path, places, folder) for path in texts}
        os.mkdir(os.path.join(folder, "parts"))
        _write(os.path.join(folder, "sources.list"), "")
        for path, copy in copies.items():
            if texts[path] is not None:
                _write(copy, texts[path])
        options = ("-o", f"Dir::Etc::sourcelist={folder}/sources.list", "-o", f"Dir::Etc::sourceparts={folder}/parts/")
        answer = ask(options, run=run)
        back = {copy: path for path, copy in copies.items()}
        targets = tuple(target._replace(path=back.get(target.path, target.path)) for target in answer.targets)
        problem = answer.problem
        for copy, path in sorted(back.items(), key=lambda pair: -len(pair[0])):
            problem = problem.replace(copy, path)
        return Answer(targets, problem)
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _copy(path: str, places: Places, folder: str) -> str:
    return f"{folder}/sources.list" if path == places.list else f"{folder}/parts/{os.path.basename(path)}"


def _write(path: str, text: str) -> None:
    # Logins may be in addresses: the folder is root's alone.
    with open(path, "w", encoding="utf-8", errors="surrogateescape") as file:
        file.write(text)
