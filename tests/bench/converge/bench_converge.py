"""make bench-converge: what a run costs, beside a bare script and a stock role, in one run; and 100 hosts at once."""

from __future__ import annotations

import argparse
import json
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from answers import MOST_MODULES, give, record
from converge_page import KINDS, goal_lines, write_all
from fleet_hosts import Fleet, add_addresses, inotify_for
from gpuwright_fleet.paths import cache_dir, content_hash
from payload import LIST_PACKAGES, MINUTES, take
from real_packages import first_runs
from same import differences
from ways import (
    BARE,
    CHANGED_MINUTES,
    HERE,
    MITOGEN,
    OURS,
    REPOSITORY,
    STOCK,
    Command,
    Failed,
    bare,
    gpuwright,
    once,
    why_not,
)
from ways import stock as stock_role

CACHE = cache_dir().parent / "bench-converge"
RESULTS = REPOSITORY / "docs/benchmarks"
SLUGS = {BARE: "bare", STOCK: "stock", MITOGEN: "mitogen", OURS: "ours"}
MOST_RUNS = 5
# What a finished host is made from.
CODE = ("roles", "plugins", "playbooks", "trainer/gan_trainer")
Values = dict[str, dict[str, list[dict[str, float]]]]


def say(text: str) -> None:
    print(f"{time.strftime('%H:%M:%S')} {text}", file=sys.stderr, flush=True)


def machine() -> dict[str, Any]:
    """What a reader needs to judge the figures; no names of hosts or folders."""
    model = next(line for line in Path("/proc/cpuinfo").read_text().splitlines() if line.startswith("model name"))
    return {
        "date": time.strftime("%Y-%m-%d", time.gmtime()),
        "CPU": model.partition(":")[2].strip(),
        "cores": os.cpu_count(),
        "load before": round(os.getloadavg()[0], 1),
    }


@contextmanager
def measured(found: dict[str, Any], note: str) -> Iterator[None]:
    """Note the machine and its load before and after in `found`."""
    found["measured"] = machine() | ({"note": note} if note else {})
    start = time.monotonic()
    yield
    found["measured"] |= {"load after": round(os.getloadavg()[0], 1), "minutes": round((time.monotonic() - start) / 60)}


def mitogen_folder() -> Path:
    """mitogen of requirements.txt in a folder of its own in the cache, with its hash checked."""
    folder = CACHE / f"mitogen-{content_hash([HERE / 'requirements.txt'])}"
    if not folder.exists():
        words = ["--quiet", "--require-hashes", "--no-deps", "-r", str(HERE / "requirements.txt")]
        part = folder.with_suffix(".part")
        shutil.rmtree(part, ignore_errors=True)
        subprocess.run([sys.executable, "-m", "pip", "install", *words, "--target", str(part)], check=True)
        part.rename(folder)
    return folder


