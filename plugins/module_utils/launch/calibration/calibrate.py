# SPDX-License-Identifier: Apache-2.0
"""gpu-run --calibrate: run a command with each placement and then each allocator in turn, and record what is proven
faster.

Root writes the result; the command, and the test that an allocator loads, run as the user who called sudo.
"""

import json
import sys
import time
from typing import AbstractSet, Any, Callable, Dict, List, Mapping, NamedTuple, Optional, Pattern, Sequence

from ...host.as_user import giving_up_root
from ...host.terminal import escape_output
from ..choices import decide
from ..decision import Decision
from ..library_identity import library_identity
from ..options import Options
from ..placement import Placement
from ..preload import prove_preload
from ..program import take_program
from ..ranks import Launcher, Rank, find_rank
from ..runtime_policy import LaunchError
from .chosen import CALIBRATED_PATH, check_writable, command_key, kept_placements, machine_identity, save
from .measuring import Way, compiled, measure, say
from .placements import AGAIN, BARE, PLACEMENTS, different, placing, refusal, why_not_measured
from .rule import BASE, CONTROL, LEAST_ROUNDS, judge, rounds_needed
from .user import command_account, environment_for

TUNED = "jemalloc tuned"
# Name of the candidate: (allocator, whether the policy's MALLOC_CONF applies to it).
ARMS = {
    BASE: ("none", False),
    CONTROL: ("none", False),
    "jemalloc": ("jemalloc", False),
    TUNED: ("jemalloc", True),
    "tcmalloc": ("tcmalloc", False),
}


class Setting(NamedTuple):
    """Everything that the candidates share; `environ` is the account's, `become` makes a child run as the account."""

    options: Options
    command: List[str]
    environ: Dict[str, str]
    allowed_cpus: AbstractSet[int]
    policy: Dict[str, Any]
    root: str
    launcher: Optional[Launcher]
    rank: Optional[Rank]
    become: Optional[Callable[[], None]]
    metric: Optional[Pattern[str]]
    whose: str

    def decide(self, allocator: str, conf: str, placement: Optional[Placement]) -> Decision:
        """The `Decision` with this allocator and placement, None for the usual one."""
        self.options.allocator = allocator
        policy = dict(self.policy, malloc_conf=conf)
        decision = decide(
            self.options,
            self.command,
            self.environ,
            self.allowed_cpus,
            policy,
            self.root,
            self.launcher,
            self.rank,
            placement,
        )
        take_program(self.command[0], decision, self.root)
        return decision

    def measure(
        self, decisions: Dict[str, Decision], firm: Sequence[str], left_out: Dict[str, str], count: int
    ) -> List[Dict[str, float]]:
        """The rounds of these candidates; one that fails is removed from `decisions`."""
        say(f"{count} round(s){self.whose} of: {', '.join(decisions)}")
        for arm, reason in left_out.items():
            say(f"left out: {arm}: {reason}")
        ways = {arm: Way(found.environment, placing(found, self.become)) for arm, found in decisions.items()}
        rounds = measure(ways, firm, left_out, self.command, count, self.metric)
        for arm in set(decisions) - set(ways):
            del decisions[arm]
        return rounds

    @property
    def higher_is_better(self) -> bool:
        return self.metric is not None and not self.options.lower_is_better


def calibrate(
    options: Options,
    command: List[str],
    environ: Mapping[str, str],
    allowed_cpus: AbstractSet[int],
    policy: Dict[str, Any],
    root: str = "/",
    launcher: Optional[Launcher] = None,
    rank: Optional[Rank] = None,
) -> int:
    """Measure, report on stdout, write the choice; returns the exit code. LaunchError for impossible requests."""
    if not command:
        raise LaunchError("--calibrate needs a command to measure: gpu-run --calibrate -- command [argument ...]")
    for name in ("LD_PRELOAD", "MALLOC_CONF"):
        if environ.get(name):
            raise LaunchError(f"--calibrate: {name} is set and would be part of every arm; unset it")
    if options.rounds < LEAST_ROUNDS:
        raise LaunchError(f"--rounds {options.rounds}: at least {LEAST_ROUNDS} are needed to prove anything")
    metric = compiled(options.metric)
    if not options.dry_run:
        check_writable(root)
    account = command_account(options.user, dict(environ))
    setting = Setting(
        options=options,
        command=command,
        environ=environment_for(account, dict(environ)),
        allowed_cpus=allowed_cpus,
        policy=policy,
        root=root,
        launcher=launcher,
        rank=rank or find_rank(environ),
        become=None if account is None else giving_up_root(account),
        metric=metric,
        whose="" if account is None else f" as user {account.name}",
    )
    placement = _choose_placement(setting)
    chosen = Placement(*(placement[name] for name in Placement.__slots__)) if placement else None
    result = _choose_allocator(setting, chosen)
    result["placement"] = placement
    result["placements"] = kept_placements(root)
    if placement:
        result["placements"][command_key(command)] = placement
    _report(result, options.json)
    if options.dry_run:
        say(f"--dry-run: {CALIBRATED_PATH} is left as it is")
    else:
        save(result, root)
        if policy["allocator"] != "calibrated":
            say(f"written, but the policy names {policy['allocator']}, which takes precedence")
    return 0


