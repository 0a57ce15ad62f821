"""The gate on a real Slurm, installed as docs/schedulers.md says: health check, prolog, epilog, gpuwright-drains."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

from cluster import INSTALLED, NODES, Cluster

XID = ("FAIL", "kernel.xid", 'Run: sudo "nvidia-smi" -r = now')
REASON = "gpuwright: kernel.xid: Run: sudo 'nvidia-smi' -r = now"


def test_a_fail_drains_with_its_reason_and_a_pass_returns(slurm: Cluster) -> None:
    slurm.record("n1", *XID)
    slurm.until_says("n1", "FAIL")
    # The node itself has drained nothing.
    assert slurm.state("n1") == "idle"
    assert slurm.drains() == f"n1: State=DRAIN Reason={REASON}\n"
    assert slurm.state("n1") == "idle+drain" and slurm.reason("n1") == REASON
    assert slurm.drains() == ""
    slurm.record("n1", "PASS")
    slurm.until_says("n1", "PASS")
    assert slurm.drains() == "n1: State=UNDRAIN\n"
    slurm.until_idle("n1")
    assert slurm.reason("n1") == "none"


def test_a_running_job_goes_on_on_a_drained_node_and_the_next_one_waits(slurm: Cluster) -> None:
    job = slurm.job("-w n1", seconds=12)
    slurm.until(lambda: slurm.job_state(job) == "RUNNING", "the job runs")
    slurm.record("n1", *XID)
    slurm.until_says("n1", "FAIL")
    slurm.drains()
    next_job = slurm.job("-w n1", seconds=1)
    assert slurm.state("n1") in ("allocated+drain", "mixed+drain") and slurm.job_state(job) == "RUNNING"
    slurm.until(lambda: slurm.job_state(job) == "COMPLETED", "the job ends by itself")
    assert slurm.job_state(next_job) == "PENDING"


def test_an_administrators_drain_is_neither_renamed_nor_returned(slurm: Cluster) -> None:
    slurm.sh("controller", "scontrol update NodeName=n1 State=DRAIN Reason='bob: fan'")
    slurm.record("n1", *XID)
    slurm.until_says("n1", "FAIL")
    assert slurm.drains() == ""
    slurm.record("n1", "PASS")
    slurm.until_says("n1", "PASS")
    assert slurm.drains() == "" and slurm.reason("n1") == "bob: fan"


def test_a_warning_or_an_unknown_drains_nothing(slurm: Cluster) -> None:
    slurm.record("n1", "WARN", "disk.space", "Run: df")
    slurm.record("n2", "PASS", boot_id="of-an-earlier-boot")
    slurm.until_says("n1", "WARN")
    slurm.until(lambda: "earlier boot" in slurm.sh("n2", "cat /run/gpuwright/scheduler-said"), "n2 has looked")
    # What it said before stands for the controller: neither a reason to drain nor one to return.
    assert slurm.says("n2") == "PASS" and slurm.drains() == ""


def test_the_breaker_holds_when_a_rule_is_wrong(slurm: Cluster) -> None:
    """Both nodes fail at once and several runs ask at once: a tenth of two nodes is one."""
    for node in NODES:
        slurm.record(node, *XID)
    for node in NODES:
        slurm.until_says(node, "FAIL")
    with ThreadPoolExecutor(3) as pool:
        said = "".join(pool.map(lambda _number: slurm.drains(), range(3)))
    assert [slurm.state(node) for node in NODES] == ["idle+drain", "idle"]
    assert said.count("BREAKER: nodes drained within 60 min: 1, allowed: 1.") == 1 and said.count("State=DRAIN") == 1
    assert slurm.drains() == ""
    # The window is over.
    assert f"n2: State=DRAIN Reason={REASON}" in slurm.drains("--window", "0.001")


def test_a_prolog_lets_the_job_start_and_tells_at_once(slurm: Cluster) -> None:
    # The health check is out of the way: only the prolog tells.
    slurm.sh("n1", "mkdir -p /etc/gpuwright && echo 'RECORD=/nowhere' > /etc/gpuwright/scheduler.conf")
    slurm.until(lambda: "nowhere" in slurm.sh("n1", "cat /run/gpuwright/scheduler-said"), "n1 has looked")
    slurm.record("n1", *XID)
    said = slurm.sh("n1", f"cd / && rm /etc/gpuwright/scheduler.conf && {INSTALLED}/slurm/gpuwright-prolog; echo $?")
    assert said.splitlines()[-1] == "0" and slurm.says("n1") == "FAIL"
    job = slurm.job("-w n1", seconds=1)
    slurm.until(lambda: slurm.job_state(job) == "COMPLETED", "the job ran")
    assert slurm.state("n1") == "idle"


def test_a_prolog_that_refuses_sends_the_job_to_another_node(slurm: Cluster) -> None:
    for node in NODES:
        slurm.sh(node, "mkdir -p /etc/gpuwright && echo PROLOG_ON_FAIL=refuse > /etc/gpuwright/scheduler.conf")
    slurm.record("n1", *XID)
    slurm.sh("controller", "scontrol update NodeName=n2 State=DRAIN Reason='bob: until n1 has refused'")
    job = slurm.job(seconds=1)
    slurm.until(lambda: "drain" in slurm.state("n1"), "n1 is drained by its prolog")
    # Slurm's own "Prolog error" does not replace the reason.
    assert slurm.reason("n1") == REASON
    slurm.sh("controller", "scontrol update NodeName=n2 State=UNDRAIN")
    slurm.until(lambda: slurm.job_state(job) == "PENDING", "the job is requeued, and not held")
    # Slurm lets two minutes pass before it tries again.
    slurm.sh("controller", f"scontrol update JobId={job} StartTime=now")
    slurm.until(lambda: slurm.job_state(job) == "COMPLETED", "the job ran elsewhere", 180)
    assert "BatchHost=n2" in slurm.sh("controller", f"scontrol -o show job {job}")
    slurm.record("n1", "PASS")
    slurm.until_says("n1", "PASS")
    assert slurm.drains() == "n1: State=UNDRAIN\n"


def test_the_health_check_takes_less_than_50_milliseconds_on_a_good_node(slurm: Cluster) -> None:
    """The best of ten, by the container's own clock, since other tests share the processor."""
    once = f"a=$(date +%s%N); {INSTALLED}/slurm/gpuwright-healthcheck; echo $(($(date +%s%N) - a))"
    script = f"for number in 1 2 3 4 5 6 7 8 9 10; do {once}; done"
    took = [int(line) / 1e6 for line in slurm.sh("n1", script).splitlines()]
    assert len(took) == 10 and min(took) < 50, took
