# SPDX-License-Identifier: Apache-2.0
"""Who is working on this host at this moment, since when, on which GPUs and from which environments.

The only place that decides this; in case of doubt, somebody is working. Read right before a step that would harm work:
`in_way` says whose, depending on what the step touches.
"""

import os
from typing import Any, Collection, Dict, Iterable, List, Mapping, Optional, Tuple

from ..gpu.agents import describe_process, is_agent
from ..host.in_child import examine_each
from ..host.process_use import VENVS, Folder, read_use
from ..host.processes import command_name, parent_of, process_ids, why_hidden
from .use import read_ancestors, read_jobs, read_users

# A process that answers does so within milliseconds.
SECONDS = 5.0
# What a step may touch, and whose work that would harm.
GPU, CARDS, ENVIRONMENT, HOST = "gpu", "cards", "environment", "host"
TOUCHES = (GPU, CARDS, ENVIRONMENT, HOST)
MOST_NAMED = 3
JOB = "slurm job "

Workload = Dict[str, Any]


def read_workloads(
    root: str = "/", own_pid: Optional[int] = None, agents: Iterable[str] = (), venvs: str = VENVS
) -> Dict[str, Any]:
    """`{workloads: [row], users: [name], environments: {path: who}}` of this moment.

    workloads     {what, name, pid, processes (how many), user, since (UTC), cards, given, environments, by_link,
                  unreadable}: one row for a service, a job, a container, or a process with all that it started.
                  `unreadable` says why it cannot be determined what it is; then it may be anything
    users         who is logged in besides this connection
    environments  every environment that somebody runs from, has open or has as working folder, agents included

    Processes with `own_pid` among their children are the caller itself. `agents` are further names of programs that
    lose nothing (`gpu.agents`).
    """
    own = read_ancestors(root, os.getpid() if own_pid is None else own_pid)
    hidden = why_hidden(root)
    folder = Folder(root, venvs)
    pids = [pid for pid in process_ids(root) if pid not in own]
    answers = examine_each(lambda pid: read_use(folder, pid), pids, SECONDS)
    uses = {pid: answers[index] for index, pid in enumerate(pids) if answers[index] != {}}
    uses = {pid: _unreadable(root, pid) if use is None else use for pid, use in uses.items()}
    denied = [pid for pid in uses if uses[pid].get("denied")]
    named = {pid: use for pid, use in uses.items() if _says_something(use)}
    working = {pid: use for pid, use in named.items() if use["job"] or not is_agent(use["name"], agents)}
    rows = [row for row in (_row(root, *group) for group in _groups(root, working)) if _counts(row)]
    found = {row["what"] for row in rows}
    rows += [_plain(job, _is_unknown(job)) for job in read_jobs(root) if not _is_known(job, found)]
    if denied:
        why = "only root can examine them" if os.geteuid() else "the kernel does not let root examine them"
        rows.append(_plain(f"{len(denied)} unknown processes", why))
    if hidden:
        rows.append(_plain("unknown processes", hidden))
    return {
        "workloads": sorted(rows, key=lambda row: (row["since"] or "", row["what"])),
        "users": read_users(root, own, hidden),
        "environments": _held(root, named),
    }


def _unreadable(root: str, pid: int) -> Dict[str, Any]:
    """A process that did not answer: treated as if it used everything."""
    return {
        "name": command_name(root, pid), "cards": [], "given": False, "environments": [], "held": [], "by_link": False,
        "denied": False, "job": "", "container": "", "unit": "", "silent": True,
    }  # fmt: skip


def _says_something(use: Mapping[str, Any]) -> bool:
    return any(use.get(name) for name in ("cards", "given", "environments", "held", "job", "silent"))


def _counts(row: Workload) -> bool:
    """Whether it is work: having a folder open is not, and work in a container with a GPU is its programs'."""
    return bool(row["cards"] or row["given"] or row["environments"] or row["unreadable"] or row["job"])


def _is_unknown(job: str) -> str:
    return job if job.startswith("unknown") else ""


def _is_known(job: str, found: Collection[str]) -> bool:
    """Whether processes were found that belong to it; a step daemon's own process adds nothing to its job."""
    return job in found or (job.startswith("slurm step") and any(what.startswith(JOB) for what in found))


