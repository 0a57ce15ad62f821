"""gpu-run on a terminal and under signals: the command must have both as if nothing stood before it."""

from __future__ import annotations

import fcntl
import os
import pty
import select
import signal
import struct
import subprocess
import sys
import termios
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

SECONDS = 20
ROWS, COLUMNS = 37, 113


class Terminal:
    """A process whose controlling terminal is a pseudo-terminal of ROWS x COLUMNS."""

    def __init__(self, *command: str | Path) -> None:
        self.seen = b""
        self.pid, self.master = pty.fork()
        if self.pid == 0:
            # A shell that starts the tests in the background makes them ignore Control-C.
            signal.signal(signal.SIGINT, signal.SIG_DFL)
            fcntl.ioctl(0, termios.TIOCSWINSZ, struct.pack("HHHH", ROWS, COLUMNS, 0, 0))
            os.execvpe(str(command[0]), [str(word) for word in command], {"PATH": os.environ["PATH"]})

    def wait_for(self, text: str) -> None:
        end = time.monotonic() + SECONDS
        while text.encode() not in self.seen:
            ready, _, _ = select.select([self.master], [], [], max(0, end - time.monotonic()))
            assert ready, f"{text!r} did not come within {SECONDS} s: {self.seen!r}"
            try:
                self.seen += os.read(self.master, 4096)
            except OSError:
                raise AssertionError(f"the terminal closed before {text!r} came: {self.seen!r}") from None

    def type(self, keys: str) -> None:
        os.write(self.master, keys.encode())

    def status(self, options: int = 0) -> int:
        """What wait says; a process that hangs is killed by `close`."""
        end = time.monotonic() + SECONDS
        while time.monotonic() < end:
            pid, status = os.waitpid(self.pid, options | os.WNOHANG)
            if pid:
                return status
            time.sleep(0.02)
        raise AssertionError(f"nothing happened within {SECONDS} s: {self.seen!r}")

    def close(self) -> None:
        try:
            os.kill(self.pid, signal.SIGKILL)
            os.waitpid(self.pid, 0)
        except (ProcessLookupError, ChildProcessError):
            pass
        os.close(self.master)


@pytest.fixture
def terminal(gpu_run: Path) -> Iterator[Callable[..., Terminal]]:
    opened = []

    def start(*command: str) -> Terminal:
        opened.append(Terminal(gpu_run, "--", *command))
        return opened[-1]

    yield start
    for one in opened:
        one.close()


def test_terminal_and_its_size_are_the_commands(terminal: Callable[..., Terminal]) -> None:
    code = "import os, sys; print([os.isatty(n) for n in range(3)], os.get_terminal_size(), sys.stdin.readline())"
    process = terminal(sys.executable, "-c", code)
    process.type("typed line\n")
    process.wait_for(f"[True, True, True] os.terminal_size(columns={COLUMNS}, lines={ROWS}) typed line")
    assert process.status() == 0


def test_command_is_told_of_another_size(terminal: Callable[..., Terminal]) -> None:
    code = "import os, signal; signal.signal(signal.SIGWINCH, lambda *_: print('now', os.get_terminal_size().columns))"
    process = terminal(sys.executable, "-uc", code + "\nprint('ready')\nimport time\nwhile True: time.sleep(0.05)")
    process.wait_for("ready")
    fcntl.ioctl(process.master, termios.TIOCSWINSZ, struct.pack("HHHH", ROWS, 91, 0, 0))
    process.wait_for("now 91")


def test_it_stops_continues_and_takes_control_c(terminal: Callable[..., Terminal]) -> None:
    # A signal that comes just before a long sleep would be acted on after it.
    process = terminal(sys.executable, "-uc", "import time\nprint('ready')\nwhile True: time.sleep(0.05)")
    process.wait_for("ready")
    os.kill(process.pid, signal.SIGSTOP)
    assert os.WIFSTOPPED(process.status(os.WUNTRACED))
    os.kill(process.pid, signal.SIGCONT)
    assert os.WIFCONTINUED(process.status(os.WCONTINUED))
    process.type("\x03")
    process.wait_for("KeyboardInterrupt")
    # Python ends itself by the signal, as a shell expects of it.
    assert os.WTERMSIG(process.status()) == signal.SIGINT


def test_shell_stops_and_continues_it_as_a_job(gpu_run: Path) -> None:
    """In a shell with job control: control-Z gives the terminal back to the shell, `fg` gives it to the command."""
    process = Terminal("bash", "--norc", "--noprofile", "-i")
    try:
        process.type(f"PS1='$''> '; {gpu_run} -- sh -c 'echo re''ady; read line; echo got $line'\n")
        process.wait_for("ready")
        process.type("\x1a")
        process.wait_for("Stopped")
        process.type("jobs -l; fg\n")
        process.wait_for("jobs -l; fg")
        process.type("word\n")
        process.wait_for("got word")
        process.type("exit 5\n")
        assert os.WEXITSTATUS(process.status()) == 5
    finally:
        process.close()


@pytest.mark.parametrize("number", [signal.SIGUSR1, signal.SIGTERM, signal.SIGHUP, signal.SIGINT])
def test_signal_is_handled_by_the_command(gpu_run: Path, number: signal.Signals) -> None:
    code = """
import signal, sys, time
def handle(number, frame):
    print("got", number)
    sys.exit(7)
signal.signal(int(sys.argv[1]), handle)
print("ready", flush=True)
# In pause() a signal that came just before it would never be handled.
while True: time.sleep(0.05)
"""
    words = [str(gpu_run), "--", sys.executable, "-uc", code, str(int(number))]
    with subprocess.Popen(words, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout and process.stdout.readline() == "ready\n"
        process.send_signal(number)
        assert process.stdout.read() == f"got {int(number)}\n"
    assert process.returncode == 7


def test_signals_that_the_caller_ignores_or_blocks_stay_so(gpu_run: Path) -> None:
    def prepare() -> None:
        signal.signal(signal.SIGHUP, signal.SIG_IGN)
        signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGUSR2])

    done = subprocess.run(
        [gpu_run, "--", "cat", "/proc/self/status"], preexec_fn=prepare, capture_output=True, text=True
    )
    masks = dict(line.split(":\t") for line in done.stdout.splitlines() if line.startswith("Sig"))
    assert int(masks["SigIgn"], 16) & 1 << (signal.SIGHUP - 1)
    assert int(masks["SigBlk"], 16) & 1 << (signal.SIGUSR2 - 1)
