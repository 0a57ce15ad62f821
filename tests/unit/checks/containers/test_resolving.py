"""What the engine makes of the GPUs' description: a real podman where there is one, and what Docker says of itself."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
from pathlib import Path

import pytest
import yaml
from gpuwright.checks.containers import resolving
from gpuwright.host.bounded import Finished
from host_tree import HostTree

SPEC = """\
cdiVersion: 0.5.0
kind: nvidia.com/gpu
devices:
- name: all
  containerEdits:
    deviceNodes:
    - path: /dev/nvidia0
      hostPath: /dev/null
containerEdits:
  mounts:
  - {hostPath: /etc/hostname, containerPath: /usr/lib64/libcuda.so.1, options: [ro, nosuid, nodev, bind]}
"""


# Before PREPARE, in the same mount namespace: /run and /etc are folders of the test; the machine's stay.
OWN_FOLDERS = "mount --bind {0}/run /run && mount --bind {0}/etc /etc || exit 4\n"


def real_version() -> tuple[int, ...]:
    """Of the podman that can prepare a container here; (0,) without one or without root."""
    if not shutil.which("podman") or os.geteuid() != 0:
        return (0,)
    told = subprocess.run(["podman", "--version"], capture_output=True, text=True, check=True).stdout
    tried = subprocess.run(["unshare", "--mount", "--", "sh", "-c", resolving.PREPARE], capture_output=True)
    found = re.search(r"version (\d+)\.(\d+)", told)
    return tuple(map(int, found.groups())) if found and tried.returncode in (0, resolving.REFUSED) else (0,)


VERSION = real_version()
with_podman = pytest.mark.skipif(VERSION < (4, 1), reason="needs root and a podman that can prepare a container")


@pytest.fixture
def own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    for folder in ("run/cdi", "etc/cdi"):
        (tmp_path / folder).mkdir(parents=True)
    for name in ("passwd", "group", "hosts", "hostname", "resolv.conf"):
        if Path("/etc", name).is_file():
            shutil.copy(Path("/etc", name), tmp_path / "etc")
    shutil.copytree("/etc/containers", tmp_path / "etc/containers", symlinks=True)
    monkeypatch.setattr(resolving, "PREPARE", OWN_FOLDERS.format(tmp_path) + resolving.PREPARE)
    return tmp_path


def left_behind() -> list[str]:
    mounted = [line.split()[1] for line in Path("/proc/self/mounts").read_text().splitlines()]
    return [path for path in mounted if path.startswith("/dev/shm/")] + [
        name for name in ("root", "run", "tmp", "empty") if Path("/dev/shm", name).exists()
    ]


def podman_says(own: Path, text: str, **others: str) -> dict:
    """Of this file in /run/cdi, and of others, for example etc_cdi_x="..." for /etc/cdi/x.yaml."""
    (own / "run/cdi/nvidia.yaml").write_text(text)
    for path, other in others.items():
        (own / f"{path.replace('_', '/')}.yaml").write_text(other)
    found = resolving.ask_podman("/")
    assert left_behind() == []
    return found


@with_podman
@pytest.mark.parametrize("version", ["0.3.0", "0.5.0"])
def test_a_real_podman_resolves_the_gpus(own, version):
    # hostPath came with 0.5.0; podman 4.3.1 knows the field and does not compare it with the version.
    found = podman_says(own, SPEC.replace("0.5.0", version))
    assert (found["resolved"], found["cards"], found["missing"]) == (True, ["/dev/nvidia0"], [])


@with_podman
def test_a_real_podman_refuses_what_it_does_not_know(own):
    newer = podman_says(own, SPEC.replace("0.5.0", "0.7.0"))
    field = podman_says(
        own, SPEC.replace("containerEdits:\n  mounts", "containerEdits:\n  additionalGids: [44]\n  mounts")
    )
    assert newer["resolved"] is (VERSION >= (5, 1)) and field["resolved"] is (VERSION >= (5, 1))
    assert podman_says(own, SPEC.replace("0.5.0", "99.0.0"))["resolved"] is False
    assert "unresolvable CDI devices nvidia.com/gpu=all" in podman_says(own, "<html>")["words"]


@with_podman
def test_a_real_podman_needs_nodes_and_is_told_of_missing_files(own):
    assert podman_says(own, SPEC.replace("/dev/null", "/dev/nothing"))["resolved"] is False
    missing = "/usr/lib64/libcuda.so.470.1"
    found = podman_says(own, SPEC.replace("/etc/hostname", missing))
    assert (found["resolved"], found["missing"]) == (True, [missing])


@with_podman
def test_a_real_podman_refuses_two_files_of_one_folder_and_prefers_the_newer_folder(own):
    two = SPEC.replace("/dev/nvidia0", "/dev/nvidia1")
    assert podman_says(own, SPEC, etc_cdi_nvidia=two)["cards"] == ["/dev/nvidia0"]
    assert podman_says(own, SPEC, etc_cdi_broken="<html>")["resolved"] is True
    assert podman_says(own, SPEC, run_cdi_second=two)["resolved"] is False


def answer(monkeypatch: pytest.MonkeyPatch, rc: int | None, stdout: str = "", stderr: str = "") -> None:
    done = Finished(rc, stdout, stderr, False, False, False, "" if rc is not None else "not there")
    monkeypatch.setattr(resolving, "run_bounded", lambda *words, **more: done)


@pytest.mark.parametrize(
    ("rc", "words"), [(None, "not there"), (4, "cannot prepare any container"), (1, "cannot prepare")]
)
def test_a_podman_that_prepares_nothing_at_all_is_unreadable(monkeypatch, rc, words):
    answer(monkeypatch, rc, stderr="unshare failed: Operation not permitted")
    with pytest.raises(OSError, match=words):
        resolving.ask_podman("/")


def test_docker_says_what_it_has_loaded(monkeypatch):
    told = {
        "ServerVersion": "28.3.0-ce",
        "Runtimes": {"runc": {}, "nvidia": {}},
        "CDISpecDirs": ["/etc/cdi", "/var/run/cdi"],
        "DiscoveredDevices": [{"Source": "cdi", "ID": "nvidia.com/gpu=all"}, {"Source": "other", "ID": "x"}],
    }
    answer(monkeypatch, 0, json.dumps(told))
    assert resolving.ask_docker() == {
        "engine": "docker",
        "version": "28.3.0",
        "runtime": True,
        "folders": ["/etc/cdi", "/var/run/cdi"],
        "devices": ["nvidia.com/gpu=all"],
    }
    answer(monkeypatch, 0, json.dumps({"ServerVersion": "24.0.7", "Runtimes": {"runc": {}}, "CDISpecDirs": None}))
    old = resolving.ask_docker()
    assert (old["runtime"], old["folders"], old["devices"]) == (False, [], None)
    # An empty list is left out, so that only the version tells it from one that was never made.
    for version, devices in (("28.1.1", None), ("28.2.0", []), ("29.0.1", []), ("dev", None)):
        answer(monkeypatch, 0, json.dumps({"ServerVersion": version, "Runtimes": {"nvidia": {}}}))
        assert resolving.ask_docker()["devices"] == devices, version


@pytest.mark.parametrize(
    ("rc", "stdout"), [(None, ""), (1, ""), (0, '{"ServerErrors": ["Cannot connect to the Docker daemon"]}'), (0, "[]")]
)
def test_a_docker_that_does_not_answer_is_unreadable(monkeypatch, rc, stdout):
    answer(monkeypatch, rc, stdout)
    with pytest.raises(OSError):
        resolving.ask_docker()


def test_without_containers_or_engine_nothing_is_asked(tmp_path, monkeypatch):
    monkeypatch.setattr(resolving, "run_bounded", None)
    host = HostTree(tmp_path / "node")
    assert resolving.read_resolving(host.root) is None
    host.put("/etc/gpuwright/containers.json", '{"schema": 1, "engine": "podman", "spec": "/var/run/cdi/nvidia.yaml"}')
    assert resolving.read_resolving(host.root) is None


def test_docker_is_not_believed_about_files_that_are_gone(tmp_path, monkeypatch):
    host = HostTree(tmp_path / "node")
    host.put("/etc/gpuwright/containers.json", '{"schema": 1, "engine": "docker", "spec": "/var/run/cdi/nvidia.yaml"}')
    host.put("/usr/bin/dockerd", "")
    host.put("/usr/lib64/libcuda.so.580.95.05", "")
    answer(monkeypatch, 0, json.dumps({"ServerVersion": "28.3.0", "Runtimes": {"nvidia": {}}}))
    mounts = [{"hostPath": "/usr/lib64/libcuda.so.580.95.05"}, {"hostPath": "/usr/lib64/gone.so.1"}]
    spec = {"cdiVersion": "0.5.0", "kind": "nvidia.com/gpu", "containerEdits": {"mounts": mounts}}
    for text in (yaml.safe_dump(spec), json.dumps(spec), json.dumps(spec, indent=1), str(spec)):
        host.put("/var/run/cdi/nvidia.yaml", text)
        found = resolving.read_resolving(host.root)
        assert found is not None and found["missing"] == ["/usr/lib64/gone.so.1"], text
