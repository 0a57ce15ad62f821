"""From an empty disk to one that Debian's installer has filled, and the inventory that both playbooks read."""

from __future__ import annotations

import json
import shutil
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import installer
import nvidia
import yaml
from gpuwright_fleet.base import controller_sources
from gpuwright_fleet.inventory import PYTORCH_VERSION, WHEELHOUSE_ON_HOST
from gpuwright_fleet.paths import cache_dir, content_hash, is_complete
from gpuwright_fleet.shell import readable, run, say, step
from gpuwright_fleet.wheelhouse import build_wheelhouse
from gpuwright_vm import accelerator
from gpuwright_vm.machine import Board, Machine, MachineError
from gpuwright_vm.paths import REPOSITORY
from mirror import Log, Mirror
from playbook_run import Run, run_playbook

HOST = "blank-01"
STATE = REPOSITORY / ".fleet/blank-disk"
INVENTORY = STATE / "inventory.yml"
# The controller, as a machine in qemu's own network sees it.
CONTROLLER = "10.0.2.2"
SERIAL = "GPUWRIGHT0001"
INTERFACE = "ens3"
DISK_GIB = 40
MEMORY_MIB = 3072
# The card has the slot that nvidia-smi says.
BOARD = Board(
    (
        *("-machine", "pc,memory-backend=ram", "-m", str(MEMORY_MIB), "-smp", "2"),
        *("-object", f"memory-backend-memfd,id=ram,size={MEMORY_MIB}M,share=on"),
    ),
    slot="bus=pci.0,addr=5",
    serial=SERIAL,
)
# What docs/kickstart.md says, and where the screen is. The third line names the release of the installer itself, says
# that its modules came with it, and where its log goes.
ARGUMENTS = (
    "console=ttyS0 auto=true priority=critical url={address}/install/{host}.preseed.cfg "
    f"interface={INTERFACE} hostname={{host}} domain= DEBIAN_FRONTEND=text "
    f"mirror/udeb/suite={installer.SUITE} anna/no_kernel_modules=true log_host={CONTROLLER} log_port={{log}}"
)
# Behind the dashes stands what the installed system gets, too. Why these: gpuwright_vm/image.py.
KEPT_ARGUMENTS = "mitigations=off no_timer_check"
# What the server is to be; its mirror and its key are another each time.
WANTED = {
    "kickstart_distribution": "debian",
    "kickstart_release": "12",
    "kickstart_disk": f"/dev/disk/by-id/virtio-{SERIAL}",
    "kickstart_firmware": "bios",
    "kickstart_interface": INTERFACE,
    "kickstart_boot_mib": 512,
    "kickstart_root_mib": 30720,
    "kickstart_swap_mib": 1024,
    "kickstart_ntp_servers": [CONTROLLER],
}
INSTALLATION_SECONDS = 7200
PLAY_SECONDS = 7200
# What the installer asks for first in each of its stages.
STAGES = (
    ("the installer reads its answers", ".preseed.cfg"),
    ("it loads its parts", ".udeb"),
    ("the disk is divided; the base system", "/base-files_"),
    ("the kernel", "/linux-image-"),
    ("the other packages", "/openssh-server_"),
)


@dataclass
class Site:
    """What a site has ready before a server dies: a mirror, an inventory, a key. Here the mirror is the controller."""

    folder: Path
    mirror: Mirror = field(init=False)

    def __post_init__(self) -> None:
        self.folder.mkdir(parents=True, exist_ok=True)
        STATE.mkdir(parents=True, exist_ok=True)
        if not self.key.exists():
            run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-C", "gpuwright-blank-disk", "-f", self.key])
        # An installed node asks for its packages where it was installed from.
        port = self.folder / "port"
        with readable():
            self.fingerprint = nvidia.build_repository(STATE / "nvidia")
        folders = {"install": STATE / "kickstart", "nvidia": STATE / "nvidia"}
        known = int(port.read_text()) if port.exists() else 0
        self.mirror = Mirror(archives(), folders, cache_dir() / "mirror", known)
        port.write_text(str(self.mirror.port))

    @property
    def key(self) -> Path:
        return self.folder / "id_ed25519"

    @property
    def disk(self) -> Path:
        return self.folder / "disk.qcow2"

    @property
    def address(self) -> str:
        return f"http://{CONTROLLER}:{self.mirror.port}"

    def write_inventory(self, machine: Machine) -> None:
        """What the server is to be, for kickstart.yml and for site.yml."""
        text = yaml.safe_dump({"gpu_nodes": self.group(machine)}, sort_keys=False, width=200)
        INVENTORY.write_text(f"---\n{text}")

    def group(self, machine: Machine) -> dict[str, Any]:
        repository = f"{self.address}/nvidia"
        return {
            "hosts": {HOST: {"ansible_host": "127.0.0.1", "ansible_port": machine.port}},
            "vars": {
                "kickstart_folder": str(STATE / "kickstart"),
                **WANTED,
                "kickstart_mirror": f"{self.address}/debian",
                "kickstart_mirror_security": f"{self.address}/debian-security",
                "kickstart_admin_keys": [self.key.with_suffix(".pub").read_text().strip()],
                "ansible_user": "admin",
                "ansible_ssh_private_key_file": str(self.key),
                "ansible_ssh_common_args": " ".join(machine.ssh_options),
                "ansible_ssh_timeout": 60,
                "gpuwright_simulated": "the GPU's registers, NVIDIA's packages and nvidia-smi",
                "verify_expected_gpu_model": nvidia.GPU["name"],
                "verify_smoke_device": "cpu",
                "verify_smoke_steps": 10,
                "system_driver_repository_url": f"{repository}/{nvidia.REPOSITORY}/",
                "system_driver_repository_key_url": f"{repository}/keys/RPM-GPG-KEY-{nvidia.KEY}",
                "system_driver_repository_key_fingerprint": self.fingerprint,
                "framework_pytorch_build": "cpu",
                "framework_pytorch_version": PYTORCH_VERSION,
                "framework_pytorch_wheelhouse": WHEELHOUSE_ON_HOST,
            },
        }

    def play(self, playbook: str, *arguments: str) -> Run:
        return run_playbook(INVENTORY, PLAY_SECONDS, playbook, *arguments)


