# SPDX-License-Identifier: Apache-2.0
"""What the workers of all hosts need, loaded once: Ansible forks one for each task of each host from its main process.

Without this, each of them compiles these plug-ins anew, since collections have no compiled files, and reads the
argument specs of all roles anew. It changes what a run costs and nothing else.
"""

from __future__ import annotations

import importlib

PLUGINS = "ansible_collections.gpuwright.node.plugins"
# Those that the role preflight calls on every host.
OF_EVERY_HOST = (
    *("lookup.package_lock", "lookup.setting", "lookup.settled", "lookup.this_run"),
    *("filter.logins", "filter.matrix", "filter.plan_question", "filter.problems", "filter.variables"),
)


def load() -> None:
    """Import them, and read the roles' defaults; what is loaded already costs nothing."""
    for name in OF_EVERY_HOST:
        importlib.import_module(f"{PLUGINS}.{name}")
    importlib.import_module(f"{PLUGINS}.lookup.setting").defaults()
