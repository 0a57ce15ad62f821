# SPDX-License-Identifier: Apache-2.0
"""Which of the processes on this host this one is, and what the launcher that started it has already arranged.

docs/runtime.md has a table of the launchers with their variables, which a test compares with RANK_VARIABLES.
Sources: torchrun (environment variables), DeepSpeed (launcher/launch.py), Open MPI, MVAPICH2, MPICH and Intel MPI
(Hydra), Cray PALS and PMI (local rank), srun(1) (output environment).
"""

import os

from ..host.files import is_digits, read_colon_lines, read_text, to_int
from ..host.named_tuple import Record
from .runtime_policy import LaunchError

# Importing typing would take a third of gpu-run's start time: its names are only for the type checker.
TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import AbstractSet, Dict, List, Mapping, Optional, Sequence, Set, Tuple

# Maximum number of digits of a rank or a device.
MOST_DIGITS = 9
TORCH_RANK = "LOCAL_RANK"
# (rank on this host, names of the number of ranks on this host) as the launchers call them, the innermost first:
# torchrun may run below srun or mpirun. LOCAL_SIZE is DeepSpeed's.
RANK_VARIABLES = (
    (TORCH_RANK, ("LOCAL_WORLD_SIZE", "LOCAL_SIZE")),
    ("OMPI_COMM_WORLD_LOCAL_RANK", ("OMPI_COMM_WORLD_LOCAL_SIZE",)),
    ("MV2_COMM_WORLD_LOCAL_RANK", ("MV2_COMM_WORLD_LOCAL_SIZE",)),
    ("MPI_LOCALRANKID", ("MPI_LOCALNRANKS",)),
    ("PALS_LOCAL_RANKID", ("PALS_LOCAL_SIZE",)),
    ("PMI_LOCAL_RANK", ("PMI_LOCAL_SIZE",)),
)
SLURM_RANK = "SLURM_LOCALID"
SLURM_COUNT = "SLURM_STEP_TASKS_PER_NODE"
# Set by launchers that themselves set LOCAL_RANK; without them, a script may have copied it from another launcher.
OF_TORCH = ("TORCHELASTIC_RUN_ID", "LOCAL_SIZE")
LAUNCHER_PROGRAMS = ("torchrun", "mpirun", "mpiexec", "orterun", "prterun", "srun", "deepspeed", "accelerate")
LAUNCHER_MODULES = (
    "torch.distributed.run",
    "torch.distributed.launch",
    "accelerate.commands.launch",
    "deepspeed.launcher.runner",
)
SHELLS = ("bash", "sh", "dash", "zsh", "ksh")
MAX_ANCESTORS = 8


class Rank(Record):
    """This process among the ranks on this host.

    index     0 <= index < count
    count     number of ranks on this host, None if the launcher does not say
    variable  the variable that gave the rank, of the innermost launcher
    each      ranks that the innermost launcher started on this host; less than `count` if launchers are nested
    """

    __slots__ = ("index", "count", "variable", "each")
    index: int
    count: "Optional[int]"
    variable: str
    each: "Optional[int]"

    def __init__(self, index: int, count: "Optional[int]", variable: str, each: "Optional[int]" = None) -> None:
        super().__init__(index, count, variable, each or count)


class Launcher(Record):
    """The process that started the ranks: CPUs it may use, its command line, the environment it was started with."""

    __slots__ = ("cpus", "command", "environment")
    cpus: "Set[int]"
    command: "List[str]"
    environment: "Dict[str, str]"


def find_rank(environ: "Mapping[str, str]") -> "Optional[Rank]":
    """The `Rank` that the environment names, None for a single process; LaunchError for impossible numbers.

    If several launchers have set one, the ranks of the inner one are counted within each rank of the outer one.
    """
    return combined(find_ranks(environ))


def combined(ranks: "Sequence[Rank]") -> "Optional[Rank]":
    """One `Rank` for those of nested launchers, the innermost first."""
    if not ranks:
        return None
    inner, index, count = ranks[0], ranks[0].index, ranks[0].count
    for outer in ranks[1:]:
        if count is None or outer.count is None:
            return Rank(inner.index, None, inner.variable)
        index, count = outer.index * count + index, outer.count * count
    return Rank(index, count, inner.variable, inner.count)


