"""Advice is followed on a host that had passed: it is broken, gpu-doctor prints what to do, exactly that is run, by
root on the node or by the person who runs the playbooks, and the check passes after at most three steps.

Rows of what needs a package manager, services or the roles; the others are in tests/unit/doctor/test_advice.py.
"""

from __future__ import annotations

import json
import re
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass

import advice
import pytest
from conftest import FLEET, REPOSITORY, on_host, play
from gpuwright.checks.all import CHECKS

HOST, NAME = "a5-52", "advice"
MOST_STEPS = 3
# Where a command fails, the action may name what to run instead.
OTHERWISE = re.compile(r"(?i) (?:;|#) where [^;:]+: (ansible-playbook [^;]+)")
GOOD = ("PASS", "SKIP")
LEVELS = {check.id: check.level for check in CHECKS}
SITE_PACKAGES = "$(echo /opt/gpuwright/venvs/current/lib/python3*/site-packages)"


@dataclass
class Breakage:
    """What a hand, an update or an accident does to a node, as a shell script of root's, and which check sees it."""

    name: str
    check: str
    script: str


BREAKAGES = (
    Breakage("persistence service stopped", "driver.persistence", "systemctl stop nvidia-persistenced"),
    Breakage("persistence service masked", "driver.persistence", "systemctl mask --now nvidia-persistenced"),
    Breakage("held package removed", "driver.persistence", "dnf remove -y nvidia-persistenced"),
    Breakage("nvidia-smi deleted", "driver.nvidia_smi_file", "rm /usr/bin/nvidia-smi"),
    Breakage("nvidia-smi closed", "driver.nvidia_smi_file", "chmod 0600 /usr/bin/nvidia-smi"),
    Breakage("library of the driver deleted", "driver.libraries", "rm /usr/lib64/libcuda.so.1"),
    Breakage(
        "no module for the running kernel",
        "driver.module_for_next_kernel",
        "dkms uninstall $(dkms status | cut -d, -f1) -k $(uname -r)",
    ),
    Breakage("file of the toolkit deleted", "cuda.version", "rm /usr/local/cuda-*/version.json"),
    Breakage("header of cuDNN deleted", "cudnn.version", "rm /usr/include/cudnn_version.h"),
    Breakage("acknowledgements damaged", "waivers.valid", "echo x > /var/lib/gpuwright/acknowledgements.json"),
    Breakage("strikes damaged", "gpu.strikes", "echo x > /var/lib/gpuwright/strikes.json"),
    Breakage("variable for everybody", "host.environment", "echo LD_PRELOAD=/x.so >> /etc/environment"),
    Breakage(
        "files opened to everybody",
        "model.permissions",
        "chmod -R o+w /usr/local/lib/gpuwright; chown 1000 /etc/gpuwright",
    ),
    Breakage("allocator deleted", "runtime.allocator", "rm $(rpm -ql jemalloc | grep '/libjemalloc.so')"),
    Breakage("launcher deleted", "runtime.launcher", "rm /usr/local/bin/gpu-run"),
    Breakage(
        "setting changed by hand", "host.tuning", "sed -i s/1048576/4096/ /etc/security/limits.d/95-gpuwright.conf"
    ),
    Breakage("shell given to the trainer", "host.training_user", "usermod -s /bin/bash trainer"),
    Breakage("link to the toolkit deleted", "cuda.link", "rm -f /usr/local/cuda"),
    Breakage("timer switched off", "host.services", "systemctl disable --now gpuwright-check.timer"),
    Breakage("folder of the runs deleted", "host.writable", "rm -r /srv/gan/runs"),
    Breakage("trainer deleted", "model.trainer_installed", f"rm -r {SITE_PACKAGES}/gan_trainer*"),
    Breakage("file of the environment deleted", "framework.files", f"rm {SITE_PACKAGES}/torch/version.py"),
)


@pytest.fixture(scope="module")
def node() -> Iterator[None]:
    """A host of its own that site.yml has brought to PASS once; what follows breaks and mends it."""
    subprocess.run([*FLEET, "up", "--fleet", NAME], cwd=REPOSITORY, check=True)
    try:
        done = play("site.yml", fleet=NAME)
        assert done.rc == 0, done.output
        yield
    finally:
        subprocess.run([*FLEET, "down", "--fleet", NAME], cwd=REPOSITORY, check=True)


def run_as_root(script: str) -> str:
    return on_host(script, check=False, fleet=NAME, host=HOST)


def judged(check: str) -> dict[str, dict]:
    """What gpu-doctor on the host says now, by check; at the level of that check, which tells it soonest."""
    said = run_as_root(f"gpu-doctor --json --level {LEVELS[check]}")
    return {record["id"]: record for record in json.loads(said)["checks"]}


def follow(action: str) -> None:
    """Run what is printed, each command by the one whom it is for."""
    typed = advice.typed(action)
    assert typed, f"nothing to type in {action!r}"
    for who, command in typed:
        if who == advice.CONTROLLER:
            playbook, *arguments = command.split()[1:]
            done = play(playbook, *arguments, fleet=NAME)
            assert done.rc == 0, done.output
        else:
            said = run_as_root(f"({command}) 2>&1; echo ended with $?")
            print(said)
            otherwise = OTHERWISE.search(action)
            if not said.endswith("ended with 0") and otherwise:
                follow("Run: " + otherwise.group(1))


@pytest.mark.usefixtures("node")
@pytest.mark.parametrize("breakage", BREAKAGES, ids=lambda row: row.name)
def test_what_is_printed_repairs_it(breakage: Breakage) -> None:
    run_as_root(breakage.script)
    found = judged(breakage.check)
    assert found[breakage.check]["status"] not in GOOD, found[breakage.check]
    steps = 0
    while bad := [record for record in found.values() if record["status"] not in GOOD]:
        steps += 1
        assert steps <= MOST_STEPS, bad
        # First what the breakage is about, at its cause; then what that has left.
        asked = found[breakage.check] if found[breakage.check] in bad else bad[0]
        follow(found[asked.get("caused_by", asked["id"])]["action"])
        found = judged(breakage.check)
    print(f"{breakage.name}: {steps} step{'s' * (steps != 1)}")
