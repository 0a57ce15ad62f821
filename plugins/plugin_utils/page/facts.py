# SPDX-License-Identifier: Apache-2.0
"""What the page says about one report: the node as built, its tuning, and changes since the previous report."""

from __future__ import annotations

from typing import Any, NamedTuple

from ansible_collections.gpuwright.node.plugins.module_utils.doctor.scan.scope import is_scan
from ansible_collections.gpuwright.node.plugins.module_utils.verdict.check import SKIP

from .speed import performance_bars, smoke_bars
from .values import NOT_LOOKED_AT, NOT_READ, Report, as_list, in_words, is_number, look

NOTABLE_CHANGE = 0.05
GROUPS = ("Hardware", "System", "Driver", "CUDA", "Framework", "Locks")

COMPARED = (
    "driver",
    "module flavour",
    "CUDA toolkit",
    "cuDNN",
    "NCCL",
    "Python",
    "PyTorch",
    "mixed precision",
    "module streams",
)
NOT_MEASURED = "not measured"
AS_WANTED, DIFFERS = "as wanted", "differs"


class Row(NamedTuple):
    """One line of the as-built table, all of it text; `planned` and `why` are empty if no plan decides.

    differs   whether what was found is not what was planned; the checks say whether that is bad
    """

    group: str
    part: str
    found: str
    planned: str
    why: str
    differs: bool


def as_built(report: Report) -> list[Row]:
    """The `Row`s of the node's parts, from the hardware up."""
    probe, plan = look(report, "readings", "probe"), plan_of(report)
    venv, allocators = look(report, "readings", "venv"), look(report, "readings", "allocators")
    gpus = [f"{in_words(look(gpu, 'name'))} at {look(gpu, 'pci_id')}" for gpu in as_list(look(probe, "gpus"))]
    rows = (
        ("Hardware", "GPUs", gpus, "", ""),
        ("Hardware", "processor", processor(look(probe, "cpu")), "", ""),
        ("Hardware", "memory", mebibytes(look(probe, "memory_mib")), "", ""),
        ("System", "system", look(probe, "os", "name"), "", ""),
        ("System", "kernel", look(probe, "kernel", "running"), "", ""),
        ("System", "next kernel", look(probe, "kernel", "next_boot"), "", ""),
        ("System", "Secure Boot", look(probe, "secure_boot"), "", ""),
        ("Driver", "driver", look(probe, "nvidia", "loaded", "version"), branch(plan), "driver"),
        ("Driver", "module flavour", look(probe, "nvidia", "loaded", "flavour"), look(plan, "driver", "flavour"), ""),
        ("Driver", "GSP firmware", gsp_firmware(report), "", ""),
        (
            "CUDA",
            "CUDA toolkit",
            look(report, "readings", "cuda", "version_file"),
            look(plan, "cuda", "version"),
            "cuda",
        ),
        ("CUDA", "cuDNN", look(report, "readings", "cudnn", "library"), look(plan, "cudnn", "version"), "cudnn"),
        ("CUDA", "NCCL", look(report, "readings", "nccl", "library"), look(plan, "nccl", "version"), "nccl"),
        ("Framework", "Python", look(venv, "python"), look(plan, "python", "version"), "python"),
        ("Framework", "PyTorch", look(venv, "versions", "torch"), pytorch(plan), "pytorch"),
        ("Framework", "trainer", look(venv, "versions", "gan_trainer"), "", ""),
        ("Framework", "mixed precision", used_precisions(report), look(plan, "amp", "dtype"), "amp"),
        ("Framework", "allocators", sorted(allocators) if isinstance(allocators, dict) else allocators, "", ""),
        ("Locks", "module streams", streams(report), planned_stream(plan), ""),
        ("Locks", "held packages", version_locks(report), "", ""),
        ("Locks", "Python packages", look(plan, "pytorch", "lock"), "", "lock"),
    )
    reasons = look(plan, "because")
    reasons = dict(reasons) if isinstance(reasons, dict) else {}
    reasons.setdefault("amp", look(plan, "amp", "because") or "")
    reasons.setdefault("lock", "every package by version and hash" if look(plan, "pytorch", "locked") else "")
    return [make_row(group, part, has, planned, reasons.get(name)) for group, part, has, planned, name in rows]


def plan_of(report: Report) -> Any:
    """The node's recorded plan; a scan has none."""
    return None if is_scan(look(report, "expectations")) else look(report, "expectations", "plan")


def make_row(group: str, part: str, found: Any, planned: Any, why: Any) -> Row:
    found, planned, why = in_words(found), in_words(planned) if planned else "", in_words(why) if why else ""
    # What nobody has seen is not another than planned.
    comparable = part in COMPARED and planned and not found.startswith((NOT_MEASURED, NOT_LOOKED_AT, NOT_READ))
    # The plan may be less exact than what is found: 12.9 for 12.9.1, 580.* for 580.95.05.
    begin = planned[:-1] if planned.endswith(".*") else planned
    return Row(group, part, found, planned, why, bool(comparable) and begin not in found)


def processor(cpu: Any) -> Any:
    if not isinstance(cpu, dict):
        return cpu
    sockets = look(cpu, "sockets")
    words = "{}, {} cores, {} threads".format(
        in_words(look(cpu, "model")), in_words(look(cpu, "physical_cores")), in_words(look(cpu, "logical_cpus"))
    )
    return f"{sockets} × {words}" if is_number(sockets) and sockets > 1 else words


