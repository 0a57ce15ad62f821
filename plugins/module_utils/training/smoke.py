# SPDX-License-Identifier: Apache-2.0
"""Run gan_trainer.smoke as an ordinary user and read its output; docs/parts/smoke-test.md describes the record."""

import platform
import time
from typing import Any, Dict, List, Mapping, Optional, Sequence, Tuple

from ..host.in_child import Beside
from .trainer_run import (
    GRACE_SECONDS,
    Run,
    RunError,
    last_words,
    no_record,
    read_record,
    run_program,
)

MIN_STEPS, MAX_STEPS = 10, 100000
# Options of the modules that run the test: amp_smoke_test, and gpu_verify as smoke_test.
OPTIONS = {
    "python": {"type": "path", "required": True},
    "launcher": {"type": "path", "default": "/usr/local/bin/gpu-run"},
    "user": {"type": "str", "required": True},
    "device": {"type": "str", "choices": ["cuda", "cpu"], "required": True},
    "steps": {"type": "int", "default": 50},
    "timeout": {"type": "float", "default": 600.0},
    "unit": {"type": "path", "default": "/etc/systemd/system/train-gan@.service"},
}  # type: Dict[str, Dict[str, Any]]


def wrong_option(options: Mapping[str, Any]) -> str:
    """What is wrong with options that fit their types, "" if nothing is."""
    if not options.get("hours", 0) >= 0:
        return f"hours is {options['hours']}, expected 0 or more"
    return "" if options["timeout"] > 0 else f"timeout is {options['timeout']} s, expected a number above 0"


def run_smoke(options: Mapping[str, Any]) -> Dict[str, Any]:
    """Run the test with these OPTIONS: `{smoke, command, seconds}`, and `{failed, msg, code}` if it did not succeed."""
    started = time.monotonic()
    answer = _run_smoke(options)
    return dict(answer, seconds=round(time.monotonic() - started, 3))


def _run_smoke(options: Mapping[str, Any]) -> Dict[str, Any]:
    command = []  # type: List[str]
    try:
        command = smoke_command(options["launcher"], options["python"], options["device"], options["steps"])
        run = run_program(command, options["user"], options["timeout"], options["unit"])
        report = check_run(run, command, options["device"], options["user"])
    except RunError as error:
        words = describe(error, platform.node())
        return {"smoke": error.report, "command": command, "failed": True, "msg": words, "code": error.code}
    return {"smoke": report, "command": command}


class SmokeBeside:
    """The smoke test in a child, while the caller reads the node. It begins at once."""

    def __init__(self, options: Mapping[str, Any]) -> None:
        """With OPTIONS that `wrong_option` accepts."""
        self._child = Beside(run_smoke, options)
        # The test itself ends in time; this is for a child that was killed or hangs.
        self._seconds = options["timeout"] + 2 * GRACE_SECONDS

    def answer(self) -> Dict[str, Any]:
        """What `run_smoke` returned, waiting for it; to be called once."""
        lost = "AMP smoke test: its process gave no answer. Next: look for the reason in journalctl -k."
        return self._child.answer(self._seconds) or {"smoke": None, "failed": True, "msg": lost, "seconds": None}


def start_beside(options: Optional[Mapping[str, Any]]) -> Tuple[Optional[SmokeBeside], str]:
    """A smoke test that has begun, or None, and who works on the cards, so that none was begun there.

    Who works is looked for only with `agents`, names of further programs that lose nothing.
    """
    if not options:
        return None, ""
    if options["device"] == "cuda" and options["agents"] is not None:
        # Late, since most of what a node without cards is sent is loaded while it trains.
        from ..probe.workloads import describe_all, in_way, read_workloads

        who = describe_all(in_way(read_workloads(agents=options["agents"]), "cards"))
        if who:
            return None, who
    return SmokeBeside(options), ""


def smoke_command(launcher: str, python: str, device: str, steps: int) -> List[str]:
    """The command line; raises RunError for a number of steps that the trainer would refuse."""
    if not MIN_STEPS <= steps <= MAX_STEPS:
        fault = f"steps is {steps}, expected {MIN_STEPS} to {MAX_STEPS}"
        raise RunError(fault, "correct verify_smoke_steps")
    trainer = [python, "-m", "gan_trainer.smoke", "--device", device, "--steps", str(steps), "--json"]
    return [launcher, "--"] + trainer


def check_run(run: Run, command: Sequence[str], device: str, user: str) -> Dict[str, Any]:
    """The record of a smoke test without fault, plus how it was run; RunError for every other outcome."""
    finished = run.finished
    report = read_record(finished.stdout)
    if report is None or finished.rc is None:
        raise no_record(finished, command, user, "verify_smoke_timeout")
    report = dict(report, sandbox=run.sandbox, sandbox_because=run.because)
    where = [str(record.get("device")) for record in report.get("devices") or [] if isinstance(record, dict)]
    elsewhere = [name for name in where if name.split(":")[0] != device]
    if report["problems"]:
        fault = "; ".join(str(problem) for problem in report["problems"])
    elif elsewhere or not where:
        fault = f"it was supposed to run on {device}, but ran on {', '.join(where) or 'nothing'}"
    elif finished.rc != 0:
        fault = f"it reports no problem, but ended with exit code {finished.rc}"
    else:
        return report
    if device == "cpu":
        action = f"repeat it by hand as user {user}: {' '.join(command)}"
    elif report.get("torch") and not report.get("cuda"):
        action = "set framework_pytorch_build to one for CUDA and run the role framework_pytorch"
    else:
        action = "look at nvidia-smi and at the driver's messages (journalctl -k --grep NVRM)"
    raise RunError(fault, action, last_words(finished.stderr), report)


def describe(error: RunError, host: str) -> str:
    """One message for people: host, fault, next step, evidence."""
    text = f"AMP smoke test on {host}: {error}. Next: {error.action}."
    return text + ("\nLast lines of its stderr:\n" + error.evidence if error.evidence else "")
