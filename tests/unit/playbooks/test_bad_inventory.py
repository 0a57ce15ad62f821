"""Wrong variables stop preflight before a host is contacted: tried with ansible-playbook on hosts that do not exist."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

REPOSITORY = Path(__file__).resolve().parents[3]
PLAYBOOK = Path(sys.executable).parent / "ansible-playbook"


@pytest.mark.parametrize(
    ("line", "messages"),
    [
        (
            "system_driver_brnach: '580'\n    system_reboot_policy: maybe",
            ["system_driver_brnach", "\n          system_reboot_policy"],
        ),
        ("system_driver_brnach: '580'", ["system_driver_brnach", "system_driver_branch"]),
        ("system_driver_version: 550.90", ["system_driver_version", "quotes"]),
        ("system_reboot_policy: maybe", ["system_reboot_policy", "allowed"]),
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
    ],
)
def test_stops_before_contacting_a_host(tmp_path: Path, line: str, messages: list[str]) -> None:
    inventory = tmp_path / "inventory.yml"
    inventory.write_text(
        "gpu_nodes:\n  hosts: {a5-01: {ansible_host: 127.0.0.1, ansible_port: 1}}\n"
        f"  vars:\n    system_kernel_pin: false\n    {line}\n"
    )
    environment = {**os.environ, "ANSIBLE_NOCOLOR": "1"}
    done = subprocess.run(
        [str(PLAYBOOK), "-i", str(inventory), "site.yml"],
        cwd=REPOSITORY,
        capture_output=True,
        text=True,
        env=environment,
    )
    output = done.stdout + done.stderr
    assert done.returncode != 0 and "a5-01" in output
    # Each problem has a line of its own.
    assert "UNREACHABLE" not in output and "\\n" not in output
    for message in messages:
        assert message in output
