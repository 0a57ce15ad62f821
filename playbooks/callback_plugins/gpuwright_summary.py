# SPDX-License-Identifier: Apache-2.0
"""The end of a run in one line per host, and a sign of life while a long task is silent."""

from __future__ import annotations

import contextlib
import dataclasses
import re
import sys
import textwrap
import threading
import time
from pathlib import Path

from ansible import constants as C
from ansible import context
from ansible.plugins.callback import CallbackBase
from ansible.utils.color import stringc

DOCUMENTATION = """
name: gpuwright_summary
type: aggregate
short_description: Verdict of every host, worst first, and a heartbeat for long tasks
description:
  - Ends a run with one line per host, its verdict or where it stopped, of at most 80 columns; then what to do and where
    the reports are.
  - While a task runs longer than the interval, says which hosts are waited for.
  - Prints why a task is tried again, for example who holds the lock of the package manager.
options:
  heartbeat_seconds:
    description: Seconds after which, and at which interval, a running task is reported. 0 switches it off.
    type: float
    default: 20
    env: [{name: GPUWRIGHT_HEARTBEAT_SECONDS}]
    ini: [{section: gpuwright_summary, key: heartbeat_seconds}]
"""

WIDTH = 80
HOST_WIDTH = 24
WORD_WIDTH = 7
# Above this number of hosts those that are fine are counted instead of listed.
MANY_HOSTS = 30
# A password in what dnf, pip or a mirror said.
LOGIN = re.compile(r"://[^\s/?#]*@")
ACTIONS_PER_HOST = 3
HOSTS_WITH_ACTIONS = 10

# Worst first. LOST: no longer reachable. STOPPED: a task failed. DONE: all tasks of a run that verifies nothing.
ORDER = ("LOST", "STOPPED", "FAIL", "UNKNOWN", "WARN", "DONE", "PASS")
FINE = ("DONE", "PASS")
COLOURS = {"WARN": C.COLOR_WARN, "DONE": C.COLOR_OK, "PASS": C.COLOR_OK}


@dataclasses.dataclass
class Host:
    """What the run has shown of one host."""

    verdict: str | None = None
    checks: list[dict] = dataclasses.field(default_factory=list)
    failure: str = "a task failed"
    lost_in: str = "a task"
    last_retry: str = ""


@dataclasses.dataclass
class Row:
    """One line of the summary; `tail` is kept when the text has to be shortened."""

    host: str
    word: str
    text: str
    tail: str = ""


@dataclasses.dataclass
class Running:
    """A task that some hosts have not finished; times are those of the monotonic clock, in seconds."""

    name: str
    started: float
    due: float
    hosts: set[str] = dataclasses.field(default_factory=set)


def printable(text: object) -> str:
    """One line without control characters, which could repaint the terminal, and without logins in addresses."""
    line = " ".join("".join(char if char.isprintable() else " " for char in str(text)).split())
    return LOGIN.sub("://***@", line)


def shorten(text: str, width: int) -> str:
    return text if len(text) <= width else text[: max(0, width - 2)].rstrip() + ".."


def duration(seconds: float) -> str:
    whole = round(seconds)
    return f"{whole} s" if whole < 120 else f"{whole // 60} min {whole % 60:02d} s"


def name_some(names: list[str], width: int) -> str:
    """As many names as fit, then how many more there are."""
    for shown in range(len(names), 0, -1):
        rest = len(names) - shown
        text = ", ".join(names[:shown]) + (f" and {rest} more" if rest else "")
        if len(text) <= width:
            return text
    return f"{len(names)} hosts"


def heartbeat_line(task: str, elapsed: float, hosts: set[str]) -> str:
    """For example "  ... Reboot: 40 s, waiting for a5-01, a5-02"."""
    start = f"  ... {shorten(printable(task), 40)}: {duration(elapsed)}, waiting for "
    return start + name_some(sorted(hosts), WIDTH - len(start))


