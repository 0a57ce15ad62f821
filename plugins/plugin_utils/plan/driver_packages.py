# SPDX-License-Identifier: Apache-2.0
"""What a plan says about the chosen driver: its packages, their guards, and the kernels that it is built for."""

from __future__ import annotations

import collections
from typing import Any

from ansible_collections.gpuwright.node.plugins.module_utils.host.versions import is_part_of

from .candidates import Candidate
from .kernels.packages import kernel_remarks, kernels_of, names_of
from .machines.board_packages import NOTHING, Part, exact_names, other_names, platform_of

# The guards of a driver, as the plan announces them.
MODULE_STREAM = "dnf's module stream {}"
VERSION_LOCK = "a version lock, which dnf and dnf-automatic honour"
PREFERENCE = "apt's preference for {}"
UNATTENDED = "a list of packages that unattended-upgrades leaves alone"
UNATTENDED_SIGNED = UNATTENDED + ", its kernel among them"
HOLD = "a hold of its packages at their version"


def site_names(family: dict[str, Any], packages: list[str]) -> dict[str, Any]:
    """What differs in a family's row where the site names the driver's packages: its names, and nothing by patterns."""
    flavour = {"package": packages[0] if packages else "", "module": "nvidia"}
    names = {"install": packages[1:], "libraries": [], "remark": ""}
    return {
        "site_driver": True,
        "streams": False,
        "driver_names": "",
        "switch_removes": [],
        "flavours": dict.fromkeys(family["flavours"], flavour),
        "driver_packages": dict.fromkeys(family["driver_packages"], names),
    }


def with_signed_modules(family: dict[str, Any], signed: dict[str, Any]) -> dict[str, Any]:
    """A distribution's row whose driver has modules that are built and signed: no DKMS, and no headers for it.

    signed  what `kernels.signed.signed_names` returned
    """
    if not signed:
        return family
    modules = [*dict.fromkeys([*signed["by_release"].values(), *signed["follow"]])]
    # Their versions are the kernel's, whatever a hold or a change of the driver does with the others.
    archive = dict(family["distribution"], own_versions=[*family["distribution"]["own_versions"], *modules])
    flavours = {name: dict(row, package="") for name, row in family["flavours"].items()}
    return dict(family, distribution=archive, flavours=flavours, signed_modules=signed)


def has_streams(family: dict[str, Any]) -> bool:
    return family["format"] == "rpm" and family.get("streams", True)


def driver_of(
    family: dict[str, Any], host: dict[str, Any], driver: Candidate | None, parts: list[Part], moved: list[str]
) -> dict[str, Any]:
    """The driver's part of the plan.

    parts  what the host's platform needs beside it          moved  their names under every branch
    """
    if driver is None:
        # Nothing to install: everything wanted is already there.
        texts = dict.fromkeys(("branch", "flavour", "source", "stream", "module", "version"), "")
        lists: dict[str, list[str]] = {
            name: [] for name in ("components", "packages", "version_lock", "switch_removes")
        }
        return dict(
            texts, present=True, signed=False, repository={}, preference={"package": "", "version": ""}, **lists
        )
    version = driver.pins["driver_version"]
    flavour = family["flavours"][driver.pins["driver_flavour"]]
    names = family["driver_packages"][driver.row["packages"]]
    branch = driver.pins["driver_branch"]
    archive = family["distribution"]
    install = [name.format(branch=branch) for name in [flavour["package"]] + names["install"] if name]
    libraries = [name.format(branch=branch) for name in names["libraries"]]
    suite = [] if archive else family["driver_names"].split()
    present = is_driver_present(host, driver)
    # One transaction brings both, so that they never differ. A driver that is there stays, and gets them afterwards.
    beside = [] if present else packages_beside(family, host, driver, parts)
    return {
        "branch": driver.pins["driver_branch"],
        "flavour": driver.pins["driver_flavour"],
        "source": driver.pins["driver_source"],
        "repository": {} if archive else dict(family["cuda_repository"]),
        "components": list(archive["components"]) if archive else [],
        "preference": _preference(family, branch, version),
        "stream": driver.row["stream"] if has_streams(family) else "",
        "module": flavour["module"].format(branch=branch),
        "signed": bool(family.get("signed_modules")),
        "version": version,
        "present": present,
        "packages": [
            *_signed_modules(family, host),
            *at_version(family, install, version, "" if has_streams(family) else branch),
            *beside,
        ],
        # Everything of the driver that is installed, from NVIDIA's single suite. A signed module is held by it: apt
        # installs none that was built for another version.
        "version_lock": suite or at_version(family, install + libraries + exact_names(parts), version),
        "switch_removes": family["switch_removes"] + (moved if family["switch_removes"] else []),
    }


