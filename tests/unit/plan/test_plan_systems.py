"""More questions with answers from the vendors' pages: systems, old toolkits, TensorFlow, profiles, V100 throughout."""

from __future__ import annotations

import pytest
from ansible_collections.gpuwright.node.plugins.plugin_utils.plan.candidates import Candidate
from ansible_collections.gpuwright.node.plugins.plugin_utils.plan.rules import Rules
from ansible_collections.gpuwright.node.plugins.plugin_utils.plan.solve import solve
from test_plan_questions import MATRIX, PLANS, Plan, ask, make_host, with_newest
from test_plan_refusals import REFUSALS, Refusal

# "gpus | system | pins" and "driver flavour CUDA cuDNN Python PyTorch build TensorFlow"; "*" is any.
CAN = """
V100 | rhel 8.7 | | 580 proprietary 12.9 9.10.2 3.9 2.8.0 cu128
V100 | rhel 8.9 | | 580 proprietary 12.9 9.10.2 3.11 2.10.0 cu128
V100 | rocky 8.6 | | 580 proprietary 12.9 9.10.2 3.9 2.8.0 cu128
V100 | rocky 8.9 | | 580 proprietary 12.9 9.10.2 3.11 2.10.0 cu128
V100 | almalinux 8.8 | | 580 proprietary 12.9 9.10.2 3.11 2.10.0 cu128
V100 | debian 12 | | 580 proprietary 12.9 9.10.2 3.11 2.10.0 cu128
V100 | debian 12 | driver_branch=535 | 535 proprietary 11.8 9.10.2 3.11 2.10.0 cu128
V100 | debian 12 | driver_branch=535,driver_source=nvidia | 535 proprietary 12.9 9.10.2 3.11 2.10.0 cu128
V100 | debian 12 | driver_source=distribution | 535 proprietary 11.8 9.10.2 3.11 2.10.0 cu128
V100 | debian 12 | cuda=11.8 | 535 proprietary 11.8 9.10.2 3.11 2.10.0 cu128
A100 | debian 12 | driver_source=distribution | 535 proprietary 11.8 9.10.2 3.11 2.10.0 cu128
V100 | ubuntu 22.04 | | 580 proprietary 12.9 9.10.2 3.10 2.10.0 cu128
V100 | ubuntu 24.04 | | 580 proprietary 12.9 9.10.2 3.12 2.10.0 cu128
V100 | rhel 8.8 | driver_branch=575 | 575 proprietary 12.9 9.10.2 3.11 2.10.0 cu128
V100 | rhel 8.8 | driver_branch=560 | 560 proprietary 12.6 9.10.2 3.11 2.10.0 cu128
V100 | rhel 8.8 | driver_branch=545 | 545 proprietary 12.3 9.10.2 3.11 2.10.0 cu128
V100 | rhel 8.8 | cuda=12.8 | 580 proprietary 12.8 9.10.2 3.11 2.10.0 cu128
V100 | rhel 8.8 | cuda=12.0 | 580 proprietary 12.0 9.10.2 3.11 2.10.0 cu128
V100 | rhel 8.8 | cuda=11.7 | 580 proprietary 11.7 8.7.0 3.11 2.10.0 cu128
V100 | rhel 8.8 | cuda=11 | 580 proprietary 11.8 9.10.2 3.11 2.10.0 cu128
V100 | rhel 8.8 | cuda=10.2 | 580 proprietary 10.2 8.2.1 3.11 2.10.0 cu128
V100 | rhel 8.8 | cudnn=8.7 | 580 proprietary 11.8 8.7.0 3.11 2.10.0 cu128
V100 | rhel 8.8 | cudnn=8.5.0 | 580 proprietary 11.7 8.5.0 3.11 2.10.0 cu128
V100 | rhel 8.8 | cuda=11.8,cudnn=8.7.0 | 580 proprietary 11.8 8.7.0 3.11 2.10.0 cu128
V100 | rhel 8.8 | nccl=2.16.5 | 580 proprietary 11.8 9.10.2 3.11 2.10.0 cu128
V100 | rhel 8.8 | python=3.6,pytorch=1.10 | * * * * 3.6 1.10.2 cu102
V100 | rhel 8.8 | python=3.6,pytorch=1.10,pytorch_build=cu113 | * * * * 3.6 1.10.2 cu113
V100 | rhel 8.8 | python=3.8,pytorch=1.13 | * * * * 3.8 1.13.1 cu117
V100 | rhel 8.8 | pytorch=1.13 | * * * * 3.11 1.13.1 cu117
V100 | rhel 8.8 | pytorch=1.12 | * * * * 3.9 1.12.1 cu102
V100 | rhel 8.8 | pytorch=2.2 | * * * * 3.11 2.2.2 cu121
V100 | rhel 8.8 | pytorch=2.3 | * * * * 3.11 2.3.1 cu121
V100 | rhel 8.8 | pytorch=2.4 | * * * * 3.11 2.4.1 cu121
V100 | rhel 8.8 | pytorch=2.5 | * * * * 3.11 2.5.1 cu124
V100 | rhel 8.8 | pytorch=2.6 | * * * * 3.11 2.6.0 cu124
V100 | rhel 8.8 | pytorch=2.9 | * * * * 3.11 2.9.1 cu128
V100 | rhel 8.8 | pytorch=2.12 | * * * * 3.11 2.12.1 cu126
V100 | rhel 8.8 | pytorch=2.13 | * * * * 3.11 2.13.0 cu126
V100 | rhel 8.8 | pytorch_build=cu126 | * * * * 3.11 * cu126
V100 | rhel 8.8 | tensorflow=2.13 | 580 proprietary 11.8 8.7.0 3.11 2.1.2 cu121 2.13.1
V100 | rhel 8.8 | tensorflow=2.20 | 580 proprietary 12.9 9.10.2 3.11 2.10.0 cu128 2.20.0
V100 | rhel 8.8 | tensorflow=2.7 | 580 proprietary 11.8 8.7.0 3.9 2.8.0 cu128 2.7.4
V100 | rhel 8.8 | profile=current | 580 proprietary 12.9 9.10.2 3.11 2.10.0 cu128
V100 | rhel 8.8 | profile=documented | 580 proprietary 11.8 8.7.0 3.8 2.0.1 cu117 2.13.1
V100 | rhel 8.8 | profile=documented,driver_branch=515 | 515 proprietary 11.8 8.7.0 3.8 2.0.1 cu117 2.13.1
V100 | rhel 8.8 | profile=documented,pytorch=2.1 | 580 proprietary 11.8 8.7.0 3.8 2.1.2 cu121 2.13.1
V100 | rhel 8.8 | profile=documented,python=3.9 | 580 proprietary 11.8 * 3.9 2.0.1 cu117 *
V100 | rhel 8.10 | profile=documented | 580 proprietary 11.8 8.7.0 3.8 2.0.1 cu117 2.13.1
K80 | rhel 8.8 | | 470 proprietary 11.4 8.5.0 3.11 2.0.1 cu117
K80 | rhel 8.10 | | 470 proprietary 11.4 8.5.0 3.11 2.0.1 cu117
K80 | almalinux 8.10 | | 470 proprietary 11.4 8.5.0 3.11 2.0.1 cu117
K80 | rhel 8.10 | python=3.12 | 470 proprietary 11.4 8.5.0 3.12 2.3.1 cu118
K80 | rocky 8.6 | | 470 proprietary 11.4 8.5.0 3.9 2.0.1 cu117
V100 | rhel 8.10 | driver_branch=470 | 470 proprietary 11.4 8.7.0 3.11 2.0.1 cu117
K80 | rhel 8.8 | pytorch_build=cu118 | 470 proprietary 11.4 8.5.0 3.11 2.3.1 cu118
M60 | rhel 8.8 | | 580 proprietary 12.9 9.10.2 3.11 2.7.1 cu126
M60 | ubuntu 24.04 | | 580 proprietary 12.9 9.10.2 3.12 2.7.1 cu126
P100 | debian 12 | | 580 proprietary 12.9 9.10.2 3.11 2.7.1 cu126
T4 | debian 12 | | 620 open 13.4 9.26.0 3.11 NEWEST
T4 | rhel 8.8 | driver_branch=470 | 470 proprietary 11.4 8.7.0 3.11 2.0.1 cu117
T4 | rhel 8.8 | profile=documented | 620 open 11.8 8.7.0 3.8 2.0.1 cu117 2.13.1
A100 | rhel 8.6 | | 620 open 13.4 9.26.0 3.9 2.8.0 cu128
A100 | rhel 8.8 | cuda=11.0 | 620 open 11.0 8.7.0 3.11 NEWEST
A100 | ubuntu 22.04 | | 620 open 13.4 9.26.0 3.10 NEWEST
A100 | rhel 8.10 | tensorflow=2.20 | 620 open 13.4 9.26.0 3.12 2.10.0 cu128 2.20.0
H100 | rhel 8.8 | profile=documented,pytorch_build=cu118 | 620 open 11.8 8.7.0 3.8 2.0.1 cu118 2.13.1
4090 | ubuntu 24.04 | | 620 open 13.4 9.26.0 3.12 NEWEST
B200 | debian 12 | | 620 open 13.4 9.26.0 3.11 NEWEST
H200 | rhel 8.8 | driver_branch=550 | 550 proprietary 12.4 9.26.0 3.11 2.10.0 cu128
"""
# What must be said, after the pins.
CANNOT = """
V100 | rhel 8.8 | pytorch_build=cu132 | has no code for Tesla V100-PCIE-16GB (sm_70)
V100 | rhel 8.8 | pytorch=2.15,pytorch_build=cu130 | sm_70
V100 | rhel 8.8 | pytorch=2.12,pytorch_build=cu132 | sm_70
V100 | rhel 8.8 | pytorch=2.14,pytorch_build=cu130 | sm_70
V100 | rhel 8.8 | pytorch=2.14,python=3.9 | no wheels for Python 3.9
V100 | rhel 8.8 | pytorch=2.10,python=3.8 | no wheels for Python 3.8
V100 | rhel 8.8 | python=3.8,pytorch=2.5 | no wheels for Python 3.8
V100 | rhel 8.8 | python=3.6,pytorch=1.11 | no wheels for Python 3.6
V100 | rhel 8.8 | pytorch=1.10,python=3.11 | no wheels for Python 3.11
V100 | rhel 8.8 | cuda=12.9,cudnn=8.7 | is not for CUDA 12.9
V100 | rhel 8.8 | cuda=11.7,cudnn=9.10 | is not for CUDA 11.7
V100 | rhel 8.8 | cuda=11.8,nccl=2.27.5 | is not for CUDA 11.8
V100 | rhel 8.8 | tensorflow=2.13,cuda=12.9 | TensorFlow 2.13.1 loads CUDA 11
V100 | rhel 8.8 | tensorflow=2.13,cudnn=9.10 | loads cuDNN 8
V100 | rhel 8.8 | tensorflow=2.12,cudnn=8.5 | 8.6 or newer
V100 | rhel 8.8 | tensorflow=2.20,python=3.8 | no wheels for Python 3.8
V100 | rhel 8.8 | tensorflow=2.19 | demands nvidia-cublas-cu12 12.5.3.2
A100 | rhel 8.10 | tensorflow=2.18 | pip finds no environment
H200 | rhel 8.8 | driver_branch=535 | the first driver for it is 550.90.07
V100 | rhel 8.8 | tensorflow=2.20,pytorch_build=cu118 | one environment cannot hold both
V100 | rhel 8.8 | tensorflow=2.99 | is newer than this matrix
V100 | rhel 8.8 | profile=newest | is not known
V100 | rhel 8.8 | profile=documented,cuda=12.9 | TensorFlow 2.13.1 loads CUDA 11
V100 | debian 12 | profile=documented | Debian 12 has no Python 3.8
V100 | debian 12 | python=3.12 | Debian 12 has no Python 3.12
V100 | ubuntu 24.04 | cuda=12.4 | begins with 12.5
V100 | ubuntu 22.04 | python=3.11 | has no Python 3.11
V100 | ubuntu 22.04 | driver_branch=590 | volta needs the proprietary module of branch 580 or older
V100 | debian 12 | driver_flavour=open | volta needs the proprietary module
V100 | rhel 8.8 | driver_version=>=580 | not a version
V100 | rhel 8.8 | cuda=>=12 | is not known
K80 | rhel 8.8 | driver_branch=580 | kepler needs the proprietary module of branch 470
K80 | rhel 8.8 | cuda=12.0 | the last toolkit for kepler is 11.8
K80 | rhel 8.8 | cudnn=8.9.7 | the last cuDNN for kepler is 8.5.0
K80 | rhel 8.8 | profile=documented | kepler needs
K80 V100 H100 | rhel 8.8 | | does not drive
M60 | rhel 8.8 | pytorch_build=cu128 | sm_52
P100 | rhel 8.8 | cuda=13.0 | the last toolkit for pascal is 12.9
A40 | rhel 8.8 | cuda=11.0 | cannot compile for NVIDIA A40 (sm_86)
A100 | rhel 8.8 | cuda=10.2 | the first toolkit for ampere is 11.0
H100 | rhel 8.8 | cuda=11.7 | the first toolkit for hopper is 11.8
4090 | rhel 8.8 | driver_branch=515 | branch 525 or newer
B200 | rhel 8.8 | driver_branch=565 | branch 570 or newer
H100 | rhel 8.8 | profile=documented | PyTorch 2.0.1 cu117 has no code for NVIDIA H100 PCIe (sm_90)
H200 | rocky 8.10 | profile=documented | has no code for NVIDIA H200 (sm_90)
B200 | rhel 8.8 | profile=documented | the first toolkit for blackwell is 12.8
A100 | rhel 8.8 | pytorch=1.10,pytorch_build=cu102 | sm_80
H200 | debian 11 | | Install Debian 12 on the host
"""


