# SPDX-License-Identifier: Apache-2.0
"""Whether a host has to reboot before its GPUs can work, judged only from its state.

Never from what a run changed: a handler that a failed or interrupted run did not reach is lost, the state is not.
"""

from typing import Any, List, Mapping, Tuple


def reboot_reasons(host: Mapping[str, Any]) -> List[Tuple[str, str]]:
    """`[(code, sentence)]`, one for each reason to reboot; empty if a reboot would gain nothing.

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
        return [("other-kernel", f"kernel {running} has no NVIDIA module, {next_boot}, which boots next, has one")]
    reasons = []
    if host["nouveau_loaded"]:
        reasons.append(("nouveau", "nouveau is loaded"))
    loaded = nvidia["loaded"]
    if loaded is None:
        reasons.append(("not-loaded", f"no NVIDIA module is loaded; version {module['version']} is installed"))
        return reasons
    if loaded["version"] != module["version"]:
        words = f"module {loaded['version']} is loaded, {module['version']} is installed"
        reasons.append(("other-module", words))
    user_space = nvidia["user_space"]
    if user_space is not None and user_space == module["version"] != loaded["version"]:
        words = f"the libraries are {user_space}, the loaded module is {loaded['version']}"
        reasons.append(("other-libraries", words))
    if loaded["flavour"] != module["flavour"]:
        words = f"the {loaded['flavour']} module is loaded, the {module['flavour']} one is installed"
        reasons.append(("other-flavour", words))
    return reasons
