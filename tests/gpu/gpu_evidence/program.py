"""tests/gpu/evidence: everything that this project promises about a GPU, measured by one command within minutes.

Runs from a checkout, by this machine's own Python (3.10 or newer), as root or not, without a network; nothing is
installed and nothing outside of --out is changed. PyTorch is that of --python. The most valuable parts come first, each
is ended when its share of the time is spent, and the results are written after each. Without a GPU the parts run as
trials of their code on the CPU, and the page says so. Names and serial numbers in the results are masked.

exit status: 0 every part ran to its end on a GPU; 1 some did not, or there was no GPU; 2 usage; 130, 143 it was stopped
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from .context import Context, Unable, say_to_person
from .parts import BY_NAME, MINUTES, NOTHING, PARTS, TRAINER, Part
from .results import JSON, PAGE, Results
from .supervise import Stop, Supervisor

NODE_PYTHON = "/opt/gpuwright/venvs/current/bin/python"
PROGRAM = Path(__file__).resolve().parents[1] / "evidence"
# For writing the results, and for ending what a part has left.
RESERVE_S = 12.0
LONGEST_MINUTES = 600.0
DONE, INCOMPLETE, FAILED, NOT_RUN = "done", "incomplete", "failed", "not run"
ENDED, STOPPED = "ended at its share", "stopped"
STATUS = {"SIGINT": 130, "SIGTERM": 143, "SIGHUP": 129}
QUESTION = "import importlib.util, sys; sys.exit(not importlib.util.find_spec('torch'))"


def parse(arguments: list[str] | None = None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        "evidence", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter, allow_abbrev=False
    )
    parser.add_argument(
        "--python", default="", help="interpreter with PyTorch (default: GPU_PYTHON, the node's, PATH's)"
    )
    parser.add_argument("--minutes", type=float, default=MINUTES, help="for everything (default: %(default)g)")
    parser.add_argument(
        "--out", type=Path, default=Path("gpu-evidence"), help="folder of the results (default: %(default)s)"
    )
    parser.add_argument("--only", nargs="+", metavar="PART", default=[], help=f"these alone: {', '.join(BY_NAME)}")
    options = parser.parse_args(arguments)
    if not 0 < options.minutes <= LONGEST_MINUTES:
        parser.error(f"--minutes {options.minutes:g}: expected minutes above 0, up to {LONGEST_MINUTES:g}")
    unknown = [name for name in options.only if name not in BY_NAME]
    if unknown:
        parser.error(f"--only {' '.join(unknown)}: expected some of {', '.join(BY_NAME)}")
    if options.python and not shutil.which(options.python):
        parser.error(f"--python {options.python}: there is no such program; expected an interpreter with PyTorch")
    return options


def interpreter(given: str) -> str:
    """The interpreter with PyTorch, "" if none is known. A link stays as it is: an environment is known by it."""
    names = [given] if given else [os.environ.get("GPU_PYTHON", ""), NODE_PYTHON, sys.executable, "python3", "python"]
    for name in names:
        path = shutil.which(name) if name else None
        if path and (given or has_torch(path)):
            return str(Path.cwd() / path)
    return ""


def has_torch(path: str) -> bool:
    try:
        return subprocess.run([path, "-c", QUESTION], capture_output=True, timeout=30).returncode == 0
    except (OSError, subprocess.TimeoutExpired):
        return False


class Run:
    """One run: the parts in their order, within the minutes."""

    def __init__(self, options: argparse.Namespace, work: str) -> None:
        self.options, self.work = options, work
        self.end = time.monotonic() + 60 * options.minutes - RESERVE_S
        self.python = interpreter(options.python)
        self.stop = Stop()
        self.stop.listen()
        self.supervisor = Supervisor(self.stop)
        self.results = Results(options.out.resolve(), options.minutes)

    def go(self) -> int:
        chosen = [part for part in PARTS if not self.options.only or part.name in (*self.options.only, "machine")]
        for part in chosen:
            self.results.found["parts"].append(self.blank(part))
        for part, row in zip(chosen, self.results.found["parts"], strict=True):
            self.one(part, row)
            self.results.write()
            say_to_person(f"evidence: {part.name}: {row['status']}{': ' + row['why'] if row['why'] else ''}")
        self.results.found["stopped"] = self.stop.by
        self.results.write()
        return self.ending()

    def ending(self) -> int:
        if self.results.problem:
            say_to_person(f"evidence: the results cannot be written: {self.results.problem} [evidence.out]")
            say_to_person(self.results.last_way_out())
        else:
            say_to_person(f"evidence: {self.results.folder / PAGE}, {JSON}")
        if self.stop.by:
            return STATUS[self.stop.by]
        whole = all(part["status"] == DONE for part in self.results.found["parts"])
        return 0 if whole and not self.results.found["trial"] and not self.results.problem else 1

    @staticmethod
    def blank(part: Part) -> dict[str, Any]:
        row = {"name": part.name, "title": part.title, "status": NOT_RUN, "why": "the run has not come to it"}
        return {**row, "share": 0.0, "seconds": 0.0, "trial": False, "found": None}

    def device(self) -> str:
        gpus = (self.results.part("machine").get("torch") or {}).get("gpus")
        return "cuda" if gpus else "cpu"

    def one(self, part: Part, row: dict[str, Any]) -> None:
        left = self.end - time.monotonic()
        row["share"] = round(max(0.0, min(part.seconds * max(1.0, self.options.minutes / MINUTES), left)), 1)
        row["trial"] = part.needs != NOTHING and self.device() == "cpu"
        why = self.why_not(part, row["share"])
        if why:
            row.update(why=why)
            return
        if part.needs != NOTHING and not row["trial"]:
            self.results.found["trial"] = False
        begin = time.monotonic()
        command = [sys.executable, str(PROGRAM), "--part", part.name]
        ended = self.supervisor.run(command, self.job(row["share"]), dict(os.environ), row["share"])
        row["seconds"] = round(time.monotonic() - begin, 1)
        row["found"] = ended.record or None
        said = " ".join(ended.words.split())[-400:]
        fault, lacks = (ended.record or {}).pop("fault", ""), (ended.record or {}).pop("lacks", [])
        if self.stop.by:
            row.update(status=STOPPED, why=f"by {self.stop.by}; what it had found is kept")
        elif ended.out_of_time:
            row.update(status=ENDED, why=f"it was not finished after {row['share']:g} s; what it had found is kept")
        elif fault or ended.rc:
            how = f"ended by signal {-ended.rc}" if ended.rc and ended.rc < 0 else f"ended with {ended.rc}"
            row.update(status=FAILED, why=fault or f"{how}: {said}")
        elif ended.rc is None:
            row.update(status=FAILED, why=said)
        elif lacks:
            row.update(status=INCOMPLETE, why="; ".join(lacks))
        else:
            row.update(status=DONE, why="")
        if ended.remain:
            problem = f"{part.name}: the kernel does not end {', '.join(ended.remain)}"
            self.results.found["problems"].append(problem)

    def why_not(self, part: Part, share: float) -> str:
        """Why a part is not begun, "" if it is."""
        torch = self.results.part("machine").get("torch") or {}
        if self.stop.by:
            return f"the run was stopped by {self.stop.by}"
        if part.needs != NOTHING and not self.python:
            return "no interpreter with PyTorch was found; name one with --python"
        if part.needs != NOTHING and not torch.get("torch"):
            return f"PyTorch cannot be used: {torch.get('problem') or 'the part machine did not find out'}"
        if part.needs == TRAINER and torch.get("trainer_problem"):
            return f"the trainer cannot be imported by {self.python}: {torch['trainer_problem']}"
        if share < part.least:
            return f"no time was left: {share:g} s of at least {part.least:g}"
        return ""

    def job(self, seconds: float) -> dict[str, Any]:
        """What a part is told (context.Context)."""
        earlier = {row["name"]: row["found"] for row in self.results.found["parts"] if row["found"]}
        return {
            "device": self.device(),
            "python": self.python,
            "facts": earlier.get("machine", {}),
            "found": {"scan": earlier.get("scan", {})},
            "folder": str(self.results.folder),
            "work": self.work,
            # Its own programs are given less, so that their results are read before the part is ended.
            "seconds": max(1.0, seconds - 1.5),
        }


def run_part(name: str, asked: int, descriptor: int) -> int:
    """The other side: one part in a process of its own, with the job that it reads from `asked`."""
    with os.fdopen(asked, "rb") as stream:
        job = json.loads(stream.read())
    # Programs that it starts would hold the pipe open beyond its end.
    os.set_inheritable(descriptor, False)
    context = Context(job, descriptor)
    part = BY_NAME[name]
    try:
        before = held(context) if part.needs != NOTHING else []
        part.work(context)
        if part.needs != NOTHING:
            context.keep(held=[*before, *held(context)])
    except Unable as error:
        context.keep(fault=str(error))
    # Whatever a part meets, a missing library or a full disk, is its result.
    except Exception as error:
        import traceback

        traceback.print_exc()
        context.keep(fault=f"{type(error).__name__}: {' '.join(str(error).split())[:400]}")
    return 0


def held(context: Context) -> list[list[str]]:
    """What holds the clocks of each card down at this moment; nothing where nobody says."""
    from gpuwright.gpu.nvidia_smi.query import query

    if context.trial or not context.facts.get("smi", {}).get("reachable"):
        return []
    answer = query(5.0, "nvidia-smi")
    reasons = [gpu.get("throttle_reasons") for gpu in answer.get("gpus") or []]
    return [reason for reason in reasons if isinstance(reason, list)]


def main() -> int:
    if sys.argv[1:2] == ["--part"]:
        return run_part(sys.argv[2], int(sys.argv[3]), int(sys.argv[4]))
    options = parse()
    try:
        options.out.mkdir(parents=True, exist_ok=True)
        work = work_folder(options.out)
    except OSError as error:
        told = f"evidence: {error.filename or options.out}: {error.strerror}; expected a folder that can be written"
        print(f"{told}, for --out [evidence.out]", file=sys.stderr)
        return 2
    try:
        return Run(options, work).go()
    finally:
        shutil.rmtree(work, ignore_errors=True)


def work_folder(out: Path) -> str:
    """For what parts need on their way; where no usual place can be written, as on a full disk, beside the results."""
    try:
        return tempfile.mkdtemp(prefix="gpuwright-evidence-")
    except OSError:
        return tempfile.mkdtemp(prefix=".work-", dir=out)