def rows(text: str) -> list[tuple[str, str, dict[str, str], str]]:
    found = []
    for line in text.strip().splitlines():
        gpus, system, pins, answer = (part.strip() for part in line.split("|"))
        found.append((gpus, system, dict(pin.split("=", 1) for pin in pins.split(",") if pin), with_newest(answer)))
    return found


def name(question: tuple) -> str:
    return "{}-{}-{}".format(*question[:2], "+".join("=".join(pin) for pin in question[2].items())).replace(" ", "_")


@pytest.mark.parametrize("question", rows(CAN), ids=name)
def test_what_can_be_is_planned(question: tuple) -> None:
    gpus, system, pins, answer = question
    plan = ask(gpus, system, **pins)
    assert "conflicts" not in plan, plan["conflicts"]
    driver, torch = plan["driver"], plan["pytorch"]
    got = [driver["branch"], driver["flavour"], plan["cuda"]["version"], plan["cudnn"]["version"]]
    got += [plan["python"]["version"], torch["version"], torch["build"], plan["tensorflow"]["version"]]
    wanted = [*answer.split(), ""][:8]
    assert [have if want == "*" else want for want, have in zip(wanted, got, strict=True)] == got


@pytest.mark.parametrize("question", rows(CANNOT), ids=name)
def test_what_cannot_be_is_refused(question: tuple) -> None:
    gpus, system, pins, words = question
    conflicts = ask(gpus, system, **pins)["conflicts"]
    assert any(words in conflict["what"] for conflict in conflicts), [conflict["what"] for conflict in conflicts]
    assert all(len(conflict["choices"]) <= 3 for conflict in conflicts)


