# SPDX-License-Identifier: Apache-2.0
"""When a measured allocator may replace malloc, or a placement may replace none: rounds, interval, control for noise.

Every round runs every candidate once, and malloc twice. A candidate is compared with the malloc of the same round, so
that slow changes (other users, clocks, page cache) cancel out. The ratio of the two mallocs is pure noise.
"""

import statistics
from typing import Any, Dict, List, Mapping, Sequence, Tuple

CONTROL = "malloc again"
BASE = "malloc"
# Probability of choosing a candidate that is no better, over all candidates together.
ERROR_RATE = 0.05
# A smaller gain is not worth a library in every process.
LEAST_GAIN = 0.02
# If malloc itself varies more than this from round to round, the machine is too busy for a result.
MOST_SPREAD = 0.15
LEAST_ROUNDS = 6


def spread(values: Sequence[float]) -> float:
    """Interquartile range (linearly interpolated) divided by the median."""
    ordered = sorted(values)

    def quantile(part: float) -> float:
        place = part * (len(ordered) - 1)
        low = ordered[int(place)]
        return low + (place - int(place)) * (ordered[min(int(place) + 1, len(ordered) - 1)] - low)

    middle = statistics.median(ordered)
    return (quantile(0.75) - quantile(0.25)) / middle if middle else float("inf")


def speed_ratios(
    rounds: Sequence[Mapping[str, float]], arm: str, higher_is_better: bool, base: str = BASE
) -> List[float]:
    """For every round, how many times as fast as the base the candidate was."""
    if higher_is_better:
        return [values[arm] / values[base] for values in rounds]
    return [values[base] / values[arm] for values in rounds]


def chance(wins: int, rounds: int) -> float:
    """Probability of at least `wins` of `rounds` tosses of a fair coin (one-sided sign test)."""
    ways, favourable = 1, 0
    for count in range(rounds + 1):
        if count >= wins:
            favourable += ways
        ways = ways * (rounds - count) // (count + 1)
    return favourable / 2.0**rounds


def rounds_needed(arms: int) -> int:
    """The smallest number of rounds in which one of `arms` candidates can be proven better."""
    count = LEAST_ROUNDS
    while chance(count, count) > ERROR_RATE / max(1, arms):
        count += 1
    return count


def interval(ratios: Sequence[float], error: float) -> Tuple[float, float]:
    """Bounds of the true median ratio, each wrong by chance in at most `error` of the cases.

    They are measured ratios (order statistics; the sign test inverted), or 0 and infinity if there are too few.
    """
    ordered = sorted(ratios)
    beyond = sum(1 for wins in range(1, len(ordered) + 1) if chance(wins, len(ordered)) <= error)
    return (ordered[beyond - 1], ordered[-beyond]) if beyond else (0.0, float("inf"))


def judge(
    rounds: Sequence[Mapping[str, float]],
    arms: Sequence[str],
    higher_is_better: bool,
    base: str = BASE,
    again: str = CONTROL,
    kind: str = "allocator",
) -> Tuple[str, str, Dict[str, Dict[str, Any]], float]:
    """(chosen arm, why, {arm: {median_ratio, interval, wins, chance}}, the base's spread) of measured rounds.

    `rounds` is a list of {arm: positive number}; `arms` are the candidates besides the base and the base `again`, which
    all have a number in every round. The base stays unless a candidate's whole interval is above it, and its median
    is above the noise.
    """
    noise_of_base = spread([values[base] for values in rounds])
    control = speed_ratios(rounds, again, higher_is_better, base)
    noise = max(abs(statistics.median(control) - 1), statistics.median([abs(ratio - 1) for ratio in control]))
    table: Dict[str, Dict[str, Any]] = {}
    proven = []
    for arm in arms:
        ratios = speed_ratios(rounds, arm, higher_is_better, base)
        median, wins = statistics.median(ratios), sum(ratio > 1 for ratio in ratios)
        low, high = interval(ratios, ERROR_RATE / len(arms))
        table[arm] = {
            "median_ratio": round(median, 4),
            "interval": [round(low, 4), round(high, 4) if high != float("inf") else None],
            "wins": wins,
            "chance": round(chance(wins, len(rounds)), 5),
        }
        if low > 1 and median - 1 > max(noise, LEAST_GAIN):
            proven.append((median, arm))
    if noise_of_base > MOST_SPREAD:
        why = "{} itself varied by {:.0%} between {} rounds: too noisy to tell"
        return base, why.format(base, noise_of_base, len(rounds)), table, noise_of_base
    if not proven:
        best = max(((row["median_ratio"], arm) for arm, row in table.items()), default=None)
        closest = f"; the best was {best[1]} with {best[0]:.3f}x" if best else ""
        why = "no {} was faster beyond the noise of {:.1%} in {} rounds{}"
        return base, why.format(kind, noise, len(rounds), closest), table, noise_of_base
    ratio, arm = max(proven)
    why = "{:.3f}x {} in the median of {} rounds, faster in {} of them, noise {:.1%}"
    return arm, why.format(ratio, base, len(rounds), table[arm]["wins"], noise), table, noise_of_base
