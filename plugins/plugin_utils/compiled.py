# SPDX-License-Identifier: Apache-2.0
"""Compiled files for what the controller imports of this collection.

Ansible compiles a collection's modules anew in every run, some 300 of them in a run of site.yml (0.3 s). Python keeps
compiled files beside the sources, by their age and size, where it may write there, and this leaves it to Python.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from importlib.abc import MetaPathFinder
from importlib.machinery import SOURCE_SUFFIXES, FileFinder, ModuleSpec, SourceFileLoader
from types import ModuleType

PLUGINS = __name__.rpartition(".plugin_utils.")[0]
# What plug-ins import; the plug-ins themselves are loaded by Ansible, and with compiled files.
IMPORTED = (f"{PLUGINS}.module_utils.", f"{PLUGINS}.plugin_utils.")


class CompiledFinder(MetaPathFinder):
    """Finds a module as Python itself would; packages, and whatever is not there, are left to Ansible."""

    def __init__(self) -> None:
        self._folders: dict[str, FileFinder] = {}

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        if not fullname.startswith(IMPORTED):
            return None
        for folder in path or ():
            if folder not in self._folders:
                self._folders[folder] = FileFinder(folder, (SourceFileLoader, SOURCE_SUFFIXES))
            spec = self._folders[folder].find_spec(fullname)
            if spec is not None and spec.loader is not None and spec.submodule_search_locations is None:
                return spec
        return None


def use() -> None:
    """For this process and all that are forked from it; a second time does nothing."""
    if not any(isinstance(finder, CompiledFinder) for finder in sys.meta_path):
        sys.meta_path.insert(0, CompiledFinder())
