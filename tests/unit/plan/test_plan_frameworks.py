"""PyTorch and TensorFlow in one environment, and the libraries that their wheels bring, as their metadata says."""

from __future__ import annotations

from typing import Any

import pytest
from ansible_collections.gpuwright.node.plugins.plugin_utils.plan.candidates import Candidate, list_candidates
from test_plan_questions import MATRIX, ask

# `Requires-Dist` of the wheels on PyPI. What PyTorch's own index serves was not read.
TORCH_WITH_TF_2_20 = ["2.7.0", "2.7.1", "2.8.0", "2.9.0", "2.9.1", "2.10.0"]
EXACT_PINS = ["2.14", "2.15", "2.16", "2.17", "2.18", "2.19"]


def reasons(answer: dict[str, Any]) -> str:
    return " ".join(entry["what"] for entry in answer["conflicts"])


@pytest.mark.parametrize("series", EXACT_PINS)
@pytest.mark.parametrize("gpu", ["V100", "A100", "H100", "T4"])
def test_tensorflow_with_exact_pins_shares_no_environment_with_a_cuda_build(gpu: str, series: str) -> None:
    answer = ask(gpu, "rhel 8.10", tensorflow=series)
    assert "conflicts" in answer, answer["requirements"][:2]
    assert "pip finds no environment" in reasons(answer)
    for entry in answer["conflicts"]:
        for choice in entry["choices"]:
            assert "conflicts" not in ask(gpu, "rhel 8.10", **{"tensorflow": series, **choice}), choice


@pytest.mark.parametrize("series", EXACT_PINS)
def test_the_way_out_is_a_pair_that_pip_resolves_or_pytorch_on_the_processor(series: str) -> None:
    choices = [choice for entry in ask(tensorflow=series)["conflicts"] for choice in entry["choices"]]
    assert {"tensorflow": "2.20.0"} in choices
    plan = ask(tensorflow=series, pytorch_build="cpu")
    assert plan["tensorflow"]["version"].startswith(series + ".")


@pytest.mark.parametrize(
    ("gpu", "system", "torch", "tensorflow"),
    [
        ("V100", "rhel 8.8", "2.10.0 cu128", "2.20.0"),
        ("A100", "rhel 8.10", "2.10.0 cu128", "2.20.0"),
        ("H100", "ubuntu 24.04", "2.10.0 cu128", "2.20.0"),
        # 2.7.1 is the last for Pascal on PyPI, and brings what TensorFlow 2.20 takes.
        ("P100", "rhel 8.8", "2.7.1 cu126", "2.20.0"),
    ],
)
def test_any_tensorflow_is_one_that_pip_resolves(gpu: str, system: str, torch: str, tensorflow: str) -> None:
    plan = ask(gpu, system, tensorflow="2")
    assert "conflicts" not in plan, plan
    assert plan["pytorch"]["version"] + " " + plan["pytorch"]["build"] == torch
    assert plan["tensorflow"]["version"] == tensorflow
    assert plan["requirements"][:2] == ["torch==" + torch.split()[0], "tensorflow[and-cuda]==2.20.0"]


@pytest.mark.parametrize(
    ("torch", "tensorflow", "words"),
    [
        # NCCL 2.27.7 or newer against 2.27.5.
        ("2.10.0", "2.21.0", "nvidia-nccl-cu12"),
        ("2.8.0", "2.19.1", "nvidia-cublas-cu12"),
        # NCCL 2.21.5 and cuBLAS 12.4.
        ("2.6.0", "2.20.0", "pip finds no environment"),
        ("2.14.1", "2.20.0", "is not known"),
        ("2.0.1", "2.14.1", "pip finds no environment"),
    ],
)
def test_a_pair_that_pip_does_not_resolve_is_refused(torch: str, tensorflow: str, words: str) -> None:
    answer = ask("A100", "rhel 8.10", pytorch=torch, tensorflow=tensorflow, python="3.11")
    assert words in reasons(answer)


@pytest.mark.parametrize("torch", TORCH_WITH_TF_2_20)
def test_what_pip_resolves_is_planned(torch: str) -> None:
    plan = ask("A100", "rhel 8.10", pytorch=torch, tensorflow="2.20.0")
    assert "conflicts" not in plan, plan


def test_cuda_13_and_cuda_12_lie_in_the_same_folders() -> None:
    answer = ask("A100", "rhel 8.10", pytorch_build="cu130", tensorflow="2.20.0")
    assert "one environment cannot hold both" in reasons(answer)


