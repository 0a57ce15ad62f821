# SPDX-License-Identifier: Apache-2.0
"""What the workers of all hosts need, loaded once: Ansible forks one for each task of each host from its main process.

Without this, each of them compiles these plug-ins anew, since collections have no compiled files, reads the argument
specs of all roles anew, and takes the checksums of the toolkit anew. It changes what a run costs and nothing else.
"""

from __future__ import annotations

import functools
import importlib
from pathlib import Path
from typing import Any

import yaml
from ansible.plugins.loader import filter_loader, test_loader

from .started import ROOT

ROLES = ROOT / "roles"
# The parser in C takes a tenth of the time, where PyYAML has been built with it.
LOADER = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
PLUGINS = "ansible_collections.gpuwright.node.plugins"
# Those that the roles preflight and verify call on every host.
OF_EVERY_HOST = (
    *("lookup.setting", "lookup.settled", "lookup.this_run"),
    *("filter.preflight_remarks", "filter.problems", "filter.variables"),
)
# Filters that they use on every host. The first one that is asked for has Ansible load all the files of its own, too.
FILTERS = ("common_problems", "preflight_remarks")


@functools.cache
def role_specs(roles: Path = ROLES) -> dict[str, Any]:
    """`{role: its argument_specs}`, by the roles' names."""
    files = sorted(roles.glob("*/meta/argument_specs.yml"))
    return {
        file.parts[-3]: yaml.load(file.read_text(encoding="utf-8"), Loader=LOADER)["argument_specs"] for file in files
    }


def load() -> None:
    """Import and find them, read the roles' defaults, take the checksums of their code; a second time costs nothing."""
    for name in OF_EVERY_HOST:
        importlib.import_module(f"{PLUGINS}.{name}")
    importlib.import_module(f"{PLUGINS}.lookup.setting").defaults()
    importlib.import_module(f"{PLUGINS}.plugin_utils.entering.inputs").prepare()
    for name in FILTERS:
        filter_loader.get(f"gpuwright.node.{name}")
    test_loader.get("defined")
