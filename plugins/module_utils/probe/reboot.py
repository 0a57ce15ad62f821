# SPDX-License-Identifier: Apache-2.0
"""Whether a host has to reboot before its GPUs can work, judged only from its state.

Never from what a run changed: a handler that a failed or interrupted run did not reach is lost, the state is not.
"""

from typing import Any, List, Mapping


def reboot_reasons(host: Mapping[str, Any]) -> List[str]:
    """Sentences, one for each reason to reboot; empty if a reboot would gain nothing.

    `host` is the probe. A reboot helps only if a module file exists for the kernel that will run after it, so a host
    whose driver is not built, or which has no GPU, never needs one.
    """
    nvidia = host["nvidia"]
    running = host["kernel"]["running"]
    next_boot = host["kernel"]["next_boot"]
    module = nvidia["modules"].get(running)
    if not host["gpus"]:
        return []
    if module is None:
        if nvidia["modules"].get(next_boot) is None:
            return []
        return [f"kernel {running} has no NVIDIA module, {next_boot}, which boots next, has one"]
    reasons = []
    if host["nouveau_loaded"]:
        reasons.append("nouveau is loaded")
    loaded = nvidia["loaded"]
    if loaded is None:
        reasons.append(f"no NVIDIA module is loaded; version {module['version']} is installed")
        return reasons
    if loaded["version"] != module["version"]:
        reasons.append(f"module {loaded['version']} is loaded, {module['version']} is installed")
    user_space = nvidia["user_space"]
    if user_space is not None and user_space == module["version"] != loaded["version"]:
        reasons.append(f"the libraries are {user_space}, the loaded module is {loaded['version']}")
    if loaded["flavour"] != module["flavour"]:
        reasons.append(f"the {loaded['flavour']} module is loaded, the {module['flavour']} one is installed")
    return reasons
