# SPDX-License-Identifier: Apache-2.0
"""The result of each host: done, left out, or failed, in one word and one sentence."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any

from .words import counted, printable

# Worst first. LOST: no longer reachable. STOPPED: a task failed. DONE: all tasks of a run that verifies nothing.
# CHECKED: what a run in check mode would change.
FAILED = ("LOST", "STOPPED", "FAIL", "UNKNOWN")
LEFT_OUT = ("unreachable", "refused", "locked", "busy", "not reached")
DONE = ("WARN", "CHECKED", "DONE", "PASS")
ORDER = (*FAILED, *LEFT_OUT, *DONE)
BAD_VERDICTS = ("FAIL", "UNKNOWN")


@dataclasses.dataclass
class Host:
    """What the run has shown about one host."""

    verdict: str | None = None
    checks: list[dict] = dataclasses.field(default_factory=list)
    failure: str = "a task failed"
    lost_in: str = "a task"
    lost: dict[str, Any] = dataclasses.field(default_factory=dict)
    last_retry: str = ""
    # A task whose result the summary could not read, and why.
    unread: str = ""
    left_out: dict[str, Any] = dataclasses.field(default_factory=dict)
    # Verdict and time of the last report on the node.
    last_verdict: dict[str, str] = dataclasses.field(default_factory=dict)
    # In check mode: (layer, task) that would change something, and why it would reboot.
    changes: list[tuple[str, str]] = dataclasses.field(default_factory=list)
    reboots: list[str] = dataclasses.field(default_factory=list)


# Characters of a message that a table has room for.
LONGEST_FAILURE = 400


@dataclasses.dataclass
class Row:
    """One line of the summary: `tail` says how many more there are, `next` what to do.

    `common` is text and next without the host's own names: rows in which it is equal are shown as one. `listed` is for
    one that is shown also where many hosts are done.
    """

    host: str
    word: str
    text: str
    tail: str = ""
    next: str = ""
    common: tuple[str, str] = ("", "")
    listed: bool = False


def failure_text(result: Mapping[str, Any]) -> str:
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
    first, *others = str(message).strip().splitlines() or [""]
    listed = len(others) > 1 and all(line.startswith("- ") for line in others[:-1])
    if len(text) > LONGEST_FAILURE and first.endswith(":") and listed:
        # A list of ours, which stands above as it was printed when the task failed.
        return f"{printable(first)[:-1]}, which are listed above"
    # These messages of Ansible only say that something failed; the program's last words say what.
    if text.startswith(("MODULE FAILURE", "non-zero return code")):
        output = str(result.get("module_stderr") or result.get("stderr") or result.get("module_stdout") or "")
        lines = [line for line in output.splitlines() if line.strip()]
        return printable(lines[-1]) if lines else text
    return text


def rows_of(
    name: str, host: Host, stats: Mapping[str, int], verifying: bool, aborted: bool, check: bool = False
) -> list[Row]:
    """The host's lines, one for each problem of a host that was left out, else one.

    stats    Ansible's counts for it      verifying  whether any host of this run has a verdict
    aborted  whether the run ended early  check      whether it ran in check mode
    """
    if host.left_out:
        return left_out_rows(name, host.left_out)
    if host.unread and not (stats["unreachable"] or stats["failures"]):
        return [Row(name, "UNKNOWN", printable(host.unread))]
    if check and not (stats["unreachable"] or stats["failures"] or aborted):
        return [judge_check(name, host)]
    return [judge_host(name, host, stats, verifying, aborted)]


def judge_check(name: str, host: Host) -> Row:
    """What would change; a verdict only for a host that would stay as it is."""
    reboot = f"; would reboot: {'; '.join(host.reboots)}" if host.reboots else ""
    if host.changes or reboot:
        layers = counted(layer for layer, _task in host.changes)
        parts = ", ".join(f"{layer} {number}" for layer, number in layers.items())
        text = f"would change {len(host.changes)} ({parts})" if host.changes else "nothing would change"
        return Row(name, "CHECKED", last_verdict(host.last_verdict) + text + reboot)
    if host.verdict is None:
        return Row(name, "CHECKED", last_verdict(host.last_verdict) + "nothing would change")
    if host.verdict == "PASS":
        return Row(name, "PASS", f"nothing would change; {describe_pass(host.checks)}")
    row = problem_row(name, host)
    return dataclasses.replace(row, text=f"nothing would change; {row.text}")


def left_out(hosts: Mapping[str, Host]) -> list[Row]:
    """Only the hosts that were left out, and why."""
    return [row for name, host in hosts.items() if host.left_out for row in left_out_rows(name, host.left_out)]


def left_out_rows(name: str, told: Mapping[str, Any]) -> list[Row]:
    """`told` is gpu_node_left_out; it has `problems` if preflight itself found them."""
    word = str(told.get("kind"))
    word = word if word in LEFT_OUT else "refused"
    problems = told.get("problems") or [{"problem": told.get("reason"), "next": told.get("next")}]
    rows = []
    for row in problems:
        seen = f" (seen: {row['evidence']})" if row.get("evidence") else ""
        text = f"{row.get('problem') or 'no reason was given'}{fault_of(row)}{seen}"
        common = row.get("common") or {}
        alike = (f"{common['problem']}{fault_of(row)}{seen}", common["next"]) if common else ("", "")
        rows.append(Row(name, word, text, next=row.get("next") or "", common=alike))
    return rows


def fault_of(row: Mapping[str, Any]) -> str:
    """What follows the problem of a row that still has its fault's id beside it; preflight's own have it within."""
    return f" [{row['id']}]" if row.get("id") else ""


def judge_host(name: str, host: Host, stats: Mapping[str, int], verifying: bool, aborted: bool) -> Row:
    """The line of a host that was not left out."""
    changed = f"{stats['changed']} changed"
    if stats["unreachable"]:
        start = f'unreachable in "{host.lost_in}"'
        if not host.lost:
            return Row(name, "LOST", start)
        common = host.lost["common"]
        fault = fault_of(host.lost)
        alike = (f"{start}: {common['problem']}{fault}", common["next"])
        return Row(name, "LOST", f"{start}: {host.lost['problem']}{fault}", next=host.lost["next"], common=alike)
    # The task that ends a run with a bad verdict has also failed, but the verdict says more than that.
    if host.verdict in BAD_VERDICTS:
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
    before = last_verdict(host.last_verdict)
    return Row(name, "DONE", before + changed, listed=bool(before))


def last_verdict(told: Mapping[str, str]) -> str:
    """What a run that verifies nothing must not hide: the node's last verdict was bad."""
    if told.get("verdict") not in BAD_VERDICTS:
        return ""
    return f"last verdict {told['verdict']} of {told.get('time') or 'an unknown time'}; "