def _choose_placement(setting: Setting) -> Dict[str, Any]:
    """The placement of this command in the format of the file, {} if none is compared."""
    why = why_not_measured(setting.options, setting.command, setting.environ, setting.policy["numa"], setting.rank)
    if why:
        say(f"placement: {why}")
        return {}
    decisions = {arm: setting.decide("none", "", placement) for arm, placement in PLACEMENTS.items()}
    decisions, left_out = different(decisions)
    for arm, decision in list(decisions.items()):
        fault = "" if arm in (BARE, AGAIN) else refusal(decision)
        if fault:
            left_out[arm] = fault
            del decisions[arm]
    candidates = [arm for arm in decisions if arm not in (BARE, AGAIN)]
    arm, why, spread = BARE, "no other placement is possible on this machine", 0.0
    rounds: List[Dict[str, float]] = []
    table: Dict[str, Dict[str, Any]] = {}
    if candidates:
        count = max(setting.options.rounds, rounds_needed(len(candidates)))
        rounds = setting.measure(decisions, (BARE, AGAIN), left_out, count)
        candidates = [name for name in candidates if name in decisions]
        arm, why, table, spread = judge(rounds, candidates, setting.higher_is_better, BARE, AGAIN, "placement")
    kept = {
        "arm": arm,
        "why": why,
        "rounds": rounds,
        "ratios": table,
        "spread_of_bare": round(spread, 4),
        "left_out": left_out,
    }
    return dict(kept, **PLACEMENTS[arm].as_dict())


def _choose_allocator(setting: Setting, placement: Optional[Placement]) -> Dict[str, Any]:
    """The result in the format of the file, with this placement for all candidates."""
    decisions: Dict[str, Decision] = {}
    left_out: Dict[str, str] = {}
    for arm, (allocator, tuned) in ARMS.items():
        conf = setting.policy["malloc_conf"] if tuned else ""
        if tuned and not conf:
            left_out[arm] = "the policy has no malloc_conf"
            continue
        try:
            decision = setting.decide(allocator, conf, placement)
        except LaunchError as error:
            if allocator == "none":
                raise
            left_out[arm] = str(error)
            continue
        library = decision.allocator
        fault = prove_preload(library, decision.environment, setting.become) if library else ""
        if fault:
            left_out[arm] = fault
        else:
            decisions[arm] = decision
    rounds = setting.measure(decisions, (BASE, CONTROL), left_out, setting.options.rounds)
    candidates = [arm for arm in decisions if arm not in (BASE, CONTROL)]
    chosen, why, table, spread = judge(rounds, candidates, setting.higher_is_better)
    allocator, tuned = ARMS[chosen]
    library = decisions[chosen].allocator
    return {
        "schema": 1,
        "time": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
        "arm": chosen,
        "allocator": allocator,
        "malloc_conf": setting.policy["malloc_conf"] if tuned else "",
        "why": why,
        "metric": setting.options.metric or "wall time in s",
        "command": setting.command,
        "rounds": rounds,
        "ratios": table,
        "spread_of_malloc": round(spread, 4),
        "left_out": left_out,
        "machine": machine_identity(setting.root),
        "library": library_identity(library, setting.root) if library else {},
    }


def _report(result: Dict[str, Any], as_json: bool) -> None:
    escape_output()
    if as_json:
        print(json.dumps(result, indent=2, sort_keys=True))
        return
    placement = result["placement"]
    if placement:
        _lines(placement, BARE)
        print(f"placement: {placement['arm']}: {placement['why']}")
    _lines(result, BASE)
    print(f"chosen: {result['arm']}: {result['why']}")
    sys.stdout.flush()


def _lines(result: Dict[str, Any], base: str) -> None:
    for arm, row in sorted(result["ratios"].items()):
        low, high = row["interval"]
        rounds, ends = len(result["rounds"]), f"{low:.3f} to {'?' if high is None else format(high, '.3f')}"
        figures = f"{row['median_ratio']:.3f}x {base} ({ends})"
        print(f"{arm:16} {figures}, faster in {row['wins']} of {rounds} rounds")
