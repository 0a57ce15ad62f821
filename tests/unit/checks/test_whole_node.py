"""A node with many faults at once is FAIL in each of them, and one that only worked and corrected is not accused."""

from __future__ import annotations

import re
from pathlib import Path

import gpuwright.gpu.nvidia_smi.query
import healthy_node
import pytest
from gpuwright.checks.all import run_checks
from gpuwright.host.bounded import Finished
from gpuwright.readings.kernel_log.log import parse_log
from gpuwright.verdict.check import FAIL, PASS, SKIP, WARN
from healthy_kernel import KERNEL_LOG

V100 = (Path(__file__).parents[1] / "data" / "nvidia_smi" / "580-v100.xml").read_text()
# (pattern in a healthy answer, what a broken card writes there, the check that must say so)
BROKEN_FIELDS = [
    ("<ecc_errors>", "<ecc_errors><channel_repair_pending>Yes</channel_repair_pending>", "gpu.channel_repair"),
    ("<ecc_errors>", "<ecc_errors><tpc_repair_pending>Yes</tpc_repair_pending>", "gpu.tpc_repair"),
    ("<total>16384 MiB</total>(\\s*<reserved>)", "<total>0 MiB</total>\\1", "gpu.memory_size"),
    ("<current_link_gen>3", "<current_link_gen>1", "gpu.link_generation"),
    ("<memory_temp>33 C", "<memory_temp>98 C", "gpu.memory_temperature"),
    ("(?s)<fabric>.*?</fabric>", "<fabric><state>Completed</state><status>Success</status><health>"
     "<bandwidth>Degraded</bandwidth><route_unhealthy>True</route_unhealthy></health></fabric>", "gpu.fabric"),
    ("<remapped_rows>N/A</remapped_rows>", "<remapped_rows><row_remapper_histogram><row_remapper_histogram_none>2"
     " bank(s)</row_remapper_histogram_none><row_remapper_histogram_low>0 bank(s)</row_remapper_histogram_low>"
     "</row_remapper_histogram></remapped_rows>", "gpu.spare_rows"),
]  # fmt: skip
FAULTS = [
    ("nvidia-nvswitch2: SXid (PCI:0000:c3:00.0): 20034, Fatal, Link 30 LTSSM Fault Up\n"
     "nvidia-nvswitch2: SXid (PCI:0000:c3:00.0): 20034, Severity 1 Engine instance 30", "kernel.sxid"),
    ("{4}[Hardware Error]: event severity: fatal", "kernel.hardware_errors"),
    ("pcieport 0000:3a:00.0: AER: Multiple Uncorrected (Fatal) error received: 0000:3b:00.0", "kernel.pcie_errors"),
    ("NVRM: GPU 0000:3b:00.0: GPU has fallen off the bus.", "kernel.gpu_lost"),
    ("NVRM: GPU 0000:3b:00.0: RmInitAdapter failed! (0x62:0x55:2477)", "kernel.driver_start"),
    ("rcu: INFO: rcu_sched self-detected stall on CPU", "kernel.stalls"),
    ("watchdog: CPU12: Watchdog detected hard LOCKUP on cpu 7", "kernel.lockups"),
    ("DMAR: [DMA Read NO_PASID] Request device [3b:00.0] fault addr 0x7f3c0000 [fault reason 0x06]", "kernel.iommu"),
    ("mlx5_core 0000:5e:00.0: poll_health:825:(pid 0): device's health compromised", "kernel.network"),
]  # fmt: skip
# What a healthy node writes while people work on it: a killed program, a wrong pointer, memory that ECC corrected.
WORK = [
    "mce: [Hardware Error]: Machine check events logged",
    "EDAC MC0: 1 CE memory read error on CPU_SrcID#0_MC#0_Chan#1_DIMM#0 (channel:1 slot:0 page:0x30aa905)",
    "NVRM: Xid (PCI:0000:3b:00): 31, pid=9, name=train, Ch 00000008, intr 0",
    "NVRM: Xid (PCI:0000:3b:00): 45, pid=9, name=train, Ch 00000008",
]


def judged(monkeypatch: pytest.MonkeyPatch, answer: str, messages: list[str]) -> dict[str, dict]:
    done = Finished(0, answer, "", timed_out=False, missing=False, truncated=False, problem="")
    monkeypatch.setattr(gpuwright.gpu.nvidia_smi.query, "run_bounded", lambda *_arguments, **_more: done)
    lines = [line for message in messages for line in message.split("\n")]
    log = KERNEL_LOG + "".join(f"[  {100 + 5 * n}.000000] a5-01 kernel: {line}\n" for n, line in enumerate(lines))
    node = {**healthy_node.readings(), "nvidia_smi": gpuwright.gpu.nvidia_smi.query.query()}
    node["kernel_log"] = {**parse_log(log), "source": "test"}
    records = run_checks(node, healthy_node.expectations(), healthy_node.smoke(), level="quick")
    return {record["id"]: record for record in records}


def test_every_one_of_many_faults_fails(monkeypatch):
    answer = V100
    for pattern, broken, _check in BROKEN_FIELDS:
        answer, count = re.subn(pattern, broken, answer, count=1)
        assert count, pattern
    found = judged(monkeypatch, answer, [message for message, _check in FAULTS])
    expected = {check for _pattern, _broken, check in BROKEN_FIELDS} | {check for _message, check in FAULTS}
    assert {check: found[check]["status"] for check in expected} == dict.fromkeys(expected, FAIL)


def test_a_node_on_which_people_work_is_not_accused(monkeypatch):
    found = judged(monkeypatch, V100, WORK)
    warned = {check for check, record in found.items() if record["status"] == WARN}
    assert warned == {"kernel.xid", "kernel.hardware_errors"}
    assert {record["status"] for record in found.values()} == {PASS, SKIP, WARN}
