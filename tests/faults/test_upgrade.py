"""A finished host is upgraded, broken upgrades of it are taken back; with real dnf, rpm and DKMS."""

from __future__ import annotations

import re
import subprocess
from collections.abc import Iterator

import pytest
from conftest import FLEET, HOST, REPOSITORY, on_host, play
from host_state import Container

OLD, NEW = {"system_driver_branch": "570"}, {"system_driver_branch": "580"}
# What DKMS reads before the module's own rules: the build of this one version ends with an error.
OVERRIDE = "/etc/dkms/nvidia-580.95.05.conf"
DRIVER = r"570\.172\.08"


@pytest.fixture(scope="module")
def host(fleet: None) -> Iterator[None]:
    """Finished, with driver 570."""
    subprocess.run([*FLEET, "reset", "--fleet", "faults"], cwd=REPOSITORY, check=True)
    done = play("site.yml", **OLD)
    assert done.rc == 0, done.output
    yield
    on_host(f"rm -f {OVERRIDE}")


def state() -> dict[str, str]:
    """All of which an upgrade changes something."""
    return {
        "driver": on_host("cat /sys/module/nvidia/version"),
        "packages": on_host("rpm -qa '*nvidia*' 'cuda-drivers*' | sort"),
        "stream": on_host("cat /etc/dnf/modules.d/nvidia-driver.module | grep stream"),
        "holds": on_host("sed -n '/BEGIN-driver/,/END-driver/p' /etc/dnf/plugins/versionlock.list"),
        "environment": on_host("readlink /opt/gpuwright/venvs/current"),
        "toolkit": on_host("readlink -f /usr/local/cuda"),
    }


@pytest.fixture(scope="module")
def before(host: None) -> dict[str, str]:
    found = state()
    assert re.fullmatch(DRIVER, found["driver"]) and "570" in found["stream"] and "570" in found["holds"], found
    return found


def test_check_mode_names_the_difference_and_changes_nothing(before: dict[str, str]) -> None:
    done = play("playbooks/upgrade.yml", "--check", **NEW)
    assert done.rc == 0 and "570-dkms" in done.text and "580-dkms" in done.text, done.output
    assert state() == before and on_host("ls /var/lib/gpuwright/kept 2>/dev/null", check=False) == ""


def test_a_module_that_does_not_build_is_taken_back(before: dict[str, str]) -> None:
    on_host(f"echo 'MAKE[0]=false' > {OVERRIDE}")
    done = play("playbooks/upgrade.yml", **NEW)
    on_host(f"rm -f {OVERRIDE}")
    assert done.rc == 2 and "[upgrade.returned]" in done.text and "[driver.unbuilt]" in done.text, done.output
    assert re.search(rf"driver {DRIVER}, \d+ packages, \d+ MiB in /var/lib/gpuwright/kept", done.text), done.output
    assert state() == before and ": PASS" in on_host("gpu-doctor")


def test_a_verification_that_fails_is_taken_back_with_a_reboot(before: dict[str, str]) -> None:
    boot = on_host("cat /proc/sys/kernel/random/boot_id")
    done = play("playbooks/upgrade.yml", verify_expected_modules=["not_there"], **NEW)
    assert done.rc == 2 and "[upgrade.returned]" in done.text and "not_there" in done.text, done.output
    assert state() == before and ": PASS" in on_host("gpu-doctor")
    assert on_host("cat /proc/sys/kernel/random/boot_id") != boot


def test_an_upgrade_that_passes_is_idempotent_and_can_be_taken_back(before: dict[str, str]) -> None:
    done = play("playbooks/upgrade.yml", **NEW)
    assert done.rc == 0 and ": PASS" in on_host("gpu-doctor"), done.output
    after = state()
    assert after["driver"].startswith("580.") and "580" in after["stream"] and "580" in after["holds"]
    assert play("playbooks/upgrade.yml", gpuwright_rollout_again=True, **NEW).changed == 0
    looked = play("playbooks/rollback.yml", "--check", **NEW)
    assert looked.rc == 0 and state() == after, looked.output
    back = play("playbooks/rollback.yml", **NEW)
    assert back.rc == 0 and state() == before and ": PASS" in on_host("gpu-doctor"), back.output
    assert play("playbooks/rollback.yml", **NEW).changed == 0


