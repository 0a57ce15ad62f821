# SPDX-License-Identifier: Apache-2.0
"""Other sources of the repositories that a run relies on, and whether dnf or apt can read their files at all."""

from typing import Any, Callable, Dict, List, Mapping, Optional, Sequence

from ..host.bounded import Finished, run_bounded
from ..host.files import exists
from ..packages.installed import missing_packages
from ..sources import apt_files, ask_apt, dnf_files
from ..sources.others import Other, apt_others, dnf_others, taken_texts, words
from ..sources.relied import Relied, relied_of
from ..takeover.configure import known
from .problem import Problem, problem

RunProgram = Callable[..., Finished]


def read_other_sources(
    rows: Sequence[Mapping[str, Any]],
    family: str,
    missing: Callable[..., Any] = missing_packages,
    run: RunProgram = run_bounded,
    root: str = "/",
) -> Dict[str, Any]:
    """`{others: [Other], refuses, refused, broken: [file and line that dnf skips]}`. OSError, ValueError.

    refuses, refused  apt's own words about its files once others are taken over, and now; "" where it reads them
    rows              those of the lookup `asked`; what a run neither has nor needs is left to whoever configured it
    """
    relied = [relied_of(row, family) for row in rows if _counts(row, family, missing, root)]
    if family == "redhat":
        files = dnf_files.read_files(root)
        others = dnf_others(relied, files, known(root))
        named = {other.entry.path for other in others}
        broken = [f"{file.path}, {file.problem}" for file in files if file.problem and file.path not in named]
        return {"others": others, "refuses": "", "refused": "", "broken": broken}
    places = ask_apt.read_places(run)
    texts = apt_files.read_texts(places, root)
    others = apt_others(relied, texts, places.architecture, known(root))
    changed: Dict[str, Optional[str]] = dict(taken_texts([one for one in others if not one.why], texts))
    # As they will be: two keys for one address are no obstacle once one of them is gone.
    refuses = ask_apt.rehearse(changed, places, run).problem
    return {"others": others, "refuses": refuses, "refused": ask_apt.ask(run=run).problem, "broken": []}


def _counts(row: Mapping[str, Any], family: str, missing: Callable[..., Any], root: str) -> bool:
    try:
        return bool(row["always"] or exists(root, relied_of(row, family).file) or missing(row["packages"], family))
    except OSError:
        return True


def other_source_problems(found: Mapping[str, Any]) -> List[Problem]:
    """A remark for what is taken over, and a problem for what cannot be."""
    rows = [_row(other) for other in found["others"]]
    if found["refuses"] and not any(row["stops"] for row in rows):
        text = "apt refuses its sources, so it could install nothing"
        step = "Mend or remove the source that apt names, until `apt-get indextargets` prints no error; then run again."
        rows.append(problem("repository.sources", text, found["refuses"], step))
    for place in found["broken"]:
        text = "dnf skips a file of repositories, which it cannot parse"
        rows.append(problem("repository.sources", text, place, "Mend that line, or remove the file.", stops=False))
    return rows


def _row(other: Other) -> Problem:
    relied: Relied = other.relied
    if other.why:
        text = f"Another source of the repository {relied.id} decides what is installed from it"
        return problem("repository.elsewhere", text, words(other), f"{other.step}; then run again.")
    text = f"Another source of the repository {relied.id} is taken over: it is put into comments"
    seen = f"{other.entry.place} names it, beside {relied.file}"
    step = "Nothing: playbooks/uninstall.yml brings it back."
    return problem("repository.elsewhere", text, seen, step, stops=False)
