"""What the kernel counts of a group of processes and of a network interface, read while a run goes on."""

from __future__ import annotations

import contextlib
import os
import signal
import threading
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

CGROUP = Path("/sys/fs/cgroup")
EVERY_SECONDS = 0.2
MIB = 1 << 20


def received_and_sent(text: str, interface: str = "eth0") -> tuple[int, int]:
    """Bytes received and sent, from the text of /proc/PID/net/dev; KeyError: no such interface."""
    for line in text.splitlines():
        name, colon, counters = line.partition(":")
        if colon and name.strip() == interface:
            words = counters.split()
            return int(words[0]), int(words[8])
    raise KeyError(interface)


def received_and_sent_by(process: int) -> tuple[int, int]:
    """Bytes that a container has received and sent, by one of its processes.

    KeyError: the process is in this machine's own network, as the first one is for a moment while a container starts.
    """
    own, its = (str(Path(f"/proc/{name}/ns/net").readlink()) for name in ("self", process))
    if own == its:
        raise KeyError(own)
    return received_and_sent(Path(f"/proc/{process}/net/dev").read_text())


def is_of(process: int, identity: str) -> bool:
    """Whether it lives and is the container's; the number of one that has ended may be another's by now."""
    try:
        return identity in Path(f"/proc/{process}/cgroup").read_text()
    except OSError:
        return False


def group_of(text: str, controller: str) -> str:
    """Path of a control group, from the text of /proc/PID/cgroup; with one hierarchy for all, the path in that one."""
    rows = [line.split(":", 2) for line in text.splitlines()]
    own = [path for _number, names, path in rows if controller in names.split(",")]
    return own[0] if own else next(path for number, _names, path in rows if number == "0")


def cpu_seconds(text: str) -> float:
    """CPU seconds, from the text of cpuacct.usage (nanoseconds) or of cpu.stat (usage_usec)."""
    words = text.split()
    if len(words) == 1:
        return int(words[0]) / 1e9
    return int(words[words.index("usage_usec") + 1]) / 1e6


def anonymous_bytes(text: str) -> int:
    """Memory that no file backs, each page counted once, from the text of memory.stat of either version."""
    values = dict(line.split() for line in text.splitlines())
    return int(values["total_rss"] if "total_rss" in values else values["anon"])


@dataclass
class Rising:
    """A counter that begins anew when its container starts again: what was counted before that stays counted."""

    total: float = 0.0
    last: float | None = None

    def see(self, value: float) -> None:
        """Add what came since the last look."""
        if self.last is not None:
            self.total += value - self.last if value >= self.last else value
        self.last = value


class Group:
    """A control group for the processes of one run on the controller, ssh's shared connections included."""

    def __init__(self, name: str) -> None:
        one = not (CGROUP / "cpuacct").exists()
        self.folders = [CGROUP / name] if one else [CGROUP / kind / name for kind in ("cpuacct", "memory")]
        self._cpu = self.folders[0] / ("cpu.stat" if one else "cpuacct.usage")
        self._stat = self.folders[-1] / "memory.stat"
        self._peak = self.folders[-1] / ("memory.peak" if one else "memory.max_usage_in_bytes")
        for folder in self.folders:
            folder.mkdir(parents=True, exist_ok=True)

    def enter(self) -> None:
        """Move the calling process into it; what it starts is born there."""
        for folder in self.folders:
            (folder / "cgroup.procs").write_text(str(os.getpid()))

    def cpu(self) -> float:
        """CPU seconds so far, of processes that have ended, too."""
        return cpu_seconds(self._cpu.read_text())

    def anonymous(self) -> int:
        """Bytes of memory that no file backs, now."""
        return anonymous_bytes(self._stat.read_text())

    def peak(self) -> int:
        """Most bytes that were charged to it at once, files that were read or written included."""
        return int(self._peak.read_text())

    def close(self) -> None:
        """End what is left in it, such as ssh's shared connections, and remove it."""
        for _attempt in range(50):
            left = [int(pid) for pid in (self.folders[0] / "cgroup.procs").read_text().split()]
            for pid in left:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGTERM)
            if not left:
                break
            threading.Event().wait(0.1)
        for folder in self.folders:
            with contextlib.suppress(OSError):
                folder.rmdir()


@dataclass
class Watched:
    """Counters of one container, by its id; each look is a few files and no call of podman."""

    identity: str
    cpu: Rising = field(default_factory=Rising)
    received: Rising = field(default_factory=Rising)
    sent: Rising = field(default_factory=Rising)
    first: int = 0

    def see(self) -> None:
        """Look at all three; a container that is just starting again has none for a moment."""
        with contextlib.suppress(OSError, ValueError, KeyError, StopIteration):
            if not self.first or not is_of(self.first, self.identity):
                self.first = first_process(self.identity)
            group = group_of(Path(f"/proc/{self.first}/cgroup").read_text(), "cpuacct")
            both = cpu_file(group, self.identity)
            self.cpu.see(cpu_seconds(both.read_text()))
            received, sent = received_and_sent_by(self.first)
            self.received.see(received)
            self.sent.see(sent)


def cpu_file(group: str, identity: str) -> Path:
    """The file with the CPU time of the whole container, of whose groups `group` is one."""
    top = group.partition(identity)[0] + identity
    if (CGROUP / "cpuacct").exists():
        return Path(f"{CGROUP}/cpuacct{top}/cpuacct.usage")
    return Path(f"{CGROUP}{top}.scope/cpu.stat" if f"{identity}.scope" in group else f"{CGROUP}{top}/cpu.stat")


def first_process(identity: str) -> int:
    """The first process of a container; StopIteration where it does not run."""
    for folder in ("cpuacct/libpod_parent", "libpod_parent", "machine.slice"):
        for name in (f"libpod-{identity}", f"libpod-{identity}.scope"):
            place = CGROUP / folder / name
            if place.exists():
                files = [place / "cgroup.procs", *sorted(place.rglob("cgroup.procs"))]
                return min(int(pid) for file in files for pid in file.read_text().split())
    raise StopIteration(identity)


class Sampler:
    """Looks at counters and at the memory of a group some times a second, until it is stopped."""

    def __init__(self, group: Group, watched: list[Watched]) -> None:
        self.group, self.watched = group, watched
        self.most_anonymous = 0
        self._end = threading.Event()
        self._thread = threading.Thread(target=self._repeat, daemon=True)

    def _look(self) -> None:
        for one in self.watched:
            one.see()
        with contextlib.suppress(OSError):
            self.most_anonymous = max(self.most_anonymous, self.group.anonymous())

    def _repeat(self) -> None:
        while not self._end.wait(EVERY_SECONDS):
            self._look()

    @contextlib.contextmanager
    def running(self) -> Iterator[None]:
        self._look()
        self._thread.start()
        try:
            yield
        finally:
            self._end.set()
            self._thread.join()
            self._look()
