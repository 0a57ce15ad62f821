# SPDX-License-Identifier: Apache-2.0
"""gpu-run: start a command on the CPUs, memory and allocator that suit its GPUs, and become it.

The launcher ends with exec, so it leaves no process behind, and exit code, signals, stdin and terminal are the
command's own.
"""

# Not signal: it makes enums of all its names, which takes a quarter of the start time.
import _signal  # type: ignore[import-not-found]  # the C part of signal has no stub
import os
import sys

from .choices import decide
from .options import help_text, parse
from .program import find_in, not_found, take_program
from .ranks import find_place
from .runtime_policy import LaunchError, load_policy

# Importing typing would take a third of gpu-run's start time: its names are only for the type checker.
TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Dict, List, Mapping, Optional, Sequence

    from .decision import Decision
    from .options import Options

VERSION = "0.2.0"
# The same as those of env, nice and timeout, so that no command's own status is mistaken for gpu-run's.
EXIT_REFUSED = 125
EXIT_NOT_EXECUTABLE = 126
EXIT_NOT_FOUND = 127
EXIT_INTERRUPTED = 130
# errno.ENOEXEC; importing errno just for this number would take longer.
NO_FORMAT = 8


def caller_environment() -> "Dict[str, str]":
    """The environment as the caller gave it: Python itself adds LC_CTYPE under the C locale."""
    environ = dict(os.environ)
    try:
        with open("/proc/self/environ", "rb") as file:
            if not any(entry.startswith(b"LC_CTYPE=") for entry in file.read().split(b"\0")):
                environ.pop("LC_CTYPE", None)
    except OSError:
        pass
    return environ


def apply(decision: "Decision") -> None:
    """Bind this process; what the kernel refuses stays as it was, and its row says so."""
    if decision.cpus != os.sched_getaffinity(0):
        try:
            os.sched_setaffinity(0, decision.cpus)
        except OSError as error:
            _amend(decision, "CPU set", f"refused by the kernel: {error.strerror}")
    if decision.memory_policy != "none":
        # Imported here: loading ctypes takes milliseconds, and a machine with one memory node does not need it.
        from .memory_policy import set_memory_policy

        fault = set_memory_policy(decision.memory_policy, decision.memory_nodes)
        if fault:
            decision.memory_policy = "none"
            _amend(decision, "memory policy", fault)


def _amend(decision: "Decision", setting: str, why: str) -> None:
    for row in decision.rows:
        if row[0] == setting:
            row[1:] = ["unchanged", why]


def start(command: "List[str]", environment: "Mapping[str, str]", root: str = "/", ignored: int = 0) -> int:
    """Become `command`; returns a shell's exit code, with one line on stderr, only if that fails.

    `ignored` has the bits of the signals that the caller ignores, like SigIgn in /proc/self/status (proc(5)).
    """
    # Python ignores these two, and what is ignored stays ignored across exec.
    for number in (_signal.SIGPIPE, _signal.SIGXFSZ):
        if not ignored >> (number - 1) & 1:
            _signal.signal(number, _signal.SIG_DFL)
    try:
        try:
            os.execvpe(command[0], command, environment)
        except OSError as error:
            if error.errno != NO_FORMAT:
                raise
            # A script without a first line that names its interpreter; execvp(3) also uses the shell then.
            named = os.path.dirname(command[0])
            folder = "" if named else find_in(os.get_exec_path(environment), command[0])
            script = os.path.join(folder, command[0])
            os.execve("/bin/sh", ["/bin/sh", script] + command[1:], environment)
    except (FileNotFoundError, ValueError):
        return _complain(not_found(command[0], root), EXIT_NOT_FOUND)
    except OSError as error:
        return _complain(f"{command[0]}: cannot be executed: {error.strerror}", EXIT_NOT_EXECUTABLE)


def _complain(message: str, code: int) -> int:
    # One line, whatever the caller's variables contain.
    sys.stderr.write(f"gpu-run: {' '.join(message.splitlines())}\n")
    # exec would drop what is still in the buffer.
    sys.stderr.flush()
    return code


def main(arguments: "Optional[Sequence[str]]" = None, root: str = "/", ignored: int = 0) -> int:
    """The program: returns an exit code, or does not return because it has become the command."""
    try:
        options, command = parse(sys.argv[1:] if arguments is None else arguments)
        if options.help or options.version:
            print(help_text() if options.help else "gpu-run " + VERSION)
            return 0
        if options.check:
            from .running.report import check

            return check(int(command[0]) if command else None, options.json, root)
        environ, allowed = caller_environment(), os.sched_getaffinity(0)
        rank, launcher = find_place(environ)
        policy = load_policy(root)
        decision = decide(options, command, environ, allowed, policy, root, launcher, rank)
        if command:
            take_program(command[0], decision, root)
        if not options.calibrate:
            apply(decision)
        else:
            from ..host.bounded import INTERRUPTIONS
            from .calibration.calibrate import calibrate

            # A start ends by the signal, as the command itself would; a calibration has a command to stop.
            for number in INTERRUPTIONS:
                if _signal.getsignal(number) == _signal.SIG_DFL:
                    _signal.signal(number, _signal.default_int_handler)
            return calibrate(options, command, environ, allowed, policy, root, launcher, rank)
    except LaunchError as error:
        return _complain(str(error), EXIT_REFUSED)
    except KeyboardInterrupt:
        return _complain("interrupted; nothing was written", EXIT_INTERRUPTED)
    if options.json or options.explain or options.dry_run:
        return _explain(options, decision, command)
    for warning in decision.warnings:
        _complain("warning: " + warning, 0)
    return start(command, decision.environment, root, ignored)


def _explain(options: "Options", decision: "Decision", command: "List[str]") -> int:
    # Imported here: a normal start does not need it.
    from . import report as launch_report

    if not options.dry_run:
        launch_report.examine(decision)
    name = "as_json" if options.json else "as_table" if options.explain else "shell_line"
    # As bytes: the caller's variables may contain what the terminal's encoding cannot.
    text = getattr(launch_report, name)(decision, command) + "\n"
    try:
        data = os.fsencode(text)
    except UnicodeEncodeError:
        # Files that this reads may contain it, too, and Python 3.6's C locale is ASCII.
        data = text.encode("utf-8", "surrogateescape")
    sys.stdout.buffer.write(data)
    return 0
