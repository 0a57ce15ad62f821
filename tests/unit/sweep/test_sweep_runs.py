"""playbooks/sweep.yml on made-up nodes: who is taken, who is returned, who stays drained, and what is refused."""

from __future__ import annotations

import re
import sys
from pathlib import Path
from typing import Any

import pytest
from ansible_collections.gpuwright.node.plugins.plugin_utils.history import kept
from ansible_collections.gpuwright.node.plugins.plugin_utils.sweep import choose
from conftest import REPOSITORY
from sweep_site import TAKEN, SweepSite

EARLIER, LATER = "2026-11-28T10:00:00Z", "2026-11-28T10:09:00Z"


@pytest.fixture
def site(tmp_path: Path) -> SweepSite:
    return SweepSite(tmp_path)


def told(output: str) -> str:
    return " ".join(output.split())


def test_bad_nodes_stay_drained_all_others_are_returned_and_busy_ones_are_never_taken(site: SweepSite) -> None:
    for name in ("a1", "a2", "a3"):
        site.gpu_node(name)
    site.gpu_node("b1", bits="bbbb")
    site.gpu_node("b2", verdict="FAIL")
    # Its verification leaves no report: it could not be measured.
    site.gpu_node("b3", verdict="")
    site.gpu_node("c1", state="allocated")
    site.gpu_node("c2", state="idle+drain", reason="bob: fan")
    site.gpu_node("c3", state="idle+drain", reason=TAKEN)
    # Its controller was killed when it had been judged.
    site.gpu_node("d1", state="idle+drain", reason=TAKEN)
    finding = {"id": "gpu.heat", "status": "FAIL", "text": "95 C", "card": ""}
    kept.write(
        site.reports, {**kept.empty("d1"), "tried": EARLIER, "swept": LATER, "verdict": "FAIL", "findings": [finding]}
    )
    # Two die under their load, and one did so in a sweep whose controller was killed; so was that of another one.
    site.gpu_node("e1", smi={"reachable": True, "message": "0 GPUs", "gpus": []})
    site.gpu_node("e2", boot="second", smi={"reachable": False, "message": "no driver", "gpus": []})
    site.gpu_node("e3", state="down+drain", reason=TAKEN)
    had = {"boot": "before", "uptime": 10.0, "cards": {"0000:3b:00.0": "S-e3"}}
    kept.write(site.reports, {**kept.empty("e3"), "tried": EARLIER, "load": had})
    kept.write(site.reports, {**kept.empty("c3"), "tried": EARLIER, "load": {**had, "boot": "first", "cards": {}}})
    # Its bundle is damaged: it is given back, and not taken in each run.
    site.gpu_node("f1", breaks="bundle")
    # A job begins on it between the look and the drain; and somebody works on this one by ssh.
    site.gpu_node("c4")
    site.gpu_node("c5")
    site.slurm.change(jobs={"c4": ["7 of eve (RUNNING)"]})
    site.busy({"c5": "python3 of eve"})
    done = site.sweep()
    assert done.returncode == 2, done.stdout
    text = told(done.stdout)
    bad = {"b1", "b2", "c2", "d1", "e1", "e2", "e3"}
    assert set(site.reasons()) == bad, done.stdout
    assert site.reasons()["e1"].startswith("gpuwright: sweep: sweep.lost_card: 0000:3b:00.0 (S-e1): lost under load")
    for name in ("e2", "e3"):
        assert site.reasons()[name].startswith("gpuwright: sweep: sweep.rebooted: rebooted under load"), name
    assert site.history("e3")["verdict"] == "FAIL" and site.history("e3")["load"] is None
    assert "the bundle is damaged" in text and site.history("f1")["tried"] == "" and site.history("f1")["chosen"]
    # Whoever is not idle any more gets its lock back, too.
    assert {"c3", "c4", "c5", "e3", "f1"} <= site.released(done.stdout)
    assert site.reasons()["b2"] == "gpuwright: sweep: gpu.heat: 91 C" and site.reasons()["c2"] == "bob: fan"
    assert site.reasons()["d1"] == "gpuwright: sweep: gpu.heat: 95 C"
    assert site.reasons()["b1"].startswith("gpuwright: sweep: accept.product: ") and "(bbbb, " in site.reasons()["b1"]
    assert "b3 could not be measured and was returned" in text and "[sweep.bad]" in text
    assert (
        "c1: not taken, it is allocated" in text
        and "c4 was not taken: it is not idle any more (on it: 7 of eve (RUNNING))" in text
    )
    touched = {words[0].partition("=")[2] for words in site.slurm.updates()}
    assert touched == {"a1", "a2", "a3", "b1", "b2", "b3", "c3", "c4", "d1", "e1", "e2", "e3", "f1"}
    # c3 was left by a run that was killed: returned, and not swept in the same run.
    assert {host for host, what, _options in site.calls() if what == "node"} == {
        "a1",
        "a2",
        "a3",
        "b1",
        "b2",
        "b3",
        "e1",
        "e2",
    }
    assert site.left() == [] and site.history("a1")["verdict"] == "PASS" and site.history("b1")["verdict"] == "FAIL"
    assert list(site.history("a1")["cards"]) == ["S-a1"]
    # The next run leaves the bad ones as they are, and takes nobody within the interval.
    calls = len(site.calls())
    for name in ("c3", "c4", "c5"):
        site.slurm.node(name, "allocated")
    again = site.sweep()
    assert again.returncode == 0 and len(site.calls()) == calls, again.stdout
    assert set(site.reasons()) == bad and "a sweep has found it bad" in told(again.stdout)
    assert "f1: not taken, it was chosen at" in told(again.stdout)


