# SPDX-License-Identifier: Apache-2.0
"""What the workers of all hosts need, loaded once: Ansible forks one for each task of each host from its main process.

Without this, each of them compiles these plug-ins anew, since collections have no compiled files, reads the argument
specs of all roles anew, and takes the checksums of the toolkit anew. It changes what a run costs and nothing else.
"""

from __future__ import annotations

from ansible.plugins.loader import filter_loader, lookup_loader, test_loader

from . import nothing_to_do
from .role_options import defaults

# Those that the roles preflight and verify call on every host. The first filter that is asked for has Ansible load all
# the files of its own, too.
LOOKUPS = ("setting", "this_run")
FILTERS = ("common_problems", "preflight_remarks", "variable_problems")


def load() -> None:
    """Find the plug-ins, read the roles' defaults, take the checksums of their code; a second time costs nothing."""
    defaults()
    nothing_to_do.prepare()
    for name in LOOKUPS:
        lookup_loader.get(f"gpuwright.node.{name}", class_only=True)
    for name in FILTERS:
        filter_loader.get(f"gpuwright.node.{name}")
    test_loader.get("defined")
