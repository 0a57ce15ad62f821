# SPDX-License-Identifier: Apache-2.0
"""The layers of a node and their roles, in the order in which they run: the one list, beside what the plays list."""

from __future__ import annotations

# What is installed, lowest first, as a play, a tag and a check's layer are called.
INSTALLED = {
    "system": (
        "system_kernel",
        "system_driver",
        "system_cuda",
        "system_runtime",
        "system_training",
        "system_tuning",
        "system_containers",
        "system_monitor",
    ),
    "framework": ("framework_pytorch",),
    "model": ("model_trainer",),
}
LAYERS = {"preflight": (), **INSTALLED, "verify": ("verify",)}
# Of those that change a node, and of the verification.
ROLES = tuple(role for roles in LAYERS.values() for role in roles)
# Those whose variables are checked at the beginning of every run: also of what the roles of the layers are helped by.
CHECKED = ("preflight", "operator_lock", "bundle", "system_busy", "system_reboot", *ROLES)
