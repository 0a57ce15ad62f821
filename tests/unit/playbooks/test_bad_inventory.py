"""Wrong variables stop preflight before a host is contacted: tried with ansible-playbook on hosts that do not exist."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

REPOSITORY = Path(__file__).resolve().parents[3]
PLAYBOOK = Path(sys.executable).parent / "ansible-playbook"
# A line of the inventory, and what is said of it.
WRONG = (
    ("system_driver_brnach: '580'", ["system_driver_brnach", "system_driver_branch"]),
    ("system_driver_version: 550.90", ["system_driver_version", "quotes"]),
    ("system_reboot_policy: maybe", ["system_reboot_policy", "must be one of auto, allowed, never"]),
    ("gpuwright_busy: kill", ["gpuwright_busy: must be one of skip, wait, force", "'kill'"]),
    ("gpuwright_busy: true", ["gpuwright_busy"]),
    ("gpuwright_bussy: wait", ["unknown variable gpuwright_bussy, did you mean gpuwright_busy?"]),
    ("gpuwright_busy_wait_seconds: -1", ["gpuwright_busy_wait_seconds: must be 0 or more"]),
    ("gpuwright_busy_wait_seconds: soon", ["gpuwright_busy_wait_seconds"]),
    ("verify_expected_gpu_count: eight", ["verify_expected_gpu_count"]),
    ("verify_expected_gpu_count: -3", ["verify_expected_gpu_count"]),
    ("verify_expected_host: {memory: 384}", ["verify_expected_host"]),
    ("verify_expected_host: {cpus: many}", ["verify_expected_host"]),
    ("verify_expected_modules: {gdrdrv: true}", ["verify_expected_modules"]),
    ("system_cuda_version: 12.x", ["system_cuda_version"]),
    ("system_kernel_epel_key_fingerprint: '1234'", ["system_kernel_epel_key_fingerprint", "40"]),
    ("framework_pytorch_build: [cpu]", ["framework_pytorch_build"]),
)


def run_site(folder: Path, *lines: str) -> str:
    """What site.yml says of hosts with a wrong line each, called bad-00 and so on; none of them is contacted."""
    hosts = "".join(
        f"    bad-{number:02d}:\n      ansible_host: 127.0.0.1\n      ansible_port: 1\n      {line}\n"
        for number, line in enumerate(lines)
    )
    (folder / "inventory.yml").write_text(f"gpu_nodes:\n  hosts:\n{hosts}  vars: {{system_kernel_pin: false}}\n")
    done = subprocess.run(
        [str(PLAYBOOK), "-i", str(folder / "inventory.yml"), "site.yml"],
        cwd=REPOSITORY,
        capture_output=True,
        text=True,
        env={**os.environ, "ANSIBLE_NOCOLOR": "1"},
    )
    output = done.stdout + done.stderr
    assert done.returncode == 2 and "UNREACHABLE" not in output and "\\n" not in output, output
    return output


@pytest.fixture(scope="module")
def refused(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """What the end of one run says of each host."""
    output = run_site(tmp_path_factory.mktemp("bad"), *(line for line, _messages in WRONG))
    told = output.partition("GPU nodes, worst first")[2].partition("To continue: ")[0]
    _count, *blocks = re.split(r"(?m)^(?=bad-\d\d  )", told)
    return {block[:6]: " ".join(block.split()) for block in blocks}


@pytest.mark.parametrize("number", range(len(WRONG)), ids=[line for line, _messages in WRONG])
def test_stops_before_contacting_a_host(refused: dict[str, str], number: int) -> None:
    assert len(refused) == len(WRONG)
    for message in ["refused", *WRONG[number][1]]:
        assert message in refused[f"bad-{number:02d}"]


def test_each_problem_of_a_host_has_a_line_of_its_own(tmp_path: Path) -> None:
    output = run_site(tmp_path, "system_driver_brnach: '580'\n      system_reboot_policy: maybe")
    assert "system_driver_brnach" in output and "\n          system_reboot_policy" in output, output
