# SPDX-License-Identifier: Apache-2.0
"""Questions to the planner about a machine that was scanned elsewhere: the file of `gpu-doctor --scan --json`."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

from ansible_collections.gpuwright.node.plugins.module_utils.gpu.devices import describe_device
from ansible_collections.gpuwright.node.plugins.module_utils.gpu.platforms import PARTS
from ansible_collections.gpuwright.node.plugins.module_utils.host.os_family import DEBIAN_FAMILY, REDHAT_FAMILY
from ansible_collections.gpuwright.node.plugins.module_utils.host.versions import is_version, major
from ansible_collections.gpuwright.node.plugins.module_utils.host.written.state_file import ANY, OTHERS, Damaged, check

from .clash import conflict
from .input import find_release, installed_systems
from .typed_names import find_system, newest_release

STDIN = "-"
EXPECTED = "expected what gpu-doctor --scan --json (or a report of a node) holds"
# Above any report: 0.3 MB with sixteen cards.
MOST_BYTES = 32 * 1024 * 1024
# What the planner uses, by path and kind.
SHAPE: tuple[tuple[tuple[str, ...], Any, str], ...] = (
    (("os", "id"), str, "a string"),
    (("os", "version"), str, "a string"),
    (("machine",), str, "a string"),
    (("kernel", "running"), str, "a string"),
    (("kernel", "next_boot"), str, "a string"),
    (("gpus",), list, "a list"),
    (("nvidia", "modules"), dict, "a record"),
)
# What scans of older releases lack, as forms of `state_file`.
OWNER = {"package": str, "version": str, OTHERS: ANY}
METAPACKAGE = {"name": str, "version": str, "brings": [str], OTHERS: ANY}
KERNEL = {"installed?": [str], "owners?": ({str: (OWNER, None)}, None), "metapackages?": ([METAPACKAGE], None)}
FORMS = {"kernel": {**KERNEL, OTHERS: ANY}, "nvidia": {"user_space?": (str, None), OTHERS: ANY}}
CARD = ("pci_id", "device_id", "name")
MODULE = ("version", "flavour")


def read_host(path: str) -> dict[str, Any]:
    """The facts of a host in a file ("-": standard input). Raises ValueError with one sentence."""
    name = "standard input" if path == STDIN else path
    try:
        data = sys.stdin.buffer.read(MOST_BYTES + 1) if path == STDIN else _read(Path(path))
    except OSError as error:
        raise ValueError(f"{name}: {error.strerror or error}; {EXPECTED}") from None
    if len(data) > MOST_BYTES:
        raise ValueError(f"{name}: larger than {MOST_BYTES // 1024 // 1024} MiB; {EXPECTED}")
    try:
        # Windows shells save UTF-16.
        record = json.loads(data.decode("utf-16" if data[:2] in (b"\xff\xfe", b"\xfe\xff") else "utf-8-sig"))
    except (ValueError, RecursionError) as error:
        raise ValueError(f"{name}: not JSON ({error}); {EXPECTED}") from None
    return scanned_host(record, name)


def _read(path: Path) -> bytes:
    with path.open("rb") as file:
        return file.read(MOST_BYTES + 1)


def scanned_host(record: Any, name: str = "the scan") -> dict[str, Any]:
    """The host as in gpu_probe's record, from a report or from that record; cards by the current table of devices.

    Raises ValueError with one sentence that begins with `name`.
    """
    host = record.get("readings", record) if isinstance(record, dict) else record
    host = host.get("probe", host) if isinstance(host, dict) else host
    if not isinstance(host, dict) or not {"os", "gpus", "machine"} & set(host):
        why = host.get("unreadable") if isinstance(host, dict) else None
        raise ValueError(f"{name}: has no facts of a host{f' ({why})' if why else ''}; {EXPECTED}")
    if isinstance(host.get("gpus"), dict) and "unreadable" in host["gpus"]:
        raise ValueError(f"{name}: {host['gpus']['unreadable']}; scan it where its cards can be seen")
    for path, kind, words in SHAPE:
        if not isinstance(_at(host, path), kind):
            raise ValueError(f"{name}: {'.'.join(path)} is {_at(host, path)!r}, not {words}; {EXPECTED}")
    for part, form in FORMS.items():
        try:
            check(host[part], form, f"{name}: {part}")
        except Damaged as error:
            raise ValueError(f"{error}; {EXPECTED}") from None
    for number, gpu in enumerate(host["gpus"]):
        wrong = [key for key in CARD if not isinstance(gpu, dict) or not isinstance(gpu.get(key), str)]
        if wrong:
            raise ValueError(f"{name}: gpus[{number}] has no {wrong[0]}; {EXPECTED}")
    _check_platform(host.get("platform"), name)
    for place, module in [("loaded", host["nvidia"].get("loaded")), *host["nvidia"]["modules"].items()]:
        fits = isinstance(module, dict) and all(isinstance(module.get(key), str) for key in MODULE)
        if module is not None and not fits:
            raise ValueError(f"{name}: the module ({place}) has no version or flavour; {EXPECTED}")
    # Not to be provisioned now: plans are possible even for systems on which nothing is installed, and say so.
    return {**host, "gpus": [_described(gpu) for gpu in host["gpus"]], "imagined": True}


def _check_platform(platform: Any, name: str) -> None:
    """A scan of an older release has none. Raises ValueError for one that the planner cannot use."""
    needs = platform.get("needs") if isinstance(platform, dict) else None
    if platform is None or (isinstance(needs, list) and all(need in PARTS for need in needs) and platform.get("known")):
        return
    if isinstance(needs, list) and not needs and isinstance(platform.get("because"), str):
        return
    raise ValueError(f"{name}: platform is {platform!r}, and known needs are {', '.join(PARTS)}; {EXPECTED}")


def _at(host: Any, path: tuple[str, ...]) -> Any:
    for key in path:
        host = host.get(key) if isinstance(host, dict) else None
    return host


def _described(gpu: dict[str, Any]) -> dict[str, Any]:
    device = describe_device(gpu["device_id"])
    told = {"architecture": device.architecture, "compute_capability": device.compute_capability}
    return {**gpu, "name": device.name, **told}


def with_system(host: dict[str, Any], system: str, releases: list[dict[str, Any]]) -> dict[str, Any]:
    """The machine with another system on it, without a driver. Raises ValueError with a sentence."""
    found = find_system(system, releases)
    return {**host, "os": {**host["os"], **found}, "nvidia": {"loaded": None, "modules": {}, "user_space": None}}


def nearest(releases: list[dict[str, Any]], system: dict[str, Any]) -> dict[str, Any]:
    """The release that is installed and most like a system: its own, of its family, of its major version, newest."""
    family = REDHAT_FAMILY if system.get("family") == "redhat" else DEBIAN_FAMILY
    family = family if system.get("family") in ("redhat", "debian") else set()

    def likeness(row: dict[str, Any]) -> tuple[bool, bool, bool]:
        alike = is_version(system["version"]) and major(row["version"]) == major(system["version"])
        own = row["id"] == system["id"]
        kin = row["id"] in family
        return own, kin, alike and (own or kin)

    best = max(map(likeness, releases))
    return newest_release([row for row in releases if likeness(row) == best])


def not_installed(matrix: dict[str, Any], host: dict[str, Any], command: str) -> dict[str, Any] | None:
    """The conflict for a machine for whose system there are no plans, with the nearest system that has; else None.

    command  that asks about the same machine with another system, which replaces {}
    """
    if find_release(matrix, host) is not None:
        return None
    system, row = host["os"], nearest(matrix["os_releases"], host["os"])
    title = system.get("name") if isinstance(system.get("name"), str) and system["name"] != "unknown" else ""
    title = title or "{id} {version}".format(**system)
    text = "{} is not installed by this version, which installs {}; the nearest is {name} {version}: "
    text += "{} tells what would fit this machine with it."
    near = command.replace("{}", "{id} {version}".format(**row))
    what = text.format(title, installed_systems(matrix["os_releases"]), near, **row)
    return conflict(what, ["{id} {version}".format(**system)])
