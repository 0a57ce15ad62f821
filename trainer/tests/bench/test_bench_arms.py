"""The arms of tests/bench/trainer: all train alike, and the GPU bench says what it needs."""

from __future__ import annotations

import json
import random
import subprocess
import sys
from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest
import torch
from conftest import PACKAGE, PATIENCE, TINY

from gan_trainer.bench.timing import summarise
from gan_trainer.bench.training import make_batches
from gan_trainer.config import make_config

REPOSITORY = Path(__file__).resolve().parents[3]
BENCH = REPOSITORY / "tests" / "bench" / "trainer"
sys.path.insert(0, str(BENCH))
sys.path.extend(str(REPOSITORY / "tests" / name) for name in ("bench/runtime", "node_library"))
arms, by_hand, bench_trainer, gpu_bench, gpu_goals, gpu_rounds, report = (
    import_module(name)
    for name in ("arms", "arms_by_hand", "bench_trainer", "gpu_bench", "gpu_goals", "gpu_rounds", "report")
)

CPU = torch.device("cpu")
CONFIG = make_config({**TINY, "device": "cpu", "precision": "fp32", "compile": "off", "lr_scaling": "none"})
STEPS = (1, 3)


def outcome(arm: Callable) -> Any:
    return arm(CONFIG, CPU, make_batches(CONFIG, CONFIG.batch_size, pinned=False), STEPS)


def test_every_arm_trains_alike() -> None:
    ways = {"hand": arms.best(), "reading": arms.best(read_losses=True), "trainer": arms.trainer}
    found = {name: outcome(arm) for name, arm in {**ways, "newcomer": arms.newcomer()}.items()}
    assert max(arms.disagreement(found, sum(STEPS)).values()) < 1e-4
    assert all(one.losses.shape == (sum(STEPS), 2) and one.step_s > 0 for one in found.values())


def test_another_training_disagrees() -> None:
    other = arms.with_settings(arms.trainer, lr_discriminator=1e-2)
    apart = arms.disagreement({"hand": outcome(arms.best()), "other": outcome(other)}, sum(STEPS))
    assert apart["hand"] == 0.0 and apart["other"] > 1e-3


def test_an_arm_that_trains_otherwise_has_a_note_and_no_figure(monkeypatch: pytest.MonkeyPatch) -> None:
    """The others are still compared: one arm's fault is not theirs."""
    monkeypatch.setattr(gpu_rounds, "AGREE", 1e-3)
    monkeypatch.setattr(gpu_bench, "late_arms", dict)
    other = arms.with_settings(arms.trainer, lr_discriminator=0.5)
    faulty = {"hand": arms.best(), "other": other, "trainer": arms.trainer}
    monkeypatch.setattr(gpu_bench, "all_arms", lambda: faulty)
    rows = {row["name"]: row for row in gpu_bench.measure_case(CONFIG, CPU, 2, (0, 4), 1e12)}
    assert rows["other"]["images_per_s"] is None and rows["other"]["note"].startswith(
        "trains otherwise: a loss differs"
    )
    assert len(rows["hand"]["rates"]) == len(rows["trainer"]["rates"]) == 3


def test_an_arm_that_fails_or_is_eager_under_another_name_has_a_note(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*given: object) -> Any:
        raise RuntimeError("no kernel image")

    def refused(function: Any) -> Any:
        raise RuntimeError("Python.h: no such file")

    monkeypatch.setattr("gan_trainer.engine.compiled.compile_networks.__defaults__", (refused,))
    few = {
        gpu_goals.EAGER: arms.trainer,
        gpu_goals.GRAPHS: arms.with_settings(arms.trainer, cuda_graphs=True),
        "broken": broken,
    }
    monkeypatch.setattr(gpu_bench, "all_arms", lambda: few)
    rows = {row["name"]: row for row in gpu_bench.measure_case(CONFIG, CPU, 2, STEPS, 1e12)}
    assert rows[gpu_goals.EAGER]["images_per_s"] > 0
    assert rows[gpu_goals.COMPILED]["note"] == "generator runs eagerly; discriminator runs eagerly"
    assert rows[gpu_goals.GRAPHS]["note"] == rows[gpu_goals.BOTH]["note"] == "a CPU has no CUDA graphs"
    assert rows["broken"]["note"] == "failed: RuntimeError: no kernel image"
    judged = dict(gpu_goals.goals("64 px", list(rows.values())))
    assert judged[f"{gpu_goals.EAGER}: not measured"] is None


