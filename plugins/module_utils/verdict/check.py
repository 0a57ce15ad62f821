# SPDX-License-Identifier: Apache-2.0
"""How a check gets its status, built so that it cannot fail open.

A check reads its readings and expectations through `Evidence`, which raises `Unreadable` for anything doubtful. `judge`
turns that, and every other error inside a check, into UNKNOWN. So PASS needs every value that a check asks for.
"""

from typing import Any, Callable, Dict, Iterable, NamedTuple, Sequence, Tuple

from .commands import as_started, pasteable
from .evidence import Evidence, Unreadable
from .reader import Reader
from .reading_sources import OURS, source_of

PASS = "PASS"
WARN = "WARN"
FAIL = "FAIL"
UNKNOWN = "UNKNOWN"
SKIP = "SKIP"

# How much time a check may take: quick is for a timer, standard for a verification, deep needs idle GPUs.
QUICK = "quick"
STANDARD = "standard"
DEEP = "deep"
LEVELS = (QUICK, STANDARD, DEEP)

# Worst first. SKIP is not among them: something that was not examined says nothing.
SEVERITY = (FAIL, UNKNOWN, WARN, PASS)


# What a FAIL asks the administrator to do, mildest first; the action gives the words and commands.
DRAIN = "drain"  # give the node no new work until the action is done
RESET = "reset"  # stop what uses the GPU and reset it
REBOOT = "reboot"
POWER_CYCLE = "power-cycle"  # off and on: a warm reboot is not enough
REPLACE = "replace"  # the part is worn or broken
CONTACT_SUPPORT = "contact-support"  # only a diagnosis can tell what is at fault
REMEDIES = (DRAIN, RESET, REBOOT, POWER_CYCLE, REPLACE, CONTACT_SUPPORT)


class Outcome(NamedTuple):
    """What a check found. Who decides reads the code and the items, who prints reads the message.

    code      what kind of finding it is, in a few lower-case words: unique within the check, and never reworded
    value     what the node has        expected  what it should have
    message   one short sentence       action    replaces the check's own action if the finding needs another
    remedy    replaces the check's own remedy if the finding needs another
    items     what the finding is about, if not the whole node: cards by their PCI addresses without the function, and
               paths, packages, settings; `UNNAMED` for each one that cannot be named. Empty for the whole node.
    """

    status: str
    code: str
    value: Any = None
    expected: Any = None
    message: str = ""
    action: str = ""
    remedy: str = ""
    items: Sequence[str] = ()


# function(readings, expectations): the work of a check; its docstring explains the rule.
Judge = Callable[[Evidence, Evidence], Outcome]


class Check(NamedTuple):
    """One check as data.

    question   what the check answers                  action     what to do if the answer is not PASS
    judge      a `Judge`
    unit       of value and expected, "" if they have none
    needs_gpu  skipped on a node that is expected to have no GPU
    level      quick, standard or deep; a level includes those before it
    severity   its worst possible result, FAIL or WARN
    remedy     what a FAIL asks for, one of REMEDIES; "" for a check that ends in WARN at worst
    firm_because  why no administrator may switch it off or acknowledge it, "" if one may; reserved for nothing less
               than a lost GPU, a missing driver, or the check of the waivers themselves
    source     where its limit comes from, "" for a comparison with the plan
    readers    how readings that only its family uses are taken; checks of one family may name the same one
    """

    id: str
    layer: str
    question: str
    action: str
    judge: Judge
    level: str
    severity: str
    remedy: str = ""
    unit: str = ""
    needs_gpu: bool = True
    firm_because: str = ""
    source: str = ""
    readers: Tuple[Reader, ...] = ()

    @property
    def waivable(self) -> bool:
        return not self.firm_because


# Begins the reason of a check that an ordinary user cannot carry out; root's own result may take its place.
ONLY_ROOT = "only root can see this: sudo gpu-doctor"
# The reason for every check of GPUs if none is expected.
NOT_FOR_GPUS = "the inventory expects no GPU on this node"

