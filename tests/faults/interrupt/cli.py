"""The command line: what `make interrupt` and `make interrupt-all` run."""

from __future__ import annotations

import argparse
import signal
import subprocess
import time
import traceback
from collections.abc import Iterable

from interrupt import holes, results
from interrupt.choice import at_a_place, each_kind, everything, near, sampled
from interrupt.exercise import CACHE, NotReached, Outcome, Pair, exercise, reference
from interrupt.host import REPO_ROOT, Host, remove_old
from interrupt.steps import STEPS, Inside, Step

ATTEMPTS = 3


def commit() -> str:
    """Of the tree that is tested; "+" means that it also had uncommitted changes, apart from results and their page."""

    def git(*words: str) -> str:
        return subprocess.run(["git", *words], cwd=REPO_ROOT, capture_output=True, text=True, check=True).stdout.strip()

    own = [f":(exclude){path}" for path in ("tests/faults/*/results.json", "docs/faults.md")]
    changed = git("status", "--porcelain", "--untracked-files=no", "--", ".", *own)
    return git("rev-parse", "--short=8", "HEAD") + ("+" if changed else "")


def parse(arguments: list[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="interrupt", description=__doc__)
    parser.add_argument("--seed", type=int, help="chooses places and order; default: the commit's id")
    parser.add_argument("--point", default="", help="only points whose name contains this")
    parser.add_argument("--fault", default="", help="only faults whose name contains this")
    parser.add_argument("--step", default="", help="only steps whose name contains this")
    parser.add_argument(
        "--sample", type=int, default=0, help="so many pairs, of steps and faults that the seed chooses"
    )
    parser.add_argument(
        "--near", type=int, default=0, help="only steps whose host has gone through at most so many before"
    )
    parser.add_argument("--count", type=int, default=0, help="at most so many pairs; default: all")
    parser.add_argument("--minutes", type=float, default=60, help="begin no pair after so many minutes; default: 60")
    parser.add_argument(
        "--part",
        default="1/1",
        help="k/n: of n runs side by side, the k-th; beside others, 9/1 is all on a host of its own",
    )
    parser.add_argument("--everywhere", action="store_true", help="every place of every step, not one for each kind")
    parser.add_argument(
        "--record",
        action="store_true",
        help="write results.json, and leave out the pairs that ended equal on this commit; what is of another goes",
    )
    return parser.parse_args(arguments)


def outcome_of(pair: Pair, found: Outcome) -> str:
    """One of the outcomes of results.Result."""
    if found.again:
        return "failed"
    if not found.interrupted and not pair.fault.survives:
        return "unnoticed"
    return "differs" if found.differences else "equal"


def show(pair: Pair, found: Outcome) -> None:
    outcome = outcome_of(pair, found)
    statuses = f"interrupted run {found.interrupted}, plain run {found.again}"
    print(f"   {outcome}: {statuses}, {found.seconds:.0f} s", flush=True)
    for line in found.differences[:20]:
        print(f"      {line}", flush=True)
    if outcome in ("failed", "unnoticed"):
        print(f"      first run: {found.said}\n      plain run: {found.said_again}", flush=True)


def may_have(step: Step, point: str) -> bool:
    """Whether a point of this name can be one of the step's: a whole one begins with the step's name."""
    return ": " not in point or point.startswith(f"{step.name}: ")


def chosen(options: argparse.Namespace, steps: list[Step], host: Host, seed: int) -> list[Pair]:
    """The pairs that are asked for; where there are none, it is printed which there are."""
    if options.sample:
        picked = sampled(steps, seed, options.sample)
        found = [at_a_place(step, fault, reference(step, host), seed) for step, fault in picked]
        return [pair for pair in found if pair]
    references = {step.name: reference(step, host) for step in steps}
    # A point that is named may be another than the one that the seed chooses.
    pairs = (everything if options.everywhere or options.point else each_kind)(steps, references, seed)
    first = list(holes.pairs(steps, references))
    pairs = [*first, *(pair for pair in pairs if pair not in first)]
    pairs = [pair for pair in pairs if options.point in pair.point and options.fault in pair.fault.name]
    if not pairs:
        points = "\n   ".join(sorted({pair.point for pair in everything(steps, references, seed)}))
        print(f"No pair has point {options.point!r} and fault {options.fault!r}. Points:\n   {points}", flush=True)
    return pairs


def new_kinds_first(pairs: Iterable[Pair], known: Iterable[results.Result]) -> list[Pair]:
    """Another commit chooses other points: a fault that a step has not met at any of them comes first."""
    met = {(each.point.partition(": ")[0], each.fault) for each in known if each.outcome == "equal"}
    return sorted(pairs, key=lambda pair: (pair.step.name, pair.fault.name) in met)


def felt(host: Host, pair: Pair, seed: int) -> Outcome:
    """A fault that was not felt inside a task came at a moment that did not matter: another one is tried."""
    for attempt in range(1, ATTEMPTS + 1):
        last = attempt == ATTEMPTS or not isinstance(pair.place, Inside)
        try:
            found = exercise(host, pair, seed, attempt)
        except NotReached:
            if last:
                raise
            print(f"   attempt {attempt} came too late", flush=True)
            continue
        if last or outcome_of(pair, found) != "unnoticed":
            return found
        print(f"   attempt {attempt} was not felt", flush=True)
    raise AssertionError("the last attempt returns or raises")


def main(arguments: list[str] | None = None) -> int:
    """Exit status 0 when every pair that was tried ended equal."""
    options = parse(arguments)
    # What a shell starts in the background ignores Ctrl-C, and so would every run that is to be interrupted.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    seed = options.seed if options.seed is not None else int(commit().rstrip("+"), 16)
    part, parts = map(int, options.part.split("/"))
    until = time.monotonic() + 60 * options.minutes
    CACHE.mkdir(parents=True, exist_ok=True)
    remove_old()
    void = results.keep_only(commit()) if options.record else 0
    if void:
        print(f"{void} earlier results are of another commit, and were removed", flush=True)
    host = Host(part)
    host.start()
    bad = tried = 0
    try:
        steps = [step for step in STEPS if options.step in step.name and may_have(step, options.point)]
        steps = near(steps, options.near) if options.near else steps
        pairs = chosen(options, steps, host, seed)
        if not pairs:
            return 2
        known = results.read() if options.record else []
        equal = {(each.point, each.fault) for each in known if each.outcome == "equal"}
        for pair in new_kinds_first(pairs[(part - 1) % parts :: parts], known):
            if (pair.point, pair.fault.name) in equal:
                continue
            if time.monotonic() > until or (options.count and tried >= options.count):
                break
            tried += 1
            print(f"-> {pair.fault.name}, {pair.point} (seed {seed})", flush=True)
            try:
                found = felt(host, pair, seed)
            except Exception:  # one pair that cannot be tried must not end the others
                traceback.print_exc()
                bad += 1
                continue
            show(pair, found)
            bad += outcome_of(pair, found) != "equal"
            if options.record:
                results.add(
                    results.Result(
                        pair.point, pair.fault.name, seed, commit(), found.interrupted, found.again,
                        outcome_of(pair, found), found.differences[:20], round(found.seconds),
                    )
                )  # fmt: skip
    finally:
        host.stop()
    print(f"{tried} pairs, {bad} not equal", flush=True)
    return 1 if bad else 0
