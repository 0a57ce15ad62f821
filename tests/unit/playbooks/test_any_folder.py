"""The playbooks work from any folder, with any ansible.cfg, and in a path with spaces."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import page_samples
import pytest
import yaml
from conftest import REPOSITORY

PLAYBOOK = Path(sys.executable).parent / "ansible-playbook"
PARTS = ("site.yml", "playbooks", "roles", "library", "plugins", "collections", "callback_plugins")
# A node without GPUs that is this machine: read, planned for and, by preflight, never changed.
NODE = {"ansible_connection": "local", "ansible_become": False, "ansible_python_interpreter": sys.executable}
NODE |= {"verify_expected_gpu_count": 0, "framework_pytorch_build": "cpu", "framework_pytorch_version": "2.13.0"}
NODE |= {"preflight_space_percent": 0}
PLAYS = [
    play
    for path in sorted((REPOSITORY / "playbooks").glob("*.yml"))
    for play in yaml.safe_load(path.read_text())
    if "hosts" in play
]


@pytest.fixture(scope="module")
def tree(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A checkout in a folder whose name has a space."""
    folder = tmp_path_factory.mktemp("some where") / "gpu servers"
    folder.mkdir()
    for part in PARTS:
        source = REPOSITORY / part
        if source.is_file():
            shutil.copy(source, folder)
        elif source.is_symlink():
            (folder / part).symlink_to(source.readlink())
        else:
            ignored = shutil.ignore_patterns("__pycache__", "locks")
            shutil.copytree(source, folder / part, symlinks=True, ignore=ignored)
    return folder


@pytest.fixture
def play(tree: Path, tmp_path: Path):
    """ansible-playbook from a folder with somebody else's ansible.cfg."""
    (tmp_path / "ansible.cfg").write_text("[defaults]\nroles_path = /nonexistent\nlibrary = /nonexistent\n")
    (tmp_path / "hosts.yml").write_text(json.dumps({"gpu_nodes": {"hosts": {"here": NODE}}}))
    environment = {name: value for name, value in os.environ.items() if not name.startswith("ANSIBLE_")}
    environment |= {"ANSIBLE_NOCOLOR": "1", "ANSIBLE_CONFIG": str(tmp_path / "ansible.cfg")}

    def run(playbook: str, *arguments: str) -> subprocess.CompletedProcess:
        command = [str(PLAYBOOK), "-i", "hosts.yml", str(tree / playbook), *arguments]
        return subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=300)

    return run


@pytest.mark.parametrize("arguments", [["site.yml", "--tags", "preflight"], ["playbooks/preflight.yml"]])
def test_preflight_reads_and_plans(play, arguments: list[str]) -> None:
    done = play(*arguments)
    assert "was not found" not in done.stdout + done.stderr and "couldn't resolve" not in done.stdout + done.stderr
    assert "preflight : Look for problems" in done.stdout, done.stdout + done.stderr
    assert done.stdout.count("GPU nodes, worst first") == 1


@pytest.mark.parametrize(
    "name", ["site.yml", *(f"playbooks/{path.name}" for path in (REPOSITORY / "playbooks").glob("*.yml"))]
)
def test_every_role_of_every_playbook_is_found(play, name: str) -> None:
    done = play(name, "--list-tasks", "-e", "gpu=T4")
    assert done.returncode == 0, done.stdout + done.stderr


def test_reports_lie_beside_site_yml(play, tree: Path) -> None:
    (tree / "reports").mkdir()
    (tree / "reports/a5-01.json").write_text(json.dumps(page_samples.report()))
    for arguments in (["site.yml", "--tags", "report"], ["playbooks/verify.yml", "--tags", "report"]):
        done = play(*arguments)
        assert done.returncode == 0 and f"Page: {tree}/reports/index.html" in done.stdout, done.stdout


@pytest.mark.parametrize("play", PLAYS, ids=lambda play: play["name"])
def test_a_play_says_itself_what_it_needs(play: dict) -> None:
    """ansible.cfg is read from the working directory alone."""
    assert play["gather_facts"] is False
    assert "become" in play or play["vars"]["ansible_become"] is False


ITSELF = "collections/ansible_collections/gpuwright/node"


def test_links_lead_to_the_tree_and_one_to_its_root() -> None:
    links = [path for folder in PARTS[1:] for path in [REPOSITORY / folder, *(REPOSITORY / folder).rglob("*")]]
    links = [path for path in links if path.is_symlink()]
    assert {str(path.relative_to(REPOSITORY)) for path in links} == {
        "callback_plugins",
        "playbooks/callback_plugins",
        "playbooks/collections",
        "plugins/modules",
        ITSELF,
    }
    for path in links:
        assert not path.readlink().is_absolute() and path.resolve().is_relative_to(REPOSITORY)
        circle = path.is_relative_to(path.resolve())
        assert circle == (path == REPOSITORY / ITSELF), f"{path} lies in what it leads to"
