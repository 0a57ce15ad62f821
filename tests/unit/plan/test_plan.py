"""The form of a plan and of a refusal; which versions are chosen is asked in test_plan_questions.py."""

from __future__ import annotations

import json
from typing import Any

import pytest
from ansible_collections.gpuwright.node.plugins.plugin_utils.plan.clash import conflict_message
from ansible_collections.gpuwright.node.plugins.plugin_utils.plan.solve import solve
from test_plan_questions import KERNEL, MATRIX, OLD_OS, OLD_PYTHON, ask, make_host

NEXT_KERNEL = "4.18.0-477.27.1.el8_8.x86_64"


KERNEL_PACKAGES = ["kernel", "kernel-core", "kernel-modules", "kernel-modules-core", "kernel-modules-extra"]


@pytest.mark.parametrize(
    ("pins", "requests"),
    [
        ({"pytorch": "2.0", "pytorch_build": "cu117"}, {"numpy<2", "setuptools<70"}),
        ({"pytorch": "2.2", "pytorch_build": "cu121"}, {"numpy<2", "setuptools"}),
        ({"pytorch": "2.3", "pytorch_build": "cu121"}, {"numpy", "setuptools"}),
        ({"profile": "documented"}, {"numpy>=1.22,<2", "setuptools<70"}),
        ({}, {"numpy", "setuptools"}),
    ],
)
def test_an_old_pytorch_is_not_asked_for_with_what_it_does_not_work_with(
    pins: dict[str, str], requests: set[str]
) -> None:
    """torch.from_numpy of wheels before 2.3 fails beside NumPy 2, their extensions beside a newer setuptools."""
    plan = ask("A100", "rhel 8.8", **pins)
    assert {line for line in plan["requirements"] if line.startswith(("numpy", "setuptools"))} == requests


def test_the_plan_of_the_reference_machine() -> None:
    kernel = {"running": KERNEL, "next_boot": NEXT_KERNEL}
    plan = solve(MATRIX, make_host(kernel=kernel), {})
    removes = plan["driver"].pop("switch_removes")
    assert plan["schema"] == 1
    assert plan["driver"] == {
        "branch": "580",
        "flavour": "proprietary",
        "source": "nvidia",
        "preference": {"package": "", "version": ""},
        "components": [],
        "repository": {
            "id": "cuda-rhel8-x86_64",
            "url": "https://developer.download.nvidia.com/compute/cuda/repos/rhel8/x86_64/",
            "key_url": "https://developer.download.nvidia.com/compute/cuda/repos/rhel8/x86_64/D42D0685.pub",
            "key_fingerprint": "610C7B14E068A878070DA4E99CD0A493D42D0685",
        },
        "stream": "580-dkms",
        "module": "nvidia",
        "signed": False,
        "version": "",
        "present": False,
        "packages": [
            "kmod-nvidia-latest-dkms",
            "nvidia-driver-cuda",
            "nvidia-kmod-common",
            "nvidia-persistenced",
            "nvidia-modprobe",
        ],
        "version_lock": [
            "kmod-nvidia-latest-dkms",
            "nvidia-driver-cuda",
            "nvidia-kmod-common",
            "nvidia-persistenced",
            "nvidia-modprobe",
            "nvidia-driver-cuda-libs",
            "libnvidia-ml",
            "libnvidia-cfg",
        ],
    }
    assert {"kmod-nvidia-open-dkms", "cuda-drivers", "nvidia-driver-NVML"} <= set(removes)
    assert plan["kernel"] == {
        "releases": [KERNEL, NEXT_KERNEL],
        "flavour": "kernel",
        "next_flavour": "",
        "headers": {KERNEL: f"kernel-devel-{KERNEL}", NEXT_KERNEL: f"kernel-devel-{NEXT_KERNEL}"},
        "versions": {},
        "image": KERNEL_PACKAGES,
        "updated": [*KERNEL_PACKAGES, "kernel-devel", "kernel-devel-matched", "kernel-headers"],
        "hold": [*KERNEL_PACKAGES[:4], "kernel-devel", "kernel-headers", "kernel-modules-extra"],
        "newest": KERNEL,
        "packages": ["gcc", "make", "elfutils-libelf-devel", "kernel-headers", "dkms"],
        "devel": [f"kernel-devel-{KERNEL}", f"kernel-devel-{NEXT_KERNEL}"],
        "module": "",
        "follow": [],
    }
    assert plan["cuda"] == {
        "version": "12.9",
        "package": "cuda-toolkit-12-9",
        "compiler": [],
        "host_compiler": "",
        "prefix": "/usr/local/cuda-12.9",
        "link": "/usr/local/cuda",
    }
    assert plan["cudnn"] == {
        "version": "9.10.2",
        "packages": ["libcudnn9-cuda-12-9.10.2.21-1", "libcudnn9-devel-cuda-12-9.10.2.21-1"],
        "wheel": "",
        "prefix": "",
        "header": "/usr/include/cudnn_version.h",
    }
    assert plan["nccl"] == {"version": "", "packages": []}
    assert plan["python"] == {
        "version": "3.11",
        "packages": ["python3.11", "python3.11-pip", "python3.11-devel", "gcc", "gcc-c++"],
        "executable": "/usr/bin/python3.11",
    }
    assert plan["pytorch"] == {
        "version": "2.10.0",
        "build": "cu128",
        "lock": "py3.11-torch2.10.0-cu128.txt",
        "locked": True,
        "index_url": "",
        "extensions": True,
        "limits": [],
    }
    assert plan["amp"] == {
        "dtype": "float16",
        "because": "Tesla V100-PCIE-16GB (volta) has no bfloat16 arithmetic: float16 with loss scaling",
    }
    assert plan["runtime"]["packages"] == ["jemalloc", "gperftools-libs", "numactl"]
    assert plan["runtime"]["jemalloc"] == "/usr/lib64/libjemalloc.so.2"
    assert plan["runtime"]["tcmalloc"] == "/usr/lib64/libtcmalloc_minimal.so.4"
    assert plan["warnings"] == [OLD_OS, OLD_PYTHON]


