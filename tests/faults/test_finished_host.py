"""Faults of a node that had passed: verification names each, and no plain rerun is fooled."""

from __future__ import annotations

import base64
import io
import subprocess
import tarfile
from pathlib import Path
from typing import Any

import pytest
from conftest import HOST, REPOSITORY, on_host, play

pytestmark = pytest.mark.usefixtures("finished_host")
VENV = "/opt/gpuwright/venvs/current"
ERRATA = "/srv/errata"
ADVISORY = """<?xml version="1.0" encoding="UTF-8"?>
<updates><update from="security@example.org" status="final" type="security" version="1">
<id>RHSA-2026:0001</id><title>kernel</title><severity>Important</severity>
<issued date="2026-05-01 00:00:00"/><updated date="2026-05-01 00:00:00"/><description>-</description><references/>
<pkglist><collection short="c"><name>c</name>
<package name="kernel-core" epoch="0" version="{0}" release="{1}" arch="{2}"><filename>k.rpm</filename></package>
</collection></pkglist></update></updates>
"""


@pytest.mark.parametrize(
    ("played", "message"),
    [
        (
            '{"exit": 9, "text": "NVIDIA-SMI has failed because it could not communicate with the driver"}',
            "not loaded",
        ),
        ('{"exit": 18, "text": "Failed to initialize NVML: Driver/library version mismatch"}', "mismatch"),
        ('{"exit": 6, "text": "No devices were found"}', "No devices"),
        ('{"exit": 0, "text": "No devices were found"}', "No devices"),
        ('{"hang": true}', "in 5 s"),
        ('{"hide_gpus": 1}', "No devices"),
    ],
    ids=["driver-not-loaded", "version-mismatch", "no-devices", "no-devices-exit-0", "hangs", "one-gpu-hidden"],
)
def test_nvidia_smi(host_file, played: str, message: str) -> None:
    host_file("/etc/fleet/nvidia-smi.json", played)
    done = play("playbooks/verify.yml", verify_nvidia_smi_timeout=5)
    assert done.rc != 0
    assert HOST in done.text and message.lower() in done.text.lower()
    assert "Verdict FAIL" in done.text or "Verdict UNKNOWN" in done.text


def test_nvidia_smi_is_missing() -> None:
    on_host("mv /usr/bin/nvidia-smi /root/")
    try:
        done = play("playbooks/verify.yml")
        assert done.rc != 0 and "FAIL driver.nvidia_smi_file: there is no nvidia-smi" in done.text, done.output
        assert "dnf reinstall -y $(rpm -qf /usr/bin/nvidia-smi)" in done.text, done.output
    finally:
        on_host("mv /root/nvidia-smi /usr/bin/")


def test_fewer_gpus_than_expected() -> None:
    done = play("playbooks/verify.yml", verify_expected_gpu_count=2)
    assert done.rc != 0 and "gpu.count" in done.text
    assert "Verdict FAIL" in done.text


def test_smoke_test_on_a_cpu_where_cuda_was_demanded() -> None:
    done = play("playbooks/verify.yml", verify_smoke_device="cuda")
    assert done.rc != 0 and "smoke.amp" in done.text and "cuda" in done.text.lower()


def test_half_made_environment_is_rebuilt() -> None:
    on_host(f"rm -f $(readlink -f {VENV})/gpuwright.json $(readlink -f {VENV})/bin/python")
    done = play("site.yml")
    assert done.rc == 0, done.output
    assert play("site.yml").changed == 0


def test_wrong_hash_leaves_the_current_environment_alone(tmp_path: Path) -> None:
    lock = REPOSITORY / "roles/framework_pytorch/files/locks/py3.11-torch2.13.0-cpu.txt"
    spoilt = tmp_path / "spoilt.txt"
    spoilt.write_text(lock.read_text().replace("sha256:6746dbcb", "sha256:00000000"))
    before = on_host(f"readlink {VENV}")
    done = play("playbooks/framework.yml", framework_pytorch_lock_file=str(spoilt))
    assert done.rc != 0 and "hash" in done.text.lower()
    assert on_host(f"readlink {VENV}") == before
    assert play("playbooks/framework.yml").changed == 0


def test_check_mode_on_a_finished_host_changes_nothing() -> None:
    done = play("site.yml", "--check")
    assert (done.rc, done.changed) == (0, 0), done.output


