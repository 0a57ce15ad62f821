"""What the readings say of the container engine, and that nothing confines the process where every check passes."""

from __future__ import annotations

from typing import Any

from gpuwright.verdict.check import FAIL, PASS, SKIP, UNKNOWN

# Its advice is the role's own tag and a restart of Docker that only a person may decide.
NOT_TRIED = {
    "containers.resolved": "not tried alone: as containers.gpu; tests/unit/checks/containers asks a real podman"
}

# What nvidia-ctk 1.19 writes for one card, shortened (docs.nvidia.com, "Support for Container Device Interface").
CDI = """\
---
cdiVersion: 0.5.0
containerEdits:
  deviceNodes:
  - path: /dev/nvidia-uvm
  - path: /dev/nvidiactl
  hooks:
  - args: [nvidia-cdi-hook, update-ldcache, --folder, /usr/lib64]
    hookName: createContainer
    path: /usr/bin/nvidia-cdi-hook
  mounts:
  - containerPath: /usr/lib64/libcuda.so.580.95.05
    hostPath: /usr/lib64/libcuda.so.580.95.05
    options: [ro, nosuid, nodev, bind]
devices:
- containerEdits:
    deviceNodes:
    - path: /dev/nvidia0
  name: "0"
- containerEdits:
    deviceNodes:
    - path: /dev/nvidia0
  name: all
kind: nvidia.com/gpu
"""

READINGS: dict[str, Any] = {
    "containers": {
        "engine": "podman",
        "program": True,
        "version": "4.9.4",
        "spec": {
            "kind": "nvidia.com/gpu",
            "cdi": "0.5.0",
            "groups": False,
            "all": True,
            "cards": ["/dev/nvidia0"],
            "driver": "580.95.05",
            "readable": True,
        },
        "others": [],
    },
    "container_engine": {
        "engine": "podman",
        "resolved": True,
        "words": "",
        "cards": ["/dev/nvidia0"],
        "missing": [],
    },
    "confinement": {
        "manager": None,
        "job": "",
        "cards": ["/dev/nvidia0"],
        "denied": [],
        "granted": False,
        "hidden": False,
    },
}

DOCKER = {
    "engine": "docker",
    "version": "28.3.0",
    "runtime": True,
    "folders": ["/etc/cdi", "/var/run/cdi"],
    "devices": ["nvidia.com/gpu=0", "nvidia.com/gpu=all"],
    "missing": [],
}
ENGINE = ("container_engine",)
SPEC = ("containers", "spec")
REFUSED = {
    "engine": "podman",
    "resolved": False,
    "words": "Error: setting up CDI devices: unresolvable CDI devices nvidia.com/gpu=all",
    "cards": [],
    "missing": [],
}


def described(engine: str, version: Any, cdi: str, groups: bool = False) -> dict[tuple[str, ...], Any]:
    spec = {**READINGS["containers"]["spec"], "cdi": cdi, "groups": groups}
    return {("containers",): {**READINGS["containers"], "engine": engine, "version": version, "spec": spec}}


def docker_root() -> dict[tuple[str, ...], Any]:
    """A file for root alone is enough for Docker's daemon."""
    spec = {**READINGS["containers"]["spec"], "readable": False}
    return {("containers",): {**READINGS["containers"], "engine": "docker", "version": "28.0.0", "spec": spec}}


def docker(**values: Any) -> dict[tuple[str, ...], Any]:
    return {ENGINE: {**DOCKER, **values}}


# (check, {path in the readings: value}, {expectation: value}, status, words of the message)
ROWS: list[tuple[str, dict, dict, str, str]] = [
    ("containers.gpu", described("podman", "4.3.1", "0.7.0"), {}, FAIL, "podman 4.3.1 refuses CDI 0.7.0"),
    ("containers.gpu", described("podman", "4.3.1", "0.5.0", True), {}, FAIL, "refuses the field additionalGids"),
    ("containers.gpu", described("podman", "5.0.3", "0.7.0"), {}, FAIL, "0.7.0 needs podman 5.1"),
    ("containers.gpu", described("podman", "5.1", "0.7.0", True), {}, PASS, "described for podman: 1 GPUs"),
    ("containers.gpu", described("podman", "5.10.0", "1.0.0", True), {}, PASS, "described for podman: 1 GPUs"),
    ("containers.gpu", described("podman", "3.4.4", "0.5.0"), {}, FAIL, "podman 3.4.4 knows no CDI"),
    ("containers.gpu", described("docker", "26.0.2", "0.7.0", True), {}, FAIL, "0.7.0 needs docker 26.1"),
    ("containers.gpu", described("docker", "26.1.0", "0.7.0", True), {}, PASS, "described for docker"),
    ("containers.gpu", described("docker", "24.0.7", "0.7.0", True), {}, PASS, "described for docker"),
    ("containers.gpu", described("podman", {"unreadable": "no answer"}, "0.5.0"), {}, UNKNOWN, "no answer"),
    ("containers.gpu", {(*SPEC, "readable"): False}, {}, FAIL, "only root may read"),
    ("containers.gpu", docker_root(), {}, PASS, "described for docker"),
    ("containers.resolved", docker(missing=["/usr/bin/nvidia-smi"]), {}, FAIL, "nvidia-smi, which is not there"),
    ("containers.resolved", {}, {}, PASS, "podman resolves nvidia.com/gpu=all to 1 GPUs"),
    ("containers.resolved", {("containers",): None}, {}, SKIP, "not set up for containers"),
    ("containers.resolved", {ENGINE: None}, {}, UNKNOWN, "podman is not installed"),
    ("containers.resolved", {ENGINE: {"unreadable": "not root"}}, {}, UNKNOWN, "not root"),
    ("containers.resolved", {ENGINE: REFUSED}, {}, FAIL, "unresolvable CDI devices"),
    ("containers.resolved", {(*ENGINE, "cards"): []}, {}, FAIL, "to 0 of 1 GPUs"),
    (
        "containers.resolved",
        {(*ENGINE, "missing"): ["/usr/lib64/libcuda.so.1"]},
        {},
        FAIL,
        "libcuda.so.1, which is not",
    ),
    ("containers.resolved", docker(), {}, PASS, "Docker 28.3.0 resolves"),
    ("containers.resolved", docker(runtime=False), {}, FAIL, "the running Docker has no runtime nvidia"),
    ("containers.resolved", docker(folders=[]), {}, FAIL, "the running Docker has not switched CDI on"),
    ("containers.resolved", docker(devices=["nvidia.com/gpu=0"]), {}, FAIL, "does not resolve nvidia.com/gpu=all"),
    ("containers.resolved", docker(version="27.5.1", devices=None), {}, PASS, "does not list what it resolves"),
    ("containers.resolved", docker(version="24.0.7", folders=[], devices=None), {}, PASS, "CDI comes with Docker 25"),
    ("containers.resolved", docker(devices=[]), {}, FAIL, "does not resolve"),
    ("containers.resolved", {**docker(), SPEC: None}, {}, FAIL, "finds no CDI specification"),
    (
        "containers.resolved",
        {**docker(version="25.0.3", devices=None), (*SPEC, "cdi"): "0.7.0"},
        {},
        FAIL,
        "the running docker 25.0.3 refuses CDI 0.7.0",
    ),
    ("containers.resolved", docker(version="dev"), {}, UNKNOWN, "version"),
]
