"""What a part works with: its time, the interpreter with PyTorch, programs with deadlines, and a place for results."""

from __future__ import annotations

import json
import os
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from . import places

places.use_library()
from gpuwright.host.bounded import Finished, program_environment, run_bounded  # noqa: E402

RESULT = "RESULT "
LAST_WORDS, LAST_LINES = 400, 2
LEAST_S = 1.0


class Unable(Exception):
    """A part cannot do its work here; the text says why, in one sentence."""


class Context:
    """One part's view.

    device   "cuda", or "cpu" for a trial: the same code at small size, which says nothing about a GPU
    python   the interpreter with PyTorch, "" if there is none
    facts    what the part `machine` found, {} before
    found    records of earlier parts by name
    folder   for files that are kept
    """

    def __init__(self, job: dict[str, Any], descriptor: int) -> None:
        self.device, self.python = job["device"], job["python"]
        self.facts, self.found = job["facts"], job["found"]
        self.folder = Path(job["folder"])
        self.end = time.monotonic() + job["seconds"]
        self.descriptor = descriptor
        self.values: dict[str, Any] = {}
        self.work = Path(tempfile.mkdtemp(prefix="part-", dir=job["work"]))

    @property
    def trial(self) -> bool:
        return self.device != "cuda"

    def left(self, reserve: float = 0.0) -> float:
        """Seconds that remain of this part's share, less `reserve`, at least LEAST_S."""
        return max(LEAST_S, self.end - time.monotonic() - reserve)

    def keep(self, **values: Any) -> None:
        """Add to what this part has found. It counts from now on, whatever happens to the part."""
        self.values.update(values)
        line = json.dumps(self.values, default=str).encode() + b"\n"
        while line:
            line = line[os.write(self.descriptor, line) :]

    def table(self, title: str, head: list[str], rows: list[list[Any]]) -> None:
        """A table of the page; one of the same title is replaced."""
        self._add("tables", {"title": title, "head": head, "rows": [[in_words(cell) for cell in row] for row in rows]})

    def bars(self, title: str, unit: str, rows: list[dict[str, Any]]) -> None:
        """A plot of the page: rows {name, value} with `low` and `high` of the value's interval, and a `floor`."""
        self._add("bars", {"title": title, "unit": unit, "rows": [row for row in rows if row.get("value") is not None]})

    def lack(self, what: str) -> None:
        """Something that this part could not do; the rest of it goes on, and it counts as incomplete."""
        self.keep(lacks=[*self.values.get("lacks", []), what])

    def _add(self, kind: str, entry: dict[str, Any]) -> None:
        others = [other for other in self.values.get(kind, []) if other["title"] != entry["title"]]
        self.keep(**{kind: [*others, entry]})

    def say(self, *lines: str) -> None:
        """Sentences of the page."""
        self.keep(lines=[*self.values.get("lines", []), *lines])

    # -- programs

    def environment(self) -> dict[str, str]:
        """That of programs under the interpreter with PyTorch: the caller's, this checkout's trainer, no network."""
        pillow = bool(self.facts.get("torch", {}).get("modules", {}).get("PIL"))
        own = {"PYTHONPATH": places.torch_paths(pillow), "PYTHONDONTWRITEBYTECODE": "1", "PYTHONUNBUFFERED": "1"}
        offline = {"HF_HUB_OFFLINE": "1", "WANDB_MODE": "offline"}
        return {**program_environment(), **own, **offline}

    def run(self, command: list[str], seconds: float | None = None) -> Finished:
        """A program with this part's environment, for the rest of its share or fewer seconds."""
        most = self.left() if seconds is None else min(seconds, self.left())
        return run_bounded(command, most, environment=self.environment())

    def torch(self, script: str, *words: object, seconds: float | None = None) -> tuple[dict[str, Any], str]:
        """(the last record that a script of on_torch printed, why it is not whole or "")."""
        done = self.run([self.python, str(places.ON_TORCH / script), *map(str, words)], seconds)
        record = last_record(done.stdout)
        return record or {}, "" if record and done.rc == 0 else fault_of(done)

    def module(self, *words: str, seconds: float | None = None) -> tuple[dict[str, Any], str]:
        """(the record that one of the trainer's programs printed, why there is none or "")."""
        from gpuwright.training.trainer_run import read_record

        done = self.run([self.python, *words], seconds)
        record = read_record(done.stdout)
        return record or {}, "" if record else fault_of(done)


def last_record(text: str) -> dict[str, Any] | None:
    for line in reversed(text.splitlines()):
        if line.startswith(RESULT):
            try:
                record = json.loads(line[len(RESULT) :])
            except ValueError:
                continue
            return record if isinstance(record, dict) else None
    return None


def fault_of(done: Finished) -> str:
    """Why a program has no result, with its last words."""
    lines = [line for line in (done.stderr.strip() or done.stdout.strip()).splitlines() if not line.startswith(RESULT)]
    # The last line of a traceback, or of a program's complaint, says most.
    said = " ".join(" ".join(lines[-LAST_LINES:]).split())[-LAST_WORDS:]
    how = f"it was ended by signal {-done.rc}" if done.rc and done.rc < 0 else f"it ended with {done.rc}"
    why = done.problem or how
    return f"{why}: {said}" if said else why


def in_words(cell: Any) -> str:
    """A cell of a table."""
    if cell is None:
        return "-"
    if isinstance(cell, bool):
        return "yes" if cell else "no"
    return f"{cell:.4g}" if isinstance(cell, float) else str(cell)


def say_to_person(text: str) -> None:
    """A line for whoever watches; that nobody does is no reason to stop."""
    try:
        print(text, flush=True)
    except OSError:
        sys.stdout = Path(os.devnull).open("w")  # noqa: SIM115
