"""The summary without a run: many hosts, narrow terminals, words that no run gives, commands as people type them."""

from __future__ import annotations

import importlib
import re
import shlex
from typing import Any

import pytest
from test_summary_callback import FAILED, PASSED, WARNED, check

command, heartbeat, layout, rows, words = (
    importlib.import_module(f"ansible_collections.gpuwright.node.plugins.plugin_utils.summary.{name}")
    for name in ("command", "heartbeat", "layout", "rows", "words")
)
Row, Host = rows.Row, rows.Host
STATS = {"unreachable": 0, "failures": 0, "changed": 2}


def shown(found: list[Any], columns: int = 80, **more: Any) -> list[str]:
    """The table's lines as they are printed."""
    return ["  ".join(part for part in line if part).rstrip() for line in layout.table(found, columns, **more)]


def test_many_hosts_are_counted_and_the_bad_ones_listed() -> None:
    found = [Row(f"n{number:03}", "PASS", "31 checks") for number in range(100)]
    found += [Row("bad", "FAIL", "x"), Row("worse", "LOST", "y")]
    assert shown(found) == [
        "Failed: 2 of 102 hosts.",
        "worse  LOST     y",
        "bad    FAIL     x",
        "Done: 100 of 102 hosts.",
        "and    PASS     100 hosts",
    ]


def test_the_same_problem_of_many_hosts_is_told_once() -> None:
    found = [Row(f"a5-{number:02}", "unreachable", "no route", next="ask") for number in (1, 2, 3, 7, 12, 13)]
    assert shown([*found, Row("b", "busy", "alice")]) == [
        "Left out: 7 of 7 hosts.",
        "a5-01..a5-03, a5-07, a5-12, a5-13 (6 hosts)",
        "       unreachable  no route",
        "                    next: ask",
        "b      busy         alice",
    ]


@pytest.mark.parametrize("columns", [80, 120])
def test_five_hundred_hosts_stay_readable(columns: int) -> None:
    """Worst case: each of 250 hosts has a long problem of its own, and as many kinds of end as there are."""
    hosts = {f"rack-{number:03}": Host(verdict="FAIL", checks=FAILED["checks"]) for number in range(50)}
    long = "the package kernel-devel-{} is in no repository that this host has enabled, and the next sentence is long"
    found = [rows.judge_host(name, host, STATS, True, False) for name, host in hosts.items()]
    found += [Row(f"s-{n}", "STOPPED", long.format(n)) for n in range(50)]
    found += [Row(f"r-{n}", "refused", long.format(n), next="do " * 20) for n in range(100)]
    found += [Row(f"u-{n}", "unreachable", f"10.0.0.{n} is away") for n in range(50)]
    found += [Row(f"w-{n}", "WARN", f"driver.persistence: off {n}") for n in range(50)]
    found += [Row(f"p-{n}", "PASS", "31 checks") for n in range(200)]
    lines = shown(found, columns)
    advice = layout.advice(found, hosts, columns)
    # The heading of all, that of the advice, the reports and the command come besides.
    assert len(lines) + len(advice) <= 25 and all(len(line) <= columns for line in lines + advice)
    text = "\n".join(lines)
    for number in ("Failed: 100 of 500", "Left out: 150 of 500", "Done: 250 of 500", "200 hosts"):
        assert number in text
    # Nobody is forgotten: what is listed and what is counted make the whole.
    assert len(shown(found, columns, bounded=False)) > 500


@pytest.mark.parametrize(
    ("names", "folded"),
    [
        (["a5-01", "a5-02"], ["a5-01", "a5-02"]),
        (["n10", "n9", "n8"], ["n8..n10"]),
        (["n09", "n10", "n11", "x"], ["n09..n11", "x"]),
        (["r1-n1", "r1-n2", "r1-n3", "r2-n1"], ["r1-n1..r1-n3", "r2-n1"]),
        (["a", "b", "c"], ["a", "b", "c"]),
        (["10.0.0.1", "10.0.0.2", "10.0.0.3"], ["10.0.0.1..10.0.0.3"]),
    ],
)
def test_names_that_count_up_are_one(names: list[str], folded: list[str]) -> None:
    assert words.fold_names(names) == folded