class Hosts:
    """The arms on `count` hosts each; those that are not measured are held still."""

    def __init__(self, count: int, arms: list[str], kept: Path) -> None:
        self.count, self.arms, self.kept = count, arms, kept
        self.fleets = {arm: Fleet(f"{SLUGS[arm]}-{count}", count) for arm in arms}
        self.values: Values = {arm: {} for arm in arms}
        self.errors: dict[str, str] = {}
        self.short_from = 0

    def command(self, arm: str, minutes: int = MINUTES) -> Command:
        fleet = self.fleets[arm]
        if arm == OURS:
            return gpuwright(fleet.inventory, minutes)
        if arm == BARE:
            return bare(fleet, minutes, self.kept / "payload")
        mitogen = mitogen_folder() if arm == MITOGEN else None
        return stock_role(fleet.inventory, minutes, self.kept / "payload", mitogen)

    def measure(self, arm: str, step: str, minutes: int = MINUTES) -> dict[str, float]:
        """One run; an arm that fails is left out from then on, and what it said is kept."""
        if arm in self.errors:
            return {}
        label = f"{arm}, {step}, {self.count} host(s)"
        try:
            cost = once(label, self.fleets[arm], self.command(arm, minutes), self.count)
            wrong = why_not(step, cost.values, self.fleets[arm].timers(), minutes)
            if wrong:
                raise Failed(f"{label}: {wrong}")
        except Failed as failure:
            if arm == OURS:
                raise
            say(str(failure))
            self.errors[arm] = str(failure)
            return {}
        self.values[arm].setdefault(step, []).append(cost.values)
        told = ", ".join(f"{name} {cost.values[name]:.1f}" for name in ("wall", "controller CPU", "modules", "MB"))
        say(f"{label}: {told}")
        return cost.values

    def from_bare(self, arm: str) -> None:
        """A first run on bare hosts; of ours also what follows it until a run is short."""
        fleet = self.fleets[arm]
        fleet.make_bare()
        before = fleet.do(fleet.names[0], LIST_PACKAGES)
        self.measure(arm, "first")
        if arm == OURS:
            if not (self.kept / "payload/values.json").exists():
                take(fleet, before, self.kept / "payload")
            self.settle()
        fleet.hold(True)

    def settle(self) -> None:
        """Plain runs until one enters no role; the last is not kept, as the no-op runs follow."""
        for number in range(2, MOST_RUNS + 1):
            cost = self.measure(OURS, "second" if number == 2 else "until short")
            if cost["modules"] <= MOST_MODULES:
                self.short_from = max(self.short_from, number)
                return
        raise Failed(f"gpuwright: run {MOST_RUNS} still enters roles that have nothing to do")

    def again(self, arm: str, step: str, minutes: int) -> None:
        self.fleets[arm].hold(False)
        self.measure(arm, step, minutes)
        self.fleets[arm].hold(True)

    def all(self, rounds: int, repeats: int, changes: int, save: Callable[[], None]) -> None:
        """All arms, in another order each time; `save` is called whenever something is complete."""
        taken = (self.kept / "payload/values.json").exists()
        order = sorted(self.arms, key=lambda arm: arm != OURS) if not taken else self.arms
        for number in range(rounds):
            for arm in turned(order, number):
                self.from_bare(arm)
            save()
            for repeat in range(repeats):
                for arm in turned(order, number + repeat):
                    self.again(arm, "no-op", MINUTES)
                save()
            for repeat in range(changes):
                for arm in turned(order, number + repeat):
                    self.again(arm, "changed variable", MINUTES if repeat % 2 else CHANGED_MINUTES)
                save()

    def down(self) -> None:
        for fleet in self.fleets.values():
            fleet.hold(False)
            fleet.down()


def turned(arms: list[str], number: int) -> list[str]:
    """Another one begins in each round."""
    place = number % len(arms)
    return arms[place:] + arms[:place]


def on_hosts(count: int, options: argparse.Namespace, kept: Path) -> None:
    """The part "hosts" for one number of hosts; what is complete is written at once, as a run takes long."""
    from figures import summary, verdicts

    hosts = Hosts(count, [arm for arm, slug in SLUGS.items() if slug in options.arms.split(",")], kept)
    found: dict[str, Any] = {"rounds": options.rounds, "repeats": options.repeats, "changes": options.changes}
    found["measured"] = machine() | ({"note": options.note} if options.note else {})
    start = time.monotonic()

    def save() -> None:
        minutes = round((time.monotonic() - start) / 60)
        found["measured"] |= {"load after": round(os.getloadavg()[0], 1), "minutes": minutes}
        found["arms"], found["verdicts"] = summary(hosts.values), verdicts(hosts.values, OURS)
        found["short from"] = hosts.short_from
        found["errors"] = {arm: text.splitlines()[-6:] for arm, text in hosts.errors.items()}
        write_all(options.results, {f"hosts {count}": found})
        options.raw.mkdir(parents=True, exist_ok=True)
        (options.raw / f"hosts-{count}.json").write_text(json.dumps(hosts.values, indent=1))

    with inotify_for(count * len(hosts.arms)):
        try:
            hosts.all(options.rounds, options.repeats, options.changes, save)
            if count == 1:
                others = [arm for arm in hosts.arms if arm != OURS and arm not in hosts.errors]
                found["same"] = differences(hosts.fleets, OURS, others)
                save()
                if not (kept / "answers").exists():
                    hosts.fleets[OURS].hold(False)
                    hosts.settle()
                    record(hosts.fleets[OURS], kept / "answers")
        finally:
            hosts.down()


