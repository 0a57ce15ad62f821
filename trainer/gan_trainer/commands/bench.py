# SPDX-License-Identifier: Apache-2.0
"""train-gan bench [training|data|inference]: what each optimisation gives on this machine.

training   the reported tables of precision and batch size, and a ladder of optimisations; tables, JSON and plots in
           run_dir/bench (the default; on a CPU at reduced size, in about a minute)
data       images per second of each stage of the data path
inference  latency and throughput of the generator, from a checkpoint or, without one, untrained
"""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path
from typing import Any

from ..config import Config, load_config
from ..errors import EXIT_FAILED, UsageError
from ..safe_files import replace_text

SUBJECTS = ("training", "data", "inference")
MAX_STEPS = 100_000
# Of each side. On a CPU the tables are a trial.
FID_IMAGES = {"cuda": 10_000, "cpu": 500}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.add_argument("--config", required=True, metavar="FILE", help="YAML file; an empty one takes every default")
    parser.add_argument("words", nargs="*", metavar="SUBJECT|key=value", help="what to measure; settings of the file")
    parser.add_argument(
        "--steps", type=int, default=0, help="timed for each number of training; default: 60, on a CPU 8"
    )
    parser.add_argument("--features", metavar="FILE", help="training: also measure FID, with this network (see fid.py)")
    parser.add_argument("--fid-steps", type=int, default=2000, help="training steps before FID (default: %(default)s)")
    parser.add_argument("--compile", action="store_true", help="inference: torch.compile on a CPU too")


def run(options: argparse.Namespace) -> int:
    subjects = [word for word in options.words if "=" not in word]
    if len(subjects) > 1 or any(subject not in SUBJECTS for subject in subjects):
        raise UsageError(f"bench {' '.join(subjects)!r}: expected one of {', '.join(SUBJECTS)}")
    if not 0 <= options.steps <= MAX_STEPS or not 1 <= options.fid_steps <= MAX_STEPS:
        raise UsageError(f"--steps, --fid-steps: expected 1 to {MAX_STEPS}")
    config = load_config(options.config, [word for word in options.words if "=" in word])
    folder = Path(config.run_dir) / "bench"
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise UsageError(f"run_dir: {config.run_dir} cannot be written: {error.strerror}") from error
    return {"training": training, "data": data, "inference": inference}[(subjects or SUBJECTS)[0]](
        options, config, folder
    )


def training(options: argparse.Namespace, config: Config, folder: Path) -> int:
    import os

    from ..engine.memory import use_expandable_segments
    from ..engine.train import choose_device

    if config.expandable_segments:
        use_expandable_segments(os.environ)
    from ..bench.plots import draw
    from ..bench.table_text import as_text
    from ..bench.tables import bench

    device = choose_device(config.device)
    fid = make_fid(options, config, device) if options.features else None
    report = bench(config, device, say, options.steps, fid)
    write_json(folder / "bench.json", report)
    print(as_text(report))
    files = draw(report, folder)
    print(f"\ntrain-gan: {folder / 'bench.json'}, {', '.join(file.name for file in files)}")
    return EXIT_FAILED if any(row["note"] for row in report["precision"] + report["batch"]) else 0


def make_fid(options: argparse.Namespace, config: Config, device: Any) -> Any:
    """A function that trains a configuration for a while and measures it."""
    from dataclasses import replace

    from ..bench.training import make_trainer
    from ..data.loader import open_loader
    from ..engine.reaction import react
    from ..inference.fid import FeatureNetwork, measure_fid
    from ..inference.trained import Trained

    def fid(settings: Config) -> float:
        settings = replace(settings, data=config.data, steps=options.fid_steps)
        network = FeatureNetwork(options.features, settings.image_size, device)
        trainer = make_trainer(settings, device)
        with open_loader(settings, 0, pin_memory=device.type == "cuda") as batches:
            for images in batches:
                trainer.step(images)
        react(trainer)
        task = trainer.task
        trained = Trained(task.sampler(trainer.average), settings, trainer.steps_done, task.noise_shape())
        return measure_fid(trained, settings, network, FID_IMAGES[device.type], device)["fid"]

    # A missing file is told before the tables, not after.
    FeatureNetwork(options.features, config.image_size, device)
    return fid


def data(options: argparse.Namespace, config: Config, folder: Path) -> int:
    from ..bench.data import as_text, bench_data
    from ..engine.train import choose_device

    report = bench_data(config, choose_device(config.device))
    write_json(folder / "data.json", report)
    print(as_text(report))
    return 0


def inference(options: argparse.Namespace, config: Config, folder: Path) -> int:
    from ..bench.inference import FirstClass, as_text, bench_inference
    from ..engine.train import choose_device
    from ..inference.trained import load_trained
    from ..runs.checkpoint import list_checkpoints
    from ..tasks import make_task

    device = choose_device(config.device)
    if list_checkpoints(Path(config.run_dir)):
        generator, config, step, shape = load_trained(config.run_dir)
        what = f"step {step} of {config.run_dir}"
    else:
        task = make_task(config)
        generator, shape = task.sampler(task.build()[task.averaged]).eval().requires_grad_(False), task.noise_shape()
        what = "untrained"
    if config.classes:
        generator = FirstClass(generator)
    rows = bench_inference(generator, shape, device, options.compile)
    write_json(
        folder / "inference.json", {"schema": 1, "generator": what, "image_size": config.image_size, "rows": rows}
    )
    network = config.model if config.task == "gan" else config.task
    print(f"{network}, {config.image_size} px, {what}, on {device.type}\n{as_text(rows)}")
    return 0


def say(line: str) -> None:
    print(f"train-gan: {line}", file=sys.stderr, flush=True)


def write_json(file: Path, report: dict[str, Any]) -> None:
    replace_text(file, json.dumps(report, indent=1) + "\n")
