# SPDX-License-Identifier: Apache-2.0
"""Checks that the driver is loaded, as planned, available after the next boot, and usable by the training user."""

from typing import Sequence, Tuple

from ...host.patterns import lazily
from ...verdict.by_hand import NODE, Hand
from ...verdict.check import (
    DRAIN,
    FAIL,
    POWER_CYCLE,
    QUICK,
    REBOOT,
    WARN,
    Check,
    Outcome,
    failed,
    passed,
    slots,
    unknown,
    unnamed,
    warned,
)
from ...verdict.evidence import (
    Evidence,
    Unreadable,
)
from ..confined import kept_away
from ..gpu.cards import ASK_FIRST
from ..reinstall import LIBRARIES, PROGRAM, install, packages_of, reinstall
from .card_nodes import CARD_NODES, lost_cards, owners, without_node

# A missing entry in sysfs means absent only if sysfs can be read, which the GPUs themselves prove.
NO_SYSFS = "sysfs shows no GPU, so anything else missing from it proves nothing"
CARD_NODE = lazily(r"/dev/nvidia[0-9]+")
# nvidia-smi's results if a job or container has no card; a lost or hanging card gives others.
LIKE_NO_GPU = ("no_devices", "driver_not_loaded", "failed")
ENABLE = "systemctl enable --now nvidia-persistenced"
REBOOT_NOW = "When nobody works on the node, run: systemctl reboot"
INSTALL = "Run: ansible-playbook site.yml --tags system"
SHARED_NODES = ("/dev/nvidiactl", "/dev/nvidia-uvm")


# No reboot gives a right that an account lacks.
FORBIDDEN = "no permission"


def reachable(readings: Evidence, expected: Evidence) -> Outcome:
    """nvidia-smi answers within its deadline and with exit status 0.

    In a job or container that was given no GPU, the state of the node cannot be determined.
    """
    status = readings.text("nvidia_smi", "status")
    smi = readings.at("nvidia_smi").value
    message = str(smi.get("message") or f"nvidia-smi: {status}")
    code = status.replace("_", "-")
    action = str(smi.get("action") or "")
    if status == "ok" and readings.flag("nvidia_smi", "reachable"):
        return passed("ok", "ok", "nvidia-smi answers")
    if status == "not_installed":
        action = reinstall(readings, *library_or_program(readings))
    if status in ("ok", "unreadable"):
        return unknown(code, message, status, "ok", action)
    away = kept_away(readings) if status in LIKE_NO_GPU else None
    if away:
        return unknown("kept-away", f"{away[0]} ({message})", status, "ok", away[1])
    # That there is no device is a statement about all of them; a lost one may be named.
    lost: Sequence[str] = unnamed(expected.number("gpu_count")) if status == "no_devices" else ()
    if status == "gpu_lost":
        lost = lost_cards(smi.get("gpus"))
    remedy = POWER_CYCLE if status == "gpu_lost" else DRAIN if smi.get("rc") == 4 or FORBIDDEN in message else ""
    return failed(code, status, "ok", message, action, remedy, items=lost)


def library_or_program(readings: Evidence) -> Tuple[str, str, Tuple[str, ...]]:
    """(path, tags, packages) of the part of nvidia-smi that is missing: its library, if the program itself ended."""
    rc = readings.at("nvidia_smi").value.get("rc")
    if isinstance(rc, int):
        return "/usr/lib64/libnvidia-ml.so.1", "system", LIBRARIES
    return "/usr/bin/nvidia-smi", "system", PROGRAM


def driver_version(readings: Evidence, expected: Evidence) -> Outcome:
    """The loaded module is of the planned branch, and of exactly the planned version where the plan pins one."""
    branch = expected.version("plan", "driver", "branch")
    wanted = expected.wish("plan", "driver", "version") or branch + ".*"
    if readings.absent("probe", "nvidia", "loaded"):
        return failed("not-loaded", "none", wanted, "no nvidia module is loaded", ASK_FIRST)
    loaded = readings.version("probe", "nvidia", "loaded", "version")
    asked = readings.version("nvidia_smi", "driver_version") if readings.flag("nvidia_smi", "reachable") else loaded
    if asked != loaded:
        return failed("mixed-versions", loaded, wanted, f"the module is {loaded} but nvidia-smi says {asked}")
    fits = loaded.startswith(branch + ".") if wanted == branch + ".*" else loaded == wanted
    if not fits:
        return failed("other-version", loaded, wanted, f"{loaded} instead of {wanted}")
    return passed(loaded, wanted, loaded)


