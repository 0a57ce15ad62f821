"""Bring a host to a point, inject a fault, run the same command again, and compare with an undisturbed run."""

from __future__ import annotations

import functools
import hashlib
import json
import random
import shutil
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from interrupt import record
from interrupt.faults import Fault, disk_of
from interrupt.host import REPO_ROOT, Host, image_of, is_kept
from interrupt.run import Boundary, Run
from interrupt.steps import Inside, Step, chain

PRODUCT = ("playbooks", "roles", "plugins", "trainer")
CACHE = REPO_ROOT / ".fleet" / "interrupt"
# What is compared, and how: states and hashes that other rules have read are not to be compared with.
RULES = hashlib.sha256(Path(record.__file__).read_bytes()).hexdigest()[:8]
HASHES = CACHE / f"hashes-{RULES}"
# More than preflight asks for; the file that holds the file system is sparse.
SPARE_MB = 40960
# How much of a task has passed when something happens inside it: up to this long after its sign was seen. A task that
# was over by then is tried again with a quarter of that.
INSIDE_S, SOONER = 2.0, 4


@dataclass(frozen=True)
class Reference:
    """What an undisturbed run of a step left behind, and before which tasks it can be stopped."""

    state: record.State
    boundaries: tuple[Boundary, ...]


@dataclass(frozen=True)
class Pair:
    """One fault at one point. `place`: a boundary, or a point inside a task."""

    step: Step
    place: Boundary | Inside
    fault: Fault

    @property
    def point(self) -> str:
        if isinstance(self.place, Inside):
            return f"{self.step.name}: in the {self.place.name}"
        which = f" ({self.place.time})" if self.place.time > 1 else ""
        return f"{self.step.name}: before {self.place.task!r}{which}"


@functools.cache
def state_of_product() -> str:
    """What a host is installed from, as git names it; snapshots of another state are no place to begin."""

    def git(*words: str) -> str:
        return subprocess.run(["git", *words], cwd=REPO_ROOT, capture_output=True, text=True, check=True).stdout

    return git("ls-tree", "HEAD", "--", *PRODUCT) + git("diff", "HEAD", "--", *PRODUCT)


def key(step: Step, host: Host) -> str:
    """Of all that a host has gone through up to the end of this step."""
    words = [host.image, state_of_product(), *(repr(each) for each in chain(step))]
    return hashlib.sha256(" ".join(words).encode()).hexdigest()[:12]


def image_before(step: Step, host: Host) -> str:
    """The image on which a step begins; made where it is missing."""
    if not step.after:
        return host.image
    before = chain(step)[-2]
    image = image_of(f"{before.name.replace(' ', '-').lower()}-{key(before, host)}")
    if not is_kept(image):
        reference(before, host)
    return image


def reference(step: Step, host: Host) -> Reference:
    """Run a step without any trouble, once for each state of the product; its host is kept as an image."""
    name = f"{step.name.replace(' ', '-').lower()}-{key(step, host)}"
    file = CACHE / f"{name}-{RULES}.json"
    if file.exists() and is_kept(image_of(name)):
        data = json.loads(file.read_text())
        return Reference(data["state"], tuple(Boundary(**each) for each in data["boundaries"]))
    host.restore(image_before(step, host))
    started = time.monotonic()
    run = Run(host, step)
    status = run.ended()
    if status:
        raise RuntimeError(f"an undisturbed run of {step.name!r} ended with {status}: {run.said[-3000:]}")
    print(f"   undisturbed: {step.name}, {time.monotonic() - started:.0f} s", flush=True)
    boundaries = boundaries_of(run)
    run.discard()
    if not is_kept(image_of(name)):
        host.keep(image_of(name))
    state = record.read(host, record.Hashes(HASHES))
    CACHE.mkdir(parents=True, exist_ok=True)
    file.write_text(json.dumps({"state": state, "boundaries": [vars(each) for each in boundaries]}))
    return Reference(state, boundaries)


