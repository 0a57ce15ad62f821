"""README and the pages that it leads to, followed line by line on a finished node; the pages' own words are typed."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from testinfra.backend.base import CommandResult
from testinfra.host import Host

REPOSITORY = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(REPOSITORY / "tests"), str(REPOSITORY / "tests/fleet")]
from gpuwright_fleet.wheelhouse import build_wheelhouse  # noqa: E402
from page_commands import commands  # noqa: E402
from page_rows import PAGES, PICTURES, Place, Row  # noqa: E402

# The pages are followed on one node; what differs between nodes other tests look at.
pytestmark = [pytest.mark.el8, pytest.mark.one_node]
RESEARCHER = "alice"
RUNS = "/srv/gan/runs"
CONFIG = "/etc/gpuwright/train-gan/flowers.yml"
# As docs/train-your-images.md has it in the inventory, small enough for a CPU.
FLOWERS = {"run_dir": f"{RUNS}/flowers", "data": "/srv/gan/data/flowers", "image_size": 32, "steps": 2}
FLOWERS |= {"channels": 8, "batch_size": 4, "device": "cpu"}
# Typed by ansible_user.
FOR_ADMINISTRATORS = ("README.md", "docs/operate.md")


def rows(page: str, place: Place) -> list[Row]:
    return [row for row in PAGES[page] if row.place is place]


def of_administrators(place: Place) -> list[tuple[str, Row]]:
    return [(page, row) for page in FOR_ADMINISTRATORS for row in rows(page, place)]


def typed(page: str, row: Row) -> str:
    """The command as the page has it, with what stands for its words."""
    (command,) = [text for text in commands((REPOSITORY / page).read_text()) if text == row.command]
    return row.text(command)


def as_expected(row: Row, rc: int, output: str) -> None:
    assert rc == 0, output
    assert [pattern for pattern in row.says if not re.search(pattern, output)] == [], output


def in_shell_of(host: Host, user: str, command: str) -> CommandResult:
    """What the user's login shell makes of the command."""
    with host.sudo():
        return host.run("runuser -l %s -c %s", user, command)


@pytest.fixture(scope="module")
def readme_node(host: Host) -> Iterator[Host]:
    """What README's commands have started and written is taken back."""
    yield host
    with host.sudo():
        host.run("systemctl stop train-gan@default")
        host.run("rm -rf %s /etc/gpuwright/runtime-calibrated.json", f"{RUNS}/default")


@pytest.mark.parametrize(("page", "row"), of_administrators(Place.NODE), ids=lambda of: getattr(of, "command", None))
def test_readme_is_followed_on_the_node(readme_node: Host, wish: dict, page: str, row: Row) -> None:
    """By the inventory's ansible_user: an ordinary user who may use sudo."""
    done = in_shell_of(readme_node, wish["ansible_user"], typed(page, row))
    as_expected(row, done.rc, done.stdout + done.stderr)


@pytest.fixture(scope="module")
def researchers_node(host: Host) -> Iterator[Host]:
    """What the page has an administrator do before: an account in the group, a training that is configured."""
    with host.sudo():
        host.check_output("useradd --create-home --shell /bin/bash --groups trainer %s", RESEARCHER)
        # Root's umask may be 027, and the trainer reads it.
        host.check_output("echo %s > %s && chmod 0644 %s", json.dumps(FLOWERS), CONFIG, CONFIG)
        host.check_output("runuser -l %s -c %s", RESEARCHER, PICTURES)
    yield host
    with host.sudo():
        host.run("systemctl stop train-gan@flowers")
        host.run("rm -rf %s %s %s", f"{RUNS}/flowers", FLOWERS["data"], CONFIG)
        host.run("userdel --remove %s", RESEARCHER)


@pytest.mark.parametrize("row", rows("docs/train-your-images.md", Place.NODE), ids=lambda row: row.command)
def test_a_researcher_follows_the_page(researchers_node: Host, wish: dict, row: Row) -> None:
    """What is the administrator's is typed by ansible_user, all else by an account that may not become root."""
    user = wish["ansible_user"] if row.administrator else RESEARCHER
    done = in_shell_of(researchers_node, user, typed("docs/train-your-images.md", row))
    as_expected(row, done.rc, done.stdout + done.stderr)


@pytest.mark.parametrize(("page", "row"), of_administrators(Place.FLEET), ids=lambda of: getattr(of, "command", None))
def test_what_the_controller_gathers_for_a_node_without_a_way_out(tmp_path: Path, page: str, row: Row) -> None:
    """From the fleet's wheels: pip takes them through its own variables, so that the page's words stay as they are."""
    here = {"PIP_NO_INDEX": "1", "PIP_FIND_LINKS": str(build_wheelhouse()), "PIP_DEST": str(tmp_path)}
    done = subprocess.run(
        ["bash", "-c", typed(page, row)],
        cwd=REPOSITORY,
        env={**os.environ, **here, "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}"},
        capture_output=True,
        text=True,
        timeout=300,
    )
    as_expected(row, done.returncode, done.stdout + done.stderr)