def test_every_choice_says_why() -> None:
    because = ask()["because"]
    assert set(because) == {"driver", "cuda", "cudnn", "python", "pytorch"}
    assert "branch 580 or older" in because["driver"]
    assert "updates until 2028-06" in because["driver"]
    assert "12.9" in because["cuda"] and "volta" in because["cuda"]
    assert "RHEL 8.8 has no Python 3.13" in because["python"]
    assert "sm_70" in because["pytorch"]
    # The newest that would run is not the one taken, and the reader learns about it.
    assert "PyTorch 2.14.1 cu126 is newer, but PyPI does not serve it" in because["pytorch"]
    assert "pinned by system_cuda_version" in ask(cuda="12.6")["because"]["cuda"]
    assert "updates until 2029-09" in ask("A100")["because"]["driver"]
    # Of the branches with the proprietary module, the newest that is supported for long.
    because = ask("A100", driver_flavour="proprietary")["because"]["driver"]
    assert "Driver 580 (proprietary)" in because and "driver 610 (proprietary) is newer, but past its end" in because


@pytest.mark.parametrize(
    ("today", "python", "driver"),
    [
        ("2026-05-31", "updates until 2026-05;", "updates until 2028-06;"),
        ("", "updates ended in 2026-05;", "updates until 2028-06;"),
        ("2028-07-01", "updates ended in 2026-05;", "NVIDIA's updates ended in 2028-06;"),
    ],
)
def test_a_reason_and_a_warning_agree_about_updates(today: str, python: str, driver: str) -> None:
    """By the later day of the matrix' and of the run, as warnings go."""
    matrix = {**MATRIX, "as_of": "2026-05-01"} if today.startswith("2026") else MATRIX
    plan = solve(matrix, {**make_host("V100"), "today": today}, {})
    because = plan["because"]
    assert python in because["python"] and driver in because["driver"], because
    for kind, label in (("python", "Python 3.11"), ("driver", "Driver 580 (proprietary)")):
        warned = any(f"{label} has had no updates" in line for line in plan["warnings"])
        assert warned == ("ended in" in because[kind])


