# SPDX-License-Identifier: Apache-2.0
"""gpu-run: start a command on the CPUs, memory and allocator that suit its GPUs, and become it.

The launcher ends in exec, so no process stays behind and exit code, signals, stdin and terminal are the command's own.
"""

import argparse
import os
import signal
import sys

from .launch_decision import decide
from .ranks import NUMBER, find_launcher, find_rank
from .runtime_policy import ALLOCATORS, MEMORY_POLICIES, LaunchError, load_policy

VERSION = "0.2.0"
ROUNDS = 10
# The last two as a shell has them.
EXIT_USAGE = 2
EXIT_NOT_EXECUTABLE = 126
EXIT_NOT_FOUND = 127
EXIT_INTERRUPTED = 130


class Parser(argparse.ArgumentParser):
    def error(self, message):
        raise LaunchError("{}; see gpu-run --help".format(message))


def parse(arguments):
    """(options, command) of a command line; everything after the first "--" is the command's."""
    split = arguments.index("--") if "--" in arguments else len(arguments)
    parser = Parser(
        prog="gpu-run",
        usage="gpu-run [options] -- command [argument ...]",
        description="Run a command on the CPUs, memory and allocator that suit its GPUs.",
        epilog="What the environment already says wins over the policy /etc/gpuwright/runtime.json.",
        allow_abbrev=False,
    )
    parser.add_argument("--gpus", metavar="0,1", help="GPUs to use, numbered in PCI order (default: all visible ones)")
    parser.add_argument("--node", metavar="0", help="NUMA nodes to run on (default: those of the GPUs)")
    parser.add_argument(
        "--memory",
        choices=MEMORY_POLICIES,
        help="memory of those nodes; auto is bind, or preferred when the node is short of it (default: the policy's)",
    )
    parser.add_argument("--threads", metavar="N", type=_count, help="OMP_NUM_THREADS (default: physical cores)")
    parser.add_argument("--allocator", choices=ALLOCATORS, help="memory allocator to preload (default: the policy's)")
    parser.add_argument("--explain", action="store_true", help="print every setting and its reason, run nothing")
    parser.add_argument("--json", action="store_true", help="like --explain, for programs")
    parser.add_argument("--dry-run", action="store_true", help="print the equivalent shell line, run nothing")
    parser.add_argument(
        "--calibrate",
        action="store_true",
        help="measure the command with each allocator, keep the one that is proven faster than malloc for this machine",
    )
    parser.add_argument("--rounds", metavar="N", type=_count, help="with --calibrate: rounds (default: 10)")
    parser.add_argument(
        "--metric",
        metavar="REGEX",
        help="with --calibrate: judge by the last number that the command"
        " prints in the parentheses of REGEX (default: wall time)",
    )
    parser.add_argument("--lower-is-better", action="store_true", help="with --metric: a lower number is better")
    parser.add_argument("--version", action="version", version="gpu-run " + VERSION)
    options, rest = parser.parse_known_args(arguments[:split])
    if rest:
        raise LaunchError("{!r} is no option of gpu-run; the command goes after --, see gpu-run --help".format(rest[0]))
    if not options.calibrate and (options.rounds or options.metric or options.lower_is_better):
        raise LaunchError("--rounds, --metric and --lower-is-better go with --calibrate")
    if options.lower_is_better and not options.metric:
        raise LaunchError("--lower-is-better goes with --metric; wall time is always better lower")
    options.rounds = options.rounds or ROUNDS
    command = arguments[split + 1 :]
    if not command and not (options.explain or options.json or options.dry_run or options.calibrate):
        raise LaunchError("no command given: gpu-run [options] -- command [argument ...]")
    return options, command


def _count(text):
    if not NUMBER.fullmatch(text) or int(text) < 1:
        raise argparse.ArgumentTypeError("{!r}: expected a whole number from 1".format(text))
    return int(text)


def caller_environment():
    """The environment as the caller gave it: Python itself adds LC_CTYPE under the C locale."""
    environ = dict(os.environ)
    try:
        with open("/proc/self/environ", "rb") as file:
            if not any(entry.startswith(b"LC_CTYPE=") for entry in file.read().split(b"\0")):
                environ.pop("LC_CTYPE", None)
    except OSError:
        pass
    return environ


def apply(decision):
    """Bind this process; what the kernel refuses stays as it was, and its row then says so."""
    if decision.cpus != os.sched_getaffinity(0):
        try:
            os.sched_setaffinity(0, decision.cpus)
        except OSError as error:
            _amend(decision, "CPU set", "refused by the kernel: {}".format(error.strerror))
    if decision.memory_policy != "none":
        # Imported here: loading ctypes takes milliseconds, and a machine with one memory node has no use for it.
        from .memory_policy import set_memory_policy

        fault = set_memory_policy(decision.memory_policy, decision.memory_nodes)
        if fault:
            decision.memory_policy = "none"
            _amend(decision, "memory policy", fault)


def _amend(decision, setting, why):
    for row in decision.rows:
        if row[0] == setting:
            row[1:] = ["unchanged", why]


def start(command, environment):
    """Become `command`; returns a shell's exit code, with one line on stderr, only when that fails."""
    # Python ignores these two, and what is ignored stays ignored across exec.
    for number in (signal.SIGPIPE, signal.SIGXFSZ):
        signal.signal(number, signal.SIG_DFL)
    try:
        os.execvpe(command[0], command, environment)
    except (FileNotFoundError, ValueError):
        return _complain("{}: command not found".format(command[0]), EXIT_NOT_FOUND)
    except OSError as error:
        return _complain("{}: cannot be executed: {}".format(command[0], error.strerror), EXIT_NOT_EXECUTABLE)


def _complain(message, code):
    sys.stderr.write("gpu-run: {}\n".format(message))
    # exec would drop what is still in the buffer.
    sys.stderr.flush()
    return code


def main(arguments=None, root="/"):
    """The program: returns an exit code, or does not return because it has become the command."""
    try:
        options, command = parse(sys.argv[1:] if arguments is None else arguments)
        environ, allowed = caller_environment(), os.sched_getaffinity(0)
        rank = find_rank(environ)
        launcher = find_launcher(rank) if rank else None
        policy = load_policy(root)
        decision = decide(options, command, environ, allowed, policy, root, launcher)
        apply(decision)
        if options.calibrate:
            from .calibration import calibrate

            return calibrate(options, command, environ, allowed, policy, root, launcher)
    except LaunchError as error:
        return _complain(str(error), EXIT_USAGE)
    except KeyboardInterrupt:
        return _complain("interrupted; nothing was written", EXIT_INTERRUPTED)
    if options.json or options.explain or options.dry_run:
        return _explain(options, decision, command)
    for warning in decision.warnings:
        _complain("warning: " + warning, 0)
    return start(command, decision.environment)


def _explain(options, decision, command):
    # Imported here: a start needs none of it.
    from . import launch_report

    if not options.dry_run:
        launch_report.examine(decision)
    name = "as_json" if options.json else "as_table" if options.explain else "shell_line"
    # As bytes: a variable of the caller's may hold what the terminal's encoding cannot.
    sys.stdout.buffer.write(os.fsencode(getattr(launch_report, name)(decision, command) + "\n"))
    return 0