def problem_row(name: str, host: Host) -> Row:
    """The first check that led to the verdict; a verdict that this plugin does not know counts as UNKNOWN."""
    word = str(host.verdict) if host.verdict in ("FAIL", "UNKNOWN", "WARN") else "UNKNOWN"
    found = with_status(host.checks, word)
    if not found:
        return Row(name, word, f"gpu_verify says {host.verdict} and names no check")
    tail = f" (+{len(found) - 1} more)" if len(found) > 1 else ""
    off = switched_off(host.checks)
    tail += f" ({off} switched off)" if off else ""
    return Row(name, word, f"{found[0].get('id')}: {found[0].get('message')}", tail)


def describe_pass(checks: list[dict]) -> str:
    """For example "74 checks; 65 more do not apply; smoke test on cuda", in gpu-doctor's words."""
    skipped = len(with_status(checks, "SKIP"))
    device = [
        str(check.get("value")) for check in checks if check.get("id") == "smoke.amp" and check.get("status") != "SKIP"
    ]
    smoke = f"; smoke test on {device[0]}" if device else ""
    off = switched_off(checks)
    silent = skipped - switched_off(with_status(checks, "SKIP"))
    rest = f"; {silent} more do{'es' * (silent == 1)} not apply" if silent else ""
    return f"{len(checks) - skipped} checks{f', {off} switched off' if off else ''}{rest}{smoke}"


def with_status(checks: list[dict], status: str) -> list[dict]:
    """The checks with this status that do not follow from another one."""
    return [check for check in checks if check.get("status") == status and not check.get("caused_by")]


def switched_off(checks: list[dict]) -> int:
    """How many checks the inventory has switched off."""
    waivers = [check.get("waived") for check in checks]
    return sum(isinstance(waived, dict) and waived.get("by") == "inventory" for waived in waivers)
