"""What a node tells Slurm: by its health check, before and after a job; Slurm's commands are stand-ins."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest
from conftest import REPOSITORY
from gpuwright.verdict.report import write_json
from slurm_stand_in import Slurm
from test_verdict_program import check, record

SETTINGS = "SETTINGS=/etc/gpuwright/scheduler.conf"
BOOT = Path("/proc/sys/kernel/random/boot_id").read_text()[:8]
SLURMD = {"SLURMD_NODENAME": "n1", "SLURM_JOB_ID": "7"}
XID = check("kernel.xid", "FAIL", "Run: reboot")


class Node:
    """The files of deploy/ as they lie on a node, with settings of its own."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.slurm = Slurm(folder)
        self.slurm.node("n1")
        for part in ("slurm", "gate"):
            shutil.copytree(REPOSITORY / "deploy" / part, folder / part)
        shared = folder / "slurm/gpuwright-node.sh"
        text = shared.read_text()
        assert text.count(SETTINGS) == 1
        shared.write_text(text.replace(SETTINGS, f"SETTINGS='{folder}/settings'"))
        self.set()

    def set(self, **settings: str) -> None:
        own = {"SLURM_BIN": self.slurm.folder, "RECORD": self.folder / "record", "SAID": self.folder / "run/said"}
        lines = [f"{name}='{value}'\n" for name, value in {**own, **settings}.items()]
        (self.folder / "settings").write_text("".join(lines))

    def judge(self, verdict: str, *checks: dict[str, Any], **changes: Any) -> None:
        write_json(str(self.folder / "record"), {**record(verdict, *checks), **changes})

    def run(self, name: str, environment: dict[str, str] = SLURMD) -> int:
        """As slurmd runs it: no search path, and the name of the node in the environment."""
        done = subprocess.run(
            [str(self.folder / f"slurm/gpuwright-{name}")],
            env=environment,
            capture_output=True,
            text=True,
            timeout=30,
        )
        self.said = done.stderr
        return done.returncode

    @property
    def told(self) -> list[list[str]]:
        return [words[1:] for words in self.slurm.updates()]


@pytest.fixture
def node(tmp_path: Path) -> Node:
    return Node(tmp_path)


def test_a_good_node_tells_once_and_then_asks_slurm_nothing(node: Node) -> None:
    node.judge("PASS")
    assert [node.run("healthcheck") for _ in range(3)] == [0, 0, 0]
    assert node.told == [[f"Comment=gpuwright PASS {BOOT}"]]
    assert node.run("prolog") == node.run("epilog") == 0 and len(node.slurm.read()["log"]) == 1


def test_a_failed_node_tells_every_time_and_drains_nothing_itself(node: Node) -> None:
    node.judge("FAIL", XID)
    assert [node.run("healthcheck"), node.run("prolog"), node.run("epilog")] == [0, 0, 0]
    assert node.told == [[f"Comment=gpuwright FAIL {BOOT} kernel.xid: Run: reboot"]] * 3
    assert node.slurm.drained() == []


def test_it_tells_again_what_has_changed(node: Node) -> None:
    for verdict in ("PASS", "WARN", "WARN", "PASS"):
        node.judge(verdict)
        node.run("healthcheck")
    assert [words[0].split()[1] for words in node.told] == ["PASS", "WARN", "PASS"]


def test_an_unknown_verdict_takes_nothing_back_and_asks_for_nothing(node: Node) -> None:
    node.judge("FAIL", XID)
    node.run("healthcheck")
    node.judge("PASS", boot_id="other")
    assert [node.run("healthcheck"), node.run("prolog"), node.run("epilog")] == [0, 0, 0]
    (node.folder / "record").unlink()
    assert node.run("healthcheck") == 0
    assert len(node.told) == 1
    # What it said before no longer stands, so a PASS is told again.
    node.judge("PASS")
    node.run("healthcheck")
    assert node.told[-1] == [f"Comment=gpuwright PASS {BOOT}"]


def test_a_site_can_have_unknown_nodes_drained(node: Node) -> None:
    node.set(ON_UNKNOWN="drain")
    node.judge("PASS", boot_id="other")
    assert node.run("healthcheck") == 0
    assert node.told == [[f"Comment=gpuwright FAIL {BOOT} unknown: the last check is from an earlier boot"]]


