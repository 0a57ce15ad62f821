"""What was lost with a damaged file that was set aside is said, however what comes after it ends."""

from __future__ import annotations

import argparse
import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from ansible.errors import AnsibleActionFail
from ansible_collections.gpuwright.node.plugins.action import operator_lock, sweep
from ansible_collections.gpuwright.node.plugins.module_utils.tuning import store as tuning_store
from ansible_collections.gpuwright.node.plugins.module_utils.tuning.plan import Refused
from ansible_collections.gpuwright.node.plugins.modules import host_tuning
from ansible_collections.gpuwright.node.plugins.plugin_utils.history import kept
from gpuwright.checks.gpu import strikes_kept
from gpuwright.checks.waivers import acknowledgements
from gpuwright.doctor import waivers
from host_tree import HostTree

TORN = '{"schema": 1, "knobs": {"sysctl vm.a": 1}, "files": {}, "folders": []}'
LOST = "uninstall.yml cannot bring earlier ones back"
needs_root = pytest.mark.skipif(os.geteuid() != 0, reason="only root's files are believed")


def full_disk(*_arguments: object, **_named: object) -> None:
    raise OSError(28, "No space left on device")


def refuses(*_arguments: object, **_named: object) -> None:
    raise Refused("vm.a is not a number")


class Ended(Exception):
    """The module has answered."""


class Module:
    """What host_tuning needs of an AnsibleModule."""

    check_mode = False

    def __init__(self, only_unfelt: bool) -> None:
        self.warned: list[str] = []
        self.params = {
            "state": "present", "leave": [], "values": {}, "limits_group": "trainer", "limits_units": [],
            "data_dir": "/srv", "tuned_parent": "", "scratch_uuid": "", "scratch_dir": "/scratch", "program": "x",
            "link": "", "only_unfelt": only_unfelt,
        }  # fmt: skip

    def warn(self, text: str) -> None:
        self.warned.append(text)

    def fail_json(self, msg: str) -> None:
        raise Ended(msg)

    def exit_json(self, **_answer: object) -> None:
        raise Ended("")


