# SPDX-License-Identifier: Apache-2.0
"""Which of the processes on this host this one is, and what the launcher that started it has already arranged.

Sources: torchrun (environment variables), Open MPI, MVAPICH2 and Intel MPI (local rank), srun(1) (output environment).
"""

import os

from ..host.files import is_digits, read_colon_lines, read_text, to_int
from ..host.record import Record
from .runtime_policy import LaunchError

# Digits of a rank or a device.
MOST_DIGITS = 9
# (rank on this host, names of the number of ranks on this host) as the launchers call them, most specific first:
# torchrun may run below srun or mpirun. LOCAL_SIZE is DeepSpeed's.
RANK_VARIABLES = (
    ("LOCAL_RANK", ("LOCAL_WORLD_SIZE", "LOCAL_SIZE")),
    ("OMPI_COMM_WORLD_LOCAL_RANK", ("OMPI_COMM_WORLD_LOCAL_SIZE",)),
    ("MV2_COMM_WORLD_LOCAL_RANK", ("MV2_COMM_WORLD_LOCAL_SIZE",)),
    ("MPI_LOCALRANKID", ("MPI_LOCALNRANKS",)),
)
SLURM_RANK = "SLURM_LOCALID"
LAUNCHER_PROGRAMS = ("torchrun", "mpirun", "mpiexec", "orterun", "srun", "deepspeed", "accelerate")
LAUNCHER_MODULES = ("torch.distributed.run", "torch.distributed.launch", "accelerate.commands.launch")
SHELLS = ("bash", "sh", "dash", "zsh", "ksh")
MAX_ANCESTORS = 8


class Rank(Record):
    """This process among the ranks on this host: 0 <= index < count; the variable that told."""

    __slots__ = ("index", "count", "variable")


class Launcher(Record):
    """The process that started the ranks: CPUs it may use, its words, the environment it was born with."""

    __slots__ = ("cpus", "command", "environment")


def find_rank(environ):
    """The `Rank` that the environment names, None for a process on its own; LaunchError for numbers that cannot be."""
    for rank_name, count_names in RANK_VARIABLES:
        count_name = next((name for name in count_names if environ.get(name)), count_names[0])
        index, count = _whole_number(environ, rank_name, 0), _whole_number(environ, count_name, 1)
        if index is None:
            continue
        if count is not None and index >= count:
            raise LaunchError(f"{rank_name}={index} is not below {count_name}={count}")
        # One process of mpirun's has all GPUs; torchrun's takes the first even when it is alone.
        if rank_name == "LOCAL_RANK" or (count or index + 1) > 1:
            return Rank(index, count or index + 1, rank_name)
    return _slurm_rank(environ)


def _slurm_rank(environ):
    """The rank of a task that srun started; the batch script itself has a SLURM_LOCALID too, but is no step."""
    index = _whole_number(environ, SLURM_RANK, 0)
    if index is None or not (environ.get("SLURM_STEP_ID") or environ.get("SLURM_STEPID")):
        return None
    count = _slurm_count(environ) or index + 1
    if index >= count:
        raise LaunchError(f"{SLURM_RANK}={index}, but this node has {count} task(s) by SLURM_STEP_TASKS_PER_NODE")
    return Rank(index, count, SLURM_RANK) if count > 1 else None


def _slurm_count(environ):
    """Tasks of this step on this node: entry SLURM_NODEID of a list such as "4(x2),3"."""
    node = _whole_number(environ, "SLURM_NODEID", 0) or 0
    for part in environ.get("SLURM_STEP_TASKS_PER_NODE", "").split(","):
        tasks, repeated, times = part.partition("(x")
        times = times[:-1] if times.endswith(")") else ""
        if not is_digits(tasks, 6) or (repeated and not is_digits(times, 6)):
            break
        node -= int(times) if repeated else 1
        if node < 0:
            return int(tasks) or None
    return to_int(environ.get("SLURM_NTASKS_PER_NODE")) or None


def _whole_number(environ, name, least):
    """The number in a variable that launchers set, None when it is not set or empty."""
    text = environ.get(name)
    if not text:
        return None
    if not is_digits(text, MOST_DIGITS) or int(text) < least:
        raise LaunchError(f"{name}={text!r}: expected a whole number from {least}")
    return int(text)


def is_launcher(command):
    """Whether the command starts the ranks itself, such as torchrun or python -m torch.distributed.run."""
    if not command:
        return False
    named = os.path.basename(command[0]) in LAUNCHER_PROGRAMS
    return named or ("-m" in command and any(word in LAUNCHER_MODULES for word in command))


def is_script(command):
    """Whether the command is a script of a shell, which may start a launcher, and with it any number of ranks."""
    return bool(command) and (os.path.basename(command[0]) in SHELLS or command[0].endswith(".sh"))


def ranks_on(cpus, rank, launcher):
    """How many ranks run on this rank's `cpus`, where who bound it has given all ranks equally many of its own."""
    if launcher is None or not launcher.cpus:
        return 1
    return min(rank.count, max(1, -(-len(cpus) * rank.count // len(launcher.cpus))))


def find_launcher(rank):
    """The `Launcher` of this rank: the nearest ancestor that was born without the rank's variable; None if unseen."""
    pid = os.getppid()
    for _ in range(MAX_ANCESTORS):
        environment = _pairs(_read_zeros(pid, "environ"))
        if not pid or not environment:
            return None
        if rank.variable not in environment:
            try:
                return Launcher(os.sched_getaffinity(pid), _read_zeros(pid, "cmdline"), environment)
            except OSError:
                return None
        pid = to_int(read_colon_lines(read_text("/", f"/proc/{pid}/status")).get("PPid")) or 0
    return None


def _read_zeros(pid, name):
    """The strings of a file of /proc that separates them with zeros; [] when it cannot be read."""
    try:
        with open(f"/proc/{pid}/{name}", "rb") as file:
            return [os.fsdecode(word) for word in file.read().split(b"\0")[:-1]]
    except OSError:
        return []


def _pairs(words):
    return dict(word.split("=", 1) for word in words if "=" in word)


def bound_by(rank, environ, allowed_cpus, launcher):
    """What has already given this rank CPUs of its own, "" when nothing has: then gpu-run must not divide again."""
    if rank.variable == SLURM_RANK:
        kind = environ.get("SLURM_CPU_BIND_TYPE", "")
        masks = environ.get("SLURM_CPU_BIND_LIST", "").split(",")
        # Slurm binds every task to the whole allocation unless told otherwise: one mask, repeated.
        shared = kind in ("", "none") or (len(masks) > 1 and len(set(masks)) == 1)
        return "" if shared else "srun --cpu-bind"
    if launcher is None:
        return ""
    if any(word.startswith(("--numa-binding", "--numa_binding")) for word in launcher.command):
        return "torchrun --numa-binding"
    return "the launcher" if allowed_cpus < launcher.cpus else ""


def is_torchruns_filler(environ, launcher):
    """Whether OMP_NUM_THREADS=1 comes from torchrun, which sets it for several ranks when nobody else has."""
    ours = environ.get("OMP_NUM_THREADS") == "1" and "TORCHELASTIC_RUN_ID" in environ
    return bool(ours and launcher and "OMP_NUM_THREADS" not in launcher.environment)
