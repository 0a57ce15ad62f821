"""playbooks/plan.yml and tools/gpu-plan: a card's name in, a plan out, no host touched."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from ansible_collections.gpuwright.node.plugins.filter.plan_question import plan_question
from ansible_collections.gpuwright.node.plugins.plugin_utils.plan.input import controller_refusal, find_release
from ansible_collections.gpuwright.node.plugins.plugin_utils.plan.question import imagined_host, pins_from
from ansible_collections.gpuwright.node.plugins.plugin_utils.plan.typed_names import find_card
from conftest import REPOSITORY
from gpu_plan_program import PROGRAM, ask
from gpuwright.gpu.devices import NAMES, describe_device
from test_plan_questions import MATRIX

PLAYBOOK = Path(sys.executable).parent / "ansible-playbook"
INVENTORY = """
gpu_nodes:
  hosts:
    a5-09:
      ansible_host: 203.0.113.9
      verify_expected_gpu_count: 2
      verify_expected_gpu_model: Tesla T4
      system_cuda_version: "12.6"
"""


def play(tmp_path: Path, *arguments: str) -> subprocess.CompletedProcess:
    file = tmp_path / "inventory.yml"
    file.write_text(INVENTORY)
    command = [str(PLAYBOOK), "-i", str(file), "playbooks/plan.yml", *arguments]
    environment = {**os.environ, "ANSIBLE_NOCOLOR": "1", "ANSIBLE_CALLBACK_RESULT_FORMAT": "yaml"}
    return subprocess.run(command, cwd=REPOSITORY, capture_output=True, text=True, env=environment)


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        # As a shell hands it over: the quotes are gone.
        (["-e", "gpu=Tesla V100-PCIE-16GB"], ["Tesla V100-PCIE-16GB on rhel 8.10", "580-dkms", "cuda-toolkit-12-9"]),
        (["-e", "gpu=a5-09"], ["Tesla T4 on rhel 8.10", "cuda-toolkit-12-6", "pinned by system_cuda_version"]),
        (
            ["-e", "gpu=10de:2901", "-e", "os=ubuntu-24.04", "-e", "format=json"],
            ['"branch": "620"', '"flavour": "open"'],
        ),
    ],
    ids=["name", "inventory-host", "pci-id-json"],
)
def test_the_playbook_answers_without_a_host(tmp_path: Path, arguments: list[str], words: list[str]) -> None:
    done = play(tmp_path, *arguments)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "changed=0" in done.stdout and "UNREACHABLE" not in done.stdout
    said = " ".join(done.stdout.split())
    for word in words:
        assert word in said
    assert all(len(line) <= 80 for line in done.stdout.splitlines() if not line.startswith("Log: ")) or '"' in words[0]


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["-e", "gpu=V10O"], "Did you mean Tesla V100"),
        ([], "Which card? For example"),
        (["-e", "gpu=V100", "-e", "system_driver_branch=590"], "volta needs the proprietary module of branch 580"),
        (["-e", "gpu=V100", "-e", "system_cuda_versoin=12.6"], "did you mean system_cuda_version"),
        (["-e", "gpu=Radeon VII"], "AMD"),
    ],
    ids=["typo", "nothing", "refusal", "misspelt-variable", "amd"],
)
def test_the_playbook_refuses(tmp_path: Path, arguments: list[str], words: str) -> None:
    done = play(tmp_path, *arguments)
    assert done.returncode != 0
    assert words in " ".join(done.stdout.split())


def test_the_command_prints_json_and_nothing_else() -> None:
    command = [sys.executable, str(PROGRAM), "Tesla V100-PCIE-16GB", "--json"]
    done = subprocess.run(command, capture_output=True, text=True)
    plan = json.loads(done.stdout)
    assert (done.returncode, done.stderr) == (0, "")
    assert (plan["driver"]["stream"], plan["pytorch"]["locked"]) == ("580-dkms", True)


@pytest.mark.parametrize(
    ("arguments", "rc", "words"),
    [
        (["V100", "system_cuda_version=13.0"], 1, "the last toolkit for volta is 12.9"),
        (["V100", "--ansible-core", "2.17.14"], 1, "ansible-core 2.17.14 cannot manage RHEL 8"),
        (["V10O"], 2, "Did you mean"),
        (["V100", "system_cuda_verison=13.0"], 2, "Did you mean system_cuda_version"),
        (["V100", "--os", "rhel"], 2, "such as"),
        (["V100", "system_cuda_version"], 2, "write system_cuda_version=VALUE"),
        (["V100", "--os", "rhel 7.9"], 1, "RHEL 7.9 is not installed by this version"),
        (["V100", "--os", "fedora rawhide"], 2, "such as"),
        (["GH200 480GB", "--os", "debian 12"], 1, "aarch64"),
        (["GB200", "--machine", "x86_64"], 2, "there is none on x86_64"),
        (["A100", "--machine", "ppc64le"], 1, "this version installs only on x86_64"),
    ],
)
def test_the_command_says_no(arguments: list[str], rc: int, words: str) -> None:
    done = ask(*arguments)
    assert done.returncode == rc
    assert words in done.stdout + done.stderr


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--why", "torch"], "environment: PyTorch 2.10.0 cu128: served by PyPI"),
        (["--why", "cuda-toolkit-12-9"], "the last toolkit for volta is 12.9"),
        (["--why", "dkms"], "kernel module: "),
        (["--why", "numactl"], "runtime: "),
        (["--why", "emacs"], "Nothing in this plan asks for emacs itself."),
        (["--diff", "system_cuda_version=12.6"], "CUDA toolkit: cuda-toolkit-12-9 -> cuda-toolkit-12-6"),
        (["--diff", "system_driver_branch=570"], "driver: 580 proprietary 580-dkms -> 570 proprietary 570-dkms"),
        (["--diff", "system_driver_branch=580"], "The plans are the same."),
    ],
)
def test_the_command_says_why_and_what_would_differ(arguments: list[str], words: str) -> None:
    done = ask("V100", *arguments)
    assert (done.returncode, done.stderr) == (0, "")
    assert words in done.stdout


def test_other_pins_without_a_plan_are_a_refusal() -> None:
    done = ask("V100", "--diff", "system_cuda_version=13.0")
    assert done.returncode == 1 and "the last toolkit for volta is 12.9" in done.stdout


def test_several_conflicts_have_one_set_of_changes() -> None:
    done = ask("V100", "system_driver_branch=590", "system_cuda_version=13.0", "framework_pytorch_version=2.15")
    line = next(line for line in done.stdout.splitlines() if line.startswith("All of these together lead to a plan: "))
    changes = dict(part.split(": ") for part in line.split(": ", 1)[1].split(", "))
    assert ask("V100", *(f"{name}={value.strip(chr(34))}" for name, value in changes.items())).returncode == 0


@pytest.mark.parametrize(
    ("name", "device_id"),
    [
        ("Tesla V100-PCIE-16GB", "1db4"),
        ("10DE:1DB4", "1db4"),
        ("1db4", "1db4"),
        ("tesla v100 pcie 16gb", "1db4"),
        ("RTX 4090", "2684"),
        ("rtx4090", "2684"),
        ("rtx_4090", "2684"),
        ("4090", "2684"),
        ("GeForce 4090", "2684"),
        ("4080", "2704"),
        ("4070", "2786"),
        ("RTX4090", "2684"),
        ("GeForceRTX4090", "2684"),
        ("RTX4070TiSuper", "2705"),
        ("H100NVL", "2321"),
        ("TeslaT4", "1eb8"),
        ("TitanRTX", "1e02"),
        ("QuadroRTX5000", "1eb0"),
        ("GTX1060", "1c03"),
        ("RTX 4080S", "2702"),
        # The size of the memory: of the card of that very name first; where a card is sold with several, of any.
        ("H200 141GB", "2335"),
        # Of another kind of memory it is another product, and that with the newest first driver fits all: the NVL.
        ("H100 94GB", "2321"),
        ("H100 94 GB", "2321"),
        ("L4 24 GB", "27b8"),
        ("RTX 3080 10GB", "2206"),
        ("RTX 3050 8GB", "2507"),
        ("NVIDIA H200", "2335"),
        # Cards of one name on several chips: the later ones are rare, and need a later driver.
        ("RTX 4060 Ti", "2803"),
        ("RTX 4070", "2786"),
        ("RTX 4060", "2882"),
        ("RTX 3050", "2507"),
    ],
)
def test_a_card_is_found_as_people_write_it(name: str, device_id: str) -> None:
    assert find_card(name) == device_id


@pytest.mark.parametrize("name", ["10de:ffff", "Quadro", "", "A4", "RTX", "GeForce 40", "Voodoo 2", "T"])
def test_no_card_is_guessed(name: str) -> None:
    with pytest.raises(ValueError, match="is known|could be"):
        find_card(name)


@pytest.mark.parametrize(
    ("name", "full"),
    [
        # As nvidia-smi, vendors and people write them.
        ("NVIDIA GH200 480GB", "NVIDIA GH200"),
        ("H100 SXM", "NVIDIA H100 80GB HBM3"),
        ("H100 SXM5 80GB", "NVIDIA H100 80GB HBM3"),
        ("nvidia h100 pcie", "NVIDIA H100 PCIe"),
        ("A100 SXM 80GB", "NVIDIA A100-SXM4-80GB"),
        ("A100-SXM4-40GB", "NVIDIA A100-SXM4-40GB"),
        ("V100 SXM2 32GB", "Tesla V100-SXM2-32GB"),
        ("Quadro RTX 8000", "RTX 8000"),
        ("Quadro RTX 6000", "Quadro RTX 6000"),
        ("RTX 6000 Ada Generation", "NVIDIA RTX 6000 Ada Generation"),
        ("RTX 6000 Ada", "NVIDIA RTX 6000 Ada Generation"),
        ("GeForce RTX 4090 GPU", "NVIDIA GeForce RTX 4090"),
        ("K80", "Tesla K80"),
        ("T4 card", "Tesla T4"),
        ("L4", "NVIDIA L4"),
    ],
)
def test_names_of_vendors_and_people(name: str, full: str) -> None:
    known = NAMES[find_card(name)]
    assert full in known, known


@pytest.mark.parametrize(
    ("name", "capability"), [("K20", "3.5"), ("K40", "3.5"), ("H200 SXM", "9.0"), ("B200 SXM", "10.0")]
)
def test_part_of_a_name_means_cards_of_one_kind(name: str, capability: str) -> None:
    assert describe_device(find_card(name)).compute_capability == capability


@pytest.mark.parametrize(
    ("name", "candidates"),
    [
        ("RTX 6000", ["Quadro RTX 6000 (turing)", "NVIDIA RTX 6000 Ada Generation (ada)", "Blackwell"]),
        ("RTX 5000", ["Quadro RTX 5000 (turing)", "NVIDIA RTX 5000 Ada Generation (ada)"]),
        ("RTX 4000", ["Quadro RTX 4000 (turing)", "NVIDIA RTX 4000 Ada Generation (ada)"]),
        ("Titan", ["is known"]),
    ],
)
def test_an_ambiguous_name_lists_its_candidates(name: str, candidates: list[str]) -> None:
    with pytest.raises(ValueError, match="could be|is known") as error:
        find_card(name)
    assert all(candidate in str(error.value) for candidate in candidates), error.value


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("Radeon VII", "AMD"),
        ("AMD Instinct MI300X", "AMD"),
        ("MI250", "AMD"),
        ("Intel Arc A770", "Intel"),
        ("Gaudi 3", "Intel"),
        ("Intel Data Center GPU Max 1550", "Intel"),
        ("Jetson AGX Orin", "JetPack"),
        ("NVIDIA Jetson Xavier NX", "JetPack"),
        ("GRID V100D-8Q", "virtual GPU"),
        ("NVIDIA A40-48Q", "virtual GPU"),
        ("A100-40C", "virtual GPU"),
        ("MIG 1g.10gb", "slice of a card"),
        ("A100 MIG 3g.40gb", "slice of a card"),
        ("DGX Spark", "DGX OS"),
    ],
)
def test_what_is_not_planned_is_one_true_sentence(name: str, words: str) -> None:
    with pytest.raises(ValueError, match=words) as error:
        find_card(name)
    assert str(error.value).endswith(".") and "Did you mean" not in str(error.value)


@pytest.mark.parametrize(
    ("name", "nearest"),
    [
        ("RTX 4900", "NVIDIA GeForce RTX 4090"),
        ("RTX4900", "NVIDIA GeForce RTX 4090"),
        ("GeForce RTX 4900", "NVIDIA GeForce RTX 4090"),
        ("RTX 3009", "NVIDIA GeForce RTX 3090"),
        ("GTX 1800", "NVIDIA GeForce GTX 1080"),
        ("RTX 9045", "NVIDIA GeForce RTX 5090"),
        ("H1000", "NVIDIA H100"),
        ("A100SXM480GB", "NVIDIA A100-SXM4-80GB"),
    ],
)
def test_the_nearest_card_is_named_first(name: str, nearest: str) -> None:
    with pytest.raises(ValueError, match="Did you mean") as error:
        find_card(name)
    assert f"Did you mean {nearest} or " in str(error.value)


@pytest.mark.parametrize(
    ("text", "count", "name"),
    [
        ("8xH100", 8, "H100"),
        ("8x H100", 8, "H100"),
        ("8 x H100 SXM", 8, "H100"),
        ("H100 x8", 8, "H100"),
        ("2\u00d7 T4", 2, "T4"),
        ("4*A100", 4, "A100"),
        ("RTX 4090", 1, "4090"),
    ],
)
def test_counts_as_people_write_them(text: str, count: int, name: str) -> None:
    gpus = imagined_host(text, "rhel 8.8")["gpus"]
    assert len(gpus) == count and all(name in gpu["name"] for gpu in gpus)


RELEASES = MATRIX["os_releases"]


@pytest.mark.parametrize(
    ("text", "system"),
    [
        ("alma 8.10", ("almalinux", "8.10")),
        ("AlmaLinux 8.9", ("almalinux", "8.9")),
        ("Rocky Linux 8.8", ("rocky", "8.8")),
        ("rockylinux8.8", ("rocky", "8.8")),
        ("debian 12.8", ("debian", "12")),
        ("Debian-12", ("debian", "12")),
        ("ubuntu 24.04.1", ("ubuntu", "24.04")),
        ("Red Hat Enterprise Linux 8.10", ("rhel", "8.10")),
        ("rhel 8", ("rhel", "8.10")),
        ("el8", ("rhel", "8.10")),
        ("rhel9", ("rhel", "9")),
        # Nobody said: the newest that is installed, never the controller's own.
        ("", ("rhel", "8.10")),
    ],
)
def test_systems_as_people_write_them(text: str, system: tuple[str, str]) -> None:
    assert tuple(imagined_host("T4", text, releases=RELEASES)["os"].values()) == system


@pytest.mark.parametrize(
    ("core", "text", "system"),
    [
        ("2.16.19", "", ("rhel", "8.10")),
        ("", "", ("rhel", "8.10")),
        ("2.17.14", "", ("ubuntu", "24.04")),
        ("2.21.5", "  ", ("ubuntu", "24.04")),
        # Who names a system is told what is the matter with it, as is who has a core that manages none.
        ("2.21.5", "el8", ("rhel", "8.10")),
        ("2.15.0", "", ("rhel", "8.10")),
    ],
)
def test_the_system_of_a_question_without_one_is_manageable(core: str, text: str, system: tuple[str, str]) -> None:
    """By the ansible-core that was asked: RHEL 8 is none for 2.17 and newer."""
    host = plan_question("T4", text, core, matrix=MATRIX)
    assert tuple(host["os"].values()) == system
    release = find_release(MATRIX, host)
    assert release is not None
    refused = bool(controller_refusal(MATRIX["os_families"][release["family"]], core))
    assert refused == (text == "el8" or core == "2.15.0")


@pytest.mark.parametrize(("card", "machine"), [("GH200", "aarch64"), ("GB300", "aarch64"), ("H100 PCIe", "x86_64")])
def test_a_superchip_is_in_no_host_of_another_processor(card: str, machine: str) -> None:
    assert imagined_host(card, "rhel 8.10")["machine"] == machine


def test_a_reader_that_stops_is_no_error() -> None:
    command = f"{sys.executable} {REPOSITORY / 'tools/gpu-plan'} V100 --json | head -n 1"
    done = subprocess.run(["bash", "-c", command], capture_output=True, text=True)
    assert (done.stdout, done.stderr) == ("{\n", "")


def test_several_cards() -> None:
    names = [gpu["name"] for gpu in imagined_host("2x Tesla T4, RTX 4090", "rhel 8.8")["gpus"]]
    assert names == ["Tesla T4", "Tesla T4", "NVIDIA GeForce RTX 4090"]


def test_pins_are_named_as_in_the_inventory() -> None:
    assert pins_from({"system_cuda_version": "12.9"}) == {"cuda": "12.9"}
