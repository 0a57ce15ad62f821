# SPDX-License-Identifier: Apache-2.0
"""What a bundle contains besides the report: the raw output of commands and files, as rows."""

import json
import os
import re
from typing import Any, List, NamedTuple, Sequence, Tuple

from ...host.bounded import run_bounded
from ...host.files import link_target, names_in, read_text
from ...host.topology import BUS_FOLDER, DRIVER_FOLDER, NODE_FOLDER, NVIDIA_VENDOR_ID

MIB = 1024 * 1024
NVIDIA_SMI = "nvidia-smi"
# Names of packages that concern the driver, the toolkit or the kernel.
PACKAGE = re.compile(
    r" "
    r"nvidia|cuda|cudnn|nccl|kernel|linux-(?:image|headers|modules)|dkms|libnv|datacenter-gpu|fabricmanager|podman|docker"
)
DEVICE_FILES = (
    "vendor",
    "device",
    "class",
    "subsystem_vendor",
    "subsystem_device",
    "revision",
    "numa_node",
    "local_cpulist",
    "current_link_speed",
    "current_link_width",
    "max_link_speed",
    "max_link_width",
    "power_state",
    "enable",
    "irq",
)

MACHINE_FILES = (
    "/proc/cmdline",
    "/proc/version",
    "/etc/os-release",
    "/sys/class/dmi/id/sys_vendor",
    "/sys/class/dmi/id/product_name",
    "/sys/class/dmi/id/board_name",
    "/sys/class/dmi/id/bios_version",
    "/sys/class/dmi/id/bios_date",
    "/sys/devices/system/cpu/online",
    "/sys/devices/system/node/online",
    "/sys/devices/system/node/has_memory",
    "/proc/sys/kernel/random/boot_id",
)


class Answer(NamedTuple):
    """One raw answer.

    name     its file in the bundle                what   what it is, in words
    command  the command, or the path that was read
    rc       exit status, None for a file or if there is none
    text     the output, "" if there was no answer
    problem  why it is missing or incomplete, "" if it is complete
    """

    name: str
    what: str
    command: str
    rc: object
    text: str
    problem: str


