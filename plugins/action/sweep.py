# SPDX-License-Identifier: Apache-2.0
"""Choose the nodes of a sweep, and judge and remember what one of them has told; no host is contacted."""

from __future__ import annotations

import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from ansible.errors import AnsibleActionFail
from ansible.plugins.action import ActionBase
from ansible.utils.display import Display
from ansible_collections.gpuwright.node.plugins.module_utils.host.written.state_file import Damaged
from ansible_collections.gpuwright.node.plugins.module_utils.host.written.told import printable
from ansible_collections.gpuwright.node.plugins.module_utils.verdict.check import FAIL
from ansible_collections.gpuwright.node.plugins.module_utils.verdict.report import now_utc
from ansible_collections.gpuwright.node.plugins.plugin_utils.accept.figures import answer_in
from ansible_collections.gpuwright.node.plugins.plugin_utils.history import kept
from ansible_collections.gpuwright.node.plugins.plugin_utils.page.folder import read_host
from ansible_collections.gpuwright.node.plugins.plugin_utils.sweep import choose, judge, load

LOOKED, ASKED, BEGUN, TOLD, JUDGED, LEFT = "looked", "asked", "begun", "told", "judged", "left"
OPTIONS: dict[str, Any] = {
    "state": {"type": "str", "choices": [LOOKED, ASKED, BEGUN, TOLD, JUDGED, LEFT], "required": True},
    "folder": {"type": "path", "required": True},
    "rules": {"type": "dict", "default": {}},
    "names": {"type": "dict", "default": {}},
    "who": {"type": "dict"},
    "rows": {"type": "str", "default": ""},
    "details": {"type": "str", "default": ""},
    "answer": {"type": "raw", "default": ""},
    "expected": {"type": "dict", "default": {}},
    "seen": {"type": "dict", "default": {}},
    "troubles": {"type": "list", "elements": "str", "default": []},
    "share": {"type": "int", "default": 10},
}
display = Display()


