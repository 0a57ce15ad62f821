"""gpuwright-drains, the one place that drains and returns nodes: ownership, breaker, ageing, and a race of many."""

from __future__ import annotations

import json
import os
import subprocess
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from conftest import REPOSITORY
from slurm_stand_in import Slurm

PROGRAM = REPOSITORY / "deploy/slurm/gpuwright-drains"
XID = "gpuwright FAIL 1a2b3c4d kernel.xid: Run: reboot"
XID_REASON = "gpuwright: kernel.xid: Run: reboot"
PASS = "gpuwright PASS 1a2b3c4d"
MINUTE = 60.0


class Site:
    def __init__(self, folder: Path) -> None:
        self.slurm = Slurm(folder)
        self.state = folder / "memory/drains.json"

    def run(self, *words: str) -> subprocess.CompletedProcess[str]:
        path = f"{self.slurm.folder}:{os.environ['PATH']}"
        return subprocess.run(
            [str(PROGRAM), "--state", str(self.state), *words],
            env={**os.environ, "PATH": path},
            capture_output=True,
            text=True,
            timeout=120,
        )

    def ok(self, *words: str) -> str:
        done = self.run(*words)
        assert (done.returncode, done.stderr) == (0, ""), done
        return done.stdout

    def nodes(self, count: int, request: str = PASS) -> None:
        content = self.slurm.read()
        row = {"state": "idle", "reason": "none", "since": None, "Comment": request}
        content["nodes"] = {f"n{number:02}": dict(row) for number in range(count)}
        self.slurm.write(content)

    def says(self, name: str, request: str) -> None:
        self.slurm.node(name, **{**self.slurm.get(name), "Comment": request})

    def later(self, seconds: float) -> None:
        """As if everything so far had been that much earlier."""
        memory = json.loads(self.state.read_text())
        for drain in memory["drains"].values():
            drain["at"] -= seconds
        self.state.write_text(json.dumps(memory))
        content = self.slurm.read()
        for node in content["nodes"].values():
            node["since"] = node["since"] and node["since"] - seconds
        self.slurm.write(content)


@pytest.fixture
def site(tmp_path: Path) -> Site:
    return Site(tmp_path)


def test_a_failed_node_is_drained_with_check_and_action_and_returned_by_a_pass(site: Site) -> None:
    site.nodes(3)
    site.says("n01", XID)
    assert site.ok() == f"n01: State=DRAIN Reason={XID_REASON}\n"
    assert site.slurm.get("n01")["reason"] == XID_REASON and site.slurm.drained() == ["n01"]
    assert site.ok() == ""
    site.says("n01", PASS)
    assert site.ok() == "n01: State=UNDRAIN\n"
    assert site.slurm.drained() == [] and site.ok() == ""


@pytest.mark.parametrize(
    ("before", "meanwhile"),
    [
        # A person was faster, with a reason of their own.
        ({"Comment": XID}, {"state": "idle+drain", "reason": "bad fan"}),
        # A playbook has taken over the drain, for planned work.
        ({"state": "idle+drain", "reason": XID_REASON}, {"reason": "gpuwright: planned work: upgrade (root)"}),
        # It fails again.
        ({"state": "idle+drain", "reason": XID_REASON}, {"Comment": XID}),
        ({"Comment": XID}, {"Comment": PASS}),
    ],
    ids=["a person's drain", "planned work", "a new failure", "a new pass"],
)
def test_what_has_changed_since_it_was_read_is_left_to_the_next_run(
    site: Site, before: dict[str, Any], meanwhile: dict[str, Any]
) -> None:
    site.nodes(3)
    site.slurm.node("n01", **{"Comment": PASS, "since": time.time(), **before})
    site.slurm.change(meanwhile=[["sinfo", "n01", meanwhile]])
    assert site.ok() == "n01: it has changed meanwhile, so the next run decides on it\n"
    assert site.slurm.updates() == [] and site.slurm.get("n01").items() >= meanwhile.items()