@pytest.mark.long
def test_what_is_compiled_is_made_once_and_compared_in_the_rounds_since_then(monkeypatch: pytest.MonkeyPatch) -> None:
    made = []

    def make(config: Any, device: Any) -> Any:
        made.append(config)
        return arms.best_step(config, device), lambda: ""

    monkeypatch.setattr(gpu_bench, "all_arms", lambda: {"hand": arms.best(), "trainer": arms.trainer})
    monkeypatch.setattr(gpu_bench, "late_arms", lambda: {"kept": by_hand.Kept(make)})
    rows = {row["name"]: row for row in gpu_bench.measure_case(CONFIG, CPU, 3, (3, 2), 1e12)}
    assert len(made) == 1 and len(rows["hand"]["rates"]) == 4 and len(rows["kept"]["rates"]) == 3
    paired = [own / base for own, base in zip(rows["kept"]["rates"], rows["hand"]["rates"][1:], strict=True)]
    assert rows["kept"]["ratio"] in (None, pytest.approx(sorted(paired)[1], abs=2e-3))


def test_where_no_time_is_left_an_arm_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gpu_bench, "all_arms", lambda: {"hand": arms.best(), "trainer": arms.trainer})
    kept: list[Any] = []
    rows = gpu_bench.measure_case(CONFIG, CPU, 9, STEPS, 1e12, until=0.0, keep=kept.append)
    assert len(rows) == 5 and {row["note"] for row in rows} == {gpu_rounds.NO_TIME} and kept[-1] == rows


@pytest.mark.long
def test_a_trial_of_the_whole_bench_ends_on_a_cpu(tmp_path: Path) -> None:
    path = ":".join(map(str, (PACKAGE, BENCH)))
    environment = {"PATH": "/usr/bin:/bin", "PYTHONPATH": path, "CUDA_VISIBLE_DEVICES": ""}
    words = ["--device", "cpu", "--seconds", "1", "--output", str(tmp_path), "--raw", str(tmp_path / "raw")]
    done = subprocess.run(
        [sys.executable, str(BENCH / "gpu_bench.py"), *words], env=environment, capture_output=True, timeout=PATIENCE
    )
    assert done.returncode == 0, done.stderr
    found = json.loads((tmp_path / "raw/trainer-gpu.json").read_text())
    assert found["trial"] is True and "prefetcher on" in [row["name"] for row in found["cases"][0]["rows"]]
    assert sorted(file.name for file in tmp_path.iterdir()) == ["raw", "trainer.json", "trainer.md"]


