"""The record of a rollout: whole or not at all, and what a second start makes of it."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest
from ansible_collections.gpuwright.node.plugins.action import rollout as action
from ansible_collections.gpuwright.node.plugins.plugin_utils.rollout import judge, state_file

INVENTORY = ["/etc/hosts.yml"]


def first(*hosts: str) -> state_file.Record:
    made = state_file.begun(None, "default", INVENTORY, dict.fromkeys(hosts, "p1"), hosts, False)
    made["rules"] = {"batches": [1], "down_at_once": 0, "breaker_percent": 10}
    return state_file.with_batches(made, [[host] for host in hosts])


def states(made: state_file.Record) -> dict[str, str]:
    return {name: host["state"] for name, host in made["hosts"].items()}


def test_a_second_start_leaves_out_what_is_done_with_the_same_plan(tmp_path: Path) -> None:
    made = state_file.with_state(first("a", "b", "c", "gone"), ["a", "b"], judge.DONE)
    made = state_file.with_state(made, ["c"], judge.BEGUN)
    state_file.write(tmp_path / "r.json", made)
    plans = {"a": "p1", "b": "p2", "c": "p1", "new": "p1"}
    again = state_file.begun(state_file.read(tmp_path / "r.json"), "default", INVENTORY, plans, plans, False)
    assert states(again) == {"a": "done", "b": "pending", "c": "pending", "new": "pending"}
    assert (again["starts"], again["kept"]) == (2, 1) and state_file.in_state(again, "pending") == ["b", "c", "new"]
    assert set(states(state_file.begun(made, "default", INVENTORY, plans, plans, True)).values()) == {"pending"}


def test_hosts_outside_of_the_limit_stay_as_they_are() -> None:
    made = state_file.with_state(first("a", "b"), ["a"], judge.LOST, "no route")
    again = state_file.begun(made, "default", INVENTORY, {"b": "p1"}, ["a", "b"], False)
    assert states(again) == {"a": "lost", "b": "pending"} and again["hosts"]["a"]["why"] == "no route"


@pytest.mark.parametrize("text", ["{", "[]", '{"schema": 2}', '{"schema": 1, "hosts": {}}'])
def test_a_damaged_record_is_no_new_rollout(tmp_path: Path, text: str) -> None:
    (tmp_path / "r.json").write_text(text)
    with pytest.raises(state_file.RecordError, match=r"remove it to begin a new rollout.*\[rollout.record\]$"):
        state_file.read(tmp_path / "r.json")
    assert [path.name for path in tmp_path.iterdir()] == ["r.json"]


def test_a_start_sets_a_damaged_record_aside_and_begins_nothing(tmp_path: Path) -> None:
    state_file.write(tmp_path / "r.json", first("a"))
    whole = (tmp_path / "r.json").read_text()
    (tmp_path / "r.json").write_text(whole.replace('"starts": 1', '"starts": "1"'))
    with pytest.raises(
        state_file.RecordError, match=r"at starts: .*is lost: which hosts are done.*\[rollout.record\]$"
    ):
        state_file.read(tmp_path / "r.json", begins=True)
    [aside] = tmp_path.iterdir()
    assert aside.name.startswith("r.json.damaged-") and state_file.read(tmp_path / "r.json", begins=True) is None
    # A later version's record is whole.
    (tmp_path / "r.json").write_text(whole.replace('"schema": 1', '"schema": 2'))
    with pytest.raises(state_file.RecordError, match="look at it"):
        state_file.read(tmp_path / "r.json", begins=True)
    assert (tmp_path / "r.json").exists()


def test_the_record_is_for_its_owner_and_on_the_disk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    synced: list[str] = []
    monkeypatch.setattr(os, "fsync", lambda handle: synced.append(str(Path(f"/proc/self/fd/{handle}").readlink())))
    state_file.write(tmp_path / "logs/r.json", first("a"))
    assert (tmp_path / "logs/r.json").stat().st_mode & 0o777 == 0o600
    assert len(synced) == 2 and synced[1] == str(tmp_path / "logs")
    assert set(json.loads((tmp_path / "logs/r.json").read_text())) == set(state_file.FORM) - {"..."}


def test_a_write_that_fails_leaves_the_old_record(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    state_file.write(tmp_path / "r.json", first("a"))
    monkeypatch.setattr(os, "fsync", lambda _file: (_ for _ in ()).throw(OSError(28, "No space left on device")))
    with pytest.raises(state_file.RecordError, match=r"cannot be written \(No space left on device\)"):
        state_file.write(tmp_path / "r.json", first("b"))
    assert states(state_file.read(tmp_path / "r.json") or {}) == {"a": "pending"}
    assert [path.name for path in tmp_path.iterdir()] == ["r.json"]


def test_two_inventories_have_two_records(tmp_path: Path) -> None:
    names = {state_file.path_of(tmp_path, "default", inventory) for inventory in (["/a"], ["/b"], ["/a", "/b"])}
    assert len(names) == 3 and state_file.path_of(tmp_path, "x", ["/b", "/a"]) == state_file.path_of(
        tmp_path, "x", ["/a", "/b"]
    )


def test_a_batch_begins_in_the_record_before_it_begins_on_a_host(tmp_path: Path) -> None:
    path = tmp_path / "r.json"
    state_file.write(path, first("a", "b"))
    assert action.step(path, "begun", ["a"]) == {"go": ["a"], "stop": ""}
    assert states(state_file.read(path) or {}) == {"a": "begun", "b": "pending"}
    stopped = action.step(path, "begun", ["b"])
    assert stopped["go"] == [] and (state_file.read(path) or {})["stopped"] == stopped["stop"] != ""
    state_file.write(path, state_file.with_state(state_file.read(path) or {}, ["a"], judge.BEGUN))
    assert action.step(path, "done", ["a"])["go"] == ["a"]
    assert action.step(path, "begun", ["b"])["go"] == ["b"]


def test_a_record_that_was_removed_meanwhile_stops(tmp_path: Path) -> None:
    with pytest.raises(state_file.RecordError, match="was removed while it was under way"):
        action.step(tmp_path / "r.json", "begun", ["a"])
