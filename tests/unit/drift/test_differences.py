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
from ansible_collections.gpuwright.node.plugins.plugin_utils.drift.found import NOT_OURS, Found, judged
from ansible_collections.gpuwright.node.plugins.plugin_utils.drift.table import in_a_line
from ansible_collections.gpuwright.node.plugins.plugin_utils.whole_events import registers
from conftest import REPOSITORY


def place(action: str = "copy") -> Place:
    return Place("system", "system_driver", "Do it", action)


def told(result: dict[str, Any], action: str = "copy", looped: bool = False) -> list[tuple[str, str, str, str]]:
    rows = differences({"changed": True, **result}, place(action), looped)
    assert all(isinstance(row, Difference) and (row.layer, row.role) == ("system", "system_driver") for row in rows)
    return [(row.what, row.attribute, row.now, row.planned) for row in rows]


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
        # apt says what it would do, whichever names it was asked for.
        ({"diff": {"prepared": "The following NEW packages will be installed:\n  jq"}}, "apt",
         [("Do it", "content", "", "differs")]),
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


@pytest.mark.parametrize("told", ["found", {"found": "_task.result"}])
def test_what_a_task_registers_is_known_in_each_form(told: Any) -> None:
    """Text before ansible-core 2.21; since then a dict."""
    assert registers(SimpleNamespace(register=told)) == {"found"}
    assert registers(SimpleNamespace(register=None)) == set()


def test_arguments_of_a_module_are_never_read() -> None:
    """From ansible-core 2.21 on, results have none."""
    for result, action in (({}, "copy"), ({"diff": {"before": {}, "after": {"mode": "1"}}}, "file"), ({}, "apt")):
        bare = differences({"changed": True, **result}, place(action), False)
        arguments = {"dest": "/x", "path": "/x", "name": "x"}
        assert (
            differences({"changed": True, "invocation": {"module_args": arguments}, **result}, place(action), False)
            == bare
        )
    for file in [*REPOSITORY.glob("plugins/plugin_utils/drift/*.py"), REPOSITORY / "plugins/callback/drift.py"]:
        assert "invocation" not in file.read_text() and "module_args" not in file.read_text(), file


def test_what_others_have_changed_is_said_of_the_row() -> None:
    host = Found(
        differences=[Difference("system", "r", "t", name, "mode", "1", "2") for name in ("/a", "/b")], judged=True
    )
    host.others({"not_ours": ["/b", "/c"], "drop_ins": {"/d": "train-gan@a.service"}, "because": ""}, place())
    told = judged(host, verifies=False)
    assert [(row.what, row.who) for row in told.differences] == [("/a", ""), ("/b", NOT_OURS)]
    assert told.remarks == ["/d: a site's own drop-in of train-gan@a.service"] and not told.unknown
    assert in_a_line(told.differences[1]) == "/b: mode 1 -> 2 (not by us)"
    host.others({"not_ours": [], "drop_ins": {}, "because": "changes.json is damaged"}, place())
    assert [row.why for row in judged(host, verifies=False).unknown] == ["changes.json is damaged"]


@pytest.mark.parametrize(("label", "what"), [("alpha", "Do it (alpha)"), (None, "Do it")])
def test_a_new_file_is_never_called_by_the_controllers_temporary_one(label: str | None, what: str) -> None:
    """Its name differs in every run, and copy and template name no other where the file is not there yet."""
    text = {"before": "", "after": "a\n", "after_header": "/root/.ansible/tmp/ansible-local-7/tmpx/unit.j2"}
    assert told({"diff": [text], "_ansible_item_label": label}) == [(what, "content", "is not there", "1 line")]
