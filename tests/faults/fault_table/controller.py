"""Faults of the inventory, of variables and of the command line: the run ends before a host is changed."""

from __future__ import annotations

from .row import Row

ONE = "{ansible_host: 127.0.0.1, ansible_port: 9}"
SITE = ("site.yml",)


def variable(id: str, fault: str, variables: dict[str, object], *says: str) -> Row:
    made = ", ".join(f"`{name}: {value}`" for name, value in variables.items())
    return Row(id, fault, made, says, variables=variables)


ROWS = (
    Row("run.no_hosts", "a group without hosts", "gpu_nodes is empty",
        ("the inventory has no host in the group gpu_nodes",), 1, hosts="gpu_nodes:\n  hosts: {}\n"),
    Row("", "no inventory", "`-i` names a file that is not there",
        ("Completely failed to parse inventory source",), 1, hosts="missing"),
    Row("", "an inventory that is no YAML", "a bracket that is never closed",
        ("Completely failed to parse inventory source",), 1, hosts="gpu_nodes: {hosts: [\n"),
    Row("run.limit", "a misspelt `--limit`", "`--limit gpu_nods`",
        ("--limit gpu_nods: gpu_nods is neither a host nor a group", "did you mean gpu_nodes?"), 1,
        command=("site.yml", "--limit", "gpu_nods")),
    Row("run.tag", "a misspelt tag", "`--tags sytem_driver`",
        ("no task has the tag sytem_driver (did you mean system_driver?)",), 1,
        command=("site.yml", "--tags", "sytem_driver")),
    Row("run.internal", "an internal variable", "`-e __system_driver_failure=x`",
        ("__system_driver_failure is internal to a role",), 1, variables={"__system_driver_failure": "x"}),
    Row("", "the wrong password of the vault", "a value that another password encrypted",
        ("Decryption failed",), hosts="vault"),
    variable("variable.unknown", "a misspelt variable", {"verify_expected_gpu_cuont": 8},
             "unknown variable verify_expected_gpu_cuont, did you mean verify_expected_gpu_count?"),
    variable("variable.value", "a value of another type", {"verify_expected_gpu_count": "eight"},
             "verify_expected_gpu_count: must be a whole number (given: 'eight'"),
    variable("variable.value", "a value that is none of those allowed", {"system_reboot_policy": "maybe"},
             "system_reboot_policy", "allowed"),
    variable("variable.value", "a value out of its range", {"verify_expected_gpu_count": -3},
             "verify_expected_gpu_count: must be 0 or more (given: -3)"),
    variable("variable.value", "a version that YAML has read as a number", {"system_cuda_version": 12.1},
             "system_cuda_version: must be text: write it in quotes"),
    variable("variable.value", "a fingerprint that is cut off", {"system_kernel_epel_key_fingerprint": "0123456"},
             "system_kernel_epel_key_fingerprint", "40"),
    variable("variable.value", "a branch that YAML has read as a number", {"system_driver_version": 550.9},
             "system_driver_version: must be text"),
)  # fmt: skip