def find_ranks(environ: "Mapping[str, str]") -> "List[Rank]":
    """A `Rank` for every launcher that has set one, in the order of RANK_VARIABLES; none for single processes."""
    found = []
    for rank_name, count_names in RANK_VARIABLES:
        count_name = next((name for name in count_names if environ.get(name)), count_names[0])
        index, count = _whole_number(environ, rank_name, 0), _whole_number(environ, count_name, 1)
        if index is None:
            continue
        if count is not None and index >= count:
            raise LaunchError(f"{rank_name}={index} is not below {count_name}={count}")
        # A single process of mpirun has all GPUs; one of torchrun takes the first even if it is the only process.
        if rank_name == TORCH_RANK or count != 1:
            found.append(Rank(index, count, rank_name))
    slurm = _slurm_rank(environ)
    found += [slurm] if slurm else []
    torch, rest = found[:1], found[1:]
    if torch and torch[0].variable != TORCH_RANK:
        torch, rest = [], found
    # One launcher often sets several variables to the same numbers.
    outer = [rank for place, rank in enumerate(rest) if not any(_alike(rank, other) for other in rest[:place])]
    if torch and not any(environ.get(name) for name in OF_TORCH):
        torch = [] if any(_alike(torch[0], rank) for rank in outer) else torch
    return torch + outer


def _alike(rank: Rank, other: Rank) -> bool:
    return rank.index == other.index and (rank.count == other.count or None in (rank.count, other.count))


def _slurm_rank(environ: "Mapping[str, str]") -> "Optional[Rank]":
    """The rank of a task that srun started; the batch script itself also has a SLURM_LOCALID, but is not a step."""
    index = _whole_number(environ, SLURM_RANK, 0)
    if index is None or not (environ.get("SLURM_STEP_ID") or environ.get("SLURM_STEPID")):
        return None
    # srun --pty: a user's shell is task 0, and the others have ended.
    if environ.get("SLURM_PTY_PORT"):
        return None
    count = _slurm_count(environ)
    if count is not None and index >= count:
        raise LaunchError(f"{SLURM_RANK}={index}, but this node has {count} task(s) by {SLURM_COUNT}")
    return Rank(index, count, SLURM_RANK) if count != 1 else None


def _slurm_count(environ: "Mapping[str, str]") -> "Optional[int]":
    """Tasks of this step on this node: entry SLURM_NODEID of a list such as "4(x2),3"."""
    node = _whole_number(environ, "SLURM_NODEID", 0) or 0
    for part in environ.get(SLURM_COUNT, "").split(","):
        tasks, repeated, times = part.partition("(x")
        times = times[:-1] if times.endswith(")") else ""
        if not is_digits(tasks, 6) or (repeated and not is_digits(times, 6)):
            break
        node -= int(times) if repeated else 1
        if node < 0:
            return int(tasks) or None
    if environ.get("SLURM_STEP_NUM_TASKS") == "1":
        return 1
    return to_int(environ.get("SLURM_NTASKS_PER_NODE")) or None


def _whole_number(environ: "Mapping[str, str]", name: str, least: int) -> "Optional[int]":
    """The number in a variable that launchers set, None if it is not set or empty."""
    text = environ.get(name)
    if not text:
        return None
    if not is_digits(text, MOST_DIGITS) or int(text) < least:
        raise LaunchError(f"{name}={text!r}: expected a whole number from {least}")
    return int(text)


def is_launcher(command: "Sequence[str]") -> bool:
    """Whether the command starts the ranks itself, such as torchrun or python -m torch.distributed.run."""
    names = [os.path.basename(word) for word in command[:2]]
    if not names:
        return False
    # mpiexec.hydra, mpirun.openmpi; and torchrun's file, started with a Python.
    named = names[0].split(".")[0] in LAUNCHER_PROGRAMS
    named = named or (names[0].startswith("python") and names[-1] in LAUNCHER_PROGRAMS)
    return named or ("-m" in command and any(word in LAUNCHER_MODULES for word in command))