def _groups(root: str, working: Mapping[int, Any]) -> List[Tuple[str, List[Any]]]:
    """[(what, [(pid, use)])]: what belongs together, with the process that started it first."""
    groups = {}  # type: Dict[str, List[Any]]
    for pid, use in sorted(working.items()):
        if use["job"]:
            what = JOB + use["job"]
        elif use["container"]:
            what = "container " + use["container"]
        elif use["unit"]:
            what = use["unit"]
        else:
            what = f"process {_first_of(root, pid, working)}"
        groups.setdefault(what, []).append((pid, use))
    return sorted(groups.items())


def _first_of(root: str, pid: int, working: Mapping[int, Any]) -> int:
    """The outermost parent that is working, too: a training run's data loaders are not training runs."""
    first, seen = pid, set()
    while pid > 1 and pid not in seen:
        seen.add(pid)
        first = pid if pid in working else first
        pid = parent_of(root, pid) or 0
    return first


def _row(root: str, what: str, members: List[Any]) -> Workload:
    # The process that works is named, not the shell or the step daemon around it.
    members = sorted(members, key=lambda member: _weight(member[1]))
    pid, use = members[0]
    told = describe_process(root, pid, use["name"])
    silent = any(use.get("silent") for _pid, use in members)
    return {
        "what": use["name"] if what.startswith("process ") else what,
        "name": use["name"],
        "pid": pid,
        "processes": len(members),
        "user": told["user"],
        "since": told["since"],
        "cards": sorted({card for _pid, use in members for card in use["cards"]}),
        "given": any(use["given"] for _pid, use in members),
        "environments": sorted({path for _pid, use in members for path in use["environments"]}),
        "by_link": any(use["by_link"] and use["environments"] for _pid, use in members),
        "job": any(use["job"] for _pid, use in members),
        "unreadable": f"it did not answer for {SECONDS:g} s" if silent else "",
    }


def _weight(use: Mapping[str, Any]) -> Tuple[bool, bool, bool]:
    """Small for the process that works, large for those around it."""
    return (not use["cards"], not use["environments"], use["name"] == "slurmstepd")


def _plain(what: str, unreadable: str) -> Workload:
    """A row without a process; unless it is unreadable, a job that may have GPUs."""
    return {
        "what": what, "name": what, "pid": None, "processes": 0, "user": None, "since": None, "cards": [],
        "given": False, "environments": [], "by_link": False, "job": True, "unreadable": unreadable,
    }  # fmt: skip


def _held(root: str, named: Mapping[int, Any]) -> Dict[str, str]:
    """{environment: who}, including agents and processes that only have it as working folder."""
    found = {}  # type: Dict[str, str]
    for pid, use in sorted(named.items()):
        row = dict(describe_process(root, pid, use["name"]), what=use["unit"] or use["name"], processes=1)
        for path in use["environments"] + use["held"]:
            found.setdefault(path, describe_workload(row))
    return found


def in_way(found: Dict[str, Any], touches: str, environment: str = "") -> List[Workload]:
    """The rows of `read_workloads` whose work a step would harm.

    touches  gpu: driver, modules, libraries of the GPUs      cards: work on the cards themselves, such as a smoke test
             environment: the one named `environment`         host: everything
    """
    if touches not in TOUCHES:
        raise ValueError(f"touches is {touches!r}, expected one of {', '.join(TOUCHES)}")
    rows = found["workloads"]
    if touches == HOST:
        return rows
    if touches == ENVIRONMENT:
        return [row for row in rows if environment in row["environments"] or row["unreadable"]]
    return [row for row in rows if row["cards"] or row["job"] or row["unreadable"] or (touches == GPU and row["given"])]


def describe_workload(row: Workload) -> str:
    """For example "train-gan@faces.service (python3.11, pid 4321, trainer, since 2026-01-05T10:40:00Z)"."""
    pid, user, since, unreadable = (row.get(name) for name in ("pid", "user", "since", "unreadable"))
    parts = [str(row["name"])] if row["name"] not in (None, row["what"]) else []
    parts += [f"pid {pid}"] if pid is not None else []
    parts += [str(user)] if user else []
    parts += [f"since {since}"] if since else []
    parts += [unreadable] if unreadable and unreadable != row["what"] else []
    return f"{row['what']}{' ({})'.format(', '.join(parts)) if parts else ''}"


def describe_all(rows: List[Workload]) -> str:
    """The first of them, and how many more."""
    more = len(rows) - MOST_NAMED
    text = "; ".join(describe_workload(row) for row in rows[:MOST_NAMED])
    return text + (f" and {more} more" if more > 0 else "")
