# SPDX-License-Identifier: Apache-2.0
"""A report for other programs: metrics for Prometheus, one line for Nagios, and the environment for people."""

from typing import Any, Dict, List, Optional, Union

from ..verdict.causes import first_finding
from ..verdict.check import FAIL, PASS, SKIP, UNKNOWN, WARN
from ..verdict.report import BY_INVENTORY, BY_ROOT, Record, age_seconds, printable, summary_line, waived_by
from .metrics_gpu import COUNTER, GAUGE, Family, Labels, Sample, gpu_families

# -1 means unknown, so that it can never be mistaken for good or bad.
STATUS_VALUE = {PASS: 0, WARN: 1, FAIL: 2, UNKNOWN: -1, SKIP: -2}
NAGIOS_STATUS = {PASS: 0, WARN: 1, FAIL: 2, UNKNOWN: 3}
VERDICT_HELP = "0 PASS, 1 WARN, 2 FAIL, -1 UNKNOWN."
WAIVED_HELP = "Always 1; a check that root has acknowledged (acknowledgement) or the inventory has switched off."
STRIKES_HELP = "Failures of a card, once in a boot; counted across boots, drivers and slots."
CHECK_HELP = "0 PASS, 1 WARN, 2 FAIL, -1 UNKNOWN, -2 SKIP."
NAGIOS_WORD = {PASS: "OK", WARN: "WARNING", FAIL: "CRITICAL", UNKNOWN: "UNKNOWN"}
EPOCH = "1970-01-01T00:00:00Z"
# Result of torch.cuda.is_available(); None if it was not called.
YES_NO: Dict[Any, str] = {True: "yes", False: "no"}


def escaped(text: object) -> str:
    """A label value of Prometheus' text format."""
    return printable(str(text)).replace("\\", "\\\\").replace('"', '\\"')


def metrics(report: Record, level: str, seconds: float) -> str:
    """The text that node_exporter's textfile collector reads; `seconds` is how long the checks took."""
    gpus = _gpus(report)
    ran_at = float(age_seconds(EPOCH, report["time"]))
    checks = [
        ({"id": check["id"], "layer": check["layer"]}, STATUS_VALUE.get(check["status"], -1))
        for check in report["checks"]
    ]
    families = [
        Family("gpuwright_verdict", GAUGE, VERDICT_HELP, [({}, STATUS_VALUE.get(report["verdict"], -1))]),
        Family("gpuwright_check", GAUGE, CHECK_HELP, checks),
        Family(
            "gpuwright_gpus",
            GAUGE,
            "GPUs that nvidia-smi found, -1 unknown.",
            [({}, -1 if gpus is None else len(gpus))],
        ),
        Family("gpuwright_gpus_expected", GAUGE, "GPUs that the inventory expects.", _expected(report)),
        Family(
            "gpuwright_last_run_timestamp_seconds", GAUGE, "When the checks ran.", [({"level": level}, int(ran_at))]
        ),
        Family("gpuwright_last_run_duration_seconds", GAUGE, "How long the checks took.", [({}, round(seconds, 3))]),
        Family("gpuwright_waived", GAUGE, WAIVED_HELP, _waived(report)),
        Family("gpuwright_strikes_total", COUNTER, STRIKES_HELP, _strikes(report)),
    ]
    return text_of(families + gpu_families(gpus or []))


def text_of(families: List[Family]) -> str:
    """Families in Prometheus' text format; one without samples is left out."""
    lines = []
    for name, kind, words, samples in families:
        if not samples:
            continue
        lines.extend([f"# HELP {name} {words}", f"# TYPE {name} {kind}"])
        lines.extend(_sample(name, labels, value) for labels, value in samples)
    return "\n".join(lines) + "\n"


def _sample(name: str, labels: Labels, value: Union[int, float]) -> str:
    inside = ",".join(f'{key}="{escaped(labels[key])}"' for key in sorted(labels))
    # Not {:g}, which would cut bytes and the seconds of this century to six digits.
    number = f"{value:d}" if isinstance(value, int) else repr(round(value, 6))
    return f"{name}{'{' + inside + '}' if inside else ''} {number}"


def _expected(report: Record) -> List[Sample]:
    count = report["expectations"].get("gpu_count")
    return [({}, count)] if isinstance(count, int) else []


def _waived(report: Record) -> List[Sample]:
    return [
        ({"id": check["id"], "by": who}, 1)
        for who in (BY_ROOT, BY_INVENTORY)
        for check in waived_by(report["checks"], who)
    ]


def _strikes(report: Record) -> List[Sample]:
    """One sample for each card and fault; a serial number that two boards share gives one sample."""
    cards = report.get("strikes")
    found = {}
    for card in cards if isinstance(cards, list) else []:
        # A card that reports neither is named by its slot, so that no two have the same labels.
        slot = "" if card["serial"] or card["uuid"] else card["pci_id"]
        for fault, number in card["counts"].items():
            found[(card["serial"], card["uuid"], slot, fault)] = number
    return [
        ({"serial": serial, "uuid": uuid, "pci_id": slot, "id": fault}, found[(serial, uuid, slot, fault)])
        for serial, uuid, slot, fault in sorted(found)
    ]


def _gpus(report: Record) -> Optional[List[Record]]:
    """nvidia_smi_info's records, None if it did not answer."""
    found = report["readings"].get("nvidia_smi")
    found = found.get("gpus") if isinstance(found, dict) and found.get("reachable") is True else None
    return [gpu for gpu in found if isinstance(gpu, dict)] if isinstance(found, list) else None


def nagios_line(checks: List[Dict[str, Any]], verdict: str) -> str:
    """For example "GPU CRITICAL: driver.uvm: nvidia_uvm is not loaded | fail=1 ..."."""
    number = {status: sum(check["status"] == status for check in checks) for status in STATUS_VALUE}
    worst = first_finding(checks, verdict)
    # A bar would begin the performance data.
    words = printable(f"{worst['id']}: {worst['message']}") if worst else summary_line(checks)
    data = " ".join(f"{status.lower()}={number[status]}" for status in (FAIL, UNKNOWN, WARN, PASS, SKIP))
    return f"GPU {NAGIOS_WORD.get(verdict, 'UNKNOWN')}: {words.replace('|', '/')} | {data}"


def environment_lines(readings: Record) -> List[str]:
    """What people ask first: Python, PyTorch, CUDA, cuDNN, and each GPU with its abilities; [] without a venv."""
    venv = readings.get("venv")
    if not isinstance(venv, dict) or "unreadable" in venv:
        return []
    torch = venv.get("torch") or {}
    versions = venv.get("versions") or {}
    rows = [
        ("Python", venv.get("python")),
        ("PyTorch", versions.get("torch")),
        ("CUDA runtime", torch.get("build")),
        ("cuDNN", torch.get("cudnn")),
        ("CUDA usable", YES_NO.get(torch.get("cuda_available"))),
    ]
    for device in torch.get("devices") or []:
        text = "{name}, capability {capability}, {memory_mib} MiB, {multiprocessors} multiprocessors, {tensor}".format(
            tensor="Tensor Cores" if device.get("tensor_cores") else "no Tensor Cores", **device
        )
        rows.append((f"GPU {device.get('index')}", text))
    if torch.get("product"):
        rows.append(("matrix product", torch["product"]))
    lines = [f"{name:<15} {printable(str(value if value is not None else 'unknown'))}" for name, value in rows]
    return lines + [""]
