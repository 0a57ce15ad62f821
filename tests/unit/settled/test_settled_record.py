"""The node's record of roles that had nothing to do, read by the next run's probe."""

from __future__ import annotations

import json
import stat
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from gpuwright.host.bounded import Finished
from gpuwright.settled.record import PATH, keep_settled, read_settled


def enabled(words: Sequence[str], seconds: float) -> Finished:
    return Finished(0, "UnitFileState=enabled\n", "", False, False, False, "")


def without_bus(words: Sequence[str], seconds: float) -> Finished:
    return Finished(1, "", "no bus", False, False, False, "")


@pytest.fixture
def root(tmp_path: Path) -> Path:
    (tmp_path / "var/lib/gpuwright").mkdir(parents=True)
    (tmp_path / "etc").mkdir()
    (tmp_path / "etc/a").write_text("a")
    (tmp_path / "etc/b").write_text("b")
    roles: dict[str, dict[str, Any]] = {
        "system_cuda": {"inputs": "1", "things": [["file", "/etc/a"], ["file", "/etc/a"], ["packages", ""]]},
        "system_driver": {"inputs": "2", "things": [["file", "/etc/b"], ["unit", "x.service"]]},
        "system_containers": {"inputs": "3", "things": []},
    }
    keep_settled(roles, str(tmp_path), enabled)
    return tmp_path


def test_nothing_has_changed(root: Path) -> None:
    assert read_settled(str(root), enabled) == {
        "system_containers": {"inputs": "3", "changed": []},
        "system_cuda": {"inputs": "1", "changed": []},
        "system_driver": {"inputs": "2", "changed": []},
    }


def test_only_the_role_whose_thing_changed_is_named(root: Path) -> None:
    (root / "etc/b").chmod(0o600)
    found = read_settled(str(root), enabled)
    assert found["system_driver"]["changed"] == ["file /etc/b"] and not found["system_cuda"]["changed"]


def test_what_two_roles_looked_at_changes_for_both(root: Path) -> None:
    keep_settled({"system_kernel": {"inputs": "4", "things": [["packages", ""]]}}, str(root), enabled)
    (root / "var/lib/dpkg").mkdir()
    (root / "var/lib/dpkg/status").write_text("")
    found = read_settled(str(root), enabled)
    assert [name for name, role in found.items() if role["changed"] == ["packages"]] == ["system_cuda", "system_kernel"]


def test_a_role_that_ran_again_replaces_its_record_and_no_other(root: Path) -> None:
    (root / "etc/a").write_text("A")
    keep_settled({"system_cuda": {"inputs": "9", "things": [["file", "/etc/a"]]}}, str(root), enabled)
    found = read_settled(str(root), enabled)
    assert found["system_cuda"] == {"inputs": "9", "changed": []} and found["system_driver"]["inputs"] == "2"


def test_the_record_is_for_root_alone(root: Path) -> None:
    assert stat.S_IMODE((root / PATH.lstrip("/")).stat().st_mode) == 0o600


def test_what_cannot_be_looked_at_has_changed(root: Path) -> None:
    assert all(
        role["changed"] == ["systemctl show x.service: no bus"]
        for role in read_settled(str(root), without_bus).values()
    )


@pytest.mark.parametrize(
    "text",
    ["", "{", "[]", "null", '{"schema": 2, "roles": {}}', '{"schema": 1}', '{"schema": 1, "roles": []}',
     '{"schema": 1, "roles": {"a": null}}', '{"schema": 1, "roles": {"a": {"inputs": "1"}}}',
     '{"schema": 1, "roles": {"a": {"inputs": "1", "seen": 7}}}', "[" * 100_000, "\xff"],
)  # fmt: skip
def test_a_record_that_is_none_settles_nothing(root: Path, text: str) -> None:
    (root / PATH.lstrip("/")).write_text(text, encoding="latin-1")
    assert read_settled(str(root), enabled) == {}


def test_a_record_with_a_kind_of_a_newer_version_settles_nothing(root: Path) -> None:
    record = {
        "schema": 1,
        "roles": {"a": {"inputs": "1", "seen": [["moon", "full", "x"]]}, "b": {"inputs": "2", "seen": []}},
    }
    (root / PATH.lstrip("/")).write_text(json.dumps(record))
    assert all(role["changed"] for role in read_settled(str(root), enabled).values())


def test_no_record_is_no_error(tmp_path: Path) -> None:
    assert read_settled(str(tmp_path), enabled) == {}
