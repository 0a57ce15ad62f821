# SPDX-License-Identifier: Apache-2.0
"""Run a program under a deadline that holds even when the program cannot be killed.

A program that waits for a broken GPU is in uninterruptible sleep: SIGKILL is only queued, and a process that waits for
it waits forever (as `timeout(1)` and `subprocess.run(timeout=...)` do). So nothing here waits for a child: its output
is read without blocking, at the deadline its process group gets a signal, and the child is left to the kernel.
"""

import os
import selectors
import shutil
import signal
import subprocess
import threading
import time
from contextlib import ExitStack, contextmanager
from typing import Any, Callable, Dict, Iterator, List, Mapping, NamedTuple, Optional, Sequence, Tuple

from .program_path import inherited, left_out, search_folders

# Far above any normal output: nvidia-smi's XML for eight busy GPUs stays below 1 MiB.
DEFAULT_LIMIT_BYTES = 8 * 1024 * 1024
CHUNK_BYTES = 65536
POLL_SECONDS = 0.02
# A program closes its output as it ends, so it is asked for soon and then less and less often.
FIRST_PAUSE_SECONDS = 0.0005
# ValueError: an argument that cannot be passed to a program, such as one with a null byte.
NOT_STARTED = (OSError, ValueError, subprocess.SubprocessError)
# Ctrl-C, a stop by another program, a closed terminal.
INTERRUPTIONS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


class Finished(NamedTuple):
    """The result of a program.

    rc         exit status, negative for a signal; None if the program was not started, timed out or was stopped
    stdout     text, undecodable bytes replaced; after a timeout, what had arrived by the deadline
    stderr     the same
    timed_out  the deadline passed; the program may still exist, unkillable
    missing    there is no such program
    truncated  the program wrote more than the limit and was stopped
    problem    one sentence if rc is None, else ""
    """

    rc: Optional[int]
    stdout: str
    stderr: str
    timed_out: bool
    missing: bool
    truncated: bool
    problem: str


def find_program(name: str, environment: Optional[Mapping[str, str]] = None) -> Optional[str]:
    """Full path of the executable `name`, or None; looks in PATH, then in folders that PATH may lack.

    Never looks in the working directory, and for root never where somebody else could put a program (`program_path`).
    """
    if os.path.dirname(name) and not os.path.isabs(name):
        return None
    path = (os.environ if environment is None else environment).get("PATH", "")
    return shutil.which(name, path=os.pathsep.join(search_folders(path)))


def program_environment() -> Dict[str, str]:
    """The caller's environment with untranslated messages, so that they can be compared with known texts.

    Nothing that the program starts or loads comes from the working directory, either, or, for root, from anybody else.
    """
    environment = inherited(os.environ)
    environment.pop("LANGUAGE", None)
    environment["LC_ALL"] = "C.UTF-8"
    return environment


def run_bounded(
    command: Sequence[str],
    timeout: float,
    limit_bytes: int = DEFAULT_LIMIT_BYTES,
    stop_signal: int = signal.SIGKILL,
    environment: Optional[Mapping[str, str]] = None,
    before_start: Optional[Callable[[], None]] = None,
) -> Finished:
    """Run `command` (a list, no shell) for at most `timeout` seconds: a `Finished`; never raises for the program.

    `limit_bytes` limits stdout and stderr separately. At the deadline, the whole process group gets `stop_signal`;
    SIGTERM suits programs that must not be killed halfway, such as a package transaction. `environment` replaces the
    caller's, and `before_start` is called in the child just before the program, for instance to give up root's rights.
    """
    executable = find_program(command[0])
    if executable is None:
        return _not_started(command[0])
    deadline = time.monotonic() + timeout
    child = None
    try:
        with interruption_held():
            child = _start(executable, command[1:], environment, before_start)
        if child.stdout is None or child.stderr is None:
            raise AssertionError("Popen makes the pipes that it is asked for")
        with child.stdout, child.stderr:
            output, state = _collect(child, deadline, limit_bytes)
    except BaseException as error:
        if child is not None and stop_signal == signal.SIGKILL:
            # It has its own session, so Ctrl-C did not reach it. What must not end halfway ends by itself.
            _signal_group(child, stop_signal)
        if child is not None or not isinstance(error, NOT_STARTED):
            raise
        problem = f"{executable} cannot be run: {getattr(error, 'strerror', None) or error}"
        return Finished(None, "", "", False, False, False, problem)
    texts = [bytes(output[stream]).decode("utf-8", "replace") for stream in (child.stdout, child.stderr)]
    if state == "finished":
        return Finished(child.returncode, texts[0], texts[1], False, False, False, "")
    _signal_group(child, stop_signal)
    if state == "too much":
        problem = f"{executable} wrote more than {limit_bytes} bytes and was stopped"
        return Finished(None, texts[0], texts[1], False, False, True, problem)
    problem = f"{executable} did not finish within {timeout:g} s and was sent signal {stop_signal:d}"
    return Finished(None, texts[0], texts[1], True, False, False, problem)


