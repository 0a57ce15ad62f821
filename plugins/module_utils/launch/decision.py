# SPDX-License-Identifier: Apache-2.0
"""A `Decision`: what gpu-run does and why. It is made in `choices`, each setting in a file of its own."""

# Importing typing would take a third of gpu-run's start time: its names are only for the type checker.
TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Dict, List, Mapping, Set

    from ..host.topology import Gpu

BY_CALLER = "set by the caller"


class Decision:
    """What gpu-run does and why.

    environment    {name: value} of the command, complete
    changed        {name: value} that gpu-run adds to the caller's environment
    gpus           the `Gpu`s that this process works with
    cpus           set of CPUs to run on
    memory_nodes   NUMA nodes for the memory policy, empty for none
    memory_policy  "preferred", "bind" or "none"
    allocator      path of the library that gpu-run preloads, "" for none
    rows           [[setting, value, why]]
    warnings       sentences
    """

    def __init__(self, environ: "Mapping[str, str]") -> None:
        self.environment: "Dict[str, str]" = dict(environ)
        self.changed: "Dict[str, str]" = {}
        self.gpus: "List[Gpu]" = []
        self.cpus: "Set[int]" = set()
        self.memory_nodes: "List[int]" = []
        self.memory_policy = "none"
        self.allocator = ""
        self.rows: "List[List[str]]" = []
        self.warnings: "List[str]" = []

    def note(self, setting: str, value: str, why: str) -> None:
        self.rows.append([setting, value, why])

    def set_variable(self, name: str, value: str, why: str, even_if_set: bool = False) -> None:
        """Give the command `name`=`value`, unless the caller has already set it."""
        if name in self.environment and not even_if_set:
            self.note(name, self.environment[name], BY_CALLER)
            return
        self.environment[name] = self.changed[name] = value
        self.note(name, value, why)
