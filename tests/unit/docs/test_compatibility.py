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


def test_a_key_whose_fingerprint_is_not_known_says_so_in_its_cell() -> None:
    """What is known of it, and what an administrator has to set before preflight lets such a host pass."""
    families = compatibility.read_matrix()["os_families"]
    cells = {name: compatibility.repository(family)[6] for name, family in families.items()}
    unknown = {name for name, family in families.items() if not family["cuda_repository"]["key_fingerprint"]}
    assert unknown == {"el10"}
    setting = "`system_driver_repository_key_fingerprint`"
    told = f"not known here, only its short id CDF6BA43: hosts are refused until {setting} gives it"
    assert cells.pop("el10") == told
    assert all(len(cell) == 40 for cell in cells.values())
