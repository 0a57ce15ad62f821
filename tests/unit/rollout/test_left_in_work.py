"""Somebody begins to work on a host in the middle of its batch: it is given back unchanged, or kept as it is."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from left_out_site import Site, reached
from rollout_site import table
from test_patch_runs import Patches
from test_upgrade_runs import FAILS, Upgrades

TOLD = {"kind": "busy", "reason": "alice began to train.", "next": "Wait for alice."}
# As the role system_busy does it within a layer.
LEAVE: dict[str, Any] = {
    "name": "Leave out",
    "ansible.builtin.include_role": {"name": "gpuwright.node.preflight", "tasks_from": "fail_as_left_out"},
    "vars": {"preflight_left_out": TOLD},
    "when": "inventory_hostname == 'a1'",
}
# As the role system_busy does it by default.
LEAVE_BUSY = {**LEAVE, "when": "system_busy_leaves_out | default(true)"}
CHANGE = {"name": "Change", "ansible.builtin.command": "true"}
SKIP = ("-e", "gpuwright_busy=skip")


@pytest.fixture
def site(tmp_path: Path) -> Patches:
    made = Patches(tmp_path)
    for name in ("a1", "a2"):
        made.due(name)
    return made


@pytest.mark.parametrize(("given", "status"), [((), 2), (SKIP, 0)], ids=["by default", "skip"])
def test_a_host_that_was_not_changed_is_given_back(site: Upgrades, given: tuple[str, ...], status: int) -> None:
    log = site.drains()
    site.site.tasks("system_driver", [LEAVE, Site.mark("system")])
    done = site.run(*given, "--limit", "a1")
    assert done.returncode == status and reached(done.stdout) == {}, done.stdout
    assert log.read_text().split() == ["drain", "a1", "return", "a1"]
    assert table(done.stdout) == {"skipped": "a1"} and "busy: alice began to train." in done.stdout


@pytest.mark.parametrize("given", [(), SKIP], ids=["by default", "skip"])
def test_a_host_that_was_changed_stays_drained_and_has_failed(site: Upgrades, given: tuple[str, ...]) -> None:
    log = site.drains()
    site.site.tasks("system_driver", [CHANGE, LEAVE, Site.mark("system")])
    done = site.run(*given)
    assert done.returncode == 2 and reached(done.stdout) == {}, done.stdout
    assert log.read_text().split() == ["drain", "a1"]
    assert table(done.stdout) == {"failed": "a1", "not reached": "a2"}
    assert site.record()["hosts"]["a1"]["why"] == "busy: alice began to train."


def test_an_upgrade_puts_nothing_back_under_somebody(site: Upgrades) -> None:
    log = site.drains()
    site.site.tasks("system_driver", [CHANGE, LEAVE])
    done = site.play("upgrade", *SKIP)
    assert done.returncode == 2 and site.kept() == ["kept"], done.stdout
    assert log.read_text().split() == ["drain", "a1"] and table(done.stdout)["failed"] == "a1"


def test_an_upgrade_that_was_refused_in_its_middle_is_still_put_back(site: Upgrades) -> None:
    """Nobody works there."""
    site.site.tasks("system_driver", [CHANGE, {**LEAVE, "vars": {"preflight_left_out": {**TOLD, "kind": "refused"}}}])
    done = site.play("upgrade")
    assert done.returncode == 2 and site.kept() == ["kept", "read", "put_back", "closed"], done.stdout
    assert table(done.stdout)["returned"] == "a1"


@pytest.mark.parametrize(("step", "marks"), [("prove", ["kernel"]), ("boot", ["kernel", "proven"])])
def test_a_patch_day_boots_nothing_under_somebody(site: Patches, step: str, marks: list[str]) -> None:
    log = site.drains()
    site.site.tasks("patch", [CHANGE, LEAVE], f"{step}.yml")
    done = site.play("patch", *SKIP)
    assert done.returncode == 2 and reached(done.stdout) == {"a1": marks}, done.stdout
    assert log.read_text().split() == ["drain", "a1"]
    assert table(done.stdout) == {"failed": "a1", "not reached": "a2"}


@pytest.mark.parametrize(("given", "status"), [((), 2), (SKIP, 0)], ids=["by default", "skip"])
def test_a_rollback_gives_a_node_in_use_back(site: Upgrades, given: tuple[str, ...], status: int) -> None:
    log = site.drains()
    held = {"system_busy_held": "a1 is in use by alice."}
    site.site.tasks(
        "system_busy", [{"ansible.builtin.set_fact": held, "when": "not system_busy_leaves_out"}, LEAVE_BUSY]
    )
    site.site.tasks("operator_lock", [{"ansible.builtin.debug": {"msg": "RELEASED"}}], "release.yml")
    done = site.play("rollback", "-l", "a1", *given)
    assert done.returncode == status and site.kept() == [], done.stdout
    assert log.read_text().split() == ["drain", "a1", "return", "a1"]
    assert "a1 busy a1 is in use by alice." in " ".join(done.stdout.split())


def test_a_rollback_that_fails_before_its_first_change_gives_the_node_back(site: Upgrades) -> None:
    log = site.drains()
    site.site.tasks("system_busy", [{"ansible.builtin.fail": {"msg": "the look has failed"}}])
    done = site.play("rollback", "-l", "a1")
    assert done.returncode == 2 and "the look has failed" in done.stdout and site.kept() == [], done.stdout
    assert log.read_text().split() == ["drain", "a1", "return", "a1"]


def test_a_rollback_in_whose_middle_somebody_works_has_failed_drained(site: Upgrades) -> None:
    """The driver is half back: with skip, too, this is no success."""
    log = site.drains()
    site.site.tasks("upgrade", [CHANGE, LEAVE], "put_back.yml")
    done = site.play("rollback", "-l", "a1", *SKIP)
    assert done.returncode == 2 and log.read_text().split() == ["drain", "a1"], done.stdout


def test_a_failure_is_still_named_by_the_role_in_which_it_came(site: Upgrades) -> None:
    site.fault("a1", "fails")
    site.site.tasks("system_driver", [FAILS])
    done = site.run()
    assert site.record()["hosts"]["a1"]["why"] == "system_driver: the module is not built", done.stdout
