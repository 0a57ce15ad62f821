"""Facts of a host, given to a play of a test instead of the modules that leave them."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

FACT = re.compile(r"gpu_node(_plan|_settled|_preflight|_lock|_bundle|_verdict)?")


def as_facts(variables: Mapping[str, Any]) -> dict[str, Any]:
    """The same variables, with gpu_node, gpu_node_plan ... where roles look for them: in ansible_facts."""
    facts = {name: value for name, value in variables.items() if FACT.fullmatch(name)}
    return {name: value for name, value in variables.items() if name not in facts} | {"ansible_facts": facts}
