"""What is kept of a benchmark: a page, and the small JSON of medians that it is made from; no single values."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from conftest import REPOSITORY
from module_files import load_file

FOLDER = REPOSITORY / "docs/benchmarks"
KEPT = sorted(FOLDER.glob("*.json"))
# A pair is an interval; more numbers in a row are single values.
MOST_NUMBERS, MOST_BYTES = 2, 20_000


def series(value: Any, where: str = "") -> Iterator[str]:
    """Where lists of numbers, or of records alike, stand."""
    if isinstance(value, dict):
        for name, inner in value.items():
            yield from series(inner, f"{where}/{name}")
    elif isinstance(value, list):
        if len(value) > MOST_NUMBERS and all(isinstance(item, int | float) for item in value):
            yield where
        for number, inner in enumerate(value):
            yield from series(inner, f"{where}/{number}")


@pytest.mark.parametrize("file", KEPT, ids=lambda file: file.name)
def test_no_single_values_are_kept(file: Path) -> None:
    found = json.loads(file.read_text())
    assert list(series(found)) == [] and "values" not in found
    assert len(file.read_text()) <= MOST_BYTES


def test_the_page_of_the_launcher_is_made_from_its_json() -> None:
    page = load_file("tests/bench/runtime/page.py")
    assert page.write_page(json.loads((FOLDER / "runtime.json").read_text())) == (FOLDER / "runtime.md").read_text()
