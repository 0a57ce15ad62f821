"""What is kept of a benchmark: a page, and the small JSON of medians that it is made from; no single values."""

from __future__ import annotations

import ast
import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from conftest import REPOSITORY
from module_files import load_file

FOLDER = REPOSITORY / "docs/benchmarks"
KEPT = sorted(FOLDER.glob("*.json"))
# A pair is an interval; more numbers in a row are single values. The largest has 1 and 10 hosts in four ways.
MOST_NUMBERS, MOST_BYTES = 2, 30_000
# Who writes the pages that are a text with figures put in. Those of launcher, trainer and converge have code of their
# own, and tests of their own here, in trainer/tests/bench, in tests/unit/fleet and in tests/unit/plan.
TEXTS = {
    "plan": "tests/bench/plan_on_controller.py",
    "page": "tests/bench/page_speed.py",
    "plan-answers": "tests/bench/plan_time.py",
}
OWN_CODE = {"runtime", "trainer", "converge", "plan-truth"}
# Counts right answers, which have no interval.
COUNTED = {"plan-truth"}
# Has no JSON until there is a run on a GPU (tests/unit/gpu_evidence).
OF_A_GPU = {"gpu"}
# What is said of two arms: one of four words, and the interval that it follows from.
VERDICT = re.compile(
    r"(faster than|slower than|equal within 5% to|inconclusive beside) .+ "
    r"\(\d+\.\d+x, 95 % interval (?P<low>\d+\.\d+) to (?P<high>\d+\.\d+|\?)\)"
)
# Looser words for the same.
LOOSE = re.compile(
    r"\b(not? (slower|faster)|as fast as|at least as|never worse|on a par|comparable|roughly|nearly)\b",
    re.IGNORECASE,
)


ENDS = (-0.005, 0.0, 0.005)


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


def text_of(program: str) -> str:
    """The literal TEXT of a program; importing it would import half of the tests."""
    for node in ast.parse((REPOSITORY / program).read_text()).body:
        if isinstance(node, ast.Assign) and [getattr(target, "id", "") for target in node.targets] == ["TEXT"]:
            return str(ast.literal_eval(node.value))
    raise ValueError(f"{program} has no TEXT")


def test_every_page_is_made_from_its_json_by_one_of_them() -> None:
    pages = {file.stem for file in FOLDER.glob("*.md")}
    assert pages == {*TEXTS, *OWN_CODE, *OF_A_GPU} and {file.stem for file in KEPT} | OF_A_GPU == pages


@pytest.mark.parametrize(("name", "program"), TEXTS.items())
def test_figures_of_a_page_are_those_of_its_json(name: str, program: str) -> None:
    found = json.loads((FOLDER / f"{name}.json").read_text())
    assert text_of(program).format(**found) == (FOLDER / f"{name}.md").read_text()


@pytest.mark.parametrize("page", sorted(FOLDER.glob("*.md")), ids=lambda page: page.name)
def test_verdicts_are_one_of_four_words_with_an_interval_that_bears_them_out(page: Path) -> None:
    text = page.read_text()
    assert not LOOSE.search(text), LOOSE.search(text)
    found = list(VERDICT.finditer(text))
    # The other pages compare nothing that has an interval, nor does converge where its steps ran only once or twice.
    file = page.with_suffix(".json")
    kept = json.loads(file.read_text()) if file.exists() else {}
    compares = page.stem in OWN_CODE - COUNTED and (page.stem != "converge" or bool(kept["hosts 1"]["verdicts"]))
    assert bool(found) == compares
    for verdict in found:
        high = float("inf") if verdict["high"] == "?" else float(verdict["high"])
        # Ends are rounded to two places, so one may stand on the limit itself.
        allowed = {runtime_page().word_of(float(verdict["low"]) + low, high + up) for low in ENDS for up in ENDS}
        assert verdict[1] in allowed, verdict[0]
    # A word without its interval is none.
    told = text.replace("Faster and slower", "")
    assert len(re.findall(r"faster than|slower than|equal within|inconclusive beside", told)) == len(found)


@pytest.mark.parametrize(
    "told", ["gpu-run is not slower than bare", "as fast as numactl", "at least as fast", "Roughly equal"]
)
def test_looser_words_are_found(told: str) -> None:
    assert LOOSE.search(told)


def runtime_page() -> Any:
    return load_file("tests/bench/runtime/page.py")


def test_figures_of_the_launchers_own_page_are_those_of_its_json() -> None:
    page, text = runtime_page(), (REPOSITORY / "docs/runtime.md").read_text()
    assert page.with_measured(text, json.loads((FOLDER / "runtime.json").read_text())) == text
    assert text.count(page.MEASURED) == 1


@pytest.mark.parametrize(
    ("low", "high", "word"),
    [
        (1.01, 1.4, "faster than"),
        (0.7, 0.99, "slower than"),
        (0.95, 1.05, "equal within 5% to"),
        (0.66, 1.10, "inconclusive beside"),
        (0.94, 1.02, "inconclusive beside"),
        (0.99, 1.06, "inconclusive beside"),
    ],
)
def test_words_follow_from_both_ends_of_the_interval(low: float, high: float, word: str) -> None:
    assert runtime_page().word_of(low, high) == word


def test_the_page_of_the_launcher_is_made_from_its_json() -> None:
    page = runtime_page()
    assert page.write_page(json.loads((FOLDER / "runtime.json").read_text())) == (FOLDER / "runtime.md").read_text()
