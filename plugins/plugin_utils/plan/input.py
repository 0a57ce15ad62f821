# SPDX-License-Identifier: Apache-2.0
"""What is wrong with a question before any search: pins that do not exist, unknown values, unsupported hosts."""

from __future__ import annotations

import difflib
import re
from typing import Any

from ansible_collections.gpuwright.node.plugins.module_utils.gpu.cards import card_of
from ansible_collections.gpuwright.node.plugins.module_utils.host.versions import (
    is_part_of,
    is_version,
    major,
    version_key,
)

from .candidates import AT_LEAST, CPU_BUILD, PINS, TOOLKIT_KINDS, Candidate, accepts, pin_label
from .clash import conflict
from .driver_packages import boot_kernels
from .kernels.packages import kernels_of, unknown_kernels
from .rules import Gpu
from .typed_names import newest_release
from .unlisted import DRIVER_FORM, known_drivers, nearest_driver

# A user who pins these has taken over what the plan would have derived from a GPU's architecture.
PINS_FOR_UNKNOWN_GPU = ("driver_branch", "driver_flavour", "cuda", "cudnn", "pytorch", "pytorch_build")
# The controller's release that manages every system of the matrix, as requirements/controller.in pins it.
PINNED_CORE = "2.16.19"
LOOK = "tools/gpu-plan shows what would fit there, with {}. "
INSTALLATION_GUIDE = "https://docs.nvidia.com/datacenter/tesla/driver-installation-guide/"


def misspelt_pins(matrix: dict[str, Any], pins: dict[str, str]) -> list[dict[str, Any]]:
    """Conflicts for pins that do not exist, are not text, or do not have the right format."""
    found = []
    branches = sorted(matrix["drivers"], key=int)
    profiles = sorted(matrix["profiles"])
    for name, value in sorted(pins.items()):
        if name not in PINS:
            nearest = difflib.get_close_matches(name, list(PINS), 1)
            hint = f" Did you mean {nearest[0]}?" if nearest else ""
            found.append(conflict(f"There is no pin {name}.{hint} Known: {', '.join(PINS)}."))
        elif not isinstance(value, str):
            text = "{} is {!r}, which is not text. Write it in quotes: YAML turns 8.10 into 8.1."
            found.append(conflict(text.format(PINS[name], value)))
        elif name == "profile" and value not in profiles:
            nearest = difflib.get_close_matches(value, profiles, 1)
            hint = f" Did you mean {nearest[0]}?" if nearest else ""
            text = f"{pin_label(name, value)} is not known.{hint} Known: {', '.join(profiles)}."
            found.append(conflict(text, [pin_label(name, value)], [{"profile": profile} for profile in nearest]))
        elif name == "driver_version" and value in branches:
            text = "{} is a branch: set {} for its newest release, or write an exact version, like 580.95.05."
            branch = {"driver_version": "", "driver_branch": value}
            what = text.format(pin_label(name, value), pin_label("driver_branch", value))
            found.append(conflict(what, [pin_label(name, value)], [branch]))
        elif name == "driver_version" and not (is_version(value) and major(value) in branches):
            text = '{} is not a version of a known branch. Write it like "580.95.05"; known branches: {}.'
            if is_version(value) and int(major(value)) > int(branches[-1]):
                text += " Of a newer branch this matrix does not know which GPUs it drives, and with which modules."
            found.append(conflict(text.format(pin_label(name, value), ", ".join(branches))))
        elif name == "driver_version" and not DRIVER_FORM.fullmatch(value):
            found.append(_misspelt_driver(matrix, value))
    return found


def _misspelt_driver(matrix: dict[str, Any], value: str) -> dict[str, Any]:
    """A version of a known branch in another form than NVIDIA's, such as 580.95.5."""
    label, known = pin_label("driver_version", value), known_drivers(matrix, major(value))
    near = nearest_driver(known, value) if known else ""
    hint = f" The nearest that is known is {near}." if near else ""
    text = f'{label} is not how NVIDIA writes the version of a driver, which is like "580.95.05" or "580.142".{hint}'
    ways = [{"driver_version": near}] if near else []
    return conflict(text, [label], [*ways, {"driver_version": "", "driver_branch": major(value)}])


def profile_pins(matrix: dict[str, Any], profile: str) -> dict[str, Any]:
    """The pins of a profile. Raises KeyError for one that does not exist."""
    return matrix["profiles"][profile]["pins"]


def held_pins(profile: dict[str, Any], pins: dict[str, str]) -> dict[str, Any]:
    """Those of a profile's pins that remain with the user's own."""
    # A build belongs to a release: a user who pins another release does not mean the profile's build.
    replaced = set(pins) | ({"pytorch_build"} if "pytorch" in pins else set())
    return {name: value for name, value in profile.items() if name not in replaced}


