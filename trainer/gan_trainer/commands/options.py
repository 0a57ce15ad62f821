# SPDX-License-Identifier: Apache-2.0
"""Arguments that several sub-commands share."""

from __future__ import annotations

import argparse

from ..config import Config, load_config


def add_config_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--config", required=True, metavar="FILE", help="YAML file; an empty one takes every default")
    parser.add_argument("overrides", nargs="*", metavar="key=value", help="settings that replace the file's")


def read_config(options: argparse.Namespace) -> Config:
    """The file with its overrides; raises ConfigError."""
    return load_config(options.config, options.overrides)
