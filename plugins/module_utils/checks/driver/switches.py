# SPDX-License-Identifier: Apache-2.0
"""Checks of what sets up the switches between GPUs: the fabric manager, nvlsm and IMEX, each where the board needs it.

Which board a node has is in the probe's record; roles/preflight/files/matrix/platforms.yml says what it needs.
"""

from typing import Any, Dict, List, Optional

from ...gpu.platforms import FABRIC_MANAGER, IMEX, NVLSM
from ...host.bounded import run_bounded
from ...host.files import exists
from ...host.patterns import lazily
from ...host.processes import command_name, process_ids, why_hidden
from ...verdict.check import (
    DRAIN,
    FAIL,
    QUICK,
    Check,
    Outcome,
    failed,
    passed,
    skipped,
    unknown,
)
from ...verdict.evidence import Evidence
from ...verdict.reader import Reader, Seen
from ...verdict.reading_sources import by_hand
from ..host.system import in_container
from .loaded import INSTALL

SECONDS = 10
# Where the package nvlsm has it, on all systems (siderolabs/extensions#893).
NVLSM_PROGRAM = "/opt/nvidia/nvlsm/sbin/nvlsm"
IMEX_VERSION = lazily(r"IMEX version is\s*:\s*([0-9][0-9.]*)")
ENABLE = "Run: systemctl unmask nvidia-fabricmanager ; systemctl enable --now nvidia-fabricmanager"
RESTART = "Run: systemctl restart nvidia-fabricmanager ; its log says why: journalctl -u nvidia-fabricmanager"


def _needs(readings: Evidence) -> List[str]:
    """What the board of the node needs; nothing in a record of a probe that did not look."""
    if "platform" not in readings.names("probe"):
        return []
    return [need.text() for need in readings.each("probe", "platform", "needs")]


def _unseen(readings: Evidence) -> str:
    """Why it is not known what the board needs; "" if it is known."""
    if "platform" not in readings.names("probe") or readings.flag("probe", "platform", "known"):
        return ""
    return readings.text("probe", "platform", "because")


def fabric_manager(readings: Evidence, expected: Evidence) -> Outcome:
    """On a node with NVSwitches nvidia-fabricmanager is active and of the driver's version; others do not need it."""
    if not readings.number("switches") and FABRIC_MANAGER not in _needs(readings):
        why = _unseen(readings)
        if why:
            return unknown("not-known", f"it is not known what this board needs: {why}")
        return skipped("no-nvswitch", "this node has no NVSwitch")
    state = readings.text("fabric_manager")
    if state != "active" and readings.absent("fabric_manager_version"):
        return failed("missing", "missing", "active", "nvidia-fabricmanager is not installed", INSTALL)
    if state != "active":
        return failed("not-running", state, "active", f"nvidia-fabricmanager is {state}")
    wanted = readings.version("probe", "nvidia", "loaded", "version")
    version = readings.version("fabric_manager_version")
    if version != wanted:
        return failed(
            "other-version", version, wanted, f"nvidia-fabricmanager is {version}, but the driver is {wanted}", INSTALL
        )
    return passed(version, wanted, f"nvidia-fabricmanager is active, {version}")


def nvlsm(readings: Evidence, expected: Evidence) -> Outcome:
    """On an HGX or DGX with B200 or newer GPUs nvlsm runs, through which the fabric manager reaches the switches.

    It counts versions of its own, which are not compared with the driver's.
    """
    if NVLSM not in _needs(readings):
        return skipped("not-needed", "the board of this node needs no nvlsm")
    if in_container(readings):
        return skipped("in-container", in_container(readings))
    if not readings.flag("nvlsm", "installed"):
        return failed("missing", "missing", "running", "nvlsm is not installed", INSTALL)
    if not readings.flag("nvlsm", "running"):
        return failed(
            "not-running", "not running", "running", "nvlsm does not run; the fabric manager's service starts it"
        )
    return passed("running", "running", "nvlsm runs")


