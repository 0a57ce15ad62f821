"""The promises about a card of Hopper's class, and whether the figures bear them out.

A figure whose condition was not met is none: a trial on a CPU, a card that others used or heat held down, too few
rounds, an arm that ran eagerly under another name. A promise holds where the whole interval is on its side, does not
where the whole interval is on the other, and is not measured in all other cases, with the reason.
"""

from __future__ import annotations

import statistics
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

HOLDS, DOES_NOT, NOT_MEASURED = "holds", "does not hold", "not measured"
HOPPER = (9, 0)
LEAST_ROUNDS = 3
# The bench's own names of its arms (tests/bench/trainer/gpu_goals.py; a test compares them).
OURS = (
    "gan_trainer, eager",
    "gan_trainer, compiled",
    "gan_trainer, CUDA graphs",
    "gan_trainer, compiled, CUDA graphs",
)
STRICT, TF32, ITEM = "newcomer, strict float32", "newcomer, TF32 default", "loop that reads three losses"
EAGER_AMP = ("best loop by hand", "gan_trainer, eager")
PREFETCH = ("prefetcher off", "prefetcher on")
HELD = ("thermal", "hw_slowdown", "power_brake")


class Unmeasured(Exception):
    """There is no figure; the text says why."""


class Figure(NamedTuple):
    """What was measured and the ends between which it lies; `words` say of what."""

    value: float
    low: float
    high: float
    words: str = ""


class Goal(NamedTuple):
    """`limit` is the least value, or the most where `at_most`; `read` takes the results of the goal's part by name."""

    name: str
    text: str
    part: str
    limit: float
    unit: str
    read: Callable[[dict[str, Any]], Figure]
    at_most: bool = False
    hopper: bool = True


def case_of(found: dict[str, Any], size: str) -> dict[str, Any]:
    cases = found.get("bench", {}).get("cases", [])
    case = next((case for case in cases if case["name"].startswith(f"{size} px")), None)
    if case is None or not case["rows"]:
        raise Unmeasured(f"{size} px was not reached")
    return case


def rates_of(case: dict[str, Any]) -> dict[str, list[float]]:
    return {row["name"]: row["rates"] for row in case["rows"] if row.get("rates")}


def note_of(case: dict[str, Any], arm: str) -> str:
    return next((row["note"] for row in case["rows"] if row["name"] == arm and row.get("note")), "it was not reached")


def fastest(rates: dict[str, list[float]], arms: Iterator[str] | tuple[str, ...]) -> str:
    found = [arm for arm in arms if arm in rates]
    if not found:
        raise Unmeasured("none of its arms has a figure")
    return max(found, key=lambda arm: statistics.median(rates[arm]))


def paired(case: dict[str, Any], ours: str, other: str) -> Figure:
    """Ratio within each round: its median, lowest and highest; with six rounds or more the median's 95 % interval."""
    from measure import interval

    rates = rates_of(case)
    for arm in (ours, other):
        if arm not in rates:
            raise Unmeasured(f"{arm}: {note_of(case, arm)}")
    # An arm that joined late has rates of the last rounds only.
    count = min(len(rates[ours]), len(rates[other]))
    ratios = [one / two for one, two in zip(rates[ours][-count:], rates[other][-count:], strict=True)]
    if len(ratios) < LEAST_ROUNDS:
        raise Unmeasured(f"{len(ratios)} rounds, expected {LEAST_ROUNDS} or more")
    low, high = interval(ratios)
    return Figure(statistics.median(ratios), low, high, f"{ours} over {other}")


def ours_over(size: str, *others: str) -> Callable[[dict[str, Any]], Figure]:
    def read(found: dict[str, Any]) -> Figure:
        case = case_of(found, size)
        rates = rates_of(case)
        if not set(others) & set(rates):
            raise Unmeasured(f"{others[0]}: {note_of(case, others[0])}")
        return paired(case, fastest(rates, OURS), fastest(rates, others))

    return read


