# SPDX-License-Identifier: Apache-2.0
"""A report for other programs: metrics for Prometheus, one line for Nagios, and the environment for people."""

import datetime

from .report import TIME_FORMAT, printable, summary_line
from .verdict import FAIL, PASS, SKIP, UNKNOWN, WARN

# -1 stands for what nobody knows, so that it can never be taken for good or bad.
STATUS_VALUE = {PASS: 0, WARN: 1, FAIL: 2, UNKNOWN: -1, SKIP: -2}
NAGIOS_STATUS = {PASS: 0, WARN: 1, FAIL: 2, UNKNOWN: 3}
NAGIOS_WORD = {PASS: "OK", WARN: "WARNING", FAIL: "CRITICAL", UNKNOWN: "UNKNOWN"}
# (metric, help, key of nvidia_smi_info's record)
GPU_VALUES = (
    ("gpuwright_gpu_temperature_celsius", "Temperature of the GPU, -1 when it cannot be read.", "temperature_c"),
    ("gpuwright_gpu_power_watts", "Power that the GPU draws, -1 when it cannot be read.", "power_draw_w"),
    ("gpuwright_gpu_memory_used_mib", "Memory of the GPU in use, -1 when it cannot be read.", "memory_used_mib"),
)


def escaped(text):
    """A label value of Prometheus' text format."""
    return printable(str(text)).replace("\\", "\\\\").replace('"', '\\"')


def metrics(report, level, seconds):
    """The text that node_exporter's textfile collector reads; `seconds` is how long the checks took."""
    epoch = datetime.datetime(1970, 1, 1)
    ran_at = (datetime.datetime.strptime(report["time"], TIME_FORMAT) - epoch).total_seconds()
    lines = []

    def family(name, words, samples):
        lines.extend(["# HELP {} {}".format(name, words), "# TYPE {} gauge".format(name)])
        for labels, value in samples:
            inside = ",".join('{}="{}"'.format(key, escaped(labels[key])) for key in sorted(labels))
            lines.append("{}{} {:g}".format(name, "{" + inside + "}" if inside else "", value))

    family("gpuwright_verdict", "0 PASS, 1 WARN, 2 FAIL, -1 UNKNOWN.", [({}, STATUS_VALUE.get(report["verdict"], -1))])
    checks = [
        ({"id": check["id"], "layer": check["layer"]}, STATUS_VALUE.get(check["status"], -1))
        for check in report["checks"]
    ]
    family("gpuwright_check", "0 PASS, 1 WARN, 2 FAIL, -1 UNKNOWN, -2 SKIP.", checks)
    for name, words, key in GPU_VALUES:
        samples = [({"pci_id": gpu.get("pci_id")}, _value(gpu.get(key))) for gpu in _gpus(report)]
        if samples:
            family(name, words, samples)
    # Not {:g}, which would cut the seconds of this century to six digits.
    lines.extend(
        [
            "# HELP gpuwright_last_run_timestamp_seconds When the checks ran.",
            "# TYPE gpuwright_last_run_timestamp_seconds gauge",
            'gpuwright_last_run_timestamp_seconds{{level="{}"}} {:d}'.format(level, int(ran_at)),
        ]
    )
    family("gpuwright_last_run_duration_seconds", "How long the checks took.", [({}, round(seconds, 3))])
    return "\n".join(lines) + "\n"


def _gpus(report):
    found = report["readings"].get("nvidia_smi")
    found = found.get("gpus") if isinstance(found, dict) else None
    return [gpu for gpu in found if isinstance(gpu, dict)] if isinstance(found, list) else []


def _value(value):
    is_number = isinstance(value, (int, float)) and not isinstance(value, bool)
    return value if is_number else -1


def nagios_line(checks, verdict):
    """For example "GPU CRITICAL: driver.uvm: nvidia_uvm is not loaded | fail=1 ..."."""
    number = {status: sum(check["status"] == status for check in checks) for status in STATUS_VALUE}
    worst = next((check for check in checks if check["status"] == verdict and verdict != PASS), None)
    # A bar would begin the performance data.
    words = printable("{}: {}".format(worst["id"], worst["message"])) if worst else summary_line(checks)
    data = " ".join("{}={}".format(status.lower(), number[status]) for status in (FAIL, UNKNOWN, WARN, PASS, SKIP))
    return "GPU {}: {} | {}".format(NAGIOS_WORD.get(verdict, "UNKNOWN"), words.replace("|", "/"), data)


def environment_lines(readings):
    """What people ask first: Python, PyTorch, CUDA, cuDNN, and each GPU with what it can do; [] without a venv."""
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
        ("CUDA usable", {True: "yes", False: "no"}.get(torch.get("cuda_available"))),
    ]
    for device in torch.get("devices") or []:
        text = "{name}, capability {capability}, {memory_mib} MiB, {multiprocessors} multiprocessors, {tensor}".format(
            tensor="Tensor Cores" if device.get("tensor_cores") else "no Tensor Cores", **device
        )
        rows.append(("GPU {}".format(device.get("index")), text))
    if torch.get("product"):
        rows.append(("matrix product", torch["product"]))
    lines = [
        "{:<15} {}".format(name, printable(str(value if value is not None else "unknown"))) for name, value in rows
    ]
    return lines + [""]
