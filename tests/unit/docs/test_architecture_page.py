"""docs/architecture.md is short, shows the code as it is, and leads to every page and every feature."""

from __future__ import annotations

import copy
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from conftest import REPOSITORY
from module_files import load_file

made = load_file("tools/architecture.py")
TEXT = made.PAGE.read_text()
MOST_LINES = 215


def section(name: str) -> str:
    return TEXT.partition(f"\n## {name}\n")[2].partition("\n## ")[0]


def test_the_pictures_and_tables_are_those_of_the_code() -> None:
    assert made.page(TEXT, made.graph(), made.plays()) == TEXT, "run: make docs"
    assert f"| {made.MISSING} |" not in TEXT


def test_an_order_a_package_a_role_or_a_playbook_more_is_drift() -> None:
    packages, plays = {name: set(used) for name, used in made.graph().items()}, made.plays()
    more = made.page(TEXT, {**packages, "launch": packages["launch"] | {"tuning"}}, plays)
    assert more.index("`launch` |") > more.index("`tuning` |") and TEXT.index("`launch` |") < TEXT.index("`tuning` |")
    new = made.page(TEXT, {**packages, "clocks": {"checks"}}, plays)
    assert "| `clocks` | ? |" in new and new.index("`clocks` |") > new.index("`checks` |")
    other = copy.deepcopy(plays)
    role = {"ansible.builtin.import_role": {"name": "gpuwright.node.model_server"}}
    other["model"][0]["tasks"][0]["block"].append(role)
    assert "<br/>model_trainer<br/>model_server" in made.page(TEXT, packages, other)
    del other["framework"]
    assert "system --> model" in made.page(TEXT, packages, other)


def test_packages_that_import_each_other_are_refused() -> None:
    with pytest.raises(ValueError, match="host, probe"):
        made.lowest_first({"host": {"probe"}, "probe": {"host"}, "gpu": set()}, ["host", "probe"])


def test_a_page_without_its_marks_is_refused() -> None:
    with pytest.raises(ValueError, match="end of flow"):
        made.page(TEXT.replace("<!-- end of flow -->", ""), made.graph(), made.plays())


def test_the_page_is_read_in_ten_minutes() -> None:
    assert len(TEXT.splitlines()) <= MOST_LINES


def test_the_page_leads_to_every_other_page() -> None:
    docs = made.PAGE.parent
    pages = {str(file.relative_to(docs)) for folder in (docs, docs / "parts") for file in folder.glob("*.md")}
    assert pages - {made.PAGE.name} - set(re.findall(r"\]\(([\w/-]+\.md)", TEXT)) == set()


def test_the_code_of_each_feature_is_there() -> None:
    rows = re.findall(r"(?m)^\| (?!feature)([^|]+) \| ([^|]*) \| [^|]+ \|$", section("Where each feature lies"))[1:]
    assert len(rows) > 20
    for feature, code in rows:
        folder = Path()
        for name in re.findall(r"`([^`]+)`", code):
            path = re.sub(r"<[^>]*>", "*", name.rstrip("/"))
            places = [folder, Path(), Path("plugins/module_utils"), Path("roles/preflight/files")]
            found = [place for place in places if list(REPOSITORY.glob(str(place / path)))]
            assert found, f"{feature}: {name}"
            # What follows without a folder of its own lies beside it.
            folder = (found[0] / path).parent


def test_make_docs_changes_nothing(tmp_path: Path) -> None:
    """The very commands of the target, in a copy of the checkout."""
    listed = ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
    names = subprocess.run(listed, cwd=REPOSITORY, capture_output=True, text=True, check=True).stdout.split("\0")
    for name in filter(None, names):
        source, target = REPOSITORY / name, tmp_path / name
        if source.is_symlink() or source.exists():
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(source, target, follow_symlinks=False)
    recipe = (REPOSITORY / "Makefile").read_text().partition("\ndocs: ")[2].partition("\n\n")[0]
    tools = re.findall(r"(?m)^\t@\$\(VENV\)/bin/python (tools/\w+\.py)$", recipe)
    assert len(tools) == recipe.count("\n\t") >= 8
    before = written(tmp_path)
    for tool in tools:
        subprocess.run([sys.executable, "-B", tool], cwd=tmp_path, check=True, timeout=300)
    after = written(tmp_path)
    assert [name for name in sorted(before | after) if before.get(name) != after.get(name)] == [], "run: make docs"


def written(folder: Path) -> dict[str, bytes]:
    files = (
        file for file in folder.rglob("*") if file.is_file() and "collections" not in file.relative_to(folder).parts
    )
    return {str(file.relative_to(folder)): file.read_bytes() for file in files if "__pycache__" not in file.parts}
