"""A node with kernel, boot loader and PCI bus of its own, from bare through a reboot and a newer kernel to undone.

The tests are in the order of its life, and each later one needs the earlier.
"""

from __future__ import annotations

import json

import pytest
from gpuwright_vm.lane import DRIVER, LATER_LAYERS, Vm
from playbook_run import Run

TUNED = {
    "/proc/sys/vm/swappiness": "10",
    "/proc/sys/vm/dirty_background_bytes": "314572800",
    "/proc/sys/vm/dirty_bytes": "629145600",
    "/proc/sys/vm/max_map_count": "1048576",
    "/sys/kernel/mm/transparent_hugepage/enabled": "always [madvise] never",
    "/sys/block/vda/queue/read_ahead_kb": "4096",
    "/sys/block/vda/queue/scheduler": "[mq-deadline] none",
}
BOOT_CHECK = "/var/lib/gpuwright/boot-check.json"
TRAINING = "train-gan@vm"


def settings(vm: Vm) -> dict[str, str]:
    """What the kernel says now. The two ways to limit dirty pages exclude each other, so both are read."""
    paths = [*TUNED, "/proc/sys/vm/dirty_ratio", "/proc/sys/vm/dirty_background_ratio"]
    return dict(zip(paths, vm.run(f"tail -qn1 {' '.join(paths)}").splitlines(), strict=True))


def built_for(vm: Vm) -> set[str]:
    """The kernels for which DKMS has installed the driver."""
    rows = vm.run("dkms status").splitlines()
    return {row.split(", ")[1] for row in rows if row.startswith(f"nvidia-current/{DRIVER},") and "installed" in row}


@pytest.fixture(scope="module")
def bare(vm: Vm) -> dict:
    """How the machine was before the toolkit touched it."""
    return {
        "boot_id": vm.boot_id,
        "kernel": vm.kernel,
        "settings": settings(vm),
        "modules": vm.read("/proc/modules"),
        "log": vm.run("journalctl -b -k -o cat"),
        "bus": vm.run("lspci -n"),
    }


@pytest.fixture(scope="module")
def provisioned(vm: Vm, bare: dict) -> Run:
    """site.yml, as far as the kernel is concerned; a reboot is part of it."""
    return vm.play("site.yml", "--skip-tags", LATER_LAYERS)


@pytest.fixture(scope="module")
def verified(vm: Vm, provisioned: Run) -> Run:
    unit = vm.play("tests/vm/training-unit.yml")
    assert unit.rc == 0, unit.output
    return vm.play("playbooks/verify.yml")


@pytest.fixture(scope="module")
def upgraded(vm: Vm, verified: Run) -> dict:
    """The distribution's newest kernel, as its administrator installs it, then the toolkit, and only then a boot."""
    before = vm.boot_id, vm.kernel
    vm.run("apt-get -q update && DEBIAN_FRONTEND=noninteractive apt-get -q -y install linux-image-amd64", timeout=2700)
    newest = vm.run("ls -v /lib/modules | tail -n1")
    run = vm.play("playbooks/system.yml", "--tags", "system_kernel,system_driver", system_reboot_policy="never")
    found = {"before": before, "kernel": newest, "run": run, "built": built_for(vm)}
    vm.reboot()
    return found


def test_the_kernel_finds_the_gpu_and_gives_it_to_nouveau(bare: dict) -> None:
    assert "10de:1db4" in bare["bus"]
    assert "[10de:1db4] type 00 class 0x030200" in bare["log"]
    assert "nouveau " in bare["modules"]


def test_provisioning_ends_with_a_reboot(vm: Vm, bare: dict, provisioned: Run) -> None:
    if vm.module == "stub":
        assert provisioned.rc == 0, provisioned.output
    else:
        # NVIDIA's own module refuses a card whose registers are all 0, and the role says what is missing.
        assert f"NVIDIA module not loaded (expected {DRIVER})" in provisioned.text
    assert vm.boot_id != bare["boot_id"]


def test_headers_are_those_of_the_running_kernel(vm: Vm, bare: dict, provisioned: Run) -> None:
    assert vm.kernel == bare["kernel"]
    assert "install ok installed" in vm.run(f"dpkg-query -W -f '${{Status}}' linux-headers-{vm.kernel}")
    assert vm.kernel in vm.read(f"/lib/modules/{vm.kernel}/build/include/generated/utsrelease.h")


def test_dkms_has_built_for_it(vm: Vm, provisioned: Run) -> None:
    assert built_for(vm) == {vm.kernel}
    fields = vm.run(
        "modinfo -F version -k $(uname -r) nvidia-current; modinfo -F vermagic -k $(uname -r) nvidia-current"
    )
    assert fields.splitlines()[0] == DRIVER and fields.splitlines()[1].startswith(f"{vm.kernel} ")
    if vm.module == "real":
        assert int(vm.run(f"stat -c %s /lib/modules/{vm.kernel}/updates/dkms/nvidia-current.ko")) > 10_000_000


def test_nouveau_stays_away(vm: Vm, provisioned: Run) -> None:
    assert "blacklist nouveau" in vm.run("modprobe --showconfig").splitlines()
    assert "nouveau " not in vm.read("/proc/modules")
    assert "nouveau" not in vm.run("journalctl -b -k -o cat")


def test_the_initramfs_knows_it(vm: Vm, provisioned: Run) -> None:
    """Before the root file system is there, only its own copy of the blacklist counts."""
    unpacked = "d=$(mktemp -d) && unmkinitramfs /boot/initrd.img-$(uname -r) $d && grep -rhs '^blacklist nouveau' $d"
    assert "blacklist nouveau" in vm.run(f"{unpacked}; rm -rf $d")