def test_a_build_that_was_not_read_promises_no_pair() -> None:
    answer = ask("A100", "rhel 8.10", pytorch="2.10.0", pytorch_build="cu126", tensorflow="2.20.0")
    assert "was not read" in reasons(answer)


def test_tensorflow_that_loads_the_nodes_cuda_has_limits_of_its_own() -> None:
    # tensorflow 2.13 wants typing-extensions below 4.6, PyTorch from 2.2 on 4.8 or newer.
    answer = ask("A100", "rhel 8.10", pytorch="2.4.1", tensorflow="2.13.1", python="3.9", cuda="11.8", cudnn="8.7")
    assert "typing-extensions" in reasons(answer)
    plan = ask("A100", pytorch="2.0.1", tensorflow="2.13.1", python="3.9", cuda="11.8", cudnn="8.7")
    assert plan["tensorflow"]["version"] == "2.13.1"


@pytest.mark.parametrize(
    ("gpu", "tensorflow", "refused"),
    [
        # blog.tensorflow.org, "What's new in TensorFlow 2.17": the oldest GPU is now Pascal.
        ("M60", "2.17.1", True),
        ("M60", "2.20.0", True),
        ("M60", "2.16.2", False),
        ("P100", "2.20.0", False),
        # tensorflow/tensorflow#99592, #101746: CUDA_ERROR_INVALID_PTX on Blackwell.
        ("B200", "2.20.0", True),
        ("5090", "2.19.1", True),
        ("5090", "2.21.0", True),
        ("H100", "2.20.0", False),
        ("4090", "2.20.0", False),
        # CUDA 12 has no Kepler.
        ("K80", "2.15.1", True),
    ],
)
def test_tensorflow_has_code_for_some_gpus(gpu: str, tensorflow: str, refused: bool) -> None:
    answer = ask(gpu, "rhel 8.10", tensorflow=tensorflow, pytorch_build="cpu", pytorch="2.4.1", python="3.11")
    if refused:
        assert "has no code for" in reasons(answer), answer
    elif "conflicts" in answer:
        assert "has no code for" not in reasons(answer)


@pytest.mark.parametrize("torch", ["2.4.1", "2.5.1", "2.6.0"])
def test_the_cudnn_inside_the_wheel_must_know_the_gpu(torch: str) -> None:
    answer = ask("K80", "rhel 8.10", pytorch=torch)
    assert "cuDNN 9.1.0" in reasons(answer)
    assert "kepler" in reasons(answer)


@pytest.mark.parametrize("torch", ["2.0.1", "2.1.2", "2.3.1"])
def test_cudnn_8_knows_kepler(torch: str) -> None:
    assert "conflicts" not in ask("K80", "rhel 8.10", pytorch=torch)


def test_each_build_that_pypi_serves_says_which_cudnn_it_brings() -> None:
    for series, row in MATRIX["pytorch"].items():
        for build, details in row["builds"].items():
            assert "cudnn" in details or "index" not in details, (series, build)


NOT_READ = "which cuDNN it brings, as no wheel from the PyTorch index was read"


@pytest.mark.parametrize("pytorch", list_candidates(MATRIX, {}, "el8")["pytorch"], ids=lambda one: one.label)
def test_a_cudnn_that_was_read_in_no_wheel_is_not_verified(pytorch: Candidate) -> None:
    from_index = pytorch.row["index"] == "pytorch" and pytorch.pins["pytorch_build"] != "cpu"
    assert (NOT_READ in pytorch.row.get("unverified", "")) is from_index
    assert not (from_index and pytorch.row["verified"])


def test_a_plan_says_what_was_not_read_of_its_wheel() -> None:
    warnings = ask("V100", "rhel 8.8", pytorch="2.14")["warnings"]
    assert f"PyTorch 2.14.1 cu126 relies on something that was not verified: {NOT_READ}" in warnings
    served = ask("V100", "rhel 8.8")
    assert not any("PyTorch" in warning for warning in served["warnings"])
    # The reason why it is not taken stays the other one.
    assert "PyTorch 2.14.1 cu126 is newer, but PyPI does not serve it" in served["because"]["pytorch"]
    refused = reasons(ask("K80", "rhel 8.10", pytorch="2.5.1", pytorch_build="cu118"))
    assert "brings cuDNN 9.1.0 (by PyTorch's release table; no wheel was read)" in refused
