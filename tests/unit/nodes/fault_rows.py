"""Faults of a GPU and its driver at run time, as data: how nvidia-smi answers, what else the node shows, what is said.

Each row goes through nvidia_smi_info, gpu-doctor and the page in `test_runtime_faults.py`; tests/faults plays the same
rows on a host of the fleet, through gpu_verify, the playbook's exit code and the page.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from host_tree import HostTree

SWITCH, SECOND_GPU = "0000:c5:00.0", "0000:af:00.0"
XID_79 = "NVRM: Xid (PCI:0000:3b:00): 79, pid='<unknown>', name=<unknown>, GPU has fallen off the bus."
LOST = (
    "Unable to determine the device handle for GPU 0000:3B:00.0: GPU is lost.  Reboot the system to recover this GPU\n"
)
# Words that nvidia-smi writes in the place of a value, none of which is one.
TOKENS = (
    "N/A",
    "[N/A]",
    "[Not Supported]",
    "[Insufficient Permissions]",
    "[Unknown Error]",
    "ERR!",
    "[GPU requires reset]",
    "[Requested functionality has been deprecated]",
    "",
)


@dataclass
class Row:
    """One fault. `smi` is played by tests/fleet/fake-nvidia-smi; `says` are (check, status, words of its message)."""

    name: str
    says: tuple[tuple[str, str, str], ...]
    smi: dict = field(default_factory=dict)
    capture: str = "580-v100"
    status: str = "ok"
    node: Callable[[HostTree], None] | None = None
    commands: dict[str, str] = field(default_factory=dict)
    expected: dict = field(default_factory=dict)


def second_card(host: HostTree) -> None:
    """An A100 beside the V100."""
    host.pci_device(SECOND_GPU, device="0x20f1", local_cpulist="10-19", numa_node="1")
    host.bind(SECOND_GPU, "nvidia")


def no_card(host: HostTree) -> None:
    host.put("/sys/bus/pci/devices/0000:3b:00.0/vendor", "0x8086\n")


def switch(host: HostTree) -> None:
    host.pci_device(SWITCH, **{"device": "0x1af1", "class": "0x068000"})


def no_uvm(host: HostTree) -> None:
    (host.folder / "dev/nvidia-uvm").unlink()


def closed_uvm(host: HostTree) -> None:
    (host.folder / "dev/nvidia-uvm").chmod(0o600)


REASON = "clocks_event_reasons/clocks_event_reason_"
RESET = {"gpu_recovery_action": "GPU Reset"}
ROWS = (
    Row(
        "host-without-gpu",
        (
            ("gpu.count", "FAIL", "0 of 1 expected on the PCI bus"),
            ("driver.reachable", "FAIL", "No devices were found"),
        ),
        smi={"text": "No devices were found\n", "exit": 6},
        status="no_devices",
        node=no_card,
    ),
    Row(
        "fewer-gpus",
        (("gpu.count", "FAIL", f"the driver does not show {SECOND_GPU}"),),
        node=second_card,
        expected={"gpu_count": 2},
    ),
    Row(
        "mixed-models",
        (("gpu.model", "FAIL", "different models in one node"),),
        node=second_card,
        expected={"gpu_count": 2, "gpu_model": ""},
    ),
    Row(
        "hangs-and-ignores-signals",
        (("driver.reachable", "FAIL", "did not answer in"), ("gpu.count", "UNKNOWN", "cannot be queried")),
        smi={"hang": "ignore"},
        status="timeout",
    ),
    Row(
        "hangs-in-the-middle-of-its-answer",
        (("driver.reachable", "FAIL", "did not answer in"),),
        smi={"truncate": 3000, "hang": True},
        status="timeout",
    ),
    Row(
        "answer-cut-off",
        (("driver.reachable", "UNKNOWN", "cannot be read"),),
        smi={"truncate": 3000},
        status="unreadable",
    ),
    Row(
        "dies-by-signal",
        (("driver.reachable", "FAIL", "killed by signal 11"),),
        smi={"signal": 11},
        status="failed",
    ),
    Row(
        "no-devices-and-exit-0",
        (("driver.reachable", "FAIL", "No devices were found"),),
        smi={"text": "No devices were found\n"},
        status="no_devices",
    ),
    Row(
        "good-answer-and-exit-14",
        (("driver.reachable", "FAIL", "InfoROM"),),
        smi={"exit": 14},
        status="failed",
    ),
    Row(
        "off-the-bus",
        (("driver.reachable", "FAIL", "fallen off the PCI bus"), ("kernel.xid", "FAIL", "79")),
        smi={"text": LOST, "exit": 15},
        status="gpu_lost",
        commands={"journalctl": XID_79},
    ),
    Row("reset-required", (("driver.reachable", "FAIL", "must be reset"),), smi={"exit": 16}, status="reset_required"),
    Row(
        "driver-asks-for-a-reset",
        (("gpu.recovery_action", "FAIL", "gpu reset"),),
        smi={"set": RESET},
        status="reset_required",
    ),
    Row(
        "uncorrected-memory-errors",
        (("driver.ecc", "FAIL", "uncorrected memory errors: 3"),),
        smi={"set": {"ecc_errors/volatile/double_bit/total": "3"}},
        capture="418-v100",
    ),
    Row(
        "page-waits-to-be-retired",
        (("driver.retired_pages", "FAIL", "is waiting to be retired"),),
        smi={"set": {"retired_pages/pending_retirement": "Yes"}},
    ),
    Row("ecc-off", (("driver.ecc", "FAIL", "ECC is off"),), smi={"set": {"ecc_mode/current_ecc": "Disabled"}}),
    *(
        Row(
            f"throttled-by-{reason}",
            (("gpu.throttle", "FAIL", reason),),
            smi={"set": {REASON + reason: "Active"}},
        )
        for reason in ("hw_thermal_slowdown", "hw_power_brake_slowdown", "hw_slowdown")
    ),
    Row(
        "fabric-manager-down",
        (("driver.fabric_manager", "FAIL", "nvidia-fabricmanager"),),
        node=switch,
        commands={"systemctl": "inactive"},
    ),
    Row(
        "persistence-off",
        (("driver.persistence", "WARN", "nvidia-persistenced is inactive"),),
        commands={"systemctl": "inactive"},
    ),
    Row("uvm-node-missing", (("driver.device_nodes", "FAIL", "/dev/nvidia-uvm"),), node=no_uvm),
    Row("uvm-node-closed-to-the-trainer", (("driver.device_nodes", "FAIL", "/dev/nvidia-uvm"),), node=closed_uvm),
)
# Path in the answer and the check that must then not pass: a value that a V100 certainly has.
TOKEN_FIELDS = {
    "temperature/gpu_temp": "gpu.temperature",
    "ecc_mode/current_ecc": "driver.ecc",
    "retired_pages/pending_retirement": "driver.retired_pages",
    "compute_mode": "gpu.compute_mode",
    "pci/pci_gpu_link_info/link_widths/current_link_width": "gpu.link_width",
    "uuid": "gpu.identity",
}
