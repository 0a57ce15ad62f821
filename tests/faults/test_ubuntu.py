"""Ubuntu 22.04 on a hardware-enablement kernel: provisioned, patched to a newer kernel of it, and uninstalled."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator

import pytest
from conftest import FLEET, REPOSITORY, Run, on_host, play

FLEET_NAME, HOST = "ubuntu-day", "ubu22-01"
WORDS = ["--fleet", FLEET_NAME, "--hosts", HOST]
# The only PyTorch for this Python is built for CUDA, and the card is simulated: it finds none.
NO_CARD = {
    name: "no card is here" for name in ("framework.cuda_build", "framework.architectures", "framework.matrix_product")
}
STEM = "generic-hwe-22.04"


def at_host(script: str) -> str:
    return on_host(script, fleet=FLEET_NAME, host=HOST)


def run(playbook: str, **variables: object) -> Run:
    return play(playbook, fleet=FLEET_NAME, verify_skip_checks=NO_CARD, system_reboot_policy="allowed", **variables)


def running() -> str:
    return at_host("cat /proc/sys/kernel/osrelease")


@pytest.fixture(scope="module")
def old() -> Iterator[str]:
    """A provisioned host; the release of its kernel."""
    subprocess.run([*FLEET, "up", *WORDS], cwd=REPOSITORY, check=True)
    subprocess.run([*FLEET, "reset", *WORDS], cwd=REPOSITORY, check=True)
    done = run("site.yml")
    assert done.rc == 0 and "PASS" in done.text, done.output
    yield running()
    subprocess.run([*FLEET, "down", "--fleet", FLEET_NAME], cwd=REPOSITORY, check=True)


def test_a_patch_day_boots_the_newer_kernel_of_the_same_flavour(old: str) -> None:
    done = run("playbooks/patch.yml", patch_updates="security")
    assert done.rc == 0, done.output
    new = running()
    assert new != old and new in at_host(f"dpkg-query -W -f '${{Depends}}' linux-image-{STEM}"), done.output
    assert at_host(f"dpkg-query -W -f '${{Depends}}' linux-headers-{STEM}") == f"linux-headers-{new}"
    assert at_host("nvidia-smi --query-gpu=driver_version --format=csv,noheader").startswith("620.")
    # It is the default now, by grub's own rule, and the trial has left nothing.
    at_host("systemctl reboot || :")
    assert at_host("ls /etc/default/grub.d 2>/dev/null || :") == ""


def test_nothing_is_due_afterwards(old: str) -> None:
    subprocess.run([*FLEET, "up", *WORDS], cwd=REPOSITORY, check=True)
    assert running() != old
    done = run("site.yml")
    assert (done.rc, done.changed) == (0, 0), done.output


def test_an_uninstallation_leaves_the_kernel_and_nothing_of_ours(old: str) -> None:
    done = run("playbooks/uninstall.yml")
    assert done.rc == 0, done.output
    left = at_host(
        "dpkg-query -W -f '${Package} ${db:Status-Status}\n' | grep -E ' installed$' | cut -d' ' -f1"
    ).split()
    assert f"linux-image-{STEM}" in left and "python3.10" in left
    assert not [name for name in left if "nvidia" in name or name.startswith(("cuda", "libcudnn", "dkms"))]
    assert at_host("ls /etc/apt/sources.list.d /etc/apt/preferences.d") in (
        "/etc/apt/preferences.d:\n\n/etc/apt/sources.list.d:",
    )
    assert at_host("ls -d /opt/gpuwright /etc/gpuwright 2>/dev/null || :") == ""
