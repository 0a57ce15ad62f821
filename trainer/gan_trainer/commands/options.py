# SPDX-License-Identifier: Apache-2.0
"""Arguments that several sub-commands share."""

from __future__ import annotations

import argparse
import os

from ..config import Config, ConfigError, load_config


def add_config_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--config", metavar="FILE", help="YAML file; without it, every key has its default")
    parser.add_argument("overrides", nargs="*", metavar="key=value", help="settings that replace the file's")


def read_config(options: argparse.Namespace, needed: bool = True) -> Config:
    """The file with its overrides; raises ConfigError, also where neither says what to train and that is `needed`."""
    if needed and options.config is None and not options.overrides:
        raise ConfigError("expected --config FILE, or settings such as data=FOLDER run_dir=FOLDER")
    return load_config(options.config or os.devnull, options.overrides)
