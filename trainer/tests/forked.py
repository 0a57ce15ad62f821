"""Programs as processes of their own that need not import PyTorch: each is forked from one that has done so.

Run as a program, this file is that process. What a test asks of the start of an interpreter itself (settings that
OpenMP reads as it is loaded, what is importable and what is not, torchrun) needs a real one.
"""

from __future__ import annotations

import atexit
import json
import os
import runpy
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import traceback
import types
from pathlib import Path
from typing import IO, Any, NoReturn

# What the trainer imports sooner or later, and what PyTorch imports for its first optimizer.
PRELOADED = ("numpy", "yaml", "PIL.Image", "torch._dynamo", "torch.utils.data", "torch.distributed")
# A request is one message: arguments, environment and the code of a -c.
LONGEST = 1 << 20


class Program:
    """A running program, with the part of subprocess.Popen that tests use. `words` are Python's own arguments."""

    def __init__(self, words: list[str], environment: dict[str, str], session: bool = False) -> None:
        self.returncode: int | None = None
        # A file that grows, so that it never waits for a reader.
        self.errors = os.memfd_create("errors")
        reading, writing = os.pipe()
        ended, ending = os.pipe()
        self.stdout: IO[str] = os.fdopen(reading, errors="replace")
        self.ended: IO[str] = os.fdopen(ended)
        request = {"words": words, "environment": environment, "session": session, "cwd": str(Path.cwd())}
        handles = [writing, self.errors, ending]
        socket.send_fds(server(), [json.dumps(request).encode()], handles)
        os.close(writing)
        os.close(ending)
        self.pid = int(self.ended.readline())

    def __enter__(self) -> Program:
        return self

    def __exit__(self, *_: object) -> None:
        if self.returncode is None:
            self.kill()
            self.communicate()

    def send_signal(self, number: int) -> None:
        os.kill(self.pid, number)

    def kill(self) -> None:
        self.send_signal(signal.SIGKILL)

    def communicate(self, timeout: float = 900.0) -> tuple[str, str]:
        """What it still says, and its errors; one that does not end in time is killed, which its exit code shows."""
        late = threading.Timer(timeout, self.kill)
        late.start()
        try:
            said = self.stdout.read()
            self.returncode = os.waitstatus_to_exitcode(int(self.ended.readline()))
        finally:
            late.cancel()
        self.stdout.close()
        self.ended.close()
        os.lseek(self.errors, 0, os.SEEK_SET)
        with os.fdopen(self.errors, errors="replace") as errors:
            return said, errors.read()


def run(words: list[str], environment: dict[str, str], timeout: float) -> subprocess.CompletedProcess[str]:
    program = Program(words, environment)
    said, errors = program.communicate(timeout)
    assert program.returncode is not None
    return subprocess.CompletedProcess(words, program.returncode, said, errors)


def run_ranks(count: int, words: list[str], environment: dict[str, str], timeout: float) -> list[str]:
    """What each of `count` ranks of one group said, which all end with 0. Their store is here."""
    from torch.distributed import TCPStore

    store = TCPStore("127.0.0.1", 0, is_master=True, wait_for_workers=False)
    group = {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(store.port), "TORCHELASTIC_USE_AGENT_STORE": "True"}
    group |= {"WORLD_SIZE": str(count), "LOCAL_WORLD_SIZE": str(count)}
    # They meet on the loopback as well: gloo would ask for the address of the host's name, which need not have one.
    group["GLOO_SOCKET_IFNAME"] = "lo"
    ranks = [
        Program(words, {**environment, **group, "RANK": str(rank), "LOCAL_RANK": str(rank)}) for rank in range(count)
    ]
    ended = [rank.communicate(timeout) for rank in ranks]
    told = [
        f"rank {n} ended with {rank.returncode}\n{said}{errors}"
        for n, (rank, (said, errors)) in enumerate(zip(ranks, ended, strict=True))
    ]
    assert not any(rank.returncode for rank in ranks), "\n".join(told)
    return [said for said, _ in ended]