def test_a_case_becomes_rows_goals_and_a_page(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    few = {gpu_goals.STRICT: arms.newcomer(), gpu_goals.HAND: arms.best(), gpu_goals.EAGER: arms.trainer}
    monkeypatch.setattr(gpu_bench, "all_arms", lambda: few)
    monkeypatch.setattr(gpu_bench, "late_arms", dict)
    rows = gpu_bench.measure_case(CONFIG, CPU, 2, STEPS, gemm=1e12)
    assert [row["name"] for row in rows] == list(few) and all(row["gemm"].endswith("%") for row in rows)
    fed = gpu_bench.prefetching(CONFIG, CPU, 2, 3)
    assert [row["name"] for row in fed["rows"]] == ["prefetcher off", "prefetcher on"] and 0.0 <= fed["wait"] < 1.0
    goals = gpu_goals.goals("256 px", rows)
    assert len(goals) == 9 and any("Lightning: not measured" in text for text, _ in goals)
    case = {"name": "a case", "rows": rows + fed["rows"], "goals": goals}
    found = {"machine": report.machine(CPU), "rounds": 2, "ceilings": {"bf16 GEMM, TFLOP/s": 1.0}, "cases": [case]}
    report.write(tmp_path, "gpu", found, None)
    page = (tmp_path / "trainer.md").read_text()
    assert f"| {gpu_goals.STRICT} | " in page and "| prefetcher on | " in page and "**a case**" in page
    assert str(REPOSITORY) not in page


def test_goals_are_judged() -> None:
    def row(name: str, rate: float, ratio: float | None = 1.0) -> dict:
        return {"name": name, "images_per_s": rate, "ratio": ratio, "gemm": "24%"}

    rows = [
        row(gpu_goals.STRICT, 100),
        row(gpu_goals.TF32, 200),
        row(gpu_goals.HAND, 320, None),
        row(gpu_goals.BOTH, 290),
    ]
    judged = {text.split(":")[0]: met for text, met in gpu_goals.goals("256 px, DCGAN", rows)}
    ours = gpu_goals.BOTH
    assert judged[f"{ours} over {gpu_goals.STRICT}"] is True and judged[f"{ours} over {gpu_goals.TF32}"] is False
    # A noisy arm decides nothing.
    assert judged[f"{ours} over {gpu_goals.HAND}"] is None
    assert judged[ours] is True


def test_the_ends_of_a_median_hold_it_in_nineteen_of_twenty_cases() -> None:
    draw = random.Random(1)
    held = 0
    for _ in range(400):
        low, high = bench_trainer.ends_of_median(sorted(draw.gauss(5.0, 1.0) for _ in range(101)))
        held += low <= 5.0 <= high
    assert 370 <= held <= 396
    told = bench_trainer.extra_us([1.0] * 101, [1.0 + number * 1e-6 for number in range(101)])
    assert told == {"extra_us": 50.0, "interval": [40.0, 61.0], "steps": 101, "bare_step_us": 1e6}


def test_operations_of_a_step_grow_with_the_batch() -> None:
    one, two = (gpu_bench.flop_of_step(make_config({**TINY, "device": "cpu", "batch_size": n})) for n in (4, 8))
    assert two == pytest.approx(2 * one) and one > 1e6


def test_without_a_gpu_the_bench_says_so_and_fails() -> None:
    environment = {"PATH": "/usr/bin:/bin", "PYTHONPATH": f"{PACKAGE}:{BENCH}", "CUDA_VISIBLE_DEVICES": ""}
    command = [sys.executable, str(BENCH / "gpu_bench.py")]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=PATIENCE)
    assert done.returncode == 1
    assert done.stderr.splitlines()[-1].startswith("gpu-bench needs a GPU: torch ") and "Traceback" not in done.stderr


def test_runner_without_a_torch_for_gpus_says_so_and_fails() -> None:
    environment = {"PATH": "/usr/bin:/bin", "GPU_PYTHON": "/no/such/python", "HOME": "/nonexistent"}
    command = [sys.executable, str(BENCH / "run"), "gpu_bench.py"]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=PATIENCE)
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr == "gpu-bench needs a GPU and a torch for it: there is no /no/such/python; set GPU_PYTHON\n"


def test_the_page_of_the_trainer_is_made_from_its_json() -> None:
    folder = REPOSITORY / "docs/benchmarks"
    assert report.page(json.loads((folder / "trainer.json").read_text())) == (folder / "trainer.md").read_text()


