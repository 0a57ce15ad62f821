"""Ubuntu 22.04 on a hardware-enablement kernel: provisioned, provisioned again, patched, and uninstalled."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator

import pytest
from conftest import FLEET, REPOSITORY, Run, on_host, play

FLEET_NAME, HOST = "ubuntu-day", "ubu22-01"
WORDS = ["--fleet", FLEET_NAME, "--hosts", HOST]
# The only PyTorch for this Python is built for CUDA, and the card is simulated: it finds none.
NO_CARD = dict.fromkeys(
    ("framework.cuda_build", "framework.architectures", "framework.matrix_product"), "no card is here"
)
STEM, OLD, NEW = "generic-hwe-22.04", "6.8.0-87-generic", "6.8.0-90-generic"


def at_host(script: str) -> str:
    return on_host(script, fleet=FLEET_NAME, host=HOST)


def run(playbook: str, **variables: object) -> Run:
    return play(playbook, fleet=FLEET_NAME, verify_skip_checks=NO_CARD, system_reboot_policy="allowed", **variables)


@pytest.fixture(scope="module")
def finished() -> Iterator[Run]:
    """A provisioned host; the run that made it so."""
    subprocess.run([*FLEET, "up", *WORDS], cwd=REPOSITORY, check=True)
    subprocess.run([*FLEET, "reset", *WORDS], cwd=REPOSITORY, check=True)
    yield run("site.yml")
    subprocess.run([*FLEET, "down", "--fleet", FLEET_NAME], cwd=REPOSITORY, check=True)


def test_a_second_run_enters_every_role_and_changes_nothing(finished: Run) -> None:
    assert finished.rc == 0 and "PASS" in finished.text, finished.output
    done = run("site.yml", gpuwright_full=True)
    assert (done.rc, done.changed) == (0, 0) and "PASS" in done.text, done.output


def test_a_patch_day_boots_the_next_kernel_of_the_flavour_with_its_module(finished: Run) -> None:
    kernel, loaded = "cat /proc/sys/kernel/osrelease", "cat /sys/module/nvidia/version"
    before = at_host(loaded)
    assert at_host(kernel) == OLD
    done = run("playbooks/patch.yml", patch_updates="none")
    assert done.rc == 0 and "PASS" in done.text, done.output
    assert at_host(kernel) == NEW and at_host(loaded) == before
    built = at_host("dkms status | grep -c ': installed'")
    assert built == "2" and at_host(f"modinfo -k {NEW} -F version nvidia") == before
    # The new kernel is grub's first entry and its default, without what the trial needed.
    assert at_host("ls /etc/default/grub.d | grep gpuwright || :") == ""
    assert f"vmlinuz-{NEW}" in at_host("cat /proc/cmdline") and "panic=" not in at_host(
        "grep vmlinuz- /boot/grub/grub.cfg"
    )
    again = run("playbooks/patch.yml", patch_updates="none")
    assert (again.rc, again.changed) == (0, 0) and at_host(kernel) == NEW, again.output


def test_an_uninstallation_leaves_the_kernel_and_nothing_of_ours(finished: Run) -> None:
    done = run("playbooks/uninstall.yml")
    assert done.rc == 0, done.output
    listed = at_host("dpkg-query -W -f '${Package} ${db:Status-Status}\n'").splitlines()
    left = [line.split()[0] for line in listed if line.endswith(" installed")]
    assert f"linux-image-{STEM}" in left and "python3.10" in left
    assert not [
        name for name in left if "nvidia" in name or name.startswith(("cuda", "libcudnn", "dkms", "linux-headers"))
    ]
    assert at_host("find /etc/apt/sources.list.d /etc/apt/preferences.d -type f") == ""
    assert at_host("ls -d /opt/gpuwright /etc/gpuwright 2>/dev/null || :") == ""
