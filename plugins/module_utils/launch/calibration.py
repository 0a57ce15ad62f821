# SPDX-License-Identifier: Apache-2.0
"""gpu-run --calibrate: run a command with each allocator in turn and write down which one is proven faster.

Root keeps the result; the command, and the proof that an allocator loads, run as the user who called sudo.
"""

import json
import os
import re
import signal
import subprocess
import sys
import tempfile
import time

from ..host.as_user import giving_up_root
from ..host.terminal import escape_output
from .calibrated import CALIBRATED_PATH, check_writable, machine_identity, save
from .calibration_rule import BASE, CONTROL, LEAST_ROUNDS, judge
from .calibration_user import command_account, environment_for
from .decision import decide
from .library_identity import library_identity
from .preload import prove_preload
from .runtime_policy import LaunchError

TUNED = "jemalloc tuned"
# Name of the arm: (allocator, whether the policy's MALLOC_CONF goes with it).
ARMS = {
    BASE: ("none", False),
    CONTROL: ("none", False),
    "jemalloc": ("jemalloc", False),
    TUNED: ("jemalloc", True),
    "tcmalloc": ("tcmalloc", False),
}
TAIL_LINES = 3


def calibrate(options, command, environ, allowed_cpus, policy, root="/", launcher=None):
    """Measure, report on stdout, write the choice; returns the exit code. Raises LaunchError for what cannot be."""
    if not command:
        raise LaunchError("--calibrate needs a command to measure: gpu-run --calibrate -- command [argument ...]")
    for name in ("LD_PRELOAD", "MALLOC_CONF"):
        if environ.get(name):
            raise LaunchError(f"--calibrate: {name} is set and would be part of every arm; unset it")
    if options.rounds < LEAST_ROUNDS:
        raise LaunchError(f"--rounds {options.rounds}: at least {LEAST_ROUNDS} are needed to prove anything")
    metric = _compiled(options.metric)
    if not options.dry_run:
        check_writable(root)
    account = command_account(options.user, environ)
    environ = environment_for(account, environ)
    become = None if account is None else giving_up_root(account)
    plans, left_out = {}, {}
    for arm, (allocator, tuned) in ARMS.items():
        conf = policy["malloc_conf"] if tuned else ""
        if tuned and not conf:
            left_out[arm] = "the policy has no malloc_conf"
            continue
        options.allocator = allocator
        try:
            decision = decide(options, command, environ, allowed_cpus, dict(policy, malloc_conf=conf), root, launcher)
        except LaunchError as error:
            if allocator == "none":
                raise
            left_out[arm] = str(error)
            continue
        fault = prove_preload(decision.allocator, decision.environment, become) if decision.allocator else ""
        if fault:
            left_out[arm] = fault
        else:
            plans[arm] = decision
    whose = "" if account is None else f" as user {account.name}"
    _say(f"{options.rounds} round(s){whose} of: {', '.join(plans)}")
    for arm, reason in left_out.items():
        _say(f"left out: {arm}: {reason}")
    rounds = _measure(plans, left_out, command, options.rounds, metric, become)
    higher = metric is not None and not options.lower_is_better
    candidates = [arm for arm in plans if arm not in (BASE, CONTROL)]
    chosen, why, table, spread = judge(rounds, candidates, higher)
    allocator, tuned = ARMS[chosen]
    result = {
        "schema": 1,
        "time": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
        "arm": chosen,
        "allocator": allocator,
        "malloc_conf": policy["malloc_conf"] if tuned else "",
        "why": why,
        "metric": options.metric or "wall time in s",
        "command": command,
        "rounds": rounds,
        "ratios": table,
        "spread_of_malloc": round(spread, 4),
        "left_out": left_out,
        "machine": machine_identity(root),
        "library": library_identity(plans[chosen].allocator, root) if plans[chosen].allocator else {},
    }
    _report(result, options.json)
    if options.dry_run:
        _say(f"--dry-run: {CALIBRATED_PATH} is left as it is")
    else:
        save(result, root)
        if policy["allocator"] != "calibrated":
            _say(f"written, but the policy names {policy['allocator']}, which takes precedence")
    return 0


