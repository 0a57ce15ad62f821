"""The power fails while a driver is changed, and what was not on the disk is gone; the way back is there all the same.

The root of the host is a file system of its own that stops without finishing its journal (`lose_power`).
"""

from __future__ import annotations

import json
import signal
from collections.abc import Iterator
from dataclasses import replace

import pytest
from interrupt.exercise import CACHE, Pair, disks, key, reference
from interrupt.faults import BY_NAME
from interrupt.host import Host, image_of
from interrupt.run import Boundary, Run
from interrupt.steps import Step

# Interruptions that run side by side begin with 1.
WORKER = 9
FINISHED = Step("finished", "", "../site.yml", variables={"system_driver_branch": "570"})
UPGRADE = Step("upgrade", "", "upgrade.yml", variables={"system_driver_branch": "580"})
ROLLBACK = replace(UPGRADE, name="rollback", playbook="rollback.yml")
# The task behind the one that keeps the way back, and the one behind the transaction.
KEPT, CHANGED = (
    Boundary("Say what is kept for the way back, and where"),
    Boundary("Read the node after the change of its driver"),
)
STATE = (
    "cat /sys/module/nvidia/version",
    "rpm -qa '*nvidia*' 'cuda-drivers*' | sort",
    "grep stream /etc/dnf/modules.d/nvidia-driver.module",
    "sed -n '/BEGIN-driver/,/END-driver/p' /etc/dnf/plugins/versionlock.list",
    "readlink /opt/gpuwright/venvs/current /usr/local/cuda",
)
FOLDER = "/var/lib/gpuwright/kept"
# Written just before the power fails, and never synced.
CANARY = "/root/never-synced"


@pytest.fixture(scope="module")
def host() -> Iterator[Host]:
    """Finished with driver 570, on a disk that can lose what was not synced."""
    CACHE.mkdir(parents=True, exist_ok=True)
    made = Host(WORKER)
    made.start()
    try:
        reference(FINISHED, made)
        image = image_of(f"{FINISHED.name}-{key(FINISHED, made)}")
        with disks(made, Pair(UPGRADE, CHANGED, BY_NAME["power cut"]), image):
            yield made
    finally:
        made.stop()


def state(host: Host) -> list[str]:
    return [host.do(command) for command in STATE]


def loses_power(host: Host, step: Step, place: Boundary) -> str:
    """What the run said, at whose place the power failed."""
    run = Run(host, step, place)
    assert run.reached(), run.said[-3000:]
    # The controller stands in the same room: else the run would go on with the host that starts again.
    run.tell(signal.SIGKILL, workers=True)
    host.do(f"echo lost > {CANARY}")
    host.lose_power()
    assert run.ended() != 0
    # Else nothing was lost, and the test shows nothing.
    assert not host.do(f"cat {CANARY} 2>/dev/null", check=False).strip("\0\n")
    said = run.said
    run.discard()
    return said


def test_the_way_back_outlives_a_power_cut(host: Host) -> None:
    before = state(host)
    assert before[0].startswith("570."), before

    # Right after it was kept: its record counts on what is there.
    loses_power(host, UPGRADE, KEPT)
    assert state(host) == before
    record = json.loads(host.do(f"cat {FOLDER}/record.json"))
    sums = [line.split() for line in host.do(f"cd {FOLDER}/packages && sha256sum *").splitlines()]
    assert record["sums"] and {name: digest for digest, name in sums} == {
        name: one["sha256"] for name, one in record["sums"].items()
    }

    # Right after the packages of the driver were changed.
    loses_power(host, UPGRADE, CHANGED)
    assert state(host) != before
    run = Run(host, ROLLBACK)
    assert run.ended() == 0, run.said[-5000:]
    run.discard()
    assert state(host) == before and ": PASS" in host.do("gpu-doctor", check=False)
