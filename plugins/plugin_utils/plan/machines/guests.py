# SPDX-License-Identifier: Apache-2.0
"""Virtual machines that have parts of cards (vGPU): which driver they get, and who names it.

A guest's driver goes with the release of the hypervisor's vGPU manager, and is in no public repository: the site names
its package. One that runs already is kept, whoever installed it. The driver of a whole card is never planned.
Source: docs.nvidia.com/vgpu, Virtual GPU Software User Guide, "Installing the NVIDIA vGPU Software Graphics Driver".
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, NamedTuple

from ansible_collections.gpuwright.node.plugins.module_utils.host.versions import is_version, major

from ..candidates import pin_label
from ..clash import conflict

# nvidia-linux-grid-550_550.90.07_amd64.deb and nvidia-linux-grid-550-550.90.07-1.x86_64.rpm, as NVIDIA names them.
FILE = {
    "deb": re.compile(r"([a-z0-9][a-z0-9+.-]+)_([0-9][0-9.]*[0-9])(?:-[A-Za-z0-9.+~]+)?_[a-z0-9]+\.deb"),
    "rpm": re.compile(r"([A-Za-z0-9][A-Za-z0-9+._-]*)-([0-9][0-9.]*[0-9])-[A-Za-z0-9.+~_]+\.[a-z0-9_]+\.rpm"),
}
NAMED = "system_driver_package_file (on the controller), or system_driver_packages and system_driver_version"
PORTAL = "NVIDIA's licensing portal or your cloud has it"


class Guest(NamedTuple):
    """The driver of a guest: what is wrong with it, the pins that it means, and its packages by name."""

    conflicts: list[dict[str, Any]]
    pins: dict[str, str]
    packages: list[str]


def vgpus_of(host: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    """The GPUs of a host that are parts of cards; none in the record of an older probe."""
    return [gpu for gpu in host["gpus"] if gpu.get("vgpu")]


def guest_of(host: Mapping[str, Any], pins: Mapping[str, str], form: str) -> Guest | None:
    """What a host with a part of a card means for its driver; None for a host without one.

    host  with `site_driver`: `{file, packages}` as the inventory names them      form  "rpm" or "deb"
    """
    gpus = vgpus_of(host)
    if not gpus:
        return None
    titles = [f"{gpu['name']} ({gpu['pci_id']})" for gpu in gpus]
    whole = [gpu for gpu in host["gpus"] if not gpu.get("vgpu")]
    what = f"{', '.join(titles)} is only a part of a card (vGPU): {gpus[0]['vgpu']['because']}."
    if whole:
        text = " No driver is both a guest's and that of a whole card, and {} is one: give the machine one kind."
        return Guest([_refused(what + text.format(whole[0]["name"]), titles, "Change the virtual machine")], {}, [])
    named = host.get("site_driver") or {}
    file = str(named.get("file") or "").rpartition("/")[2]
    match = FILE[form].fullmatch(file)
    if file and not match:
        text = f" system_driver_package_file is {file}, and does not say package and version as a {form} file does."
        step = "Give it the name that it came with, such as nvidia-linux-grid-550_550.90.07_amd64.deb"
        return Guest([_refused(what + text, titles, step)], {}, [])
    if named.get("problem"):
        text = f" system_driver_package_file is {file}: {named['problem']}."
        step = "Compare it with what the portal says of it, and set both variables"
        return Guest([_refused(what + text, titles, step)], {}, [])
    packages = [match.group(1)] if match else list(named.get("packages") or [])
    runs = _running(host)
    version = (match.group(2) if match else pins.get("driver_version", "")) or (runs["version"] if runs else "")
    source = pins.get("driver_source", "")
    if source:
        text = f" {pin_label('driver_source', source)} asks for the driver of a whole card, which does not drive it."
        return Guest([_refused(what + text, titles, f"Leave that out, and set {NAMED}: {PORTAL}")], {}, [])
    if not is_version(version) or not (packages or (runs and runs["version"] == version)):
        text = " Its guest driver must match the release of the hypervisor's vGPU manager{}, and no repository has it."
        manager = next((gpu["vgpu"]["host_driver"] for gpu in gpus if gpu["vgpu"]["host_driver"]), "")
        text = text.format(f", whose driver is {manager}" if manager else "")
        return Guest([_refused(what + text, titles, f"Set {NAMED}: {PORTAL}")], {}, [])
    pinned = pins.get("driver_version", "")
    if pinned and pinned != version:
        text = f" {pin_label('driver_version', pinned)} contradicts system_driver_package_file, which is {version}."
        return Guest([_refused(what + text, titles, "Leave one of them out")], {}, [])
    newer = _newer_than_host(gpus, version)
    if newer:
        text = f" Guest driver {version} is of a newer branch than the hypervisor's {newer}, which does not serve it."
        step = f"Take the guest driver of the vGPU release that the hypervisor has: {PORTAL}"
        return Guest([_refused(what + text, titles, step)], {}, [])
    flavour = {"driver_flavour": runs["flavour"]} if runs and runs["flavour"] in ("open", "proprietary") else {}
    return Guest([], {**flavour, **pins, "driver_version": version}, packages)


def guest_warnings(host: Mapping[str, Any]) -> list[str]:
    """What the owner of such a machine should know."""
    gpus = vgpus_of(host)
    if not gpus:
        return []
    text = "{} is a part of a card (vGPU): {}; without a licence it is slowed down, which gpu.vgpu_license judges"
    return [text.format(gpus[0]["name"], gpus[0]["vgpu"]["because"])]


def _running(host: Mapping[str, Any]) -> Mapping[str, str] | None:
    """The driver that is loaded: on a part of a card, only a guest's can be."""
    loaded = (host.get("nvidia") or {}).get("loaded")
    return loaded if loaded and is_version(loaded["version"]) else None


def _newer_than_host(gpus: list[Mapping[str, Any]], version: str) -> str:
    known = [gpu["vgpu"]["host_driver"] for gpu in gpus if gpu["vgpu"]["host_driver"]]
    return next((host for host in known if int(major(version)) > int(major(host))), "")


def _refused(what: str, titles: list[str], step: str) -> dict[str, Any]:
    return dict(conflict(what, titles), id="driver.vgpu", next=step + ".")