def test_several_hosts_have_a_sentence_that_can_be_followed() -> None:
    common = ("the name HOST is not known", "`getent hosts HOST` must answer.")
    names = ("b.local", "a.local")
    found = [
        Row(
            name,
            "unreachable",
            f"the name {name} is not known",
            next=f"`getent hosts {name}` must answer.",
            common=common,
        )
        for name in names
    ]
    text = " ".join(" ".join(shown(found, 80)).split())
    assert "HOST" not in text and text.count("must answer") == 1
    assert "a.local, b.local unreachable the name a.local is not known" in text
    assert text.endswith("next: `getent hosts a.local` must answer. That is for a.local; for the others likewise.")
    alone = " ".join(" ".join(shown(found[:1], 80)).split())
    assert "likewise" not in alone and "getent hosts b.local" in alone
    same = [Row(name, "refused", "no space", next="make some", common=("no space", "make some")) for name in names]
    assert "likewise" not in " ".join(shown(same, 80))


def test_only_a_list_of_ours_is_left_to_what_stands_above() -> None:
    ours = (
        "No file was written; its variables need 9 corrections:\n" + "- kickstart_x is not set: a long sentence\n" * 12
    )
    assert rows.failure_text({"msg": ours + "Next: set them"}) == (
        "No file was written; its variables need 9 corrections, which are listed above"
    )
    for theirs in (
        "Depsolve Error occurred:\n Problem: package kmod-nvidia requires " + "x " * 300,
        "Traceback (most recent call last):\n" + "  File x\n" * 60 + "KeyError: 'a'",
        "one long line of a program: " + "x " * 300 + ":",
    ):
        assert "above" not in rows.failure_text({"msg": theirs})
    assert "KeyError" in rows.failure_text({"msg": "Traceback (most recent call last):\n" + " x\n" * 300 + "KeyError"})


def test_what_is_switched_off_is_counted() -> None:
    off = [{**check(name, "SKIP", "why"), "waived": {"by": "inventory", "reason": "why"}} for name in ("x", "y")]
    assert rows.describe_pass([*PASSED["checks"], *off]) == (
        "2 checks, 2 switched off; 1 more does not apply; smoke test on cpu"
    )
    host = Host(verdict="WARN", checks=[*WARNED["checks"], *off])
    assert rows.problem_row("a5-01", host).tail == " (2 switched off)"
    host = Host(verdict="WARN", checks=[*WARNED["checks"], *WARNED["checks"], *off])
    assert rows.problem_row("a5-01", host).tail == " (+1 more) (2 switched off)"
    values: list[object] = [None, 5, "inventory", [], {"by": "acknowledgement"}]
    odd = [{**check("z"), "waived": value} for value in values]
    assert rows.switched_off(odd) == 0


def test_advice_has_bounds() -> None:
    hosts = {f"n{number:02}": Host(verdict="FAIL", checks=FAILED["checks"] * 3) for number in range(30)}
    found = [rows.judge_host(name, host, STATS, True, False) for name, host in hosts.items()]
    lines = layout.advice(found, hosts, 80)
    assert sum(not line.startswith("    ") for line in lines) == 10 * 3 + 1
    assert lines[-1] == "  The reports say what to do for 20 more hosts."
    assert all(len(line) <= 80 for line in lines)


@pytest.mark.parametrize("name", ["n", "node-with-a-name.of-the-longest.kind.example.org", "x" * 24, "x" * 25])
@pytest.mark.parametrize("tail", ["", " (+12 more)"])
@pytest.mark.parametrize("columns", [30, 40, 60, 80, 132])
def test_nothing_is_cut_on_any_terminal(name: str, tail: str, columns: int) -> None:
    text = " ".join(f"word{number}" for number in range(60))
    found = [Row(name, "STOPPED", text, tail, next="then this"), Row("b", "unreachable", text, next="go there")]
    lines = shown(found, columns)
    assert all(len(line) <= max(columns, len(name)) for line in lines)
    whole = " ".join(" ".join(lines).split())
    assert whole.count(text + tail) == (2 if not tail else 1) and "then this" in whole and name in whole


