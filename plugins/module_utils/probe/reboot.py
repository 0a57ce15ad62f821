# SPDX-License-Identifier: Apache-2.0
"""Whether a host has to reboot before its GPUs can work, from its state alone.

Never from what a run changed: a handler that a failed or interrupted run owed is lost, the state is not.
"""


def reboot_reasons(host):
    """Sentences, one for each reason to reboot; empty when a reboot would gain nothing.

    `host` is the probe. A reboot helps only when a module file waits for the kernel that will run after it, so a host
    whose driver is not built, or which has no GPU, never asks for one.
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
        return ["kernel {} has no NVIDIA module, {}, which boots next, has one".format(running, next_boot)]
    reasons = []
    if host["nouveau_loaded"]:
        reasons.append("nouveau is loaded")
    loaded = nvidia["loaded"]
    if loaded is None:
        reasons.append("no NVIDIA module is loaded; version {} is installed".format(module["version"]))
        return reasons
    if loaded["version"] != module["version"]:
        reasons.append("module {} is loaded, {} is installed".format(loaded["version"], module["version"]))
    user_space = nvidia["user_space"]
    if user_space is not None and user_space == module["version"] != loaded["version"]:
        reasons.append("the libraries are {}, the loaded module is {}".format(user_space, loaded["version"]))
    if loaded["flavour"] != module["flavour"]:
        reasons.append("the {} module is loaded, the {} one is installed".format(loaded["flavour"], module["flavour"]))
    return reasons
