# SPDX-License-Identifier: Apache-2.0
"""Which process of how many this one is, by what its launcher says: torchrun, or Slurm's srun.

Half of what one of them says is no answer: one process would train alone, and the others stand before its folder.
Sources: torchrun (environment variables of the workers); srun(1), output environment; slurm.conf(5), hostlist.
"""

from __future__ import annotations

from typing import Mapping, NamedTuple

from ..errors import UsageError

# Where they meet, torch asks for itself.
OF_TORCH = ("RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE")
# Numbers of processes by other launchers, which say no address for all to meet at.
OTHERS = ("OMPI_COMM_WORLD_SIZE", "PMI_SIZE", "MV2_COMM_WORLD_SIZE", "PALS_SIZE")
OF_SLURM = ("SLURM_PROCID", "SLURM_LOCALID", "SLURM_NODEID", "SLURM_STEP_TASKS_PER_NODE", "SLURM_STEP_NODELIST")
HERE = "127.0.0.1"
# Below the ports that Linux gives to outgoing connections. Steps of jobs that share a host get others.
FIRST_PORT, PORTS = 15_000, 16_000
START = "start it with torchrun, or with srun on Slurm"


class Place(NamedTuple):
    """`rank` of `world`, `local_rank` of `local_world` on this host; `meet` is where all meet, "" where torch knows."""

    rank: int
    world: int
    local_rank: int
    local_world: int
    meet: str = ""


def find_place(environ: Mapping[str, str]) -> Place | None:
    """None for a single process. Raises UsageError, one sentence, where a launcher says less than is needed."""
    if any(environ.get(name) for name in OF_TORCH):
        return place_of_torch(environ)
    # srun --pty: a person's shell.
    if (environ.get("SLURM_STEP_ID") or environ.get("SLURM_STEPID")) and not environ.get("SLURM_PTY_PORT"):
        tasks = environ.get("SLURM_STEP_NUM_TASKS") or environ.get("SLURM_NTASKS") or ""
        if tasks != "1":
            return place_of_slurm(environ, tasks)
        return None
    for name in OTHERS:
        if environ.get(name, "1") != "1":
            raise UsageError(f"{name} says that there are {environ[name]} processes, and not where they meet; {START}")
    return None


def place_of_torch(environ: Mapping[str, str]) -> Place:
    demand(environ, OF_TORCH, OF_TORCH, f"{START}, or unset them for a single process")
    rank, world, local, local_world = (number(environ, name, at % 2) for at, name in enumerate(OF_TORCH))
    below(f"RANK={rank}", rank, f"WORLD_SIZE={world}", world)
    below(f"LOCAL_RANK={local}", local, f"LOCAL_WORLD_SIZE={local_world}", local_world)
    return Place(rank, world, local, local_world)


def place_of_slurm(environ: Mapping[str, str], tasks: str) -> Place:
    """Of a task of a step. Its processes meet on the first host of the step, or at MASTER_ADDR and MASTER_PORT."""
    known = {**environ, "SLURM_STEP_NUM_TASKS": tasks}
    known["SLURM_STEP_NODELIST"] = environ.get("SLURM_STEP_NODELIST") or environ.get("SLURM_JOB_NODELIST") or ""
    demand(known, (*OF_SLURM, "SLURM_STEP_NUM_TASKS"), ("SLURM_STEP_ID",), "start torchrun with srun instead")
    world, rank = number(known, "SLURM_STEP_NUM_TASKS", 1), number(known, "SLURM_PROCID", 0)
    local, node = number(known, "SLURM_LOCALID", 0), number(known, "SLURM_NODEID", 0)
    counts = tasks_per_node(known["SLURM_STEP_TASKS_PER_NODE"])
    if sum(counts) != world or node >= len(counts):
        raise UsageError(
            f"SLURM_STEP_TASKS_PER_NODE={known['SLURM_STEP_TASKS_PER_NODE']}: expected {world} tasks of which some are "
            f"on node {node}; start torchrun with srun instead"
        )
    below(f"SLURM_PROCID={rank}", rank, f"SLURM_STEP_NUM_TASKS={world}", world)
    below(f"SLURM_LOCALID={local}", local, f"SLURM_STEP_TASKS_PER_NODE={counts[node]}", counts[node])
    host = environ.get("MASTER_ADDR") or (HERE if len(counts) == 1 else first_host(known["SLURM_STEP_NODELIST"]))
    port = environ.get("MASTER_PORT") or str(port_of(environ))
    return Place(rank, world, local, counts[node], f"tcp://{host}:{port}")


def demand(environ: Mapping[str, str], needed: tuple[str, ...], told: tuple[str, ...], instead: str) -> None:
    missing = [name for name in needed if not environ.get(name)]
    if missing:
        there = [name for name in told if environ.get(name)]
        raise UsageError(
            f"{', '.join(there)} say that there are several processes, without {', '.join(missing)}; {instead}"
        )


def number(environ: Mapping[str, str], name: str, least: int) -> int:
    text = environ[name]
    if not (text.isascii() and text.isdecimal() and int(text) >= least):
        raise UsageError(f"{name}={text!r}: expected a whole number from {least}; {START}")
    return int(text)


def below(one: str, index: int, other: str, count: int) -> None:
    if index >= count:
        raise UsageError(f"{one} is not below {other}; {START}")


def tasks_per_node(text: str) -> list[int]:
    """`2(x3),1` as [2, 2, 2, 1]; [] for another form."""
    found: list[int] = []
    for part in text.split(","):
        tasks, repeated, times = part.partition("(x")
        times = times[:-1] if repeated and times.endswith(")") else "" if repeated else "1"
        if not (tasks.isascii() and tasks.isdecimal() and times.isascii() and times.isdecimal()):
            return []
        found += [int(tasks)] * int(times)
    return found


def first_host(nodes: str) -> str:
    """Of a list such as `gpu[07-09,12]-ib[0-1],login`: gpu07-ib0."""
    found, inside = "", False
    first = True
    for letter in nodes:
        if letter == "[":
            inside, first = True, True
        elif letter == "]":
            inside = False
        elif inside:
            first = first and letter not in "-,"
            found += letter if first else ""
        elif letter == ",":
            break
        else:
            found += letter
    return found


def port_of(environ: Mapping[str, str]) -> int:
    """The same for all tasks of a step."""
    job, step = (environ.get(name, "") for name in ("SLURM_JOB_ID", "SLURM_STEP_ID"))
    numbers = [int(text) if text.isascii() and text.isdecimal() else 0 for text in (job, step)]
    return FIRST_PORT + (numbers[0] * 31 + numbers[1]) % PORTS
