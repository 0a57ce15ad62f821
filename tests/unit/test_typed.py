"""Every test is checked for types, in one run of mypy."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

from module_files import load_file

typed = load_file("tests/typed.py")


def test_every_file_is_in_one_run() -> None:
    seen = Counter(
        file
        for paths, _bases in typed.runs()
        for path in paths
        for file in (path.rglob("*.py") if path.is_dir() else [path])
    )
    # A link to the library, which has its own run.
    every = {file for file in typed.TESTS.rglob("*.py") if "node_library" not in file.parts}
    assert set(seen) == every and set(seen.values()) == {1}


def test_a_folder_with_a_conftest_has_a_run_of_its_own() -> None:
    folders = [paths[0] for paths, _bases in typed.runs() if paths[0].is_dir()]
    assert {file.parent for file in typed.TESTS.rglob("conftest.py")} <= set(folders)


def test_what_is_wrong_is_found(tmp_path: Path) -> None:
    (tmp_path / "conftest.py").write_text("NUMBER = 1\n")
    (tmp_path / "test_one.py").write_text(
        "from conftest import NUMBER\n\n\ndef test_one():\n    assert NUMBER.upper()\n"
    )
    assert not typed.check([tmp_path], [tmp_path])
    (tmp_path / "test_one.py").write_text("from conftest import NUMBER\n\n\ndef test_one():\n    assert NUMBER\n")
    assert typed.check([tmp_path], [tmp_path])