def packages_beside(family: dict[str, Any], host: dict[str, Any], driver: Candidate, parts: list[Part]) -> list[str]:
    """What the platform needs, as dnf or apt is asked for it: at the version of a driver that is there, or is pinned.

    Without either, of the driver's branch: these packages are in no module stream that would keep dnf to it.
    """
    version = host["nvidia"]["user_space"] if is_driver_present(host, driver) else driver.pins["driver_version"]
    return at_version(family, exact_names(parts), version, driver.pins["driver_branch"]) + other_names(parts)


def platform_plan(
    family: dict[str, Any], host: dict[str, Any], driver: Candidate | None, parts: list[Part]
) -> dict[str, Any]:
    """What the board of the GPUs needs beside the driver; all of it empty for one that needs nothing."""
    if driver is None or not parts:
        return {name: list(value) if isinstance(value, list) else value for name, value in NOTHING.items()}
    found = platform_of(host)
    return {
        "id": found["id"],
        "name": found["name"],
        "packages": packages_beside(family, host, driver, parts),
        "exact": exact_names(parts),
        "services": [part.row["service"] for part in parts if part.row["service"]],
        "modules": [name for part in parts for name in part.row["modules"]],
    }


def guards_of(family: dict[str, Any], host: dict[str, Any], driver: Candidate | None) -> dict[str, Any]:
    """What keeps the driver from being replaced by accident, in words (`driver`); none if the inventory says never.

    `driver_guards` of the host: `{guards: auto | never, hold: whether it is held even then}`; auto if missing.
    `own_versions`: packages of the driver that have their own version.
    """
    wish = host.get("driver_guards") or {}
    archive = family["distribution"] if driver else None
    own = list(archive["own_versions"]) if archive else []
    words = []
    if driver is not None:
        hold = [VERSION_LOCK if family["format"] == "rpm" else HOLD]
        if wish.get("guards", "auto") != "never":
            words = _guard_words(family, driver) + hold
        elif wish.get("hold"):
            words = hold
    return {"driver": words, "own_versions": own}


def _guard_words(family: dict[str, Any], driver: Candidate) -> list[str]:
    branch, version = driver.pins["driver_branch"], driver.pins["driver_version"]
    by_rpm = family["format"] == "rpm"
    guards = [MODULE_STREAM.format(driver.row["stream"])] if has_streams(family) else []
    if not by_rpm and _preference(family, branch, version)["version"]:
        guards.append(PREFERENCE.format(version or branch))
    return guards + ([] if by_rpm else [UNATTENDED_SIGNED if family.get("signed_modules") else UNATTENDED])


def _signed_modules(family: dict[str, Any], host: dict[str, Any]) -> list[str]:
    """The packages of signed modules for the kernels that may boot.

    What brings those of newer ones is left out: the newest of it demands the newest kernel.
    """
    signed = family.get("signed_modules")
    return [signed["by_release"][release] for release in boot_kernels(host)] if signed else []


def _preference(family: dict[str, Any], branch: str, version: str) -> dict[str, str]:
    """Packages and version of the apt preference that keeps to the planned driver; empty if none is needed."""
    if family["distribution"]:
        # The names include the branch. Packages from one source require each other at the same version.
        source = "src:" + family["distribution"]["source_package"].format(branch=branch)
        return {"package": source if version else "", "version": version + "-*" if version else ""}
    names = family["driver_names"]
    return {"package": names, "version": _deb_pattern(branch, version) if names else ""}


