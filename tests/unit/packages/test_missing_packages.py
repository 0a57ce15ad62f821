"""missing_packages: what is missing, who holds the lock, and no silent answer when rpm itself is broken."""

from __future__ import annotations

import subprocess
import sys
import time
from pathlib import Path

import pytest
from gpuwright.packages.installed import lock_holder, missing_debs

RPM = """#!/bin/sh
# Knows gcc by name and kernel-devel-4.18 as something provided; what is installed of the driver is of branch 580.
[ "$1" = -qa ] && {
  printf '%s\n' gcc-8.5.0 nvidia-driver-cuda-580.95.05 nvidia-driver-cuda-libs-590.48.01
  printf '%s\n' libnccl-2.32.3 libnccl-2.32.3-1+cuda13.3
  exit
}
[ "$2" = --whatprovides ] && { [ "$3" = kernel-devel-4.18 ]; exit; }
shift
for name in "$@"; do [ "$name" = gcc ] || exit 1; done
"""


@pytest.mark.parametrize(
    ("names", "missing"),
    [
        (["gcc"], []),
        (["gcc", "dkms"], ["dkms"]),
        (["kernel-devel-4.18", "gcc"], []),
        (["dkms", "make"], ["dkms", "make"]),
        # A list made of several parts of a plan, some of which want the same.
        (["dkms", "gcc", "make", "dkms", "gcc"], ["dkms", "make"]),
        (["nvidia-driver-cuda-580.*"], []),
        (["nvidia-driver-cuda-580.*", "gcc"], []),
        (["dkms", "nvidia-driver-cuda-590.*", "gcc"], ["dkms", "nvidia-driver-cuda-590.*"]),
        # Branch 58 is not 580, and a longer name is another package.
        (["nvidia-driver-cuda-58.*", "nvidia-driver-590.*"], ["nvidia-driver-cuda-58.*", "nvidia-driver-590.*"]),
        (["libnccl-2.32.3-1+cuda13.*", "libnccl-2.*"], []),
        (["libnccl-2.32.3-1+cuda12.*"], ["libnccl-2.32.3-1+cuda12.*"]),
        ([], []),
    ],
)
def test_missing(run_module, fake_bin, names: list[str], missing: list[str]) -> None:
    fake_bin("rpm", RPM)
    answer = run_module("missing_packages", {"packages": names})
    assert (answer["missing"], answer["changed"]) == (missing, False)


def test_a_package_that_a_broken_rpm_does_not_know_is_missing(run_module, fake_bin) -> None:
    fake_bin("rpm", "#!/bin/sh\nkill -9 $$\n")
    answer = run_module("missing_packages", {"packages": ["gcc"]})
    assert answer["missing"] == ["gcc"]
    # Of a branch nobody can tell without the list of all.
    assert "rpm cannot say" in run_module("missing_packages", {"packages": ["x-580.*"]})["msg"]


def write_pid(root: Path, name: str, pid: int) -> None:
    path = root / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(str(pid))


def fake_process(root: Path, pid: int, command: bytes) -> None:
    (root / f"proc/{pid}").mkdir(parents=True)
    (root / f"proc/{pid}/cmdline").write_bytes(command)


def test_dnf_holds_the_lock(tmp_path: Path) -> None:
    fake_process(tmp_path, 77, b"/usr/libexec/platform-python\0/usr/bin/dnf\0-y\0update\0")
    write_pid(tmp_path, "var/lib/dnf/rpmdb_lock.pid", 77)
    assert lock_holder(str(tmp_path)) == {"pid": 77, "command": "/usr/libexec/platform-python /usr/bin/dnf -y update"}


def test_a_file_left_by_a_dead_dnf_is_no_lock(tmp_path: Path) -> None:
    write_pid(tmp_path, "var/cache/dnf/metadata_lock.pid", 99999)
    assert lock_holder(str(tmp_path)) is None


def test_a_pid_that_now_belongs_to_another_program_is_no_lock(tmp_path: Path) -> None:
    fake_process(tmp_path, 77, b"/usr/sbin/sshd\0-D\0")
    write_pid(tmp_path, "var/cache/dnf/metadata_lock.pid", 77)
    assert lock_holder(str(tmp_path)) is None


