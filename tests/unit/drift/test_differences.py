"""Results of check mode become rows: what differs, what the host has, what is planned."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
from ansible_collections.gpuwright.node.plugins.plugin_utils.drift.differences import (
    HIDDEN,
    MOST_LINES,
    Difference,
    Place,
    differences,
)
from ansible_collections.gpuwright.node.plugins.plugin_utils.drift.drop_ins import judge
from ansible_collections.gpuwright.node.plugins.plugin_utils.drift.readings import of_reading
from ansible_collections.gpuwright.node.plugins.plugin_utils.whole_events import registers


def place(action: str = "copy") -> Place:
    return Place("system", "system_driver", "Do it", action)


def told(result: dict[str, Any], action: str = "copy", looped: bool = False) -> list[tuple[str, str, str, str]]:
    rows = differences({"changed": True, **result}, place(action), looped)
    assert all(isinstance(row, Difference) and (row.layer, row.role) == ("system", "system_driver") for row in rows)
    return [(row.what, row.attribute, row.now, row.planned) for row in rows]


def asked(**arguments: Any) -> dict[str, Any]:
    return {"invocation": {"module_args": arguments}}


@pytest.mark.parametrize(
    ("result", "action", "rows"),
    [
        ({"diff": {"before": {"path": "/a", "mode": "0600"}, "after": {"path": "/a", "mode": "0644"}}}, "file",
         [("/a", "mode", "0600", "0644")]),
        ({"diff": [{"before": {"path": "/a", "owner": 65534, "group": 0},
                    "after": {"path": "/a", "owner": 0, "group": 0}}]}, "file",
         [("/a", "owner", "65534", "0")]),
        ({"diff": {"before": {"path": "/l", "src": "/no"}, "after": {"path": "/l", "src": "/yes"}}}, "file",
         [("/l", "src", "/no", "/yes")]),
        # A copy's content and attributes are two records.
        ({"dest": "/a", "diff": [{"before": "x\n", "after": "y\nz\n"},
                                 {"before": {"path": "/a", "mode": "1"}, "after": {"path": "/a", "mode": "2"}}]},
         "copy",
         [("/a", "content", "", "+2 -1 lines"), ("/a", "mode", "1", "2")]),
        ({"dest": "/a", "diff": [{"before": "", "after": "x\n"}]}, "template",
         [("/a", "content", "is not there", "1 line")]),
        ({"path": "/a", "diff": {"before": {"state": "file"}, "after": {"state": "absent"}}}, "file",
         [("/a", "state", "file", "absent")]),
        ({"diff": [{"before": "sysctl vm.swappiness = 60\n",
                    "after": "sysctl vm.swappiness = 10\n/etc/t.json: written\n"},
                   {"before": {"path": "/l", "target": "/no"}, "after": {"path": "/l", "target": "/yes"}}]},
         "host_tuning",
         [("sysctl vm.swappiness", "setting", "60", "10"), ("/etc/t.json", "content", "differs", "written"),
          ("/l", "target", "/no", "/yes")]),
        ({"name": "a.timer", "state": "started", "enabled": True,
          "status": {"ActiveState": "inactive", "UnitFileState": "enabled"}}, "systemd",
         [("a.timer", "state", "inactive", "active")]),
        ({"name": "a.service", "enabled": True,
          "status": {"ActiveState": "active", "UnitFileState": "masked"}}, "systemd",
         [("a.service", "start at boot", "masked", "enabled")]),
        ({"results": ["Installed: jq-1.6-7.el8.x86_64", "Removed: jq-1.5-1.el8.x86_64"]}, "dnf",
         [("jq-1.6-7.el8.x86_64", "package", "", "installed"), ("jq-1.5-1.el8.x86_64", "package", "", "removed")]),
        (asked(name=["jq", "gcc"], state="present"), "apt",
         [("jq", "package", "", "present"), ("gcc", "package", "", "present")]),
        ({**asked(dest="/lib"), "written": ["a.py"], "removed": ["b.py"], "compiled": []}, "file_tree",
         [("/lib/a.py", "content", "differs or is not there", "as in the toolkit"),
          ("/lib/b.py", "content", "is there", "removed")]),
        ({**asked(path="/venv"), "repaired": 9, "examples": ["/venv/x"]}, "tree_modes",
         [("/venv/x", "", "", "mode repaired")]),
        # In none of these forms, it still is a row.
        ({}, "reboot_node", [("Do it", "", "", "would change")]),
        ({"censored": "the output has been hidden"}, "copy", [("Do it", "", HIDDEN, HIDDEN)]),
    ],
)  # fmt: skip
def test_each_kind_of_result(result: dict[str, Any], action: str, rows: list[tuple[str, ...]]) -> None:
    assert told(result, action) == rows


def test_only_the_items_that_change_are_rows() -> None:
    items = [
        {"changed": name == "b", "diff": {"before": {"mode": "1"}, "after": {"mode": "2"}}, "path": f"/{name}"}
        for name in "ab"
    ]
    assert told({"results": items}, "file", looped=True) == [("/b", "mode", "1", "2")]


def test_a_hidden_loop_is_one_hidden_row() -> None:
    assert told({"censored": "hidden"}, "copy", looped=True) == [("Do it", "", HIDDEN, HIDDEN)]


def test_neither_a_login_nor_a_control_character_nor_a_long_text_is_shown() -> None:
    text = "url = https://me:secret@mirror\n\x1b[2Jx\n" + "line\n" * 500
    (row,) = differences({"changed": True, "dest": "/a", "diff": {"before": "x\n", "after": text}}, place(), False)
    shown = "\n".join(row.lines)
    assert "secret" not in shown and "\x1b" not in shown and "https://***@mirror" in shown
    assert len(row.lines) == MOST_LINES + 1 and row.lines[-1].startswith("... and ")


def test_drop_ins_of_units_that_nobody_is_to_extend_differ() -> None:
    root = "/etc/systemd/system"
    rows, remarks = judge(
        [
            f"{root}/gpuwright-check.service.d/zz.conf",
            f"{root}/train-gan@.service.d/50-gpuwright-limits.conf",
            f"{root}/train-gan@a.service.d/own.conf",
            f"{root}/sshd.service.d/own.conf",
            f"{root}.control/gpuwright-check.timer.d/50-x.conf",
            "/run/systemd/generator/gpuwright-check.service.d/x.conf",
        ],
        place("find"),
    )
    assert [row.what for row in rows] == [
        f"{root}.control/gpuwright-check.timer.d/50-x.conf",
        f"{root}/gpuwright-check.service.d/zz.conf",
    ]
    assert remarks == [f"{root}/train-gan@a.service.d/own.conf: a site's own drop-in of train-gan@a.service"]


@pytest.mark.parametrize("told", ["found", {"found": "_task.result"}])
def test_what_a_task_registers_is_known_in_each_form(told: Any) -> None:
    """Text before ansible-core 2.21; since then a dict."""
    assert registers(SimpleNamespace(register=told)) == {"found"}
    assert registers(SimpleNamespace(register=None)) == set()


def test_a_reading_says_what_a_step_would_change_that_check_mode_does_not_carry_out() -> None:
    damaged = {**asked(path="/venv"), "whole": False, "because": "torch/x.py is missing (torch)"}
    (row,) = of_reading(damaged, place("python_environment"), [])
    assert (row.what, row.now, row.planned) == ("/venv", "torch/x.py is missing (torch)", "as it was installed")
    assert of_reading({**damaged, "whole": True}, place("python_environment"), []) == []
    unmarked = {**damaged, "mark_sha256": ""}
    (row,) = of_reading(unmarked, place("python_environment"), {"__model_trainer_state"})
    assert (row.what, row.now, row.planned) == ("/venv", "is not there", "the trainer would be installed")
    missing = {**asked(path="/venv/stamp"), "stat": {"exists": False}}
    (row,) = of_reading(missing, place("stat"), {"__framework_pytorch_found"})
    assert (row.what, row.now, row.planned) == ("/venv/stamp", "is not there", "the environment would be built")
    assert of_reading(missing, place("stat"), {"another"}) == []
