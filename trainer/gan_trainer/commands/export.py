# SPDX-License-Identifier: Apache-2.0
"""train-gan export: the averaged generator as TorchScript, torch.export, AOTInductor and ONNX, each compared."""

from __future__ import annotations

import argparse
from pathlib import Path

from ..errors import EXIT_FAILED, UsageError
from .options import add_config_arguments, read_config


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_config_arguments(parser)
    parser.add_argument("--checkpoint", metavar="FILE", help="default: the newest in run_dir that can be read")
    parser.add_argument("--formats", help="some of torchscript,torch_export,aoti,onnx; default: all that can be")
    parser.add_argument("--output", metavar="FOLDER", help="default: export in run_dir")


def run(options: argparse.Namespace) -> int:
    config = read_config(options)

    import torch

    from ..engine.train import choose_device
    from ..inference.export import FORMATS, TOLERANCE, ExportError, export
    from ..inference.trained import load_trained

    wanted = [name.strip() for name in options.formats.split(",")] if options.formats else list(FORMATS)
    for name in wanted:
        if name not in FORMATS:
            raise UsageError(f"--formats {name!r}: expected some of {', '.join(FORMATS)}")
        if options.formats and FORMATS[name].missing():
            raise UsageError(f"--formats {name}: {FORMATS[name].missing()}")
    trained = load_trained(config.run_dir, options.checkpoint)
    folder = Path(options.output or Path(config.run_dir) / "export")
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise UsageError(f"--output {folder}: cannot be made: {error.strerror}") from error
    # TF32 in one of the two would be a difference that is nobody's fault.
    torch.backends.cudnn.allow_tf32 = torch.backends.cuda.matmul.allow_tf32 = False
    failures = 0
    print(f"step {trained.step}; largest difference from eager, float32, allowed {TOLERANCE:g}")
    for name in wanted:
        missing = FORMATS[name].missing()
        if missing:
            print(f"{name:<13} left out: {missing}")
            continue
        # Machine code is for the device of the configuration; the other forms move where they are loaded.
        device = choose_device(config.device) if name == "aoti" else torch.device("cpu")
        try:
            found = export(trained.generator.to(device), trained.noise_shape, name, folder, trained.config.classes)
        except ExportError as error:
            failures += 1
            print(f"{name:<13} FAILED   {error}")
            continue
        place = f"  for {device.type}" if name == "aoti" else ""
        print(f"{name:<13} {found.difference:<8.2g} {found.size / 2**20:6.1f} MiB  {found.file}{place}")
    return EXIT_FAILED if failures else 0