def archives() -> dict[str, str]:
    """Debian's archive and that of its security updates, by a name for addresses, as this machine's apt has them."""
    suites = {line.split()[2]: line.split()[1] for line in controller_sources()}
    main, security = suites.get("bookworm"), suites.get("bookworm-security")
    if not main:
        raise RuntimeError(
            f"apt has no source for bookworm, from which the server is installed: it has {suites or 'none'}"
        )
    return {"debian": main, "debian-security": security or f"{main}-security"}


def installed() -> Site:
    """A site whose server has been installed; the disk is kept for later runs with the same installation."""
    made_of = [REPOSITORY / "plugins/plugin_utils/kickstart", REPOSITORY / "roles/kickstart"]
    made_of += [Path(__file__).with_name("installer.py")]
    words = (ARGUMENTS, KEPT_ARGUMENTS, str(DISK_GIB), json.dumps(WANTED), *controller_sources())
    site = Site(cache_dir() / f"blank-disk-{content_hash(made_of, *words)}")
    if not is_complete(site.folder):
        install(site)
    for line in json.loads((site.folder / "times.json").read_text()):
        say(f"   {line}")
    return site


def install(site: Site) -> None:
    """From an empty disk to a node that waits for site.yml. MachineError: how far it came, and what it showed last."""
    with readable():
        parts = installer.build_installer(archives()["debian"])
    site.mirror.own = parts.index
    site.disk.unlink(missing_ok=True)
    run(["qemu-img", "create", "-q", "-f", "qcow2", site.disk, f"{DISK_GIB}G"])
    machine = Machine(site.disk, site.key, accelerator.choose(parts.kernel)[0], BOARD, STATE)
    site.write_inventory(machine)
    written = site.play("playbooks/kickstart.yml", "-l", HOST)
    assert written.rc == 0, written.output
    log = Log(STATE / "installer.log")
    arguments = f"{ARGUMENTS.format(address=site.address, host=HOST, log=log.port)} --- {KEPT_ARGUMENTS}"
    begin = time.monotonic()
    with step("installation of Debian from the preseed"):
        machine.start("-no-reboot", "-kernel", str(parts.kernel), "-initrd", str(parts.initrd), "-append", arguments)
        try:
            machine.wait_off(INSTALLATION_SECONDS)
        finally:
            machine.stop()
    end = time.monotonic()
    if "reboot: Restarting system" not in machine.console.read_text(errors="replace"):
        raise MachineError(f"The installer did not come to its end.\n{machine.last_words()}")
    shutil.copy(machine.console, site.folder / "console.log")
    (site.folder / "times.json").write_text(json.dumps(stages(site.mirror.asked, begin, end)))
    (site.folder / "complete").touch()


def stages(asked: list[tuple[float, str]], begin: float, end: float) -> list[str]:
    """How long each stage of the installation took, by what the installer asked the mirror for."""
    starts = [("the installer starts", begin)]
    for title, part in STAGES:
        moment = next((moment for moment, path in asked if part in path and moment >= begin), None)
        if moment is not None:
            starts.append((title, moment))
    ends = [moment for _, moment in starts[1:]] + [end]
    return [f"{title}: {after - before:.0f} s" for (title, before), after in zip(starts, ends, strict=True)]


@dataclass
class Node:
    """The installed server, switched on, on a disk of its own above the kept one."""

    site: Site
    machine: Machine
    times: dict[str, float] = field(default_factory=dict)

    def run(self, script: str, check: bool = True) -> str:
        return self.machine.run(script, check)

    def record(self) -> Mapping[str, Any]:
        return json.loads(self.run("cat /var/lib/gpuwright/report.json"))


def switch_on() -> Node:
    """The installed server, from its own boot loader, until it answers over ssh with the key of the preseed."""
    site = installed()
    disk = STATE / "disk.qcow2"
    disk.unlink(missing_ok=True)
    run(["qemu-img", "create", "-q", "-f", "qcow2", "-F", "qcow2", "-b", site.disk, disk])
    with readable():
        parts = installer.build_installer(archives()["debian"])
    accel, because = accelerator.choose(parts.kernel)
    say(f"accelerator: {accel} ({because})")
    machine = Machine(disk, site.key, accel, BOARD, STATE)
    site.write_inventory(machine)
    node = Node(site, machine)
    with step("first start of the installed system"):
        machine.start()
        try:
            machine.learn_host_key()
            machine.wait()
        except BaseException:
            machine.stop()
            raise
    return node


def provide_wheels(node: Node) -> None:
    """Python's packages, as for a server that reaches no index."""
    wheels = build_wheelhouse()
    assert wheels
    with step("wheels onto the node"):
        node.machine.copy(wheels, WHEELHOUSE_ON_HOST)
