# SPDX-License-Identifier: Apache-2.0
"""Collects what a plain site.yml would change, and ends playbooks/drift.yml with a table, a record and a page."""

from __future__ import annotations

DOCUMENTATION = """
name: drift
type: aggregate
short_description: What differs on every host from what site.yml would make of it
description:
  - In the playbook drift it notes each task that would change something, with what the host has now and what is
    planned, each step that check mode could not look at, and what verification finds.
  - At the end it prints a table and writes C(drift/drift.json) and C(drift/index.html) into the folder of reports.
  - In other playbooks it does nothing. What no_log hides stays hidden.
options: {}
"""

import dataclasses
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ansible import constants as C
from ansible import context
from ansible.plugins.callback import CallbackBase
from ansible_collections.gpuwright.node.plugins.module_utils.verdict.report import now_utc
from ansible_collections.gpuwright.node.plugins.plugin_utils import started
from ansible_collections.gpuwright.node.plugins.plugin_utils.drift import current, found, page, table
from ansible_collections.gpuwright.node.plugins.plugin_utils.drift.differences import Place, differences
from ansible_collections.gpuwright.node.plugins.plugin_utils.drift.unseen import unseen
from ansible_collections.gpuwright.node.plugins.plugin_utils.failures.reach import reach_failure
from ansible_collections.gpuwright.node.plugins.plugin_utils.host_values import inventory_of
from ansible_collections.gpuwright.node.plugins.plugin_utils.summary import rows
from ansible_collections.gpuwright.node.plugins.plugin_utils.summary.left_out import left_out_of
from ansible_collections.gpuwright.node.plugins.plugin_utils.summary.verdict_fact import checks_of
from ansible_collections.gpuwright.node.plugins.plugin_utils.summary.words import heading_of, printable, width
from ansible_collections.gpuwright.node.plugins.plugin_utils.whole_events import noted, registers

if TYPE_CHECKING:
    from ansible.executor.stats import AggregateStats
    from ansible.executor.task_result import TaskResult
    from ansible.playbook.play import Play
    from ansible.playbook.task import Task

LOOKUP = "gpuwright.node.drift"
# What the last play registers: that the host's run came to its end.
JUDGED = "drift_judged"


