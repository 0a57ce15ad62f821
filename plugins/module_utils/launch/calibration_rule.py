# SPDX-License-Identifier: Apache-2.0
"""When a measured allocator may replace malloc: paired rounds, a sign test, and a control that shows the noise.

Every round runs every arm once, and malloc twice. An arm is compared with the malloc of its own round, so that what
changes slowly (other users, clocks, page cache) falls out. The ratio of the two mallocs is pure noise.
"""

import statistics

CONTROL = "malloc again"
BASE = "malloc"
# Chance of taking an arm that is no better, over all arms together.
ERROR_RATE = 0.05
# Less is not worth a library in every process.
LEAST_GAIN = 0.02
# Where malloc itself varies more than this from round to round, the machine is too busy to tell anything.
MOST_SPREAD = 0.15
LEAST_ROUNDS = 6


def spread(values):
    """Distance of the quartiles (interpolated linearly) over the median."""
    ordered = sorted(values)

    def quantile(part):
        place = part * (len(ordered) - 1)
        low = ordered[int(place)]
        return low + (place - int(place)) * (ordered[min(int(place) + 1, len(ordered) - 1)] - low)

    middle = statistics.median(ordered)
    return (quantile(0.75) - quantile(0.25)) / middle if middle else float("inf")


def speed_ratios(rounds, arm, higher_is_better):
    """For every round how many times as fast as malloc the arm was."""
    if higher_is_better:
        return [values[arm] / values[BASE] for values in rounds]
    return [values[BASE] / values[arm] for values in rounds]


def chance(wins, rounds):
    """Probability of at least `wins` of `rounds` tosses of a fair coin (one-sided sign test)."""
    ways, favourable = 1, 0
    for count in range(rounds + 1):
        if count >= wins:
            favourable += ways
        ways = ways * (rounds - count) // (count + 1)
    return favourable / 2.0**rounds


def judge(rounds, arms, higher_is_better):
    """(chosen arm, why, {arm: {median_ratio, wins, chance}}, malloc's spread) of measured rounds.

    `rounds` is a list of {arm: positive number}; `arms` the candidates beside malloc, all present in every round.
    """
    noise_of_base = spread([values[BASE] for values in rounds])
    control = speed_ratios(rounds, CONTROL, higher_is_better)
    noise = max(abs(statistics.median(control) - 1), statistics.median([abs(ratio - 1) for ratio in control]))
    table, proven = {}, []
    for arm in arms:
        ratios = speed_ratios(rounds, arm, higher_is_better)
        median, wins = statistics.median(ratios), sum(ratio > 1 for ratio in ratios)
        table[arm] = {"median_ratio": round(median, 4), "wins": wins, "chance": round(chance(wins, len(rounds)), 5)}
        if chance(wins, len(rounds)) <= ERROR_RATE / len(arms) and median - 1 > max(noise, LEAST_GAIN):
            proven.append((median, arm))
    if noise_of_base > MOST_SPREAD:
        why = "malloc itself varied by {:.0%} between {} rounds: too noisy to tell"
        return BASE, why.format(noise_of_base, len(rounds)), table, noise_of_base
    if not proven:
        best = max(((row["median_ratio"], arm) for arm, row in table.items()), default=None)
        closest = f"; the best was {best[1]} with {best[0]:.3f}x" if best else ""
        why = "no allocator was faster outside the noise of {:.1%} in {} rounds{}"
        return BASE, why.format(noise, len(rounds), closest), table, noise_of_base
    ratio, arm = max(proven)
    why = "{:.3f}x malloc in the median of {} rounds, faster in {} of them, noise {:.1%}"
    return arm, why.format(ratio, len(rounds), table[arm]["wins"], noise), table, noise_of_base
