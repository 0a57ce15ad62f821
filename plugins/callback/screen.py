# SPDX-License-Identifier: Apache-2.0
"""Shows on one screen what happens: layers, changes, warnings, failures in full. All else is in the run's log."""

from __future__ import annotations

DOCUMENTATION = """
name: screen
type: stdout
short_description: Layers, changes, warnings and failures on the screen, everything else in a log file
description:
  - Prints one line for each layer and for each task that changed something, the messages of roles (debug), warnings,
    and failed tasks in the words of Ansible's default callback. With C(-v), it prints what the default callback prints.
  - Everything that the default callback prints goes, without colours, into a log file that is named when the run ends.
extends_documentation_fragment:
  - default_callback
  - result_format_callback
options:
  log_folder:
    description:
      - Folder for the logs, created if missing. Empty means reports/logs beside site.yml or, if the collection is
        installed, in the folder in which ansible-playbook was started.
    type: str
    default: ""
    env: [{name: GPUWRIGHT_LOG_FOLDER}]
    ini: [{section: gpuwright_screen, key: log_folder}]
  log_keep:
    description: How many logs are kept in that folder, including this run's. 0 writes none.
    type: int
    default: 20
    env: [{name: GPUWRIGHT_LOG_KEEP}]
    ini: [{section: gpuwright_screen, key: log_keep}]
"""

import atexit
import contextlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from ansible import constants as C
from ansible import context
from ansible.plugins.callback.default import CallbackModule as Default
from ansible.utils.color import stringc
from ansible_collections.gpuwright.node.plugins.module_utils.host.written.told import values_hidden
from ansible_collections.gpuwright.node.plugins.plugin_utils.limits import NOBODY
from ansible_collections.gpuwright.node.plugins.plugin_utils.screen import lines, run_log
from ansible_collections.gpuwright.node.plugins.plugin_utils.screen.voice import RULE, Voice
from ansible_collections.gpuwright.node.plugins.plugin_utils.started import report_folder
from ansible_collections.gpuwright.node.plugins.plugin_utils.summary.words import heading_of, layer_of, width

# Above this number of hosts the recap has one line; the log has one for each.
RECAP_HOSTS = 30
# The message of assert if its author gave none.
NO_NEWS = ("All assertions passed",)


