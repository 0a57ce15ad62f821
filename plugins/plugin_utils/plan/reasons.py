# SPDX-License-Identifier: Apache-2.0
"""Why the plan is as it is: one sentence for each choice, and what its owner should know beforehand."""

from __future__ import annotations

import collections
import datetime
from collections.abc import Iterable
from typing import Any

from ansible_collections.gpuwright.node.plugins.module_utils.host.versions import major

from .candidates import KINDS, Candidate, Fact, as_sentence, has_ended, short_support
from .risks.compilers import ONLY
from .risks.holes import archive_holes
from .risks.neighbours import release_of, why_later, why_not
from .search import Problem

# After this many days, which is two releases of PyTorch, there is a warning about the matrix.
OLD_MATRIX_DAYS = 180
# Tables of the matrix (about.yml) in which more is published all the time, by what a plan takes from them.
TABLES = {
    "driver": ("drivers", "released", "bulletins", "architectures", "build_limits", "kernel_flavours"),
    "cuda": ("cuda", "cuda_majors"),
    "cudnn": ("cudnn",),
    "nccl": ("nccl",),
    "python": (),
    "pytorch": ("pytorch", "pytorch_builds", "pytorch_index", "wheel_holes"),
    "tensorflow": ("tensorflow", "wheel_holes"),
    "os": ("os_families", "os_releases", "devices", "card_naming", "platforms"),
}


def choice_reason(problem: Problem, facts: list[Fact], answer: dict[str, Candidate], kind: str, today: str = "") -> str:
    """One sentence: what was chosen, by whom, and why nothing better. `today` as in find_warnings."""
    chosen = answer[kind]
    pins = [fact.origin for fact in facts if fact.kind == "pin" and fact.name in chosen.pins]
    pins = list(collections.OrderedDict.fromkeys(pins))
    parts = [f"pinned by {' and '.join(pins)}" if pins else "", _remark(chosen, max(problem.as_of, today))]
    ranked = problem.best_first(problem.pinned(kind, facts), answer)
    if ranked[0] is not chosen:
        parts.append(why_not(problem, facts, answer, ranked[0]))
    newest = max((other for other in ranked if not why_not(problem, facts, answer, other)), key=release_of)
    if release_of(newest) > release_of(chosen):
        parts.append(why_later(newest, problem.as_of, problem.margin))
    said = "; ".join(part for part in parts if part) or "nothing newer fits"
    return f"{as_sentence(chosen.label)}: {said}"


def _remark(chosen: Candidate, as_of: str) -> str:
    if chosen.kind in ("driver", "python") and chosen.row["eol"]:
        # Whether somebody else goes on with it, as Debian does with a branch, is said by its warning.
        maker = "NVIDIA's " if chosen.kind == "driver" else ""
        ended = f"{maker}updates ended in"
        return f"{ended if has_ended(chosen.row, as_of) else 'updates until'} {chosen.row['eol']}"
    if chosen.kind == "pytorch":
        return "served by PyPI" if chosen.row["index"] == "pypi" else "from the PyTorch index"
    return ""


def find_warnings(
    matrix: dict[str, Any], today: str, release: dict[str, Any], family: dict[str, Any], answer: dict[str, Candidate]
) -> list[str]:
    """Sentences on what is old, was never verified, or works only with limits.

    today            YYYY-MM-DD, "" if not given
    release, family  rows of the matrix: the host's release, and the family that names its packages
    """
    title = "{name} {version}".format(**release)
    found = age_warnings(matrix, today, answer)
    # What ends after the day of the matrix has ended all the same; only what is chosen goes by that day.
    as_of = max(matrix["as_of"], today)
    found += _row_warnings(title, release, as_of)
    found += _row_warnings("What is known of packages for " + family["name"], family, as_of)
    for candidate in answer.values():
        found += _row_warnings(as_sentence(candidate.label), candidate.row, as_of)
    if "driver" in answer:
        found += archive_holes(matrix, answer["driver"], as_of)
    if "driver" in answer:
        found += _support_warnings(answer["driver"], as_of, matrix["support_margin_months"])
        remark = family["driver_packages"][answer["driver"].row["packages"]]["remark"]
        found += [as_sentence(remark)] if remark else []
        if not family.get("streams", True) and not family.get("site_driver"):
            text = "Dnf has no module streams there: only a version lock keeps dnf to branch {}"
            found.append(text.format(answer["driver"].pins["driver_branch"]))
        if not family["distribution"] and not family["cuda_repository"]["key_fingerprint"]:
            text = "No fingerprint of {key_url} is known here: system_driver_repository_key_fingerprint must give it"
            found.append(text.format(**family["cuda_repository"]))
        if "cuda" in answer:
            found += _cuda_warnings(answer["driver"], answer["cuda"], answer["pytorch"])
        else:
            text = (
                "No toolkit is planned: the wheels bring their own CUDA, and extensions with CUDA code need a toolkit"
            )
            found.append(text)
    if "tensorflow" in answer:
        found += _tensorflow_warnings(answer["pytorch"], answer["tensorflow"])
    return found


