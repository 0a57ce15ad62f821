"""Arithmetic, readers of the kernel's counters, and page of make bench-converge; its measuring is no test."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

REPOSITORY = Path(__file__).resolve().parents[3]
BENCH = REPOSITORY / "tests/bench/converge"
FOLDERS = (BENCH, REPOSITORY / "tests/bench/runtime", REPOSITORY / "tests/fleet")
NAMES = (
    *(
        "accounts",
        "answers",
        "arms",
        "bench_converge",
        "converge_page",
        "converge_text",
        "figures",
        "fleet_hosts",
        "measure",
        "page",
    ),
    *("payload", "real_packages", "same", "ways"),
)
NET = "\n".join(
    (
        "Inter-|   Receive                             |  Transmit",
        " face |bytes packets errs drop fifo frame compressed multicast|bytes packets errs drop fifo colls carrier",
        "    lo:     100   1    0    0    0     0      0     0      100       1    0    0    0     0       0      0",
        "  eth0: 5203451   4021 0    0    0     0      0     0   904311    3310    0    0    0     0       0      0",
    )
)


@pytest.fixture
def bench(monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    """A function that imports a module of the benchmark; they lie side by side and import each other by name."""
    for folder in reversed(FOLDERS):
        monkeypatch.syspath_prepend(str(folder))
    for name in NAMES:
        sys.modules.pop(name, None)
    yield __import__
    for name in NAMES:
        sys.modules.pop(name, None)


def figure(value: float, spread: float = 0.0, count: int = 3) -> dict[str, Any]:
    return {"median": value, "interval": [value - spread, value + spread], "n": count}


def costs(wall: float, calls: float, smoke: float = 0.0) -> dict[str, Any]:
    kinds = ("tasks", "modules", "MB", "controller CPU", "target CPU", "memory", "memory with files")
    return {
        "wall": figure(wall, 0.5),
        **{kind: figure(10.0) for kind in kinds},
        "calls": figure(calls),
        "smoke": figure(smoke),
    }


def made_up() -> dict[str, Any]:
    """Results of a run that nobody made."""
    measured = {
        "date": "2026-01-05",
        "CPU": "made up",
        "cores": 2,
        "load before": 0.1,
        "load after": 1.9,
        "minutes": 31,
    }
    ours = {
        "first": costs(120, 50, 5),
        "second": costs(30, 60),
        "no-op": costs(7, 5, 2.5),
        "changed variable": costs(9, 9),
    }
    bare = {"first": costs(100, 0), "no-op": costs(1, 0), "changed variable": costs(1, 0)}
    verdict = {"step": "no-op", "kind": "wall", "other": "stock role", "ratio": 2.5, "interval": [2.4, 2.6]}
    files = {"equal": 300, **{kind: {"count": 0, "names": []} for kind in ("differ", "only here", "only gpuwright")}}
    one = {
        "rounds": 1,
        "repeats": 3,
        "changes": 2,
        "measured": measured,
        "arms": {"bare script": bare, "gpuwright": ours},
        "verdicts": [verdict],
        "short from": 3,
        "errors": {"stock role, mitogen": ["exit status 2"]},
        "same": {"bare script": {"packages": 99, "packages that differ": [], **files}},
    }
    many = {
        "hosts": 100,
        "forks": 25,
        "repeats": 3,
        "measured": measured,
        "arms": {"gpuwright": {"no-op": costs(30, 5)}},
    }
    walls = {"gpuwright": 480.0, "bare script": 400.0}
    first = {way: {"first": {**costs(wall, 50, 10), "wall": figure(wall, count=1)}} for way, wall in walls.items()}
    real = {"rounds": 1, "measured": measured, "arms": first, "same": one["same"]}
    return {"schema": 1, "hosts 1": one, "endpoints 100": many, "real packages": real}


def test_bytes_of_an_interface(bench: Any) -> None:
    accounts = bench("accounts")
    assert accounts.received_and_sent(NET) == (5203451, 904311)
    with pytest.raises(KeyError):
        accounts.received_and_sent(NET, "eth1")


def test_what_the_machine_itself_received_is_no_containers(bench: Any) -> None:
    """A container's first process is in the machine's network for a moment, and a number is given out again."""
    accounts = bench("accounts")
    with pytest.raises(KeyError, match=r"net:\["):
        accounts.received_and_sent_by(os.getpid())
    assert accounts.is_of(os.getpid(), "/") and not accounts.is_of(os.getpid(), "libpod-of-another")
    assert not accounts.is_of(0, "/")


@pytest.mark.parametrize(
    ("text", "group"),
    [
        ("4:memory:/a\n2:cpuacct:/libpod_parent/libpod-1\n0::/", "/libpod_parent/libpod-1"),
        ("5:cpu,cpuacct:/both\n0::/", "/both"),
        ("0::/machine.slice/libpod-1.scope/container", "/machine.slice/libpod-1.scope/container"),
    ],
)
def test_control_group_of_either_version(text: str, group: str, bench: Any) -> None:
    assert bench("accounts").group_of(text, "cpuacct") == group


def test_cpu_seconds_of_either_version(bench: Any) -> None:
    accounts = bench("accounts")
    assert accounts.cpu_seconds("2500000000\n") == 2.5
    assert accounts.cpu_seconds("usage_usec 2500000\nuser_usec 1\nsystem_usec 2\n") == 2.5


def test_anonymous_memory_of_either_version(bench: Any) -> None:
    accounts = bench("accounts")
    assert accounts.anonymous_bytes("cache 9\nrss 1\ntotal_rss 4096\n") == 4096
    assert accounts.anonymous_bytes("anon 8192\nfile 9\n") == 8192


def test_a_counter_goes_on_where_its_container_starts_again(bench: Any) -> None:
    counter = bench("accounts").Rising()
    for value in (10, 25, 3, 8):
        counter.see(value)
    assert counter.total == 15 + 3 + 5


def test_figures_have_the_interval_of_their_median(bench: Any) -> None:
    figures = bench("figures")
    assert figures.figure([3.0, 1.0, 2.0]) == {"median": 2.0, "interval": [1.0, 3.0], "n": 3}
    assert figures.figure([7.0]) == {"median": 7.0, "interval": [7.0, 7.0], "n": 1}
    assert figures.figure([float(value) for value in range(1, 10)])["interval"] == [2.0, 8.0]


def test_runs_of_which_nothing_is_told_are_left_out(bench: Any) -> None:
    found = bench("figures").summary({"gpuwright": {"first": [{"wall": 1.0}], "until short": [{"wall": 2.0}]}})
    assert found == {"gpuwright": {"first": {"wall": {"median": 1.0, "interval": [1.0, 1.0], "n": 1}}}}


def test_two_ways_are_compared_pair_by_pair_and_only_where_there_are_three(bench: Any) -> None:
    def runs(*walls: float) -> list[dict[str, float]]:
        return [{"wall": wall, "controller CPU": 1.0} for wall in walls]

    values = {
        "gpuwright": {"first": runs(1), "no-op": runs(1, 2, 4)},
        "stock role": {"first": runs(2), "no-op": runs(2, 4, 12)},
    }
    rows = bench("figures").verdicts(values, "gpuwright")
    assert [(row["step"], row["kind"]) for row in rows] == [("no-op", "wall"), ("no-op", "controller CPU")]
    assert (rows[0]["ratio"], rows[0]["interval"]) == (2.0, [2.0, 3.0])


def test_goals_are_met_not_met_or_not_measured(bench: Any) -> None:
    page = bench("converge_page")
    rows = page.goal_lines(made_up())
    told = {row.split(" | ")[0].removeprefix("| "): row.rpartition(" | ")[2].rstrip(" |") for row in rows[2:]}
    assert told["no-op, one host: modules executed on the node, with the smoke test"] == "met"
    assert told["no-op, one host: wall without the smoke test, goal on a quiet machine"] == "not met"
    assert told["the same, gate"] == "met"
    assert told["beside it, the smoke test"] == "-"
    assert told["the same with stand-ins, of which none is large, gate"] == "met"
    assert (
        told["first run with real packages, without the smoke test, over the bare script, gate"] == "not met, one run"
    )
    assert told["100 endpoints: controller, CPU seconds for each"] == "not met"
    empty = page.goal_lines({"schema": 1})
    assert all("not measured" in row or "shown only" in row for row in empty[2:]), empty


def test_page_of_a_made_up_run(bench: Any) -> None:
    text = bench("converge_page").write_page(made_up())
    assert "| bare script | 100 (99.5 to 100.5) |" in text
    assert "Run 3 was the first that entered no role." in text
    assert "* No-op, wall: faster than stock role (2.50x, 95 % interval 2.40 to 2.60)" in text
    assert "stock role, mitogen did not succeed" in text and "99 packages, of which differ: none" in text
    assert "| 10,000 | 100,000 |" in text and "Whole hosts, ten at once: not measured yet." in text


def test_page_before_anything_was_measured(bench: Any) -> None:
    text = bench("converge_page").write_page({"schema": 1})
    assert "--real 1" in text and "nothing to multiply" in text and "Not measured yet." in text


def test_compact_json_says_the_same(bench: Any) -> None:
    assert json.loads(bench("converge_page").compact(made_up())) == made_up()


def test_committed_page_is_what_its_json_gives(bench: Any) -> None:
    folder = REPOSITORY / "docs/benchmarks"
    found = json.loads((folder / "converge.json").read_text())
    assert bench("converge_page").write_page(found) == (folder / "converge.md").read_text()


def module(name: str, parameters: str) -> str:
    """What Ansible sends, as far as the stub reads it."""
    arguments = f'{{"ANSIBLE_MODULE_ARGS": {{{parameters}"_ansible_module_name": "{name}"}}}}'
    return f"import sys\n    def debug(x):\n    ANSIBALLZ_PARAMS = '{arguments}'\n    if PY3:\n"


@pytest.mark.parametrize(
    ("name", "parameters"),
    [("gpuwright.node.gpu_probe", '"agents": [], '), ("gpuwright.node.gpu_verify", '"a": {"b": "c"}, ')],
)
def test_recorder_and_stub_know_a_module_by_the_same_name(
    name: str, parameters: str, bench: Any, tmp_path: Path
) -> None:
    assert bench("answers").key_of(module(name, parameters)) == name
    (tmp_path / name).write_text('{"answer": 1}')
    script = (BENCH / "target/replay").read_text().replace("/usr/libexec/converge", str(tmp_path))
    done = subprocess.run(["sh", "-c", script], input=module(name, parameters), capture_output=True, text=True)
    assert (done.returncode, done.stdout) == (0, '{"answer": 1}'), done.stderr


def test_files_of_each_host_alone_are_not_compared(bench: Any) -> None:
    same = bench("same")
    ours = same.sums_of("aa  /etc/x\nbb  /etc/machine-id\ncc  /etc/y\ndd  /usr/local/__pycache__/z\n")
    assert ours == {"/etc/x": "aa", "/etc/y": "cc"}
    told = same.compared(ours, {"/etc/x": "aa", "/etc/y": "00", "/etc/z": "ee"})
    assert (told["equal"], told["differ"]["names"], told["only here"]["names"]) == (1, ["/etc/y"], ["/etc/z"])


def test_packages_that_a_run_has_added(bench: Any) -> None:
    before, after = (
        "adduser=3.134\nlibc6:amd64=2.36-9\n",
        "adduser=3.135\nlibc6:amd64=2.36-9\nnvidia-smi=535.261.03-1\n",
    )
    assert bench("real_packages").added(before, after) == ["nvidia-smi=535.261.03-1"]


def test_a_way_that_nobody_knows_is_named(
    bench: Any, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys, "argv", ["bench_converge.py", "--arms", "gpuwright", "--hosts", "none"])
    with pytest.raises(SystemExit):
        bench("bench_converge").main()
    assert "no way is called gpuwright; they are bare, stock, mitogen, ours" in capsys.readouterr().err


def test_interval_of_the_timer_in_the_scripts_files(bench: Any, tmp_path: Path) -> None:
    timer = tmp_path / "timer"
    timer.write_text("Description=GPU check every 5 minutes\nOnCalendar=*:0/5\n")
    bench("payload").with_minutes(timer, 10)
    assert timer.read_text() == "Description=GPU check every 10 minutes\nOnCalendar=*:0/10\n"


@pytest.mark.parametrize(
    ("step", "tasks", "changed", "timers", "says"),
    [
        ("no-op", 2, 0, ["*:0/5"], ""),
        ("no-op", 2, 1, ["*:0/5"], "it changed something on its hosts: 1 each"),
        ("changed variable", 9, 1, ["*:0/5", "*:0/5"], ""),
        ("changed variable", 9, 0, ["*:0/5"], "it changed nothing"),
        ("first", 51, 0, ["*:0/5"], "it changed nothing"),
        # The script counts nothing, so that only what it left behind is known.
        ("changed variable", 0, 0, ["*:0/5"], ""),
        ("changed variable", 0, 0, ["*:0/5", "*:0/10"], "a host has *:0/10 in its timer, not *:0/5"),
        ("first", 0, 0, [""], "a host has nothing in its timer, not *:0/5"),
        ("second", 9, 3, ["*:0/5"], ""),
    ],
)
def test_a_run_that_was_no_such_step_has_no_figure(
    step: str, tasks: int, changed: int, timers: list[str], says: str, bench: Any
) -> None:
    assert bench("ways").why_not(step, {"tasks": tasks, "changed": changed}, timers, 5) == says


def test_a_run_without_some_of_its_hosts_has_no_figure(bench: Any, tmp_path: Path) -> None:
    recap = {"h1": {"changed": 0}, "h2": {"changed": 0}}
    (tmp_path / "counts.json").write_text(json.dumps({"tasks": {"h1": 2, "h2": 2}, "smoke": {}, "recap": recap}))
    ways = bench("ways")
    assert ways.counted(tmp_path, 2)["tasks"] == 2
    with pytest.raises(ways.Failed, match="2 of 3 hosts took part"):
        ways.counted(tmp_path, 3)


@pytest.mark.parametrize(
    ("output", "good"), [("Verdict FAIL\n", True), ("a5-01  PASS", True), ("Unable to lock", False)]
)
def test_a_first_run_with_real_packages_ends_with_a_verdict(output: str, good: bool, bench: Any) -> None:
    """Without a card its status is 2, as is that of a run that stopped at its first package."""
    assert bench("real_packages").came_to_its_end(output) is good