def test_a_warning_does_not_drain_and_returns(site: Site) -> None:
    site.nodes(3)
    site.slurm.node("n00", "idle+drain", XID_REASON, Comment="gpuwright WARN 1a2b3c4d", since=time.time())
    site.says("n01", "gpuwright WARN 1a2b3c4d")
    assert site.ok() == "n00: State=UNDRAIN\n"


@pytest.mark.parametrize(
    "reason",
    [
        "bob: fan",
        "Prolog error",
        "Kill task failed",
        "Not responding",
        "gpuwrights: kernel.xid: Run: reboot",
        "gpuwright",
        "gpuwright: fan is loud",
        "see gpuwright: kernel.xid: Run: reboot",
        # What the role `drain` writes while somebody works on the node.
        "gpuwright: planned work: new driver (alice)",
    ],
)
def test_somebody_elses_drain_is_never_returned_or_renamed(site: Site, reason: str) -> None:
    site.nodes(1)
    for request in (PASS, "gpuwright WARN 1a2b3c4d", XID, "gpuwright PASS", ""):
        site.slurm.node("n00", "mixed+drain", reason, Comment=request, since=time.time())
        assert site.ok() == ""
    assert site.slurm.updates() == [] and site.slurm.get("n00")["reason"] == reason


@pytest.mark.parametrize("request_", ["(null)", "", "rack 7", "gpuwright UNKNOWN 1a2b3c4d no record", "gpuwright FAIL"])
def test_a_node_that_says_nothing_stays_as_it_is(site: Site, request_: str) -> None:
    site.nodes(2, request_)
    site.slurm.node("n01", "idle+drain", XID_REASON, Comment=request_, since=time.time())
    assert site.ok() == ""


def test_a_node_that_is_down_is_not_brought_up(site: Site) -> None:
    site.nodes(1)
    site.slurm.node("n00", "down+drain", XID_REASON, Comment=PASS, since=time.time())
    assert "UNDRAIN" in site.ok() and site.slurm.get("n00")["state"] == "down"


# -- the breaker -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("nodes", "words", "allowed"), [
    (1, (), 1), (9, (), 1), (19, (), 1), (20, (), 2), (50, (), 5),
    (50, ("--share", "30"), 15), (50, ("--share", "0"), 1),
])  # fmt: skip
def test_at_most_a_share_of_the_nodes_is_drained(site: Site, nodes: int, words: tuple, allowed: int) -> None:
    site.nodes(nodes, XID)
    site.ok(*words)
    assert len(site.slurm.drained()) == allowed
    site.ok(*words)
    assert len(site.slurm.drained()) == allowed


def test_fifty_nodes_that_ask_at_once_stay_within_the_share(site: Site) -> None:
    site.nodes(50, XID)
    with ThreadPoolExecutor(4) as pool:
        done = list(pool.map(lambda _number: site.run(), range(8)))
    assert {one.returncode for one in done} == {0}
    assert len(site.slurm.drained()) == 5 and len(site.slurm.updates()) == 5


def test_it_says_once_that_it_holds_and_once_that_it_no_longer_does(site: Site) -> None:
    site.nodes(20, XID)
    first = site.ok()
    assert (
        first.count("BREAKER") == 1
        and "within 60 min: 2, allowed: 2." in first
        and "n02" in first
        and "kernel.xid" in first
    )
    assert [site.ok(), site.ok()] == ["", ""]
    for number in range(20):
        site.says(f"n{number:02}", PASS)
    assert "BREAKER: no node is held any more." in site.ok()
    assert site.ok() == ""


