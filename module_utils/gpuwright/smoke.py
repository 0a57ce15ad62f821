# SPDX-License-Identifier: Apache-2.0
"""Run gan_trainer.smoke as an ordinary user and read what it says; docs/architecture.md has the record."""

import json
import os
import pwd
import shutil
import tempfile

from .bounded import run_bounded

MIN_STEPS, MAX_STEPS = 10, 100000
EVIDENCE_LINES = 20
PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"


class SmokeError(Exception):
    """The smoke test failed or could not be run. `report` is its record when it gave one, else None."""

    def __init__(self, fault, action, evidence="", report=None):
        super(SmokeError, self).__init__(fault)
        self.action = action
        self.evidence = evidence
        self.report = report


def smoke_command(launcher, python, device, steps):
    """The words of the command; raises SmokeError for a number of steps that the trainer would refuse."""
    if not MIN_STEPS <= steps <= MAX_STEPS:
        fault = "steps is {}, expected {} to {}".format(steps, MIN_STEPS, MAX_STEPS)
        raise SmokeError(fault, "correct verify_smoke_steps")
    trainer = [python, "-m", "gan_trainer.smoke", "--device", device, "--steps", str(steps), "--json"]
    return [launcher, "--"] + trainer


def run_smoke(command, user, timeout):
    """Run `command` for at most `timeout` seconds as `user`, in a home of its own; a bounded.Finished or SmokeError."""
    try:
        account = pwd.getpwnam(user)
    except KeyError:
        raise SmokeError("there is no user {}".format(user), "run the role model_trainer, which creates it")
    if os.geteuid() not in (0, account.pw_uid):
        raise SmokeError("only root can run it as user {}".format(user), "use become: true")
    try:
        home = tempfile.mkdtemp(prefix="gpuwright-smoke-")
    except OSError as error:
        raise SmokeError("no temporary folder can be made: {}".format(error), "free space where it says so")
    try:
        if os.geteuid() == 0:
            os.chown(home, account.pw_uid, account.pw_gid)
        environment = {"HOME": home, "PATH": PATH, "LANG": "C.UTF-8", "USER": user, "LOGNAME": user}
        become = _becoming(account, home)
        return run_bounded(command, timeout, environment=environment, before_start=become)
    finally:
        shutil.rmtree(home, ignore_errors=True)


def _becoming(account, home):
    """What the child does before it starts: give up root for good, keep its files private."""

    def become():
        os.umask(0o077)
        if os.geteuid() == 0:
            os.initgroups(account.pw_name, account.pw_gid)
            os.setgid(account.pw_gid)
            os.setuid(account.pw_uid)
        os.chdir(home)

    return become


def read_report(stdout):
    """The smoke test's record among whatever else libraries print, or None."""
    for line in reversed(stdout.splitlines()):
        try:
            report = json.loads(line) if line.startswith("{") else None
        except ValueError:
            continue
        if isinstance(report, dict) and report.get("schema") == 1 and isinstance(report.get("problems"), list):
            return report
    return None


def check_run(finished, command, device, user):
    """The record of a smoke test without fault; SmokeError for every other end."""
    report = read_report(finished.stdout)
    evidence = "\n".join(finished.stderr.splitlines()[-EVIDENCE_LINES:])
    if report is None or finished.rc is None:
        raise _no_report(finished, command, user, evidence)
    where = [str(record.get("device")) for record in report.get("devices") or [] if isinstance(record, dict)]
    elsewhere = [name for name in where if name.split(":")[0] != device]
    if report["problems"]:
        fault = "; ".join(str(problem) for problem in report["problems"])
    elif elsewhere or not where:
        fault = "it was to run on {} and ran on {}".format(device, ", ".join(where) or "nothing")
    elif finished.rc != 0:
        fault = "it reports no problem and ended with exit code {}".format(finished.rc)
    else:
        return report
    if device == "cpu":
        action = "repeat it by hand as user {}: {}".format(user, " ".join(command))
    elif report.get("torch") and not report.get("cuda"):
        action = "set framework_pytorch_build to one for CUDA and run the role framework_pytorch"
    else:
        action = "look at nvidia-smi and at the driver's messages (journalctl -k --grep NVRM)"
    raise SmokeError(fault, action, evidence, report)


def _no_report(finished, command, user, evidence):
    """The SmokeError for a run that ended without a record."""
    by_hand = "repeat it by hand as user {}: {}".format(user, " ".join(command))
    if finished.missing:
        return SmokeError("{} is not installed".format(command[0]), "run the role system_runtime")
    if finished.timed_out:
        action = "look for a GPU that hangs (nvidia-smi, journalctl -k --grep NVRM) or raise verify_smoke_timeout"
        return SmokeError(finished.problem, action, evidence)
    if finished.rc is None:
        return SmokeError(finished.problem, by_hand, evidence)
    # The launcher's codes, which are a shell's.
    if finished.rc in (126, 127):
        return SmokeError("{} cannot be started".format(command[2]), "run the role framework_pytorch", evidence)
    if "No module named" in evidence and "gan_trainer" in evidence:
        return SmokeError("{} has no gan_trainer".format(command[2]), "run the role model_trainer", evidence)
    if finished.rc < 0:
        action = "look for the reason in journalctl -k; signal 9 is often a lack of memory"
        return SmokeError("it was ended by signal {}".format(-finished.rc), action, evidence)
    return SmokeError("it ended with exit code {} and printed no report".format(finished.rc), by_hand, evidence)


def describe(error, host):
    """One message for a person: host, fault, next step, evidence."""
    text = "AMP smoke test on {}: {}. Next: {}.".format(host, error, error.action)
    return text + ("\nLast lines of its stderr:\n" + error.evidence if error.evidence else "")
