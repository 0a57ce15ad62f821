# SPDX-License-Identifier: Apache-2.0
"""What this process has found: filled by the callback between tasks; workers are forks and know it, too."""

from __future__ import annotations

import dataclasses

from . import found as f
from .found import Found


@dataclasses.dataclass
class Drift:
    """`active`: the callback has seen that the playbook looks for drift; `verifies`: the run has the verification."""

    active: bool = False
    verifies: bool = False
    hosts: dict[str, Found] = dataclasses.field(default_factory=dict)

    def host(self, name: str) -> Found:
        return self.hosts.setdefault(name, Found())

    def judged(self, host: Found) -> Found:
        return f.judged(host, self.verifies)


# Replaced at the start of each playbook, by the callback.
now = Drift()


def begin(verifies: bool) -> None:
    """A playbook begins that looks for drift."""
    global now
    now = Drift(active=True, verifies=verifies)


def sentence(name: str) -> str:
    """Why this host's run ends with an error, in the last play; "" if nothing differs and nothing is unknown."""
    host = now.judged(dataclasses.replace(now.host(name), judged=True))
    status = f.status_of(host)
    if status == f.NONE:
        return ""
    words = "differs from what site.yml would make of it" if status == f.DRIFT else "was not seen whole"
    return f"{name} {words}: {f.counts(host)} [drift.{'found' if status == f.DRIFT else 'unknown'}]"
