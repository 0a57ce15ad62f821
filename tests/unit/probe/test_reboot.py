"""The rule for reboots, from state alone."""

from __future__ import annotations

import pytest
from gpuwright.probe.reboot import reboot_reasons
from host_tree import NEWER, RUNNING

OLD, NEW = "535.261.03", "580.95.05"


def module(version=NEW, flavour="proprietary"):
    return {"version": version, "flavour": flavour, "licence": ""}


def host(loaded=None, file=None, next_file=None, user_space=NEW, nouveau=False, next_boot=RUNNING, gpus=1):
    modules = {RUNNING: file}
    if next_boot != RUNNING:
        modules[next_boot] = next_file
    return {
        "gpus": [{}] * gpus,
        "kernel": {"running": RUNNING, "next_boot": next_boot},
        "nouveau_loaded": nouveau,
        "nvidia": {"loaded": loaded, "modules": modules, "user_space": user_space},
    }


def loaded(version=NEW, flavour="proprietary"):
    return {"version": version, "flavour": flavour}


@pytest.mark.parametrize(
    ("state", "expected"),
    [
        # Nothing to gain: no GPU, no driver, no module file, or all is well.
        (host(file=module(), gpus=0), []),
        (host(nouveau=True, user_space=None), []),
        (host(loaded=None, file=None), []),
        (host(loaded=loaded(OLD), file=None), []),
        (host(loaded=loaded(), file=module()), []),
        (host(loaded=loaded(), file=module(), user_space=None), []),
        # The libraries are ahead of both: a reboot loads the same module again.
        (host(loaded=loaded(OLD), file=module(OLD), user_space=NEW), []),
        # Another kernel boots next: alone no reason.
        (host(loaded=loaded(), file=module(), next_boot=NEWER, next_file=None), []),
        (host(loaded=loaded(), file=module(), next_boot=NEWER, next_file=module()), []),
        (host(file=None, next_boot=NEWER, next_file=None), []),
        (host(file=None, next_boot=NEWER, next_file=module()), ["which boots next, has one"]),
        (host(loaded=loaded(), file=None, next_boot=NEWER, next_file=module()), ["which boots next, has one"]),
        # Fresh installations.
        (host(file=module(), nouveau=True), ["nouveau is loaded", "no NVIDIA module is loaded"]),
        (host(file=module()), ["no NVIDIA module is loaded"]),
        (host(loaded=loaded(), file=module(), nouveau=True), ["nouveau is loaded"]),
        # Updates.
        (host(loaded=loaded(OLD), file=module(NEW), user_space=OLD), [f"module {OLD} is loaded, {NEW} is installed"]),
        (
            host(loaded=loaded(OLD), file=module(NEW)),
            [f"module {OLD} is loaded, {NEW} is installed", f"libraries are {NEW}, the loaded module is {OLD}"],
        ),
        (host(loaded=loaded("unknown"), file=module(), user_space=None), ["module unknown is loaded"]),
        (
            host(loaded=loaded(flavour="open"), file=module()),
            ["the open module is loaded, the proprietary one is installed"],
        ),
        (host(loaded=loaded(flavour="unknown"), file=module()), ["the unknown module is loaded"]),
    ],
)
def test_reasons(state, expected):
    reasons = reboot_reasons(state)
    assert len(reasons) == len(expected), reasons
    for reason, words in zip(reasons, expected, strict=True):
        assert words in reason[1]
