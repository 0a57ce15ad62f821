"""The machine of one run of the tests: switched on bare, with an inventory, and playbooks run against it."""

from __future__ import annotations

from dataclasses import dataclass

import yaml
from gpuwright_fleet.shell import readable
from playbook_run import Run, run_playbook

from . import accelerator
from .image import build_image
from .machine import Machine
from .paths import HOST, STATE
from .stub import PLACE, SOURCE_LINE, build_repository

INVENTORY = STATE / "inventory.yml"
DRIVER = "535.261.03"
# Under emulation, beside other work, what a processor does in five minutes.
PLAY_SECONDS = 7200
# The kernel has no part in them; the other lanes prove them.
LATER_LAYERS = "system_cuda,framework,model,verify"


@dataclass
class Vm:
    """The machine, and which kernel module is built in it: NVIDIA's (`real`) or the small one (`stub`)."""

    machine: Machine
    module: str
    because: str

    def run(self, script: str, check: bool = True, timeout: float = 600) -> str:
        """Run a shell script as root and return what it prints."""
        return self.machine.run(script, check, timeout)

    def read(self, path: str) -> str:
        return self.run(f"cat {path}")

    @property
    def boot_id(self) -> str:
        return self.read("/proc/sys/kernel/random/boot_id")

    @property
    def kernel(self) -> str:
        return self.run("uname -r")

    def play(self, playbook: str, *arguments: str, **variables: object) -> Run:
        """Run a playbook against the machine; `variables` become extra variables."""
        return run_playbook(INVENTORY, PLAY_SECONDS, playbook, *arguments, **variables)

    def reboot(self) -> None:
        """As `reboot` on its command line, until it answers from another boot."""
        before = self.boot_id
        self.run("systemd-run --on-active=2 systemctl reboot")
        self.machine.wait_for(lambda: self.machine.answer("cat /proc/sys/kernel/random/boot_id") not in ("", before))
        self.machine.wait_for(lambda: self.machine.answer("systemctl is-system-running") in ("running", "degraded"))


def inventory(machine: Machine) -> dict:
    """Pinned to a driver of the archive, so that the module has the version that the small one says."""
    return {
        "gpu_nodes": {
            "hosts": {HOST: {"ansible_host": "127.0.0.1", "ansible_port": machine.port}},
            "vars": {
                "ansible_user": "admin",
                "ansible_ssh_private_key_file": str(machine.key),
                "ansible_ssh_common_args": " ".join(machine.ssh_options),
                "ansible_ssh_timeout": 60,
                "verify_expected_gpu_model": "Tesla V100-PCIE-16GB",
                "verify_expected_gpu_count": 1,
                "verify_smoke_device": "cpu",
                # What there is a lock file for.
                "framework_pytorch_build": "cpu",
                "framework_pytorch_version": "2.13.0",
                "system_driver_source": "distribution",
                "system_driver_version": DRIVER,
                "system_driver_version_lock": True,
                "system_reboot_policy": "allowed",
                # Nothing keeps a card awake that does not answer.
                "system_tuning_leave": ["gpu_persistence"],
            },
        }
    }


def switch_on() -> Vm:
    """A bare machine that answers, and its inventory."""
    STATE.mkdir(parents=True, exist_ok=True)
    image = build_image()
    accel, because = accelerator.choose(image.kernel)
    print(f"accelerator: {accel} ({because})", flush=True)
    machine = Machine(image.overlay(STATE / "disk.qcow2"), image.key, accel)
    vm = Vm(machine, {"kvm": "real", "tcg": "stub"}[accel], because)
    (STATE / "ansible.log").write_text("")
    INVENTORY.write_text("---\n" + yaml.safe_dump(inventory(machine), sort_keys=False, width=200))
    machine.start()
    machine.wait()
    if vm.module == "stub":
        with readable():
            repository = build_repository(STATE / "stub")
        machine.copy(repository, PLACE)
        vm.run(f"echo '{SOURCE_LINE}' > /etc/apt/sources.list.d/stub.list")
    return vm