@pytest.mark.parametrize("content", ["", "not a pid", "\0\0"])
def test_a_lock_file_with_garbage_is_no_lock(tmp_path: Path, content: str) -> None:
    write_pid(tmp_path, "var/run/yum.pid", 1)
    (tmp_path / "var/run/yum.pid").write_text(content)
    assert lock_holder(str(tmp_path)) is None


def test_rpm_holds_its_transaction_lock(tmp_path: Path) -> None:
    file = tmp_path / "var/lib/rpm/.rpm.lock"
    file.parent.mkdir(parents=True)
    file.touch()
    assert lock_holder(str(tmp_path)) is None
    script = (
        "import fcntl, sys; f = open(sys.argv[1], 'w'); fcntl.lockf(f, fcntl.LOCK_EX); print(1, flush=True); input()"
    )
    with subprocess.Popen(
        [sys.executable, "-c", script, str(file)], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as process:
        assert process.stdout and process.stdout.readline()
        holder = lock_holder(str(tmp_path))
        process.kill()
    assert holder is not None and holder["pid"] == process.pid
    time.sleep(0.1)
    assert lock_holder(str(tmp_path)) is None


LISTING = """installed\tgcc\t4:12.2.0-3\tc-compiler, gcc-x86-64-linux-gnu (= 4:12.2.0-3)
installed\tnvidia-kernel-dkms\t535.261.03-1\tnvidia-kernel-535.261.03, nvidia-kernel-dkms-any
half-configured\tdkms\t3.0.10-8\tdh-dkms
config-files\tmake\t4.3-4.1\t
"""


@pytest.mark.parametrize(
    ("names", "missing"),
    [
        (["gcc"], []),
        (["c-compiler"], []),
        (["dkms"], ["dkms"]),
        (["make", "gcc"], ["make"]),
        (["nvidia-kernel-dkms=535.261.03-*"], []),
        (["nvidia-kernel-dkms=535.309.01-*"], ["nvidia-kernel-dkms=535.309.01-*"]),
        (["c-compiler=4:12.2.0-3"], ["c-compiler=4:12.2.0-3"]),
        (["numactl=2.0"], ["numactl=2.0"]),
    ],
)
def test_missing_debs(run_module, fake_bin, tmp_path: Path, names: list[str], missing: list[str]) -> None:
    assert missing_debs(names, LISTING) == missing
    (tmp_path / "listing").write_text(LISTING)
    fake_bin("dpkg-query", f"#!/bin/sh\ncat {tmp_path}/listing\n")
    answer = run_module("missing_packages", {"packages": names, "family": "debian"})
    assert (answer["missing"], answer["changed"]) == (missing, False)


def test_what_an_interrupted_dpkg_left_is_named(run_module, fake_bin) -> None:
    lines = "installed gcc\\nhalf-configured nvidia-kernel-dkms\\nunpacked dkms\\nconfig-files make\\n"
    fake_bin("dpkg-query", f"#!/bin/sh\nprintf '{lines}'\n")
    answer = run_module("missing_packages", {"packages": ["numactl"], "family": "debian"})
    assert answer["unfinished"] == ["dkms", "nvidia-kernel-dkms"]


def test_a_broken_dpkg_is_an_error_and_not_an_answer(run_module, fake_bin) -> None:
    fake_bin("dpkg-query", "#!/bin/sh\necho 'dpkg-query: error: parsing file' >&2; exit 2\n")
    answer = run_module("missing_packages", {"packages": ["gcc"], "family": "debian"})
    assert answer["failed"] and "parsing file" in answer["msg"] and "dpkg --audit" in answer["msg"]


def test_apt_holds_its_lock(tmp_path: Path) -> None:
    file = tmp_path / "var/lib/dpkg/lock-frontend"
    file.parent.mkdir(parents=True)
    file.touch()
    script = (
        "import fcntl, sys; f = open(sys.argv[1], 'w'); fcntl.lockf(f, fcntl.LOCK_EX); print(1, flush=True); input()"
    )
    command = [sys.executable, "-c", script, str(file)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdout and process.stdout.readline()
        holder = lock_holder(str(tmp_path))
        process.kill()
    assert holder is not None and holder["pid"] == process.pid