@contextmanager
def interruption_held() -> Iterator[None]:
    """Deliver a signal that arrives inside at the end of the block, to the handler that was there.

    Popen returns only after its program has begun. An interruption in between would lose the process, which nobody
    could stop then. A program that is started here has the default handlers, as every program has. Python calls
    handlers in the main thread alone, so there is nothing to hold in another one, nor without a handler.
    """
    handlers = {int(number): signal.getsignal(number) for number in INTERRUPTIONS}
    own = {number: handler for number, handler in handlers.items() if callable(handler)}
    if not own or threading.current_thread() is not threading.main_thread():
        yield
        return
    arrived: List[Tuple[int, Any]] = []
    try:
        # All are put back, even if one of them raises in the middle.
        with ExitStack() as put_back:
            for number, handler in own.items():
                put_back.callback(signal.signal, number, handler)
                signal.signal(number, lambda number, frame: arrived.append((number, frame)))
            yield
    finally:
        for number, frame in arrived:
            own[number](number, frame)


def _start(
    executable: str,
    arguments: Sequence[str],
    environment: Optional[Mapping[str, str]],
    before_start: Optional[Callable[[], None]],
) -> "subprocess.Popen[bytes]":
    return subprocess.Popen(
        [executable, *arguments],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env=program_environment() if environment is None else environment,
        # Not the caller's folder, which anybody may own.
        cwd="/",
        # A new session: a signal also reaches helpers, and there is no terminal on which the program could ask a
        # question.
        start_new_session=True,
        preexec_fn=before_start,
    )


def _not_started(name: str) -> Finished:
    """The result for a program that the search did not find: absent, or a file without permission to run."""
    if os.path.dirname(name) and not os.path.isabs(name):
        problem = f"{name} is not run: expected the name of a program or its absolute path"
        return Finished(None, "", "", False, True, False, problem)
    path = os.environ.get("PATH", "")
    folders = search_folders(path)
    candidates = [name] if os.path.dirname(name) else [os.path.join(folder, name) for folder in folders]
    for candidate in candidates:
        if os.path.isfile(candidate):
            return Finished(None, "", "", False, False, False, f"{candidate} is not executable")
    others = ", ".join(left_out(path))
    skipped = f"; left out, as others than root can write there: {others}" if others else ""
    return Finished(None, "", "", False, True, False, f"{name} is not installed (not found in PATH{skipped})")


def _collect(child: "subprocess.Popen[bytes]", deadline: float, limit_bytes: int) -> Tuple[Dict[Any, bytearray], str]:
    """Read until the child has ended, the deadline passes or a stream exceeds its limit: ({stream: bytes}, state)."""
    output: Dict[Any, bytearray] = {child.stdout: bytearray(), child.stderr: bytearray()}
    pause = FIRST_PAUSE_SECONDS
    with selectors.DefaultSelector() as selector:
        for stream in output:
            os.set_blocking(stream.fileno(), False)
            selector.register(stream, selectors.EVENT_READ)
        while True:
            # Checked before reading: everything that the child wrote before it ended is then in the pipe.
            ended = child.poll() is not None
            wait = 0 if ended else min(POLL_SECONDS, max(0, deadline - time.monotonic()))
            if selector.get_map():
                got_any = _read_ready(selector, wait, output)
            else:
                time.sleep(min(wait, pause))
                pause *= 2
                got_any = False
            if max(len(data) for data in output.values()) > limit_bytes:
                for data in output.values():
                    del data[limit_bytes:]
                return output, "too much"
            # A helper that outlives the child may hold the pipe open, so the end of the child counts, not that of the
            # pipe.
            if ended and not got_any:
                return output, "finished"
            if not ended and time.monotonic() >= deadline:
                return output, "timed out"


def _read_ready(selector: selectors.BaseSelector, wait: float, output: Dict[Any, bytearray]) -> bool:
    """Read one chunk from every stream that has data; True if anything arrived."""
    got_any = False
    for key, _events in selector.select(wait):
        try:
            chunk = os.read(key.fd, CHUNK_BYTES)
        except BlockingIOError:
            continue
        if chunk:
            output[key.fileobj] += chunk
            got_any = True
        else:
            selector.unregister(key.fileobj)
    return got_any


def _signal_group(child: "subprocess.Popen[bytes]", stop_signal: int) -> None:
    try:
        os.killpg(child.pid, stop_signal)
    except (ProcessLookupError, PermissionError):
        return
    # Reaps the child if it has already ended; `poll` does not wait.
    child.poll()