def _deb_pattern(branch: str, version: str) -> str:
    """A pattern for the exact version, or for those of the branch, in any packaging revision."""
    return version + "-*" if version else branch + ".*"


def at_version(family: dict[str, Any], names: list[str], version: str, branch: str = "") -> list[str]:
    """Both dnf and rpm understand name-version; rpm accepts no epoch in a query. apt takes any revision.

    `branch`: without an exact version, the branch that a package must have if its name does not include it.
    """
    archive = family["distribution"] or {}
    by_rpm = family["format"] == "rpm"
    if family.get("site_driver"):
        # NVIDIA's guest packages have no revision in apt's words.
        return [f"{name}-{version}" if by_rpm else f"{name}={version}*" for name in names]
    if not archive and branch and not (by_rpm and version):
        return [f"{name}-{branch}.*" if by_rpm else f"{name}={_deb_pattern(branch, version)}" for name in names]
    pattern = "{}-{}" if by_rpm else "{}={}-*"
    return [
        pattern.format(name, version) if version and name not in archive.get("own_versions", ()) else name
        for name in names
    ]


def boot_kernels(host: dict[str, Any]) -> list[str]:
    """The kernels for which a module is needed: the running one, and the one that boots next if it differs.

    Or only `kernel_target`, if the host is made into an image that another kernel will boot.
    """
    kernel = host["kernel"]
    if host.get("kernel_target"):
        return [host["kernel_target"]]
    return list(collections.OrderedDict.fromkeys(name for name in (kernel["running"], kernel["next_boot"]) if name))


def is_driver_present(host: dict[str, Any], driver: Candidate) -> bool:
    """Whether the planned driver is already installed and in use, whoever installed it.

    Libraries, loaded module, and the module files of every kernel that may boot must be of one version, of the planned
    flavour, and of the planned branch or exact version; nvidia-smi must be there; an interrupted transaction must not
    have left another version of its packages.
    """
    nvidia = host.get("nvidia") or {}
    user_space = nvidia.get("user_space") or ""
    exact = driver.pins["driver_version"]
    fits = user_space == exact if exact else is_part_of(user_space, driver.pins["driver_branch"])
    modules = [(nvidia.get("modules") or {}).get(kernel) for kernel in boot_kernels(host)]
    # While an image is being made, nothing is loaded.
    modules += [] if host.get("kernel_target") else [nvidia.get("loaded")]
    wanted = (user_space, driver.pins["driver_flavour"])
    if not (fits and nvidia.get("nvidia_smi")) or nvidia.get("half_replaced"):
        return False
    return all(module and (module["version"], module["flavour"]) == wanted for module in modules)


def kernel_of(
    matrix: dict[str, Any], family: dict[str, Any], host: dict[str, Any], driver: Candidate | None
) -> dict[str, Any]:
    """The kernels' part of the plan; without a driver only what patch day and holds need of it.

    `family` is the host's row of os_families.
    """
    releases = boot_kernels(host)
    found = names_of(kernels_of(matrix, host, family), releases)
    follow = found.pop("headers_follow")
    if driver is None:
        return dict(found, releases=[], packages=[], devel=[], module="", follow=[])
    signed = family.get("signed_modules")
    if signed:
        # For a newer kernel its signed module is what headers are elsewhere.
        names = {"updated": [*found["updated"], *signed["follow"]], "headers": signed["by_release"], "versions": {}}
        own = {"module": signed["each"], "follow": signed["follow"]}
        return dict(found, releases=releases, packages=[], devel=[], **names, **own)
    devel = [found["headers"][name] for name in releases if name in found["headers"]]
    # With what brings the headers of a newer kernel, DKMS builds for it before it boots.
    brings = [] if family["format"] == "rpm" else follow
    packages = list(family["kernel"]["packages"]) + brings
    return dict(found, releases=releases, packages=packages, devel=devel, module="", follow=[])


def kernel_warnings(
    matrix: dict[str, Any], family: dict[str, Any], host: dict[str, Any], driver: Candidate | None
) -> list[str]:
    """What does not come by itself for the kernels that the driver is built for."""
    return kernel_remarks(kernels_of(matrix, host, family), boot_kernels(host)) if driver else []
