"""A job or container that keeps the GPUs from who asks, told by its control groups, variables and device lists."""

from __future__ import annotations

import os

import pytest
from gpuwright.readings import confinement
from gpuwright.readings.confinement import opens, read_confinement
from host_tree import HostTree

V1 = "/slurm/uid_1000/job_4711/step_0/task_0"
V2 = "/system.slice/slurmstepd.scope/job_4711/step_0/user/task_0"
HEX = "0123456789abcdef" * 4


@pytest.fixture
def host(tmp_path):
    tree = HostTree(tmp_path)
    for name in ("nvidia0", "nvidia1", "nvidiactl", "nvidia-uvm"):
        tree.put(f"/dev/{name}")
    return tree


def read(host, cgroup="", environment=(), may_open=lambda full: True):
    host.put("/proc/self/cgroup", cgroup)
    return read_confinement(host.root, dict(environment), may_open)


@pytest.mark.parametrize(
    ("cgroup", "environment", "manager", "job"),
    [
        (f"12:devices:{V1}\n4:freezer:{V1}\n1:name=systemd:/\n", {}, "slurm", "4711"),
        (f"0::{V2}\n", {}, "slurm", "4711"),
        ("0::/system.slice/node7_slurmstepd.scope/job_9/step_batch/user/task_0\n", {}, "slurm", "9"),
        ("9:devices:/slurm_node7/uid_5/job_88/step_extern\n", {}, "slurm", "88"),
        ("0::/\n", {"SLURM_JOB_ID": "12"}, "slurm", "12"),
        ("0::/system.slice/slurmd.service\n", {}, None, ""),
        # A prolog has the variables, and runs outside of the job.
        (
            "0::/system.slice/slurmd.service\n",
            {"SLURM_JOB_ID": "12", "SLURM_SCRIPT_CONTEXT": "prolog_slurmd"},
            None,
            "",
        ),
        (f"5:devices:/docker/{HEX}\n", {}, "docker", ""),
        (f"0::/system.slice/docker-{HEX}.scope\n", {}, "docker", ""),
        (f"0::/machine.slice/libpod-{HEX}.scope/container\n", {}, "podman", ""),
        (f"0::/kubepods.slice/kubepods-burstable.slice/cri-containerd-{HEX}.scope\n", {}, "kubernetes", ""),
        (f"3:devices:/kubepods/burstable/pod1/docker-{HEX}\n", {}, "kubernetes", ""),
        ("0::/\n", {"KUBERNETES_SERVICE_HOST": "10.0.0.1"}, "kubernetes", ""),
        # A container in a job without GPUs, and one in a job that has some, of which it was given none.
        (f"0::/machine.slice/libpod-{HEX}.scope\n", {"SLURM_JOB_ID": "12", "SLURM_GPUS_ON_NODE": "0"}, "slurm", "12"),
        (f"0::/machine.slice/libpod-{HEX}.scope\n", {"SLURM_JOB_ID": "12", "SLURM_GPUS_ON_NODE": "2"}, "podman", ""),
        ("0::/lxc.payload.box/init.scope\n", {}, "lxc", ""),
        ("0::/user.slice/user-1000.slice/session-3.scope\n", {}, None, ""),
        ("0::/user.slice/job_5/x\n", {}, None, ""),
        ("", {}, None, ""),
        ("damaged\n", {"SLURM_JOB_ID": ""}, None, ""),
    ],
)
def test_who_confines(host, cgroup, environment, manager, job):
    found = read(host, cgroup, environment)
    assert (found["manager"], found["job"]) == (manager, job)
    assert found["cards"] == ["/dev/nvidia0", "/dev/nvidia1"] and found["denied"] == []


def test_a_container_with_a_control_group_of_its_own_is_known_by_its_marks(host):
    host.put("/run/.containerenv")
    assert read(host, "0::/\n")["manager"] == "podman"


@pytest.mark.parametrize(
    ("lines", "denied"),
    [
        ("a *:* rwm\n", []),
        ("c 1:3 rwm\nc 195:255 rwm\n", ["/dev/nvidia0", "/dev/nvidia1"]),
        ("c 1:3 rwm\nc 195:1 rwm\n", ["/dev/nvidia0"]),
        ("c 195:* rw\n", []),
        ("c *:* m\nb *:* m\n", ["/dev/nvidia0", "/dev/nvidia1"]),
        ("b 195:0 rwm\nc 195:1 rwm\n", ["/dev/nvidia0"]),
        ("", ["/dev/nvidia0", "/dev/nvidia1"]),
    ],
)
def test_the_device_list_of_version_1(host, lines, denied):
    host.put(f"/sys/fs/cgroup/devices{V1}/devices.list", lines)
    assert read(host, f"4:memory:{V1}\n12:devices:{V1}\n")["denied"] == denied


def test_where_no_list_can_be_read_the_kernel_is_asked(host):
    found = read(host, f"0::{V2}\n", {}, lambda full: full.endswith("nvidia1"))
    assert found["denied"] == ["/dev/nvidia0"]


def test_outside_of_a_job_nothing_is_denied(host):
    assert read(host, "0::/init.scope\n", {}, lambda full: False)["denied"] == []


@pytest.mark.parametrize(
    ("environment", "granted"),
    [
        ({}, False),
        ({"SLURM_JOB_GPUS": "0,1"}, True),
        ({"SLURM_STEP_GPUS": "3"}, True),
        ({"SLURM_GPUS_ON_NODE": "2"}, True),
        ({"SLURM_GPUS_ON_NODE": "0"}, False),
        ({"SLURM_JOB_GPUS": ""}, False),
        ({"GPU_DEVICE_ORDINAL": "0"}, True),
        ({"CUDA_VISIBLE_DEVICES": "NoDevFiles"}, False),
    ],
)
def test_what_slurm_says_that_it_gave(host, environment, granted):
    assert read(host, f"0::{V2}\n", environment)["granted"] is granted


@pytest.mark.parametrize(
    ("environment", "hidden"),
    [({}, False), ({"CUDA_VISIBLE_DEVICES": ""}, True), ({"CUDA_VISIBLE_DEVICES": "-1"}, True),
     ({"CUDA_VISIBLE_DEVICES": "NoDevFiles"}, True), ({"CUDA_VISIBLE_DEVICES": "0"}, False),
     ({"CUDA_VISIBLE_DEVICES": "GPU-1"}, False)],
)  # fmt: skip
def test_a_variable_that_hides_the_gpus(host, environment, hidden):
    assert read(host, "", environment)["hidden"] is hidden


@pytest.mark.parametrize(
    ("mode", "reachable", "expected"),
    [(0o666, True, True), (0o666, False, False), (0o660, False, True), (0o600, False, True)],
)
def test_permission_bits_are_not_the_control_groups_doing(tmp_path, monkeypatch, mode, reachable, expected):
    file = tmp_path / "nvidia0"
    file.touch()
    file.chmod(mode)
    monkeypatch.setattr(os, "access", lambda full, wanted: reachable)
    monkeypatch.setattr(os, "geteuid", lambda: 4242)
    monkeypatch.setattr(os, "getegid", lambda: 4242)
    monkeypatch.setattr(os, "getgroups", lambda: [])
    assert opens(str(file)) is expected


def test_root_is_kept_away_by_nothing_else(tmp_path, monkeypatch):
    (tmp_path / "nvidia0").touch(0o600)
    monkeypatch.setattr(os, "access", lambda full, wanted: False)
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    assert opens(str(tmp_path / "nvidia0")) is False
    assert confinement.opens(str(tmp_path / "gone")) is False