class ActionModule(ActionBase):
    """`sweep:` of a task; the module of the same name documents it."""

    TRANSFERS_FILES = False
    _requires_connection = False

    def run(self, tmp: str | None = None, task_vars: dict[str, Any] | None = None) -> dict[str, Any]:
        result = super().run(tmp, task_vars)
        _validated, options = self.validate_argument_spec(OPTIONS)
        host = str((task_vars or {})["inventory_hostname"])
        steps = {LOOKED: self._looked, ASKED: self._asked, BEGUN: self._begun, LEFT: self._left}
        work = steps.get(options["state"], self._told)
        try:
            return {**result, "changed": False, **work(host, options)}
        except (OSError, Damaged) as error:
            raise AnsibleActionFail(
                f"the history of the cards cannot be written ({error}), so this node is not swept: make "
                f"{options['folder']} writable, or name another folder with verify_report_dir [sweep.history]"
            ) from error

    def _looked(self, _host: str, options: Mapping[str, Any]) -> dict[str, Any]:
        writes = not self._task.check_mode
        histories, problems = kept.read_all(options["folder"], begins=writes)
        for problem in problems.values():
            display.warning(printable(problem))
        rules, now = rules_of(options), now_utc()
        elsewhere: list[str] = []
        if options["who"] is None:
            nodes = choose.slurm_looks(options["rows"], options["details"])
            unknown = choose.Look("its scheduler does not know it: set drain_node")
            names = {host: str(name or host) for host, name in options["names"].items()}
            looks = {host: nodes.get(name, unknown) for host, name in names.items()}
            out = {name for name, look in nodes.items() if look.bad or look.taken}
            elsewhere = sorted(out - set(names.values()))
        else:
            looks = self._looks_at_hosts(options, histories, now)
        for host, problem in problems.items():
            if host in looks and writes and kept.path_of(options["folder"], host).exists():
                # It could neither be read nor set aside, and is not overwritten.
                looks[host] = choose.Look(problem)
        turns = choose.turns(looks, histories, rules, time.time(), elsewhere)
        for host, turn in turns.items():
            if turn.at_once and writes:
                old, _problem = kept.read(options["folder"], host)
                # Somebody has returned it since: the old verdict must not be taken for that of the sweep that begins.
                verdict = "" if old["verdict"] == FAIL else old["verdict"]
                kept.write(options["folder"], {**old, "verdict": verdict, "chosen": now, "load": None})
        told = {host: turn._asdict() for host, turn in turns.items()}
        return {"turns": told, "problems": list(problems.values()), "table": choose.table(turns)}

    def _asked(self, host: str, options: Mapping[str, Any]) -> dict[str, Any]:
        """Why a node that was chosen is not taken now, after all; batches of a long run begin hours later."""
        history, _problem = kept.read(options["folder"], host)
        if options["who"] is None:
            name = str(options["names"].get(host) or host)
            unknown = choose.Look("its scheduler does not know it any more")
            look = choose.slurm_looks(options["rows"], options["details"]).get(name, unknown)
        else:
            look = choose.host_look(str(options["who"].get(host) or ""), history, now_utc())
        return {"why": choose.still(look, rules_of(options), time.time())}

    def _looks_at_hosts(
        self, options: Mapping[str, Any], histories: Mapping[str, kept.History], now: str
    ) -> dict[str, choose.Look]:
        """Looks at nodes without a scheduler; since when they are idle is kept, as nobody else knows it."""
        looks = {}
        for host in options["names"]:
            history = histories.get(host) or kept.empty(host)
            look = choose.host_look(str(options["who"].get(host) or ""), history, now, host in options["who"])
            since = choose.idle_since(look, history, now)
            if since != history["idle_since"] and not self._task.check_mode:
                kept.write(options["folder"], {**history, "idle_since": since})
            looks[host] = look
        return looks

    def _begun(self, host: str, options: Mapping[str, Any]) -> dict[str, Any]:
        history, _problem = kept.read(options["folder"], host)
        had = load.before(host, options["seen"])
        kept.write(options["folder"], {**history, "tried": now_utc(), "load": had})
        return {}

    def _left(self, host: str, options: Mapping[str, Any]) -> dict[str, Any]:
        history, _problem = kept.read(options["folder"], host)
        found = judge.left(host, history, options["seen"], now_utc())
        if found != history and not self._task.check_mode:
            kept.write(options["folder"], found)
        return {"reason": judge.reason(found) if found["verdict"] == FAIL else ""}

    def _told(self, host: str, options: Mapping[str, Any]) -> dict[str, Any]:
        folder = options["folder"]
        histories, _problems = kept.read_all(folder)
        began = kept.epoch((histories.get(host) or kept.empty(host))["tried"])
        report, _before, _problem = read_host(folder, host)
        # An older one is of another verification: this one has left none. By this controller's clock, not the node's.
        written = Path(folder, f"{host}.json").stat().st_mtime if report else 0.0
        fresh = report if written >= began else None
        told = judge.Told(
            answer_in(options["answer"]),
            options["expected"],
            fresh,
            [] if fresh else options["troubles"],
            options["seen"],
        )
        if options["state"] == TOLD:
            kept.write(folder, judge.with_rows(host, told, histories, now_utc()))
            return {}
        history = judge.judged(host, told, histories, options["share"] / 100.0, now_utc())
        kept.write(folder, history)
        return {
            "verdict": history["verdict"],
            "reason": judge.reason(history),
            "findings": [f"{row['status']} {row['text']} ({row['id']})" for row in history["findings"]],
        }


def rules_of(options: Mapping[str, Any]) -> choose.Settings:
    """The settings of the sweep; AnsibleActionFail for hours that are none."""
    asked = options["rules"]
    try:
        hours = choose.hours_of(str(asked["hours"]))
    except ValueError as error:
        raise AnsibleActionFail(
            f"sweep_hours is {asked['hours']!r}, {error}. Correct it in the inventory or with -e. [sweep.hours]"
        ) from error
    seconds = (float(asked["idle_minutes"]) * 60, float(asked["interval_hours"]) * 3600)
    return choose.Settings(int(asked["share_percent"]), int(asked["fleet"]), *seconds, hours)