def boundaries_of(run: Run) -> tuple[Boundary, ...]:
    """Before each task that changed something, and after it (before the one that follows)."""
    records = run.records()
    changed = {(each["changed"], each["time"]) for each in records if "changed" in each}
    tasks = [(each["task"], each["time"]) for each in records if "task" in each]
    found = []
    for number, task in enumerate(tasks):
        if task in changed or (number and tasks[number - 1] in changed):
            found.append(Boundary(*task))
    return tuple(found)


@contextmanager
def disks(host: Host, pair: Pair, image: str) -> Iterator[None]:
    """The host set back; where a file system is to be filled, it has one of its own, with little room."""
    folder = pair.fault.folder
    host.restore(image)
    if not folder:
        yield
        return
    work = Path(tempfile.mkdtemp(prefix="disk-"))
    file = work / "disk"
    try:
        if folder == "/":
            with host.unpacked(image) as content:
                disk_of(content, file, SPARE_MB, pair.fault.journal)
            host.restore(image, root=Path(f"{file}.mounted"))
            # What it begins with, keys of sshd included, has long been written: only what the run writes may be lost.
            subprocess.run(["sync", "--file-system", f"{file}.mounted"], check=True)
        else:
            disk_of(Path(f"{host.root()}{folder}"), file, SPARE_MB)
            host.restore(image, {folder: Path(f"{file}.mounted")})
        yield
    finally:
        # The container lets go of the file system first.
        host.restore(image)
        if Path(f"{file}.mounted").is_mount():
            subprocess.run(["umount", f"{file}.mounted"], check=True)
        shutil.rmtree(work)


class NotReached(RuntimeError):
    """The run was over before its point, or before anything could happen inside its task."""


@dataclass(frozen=True)
class Outcome:
    """`interrupted`: exit status of the interrupted run; `again`: of the plain one; and what differs after it."""

    interrupted: int
    again: int
    differences: tuple[str, ...]
    seconds: float
    said: str
    said_again: str


def exercise(host: Host, pair: Pair, seed: int, attempt: int = 1) -> Outcome:
    """One pair, on a host that is restored first. Each `attempt` strikes at another moment inside a task."""
    chance = random.Random(f"{seed} {pair.point} {pair.fault.name}{f' {attempt}' if attempt > 1 else ''}")
    host.attempt = attempt
    wanted = reference(pair.step, host)
    image = image_before(pair.step, host)
    started = time.monotonic()
    with disks(host, pair, image):
        first = Run(host, pair.step, pair.place if isinstance(pair.place, Boundary) else None)
        if not come_to(host, first, pair.place, chance.uniform(0, INSIDE_S / SOONER ** (attempt - 1))):
            raise NotReached(f"the point was not reached: {first.said[-2000:]}")
        pair.fault.strike(host, first, pair.step)
        interrupted = first.ended()
        pair.fault.lift(host)
        again = Run(host, pair.step)
        status = again.ended()
        found = record.read(host, record.Hashes(HASHES))
    said, said_again = first.said[-3000:], again.said[-3000:]
    first.discard()
    again.discard()
    return Outcome(
        interrupted,
        status,
        tuple(record.differences(wanted.state, found)),
        time.monotonic() - started,
        said,
        said_again,
    )


def come_to(host: Host, run: Run, place: Boundary | Inside, later: float) -> bool:
    """Wait for the place; inside a task, so many seconds longer. Whether the run is still there then."""
    if isinstance(place, Boundary):
        return run.reached()
    if place.process:
        there = run.until(lambda: host.processes(place.process))
    else:
        file = Path(f"{host.root()}{place.changed}")
        before = file.stat().st_mtime_ns if file.exists() else 0
        there = run.until(lambda: file.exists() and file.stat().st_mtime_ns != before)
    if there:
        time.sleep(later)
    return there and run.process.poll() is None
