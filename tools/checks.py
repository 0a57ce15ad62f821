"""Write docs/checks.md from the rows of the checks (`make docs`). tests/unit/docs/test_checks_page.py finds drift.

How often each check was right is counted at this moment: on the nodes that the tests' rows make, on complete kernel
logs, and on healthy answers of nvidia-smi. Breaking every field of those answers takes longer; those counts are in
docs/checks-tried.json, which `make checks-tried` writes.
"""

from __future__ import annotations

import copy
import importlib
import json
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

REPOSITORY = Path(__file__).resolve().parents[1]
PAGE = REPOSITORY / "docs/checks.md"
TRIED = REPOSITORY / "docs/checks-tried.json"
sys.path[:0] = [str(REPOSITORY / folder) for folder in ("tests/node_library", "tests/deep", "collections")]
sys.path[1:1] = map(str, (REPOSITORY / "tests/unit").glob("**"))
checks = importlib.import_module("gpuwright.checks.all")
verdict = importlib.import_module("gpuwright.verdict.check")
commands = importlib.import_module("gpuwright.verdict.commands")
sad_paths = importlib.import_module("test_checks_sad_paths")
log_table = importlib.import_module("test_kernel_log_table")
field_lane = importlib.import_module("test_field_mutation")
healthy_node = importlib.import_module("healthy_node")
advice = importlib.import_module("advice")
refusal_advice = importlib.import_module("refusal_advice")
role_refusals = importlib.import_module("role_refusals")
module_refusals = importlib.import_module("module_refusals")

FOLLOWED = {name: rest for name, *rest in advice.table()}
BAD = (verdict.WARN, verdict.FAIL, verdict.UNKNOWN)
HEAD = """\
# Checks

What `gpu-doctor` and a verification ask of a node, and how each answer comes about. This page is written from the
rows of `plugins/module_utils/checks/` by `make docs`; do not edit it. `gpu-doctor --explain ID` says the same
on a node.

* **Status**: PASS, WARN, FAIL, UNKNOWN (a value that the check needs cannot be read; never a pass) or SKIP (the
  question makes no sense here, with the reason). The verdict is the worst of them; SKIP does not count.
* **Asks for** is what a FAIL wants of you. *drain*: give the node no new work until the printed action is done.
  *reset*: stop what uses the GPU and reset it. *reboot*. *power-cycle*: off and on, a warm reboot does not do.
  *replace*: the part is worn or broken. *contact-support*: only a diagnosis tells.
* **Level**: quick takes seconds and runs from a timer, standard belongs to a verification, deep measures idle GPUs for
  minutes. A level includes those before it.
* **Tried, healthy** counts inputs on which the check must stay silent, and behind the stroke the false alarms among
  them. **Tried, broken** counts inputs on which it must warn, fail or say UNKNOWN, and behind the stroke those that it
  missed. Inputs are nodes of the tests, whole records of the kernel's log, healthy answers of nvidia-smi of every
  architecture and form of driver, and the same answers with one field broken as hardware breaks it.
* **Done by** says who can do what is printed. Advice is tried by following it: *host*, a made or recorded host is
  broken, the printed command is run as it stands, and the check passes; *fleet*, the same on a host with systemd, dnf
  and pip; *playbook*, a test runs the playbook's own tasks. *look*: a command that is not tried, with the reason.
  *person*: done by hand, with what is then seen. The sums and preflight's refusals are at the end.
* What nvidia-smi says and no check judges is in [nvidia-smi-fields.md](nvidia-smi-fields.md), each with the reason.
"""
WAIVED = "yes: `gpu-doctor --acknowledge` for a time, or `verify_skip_checks` in the inventory"


class Tally:
    """How often one check was tried on what, and how often it was wrong."""

    def __init__(self) -> None:
        self.healthy, self.alarms, self.broken, self.missed = 0, 0, 0, 0

    def add(self, should_be_bad: bool, is_bad: bool) -> None:
        if should_be_bad:
            self.broken += 1
            self.missed += not is_bad
        else:
            self.healthy += 1
            self.alarms += is_bad