def test_another_profile_is_a_way_out_of_a_profile() -> None:
    """Offered where it leads to a plan, and only where the profile is part of what clashes."""
    hopper = ask("H100", "rhel 8.8", profile="documented")["conflicts"]
    assert [entry["choices"] for entry in hopper] == [[{"pytorch_build": "cu118"}, {"profile": "current"}]]
    volta = ask("V100", "debian 12", profile="documented")["conflicts"]
    assert [entry["choices"] for entry in volta] == [
        [{"python": "3.11"}, {"profile": "current"}],
        [{"profile": "current"}],
    ]
    kepler = ask("K80", "debian 12", profile="documented")["conflicts"]
    assert all({"profile": "current"} not in entry["choices"] for entry in kepler)
    own = ask("V100", "rhel 8.8", profile="documented", driver_branch="590")["conflicts"]
    assert all({"profile": "current"} not in entry["choices"] for entry in own)


@pytest.mark.parametrize(
    ("gpus", "system", "words"),
    [
        ("K80", "debian 12", "There is a plan for it on RHEL 8, Rocky Linux 8, AlmaLinux 8 (8.10) or Ubuntu 22.04."),
        ("K80", "ubuntu 24.04", "There is a plan for it on RHEL 8"),
        ("V100 B200", "rhel 8.8", "put those of one generation into one host"),
    ],
)
def test_a_refusal_without_a_pin_to_change_says_what_else_to_do(gpus: str, system: str, words: str) -> None:
    (refused,) = ask(gpus, system)["conflicts"]
    assert words in refused["what"] and refused["choices"] in ([], [{"cuda": "none"}])