def test_a_drain_counts_until_the_window_is_over_also_if_the_node_is_back(site: Site) -> None:
    site.nodes(10)
    site.says("n00", XID)
    site.ok()
    site.says("n00", PASS)
    site.ok()
    assert site.slurm.drained() == []
    site.says("n01", XID)
    assert "BREAKER" in site.ok() and site.slurm.drained() == []
    site.later(59 * MINUTE)
    assert site.ok() == "" and site.slurm.drained() == []
    site.later(2 * MINUTE)
    assert f"n01: State=DRAIN Reason={XID_REASON}" in site.ok()


def test_a_drain_of_a_clock_that_was_ahead_counts_for_one_window_only(site: Site) -> None:
    site.nodes(10)
    site.says("n00", XID)
    site.ok()
    site.says("n00", PASS)
    site.ok()
    site.later(-365 * 24 * 60 * MINUTE)
    site.says("n01", XID)
    assert "BREAKER" in site.ok() and site.slurm.drained() == []
    site.later(61 * MINUTE)
    assert f"n01: State=DRAIN Reason={XID_REASON}" in site.ok()


def test_a_stamp_of_slurm_in_the_future_does_not_count(site: Site) -> None:
    site.nodes(10)
    site.slurm.node("n00", "idle+drain", XID_REASON, Comment=XID, since=time.time() + 365 * 24 * 60 * MINUTE)
    site.says("n01", XID)
    assert f"n01: State=DRAIN Reason={XID_REASON}" in site.ok()


def test_drains_that_another_program_made_count(site: Site) -> None:
    """The prolog with PROLOG_ON_FAIL=refuse, or this program on the backup controller."""
    site.nodes(10)
    site.slurm.node("n00", "idle+drain", XID_REASON, Comment=XID, since=time.time() - 30 * MINUTE)
    site.says("n01", XID)
    assert "BREAKER" in site.ok() and site.slurm.drained() == ["n00"]
    site.slurm.node("n00", "idle+drain", XID_REASON, Comment=XID, since=time.time() - 61 * MINUTE)
    site.ok()
    assert site.slurm.drained() == ["n00", "n01"]


def test_an_administrators_drains_do_not_count(site: Site) -> None:
    site.nodes(10)
    for number in range(5):
        site.slurm.node(f"n0{number}", "idle+drain", "bob: move", Comment=PASS, since=time.time())
    site.says("n07", XID)
    site.ok()
    assert "n07" in site.slurm.drained()


# -- people ------------------------------------------------------------------------------------------------------------


def returned_by_hand(site: Site) -> None:
    site.nodes(10)
    site.says("n00", XID)
    site.ok()
    site.slurm.node("n00", "idle", "none", Comment=XID)


def test_a_node_that_somebody_has_returned_is_left_until_it_says_something_else(site: Site) -> None:
    returned_by_hand(site)
    assert site.ok() == "" and site.slurm.drained() == []
    site.later(120 * MINUTE)
    assert site.ok() == "" and site.slurm.drained() == []
    assert "left, since somebody has returned it: n00" in site.ok("--dry-run")
    site.says("n00", "gpuwright FAIL 1a2b3c4d gpu.count: Look.")
    assert "Reason=gpuwright: gpu.count: Look." in site.ok()


@pytest.mark.parametrize("between", ["boot", "pass", "work"])
def test_it_is_drained_again_after_a_boot_a_pass_or_planned_work(site: Site, between: str) -> None:
    returned_by_hand(site)
    if between == "boot":
        site.says("n00", XID.replace("1a2b3c4d", "99999999"))
    if between == "pass":
        site.says("n00", PASS)
        site.ok()
        site.says("n00", XID)
    if between == "work":
        site.slurm.node("n00", "idle+drain", "gpuwright: planned work: driver (alice)", Comment=XID, since=time.time())
        site.ok()
        site.slurm.node("n00", "idle", "none", Comment=XID)
    site.ok()
    assert site.slurm.drained() == ["n00"]


# -- trouble -----------------------------------------------------------------------------------------------------------


