# SPDX-License-Identifier: Apache-2.0
"""The rollout of this process: prepared once, before the first host is contacted. Workers are forks and know it too."""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from ansible import constants as C
from ansible import context
from ansible.plugins.loader import callback_loader
from ansible.utils.display import Display
from ansible_collections.gpuwright.node.plugins.plugin_utils import operator_run as runs
from ansible_collections.gpuwright.node.plugins.plugin_utils.host_values import inventory_of, name_of_plugin
from ansible_collections.gpuwright.node.plugins.plugin_utils.started import ROOT, report_folder
from ansible_collections.gpuwright.node.plugins.plugin_utils.summary.words import width

from . import batches, digest, judge, settings, state_file, table

SCREEN = "gpuwright.node.screen"


@dataclasses.dataclass
class Rollout:
    """`manager` is Ansible's variable manager, from the callback; `turns` the batches that each play was given.

    changed  hosts on which a task has changed something, or failed, since their batch took them
    """

    manager: Any = None
    path: Path | None = None
    turns: dict[str, list[list[str]]] = dataclasses.field(default_factory=dict)
    changed: set[str] = dataclasses.field(default_factory=set)


# Replaced at the start of each playbook, by the callback.
now: Rollout = Rollout()


class RolloutError(Exception):
    """Why the rollout cannot begin: one sentence for each problem."""


def begin(manager: Any) -> None:
    """A playbook begins that has a rollout."""
    global now
    now = Rollout(manager=manager)


def main() -> bool:
    """Whether this is the process of ansible-playbook itself: a worker that is ended runs its exit handlers, too."""
    return os.getpid() == runs.main_pid()


@dataclasses.dataclass(frozen=True)
class Kind:
    """What a play is, besides a rollout: its record's name, whether hosts that are done are done again, and whether its
    steps belong together.

    fact  of the hosts of which an earlier play has decided that it is their turn: how many of them may be down at
          once. Others have no part in it, and it neither has canaries nor goes on from an earlier start
    """

    name: str = "default"
    again: bool = False
    whole: bool = False
    fact: str = ""


def batches_of(group: str, turn: str, kind: Kind = Kind()) -> list[list[str]]:
    """The batches of a turn: `idle` has all hosts, `busy` those that were busy in the first turn. RolloutError."""
    if now.manager is None:
        raise RolloutError(
            "the callback gpuwright.node.rollout is not loaded, so that nobody would notice a lost host: name it in "
            "callbacks_enabled of your ansible.cfg, or start gpuwright.node.rollout itself [rollout.callback]"
        )
    if turn not in now.turns:
        try:
            now.turns[turn] = _second_turn() if turn == "busy" else _prepared(group, kind)
        except state_file.RecordError as error:
            raise RolloutError(str(error)) from error
    return now.turns[turn]


def _prepared(group: str, kind: Kind) -> list[list[str]]:
    """Check what was asked for, print the batches, and write the record; check mode writes and starts nothing."""
    extra = now.manager.extra_vars
    tags, skipped = (context.CLIARGS.get(name) or () for name in ("tags", "skip_tags"))
    found = settings.problems(extra, tags, skipped, kind.whole)
    if found:
        raise RolloutError("; ".join(found))
    asked = settings.settings(extra, kind.name, kind.again)
    inventory = [str(source) for source in context.CLIARGS.get("inventory") or ()]
    path = state_file.path_of(log_folder(), asked.name, inventory)
    old = state_file.read(path, begins=not context.CLIARGS.get("check"))
    if old and old["run"] and not old["ended"] and runs.state_of(old["run"]) == runs.LIVES:
        raise RolloutError(
            f"rollout {asked.name} is under way: process {old['run']['pid']} of {old['run']['who']}; wait until it has "
            "ended, or begin another one with -e gpuwright_rollout=NAME [rollout.running]"
        )
    variables = _variables(group)
    if kind.fact:
        # Until ansible-core 2.18, a number that a template gives is text.
        turns = {host: int(own.get(kind.fact) or 0) for host, own in variables.items()}
        variables = {host: own for host, own in variables.items() if turns[host] > 0}
        most = min((turns[host] for host in variables), default=1)
        asked, old = dataclasses.replace(asked, batches=(most,), down=most, breaker=100, canaries=False), None
    found = settings.misplaced(extra, variables)
    if found:
        raise RolloutError("; ".join(found))
    known = [host.name for host in _inventory().get_hosts(group, ignore_limits=True)]
    plans = _plans(variables, [*sorted(tags), "-", *sorted(skipped)])
    made = state_file.begun(old, asked.name, inventory, plans, known, asked.again)
    made["rules"] = {
        "batches": list(asked.batches), "down_at_once": asked.down, "breaker_percent": asked.breaker,
        "canaries": asked.canaries,
    }  # fmt: skip
    made["run"] = runs.claim()
    pending = state_file.in_state(made, judge.PENDING)
    parts = batches.split(pending, batches.sizes(len(pending), asked.batches, asked.down))
    made = state_file.with_batches(made, parts)
    kept = [host for host in plans if host not in pending]
    for line in table.announcement(asked.name, parts, kept, made["rules"], width()) if parts or kept else ():
        Display().display(line)
    if context.CLIARGS.get("check"):
        Display().display("Check mode: nothing was begun.")
        return []
    if parts:
        stop = judge.decide(made, parts[0]).stop
        if stop:
            raise RolloutError(stop)
    state_file.write(path, made)
    now.path = path
    return parts


def _second_turn() -> list[list[str]]:
    """Busy hosts, once all others are through; none if the rollout has been stopped."""
    if now.path is None:
        return []
    made = state_file.read(now.path)
    if made is None or made["stopped"] or judge.broken(made["hosts"], made["starts"], made["rules"]):
        return []
    waiting = state_file.in_state(made, judge.WAITING)
    rules = made["rules"]
    parts = batches.split(waiting, batches.sizes(len(waiting), rules["batches"], rules["down_at_once"]))
    if parts:
        state_file.write(now.path, state_file.with_batches(made, parts))
    return parts


def _inventory() -> Any:
    """The run's inventory, which is known as soon as a rollout can begin."""
    return inventory_of(now.manager)


def _variables(group: str) -> dict[str, Mapping[str, Any]]:
    """The variables of each host that the limit selects, as they are stored, in the inventory's order."""
    hosts = _inventory().get_hosts(group)
    return {host.name: now.manager.get_vars(host=host, include_hostvars=False) for host in hosts}


def _plans(variables: Mapping[str, Mapping[str, Any]], tags: Sequence[str]) -> dict[str, str]:
    """The digest of the plan of each host."""
    roles = [folder.name for folder in (ROOT / "roles").iterdir() if folder.is_dir()]
    common = " ".join([digest.toolkit_digest(ROOT), *tags])
    return {host: digest.plan_digest(own, roles, common) for host, own in variables.items()}


def log_folder() -> Path:
    """Where the logs of runs are, whether or not this run's screen writes one."""
    folder = os.environ.get("GPUWRIGHT_LOG_FOLDER", "")
    screen = None if folder else callback_loader.get(SCREEN, class_only=True)
    if screen:
        name = name_of_plugin(screen)
        folder = C.config.get_config_value("log_folder", plugin_type="callback", plugin_name=name) or ""
    return Path(folder).expanduser() if folder else report_folder() / "logs"
