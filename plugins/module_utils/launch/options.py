# SPDX-License-Identifier: Apache-2.0
"""gpu-run's command line, without argparse, whose import takes as long as the rest of a start."""

from ..host.files import to_int
from .runtime_policy import ALLOCATORS, MEMORY_POLICIES, NUMA_MODES, LaunchError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import List, Optional, Sequence, Tuple, Union

USAGE = "usage: gpu-run [options] -- command [argument ...]"
DESCRIPTION = "Run a command on the CPUs, memory and allocator that suit its GPUs."
EPILOG = "What the environment already sets takes precedence over the policy /etc/gpuwright/runtime.json."
DEFAULT_ROUNDS = 10
FLAG, TEXT, COUNT = "flag", "text", "count"
# name: (kind or choices, name of the value, help)
OPTIONS = {
    "--gpus": (TEXT, "0,1", "GPUs to use, numbered in PCI order, or their UUIDs (default: all visible ones)"),
    "--node": (TEXT, "0", "NUMA nodes to run on (default: those of the GPUs)"),
    "--numa": (
        NUMA_MODES,
        "MODE",
        "CPUs of the GPU's node (default; ranks also get nodes of its socket that have no GPU), socket, none: any CPUs",
    ),
    "--memory": (
        MEMORY_POLICIES,
        "MODE",
        "memory of those nodes: preferred (the others when it is full), bind (never the others), none",
    ),
    "--exclusive": (FLAG, "", "refuse to start a rank that would share a core with another"),
    "--no-smt": (FLAG, "", "use one CPU of each core"),
    "--nic": (FLAG, "", "give NCCL the InfiniBand cards nearest to the GPUs (NCCL_IB_HCA); else it chooses by itself"),
    "--threads": (COUNT, "N", "OMP_NUM_THREADS (default: physical cores of the CPU set)"),
    "--allocator": (
        ALLOCATORS,
        "NAME",
        "preload: calibrated (what --calibrate has proven, before that nothing), jemalloc, tcmalloc, none",
    ),
    "--explain": (FLAG, "", "print every setting and its reason, run nothing"),
    "--json": (FLAG, "", "like --explain, for programs"),
    "--dry-run": (FLAG, "", "print the equivalent shell line, run nothing; with --calibrate: write nothing"),
    "--check": (FLAG, "", "look at the ranks that run now, or at those of the process PID: gpu-run --check [PID]"),
    "--calibrate": (FLAG, "", "measure the command with each allocator, keep the one proven faster than malloc"),
    "--user": (
        TEXT,
        "NAME",
        "with --calibrate as root: the user who runs the command (default: the one who called sudo)",
    ),
    "--rounds": (COUNT, "N", f"with --calibrate: rounds (default: {DEFAULT_ROUNDS})"),
    "--metric": (
        TEXT,
        "REGEX",
        "with --calibrate: judge by the last number that the command prints in the parentheses of REGEX, not by time",
    ),
    "--lower-is-better": (FLAG, "", "with --metric: a lower number is better"),
    "--help": (FLAG, "", "print this"),
    "--version": (FLAG, "", "print the version"),
}


class Options:
    """One attribute for each option, with underscores for dashes: bool for a flag, else text, number or None."""

    gpus: "Optional[str]"
    node: "Optional[str]"
    numa: "Optional[str]"
    memory: "Optional[str]"
    exclusive: bool
    no_smt: bool
    nic: bool
    threads: "Optional[int]"
    allocator: "Optional[str]"
    explain: bool
    json: bool
    dry_run: bool
    check: bool
    calibrate: bool
    user: "Optional[str]"
    rounds: int
    metric: "Optional[str]"
    lower_is_better: bool
    help: bool
    version: bool

    def __init__(self) -> None:
        for name, (kind, _, _) in OPTIONS.items():
            setattr(self, _attribute(name), False if kind == FLAG else None)


def _attribute(name: str) -> str:
    return name[2:].replace("-", "_")


def parse(arguments: "Sequence[str]") -> "Tuple[Options, List[str]]":
    """(`Options`, command) of a command line; what follows the first "--" or begins with a bare word is the command's.

    The bare word is for torchrun, which removes the "--" from the command line that it starts.
    Raises LaunchError, one sentence, for anything that cannot be understood.
    """
    options = Options()
    words, command = list(arguments), []
    while words:
        word = words.pop(0)
        if not word.startswith("-") or word == "--":
            command = words if word == "--" else [word, *words]
            break
        name, equals, value = word.partition("=")
        name = "--help" if name == "-h" else name
        if name not in OPTIONS:
            raise LaunchError(f"{word!r} is not an option of gpu-run; the command goes after --, see gpu-run --help")
        kind = OPTIONS[name][0]
        if kind == FLAG:
            if equals:
                raise LaunchError(f"{name} takes no value")
            setattr(options, _attribute(name), True)
            continue
        if not equals:
            if not words or words[0] == "--":
                raise LaunchError(f"{name} needs a value; see gpu-run --help")
            value = words.pop(0)
        setattr(options, _attribute(name), _checked(name, kind, value))
    if not (options.help or options.version):
        _check_together(options, command)
    options.rounds = options.rounds or DEFAULT_ROUNDS
    return options, command


def _checked(name: str, kind: "Union[str, Sequence[str]]", value: str) -> "Union[str, int]":
    if kind == TEXT:
        return value
    if kind == COUNT:
        number = to_int(value)
        if number is None or not 0 < number < 10**6:
            raise LaunchError(f"{name} {value!r}: expected a whole number from 1")
        return number
    if value not in kind:
        raise LaunchError(f"{name} {value!r}: choose from {', '.join(kind)}")
    return value


def _check_together(options: Options, command: "Sequence[str]") -> None:
    if not options.calibrate and (options.rounds or options.metric is not None or options.lower_is_better):
        raise LaunchError("--rounds, --metric and --lower-is-better go with --calibrate")
    if not options.calibrate and options.user is not None:
        raise LaunchError("--user goes with --calibrate; to run a command as another user: sudo -u NAME gpu-run ...")
    if options.lower_is_better and options.metric is None:
        raise LaunchError("--lower-is-better goes with --metric; a lower wall time is always better")
    if options.node is not None and options.numa is not None:
        raise LaunchError("--node names the nodes, --numa says how to find them: choose one")
    if options.calibrate and options.explain:
        raise LaunchError("--calibrate and --explain: choose one")
    if options.check:
        others = [name for name in OPTIONS if name not in ("--check", "--json") and getattr(options, _attribute(name))]
        if others or len(command) > 1 or not all(to_int(word) for word in command):
            raise LaunchError("--check takes at most the id of one process, and no other option than --json")
    elif not command and not (options.explain or options.json or options.dry_run or options.calibrate):
        raise LaunchError("no command given: gpu-run [options] -- command [argument ...]")


def help_text() -> str:
    """The text that --help prints."""
    lines = [USAGE, "", DESCRIPTION, "", "options:"]
    for name, (_, value, text) in OPTIONS.items():
        lines.append(f"  {(name + ' ' + value).strip():20} {text}")
    return "\n".join(lines + ["", EPILOG])
