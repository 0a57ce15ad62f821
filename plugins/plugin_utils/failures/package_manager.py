# SPDX-License-Identifier: Apache-2.0
"""Translate an error of dnf or apt into what happened and what to do next."""

from __future__ import annotations

import re
import shlex

# What to type for the same purpose; {what} is a package.
COMMANDS = {
    "dnf": {
        "list": "dnf list --showduplicates '{what}*'",
        "refresh": "dnf clean all",
        "clean": "dnf clean packages",
        "install": "dnf install {some}",
    },
    "apt": {
        "list": "apt-cache policy '{what}'",
        "refresh": "apt-get update",
        "clean": "apt-get clean",
        "install": "apt-get install {some}",
    },
}
# A password that dnf or apt repeats with a repository's address.
LOGIN = re.compile(r"://[^\s/?#]*@")
# First match wins. Patterns are from the messages of dnf 4, librepo and apt 2 (with ansible.builtin.apt).
CAUSES = (
    (
        r"No package (?P<what>\S+) available|Unable to find a match: (?P<what2>.+)|nothing provides (?P<what3>\S+)"
        r"|No package matching '(?P<what4>[^']+)'|Unable to locate package (?P<what5>\S+)"
        r"|no available installation candidate for (?P<what6>\S+)|Version '[^']+' for '(?P<what7>[^']+)' was not found",
        "no enabled repository has {what}",
        "See what is available with `{list}`; enable the repository that has it.",
    ),
    (
        r"Conflicting values set for option (?P<what>\S+ regarding source \S+)|Malformed (entry|stanza|line) \d+ in"
        r"|The list of sources could not be read",
        "apt refuses its sources as a whole",
        "Two files name one address, or apt cannot parse one: `grep -rn` the address in /etc/apt, and remove "
        "the source that is not wanted. The key is not at fault. gpuwright takes over such a source of its own "
        "repositories at the next run of site.yml.",
    ),
    (
        r"GPG check FAILED|not signed|Public key for|[Bb]ad GPG signature|GPG verification is enabled|NO_PUBKEY"
        r"|signature verification error|signature.*BAD|Failed to validate GPG|Import of key\(s\) didn't help",
        "a package or the repository's metadata is not signed with the trusted key",
        "Do not switch the check off. Compare the repository's key with the vendor's, `{refresh}`, and run again.",
    ),
    (
        r"No space left|[Nn]eeds? \d+\s?[MG]B more space|Disk [Rr]equirements|not enough (free )?space"
        r"|don't have enough free space",
        "there is not enough disk space",
        "Free space (`df -h`, `{clean}`) and run again.",
    ),
    (
        r"Failed to download metadata for repo '(?P<what>[^']+)'|Cannot download repomd|Curl error"
        r"|All mirrors were tried|Cannot retrieve|Status code: \d+|Failed to fetch (?P<what2>\S+)"
        r"|Failed to update apt cache",
        "a repository cannot be reached{of_what}",
        "Check the address and the network path to it (`curl -I` its baseurl, proxy, DNS), then run again.",
    ),
    (
        r"allow-downgrades|Packages were downgraded",
        "a newer version than the planned one is installed, and a downgrade was not asked for",
        "Compare with `{list}`; to go back, name the version in the inventory, or set the layer's allow_downgrade.",
    ),
    (
        r"[Cc]onflict|[Pp]roblem( \d+)?:|Depsolve Error|filtered out by (modular|exclude)|unmet dependencies"
        r"|held broken packages",
        "the packages do not fit together",
        "Read the packages named above; a module stream, a hold or another repository usually explains it.",
    ),
    (
        r"dpkg was interrupted|returned an error code|post-installation script",
        "a package could not be set up",
        "On the node `dpkg --configure --pending` shows why; fix that and run again.",
    ),
)


def package_failure(result: dict, names: list[str], family: str = "redhat") -> str:
    """One paragraph for a failed result of ansible.builtin.dnf, apt or command that should have installed `names`.

    family  redhat for dnf, debian for apt
    """
    manager = "apt" if family == "debian" else "dnf"
    # What a command has to say is what it wrote; Ansible's own words for it are "non-zero return code".
    argv = result.get("cmd")
    if argv:
        said = str(result.get("stderr") or result.get("stdout", ""))
    else:
        said = " ".join(str(part) for part in (result.get("msg", ""), *result.get("failures", [])) if part)
    said = LOGIN.sub("://***@", re.sub(r"\s+", " ", said)).strip() or f"{manager} gave no reason"
    some = " ".join(names[:6])
    for pattern, cause, action in CAUSES:
        match = re.search(pattern, said)
        if match:
            what = next((value for value in match.groupdict().values() if value), "")
            values = {"what": what, "of_what": f" ({what})" if what else ""}
            commands = COMMANDS[manager].items()
            values.update({name: text.format(what=what.split("=")[0], some=some) for name, text in commands})
            return f"Packages: {cause.format(**values)}. {manager} said: {said[:600]} {action.format(**values)}"
    command = shlex.join(argv) if argv else COMMANDS[manager]["install"].format(some=some)
    subject = some or "what an interrupted transaction left"
    return f"Packages: {subject} could not be installed. {manager} said: {said[:600]} Run `{command}` there to see it."