def test_no_page_and_no_return_keeps_a_host_and_idle_time_is_asked_before_each_batch(site: SweepSite) -> None:
    site.gpu_node("a1")
    # It works between the batches.
    site.gpu_node("a2")
    site.slurm.change(meanwhile=[["scontrol", "a1", {}], ["scontrol", "a2", {"busy": "2099-01-01T00:00:00"}]])
    # Its return fails, as nobody answers who its cards are.
    site.gpu_node("x1", state="idle+drain", reason=TAKEN)
    (site.folder / "smi/102").unlink()
    (site.reports / "index.html").mkdir(parents=True)
    done = site.sweep(sweep_share_percent=67, sweep_idle_minutes=1)
    assert done.returncode == 2 and site.reasons() == {"x1": TAKEN}, done.stdout
    text = told(done.stdout)
    assert "The pages of the fleet are not those of this sweep" in text and site.history("a1")["verdict"] == "PASS"
    assert "a2 was not taken: it is idle for 0 of 1 minutes" in text and "Batch 2 of 2: a2" in text
    assert site.released(done.stdout) == {"a1", "a2", "x1"}
    assert [host for host, what, _options in site.calls() if what == "node"] == ["a1"]


def test_check_mode_says_whose_turn_it_is_and_touches_nothing(site: SweepSite) -> None:
    site.gpu_node("a1")
    site.gpu_node("a2", state="mixed")
    site.gpu_node("a3", state="idle+drain", reason=TAKEN)
    done = site.sweep("--check")
    assert done.returncode == 0, done.stdout
    assert "a1: swept now" in told(done.stdout) and "a2: not taken, it is mixed" in told(done.stdout)
    assert site.slurm.updates() == [] and site.calls() == [] and not (site.reports / "history").exists()


def test_without_a_scheduler_idle_nodes_are_taken_in_batches_of_the_share(site: SweepSite) -> None:
    for name in ("a1", "a2", "a3"):
        site.gpu_node(name)
    site.busy({"a2": "python3 of eve"})
    done = site.sweep(by="none", sweep_share_percent=34)
    assert done.returncode == 0, done.stdout
    assert "Batch 1 of 2: a1" in done.stdout and "Batch 2 of 2: a3" in done.stdout
    assert [host for host, what, _options in site.calls() if what == "node"] == ["a1", "a3"]
    assert site.history("a1")["idle_since"] and not (site.reports / "history/a2.json").exists()


