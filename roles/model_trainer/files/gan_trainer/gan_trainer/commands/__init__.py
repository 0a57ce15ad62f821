# SPDX-License-Identifier: Apache-2.0
"""The sub-commands of train-gan, one module each: `add_arguments(parser)` and `run(options) -> exit code`.

A module is imported only when its command is called, and imports torch only in `run`: `--help` and `--dry-run` work
without it. Bad input raises an `errors.UserError`.
"""

from __future__ import annotations

DEFAULT = "train"
COMMANDS = {
    "train": "train a GAN, or go on with a training (the default)",
}
