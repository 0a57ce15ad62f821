# SPDX-License-Identifier: Apache-2.0
"""Turns the role's variables into this host's settings, knobs and files; and what is left alone, with the reason."""

import collections
import difflib
import json
import re
from typing import Any, Dict, List, Mapping, NamedTuple, Optional, Tuple

from ..host.files import exists, read_int
from ..readings.kernel_log.log import read_container
from . import file_texts as tuning_files
from . import gpu as tuning_gpu
from . import knobs as tuning_knobs
from . import profiles
from .catalogue import (
    BY_NAME,
    CATALOGUE,
    Setting,
)
from .disk import NotHere, devices_below, disks_below, is_flash, udev_match

GROUP = re.compile(r"[a-z_][a-z0-9_-]{0,31}")
SERVICE = re.compile(r"[A-Za-z0-9:_.@-]+\.service")
# Names that need no escaping in systemd, and no folder of the system itself.
SCRATCH = re.compile(
    r"(?!/(bin|boot|dev|etc|home|lib|lib64|opt|proc|root|run|sbin|srv|sys|tmp|usr|var)/?$)(/[a-z0-9_]+)+"
)
PROFILE = re.compile(r"[A-Za-z0-9_.-]+")
# Profiles that fit a server; `tuned-adm recommend` may say powersave or balanced.
GOOD_PARENTS = ("virtual-guest", "throughput-performance", "accelerator-performance", "hpc-compute")
USUAL_PARENT = "throughput-performance"
LOADED_DRIVER = "/proc/driver/nvidia/version"
NR_OPEN = "/proc/sys/fs/nr_open"
# The kernel and its interrupts belong to the container's host.
OF_THE_KERNEL = ("sysctl", "sysfs", "disk", "tuned")


class Plan(NamedTuple):
    """What a host should have.

    settings  rows of tuning.json    skipped  [{name, reason}]
    knobs     {concrete key: value}  files    {path: (text, mode)}
    """

    settings: List[Dict[str, Any]]
    skipped: List[Dict[str, str]]
    knobs: Dict[str, str]
    files: Dict[str, Tuple[str, int]]


class Refused(Exception):
    """The request cannot be met here; the message says which setting, what was expected and what to do."""


def check_wishes(wishes: Mapping[str, Any]) -> None:
    """Raise Refused for requests that no host can meet: unknown names, values outside their pattern, unsafe names."""
    for name in list(wishes["leave"]) + sorted(wishes["values"]):
        if name not in BY_NAME:
            near = difflib.get_close_matches(str(name), sorted(BY_NAME), 1)
            hint = f"the nearest is {near[0]}" if near else f"there are: {', '.join(sorted(BY_NAME))}"
            raise Refused(f"there is no setting {name!r}: {hint}")
    for name, value in sorted(wishes["values"].items()):
        if isinstance(value, (bool, float)) or not re.fullmatch(BY_NAME[name].allowed, str(value)):
            text = "{}: {!r} is not a valid value; expected, in quotes, what matches {}"
            raise Refused(text.format(name, value, BY_NAME[name].allowed))
    if not GROUP.fullmatch(wishes["limits_group"]):
        raise Refused(f"limits_group is {wishes['limits_group']!r}: expected the name of a group")
    for unit in wishes["limits_units"]:
        if not SERVICE.fullmatch(str(unit)):
            raise Refused(f"limits_units: {unit!r} is not a name such as train-gan@.service")
    if not re.fullmatch(r"/[^\s]*", wishes["data_dir"]):
        raise Refused(f"data_dir is {wishes['data_dir']!r}: expected an absolute path without spaces")
    if not SCRATCH.fullmatch(wishes["scratch_dir"]):
        text = "scratch_dir is {!r}: expected a folder of its own such as /scratch, of small letters, digits and _"
        raise Refused(text.format(wishes["scratch_dir"]))
    if wishes["tuned_parent"] and not PROFILE.fullmatch(wishes["tuned_parent"]):
        raise Refused(f"tuned_parent is {wishes['tuned_parent']!r}: expected the name of a profile")


