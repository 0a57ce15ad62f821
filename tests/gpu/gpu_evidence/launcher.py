"""Parts about the launcher: gpu-run beside numactl and bare, in turns and with intervals; and its calibration."""

from __future__ import annotations

import json
import os
import select
import shutil
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

from . import places
from .context import RESULT, Context, Unable, fault_of, last_record

sys.path.append(str(places.RUNTIME_BENCH))
GPU_RUN, NUMACTL, FAR = "gpu-run", "numactl", "numactl, another node"
ANSWER_S = 20.0
# What one more round and the page take.
BESIDE_S = 8.0
ROUNDS_AT_ONCE, MOST_ROUNDS, LEAST_ROUNDS = 3, 24, 6
CALIBRATED_ROUNDS = 6


class Worker:
    """evidence_worker.py under one arm; `go` measures once. Raises measure.Failed."""

    def __init__(self, context: Context, arm: Any) -> None:
        self.name = arm.name
        words = arm.command(context.python, str(places.ON_TORCH / "evidence_worker.py"), context.device)
        self.errors = (context.work / f"{len(list(context.work.iterdir()))}.err").open("wb")
        self.child = subprocess.Popen(
            words,
            env={**context.environment(), **arm.environment},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self.errors,
            cwd="/",
        )
        self.data = b""

    def answer(self, seconds: float) -> dict[str, Any]:
        from measure import Failed

        assert self.child.stdout is not None
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            line, newline, rest = self.data.partition(b"\n")
            if newline:
                self.data = rest
                if line.startswith(RESULT.encode()):
                    return last_record(line.decode()) or {}
                continue
            if not select.select([self.child.stdout], [], [], 0.2)[0]:
                continue
            piece = os.read(self.child.stdout.fileno(), 65536)
            if not piece:
                said = " ".join(Path(self.errors.name).read_text(errors="replace").split())[-300:]
                raise Failed(f"{self.name}: it ended: {said}")
            self.data += piece
        raise Failed(f"{self.name}: no answer within {seconds:g} s")

    def go(self, _arm: Any = None) -> dict[str, Any]:
        from measure import Failed

        assert self.child.stdin is not None
        try:
            self.child.stdin.write(b"go\n")
            self.child.stdin.flush()
        except OSError as error:
            raise Failed(f"{self.name}: {error.strerror}") from error
        return self.answer(ANSWER_S)


def node_of_card(context: Context) -> int | None:
    """NUMA node next to the first card; None if the kernel does not say."""
    cards = context.facts.get("smi", {}).get("cards") or []
    try:
        node = int(Path("/sys/bus/pci/devices", str(cards[0]["pci_id"]), "numa_node").read_text())
    except (OSError, ValueError, IndexError):
        return None
    return node if node >= 0 else None


def nodes() -> list[int]:
    found = Path("/sys/devices/system/node").glob("node[0-9]*/cpulist")
    return sorted(int(file.parent.name[4:]) for file in found if file.read_text().strip())


def arms_here(context: Context) -> tuple[list[Any], dict[str, str]]:
    """(arms, {arm: why it is left out})."""
    from arms import AGAIN, BARE, Arm, install_gpu_run

    program = install_gpu_run(context.work, sys.executable)
    found, left_out = [Arm(BARE), Arm(AGAIN), Arm(GPU_RUN, [str(program), "--"])], {}
    here, others = node_of_card(context), nodes()
    node = here if here is not None else (others or [0])[0]
    far = next((other for other in others if other != node), None)
    if not shutil.which("numactl"):
        left_out.update(dict.fromkeys((NUMACTL, FAR), "numactl is not installed"))
        return found, left_out
    found.append(Arm(NUMACTL, ["numactl", f"--cpunodebind={node}", f"--membind={node}"]))
    if far is None:
        left_out[FAR] = "the host has one NUMA node"
    else:
        found.append(Arm(FAR, ["numactl", f"--cpunodebind={far}", f"--membind={far}"]))
    return found, left_out


def launcher(context: Context) -> None:
    """Transfers and training steps under each way of starting them, in turns."""
    arms, left_out = arms_here(context)
    choice = context.run([*arms[2].prefix[:1], "--json", "--", context.python, "train.py"], 15.0)
    try:
        context.keep(choice=json.loads(choice.stdout))
        rows = [[row["setting"], row["value"], row["why"]] for row in context.values["choice"]["settings"]]
        context.table("What gpu-run chooses here", ["setting", "value", "why"], rows)
    except (ValueError, KeyError, TypeError):
        context.say(f"gpu-run did not say what it chooses: {fault_of(choice)}")
    workers = {arm.name: Worker(context, arm) for arm in arms}
    rounds = in_turns(context, arms, workers, left_out)
    context.keep(left_out=left_out, rounds=len(rounds))
    for name, why in left_out.items():
        context.say(f"Left out: {name}: {why}")
    if not rounds:
        raise Unable("no round was finished: " + "; ".join(f"{name}: {why}" for name, why in left_out.items()))


