# SPDX-License-Identifier: Apache-2.0
"""The end of a run: what is done, left out and failed, and what to do next; a heartbeat while a long task is silent."""

from __future__ import annotations

DOCUMENTATION = """
name: summary
type: aggregate
short_description: The result of every host, worst first, how to continue, and a heartbeat for long tasks
description:
  - Ends a run with the hosts that failed, were left out, or are done; what to do; where the reports are; and the
    command that continues with those that are not done. Lines are wrapped to the terminal.
  - While a task runs longer than the interval, names the hosts that it is waiting for.
  - Prints why a task is tried again, for example who holds the lock of the package manager.
  - Shows the plan and its reasons for nodes that have no plan yet, or were built from another one.
  - In check mode, ends with the plan, what would change, by layer and host, and what would reboot.
options:
  heartbeat_seconds:
    description:
      - Seconds after which a running task is reported, and the interval of further reports. 0 switches this off.
      - After six lines about a task, the interval is three times as long.
    type: float
    default: 20
    env: [{name: GPUWRIGHT_HEARTBEAT_SECONDS}]
    ini: [{section: gpuwright_summary, key: heartbeat_seconds}]
"""

import atexit
import contextlib
import sys
import time
from typing import TYPE_CHECKING, Any

from ansible import constants as C
from ansible import context
from ansible.plugins.callback import CallbackBase
from ansible.utils.color import stringc
from ansible_collections.gpuwright.node.plugins.plugin_utils.failures.reach import reach_failure
from ansible_collections.gpuwright.node.plugins.plugin_utils.host_values import inventory_of
from ansible_collections.gpuwright.node.plugins.plugin_utils.screen import run_log
from ansible_collections.gpuwright.node.plugins.plugin_utils.started import first_callback, is_own_playbook
from ansible_collections.gpuwright.node.plugins.plugin_utils.summary import (
    check_mode,
    command,
    go_on,
    kept,
    layout,
    plans,
    rows,
    unfinished,
    words,
)
from ansible_collections.gpuwright.node.plugins.plugin_utils.summary.heartbeat import Heartbeat
from ansible_collections.gpuwright.node.plugins.plugin_utils.summary.left_out import left_out_of
from ansible_collections.gpuwright.node.plugins.plugin_utils.summary.verdict_fact import checks_of
from ansible_collections.gpuwright.node.plugins.plugin_utils.summary.words import printable
from ansible_collections.gpuwright.node.plugins.plugin_utils.whole_events import noted

if TYPE_CHECKING:
    from ansible.executor.stats import AggregateStats
    from ansible.executor.task_result import TaskResult
    from ansible.inventory.host import Host
    from ansible.playbook import Playbook
    from ansible.playbook.play import Play
    from ansible.playbook.task import Task

COLOURS = {word: C.COLOR_OK for word in ("CHECKED", "DONE", "PASS")}
COLOURS |= {word: C.COLOR_WARN for word in ("WARN", "busy", "locked")}
CONNECTION = [f"ansible_{name}" for name in ("host", "port", "user", "ssh_private_key_file", "ssh_common_args")]
# Actions whose facts are gpu_node, gpu_node_plan, or both.
PLANNING = ("gpu_probe", "gpu_plan", "host_plan")
# The tag of tasks that end a run for a reason that concerns it as a whole.
WHOLE_RUN = "whole_run"


