# SPDX-License-Identifier: Apache-2.0
"""The options of the toolkit's roles, with their defaults, and what a host's variables say of one."""

from __future__ import annotations

import functools
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import yaml
from ansible.errors import AnsibleLookupError

from .started import ROOT

ROLES = ROOT / "roles"
# The parser in C takes a tenth of the time, where PyYAML has been built with it.
LOADER = getattr(yaml, "CSafeLoader", yaml.SafeLoader)


@functools.cache
def role_specs(roles: Path = ROLES) -> dict[str, Any]:
    """`{role: its argument_specs}`, by the roles' names."""
    files = sorted(roles.glob("*/meta/argument_specs.yml"))
    return {
        file.parts[-3]: yaml.load(file.read_text(encoding="utf-8"), Loader=LOADER)["argument_specs"] for file in files
    }


@functools.cache
def defaults(roles: Path = ROLES) -> dict[str, Any]:
    """Name and default of every option of every role, from their argument specs."""
    options = (specs["main"].get("options", {}) for specs in role_specs(roles).values())
    return {name: option["default"] for each in options for name, option in each.items()}


def value_of(name: str, variables: Mapping[str, Any], templar: Any) -> Any:
    """The value of the variable for the host that has these variables. AnsibleLookupError for one that no role has."""
    known = defaults()
    if name not in known:
        raise AnsibleLookupError(f"no role of gpuwright.node has a variable {name}")
    return templar.template(variables.get(name, known[name]), fail_on_undefined=True)