def on_endpoints(count: int, options: argparse.Namespace, kept: Path) -> dict[str, Any]:
    """The part "endpoints": `count` addresses of one container, which answer from what was recorded."""
    from figures import summary

    if not (kept / "answers").exists():
        raise SystemExit("No answers were recorded of this state of the code: measure the part hosts first.")
    fleet = Fleet("many", 1)
    found: dict[str, Any] = {"hosts": count, "forks": options.forks, "repeats": options.repeats}
    values: Values = {OURS: {}}
    try:
        fleet.make_bare()
        give(fleet, kept / "answers")
        inventory = add_addresses(fleet, count)
        with measured(found, options.note):
            for _repeat in range(options.repeats):
                cost = once(
                    f"{count} endpoints", fleet, gpuwright(inventory, MINUTES, f"--forks={options.forks}"), count
                )
                values[OURS].setdefault("no-op", []).append(cost.values)
                say(f"{count} endpoints: {cost.values}")
    finally:
        fleet.down()
    return found | {"arms": summary(values)}


def on_real_packages(options: argparse.Namespace, kept: Path) -> None:
    """The part "real packages": first runs on Debian."""
    from figures import summary

    found: dict[str, Any] = {"rounds": options.real}
    with measured(found, options.note):
        told = first_runs(options.real, kept / "payload-debian", say)
    found |= {"arms": summary(told["values"]), "same": told["same"]}
    write_all(options.results, {"real packages": found})


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=1, help="first runs of every arm (default: 1)")
    parser.add_argument("--repeats", type=int, default=3, help="no-op runs in each round (default: 3)")
    parser.add_argument(
        "--changes", type=int, default=2, help="runs with a changed variable in each round (default: 2)"
    )
    parser.add_argument(
        "--hosts", default="1", help="numbers of hosts, such as 1,10; none leaves them out (default: 1)"
    )
    parser.add_argument("--arms", default=",".join(SLUGS.values()), help=f"default: {','.join(SLUGS.values())}")
    parser.add_argument(
        "--endpoints", default="10,100", help="addresses that answer from a stub; none (default: 10,100)"
    )
    parser.add_argument(
        "--forks", type=int, default=25, help="of the runs on endpoints (default: 25, as in ansible.cfg)"
    )
    parser.add_argument(
        "--real", type=int, default=0, help="rounds of first runs with Debian's real packages (default: none)"
    )
    parser.add_argument("--note", default="", help="what a reader must know of the machine during this run")
    parser.add_argument("--results", type=Path, default=RESULTS, help="folder of converge.json, .md and .png")
    parser.add_argument("--raw", type=Path, default=CACHE, help="folder for every single value")
    options = parser.parse_args()
    unknown = sorted(set(options.arms.split(",")) - set(SLUGS.values()))
    if unknown:
        parser.error(f"--arms: no way is called {', '.join(unknown)}; they are {', '.join(SLUGS.values())}")
    kept = CACHE / content_hash([REPOSITORY / name for name in CODE])
    os.umask(0o022)
    for count in [int(word) for word in options.hosts.split(",") if word != "none"]:
        on_hosts(count, options, kept)
    for count in [int(word) for word in options.endpoints.split(",") if word != "none"]:
        found = on_endpoints(count, options, kept)
        write_all(options.results, {f"endpoints {count}": found})
    if options.real:
        on_real_packages(options, kept)
    result = write_all(options.results, {})
    print("\n".join(goal_lines(result)))
    print(f"Page: {options.results / 'converge.md'}; kinds of cost: {', '.join(KINDS)}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