@pytest.fixture
def security_update(tmp_path: Path):
    """An advisory, in a repository of its own, for the mirror's newest kernel; the one that runs is locked."""
    newest = on_host("dnf -q repoquery --latest-limit 1 --qf '%{version} %{release} %{arch}' kernel-core").split()
    advisory = tmp_path / "updateinfo.xml"
    advisory.write_text(ADVISORY.format(*newest))
    (tmp_path / "errata").mkdir()
    for words in (["createrepo_c", "-q", "errata"], ["modifyrepo_c", advisory.name, "errata/repodata"]):
        subprocess.run(words, cwd=tmp_path, check=True, capture_output=True)
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w") as archive:
        archive.add(tmp_path / "errata", ERRATA)
    text = base64.encodebytes(packed.getvalue()).decode()
    on_host(f"base64 -d <<'END' | tar -x -C /\n{text}END")
    on_host(f"printf '[errata]\\nname=errata\\nbaseurl=file://{ERRATA}\\n' > /etc/yum.repos.d/errata.repo")
    on_host("dnf -q makecache && dnf -q versionlock add kernel-core")
    yield f"kernel-core-{newest[0]}-{newest[1]}.{newest[2]}"
    on_host(f"dnf -q versionlock delete kernel-core; rm -rf {ERRATA} /etc/yum.repos.d/errata.repo")


def test_a_lock_that_holds_a_security_update_back_is_named(security_update: str) -> None:
    done = play("playbooks/verify.yml")
    assert done.rc == 0, done.output
    assert f"held back: {security_update}: RHSA-2026:0001 (Important)" in done.text


def test_a_new_kernel_gets_its_module_before_it_boots() -> None:
    """An update has brought a kernel that boots next: its headers and module come with the next plain run."""
    on_host("dnf -q -y upgrade kernel kernel-core kernel-modules")
    following = on_host("grubby --default-kernel").removeprefix("/boot/vmlinuz-")
    assert following != on_host("uname -r")
    before = play("playbooks/verify.yml")
    assert before.rc != 0 and "driver.module_for_next_kernel" in before.text and following in before.text
    done = play("site.yml")
    assert done.rc == 0, done.output
    assert on_host(f"modinfo -k {following} -F license nvidia") == "NVIDIA"
    assert play("site.yml").changed == 0


def test_a_node_in_service_is_not_rebooted_unasked() -> None:
    """The user space is replaced under a loaded module, as an unattended update does it."""
    boot = on_host("cat /proc/sys/kernel/random/boot_id")
    done = play("site.yml", system_driver_branch="570", system_driver_allow_stream_switch=True)
    assert done.rc != 0
    assert "Reboot required" in done.text and "it is in service" in done.text
    assert on_host("cat /proc/sys/kernel/random/boot_id") == boot
    assert "Verdict FAIL" in done.text
    back = play("site.yml", system_driver_branch="570", system_reboot_policy="allowed")
    assert back.rc == 0, back.output
    assert on_host("cat /proc/sys/kernel/random/boot_id") != boot
    mended = play("site.yml", system_driver_allow_stream_switch=True, system_reboot_policy="allowed")
    assert mended.rc == 0, mended.output


def test_a_held_driver_gives_way_to_another_version_that_is_asked_for() -> None:
    """A hold keeps updates away, not the administrator who changes the version in the inventory."""
    held = play("playbooks/system.yml", system_driver_version_lock=True)
    assert held.rc == 0, held.output
    # dnf writes the list again without its comments when an administrator takes a lock of their own back.
    on_host("dnf -q versionlock add bash && dnf -q versionlock delete bash")
    assert play("playbooks/system.yml", system_driver_version_lock=True).changed == 0
    before = on_host("modinfo -F version nvidia")
    locks = "grep -c 'nvidia-driver-cuda-3:{}-' /etc/dnf/plugins/versionlock.list"
    assert on_host(locks.format(before)) == "1"
    wish: dict[str, Any] = {"system_driver_version": "580.82.07", "system_driver_version_lock": True}
    assert before != wish["system_driver_version"]
    changed = play("playbooks/system.yml", system_reboot_policy="allowed", **wish)
    assert changed.rc == 0, changed.output
    version = "nvidia-smi --query-gpu=driver_version --format=csv,noheader"
    assert on_host(version) == wish["system_driver_version"]
    assert on_host(locks.format(wish["system_driver_version"])) == "1"
    assert play("playbooks/system.yml", **wish).changed == 0
    back = play("playbooks/system.yml", system_driver_version=before, system_reboot_policy="allowed")
    assert back.rc == 0 and on_host(version) == before, back.output
    assert on_host(locks.format(before)) == "1"
    released = play("playbooks/system.yml", system_driver_version=before, system_driver_guards="never")
    assert released.rc == 0 and on_host(locks.format(".*"), check=False) == "0", released.output
