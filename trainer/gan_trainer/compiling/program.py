# SPDX-License-Identifier: Apache-2.0
"""python -m gan_trainer.compiling: build and run something small, the way Triton, Inductor and extensions do.

Prints one line of JSON. Each step has a process, a cache and a deadline of its own, and leaves nothing behind.
Exit codes: 0 no problems, 1 problems, 2 wrong command line.
"""

from __future__ import annotations

import argparse
import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from importlib.util import find_spec
from pathlib import Path
from types import FrameType
from typing import Any

from .caches import CacheError, Caches
from .faults import LEFT_OUT, Fault, classify, of_ending
from .steps import STEPS, LeftOut

EXIT_PROBLEMS = 1
# One source file takes a second or two, torch.compile's first kernel up to a minute on a busy machine.
SECONDS = 180.0
GPU_STEPS = ("triton", "extension", "torch.compile", "nvrtc")
LONGEST_EVIDENCE = 4000
# This package is found where it is, also if nothing but its caller's path leads there.
CHILD = (
    f"import sys; sys.path.append({str(Path(__file__).parents[2])!r}); from {__name__} import main; sys.exit(main())"
)


def parse(arguments: list[str] | None) -> argparse.Namespace:
    summary = "Compile and run something small, as torch.compile does on a GPU or, with what there is, on the CPU."
    parser = argparse.ArgumentParser("python -m gan_trainer.compiling", description=summary, allow_abbrev=False)
    parser.add_argument("--device", choices=("cuda", "cpu"), required=True, help="where compiled code would run")
    parser.add_argument("--json", action="store_true", help="one line of JSON instead of an indented one")
    parser.add_argument("--seconds", type=float, default=SECONDS, help="deadline of each step (default: %(default)s)")
    parser.add_argument("--step", choices=sorted(STEPS), help="only this one, in this process and in its usual caches")
    options = parser.parse_args(arguments)
    if not options.seconds > 0:
        parser.error(f"--seconds {options.seconds:g}: expected a number above 0")
    return options


def choose_steps(device: str) -> tuple[str, ...]:
    """On a CPU, an extension in C takes the place of Triton's, if there is none."""
    if device == "cuda":
        return GPU_STEPS
    return ("triton" if find_spec("triton") else "c", "extension")


def try_compiling(device: str, seconds: float = SECONDS) -> dict[str, Any]:
    """`{device, steps: [{name, what, fault, words, seconds}], left_out: [{name, why}], problems: [sentence]}`.

    fault is "none" or a code (faults.py), words its sentence, or how a good step was shortened. Never raises.
    """
    record: dict[str, Any] = {"device": device, "steps": [], "left_out": [], "problems": []}
    for name in choose_steps(device):
        faulty = [step["name"] for step in record["steps"] if step["fault"] != "none"]
        if name == "torch.compile" and "triton" in faulty:
            record["left_out"].append({"name": name, "why": "what it needs cannot be built"})
            continue
        start = time.monotonic()
        fault = try_step(name, device, seconds)
        if fault.code == LEFT_OUT:
            record["left_out"].append({"name": name, "why": fault.words})
            continue
        took = round(time.monotonic() - start, 3)
        what, code = STEPS[name].what, fault.code or "none"
        record["steps"].append({"name": name, "what": what, "fault": code, "words": fault.words, "seconds": took})
        if fault.code:
            record["problems"].append(f"{what} cannot be built and used: {fault.words}")
    return record


def try_step(name: str, device: str, seconds: float) -> Fault:
    """Run one step in a child with caches that are removed again; what is wrong, if anything."""
    command = [sys.executable, "-c", CHILD, "--device", device, "--step", name]
    try:
        with Caches() as caches:
            done = run_child(command, {**os.environ, **caches.environment()}, seconds)
    except CacheError as error:
        return Fault("cache", str(error))
    code, output, errors = done
    if code is None:
        return Fault("timeout", f"it did not end within {seconds:g} s")
    try:
        answer = json.loads(output.splitlines()[-1])
    except (IndexError, ValueError):
        return of_ending(code, errors)
    if answer["left_out"] or not answer["error"]:
        return Fault(LEFT_OUT if answer["left_out"] else "", answer["left_out"] or answer["words"])
    return classify(f"{errors[-LONGEST_EVIDENCE:]}\n{answer['error']}")


def run_child(command: list[str], environment: dict[str, str], seconds: float) -> tuple[int | None, str, str]:
    """(exit code or None at the deadline, stdout, stderr); its compiler ends with it."""
    pipe, child = subprocess.PIPE, None
    try:
        with interruption_held():
            child = subprocess.Popen(
                command, env=environment, stdin=subprocess.DEVNULL, stdout=pipe, stderr=pipe, text=True,
                errors="replace", start_new_session=True,
            )  # fmt: skip
        output, errors = child.communicate(timeout=seconds)
    except BaseException as error:
        # It has its own session, so Ctrl-C did not reach it.
        if child is not None:
            with suppress(ProcessLookupError):
                os.killpg(child.pid, signal.SIGKILL)
            child.communicate()
        if isinstance(error, subprocess.TimeoutExpired):
            return None, "", ""
        raise
    return child.returncode, output, errors


@contextmanager
def interruption_held() -> Iterator[None]:
    """Deliver Ctrl-C at the end of the block: before Popen returns, nobody knows the process that it has started."""
    handler = signal.getsignal(signal.SIGINT)
    if not callable(handler) or threading.current_thread() is not threading.main_thread():
        yield
        return
    # A mask would hold it back in this thread only, and PyTorch has others.
    arrived: list[FrameType | None] = []
    try:
        signal.signal(signal.SIGINT, lambda number, frame: arrived.append(frame))
        yield
    finally:
        signal.signal(signal.SIGINT, handler)
        if arrived:
            handler(signal.SIGINT, arrived[0])


def run_step(name: str, device: str) -> dict[str, str]:
    """What a child prints: `{left_out, error, words}`; left_out and error are "" if all is well."""
    answer = {"left_out": "", "error": "", "words": ""}
    try:
        answer["words"] = STEPS[name].work(device) or ""
    except LeftOut as reason:
        answer["left_out"] = str(reason)
    # Of as many kinds as there are compilers.
    except Exception as error:
        answer["error"] = f"{type(error).__name__}: {error}"[-LONGEST_EVIDENCE:]
    return answer


def main(arguments: list[str] | None = None) -> int:
    options = parse(arguments)
    if options.step:
        answer = run_step(options.step, options.device)
        # Last and alone on its line, whatever libraries have printed.
        print("\n" + json.dumps(answer), flush=True)
        return EXIT_PROBLEMS if answer["error"] else 0
    record = {"schema": 1, **try_compiling(options.device, options.seconds)}
    print(json.dumps(record, indent=None if options.json else 2), flush=True)
    return EXIT_PROBLEMS if record["problems"] else 0