def failure_text(result: dict) -> str:
    """Why a task failed, in one line, from whatever the module returned."""
    for item in result.get("results") or []:
        if isinstance(item, dict) and item.get("failed"):
            return failure_text(item)
    if "censored" in result:
        return "failed; its output is hidden (no_log)"
    message = result.get("msg") or "failed"
    if isinstance(message, list):
        message = " ".join(str(part) for part in message)
    text = printable(message)
    # These messages of Ansible say that something failed; the last words of the program say what.
    if text.startswith(("MODULE FAILURE", "non-zero return code")):
        output = str(result.get("module_stderr") or result.get("stderr") or result.get("module_stdout") or "")
        lines = [line for line in output.splitlines() if line.strip()]
        return printable(lines[-1]) if lines else text
    return text


def with_status(checks: list[dict], status: str) -> list[dict]:
    """Those of this status that do not follow from another one."""
    return [check for check in checks if check.get("status") == status and not check.get("caused_by")]


def judge_host(name: str, host: Host, stats: dict, verifying: bool, aborted: bool) -> Row:
    """The host's line. `stats` are Ansible's counts for it, `verifying` whether any host of this run has a verdict,
    `aborted` whether the run ended early."""
    changed = f"{stats['changed']} changed"
    if stats["unreachable"]:
        return Row(name, "LOST", f'unreachable in "{host.lost_in}"')
    # The task that ends a run with a bad verdict has failed too, and the verdict says more than that.
    if host.verdict in ("FAIL", "UNKNOWN"):
        return problem_row(name, host)
    if stats["failures"]:
        return Row(name, "STOPPED", host.failure)
    if host.verdict == "PASS":
        return Row(name, "PASS", describe_pass(host.checks))
    if host.verdict is not None:
        return problem_row(name, host)
    if aborted:
        return Row(name, "STOPPED", f"the run ended because of other hosts; {changed}")
    if verifying:
        return Row(name, "UNKNOWN", f"not verified in this run; {changed}")
    return Row(name, "DONE", changed)


def problem_row(name: str, host: Host) -> Row:
    """The first check that led to the verdict; a verdict that this plugin does not know counts as UNKNOWN."""
    word = host.verdict if host.verdict in ORDER else "UNKNOWN"
    found = with_status(host.checks, word)
    if not found:
        return Row(name, word, f"gpu_verify says {host.verdict} and names no check")
    tail = f" (+{len(found) - 1} more)" if len(found) > 1 else ""
    off = switched_off(host.checks)
    tail += f" ({off} switched off)" if off else ""
    return Row(name, word, f"{found[0].get('id')}: {found[0].get('message')}", tail)


def describe_pass(checks: list[dict]) -> str:
    skipped = len(with_status(checks, "SKIP"))
    device = [str(check.get("value")) for check in checks if check.get("id") == "smoke.amp"]
    smoke = f"; smoke test on {device[0]}" if device else ""
    off = switched_off(checks)
    return f"{len(checks) - skipped} checks, {skipped} skipped{f', {off} switched off' if off else ''}{smoke}"


def switched_off(checks: list[dict]) -> int:
    """How many checks the inventory has switched off."""
    waivers = [check.get("waived") for check in checks]
    return sum(isinstance(waived, dict) and waived.get("by") == "inventory" for waived in waivers)


def table(rows: list[Row]) -> list[tuple[str, str, str]]:
    """Lines as (host column, word, rest), worst first; together they have at most 80 columns."""
    host_width = min(HOST_WIDTH, max(len(printable(row.host)) for row in rows))
    text_width = WIDTH - host_width - WORD_WIDTH - 4
    lines = []
    hidden = dict.fromkeys(FINE, 0)
    for row in sorted(rows, key=lambda row: (ORDER.index(row.word), row.host)):
        if len(rows) > MANY_HOSTS and row.word in FINE:
            hidden[row.word] += 1
            continue
        text = shorten(printable(row.text), text_width - len(row.tail)) + row.tail
        lines.append((shorten(printable(row.host), host_width).ljust(host_width), row.word, text))
    lines += [("and".ljust(host_width), word, f"{number} hosts") for word, number in hidden.items() if number]
    return lines


