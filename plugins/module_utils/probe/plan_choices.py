# SPDX-License-Identifier: Apache-2.0
"""What a plan chose for each part, in the words of its table; and the choices from which a node was built."""

import json
from typing import Any, Callable, Dict, Mapping, Optional, Tuple

from ..host.files import read_text
from ..verdict.expectations import EXPECTATIONS_PATH

MOST_CHARACTERS = 200

# The plan that gpu_plan returned.
Plan = Mapping[str, Any]


def driver_words(plan: Plan) -> str:
    driver = plan["driver"]
    return " ".join([driver["branch"], driver["flavour"], driver["stream"]]).strip()


def lock_words(plan: Plan) -> str:
    torch = plan["pytorch"]
    return torch["lock"] if torch["locked"] else "none"


PARTS: Tuple[Tuple[str, Callable[[Plan], str]], ...] = (
    ("driver", driver_words),
    ("platform", lambda plan: plan["platform"]["name"]),
    ("CUDA toolkit", lambda plan: plan["cuda"]["package"]),
    ("cuDNN", lambda plan: plan["cudnn"]["version"]),
    ("NCCL", lambda plan: plan["nccl"]["version"]),
    ("DCGM", lambda plan: " ".join(plan["dcgm"]["packages"][-1:])),
    ("Python", lambda plan: " ".join([plan["python"]["version"]] + plan["python"]["packages"][:1])),
    ("PyTorch", lambda plan: plan["pytorch"]["version"] + " " + plan["pytorch"]["build"]),
    ("TensorFlow", lambda plan: plan["tensorflow"]["version"]),
    ("AMP type", lambda plan: plan["amp"]["dtype"]),
    ("lock file", lock_words),
)


def plan_choices(plan: Plan) -> Dict[str, str]:
    """What was chosen for each part, `{"cuDNN": "9.10.2"}`; "" for a part that is not wanted."""
    return {part: choose(plan) for part, choose in PARTS}


def read_kept_plan(root: str = "/") -> Optional[Dict[str, str]]:
    """The choices of the node's recorded plan; None if it has none that can be read.

    A part that an older release did not plan is not among them.
    """
    try:
        record = json.loads(read_text(root, EXPECTATIONS_PATH) or "")
    except (ValueError, RecursionError):
        return None
    plan = record.get("plan") if isinstance(record, dict) else None
    if not isinstance(plan, dict):
        return None
    found = {part: _chosen(plan, choose) for part, choose in PARTS}
    return {part: choice[:MOST_CHARACTERS] for part, choice in found.items() if choice is not None} or None


def _chosen(plan: Dict, choose: Any) -> Optional[str]:
    try:
        choice = choose(plan)
    except (KeyError, TypeError, AttributeError):
        return None
    return choice if isinstance(choice, str) else None