def test_a_part_measured_alone_takes_the_place_of_its_last_result(tmp_path: Path) -> None:
    """With its own day and machine; a folder without results is told to measure all."""
    with pytest.raises(SystemExit, match="measure all parts once, without --parts"):
        report.with_the_others(tmp_path, {})
    kept = json.loads((REPOSITORY / "docs/benchmarks/trainer.json").read_text())
    (tmp_path / "trainer.json").write_text(json.dumps(kept))
    machine = {**report.machine(CPU), "date": "2030-01-02", "load_at_end": 0.5}
    alone = {**kept["cpu"]["overhead"], "measured": {"machine": machine, "rounds": 7}}
    found = report.with_the_others(tmp_path, {"machine": machine, "rounds": 7, "overhead": alone})
    assert found["machine"] == kept["cpu"]["machine"] and found["data"] == kept["cpu"]["data"]
    text = report.cpu_page(found)
    before, _, after = text.partition("**Overhead**")
    assert before.count("Measured by itself: ") == 1 and "2030-01-02; 7 rounds; load average" in before
    assert "2030-01-02" not in after


def test_single_values_are_kept_outside_of_the_tree(tmp_path: Path) -> None:
    rows = report.rows(summarise({"plain": [100.0, 120.0, 110.0], "fast": [200.0, 240.0, 230.0]}))
    case = {"name": "a case", "rows": [{**row, "peak_memory_mib": 1, "gemm": "-"} for row in rows], "goals": []}
    found = {"machine": report.machine(CPU), "rounds": 3, "ceilings": {}, "cases": [case]}
    report.write(tmp_path / "kept", "gpu", found, tmp_path / "raw")
    kept = json.loads((tmp_path / "kept/trainer.json").read_text())["gpu"]["cases"][0]["rows"][1]
    assert "rates" not in kept and (kept["lowest"], kept["images_per_s"], kept["highest"]) == (200.0, 230.0, 240.0)
    raw = json.loads((tmp_path / "raw/trainer-gpu.json").read_text())
    assert raw["cases"][0]["rows"][1]["rates"] == [200.0, 240.0, 230.0]
    report.write(tmp_path / "kept", "gpu", found, None)
    assert sorted(path.name for path in tmp_path.rglob("*.json")) == ["trainer-gpu.json", "trainer.json"]


def test_the_overheads_share_of_a_step_has_its_interval() -> None:
    over = {"share": 0.0013, "default_step_us": 2e6, "default": {"interval": [-4000.0, 6200.0]}}
    assert report.share_of(over) == "0.13% (95 % interval -0.20% to 0.31%)"
    assert report.share_of({**over, "default": {"quartiles": [-1.0, 1.0]}}) == "0.13%"


def test_lightning_gets_a_torchvision_that_can_be_imported(monkeypatch: pytest.MonkeyPatch) -> None:
    """PyPI's, beside a torch for CPUs, would end the whole part with an operator that does not exist."""
    order: list[str] = []
    rates = {"hand-written loop": [1.0], "gan_trainer": [1.0], "newcomer's loop": [1.0], "Lightning": [1.0]}

    def run(*given: object) -> dict[str, Any]:
        order.append("arms")
        return {"times": {**rates, "Accelerate": [1.0]}, "disagreement": {}}

    monkeypatch.setattr(bench_trainer.loaders, "why_missing", order.append)
    monkeypatch.setattr(bench_trainer, "run_arms", run)
    bench_trainer.peers(1)
    assert order == ["torchvision", "arms"]


def test_a_run_of_which_no_part_is_left_is_not_on_the_page() -> None:
    found = json.loads((REPOSITORY / "docs/benchmarks/trainer.json").read_text())["cpu"]
    machine = {**found["machine"], "date": "2030-01-02"}
    assert ("2030-01-02" in report.cpu_page({**found, "machine": machine})) is any(
        "measured" not in found[part] for part in ("overhead", "peers", "data", "loaders")
    )
    found["data"].pop("measured", None)
    assert report.cpu_page({**found, "machine": machine}).index("2030-01-02") < 300
