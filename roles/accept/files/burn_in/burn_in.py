# SPDX-License-Identifier: Apache-2.0
"""python burn_in.py node|group: load this node's devices for a while, and check and time what they do.

node   every card of this node, or two processes of the CPU, for --seconds
group  one rank of a group of nodes; torchrun starts it, once for each card

Prints one line of JSON (docs/accept.md describes it); what is fast enough is judged elsewhere. Exit codes: 0 no
problems, 1 problems, 2 wrong command line.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import traceback
from typing import Any

EXIT_PROBLEMS = 1
MOST_ROUNDS = 60
# Shorter rounds would spend their time on measuring.
LEAST_ROUND_S = 10.0
# Added to the time that was asked for: the last round is finished, and torch has to start.
GRACE_S = 600.0
CPU_RANKS = 2


def parse(arguments: list[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser("burn_in.py", description=(__doc__ or "").splitlines()[0], allow_abbrev=False)
    parser.add_argument("what", choices=("node", "group"), help="this node alone, or a rank of a group of nodes")
    parser.add_argument("--device", choices=("cuda", "cpu"), required=True, help="what to load")
    parser.add_argument("--seconds", type=float, required=True, help="how long, above 0")
    parser.add_argument("--timeout", type=float, default=300.0, help="seconds that ranks wait for each other")
    options = parser.parse_args(arguments)
    for name in ("seconds", "timeout"):
        if not 0 < getattr(options, name) < float("inf"):
            parser.error(f"--{name} {getattr(options, name)}: expected seconds above 0")
    return options


def empty(what: str, device: str) -> dict[str, Any]:
    return {"schema": 1, "kind": what, "device": device, "torch": None, "cuda": None, "problems": []}


def rounds_of(seconds: float) -> float:
    """Seconds of one round: at most MOST_ROUNDS of them, so that a week's record is as short as that of an hour."""
    return max(LEAST_ROUND_S, seconds / MOST_ROUNDS) if seconds > LEAST_ROUND_S else seconds


def burn_node(device: str, seconds: float) -> dict[str, Any]:
    """The record of this node; whatever goes wrong becomes one of its `problems`."""
    report = {**empty("node", device), "seconds": seconds, "devices": []}
    try:
        import torch
        from gan_trainer.parallel.ranks import RankError, run_ranks
        from work import Plan, burn_rank
    # A broken installation fails in more ways than ImportError.
    except Exception as error:
        traceback.print_exc()
        report["problems"].append(f"torch and the trainer cannot be imported: {error}")
        return report
    report.update(torch=torch.__version__, cuda=torch.version.cuda)
    count = torch.cuda.device_count() if device == "cuda" and torch.cuda.is_available() else 0
    ranks = count if device == "cuda" else CPU_RANKS
    if not ranks:
        report["problems"].append(f"cuda was requested; torch {torch.__version__} finds no usable GPU")
        return report
    try:
        plan = Plan(seconds, rounds_of(seconds))
        report["devices"] = run_ranks(burn_rank, ranks, device, seconds + GRACE_S, plan)
    except RankError as error:
        report["problems"].append(str(error))
    return report


def burn_group(device: str, seconds: float, timeout: float) -> dict[str, Any]:
    """The record of this rank of a group; whatever goes wrong becomes one of its `problems`."""
    report = {**empty("group", device), "rank": None}
    try:
        import torch
        from between import work_together

        report.update(torch=torch.__version__, cuda=torch.version.cuda)
        report.update(work_together(device, seconds, timeout))
    # Of many kinds: no connection, a peer that is gone, a lost GPU, a broken installation.
    except Exception as error:
        traceback.print_exc()
        report["problems"].append(f"{type(error).__name__}: {' '.join(str(error).split())[:500]}")
    return report


def main(arguments: list[str] | None = None) -> int:
    options = parse(arguments)
    if options.what == "node":
        report = burn_node(options.device, options.seconds)
    else:
        report = burn_group(options.device, options.seconds, options.timeout)
    # Of a node's ranks one speaks for all, since each of them waits for the others in every step.
    if options.what == "node" or os.environ.get("LOCAL_RANK") == "0" or report["problems"]:
        print(json.dumps(report), flush=True)
    return EXIT_PROBLEMS if report["problems"] else 0


if __name__ == "__main__":
    sys.exit(main())
