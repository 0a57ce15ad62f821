"""Faults on the way from a bare host: each is named, leaves the host repairable, and a plain rerun converges."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import pytest
import yaml
from conftest import HOST, STATE, on_host, play

pytestmark = pytest.mark.usefixtures("bare_host")
WRONG_FINGERPRINT = "0" * 40


def inventory() -> dict:
    return yaml.safe_load((STATE / "inventory.yml").read_text())["gpu_nodes"]["vars"]


def test_check_mode_on_a_bare_host_changes_nothing() -> None:
    before = on_host("rpm -qa | sort; find /etc /opt /usr/local -type f -newermt 2000-01-01 | sort | xargs md5sum")
    done = play("site.yml", "--check")
    assert done.rc == 0, done.output
    assert (
        on_host("rpm -qa | sort; find /etc /opt /usr/local -type f -newermt 2000-01-01 | sort | xargs md5sum") == before
    )


@pytest.mark.parametrize(
    ("pins", "message"),
    [
        ({"system_driver_branch": "590"}, "Driver 590 (open) does not drive Tesla V100-PCIE-16GB"),
        ({"system_cuda_version": "13.0"}, "the last toolkit for volta is 12.9"),
        ({"system_cuda_version": "12.77"}, "12.77"),
    ],
)
def test_versions_that_do_not_fit(pins: dict, message: str) -> None:
    done = play("site.yml", **pins)
    assert done.rc != 0 and HOST in done.text
    assert message in done.text and "Nothing was changed" in done.text
    assert done.changed == 0


def test_headers_of_the_running_kernel_are_nowhere() -> None:
    on_host('cp /etc/dnf/dnf.conf /root/dnf.conf && printf "excludepkgs=kernel-devel*\\n" >> /etc/dnf/dnf.conf')
    try:
        done = play("playbooks/system.yml")
        assert done.rc != 0
        kernel = on_host("uname -r")
        assert HOST in done.text and f"cannot be built for kernel {kernel}" in done.text
        assert "EUS" in done.text and "system_kernel_allow_update" in done.text
        assert on_host("ls /etc/yum.repos.d").count("epel") == 0
    finally:
        on_host("mv /root/dnf.conf /etc/dnf/dnf.conf")


def test_key_with_another_fingerprint_is_not_imported() -> None:
    done = play("playbooks/system.yml", system_kernel_epel_key_fingerprint=WRONG_FINGERPRINT)
    assert done.rc != 0
    known = inventory()["system_kernel_epel_key_fingerprint"]
    assert f"it holds {known} instead of {WRONG_FINGERPRINT}" in done.text and "Nothing was changed" in done.text
    assert "[repository.key]" in done.text and "set it in system_kernel_epel_key_fingerprint" in done.text
    assert on_host("ls /etc/pki/rpm-gpg /etc/yum.repos.d").count("epel") == 0


def test_unreachable_repository() -> None:
    done = play("playbooks/system.yml", system_kernel_epel_url="http://repo.fleet.test:9/epel")
    assert done.rc != 0
    assert "The repository epel cannot be reached from this host" in done.text and "Connection refused" in done.text
    assert "curl -I http://repo.fleet.test:9/epel/repodata/repomd.xml" in done.text
    assert "Nothing was changed" in done.text and done.changed == 0


def forget_epel() -> None:
    """Take the repository and the trust in its key away again."""
    key = inventory()["system_kernel_epel_key_fingerprint"][-8:].lower()
    on_host(
        f"rpm -e --allmatches gpg-pubkey-{key} || :\n"
        "rm -f /etc/pki/rpm-gpg/RPM-GPG-KEY-epel /etc/yum.repos.d/epel.repo\n"
        "dnf -q clean all"
    )


def test_package_signed_with_a_foreign_key() -> None:
    known = inventory()
    forget_epel()
    done = play(
        "playbooks/system.yml",
        system_kernel_epel_key_url=known["system_driver_repository_key_url"],
        system_kernel_epel_key_fingerprint=known["system_driver_repository_key_fingerprint"],
    )
    assert done.rc != 0
    assert "not signed with the trusted key" in done.text and "Do not switch the check off" in done.text
    assert on_host("rpm -q dkms", check=False) == "package dkms is not installed"
    forget_epel()


def test_another_package_manager_holds_the_lock() -> None:
    file = on_host("rpm --eval %_dbpath") + "/.rpm.lock"
    holder = f"import fcntl, time; lock = open('{file}', 'a+'); fcntl.lockf(lock, fcntl.LOCK_EX); time.sleep(15)"
    with ThreadPoolExecutor() as threads:
        held = threads.submit(on_host, holder, program="/usr/libexec/platform-python -")
        done = play("playbooks/system.yml", "--tags", "system_kernel")
        held.result()
    assert done.rc == 0, done.output
    assert "The package manager is held by process" in done.text and "platform-python" in done.text


def test_dkms_build_fails_while_dnf_succeeds() -> None:
    makefile = "/usr/src/kernels/$(uname -r)/Makefile"
    boot = on_host("cat /proc/sys/kernel/random/boot_id")
    on_host(f'cp {makefile} /root/Makefile && echo "\\$(error the disk ate the headers)" >> {makefile}')
    done = play("playbooks/system.yml")
    assert done.rc != 0
    assert "DKMS has built no proprietary module for kernel" in done.text
    assert "the disk ate the headers" in done.text and "dkms autoinstall" in done.text
    assert on_host("rpm -q kmod-nvidia-latest-dkms").startswith("kmod-nvidia-latest-dkms-")
    assert on_host("cat /proc/sys/kernel/random/boot_id") == boot
    on_host(f"cp /root/Makefile {makefile}")


def test_reboot_that_is_not_allowed_is_no_pass() -> None:
    done = play("site.yml", system_reboot_policy="never")
    assert done.rc != 0
    assert "Reboot required" in done.text and "system_reboot_policy is never" in done.text
    assert "nouveau" in done.text and "reboot.pending" in done.text


def test_a_plain_rerun_converges() -> None:
    assert play("site.yml").rc == 0
    again = play("site.yml")
    assert (again.rc, again.changed) == (0, 0), again.output