_servers: dict[int, tuple[socket.socket, subprocess.Popen]] = {}


def server() -> socket.socket:
    """The process that forks, one for each that asks; it ends with its asker."""
    if os.getpid() not in _servers:
        ours, its = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        environment = {**os.environ, "OMP_NUM_THREADS": "1"}
        environment.pop("PYTHONPATH", None)
        process = subprocess.Popen(
            [sys.executable, __file__, str(its.fileno())],
            env=environment,
            pass_fds=[its.fileno()],
            start_new_session=True,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
        )
        its.close()
        _servers[os.getpid()] = ours, process
    return _servers[os.getpid()][0]


def end_server() -> None:
    """Its time and that of all its programs then counts as this process's."""
    if os.getpid() in _servers:
        channel, process = _servers.pop(os.getpid())
        channel.close()
        process.wait()


# -- in that process


def serve(channel: socket.socket) -> int:
    """Fork for each request, until the asker has gone."""
    keepers: set[int] = set()
    while True:
        message, handles, *_ = socket.recv_fds(channel, LONGEST, 3)
        keepers -= {keeper for keeper in keepers if os.waitpid(keeper, os.WNOHANG if message else 0)[0]}
        if not message:
            return 0
        keeper = os.fork()
        if not keeper:
            channel.close()
            keep(json.loads(message), *handles)
        keepers.add(keeper)
        for handle in handles:
            os.close(handle)


def keep(request: dict[str, Any], out: int, errors: int, ending: int) -> NoReturn:
    """Fork the program, say its id, wait for its end, say how it ended."""
    child = os.fork()
    if child:
        os.close(out)
        os.write(ending, f"{child}\n".encode())
        os.write(ending, f"{os.waitpid(child, 0)[1]}\n".encode())
        os._exit(0)
    os.close(ending)
    for handle, place in ((out, 1), (errors, 2)):
        os.dup2(handle, place)
        os.close(handle)
    if request["session"]:
        os.setsid()
    os.chdir(request["cwd"])
    os.environ.clear()
    os.environ.update(request["environment"])
    sys.dont_write_bytecode = bool(os.environ.get("PYTHONDONTWRITEBYTECODE"))
    sys.path[:1] = filter(None, os.environ.get("PYTHONPATH", "").split(os.pathsep))
    tempfile.tempdir = None
    end(request["words"])


def end(words: list[str]) -> NoReturn:
    """Run the program and end as the interpreter does, but for tearing down what it shares with all others."""
    code: Any = 0
    try:
        become(words)
    except SystemExit as ended:
        code = ended.code
        if code is not None and not isinstance(code, int):
            print(code, file=sys.stderr)
            code = 1
    # As the interpreter's own last resort.
    except BaseException:
        traceback.print_exc()
        code = 1
    atexit._run_exitfuncs()
    sys.stdout.flush(), sys.stderr.flush()
    os._exit(code or 0)


def become(words: list[str]) -> None:
    """As the interpreter runs `-m MODULE`, `-c CODE` or a file."""
    kind, *rest = words
    if kind == "-m":
        sys.path.insert(0, str(Path.cwd()))
        sys.argv = rest
        runpy.run_module(rest[0], run_name="__main__", alter_sys=True)
    elif kind == "-c":
        sys.path.insert(0, "")
        sys.argv = ["-c", *rest[1:]]
        main = sys.modules["__main__"] = types.ModuleType("__main__")
        exec(compile(rest[0], "<string>", "exec"), vars(main))
    else:
        sys.path.insert(0, str(Path(kind).parent))
        sys.argv = words
        runpy.run_path(kind, run_name="__main__")


if __name__ == "__main__":
    for name in PRELOADED:
        __import__(name)
    sys.exit(serve(socket.socket(fileno=int(sys.argv[1]))))