def make_plan(root: str, wishes: Mapping[str, Any], program: str, can_wait: bool = False) -> Plan:
    """The `Plan` of a host.

    wishes    leave, values, limits_group, limits_units, data_dir, tuned_parent, scratch_uuid, scratch_dir
    program   text of gpu-tune
    can_wait  true if the driver need not answer yet, as in check mode on a bare host
    """
    check_wishes(wishes)
    plan = Plan([], [], collections.OrderedDict(), collections.OrderedDict())
    container = read_container(root)
    for setting in CATALOGUE:
        value = str(wishes["values"].get(setting.name, setting.wanted))
        if setting.name in wishes["leave"] or value == "":
            continue
        try:
            if container and (setting.kind in OF_THE_KERNEL or setting.name == "irqbalance"):
                raise NotHere(f"this node is a container ({container}): its host sets that")
            PLANNERS[setting.kind](plan, root, setting, value, wishes)
        except NotHere as reason:
            if setting.kind == "gpu" and not can_wait:
                raise Refused(f"{setting.name} cannot be set: {reason}. Next: nvidia-smi -q")
            plan.skipped.append({"name": setting.name, "reason": str(reason)})
    _add_limits(plan, wishes)
    _add_disk_rule(plan, root, wishes)
    _add_profile(plan)
    if wishes["scratch_uuid"]:
        _add_scratch(plan, wishes["scratch_uuid"], wishes["scratch_dir"])
    plan.files[tuning_files.PROGRAM] = (program, 0o755)
    plan.files[tuning_files.UNIT] = (tuning_files.UNIT_TEXT, 0o644)
    plan.files[tuning_files.RECORD] = (record(plan), 0o644)
    plan.knobs["unit " + tuning_files.UNIT_NAME] = "enabled active"
    return plan


def record(plan: Plan) -> str:
    """The text of tuning.json, which gpu-tune and the verification read."""
    known = {"schema": 1, "settings": plan.settings, "skipped": plan.skipped}
    return json.dumps(known, indent=2, sort_keys=True) + "\n"


def _add(plan: Plan, setting: Setting, wanted: str, key: str, concrete: Any, shown: Optional[str] = None) -> None:
    """Add a setting: `key` for later readers, `concrete` keys for now."""
    plan.settings.append(
        {
            "name": setting.name,
            "path_or_how": shown or key,
            "wanted": wanted,
            "reason": setting.reason,
            "undo": f"system_tuning_leave: [{setting.name}]; by hand: {setting.undo}",
            "keys": {key: wanted},
        }
    )
    for one in concrete:
        plan.knobs[one] = wanted


def _plan_file(plan: Plan, root: str, setting: Setting, value: str, wishes: Mapping[str, Any]) -> None:
    concrete = tuning_knobs.expand(root, setting.where)
    for key in concrete:
        reason = tuning_knobs.why_not(root, key, value)
        if reason:
            raise NotHere(reason)
        tuning_knobs.read(root, key)
    _add(plan, setting, value, setting.where, concrete)


def _plan_disk(plan: Plan, root: str, setting: Setting, value: str, wishes: Mapping[str, Any]) -> None:
    if value == "auto":
        disks = disks_below(root, wishes["data_dir"])
        kinds = {is_flash(root, disk) for disk in disks}
        if len(kinds) > 1:
            raise NotHere(f"{wishes['data_dir']} lies on flash and on spinning disks: {', '.join(disks)}")
        value = "none" if kinds == {True} else "mq-deadline"
    key = f"disk {wishes['data_dir']} {setting.where}"
    concrete = tuning_knobs.expand(root, key)
    for one in concrete:
        if not exists(root, one):
            raise NotHere(f"there is no {one}")
        reason = tuning_knobs.why_not(root, one, value)
        if reason:
            raise NotHere(reason)
    _add(plan, setting, value, key, concrete, f"{concrete[0]} ({wishes['data_dir']})")


def _plan_unit(plan: Plan, root: str, setting: Setting, value: str, wishes: Mapping[str, Any]) -> None:
    try:
        state = tuning_knobs.read_unit(setting.where).split()
    except OSError as error:
        raise NotHere(str(error))
    if state[0] == "not-found":
        raise NotHere(f"{setting.where} is not installed")
    if state[0] == "masked":
        raise NotHere(f"{setting.where} is masked, so it stays switched off")
    if setting.name == "gpu_persistence" and not exists(root, LOADED_DRIVER):
        raise NotHere("no NVIDIA module is loaded, which the daemon needs to start")
    _add(plan, setting, value, "unit " + setting.where, ["unit " + setting.where])


def _plan_limit(plan: Plan, root: str, setting: Setting, value: str, wishes: Mapping[str, Any]) -> None:
    most = read_int(root, NR_OPEN) if setting.name == "limits_nofile" else None
    # Above this, setrlimit(2) fails, PAM refuses every login of the group, and systemd does not start the service.
    if most is not None and int(value) > most:
        raise Refused(f"{setting.name} is {value}: {NR_OPEN} allows at most {most}")
    _add(plan, setting, value, "file " + tuning_files.LIMITS, [], tuning_files.LIMITS)


