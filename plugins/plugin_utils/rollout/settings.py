# SPDX-License-Identifier: Apache-2.0
"""What a rollout was asked for on the command line, and what is wrong with it: each problem is one sentence."""

from __future__ import annotations

import dataclasses
import difflib
import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

NAME, AGAIN = "gpuwright_rollout", "gpuwright_rollout_again"
BATCHES, DOWN = "gpuwright_batches", "gpuwright_down_at_once"
BREAKER, TIMEOUT = "gpuwright_breaker_percent", "gpuwright_step_timeout"
KNOWN = (NAME, AGAIN, BATCHES, DOWN, BREAKER, TIMEOUT)
DEFAULT_BATCHES = (1, "10%", "50%", "100%")
DEFAULT_BREAKER = 10
# The name is part of a file's name.
FILE_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,63}")
PERCENT = re.compile(r"([0-9]{1,3})%")
# Tags that let a host be verified.
VERIFYING = {"all", "tagged", "verify"}
CLOSE = 0.85


@dataclasses.dataclass(frozen=True)
class Settings:
    """`batches` as serial: has them; `down` 0 is no limit; `breaker` is a percentage from 0 to 100.

    canaries  whether no other batch begins where a host of the first one does not come through
    """

    name: str = "default"
    batches: tuple[int | str, ...] = DEFAULT_BATCHES
    down: int = 0
    breaker: int = DEFAULT_BREAKER
    again: bool = False
    canaries: bool = True


def problems(
    extra: Mapping[str, Any], run_tags: Iterable[str], skip_tags: Iterable[str], whole: bool = False
) -> list[str]:
    """Sentences with an id each; empty if the rollout may start.

    extra  the extra variables of the command line      run_tags, skip_tags  as --tags and --skip-tags name them
    whole  whether all steps of the play belong together, so that no tags may choose among them
    """
    found = [*_misspelt(extra), *_of_name(extra.get(NAME, "default"))]
    found += [f"{text} [rollout.batches]" for text in batch_problems(extra.get(BATCHES, DEFAULT_BATCHES))]
    for name, least, most, unit in ((DOWN, 0, None, "hosts"), (BREAKER, 0, 100, "percent"), (TIMEOUT, 1, None, "s")):
        if name in extra and not _whole(extra[name], least, most):
            span = f"from {least} to {most}" if most is not None else f"of {least} or more"
            found.append(f"{name} is {extra[name]!r}, expected a whole number {span} ({unit}) [rollout.number]")
    if AGAIN in extra and _truth(extra[AGAIN]) is None:
        found.append(f"{AGAIN} is {extra[AGAIN]!r}, expected true or false [rollout.number]")
    tags, skipped = set(run_tags) or {"all"}, set(skip_tags)
    if not tags & VERIFYING or skipped & VERIFYING:
        found.append(
            "a rollout goes on only after a batch has been verified, and these tags leave that out: add verify to "
            "--tags, or take it out of --skip-tags [rollout.tags]"
        )
    elif whole and (tags != {"all"} or skipped):
        found.append(
            "the steps of this playbook belong together, and it takes no --tags and no --skip-tags: leave them out "
            "[rollout.tags]"
        )
    return found


def misplaced(extra: Mapping[str, Any], hosts: Mapping[str, Mapping[str, Any]]) -> list[str]:
    """Variables of the run that the inventory has, where they would be ignored without a word."""
    names = sorted({name for own in hosts.values() for name in KNOWN if name in own} - set(map(str, extra)))
    return [
        f"{name} is set in the inventory, where it has no effect: give it on the command line with -e "
        "[rollout.variable]"
        for name in names
    ]


def settings(extra: Mapping[str, Any], name: str = "default", again: bool = False) -> Settings:
    """Of extra variables without problems; `name` and `again` are those of the play where nothing else is asked for."""
    batches = extra.get(BATCHES, DEFAULT_BATCHES)
    return Settings(
        name=str(extra.get(NAME, name)),
        batches=tuple(_entry(one) for one in (batches if isinstance(batches, (list, tuple)) else [batches])),
        down=int(extra.get(DOWN, 0)),
        breaker=int(extra.get(BREAKER, DEFAULT_BREAKER)),
        again=bool(_truth(extra.get(AGAIN, again))),
    )


def batch_problems(value: Any) -> list[str]:
    """One sentence if the list is no list of batches, with what was expected and an example."""
    entries: Sequence[Any] = value if isinstance(value, (list, tuple)) else [value]
    wrong = [one for one in entries if not _is_entry(one)]
    if entries and not wrong:
        return []
    what = f"{BATCHES} has {wrong[0]!r}" if wrong else f"{BATCHES} is empty"
    return [
        f"{what}, expected a list of whole numbers of 1 or more and of percentages from 1% to 100%, for example "
        f'-e \'{{"{BATCHES}": [1, "10%", "50%", "100%"]}}\''
    ]


def _entry(one: Any) -> int | str:
    return one if isinstance(one, str) and one.endswith("%") else int(one)


def _is_entry(one: Any) -> bool:
    percent = PERCENT.fullmatch(one) if isinstance(one, str) else None
    return 1 <= int(percent[1]) <= 100 if percent else _whole(one, 1, None)


def _whole(value: Any, least: int, most: int | None) -> bool:
    """`-e name=5` gives text, so digits count as a number; true and 5.0 do not."""
    if isinstance(value, bool) or not (
        isinstance(value, int) or (isinstance(value, str) and value.isascii() and value.isdecimal())
    ):
        return False
    return least <= int(value) and (most is None or int(value) <= most)


def _truth(value: Any) -> bool | None:
    words = {"true": True, "yes": True, "false": False, "no": False}
    return value if isinstance(value, bool) else words.get(str(value).lower())


def _of_name(name: Any) -> list[str]:
    if isinstance(name, str) and FILE_NAME.fullmatch(name):
        return []
    return [
        f"{NAME} is {name!r}, expected a name of at most 64 letters, digits, - _ and ., such as driver-580 "
        "[rollout.name]"
    ]


def _misspelt(extra: Mapping[str, Any]) -> list[str]:
    found = []
    for name in sorted(set(map(str, extra)) - set(KNOWN)):
        near = difflib.get_close_matches(name, KNOWN, 1, CLOSE)
        if near:
            found.append(f"unknown variable {name}, did you mean {near[0]}? [rollout.variable]")
    return found