class CallbackModule(Default):
    """The default callback renders each event; this one decides how much of it is shown."""

    CALLBACK_VERSION = 2.0
    CALLBACK_TYPE = "stdout"
    CALLBACK_NAME = "gpuwright.node.screen"
    _display: Any

    def __init__(self) -> None:
        super().__init__()
        self._display = self._voice = Voice(self._display)
        self._log: Any = None
        self._brief = True
        self._plays: list[str] = []
        self._play_id = ""
        self._number = 0
        self._nobody = False
        self._names: dict[str, str] = {}
        # For the running task: hosts that it changed, and what it says about which hosts.
        self._changed: dict[tuple[str, str], list[str]] = {}
        self._said: dict[tuple[str, str], list[str]] = {}
        self._banner_shown = ""
        self._retried: set[tuple[str, str]] = set()
        # This callback is the first that Ansible loads, so what others print at the end of the process comes before
        # this.
        atexit.register(self._close)

    def _close(self) -> None:
        if self._log:
            self._log.close()

    def _show(self, text: str, color: str | None = None) -> None:
        self._log.show(text, color=color)

    @contextlib.contextmanager
    def _aloud(self, task: Any = None) -> Iterator[None]:
        """Show what the parent now prints, preceded by the name of the task."""
        if task is not None and self._brief and self._banner_shown != task._uuid:
            self._banner_shown = task._uuid
            title = f"{self._task_type_cache.get(task._uuid, 'TASK')} [{task.get_name().strip()}]"
            self._show(f"\n{title} " + "*" * max(RULE - len(title), 3))
        self._voice.aloud = True
        try:
            yield
        finally:
            self._voice.aloud = False

    @contextlib.contextmanager
    def _about(self, result: Any) -> Iterator[None]:
        """Before a warning that is shown now, say what it is about."""
        if not self._brief:
            yield
            return
        text = lines.event("warning", [result._host.get_name()], self._name(result._task), width())
        self._log.context = lambda: self._log.show(text, color=C.COLOR_WARN, stderr=True)
        try:
            yield
        finally:
            self._log.context = None

    def _name(self, task: Any) -> str:
        return self._names.get(task._uuid) or task.name or task.get_name()

    def _end_task(self) -> None:
        """Say what the task that has ended on all its hosts did and said."""
        for (_uuid, name), hosts in self._changed.items():
            text = lines.event("changed", hosts, name, width())
            self._show(stringc("changed", C.COLOR_CHANGED) + text.removeprefix("changed"))
        for (uuid, text), hosts in self._said.items():
            heading = self._names.get(uuid, "")
            self._show(lines.event("note", hosts, f"{heading}:" if heading else "", width()))
            self._show(lines.fitted(text, width()))
        self._changed.clear()
        self._said.clear()

    # The run and its plays

    def v2_playbook_on_start(self, playbook: Any) -> None:
        display = self._voice._display
        check = " (check mode)" if context.CLIARGS.get("check") else ""
        name = Path(playbook._file_name).name
        folder = self.get_option("log_folder")
        self._log = run_log.RunLog(
            display,
            Path(folder).expanduser() if folder else report_folder() / "logs",
            self.get_option("log_keep"),
            name,
            f"playbook: {name}{check}",
        )
        run_log.current = self._voice.log = self._log
        self._brief = not display.verbosity
        self._plays = [heading_of(play) for play in playbook.get_plays()]
        with self._aloud():
            super().v2_playbook_on_start(playbook)

    def v2_playbook_on_play_start(self, play: Any) -> None:
        self._end_task()
        super().v2_playbook_on_play_start(play)
        self._nobody = self._brief and play.hosts == [NOBODY]
        # A play that goes through its hosts in batches starts with each.
        if self._brief and play._uuid != self._play_id:
            self._show_play(play)
        self._play_id = play._uuid

    def _show_play(self, play: Any) -> None:
        """Its number; a play that goes on with a layer, or comes back to one for nobody, is no news."""
        name = heading_of(play)
        names = list(dict.fromkeys(self._plays))
        number = names.index(name) + 1 if name in names else len(names)
        layered = bool(layer_of(play)) or len(names) > 1
        if number != self._number and not (self._nobody and number < self._number):
            self._show(f"{'Layer' if layered else 'Play'} {number} of {len(names)}: {name}")
        self._number = max(number, self._number)

    def v2_playbook_on_no_hosts_matched(self) -> None:
        # A layer that has nothing to do on any host is no news.
        with contextlib.nullcontext() if self._nobody else self._aloud():
            super().v2_playbook_on_no_hosts_matched()

    def v2_playbook_on_no_hosts_remaining(self) -> None:
        self._end_task()
        with self._aloud():
            super().v2_playbook_on_no_hosts_remaining()

    def v2_playbook_on_stats(self, stats: Any) -> None:
        self._end_task()
        if not self._log.path or self.get_option("show_custom_stats") or self.get_option("check_mode_markers"):
            with self._aloud():
                super().v2_playbook_on_stats(stats)
            return
        super().v2_playbook_on_stats(stats)
        if self._brief:
            self._show_recap(stats)

    def _show_recap(self, stats: Any) -> None:
        hosts = sorted(stats.processed)
        if not hosts:
            return
        self._show("\nPLAY RECAP " + "*" * (RULE - 10))
        counts = [stats.summarize(host) for host in hosts]
        if len(hosts) > RECAP_HOSTS:
            total = {name: sum(row[name] for row in counts) for name in counts[0]}
            rows = [f"{lines.recap('all', total)} ({len(hosts)} hosts, each in the log)"]
        else:
            rows = [lines.recap(host, row) for host, row in zip(hosts, counts, strict=True)]
        for row in rows:
            self._show(lines.fitted(row, width()))
        self._show("")

    # Tasks

    def _task_start(self, task: Any, prefix: str | None = None) -> None:
        self._end_task()
        # Only now are the variables in the name filled in.
        self._names[task._uuid] = task.name or task.get_name()
        super()._task_start(task, prefix)

    def v2_runner_on_start(self, host: Any, task: Any) -> None:
        with self._aloud():
            super().v2_runner_on_start(host, task)

    def v2_runner_on_ok(self, result: Any) -> None:
        if self._brief:
            self._note(result)
        with self._about(result):
            super().v2_runner_on_ok(result)

    def _note(self, result: Any) -> None:
        told = result._result
        # In check mode, the summary at the end lists what would change.
        if told.get("changed") and not context.CLIARGS.get("check"):
            host, _, delegate = self.host_label(result).partition(" -> ")
            name = self._name(result._task) + (f" (on {delegate})" if delegate else "")
            self._changed.setdefault((result._task._uuid, name), []).append(host)
        if not (result._task.loop and "results" in told):
            self._listen(result)

    def _listen(self, result: Any) -> None:
        """Remember a role's message to people, which is what it uses debug for."""
        told = result._result
        if not told.get("_ansible_verbose_always") or "censored" in told:
            return
        message = told.get("msg")
        if not isinstance(message, str):
            copied = dict(told)
            self._clean_results(copied, result._task.action)
            message = self._dump_results(copied).strip("\n")
        if message not in NO_NEWS:
            self._said.setdefault((result._task._uuid, message), []).append(result._host.get_name())

    def v2_runner_item_on_ok(self, result: Any) -> None:
        if self._brief:
            self._listen(result)
        super().v2_runner_item_on_ok(result)

    def v2_runner_on_failed(self, result: Any, ignore_errors: bool = False) -> None:
        if self._brief:
            # Ansible keeps no facts of a failed task; this toolkit's callbacks get theirs.
            result._result.pop("ansible_facts", None)
        with self._aloud(result._task):
            super().v2_runner_on_failed(result, ignore_errors)

    def v2_runner_item_on_failed(self, result: Any) -> None:
        with self._aloud(result._task):
            super().v2_runner_item_on_failed(result)

    def v2_runner_on_unreachable(self, result: Any) -> None:
        with self._aloud(result._task):
            super().v2_runner_on_unreachable(result)

    def _print_task_banner(self, task: Any) -> None:
        # The screen already has it if the task is shown.
        aloud, self._voice.aloud = self._voice.aloud, False
        super()._print_task_banner(task)
        self._voice.aloud = aloud

    def v2_runner_retry(self, result: Any) -> None:
        super().v2_runner_retry(result)
        key = (result._task._uuid, result._host.get_name())
        # If the module says why, the summary prints that.
        if self._brief and key not in self._retried and not result._result.get("msg"):
            self._retried.add(key)
            left = result._result["retries"] - result._result["attempts"]
            text = f"{self._name(result._task)} ({left} more tries)"
            self._show(lines.event("again", [result._host.get_name()], text, width()))

    def v2_on_file_diff(self, result: Any) -> None:
        told = result._result
        # The parent turns records into text.
        shown = [
            self._differences(one["diff"])
            for one in (told["results"] if result._task.loop and "results" in told else [told])
            if self._brief and one.get("diff") and one.get("changed")
        ]
        super().v2_on_file_diff(result)
        for text in filter(None, shown):
            self._show(lines.event("differs", [result._host.get_name()], self._name(result._task), width()))
            self._show(text)

    def _get_diff(self, difference: Any) -> str:
        """Without the secrets of what a file held before, which no_log does not know."""
        return str(super()._get_diff(values_hidden(difference)))

    def _differences(self, found: Any) -> str:
        """Differences of files as text, those of attributes in one line each. Records go only to the log."""
        texts = []
        for one in found if isinstance(found, list) else [found]:
            before, after = one.get("before"), one.get("after")
            if isinstance(before, dict) and isinstance(after, dict):
                texts += [f"  {line}" for line in lines.attributes(before, after)]
            elif not isinstance(before, (dict, list)) and not isinstance(after, (dict, list)):
                texts.append(self._get_diff(one).rstrip("\n"))
        return "\n".join(text for text in texts if text)