def _plan_tuned(plan: Plan, root: str, setting: Setting, value: str, wishes: Mapping[str, Any]) -> None:
    try:
        state = tuning_knobs.read_unit("tuned.service").split()
    except OSError as error:
        raise NotHere(str(error))
    if state[1] != "active":
        raise NotHere(f"tuned does not run here; {tuning_files.UNIT_NAME} sets the same at boot")
    parent = wishes["tuned_parent"] or _recommended()
    if not any(exists(root, f"{folder}/{parent}/tuned.conf") for folder in profiles.folders(root)):
        raise Refused(f"tuned has no profile {parent!r}; see: tuned-adm list profiles")
    _add(plan, setting, value, "tuned profile", ["tuned profile"])
    plan.files[profiles.own_file(root)] = (parent, 0o644)


def _recommended() -> Any:
    try:
        said = tuning_knobs.command(["tuned-adm", "recommend"]).strip()
    except OSError:
        return USUAL_PARENT
    return said if said in GOOD_PARENTS else USUAL_PARENT


def _plan_gpu(plan: Plan, root: str, setting: Setting, value: str, wishes: Mapping[str, Any]) -> None:
    gpus = tuning_gpu.ask()
    reason = tuning_gpu.refusal(gpus, setting.where, value)
    if reason:
        raise Refused(f"{setting.name} is {value}: {reason}")
    key = "gpu all " + setting.where
    _add(plan, setting, value, key, tuning_knobs.expand(root, key), "nvidia-smi, every GPU")


PLANNERS = {
    "sysctl": _plan_file,
    "sysfs": _plan_file,
    "disk": _plan_disk,
    "unit": _plan_unit,
    "limit": _plan_limit,
    "tuned": _plan_tuned,
    "gpu": _plan_gpu,
}


def _held(plan: Plan, kind: str) -> Dict[str, str]:
    return {row["name"]: row["wanted"] for row in plan.settings if BY_NAME[row["name"]].kind == kind}


def _add_limits(plan: Plan, wishes: Mapping[str, Any]) -> None:
    """One file for logins, one drop-in for each service; the rows are compared with the files' digests."""
    values = _held(plan, "limit")
    if not values:
        return
    plan.files[tuning_files.LIMITS] = (tuning_files.limits_file(wishes["limits_group"], values), 0o644)
    for unit in wishes["limits_units"]:
        plan.files[tuning_files.DROP_IN.format(unit)] = (tuning_files.drop_in_file(values), 0o644)
    paths = [tuning_files.LIMITS] + [tuning_files.DROP_IN.format(unit) for unit in wishes["limits_units"]]
    for row in plan.settings:
        if row["name"] in values:
            row["keys"] = {"file " + path: tuning_knobs.digest(plan.files[path][0].encode("utf-8")) for path in paths}


def _add_disk_rule(plan: Plan, root: str, wishes: Mapping[str, Any]) -> None:
    values = {BY_NAME[name].where: value for name, value in _held(plan, "disk").items()}
    if values:
        disks, rules = disks_below(root, wishes["data_dir"]), []
        for name in devices_below(root, wishes["data_dir"]):
            own = {where: value for where, value in values.items() if name in disks or where != tuning_knobs.SCHEDULER}
            if own:
                rules.append((udev_match(root, name), own))
        plan.files[tuning_files.UDEV] = (tuning_files.udev_file(rules), 0o644)


def _add_profile(plan: Plan) -> None:
    for path in [path for path in plan.files if profiles.is_own(path)]:
        others = _held(plan, "sysfs")
        sysctls, disks = _held(plan, "sysctl"), _held(plan, "disk")
        arguments = (sysctls, others.get("cpu_governor", ""), others.get("transparent_hugepage", ""), disks)
        plan.files[path] = (tuning_files.tuned_file(plan.files[path][0], *arguments), 0o644)


def _add_scratch(plan: Plan, file_system: str, folder: str) -> None:
    name = tuning_files.mount_name(folder)
    plan.files[tuning_files.MOUNT.format(name)] = (tuning_files.mount_file(file_system, folder), 0o644)
    plan.files[tuning_files.TMPFILES] = (tuning_files.tmpfiles_file(folder), 0o644)
    key = f"unit {name}.mount"
    _add(plan, BY_NAME["scratch"], "enabled active", key, [key], folder)