def test_a_card_without_code_for_it_can_still_have_everything_but_pytorch() -> None:
    host = make_host("K80", "rhel 8.10")
    host["gpus"][0].update(device_id="1023", name="Tesla K40m", compute_capability="3.5")
    (refused,) = solve(MATRIX, host, {})["conflicts"]
    assert refused["choices"] == [{"pytorch_build": "cpu"}]
    assert solve(MATRIX, host, {"pytorch_build": "cpu"})["driver"]["branch"] == "470"


def test_there_are_enough_questions() -> None:
    refusals = [*((row.gpus, row.pins) for row in REFUSALS), *((row[0], row[2]) for row in rows(CANNOT))]
    every: list[Plan | Refusal] = [*PLANS, *REFUSALS]
    questions = {(row.gpus, row.system, *sorted(row.pins.items())) for row in every}
    questions |= {(row[0], row[1], *sorted(row[2].items())) for row in rows(CAN) + rows(CANNOT)}
    assert len(questions) >= 150
    assert len([gpus for gpus, _pins in refusals if gpus == "V100"]) >= 40


def test_packages_of_debian_have_its_names() -> None:
    plan = ask("V100", "debian 12", nccl="2.27.5")
    assert plan["driver"]["packages"] == ["cuda-drivers=580.*"]
    # Another branch is another version of the same packages.
    assert ask("V100", "debian 12", driver_branch="570")["driver"]["packages"] == ["cuda-drivers=570.*"]
    assert plan["driver"]["preference"]["version"] == "580.*"
    assert {"cuda-drivers*", "nvidia-[!c]*", "libcuda1"} <= set(plan["driver"]["preference"]["package"].split())
    assert plan["kernel"]["devel"][0].startswith("linux-headers-")
    assert plan["cudnn"]["packages"][0] == "libcudnn9-cuda-12=9.10.2.21-1"
    assert plan["nccl"]["packages"] == ["libnccl2=2.27.5-1+cuda12.9", "libnccl-dev=2.27.5-1+cuda12.9"]
    assert plan["driver"]["stream"] == ""
    assert plan["driver"]["repository"]["id"] == "cuda-debian12-x86_64" and plan["driver"]["components"] == []
    exact = ask("A100", "ubuntu 24.04", driver_version="595.71.05")["driver"]
    assert (exact["packages"], exact["preference"]["version"]) == (["nvidia-open=595.71.05-*"], "595.71.05-*")


