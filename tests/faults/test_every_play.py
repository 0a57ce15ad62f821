"""Every playbook on a finished host: check mode changes nothing there, and a second run changes nothing, either."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from conftest import HOST, PLAY_SECONDS, REPOSITORY, play
from host_state import host_state
from playbook_run import Run, run_playbook

# An export of OSV with one entry, as nothing else may be asked here.
ADVISORY = {
    "id": "GHSA-1",
    "affected": [{"package": {"ecosystem": "PyPI", "name": "not-installed"}, "versions": ["1"]}],
}
# The variables that each needs. A host of the fleet has no boot loader of its own, so its kernel stays.
PLAYS: dict[str, dict[str, Any]] = {
    "accept": {"accept_minutes": 1, "accept_step_seconds": 5, "accept_step_timeout": 180},
    "advisories": {"advisories_file": "{folder}/osv"},
    "framework": {},
    "lock": {"framework_pytorch_packages": ["lpips==0.1.4"], "framework_pytorch_locks_folder": "{folder}/locks"},
    "model": {},
    "patch": {"system_kernel_pin": True},
    "plan": {"gpu": HOST},
    "preflight": {},
    "report": {},
    "rollout": {"gpuwright_rollout_again": True},
    "sbom": {},
    "scan": {},
    "site": {},
    "sweep": {"sweep_idle_minutes": 0, "sweep_interval_hours": 0, "sweep_minutes": 1, "sweep_slower_percent": 80},
    "system": {},
    "upgrade": {"gpuwright_rollout_again": True},
    "verify": {},
}
# They need more than a finished host; their own tests have a run in check mode and a second run.
ELSEWHERE = {
    "bundle": "tests/faults/test_offline_host.py",
    "drift": "tests/faults/test_drift.py",
    "kickstart": "tests/unit/kickstart/test_kickstart_playbook.py",
    "rollback": "tests/faults/test_upgrade.py",
    "uninstall": "tests/faults/test_uninstall.py",
}


# An acceptance without a card, and without a fleet to compare with, certifies nothing and says so; the driver that the
# fleet has packages of has known vulnerabilities.
REFUSED = {"accept": "accept.unjudged", "advisories": "advisories.found"}


def run(name: str, folder: Path, *arguments: str) -> Run:
    (folder / "osv").mkdir(exist_ok=True)
    (folder / "osv/GHSA-1.json").write_text(json.dumps(ADVISORY))
    values = {
        key: value.format(folder=folder) if isinstance(value, str) else value for key, value in PLAYS[name].items()
    }
    if name == "report":
        # The page is made on the controller, from all reports.
        inventory = REPOSITORY / ".fleet/faults/inventory.yml"
        return run_playbook(inventory, PLAY_SECONDS, f"playbooks/{name}.yml", *arguments)
    return play(f"playbooks/{name}.yml", *arguments, **values)


def as_expected(name: str, done: Run) -> bool:
    return (done.rc == 2 and REFUSED[name] in done.text) if name in REFUSED else done.rc == 0


def test_no_playbook_is_left_out() -> None:
    """What another one imports is a part of it."""
    texts = {path.stem: path.read_text() for path in (REPOSITORY / "playbooks").glob("*.yml")}
    parts = {
        name
        for name in texts
        if name not in PLAYS and any(f"import_playbook: {name}.yml" in text for text in texts.values())
    }
    assert set(texts) - parts == {*PLAYS, *ELSEWHERE}
    assert all("--check" in (REPOSITORY / file).read_text() for file in ELSEWHERE.values())


@pytest.mark.usefixtures("finished_host")
@pytest.mark.parametrize("name", PLAYS)
def test_check_mode_and_a_second_run_change_nothing(name: str, tmp_path: Path) -> None:
    before = host_state(tmp_path)
    checked = run(name, tmp_path, "--check")
    # Check mode loads no node, so that nothing is refused there.
    assert checked.rc == 0 if name == "accept" else as_expected(name, checked), checked.output
    assert host_state(tmp_path) == before
    first = run(name, tmp_path)
    assert as_expected(name, first), first.output
    again = run(name, tmp_path)
    assert as_expected(name, again) and again.changed == 0, again.output
    assert host_state(tmp_path) == before
