"""Ubuntu 24.04 on a cloud's kernel under Secure Boot: the archive's signed modules, and nobody at a console."""

from __future__ import annotations

import functools
import subprocess
from collections.abc import Iterator

import pytest
from conftest import FLEET, REPOSITORY, Run, on_host, play
from test_ubuntu import NO_CARD

NAME, HOST = "ubuntu-signed", "ubu24-11"
OLD, NEW = "6.8.0-1040-aws", "6.8.0-1042-aws"
MODULE = "linux-modules-nvidia-580-server-open"
at_host = functools.partial(on_host, fleet=NAME, host=HOST)
# The archive's toolkit has no stand-in.
WISHES = {"verify_skip_checks": NO_CARD, "system_reboot_policy": "allowed", "system_cuda_version": "none"}
ABSENT = "/etc/apt/preferences.d/absent.pref"
UNATTENDED = "/etc/apt/apt.conf.d/52gpuwright-unattended-upgrades"


def run(playbook: str, *arguments: str, **variables: object) -> Run:
    return play(playbook, *arguments, fleet=NAME, **WISHES, **variables)


def kernel() -> str:
    return at_host("cat /proc/sys/kernel/osrelease")


def driver() -> dict[str, str]:
    """Versions of what is loaded and of what the libraries are."""
    return {
        "loaded": at_host("cat /sys/module/nvidia/version"),
        "file": at_host("modinfo -k $(uname -r) -F version nvidia"),
        "libraries": at_host("dpkg-query -W -f '${Version}' libnvidia-compute-580-server").partition("-")[0],
    }


@pytest.fixture(scope="module")
def finished() -> Iterator[Run]:
    """A provisioned host; the run that made it so. The tests are in the order of its life."""
    subprocess.run([*FLEET, "reset", "--fleet", NAME], cwd=REPOSITORY, check=True)
    yield run("site.yml")
    subprocess.run([*FLEET, "down", "--fleet", NAME], cwd=REPOSITORY, check=True)


def test_a_bare_host_passes_and_nobody_enrols_a_key(finished: Run) -> None:
    assert finished.rc == 0 and "PASS" in finished.text, finished.output
    assert kernel() == OLD and set(driver().values()) == {"580.95.05"}
    # No key is enrolled, and none waits: 4 bytes are the variable's attributes.
    variables = "/sys/firmware/efi/efivars"
    assert (
        at_host(f"ls {variables} | grep -c MokNew || :") == "0"
        and at_host(f"stat -c %s {variables}/MokListRT-*") == "4"
    )
    installed = at_host("dpkg-query -W -f '${Package}\\n'").split()
    assert f"{MODULE}-{OLD}" in installed
    assert not {"dkms", "linux-headers-aws", f"linux-headers-{OLD}", f"linux-image-{NEW}", f"{MODULE}-aws"} & set(
        installed
    )


def test_a_second_run_changes_nothing(finished: Run) -> None:
    done = run("site.yml", gpuwright_full=True)
    assert (done.rc, done.changed) == (0, 0) and "PASS" in done.text, done.output


def test_unattended_upgrades_leave_kernel_module_and_driver_where_they_are(finished: Run) -> None:
    at_host("apt-get update")
    assert "Candidate: 6.8.0-1042.44" in at_host("apt-cache policy linux-image-aws")

    def would_come() -> str:
        told = at_host("unattended-upgrade --dry-run --debug 2>&1")
        return next((line for line in told.splitlines() if "Packages that will be upgraded:" in line), "")

    assert not {word for word in would_come().split() if word.startswith("linux-") or "nvidia" in word}
    # Without our list, the kernel would come by itself.
    at_host(f"mv {UNATTENDED} /root/list")
    assert "linux-image-aws" in would_come()
    at_host(f"mv /root/list {UNATTENDED}")


def test_a_patch_day_leaves_the_kernel_where_its_module_is_not_there_yet(finished: Run) -> None:
    at_host(f"printf 'Package: {MODULE}-{NEW}\\nPin: version *\\nPin-Priority: -1\\n' > {ABSENT}")
    done = run("playbooks/patch.yml", patch_updates="none")
    at_host(f"rm {ABSENT}")
    assert done.rc == 0 and "it stays" in done.text and f"{MODULE}-{NEW}" in done.text, done.output
    assert "Run again when the archive has it" in done.text
    assert kernel() == OLD and at_host("ls /boot/vmlinuz-*") == f"/boot/vmlinuz-{OLD}"


def test_a_patch_day_brings_kernel_and_module_together(finished: Run) -> None:
    looked = run("playbooks/patch.yml", "--check", patch_updates="none")
    assert looked.rc == 0 and "a newer one is due" in looked.text and kernel() == OLD, looked.output
    done = run("playbooks/patch.yml", patch_updates="none")
    assert done.rc == 0 and "PASS" in done.text, done.output
    assert kernel() == NEW and set(driver().values()) == {"580.95.05"}
    again = run("playbooks/patch.yml", patch_updates="none")
    assert (again.rc, again.changed) == (0, 0) and kernel() == NEW, again.output


def test_on_the_newest_kernel_the_metapackage_keeps_kernel_and_module_together(finished: Run) -> None:
    done = run("site.yml", gpuwright_full=True)
    assert done.rc == 0 and "PASS" in done.text, done.output
    assert f"{MODULE}-aws" in at_host("dpkg-query -W -f '${Package}\\n'").split()
    again = run("site.yml", gpuwright_full=True)
    assert (again.rc, again.changed) == (0, 0) and kernel() == NEW, again.output
