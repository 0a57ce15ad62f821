"""The first node of a rollout dies, hangs, or stays away after its reboot: nothing else begins, and a rerun goes on."""

from __future__ import annotations

import signal
from collections.abc import Callable

import pytest
from cluster import podman, wait_for
from nodes import FLEET, INVENTORY, NAMES, Nodes, Running, containers, do

Begin = Callable[..., Running]
# What goes wrong; it returns its repair.
Fault = Callable[[], Callable[[], object]]
CANARY, REST = NAMES[0], NAMES[1:]
CONTAINER = containers.container_name(FLEET, CANARY)
NEWER = {"system_driver_branch": "580", "system_driver_allow_stream_switch": True, "system_reboot_policy": "allowed"}
# Only what the driver needs, so that the other layers are not looked at again on each node.
WORDS = ("playbooks/rollout.yml", "-l", "gpu_nodes", "--tags", "system_driver,verify", "-e")
BATCHES = '{"gpuwright_batches": [1, "100%"]}'
# A silent connection is given up after 40 s in place of 2 minutes.
SSH = "-o ControlMaster=auto -o ControlPersist=600s -o ServerAliveInterval=5 -o ServerAliveCountMax=8"
# Where a server stays that does not boot: its first process never becomes systemd, and nothing answers.
NO_BOOT = "#!/bin/sh\nexec sleep 86400\n"
INIT = "/usr/libexec/fleet/init"


def changing() -> bool:
    """Whether the packages of the new driver are being installed: the source of its module is there."""
    return "nvidia-580" in do(CANARY, "ls /usr/src", check=False)


def version(host: str) -> str:
    return do(host, "cat /sys/module/nvidia/version")


def power_off() -> Callable[[], object]:
    podman("stop", "--time", "0", CONTAINER)
    return lambda: podman("start", CONTAINER)


def hang() -> Callable[[], object]:
    """sshd takes no connection and answers on none; what it has started goes on."""
    send(signal.SIGSTOP)
    return lambda: send(signal.SIGCONT)


def send(number: signal.Signals) -> None:
    do(CANARY, f"pkill -{number.name.removeprefix('SIG')} -x sshd")


def stays_away() -> Callable[[], object]:
    """Its next boot ends nowhere."""
    do(CANARY, f"cp -p {INIT} /root/init.kept; printf '{NO_BOOT}' > {INIT}")

    def boot() -> None:
        do(CANARY, f"cp -p /root/init.kept {INIT}")
        podman("restart", "--time", "0", CONTAINER)

    return boot


def stopped(nodes: Nodes, begin: Begin, fault: Fault, why: str) -> Running:
    """A rollout that loses its canary in the change; the canary is repaired, and the others are as they were."""
    nodes.settings(**NEWER, system_reboot_timeout=40, ansible_ssh_args=SSH)
    run = begin(["ansible-playbook", "-i", str(INVENTORY), *WORDS, BATCHES])
    run.until(changing, "the canary is being changed")
    repair = fault()
    # Ansible's status: some of its tasks call a lost connection a failure.
    assert run.ended() in (2, 4), run.said
    assert run.table() == {"lost": CANARY, "not reached": "a5-82..a5-84"}, run.said
    said = " ".join(run.said.split())
    assert "[rollout.canary]" in said and f"{CANARY}: in " in said and why in said, said
    assert {version(name) for name in REST} == {"570.172.08"}
    repair()
    wait_for(lambda: do(CANARY, "systemctl is-system-running", check=False) in ("running", "degraded"), "a boot", 300)
    return run


@pytest.mark.parametrize(
    ("fault", "why"),
    [
        pytest.param(hang, "The host cannot be reached", id="hangs"),
        pytest.param(stays_away, "The host was rebooted and has not answered since", id="stays-away"),
    ],
)
def test_a_lost_canary_stops_the_rollout_within_its_batch(nodes: Nodes, begin: Begin, fault: Fault, why: str) -> None:
    run = stopped(nodes, begin, fault, why)
    # The printed command selects all of them again; carried out once, below.
    again = begin([*run.printed_command(), "--check"])
    assert again.ended() == 0 and "4 hosts in 2 batches" in again.said, again.said


def test_after_a_canary_that_died_the_printed_command_does_what_is_left(nodes: Nodes, begin: Begin) -> None:
    run = stopped(nodes, begin, power_off, "The host cannot be reached")
    again = begin(run.printed_command())
    if again.ended() == 2 and "[packages.twice]" in again.said:
        # It died within the transaction itself: what the message says is done there.
        assert "`dnf remove --duplicates`, then run again" in " ".join(again.said.split()), again.said
        do(CANARY, "dnf -y remove --duplicates", timeout=600)
        again = begin(again.printed_command())
    assert again.ended() == 0, again.said
    assert again.table() == {"done": "a5-81..a5-84"}, again.said
    assert {version(name).split(".")[0] for name in NAMES} == {"580"}
    # Nothing is left to do, and nobody is contacted.
    third = begin(run.printed_command())
    assert third.ended() == 0 and "every selected host is done already" in " ".join(third.said.split()), third.said