# name, what, commands of which the first that is installed counts, seconds, maximum of bytes
COMMANDS = (
    (
        "nvidia-smi/query.xml",
        "everything that the driver reports, for programs",
        (["nvidia-smi", "-q", "-x"],),
        30,
        4 * MIB,
    ),
    ("nvidia-smi/query.txt", "the same for people", (["nvidia-smi", "-q"],), 30, 2 * MIB),
    ("nvidia-smi/list.txt", "the GPUs", (["nvidia-smi", "-L"],), 30, MIB // 4),
    ("nvidia-smi/topology.txt", "the path between two GPUs", (["nvidia-smi", "topo", "-m"],), 30, MIB // 4),
    ("nvidia-smi/nvlink-status.txt", "state of the links", (["nvidia-smi", "nvlink", "-s"],), 30, MIB // 4),
    ("nvidia-smi/nvlink-errors.txt", "errors of the links", (["nvidia-smi", "nvlink", "-e"],), 30, MIB // 4),
    (
        "kernel.log",
        "the kernel's log of this boot",
        (["journalctl", "-k", "-b", "-q", "-a", "--no-pager", "-o", "short-monotonic"], ["dmesg"]),
        10,
        8 * MIB,
    ),
    ("lspci.txt", "NVIDIA's devices on the PCI bus", (["lspci", "-nnvv", "-d", "10de:"],), 10, MIB // 2),
    ("modinfo-nvidia.txt", "the kernel module that would be loaded", (["modinfo", "nvidia"],), 10, MIB // 4),
    ("dkms.txt", "modules that DKMS has built", (["dkms", "status"],), 20, MIB // 4),
    (
        "packages.txt",
        "packages of driver, toolkit and kernel",
        (["rpm", "-qa"], ["dpkg-query", "-W", "-f", "${db:Status-Abbrev} ${Package} ${Version} ${Architecture}\\n"]),
        30,
        2 * MIB,
    ),
)
FILES = (
    ("driver/version.txt", "the loaded module", "/proc/driver/nvidia/version"),
    ("driver/params.txt", "its parameters", "/proc/driver/nvidia/params"),
    ("plan.json", "the plan by which the node was built", "/etc/gpuwright/plan.json"),
    ("runtime.json", "the policy of gpu-run", "/etc/gpuwright/runtime.json"),
    ("tuning.json", "the settings that are kept", "/etc/gpuwright/tuning.json"),
    ("verified.json", "when this node passed last", "/var/lib/gpuwright/verified.json"),
    ("boot-check.json", "the last check of a boot", "/var/lib/gpuwright/boot-check.json"),
)


def raw_answers(root: str) -> List[Answer]:
    """Everything that this user may read, each part limited in time and size. No state of a node makes it raise."""
    found, silent = [], ""
    for name, what, commands, seconds, most in COMMANDS:
        if commands[0][0] == NVIDIA_SMI and silent:
            found.append(Answer(name, what, " ".join(commands[0]), None, "", silent))
            continue
        answer, timed_out = _asked(name, what, commands, seconds, most)
        # A driver that hangs does so for each query, and each leaves a process that cannot be killed.
        silent = "not run: nvidia-smi did not answer earlier" if timed_out and commands[0][0] == NVIDIA_SMI else silent
        found.append(_only_ours(answer) if name == "packages.txt" else answer)
    found += [_file(root, *row) for row in FILES]
    found.append(
        Answer("sysfs.txt", "the machine and its GPUs as the kernel shows them", "files", None, sysfs(root), "")
    )
    return found


def _asked(name: str, what: str, commands: Sequence[Sequence[str]], seconds: float, most: int) -> Tuple[Answer, bool]:
    problems = []
    for command in commands:
        done = run_bounded(command, seconds, most)
        said = " ".join(done.stderr.split())[:500]
        if done.missing or (len(commands) > 1 and not done.stdout.strip()):
            problems.append(done.problem or f"{command[0]} printed nothing: {said}")
            continue
        problem = done.problem or ("" if done.rc == 0 else f"ended with {done.rc}")
        problem = ": ".join(part for part in (problem, said) if part)
        return Answer(name, what, " ".join(command), done.rc, done.stdout, problem), done.timed_out
    return Answer(name, what, " ".join(commands[0]), None, "", "; ".join(problems)), False


def _only_ours(answer: Answer) -> Answer:
    lines = [line for line in answer.text.splitlines() if PACKAGE.search(line)]
    return answer._replace(text="".join(line + "\n" for line in sorted(lines)))


def _file(root: str, name: str, what: str, path: str) -> Answer:
    text = read_text(root, path)
    if text is None:
        return Answer(name, what, path, None, "", "not there, or not readable by this user")
    return Answer(name, what, path, None, text + "\n", "")


def sysfs(root: str) -> str:
    """`path: value`, one line for each fact; what cannot be read has no line."""
    lines: List[str] = []
    for path in MACHINE_FILES:
        _add(lines, root, path)
    for node in names_in(root, NODE_FOLDER):
        if re.fullmatch(r"node[0-9]+", node):
            for name in ("cpulist", "distance"):
                _add(lines, root, f"{NODE_FOLDER}/{node}/{name}")
    for address in names_in(root, BUS_FOLDER)[:4096]:
        folder = f"{BUS_FOLDER}/{address}"
        if read_text(root, folder + "/vendor") == NVIDIA_VENDOR_ID:
            for name in DEVICE_FILES:
                _add(lines, root, f"{folder}/{name}")
            for name in ("driver", "iommu_group"):
                target = link_target(root, f"{folder}/{name}")
                lines += [f"{folder}/{name} -> {os.path.basename(target)}"] if target else []
    for address in names_in(root, DRIVER_FOLDER)[:256]:
        _add(lines, root, f"{DRIVER_FOLDER}/{address}/information")
    return "\n".join(lines) + "\n"


def _add(lines: list, root: str, path: str) -> None:
    text = read_text(root, path)
    if text is not None:
        lines += [f"{path}: {line}" for line in text.splitlines()[:64]]


def as_json(text: str) -> Any:
    """The record in the text, None where there is none."""
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return None