def _compiled(text):
    if text is None:
        return None
    try:
        metric = re.compile(text)
    except re.error as error:
        raise LaunchError(f"--metric {text!r}: is no regular expression: {error}")
    if metric.groups != 1:
        raise LaunchError(f"--metric {text!r}: put the number, and nothing else, in one pair of parentheses")
    return metric


def _measure(plans, left_out, command, count, metric, become):
    """A list of {arm: value}; an arm that fails is taken out of `plans`, malloc's failure is a LaunchError."""
    rounds = []
    # The first run fills the page cache for all.
    _run(plans[BASE], command, metric, become)
    for number in range(count):
        # Every arm is first, last and in the middle equally often.
        names = list(plans)
        order = names[number % len(names) :] + names[: number % len(names)]
        values = {}
        for arm in order[:: -1 if number % 2 else 1]:
            try:
                values[arm] = _run(plans[arm], command, metric, become)
            except LaunchError as error:
                if arm in (BASE, CONTROL):
                    raise
                left_out[arm] = str(error)
                del plans[arm]
                _say(f"left out from now on: {arm}: {error}")
        rounds.append(values)
        _say("round {}: {}".format(number + 1, ", ".join(f"{arm} {values[arm]:.4g}" for arm in names if arm in values)))
    return [{arm: values[arm] for arm in plans} for values in rounds]


def _run(decision, command, metric, become):
    """Seconds that the command took, or the last number that it printed for `metric`; LaunchError when it fails.

    `become` is called in the child before the command starts; None leaves it the caller's.
    """
    with tempfile.TemporaryFile() as output:
        start = time.perf_counter()
        try:
            code = _call(command, decision.environment, output, become)
        except (OSError, ValueError, subprocess.SubprocessError) as error:
            raise LaunchError(f"{command[0]}: cannot be executed: {getattr(error, 'strerror', error)}")
        seconds = time.perf_counter() - start
        output.seek(0)
        text = output.read().decode("utf-8", "replace")
    if code != 0:
        tail = " | ".join(text.strip().splitlines()[-TAIL_LINES:])
        raise LaunchError(f"the command ended with exit code {code}: {tail or 'it printed nothing'}")
    if metric is None:
        return seconds
    found = metric.findall(text)
    try:
        value = float(found[-1])
    except (IndexError, ValueError):
        raise LaunchError(f"--metric: the command printed no number for {metric.pattern!r}")
    if not 0 < value < float("inf"):
        raise LaunchError(f"--metric: expected a positive number, the command printed {found[-1]}")
    return value


def _call(command, environment, output, become):
    """The exit code of the command, which has no terminal: as another user it could type into root's."""
    child = subprocess.Popen(
        command,
        env=environment,
        stdin=subprocess.DEVNULL,
        stdout=output,
        stderr=subprocess.STDOUT,
        start_new_session=True,
        preexec_fn=become,
    )
    try:
        return child.wait()
    except BaseException:
        # Its session is its own, so Ctrl-C did not reach it.
        os.killpg(child.pid, signal.SIGKILL)
        child.wait()
        raise


def _say(text):
    sys.stderr.write(f"gpu-run: {text}\n")
    sys.stderr.flush()


def _report(result, as_json):
    escape_output()
    if as_json:
        print(json.dumps(result, indent=2, sort_keys=True))
        return
    for arm, row in sorted(result["ratios"].items()):
        print(f"{arm:16} {row['median_ratio']:.3f}x malloc, faster in {row['wins']} of {len(result['rounds'])} rounds")
    print(f"chosen: {result['arm']}: {result['why']}")
    sys.stdout.flush()
