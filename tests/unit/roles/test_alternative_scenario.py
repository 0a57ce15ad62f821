"""The scenario el8-alternative sets every public variable, and each to something that is not its default."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml

REPOSITORY = Path(__file__).resolve().parents[3]
PUBLIC = (
    "preflight",
    "system_kernel",
    "system_driver",
    "system_reboot",
    "system_cuda",
    "system_runtime",
    "system_training",
    "system_tuning",
    "system_containers",
    "system_monitor",
    "framework_pytorch",
    "model_trainer",
    "verify",
)
SCENARIO = REPOSITORY / "tests/molecule/el8-alternative/group_vars/gpu_nodes.yml"
# What the fleet's own inventory sets for its hosts: stand-in repositories, expectations, the CPU build.
FLEET = (REPOSITORY / "tests/fleet/gpuwright_fleet/inventory.py").read_text()
# The scenario's host has one GPU and no NVMe disk; its tuning and monitoring are to be seen at the end; its wheelhouse
# has no TensorFlow, nor the Python 3.8 of the profile `documented`; and playbooks decide preflight_host_checks.
SAME = {
    # Said by the roles that ask for a reboot.
    "system_reboot_reason",
    "system_reboot_expected_module",
    "system_reboot_limit",
    # Debian's alone: RHEL has packages of cuDNN.
    "system_cuda_wheelhouse",
    # They act only where Secure Boot is on; tests/faults/test_secure_boot.py has such a host.
    "system_kernel_prepare_secure_boot",
    "system_kernel_secure_boot_password_hash",
    # Of a guest with a part of a card, whose cards stand nowhere in the scenario: tests/unit/preflight/test_guests.py.
    "system_driver_package_file",
    "system_driver_package_sha256",
    "system_driver_packages",
    # Its cards cannot be cut into slices; tests/unit/checks/gpu/test_mig.py has others.
    "verify_expected_mig",
    # Newer tables would change the plan that the scenario is about; tests/unit/plan has such a folder.
    "preflight_knowledge",
    "preflight_knowledge_signer",
    "system_containers_state",
    "system_monitor_state",
    "verify_expected_gpu_count",
    "framework_pytorch_tensorflow_version",
    # They need a lock file beside the inventory, which tests/faults/test_own_package.py makes.
    "framework_pytorch_packages",
    "preflight_profile",
    "preflight_host_checks",
    # Playbooks decide it.
    "preflight_layer",
    # It is about aarch64.
    "preflight_judges_only",
    # A scenario with a route out needs no bundle; tests/faults/test_offline_host.py has none.
    "gpuwright_bundle",
    "gpuwright_bundle_signer",
    "gpuwright_full",
    "system_tuning_state",
    "system_tuning_scratch_serial",
    "system_tuning_scratch_serials",
}


def defaults() -> dict:
    found: dict = {}
    for role in PUBLIC:
        found.update(yaml.safe_load((REPOSITORY / f"roles/{role}/defaults/main.yml").read_text()))
    return found


@pytest.mark.parametrize("name", sorted(defaults()))
def test_variable_differs_from_its_default(name: str) -> None:
    scenario = yaml.safe_load(SCENARIO.read_text())
    if name in scenario:
        assert scenario[name] != defaults()[name]
    else:
        assert name in FLEET or name in SAME


@pytest.mark.parametrize("scenario", ["el8-alternative", "debian12-alternative"])
def test_scenario_sets_no_variable_that_does_not_exist(scenario: str) -> None:
    variables = yaml.safe_load((REPOSITORY / f"tests/molecule/{scenario}/group_vars/gpu_nodes.yml").read_text())
    assert set(variables) <= set(defaults())
    assert [name for name, value in variables.items() if value == defaults()[name]] == []