@pytest.mark.parametrize(
    ("verdict", "checks", "word", "text"),
    [
        ("FAIL", [], "FAIL", "gpu_verify says FAIL and names no check"),
        ("GREAT", [], "UNKNOWN", "gpu_verify says GREAT and names no check"),
        ("None", [], "UNKNOWN", "gpu_verify says None and names no check"),
        ("PASS", [], "PASS", "0 checks"),
    ],
)
def test_verdicts_that_do_not_fit_their_checks(verdict: str, checks: list[Any], word: str, text: str) -> None:
    row = rows.judge_host("a", Host(verdict=verdict, checks=checks), STATS, True, False)
    assert (row.word, row.text) == (word, text)


@pytest.mark.parametrize(
    ("told", "text"),
    [
        ({}, "2 changed"),
        ({"verdict": "PASS", "time": "2026-11-22T06:00:00Z"}, "2 changed"),
        ({"verdict": "WARN", "time": "2026-11-22T06:00:00Z"}, "2 changed"),
        ({"verdict": "FAIL", "time": "2026-11-22T06:00:00Z"}, "last verdict FAIL of 2026-11-22T06:00:00Z; 2 changed"),
        ({"verdict": "UNKNOWN", "time": ""}, "last verdict UNKNOWN of an unknown time; 2 changed"),
    ],
)
def test_done_does_not_hide_a_bad_last_verdict(told: dict[str, str], text: str) -> None:
    (row,) = rows.rows_of("a", Host(last_verdict=told), STATS, False, False)
    assert (row.word, row.text) == ("DONE", text)


@pytest.mark.parametrize(
    ("told", "expected"),
    [
        ({"kind": "busy", "reason": "alice trains.", "next": "Wait."}, [("busy", "alice trains.", "Wait.")]),
        ({"kind": "locked", "reason": "bob is at work", "next": ""}, [("locked", "bob is at work", "")]),
        ({"kind": "odd", "reason": "x"}, [("refused", "x", "")]),
        ({"kind": "busy"}, [("busy", "no reason was given", "")]),
        (
            {"kind": "refused", "problems": [{"problem": "a", "evidence": "e", "next": "n"}, {"problem": "b"}]},
            [("refused", "a (seen: e)", "n"), ("refused", "b", "")],
        ),
    ],
)
def test_why_a_host_was_left_out(told: dict[str, Any], expected: list[tuple[str, str, str]]) -> None:
    lost = {**STATS, "unreachable": 1, "failures": 1}
    found = rows.rows_of("a", Host(left_out=told), lost, True, True)
    assert [(row.word, row.text, row.next) for row in found] == expected


@pytest.mark.parametrize(
    ("result", "text"),
    [
        ({}, "failed"),
        ({"msg": None}, "failed"),
        ({"msg": "a\nb"}, "a b"),
        ({"msg": "All items completed", "results": [{"msg": "x"}, {"failed": True, "msg": "y"}]}, "y"),
        ({"msg": "MODULE FAILURE\nSee", "module_stderr": "Traceback\nKeyError: 'x'\n"}, "KeyError: 'x'"),
        ({"msg": "non-zero return code", "stderr": "", "module_stdout": ""}, "non-zero return code"),
        ({"msg": {"a": 1}}, "{'a': 1}"),
    ],
)
def test_why_a_task_failed(result: dict[str, Any], text: str) -> None:
    assert rows.failure_text(result) == text


@pytest.mark.parametrize(
    ("seconds", "text"), [(20.4, "20 s"), (119.4, "119 s"), (120, "2 min 00 s"), (754, "12 min 34 s")]
)
def test_duration(seconds: float, text: str) -> None:
    assert words.duration(seconds) == text