def is_script(command: "Sequence[str]") -> bool:
    """Whether the command is a shell script, which may start a launcher, and with it any number of ranks."""
    return bool(command) and (os.path.basename(command[0]) in SHELLS or command[0].endswith(".sh"))


def ranks_on(cpus: "AbstractSet[int]", rank: Rank, launcher: "Optional[Launcher]") -> int:
    """How many ranks run on this rank's `cpus`, if the launcher that bound it has given all ranks equal parts."""
    if launcher is None or not launcher.cpus or rank.each is None:
        return 1
    return min(rank.each, max(1, -(-len(cpus) * rank.each // len(launcher.cpus))))


def find_place(environ: "Mapping[str, str]") -> "Tuple[Optional[Rank], Optional[Launcher]]":
    """The `Rank` of this process and its innermost `Launcher`, by the environment and the processes above this one.

    Only the processes show which launcher is the inner one, and whether the outer one has given each of its ranks its
    own CPUs.
    """
    ranks = find_ranks(environ)
    above = {rank.variable: _launcher_above(rank) for rank in ranks}
    if len(ranks) > 1 and all(launcher for launcher, _ in above.values()):
        ranks.sort(key=lambda rank: above[rank.variable][1])
        for place, rank in enumerate(ranks[1:], 1):
            inner, outer = above[ranks[place - 1].variable][0], above[rank.variable][0]
            if inner and outer and inner.cpus < outer.cpus:
                ranks = ranks[:place]
                break
    return combined(ranks), above[ranks[0].variable][0] if ranks else None


def find_launcher(rank: Rank) -> "Optional[Launcher]":
    """The `Launcher` of this rank: the nearest ancestor started without the rank's variable; None if not visible."""
    return _launcher_above(rank)[0]


def _launcher_above(rank: Rank) -> "Tuple[Optional[Launcher], int]":
    """(the `Launcher`, how many processes above this one it is)."""
    pid = os.getppid()
    for steps in range(MAX_ANCESTORS):
        environment = _pairs(_read_zeros(pid, "environ"))
        if not pid or not environment:
            break
        if rank.variable not in environment:
            try:
                return Launcher(os.sched_getaffinity(pid), _read_zeros(pid, "cmdline"), environment), steps
            except OSError:
                break
        pid = to_int(read_colon_lines(read_text("/", f"/proc/{pid}/status")).get("PPid")) or 0
    return None, MAX_ANCESTORS


def _read_zeros(pid: int, name: str) -> "List[str]":
    """The strings in a /proc file that separates them with null bytes; [] if it cannot be read."""
    try:
        with open(f"/proc/{pid}/{name}", "rb") as file:
            return [os.fsdecode(word) for word in file.read().split(b"\0")[:-1]]
    except OSError:
        return []


def _pairs(words: "Sequence[str]") -> "Dict[str, str]":
    return dict(word.split("=", 1) for word in words if "=" in word)


def bound_by(
    rank: Rank, environ: "Mapping[str, str]", allowed_cpus: "AbstractSet[int]", launcher: "Optional[Launcher]"
) -> str:
    """What has already given this rank its own CPUs, so that gpu-run must not divide them again; "" if nothing has."""
    if rank.variable == SLURM_RANK:
        kind = environ.get("SLURM_CPU_BIND_TYPE", "")
        masks = environ.get("SLURM_CPU_BIND_LIST", "").split(",")
        # By default, Slurm binds every task to the whole allocation: one mask, repeated.
        shared = kind in ("", "none") or (len(masks) > 1 and len(set(masks)) == 1)
        return "" if shared else "srun --cpu-bind"
    if launcher is None:
        return ""
    if any(word.startswith(("--numa-binding", "--numa_binding")) for word in launcher.command):
        return "torchrun --numa-binding"
    return "the launcher" if allowed_cpus < launcher.cpus else ""


def is_torchruns_filler(environ: "Mapping[str, str]", launcher: "Optional[Launcher]") -> bool:
    """Whether OMP_NUM_THREADS=1 comes from torchrun, which sets it for several ranks if nothing else has."""
    ours = environ.get("OMP_NUM_THREADS") == "1" and "TORCHELASTIC_RUN_ID" in environ
    return bool(ours and launcher and "OMP_NUM_THREADS" not in launcher.environment)