@pytest.fixture
def before(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    path = tmp_path / "tuning-before.json"
    path.write_text(TORN)
    monkeypatch.setattr(tuning_store, "BEFORE", str(path))
    work = SimpleNamespace()
    for name, answer in (("compare", work), ("turns", ["vm.a"]), ("describe", ("", "")), ("is_change", True)):
        monkeypatch.setattr(host_tuning.tuning, name, lambda *_arguments, answer=answer: answer)
    monkeypatch.setattr(host_tuning.tuning, "apply", lambda *_arguments: None)
    plan = SimpleNamespace(settings=[], skipped=[])
    monkeypatch.setattr(host_tuning, "make_plan", lambda *_arguments, **_named: plan)
    yield path


def tuned(monkeypatch: pytest.MonkeyPatch, check: bool = False, only_unfelt: bool = False) -> list[str]:
    """What the module warned of."""
    module = Module(only_unfelt)
    module.check_mode = check
    monkeypatch.setattr(host_tuning, "AnsibleModule", lambda **_arguments: module)
    with pytest.raises(Ended):
        host_tuning.main()
    return module.warned


@pytest.mark.parametrize("fault", ["none", "apply", "place"])
def test_the_tuning_says_it_before_settings_are_tried(
    before: Path, monkeypatch: pytest.MonkeyPatch, fault: str
) -> None:
    if fault != "none":
        monkeypatch.setattr(host_tuning.tuning if fault == "apply" else host_tuning.placing, fault, full_disk)
    [said] = tuned(monkeypatch)
    [aside] = before.parent.iterdir()
    assert aside.read_text() == TORN and f"It was set aside as {aside.name}" in said and LOST in said


@pytest.mark.parametrize("why", ["check mode", "waits", "nothing to do", "refused", "not here", "not set aside"])
def test_the_tuning_sets_nothing_aside_where_it_changes_nothing(
    before: Path, monkeypatch: pytest.MonkeyPatch, why: str
) -> None:
    if why == "refused":
        monkeypatch.setattr(host_tuning, "make_plan", refuses)
    if why == "nothing to do":
        # Nothing is written over the record, which can still be looked at.
        monkeypatch.setattr(host_tuning.tuning, "is_change", lambda work: False)
        monkeypatch.setattr(host_tuning.tuning, "apply", lambda *_arguments: before.write_text("{}"))
    if why == "not here":
        monkeypatch.setattr(host_tuning.tuning, "compare", full_disk)
    if why == "not set aside":
        monkeypatch.setattr("os.rename", full_disk)
    [said] = tuned(monkeypatch, check=why == "check mode", only_unfelt=why == "waits")
    assert list(before.parent.iterdir()) == [before] and before.read_text() == TORN
    assert "It would be set aside" in said and LOST in said


@needs_root
def test_strikes_that_cannot_be_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    host = HostTree(tmp_path)
    host.put(strikes_kept.PATH, "{")
    (tmp_path / strikes_kept.PATH[1:]).chmod(0o644)
    monkeypatch.setattr(strikes_kept, "counted", lambda *_arguments: {"cards": [], "slots": {"a": {}}})
    monkeypatch.setattr(strikes_kept, "write_kept", full_disk)
    report: dict[str, Any] = {"readings": {}, "expectations": {}, "checks": []}
    said = strikes_kept.keep_strikes(report, [], host.root)
    assert "set aside as strikes.json.damaged-" in said and "strikes of until now" in said
    assert "not counted: [Errno 28] No space left on device" in said
    # Without a damaged one, it is an error as before.
    with pytest.raises(OSError, match="No space"):
        strikes_kept.keep_strikes(report, [], host.root)


@needs_root
def test_an_acknowledgement_that_cannot_be_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    host = HostTree(tmp_path)
    host.put(acknowledgements.PATH, "{")
    (tmp_path / acknowledgements.PATH[1:]).chmod(0o644)
    monkeypatch.setattr(acknowledgements, "write_kept", full_disk)
    monkeypatch.setattr(waivers, "findings_to_acknowledge", lambda *_arguments: [])
    options = argparse.Namespace(reason="known", how_long="1d", acknowledge="gpu.sram")
    report: dict[str, Any] = {"readings": {}, "smoke": None}
    with pytest.raises(OSError, match="No space"):
        waivers._acknowledge(options, host.root, {}, lambda *_arguments: report)
    assert "set aside as acknowledgements.json.damaged-" in capsys.readouterr().err


def test_the_history_of_cards_where_the_sweep_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = kept.path_of(tmp_path, "n1")
    path.parent.mkdir()
    path.write_text("{")
    said: list[str] = []
    monkeypatch.setattr(sweep.display, "warning", said.append)
    action = object.__new__(sweep.ActionModule)
    action._task = SimpleNamespace(check_mode=False)
    with pytest.raises(AnsibleActionFail, match="sweep_hours"):
        action._looked("n1", {"folder": str(tmp_path), "rules": {"hours": "never"}})
    assert len(said) == 1 and "set aside as n1.json.damaged-" in said[0]


def test_a_damaged_lock_is_said_before_it_is_replaced(monkeypatch: pytest.MonkeyPatch) -> None:
    said: list[str] = []
    monkeypatch.setattr(operator_lock.display, "warning", said.append)
    action = object.__new__(operator_lock.ActionModule)

    def unreachable(*_arguments: object) -> Mapping[str, Any]:
        raise ConnectionError

    monkeypatch.setattr(action, "_ask", unreachable)
    answer: dict[str, Any] = {
        "held": False,
        "holder": None,
        "work": [],
        "quiet_s": 1e6,
        "damaged": "operator.json is damaged: no JSON",
    }
    options = {"wait_minutes": 0.0, "quiet_minutes": 1.0, "takeover": ""}
    with pytest.raises(ConnectionError):
        action._insist(answer, {}, options, "again", {"inventory_hostname": "n1"})
    assert said == ["n1: operator.json is damaged: no JSON. It is set aside, and who held the lock is not known."]