def every_size(read: Callable[[dict[str, Any]], Figure]) -> Callable[[dict[str, Any]], Figure]:
    """The worst size: `read` gets a record with one case."""

    def worst(found: dict[str, Any]) -> Figure:
        cases = found.get("bench", {}).get("cases", [])
        if not cases:
            raise Unmeasured("no size was reached")
        figures = [read({"bench": {"cases": [case]}}) for case in cases]
        return min(figures, key=lambda figure: figure.low)

    return worst


def over_the_best(found: dict[str, Any]) -> Figure:
    (case,) = found["bench"]["cases"]
    rates = rates_of(case)
    others = tuple(arm for arm in rates if arm not in OURS + PREFETCH)
    figure = paired(case, fastest(rates, OURS), fastest(rates, others))
    return figure._replace(words=f"{case['name']}: {figure.words}")


def over_item(found: dict[str, Any]) -> Figure:
    (case,) = found["bench"]["cases"]
    return paired(case, fastest(rates_of(case), OURS), ITEM)


def share_of_rate(found: dict[str, Any]) -> Figure:
    case = case_of(found, "256")
    rates = rates_of(case)
    arm = fastest(rates, OURS)
    row = next(row for row in case["rows"] if row["name"] == arm)
    share = float(row["gemm"].rstrip("%"))
    if not share:
        raise Unmeasured("no matrix rate was measured")
    middle = statistics.median(rates[arm])
    return Figure(share, share * min(rates[arm]) / middle, share * max(rates[arm]) / middle, arm)


def waiting(found: dict[str, Any]) -> Figure:
    waits = [100 * case["wait"] for case in found.get("bench", {}).get("cases", []) if case.get("wait") is not None]
    if not waits:
        raise Unmeasured("no size was reached")
    return Figure(max(waits), max(waits), max(waits), f"the worst of {len(waits)} sizes")


def prefetching(found: dict[str, Any]) -> Figure:
    (case,) = found["bench"]["cases"]
    return paired(case, PREFETCH[1], PREFETCH[0])._replace(words=case["name"])


def half_losses(found: dict[str, Any]) -> Figure:
    cases = found.get("bench", {}).get("cases", [])
    apart = [100 * case["loss_in_half"] for case in cases if case.get("loss_in_half") is not None]
    if not apart:
        raise Unmeasured("no size came that far")
    return Figure(max(apart), max(apart), max(apart), f"the worst of {len(apart)} sizes")


def launched(found: dict[str, Any]) -> Figure:
    figures = [
        Figure(row["ratio"], row["low"], row["high"], metric)
        for metric, arms in (found.get("ratios") or {}).items()
        for arm, row in arms.items()
        if arm == "gpu-run" and row["rounds"] >= LEAST_ROUNDS
    ]
    if not figures:
        raise Unmeasured("gpu-run has too few rounds")
    return min(figures, key=lambda figure: figure.low)


GOALS = (
    Goal("strict", "256 px: over the newcomer's strict float32 loop", "bench", 4.0, "times", ours_over("256", STRICT)),
    Goal("tf32", "256 px: over the loop with PyTorch's default TF32", "bench", 1.5, "times", ours_over("256", TF32)),
    Goal(
        "eager_64",
        "64 px: over the best eager mixed-precision loop",
        "bench",
        3.0,
        "times",
        ours_over("64", *EAGER_AMP),
    ),
    Goal("eager_128", "128 px: the same", "bench", 3.0, "times", ours_over("128", *EAGER_AMP)),
    Goal("best", "every size: over the best other loop", "bench", 1.0, "times", every_size(over_the_best)),
    Goal("item", "every size: over a loop that reads three losses", "bench", 1.5, "times", every_size(over_item)),
    Goal("rate", "256 px: share of the measured bf16 matrix rate", "bench", 35.0, "%", share_of_rate),
    Goal("wait", "waiting for data, of a step", "bench", 2.0, "%", waiting, at_most=True),
    Goal("prefetch", "every size: prefetcher on over off", "bench", 1.0, "times", every_size(prefetching)),
    Goal("half", "loss in half precision, from float32's", "bench", 2.0, "%", half_losses, at_most=True),
    Goal("launcher", "gpu-run over bare, in every figure", "launcher", 0.98, "times", launched, hopper=False),
)
# The rows of docs/benchmarks that wait for a card, and what fills each: goals, or parts.
FILLS = {
    "256 px: over the newcomer's strict float32 loop": ("strict",),
    "256 px: over the loop with PyTorch's default TF32": ("tf32",),
    "64 and 128 px: over the eager mixed-precision loop, by CUDA graphs or compile": ("eager_64", "eager_128"),
    "over Lightning, Accelerate and the best loop by hand, in every arm": ("best",),
    "over a loop that reads three losses in every step": ("item",),
    "256 px: share of the measured bf16 GEMM rate": ("rate",),
    "waiting for data": ("wait",),
    "prefetcher on over off": ("prefetch",),
    "loss of float16 and bfloat16 against float32": ("half",),
    "Local and remote memory": ("launcher",),
}


