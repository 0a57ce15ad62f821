"""The commands of README and of other pages: each is run here or on the fleet, or its row says why it is not."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import page_samples
import pytest
from conftest import REPOSITORY

sys.path.insert(0, str(REPOSITORY / "tests"))

from page_commands import commands
from page_rows import CONTROLLER, LANE, NOT_HERE, PAGES, Row

HERE = {row.command: page for page, rows in PAGES.items() for row in rows if row.place is CONTROLLER}
MAKE = re.compile(r"^(?:[A-Z]+=\S+ )?make ([a-z-]+)(?: [A-Z]+=\S+)?$")


def typed(page: str) -> list[str]:
    return commands((REPOSITORY / page).read_text())


@pytest.mark.parametrize("page", PAGES)
def test_every_command_of_the_page_has_a_row_and_every_row_a_command(page: str) -> None:
    rows = [row.command for row in PAGES[page]]
    assert sorted(rows) == sorted(typed(page))


def test_a_command_that_nobody_listed_is_noticed() -> None:
    blocks = "```\ngpu-doctor --new   # remark\n```\n\n```yaml\nmake: 1\n```\n\n```\ngpu-doctor: open\n```\n"
    page = f"Say `sudo reboot`, or:\n\n{blocks}\n`FLEET=off make\ntest`\n"
    assert commands(page) == ["gpu-doctor --new", "sudo reboot", "FLEET=off make test"]


@pytest.mark.parametrize("row", [row for rows in PAGES.values() for row in rows], ids=lambda row: row.command)
def test_a_row_says_what_is_expected_or_why_it_is_not_run(row: Row) -> None:
    if row.place is LANE:
        file, words = row.file
        assert words and words in (REPOSITORY / file).read_text()
    assert bool(row.reason) is (row.place is NOT_HERE)
    assert row.says or row.place is not CONTROLLER


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    """The checkout as a reader has it, with the environment that is there already, and no address of any host."""
    folder = tmp_path / "gpuwright"
    folder.mkdir()
    for path in REPOSITORY.iterdir():
        if path.name not in ("requirements", ".git", ".fleet", "reports", "inventory"):
            (folder / path.name).symlink_to(path)
    # Older than the environment, as after `make venv`.
    shutil.copytree(REPOSITORY / "requirements", folder / "requirements")
    for file in (folder / "requirements").iterdir():
        os.utime(file, (0, 0))
    (folder / "inventory").mkdir()
    hosts: dict[str, dict[str, object]] = {"gpu_nodes": {"hosts": {"a5-01": {"ansible_host": "192.0.2.1"}}}}
    hosts["gpu_nodes"]["vars"] = {"verify_report_dir": str(tmp_path / "reports")}
    (folder / "inventory/hosts.yml").write_text(json.dumps(hosts))
    (tmp_path / "reports").mkdir()
    (tmp_path / "reports/a5-01.json").write_text(json.dumps(page_samples.report()))
    return folder


def shell(checkout: Path, text: str, typed_in: str = "") -> subprocess.CompletedProcess[str]:
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("ANSIBLE_", "MAKE"))}
    return subprocess.run(
        ["bash", "-c", text],
        cwd=checkout,
        env={**kept, "PATH": f"{Path(sys.executable).parent}:{kept['PATH']}", "ANSIBLE_NOCOLOR": "1"},
        input=typed_in,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=300,
    )


@pytest.mark.parametrize("command", HERE)
def test_it_does_on_the_controller_what_the_page_says(checkout: Path, command: str) -> None:
    (row,) = [row for row in PAGES[HERE[command]] if row.command == command]
    done = shell(checkout, row.text(command), row.typed)
    assert done.returncode == 0, done.stdout
    assert [pattern for pattern in row.says if not re.search(pattern, done.stdout)] == [], done.stdout


def test_every_target_of_make_is_there(checkout: Path) -> None:
    """Those that are not run here too: make says what it would do, and what that begins with is a file."""
    targets = {match[1] for page in (*PAGES, "CONTRIBUTING.md") for match in map(MAKE.match, typed(page)) if match}
    assert len(targets) >= 16
    done = shell(checkout, f"make --dry-run {' '.join(sorted(targets))}")
    assert done.returncode == 0, done.stdout
    for file in re.findall(r"(?<![\w/.])(tests/[\w./-]+)", done.stdout):
        assert (REPOSITORY / file).exists(), file
