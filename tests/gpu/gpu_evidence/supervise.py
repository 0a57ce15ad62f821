"""Run one part as a process of its own, and end it with everything that it started when its share is spent.

A part gets its job through a pipe and answers through another one: each line is a whole record of what it has found so
far, and the last one counts. Nothing goes through a file, so a full disk takes no result away. What a part prints is
kept only in its last few KiB.

Programs that a part starts may open sessions of their own (torchrun and gpu-run do), ignore SIGTERM, or outlive their
parent. So not a process group but everything that descends from this program, or carries this run's mark in its
environment, is ended; a process that the kernel does not let go of is named and left behind.
"""

from __future__ import annotations

import contextlib
import ctypes
import json
import os
import secrets
import signal
import subprocess
import threading
import time
from pathlib import Path
from typing import Any, NamedTuple

MARK = "GPUWRIGHT_EVIDENCE_RUN"
KEPT_OUTPUT = 16 * 1024
LONGEST_RECORD = 16 * 1024 * 1024
POLL_S, TERM_S, KILL_S = 0.05, 2.0, 2.0
PR_SET_CHILD_SUBREAPER = 36


class Ended(NamedTuple):
    """How a part ended: its last record, or None; exit status (None: it was ended); its last words; who remains."""

    record: Any
    rc: int | None
    out_of_time: bool
    words: str
    remain: list[str]


class Stop:
    """Set by a signal: no further part begins, and the running one is ended."""

    def __init__(self) -> None:
        self.by = ""

    def listen(self) -> None:
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            signal.signal(number, self.note)

    def note(self, number: int, _frame: object) -> None:
        self.by = self.by or signal.Signals(number).name


class Reader(threading.Thread):
    """Reads a pipe to its end, so that nobody who writes ever waits; `keep` takes each piece."""

    def __init__(self, descriptor: int, keep: Any) -> None:
        super().__init__(daemon=True)
        self.descriptor, self.keep = descriptor, keep
        self.start()

    def run(self) -> None:
        with contextlib.suppress(OSError):
            while piece := os.read(self.descriptor, 65536):
                self.keep(piece)


class Tail:
    """The last KiB of what a part printed."""

    def __init__(self) -> None:
        self.data = b""

    def take(self, piece: bytes) -> None:
        self.data = (self.data + piece)[-KEPT_OUTPUT:]


class Records:
    """The last whole line of a part's own pipe."""

    def __init__(self) -> None:
        self.data, self.last = b"", b""

    def take(self, piece: bytes) -> None:
        self.data += piece
        whole, newline, rest = self.data.rpartition(b"\n")
        if newline:
            self.last, self.data = whole.rpartition(b"\n")[2], rest
        if len(self.data) > LONGEST_RECORD:
            self.data = b""

    def record(self) -> Any:
        try:
            return json.loads(self.last) if self.last else None
        except ValueError:
            return None


class Supervisor:
    """Starts parts and ends them; `stop` is looked at while one runs."""

    def __init__(self, stop: Stop) -> None:
        self.stop = stop
        self.mark = secrets.token_hex(8)
        # Whose parent ends becomes this program's child, not that of process 1.
        with contextlib.suppress(OSError, AttributeError):
            ctypes.CDLL(None).prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)

    def run(self, command: list[str], job: Any, environment: dict[str, str], seconds: float) -> Ended:
        """Run `command` for at most so long. Its last two arguments are descriptors: it reads its job as JSON from the
        first and writes its records to the second."""
        (asked, asking), (reading, writing) = os.pipe(), os.pipe()
        tail, records = Tail(), Records()
        end, out_of_time = time.monotonic() + seconds, False
        try:
            child = subprocess.Popen(
                [*command, str(asked), str(writing)],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                env={**environment, MARK: self.mark},
                pass_fds=(asked, writing),
                start_new_session=True,
            )
        except OSError as error:
            os.close(reading)
            os.close(asking)
            return Ended(None, None, False, f"it cannot be started: {error}", [])
        finally:
            os.close(writing)
            os.close(asked)
        assert child.stdout is not None
        threading.Thread(target=give, args=(asking, json.dumps(job, default=str).encode()), daemon=True).start()
        readers = Reader(child.stdout.fileno(), tail.take), Reader(reading, records.take)
        while child.poll() is None and not self.stop.by and not out_of_time:
            time.sleep(POLL_S)
            out_of_time = time.monotonic() >= end
        rc = child.poll()
        remain = self.end_all(child)
        for reader in readers:
            reader.join(KILL_S)
        os.close(reading)
        with contextlib.suppress(OSError):
            child.stdout.close()
        return Ended(records.record(), rc, out_of_time, tail.data.decode("utf-8", "replace"), remain)

    def end_all(self, child: subprocess.Popen[bytes]) -> list[str]:
        """End everything that is left of a part: first by SIGTERM, then by SIGKILL. Whoever remains, by name."""
        for number, seconds in ((signal.SIGTERM, TERM_S), (signal.SIGKILL, KILL_S)):
            end = time.monotonic() + seconds
            told: set[int] = set()
            while left := self.left(child):
                # Those that begin meanwhile are told, too.
                for pid in set(left) - told:
                    with contextlib.suppress(OSError):
                        os.kill(pid, number)
                    told.add(pid)
                if time.monotonic() >= end:
                    break
                time.sleep(POLL_S)
        return [f"{name} ({pid})" for pid, name in self.left(child).items()]

    def left(self, child: subprocess.Popen[bytes]) -> dict[int, str]:
        """{pid: name} of what descends from this program or carries its mark, ended processes left out."""
        child.poll()
        parents, found = {}, {}
        mark = f"{MARK}={self.mark}".encode()
        for entry in os.listdir("/proc"):  # noqa: PTH208
            if not entry.isdigit() or int(entry) == os.getpid():
                continue
            try:
                name, _, rest = Path("/proc", entry, "stat").read_text(errors="replace").rpartition(")")
            except OSError:
                continue
            state, parent = rest.split()[:2]
            if state in "ZX":
                if int(parent) == os.getpid() and int(entry) != child.pid:
                    with contextlib.suppress(OSError):
                        os.waitpid(int(entry), os.WNOHANG)
                continue
            parents[int(entry)] = int(parent)
            found[int(entry)] = name.partition("(")[2]
        return {pid: name for pid, name in found.items() if descends(pid, parents) or marked(pid, mark)}


def give(descriptor: int, data: bytes) -> None:
    """Write all of it; a part that ends before it has read it is no fault of the rest."""
    with contextlib.suppress(OSError), os.fdopen(descriptor, "wb") as stream:
        stream.write(data)


def descends(pid: int, parents: dict[int, int]) -> bool:
    seen = set()
    while pid in parents and pid not in seen:
        seen.add(pid)
        pid = parents[pid]
        if pid == os.getpid():
            return True
    return False


def marked(pid: int, mark: bytes) -> bool:
    try:
        return mark in Path("/proc", str(pid), "environ").read_bytes().split(b"\0")
    except OSError:
        return False