def test_what_is_maintained_goes_before_what_was_verified() -> None:
    matrix = json.loads(json.dumps(MATRIX))
    for branch in ("580", "595", "615", "620"):
        matrix["drivers"][branch].update(verified=False, unverified="for this test")
    # 610 was verified and has ended.
    assert solve(matrix, make_host("A100"), {})["driver"]["branch"] == "620"
    assert solve(matrix, make_host("V100"), {})["driver"]["branch"] == "580"


@pytest.mark.parametrize(
    ("eol", "status", "chosen", "words"),
    [
        ("2027-12", "production", "620", ""),
        ("2027-10", "production", "580", "Driver 620 (open) is newer, but has updates until 2027-10 alone"),
        ("", "new-feature", "580", "is a new feature branch, which is short-lived"),
        ("2026-10", "production", "580", "past its end of life"),
        ("2029-09", "lts", "620", ""),
    ],
)
def test_a_driver_that_is_supported_for_long_goes_before_a_newer_one(
    eol: str, status: str, chosen: str, words: str
) -> None:
    matrix = json.loads(json.dumps(MATRIX))
    matrix["drivers"]["620"].update(eol=eol, status=status)
    plan = solve(matrix, make_host("A100"), {})
    assert plan["driver"]["branch"] == chosen and words.lower() in plan["because"]["driver"].lower()
    # Where nothing else drives the card, it is taken all the same, and the plan says how short its support is.
    pinned = solve(matrix, make_host("A100"), {"driver_branch": "620"})
    assert pinned["driver"]["branch"] == "620"
    said = [text for text in pinned["warnings"] if text.startswith("Driver 620")]
    assert bool(said) == bool(words)


def test_a_proprietary_module_above_580_was_seen_by_somebody() -> None:
    """A row does not inherit it from the row above: 615 was the first without, and apt installs nothing in silence."""
    for branch, row in MATRIX["drivers"].items():
        has = "proprietary" in row["flavours"]
        assert has == (int(branch) < 615), branch
        assert not has or int(branch) <= 580 or row["flavours"]["proprietary"]["seen"].startswith("https://"), branch
        assert "seen" not in row["flavours"].get("open", {}), branch


def test_what_comes_from_the_pytorch_index_says_where() -> None:
    assert ask(pytorch="2.14.1")["pytorch"]["index_url"] == "https://download.pytorch.org/whl/cu126"
    cpu = ask(pytorch_build="cpu", pytorch="2.13.0")["pytorch"]
    assert cpu["index_url"] == "https://download.pytorch.org/whl/cpu"
    assert cpu["lock"] == "py3.11-torch2.13.0-cpu.txt"


def test_an_exact_driver_version_is_in_every_package_of_the_driver() -> None:
    driver = ask(driver_version="580.82.07")["driver"]
    assert driver["version"] == "580.82.07"
    assert "kmod-nvidia-latest-dkms-580.82.07" in driver["packages"]
    assert "nvidia-driver-cuda-580.82.07" in driver["packages"]
    assert all(package.endswith("-580.82.07") for package in [*driver["packages"], *driver["version_lock"]])
    assert not any("580" in package for package in driver["switch_removes"])


def test_the_open_module_has_its_own_names() -> None:
    driver = ask("A100")["driver"]
    assert driver["packages"][0] == "kmod-nvidia-open-dkms"
    assert (driver["stream"], driver["module"]) == ("620-open", "nvidia-open")


def test_older_branches_lock_the_library_under_its_old_name() -> None:
    lock = ask(driver_branch="535")["driver"]["version_lock"]
    assert "nvidia-driver-NVML" in lock and "libnvidia-ml" not in lock


def test_nccl_is_planned_only_where_it_is_asked_for() -> None:
    assert ask(nccl="2.27.5")["nccl"] == {
        "version": "2.27.5",
        "packages": ["libnccl-2.27.5-1+cuda12.9", "libnccl-devel-2.27.5-1+cuda12.9"],
    }


