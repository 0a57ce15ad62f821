# SPDX-License-Identifier: Apache-2.0
"""Run one of the trainer's programs as the training user in the training service's sandbox, or say why without it."""

import json
import os
import signal
from typing import Any, Dict, List, NamedTuple, Optional, Sequence

from ..host import as_user
from ..host.bounded import Finished, run_bounded
from . import sandbox

EVIDENCE_LINES = 20
# Added to systemd's own deadline for the service.
GRACE_SECONDS = 15


class Run(NamedTuple):
    """How a program was run: a bounded.Finished, the service in whose sandbox it ran or None, and why."""

    finished: Finished
    sandbox: Optional[str]
    because: str


class RunError(Exception):
    """The program failed or could not be run. `report` is its record if it gave one, else None.

    code  why it could not be run, for checks: no-user, no-room, no-launcher, cannot-start, no-trainer, timeout, or
          "failed" for anything else
    """

    def __init__(
        self,
        fault: str,
        action: str,
        evidence: str = "",
        report: Optional[Dict[str, Any]] = None,
        code: str = "failed",
    ) -> None:
        super(RunError, self).__init__(fault)
        self.code = code
        self.action = action
        self.evidence = evidence
        self.report = report


def run_program(command: List[str], user: str, timeout: float, unit: str = "") -> Run:
    """A `Run` of at most `timeout` seconds; RunError if it cannot be started as required.

    `unit` is the file of the service whose sandbox is wanted, "" for none. Without systemd, without root or without
    that file, the program only runs as the user, and `because` says so.
    """
    account = find_account(user)
    reason = sandbox.why_no_systemd() if unit else "no sandbox was asked for"
    if not reason:
        try:
            service = sandbox.read_service(unit)
        except sandbox.SandboxError as error:
            reason = str(error)
    if reason:
        return Run(run_alone(command, account, timeout), None, reason)
    if service.user != user:
        fault = f"{service.name} runs as {service.user}, but the test was supposed to run as {user}"
        raise RunError(fault, "run the role model_trainer, which writes both")
    return run_in_service(service, command, timeout)


def find_account(user: str) -> as_user.Account:
    try:
        account = as_user.find_account(user)
    except ValueError as error:
        code = getattr(error, "code", "failed")
        raise RunError(str(error), "run the role model_trainer, which creates it", code=code)
    if os.geteuid() not in (0, account.uid):
        raise RunError(f"only root can run it as user {user}", "use become: true")
    return account


def run_in_service(service: sandbox.Service, command: Sequence[str], timeout: float) -> Run:
    """A `Run` in the service's sandbox; settings unknown to this systemd are left out, as systemd itself does."""
    unit = f"gpuwright-run-{os.getpid()}"
    wanted = len(service.settings)
    while True:
        words = sandbox.service_command(service, command, timeout, unit)
        finished = run_bounded(words, timeout + GRACE_SECONDS)
        fewer = None if sandbox.started(finished.stderr) else sandbox.without_unknown(service, finished.stderr)
        if fewer is None:
            break
        service = fewer
    if finished.timed_out:
        run_bounded(["systemctl", "stop", "--no-block", unit], GRACE_SECONDS)
    elif not sandbox.started(finished.stderr):
        evidence = "\n".join(finished.stderr.splitlines()[-EVIDENCE_LINES:])
        fault = f"no program can be started in the sandbox of {service.name}"
        raise RunError(fault, f"systemctl status; systemd-analyze verify {service.name}", evidence)
    because = f"all {wanted} settings of {service.name}"
    if len(service.settings) < wanted:
        because = (
            f"{len(service.settings)} of {wanted} settings of {service.name}; this systemd does not know the others"
        )
    return Run(told_by_systemd(finished, timeout), service.name, because)


def told_by_systemd(finished: Finished, timeout: float) -> Finished:
    """The `Finished` of the program itself, from what systemd-run says about it."""
    text = sandbox.program_words(finished.stderr)
    if finished.timed_out or sandbox.ran_out_of_time(finished.stderr):
        problem = f"it did not finish within {timeout:g} s and was stopped"
        return Finished(None, finished.stdout, text, True, False, False, problem)
    name = sandbox.killed_by(finished.stderr)
    if name:
        number = getattr(signal, "SIG" + name, None)
        return finished._replace(rc=-int(number) if number else finished.rc, stderr=text)
    return finished._replace(stderr=text)


def run_alone(command: List[str], account: as_user.Account, timeout: float) -> Finished:
    """Run it as the user in a separate home, without anything of root's environment."""
    try:
        return as_user.run_as(command, account, timeout)
    except OSError as error:
        action = "free space on the file system that it names"
        raise RunError(f"no temporary folder can be made: {error}", action, code="no-room")


def read_record(stdout: str) -> Optional[Dict[str, Any]]:
    """The program's record, found among anything else that libraries print, or None."""
    for line in reversed(stdout.splitlines()):
        try:
            report = json.loads(line) if line.startswith("{") else None
        except ValueError:
            continue
        if isinstance(report, dict) and report.get("schema") == 1 and isinstance(report.get("problems"), list):
            return report
    return None


def last_words(stderr: str) -> str:
    return "\n".join(stderr.splitlines()[-EVIDENCE_LINES:])


def no_record(finished: Finished, command: Sequence[str], user: str, deadline: str) -> RunError:
    """The RunError for a program that ended without a record; `deadline` names the variable of its deadline."""
    evidence = last_words(finished.stderr)
    by_hand = f"repeat it by hand as user {user}: {' '.join(command)}"
    if finished.missing:
        return RunError(f"{command[0]} is not installed", "run the role system_runtime", code="no-launcher")
    if finished.timed_out:
        action = f"look for a GPU that hangs (nvidia-smi, journalctl -k --grep NVRM) or raise {deadline}"
        return RunError(finished.problem, action, evidence, code="timeout")
    if finished.rc is None:
        return RunError(finished.problem, by_hand, evidence)
    # The launcher's exit statuses, which are the same as a shell's.
    if finished.rc in (126, 127):
        fault = f"{command[2]} cannot be started"
        return RunError(fault, "run the role framework_pytorch", evidence, code="cannot-start")
    if "No module named" in evidence and "gan_trainer" in evidence:
        fault = f"{command[2]} has no gan_trainer"
        return RunError(fault, "run the role model_trainer", evidence, code="no-trainer")
    if finished.rc < 0:
        action = "look for the reason in journalctl -k; signal 9 often means a lack of memory"
        return RunError(f"it was terminated by signal {-finished.rc}", action, evidence)
    return RunError(f"it ended with exit code {finished.rc} and printed no report", by_hand, evidence)
