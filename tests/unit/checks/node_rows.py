"""More rows of test_checks_sad_paths: modules, clocks, size, services, device links, the way between GPUs."""

from __future__ import annotations

import copy

import healthy_gpu
from gpuwright.verdict.check import FAIL, PASS, SKIP, UNKNOWN, WARN
from row_values import HEALTH

IN_CONTAINER = {("host", "container"): "podman"}
CLOCKS = (*HEALTH, "clocks_applied")
DEFAULT = (*HEALTH, "clocks_default")
TUNED = {"name": "gpu_clocks", "wanted": "877,1005", "found": "877,1005", "reason": "Runs must be alike."}
ASKED = ("parameters", "asked", 0, "value")
SHOWN = ("parameters", "loaded")
TIMER = ("services", "toolkit", 1)
BOOT = ("services", "toolkit", 0)
APART = healthy_gpu.TWO_APART
TWO = {"gpu_count": 2}


def other(unit: str, active: str) -> dict:
    return {("services", "toolkit"): [{"unit": unit, "active": active, "enabled": "enabled"}]}


def named(active: str, unit: str = "slurmd") -> dict:
    return {("services", "inventory"): [{"unit": unit, "active": active, "enabled": "enabled"}]}


def apart(**changes: object) -> dict:
    """Two GPUs, of which the first is held apart so."""
    found = copy.deepcopy(APART)
    bridge = changes.pop("acs", "off")
    found[0].update(changes)
    found[0]["bridges"][0]["acs"] = bridge
    return {("isolation",): found}


def rows_of_the_way(name: str, bad: dict, words: str) -> list[tuple]:
    return [
        (name, bad, TWO, WARN, words),
        (name, {}, {}, SKIP, "there is one GPU"),
        (name, {**bad, **IN_CONTAINER}, TWO, SKIP, "is a container (podman)"),
        (name, {**bad, ("machine",): "kvm"}, TWO, SKIP, "a virtual machine (kvm): its host decides"),
        (name, {**bad, ("machine",): {"unreadable": "not installed"}}, TWO, UNKNOWN, "not installed"),
        (name, {}, TWO, UNKNOWN, "1 GPUs were looked at"),
        (name, {("isolation",): {"unreadable": "is not a link"}}, TWO, UNKNOWN, "is not a link"),
    ]


