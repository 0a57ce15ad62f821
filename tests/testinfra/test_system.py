"""System layer: repositories, kernel module, CUDA, launcher."""

from __future__ import annotations

import json
import re

import pytest
from testinfra.host import Host


def test_module_is_built_for_the_running_kernel(host: Host) -> None:
    with host.sudo():
        kernel = host.check_output("uname -r")
        status = host.check_output("dkms status")
        assert re.search(rf"nvidia(-open)?/[\d.]+, {re.escape(kernel)}, x86_64: installed", status)
        # A T4 gets the open module.
        licence = "Dual MIT/GPL" if "nvidia-open/" in status else "NVIDIA"
        assert host.check_output("modinfo -k %s -F license nvidia", kernel) == licence


def test_module_user_space_and_running_driver_are_one_version(host: Host) -> None:
    with host.sudo():
        built = host.check_output("modinfo -F version nvidia")
    loaded = re.search(r"Module(?: for \S+)?\s+([\d.]+)", host.file("/proc/driver/nvidia/version").content_string)
    answered = host.check_output("nvidia-smi --query-gpu=driver_version --format=csv,noheader").splitlines()
    assert loaded is not None
    assert {built, loaded.group(1), *answered} == {built}


def test_every_expected_gpu_answers(host: Host, wish: dict) -> None:
    names = host.check_output("nvidia-smi --query-gpu=name --format=csv,noheader").splitlines()
    assert names == [wish["verify_expected_gpu_model"]] * wish["verify_expected_gpu_count"]


def test_nouveau_is_gone(host: Host) -> None:
    assert not host.file("/sys/module/nouveau").exists
    assert "blacklist nouveau" in host.check_output("cat /usr/lib/modprobe.d/nvidia.conf")


def test_uvm_is_loaded_at_boot(host: Host) -> None:
    assert host.file("/dev/nvidia-uvm").exists
    assert "nvidia_uvm" in host.file("/etc/modules-load.d/gpuwright-nvidia.conf").content_string.splitlines()


def test_device_nodes_are_made_at_boot(host: Host) -> None:
    unit = "gpuwright-devices.service"
    assert host.check_output("systemctl is-enabled %s", unit) == "enabled"
    assert host.run("systemctl is-failed %s", unit).stdout.strip() == "inactive"


def test_persistence_daemon_runs_and_starts_at_boot(host: Host) -> None:
    service = host.service("nvidia-persistenced")
    assert service.is_running and service.is_enabled


def test_cuda_toolkit_is_where_the_plan_says(host: Host, report: dict) -> None:
    plan = report["expectations"]["plan"]["cuda"]
    assert host.check_output("readlink -f /usr/local/cuda") == plan["prefix"]
    assert f"release {plan['version']}," in host.check_output("/usr/local/cuda/bin/nvcc --version")
    assert json.loads(host.file("/usr/local/cuda/version.json").content_string)["cuda"]["version"].startswith(
        plan["version"]
    )


def test_gpu_run_preloads_what_the_policy_says(host: Host, as_trainer) -> None:
    policy = json.loads(host.file("/etc/gpuwright/runtime.json").content_string)
    maps = as_trainer("/usr/local/bin/gpu-run -- cat /proc/self/maps").stdout
    for name in ("jemalloc", "tcmalloc"):
        library = policy["libraries"][name].rsplit("/", 1)[-1].split(".so")[0]
        assert (library in maps) == (policy["allocator"] == name)


def test_gpu_run_proves_the_allocator_that_is_asked_for(as_trainer) -> None:
    shown = json.loads(as_trainer("/usr/local/bin/gpu-run --allocator jemalloc --json").stdout)
    rows = {row["setting"]: row["value"] for row in shown["settings"]}
    assert (rows["allocator"], rows["allocator loaded"]) == ("jemalloc", "yes")


@pytest.mark.el8
def test_nothing_is_preloaded_before_a_calibration_and_the_report_says_so(host: Host, report: dict) -> None:
    assert not host.file("/etc/gpuwright/runtime-calibrated.json").exists
    launcher = next(check for check in report["checks"] if check["id"] == "runtime.launcher")
    assert "allocator malloc: not calibrated on this machine" in launcher["message"]


def test_gpu_run_measures_the_allocators_of_the_node(host: Host, as_trainer) -> None:
    done = as_trainer("/usr/local/bin/gpu-run --calibrate --dry-run --rounds 6 -- true")
    assert done.rc == 0, done.stderr
    assert "6 round(s) of: malloc, malloc again, jemalloc, jemalloc tuned, tcmalloc" in done.stderr
    assert "chosen: " in done.stdout
    refused = as_trainer("/usr/local/bin/gpu-run --calibrate -- true")
    assert refused.rc == 125 and "run it as root" in refused.stderr


def test_every_module_is_compiled_and_readable_for_the_trainer(host: Host, as_trainer) -> None:
    folder = "/usr/local/lib/gpuwright/gpuwright"
    modules = {name[:-3] for name in host.check_output(f"find {folder} -name '*.py'").splitlines()}
    compiled = as_trainer(f"find {folder} -path '*/__pycache__/*.pyc' -readable").stdout.split()
    assert modules <= {path.replace("/__pycache__/", "/").rsplit(".", 2)[0] for path in compiled}


def test_gpu_run_passes_the_exit_status_on(as_trainer) -> None:
    assert as_trainer("/usr/local/bin/gpu-run -- sh -c 'exit 42'").rc == 42


def test_gpu_run_binds_to_the_cpus_of_the_gpu(host: Host, as_trainer) -> None:
    device = sorted(path for path in host.check_output("ls /sys/bus/pci/devices").splitlines() if "3b:00.0" in path)[0]
    local = host.file(f"/sys/bus/pci/devices/{device}/local_cpulist").content_string.strip()
    bound = as_trainer("/usr/local/bin/gpu-run --gpus 0 -- grep Cpus_allowed_list /proc/self/status").stdout.split()[-1]
    assert bound == local


def test_nothing_of_ours_is_preloaded_for_everybody(host: Host) -> None:
    assert not host.file("/etc/ld.so.preload").exists
    environment = host.file("/etc/environment")
    assert not environment.exists or "LD_PRELOAD" not in environment.content_string


@pytest.mark.el8
def test_login_shells_find_nvcc(host: Host) -> None:
    assert host.check_output("bash -lc 'command -v nvcc'") == "/usr/local/cuda/bin/nvcc"


@pytest.mark.el8_alternative
def test_login_shells_are_left_alone(host: Host) -> None:
    assert not host.file("/etc/profile.d/gpuwright-cuda.sh").exists


@pytest.mark.el8_alternative
def test_threads_and_allocator_follow_the_policy(as_trainer) -> None:
    shown = as_trainer("/usr/local/bin/gpu-run -- env").stdout
    assert "OMP_NUM_THREADS=1" in shown.splitlines()
    assert "libtcmalloc" in shown and "libjemalloc" not in shown