def unknown_pins(candidates: dict[str, list[Candidate]], pins: dict[str, str]) -> list[str]:
    """Names of pins whose value no row of the matrix has."""
    unknown = {name for name in pins if not _is_known(name, pins[name], candidates)}
    return [name for name in PINS if name in unknown]


def _is_known(name: str, value: str, candidates: dict[str, list[Candidate]]) -> bool:
    # Ranges are for profiles: the inventory should name what is installed.
    return not value.startswith(AT_LEAST) and any(
        name in candidate.pins and accepts(name, value, candidate)
        for group in candidates.values()
        for candidate in group
    )


def without_toolkit(pins: dict[str, str]) -> list[dict[str, Any]]:
    """Conflicts of a node without a toolkit with pins of what belongs to one."""
    named = [name for name in TOOLKIT_KINDS if name in pins and name != "cuda"]
    titles = {"cudnn": "cuDNN", "nccl": "NCCL"}
    text = "{} of the node belongs to a toolkit, and {} leaves that out: the wheels bring their own. Set one of them"
    return [
        conflict(
            text.format(titles[name], pin_label("cuda", pins["cuda"])) + ".",
            [pin_label("cuda", pins["cuda"]), pin_label(name, pins[name])],
            [{name: ""}, {"cuda": ""}],
        )
        for name in named
    ]


def find_release(matrix: dict[str, Any], host: dict[str, Any]) -> dict[str, Any] | None:
    """The row of os_releases for a host's operating system, or None.

    A version without a minor number means all of its minor releases that have no row of their own, and one of Ubuntu
    all of its point releases.
    """
    system = host["os"]
    own = [release for release in matrix["os_releases"] if release["id"] == system["id"]]
    for release in own:
        if release["version"] == system["version"]:
            return release
    for release in own:
        by_rpm = matrix["os_families"][release["family"]]["format"] == "rpm"
        if is_part_of(system["version"], release["version"]) and not (by_rpm and "." in release["version"]):
            return dict(release, version=system["version"])
    return None


def only_planned(matrix: dict[str, Any], host: dict[str, Any], release: dict[str, Any]) -> str:
    """Why this version installs nothing of a plan on such a host, as one sentence; "" if it does."""
    if host["machine"] == matrix["machine"]:
        return ""
    text = "This version installs nothing on {} on {}, where none of it was tried: to install this plan, follow {}"
    return text.format("{name} {version}".format(**release), host["machine"], INSTALLATION_GUIDE)


def unsupported_host(
    matrix: dict[str, Any], host: dict[str, Any], release: dict[str, Any] | None, pins: dict[str, str]
) -> list[dict[str, Any]]:
    """Conflicts that concern the host, whatever versions are pinned."""
    found = _unsupported_machine(matrix, host, release)
    if release is None:
        title = "{id} {version}".format(**host["os"])
        found.append(conflict(_not_installed(matrix, host["os"]), [title]))
    elif controller_refusal(matrix["os_families"][release["family"]], host.get("ansible_core", "")):
        family = matrix["os_families"][release["family"]]
        title = "{name} {version}".format(**release)
        clash = ["ansible-core " + host["ansible_core"], title]
        found.append(conflict(controller_refusal(family, host["ansible_core"]), clash))
    found += _unknown_kernels(matrix, host, release)
    strangers = kinds_of_gpu(matrix, host["gpus"])[1]
    missing = [PINS[name] for name in PINS_FOR_UNKNOWN_GPU if name not in pins]
    if strangers and missing:
        title = ", ".join(f"{gpu['name']} ({gpu['pci_id']})" for gpu in strangers)
        text = "The architecture of {} is unknown, so nothing can be chosen for it. To choose yourself, set {}."
        found.append(conflict(text.format(title, ", ".join(missing)), [title]))
    if not host["gpus"] and pins.get("pytorch_build") != CPU_BUILD:
        text = "No NVIDIA GPU is on the PCI bus of this host. If it should have one, look for the card; else set {}."
        what = text.format(pin_label("pytorch_build", CPU_BUILD))
        found.append(conflict(what, ["no NVIDIA GPU"], [{"pytorch_build": CPU_BUILD}]))
    return found


def _unsupported_machine(matrix: dict[str, Any], host: dict[str, Any], release: dict[str, Any] | None) -> list[Any]:
    machine = host["machine"]
    if machine == matrix["machine"]:
        return []
    families = matrix["os_families"]
    known = [row["name"] for row in families.values() if machine in row["machines"]]
    if not ((host.get("imagined") or host.get("only_judged")) and known):
        text = "This host is {}: this version installs only on {}. {}For {} follow NVIDIA's installation guide: {}."
        look = LOOK.format("--machine " + machine) if known else ""
        what = text.format(machine, matrix["machine"], look, machine, INSTALLATION_GUIDE)
    elif release is None or machine in families[release["family"]]["machines"]:
        return []
    else:
        text = "NVIDIA's repository for {} was not seen for {}: ask for one of {}."
        what = text.format(machine, families[release["family"]]["name"], "; ".join(known))
    return [conflict(what, ["machine " + machine])]


