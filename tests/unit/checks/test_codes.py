"""Each outcome has a code that programs may ask, and names what it is about: nobody needs to read its words."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import gpuwright
import pytest
from gpuwright.checks.waivers.acknowledgements import cards_in
from gpuwright.verdict.check import FAIL, WARN, unnamed
from test_checks_sad_paths import CASES, judged_row

CODE = re.compile(r"[a-z0-9]+(?:-[a-z0-9]+)*")
CHECKS = Path(gpuwright.__file__).parent / "checks"
CODES = Path(__file__).parent / "codes.txt"
MAKERS = ("warned", "failed", "unknown", "skipped")


def calls() -> list[tuple[str, ast.Call]]:
    found = []
    for path in sorted(CHECKS.rglob("*.py")):
        tree = ast.parse(path.read_text(encoding="utf-8"))
        found += [
            (f"{path.relative_to(CHECKS)}:{node.lineno}", node)
            for node in ast.walk(tree)
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in MAKERS
        ]
    return found


def test_every_outcome_that_is_not_a_pass_has_a_code():
    """A literal of that form, or a name whose value the rows of the checks show below; never a sentence."""
    assert len(calls()) > 250
    for where, call in calls():
        codes = [node.value for node in ast.walk(call.args[0]) if isinstance(node, ast.Constant)]
        for code in codes:
            assert isinstance(code, str) and (CODE.fullmatch(code) or not code), f"{where}: {code!r}"


@pytest.mark.parametrize(("check_id", "changes", "asked"), [row[:3] for row in CASES])
def test_codes_and_items_of_what_is_found(check_id, changes, asked):
    record = judged_row(check_id, changes, asked)
    assert CODE.fullmatch(record["code"]), record
    assert all(isinstance(item, str) and item for item in record["items"]), record
    if record["status"] in (FAIL, WARN) and record["id"].startswith(("gpu.", "driver.", "kernel.")):
        named = {card for item in record["items"] for card in cards_in(item)}
        assert set(cards_in(record["message"])) <= named, record


def test_what_cannot_be_named_is_counted():
    assert unnamed(2) == ("?", "?") and unnamed(0) == unnamed(-1) == ()


def test_no_code_is_renamed():
    """codes.txt has those that the rows of the checks end in: programs rely on them. A new one is added to it."""
    known = dict(line.split(": ") for line in CODES.read_text(encoding="utf-8").splitlines())
    seen: dict[str, set[str]] = {}
    for check_id, changes, asked, *_ in CASES:
        seen.setdefault(check_id, set()).add(judged_row(check_id, changes, asked)["code"])
    assert {name: " ".join(sorted(codes)) for name, codes in seen.items()} == known
