"""One qemu process: started, reached over ssh, stopped. Its disk is an overlay, so that the image stays bare."""

from __future__ import annotations

import socket
import subprocess
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from .gpu import Gpu
from .paths import HOST, STATE

MEMORY_MIB = 3072
PROCESSORS = 2
# A boot takes a minute and a half under emulation on a busy machine.
BOOT_SECONDS = 600
FORMATS = {".raw": "raw", ".qcow2": "qcow2"}


class MachineError(Exception):
    """The virtual machine did not do what it should; the message says what to look at."""


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


@dataclass(frozen=True)
class Board:
    """qemu's words for processors and memory, the GPU's slot, and the serial number by which udev names the disk.

    The memory is shared (memfd), since the process of the GPU maps it, as any device would see it.
    """

    words: tuple[str, ...]
    slot: str = "bus=pci.0"
    serial: str = ""


ONE_NODE = Board(
    (
        *("-machine", "pc,memory-backend=ram", "-m", str(MEMORY_MIB), "-smp", str(PROCESSORS)),
        *("-object", f"memory-backend-memfd,id=ram,size={MEMORY_MIB}M,share=on"),
    )
)


def command(board: Board, disk: Path, accelerator: str, console: Path, port: int, gpu: int) -> list[str]:
    """qemu's command line: a PC with a BIOS, one virtio disk, a network of its own and the GPU."""
    # arch-capabilities: some hypervisors offer that register to their guests and refuse it to guests of guests.
    model = {
        "kvm": ["-accel", "kvm", "-cpu", "host,-arch-capabilities"],
        # No wider vectors than most programs need. Tried once beside `max`, it was not slower; more is not known.
        "tcg": ["-accel", "tcg,thread=multi", "-cpu", "Nehalem"],
    }
    serial = f",serial={board.serial}" if board.serial else ""
    return [
        *("nice", "qemu-system-x86_64", "-name", HOST, *board.words, *model[accelerator]),
        *("-nodefaults", "-display", "none"),
        *("-chardev", f"file,id=console,path={console},append=on", "-serial", "chardev:console"),
        *("-drive", f"file={disk},format={FORMATS[disk.suffix]},if=none,id=disk,cache=unsafe,discard=unmap"),
        *("-netdev", f"user,id=net,hostfwd=tcp:127.0.0.1:{port}-:22"),
        # Where there is a second bus, qemu would choose that one.
        *("-device", f"virtio-blk-pci,drive=disk,bus=pci.0{serial}", "-device", "virtio-net-pci,netdev=net,bus=pci.0"),
        *("-device", "virtio-rng-pci,bus=pci.0", "-device", f"x-pci-proxy-dev,fd={gpu},{board.slot}"),
    ]  # fmt: skip


@dataclass
class Machine:
    """`start`, then `run`; `stop` ends it at once."""

    disk: Path
    key: Path
    accelerator: str
    board: Board = ONE_NODE
    state: Path = STATE
    port: int = field(default_factory=free_port)
    process: subprocess.Popen | None = None

    @property
    def console(self) -> Path:
        return self.state / "console.log"

    @property
    def known_hosts(self) -> Path:
        return self.key.with_name("known_hosts")

    def start(self, *boot: str) -> None:
        """Switch it on; `boot`: further words for qemu, such as a kernel in place of the boot loader."""
        self.state.mkdir(parents=True, exist_ok=True)
        self.console.write_text("")
        gpu = Gpu()
        handle = gpu.plug.fileno()
        with (self.state / "qemu.log").open("w") as log:
            words = command(self.board, self.disk, self.accelerator, self.console, self.port, handle) + list(boot)
            self.process = subprocess.Popen(words, pass_fds=[handle], stdout=log, stderr=log)
        gpu.plug.close()

    @property
    def ssh_options(self) -> list[str]:
        """Its host key is known by a name, since its port is another each time."""
        options = (f"UserKnownHostsFile={self.known_hosts}", "StrictHostKeyChecking=yes", "HostKeyAlias=vm")
        return [part for option in options for part in ("-o", option)]

    def ssh(self, words: str) -> list[str]:
        """One connection for all commands of a boot: to make another takes an emulated processor seconds."""
        shared = Path(tempfile.gettempdir()) / f"gpuwright-vm-{self.port}"
        options = ("ConnectTimeout=10", "ServerAliveInterval=10", "ControlMaster=auto", "ControlPersist=60")
        return [
            *("ssh", "-i", str(self.key), "-p", str(self.port), *self.ssh_options),
            *(part for option in (*options, f"ControlPath={shared}") for part in ("-o", option)),
            *("admin@127.0.0.1", words),
        ]

    def run(self, script: str, check: bool = True, timeout: float = 900) -> str:
        """Run a shell script as root in the machine and return what it prints."""
        done = subprocess.run(
            self.ssh("sudo sh -s"), input=script, capture_output=True, text=True, timeout=timeout, check=False
        )
        if check and done.returncode:
            raise MachineError(f"exit status {done.returncode} of\n{script}\n{done.stdout}{done.stderr}")
        return done.stdout.strip()

    def answer(self, words: str) -> str:
        """What a command prints, or nothing while the machine does not answer."""
        done = subprocess.run(self.ssh(words), capture_output=True, text=True, check=False)
        return done.stdout.strip()

    def wait(self) -> None:
        """Until it answers over ssh."""
        self.wait_for(lambda: self.answer("uname -r") != "")

    def wait_for(self, condition: Callable[[], bool]) -> None:
        """Until a condition holds; the end of its console is the message when it never does."""
        end = time.monotonic() + BOOT_SECONDS
        while time.monotonic() < end and self.process and self.process.poll() is None:
            if condition():
                return
            time.sleep(3)
        raise MachineError(f"The machine is not there after {BOOT_SECONDS} s. {self.last_words()}")

    def last_words(self) -> str:
        """What qemu said, and the end of the console."""
        qemu = (self.state / "qemu.log").read_text()[-500:]
        return f"{qemu}\nEnd of its console:\n{self.console.read_text(errors='replace')[-2000:]}"

    def learn_host_key(self) -> None:
        """Trust the host key that it shows now, as a person does at the first login to a new server."""
        words = ["ssh-keyscan", "-T", "10", "-t", "ed25519", "-p", str(self.port), "127.0.0.1"]

        def learned() -> bool:
            done = subprocess.run(words, capture_output=True, text=True, check=False)
            keys = [line.split(" ", 1)[1] for line in done.stdout.splitlines() if not line.startswith("#")]
            self.known_hosts.write_text("".join(f"vm {key}\n" for key in keys))
            return bool(keys)

        self.wait_for(learned)

    def copy(self, folder: Path, place: str) -> None:
        """A folder's files, to a folder in the machine."""
        words = self.ssh(f"sudo mkdir -p {place} && sudo tar -x -C {place}")
        with subprocess.Popen(["tar", "-c", "-C", str(folder), "."], stdout=subprocess.PIPE) as packing:
            subprocess.run(words, stdin=packing.stdout, check=True)

    def wait_off(self, seconds: float) -> None:
        """Until it switches itself off. MachineError where it has not done so after that time."""
        assert self.process
        try:
            self.process.wait(seconds)
        except subprocess.TimeoutExpired:
            raise MachineError(f"The machine still runs after {seconds} s. {self.last_words()}") from None

    def power_off(self) -> None:
        """Shut down, so that everything is on the disk."""
        self.run("systemctl poweroff", check=False)
        assert self.process
        self.process.wait(BOOT_SECONDS)

    def stop(self) -> None:
        if self.process and self.process.poll() is None:
            self.process.kill()
            self.process.wait()
