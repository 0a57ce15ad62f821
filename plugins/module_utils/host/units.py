# SPDX-License-Identifier: Apache-2.0
"""Units of systemd as they are wanted: enabled or not, started, and begun anew after their files have changed."""

import re
from typing import Any, Callable, Dict, Iterable, List, NamedTuple, Optional, Sequence

from .bounded import Finished, run_bounded

SECONDS = 120
# What systemd reads into its own memory, and follows only when it is told to.
FOLDER = "/etc/systemd/system/"
ENDINGS = (".service", ".timer", ".path", ".socket", ".mount", ".target")
ADDED = re.compile(r"\.d/[^/]+\.conf$")
# As ansible.builtin.systemd has it: a unit that is starting needs no second start.
RUNNING = ("active", "activating", "reloading")
SHOWN = ("LoadState", "ActiveState", "NeedDaemonReload")
VERBS = {"started": "start", "restarted": "restart"}

Run = Callable[[Sequence[str], float], Finished]


class Unit(NamedTuple):
    """enabled: None leaves that alone; state: "" or started; after_change: "", started or restarted."""

    name: str
    enabled: Optional[bool]
    state: str
    after_change: str


class Step(NamedTuple):
    """One call of systemctl, and the words in which it is shown."""

    name: str
    verb: str
    what: str
    before: str
    after: str


def are_units(paths: Iterable[str]) -> bool:
    """Whether files of units, or settings added to them (x.service.d/y.conf), are among these paths."""
    return any(path.startswith(FOLDER) and (path.endswith(ENDINGS) or ADDED.search(path)) for path in paths)


def read_unit(name: str, run: Run = run_bounded) -> Dict[str, str]:
    """What systemd knows of the unit: SHOWN, and `enabled`, yes or no. OSError if systemd cannot be asked."""
    done = run(["systemctl", "show", "--property=" + ",".join(SHOWN), name], SECONDS)
    if done.rc != 0:
        raise OSError(f"systemd cannot be asked about {name}: {done.problem or done.stderr.strip()}")
    rows = (line.partition("=") for line in done.stdout.splitlines())
    known = {key: value for key, _equals, value in rows}
    known["enabled"] = "yes" if run(["systemctl", "is-enabled", name], SECONDS).rc == 0 else "no"
    return known


def steps(unit: Unit, known: Dict[str, str], changed: bool) -> List[Step]:
    """What is to be done, in order. `changed`: the files of this task have changed, or in check mode would."""
    found = []
    enabled = known["enabled"] == "yes"
    if unit.enabled is not None and unit.enabled != enabled:
        words = ("disabled", "enabled")
        verb = "enable" if unit.enabled else "disable"
        found.append(Step(unit.name, verb, "start at boot", words[enabled], words[unit.enabled]))
    active = known.get("ActiveState", "")
    state = (unit.after_change if changed else "") or unit.state
    if state == "restarted" or (state == "started" and active not in RUNNING):
        after = "restarted" if active in RUNNING else "active"
        found.append(Step(unit.name, VERBS[state], "state", active, after))
    return found


def bring_about(
    units: Sequence[Unit], changed: bool, reload: bool, check: bool, run: Run = run_bounded
) -> List[Dict[str, Any]]:
    """Do it, or in check mode only say it: the differences, as Ansible's --diff prints them. OSError with a remedy.

    reload  systemd has to read the files of units again; it does so also where an earlier run ended before it had
    """
    if reload and not check:
        _do(["daemon-reload"], run)
    shown: List[Dict[str, Any]] = []
    for unit in units:
        known = read_unit(unit.name, run)
        if known.get("LoadState") == "not-found" and not check:
            raise OSError(f"there is no unit {unit.name}")
        if known.get("NeedDaemonReload") == "yes" and not check:
            _do(["daemon-reload"], run)
        for step in steps(unit, known, changed):
            if not check:
                _do([step.verb, step.name], run)
            shown.append(
                {
                    "before": {"path": step.name, step.what: step.before},
                    "after": {"path": step.name, step.what: step.after},
                }
            )
    return shown


def _do(words: List[str], run: Run) -> None:
    done = run(["systemctl", *words], SECONDS)
    if done.rc != 0:
        why = done.problem or done.stderr.strip() or f"exit status {done.rc}"
        log = f"; its log: journalctl -b -u {words[1]}" if len(words) > 1 else ""
        raise OSError(f"systemctl {' '.join(words)} failed: {why}{log}")
