# SPDX-License-Identifier: Apache-2.0
"""Turn what dnf says when it fails into what happened and what to do next."""

from __future__ import annotations

import re

# First match wins. Patterns are from the messages of dnf 4 and librepo.
CAUSES = (
    (
        r"No package (?P<what>\S+) available|Unable to find a match: (?P<what2>.+)|nothing provides (?P<what3>\S+)",
        "no enabled repository has {what}",
        "See what there is with `dnf list --showduplicates '{what}*'`; enable the repository that carries it.",
    ),
    (
        r"GPG check FAILED|not signed|Public key for|[Bb]ad GPG signature|GPG verification is enabled"
        r"|signature verification error|signature.*BAD|Failed to validate GPG|Import of key\(s\) didn't help",
        "a package or the repository's metadata is not signed with the trusted key",
        "Do not switch the check off. Compare the repository's key with the vendor's, `dnf clean all`, and run again.",
    ),
    (
        r"No space left|[Nn]eeds? \d+\s?[MG]B more space|Disk [Rr]equirements|not enough (free )?space",
        "there is not enough disk space",
        "Free space (`df -h`, `dnf clean packages`) and run again.",
    ),
    (
        r"Failed to download metadata for repo '(?P<what>[^']+)'|Cannot download repomd|Curl error"
        r"|All mirrors were tried|Cannot retrieve|Status code: \d+",
        "a repository cannot be reached{of_what}",
        "Check the address and the way there (`curl -I` its baseurl, proxy, DNS), then run again.",
    ),
    (
        r"[Cc]onflict|[Pp]roblem( \d+)?:|Depsolve Error|filtered out by (modular|exclude)",
        "the packages do not fit together",
        "Read the packages named above; a module stream or another repository usually provides one of them.",
    ),
)


def package_failure(result: dict, names: list[str]) -> str:
    """One paragraph for the failed result of ansible.builtin.dnf that should have installed `names`."""
    said = " ".join(str(part) for part in (result.get("msg", ""), *result.get("failures", [])) if part)
    said = re.sub(r"\s+", " ", said).strip() or "dnf gave no reason"
    for pattern, cause, action in CAUSES:
        match = re.search(pattern, said)
        if match:
            what = next((value for value in match.groupdict().values() if value), "")
            values = {"what": what, "of_what": f" ({what})" if what else ""}
            return f"Packages: {cause.format(**values)}. dnf said: {said[:600]} {action.format(**values)}"
    some = " ".join(names[:6])
    return f"Packages: {some} could not be installed. dnf said: {said[:600]} Run `dnf install {some}` there to see it."


class FilterModule:
    """Filters of the role preflight, with which every play begins."""

    def filters(self) -> dict:
        return {"package_failure": package_failure}
