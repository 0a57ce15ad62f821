"""Settings of the host are compared as host_tuning compares them, and nothing is changed for that."""

from __future__ import annotations

import json
from typing import Any

import pytest
from ansible_collections.gpuwright.node.plugins.plugin_utils.entering.things import TUNING
from gpuwright.settled import watch
from gpuwright.tuning import apply as tuning
from gpuwright.tuning.disk import NotHere
from gpuwright.tuning.plan import Plan, Refused

ASKED: dict[str, Any] = {
    "state": "present", "leave": [], "values": {}, "limits_group": "trainer", "limits_units": [], "data_dir": "/srv",
    "tuned_parent": "", "scratch_uuid": "", "scratch_dir": "/scratch", "program": "#!/bin/sh\n",
}  # fmt: skip
THING = ("tuning", json.dumps(ASKED))


def test_all_that_decides_is_remembered() -> None:
    assert sorted(ASKED) == sorted(TUNING)


@pytest.fixture
def wanted(monkeypatch: pytest.MonkeyPatch, tmp_path):
    """A plan of one file; what follows from the rest of the catalogue is tested with it."""
    monkeypatch.setattr(watch, "make_plan", lambda *_args, **_names: Plan([], [], {}, {"/etc/x": ("x", 0o644)}))
    (tmp_path / "etc").mkdir()
    (tmp_path / "etc/x").write_text("x")
    (tmp_path / "etc/x").chmod(0o644)
    return tmp_path


def test_settings_that_are_as_asked_for(wanted) -> None:
    assert watch.look([THING], str(wanted))[THING] == "as asked for"


@pytest.mark.parametrize("change", ["content", "mode", "missing"])
def test_a_setting_that_differs_is_named(wanted, change: str) -> None:
    file = wanted / "etc/x"
    {"content": lambda: file.write_text("y"), "mode": lambda: file.chmod(0o600), "missing": file.unlink}[change]()
    assert "/etc/x: written" in watch.look([THING], str(wanted))[THING]
    assert not (wanted / "var").exists()


@pytest.mark.parametrize("error", [Refused("no such disk"), NotHere("no such knob")])
def test_what_would_be_refused_is_not_as_asked_for(monkeypatch, tmp_path, error: Exception) -> None:
    def refuse(*_args: object, **_names: object) -> Plan:
        raise error

    monkeypatch.setattr(watch, "make_plan", refuse)
    assert watch.look([THING], str(tmp_path))[THING] == str(error)


def test_taken_back_settings_need_no_program(tmp_path) -> None:
    thing = ("tuning", json.dumps({**ASKED, "state": "absent", "program": ""}))
    assert watch.look([thing], str(tmp_path))[thing] == "as asked for"
    assert tuning.NOTHING.files == {}
