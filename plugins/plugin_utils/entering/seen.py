# SPDX-License-Identifier: Apache-2.0
"""What this run's roles did on each host: filled by the callback between tasks; workers are forks and know it, too."""

from __future__ import annotations

import dataclasses

from .things import Thing


@dataclasses.dataclass
class Role:
    """`things`: what its tasks looked at; `unknown`: tasks of which nobody can say."""

    things: set[Thing] = dataclasses.field(default_factory=set)
    unknown: list[str] = dataclasses.field(default_factory=list)


@dataclasses.dataclass
class Host:
    """`changed`: tasks that changed the node, failed, or left work for another run; `at`: the role that runs."""

    roles: dict[str, Role] = dataclasses.field(default_factory=dict)
    changed: list[str] = dataclasses.field(default_factory=list)
    at: str = ""

    def settled(self) -> dict[str, Role]:
        """Roles that had nothing to do, if that is so for all that ran: a later one may have changed what they saw."""
        return {} if self.changed else {name: role for name, role in self.roles.items() if not role.unknown}


class Run:
    """`active`: the callback is loaded and the run is one whose roles are seen from their first task on."""

    def __init__(self) -> None:
        self.active = False
        self.hosts: dict[str, Host] = {}

    def host(self, name: str) -> Host:
        return self.hosts.setdefault(name, Host())


# Replaced at the start of each playbook, by the callback.
now = Run()


def begin(active: bool) -> None:
    """A playbook begins."""
    global now
    now = Run()
    now.active = active
