# SPDX-License-Identifier: Apache-2.0
"""The history of a node's cards: one small JSON file for each node in the folder of reports (docs/sweep.md).

A card is known by its serial number, or by its UUID where it has none or shares it. It takes its history along to
another node: of two files that have it, the one with the later row counts.
"""

from __future__ import annotations

import datetime
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

from ansible_collections.gpuwright.node.plugins.module_utils.host.written.aside import begin_anew
from ansible_collections.gpuwright.node.plugins.module_utils.host.written.state_file import (
    ANY,
    NAME,
    OTHERS,
    Damaged,
    read_state,
    write_state,
)

FOLDER = "history"
SCHEMA = 1
# Rows of a card: the first ones are what it was when it was new, and stay; of the others, the oldest goes.
FIRST_ROWS, MOST_ROWS = 5, 20
NUMBERS = {str: [(float, None)]}
PRODUCT = {"kind": str, "bits": {str: str}, "at": str}
# product: the last one that was right; now: that of the last sweep.
CARD = {
    "name": str, "place": str, "at": [str], "software": [str], "figures": NUMBERS, "counters": NUMBERS,
    "product": (PRODUCT, None), "now": (PRODUCT, None), OTHERS: ANY,
}  # fmt: skip
# While a node is under load: what it had before (sweep/load.py).
LOAD = {"boot": str, "uptime": float, "cards": {str: str}, OTHERS: ANY}
FINDING = {"id": str, "status": str, "text": str, "card": str}
FORM = {
    "schema": {SCHEMA}, "host": NAME, "tried": str, "swept": str, "verdict": str, "idle_since": str,
    "findings": [FINDING], "cards": {str: CARD}, "chosen?": str, "load?": (LOAD, None), OTHERS: ANY,
}  # fmt: skip
History = dict[str, Any]


class Row(NamedTuple):
    """What one sweep has measured of one card: figures are better the higher they are, counters the lower."""

    name: str
    place: str
    software: str
    figures: Mapping[str, float]
    counters: Mapping[str, float]


def empty(host: str) -> History:
    return {
        "schema": SCHEMA, "host": host, "tried": "", "swept": "", "verdict": "", "idle_since": "", "findings": [],
        "cards": {}, "chosen": "", "load": None,
    }  # fmt: skip


def path_of(folder: str | Path, host: str) -> Path:
    return Path(folder, FOLDER, f"{host}.json")


def read(folder: str | Path, host: str, begins: bool = False) -> tuple[History, str]:
    """The node's history, an empty one where there is none, and why it could not be read, "" if it could.

    begins  for a run that writes: a damaged history is set aside, and costs the history only
    """
    path = path_of(folder, host)
    try:
        found = read_state(str(path), FORM)
        for key, card in (found or {"cards": {}})["cards"].items():
            columns = [card["software"], *card["figures"].values(), *card["counters"].values()]
            if any(len(column) != len(card["at"]) for column in columns):
                raise Damaged(str(path), f"cards.{key}", "its columns differ in length")
        # The file's name says whose it is, and where it is written again.
        return {**empty(host), **(found or {}), "host": host}, ""
    except Damaged as error:
        # A later version's file is whole.
        if begins and error.place != "schema":
            return empty(host), f"{_begin_anew(path, error)} [sweep.history]"
        return empty(host), f"{error} [sweep.history]"
    except OSError as error:
        return empty(host), f"{path} cannot be read ({error.strerror or error}) [sweep.history]"


def _begin_anew(path: Path, error: Damaged) -> str:
    try:
        return begin_anew(str(path), error, "what the cards of this node have shown")
    except OSError as why:
        return f"{error}, and it cannot be set aside ({why})"


def read_all(
    folder: str | Path, begins: bool = False, part: Callable[[History], History] = lambda whole: whole
) -> tuple[dict[str, History], dict[str, str]]:
    """The histories of all nodes that have one, and what could not be read, both by node.

    part  what is kept of each in memory, for thousands of cards
    """
    found, problems = {}, {}
    try:
        names = sorted(path.stem for path in Path(folder, FOLDER).iterdir() if path.suffix == ".json")
    except FileNotFoundError:
        names = []
    for name in names:
        whole, problem = read(folder, name, begins)
        found[name] = part(whole)
        if problem:
            problems[name] = problem
    return found, problems


def cards_of(histories: Mapping[str, History]) -> dict[str, tuple[str, dict[str, Any]]]:
    """(node, card) by the card's key, each once: where its last row is the latest."""
    found: dict[str, tuple[str, dict[str, Any]]] = {}
    for host, history in histories.items():
        for key, card in history["cards"].items():
            if key not in found or card["at"][-1:] > found[key][1]["at"][-1:]:
                found[key] = (host, card)
    return found


def with_row(card: Mapping[str, Any] | None, row: Row, at: str) -> dict[str, Any]:
    """The card with one more row, and without the one that is too many."""
    old = card or {"at": [], "software": [], "figures": {}, "counters": {}, "product": None, "now": None}
    columns: dict[str, Any] = {"at": [*old["at"], at], "software": [*old["software"], row.software]}
    count = len(old["at"])
    for name in ("figures", "counters"):
        values: Mapping[str, float] = getattr(row, name)
        columns[name] = {
            key: [*old[name].get(key, [None] * count), values.get(key)] for key in sorted({*old[name], *values})
        }
    whole = {**columns, "name": row.name, "place": row.place, "product": old["product"], "now": old["now"]}
    return without(whole, FIRST_ROWS) if count + 1 > MOST_ROWS else whole


def without(card: dict[str, Any], place: int) -> dict[str, Any]:
    """The card without the row at this place; measures that no row has any more go, too."""

    def cut(column: list[Any]) -> list[Any]:
        return column[:place] + column[place + 1 :]

    shorter: dict[str, Any] = {name: cut(card[name]) for name in ("at", "software")}
    for name in ("figures", "counters"):
        columns = {key: cut(column) for key, column in card[name].items()}
        shorter[name] = {key: column for key, column in columns.items() if any(one is not None for one in column)}
    return {**card, **shorter}


def write(folder: str | Path, history: History) -> None:
    """Replace the node's history in one step, on the disk, too. OSError, `Damaged`."""
    path = path_of(folder, history["host"])
    path.parent.mkdir(parents=True, exist_ok=True, mode=0o755)
    write_state(str(path), history, FORM, 0o644, indent=None, folder=False)


def epoch(stamp: str) -> float:
    """Seconds of a time in the form of a report; 0 for one that cannot be read: long ago."""
    try:
        parsed = datetime.datetime.strptime(stamp, "%Y-%m-%dT%H:%M:%SZ")
    except ValueError:
        return 0.0
    return parsed.replace(tzinfo=datetime.timezone.utc).timestamp()