def test_a_host_without_gpu_gets_a_cpu_plan() -> None:
    plan = ask("", pytorch_build="cpu", pytorch="2.13.0", driver_branch="580", cuda="12.9")
    assert plan["pytorch"]["lock"] == "py3.11-torch2.13.0-cpu.txt"
    assert plan["driver"]["branch"] == plan["cuda"]["package"] == ""
    assert plan["driver"]["packages"] == plan["kernel"]["devel"] == plan["cudnn"]["packages"] == []
    assert plan["amp"]["dtype"] == "bfloat16"
    assert "system_driver_branch is not used: this host has no NVIDIA GPU" in plan["warnings"]


def test_an_unknown_gpu_is_planned_only_for_who_pins_everything() -> None:
    pins = {"driver_branch": "595", "driver_flavour": "open", "cuda": "13.2", "cudnn": "9.17.0"}
    pins |= {"pytorch": "2.14.1", "pytorch_build": "cu130"}
    for missing in pins:
        assert "conflicts" in ask("?", **{key: value for key, value in pins.items() if key != missing})
    plan = ask("?", **pins)
    assert any("was checked against unknown 10de:ffff" in warning for warning in plan["warnings"])
    assert plan["amp"]["dtype"] == "float16"
    # A known GPU beside it is still checked.
    assert "conflicts" in ask("? V100", **pins)


def test_another_machine_is_refused() -> None:
    answer = solve(MATRIX, make_host(machine="aarch64"), {})
    assert "aarch64" in answer["conflicts"][0]["what"]


def test_a_gpu_without_capability_must_fit_as_its_whole_architecture() -> None:
    host = make_host()
    host["gpus"][0]["compute_capability"] = None
    assert solve(MATRIX, host, {})["pytorch"]["version"] == "2.10.0"


def test_independent_clashes_are_all_told() -> None:
    answer = ask(driver_branch="590", cuda="13.0", pytorch="2.15", python="3.12")
    found = [conflict["clash"] for conflict in answer["conflicts"]]
    assert len(found) == 4
    message = conflict_message(make_host(), answer["conflicts"])
    for line in ('driver_branch: "580"', 'cuda_version: "12.9"', 'pytorch_version: "2.10.0"', 'pytorch_python: "3.11"'):
        assert line in message


def test_clashes_that_share_a_part_are_solved_together() -> None:
    pins = {"pytorch": "2.15.0", "pytorch_build": "cu132"}
    found = ask(**pins)["conflicts"]
    assert [conflict["choices"] for conflict in found] == [[{"pytorch": "2.10.0"}], [{"pytorch_build": "cu128"}]]


@pytest.mark.parametrize("gpus", ["V100", "A100", "B200", "V100 A100"])
def test_the_first_choices_of_all_clashes_make_a_plan(gpus: str) -> None:
    pins = {"driver_branch": "510", "cuda": "13.3", "cudnn": "8.9.7", "python": "3.8", "pytorch": "2.15"}
    mended = dict(pins)
    for conflict in ask(gpus, **pins)["conflicts"]:
        mended.update(conflict["choices"][0])
    assert "conflicts" not in ask(gpus, **mended)


def test_an_unquoted_version_is_told_as_such() -> None:
    unquoted: dict[str, Any] = {"cuda": 12.9}
    answer = solve(MATRIX, make_host(), unquoted)
    assert "Write it in quotes" in answer["conflicts"][0]["what"]


def test_an_unknown_value_does_not_hide_another_clash() -> None:
    found = ask(driver_branch="58O", cuda="13.0")["conflicts"]
    assert ["58O" in found[0]["what"], "12.9" in found[1]["what"]] == [True, True]


def test_the_message_is_for_people() -> None:
    answer = ask(driver_branch="590")
    assert conflict_message(make_host(), answer["conflicts"]).splitlines() == [
        "No plan fits a5-01 (rhel 8.8, Tesla V100-PCIE-16GB). Nothing was changed. [plan.conflict]",
        "",
        "1. Driver 590 (open) does not drive Tesla V100-PCIE-16GB (volta): volta needs the proprietary module of "
        "branch 580 or older.",
        '   What clashes: Tesla V100-PCIE-16GB (volta) + system_driver_branch "590"',
        "   What fits (set it in the inventory):",
        '     system_driver_branch: "580"',
    ]


