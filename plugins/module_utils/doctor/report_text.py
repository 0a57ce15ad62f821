# SPDX-License-Identifier: Apache-2.0
"""The report for people: good results in rows, skipped ones in one line, and last the bad ones, each cause once."""

from typing import Dict, List, Optional

from ..host.patterns import lazily
from ..verdict.causes import consequences, one_reason, own_findings
from ..verdict.check import PASS, SEVERITY, SKIP, UNKNOWN
from ..verdict.commands import lines_of
from ..verdict.report import printable
from .by_hand import PROGRAM, hand_note

VALUE_WIDTH = 22
# Wider than "UNKNOWN", so that the details of a finding are below its name.
MARGIN = 9
LEAST_COLUMNS = 40
# If more checks of a family follow from one cause, only their number is given.
FEW = 3
# After each of several commands, and after a sentence.
PART = lazily(r"(?<= ;) |(?<=[a-z)]\.) (?=[A-Z])")


def report_lines(
    checks: List[Dict], columns: Optional[int] = None, everything: bool = False, program: str = PROGRAM
) -> List[str]:
    """The report on as many columns as the terminal has; None: lines are not broken, as for a file.

    Everything bad comes last, the worst at the end, where a terminal shows it. Commands are never broken, so that they
    can be copied; `everything` also gives the reason of each skipped check, and each consequence. `program` is what to
    type to see more.
    """
    width = max([len(check["id"]) for check in checks] or [0])
    row = "{:<7}  {:<" + str(width) + "}  {:<" + str(VALUE_WIDTH) + "}  {}"
    lines = [row.format("STATUS", "CHECK", "VALUE", "EXPECTED")]
    for check in checks:
        if check["status"] == PASS:
            cells = (check["status"], check["id"], _cell(check["value"]), _cell(check["expected"]))
            lines.append(row.format(*cells).rstrip())
    lines += skipped_lines([check for check in checks if check["status"] == SKIP], columns, everything, program)
    own = {check["id"] for check in own_findings(checks)}
    told = [check for check in checks if check["id"] in own or (everything and check["status"] not in (PASS, SKIP))]
    # Mildest first.
    for status in reversed(SEVERITY[:-1]):
        for check in told:
            if check["status"] == status:
                lines += [""] + finding_block(check, consequences(checks, check["id"]), columns, everything, program)
    return lines


def skipped_lines(checks: List[Dict], columns: Optional[int], everything: bool, program: str = PROGRAM) -> List[str]:
    """The checks that do not apply, in one line or each with its reason; switched-off ones are named."""
    lines = []
    for check in checks:
        if everything or "waived" in check:
            lines += _wrapped(f"{SKIP:<7}  {check['id']}: {check['message']}", columns)
    quiet = [check["id"] for check in checks if not (everything or "waived" in check)]
    if quiet:
        words = f"{SKIP:<7}  {len(quiet)} checks do not apply to this node; {program} --all says why"
        lines += _wrapped(words, columns)
    return lines


def finding_block(
    check: Dict, follows: List[str], columns: Optional[int], everything: bool = False, program: str = PROGRAM
) -> List[str]:
    """One finding: what was found and expected, what to do, by whom if by hand, and what follows from it."""
    lines = _wrapped(f"{check['status']:<7}  {check['id']}: {check['message']}", columns)
    if check["status"] != UNKNOWN and check["value"] is not None and check["expected"] is not None:
        lines += _wrapped(f"found {check['value']}, expected {check['expected']}", columns, MARGIN)
    if everything and check.get("caused_by"):
        lines += _wrapped(f"because of {check['caused_by']}", columns, MARGIN)
    if check["action"]:
        lines += action_lines(printable(check["action"]), columns)
        note = hand_note(check, program)
        lines += _wrapped(note, columns, MARGIN) if note else []
    if follows:
        lines += _wrapped(f"{len(follows)} more because of this: {in_families(follows)}", columns, MARGIN)
    return lines


def action_lines(action: str, columns: Optional[int]) -> List[str]:
    """What to do, in one line if it fits, else a line for each command or sentence; none is broken, so that
    it can be copied."""
    action, *words = lines_of(action)
    whole = " " * MARGIN + "-> " + action
    if columns is None or len(whole) <= columns:
        return [whole, *(line for text in words for line in _wrapped(text, columns, MARGIN + 3))]
    parts = [*PART.split(action), *words]
    return [" " * MARGIN + ("   " if number else "-> ") + part for number, part in enumerate(parts)]


def in_families(names: List[str]) -> str:
    """Ids of checks in few words, for example "50 of gpu.*, driver.uvm"."""
    families = {}  # type: Dict[str, List[str]]
    for name in names:
        families.setdefault(name.split(".")[0], []).append(name)
    words = []
    for family in sorted(families):
        members = families[family]
        words += [f"{len(members)} of {family}.*"] if len(members) > FEW else members
    return ", ".join(words)


def finding_lines(checks: List[Dict]) -> List[str]:
    """For the journal: one line for each cause, worst first, with what to do and what follows from it."""
    same: Dict[tuple, List[Dict]] = {}
    for check in sorted(own_findings(checks), key=lambda check: SEVERITY.index(check["status"])):
        same.setdefault(one_reason(check), []).append(check)
    lines = []
    for members in same.values():
        names, first = [check["id"] for check in members], members[0]
        follows = [name for cause in names for name in consequences(checks, cause)]
        more = f" ({len(follows)} more because of this: {in_families(follows)})" if follows else ""
        lines.append(printable(f"{first['status']} {', '.join(names)}: {first['message']} -> {first['action']}{more}"))
    return lines


def _cell(value: object) -> str:
    text = "-" if value is None else printable(str(value))
    return text if len(text) <= VALUE_WIDTH else text[: VALUE_WIDTH - 2] + ".."


def _wrapped(text: str, columns: Optional[int], margin: int = 0) -> List[str]:
    """The text in lines of at most `columns`, words whole, later lines aligned with the first one's words."""
    text = " " * margin + printable(text)
    if columns is None or len(text) <= columns:
        return [text]
    indent = " " * MARGIN
    width = max(columns, LEAST_COLUMNS)
    # A timer's check prints no report.
    import textwrap

    return textwrap.wrap(
        text,
        width,
        subsequent_indent=indent,
        break_long_words=False,
        break_on_hyphens=False,
        replace_whitespace=False,
        drop_whitespace=True,
    )
