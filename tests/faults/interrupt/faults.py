"""What is done to a run, its host, or what the host depends on; and how that ends before the run that repairs."""

from __future__ import annotations

import signal
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from interrupt.host import Host
from interrupt.run import Run
from interrupt.steps import Step

sys.path.append(str(Path(__file__).resolve().parents[2] / "world"))

from gpuwright_world import packages
from gpuwright_world.refused import FAKETIME

NETWORK_GONE_S = 60
LOCK = "/run/gpuwright/operator.json"
# For what the host does besides; a transaction of dnf, a compiler and pip need more.
ROOM_MB = 8


@dataclass(frozen=True)
class Fault:
    """`how` is for readers of docs/faults.md. `strike` when the point is reached; `lift` after the run has ended: what
    an administrator does, or what passes by itself.

    `at`: "any", "inside" a task, or "boundary" where it lasts until the run ends, so that it has to be there before a
    task. `downloads`: only steps that fetch something notice it. `folder`: a file system of its own, to be filled or
    lost; with a `journal` where what it loses is what is not in that. `survives`: the run may end well.
    """

    name: str
    how: str
    strike: Callable[[Host, Run, Step], None]
    lift: Callable[[Host], None] = lambda host: None
    at: str = "any"
    downloads: bool = False
    folder: str = ""
    journal: bool = False
    survives: bool = False


def interrupted(host: Host, run: Run, step: Step) -> None:
    run.tell(signal.SIGINT, workers=True)


def terminated(host: Host, run: Run, step: Step) -> None:
    run.tell(signal.SIGTERM)


def killed(host: Host, run: Run, step: Step) -> None:
    run.tell(signal.SIGKILL)


def controller_lost(host: Host, run: Run, step: Step) -> None:
    run.tell(signal.SIGKILL, workers=True)
    subprocess.run(["pkill", "-KILL", "-f", str(host.sockets)], check=False)


def ssh_cut(host: Host, run: Run, step: Step) -> None:
    host.kill(r"^sshd: (?!.*\[listener\])")


def network_gone(host: Host, run: Run, step: Step) -> None:
    host.network(up=False)
    run.go()
    time.sleep(NETWORK_GONE_S)
    host.network(up=True)


def host_killed(host: Host, run: Run, step: Step) -> None:
    host.die()


def power_cut(host: Host, run: Run, step: Step) -> None:
    host.lose_power()


def memory(host: Host, run: Run, step: Step) -> None:
    # A task that had all that it needs when it struck has less to take the next time.
    host.short_of_memory(ROOM_MB >> 2 * (host.attempt - 1))


def memory_enough(host: Host) -> None:
    if host.pid():
        host.short_of_memory(None)


def fill(folder: str) -> Callable[[Host, Run, Step], None]:
    def strike(host: Host, run: Run, step: Step) -> None:
        # First in one piece that is not written, then what is left, to the last block.
        place, free = f"{folder}/.filled", f"$(df --output=avail -k {folder}/ | tail -n 1)"
        host.do(f"fallocate -l $(({free} - 4096))k {place}.1; dd if=/dev/zero of={place}.2 bs=4k 2>&1; true")

    return strike


def empty(folder: str) -> Callable[[Host], None]:
    def lift(host: Host) -> None:
        host.do(f"rm -f {folder}/.filled.1 {folder}/.filled.2")

    return lift


def mirror(mood: str) -> Callable[[Host, Run, Step], None]:
    return lambda host, run, step: host.mood(mood)


def mirror_well(host: Host) -> None:
    host.mood("well")


def no_names(host: Host, run: Run, step: Step) -> None:
    host.do("sed 's/repo.fleet.test/gone.fleet.test/' /etc/hosts > /run/hosts && cat /run/hosts > /etc/hosts")


def names(host: Host) -> None:
    host.do("sed 's/gone.fleet.test/repo.fleet.test/' /etc/hosts > /run/hosts && cat /run/hosts > /etc/hosts")


def second_operator(host: Host, run: Run, step: Step) -> None:
    """The same command from a second terminal; it has to end, with the holder's name, before the first goes on.

    A boot ends the lock, and who comes before the first has taken it again may have the host.
    """
    held = bool(host.do(f"cat {LOCK} 2>/dev/null", check=False))
    other = Run(host, step)
    status = other.ended()
    said = other.said
    other.discard()
    if held != ("This host is being changed by" in said) or (not held and status):
        raise RuntimeError(f"held: {held}, and the second run ended with {status}: {said[-1500:]}")


def clock_jumps(host: Host, run: Run, step: Step) -> None:
    """What root starts through sudo from now on reads tomorrow's time; the machine's own clock stays as it is.

    shutdown tells systemd the time of a reboot, and systemd would wait for tomorrow.
    """
    packages.bring(host.container)
    lines = f"LD_PRELOAD={FAKETIME} FAKETIME=+1d FAKETIME_DISABLE_SHM=1 FAKETIME_SKIP_CMDS=shutdown"
    host.do(f"""printf '%s\\n' {lines} > /run/clock
echo 'Defaults env_file=/run/clock' > /etc/sudoers.d/clock && chmod 0440 /etc/sudoers.d/clock""")


def clock_right(host: Host) -> None:
    host.do("rm -rf /etc/sudoers.d/clock /opt/world")