def test_what_slurm_did_not_take_is_told_again(node: Node) -> None:
    node.judge("PASS")
    node.slurm.change(refuses="Unable to contact slurm controller (connect failure)")
    assert node.run("healthcheck") == 0
    node.slurm.change(refuses="")
    node.run("healthcheck")
    assert node.slurm.get("n1")["Comment"] == f"gpuwright PASS {BOOT}"


def test_a_prolog_that_refuses_drains_with_our_reason_first(node: Node) -> None:
    node.set(PROLOG_ON_FAIL="refuse")
    node.judge("FAIL", XID)
    assert node.run("prolog") == 1
    assert node.slurm.get("n1")["reason"] == "gpuwright: kernel.xid: Run: reboot" and node.slurm.drained() == ["n1"]
    node.judge("WARN")
    assert node.run("prolog") == 0
    (node.folder / "record").unlink()
    assert node.run("prolog") == 0


def test_a_prolog_that_refuses_leaves_an_administrators_reason(node: Node) -> None:
    node.set(PROLOG_ON_FAIL="refuse")
    node.slurm.node("n1", "allocated+drain", "bob: fan")
    node.judge("FAIL", XID)
    assert node.run("prolog") == 1
    assert node.slurm.get("n1")["reason"] == "bob: fan"


def test_the_sites_limit_and_field_are_used(node: Node) -> None:
    node.set(MAX_AGE_S="60", FIELD="Extra")
    old = record("PASS")["uptime_s"] - 100
    node.judge("PASS", uptime_s=old)
    node.run("healthcheck")
    assert node.told == []
    node.judge("PASS")
    node.run("healthcheck")
    assert node.told == [[f"Extra=gpuwright PASS {BOOT}"]]


def test_the_node_has_the_name_that_the_site_gives_or_slurm_or_the_host(node: Node) -> None:
    host = os.uname().nodename.partition(".")[0]
    for name in ("gpu7", host):
        node.slurm.node(name)
    node.judge("FAIL", XID)
    node.run("healthcheck")
    node.run("healthcheck", {})
    node.set(NODE_NAME="gpu7")
    node.run("healthcheck")
    assert [words[0] for words in node.slurm.updates()] == ["NodeName=n1", f"NodeName={host}", "NodeName=gpu7"]


def test_a_reason_is_never_longer_than_slurm_shows(node: Node) -> None:
    node.judge("FAIL", check("kernel.xid", "FAIL", "x" * 5000))
    node.run("healthcheck")
    words = node.told[0][0].partition(f"{BOOT} ")[2]
    assert words.startswith("kernel.xid: xxx") and len(words) == 300


@pytest.mark.parametrize("name", ["healthcheck", "prolog", "epilog"])
def test_without_the_programs_a_job_still_starts(node: Node, name: str) -> None:
    shutil.rmtree(node.folder / "gate")
    assert node.run(name) == 0 and node.told == []


def test_each_says_which_lines_slurm_conf_needs() -> None:
    for name, key in (("healthcheck", "HealthCheckProgram"), ("prolog", "Prolog"), ("epilog", "Epilog")):
        text = (REPOSITORY / f"deploy/slurm/gpuwright-{name}").read_text()
        assert f"{key}=/usr/local/lib/gpuwright/slurm/gpuwright-{name}\n" in text
        assert "https://slurm.schedmd.com/" in text
        assert os.access(REPOSITORY / f"deploy/slurm/gpuwright-{name}", os.X_OK)


@pytest.mark.skipif(os.geteuid() != 0, reason="only root owns what root trusts")
@pytest.mark.parametrize(
    ("owner", "group", "mode", "trusted"),
    [(0, 0, 0o755, True), (0, 0, 0o775, True), (0, 50, 0o775, False), (0, 0, 0o757, False), (65534, 0, 0o755, False)],
)
def test_a_command_of_slurm_lies_where_only_root_can_put_it(
    node: Node, owner: int, group: int, mode: int, trusted: bool
) -> None:
    shared = node.folder / "slurm/gpuwright-node.sh"
    own = node.folder / "local"
    shutil.copytree(node.slurm.folder, own)
    os.chown(own, owner, group)
    own.chmod(mode)
    shared.write_text(shared.read_text().replace("in /usr/local/sbin /usr/local/bin;", f"in {own};"))
    node.set(SLURM_BIN="")
    node.judge("PASS")
    node.run("healthcheck")
    assert bool(node.told) is trusted
