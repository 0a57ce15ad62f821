"""What `make interrupt-all` tried and how it ended, in one JSON file. It is of one commit, and a later call goes on."""

from __future__ import annotations

import fcntl
import json
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path

FILE = Path(__file__).with_name("results.json")


@dataclass(frozen=True)
class Result:
    """`interrupted`, `again`: exit status of the two runs.

    `outcome`: "equal", or "differs" with the first `differences`, "failed" where the plain run did not end with 0, or
    "unnoticed" where the interrupted run did, although the fault lets none end well: it did not strike.
    """

    point: str
    fault: str
    seed: int
    commit: str
    interrupted: int
    again: int
    outcome: str
    differences: tuple[str, ...]
    seconds: int


def read(file: Path = FILE) -> list[Result]:
    rows = json.loads(file.read_text()) if file.exists() else []
    return [Result(**{**row, "differences": tuple(row["differences"])}) for row in rows]


def add(result: Result, file: Path = FILE) -> None:
    """Put a result in the place of an earlier one of the same pair; several runs may do so at a time."""
    with alone(file):
        kept = [each for each in read(file) if (each.point, each.fault) != (result.point, result.fault)]
        write([*kept, result], file)


def keep_only(commit: str, file: Path = FILE) -> int:
    """Remove results of other commits; how many there were."""
    with alone(file):
        rows = read(file)
        kept = [each for each in rows if each.commit == commit]
        if len(kept) < len(rows):
            write(kept, file)
    return len(rows) - len(kept)


@contextmanager
def alone(file: Path) -> Iterator[None]:
    with file.with_suffix(".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def write(results: Iterable[Result], file: Path) -> None:
    rows = [asdict(each) for each in sorted(results, key=lambda each: (each.point, each.fault))]
    temporary = file.with_suffix(".new")
    temporary.write_text("[\n" + ",\n".join(json.dumps(row) for row in rows) + "\n]\n")
    temporary.replace(file)