def healthy_nodes() -> Iterator[tuple[str, bool, bool]]:
    """(check, False, whether it says bad) of a healthy node on which each check is not skipped."""
    for check in checks.CHECKS:
        smoke, expectations = (healthy_node.elsewhere(check.id, part) for part in ("smoke", "expectations"))
        readings = healthy_node.readings(check.id)
        [found] = checks.run_checks(readings, expectations, smoke, (check,), verdict.DEEP)
        yield check.id, False, found["status"] in BAD


def nodes() -> Iterator[tuple[str, bool, bool]]:
    """(check, whether the row says bad, whether the check says bad) of every node that the rows of the tests make."""
    by_id = {check.id: check for check in checks.CHECKS}
    for check_id, changes, asked, status, _words in sad_paths.CASES:
        record = {**healthy_node.readings(), "smoke": healthy_node.smoke()}
        expectations = healthy_node.expectations()
        for path, value in changes.items():
            healthy_node.put(record, path, copy.deepcopy(value))
        for name, value in asked.items():
            target = expectations["plan"] if "." in name else expectations
            healthy_node.put(target, tuple(name.split(".")), value)
        smoke = record.pop("smoke")
        [found] = checks.run_checks(record, expectations, smoke, (by_id[check_id],), verdict.DEEP)
        yield check_id, status in BAD, found["status"] in BAD


def log_records() -> Iterator[tuple[str, bool, bool]]:
    """The same for every complete kernel log, for each check of the log."""
    for names, statuses, text in log_table.RECORDS:
        wanted = log_table.expected_of(names, statuses) if names else {}
        for check_id, found in log_table.judged(log_table.journal(text)).items():
            yield check_id, wanted.get(check_id) in BAD, found["status"] in BAD


def healthy_answers() -> Iterator[tuple[str, bool, bool]]:
    """The same for every healthy answer of nvidia-smi, for each check that judges such an answer."""
    for model, driver, mig in field_lane.CASES:
        found = field_lane.judge(field_lane.answers.answer(model, driver, mig))
        for check_id, record in found.items():
            expected = field_lane.WORDS_OF_HEALTHY.get(check_id, "?") in record["message"]
            yield check_id, expected, record["status"] in BAD


def count() -> dict[str, Tally]:
    """All trials, by check; `make checks-tried` has counted the broken fields."""
    tallies = {check.id: Tally() for check in checks.CHECKS}
    for tried in (healthy_nodes(), nodes(), log_records(), healthy_answers()):
        for check_id, should_be, is_bad in tried:
            tallies[check_id].add(should_be, is_bad)
    for check_id, mutants in json.loads(TRIED.read_text())["fields"]["mutants_of_check"].items():
        tallies[check_id].broken += mutants
    return tallies


def cell(text: str) -> str:
    return " ".join(text.split()).replace("|", "\\|")


def anchor(check_id: str) -> str:
    return re.sub(r"[^a-z0-9_-]", "", check_id)


def page(rows: tuple[Any, ...], tallies: dict[str, Tally], tried: dict[str, Any]) -> str:
    """The whole page: an overview table, then each check with its rule."""
    table = ["| check | question | level | at worst | asks for | tried, healthy | tried, broken |"]
    table.append("|---|---|---|---|---|---|---|")
    for check in rows:
        tally = tallies[check.id]
        cells = (
            f"[`{check.id}`](#{anchor(check.id)})",
            check.question,
            check.level,
            check.severity,
            check.remedy or "-",
            f"{tally.healthy} / {tally.alarms}",
            f"{tally.broken} / {tally.missed}",
        )
        table.append("| " + " | ".join(cell(text) for text in cells) + " |")
    return "\n".join([HEAD, *counted(tallies, tried), "", *table, *sections(rows), *followed(rows)]) + "\n"