def age_warnings(matrix: dict[str, Any], today: str, kinds: Iterable[str] = KINDS) -> list[str]:
    """Sentences on the age of the matrix and of those tables that an answer with these parts rests on.

    A refusal rests on those of all parts: what it calls impossible may have been published since.
    """
    return _matrix_warnings(matrix["as_of"], today) + _table_warnings(matrix.get("tables", {}), today, kinds)


def _matrix_warnings(as_of: str, today: str) -> list[str]:
    if not today:
        return []
    days = _days(as_of, today)
    text = (
        "The matrix of versions is {} days old (as of {}): install a newer gpuwright; this one knows "
        "nothing released since then"
    )
    return [text.format(days, as_of)] if days > OLD_MATRIX_DAYS else []


def _table_warnings(tables: dict[str, Any], today: str, kinds: Iterable[str]) -> list[str]:
    """One sentence on those tables of the matrix that this answer rests on and that are old."""
    if not today:
        return []
    used = dict.fromkeys(name for kind in (*kinds, "os") for name in TABLES[kind])
    ages = [(name, tables[name]["as_of"], tables[name]["limit_days"]) for name in used if name in tables]
    old = [f"{name} (as of {as_of}, limit {limit} days)" for name, as_of, limit in ages if _days(as_of, today) > limit]
    text = "Not compared with its sources for long: {}; what was published since then is not known here"
    return [text.format(", ".join(old))] if old else []


def _days(as_of: str, today: str) -> int:
    return (_day(today) - _day(as_of)).days


def _day(text: str) -> datetime.date:
    return datetime.date(*(int(part) for part in text.split("-")))


def _row_warnings(label: str, row: dict[str, Any], as_of: str) -> list[str]:
    found = []
    if "eol" in row and has_ended(row, as_of):
        # Without the paid extension, updates ended even earlier.
        which = " " + row["eol_of"] if row.get("eol_of") else ""
        since = " since " + row["eol"] if row["eol"] else " for long"
        place = row.get("place", {})
        if place.get("family"):
            # That NVIDIA has ended a branch says nothing about who else goes on with it.
            known = {False: f"and {place['title']} stays at {place.get('version')}"}
            other = f"and whether {place['title']} goes on with it is not known here"
            since = f" from NVIDIA{since}, {known.get(place.get('maintained'), other)}"
        found.append(f"{label} has had no updates{since}{which}")
    doubt = "" if row["verified"] else row.get("doubt", row["unverified"])
    if doubt:
        found.append(f"{label} relies on something that was not verified: {doubt}")
    return found


def _support_warnings(driver: Candidate, as_of: str, margin: int) -> list[str]:
    short = "" if has_ended(driver.row, as_of) else short_support(driver.row, as_of, margin)
    return [f"{as_sentence(driver.label)} {short}"] if short else []


def _cuda_warnings(driver: Candidate, cuda: Candidate, pytorch: Candidate) -> list[str]:
    found = []
    branch = driver.pins["driver_branch"]
    if int(major(cuda.row["matching_driver"])) > int(branch):
        text = "{} came with driver {}: on {} it runs, but PTX code is not compiled at run time"
        found.append(text.format(cuda.label, cuda.row["matching_driver"], branch))
    inside = pytorch.row["cuda"]
    if inside and major(inside) != major(cuda.pins["cuda"]):
        text = "{} {} was built with CUDA {}: they cannot be compiled with toolkit {}"
        found.append(text.format(ONLY, pytorch.label, inside, cuda.pins["cuda"]))
    return found


def _tensorflow_warnings(pytorch: Candidate, tensorflow: Candidate) -> list[str]:
    inside = pytorch.row["cuda"]
    if tensorflow.row["from_pip"] or not inside or major(inside) != major(tensorflow.row["cuda"]):
        return []
    text = "{} loads the node's cuDNN and {} its own of the same name: import only one of them in a process"
    return [text.format(tensorflow.label, pytorch.label)]
