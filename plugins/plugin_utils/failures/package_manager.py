# SPDX-License-Identifier: Apache-2.0
"""What dnf, apt, rpm and dpkg print when they fail, as a table of causes."""

from __future__ import annotations

import re
import shlex
from collections.abc import Mapping, Sequence
from typing import Any

from ansible_collections.gpuwright.node.plugins.module_utils.host.written.told import printable, without_secrets

from .cause import Cause, first_cause, what

# What to type for the same purpose; {what} is a package.
COMMANDS = {
    "dnf": {
        "list": "dnf list --showduplicates '{what}*'",
        "refresh": "sudo dnf clean all",
        "clean": "sudo dnf clean packages",
        "install": "sudo dnf install {some}",
        "proxy": "`proxy` in /etc/dnf/dnf.conf",
        "repair": "sudo rpm --rebuilddb",
        "holds": "dnf versionlock list",
    },
    "apt": {
        "list": "apt-cache policy '{what}'",
        "refresh": "sudo apt-get update",
        "clean": "sudo apt-get clean",
        "install": "sudo apt-get install {some}",
        "proxy": "`Acquire::http::Proxy` in /etc/apt/apt.conf.d",
        "repair": "sudo dpkg --configure --pending",
        "holds": "apt-mark showhold",
    },
}
# A password that dnf or apt repeats with a repository's address.
LONGEST = 600
DNF, APT = "dnf 4, librepo, rpm", "apt 2.6 and 3.0, dpkg"
# What apt and dpkg say on stdout alone, while stderr ends with what follows from it.
TOLD = re.compile(r"(The following packages have unmet dependencies:|dpkg: .*error).*", re.DOTALL)
BOTH = f"{DNF}; {APT}"
# First match wins, so what is certain stands before what merely follows from it: a repository that cannot be reached
# also has no package.
CAUSES = (
    Cause(
        "packages.space",
        r"No space left|[Nn]eeds? \d+\s?[KMG]i?B more space|\d+\s?[KMG]i?B more space needed|Disk [Rr]equirements"
        r"|not enough (free )?space|don't have enough free space|Errno 28",
        "there is not enough disk space",
        "Free space (`df -h`, `{clean}`) and run again.",
        BOTH,
    ),
    Cause(
        "packages.read_only",
        r"Read-only file system|Errno 30",
        "a file system of the node is read-only",
        "`findmnt --options ro` names it. The kernel mounts a disk so after an error: look at `dmesg` first.",
        BOTH,
    ),
    Cause(
        "packages.locked",
        r"Could not get lock (?P<what>[^\s.]\S*?)\.?(\s|$)|Unable to (acquire|lock) the|is another process using it"
        r"|Failed to obtain the transaction lock|lockfile is held by|[Ww]aiting for process with pid (?P<what2>\d+)"
        r"|can't create transaction lock on (?P<what3>\S+)",
        "another package manager is at work on the node{of_what}",
        "Wait until it has ended (`ps -eo pid,etime,args | grep -E 'dnf|yum|apt|dpkg|packagekit'`), then run again. "
        "Do not remove its lock file.",
        BOTH,
    ),
    Cause(
        "packages.database",
        r"rpmdb open failed|cannot open Packages (index|database)|rpmdb: .*(PANIC|BDB\d+)"
        r"|database disk image is malformed|Thread died in Berkeley DB|parsing file '/var/lib/dpkg/\S+'"
        r"|files list file for package '[^']+' .*(missing|newline)|Unable to parse package file /var/lib/dpkg/\S+",
        "the package manager's own database is damaged",
        "Keep a copy of it (/var/lib/rpm, /var/lib/dpkg), then `{repair}`, and run again.",
        BOTH,
    ),
    Cause(
        "packages.sources",
        r"Conflicting values set for option (?P<what>\S+ regarding source \S+)|Malformed (entry|stanza|line) \d+ in"
        r"|The list of sources could not be read|Type '[^']*' is not known on line",
        "apt refuses its sources as a whole",
        "Two files name one address, or apt cannot parse one: `grep -rn` the address in /etc/apt, and remove "
        "the source that is not wanted. The key is not at fault. gpuwright takes over such a source of its own "
        "repositories at the next run of site.yml.",
        APT,
    ),
    Cause(
        "packages.config",
        r"Parsing file \"?(?P<what>/\S+?)\"? failed|[Ff]ailed loading '(?P<what2>[^']+)'"
        r"|Config(Parser)?Error|Invalid configuration value|Bad id for repo",
        "dnf cannot read its configuration{of_what}",
        "Correct that file; `dnf repolist --all` then lists the repositories without an error.",
        DNF,
    ),
    Cause(
        "packages.old_signature",
        r"SHA-?1 is not considered secure|Policy rejected (non-revocation )?signature|is not bound:"
        r"|weak (digest|security information)|insufficiently secure",
        "the repository's key or signature is of a kind that this system no longer accepts (SHA-1)",
        "The key is the vendor's, so comparing it leads nowhere. Use the vendor's repository for this very release of "
        "the system, and remove sources that are left from the release before.",
        "not run: apt 2.9 and 3.0 with sqv; apt 2 with gpgv",
    ),
    Cause(
        "packages.not_yet_valid",
        r"is not valid yet|not yet valid|certificate is not yet valid",
        "the node's clock is behind",
        "`timedatectl` shows its time; set it (`sudo chronyc makestep`), then run again.",
        BOTH,
    ),
    Cause(
        "packages.expired",
        r"Release file for (?P<what>\S+) is expired|(?P<what2>\S+) is expired \(invalid since|Valid-Until",
        "a repository's index is out of date{of_what}",
        "Compare the node's clock (`timedatectl`). If it is right, the mirror is no longer updated: name another one.",
        APT,
    ),
    Cause(
        "packages.signature",
        r"GPG check FAILED|not signed|Public key for|[Bb]ad GPG signature|GPG verification is enabled|NO_PUBKEY"
        r"|signature verification error|signature.*BAD|Failed to validate GPG|Import of key\(s\) didn't help"
        r"|[Ss]igning key not found|signature verification failed|signatures couldn't be verified|EXPKEYSIG|REVKEYSIG"
        r"|key .*\b(has )?expired",
        "a package or the repository's metadata is not signed with the trusted key",
        "Do not switch the check off. Compare the repository's key with the vendor's, `{refresh}`, and run again.",
        BOTH,
    ),
    Cause(
        "packages.half_mirror",
        r"Hash Sum mismatch|checksum doesn't match|unexpected size|Mirror sync in progress|[Cc]hecksum error",
        "a mirror gave a file that is not the one of its index",
        "It is being updated, or a proxy keeps old files: `{refresh}`, and run again in some minutes.",
        BOTH,
    ),
    Cause(
        "packages.unregistered",
        r"not registered with an entitlement|no enabled repositories|no repositories available"
        r"|[Ii]dentity (certificate|is invalid)|subscription.*(expired|invalid)",
        "the node has no repository of its distribution: it is not registered, or none is enabled",
        "RHEL: `sudo subscription-manager status`, then `sudo subscription-manager register`; others: `dnf repolist "
        "--all`.",
        "not run: dnf 4 with subscription-manager",
    ),
    Cause(
        "packages.refused",
        r"(Status code: (401|403)|40[13] +(Unauthorized|Forbidden))( for)?(?P<what> \S+)?|HTTP 40[13]",
        "a repository refuses this node{of_what}",
        "Its address wants a login or a certificate. Correct the login in the inventory; on RHEL: "
        "`sudo subscription-manager refresh`.",
        BOTH,
    ),
    Cause(
        "packages.proxy",
        r"Status code: 407|407 +Proxy|[Cc]ould ?n[o']t resolve proxy|[Pp]roxy CONNECT aborted|Curl error \(5\)"
        r"|Invalid response from proxy|Could not resolve '[^']*' \(proxy",
        "the proxy refuses, or is not known",
        "Correct its address and login: {proxy}.",
        BOTH,
    ),
    Cause(
        "packages.name",
        r"Could ?n[o']t resolve host|[Cc]ould not resolve '(?P<what>[^']+)'"
        r"|Temporary failure resolving '(?P<what2>[^']+)'|Could not resolve host: (?P<what3>[^\s\]]+)|Curl error \(6\)",
        "the name of a repository's server is not known on the node{of_what}",
        "`getent hosts` with that name must answer there: correct DNS (/etc/resolv.conf), or set {proxy}.",
        BOTH,
    ),
    Cause(
        "packages.certificate",
        r"Curl error \((51|58|60|77)\)|SSL (certificate|peer)|Certificate verification failed"
        r"|certificate (is NOT trusted|verify failed)",
        "the node does not trust the certificate of a repository's server",
        "A proxy that reads https, or a mirror of your own: install its authority's certificate (EL: "
        "/etc/pki/ca-trust/source/anchors and `update-ca-trust`; Debian: /usr/local/share/ca-certificates and "
        "`update-ca-certificates`). Do not switch the verification off.",
        BOTH,
    ),
    Cause(
        "packages.address",
        r"(Status code: 404|404 +Not Found)( for)?(?P<what> \S+)?|does not (have|contain) a Release file"
        r"|no longer has a Release file",
        "a repository is not at its address{of_what}",
        "Correct the address; an old release has moved to the archive (vault, archive.debian.org, old-releases). "
        "If only single files are missing: `{refresh}`, and run again.",
        BOTH,
    ),
    Cause(
        "packages.unreachable",
        r"Failed to download metadata for repo '(?P<what>[^']+)'|Cannot download repomd|Curl error"
        r"|All mirrors were tried|Cannot retrieve|Status code: \d+|Failed to fetch (?P<what2>\S+)"
        r"|Failed to update apt cache|[Cc]ould not connect to (?P<what3>\S+)|[Cc]onnection (failed|timed out|refused)"
        r"|Failed to synchronize cache",
        "a repository cannot be reached{of_what}",
        "Check the address and the network path to it (`curl -I` its baseurl, proxy, DNS), then run again.",
        BOTH,
    ),
    Cause(
        "packages.hidden",
        r"filtered out by (?P<what>modular|exclude) filtering|is excluded|filtered out by (?P<what2>modular|exclude)",
        "a package is hidden by {what} filtering",
        "modular: `dnf module list` shows the stream that hides it. exclude: `grep -r exclude /etc/dnf`.",
        DNF,
    ),
    Cause(
        "packages.unavailable",
        r"No package (?P<what>\S+) available|Unable to find a match: (?P<what2>.+)|nothing provides (?P<what3>\S+)"
        r"|No package matching '(?P<what4>[^']+)'|Unable to locate package (?P<what5>\S+)"
        r"|no available installation candidate for (?P<what6>\S+)|Version '[^']+' for '(?P<what7>[^']+)' was not found"
        r"|Package '(?P<what8>[^']+)' has no installation candidate"
        r"|Depends (?P<what9>\S+) but none of the choices are installable: \[no choices\]",
        "no enabled repository has {what}",
        "See what is available with `{list}`; enable the repository that has it.",
        BOTH,
    ),
    Cause(
        "packages.downgrade",
        r"allow-downgrades|Packages were downgraded",
        "a newer version than the planned one is installed, and a downgrade was not asked for",
        "Compare with `{list}`; to go back, name the version in the inventory, or set the layer's allow_downgrade.",
        APT,
    ),
    Cause(
        "packages.held",
        r"[Hh]eld packages|versionlock",
        "packages that are held are in the way",
        "`{holds}` names them; release those that are yours.",
        BOTH,
    ),
    Cause(
        "packages.files",
        r"conflicts with file from package (?P<what>\S+)|file conflicts"
        r"|trying to overwrite '[^']+', which is also in package (?P<what2>\S+)",
        "two packages bring the same file{of_what}",
        "One of them is from another vendor or an older installation: remove that one, then run again.",
        BOTH,
    ),
    Cause(
        "packages.conflict",
        r"[Cc]onflict|[Pp]roblem( \d+)?:|Depsolve Error|unmet dependencies|pkgProblemResolver|cannot install both"
        # apt says so of any packages that do not fit, also where nobody holds one.
        r"|held broken packages",
        "the packages do not fit together",
        "Read the packages named above; a module stream, another repository or a hold (`{holds}`) usually explains it.",
        BOTH,
    ),
    Cause(
        "packages.script",
        r"dpkg was interrupted|returned an error code|(pre|post)-?(installation|removal|inst|rm) (script|subprocess)"
        r"|scriptlet failed|%\w+\([^)]+\) scriptlet",
        "a package could not be set up",
        "On the node `{repair}` shows why; fix that and run again.",
        BOTH,
    ),
)