def judged(results: dict[str, Any]) -> list[dict[str, Any]]:
    """One record for each goal: {name, text, part, goal, measured, low, high, verdict, why}."""
    return [record_of(goal, results) for goal in GOALS]


def record_of(goal: Goal, results: dict[str, Any]) -> dict[str, Any]:
    words = f"{'at most' if goal.at_most else 'at least'} {goal.limit:g} {goal.unit}"
    record: dict[str, Any] = {"name": goal.name, "text": goal.text, "part": goal.part, "goal": words}
    record.update(measured=None, low=None, high=None, verdict=NOT_MEASURED)
    part = next((part for part in results["parts"] if part["name"] == goal.part), None)
    try:
        if part is None or not part.get("found"):
            raise Unmeasured(part["why"] if part and part["why"] else "its part did not run")
        figure = goal.read(part["found"])
    except Unmeasured as error:
        return {**record, "why": str(error)}
    # The record of a part that was ended may lack anything.
    except Exception as error:
        return {**record, "why": f"its record is damaged: {type(error).__name__}: {error}"}
    record.update({name: round(getattr(figure, name), 4) for name in ("value", "low", "high")})
    record["measured"] = record.pop("value")
    why = unmet_condition(goal, results, part)
    if why:
        return {**record, "why": why}
    good, bad = (figure.low >= goal.limit, figure.high < goal.limit)
    if goal.at_most:
        good, bad = (figure.high <= goal.limit, figure.low > goal.limit)
    verdict = HOLDS if good else DOES_NOT if bad else NOT_MEASURED
    inconclusive = f"inconclusive: {figure.low:.3g} to {figure.high:.3g}"
    return {
        **record,
        "verdict": verdict,
        "why": "; ".join(filter(None, [figure.words, "" if good or bad else inconclusive])),
    }


def unmet_condition(goal: Goal, results: dict[str, Any], part: dict[str, Any]) -> str:
    """Why a figure does not count, "" if it does."""
    if part.get("trial"):
        return "a trial on the CPU, which says nothing about a GPU"
    machine: dict[str, Any] = next(
        (p["found"] for p in results["parts"] if p["name"] == "machine" and p.get("found")), {}
    )
    busy = (machine.get("smi") or {}).get("busy")
    if busy:
        return f"others used the card: {'; '.join(busy)}"
    held = sorted({reason for look in part["found"].get("held") or [] for reason in look if reason_counts(reason)})
    if held:
        return f"the card's clocks were held down by {', '.join(held)}"
    cards = (machine.get("torch") or {}).get("gpus") or []
    if goal.hopper and cards and capability(cards[0]) < HOPPER:
        return f"promised for Hopper's class, and this is {cards[0]['name']}"
    return ""


def reason_counts(reason: str) -> bool:
    return any(word in reason for word in HELD)


def capability(card: dict[str, Any]) -> tuple[int, ...]:
    return tuple(int(number) for number in str(card["capability"]).split("."))
