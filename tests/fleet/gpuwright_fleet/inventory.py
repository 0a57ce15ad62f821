"""What `fleet up` writes for its users: Ansible inventory, known_hosts and ssh_config."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import yaml

from .containers import REPOSITORY_HOST, Host
from .paths import REPO_ROOT
from .wheelhouse import LOCK, pytorch_of

# The demo's user may change a version, as README says; hosts of tests ignore such edits.
FLEET_OF_USERS = "demo"

PYTORCH_VERSION = "2.13.0"
# What the report and the pages say about the hosts, by platform.
ON_DEBIAN = "the GPUs, their driver's packages and nvidia-smi; the system's name is RHEL's, its programs are Debian's"
SIMULATED = {
    "el8": ON_DEBIAN,
    "el8-python38": ON_DEBIAN,
    "el9": ON_DEBIAN,
    "el10": ON_DEBIAN,
    "debian12": "the GPUs and nvidia-smi; the driver's packages are real, for a kernel that does not run",
    "debian12-nvidia": "the GPUs, the kernel, NVIDIA's packages and nvidia-smi",
    "debian13-nvidia": "the GPUs, the kernel, NVIDIA's packages and nvidia-smi",
    "ubuntu2204": "the GPUs, the kernel, NVIDIA's packages and nvidia-smi; the programs are Debian's",
    "ubuntu2404": "the GPUs, the kernel, NVIDIA's packages and nvidia-smi; the programs are Debian's",
    "debian13": "the GPUs and nvidia-smi; the driver's packages are real, for a kernel that does not run",
}
# Platforms with the real packages of Debian's archive.
OF_THE_ARCHIVE = ("debian12", "debian13")
WHEELHOUSE_ON_HOST = "/srv/gpuwright/wheelhouse"


def repository_variables(fingerprints: dict[str, str]) -> dict[str, str]:
    base = f"http://{REPOSITORY_HOST}"
    return {
        "system_kernel_epel_url": f"{base}/epel",
        "system_kernel_epel_key_url": f"{base}/keys/RPM-GPG-KEY-epel",
        "system_kernel_epel_key_fingerprint": fingerprints["epel"],
        "system_driver_repository_url": f"{base}/cuda-rhel8-x86_64",
        "system_driver_repository_key_url": f"{base}/keys/RPM-GPG-KEY-nvidia",
        "system_driver_repository_key_fingerprint": fingerprints["nvidia"],
        "system_containers_repository_url": f"{base}/nvidia-container-toolkit",
        "system_containers_repository_key_url": f"{base}/keys/RPM-GPG-KEY-nvidia",
        "system_containers_repository_key_fingerprint": fingerprints["nvidia"],
    }


def apt_repository_variables(name: str) -> dict[str, str]:
    """Where a host of "debian12" or "debian13" finds NVIDIA's stand-ins; the keys are those of the RHEL stand-ins."""
    base = f"http://{REPOSITORY_HOST}"
    return {
        "system_driver_repository_url": f"{base}/cuda-{name}-x86_64/",
        "system_containers_repository_url": f"{base}/nvidia-container-toolkit-deb/",
    }


def inventory(hosts: list[Host], state: Path, fingerprints: dict[str, str], kernels: dict[str, str]) -> dict[str, Any]:
    """The inventory as data; every version is a string. `kernels`: by host, the kernel its driver is built for."""
    group_vars: dict[str, Any] = {
        "ansible_user": "admin",
        "ansible_ssh_private_key_file": str(state / "id_ed25519"),
        "ansible_ssh_common_args": f"-o UserKnownHostsFile={state / 'known_hosts'} -o StrictHostKeyChecking=yes",
        "verify_smoke_device": "cpu",
        # Enough to see the loss fall, without using more of the CPU.
        "verify_smoke_steps": 10,
        "framework_pytorch_build": "cpu",
        "framework_pytorch_version": PYTORCH_VERSION,
        "framework_pytorch_wheelhouse": WHEELHOUSE_ON_HOST,
    }
    entries = {host.name: {"ansible_host": host.address, "verify_expected_gpu_count": len(host.gpus)} for host in hosts}
    for host in hosts:
        entries[host.name]["gpuwright_simulated"] = SIMULATED[host.platform]
        # A host without a card is none of gpu_nodes that is verified.
        entries[host.name]["verify_expected_gpu_model"] = host.gpus[0]["name"] if host.gpus else ""
        if host.lock != LOCK:
            version, build = pytorch_of(host.lock)
            entries[host.name] |= {"framework_pytorch_version": version, "framework_pytorch_build": build}
        if host.platform in ("debian12-nvidia", "debian13-nvidia", "ubuntu2204", "ubuntu2404"):
            entries[host.name] |= apt_repository_variables(host.platform.removesuffix("-nvidia"))
        if host.platform in ("el9", "el10"):
            number = host.platform.removeprefix("el")
            entries[host.name]["system_driver_repository_url"] = f"http://{REPOSITORY_HOST}/cuda-rhel{number}-x86_64"
    for name, kernel in kernels.items():
        # A container cannot boot Debian's kernel: its hosts are made as images are, for a kernel that does not run.
        entries[name] |= {"system_kernel_target": kernel, "system_driver_source": "distribution"}
    return {"gpu_nodes": {"hosts": entries, "vars": group_vars | repository_variables(fingerprints)}}


def keep_reports_apart(data: dict[str, Any], state: Path) -> None:
    """Simulated hosts never stand among a user's own in the checkout's `reports`, whatever group_vars say."""
    for variables in data["gpu_nodes"]["hosts"].values():
        variables["verify_report_dir"] = str(state / "reports")


def load_group_vars(state: Path) -> None:
    """Let Ansible read the checkout's inventory/group_vars, which take precedence over the inventory in `state`."""
    link = state / "group_vars"
    if not link.is_symlink():
        link.symlink_to(os.path.relpath(REPO_ROOT / "inventory" / "group_vars", state))


class _QuotedDumper(yaml.SafeDumper):
    """Quotes every string value: a version must never become a number."""


def _quoted(dumper: yaml.SafeDumper, text: str) -> yaml.ScalarNode:
    quotes = '"' if " " in text or text[:1].isdigit() else None
    return dumper.represent_scalar("tag:yaml.org,2002:str", text, style=quotes)


_QuotedDumper.add_representer(str, _quoted)


def inventory_text(data: dict[str, Any]) -> str:
    head = "# Written by tests/fleet/fleet up; do not edit.\n---\n"
    return head + yaml.dump(data, Dumper=_QuotedDumper, sort_keys=False, width=1000)


def ssh_config_text(hosts: list[Host], state: Path) -> str:
    lines = []
    for host in hosts:
        lines += [f"Host {host.name}", f"    HostName {host.address}"]
    lines += [
        "Host *",
        "    User admin",
        f"    IdentityFile {state / 'id_ed25519'}",
        "    IdentitiesOnly yes",
        f"    UserKnownHostsFile {state / 'known_hosts'}",
        "    StrictHostKeyChecking yes",
        "    ConnectTimeout 5",
        "    LogLevel ERROR",
    ]
    return "\n".join(lines) + "\n"
