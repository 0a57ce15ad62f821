"""A new kernel that panics: the machine comes back by itself, with the old kernel, and the run says what happened.

Verification can pass on no machine whose GPU answers nothing, so the end is the host that is named, and never a PASS.
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from gpuwright_vm.lane import LATER_LAYERS, Vm, switch_on
from playbook_run import Run

# Part of every initramfs that is made from here on: it crashes each kernel but the one that runs now.
CRASH = """#!/bin/sh
[ "$1" = prereqs ] && exit 0
[ "$(uname -r)" = "{kernel}" ] || echo c > /proc/sysrq-trigger
"""
SCRIPT = "/etc/initramfs-tools/scripts/init-top/crash"


@pytest.fixture(scope="module")
def vm() -> Iterator[Vm]:
    """A machine of its own: the other tests begin with a bare one."""
    vm = switch_on()
    yield vm
    vm.machine.stop()


@pytest.fixture(scope="module")
def old(vm: Vm) -> dict[str, str]:
    """Provisioned, as far as the kernel is concerned; a reboot is part of it."""
    done = vm.play("site.yml", "--skip-tags", LATER_LAYERS)
    assert vm.module == "real" or done.rc == 0, done.output
    return {"kernel": vm.kernel, "boot_id": vm.boot_id}


@pytest.fixture(scope="module")
def patched(vm: Vm, old: dict[str, str]) -> Run:
    vm.run(f"cat > {SCRIPT} <<'END'\n{CRASH.format(kernel=old['kernel'])}END\nchmod 755 {SCRIPT}")
    return vm.play("playbooks/patch.yml", patch_updates="none", patch_panic_seconds=5)


def test_the_run_names_the_panic(vm: Vm, old: dict[str, str], patched: Run) -> None:
    newest = vm.run("ls -v /lib/modules | tail -n1")
    assert newest != old["kernel"], "the package sources have no newer kernel than the image"
    assert patched.rc != 0 and "[patch.panic]" in patched.text and newest in patched.text, patched.output


def test_the_old_kernel_runs_after_another_boot(vm: Vm, old: dict[str, str], patched: Run) -> None:
    assert vm.kernel == old["kernel"] and vm.boot_id != old["boot_id"]


def test_the_driver_was_built_for_both_before_the_boot(vm: Vm, old: dict[str, str], patched: Run) -> None:
    newest = vm.run("ls -v /lib/modules | tail -n1")
    for kernel in (old["kernel"], newest):
        assert vm.run(f"modinfo -F vermagic -k {kernel} nvidia-current").startswith(f"{kernel} ")


def test_the_next_boot_is_the_old_kernel_too(vm: Vm, old: dict[str, str], patched: Run) -> None:
    vm.reboot()
    assert vm.kernel == old["kernel"]
