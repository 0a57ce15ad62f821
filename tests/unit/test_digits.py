"""What str.isdigit() calls a digit, int() may refuse: "²" is one. Text from outside then ends a program."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

REPOSITORY = Path(__file__).resolve().parents[2]
FOLDERS = ("plugins", "library", "trainer/gan_trainer", "tools", "deploy")
FILES = sorted(file for folder in FOLDERS for file in (REPOSITORY / folder).rglob("*.py"))


def asks(source: str) -> list[int]:
    """Lines that ask it."""
    found = (node for node in ast.walk(ast.parse(source)) if isinstance(node, ast.Attribute))
    return [node.lineno for node in found if node.attr == "isdigit"]


def test_numbers_are_told_by_what_int_accepts() -> None:
    assert len(FILES) > 400
    found = {str(file.relative_to(REPOSITORY)): asks(file.read_text()) for file in FILES}
    assert {file: lines for file, lines in found.items() if lines} == {}


@pytest.mark.parametrize(
    ("source", "lines"), [("a.isdigit()", [1]), ("\nall(map(str.isdigit, b))", [2]), ("a.isdecimal()", [])]
)
def test_each_form_of_the_question_is_seen(source: str, lines: list[int]) -> None:
    assert asks(source) == lines
