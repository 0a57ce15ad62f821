"""The tool behind `make matrix-check`, on requirements as wheels on PyPI have them; no registry is asked."""

from __future__ import annotations

import pytest
from module_files import load_file

CHECK = load_file("tools/matrix_check.py")
LINUX = '; platform_system == "Linux" and platform_machine == "x86_64"'


def demands(*lines: str, extra: str = "and-cuda") -> dict:
    return CHECK.requirements(list(lines), "3.11", extra)


def test_only_what_is_demanded_here_counts() -> None:
    found = demands(
        "nvidia-cudnn-cu12==9.10.2.21" + LINUX,
        'setuptools; python_version >= "3.12"',
        'nvidia-nccl-cu12<3.0,>=2.25.1; extra == "and-cuda"',
        'optree>=0.13.0; extra == "optree"',
        "typing_extensions>=3.6.6",
    )
    assert set(found) == {"nvidia-cudnn-cu12", "nvidia-nccl-cu12", "typing-extensions"}
    assert set(demands('nvidia-nccl-cu12>=2; extra == "and-cuda"', extra="")) == set()


@pytest.mark.parametrize(
    ("one", "other", "clash"),
    [
        (["nvidia-cublas-cu12==12.5.3.2"], ["nvidia-cublas-cu12==12.8.4.1"], "nvidia-cublas-cu12"),
        (["nvidia-cublas-cu12<13.0,>=12.5.3.2"], ["nvidia-cublas-cu12==12.8.4.1"], ""),
        (["nvidia-nccl-cu12<3.0,>=2.27.7"], ["nvidia-nccl-cu12==2.27.5"], "nvidia-nccl-cu12"),
        (["typing-extensions<4.6.0,>=3.6.6"], ["typing-extensions>=4.8.0"], "typing-extensions"),
        (["typing-extensions~=3.7.4"], ["typing-extensions"], ""),
        (["setuptools<82"], ["setuptools>=77.0.3"], ""),
        (["setuptools<82"], ["setuptools"], ""),
        # Two open ends that touch in nothing.
        (["numpy>2.0"], ["numpy<=2.0"], "numpy"),
        (["numpy>2.0"], ["numpy<2.1"], ""),
        # Names are written in more than one way.
        (["ml_dtypes~=0.2.0"], ["ml-dtypes>=0.5"], "ml-dtypes"),
        (["filelock"], ["sympy>=1.13.3"], ""),
    ],
)
def test_requirements_that_do_not_meet_are_found(one: list[str], other: list[str], clash: str) -> None:
    assert CHECK.clash(demands(*one), demands(*other)) == clash
    assert CHECK.clash(demands(*other), demands(*one)) == clash


@pytest.mark.parametrize(
    ("build", "lines", "count"),
    [
        ({"cuda": "12.8", "cudnn": "9.10.2"}, ["nvidia-cuda-runtime-cu12==12.8.90", "nvidia-cudnn-cu12==9.10.2.21"], 0),
        ({"cuda": "12.8", "cudnn": "9.1.0"}, ["nvidia-cuda-runtime-cu12==12.8.90", "nvidia-cudnn-cu12==9.10.2.21"], 1),
        ({"cuda": "12.6"}, ["nvidia-cuda-runtime-cu12==12.8.90", "nvidia-cudnn-cu12==9.10.2.21"], 2),
        (
            {"cuda": "13.0", "cudnn": "9.24.0"},
            ["cuda-toolkit[cublas]==13.0.3", "nvidia-cudnn-cu13==9.24.0.43"],
            0,
        ),
        (
            {"cuda": "13.2", "cudnn": "9.24.0"},
            ["cuda-toolkit[cublas]==13.0.3", "nvidia-cudnn-cu13==9.24.0.43"],
            1,
        ),
        # Before 1.13 the wheel has its libraries inside.
        ({"cuda": "10.2", "cudnn": "7.6.5"}, ["typing-extensions"], 0),
    ],
)
def test_a_row_says_what_the_wheel_brings(build: dict[str, str], lines: list[str], count: int) -> None:
    assert len(CHECK.torch_problems("2.10.0", build, demands(*lines))) == count