ROWS: list[tuple] = [
    ("gpu.unrepairable_memory", {(*HEALTH, "unrepairable_memory"): True}, {}, FAIL, "beyond repair"),
    ("gpu.unrepairable_memory", {(*HEALTH, "unrepairable_memory"): False}, {}, PASS, "no memory beyond repair"),
    ("gpu.unrepairable_memory", {}, {}, SKIP, "does not report"),
    ("gpu.unrepairable_memory", {(*HEALTH, "unrepairable_memory"): "unknown"}, {}, UNKNOWN, "unrepairable_memory"),
    ("gpu.clocks", {CLOCKS: "877,1005"}, {}, WARN, "graphics 1005 MHz; the card's default is 877 and 1245"),
    ("gpu.clocks", {CLOCKS: "810,1245"}, {}, WARN, "memory 810 MHz"),
    ("gpu.clocks", {CLOCKS: "877,1380"}, {}, PASS, "not below"),
    ("gpu.clocks", {CLOCKS: "900,1245"}, {}, PASS, "not below"),
    ("gpu.clocks", {CLOCKS: None}, {}, SKIP, "no application clocks"),
    ("gpu.clocks", {CLOCKS: "deprecated", DEFAULT: "deprecated"}, {}, SKIP, "no longer has"),
    ("gpu.clocks", {CLOCKS: "unknown"}, {}, UNKNOWN, "clocks_applied"),
    ("gpu.clocks", {DEFAULT: None}, {}, UNKNOWN, "clocks_default"),
    ("gpu.clocks", {DEFAULT: "deprecated"}, {}, UNKNOWN, "clocks_default"),
    ("gpu.clocks", {CLOCKS: "877,1005", ("tuning", 0): TUNED}, {}, PASS, "877,1005 MHz, as set in system_tuning"),
    ("gpu.clocks", {("tuning", 0): TUNED}, {}, WARN, "877,1245 MHz, system_tuning is set to 877,1005"),
    ("gpu.clocks", {CLOCKS: "deprecated", ("tuning", 0): TUNED}, {}, SKIP, "no longer has"),
    ("gpu.clocks", {("tuning", 0): {**TUNED, "wanted": "fast"}}, {}, UNKNOWN, "is not MEMORY,GRAPHICS"),
    ("gpu.clocks", {("tuning",): None}, {}, PASS, "not below"),
    ("gpu.performance_state", {(*HEALTH, "performance_state"): "P2"}, {}, WARN, "performance state P2"),
    ("gpu.performance_state", {(*HEALTH, "performance_state"): "unknown"}, {}, UNKNOWN, "performance_state"),
    ("gpu.performance_state", {(*HEALTH[:3], "name"): "Tesla T4"}, {}, SKIP, "with its load"),
    ("driver.parameters", {ASKED: "0666"}, {}, WARN, "nvidia.conf asks for DeviceFileMode=0666, loaded: 432"),
    ("driver.parameters", {ASKED: "432"}, {}, PASS, "2 parameters"),
    ("driver.parameters", {ASKED: "0x1B0"}, {}, PASS, "2 parameters"),
    ("driver.parameters", {ASKED: ""}, {}, WARN, "DeviceFileMode=, loaded: 432"),
    ("driver.parameters", {ASKED: "on", (*SHOWN, "DeviceFileMode"): "off"}, {}, WARN, "loaded: off"),
    ("driver.parameters", {ASKED: "0", (*SHOWN, "DeviceFileMode"): "0"}, {}, PASS, "2 parameters"),
    (
        "driver.parameters",
        {(*SHOWN, "TemporaryFilePath"): '"/tmp"'},
        {},
        WARN,
        '/proc/cmdline asks for TemporaryFilePath=/var, loaded: "/tmp"',
    ),
    ("driver.parameters", {SHOWN: {"EnableMSI": "1"}}, {}, WARN, "DeviceFileMode=0660, loaded: not a parameter"),
    ("driver.parameters", {SHOWN: None}, {}, FAIL, "no nvidia module"),
    ("driver.parameters", {SHOWN: {"unreadable": "params cannot be read"}}, {}, UNKNOWN, "cannot be read"),
    ("driver.parameters", {("parameters", "asked"): []}, {}, PASS, "no parameter is requested"),
    ("driver.parameters", {("parameters", "asked"): {"unreadable": "nvidia.conf"}}, {}, UNKNOWN, "nvidia.conf"),
    ("driver.parameters", {ASKED: "0666", **IN_CONTAINER}, {}, SKIP, "is a container (podman)"),
    ("driver.modules", {("kernel_modules",): {"gdrdrv": None}}, {"modules": ["gdrdrv"]}, FAIL, "gdrdrv is not loaded"),
    ("driver.modules", {("kernel_modules",): {"gdrdrv": "coming"}}, {"modules": ["gdrdrv"]}, FAIL, "gdrdrv is coming"),
    ("driver.modules", {("kernel_modules",): {"gdrdrv": "built in"}}, {"modules": ["gdrdrv"]}, PASS, "kernel: gdrdrv"),
    ("driver.modules", {}, {"modules": ["gdrdrv"]}, UNKNOWN, "gdrdrv was not read"),
    ("driver.modules", {}, {}, SKIP, "asks for no other module"),
    ("host.size", {}, {"host": {"disk_count": 1, "disk_gb": 1000, "ethernet_gbits": 10}}, PASS, "disk_count 1"),
    ("host.size", {}, {"host": {"disk_count": 2}}, FAIL, "disk_count: 1 instead of 2"),
    ("host.size", {}, {"host": {"disk_gb": 1100}}, FAIL, "disk_gb: 1000.2 instead of 1100"),
    ("host.size", {}, {"host": {"ethernet_gbits": 25}}, FAIL, "ethernet_gbits: 10 instead of 25"),
    ("host.size", {}, {"host": {"rdma_ports": 1}}, FAIL, "rdma_ports: 0 instead of 1"),
    ("host.size", {}, {"host": {"rdma_gbits": 100}}, FAIL, "rdma_gbits: 0 instead of 100"),
    ("host.size", {}, {"host": {"rdma_gbits": 100, "rdma_ports": 0}}, FAIL, "rdma_gbits: 0 instead of 100"),
    ("host.size", {("parts", "disks"): [{"gb": 950.0}]}, {"host": {"disk_gb": 1000}}, PASS, "disk_gb 1000"),
    (
        "host.size",
        {("parts", "rdma"): [{"name": "a", "gbits": 400.0}, {"name": "b", "gbits": 100.0}]},
        {"host": {"rdma_ports": 2, "rdma_gbits": 400}},
        FAIL,
        "rdma_gbits: 100 instead of 400",
    ),
    ("host.size", {}, {"host": {"sockets": 1}}, FAIL, "sockets: 2 instead of 1"),
    ("host.size", {}, {"host": {"cpus": 40}}, FAIL, "cpus: 20 instead of 40"),
    ("host.size", {("probe", "memory_mib"): 124518}, {"host": {"memory_gib": 128}}, FAIL, "memory_gib: 121.6 instead"),
    ("host.size", {("probe", "memory_mib"): 95}, {"host": {"memory_gib": 0}}, FAIL, "memory_gib: 0.1 instead of 0"),
    ("host.size", {("probe", "memory_mib"): 1075200}, {"host": {"memory_gib": 1000}}, PASS, "memory_gib 1000"),
    ("host.size", {("probe", "memory_mib"): 1075201}, {"host": {"memory_gib": 1000}}, FAIL, "1050 instead of 1000"),
    ("host.size", {("probe", "memory_mib"): 972800}, {"host": {"memory_gib": 1000}}, PASS, "memory_gib 1000"),
    ("host.size", {}, {"host": {"swap_gib": 0}}, FAIL, "swap_gib: 4 instead of 0"),
    ("host.size", {("host", "swap_mib"): 0}, {"host": {"swap_gib": 0}}, PASS, "swap_gib 0"),
    ("host.size", {("probe", "cpu", "sockets"): None}, {"host": {"sockets": 1}}, UNKNOWN, "sockets"),
    ("host.size", {}, {"host": {"disks": 1}}, UNKNOWN, "host.disks is not something that can be counted"),
    ("host.size", {}, {"host": {"sockets": "two"}}, UNKNOWN, "host.sockets"),
    ("host.size", IN_CONTAINER, {"host": {"sockets": 1}}, SKIP, "is a container (podman)"),
    ("host.size", {}, {}, SKIP, "does not say how large"),
    ("host.services", named("failed"), {"services": ["slurmd"]}, FAIL, "slurmd is failed"),
    ("host.services", named("inactive"), {"services": ["slurmd"]}, FAIL, "slurmd is inactive"),
    ("host.services", named("active"), {"services": ["slurmd"]}, PASS, "3 units"),
    ("host.services", named("active", "munge"), {"services": ["slurmd"]}, FAIL, "the state of slurmd was not read"),
    ("host.services", {}, {"services": ["slurmd"]}, FAIL, "the state of slurmd was not read"),
    ("host.services", named("active"), {"services": ["slurmd", "slurmd"]}, PASS, "3 units"),
    ("host.services", {**named("active"), ("services", "toolkit"): []}, {"services": ["slurmd"]}, PASS, "1 units"),
    ("host.services", {("services", "toolkit"): []}, {}, SKIP, "no unit of the toolkit"),
    ("host.services", {(*TIMER, "active"): "inactive"}, {}, WARN, "gpuwright-check.timer is inactive"),
    ("host.services", {(*TIMER, "enabled"): "disabled"}, {}, WARN, "gpuwright-check.timer is disabled"),
    ("host.services", {(*BOOT, "enabled"): ""}, {}, WARN, "boot-check.service is not known to systemd"),
    ("host.services", {(*BOOT, "active"): "failed"}, {}, PASS, "2 units"),
    ("host.services", other("gpuwright-tuning.service", "failed"), {}, WARN, "gpuwright-tuning.service has failed"),
    ("host.services", other("gpuwright-cdi.service", "inactive"), {}, PASS, "1 units"),
    ("host.services", other("gpuwright-cdi.path", "failed"), {}, WARN, "gpuwright-cdi.path is failed"),
    ("host.services", {("services",): {"unreadable": "no bus"}}, {}, UNKNOWN, "no bus"),
    ("containers.device_links", {("device_links", "/dev/nvidia0"): False}, {}, WARN, "points to /dev/nvidia0; podman"),
    ("containers.device_links", {("device_links", "/dev/nvidia-uvm"): False}, {}, WARN, "points to /dev/nvidia-uvm"),
    ("containers.device_links", {("device_links",): {"/dev/nvidia0": True}}, {}, UNKNOWN, "device nodes are missing"),
    ("containers.device_links", {}, TWO, UNKNOWN, "device nodes are missing"),
    ("containers.device_links", {("device_links",): {"unreadable": "gone"}}, {}, UNKNOWN, "gone"),
    ("containers.device_links", {("device_links", "/dev/nvidia-modeset"): False}, {}, PASS, "all 3 device nodes"),
    ("containers.device_links", {("containers",): None}, {}, SKIP, "this node is not set up for containers"),
    ("containers.device_links", IN_CONTAINER, {}, SKIP, "is a container (podman)"),
    *rows_of_the_way("gpu.iommu", apart(iommu="DMA-FQ"), "the IOMMU translates: 0000:3b:00.0: DMA-FQ"),
    ("gpu.iommu", apart(iommu="blocked"), TWO, WARN, "0000:3b:00.0: blocked"),
    ("gpu.iommu", apart(), TWO, PASS, "IOMMU: identity, off"),
    ("gpu.iommu", apart(iommu={"unreadable": "type cannot be read"}), TWO, UNKNOWN, "type cannot be read"),
    *rows_of_the_way("gpu.acs", apart(acs="on"), "ACS is on in 0000:3a:00.0"),
    ("gpu.acs", apart(), TWO, PASS, "none of 2 bridges"),
    ("gpu.acs", apart(acs={"unreadable": "only root may read it"}), TWO, UNKNOWN, "only root"),
]
