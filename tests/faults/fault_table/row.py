"""What one row of the fault table says."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

NOTHING = "nothing was changed"
PREFLIGHT = ("playbooks/preflight.yml",)


@dataclass(frozen=True)
class Row:
    """A fault that one command meets.

    id           what its message ends with, in brackets; "" where the words are Ansible's own
    fault, made  what is wrong, and how the test makes it, for the page
    says         parts of the message                  status     exit status of the command
    command      words after `ansible-playbook -i INVENTORY -l gpu_nodes`
    variables    extra variables of the command        environment, umask, folder    of its shell
    hosts        text of the group gpu_nodes, where the fault lies in the inventory
    harm, mend   scripts that root runs on the host: before the command; and after it, as an administrator would
    state        what the command leaves behind; NOTHING is compared, file by file
    """

    id: str
    fault: str
    made: str
    says: tuple[str, ...]
    status: int = 2
    command: tuple[str, ...] = PREFLIGHT
    variables: Mapping[str, object] = field(default_factory=dict)
    environment: Mapping[str, str] = field(default_factory=dict)
    umask: int = 0o022
    folder: str = ""
    hosts: str = ""
    harm: str = ""
    mend: str = ""
    state: str = NOTHING

    @property
    def name(self) -> str:
        """Of the test."""
        return f"{self.id or 'Ansible'}: {self.fault}"


@dataclass(frozen=True)
class Proved:
    """A fault that takes more than one command; `test` has it, as `file::name`, or `file::name[row]`."""

    id: str
    fault: str
    made: str
    state: str
    test: str
    status: int = 2