def package_failure(result: Mapping[str, Any], names: Sequence[str], family: str = "redhat") -> dict[str, str]:
    """C(id) of the cause, and C(text), one paragraph: why dnf or apt did not install `names`.

    result  the failed one of the module dnf or apt, or of a command that ran dnf or dpkg
    family  redhat for dnf, debian for apt
    """
    manager = "apt" if family == "debian" else "dnf"
    # What a command has to say is what it wrote; Ansible's own words for it are "non-zero return code".
    argv = result.get("cmd")
    if argv:
        said = str(result.get("stderr") or result.get("stdout", ""))
    else:
        told = TOLD.search(str(result.get("stdout", "")))
        parts = (told.group() if told else "", result.get("msg", ""), *result.get("failures", []))
        said = " ".join(str(part) for part in parts if part)
    said = printable(re.sub(r"\s+", " ", without_secrets(said))).strip()
    some = " ".join(names[:6])
    found = first_cause(CAUSES, said)
    if found is None:
        subject = some or "what an interrupted transaction left"
        command = f"sudo {shlex.join(argv)}" if argv else COMMANDS[manager]["install"].format(some=some)
        last = said[-LONGEST:] or f"{manager} gave no reason"
        text = f"Packages: {subject} could not be installed. {manager} said: {last} Run `{command}` there to see it."
        return {"id": "packages.failed", "text": text}
    cause, match = found
    thing = what(match).strip()
    words = {"what": thing, "of_what": f" ({thing})" if thing else ""}
    words |= {name: text.format(what=thing.split("=")[0], some=some) for name, text in COMMANDS[manager].items()}
    # The words that were recognised are shown, also where they are at the end of much else.
    start = max(0, min(match.start() - 100, len(said) - LONGEST))
    shown = said[start : start + LONGEST]
    text = f"Packages: {cause.problem.format(**words)}. {manager} said: {shown} {cause.next.format(**words)}"
    return {"id": cause.id, "text": text}