def test_a_task_that_goes_on_for_an_hour_does_not_fill_the_screen(monkeypatch: pytest.MonkeyPatch) -> None:
    now = [0.0]
    monkeypatch.setattr(heartbeat.time, "monotonic", lambda: now[0])
    said: list[str] = []
    beat = heartbeat.Heartbeat(said.append)
    # Without its thread; the test asks what is due.
    beat._thread = object()
    beat.begin("t", "Build", "a5-01", 20)
    for second in range(3601):
        now[0] = float(second)
        said += beat._due(20)
    assert [line.split(": ")[1].split(",")[0] for line in said[:8]] == [
        "20 s", "40 s", "60 s", "80 s", "100 s", "2 min 00 s", "3 min 00 s", "4 min 00 s",
    ]  # fmt: skip
    assert len(said) == 6 + 58


def test_heartbeat_names_as_many_hosts_as_fit() -> None:
    hosts = {f"node-{number:03}" for number in range(0, 100, 2)}
    lines = heartbeat.heartbeat_line("Reboot", 40, hosts).splitlines()
    assert len(lines) <= 2 and all(len(line) <= 80 for line in lines)
    assert re.search(r"waiting for node-000, node-002.* and \d+ more$", " ".join(map(str.strip, lines)))
    folded = {f"node-{number:03}" for number in range(50)}
    assert heartbeat.heartbeat_line("Reboot", 40, folded) == "  ... Reboot: 40 s, waiting for node-000..node-049"
    assert heartbeat.heartbeat_line("Reboot", 40, {"a5-02", "a5-01"}) == "  ... Reboot: 40 s, waiting for a5-01, a5-02"


def test_heartbeat_cuts_no_word_of_a_task() -> None:
    name = "Wait until no process of a run that was killed works on the node, and read what it has left there"
    lines = heartbeat.heartbeat_line(name, 40, {"a5-01"}).splitlines()
    assert all(len(line) <= 80 for line in lines)
    assert " ".join(" ".join(lines).split()) == f"... {name}: 40 s, waiting for a5-01"
    # Wherever a line ends, "2 min 01 s" stays together.
    for letters in range(40, 80):
        line = heartbeat.heartbeat_line("x" * letters, 121, {"a5-01"})
        assert "2 min 01 s" in line and line.isascii()
    packages = [f"package-{number}" for number in range(40)]
    line = " ".join(heartbeat.heartbeat_line(" ".join(["Install", *packages]), 40, {"a5-01"}).split())
    told = re.fullmatch(r"\.\.\. Install (.*) \.\.\.: 40 s, waiting for a5-01", line)
    assert told and len(told[1].split()) > 5 and set(told[1].split()) < set(packages)


# --- the command to go on with


@pytest.mark.parametrize(
    ("wanted", "others", "limit", "expected"),
    [
        (["a5-07", "a5-03"], [f"a5-1{n}" for n in range(8)], None, "a5-03,a5-07"),
        ([f"a5-1{n}" for n in range(8)], ["a5-02"], None, "gpu_nodes:!a5-02"),
        ([f"a5-1{n}" for n in range(8)], ["a5-02", "a5-1"], "rack1", "rack1:!a5-1:!a5-02"),
        ([f"a5-1{n}" for n in range(8)], ["a5-02"], "rack1,rack2", "rack1,rack2,!a5-02"),
        ([f"a5-1{n}" for n in range(3)], ["a5-02"], "@hosts.txt", "a5-10,a5-11,a5-12"),
        (["a5-01"], [], None, None),
        (["a5-01"], [], "rack1", None),
    ],
)
def test_the_shorter_limit_is_taken(
    wanted: list[str], others: list[str], limit: str | None, expected: str | None
) -> None:
    assert command.limit_for(wanted, others, limit) == expected