def driver_flavour(readings: Evidence, expected: Evidence) -> Outcome:
    """The loaded module is open or proprietary as planned: Volta and older run on the proprietary one only."""
    wanted = expected.text("plan", "driver", "flavour")
    if readings.absent("probe", "nvidia", "loaded"):
        return failed("not-loaded", "none", wanted, "no nvidia module is loaded", ASK_FIRST)
    flavour = readings.text("probe", "nvidia", "loaded", "flavour")
    if flavour != wanted:
        return failed("other-flavour", flavour, wanted, f"the {flavour} module is loaded instead of the {wanted} one")
    return passed(flavour, wanted, f"the {flavour} module is loaded")


def module_matches_user_space(readings: Evidence, expected: Evidence) -> Outcome:
    """The loaded module and the libraries on disk have one version; after an update without a reboot they differ."""
    if readings.absent("probe", "nvidia", "loaded"):
        return failed("not-loaded", "none", None, "no nvidia module is loaded", ASK_FIRST)
    loaded = readings.version("probe", "nvidia", "loaded", "version")
    if readings.absent("probe", "nvidia", "user_space"):
        return failed("no-user-space", loaded, None, "the driver's user space is not installed", INSTALL)
    on_disk = readings.version("probe", "nvidia", "user_space")
    if loaded != on_disk:
        return failed("mixed-versions", loaded, on_disk, f"module {loaded} is loaded, libraries are {on_disk}")
    return passed(loaded, on_disk, f"both are {loaded}")


def nouveau_absent(readings: Evidence, expected: Evidence) -> Outcome:
    """nouveau is not loaded: it would hold the GPU and keep NVIDIA's module from using it."""
    if not readings.each("probe", "gpus"):
        return unknown("no-gpu", NO_SYSFS)
    if readings.flag("probe", "nouveau_loaded"):
        return failed("loaded", "loaded", "not loaded", "nouveau is loaded")
    return passed("not loaded", "not loaded", "nouveau is not loaded")


def persistence(readings: Evidence, expected: Evidence) -> Outcome:
    """nvidia-persistenced is active and each card says so; without it the driver forgets its settings when idle."""
    state = readings.text("persistenced")
    if state != "active":
        return warned("not-running", state, "active", f"nvidia-persistenced is {state}", *_package_of_daemon(readings))
    if not readings.flag("nvidia_smi", "reachable"):
        return unknown("silent", "the daemon is active, but the driver cannot be queried", state, "active", ASK_FIRST)
    modes = [(gpu.pci_id("pci_id"), gpu.text("persistence_mode")) for gpu in readings.each("nvidia_smi", "gpus")]
    off = [pci_id for pci_id, mode in modes if mode != "Enabled"]
    if off or not modes:
        return warned(
            "off", "off", "Enabled", f"persistence mode is off on {', '.join(off) or 'no GPU at all'}", items=slots(off)
        )
    return passed("active", "active", "nvidia-persistenced is active")


def _package_of_daemon(readings: Evidence) -> Tuple[str, ...]:
    """The action if the daemon's package is not installed; nothing if it is, or if this was not read."""
    names = packages_of(readings)
    # Ubuntu packages it with the other programs.
    there = [name for name in names or () if name.startswith(("nvidia-persistenced", "nvidia-compute-utils"))]
    return () if there or not names else (install(readings, "nvidia-persistenced") + " ; " + ENABLE,)


def device_nodes(readings: Evidence, expected: Evidence) -> Outcome:
    """The training user may read and write one /dev/nvidiaN for each GPU, /dev/nvidiactl and /dev/nvidia-uvm."""
    wanted = expected.number("gpu_count")
    user = expected.text("training_user")
    nodes = readings.at("device_nodes")
    cards = [name for name in nodes.names() if CARD_NODE.fullmatch(name)]
    missing = [name for name in SHARED_NODES if name not in nodes.names()]
    # Others, such as nvidia-modeset, are for display servers and tools.
    needed = cards + [name for name in SHARED_NODES if name not in missing]
    shut = [name for name in needed if not (nodes.flag(name, "readable") and nodes.flag(name, "writable"))]
    value = f"{len(needed) - len(shut)} of {len(needed)}"
    if len(cards) < wanted:
        lost = without_node(readings, cards, wanted)
        return failed(
            "too-few" if cards else "none", value, wanted, f"{len(cards)} of {wanted} /dev/nvidiaN exist", items=lost
        )
    if missing:
        return failed("missing", value, "all", f"{' and '.join(missing)} is missing", items=missing)
    if shut:
        card_of = owners(readings)
        code = "not-usable" if set(shut) <= set(cards) else "shared-not-usable"
        lost = [card_of.get(name, name) for name in shut]
        return failed(code, value, "all", *_shut(nodes, user, shut), items=lost)
    return passed(value, "all", f"{user} may use all {len(needed)}")


