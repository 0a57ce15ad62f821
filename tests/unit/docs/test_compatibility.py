"""docs/compatibility.md says what the matrix says."""

from __future__ import annotations

import importlib.util

from conftest import REPOSITORY

_spec = importlib.util.spec_from_file_location("compatibility", REPOSITORY / "tools/compatibility.py")
compatibility = importlib.util.module_from_spec(_spec)
_spec.loader.exec_module(compatibility)


def test_the_page_is_what_the_matrix_says() -> None:
    assert compatibility.PAGE.read_text() == compatibility.page(compatibility.read_matrix()), "run `make docs`"


def test_a_changed_row_is_drift() -> None:
    matrix = compatibility.read_matrix()
    matrix["drivers"]["580"]["eol"] = "2031-01"
    assert compatibility.PAGE.read_text() != compatibility.page(matrix)