def test_the_environment_comes_back_by_its_link_alone(before: dict[str, str]) -> None:
    """Nothing is fetched or built: not a file of the environment is another one afterwards."""
    folder = "/opt/gpuwright/venvs"
    old = before["environment"]
    whole = f"find $(cd {folder} && readlink -f {old})/ -type f -printf '%i %C@ %p\\n'"
    files = f"{whole} | grep -v __pycache__ | sort | sha256sum"
    on_host(f"cp -a $(readlink -f {folder}/current) {folder}/newer && ln -sfn {folder}/newer {folder}/current")
    kept = on_host(files)
    done = play("playbooks/rollback.yml", rollback_parts=["environment"], **OLD)
    on_host(f"rm -rf {folder}/newer")
    assert done.rc == 0 and on_host(f"readlink {folder}/current") == old, done.output
    assert on_host(files) == kept


def test_a_kernel_without_a_module_is_never_booted(before: dict[str, str]) -> None:
    """The newer kernel of the repository is installed; DKMS cannot build for it."""
    kernel, boot = on_host("grubby --default-kernel"), on_host("cat /proc/sys/kernel/random/boot_id")
    # A module that is built for no other kernel than the one that runs.
    on_host("echo \"BUILD_EXCLUSIVE_KERNEL='^$(uname -r)$'\" > /etc/dkms/nvidia.conf")
    looked = play("playbooks/patch.yml", "--check", **OLD)
    assert looked.rc == 0 and "a newer one is due" in looked.text, looked.output
    assert on_host("rpm -q kernel-core | wc -l") == "1"
    done = play("playbooks/patch.yml", **OLD)
    on_host("rm -f /etc/dkms/nvidia.conf")
    assert done.rc == 2 and "[patch.not_booted]" in done.text and "[driver.unbuilt]" in done.text, done.output
    assert on_host("rpm -q kernel-core | wc -l") == "2"
    assert on_host("grubby --default-kernel") == kernel and on_host("cat /proc/sys/kernel/random/boot_id") == boot


def kernels() -> dict[str, str]:
    """What runs, what starts next, and what was chosen for one boot alone."""
    return {
        "runs": on_host("cat /proc/sys/kernel/osrelease"),
        "default": on_host("grubby --default-kernel").removeprefix("/boot/vmlinuz-"),
        "once": on_host("sed -n 's/^next_entry=//p' /boot/grub2/grubenv 2>/dev/null || true"),
    }


def test_a_kernel_that_panics_leaves_the_old_one_and_says_so(before: dict[str, str]) -> None:
    old = kernels()
    newer = on_host("ls /lib/modules | sort -V | tail -n 1")
    on_host(f"echo {newer} > /etc/fleet/panics")
    done = play("playbooks/patch.yml", **OLD)
    on_host("rm /etc/fleet/panics")
    assert done.rc == 2 and "[patch.old_kernel]" in done.text and "[patch.panic]" in done.text, done.output
    assert newer in done.text and old["runs"] in done.text and "stays drained" in done.text, done.output
    assert kernels() == old and newer != old["runs"] and ": PASS" in on_host("gpu-doctor")


def test_a_patch_day_ends_under_the_new_kernel(before: dict[str, str]) -> None:
    """Chosen for one boot, verified, and the default only then."""
    old = kernels()
    newer = on_host("ls /lib/modules | sort -V | tail -n 1")
    done = play("playbooks/patch.yml", **OLD)
    assert done.rc == 0 and newer != old["runs"], done.output
    assert kernels() == {"runs": newer, "default": newer, "once": ""}
    assert "panic=" in on_host("cat /proc/cmdline") and "panic=" not in on_host("grubby --info=DEFAULT")
    assert ": PASS" in on_host("gpu-doctor")
    looked = play("playbooks/patch.yml", "--check", **OLD)
    assert looked.rc == 0 and "the newest that its packages bring" in looked.text, looked.output
    # The tests that follow ask for the kernel of before.
    on_host(f"grubby --set-default /boot/vmlinuz-{old['runs']}")


def test_a_host_that_does_not_come_back_is_named_and_goes_back_later(before: dict[str, str]) -> None:
    """Nobody answers after the reboot; at its console, an administrator mends that."""
    on_host("systemctl disable sshd")
    done = play("playbooks/upgrade.yml", gpuwright_rollout_again=True, system_reboot_timeout=60, **NEW)
    Container().do("systemctl enable --now sshd")
    assert done.rc in (2, 4) and f"{HOST} LOST" in done.text, done.output
    assert "To continue" in done.text, done.output
    back = play("playbooks/rollback.yml", **NEW)
    assert back.rc == 0 and state() == before and ": PASS" in on_host("gpu-doctor"), back.output