def _unknown_kernels(matrix: dict[str, Any], host: dict[str, Any], release: dict[str, Any] | None) -> list[Any]:
    """A host on which something will be installed must have kernels whose headers are known; one without GPUs none."""
    if release is None or not host["gpus"] or host.get("imagined") or host.get("only_judged"):
        return []
    kernels = kernels_of(matrix, host, matrix["os_families"][release["family"]])
    system = "{name} {version}".format(**release)
    rows = unknown_kernels(kernels, boot_kernels(host), system)
    return [dict(conflict(what, [seen]), id="kernel.flavour", next=step) for what, seen, step in rows]


def _not_installed(matrix: dict[str, Any], system: dict[str, str]) -> str:
    """What to do with a system that has no row: one sentence on what it is, one on what can be installed."""
    releases = matrix["os_releases"]
    own = [row for row in releases if row["id"] == system["id"]]
    title = f"{own[0]['name'] if own else system['id']} {system['version']}"
    known = [row["version"] for row in own]
    alike = [version for version in known if major(version) == major(system["version"])]
    text = f"{title} is not installed by this version, which installs {installed_systems(releases)}."
    told = is_version(system["version"])
    to_come = [row for row in matrix.get("os_releases_to_come", []) if row["id"] == system["id"]]
    for row in to_come:
        if told and is_part_of(system["version"], row["version"]):
            text += f" Known of it: {row['known']}. No source has told {row['missing']}: a row needs that."
    if alike and told and len(system["version"].split(".")) == 1:
        step = "Write its whole version: " + " or ".join(f"{system['id']} {version}" for version in alike)
    elif alike and told:
        step = f"Update the host to {alike[-1]}, or write its row, if it is newer than the matrix"
    elif own and told and version_key(system["version"]) < version_key(known[0]):
        step = "Install {name} {version} on the host".format(**newest_release(own))
    else:
        step = "Take one of these, or follow NVIDIA's installation guide: " + INSTALLATION_GUIDE
    return f"{text} {step}."


def installed_systems(releases: list[dict[str, Any]]) -> str:
    """ "RHEL 8.6 to 8.10, 9 and 10, ..., Debian 12 and 13, Ubuntu 22.04 and 24.04"."""
    by_name: dict[str, dict[str, list[str]]] = {}
    for row in releases:
        by_name.setdefault(row["name"], {}).setdefault(major(row["version"]), []).append(row["version"])
    return ", ".join(f"{name} {_listed(list(majors.items()))}" for name, majors in by_name.items())


def _listed(majors: list[tuple[str, list[str]]]) -> str:
    """ "8.6 to 8.10, 9 and 10" of `[(major version, its versions)]`."""
    spans = [
        number if number in versions else " to ".join(dict.fromkeys((versions[0], versions[-1])))
        for number, versions in majors
    ]
    return " and ".join(filter(None, (", ".join(spans[:-1]), spans[-1])))


def controller_refusal(family: dict[str, Any], ansible_core: str) -> str:
    """Why an ansible-core (text, "" for unknown) cannot manage a family of systems; "" if it can."""
    bounds = family["ansible_core"]
    numbers = re.match(r"[0-9]+(\.[0-9]+)*", ansible_core)
    if not numbers:
        return ""
    here = version_key(numbers.group())
    if here >= version_key(bounds["from"]) and not (bounds["below"] and here >= version_key(bounds["below"])):
        return ""
    text = "ansible-core {} cannot manage {}: {}. Install ansible-core {} on the controller (make venv)."
    because = bounds["because"] if here >= version_key(bounds["from"]) else "it is too old"
    return text.format(ansible_core, family["name"], because, PINNED_CORE)


def managed_releases(matrix: dict[str, Any], ansible_core: str) -> list[dict[str, Any]]:
    """The rows of os_releases that an ansible-core (text, "" for unknown) can manage; all of them if it is none."""
    families = matrix["os_families"]
    found = [row for row in matrix["os_releases"] if not controller_refusal(families[row["family"]], ansible_core)]
    return found or matrix["os_releases"]


def kinds_of_gpu(matrix: dict[str, Any], gpus: list[Any]) -> tuple[Any, ...]:
    """The different GPUs of a host: those whose architecture is known, as `Gpu`, and the records of the others."""
    known, strangers = [], []
    for gpu in gpus:
        architecture = matrix["architectures"].get(gpu["architecture"])
        if architecture is None:
            strangers.append(gpu)
            continue
        capability = gpu["compute_capability"]
        capabilities = (capability,) if capability else tuple(architecture["capabilities"])
        kind = Gpu(gpu["name"], gpu["architecture"], capabilities, card_of(gpu["name"], gpu.get("device_id") or ""))
        if kind not in known:
            known.append(kind)
    return known, strangers
