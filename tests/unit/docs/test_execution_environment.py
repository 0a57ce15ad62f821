"""The controller as a container image: what ansible-builder makes of the definition, without building it."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest
import yaml
from text_parts import part_of

REPOSITORY = Path(__file__).resolve().parents[3]
CORE = part_of(r"(?m)^(ansible-core==\S+)$", (REPOSITORY / "requirements/controller.in").read_text())


@pytest.fixture(scope="module")
def context(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The build context that `ansible-builder create` writes; it fetches nothing."""
    folder = tmp_path_factory.mktemp("context")
    builder = Path(sys.executable).with_name("ansible-builder")
    command = [str(builder), "create", "--context", str(folder), "--output-filename", "Containerfile"]
    done = subprocess.run(command, cwd=REPOSITORY, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stdout + done.stderr
    return folder


def test_the_containerfile_names_the_pinned_core_and_a_runner(context: Path) -> None:
    text = (context / "Containerfile").read_text()
    (installed,) = re.findall(r'(?m)^ARG ANSIBLE_INSTALL_REFS="(.+)"$', text)
    core, runner = installed.split()
    assert core == CORE and re.fullmatch(r"ansible-runner==\d+\.\d+\.\d+", runner)


def test_its_python_is_one_that_this_core_runs_on(context: Path) -> None:
    (python,) = re.findall(r'(?m)^ARG PYCMD="/usr/bin/python(.+)"$', (context / "Containerfile").read_text())
    jobs = yaml.safe_load((REPOSITORY / ".github/workflows/ci.yml").read_text())["jobs"]
    assert python in jobs["unit"]["strategy"]["matrix"]["python"]


def test_it_installs_what_the_controller_starts(context: Path) -> None:
    rows = (context / "_build/bindep.txt").read_text().splitlines()
    rpms = {row.split()[0] for row in rows if row and not row.startswith("#") and "[platform:dpkg]" not in row}
    assert rpms == {"openssh-clients", "sshpass"}


def test_as_a_collection_it_asks_for_the_same(context: Path) -> None:
    meta = yaml.safe_load((REPOSITORY / "meta/execution-environment.yml").read_text())
    asked = (REPOSITORY / meta["dependencies"]["system"]).read_text()
    assert asked.split() == (context / "_build/bindep.txt").read_text().split()
    python = (REPOSITORY / meta["dependencies"]["python"]).read_text()
    assert python.split() == (context / "_build/requirements.txt").read_text().split()
    assert set(meta["dependencies"]) == {"system", "python"}
    pinned = (REPOSITORY / "requirements/controller.in").read_text().splitlines()
    assert [line for line in python.splitlines() if not line.startswith("#")] == [pinned[-1]]


def test_the_page_for_awx_names_what_exists() -> None:
    page = (REPOSITORY / "docs/awx.md").read_text()
    for playbook in re.findall(r"playbook `(\S+)`", page):
        assert (REPOSITORY / playbook).is_file()
    defaults = "".join(file.read_text() for file in (REPOSITORY / "roles").glob("*/defaults/main.yml"))
    variables = set(re.findall(r"`((?:verify|operator_lock|gpuwright)_\w+)(?:: \w+)?`", page))
    assert {"verify_report_dir", "gpuwright_busy", "operator_lock_quiet_minutes"} <= variables
    assert all(re.search(rf"(?m)^{name}: ", defaults) for name in variables - {"gpuwright_lock"})
    (minutes,) = re.findall(r"`operator_lock_quiet_minutes` \((\d+)\)", page)
    assert f"\noperator_lock_quiet_minutes: {minutes}\n" in defaults
    assert len(page.splitlines()) <= 60
