"""A step of some work on memory; prints how long it took: step.py MEASURE.

clock   seconds on the wall for reading a table all over, as embedding look-ups do
policy  not measured: a third of a step where the kernel says that memory is bound to a node, so that nothing but the
        policy decides
"""

from __future__ import annotations

import random
import sys
import time
from pathlib import Path

ENTRIES, READS = 1 << 19, 60_000


def read_a_table() -> float:
    table = list(range(ENTRIES))
    places = random.Random(1).sample(range(ENTRIES), READS)
    start, total = time.perf_counter(), 0
    for _ in range(3):
        for place in places:
            total += table[place]
    return time.perf_counter() - start


def by_policy() -> float:
    lines = Path("/proc/self/numa_maps").read_text().splitlines()
    bound = all(line.split()[1].startswith("bind:") for line in lines)
    return 25 if bound else 75


print("step:", read_a_table() if sys.argv[1] == "clock" else by_policy())
