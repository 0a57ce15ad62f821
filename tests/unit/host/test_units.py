"""Units of systemd: what differs is done in its order, foretold by check mode, and a failure names unit and log."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest
from ansible_collections.gpuwright.node.plugins.module_utils.host import units
from ansible_collections.gpuwright.node.plugins.module_utils.host.bounded import Finished

TIMER = units.Unit("x.timer", True, "started", "restarted")


def systemd(enabled: bool = False, fails: str = "", **shown: str) -> tuple[list[str], Callable[..., Finished]]:
    """What was asked of systemctl besides questions, and a systemctl."""
    asked: list[str] = []

    def run(command: Sequence[str], timeout: float) -> Finished:
        words = list(command[1:])
        text = "".join(f"{key}={value}\n" for key, value in {"LoadState": "loaded", **shown}.items())
        rc = 0
        if words[0] == "is-enabled":
            rc = 0 if enabled else 1
        elif words[0] != "show":
            asked.append(" ".join(words))
            rc = 1 if words[0] == fails else 0
        return Finished(rc, text, "Job failed.\n" if rc else "", False, False, False, "")

    return asked, run


@pytest.mark.parametrize(
    ("unit", "enabled", "active", "changed", "verbs"),
    [
        (TIMER, False, "inactive", True, ["enable", "restart"]),
        (TIMER, True, "inactive", False, ["start"]),
        (TIMER, True, "failed", False, ["start"]),
        (TIMER, True, "activating", False, []),
        (TIMER, True, "active", False, []),
        (TIMER, True, "active", True, ["restart"]),
        (units.Unit("x", False, "", ""), True, "active", True, ["disable"]),
        (units.Unit("x", None, "", "started"), False, "inactive", False, []),
        (units.Unit("x", None, "", "started"), False, "inactive", True, ["start"]),
        (units.Unit("x", None, "", "started"), False, "active", True, []),
    ],
)
def test_what_is_to_be_done(unit: units.Unit, enabled: bool, active: str, changed: bool, verbs: list[str]) -> None:
    known = {"LoadState": "loaded", "ActiveState": active, "enabled": "yes" if enabled else "no"}
    assert [step.verb for step in units.steps(unit, known, changed)] == verbs


def test_systemd_reads_new_files_first() -> None:
    asked, run = systemd(ActiveState="inactive")
    shown = units.bring_about([TIMER], changed=True, reload=True, check=False, run=run)
    assert asked == ["daemon-reload", "enable x.timer", "restart x.timer"]
    assert [one["after"] for one in shown] == [
        {"path": "x.timer", "start at boot": "enabled"},
        {"path": "x.timer", "state": "active"},
    ]


def test_a_run_that_ended_before_systemd_had_read_them_is_made_up_for() -> None:
    asked, run = systemd(enabled=True, ActiveState="active", NeedDaemonReload="yes")
    assert units.bring_about([TIMER], changed=False, reload=False, check=False, run=run) == []
    assert asked == ["daemon-reload"]


@pytest.mark.parametrize("state", ["loaded", "not-found"])
def test_check_mode_foretells_it(state: str) -> None:
    asked, run = systemd(LoadState=state, ActiveState="inactive")
    shown = units.bring_about([TIMER], changed=True, reload=True, check=True, run=run)
    assert asked == [] and len(shown) == 2


@pytest.mark.parametrize(
    ("fails", "shown", "words"),
    [
        ("enable", {}, ["systemctl enable x.timer failed: Job failed.", "journalctl -b -u x.timer"]),
        ("daemon-reload", {}, ["systemctl daemon-reload failed: Job failed."]),
        ("", {"LoadState": "not-found"}, ["there is no unit x.timer"]),
    ],
)
def test_failures(fails: str, shown: dict[str, str], words: list[str]) -> None:
    run = systemd(fails=fails, enabled=False, **{"ActiveState": "inactive", **shown})[1]
    with pytest.raises(OSError, match="x.timer" if fails != "daemon-reload" else "daemon-reload") as caught:
        units.bring_about([TIMER], changed=True, reload=True, check=False, run=run)
    assert all(word in str(caught.value) for word in words)


@pytest.mark.parametrize(
    ("paths", "are"),
    [
        (["/etc/systemd/system/x.service"], True),
        (["/etc/systemd/system/x@.timer", "/etc/x"], True),
        (["/etc/systemd/system/x.service.d/y.conf"], True),
        (["/etc/systemd/system/x.service.d", "/etc/systemd/system/x.conf"], False),
        (["/etc/systemd/system/multi-user.target.wants"], False),
        (["/etc/x.service"], False),
    ],
)
def test_which_files_are_units(paths: list[str], are: bool) -> None:
    assert units.are_units(paths) is are


def test_the_module_sets_up_units_after_its_files(run_module: Any, fake_bin: Any, tmp_path: Path) -> None:
    said = tmp_path / "said"
    answers = f"is-enabled) exit 1;; restart) cat {tmp_path}/file >> {said};;"
    script = f'#!/bin/sh\necho "$*" >> {said}\ncase "$1" in {answers} esac\n'
    fake_bin("systemctl", script + "echo LoadState=loaded\necho ActiveState=inactive\n")
    wish = {
        "entries": [{"path": str(tmp_path / "file"), "content": "there\n"}],
        "units": [{"name": "x.timer", "enabled": True, "state": "started", "after_change": "restarted"}],
    }
    foretold = run_module("files", wish, check=True)
    assert foretold["units"] == ["x.timer"] and "\nenable " not in said.read_text()
    done = run_module("files", wish)
    assert done["changed"] and done["units"] == ["x.timer"] and done["diff"] == foretold["diff"]
    assert "enable x.timer\nrestart x.timer\nthere\n" in said.read_text()
