# SPDX-License-Identifier: Apache-2.0
"""gpu-run: start a command on the CPUs, memory and allocator that suit its GPUs, and become it.

The launcher ends in exec, so no process stays behind and exit code, signals, stdin and terminal are the command's own.
"""

import argparse
import json
import os
import signal
import sys

from .launch_decision import decide
from .runtime_policy import ALLOCATORS, LaunchError, load_policy
from .topology import format_cpu_list

VERSION = "0.1.0"
# The last two as a shell has them.
EXIT_USAGE = 2
EXIT_NOT_EXECUTABLE = 126
EXIT_NOT_FOUND = 127


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
    parser.add_argument("--allocator", choices=ALLOCATORS, help="memory allocator to preload (default: the policy's)")
    parser.add_argument("--explain", action="store_true", help="print every setting and its reason, run nothing")
    parser.add_argument("--json", action="store_true", help="like --explain, for programs")
    parser.add_argument("--dry-run", action="store_true", help="print the equivalent shell line, run nothing")
    parser.add_argument("--version", action="version", version="gpu-run " + VERSION)
    options, rest = parser.parse_known_args(arguments[:split])
    if rest:
        raise LaunchError("{!r} is no option of gpu-run; the command goes after --, see gpu-run --help".format(rest[0]))
    command = arguments[split + 1 :]
    if not command and not (options.explain or options.json or options.dry_run):
        raise LaunchError("no command given: gpu-run [options] -- command [argument ...]")
    return options, command


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


def shell_line(decision, command):
    """The same by hand: env and numactl in front of the command."""
    from shlex import quote

    words = ["env"] + ["{}={}".format(name, value) for name, value in sorted(decision.changed.items())]
    words += ["numactl", "--physcpubind=" + format_cpu_list(decision.cpus)]
    if decision.memory_policy != "none":
        option = "--preferred=" if decision.memory_policy == "preferred" else "--membind="
        words.append(option + format_cpu_list(decision.memory_nodes))
    return " ".join(quote(word) for word in words + ["--"] + (command or ["command"]))


def as_table(decision, command):
    """All settings with their reasons for a human reader."""
    rows = [["setting", "value", "why"]] + decision.rows
    widths = [max(len(row[column]) for row in rows) for column in (0, 1)]
    lines = ["{:{}}  {:{}}  {}".format(row[0], widths[0], row[1], widths[1], row[2]) for row in rows]
    lines += ["", "by hand: " + shell_line(decision, command)]
    return "\n".join(lines + ["warning: " + warning for warning in decision.warnings])


def as_json(decision, command):
    """The same for programs."""
    answer = {
        "schema": 1,
        "gpus": [dict(gpu._asdict()) for gpu in decision.gpus],
        "cpus": format_cpu_list(decision.cpus),
        "memory_policy": decision.memory_policy,
        "memory_nodes": decision.memory_nodes,
        "environment": decision.changed,
        "settings": [{"setting": row[0], "value": row[1], "why": row[2]} for row in decision.rows],
        "by_hand": shell_line(decision, command),
        "warnings": decision.warnings,
    }
    return json.dumps(answer, indent=2, sort_keys=True)


def main(arguments=None, root="/"):
    """The program: returns an exit code, or does not return because it has become the command."""
    try:
        options, command = parse(sys.argv[1:] if arguments is None else arguments)
        decision = decide(options, caller_environment(), os.sched_getaffinity(0), load_policy(root), root)
    except LaunchError as error:
        return _complain(str(error), EXIT_USAGE)
    apply(decision)
    if options.json or options.explain or options.dry_run:
        printer = as_json if options.json else as_table if options.explain else shell_line
        # As bytes: a variable of the caller's may hold what the terminal's encoding cannot.
        sys.stdout.buffer.write(os.fsencode(printer(decision, command) + "\n"))
        return 0
    for warning in decision.warnings:
        _complain("warning: " + warning, 0)
    return start(command, decision.environment)