class CallbackModule(CallbackBase):
    """Collects from the events of a run and prints through Ansible's display, which forks and threads share safely."""

    CALLBACK_VERSION = 2.0
    CALLBACK_TYPE = "aggregate"
    CALLBACK_NAME = "gpuwright.node.summary"
    # It is beside a checkout's playbooks, so it is also loaded with an ansible.cfg that does not name it.
    CALLBACK_NEEDS_ENABLED = False

    def __init__(self) -> None:
        super().__init__()
        self.disabled = not first_callback("summary")
        self._hosts: dict[str, rows.Host] = {}
        self._selected: set[str] = set()
        self._play: Play | None = None
        self._own_playbook = False
        self._plays_with_hosts = 0
        self._task_names: dict[str, str] = {}
        self._reports: dict[str, str] = {}
        self._page = ""
        self._aborted = False
        self._whole_run = False
        self._started = time.monotonic()
        # What is known of each host: gpu_node and gpu_node_plan; and the plans that are to be shown, or have been.
        self._nodes: dict[str, dict[str, Any]] = {}
        self._news: dict[str, tuple[dict[str, Any], dict[str, Any], str]] = {}
        self._plans_shown: dict[str, Any] = {}
        self._heartbeat = Heartbeat(self._say_now)
        # If JSON was asked for, a program parses stdout.
        self._to_stderr = "json" in C.DEFAULT_STDOUT_CALLBACK
        # Ctrl-C ends a run without the event that prints the summary; why hosts were left out is still printed.
        atexit.register(self._say_left_out)

    def _say(self, line: str) -> None:
        self._display.display(line, stderr=self._to_stderr)

    def _say_now(self, line: str) -> None:
        self._say(line)
        # Output into a pipe or a file is buffered, so a heartbeat would arrive only at the end. The reader of the
        # pipe may have ended; Ansible itself notices that.
        with contextlib.suppress(OSError):
            (sys.stderr if self._to_stderr else sys.stdout).flush()

    def _host(self, result: TaskResult) -> rows.Host:
        return self._hosts.setdefault(result._host.get_name(), rows.Host())

    def v2_playbook_on_start(self, playbook: Playbook) -> None:
        self._own_playbook = is_own_playbook(playbook._file_name)

    def v2_playbook_on_no_hosts_matched(self) -> None:
        self._plays_with_hosts -= 1

    def _is_controller(self, name: str) -> bool:
        return name == "localhost" and name not in self._selected

    def _is_left_out(self, stats: AggregateStats) -> bool:
        """Whether the command line has left out every task of a run whose plays have hosts."""
        return self._own_playbook and self._plays_with_hosts > 0 and not stats.processed

    def v2_playbook_on_play_start(self, play: Play) -> None:
        self._play = play
        self._plays_with_hosts += 1
        inventory = inventory_of(play.get_variable_manager())
        if inventory:
            found = inventory.get_hosts(play.hosts, ignore_restrictions=True)
            # A node may be called localhost, too; a play on the controller names it so.
            self._selected |= {host.get_name() for host in found} - (set(play.hosts) & {"localhost"})

    def v2_playbook_on_task_start(self, task: Task, is_conditional: bool) -> None:
        if not context.CLIARGS.get("check"):
            self._say_plans()
        # Only now are the variables in the name filled in.
        self._task_names[task._uuid] = task.name or task.get_name()

    def v2_playbook_on_handler_task_start(self, task: Task) -> None:
        self.v2_playbook_on_task_start(task, False)

    def v2_runner_on_start(self, host: Host, task: Task) -> None:
        interval = self.get_option("heartbeat_seconds")
        # A task that asks somebody at the keyboard is not waiting for a host.
        if interval > 0 and task.action not in ("pause", "ansible.builtin.pause"):
            name = self._task_names.get(task._uuid) or task.get_name()
            self._heartbeat.begin(task._uuid, name, host.get_name(), interval)

    def _ended(self, result: TaskResult) -> None:
        self._heartbeat.end(result._task._uuid, result._host.get_name())

    def _unread(self, result: TaskResult, why: str) -> None:
        self._host(result).unread = f"{result.task_name}: {why}"

    @noted
    def v2_runner_on_ok(self, result: TaskResult) -> None:
        self._ended(result)
        host = self._host(result)
        action = result._task.action.rpartition(".")[2]
        facts = result._result.get("ansible_facts") or {}
        if action in ("gpu_verify", "gpu_scan"):
            host.verdict = str(result._result.get("verdict"))
            host.checks = checks_of(result._result)
            if result._result.get("dest"):
                self._reports[result._host.get_name()] = str(result._result["dest"])
        elif action == "report_page":
            self._page = str(result._result.get("path"))
        elif left_out_of(action, result._result):
            host.left_out = left_out_of(action, result._result)
        elif action in PLANNING:
            self._note_facts(host, result._host.get_name(), facts)
        if context.CLIARGS.get("check") and result._result.get("changed"):
            self._note_change(host, result)

    def _note_facts(self, host: rows.Host, name: str, facts: dict[str, Any]) -> None:
        if isinstance(facts.get("gpu_node"), dict):
            host.last_verdict = facts["gpu_node"].get("last_verdict") or {}
            self._nodes.setdefault(name, facts["gpu_node"])
        if isinstance(facts.get("gpu_node_plan"), dict):
            self._note_plan(name, facts["gpu_node_plan"])

    def _note_plan(self, name: str, plan: dict[str, Any]) -> None:
        """A question about a card, without a host, has a plan but no node."""
        node = self._nodes.get(name)
        if node is None:
            return
        choices = plans.plan_choices(plan)
        why = plans.news(plan, node)
        if (why or context.CLIARGS.get("check")) and self._plans_shown.get(name) != choices:
            self._news[name] = (plan, node, why)
            self._plans_shown[name] = choices

    def _note_change(self, host: rows.Host, result: TaskResult) -> None:
        if result._task.action.rpartition(".")[2] == "reboot_node":
            host.reboots.append(printable(result._task.args.get("msg") or "").removeprefix("gpuwright: "))
        else:
            layer = words.heading_of(self._play) if self._play else ""
            host.changes.append((layer, self._task_names.get(result._task._uuid) or result.task_name))

    def v2_runner_on_skipped(self, result: TaskResult) -> None:
        self._ended(result)

    @noted
    def v2_runner_on_failed(self, result: TaskResult, ignore_errors: bool = False) -> None:
        self._ended(result)
        if not ignore_errors:
            # The last failure is the one that stopped the host: earlier ones were rescued.
            place = self._role(result) or result.task_name
            text = rows.failure_text(result._result)
            told = left_out_of(result._task.action.rpartition(".")[2], result._result)
            self._host(result).left_out = told or self._host(result).left_out
            self._host(result).failure = f"{place}: {text}"
            self._whole_run = WHOLE_RUN in result._task.tags

    @noted
    def v2_runner_on_unreachable(self, result: TaskResult) -> None:
        self._ended(result)
        if result._task.ignore_unreachable is True:
            return
        host = self._host(result)
        host.lost_in = result.task_name
        told = reach_failure(
            str(result._result.get("msg") or ""), result._host.get_name(), self._connection(result._host)
        )
        # A host that preflight cannot reach was left out; one that another role can no longer reach was lost.
        if self._role(result) == "preflight":
            host.left_out = {"kind": told["kind"], "problems": [told]}
        host.lost = told

    @staticmethod
    def _role(result: TaskResult) -> str:
        role = result._task._role
        return role.get_name(include_role_fqcn=False) if role else ""

    def _connection(self, host: Host) -> dict[str, str]:
        """How the host is contacted, as far as these values are text."""
        found = {"ansible_user": context.CLIARGS.get("remote_user") or C.DEFAULT_REMOTE_USER}
        manager = self._play.get_variable_manager() if self._play else None
        if manager:
            variables = manager.get_vars(play=self._play, host=host, include_hostvars=False)
            found |= {name: variables[name] for name in CONNECTION if variables.get(name) is not None}
        return {name: str(value) for name, value in found.items() if value and "{{" not in str(value)}

    def v2_runner_retry(self, result: TaskResult) -> None:
        host, text = self._host(result), printable(result._result.get("msg") or "")
        if text and text != host.last_retry:
            host.last_retry = text
            self._say_now(f"  {result._host.get_name()}: {text}")

    def v2_playbook_on_no_hosts_remaining(self) -> None:
        self._aborted = True

    def _say_plans(self) -> None:
        if self._news:
            for line in plans.plan_lines(self._news, words.width()):
                self._say(line)
            self._news.clear()

    def v2_playbook_on_stats(self, stats: AggregateStats) -> None:
        self._heartbeat.stop()
        atexit.unregister(self._say_left_out)
        self._say_plans()
        self._say_end(stats)
        self._say(f"Total time: {words.duration(time.monotonic() - self._started)}")
        if run_log.current and run_log.current.path:
            self._say(f"Log: {run_log.current.path}")
            run_log.current.named = True
        if self._is_left_out(stats):
            # Ansible ends such a run as a success, and has no other way for a plug-in to say that it is none.
            sys.exit(unfinished.NOTHING_DONE)

    def _say_end(self, stats: AggregateStats) -> None:
        if self._whole_run:
            self._say("GPU nodes: nothing was done on any of them; the reason is given above, once for all of them.")
            return
        if self._is_left_out(stats):
            self._say(unfinished.nothing_done(context.CLIARGS))
            return
        hosts = {name: self._hosts.get(name, rows.Host()) for name in stats.processed}
        verifying = any(host.verdict is not None for host in hosts.values())
        check = bool(context.CLIARGS.get("check"))
        found = [
            row
            for name, host in hosts.items()
            for row in rows.rows_of(name, host, stats.summarize(name), verifying, self._aborted, check)
        ]
        # The controller itself appears if a play runs there; it is no node.
        nodes = [row for row in found if not self._is_controller(row.host) or row.word in ("LOST", "STOPPED")]
        if check:
            whole = all(row.word in rows.DONE for row in nodes)
            for line in check_mode.would_change(hosts, words.width(), whole):
                self._say(line)
        if not nodes:
            if self._page:
                self._say(f"Page: {self._page}")
            return
        left_out = {row.host for row in nodes if row.word in rows.LEFT_OUT}
        self._say_table(nodes, untouched=not any(stats.summarize(name)["changed"] for name in left_out))
        todo = layout.advice(nodes, hosts, words.width())
        for line in ["What to do", *todo] if todo else []:
            self._say(line)
        own = self._play is None or command.GROUP in self._play.hosts
        for line in [*self._report_lines(stats), *go_on.lines(nodes, self._selected, own)]:
            self._say(line)
        if context.CLIARGS.get("step"):
            self._say(unfinished.STEPS)
        if check:
            self._say("Check mode: nothing was changed, and verdicts are not enforced.")

    def _say_table(self, nodes: list[rows.Row], untouched: bool) -> None:
        self._say("GPU nodes, worst first")
        shown = layout.table(nodes, words.width(), untouched=untouched)
        for before, word, after in shown:
            gap = "  " if word else ""
            coloured = stringc(word, COLOURS.get(word.strip(), C.COLOR_ERROR)) if word else ""
            self._say(f"{before}{gap}{coloured}{gap}{after}".rstrip())
        whole = layout.table(nodes, words.width(), bounded=False, untouched=untouched)
        if len(whole) > len(shown):
            path = kept.write(whole)
            self._say(f"In full: {path}" if path else "The same run with fewer hosts (-l) shows it in full.")

    def _say_left_out(self) -> None:
        """If the run did not reach its end: only that nothing was done, or which hosts were left out, and why."""
        # With --step and no input, ansible-core ends like this since 2.19.
        if self._own_playbook and context.CLIARGS.get("step") and not self._hosts:
            self._say(unfinished.nothing_done(context.CLIARGS))
        nodes = rows.left_out(self._hosts)
        if nodes:
            self._say_table(nodes, untouched=False)

    def _report_lines(self, stats: AggregateStats) -> list[str]:
        named = stats.custom.get("_run", {}).get("gpuwright_reports") or []
        return kept.report_lines([*([named] if isinstance(named, str) else named), *self._reports.values()], self._page)
