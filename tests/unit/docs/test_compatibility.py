"""docs/compatibility.md says what the matrix says."""

from __future__ import annotations

import re

from conftest import REPOSITORY
from module_files import load_file

compatibility = load_file("tools/compatibility.py")
first = load_file("tools/compatibility_cards.py")


def test_the_pages_are_what_the_matrix_says() -> None:
    matrix = compatibility.read_matrix()
    assert compatibility.TABLES.read_text() == compatibility.page(matrix), "run `make docs`"
    assert compatibility.PAGE.read_text() == compatibility.first(matrix), "run `make docs`"


def test_a_changed_row_is_drift() -> None:
    matrix = compatibility.read_matrix()
    matrix["drivers"]["580"]["eol"] = "2031-01"
    assert compatibility.TABLES.read_text() != compatibility.page(matrix)


def test_the_first_page_is_one_screen_with_a_row_for_each_system() -> None:
    lines = compatibility.PAGE.read_text().splitlines()
    assert len(lines) <= 45
    families = {(row["name"], row["version"].split(".")[0]) for row in compatibility.read_matrix()["os_releases"]}
    named = {"Rocky Linux": "Rocky", "AlmaLinux": "Alma"}
    for name, major in families:
        rows = [
            line for line in lines if line.startswith("| ") and named.get(name, name) in line and f" {major}" in line
        ]
        assert rows, (name, major)


def test_each_system_says_what_ran_and_how() -> None:
    said = {name: first.what_ran(name) for name in first.NAMES}
    assert all(said.values()), said
    assert (said["RHEL, Rocky, Alma 9"], said["Ubuntu 24.04"]) == ("stand-in of RHEL 9.2", "stand-in")
    assert said["Debian 12"] == "stand-in, real packages, real kernel"
    assert first.what_ran("Ubuntu 26.04") == ""


def test_a_cell_holds_for_every_card_of_its_architecture() -> None:
    """The cell is that of one card; every other one that stands for a compute capability has the same answer."""
    matrix = compatibility.read_matrix()
    for system in first.NAMES.values():
        answers: dict[str, set[str]] = {}
        for card in first.cards.examples():
            # The page says that these Kepler cards have no plan.
            if card.name not in ("Tesla K10", "Tesla K40m"):
                architecture = first.cards.chip_of(card).architecture
                answers.setdefault(architecture, set()).add(first.answer_in_short(matrix, card.name, system))
        assert {name for name, found in answers.items() if len(found) > 1} == set(), (system, answers)


def test_the_cards_that_people_have_are_those_of_the_matrix() -> None:
    matrix = compatibility.read_matrix()
    assert list(first.PEOPLE_HAVE) == list(matrix["architectures"])[::-1]
    for architecture, names in first.PEOPLE_HAVE.items():
        known = " ".join(
            name
            for chip in matrix["devices"].values()
            if chip["architecture"] == architecture
            for name in chip["cards"]
        )
        for name in re.split(", | and ", names):
            # A series ("GeForce RTX 40") is known by its cards ("GeForce RTX 4090").
            series = re.fullmatch(r"(?:GeForce )?(GTX|RTX) (\d\d?)(?:00)?", name)
            pattern = rf"{series[1]} {series[2]}\d\d" if series else rf"(?i)\b{name.split(' to ')[0]}"
            assert re.search(pattern, known), (architecture, name)


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


def test_a_system_whose_hosts_are_refused_at_first_says_so_in_its_cells() -> None:
    """The key of NVIDIA's repository for EL 10 is not known here, which nobody looks for below the table."""
    lines = compatibility.PAGE.read_text().splitlines()
    rows = {
        line.split(" | ")[0].strip("| "): line for line in lines if line.startswith("| ") and line.count(" | ") == 5
    }
    unknown = {
        row["name"] for row in compatibility.read_matrix()["os_families"].values()
        if row.get("cuda_repository", {}).get("key_url") and not row["cuda_repository"]["key_fingerprint"]
    }  # fmt: skip
    assert {name for name, line in rows.items() if "(key)" in line} == {"RHEL, Rocky, Alma 10"} and len(unknown) == 1
    (told,) = [line for line in lines if line.startswith("* **(key)**: ")]
    assert "`system_driver_repository_key_fingerprint`" in told
    readme = (REPOSITORY / "README.md").read_text()
    assert "10 needs NVIDIA's key first" in readme