@pytest.mark.parametrize(
    ("typed", "expected"),
    [
        ("site.yml", "site.yml"),
        ("-i my/hosts.yml site.yml --tags system,verify", "-i my/hosts.yml site.yml --tags system,verify"),
        ("site.yml -l gpu_nodes", "site.yml"),
        ("site.yml --limit=gpu_nodes -C", "site.yml -C"),
        ("site.yml --lim gpu_nodes", "site.yml"),
        ("-lgpu_nodes site.yml", "site.yml"),
        ("-vl gpu_nodes site.yml", "site.yml"),
        ("site.yml -e @vars.yml -e 'a=1 b=2'", "site.yml -e @vars.yml -e 'a=1 b=2'"),
        ("site.yml --extra-vars=a=1", "site.yml -e a=1"),
        ("site.yml -ea=1 -K", "site.yml -e a=1 -K"),
        ("site.yml -e verify_level=deep --extra-vars x=y", "site.yml -e verify_level=deep -e x=y"),
        ("site.yml --list-hosts", "site.yml --list-hosts"),
        ("'my site.yml' -e '{\"a\": 1}'", "'my site.yml' -e '{\"a\": 1}'"),
        ("site.yml -e ansible_ssh_private_key_file=~/k", "site.yml -e 'ansible_ssh_private_key_file=~/k'"),
    ],
)
def test_the_command_is_the_one_that_was_typed(typed: str, expected: str) -> None:
    argv = ["/venv/bin/ansible-playbook", *shlex.split(typed)]
    playbook = next(word for word in argv if word.endswith("site.yml"))
    line, secret = command.go_on(argv, {"args": (playbook,)}, "a5-03,a5-07")
    assert (line, secret) == (f"ansible-playbook {expected} -l 'a5-03,a5-07'", [])


@pytest.mark.parametrize(
    ("extra", "kept", "secret"),
    [
        ("ansible_become_password=hunter2", "", ["ansible_become_password"]),
        ("a=1 ansible_become_pass=hunter2", '{"a": "1"}', ["ansible_become_pass"]),
        ('{"hf_token": "hunter2", "b": [1]}', '{"b": [1]}', ["hf_token"]),
        ("{site: {db: {password: hunter2}}, c: true}", '{"c": true}', ["site"]),
        ("system_driver_repository_url=https://u:hunter2@mirror/x", "", ["system_driver_repository_url"]),
        ("{urls: ['https://u:hunter2@mirror/x']}", "", ["urls"]),
        ("{hunter2: [", "", ["the -e that is not valid YAML"]),
        ("a='hunter2", "", ["the -e that is not a list of name=value"]),
    ],
)
@pytest.mark.parametrize("form", ["-e {}", "-e{}", "--extra-vars {}", "--extra-vars={}"])
def test_secrets_are_not_repeated(form: str, extra: str, kept: str, secret: list[str]) -> None:
    option, _, value = form.partition(" ")
    argv = ["ansible-playbook", "site.yml", *([option, extra] if value else [option.format(extra)]), "-C"]
    line, names = command.go_on(argv, {"args": ("site.yml",)}, "b")
    assert "hunter2" not in line + "".join(names) and names == secret
    assert shlex.split(line) == ["ansible-playbook", "site.yml", *(["-e", kept] if kept else []), "-C", "-l", "b"]


def test_a_program_that_is_not_ansible_playbook_is_told_by_its_playbook() -> None:
    assert command.go_on(["/usr/bin/x", "--all"], {"args": ("site.yml",)}, None) == ("ansible-playbook site.yml", [])
    assert command.go_on(
        ["/p/ansible/__main__.py", "playbook", "site.yml"], {"args": ("site.yml",)}, "a", "my hosts.yml", True
    ) == ("ansible-playbook site.yml -i 'my hosts.yml' -K -l 'a'", [])
    argv = ["ansible-playbook", "-i", "h", "-bK", "site.yml"]
    assert (
        command.go_on(argv, {"args": ("site.yml",)}, "a", "other", True)[0]
        == "ansible-playbook -i h -bK site.yml -l 'a'"
    )
