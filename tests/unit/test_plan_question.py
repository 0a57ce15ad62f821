"""playbooks/plan.yml and playbooks/bin/gpu-plan: a card's name in, a plan out, no host touched."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from conftest import REPOSITORY
from gpuwright.plan_question import find_card, imagined_host, pins_from

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
        (["-e", "gpu=Tesla V100-PCIE-16GB"], ["Tesla V100-PCIE-16GB on rhel 8.8", "580-dkms", "cuda-toolkit-12-9"]),
        (["-e", "gpu=a5-09"], ["Tesla T4 on rhel 8.8", "cuda-toolkit-12-6", "pinned by system_cuda_version"]),
        (
            ["-e", "gpu=10de:2901", "-e", "os=ubuntu-24.04", "-e", "format=json"],
            ['"branch": "595"', '"flavour": "open"'],
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
    ],
    ids=["typo", "nothing", "refusal"],
)
def test_the_playbook_refuses(tmp_path: Path, arguments: list[str], words: str) -> None:
    done = play(tmp_path, *arguments)
    assert done.returncode != 0
    assert words in " ".join(done.stdout.split())


def ask(*arguments: str) -> subprocess.CompletedProcess:
    command = [sys.executable, str(REPOSITORY / "playbooks/bin/gpu-plan"), *arguments]
    return subprocess.run(command, capture_output=True, text=True)


def test_the_command_prints_json_and_nothing_else() -> None:
    done = ask("Tesla V100-PCIE-16GB", "--json")
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
    ],
)
def test_the_command_says_no(arguments: list[str], rc: int, words: str) -> None:
    done = ask(*arguments)
    assert done.returncode == rc
    assert words in done.stdout + done.stderr


@pytest.mark.parametrize(
    ("name", "device_id"),
    [
        ("Tesla V100-PCIE-16GB", "1db4"),
        ("10DE:1DB4", "1db4"),
        ("1db4", "1db4"),
        ("tesla v100 pcie 16gb", "1db4"),
        ("RTX 4090", "2684"),
        ("NVIDIA H200", "2335"),
    ],
)
def test_a_card_is_found_as_people_write_it(name: str, device_id: str) -> None:
    assert find_card(name) == device_id


@pytest.mark.parametrize("name", ["10de:ffff", "Radeon VII", "Quadro", ""])
def test_no_card_is_guessed(name: str) -> None:
    with pytest.raises(ValueError, match="is known|could be"):
        find_card(name)


def test_several_cards() -> None:
    names = [gpu["name"] for gpu in imagined_host("2x Tesla T4, RTX 4090", "rhel 8.8")["gpus"]]
    assert names == ["Tesla T4", "Tesla T4", "NVIDIA GeForce RTX 4090"]


def test_pins_are_named_as_in_the_inventory() -> None:
    assert pins_from({"system_cuda_version": "12.9"}) == {"cuda": "12.9"}
