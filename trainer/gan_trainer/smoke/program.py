# SPDX-License-Identifier: Apache-2.0
"""python -m gan_trainer.smoke: a short real training in float32 and in mixed precision on every GPU, or on the CPU.

Then one over all of them at once with DistributedDataParallel; two processes stand for them on a CPU. At last something
small is compiled, as torch.compile does.
Prints one line of JSON. Exit codes: 0 no problems, 1 problems, 2 wrong command line.
"""

from __future__ import annotations

import argparse
import json
import resource
import traceback
from typing import Any

from .problem import Problem, from_error

EXIT_PROBLEMS = 1
MIN_STEPS, MAX_STEPS = 10, 100_000


def parse(arguments: list[str] | None) -> argparse.Namespace:
    summary = "Train a small GAN in float32 and in mixed precision on every GPU or on the CPU; report what happened."
    parser = argparse.ArgumentParser("python -m gan_trainer.smoke", description=summary, allow_abbrev=False)
    parser.add_argument("--device", choices=("cuda", "cpu"), required=True, help="where it must run")
    parser.add_argument("--steps", type=int, default=50, help="training steps in each precision (default: 50)")
    parser.add_argument("--json", action="store_true", help="one line of JSON instead of an indented one")
    options = parser.parse_args(arguments)
    if not MIN_STEPS <= options.steps <= MAX_STEPS:
        parser.error(f"--steps {options.steps}: expected {MIN_STEPS} to {MAX_STEPS}")
    return options


def read_limits() -> dict[str, str]:
    """What this process may pin (bytes) and open, as texts, since there may be no limit."""
    kinds = {"memlock": resource.RLIMIT_MEMLOCK, "files": resource.RLIMIT_NOFILE}
    hard = {name: resource.getrlimit(kind)[1] for name, kind in kinds.items()}
    return {name: "infinity" if value == resource.RLIM_INFINITY else str(value) for name, value in hard.items()}


def smoke(device: str, steps: int) -> dict[str, Any]:
    """The report; whatever goes wrong becomes one of its `problems`, a `Problem`."""
    report: dict[str, Any] = {"schema": 1, "torch": None, "cuda": None, "device": device, "steps": steps}
    report.update(devices=[], parallel=None, compile=None, limits=read_limits(), problems=[])
    try:
        import torch

        from ..compiling.program import try_compiling
        from .parallel import prepare_parallel, try_parallel
        from .run import choose_amp, list_targets, try_target
    # A broken installation fails in more ways than ImportError: a missing symbol, a wrong processor.
    except Exception as error:
        traceback.print_exc()
        words = f"torch and what training needs cannot be imported: {error}"
        report["problems"].append(from_error(error, words, "cannot-import"))
        return report
    report.update(torch=torch.__version__, cuda=torch.version.cuda)
    if device == "cpu":
        # A network this small gains nothing from more threads, and on a busy machine it would wait for them.
        torch.set_num_threads(1)
    targets = list_targets(device)
    if not targets:
        built = f"for CUDA {torch.version.cuda}" if torch.version.cuda else "for the CPU only"
        words = f"cuda was requested; torch {torch.__version__}, built {built}, finds no usable GPU"
        report["problems"].append(Problem(words, "no-gpu"))
    if targets:
        prepare_parallel(targets)
    for target in targets:
        record, problems = try_target(target, steps)
        report["devices"].append(record)
        report["problems"] += problems
    if targets:
        report["parallel"], problems = try_parallel(targets, choose_amp(targets[0].capability), steps)
        report["problems"] += problems
        # Its problems are judged by a check of their own: eager mode trains without it.
        report["compile"] = try_compiling(device)
    return report


def main(arguments: list[str] | None = None) -> int:
    options = parse(arguments)
    report = smoke(options.device, options.steps)
    report["problem_codes"] = [problem.code for problem in report["problems"]]
    print(json.dumps(report, indent=None if options.json else 2), flush=True)
    return EXIT_PROBLEMS if report["problems"] else 0