def test_packages_of_debians_own_archive() -> None:
    plan = ask("V100", "debian 12", driver_source="distribution", driver_version="535.261.03")
    assert plan["driver"]["packages"] == [
        "nvidia-kernel-dkms=535.261.03-*",
        "nvidia-smi=535.261.03-*",
        "libcuda1=535.261.03-*",
        # Built from other sources, with versions of their own.
        "nvidia-persistenced",
        "nvidia-modprobe",
    ]
    assert plan["driver"]["components"] == ["contrib", "non-free", "non-free-firmware"]
    assert plan["driver"]["module"] == "nvidia-current"
    assert plan["driver"]["preference"] == {"package": "src:nvidia-graphics-drivers", "version": "535.261.03-*"}
    assert plan["driver"]["repository"] == {}
    toolkit = {
        "version": "11.8",
        "package": "nvidia-cuda-toolkit",
        "compiler": ["nvidia-cuda-toolkit-gcc"],
        "host_compiler": "",
        "prefix": "/usr",
        "link": "",
    }
    assert plan["cuda"] == toolkit
    assert plan["cudnn"]["wheel"] == "nvidia-cudnn-cu11==9.10.2.21"
    assert plan["cudnn"]["header"] == "/opt/gpuwright/cudnn/9.10.2/include/cudnn_version.h"