def test_a_dry_run_changes_nothing(site: Site) -> None:
    site.nodes(10, XID)
    said = site.ok("--dry-run")
    assert f"would: n00: State=DRAIN Reason={XID_REASON}" in said and "held by the breaker: n01" in said
    assert "0 of 1 drains of this window are used" in said
    assert site.slurm.updates() == [] and not site.state.exists()


def test_a_controller_that_does_not_answer_is_one_sentence(site: Site) -> None:
    site.slurm.change(refuses="Unable to contact slurm controller (connect failure)")
    done = site.run()
    assert done.returncode == 1 and done.stderr.count("\n") == 1 and "Unable to contact" in done.stderr


@pytest.mark.parametrize(
    "content", ["", "{}", "[]", '{"schema": 2, "drains": {}}', '{"schema": 1, "drains": {"a": 1}}']
)
def test_a_memory_that_cannot_be_read_drains_nothing(site: Site, content: str) -> None:
    site.nodes(10, XID)
    site.state.parent.mkdir()
    site.state.write_text(content)
    done = site.run()
    assert done.returncode == 1 and "nothing is drained" in done.stderr and site.slurm.updates() == []
    assert site.state.read_text() == content


def test_a_memory_that_cannot_be_written_drains_nothing(site: Site) -> None:
    site.nodes(10, XID)
    (site.state.parent / "drains.json.new").mkdir(parents=True)
    done = site.run()
    assert done.returncode == 1 and "cannot be written" in done.stderr and site.slurm.updates() == []


def test_a_command_that_fails_is_named_and_tried_again(site: Site) -> None:
    site.nodes(10)
    site.says("n00", XID)
    program = site.slurm.folder / "scontrol"
    whole = program.read_text()
    program.write_text("#!/bin/sh\necho 'slurm_update error: Access denied' >&2\nexit 1\n")
    done = site.run()
    assert done.returncode == 1 and "n00: " in done.stderr and "Access denied" in done.stderr
    program.write_text(whole)
    site.ok()
    assert site.slurm.drained() == ["n00"]


def test_a_run_that_was_killed_before_its_drain_is_made_good(site: Site) -> None:
    site.nodes(10)
    site.says("n00", XID)
    program = site.slurm.folder / "scontrol"
    whole = program.read_text()
    # Ends the program that called it, as the kernel does when memory is short.
    program.write_text("#!/bin/sh\nkill -9 $PPID\n")
    assert site.run().returncode == -9
    assert json.loads(site.state.read_text())["drains"]
    program.write_text(whole)
    site.ok()
    assert site.slurm.drained() == ["n00"]


@pytest.mark.parametrize("words", [("--share", "-1"), ("--share", "101"), ("--window", "0"), ("--field", "Reason")])
def test_a_wrong_option_is_refused(site: Site, words: tuple[str, ...]) -> None:
    done = site.run(*words)
    assert done.returncode == 2 and words[0] in done.stderr and site.slurm.read()["log"] == []


def test_it_speaks_python_3_6() -> None:
    """EL 8's controllers have no newer one by default."""
    command = ["vermin", "-t=3.6-", "--no-tips", "--violations", str(PROGRAM)]
    done: Any = subprocess.run(command, capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stdout


def test_the_timers_command_is_one_that_it_understands(site: Site) -> None:
    folder = REPOSITORY / "deploy/slurm"
    unit = (folder / "gpuwright-drains.service").read_text()
    command = (
        next(line for line in unit.splitlines() if line.startswith("ExecStart=")).removeprefix("ExecStart=").split()
    )
    assert command[0] == "/usr/local/lib/gpuwright/slurm/gpuwright-drains"
    site.nodes(10)
    site.ok(*command[1:], "--dry-run")
    # systemd makes the folder of the memory, and it is the only one that the service may write to.
    assert "StateDirectory=gpuwright-drains\n" in unit and "ProtectSystem=strict\n" in unit
    assert 'STATE = "/var/lib/gpuwright-drains/' in PROGRAM.read_text()