def advice(rows: list[Row], hosts: dict[str, Host]) -> list[str]:
    """What to do: up to three actions for each host with a bad verdict, wrapped to 80 columns."""
    bad = [
        row.host
        for row in sorted(rows, key=lambda row: (ORDER.index(row.word), row.host))
        if row.word in ("FAIL", "UNKNOWN")
    ]
    lines = []
    for name in bad[:HOSTS_WITH_ACTIONS]:
        checks = [*with_status(hosts[name].checks, "FAIL"), *with_status(hosts[name].checks, "UNKNOWN")]
        for check in checks[:ACTIONS_PER_HOST]:
            text = printable(f"{name} {check.get('id')}: {check.get('action')}")
            lines += textwrap.wrap(text, WIDTH, initial_indent="  ", subsequent_indent="    ")
    if len(bad) > HOSTS_WITH_ACTIONS:
        lines.append(f"  The reports tell it for {len(bad) - HOSTS_WITH_ACTIONS} more hosts.")
    return lines


class Heartbeat:
    """A thread that says which tasks are still running; `say` prints a line and must be callable from any thread."""

    def __init__(self, say) -> None:
        self._say = say
        self._lock = threading.Lock()
        self._tasks: dict[str, Running] = {}
        self._stop = threading.Event()
        self._thread: threading.Thread | None = None

    def begin(self, task: str, name: str, host: str, interval: float) -> None:
        now = time.monotonic()
        with self._lock:
            running = self._tasks.setdefault(task, Running(name, now, now + interval))
            running.hosts.add(host)
        if self._thread is None:
            self._stop.clear()
            self._thread = threading.Thread(target=self._run, args=(interval,), daemon=True)
            self._thread.start()

    def end(self, task: str, host: str) -> None:
        with self._lock:
            running = self._tasks.get(task)
            if running:
                running.hosts.discard(host)
                # A later host of the same task starts its time anew.
                if not running.hosts:
                    del self._tasks[task]

    def stop(self) -> None:
        self._stop.set()
        if self._thread is not None:
            self._thread.join(timeout=2)
            self._thread = None
        with self._lock:
            self._tasks.clear()

    def _run(self, interval: float) -> None:
        while not self._stop.wait(min(1.0, interval / 4)):
            for line in self._due(interval):
                self._say(line)

    def _due(self, interval: float) -> list[str]:
        lines = []
        now = time.monotonic()
        with self._lock:
            for running in self._tasks.values():
                if now >= running.due:
                    lines.append(heartbeat_line(running.name, now - running.started, running.hosts))
                    running.due += interval
        return lines