def test_packages_of_ubuntus_server_branches() -> None:
    plan = ask("V100", "ubuntu 22.04", driver_source="distribution")
    assert plan["driver"]["packages"] == [
        "nvidia-dkms-580-server",
        "nvidia-compute-utils-580-server",
        "nvidia-utils-580-server",
        "nvidia-modprobe",
    ]
    # The branch is in their names.
    assert (plan["driver"]["preference"], plan["driver"]["repository"]) == ({"package": "", "version": ""}, {})
    exact = ask("V100", "ubuntu 22.04", driver_source="distribution", driver_version="580.95.05")["driver"]
    assert exact["preference"]["package"] == "src:nvidia-graphics-drivers-580-server"
    assert plan["cuda"]["version"] == "11.5"
    assert ask("A100", "ubuntu 24.04", driver_source="distribution", driver_flavour="open")["driver"]["packages"][
        0
    ] == ("nvidia-dkms-580-server-open")


def test_an_image_is_built_for_the_kernel_that_it_will_boot() -> None:
    host = make_host("V100", "debian 12", kernel={"running": "6.12.1", "next_boot": "6.12.1"})
    plan = solve(MATRIX, dict(host, kernel_target="6.1.0-56-amd64"), {})
    assert plan["kernel"]["releases"] == ["6.1.0-56-amd64"]
    assert plan["kernel"]["devel"] == ["linux-headers-6.1.0-56-amd64"]


@pytest.mark.parametrize(
    ("gpus", "package"),
    [("V100", "cuda12"), ("T4", "cuda13"), ("V100 A100", "cuda12"), ("K80", "datacenter-gpu-manager")],
)
def test_dcgm_goes_with_gpus_and_driver(gpus: str, package: str) -> None:
    dcgm = ask(gpus)["dcgm"]
    assert dcgm["packages"][-1].endswith(package)
    assert dcgm["exporter"] == (["datacenter-gpu-manager-exporter"] if dcgm["version"] == "4" else [])


@pytest.mark.parametrize("system", ["rhel 9.0", "rhel 9.2", "rocky 9.6", "almalinux 10"])
def test_what_ansibles_module_for_pip_imports_is_installed_where_the_system_may_lack_it(system: str) -> None:
    """On EL 8 the platform's Python requires setuptools; on EL 9 and 10 a minimal installation has none."""
    assert "python3-setuptools" in ask("T4", system)["python"]["packages"]
    assert "python3-setuptools" not in ask("V100", "rhel 8.8")["python"]["packages"]


def test_a_refusal_compares_few_pairs_on_the_systems_that_it_names(monkeypatch: pytest.MonkeyPatch) -> None:
    """What GPU, system or pins rule out there is compared with nothing: that was most of a slow answer's time."""
    compared = []
    ask_rule = Rules.pair_refuses

    def count(rules: Rules, first: Candidate, second: Candidate) -> str:
        compared.append(first.kind)
        return ask_rule(rules, first, second)

    monkeypatch.setattr(Rules, "pair_refuses", count)
    plan = ask("V100", "rocky 10.0", cuda="12", tensorflow="2", nccl="2")
    assert "There is a plan for it on" in plan["conflicts"][0]["what"]
    assert len(compared) < 8000