def counted(tallies: dict[str, Tally], tried: dict[str, Any]) -> list[str]:
    """The totals in words, and what else was tried."""
    healthy, alarms, broken, missed = (
        sum(getattr(tally, name) for tally in tallies.values()) for name in ("healthy", "alarms", "broken", "missed")
    )
    fields, recorded = tried["fields"], tried["recorded"]
    return [
        f"{len(tallies)} checks, {healthy} healthy inputs with {alarms} false alarms, {broken} broken ones of which "
        f"{missed} were missed. Among them are {fields['answers']} answers of nvidia-smi in which {fields['fields']} "
        f"fields were broken in {fields['mutants']} ways; {fields['unnoticed']} went unnoticed.",
        "",
        f"Judged besides, and not kept here ({recorded['sources']}): {recorded['answers']} answers of "
        f"{recorded['gpus']} GPUs, {recorded['false_alarms']} false alarms, {recorded['missed']} faults missed; "
        f"{recorded['logs']} pieces of kernel logs, {recorded['logs_disagreed']} judged otherwise than by a person. "
        f"{recorded['remarks']}",
    ]


def followed(rows: tuple[Any, ...]) -> list[str]:
    """Which actions were followed, in how many steps, and which were not, with the reason."""
    of_kind: dict[str, list[str]] = {}
    for check in rows:
        of_kind.setdefault(FOLLOWED[check.id][1], []).append(check.id)
    lines = ["", "## Advice that was followed", ""]
    for kind in ("host", "fleet", "playbook", "look", "person"):
        names = of_kind.get(kind, [])
        lines += [f"* {kind}: {len(names)} of {len(rows)}"]
    lines += ["", "Not followed to its end, though it can be typed:", ""]
    for name in of_kind.get("look", []) + of_kind.get("playbook", []):
        if FOLLOWED[name][2].startswith("not tried"):
            lines += [f"* `{name}`: {cell(FOLLOWED[name][2])}"]
    lines += ["", "What preflight refuses with, tried by tests/unit/preflight/test_refusal_advice.py:", ""]
    lines += [f"* {name}: {cell(how)}" for name, how in refusal_advice.table()]
    lines += [
        "",
        "What a role refuses with; what is not named here is followed by tests/unit/roles/test_role_refusals.py:",
        "",
    ]
    lines += [f"* `{file}`, {cell(task)} ...: {cell(how)}" for (file, task), how in role_refusals.NOT_FOLLOWED.items()]
    lines += ["", "What a module refuses with, apart from arguments that no playbook of this project gives:", ""]
    modules = module_refusals.MODULE_REFUSALS.items()
    return lines + [
        f"* `{module}`, {cell(words)} ...: {cell(how)}" for (module, words), how in modules if how != "argument"
    ]


def printed(action: str) -> list[str]:
    """An action as a node prints it: its commands, and its words below them."""
    lines: list[str] = commands.lines_of(commands.pasteable(action))
    return lines


def sections(rows: tuple[Any, ...]) -> list[str]:
    lines, family = [], ""
    for check in sorted(rows, key=lambda row: row.id.split(".")[0]):
        if check.id.split(".")[0] != family:
            family = check.id.split(".")[0]
            lines += ["", f"## {family}"]
        lines += [
            "",
            f"### {check.id}",
            "",
            f"{check.question} {cell(check.judge.__doc__)}",
            "",
            *(f"* {'Note' if number else 'If not'}: {cell(line)}" for number, line in enumerate(printed(check.action))),
            f"* Done by: {FOLLOWED[check.id][0]}. Tried: {FOLLOWED[check.id][1]}, {FOLLOWED[check.id][2]}",
            f"* Limit from: {cell(check.source) or 'the plan or the inventory'}",
            f"* Can be waived: {WAIVED if check.waivable else f'no: {check.firm_because}'}",
        ]
    return lines


if __name__ == "__main__":
    PAGE.write_text(page(checks.CHECKS, count(), json.loads(TRIED.read_text())))
