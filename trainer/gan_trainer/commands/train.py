# SPDX-License-Identifier: Apache-2.0
"""train-gan train: start a training run or resume it."""

from __future__ import annotations

import argparse
import os

from ..config import explained
from ..errors import EXIT_INTERRUPTED
from .options import add_config_arguments, read_config


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_config_arguments(parser)
    parser.add_argument(
        "--dry-run", action="store_true", help="print every key with its value and meaning, as YAML, and stop"
    )
    parser.add_argument(
        "--check",
        action="store_true",
        help="check configuration, data, networks and run_dir, and stop; exits with 2 if unusable",
    )
    parser.add_argument(
        *("--resume",),
        choices=("auto", "changed", "never"),
        default="auto",
        help="auto resumes from the newest checkpoint in run_dir and refuses a changed experiment, "
        "changed resumes that too, never refuses a run_dir that has a checkpoint (default: auto)",
    )
    parser.add_argument(
        "--profile", action="store_true", help="record a few steps: run_dir/profile/trace.json and operators.txt"
    )


def run(options: argparse.Namespace) -> int:
    config = read_config(options, needed=not options.dry_run)
    if options.dry_run:
        print(explained(config), end="")
        return 0
    if options.check:
        from ..engine.check import check

        for line in check(config, options.resume, processes_to_come()):
            print(f"train-gan: {line}")
        print(f"train-gan: checked: nothing stands in the way of a training in {config.run_dir}")
        return 0
    from ..engine.train import train

    interrupted = train(config, options.resume, options.profile)
    return EXIT_INTERRUPTED if interrupted else 0


def processes_to_come() -> int:
    """How many gpu-job will start, or a launcher has started; a start by hand says nothing of it."""
    from ..parallel.launched import find_place

    told = os.environ.get("GPU_JOB_RANKS", "")
    if told.isdecimal() and int(told):
        return int(told)
    place = find_place(os.environ)
    return place.world if place else 1
