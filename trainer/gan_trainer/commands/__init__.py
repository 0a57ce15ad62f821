# SPDX-License-Identifier: Apache-2.0
"""The sub-commands of train-gan, one module each: `add_arguments(parser)` and `run(options) -> exit code`.

A module is imported only when its command is called, and imports torch only in `run`: `--help` and `--dry-run` work
without it. Bad input raises an `errors.UserError`.
"""

from __future__ import annotations

DEFAULT = "train"
COMMANDS = {
    "train": "train, or resume a training run (the default)",
    "sample": "a grid of images from a checkpoint, as PNG",
    "fid": "the Fréchet inception distance of a checkpoint",
    "export": "the generator as TorchScript, torch.export, AOTInductor and ONNX, each compared",
    "bench": "measure what each optimisation gives on this machine; the data path; inference",
    "new": "a small package with your own task and data",
    "doctor": "what this installation has, chooses and lacks",
}
