"""gan_trainer.smoke: the record that amp_smoke_test reads, and that nothing bad passes."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

from gan_trainer.config import make_config
from gan_trainer.smoke import run as smoke_run
from gan_trainer.smoke.program import smoke
from gan_trainer.smoke.run import Target, choose_amp, judge, list_targets, try_target

Run = Callable[..., subprocess.CompletedProcess]
GOOD = {"steps_applied": 10, "steps_skipped": 0, "loss_first": 1.4, "loss_last": 0.3, "parameters_changed": True}


def test_rehearsal_on_the_cpu_keeps_the_contract(run_trainer: Run) -> None:
    done = run_trainer("-m", "gan_trainer.smoke", "--device", "cpu", "--steps", "20", "--json")
    assert done.returncode == 0, done.stderr
    report = json.loads(done.stdout)
    assert done.stdout.count("\n") == 1
    parts = {"devices", "parallel", "compile", "limits", "problems", "problem_codes"}
    assert set(report) == {"schema", "torch", "cuda", "device", "steps", *parts}
    assert [step["name"] for step in report["compile"]["steps"]] == ["c", "extension"]
    assert report["compile"]["problems"] == [] == report["compile"]["left_out"]
    assert {step["fault"] for step in report["compile"]["steps"]} == {"none"}
    assert all(value == "infinity" or int(value) > 0 for value in report["limits"].values())
    together = report["parallel"]
    assert (together["ranks"], together["backend"], together["devices"]) == (2, "gloo", ["cpu", "cpu"])
    assert together["parameters_equal"] and together["gradients_equal"] and together["parameters_changed"]
    assert (together["steps_applied"], together["steps_skipped"]) == (10, 0)
    assert (report["schema"], report["device"], report["steps"], report["problems"]) == (1, "cpu", 20, [])
    (device,) = report["devices"]
    keys = {"device", "name", "amp_dtype", "amp_dtype_because", "fp32", "amp", "speed", "speed_ratio"}
    assert set(device) == keys
    assert (device["device"], device["amp_dtype"], device["speed_ratio"]) == ("cpu", "bfloat16", None)
    assert device["amp_dtype_because"].startswith("trial on the CPU: ")
    for mode in ("fp32", "amp"):
        record = device[mode]
        assert set(record) == {*GOOD, "peak_memory_mib", "seconds"}
        assert (record["steps_applied"], record["steps_skipped"], record["parameters_changed"]) == (20, 0, True)
        assert record["loss_last"] < record["loss_first"] and record["seconds"] > 0
    assert device["fp32"]["loss_last"] == pytest.approx(device["amp"]["loss_last"], rel=0.1)


@pytest.mark.skipif(torch.cuda.is_available(), reason="this machine has what the test wants to be missing")
def test_gpu_that_is_not_there_is_a_problem(run_trainer: Run) -> None:
    done = run_trainer("-m", "gan_trainer.smoke", "--device", "cuda", "--steps", "20", "--json")
    assert done.returncode == 1
    report = json.loads(done.stdout)
    assert report["devices"] == [] and len(report["problems"]) == 1
    assert "cuda was requested" in report["problems"][0] and "finds no usable GPU" in report["problems"][0]


def test_torch_that_cannot_be_imported_is_a_problem(run_python: Run, tmp_path: Path) -> None:
    (tmp_path / "torch.py").write_text("raise OSError('libcudart.so.12: cannot open shared object file')\n")
    code = f"import sys; sys.path.insert(0, {str(tmp_path)!r})\n"
    code += "from gan_trainer.smoke.program import main; sys.exit(main())"
    done = run_python("-c", code, "--device", "cuda", "--json")
    report = json.loads(done.stdout)
    assert done.returncode == 1 and report["torch"] is None
    assert report["problems"] == [
        "torch and what training needs cannot be imported: libcudart.so.12: cannot open shared object file"
    ]


@pytest.mark.parametrize(
    "arguments", [[], ["--device", "tpu"], ["--device", "cpu", "--steps", "9"], ["--device", "cpu", "--steps", "x"]]
)
def test_wrong_command_line_ends_with_2(run_python: Run, arguments: list) -> None:
    done = run_python("-m", "gan_trainer.smoke", *arguments)
    assert (done.returncode, done.stdout) == (2, "") and "error: " in done.stderr


@pytest.mark.parametrize(
    ("changes", "finite", "scale", "fault"),
    [
        ({}, True, None, None),
        ({}, True, 65536.0, None),
        ({"steps_applied": 8, "steps_skipped": 2}, True, 16384.0, None),
        ({"steps_applied": 0, "steps_skipped": 10}, True, 64.0, "no step was applied: the loss scaler skipped all 10"),
        ({"steps_applied": 4, "steps_skipped": 6}, True, 64.0, "only 4 of 10 steps were applied"),
        ({}, True, 0.5, "the loss scale collapsed to 0.5"),
        ({}, False, None, "a loss was not finite"),
        ({"loss_first": None, "loss_last": None}, False, None, "a loss was not finite"),
        ({"loss_last": 1.4}, True, None, "the discriminator's loss did not fall: 1.4000 to 1.4000"),
        ({"loss_last": 2.0}, True, None, "the discriminator's loss did not fall: 1.4000 to 2.0000"),
        ({"parameters_changed": False}, True, None, "some parameters did not change"),
    ],
)
def test_judgement(changes: dict, finite: bool, scale: float | None, fault: str | None) -> None:
    faults = judge({**GOOD, **changes}, finite, scale)
    assert len(faults) == (fault is not None)
    assert fault is None or faults[0].startswith(fault)


@pytest.mark.parametrize(
    ("capability", "name"), [(None, "bf16"), ((6, 0), "fp16"), ((7, 0), "fp16"), ((7, 5), "fp16"), ((8, 0), "bf16")]
)
def test_mixed_precision_is_tried_on_every_gpu(capability: tuple | None, name: str) -> None:
    assert choose_amp(capability).name == name


def cpu_target(**changes: Any) -> Target:
    return list_targets("cpu")[0]._replace(**changes)


def test_error_of_one_precision_does_not_hide_the_other(monkeypatch: pytest.MonkeyPatch) -> None:
    trainer = smoke_run.Trainer

    def broken(config: Any, device: Any, precision: Any) -> object:
        if precision.name == "bf16":
            raise RuntimeError("CUDA error: no kernel image is available\nfor execution on the device")
        return trainer(config, device, precision)

    monkeypatch.setattr(smoke_run, "Trainer", broken)
    record, problems = try_target(cpu_target(), 10)
    assert record["amp"] is None and record["fp32"]["steps_applied"] == 10 and record["speed_ratio"] is None
    assert problems == ["cpu amp: RuntimeError: CUDA error: no kernel image is available for execution on the device"]


@pytest.mark.parametrize(
    ("fp32", "amp", "faults"),
    [
        (None, None, []),
        (400, 300, []),
        (400, 400, ["mixed precision took 400 MiB of memory at its peak, float32 400 MiB"]),
        (400, 500, ["mixed precision took 500 MiB of memory at its peak, float32 400 MiB"]),
    ],
)
def test_half_precision_must_save_memory(fp32: int | None, amp: int | None, faults: list) -> None:
    assert smoke_run.judge_memory(fp32, amp) == faults


def test_speed_is_compared_on_a_network_of_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    """The code that a GPU runs, at a size for this processor."""
    monkeypatch.setattr(smoke_run, "SPEED_SIZE", smoke_run.CPU_SIZE)
    monkeypatch.setattr(smoke_run, "SPEED_WARM_UP", 1)
    monkeypatch.setattr(smoke_run, "SPEED_STEPS", 2)
    record, faults = smoke_run.compare_speed(cpu_target(), choose_amp(None))
    assert faults == [] and record["network"] == smoke_run.CPU_SIZE
    rates = [record[mode]["images_per_s"] for mode in ("amp", "fp32")]
    assert record["ratio"] == pytest.approx(rates[0] / rates[1], rel=0.01)


def test_a_card_with_little_memory_gets_smaller_batches(monkeypatch: pytest.MonkeyPatch) -> None:
    tried = []

    def time_steps(trainer: Any) -> dict:
        tried.append(trainer.config.batch_size)
        if trainer.config.batch_size > 2:
            raise torch.cuda.OutOfMemoryError("CUDA out of memory")
        return {"images_per_s": 10.0, "peak_memory_mib": None}

    monkeypatch.setattr(smoke_run, "SPEED_SIZE", smoke_run.CPU_SIZE)
    monkeypatch.setattr(smoke_run, "time_steps", time_steps)
    record, _ = smoke_run.compare_speed(cpu_target(), choose_amp(None))
    assert tried == [8, 4, 2, 2] and record["network"]["batch_size"] == 2
    monkeypatch.setattr(smoke_run, "SPEED_HALVINGS", 1)
    with pytest.raises(torch.cuda.OutOfMemoryError):
        smoke_run.compare_speed(cpu_target(), choose_amp(None))


def test_training_that_learns_nothing_is_a_problem() -> None:
    config = make_config({**smoke_run.CPU_SIZE, "lr_discriminator": 1e-9, "lr_generator": 1e-9})
    _, problems = try_target(cpu_target(config=config), 10)
    assert [problem.split(":")[0] for problem in problems] == ["cpu fp32"] * (len(problems) // 2) + ["cpu amp"] * (
        len(problems) // 2
    )
    assert any("did not fall" in problem or "did not change" in problem for problem in problems)


def test_loss_that_is_no_number_is_a_problem_and_the_record_stays_json(monkeypatch: pytest.MonkeyPatch) -> None:
    from gan_trainer.tasks import gan

    monkeypatch.setattr(gan, "generator_loss", lambda kind, logits: logits.float().mean() * float("nan"))
    report = smoke("cpu", 10)
    assert (
        "cpu fp32: a loss was not finite" in report["problems"]
        and "cpu amp: a loss was not finite" in report["problems"]
    )
    json.dumps(report, allow_nan=False)