def test_an_archive_can_have_several_drivers_each_with_its_own_facts() -> None:
    main, older = (ask("V100", "debian 13", driver_branch=branch) for branch in ("550", "535"))
    assert main["driver"]["module"] == "nvidia-current" and older["driver"]["module"] == "nvidia-tesla-535"
    assert older["driver"]["packages"][:3] == [
        "nvidia-tesla-535-kernel-dkms",
        "nvidia-tesla-535-smi",
        "libnvidia-tesla-535-cuda1",
    ]
    exact = ask("V100", "debian 13", driver_version="535.274.02")["driver"]
    assert exact["preference"]["package"] == "src:nvidia-graphics-drivers-tesla-535"
    assert (
        "nvidia-tesla-535-kernel-dkms=535.274.02-*" in exact["packages"] and "nvidia-persistenced" in exact["packages"]
    )
    told = " ".join(older["warnings"])
    assert "has had no updates from NVIDIA since 2026-06, and Debian's archive stays at 535.274.02" in told
    assert "they are fixed in 535.309.01" in told
    # Debian itself goes on with 535 in its release 12: what NVIDIA has ended is another source's.
    told = " ".join(ask("A100", "debian 12", driver_source="distribution")["warnings"])
    assert "has had no updates since 2026-06" not in told and "no bulletin since 2026-09-30 names branch 535" in told
    assert "has had no updates since 2026-06" in " ".join(
        ask("A100", "debian 12", driver_branch="535", driver_source="nvidia")["warnings"]
    )
    told = " ".join(ask("A100", "ubuntu 22.04", driver_branch="535", driver_source="distribution")["warnings"])
    assert "whether Ubuntu's archive goes on with it is not known here" in told


@pytest.mark.parametrize(
    ("card", "system", "pins", "words"),
    [
        ("A100", "rhel 8.6", {}, 'CUDA 12.9, which fits, too: system_cuda_version "12.9"'),
        ("A100", "rhel 9.6", {"pytorch": "2.5.1"}, 'CUDA 12.9, which fits, too: system_cuda_version "12.9"'),
        ("A100", "rhel 9.6", {"pytorch": "2.5.1", "cuda": "13.0"}, 'system_cuda_version "12.9"'),
        # There is none in NVIDIA's repository for Debian 13, and none is needed where both are of one CUDA.
        ("A100", "debian 13", {"pytorch": "2.10.0"}, ""),
        ("A100", "rhel 9.6", {}, ""),
    ],
)
def test_a_toolkit_that_does_not_suit_pytorch_names_the_one_that_does(
    card: str, system: str, pins: dict[str, str], words: str
) -> None:
    told = [text for text in ask(card, system, **pins)["warnings"] if "can be compiled with" in text]
    assert bool(told) == bool(words) and all(words in text for text in told), told
    assert all(text.startswith("Only if you compile extensions") for text in told)


@pytest.mark.parametrize(
    ("system", "pins", "package", "words"),
    [
        (
            "rhel 8.10",
            {},
            "gcc-toolset-14-gcc-c++",
            "NVCC_PREPEND_FLAGS='-ccbin /opt/rh/gcc-toolset-14/root/usr/bin/g++'",
        ),
        ("rocky 8.9", {"pytorch": "2.14.1"}, "gcc-toolset-13-gcc-c++", "C++20"),
        ("almalinux 8.8", {"pytorch": "2.12.1", "cuda": "12.9"}, "gcc-toolset-12-gcc-c++", "C++20"),
        ("rhel 8.10", {"pytorch": "2.13", "pytorch_build": "cu126", "cuda": "12.6"}, "gcc-toolset-13-gcc-c++", "C++20"),
        # No toolset that has C++20 is one that CUDA 11.8 takes, and before 8.7 none had it.
        ("rhel 8.10", {"pytorch": "2.14.1", "pytorch_build": "cu126", "cuda": "11.8"}, "", "takes g++ 11 at most"),
        ("rhel 8.10", {"pytorch": "2.11.0"}, "", ""),
        ("rhel 8.6", {}, "", ""),
        ("rhel 9.6", {}, "", ""),
        ("rhel 10.1", {}, "", ""),
        ("ubuntu 22.04", {}, "", ""),
        ("debian 12", {}, "", ""),
    ],
)
def test_the_compiler_fits_toolkit_and_extensions(system: str, pins: dict[str, str], package: str, words: str) -> None:
    plan = ask("A100", system, **pins)
    assert plan["cuda"]["compiler"] == ([package] if package else [])
    assert bool(plan["cuda"]["host_compiler"]) == bool(package)
    told = [text for text in plan["warnings"] if "C++20" in text or "takes g++" in text]
    assert bool(told) == bool(words) and all(words in text for text in told), told
    # Who only trains reads at once that it is not for them.
    assert all(text.startswith("Only if you compile extensions") for text in told)
    other = [text for text in plan["warnings"] if "compiled" in text or "g++" in text]
    assert all(text.startswith("Only if you compile extensions") for text in other), other