GOOD_MODULE = {"version": "580.95.05", "flavour": "proprietary", "licence": "NVIDIA"}
PRESENT = {
    "loaded": {"version": "580.95.05", "flavour": "proprietary"},
    "modules": {KERNEL: GOOD_MODULE, NEXT_KERNEL: GOOD_MODULE},
    "user_space": "580.95.05",
    "nvidia_smi": True,
}


@pytest.mark.parametrize(
    "broken",
    [
        {"loaded": None},
        {"loaded": {"version": "580.82.07", "flavour": "proprietary"}},
        {"loaded": {"version": "580.95.05", "flavour": "unknown"}},
        {"user_space": None},
        {"user_space": "580.82.07"},
        {"nvidia_smi": False},
        {"half_replaced": ["kmod-nvidia-latest-dkms"]},
        {"modules": {}},
        {"modules": {KERNEL: GOOD_MODULE, NEXT_KERNEL: None}},
        {"modules": {KERNEL: None, NEXT_KERNEL: GOOD_MODULE}},
        {"modules": {KERNEL: GOOD_MODULE, NEXT_KERNEL: {**GOOD_MODULE, "flavour": "open"}}},
        {"modules": {KERNEL: GOOD_MODULE, NEXT_KERNEL: {**GOOD_MODULE, "version": "580.82.07"}}},
    ],
)
def test_a_driver_is_not_present_when_one_part_is_another(broken: dict) -> None:
    kernel = {"running": KERNEL, "next_boot": NEXT_KERNEL}
    assert solve(MATRIX, make_host(nvidia=PRESENT, kernel=kernel), {})["driver"]["present"] is True
    assert solve(MATRIX, make_host(nvidia={**PRESENT, **broken}, kernel=kernel), {})["driver"]["present"] is False


@pytest.mark.parametrize(
    ("pins", "present"),
    [
        ({"driver_version": "580.95.05"}, True),
        ({"driver_version": "580.82.07"}, False),
        ({"driver_branch": "570"}, False),
        ({"driver_branch": "580"}, True),
    ],
)
def test_a_driver_is_present_only_when_it_is_the_planned_one(pins: dict, present: bool) -> None:
    assert solve(MATRIX, make_host(nvidia=PRESENT), pins)["driver"]["present"] is present


def test_a_host_planned_before_it_was_read_has_no_driver() -> None:
    assert solve(MATRIX, make_host(nvidia={}), {})["driver"]["present"] is False


def test_questions_and_matrix_are_not_changed() -> None:
    host, pins = make_host(), {"cuda": "12.6", "nccl": ""}
    before = json.dumps([MATRIX, host, pins])
    plan = solve(MATRIX, host, pins)
    for part in ("driver", "kernel", "cudnn", "python", "runtime"):
        plan[part]["packages"].append("changed by a caller")
    assert json.dumps([MATRIX, host, pins]) == before


@pytest.mark.parametrize(
    ("gpu", "pins", "part", "words"),
    [
        ("A100", {}, "driver", "driver 595 (open) has updates until 2027-03 alone"),
        ("A100", {}, "cuda", "CUDA 13.5 is newer, but this was not verified"),
        ("V100", {}, "driver", "driver 590 (open) does not drive"),
        ("V100", {}, "cudnn", "cuDNN 9.11.0 for CUDA 12 has no code for"),
        ("V100", {}, "pytorch", "PyTorch 2.11.0 cu130 has no code for"),
        ("V100", {"driver_branch": "580"}, "driver", ""),
    ],
)
def test_the_neighbour_of_a_choice_says_why_it_was_not_taken(
    gpu: str, pins: dict[str, str], part: str, words: str
) -> None:
    said = ask(gpu, "rhel 8.10", **pins)["neighbours"].get(part, "")
    assert words in said and bool(words) == bool(said) and "\n" not in said