class CallbackModule(CallbackBase):
    """Its state is that of `current`, which the last play's tasks read."""

    CALLBACK_VERSION = 2.0
    CALLBACK_TYPE = "aggregate"
    CALLBACK_NAME = "gpuwright.node.drift"
    # It is beside a checkout's playbooks, so it is also loaded with an ansible.cfg that does not name it.
    CALLBACK_NEEDS_ENABLED = False

    def __init__(self) -> None:
        super().__init__()
        self.disabled = not started.first_callback("drift")
        self._active = False
        self._play: Play | None = None
        self._names: dict[str, str] = {}
        self._failures: dict[str, str] = {}

    def v2_playbook_on_start(self, playbook: Any) -> None:
        self._active = any(LOOKUP in str(play.hosts) for play in playbook.get_plays())
        # Ansible copies every result once for each callback that is not disabled.
        self.disabled = self.disabled or not self._active
        if self._active:
            asked = {name: tuple(context.CLIARGS.get(name) or ()) for name in ("tags", "skip_tags")}
            current.begin(verifies=selects("verify", **asked))
            started.continues_otherwise()

    def v2_playbook_on_play_start(self, play: Play) -> None:
        if not self._active:
            return
        self._play = play
        inventory = inventory_of(play.get_variable_manager())
        if inventory:
            for host in inventory.get_hosts(play.hosts, ignore_restrictions=True):
                current.now.host(host.get_name())

    def v2_playbook_on_task_start(self, task: Task, is_conditional: bool) -> None:
        # Only now are the variables in the name filled in.
        self._names[task._uuid] = task.name or task.get_name()

    def v2_playbook_on_handler_task_start(self, task: Task) -> None:
        self.v2_playbook_on_task_start(task, False)

    def _place(self, result: TaskResult) -> Place:
        role = result._task._role
        return Place(
            heading_of(self._play) if self._play else "",
            role.get_name(include_role_fqcn=False) if role else "",
            self._names.get(result._task._uuid) or result.task_name,
            result._task.action.rpartition(".")[2],
        )

    def _unread(self, result: TaskResult, why: str) -> None:
        role = result._task._role
        name = role.get_name(include_role_fqcn=False) if role else ""
        unknown = found.Unknown("", name, result._task.get_name(), printable(why))
        current.now.host(result._host.get_name()).unknown.append(unknown)

    @noted
    def v2_runner_on_ok(self, result: TaskResult) -> None:
        if not self._active:
            return
        host, told = current.now.host(result._host.get_name()), result._result
        place = self._place(result)
        if JUDGED in registers(result._task):
            host.judged = True
        elif place.action == "gpu_verify":
            host.verdict = str(told.get("verdict"))
            more, unknown, remarks = found.of_checks(checks_of(told))
            host.differences += more
            host.unknown += unknown
            host.remarks += remarks
        elif left_out_of(place.action, told):
            host.ended = left_out_words(left_out_of(place.action, told))
        elif place.action == "first_record":
            place = dataclasses.replace(place, layer="system")
            host.others(told, place)
        if told.get("changed"):
            host.differences += differences(told, place, bool(result._task.loop))
        else:
            self._note_unseen(result, place)

    @noted
    def v2_runner_on_skipped(self, result: TaskResult) -> None:
        if self._active:
            self._note_unseen(result, self._place(result))

    def _note_unseen(self, result: TaskResult, place: Place) -> None:
        # Ansible's callbacks know no task's items apart; one item that was not looked at is enough.
        why = unseen(result._result, result._task.tags, bool(result._task.loop))
        if why:
            unknown = found.Unknown(place.layer, place.role, place.task, why)
            current.now.host(result._host.get_name()).unknown.append(unknown)

    @noted
    def v2_runner_on_failed(self, result: TaskResult, ignore_errors: bool = False) -> None:
        if not self._active or ignore_errors:
            return
        if JUDGED in registers(result._task):
            current.now.host(result._host.get_name()).judged = True
            return
        place = self._place(result)
        if told := left_out_of(place.action, result._result):
            current.now.host(result._host.get_name()).ended = left_out_words(told)
        text = f"{place.role or place.task}: {rows.failure_text(result._result)}"
        self._failures[result._host.get_name()] = text

    @noted
    def v2_runner_on_unreachable(self, result: TaskResult) -> None:
        if self._active and result._task.ignore_unreachable is not True:
            name = result._host.get_name()
            told = reach_failure(str(result._result.get("msg") or ""), name, {})
            current.now.host(name).ended = f"{told['problem']} Next: {told['next']}"

    def v2_playbook_on_stats(self, stats: AggregateStats) -> None:
        if not self._active:
            return
        self._active = False
        hosts = {}
        for name, host in current.now.hosts.items():
            # A failure that a role dealt with is none; that a host ends with what differs is the last play's own.
            failed = stats.failures.get(name) and not host.judged
            ended = host.ended or (self._failures.get(name, "a task failed") if failed else "")
            hosts[name] = current.now.judged(dataclasses.replace(host, ended=ended))
        asked = {key: list(context.CLIARGS.get(key) or ()) for key in ("tags", "skip_tags")}
        record = found.record(hosts, now_utc(), {**asked, "limit": context.CLIARGS.get("subset")})
        for line in table.lines(hosts, record["status"], width()):
            self._display.display(line, color=C.COLOR_ERROR if line.endswith("[drift.found]") else None)
        self._write(record, hosts)

    def _write(self, record: dict[str, Any], hosts: dict[str, found.Found]) -> None:
        folder = self._folder()
        try:
            path = page.write(folder, record, hosts)
        except OSError as error:
            self._display.warning(
                f"{error.filename or folder}: {error.strerror or error}, so neither record nor page of the drift was "
                "written: make the folder writable, or name another with -e verify_report_dir=FOLDER [drift.record]"
            )
            return
        self._display.display(f"Record: {folder / page.RECORD}")
        self._display.display(f"Drift page: {path}")

    def _folder(self) -> Path:
        """Beside the reports: verify_report_dir of the run or of the inventory, if it is a plain path."""
        manager = self._play.get_variable_manager() if self._play else None
        named: Any = (manager.extra_vars if manager else {}).get("verify_report_dir")
        inventory = inventory_of(manager)
        if not named and manager and inventory:
            for name in current.now.hosts:
                host = inventory.get_host(name)
                named = manager.get_vars(host=host, include_hostvars=False).get("verify_report_dir") if host else None
                if named:
                    break
        plain = isinstance(named, str) and named and "{{" not in named
        return (Path(named).expanduser() if plain else started.report_folder()) / page.FOLDER


def selects(tag: str, tags: Sequence[str], skip_tags: Sequence[str]) -> bool:
    """Whether a run with these --tags and --skip-tags has the tasks with this tag."""
    return bool({"all", "tagged", tag} & set(tags or ("all",))) and not {"all", "tagged", tag} & set(skip_tags)


def left_out_words(told: dict[str, Any]) -> str:
    """Why a role has left the host out, in one sentence."""
    problem = (told.get("problems") or [{"problem": told.get("reason")}])[0]
    return f"{told.get('kind') or 'left out'}: {problem.get('problem') or 'no reason was given'}"
