"""Run the test suites and end with their counts, by kind.

`make test` is `python tests/run.py all`; `turn` runs the parts that the commit chooses (tests/parts.py), and
`everything` runs each kind, one after the other, beginning with the first that has not passed on this commit.
"""

from __future__ import annotations

import hashlib
import json
import os
import resource
import subprocess
import sys
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict
from pathlib import Path

import parts
from cores import releases_of_core
from kinds import NEEDS_FLEET, SUITES
from programs import CACHE, REPOSITORY, RESULTS, Suite, start

# `all`: its chains at once, and in each one kind after the other. The first has hosts and waits for them so often that
# it leaves more than one of two cores to the second, which computes and gives way. What takes longer is a part of
# tests/parts.py or a lane besides.
CHAINS = (("molecule", "collection"), ("lint", "unit", "trainer"))
NO_FLEET = "left out, as FLEET=off asks"
# As at a hardened site: nothing may depend on UTC, or on files being readable by default.
ZONE, UMASK = "America/New_York", 0o027


def busy_seconds() -> float:
    """CPU seconds of all processes of this machine since it started, as the kernel counts them."""
    user, nice, system, _idle, _waiting, irq, softirq = map(int, Path("/proc/stat").read_text().split()[1:8])
    return (user + nice + system + irq + softirq) / os.sysconf("SC_CLK_TCK")


def processor_seconds() -> float:
    """CPU seconds of the programs that this one has started and waited for, with theirs."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def run_kind(kind: str) -> Suite:
    suite = Suite(kind)
    begun, used = time.monotonic(), processor_seconds()
    if kind in NEEDS_FLEET and os.environ.get("FLEET") == "off":
        suite.notes.append(NO_FLEET)
    else:
        SUITES[kind](suite)
    suite.seconds = time.monotonic() - begun
    suite.processor = processor_seconds() - used
    return suite


def run_apart(kind: str) -> Suite:
    """The kind in a process of its own, whose output is shown in one piece when it has ended."""
    log, result = RESULTS / f"{kind}.log", RESULTS / f"{kind}.json"
    result.unlink(missing_ok=True)
    print(f"{kind} has begun. Its output until it ends: {log}", flush=True)
    gives_way = () if kind in NEEDS_FLEET else ("nice", "-n", "10")
    with log.open("wb") as output:
        start([*gives_way, sys.executable, __file__, kind, str(result)], stdout=output, stderr=output)
    print(f"\n{log.read_text(errors='replace')}", flush=True)
    if not result.exists():
        return Suite(kind, failed=1, notes=["it ended without a result"])
    return Suite(**json.loads(result.read_text()))


def whole() -> list[Suite]:
    """`make test`: all chains."""
    with ThreadPoolExecutor(len(CHAINS)) as pool:
        chains = list(pool.map(lambda kinds: [run_apart(kind) for kind in kinds], CHAINS))
    return [suite for suites in chains for suite in suites]


def turn() -> list[Suite]:
    """The parts that the commit chooses, as far as the time allows that `.ci/run` has left (BEGUN, in seconds)."""
    have_run = parts.HaveRun(CACHE)
    commit = parts.commit_of(REPOSITORY)
    spent = time.time() - float(os.environ.get("BEGUN") or time.time())
    done = []
    for chosen in parts.turns(commit, spent, have_run()):
        said = parts.line(chosen, commit)
        print(f"\n{said}", flush=True)
        suite = run_kind(chosen.part.kind) if chosen.run else Suite(chosen.part.kind)
        suite.notes.append(said)
        if chosen.run and not suite.failed:
            have_run.add(chosen.part.kind)
        done.append(suite)
    return done


def cores() -> list[Suite]:
    """Each ansible-core that is claimed, or those that CORE names."""
    return [run_kind(f"core-{minor}") for minor in releases_of_core.chosen(os.environ.get("CORE", ""))]


def everything() -> list[Suite]:
    """Each kind, but those that have passed on this state of the tree before."""
    kept, state = RESULTS / "everything.json", state_of_tree()
    known = json.loads(kept.read_text()) if kept.exists() else {}
    passed = known.get("passed", []) if known.get("state") == state else []
    done = []
    for kind in SUITES:
        if kind in passed:
            print(f"\n{kind}: passed before on this state", flush=True)
            continue
        suite = run_kind(kind)
        done.append(suite)
        if suite.failed or suite.notes == [NO_FLEET]:
            continue
        passed = [*passed, kind]
        kept.write_text(json.dumps({"state": state, "passed": passed}))
    return done


def state_of_tree() -> str:
    """The commit, and a digest of what differs from it."""
    git = ("git", "-C", str(REPOSITORY))
    changed = [
        subprocess.run([*git, *words], capture_output=True).stdout for words in (("diff", "HEAD"), ("status", "-s"))
    ]
    return f"{parts.commit_of(REPOSITORY)} {hashlib.sha256(b''.join(changed)).hexdigest()}"


MORE_THAN_ONE: dict[str, Callable[[], list[Suite]]] = {
    "all": whole,
    "turn": turn,
    "cores": cores,
    "everything": everything,
}


def main(wanted: str, result: str = "") -> int:
    """Run one suite, or those of MORE_THAN_ONE; exit status 0 when nothing failed.

    The file `result` is for `run_apart`: it gets what is known of the one suite.
    """
    os.environ["TZ"] = ZONE
    time.tzset()
    os.umask(UMASK)
    # A condition that is neither true nor false is an error, as it is for ansible-core 2.19 and newer.
    os.environ["ANSIBLE_ALLOW_BROKEN_CONDITIONALS"] = "false"
    # Container images often switch both off: imported modules are compiled once, and a module that Python reads from a
    # pipe is read in blocks, not with a system call for each of its 300,000 bytes.
    for name in ("PYTHONDONTWRITEBYTECODE", "PYTHONUNBUFFERED"):
        os.environ.pop(name, None)
    RESULTS.mkdir(parents=True, exist_ok=True)
    begun, busy = time.monotonic(), busy_seconds()
    done = MORE_THAN_ONE[wanted]() if wanted in MORE_THAN_ONE else [run_kind(wanted)]
    if result:
        Path(result).write_text(json.dumps(asdict(done[0])))
    print(f"\nIn time zone {ZONE}, with umask {UMASK:03o}.")
    print(f"\n{'kind':<13} {'passed':>7} {'failed':>7} {'skipped':>8} {'seconds':>8} {'processor':>9}")
    for suite in done:
        counts = f"{suite.passed:>7} {suite.failed:>7} {suite.skipped:>8}"
        print(f"{suite.kind:<13} {counts} {suite.seconds:>8.0f} {suite.processor:>9.0f}")
        for note in suite.notes:
            print(f"              {note}")
    total = [sum(getattr(suite, name) for suite in done) for name in ("passed", "failed", "skipped")]
    print(f"\n{total[0]} passed, {total[1]} failed, {total[2]} skipped")
    print(f"{time.monotonic() - begun:.0f} s; {busy_seconds() - busy:.0f} processor seconds of all of this machine")
    return 1 if total[1] else 0


if __name__ == "__main__":
    sys.exit(main(*(sys.argv[1:] or ["all"])))
