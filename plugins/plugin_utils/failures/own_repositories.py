# SPDX-License-Identifier: Apache-2.0
"""Which repository of a RHEL-like system to switch on, by the ids that the node itself has for it.

RHEL's repositories have other ids with extended support (EUS, E4S, AUS, TUS, ELS), in each cloud (RHUI) and behind
Satellite; what the node's files name is offered, in the channel that it uses.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

# Of an id: the part of the system that it serves.
PARTS = {
    "base": re.compile(r"baseos", re.IGNORECASE),
    "appstream": re.compile(r"appstream", re.IGNORECASE),
    "builder": re.compile(r"codeready-builder|powertools|(^|[-_])crb($|[-_])", re.IGNORECASE),
}
CHANNEL = re.compile(r"[-_](eus|e4s|aus|tus|els)(?=[-_])", re.IGNORECASE)
CLOUD = re.compile(r"rhui", re.IGNORECASE)
TITLES = {
    "eus": "Extended Update Support (EUS)",
    "e4s": "Update Services for SAP Solutions (E4S)",
    "aus": "Advanced mission critical Update Support (AUS)",
    "tus": "Telecommunications Update Service (TUS)",
    "els": "Extended Life-cycle Support (ELS)",
}
# Where the headers of a kernel are; source: NVIDIA/gpu-driver-container#793 and #794.
DEVEL_IN = {"8": "base"}


def channel_of(named: Mapping[str, bool]) -> str:
    """The channel of the repositories that are switched on: eus, e4s ..., or "" for the usual one."""
    on = [CHANNEL.search(name) for name, enabled in named.items() if enabled and _part(name) in ("base", "appstream")]
    return next((match.group(1).lower() for match in on if match), "")


def repository_step(
    system: Mapping[str, str], repositories: Mapping[str, Mapping[str, str]], named: Mapping[str, bool]
) -> str:
    """How to switch on the repositories of a distribution; packages of EPEL may need CodeReady Builder.

    system        `{id, version}`          repositories  of the plan: their usual ids
    named         `{id: whether it is on}` of the node's own files; {} if they name none
    """
    if system["id"] != "rhel":
        off = [name for name, enabled in named.items() if not enabled and _part(name)]
        usual = [str(row["rebuild"]) for row in repositories.values()]
        wanted = [name for name in usual if name in off] or usual
        return f"Enable them: `sudo dnf config-manager --set-enabled {' '.join(wanted)}`."
    if not named:
        return _unregistered(system["version"], repositories)
    channel = channel_of(named)
    title = f" of {TITLES[channel]}" if channel else ""
    wanted, lacking = [], []
    for part in PARTS:
        fitting = [name for name in named if _part(name) == part and _channel(name) == channel]
        if not any(named[name] for name in fitting):
            off = _like(fitting, named)
            wanted += off
            lacking += [] if off else [part]
    text = f"Enable them: {_command(wanted)}." if wanted else f"This node's repositories{title} are enabled."
    if lacking and wanted:
        text += f" For {', '.join(lacking)} this node's files name none{title}."
    elif lacking:
        text += f" Its files name none for {', '.join(lacking)}: see `sudo subscription-manager repos --list`."
    if not wanted:
        text += (
            " Which minor release are they for? `sudo subscription-manager release --show`, /etc/dnf/vars/releasever."
        )
    return text


def kernel_step(
    system: Mapping[str, str], repositories: Mapping[str, Mapping[str, str]], named: Mapping[str, bool]
) -> str:
    """Where the headers of exactly the running kernel may be, if what is enabled has none."""
    update = "set system_kernel_allow_update: true to move this node to the newest kernel (one more reboot)."
    if system["id"] != "rhel":
        return (
            " For an older kernel: (1) enable the repository that still has it (Rocky, Alma: the vault; Debian: "
            f"snapshot.debian.org); (2) {update}"
        )
    version = system["version"]
    part = DEVEL_IN.get(version.partition(".")[0], "appstream")
    channel = channel_of(named)
    if channel:
        ids = [name for name in named if _part(name) == part and _channel(name) == channel]
        where = " or ".join(ids) or f"the {part} repository of that channel"
        return f" Headers of kernels of {TITLES[channel]} are in {where}. Or {update}"
    eus = (
        _in_channel(str(repositories[part]["subscription"]), "eus")
        if _has_eus(version) and part in repositories
        else ""
    )
    extended = f"with EUS, {eus}; " if eus else ""
    return (
        " For a kernel of an earlier minor release or of extended support: (1) enable the repository that has it "
        f"({extended}else `sudo subscription-manager release --set` with the kernel's minor release); (2) {update}"
    )


def _part(name: str) -> str:
    return next((part for part, pattern in PARTS.items() if pattern.search(name)), "")


def _channel(name: str) -> str:
    match = CHANNEL.search(name)
    return match.group(1).lower() if match else ""


def _like(fitting: Sequence[str], named: Mapping[str, bool]) -> list[str]:
    """The first of these ids that is of the same kind, a cloud's or a subscription's, as those that are on."""
    cloud = any(CLOUD.search(name) for name, enabled in named.items() if enabled)
    alike = [name for name in fitting if bool(CLOUD.search(name)) == cloud]
    return (alike or list(fitting))[:1]


def _command(wanted: Sequence[str]) -> str:
    # subscription-manager writes redhat.repo anew, and knows of none of a cloud's.
    if any(CLOUD.search(name) for name in wanted):
        return f"`sudo dnf config-manager --set-enabled {' '.join(wanted)}`"
    return "`sudo subscription-manager repos " + " ".join(f"--enable={name}" for name in wanted) + "`"


def _in_channel(name: str, channel: str) -> str:
    return re.sub(r"(-rhui)?-rpms$", rf"-{channel}\1-rpms", name)


def _has_eus(version: str) -> bool:
    """Every second minor release but the last one; source: access.redhat.com/support/policy/updates/errata."""
    _major, _, minor = version.partition(".")
    return minor[-1:] in tuple("02468") and version != "8.10"


def _unregistered(version: str, repositories: Mapping[str, Mapping[str, str]]) -> str:
    """No file of the node names a repository of its system: it is not registered, and nobody knows its channel."""
    ids = [str(row["subscription"]) for row in repositories.values()]
    cloud = " ".join(str(row["rhui"]) for row in repositories.values())
    extended = ""
    if _has_eus(version):
        extended = " With EUS: " + " ".join(f"--enable={_in_channel(name, 'eus')}" for name in ids) + "."
    return f"Enable them: {_command(ids)}; with RHUI: `sudo dnf config-manager --set-enabled {cloud}`.{extended}"