def imex(readings: Evidence, expected: Evidence) -> Outcome:
    """On a node of an NVL72 rack nvidia-imex is active and of the driver's version."""
    if IMEX not in _needs(readings):
        return skipped("not-needed", "the board of this node needs no IMEX")
    if in_container(readings):
        return skipped("in-container", in_container(readings))
    wanted = readings.version("probe", "nvidia", "loaded", "version")
    install = f"Run: dnf install -y nvidia-imex-{wanted} (Debian: apt-get install nvidia-imex={wanted}-*)"
    if readings.absent("imex", "version"):
        return failed("missing", "missing", wanted, "nvidia-imex is not installed", install)
    version = readings.version("imex", "version")
    if version != wanted:
        return failed(
            "other-version", version, wanted, f"nvidia-imex is {version}, but the driver is {wanted}", install
        )
    state = readings.text("imex", "state")
    if state != "active":
        return failed("not-running", state, "active", f"nvidia-imex is {state}")
    return passed(version, wanted, f"nvidia-imex is active, {version}")


def _wanted(seen: Seen, part: str) -> bool:
    platform = seen.probe.get("platform")
    return part in (platform.get("needs") or ()) if isinstance(platform, dict) else False


def read_nvlsm(seen: Seen) -> Optional[Dict[str, bool]]:
    """`{installed, running}`; null where the board needs none."""
    if not _wanted(seen, NVLSM):
        return None
    running = any(command_name(seen.root, pid) == "nvlsm" for pid in process_ids(seen.root))
    hidden = "" if running else why_hidden(seen.root)
    if hidden:
        raise OSError(hidden)
    return {"installed": running or exists(seen.root, NVLSM_PROGRAM), "running": running}


def read_imex(seen: Seen) -> Optional[Dict[str, Any]]:
    """`{state, version}` of nvidia-imex: systemd's word, and null for a program that is not there; null if unneeded."""
    if not _wanted(seen, IMEX):
        return None
    unit = run_bounded(["systemctl", "is-active", "nvidia-imex"], timeout=SECONDS)
    state = unit.stdout.strip()
    if unit.rc is None or not state:
        raise OSError(unit.problem or "systemctl is-active nvidia-imex printed nothing")
    done = run_bounded(["nvidia-imex", "--version"], timeout=SECONDS)
    if done.missing:
        return {"state": state, "version": None}
    match = IMEX_VERSION.search(done.stdout + done.stderr)
    if done.rc != 0 or not match:
        raise OSError(done.problem or f"nvidia-imex --version says {done.stdout.strip()[:200]!r}")
    return {"state": state, "version": match.group(1)}


READ_NVLSM = Reader(
    name="nvlsm",
    level=QUICK,
    read=read_nvlsm,
    source=by_hand("the processes", f"pgrep -a nvlsm ; ls -l {NVLSM_PROGRAM}"),
)
READ_IMEX = Reader(
    name="imex",
    level=QUICK,
    read=read_imex,
    source=by_hand("systemctl is-active nvidia-imex", "nvidia-imex --version"),
)
CHECKS = (
    Check(
        id="driver.fabric_manager",
        layer="system",
        level=QUICK,
        severity=FAIL,
        remedy=DRAIN,
        question="Are the switches between the GPUs managed?",
        judge=fabric_manager,
        action=ENABLE,
        source="DCGM checkFabricManager, AWS, gpud",
    ),
    Check(
        id="driver.nvlsm",
        layer="system",
        level=QUICK,
        severity=FAIL,
        remedy=DRAIN,
        question="Does the fabric manager reach switches that are behind bridges?",
        judge=nvlsm,
        action=RESTART,
        readers=(READ_NVLSM,),
        source="NVIDIA Fabric Manager user guide, systems with fourth-generation NVSwitches; siderolabs/extensions#717",
    ),
    Check(
        id="driver.imex",
        layer="system",
        level=QUICK,
        severity=FAIL,
        remedy=DRAIN,
        question="Can the nodes of an NVL72 rack use each other's memory?",
        judge=imex,
        action="Run: systemctl enable --now nvidia-imex ; its log says why: journalctl -u nvidia-imex",
        readers=(READ_IMEX,),
        source="NVIDIA IMEX service guide; Azure/azhpc-images verify_nvidia_imex_service",
    ),
)
