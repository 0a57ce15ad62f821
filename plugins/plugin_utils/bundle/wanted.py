# SPDX-License-Identifier: Apache-2.0
"""What a plan needs of a bundle: its identity, by which a bundle is for it or not, and the packages to get.

A question is what the role preflight says about a host (`__preflight_bundle_question`): {os, machine, plan,
environment, python, lock, cudnn_lock, own_wheels, index_url, extra_index_url, packages, containers, repositories}.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from typing import Any

from .listing import BundleError

# Installed by roles whatever the plan says: dnf's versionlock, interrupts, and the keys of Secure Boot.
ALWAYS = ("python3-dnf-plugin-versionlock", "irqbalance", "mokutil", "openssl")
MODULE = "nvidia-driver"
FAMILY = "redhat"
EPEL, NVIDIA = "epel", "nvidia"


def release_of(question: Mapping[str, Any]) -> str:
    """The name of the release whose packages fit: those of another minor one do, too."""
    system = question["os"]
    return f"{system['id']}-{system['major']}-{question['machine']}"


def repositories_of(question: Mapping[str, Any]) -> dict[str, dict[str, str]]:
    """Vendors' repositories by their id in a bundle: {url, key_url, key_fingerprint}."""
    wanted = ("url", "key_url", "key_fingerprint")
    return {
        EPEL if row["name"] == EPEL else NVIDIA: {name: row[name] for name in wanted}
        for row in question["repositories"]
    }


def check_question(question: Mapping[str, Any], host: str) -> None:
    """BundleError for a host for which no bundle is made, or whose roles would need more than a bundle has."""
    if question["containers"]:
        raise BundleError(
            "bundle.containers",
            "Bundles hold no repository of NVIDIA's container toolkit, and this host asks for it",
            f"{host}: system_containers_engine",
            "Name your own mirror in system_containers_repository_url, or leave system_containers_engine empty",
        )
    family = question["os"]["family"]
    if family != FAMILY:
        raise BundleError(
            "bundle.system",
            "Bundles are made for RHEL, Rocky Linux and AlmaLinux, and this host has another system",
            f"{host}: {question['os']['name']}",
            "Leave gpuwright_bundle empty for this host, and name your own mirrors (docs/air-gapped.md)",
        )


def identity(question: Mapping[str, Any]) -> dict[str, str]:
    """What must be equal for a bundle to fit a host; a bare node and the same node finished have the same."""
    plan = question["plan"]
    driver, words = plan["driver"], " ".join
    return {
        "release": release_of(question),
        "kernel headers": words(sorted(plan["kernel"]["devel"])),
        "driver": words([driver["source"], driver["branch"], driver["flavour"], driver["version"]]).strip(),
        "driver packages": words(sorted(driver["packages"] + plan["platform"]["packages"])),
        "CUDA": plan["cuda"]["package"],
        "cuDNN": words(plan["cudnn"]["packages"] or [plan["cudnn"]["wheel"]]),
        "NCCL": words(plan["nccl"]["packages"]),
        "Python": plan["python"]["version"],
        "Python packages": words(sorted(plan["python"]["packages"])),
        "PyTorch": f"{plan['pytorch']['version']} {plan['pytorch']['build']}",
        "Python environment": question["environment"],
        "other packages": words(sorted(question["packages"])),
    }


def digest_of(plan: Mapping[str, str]) -> str:
    """SHA-256 of an identity."""
    return hashlib.sha256(json.dumps(plan, sort_keys=True).encode()).hexdigest()


def differences(bundle: Mapping[str, str], host: Mapping[str, str]) -> list[str]:
    """What a bundle has and the host's plan asks for, where they differ."""
    names = [name for name in host if bundle.get(name) != host[name]]
    return [
        f"{name}: the bundle has {bundle.get(name) or 'none'}, the plan asks for {host[name] or 'none'}"
        for name in names
    ]


def driver_specs(driver: Mapping[str, Any]) -> list[str]:
    """Packages of the driver at the planned version: a repository without module streams has all branches."""
    version = driver["version"] or f"{driver['branch']}.*"
    return [f"{name}-{version}-*" for name in driver["packages"]] if driver["branch"] else []


def group_of(question: Mapping[str, Any]) -> dict[str, list[str]]:
    """What dnf resolves together for one host: {packages, modules}."""
    plan = question["plan"]
    specs = [
        *plan["kernel"]["devel"], *plan["kernel"]["packages"],
        *driver_specs(plan["driver"]), *plan["platform"]["packages"],
        plan["cuda"]["package"], *plan["cuda"]["compiler"], *plan["cudnn"]["packages"], *plan["nccl"]["packages"],
        *plan["python"]["packages"], *plan["runtime"]["packages"], *question["packages"], *ALWAYS,
    ]  # fmt: skip
    stream = plan["driver"]["stream"]
    return {"packages": sorted({spec for spec in specs if spec}), "modules": [f"{MODULE}:{stream}"] if stream else []}
