"""Each outcome has a code in the source; test_checks_sad_paths.py has those that the rows of the checks end in."""

from __future__ import annotations

import ast
from pathlib import Path

import gpuwright
from gpuwright.verdict.check import unnamed
from test_checks_sad_paths import CODE

CHECKS = Path(gpuwright.__file__).parent / "checks"
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
    """A literal of that form, or a name whose value those rows show; never a sentence."""
    assert len(calls()) > 250
    for where, call in calls():
        codes = [node.value for node in ast.walk(call.args[0]) if isinstance(node, ast.Constant)]
        for code in codes:
            assert isinstance(code, str) and (CODE.fullmatch(code) or not code), f"{where}: {code!r}"


def test_what_cannot_be_named_is_counted():
    assert unnamed(2) == ("?", "?") and unnamed(0) == unnamed(-1) == ()
