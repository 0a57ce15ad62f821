"""train-gan doctor: every row that matters can turn bad, and the exit code follows."""

from __future__ import annotations

import json
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch

from gan_trainer import cli, doctor, precision
from gan_trainer.config import make_config


@pytest.fixture
def no_gpu(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)


def rows(**values: object) -> dict[str, doctor.Row]:
    return {row.topic: row for row in doctor.examine(make_config({"num_workers": 0, **values}))}


def test_a_healthy_installation_is_described(no_gpu: None, tmp_path: Path, capsys: pytest.CaptureFixture) -> None:
    assert cli.main(["doctor", "--json", "device=cpu", f"run_dir={tmp_path}", "num_workers=3"]) == 0
    report = json.loads(capsys.readouterr().out)
    found = {row["topic"]: row for row in report["rows"]}
    assert report["usable"] and {row["status"] for row in report["rows"]} <= {"OK", "WARN"}
    assert found["torch"]["value"].startswith(torch.__version__)
    assert found["precision"]["value"] == "fp32: on a CPU: half precision gains nothing"
    assert found["data"]["value"] == "synthetic: 10000 images"
    assert (
        found["data loader"]["value"].startswith("3 workers, ") and "pinned memory off" in found["data loader"]["value"]
    )
    assert set(found) > {entry[0] for entry in doctor.LIBRARIES}


@pytest.mark.parametrize(
    ("topic", "status", "values", "says"),
    [
        ("GPU", "FAIL", {"device": "cuda"}, "none that torch can use, and device is cuda"),
        ("GPU", "WARN", {"device": "auto"}, "none that torch can use: training runs on the CPU"),
        ("precision", "FAIL", {"device": "auto", "precision": "fp16"}, "precision: fp16 needs a GPU"),
        ("data", "FAIL", {"data": "/no/such/folder"}, "data: '/no/such/folder' is not a folder"),
        ("run_dir", "FAIL", {"run_dir": "/dev/null/run"}, "/dev/null is not a folder"),
        ("run_dir", "FAIL", {"run_dir": "/proc/1/run"}, "/proc/1 cannot be written by this user"),
    ],
)
def test_what_is_wrong_is_a_row(
    no_gpu: None, monkeypatch: pytest.MonkeyPatch, topic: str, status: str, values: dict, says: str
) -> None:
    # The test may run as a user who can write everywhere.
    monkeypatch.setattr(doctor.os, "access", lambda path, mode: not str(path).startswith("/proc"))
    row = rows(**values)[topic]
    assert row.status == status and says in row.value and row.action


def test_data_are_looked_at_without_decoding_them(no_gpu: None, tmp_path: Path) -> None:
    images = tmp_path / "images"
    images.mkdir()
    for name in "abc":
        (images / f"{name}.jpg").write_bytes(b"not read")
    found = rows(data=str(images), cache_dir=str(tmp_path / "cache"), batch_size=2)
    assert found["data"].value == f"{images}: 3 images" and found["data loader"].status == "OK"
    assert not (tmp_path / "cache").exists()


def test_a_failed_row_is_the_exit_code(no_gpu: None, capsys: pytest.CaptureFixture) -> None:
    assert cli.main(["doctor", "device=cuda"]) == 1
    assert "FAIL  GPU           none that torch can use, and device is cuda  ->  " in capsys.readouterr().out
    assert cli.main(["doctor", "nonsense=1"]) == 2


@pytest.mark.parametrize(("name", "status"), [("numpy", "FAIL"), ("onnx", "WARN")])
def test_missing_libraries_weigh_by_what_they_are_for(
    no_gpu: None, monkeypatch: pytest.MonkeyPatch, name: str, status: str
) -> None:
    monkeypatch.setitem(doctor.sys.modules, name, None)
    row = rows()[name]
    assert row.status == status and row.action.startswith(f"install {name}; ")


def test_pinning_environment_missing_compiler_full_disk(no_gpu: None, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GOMP_CPU_AFFINITY", "0-3")
    monkeypatch.setenv("CXX", "no-such-compiler")
    monkeypatch.setattr(doctor.shutil, "disk_usage", lambda path: SimpleNamespace(free=5 << 20))
    found = rows()
    assert found["CPUs"].status == found["torch.compile"].status == found["run_dir"].status == "WARN"
    assert "GOMP_CPU_AFFINITY=0-3" in found["CPUs"].value and "no-such-compiler" in found["torch.compile"].value
    assert found["torch.compile"].action == "unset CC and CXX, or give each the name of one program without options"
    assert "5 MiB free" in found["run_dir"].value


def test_gpus_are_listed_with_the_precision_of_each_kind(monkeypatch: pytest.MonkeyPatch) -> None:
    cards = {0: ("Tesla V100-PCIE-16GB", (7, 0)), 1: ("NVIDIA H100 PCIe", (9, 0))}

    def properties(gpu: int) -> object:
        name, (major, minor) = cards[gpu]
        return type("Properties", (), {"name": name, "major": major, "minor": minor, "total_memory": 16384 << 20})

    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: len(cards))
    monkeypatch.setattr(torch.cuda, "get_device_properties", properties)
    monkeypatch.setattr(torch.cuda, "get_device_capability", lambda gpu: cards[gpu][1])
    config = make_config({})
    assert [row.value for row in doctor.devices(config)] == [
        "Tesla V100-PCIE-16GB, compute capability 7.0, 16384 MiB",
        "NVIDIA H100 PCIe, compute capability 9.0, 16384 MiB",
    ]
    chosen = [row.value.split(":")[0] for row in doctor.precision(config)]
    assert chosen == [precision.choose_precision("auto", card[1]).name for card in cards.values()] == ["fp16", "bf16"]