def mebibytes(value: Any) -> Any:
    return f"{value / 1024:.0f} GiB" if is_number(value) and value >= 1024 else value


def gsp_firmware(report: Report) -> list[str] | str:
    """Versions of the firmware that runs a part of the driver on the cards; none on cards before Turing."""
    gpus = as_list(look(report, "readings", "nvidia_smi", "gpus"))
    found = {in_words(look(gpu, "health", "gsp_firmware")) for gpu in gpus}
    return sorted(found) or NOT_MEASURED


def branch(plan: Any) -> Any:
    version, of_branch = look(plan, "driver", "version"), look(plan, "driver", "branch")
    return version or (f"{of_branch}.*" if of_branch else "")


def pytorch(plan: Any) -> Any:
    version, build = look(plan, "pytorch", "version"), look(plan, "pytorch", "build")
    return f"{version}+{build}" if version and build else version


def used_precisions(report: Report) -> list[str] | str:
    """What the smoke test computed in, each once."""
    found = [look(device, "amp_dtype") for device in as_list(look(report, "smoke", "devices"))]
    return sorted({str(word) for word in found if word is not None}) or NOT_MEASURED


def streams(report: Report) -> Any:
    locks = look(report, "readings", "locks")
    found = look(locks, "streams")
    if isinstance(found, dict):
        return [f"{name} {in_words(found[name])}" for name in sorted(found, key=str)]
    return locks if isinstance(locks, str) else found


def planned_stream(plan: Any) -> str:
    stream = look(plan, "driver", "stream")
    return f"nvidia-driver enabled {stream}" if stream else ""


def version_locks(report: Report) -> Any:
    locks = look(report, "readings", "locks")
    return locks if isinstance(locks, str) else look(locks, "versions")


def tuning(report: Report) -> list[tuple[str, str, str, str, str]] | str:
    """`[(name, wanted, found, why, state)]`, or a sentence if there is nothing to show.

    The state is AS_WANTED, DIFFERS or NOT_READ; the checks decide what a difference means.
    """
    settings = look(report, "readings", "tuning")
    if settings is None:
        return "Not measured: this node was not tuned by the toolkit."
    if isinstance(settings, str):
        return settings[:1].upper() + settings[1:]
    rows = [setting for setting in as_list(settings) if isinstance(setting, dict)]
    if not rows:
        return "Nothing on this node is tuned."
    return [
        (
            in_words(look(row, "name")),
            in_words(look(row, "wanted")),
            in_words(look(row, "found")),
            in_words(look(row, "reason")) if look(row, "reason") else "",
            state_of(row),
        )
        for row in rows
    ]


def state_of(setting: dict[str, Any]) -> str:
    found = setting.get("found")
    if isinstance(found, dict) and "unreadable" in found:
        return NOT_READ
    return AS_WANTED if found is not None and in_words(found) == in_words(setting.get("wanted")) else DIFFERS


def from_plan(report: Report) -> list[str] | None:
    """Sentences on versions and settings that differ from the plan; None if no plan is kept."""
    if not isinstance(plan_of(report), dict):
        return None
    found = [f"{row.part}: {row.found}, planned {row.planned}" for row in as_built(report) if row.differs]
    settings = tuning(report)
    if isinstance(settings, list):
        found += [
            f"{name}: {value}, wanted {wanted}" for name, wanted, value, _why, state in settings if state != AS_WANTED
        ]
    return found


def changes(before: Report | None, now: Report) -> list[str] | None:
    """Sentences on what differs from the previous report; None if there is none."""
    if before is None:
        return None
    found = []
    then, parts = {row.part: row.found for row in as_built(before)}, as_built(now)
    found += [arrow(row.part, then.get(row.part), row.found) for row in parts if then.get(row.part) != row.found]
    settings, rows = tuning(before), tuning(now)
    if isinstance(settings, list) and isinstance(rows, list):
        then = {row[0]: row[2] for row in settings}
        found += [arrow(row[0], then[row[0]], row[2]) for row in rows if row[0] in then and then[row[0]] != row[2]]
    found += slower_or_faster(before, now)
    then = {check.get("id"): check.get("status") for check in before["checks"]}
    for check in now["checks"]:
        status = then.pop(check["id"], None)
        if status is not None and status != check["status"]:
            found.append(arrow(check["id"], status, check["status"]))
    return found + [f"{name}: no longer checked" for name in sorted(str(key) for key in then)]


def arrow(name: str, then: Any, now: Any) -> str:
    return f"{name}: {then} → {now}"


def slower_or_faster(before: Report, now: Report) -> list[str]:
    """Measurements that changed by more than 5 %; less than that is noise."""
    found = []
    then = {bar.name: bar.value for bar in performance_bars(before) + smoke_bars(before) if bar.value}
    for bar in performance_bars(now) + smoke_bars(now):
        old = then.get(bar.name)
        if old and abs(bar.value - old) > NOTABLE_CHANGE * old:
            words = f"{old:.4g} {bar.unit} → {bar.value:.4g} {bar.unit} ({bar.value / old - 1:+.0%})"
            found.append(f"{bar.name}: {words}")
    return found


def skipped(report: Report) -> list[dict[str, Any]]:
    return [check for check in report["checks"] if check["status"] == SKIP]