class CallbackModule(CallbackBase):
    """Collects from the events of a run and prints through Ansible's display, which forks and threads share safely."""

    CALLBACK_VERSION = 2.0
    CALLBACK_TYPE = "aggregate"
    CALLBACK_NAME = "gpuwright_summary"
    # It lies beside these playbooks and nowhere else, so it also comes with an ansible.cfg that does not name it.
    CALLBACK_NEEDS_ENABLED = False

    def __init__(self) -> None:
        super().__init__()
        self._hosts: dict[str, Host] = {}
        self._task_names: dict[str, str] = {}
        self._reports: dict[str, str] = {}
        self._page = ""
        self._aborted = False
        self._heartbeat = Heartbeat(self._say_now)
        # Whoever asked for JSON on stdout parses it.
        self._to_stderr = "json" in C.DEFAULT_STDOUT_CALLBACK

    def _say(self, line: str) -> None:
        self._display.display(line, stderr=self._to_stderr)

    def _say_now(self, line: str) -> None:
        self._say(line)
        # Into a pipe or a file output is buffered, which would make a sign of life arrive at the end. Whoever read the
        # pipe may be gone; Ansible itself notices that.
        with contextlib.suppress(OSError):
            (sys.stderr if self._to_stderr else sys.stdout).flush()

    def _host(self, result) -> Host:
        return self._hosts.setdefault(result._host.get_name(), Host())

    def v2_playbook_on_task_start(self, task, is_conditional) -> None:
        # Only now does the name have its variables filled in.
        self._task_names[task._uuid] = task.name or task.get_name()

    def v2_playbook_on_handler_task_start(self, task) -> None:
        self.v2_playbook_on_task_start(task, False)

    def v2_runner_on_start(self, host, task) -> None:
        interval = self.get_option("heartbeat_seconds")
        # A task that asks somebody at the keyboard is not waiting for a host.
        if interval > 0 and task.action not in ("pause", "ansible.builtin.pause"):
            name = self._task_names.get(task._uuid) or task.get_name()
            self._heartbeat.begin(task._uuid, name, host.get_name(), interval)

    def _ended(self, result) -> None:
        self._heartbeat.end(result._task._uuid, result._host.get_name())

    def v2_runner_on_ok(self, result) -> None:
        self._ended(result)
        host = self._host(result)
        action = result._task.action.rpartition(".")[2]
        if action == "gpu_verify":
            host.verdict = str(result._result.get("verdict"))
            host.checks = [check for check in result._result.get("checks") or [] if isinstance(check, dict)]
        elif action == "fetch" and host.verdict is not None:
            self._reports[result._host.get_name()] = str(result._result.get("dest"))
        elif action == "report_page":
            self._page = str(result._result.get("path"))

    def v2_runner_on_skipped(self, result) -> None:
        self._ended(result)

    def v2_runner_on_failed(self, result, ignore_errors: bool = False) -> None:
        self._ended(result)
        if not ignore_errors:
            # The last failure is the one that stopped the host: earlier ones were rescued.
            role = result._task._role
            place = role.get_name() if role else result.task_name
            self._host(result).failure = f"{place}: {failure_text(result._result)}"

    def v2_runner_on_unreachable(self, result) -> None:
        self._ended(result)
        self._host(result).lost_in = result.task_name

    def v2_runner_retry(self, result) -> None:
        host, text = self._host(result), printable(result._result.get("msg") or "")
        if text and text != host.last_retry:
            host.last_retry = text
            self._say_now(f"  {result._host.get_name()}: {text}")

    def v2_playbook_on_no_hosts_remaining(self) -> None:
        self._aborted = True

    def v2_playbook_on_stats(self, stats) -> None:
        self._heartbeat.stop()
        hosts = {name: self._hosts.get(name, Host()) for name in stats.processed}
        verifying = any(host.verdict is not None for host in hosts.values())
        rows = [judge_host(name, host, stats.summarize(name), verifying, self._aborted) for name, host in hosts.items()]
        # The controller itself appears when a play works there; it is no node.
        nodes = [row for row in rows if row.host != "localhost" or row.word in ("LOST", "STOPPED")]
        if not nodes:
            if self._page:
                self._say(f"Page: {self._page}")
            return
        self._say("GPU nodes, worst first")
        for host, word, text in table(nodes):
            self._say(f"{host}  {stringc(word.ljust(WORD_WIDTH), COLOURS.get(word, C.COLOR_ERROR))}  {text}".rstrip())
        todo = advice(nodes, hosts)
        for line in ["What to do", *todo] if todo else []:
            self._say(line)
        for line in self._report_lines(stats):
            self._say(line)
        if context.CLIARGS.get("check"):
            self._say("Check mode: verdicts are not enforced.")

    def _report_lines(self, stats) -> list[str]:
        named = stats.custom.get("_run", {}).get("gpuwright_reports") or []
        paths = [*([named] if isinstance(named, str) else named), *self._reports.values()]
        folders = sorted({str(Path(path).parent) for path in paths})
        lines = [f"Report: {paths[0]}"] if len(paths) == 1 else [f"Reports: {folder}" for folder in folders]
        return lines + ([f"Page: {self._page}"] if self._page else [])
