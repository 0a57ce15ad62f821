# SPDX-License-Identifier: Apache-2.0
"""train-gan --config config.yml [key=value ...]

torch is imported only to train, so that --dry-run checks a configuration anywhere.
"""

from __future__ import annotations

import argparse
import sys

from .config import ConfigError, as_yaml, load_config

EXIT_FAILED = 1
EXIT_USAGE = 2
EXIT_INTERRUPTED = 130


def parse(arguments: list[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser("train-gan", description="Train a GAN.", allow_abbrev=False)
    parser.add_argument("--config", required=True, metavar="FILE", help="YAML file; an empty one takes every default")
    parser.add_argument("--dry-run", action="store_true", help="print the complete configuration as YAML and stop")
    parser.add_argument(
        *("--resume",),
        choices=("auto", "never"),
        default="auto",
        help="auto goes on from the newest checkpoint in run_dir, never refuses a run_dir that has one (default: auto)",
    )
    parser.add_argument("overrides", nargs="*", metavar="key=value", help="settings that replace the file's")
    return parser.parse_intermixed_args(arguments)


def main(arguments: list[str] | None = None) -> int:
    """The program; returns 0 for done, 1 for a failed training, 2 for a wrong configuration."""
    options = parse(arguments)
    try:
        config = load_config(options.config, options.overrides)
    except ConfigError as error:
        return complain(error, EXIT_USAGE)
    if options.dry_run:
        print(as_yaml(config), end="")
        return 0
    return run(config, options.resume)


def run(config: object, resume: str) -> int:
    try:
        from .checkpoint import CheckpointError
        from .data import DataError
        from .loop import TrainingError, train
        from .precision import PrecisionError
        from .run_folder import RunFolderError
    except ImportError as error:
        return complain(f"a library is missing: {error}; train-gan needs torch, numpy and pillow", EXIT_FAILED)
    try:
        train(config, resume)
    except (DataError, PrecisionError) as error:
        # A data worker's error comes with its traceback; the last line is the message.
        return complain(str(error).strip().splitlines()[-1].split("DataError: ")[-1], EXIT_USAGE)
    except (CheckpointError, RunFolderError, TrainingError) as error:
        return complain(error, EXIT_FAILED)
    except KeyboardInterrupt:
        return complain("interrupted; what came after the last checkpoint is lost", EXIT_INTERRUPTED)
    return 0


def complain(error: object, code: int) -> int:
    for line in str(error).splitlines():
        print(f"train-gan: {line}", file=sys.stderr)
    return code


if __name__ == "__main__":
    sys.exit(main())
