# SPDX-License-Identifier: Apache-2.0
"""train-gan train: start a training or go on with it."""

from __future__ import annotations

import argparse

from ..config import as_yaml
from ..errors import EXIT_INTERRUPTED
from .options import add_config_arguments, read_config


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_config_arguments(parser)
    parser.add_argument("--dry-run", action="store_true", help="print the complete configuration as YAML and stop")
    parser.add_argument(
        *("--resume",),
        choices=("auto", "changed", "never"),
        default="auto",
        help="auto goes on from the newest checkpoint in run_dir and refuses another experiment (loss, seed ...), "
        "changed goes on with that too, never refuses a run_dir that has a checkpoint (default: auto)",
    )
    parser.add_argument(
        "--profile", action="store_true", help="record a few steps: run_dir/profile/trace.json and operators.txt"
    )


def run(options: argparse.Namespace) -> int:
    config = read_config(options)
    if options.dry_run:
        print(as_yaml(config), end="")
        return 0
    from ..engine.train import train

    interrupted = train(config, options.resume, options.profile)
    return EXIT_INTERRUPTED if interrupted else 0
