# SPDX-License-Identifier: Apache-2.0
"""Run gan_trainer.performance on idle GPUs and compare each number with what the card's model should reach."""

import os
import pwd
from typing import Any, Dict, Iterable, List, Mapping, Optional

from ..gpu import floors
from ..host.files import below
from .trainer_run import RunError, no_record, read_record, run_program

SECONDS = 540
LAUNCHER = "/usr/local/bin/gpu-run"
UNIT = "/etc/systemd/system/train-gan@.service"
# On an unused card, the driver takes at most this much; more belongs to a program that is not shown.
IDLE_MIB = 100
MEASURES = (
    "h2d_gb_s",
    "d2h_gb_s",
    "h2d_remote_gb_s",
    "d2h_remote_gb_s",
    "link_gt_s",
    "copy_gb_s",
    "matmul_fp16_tflops",
    "matmul_bf16_tflops",
    "matmul_tf32_tflops",
    "matmul_fp32_tflops",
    "p2p_gb_s",
)


def performance_command(root: str, venv: str, device: str) -> List[str]:
    program = [below(root, venv + "/bin/python"), "-m", "gan_trainer.performance", "--device", device, "--json"]
    return [below(root, LAUNCHER), "--"] + program


def read_performance(root: str, expectations: Mapping[str, Any], nvidia_smi: Any) -> Dict[str, Any]:
    """The record `performance` of the report, in which a GPU in use is a reason, not a fault; ValueError otherwise.

    `nvidia_smi` is what nvidia_smi_info returns. Measured as the training user if root calls it, else as the caller.
    """
    user = expectations["training_user"] if os.geteuid() == 0 else pwd.getpwuid(os.geteuid()).pw_name
    device = expectations["smoke_device"]
    if device == "cuda":
        if not nvidia_smi.get("reachable"):
            raise ValueError(f"the driver cannot be queried for whether the GPUs are idle: {nvidia_smi.get('message')}")
        busy = in_use(nvidia_smi["gpus"])
        if busy:
            return record([], None, [], "not measured, since the GPUs are in use: " + "; ".join(busy), busy)
    command = performance_command(root, expectations["venv"], device)
    try:
        run = run_program(command, user, SECONDS, UNIT)
        answer = read_record(run.finished.stdout)
        if answer is None or run.finished.rc is None:
            raise no_record(run.finished, command, user, "nothing: this deadline is fixed")
    except RunError as error:
        raise ValueError(f"{error}; next: {error.action}")
    where = f"on {len(answer['devices'])} idle GPUs"
    if device == "cpu":
        where = "on the CPU at small size, which says nothing about a GPU"
    because = f"measured as user {user} {where}; sandbox: {run.because}"
    return record(answer["devices"], answer.get("all_reduce"), answer["problems"], because, [])


def in_use(gpus: Iterable[Mapping[str, Any]]) -> List[str]:
    """Who uses which card, one sentence for each card that is not idle; ValueError if a card does not report it."""
    found = []
    for gpu in gpus:
        processes, used = gpu.get("processes"), gpu.get("memory_used_mib")
        if not isinstance(processes, list) or not isinstance(used, int) or isinstance(used, bool):
            raise ValueError(f"{gpu.get('pci_id')} does not say whether it is in use")
        names = ["{name} (pid {pid})".format(**process) for process in processes if "C" in str(process.get("type"))]
        if not names and used > IDLE_MIB:
            names = [f"no visible program holds {used} MiB"]
        if names:
            found.append(f"{gpu.get('pci_id')}: {', '.join(names)}")
    return found


def record(
    devices: List[Dict[str, Any]], all_reduce: Any, problems: List[str], because: str, busy: List[str]
) -> Dict[str, Any]:
    """The record of docs/parts/smoke-test.md: every number with its floor, warn band, peak and their source."""
    names = {str(device.get("name")) for device in devices}
    reduced = None
    if isinstance(all_reduce, dict):
        limits = floors.reduce_floor(names.pop() if len(names) == 1 else "", all_reduce.get("gpus"))
        reduced = dict(all_reduce, **limits._asdict())
    return {
        "schema": 1,
        "because": because,
        "busy": busy,
        "devices": [described(device) for device in devices],
        "all_reduce": reduced,
        "problems": problems,
    }


def described(device: Mapping[str, Any]) -> Dict[str, Any]:
    values = device.get("measures") or {}
    measures = {name: with_limits(str(device.get("name")), name, values.get(name)) for name in MEASURES}
    kept = {name: device.get(name) for name in ("device", "name", "pci_id", "left_out")}
    return dict(kept, measures=measures)


def with_limits(model: str, name: str, value: Any) -> Optional[Dict[str, Any]]:
    return None if value is None else dict({"value": value}, **floors.floor_of(model, name)._asdict())