# Codes that every check may have, since `judge` gives them.
OK = "ok"
NEEDS_ROOT = "needs-root"
NO_GPU_EXPECTED = "no-gpu-expected"
SWITCHED_OFF = "switched-off"
UNREADABLE = "unreadable"  # its item is the reading or expectation
ERROR = "error"
# An item that cannot be named, such as a card that is not there.
UNNAMED = "?"


def passed(value: Any, expected: Any, message: str) -> Outcome:
    return Outcome(PASS, OK, value, expected, message)


def warned(code: str, value: Any, expected: Any, message: str, action: str = "", items: Sequence[str] = ()) -> Outcome:
    return Outcome(WARN, code, value, expected, message, action, items=items)


def failed(
    code: str, value: Any, expected: Any, message: str, action: str = "", remedy: str = "", items: Sequence[str] = ()
) -> Outcome:
    return Outcome(FAIL, code, value, expected, message, action, remedy, items)


def unknown(
    code: str, reason: str, value: Any = None, expected: Any = None, action: str = "", items: Sequence[str] = ()
) -> Outcome:
    return Outcome(UNKNOWN, code, value, expected, reason, action, items=items)


def skipped(code: str, reason: str) -> Outcome:
    return Outcome(SKIP, code, None, None, reason)


def unnamed(number: int) -> Tuple[str, ...]:
    """The items of a finding about this many things that cannot be named."""
    return (UNNAMED,) * number


def slots(addresses: Iterable[str]) -> Tuple[str, ...]:
    """The items of a finding about cards: their addresses without the function, as the kernel's log has them."""
    return tuple(address.rpartition(".")[0] or address for address in addresses)


def within(level: str) -> Tuple[str, ...]:
    """The levels that `level` includes."""
    return LEVELS[: LEVELS.index(level) + 1]


def worst(statuses: Iterable[str]) -> str:
    """The verdict over check statuses: the worst that counts; UNKNOWN if none counts or one is not a status."""
    counted = {status if status in SEVERITY else UNKNOWN for status in statuses if status != SKIP}
    return next((status for status in SEVERITY if status in counted), UNKNOWN)


def judge(check: Check, readings: Any, expectations: Any) -> Dict[str, Any]:
    """Run one `Check` on plain readings and expectations; returns the record of the report and never raises."""
    try:
        expected = Evidence(expectations, "expectations")
        if check.needs_gpu and expected.number("gpu_count") == 0:
            outcome = skipped(NO_GPU_EXPECTED, NOT_FOR_GPUS)
        else:
            outcome = check.judge(Evidence(readings, "readings"), expected)
    except Unreadable as error:
        if error.only_root:
            outcome = skipped(NEEDS_ROOT, f"{ONLY_ROOT} ({error})")
        else:
            source = source_of(error.name, {f"readings.{own.name}": own.source for own in check.readers})
            words = f"cannot tell: {error} (read from {source.what})"
            code = error.code or UNREADABLE
            outcome = unknown(code, words, action=source.look, items=(error.name,) if error.name else ())
    except Exception as error:
        words = f"this check ended with an error: {type(error).__name__}: {error}"
        outcome = unknown(ERROR, words, action=OURS.look)
    return {
        "id": check.id,
        "layer": check.layer,
        "status": outcome.status,
        "code": outcome.code,
        "items": list(outcome.items),
        "value": outcome.value,
        "expected": outcome.expected,
        "unit": check.unit,
        "message": outcome.message,
        "action": _action(check, outcome, expectations),
        "remedy": (outcome.remedy or check.remedy) if outcome.status == FAIL else "",
    }


def _action(check: Check, outcome: Outcome, expectations: Any) -> str:
    if outcome.status in (PASS, SKIP):
        return ""
    started_as = expectations.get("started_as") if isinstance(expectations, dict) else None
    return as_started(pasteable(outcome.action or check.action), started_as)
