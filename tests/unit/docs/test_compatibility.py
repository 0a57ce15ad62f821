"""docs/compatibility.md says what the matrix says."""

from __future__ import annotations

from module_files import load_file

compatibility = load_file("tools/compatibility.py")


def test_the_page_is_what_the_matrix_says() -> None:
    assert compatibility.PAGE.read_text() == compatibility.page(compatibility.read_matrix()), "run `make docs`"


def test_a_changed_row_is_drift() -> None:
    matrix = compatibility.read_matrix()
    matrix["drivers"]["580"]["eol"] = "2031-01"
    assert compatibility.PAGE.read_text() != compatibility.page(matrix)