def _shut(nodes: Evidence, user: str, names: Sequence[str]) -> Tuple[str, str]:
    """(message, action) for device files that the user may not open, with the first one's mode and group."""
    message = f"{user} may not use {', '.join(names)}"
    try:
        mode, group = nodes.text(names[0], "mode"), nodes.text(names[0], "group")
    except Unreadable:
        return message, ""
    # Root's own group must not be given to a user who has no other rights.
    if mode[2:3] in ("6", "7") and group not in ("root", "0"):
        join = "Run: usermod -aG {} {} ; restart its services, or set NVreg_DeviceFileMode=0666"
        return f"{message} (mode {mode}, group {group}, which has access)", join.format(group, user)
    return f"{message} (mode {mode}, group {group})", ""


def uvm(readings: Evidence, expected: Evidence) -> Outcome:
    """nvidia_uvm is loaded: CUDA cannot start without it, and an ordinary user cannot load it."""
    if readings.flag("probe", "nvidia", "uvm_loaded"):
        return passed("loaded", "loaded", "nvidia_uvm is loaded")
    return failed("not-loaded", "not loaded", "loaded", "nvidia_uvm is not loaded")


CHECKS = (
    Check(
        id="driver.reachable",
        layer="system",
        level=QUICK,
        severity=FAIL,
        remedy=REBOOT,
        question="Does nvidia-smi answer?",
        judge=reachable,
        firm_because="a driver that does not answer is missing, or has lost a GPU",
        action="Run nvidia-smi on the node; its output and dmesg | grep -i nvrm say why.",
    ),
    Check(
        id="driver.version",
        layer="system",
        level=QUICK,
        severity=FAIL,
        remedy=DRAIN,
        question="Is the planned driver loaded?",
        judge=driver_version,
        firm_because="one of its findings is that there is no module, and without one no program has a GPU",
        action=INSTALL + " ; it says when a reboot is due, and reboots with -e system_reboot_policy=allowed",
    ),
    Check(
        id="driver.flavour",
        layer="system",
        level=QUICK,
        severity=FAIL,
        remedy=DRAIN,
        question="Is the module open or proprietary as planned?",
        judge=driver_flavour,
        action=INSTALL + " -e system_driver_allow_stream_switch=true ; it switches the module stream",
    ),
    Check(
        id="driver.module_matches_user_space",
        layer="system",
        level=QUICK,
        severity=FAIL,
        remedy=REBOOT,
        question="Do the loaded module and the driver's libraries belong together?",
        judge=module_matches_user_space,
        firm_because="if they differ, every CUDA program ends with an error, as it does without a driver",
        action=REBOOT_NOW + " ; if they still differ: ansible-playbook site.yml --tags system",
    ),
    Check(
        id="driver.nouveau_absent",
        layer="system",
        level=QUICK,
        severity=FAIL,
        remedy=REBOOT,
        question="Is nouveau out of the way?",
        judge=nouveau_absent,
        action=(
            REBOOT_NOW + " ; if it is loaded again, nothing blocks it: look at "
            "modprobe --showconfig | grep nouveau ; on RHEL also grubby --info=ALL"
        ),
    ),
    Check(
        id="driver.persistence",
        layer="system",
        level=QUICK,
        severity=WARN,
        question="Does the driver stay initialised when nobody uses it?",
        judge=persistence,
        action="Run: systemctl unmask nvidia-persistenced ; " + ENABLE,
    ),
    Check(
        id="driver.device_nodes",
        layer="system",
        level=QUICK,
        severity=FAIL,
        remedy=DRAIN,
        question="May the training user open the GPU's device files?",
        judge=device_nodes,
        readers=(CARD_NODES,),
        firm_because="no training can use a card whose device file is missing or closed",
        unit="files",
        action=(
            "Run: nvidia-modprobe -u -c 0 ; if access is still denied: compare ls -l /dev/nvidia* with "
            "NVreg_DeviceFileMode."
        ),
    ),
    Check(
        id="driver.uvm",
        layer="system",
        level=QUICK,
        severity=FAIL,
        remedy=DRAIN,
        question="Is the module that CUDA needs loaded?",
        judge=uvm,
        firm_because="a part of the driver is missing",
        action="Run: modprobe nvidia_uvm ; it must be listed in /etc/modules-load.d to be there after a boot.",
    ),
)

# By hand: who acts, and what is seen afterwards.
BY_HAND = {
    "driver.reachable": Hand(NODE, "nvidia-smi lists the cards and exits with 0"),
}