@pytest.mark.parametrize(
    ("variables", "words"),
    [
        ({"sweep_share_percent": 0}, 'sweep_share_percent is "0", expected 1 to 100 percent.'),
        ({"sweep_hours": "22:00"}, "sweep_hours is '22:00', expected two different hours"),
        ({"by": "kubernetes"}, "[sweep.by]"),
        ({"gpuwright_busy": "force"}, "[sweep.busy]"),
        ({"drain_reason": "nightly"}, "[sweep.reason]"),
    ],
)
def test_bad_input_gets_one_clear_error(site: SweepSite, variables: dict, words: str) -> None:
    site.gpu_node("a1")
    done = site.sweep(**variables)
    assert done.returncode == 2 and words in told(done.stdout), done.stdout
    assert site.slurm.updates() == [] and site.calls() == []


def test_a_controller_that_is_lost_once_is_asked_again(site: SweepSite) -> None:
    """The stand-in of ssh loses the first call, and runs the others here."""
    site.gpu_node("a1")
    ssh, lost = site.folder / "ssh", site.folder / "lost"
    ssh.write_text(f"""#!/bin/sh
for last; do :; done
[ -e {lost} ] || {{ touch {lost}; echo lost >&2; exit 255; }}
exec /bin/sh -c "$last"
""")
    ssh.chmod(0o755)
    words: dict[str, Any] = {"drain_controller": "ctl", "ansible_ssh_executable": str(ssh), "ansible_become": False}
    done = site.sweep("--check", **words, ansible_python_interpreter=sys.executable)
    assert done.returncode == 0 and lost.exists(), done.stdout


def test_the_timer_starts_a_playbook_that_is_there() -> None:
    folder = REPOSITORY / "deploy/slurm"
    unit = (folder / "gpuwright-sweep.service").read_text()
    (command,) = [line for line in unit.splitlines() if line.startswith("ExecStart=")]
    assert (REPOSITORY / command.split()[1]).is_file() and command.endswith("-e drain_by=slurm")
    # One run at a time: systemd starts no second one of a service that is at work.
    assert "Type=oneshot\n" in unit and "OnUnitInactiveSec=" in (folder / "gpuwright-sweep.timer").read_text()


def test_a_passing_check_does_not_return_what_a_sweep_keeps() -> None:
    """gpuwright-drains returns a check's drain when the quick checks pass, which see neither bits nor speeds."""
    program = (REPOSITORY / "deploy/slurm/gpuwright-drains").read_text()
    (pattern,) = re.findall(r'^OWN_REASON = re.compile\(r"(.*)"\)$', program, re.MULTILINE)
    assert re.match(pattern, "gpuwright: kernel.xid: Run: reboot")
    for reason in (f"{choose.BAD}accept.product: other bits", f"{choose.BAD}gpu.ecc: 3 errors", TAKEN):
        assert not re.match(pattern, reason) and reason.startswith((choose.BAD, choose.TAKEN))


@pytest.mark.parametrize(("given", "status"), [({}, 2), ({"gpuwright_busy": "skip"}, 0)], ids=["by default", "skip"])
def test_somebody_who_begins_to_work_after_the_look_is_not_disturbed(
    site: SweepSite, given: dict[str, str], status: int
) -> None:
    """The verification at level deep would load the cards under that work."""
    site.gpu_node("a1")
    told = {"kind": "busy", "reason": "alice began to train.", "next": "Wait for alice."}
    leave = {"name": "gpuwright.node.preflight", "tasks_from": "fail_as_left_out"}
    site.site.tasks("system_busy", [{"ansible.builtin.include_role": leave, "vars": {"preflight_left_out": told}}])
    site.site.tasks("verify", [{"ansible.builtin.debug": {"msg": "LOADED"}}], "kept.yml")
    done = site.sweep(**given)
    assert done.returncode == status and "LOADED" not in done.stdout and site.calls() == [], done.stdout
    assert site.reasons() == {} and "  skipped        1  a1" in done.stdout, done.stdout