def test_the_driver_has_the_card_or_says_why_not(vm: Vm, provisioned: Run) -> None:
    if vm.module == "stub":
        assert vm.run("basename $(readlink -f /sys/bus/pci/devices/*/driver | grep nvidia)") == "nvidia"
        assert vm.read("/sys/module/nvidia/version") == DRIVER
    else:
        assert "No such device" in vm.run("modprobe nvidia 2>&1", check=False)


def test_arguments_are_those_of_the_boot_loader(vm: Vm, provisioned: Run) -> None:
    """The roles set none: those of the administrator are there, after the reboot as before."""
    arguments = vm.read("/proc/cmdline").split()
    assert arguments[0] == f"BOOT_IMAGE=/boot/vmlinuz-{vm.kernel}" and "console=ttyS0" in arguments
    assert f"linux /boot/vmlinuz-{vm.kernel} root=" in " ".join(vm.read("/boot/grub/grub.cfg").split())


def test_settings_hold_after_the_reboot(vm: Vm, bare: dict, provisioned: Run) -> None:
    now = settings(vm)
    assert {path: now[path] for path in TUNED} == TUNED
    assert bare["settings"] != now
    assert vm.run("gpu-tune >/dev/null; echo $?") == "0", vm.run("gpu-tune", check=False)
    state = vm.run("systemctl show -p ActiveState,Result gpuwright-tuning").splitlines()
    assert sorted(state) == ["ActiveState=active", "Result=success"]
    skipped = {row["name"]: row["reason"] for row in json.loads(vm.read("/etc/gpuwright/tuning.json"))["skipped"]}
    assert "cpufreq" in skipped["cpu_governor"]


def test_verification_names_what_is_missing(vm: Vm, verified: Run) -> None:
    assert verified.rc != 0
    report = json.loads(vm.read("/var/lib/gpuwright/report.json"))
    checks = {check["id"]: check for check in report["checks"]}
    assert report["verdict"] == "FAIL"
    assert checks["driver.reachable"]["status"] == "FAIL"
    # The bus has the card, and only the driver could say that it is usable.
    assert checks["gpu.count"]["status"] == "UNKNOWN" and "1 on the PCI bus" in checks["gpu.count"]["message"]
    assert checks["host.tuning"]["status"] == "PASS", checks["host.tuning"]


def test_a_second_run_changes_nothing(vm: Vm, verified: Run) -> None:
    boot = vm.boot_id
    again = vm.play("playbooks/system.yml", "--skip-tags", LATER_LAYERS, system_reboot_policy="never")
    assert again.rc == 0 and " changed=0 " in again.text, again.output
    assert vm.boot_id == boot


def test_the_driver_is_built_for_the_new_kernel_before_it_boots(upgraded: dict) -> None:
    assert upgraded["run"].rc == 0, upgraded["run"].output
    assert upgraded["kernel"] != upgraded["before"][1], "the package sources have no newer kernel than the image"
    assert upgraded["built"] == {upgraded["before"][1], upgraded["kernel"]}


def test_the_new_kernel_boots_with_it(vm: Vm, upgraded: dict) -> None:
    assert vm.boot_id != upgraded["before"][0]
    assert vm.kernel == upgraded["kernel"]
    assert "nouveau " not in vm.read("/proc/modules")
    assert vm.run("modinfo -F vermagic nvidia-current").startswith(f"{vm.kernel} ")
    if vm.module == "stub":
        assert vm.read("/sys/module/nvidia/version") == DRIVER


def test_this_boot_was_checked(vm: Vm, upgraded: dict) -> None:
    """The machine's GPU answers nothing, so the verdict is bad, and it is of this boot."""
    vm.machine.wait_for(lambda: vm.run("systemctl show -P ActiveState gpuwright-boot-check") in ("active", "failed"))
    record = json.loads(vm.read(BOOT_CHECK))
    assert record["boot_id"] == vm.boot_id
    assert record["verdict"] == "FAIL"
    assert "driver.reachable" in {finding["id"] for finding in record["findings"]}
    assert vm.run("journalctl -b -o cat -u gpuwright-boot-check.service")


def test_no_training_starts(vm: Vm, upgraded: dict) -> None:
    vm.run(f"systemctl start {TRAINING}", check=False)
    assert vm.run(f"systemctl show -P ActiveState {TRAINING}") == "inactive"
    assert vm.run(f"systemctl show -P MainPID {TRAINING}") == "0"
    said = vm.run(f"journalctl -b -o cat -u {TRAINING}")
    assert "gpu-doctor: closed: verdict FAIL" in said and "driver.reachable" in said
    assert vm.run("gpu-doctor --gate >/dev/null 2>&1; echo $?") == "1"


def test_settings_hold_under_the_new_kernel(vm: Vm, upgraded: dict) -> None:
    now = settings(vm)
    assert {path: now[path] for path in TUNED} == TUNED


def test_undoing_puts_back_what_was_there(vm: Vm, bare: dict, upgraded: dict) -> None:
    undone = vm.play("playbooks/system.yml", "--tags", "system_tuning", system_tuning_state="absent")
    assert undone.rc == 0, undone.output
    assert settings(vm) == bare["settings"]
    assert (
        vm.run("ls /etc/gpuwright/tuning.json /etc/systemd/system/gpuwright-tuning.service 2>/dev/null", check=False)
        == ""
    )