def package_manager(host: Host, run: Run, step: Step) -> None:
    """A transaction of somebody else's, as dnf-automatic begins it: rpm's lock is held for half a minute."""
    program = "import fcntl, time; lock = open('/var/lib/rpm/.rpm.lock', 'a'); fcntl.lockf(lock, 2); time.sleep(30)"
    host.do(f'systemd-run --quiet --unit=dnf-automatic-install --collect python3 -c "{program}"')


def package_manager_done(host: Host) -> None:
    host.do("while systemctl --quiet is-active dnf-automatic-install; do sleep 0.5; done")


FAULTS = (
    Fault("Ctrl-C", "SIGINT to ansible-playbook and its workers", interrupted),
    Fault("SIGTERM to the controller", "SIGTERM to ansible-playbook", terminated),
    Fault(
        "SIGKILL to the controller",
        "SIGKILL to ansible-playbook alone: its workers and what they started go on",
        killed,
    ),
    Fault("controller lost", "SIGKILL to ansible-playbook, its workers and their ssh connections", controller_lost),
    Fault("ssh connection cut", "SIGKILL to every sshd session of the host", ssh_cut, survives=True),
    Fault("network gone for 60 s", "the host's interface is down for 60 s", network_gone, survives=True),
    # Ansible connects again to a host that is back within its time limit, and goes on with the next task.
    Fault(
        "everything killed",
        "SIGKILL to every process of the host, which then starts again",
        host_killed,
        survives=True,
    ),
    Fault(
        "power cut",
        "the disk takes nothing more, so that what was not yet written to it is lost; everything is killed, and "
        "the host starts again from that disk",
        power_cut,
        folder="/",
        journal=True,
        survives=True,
    ),
    Fault(
        "memory runs out",
        f"the host's control group gets {ROOM_MB} MiB more than it uses, or less where that was not felt, and the "
        "kernel kills what needs most",
        memory,
        memory_enough,
        at="inside",
    ),
    Fault(
        "/opt full",
        "/opt is a file system of its own and is filled until nothing more can be written",
        fill("/opt"),
        empty("/opt"),
        at="boundary",
        folder="/opt",
        survives=True,
    ),
    Fault("/var full", "the same for /var", fill("/var"), empty("/var"), at="boundary", folder="/var", survives=True),
    Fault(
        "/boot full", "the same for /boot", fill("/boot"), empty("/boot"), at="boundary", folder="/boot", survives=True
    ),
    Fault("/ full", "the same for the root file system", fill(""), empty(""), at="boundary", folder="/", survives=True),
    Fault(
        "mirror gone",
        "the mirror sends half of the first package and answers nobody after that",
        mirror("cut"),
        mirror_well,
        at="boundary",
        downloads=True,
    ),
    Fault(
        "mirror answers 503",
        "the mirror answers every request with 503",
        mirror("503"),
        mirror_well,
        at="boundary",
        downloads=True,
    ),
    Fault(
        "mirror slow",
        "the mirror takes 20 s for each package",
        mirror("slow"),
        mirror_well,
        at="boundary",
        downloads=True,
        survives=True,
    ),
    Fault(
        "file truncated",
        "the mirror sends half of each package",
        mirror("truncated"),
        mirror_well,
        at="boundary",
        downloads=True,
    ),
    Fault(
        "file altered",
        "the mirror changes one byte in each package",
        mirror("altered"),
        mirror_well,
        at="boundary",
        downloads=True,
    ),
    Fault(
        "names not resolved", "the mirror's name is not known any more", no_names, names, at="boundary", downloads=True
    ),
    Fault(
        "clock a day ahead",
        "what runs as root reads a clock that is a day ahead (libfaketime)",
        clock_jumps,
        clock_right,
        at="boundary",
        survives=True,
    ),
    Fault(
        "second operator",
        "the same command is started from a second terminal, which has to name the first and change nothing; just "
        "after a boot, which ends the lock, the second has the host",
        second_operator,
        at="boundary",
        survives=True,
    ),
    Fault(
        "another package manager",
        "another process holds rpm's lock for 30 s",
        package_manager,
        package_manager_done,
        at="boundary",
        survives=True,
    ),
)
BY_NAME = {fault.name: fault for fault in FAULTS}


def disk_of(folder: Path, file: Path, spare_mb: int, journal: bool = False) -> None:
    """A file system in a file, with a copy of `folder` and this much room; mounted at FILE.mounted."""
    used = int(subprocess.run(["du", "-sm", str(folder)], capture_output=True, text=True, check=True).stdout.split()[0])
    inodes = sum(1 for _ in folder.rglob("*")) + 100000
    place = Path(f"{file}.mounted")
    place.mkdir(exist_ok=True)
    size = int(used * 1.1) + spare_mb + 32
    subprocess.run(["truncate", "-s", f"{size}M", str(file)], check=True)
    kind = ["-E", "lazy_journal_init=1"] if journal else ["-O", "^has_journal"]
    subprocess.run(["mkfs.ext4", "-q", *kind, "-m", "0", "-N", str(inodes), str(file)], check=True)
    subprocess.run(["mount", "-o", "loop", str(file), str(place)], check=True)
    (place / "lost+found").rmdir()
    subprocess.run(["cp", "-a", f"{folder}/.", str(place)], check=True)