def in_turns(context: Context, arms: list[Any], workers: dict[str, Worker], left_out: dict[str, str]) -> list[Any]:
    """Rounds until the share is spent; told after every few. A worker that fails is left out, and the rest go on."""
    from measure import Failed, interleave

    for name in list(workers):
        try:
            answer = workers[name].answer(context.left(BESIDE_S))
            context.keep(started={**context.values.get("started", {}), name: answer})
        except Failed as error:
            left_out[name] = str(error)
            del workers[name]
    rounds: list[Any] = []
    lasted = 0.0
    while len(rounds) < MOST_ROUNDS and context.left() > 1.5 * lasted + 2.0:
        here = [arm for arm in arms if arm.name in workers]
        if len(here) < 2:
            break
        begin = time.monotonic()
        try:
            # One first, so that a slow machine has a round at all.
            rounds += interleave(here, ROUNDS_AT_ONCE if rounds else 1, lambda arm: workers[arm.name].go(), "launcher")
        except Failed as error:
            name = next((arm.name for arm in here if str(error).startswith(arm.name + ":")), here[-1].name)
            left_out[name] = str(error)
            del workers[name]
            rounds = [{arm: row[arm] for arm in row if arm != name} for row in rounds]
            continue
        lasted = time.monotonic() - begin
        told(context, rounds)
    return rounds


def told(context: Context, rounds: list[dict[str, dict[str, float]]]) -> None:
    """Medians, and the interval of each way's paired ratios to bare."""
    from arms import BARE
    from measure import compare, interval

    if BARE not in rounds[0]:
        return
    ratios: dict[str, dict[str, Any]] = {}
    for metric in rounds[0][BARE]:
        table = compare(rounds, metric, True)
        rows = []
        for arm, row in table["arms"].items():
            pairs = [values[arm][metric] / values[BARE][metric] for values in rounds]
            low, high = interval(pairs)
            middle = sorted(pairs)[len(pairs) // 2]
            ratios.setdefault(metric, {})[arm] = {"ratio": middle, "low": low, "high": high, "rounds": len(pairs)}
            rows.append([arm, row["median"], f"{row['spread']:.0%}", f"{middle:.3f}", f"{low:.3f} to {high:.3f}"])
        head = ["way", f"median of {len(rounds)} rounds", "spread", "ratio to bare", "95 % interval"]
        context.table(metric, head, rows)
        bars = [{"name": arm, "value": row["median"]} for arm, row in table["arms"].items()]
        context.bars(metric.partition(",")[0], metric.rpartition(" ")[2], bars)
    context.keep(ratios=ratios)


def calibration(context: Context) -> None:
    """gpu-run --calibrate on a training step of this card, without writing its choice."""
    from arms import install_gpu_run

    words = ["--calibrate", "--dry-run", "--json", "--rounds", str(CALIBRATED_ROUNDS), "--metric", "rate ([0-9.]+)"]
    # As root the launcher runs nobody's command: that is its own rule.
    if os.geteuid() == 0 and not os.environ.get("SUDO_USER"):
        words += ["--user", "nobody"]
    worker = [context.python, str(places.ON_TORCH / "evidence_worker.py"), context.device, "--once"]
    program = install_gpu_run(context.work, sys.executable)
    done = context.run([str(program), *words, "--", *worker])
    begin = done.stdout.find("{")
    try:
        answer = json.loads(done.stdout[begin:])
    except ValueError:
        raise Unable(fault_of(done)) from None
    context.keep(calibration=answer)
    context.say(f"Chosen: {answer['arm']}: {answer['why']}.")
    placement = answer.get("placement") or {}
    if placement:
        context.say(f"Placement: {placement['arm']}: {placement['why']}.")
    rows = [
        [arm, row["median_ratio"], *row["interval"], row["wins"]]
        for part in (answer, placement)
        for arm, row in sorted((part.get("ratios") or {}).items())
    ]
    context.table("Calibration", ["candidate", "ratio", "from", "to", "rounds won"], rows)
