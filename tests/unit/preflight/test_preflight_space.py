"""Space is counted for what will be written: another environment beside the one there is, and initramfs images."""

from __future__ import annotations

import errno
import hashlib
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml
from ansible_collections.gpuwright.node.plugins.plugin_utils.package_lock import lock_path, read_wanted
from conftest import REPOSITORY
from given_facts import as_facts
from gpuwright.preflight.host_checks import find_problems, read_facts
from gpuwright.preflight.space import (
    largest_initramfs_mib,
    read_filesystem,
    read_only_folders,
    read_only_problems,
    space_needed,
    space_problems,
)
from test_plan_questions import MATRIX
from test_preflight import facts, host, plan, wishes

PLAYBOOK = Path(sys.executable).parent / "ansible-playbook"
STAMP = "opt/gpuwright/venvs/{}/gpuwright.json"


def read(root: Path, environment: str) -> dict[str, Any]:
    return read_facts(plan(), lambda command: "", str(root), environment=environment)["has"]


def test_another_environment_is_counted(tmp_path: Path) -> None:
    for name in ("aaaa", "half"):
        (tmp_path / STAMP.format(name)).parent.mkdir(parents=True)
    (tmp_path / STAMP.format("aaaa")).write_text("{}")
    (tmp_path / "opt/gpuwright/venvs/current").symlink_to("aaaa")
    assert read(tmp_path, "aaaa")["environment"] is True
    for name in ("bbbb", "half", ""):
        assert read(tmp_path, name)["environment"] is False
    needs = space_needed(plan(), facts(has={"cuda": True, "cudnn": True, "environment": False}), wishes())
    assert ("Python environment", "/opt", 9000, 40000) in needs


@pytest.mark.parametrize(
    ("build", "version", "mib", "files"),
    [
        # As found on a node with Python 3.11: the CPU build of PyTorch 2.13.0, and TensorFlow 2.20 beside it.
        ("cpu", "", 1253, 33590),
        ("cpu", "2.20.0", 3192, 60835),
        ("cu128", "2.20.0", 9000, 60835),
    ],
)
def test_an_environment_is_counted_with_all_that_is_planned_in_it(
    build: str, version: str, mib: int, files: int
) -> None:
    made = plan()
    made["pytorch"]["build"], made["tensorflow"]["version"] = build, version
    needs = space_needed(made, facts(has={"cuda": True, "cudnn": True, "environment": False}), wishes())
    (found, many) = (sum(need[place] for need in needs if need[1] == "/opt") for place in (2, 3))
    assert mib <= found < 2 * mib and files <= many < 2 * files
    there = space_needed(made, facts(has={"cuda": True, "cudnn": True, "environment": True}), wishes())
    assert not [need for need in there if need[1] == "/opt"]


@pytest.mark.parametrize("update", [False, True])
def test_a_new_initramfs_needs_room_in_boot(update: bool) -> None:
    needs = space_needed(plan(), facts(initramfs_mib=180), wishes(allow_kernel_update=update))
    assert sum(mib for _what, folder, mib, _files in needs if folder == "/boot") == 180 + (100 if update else 0)
    systems = {**facts()["filesystems"], "/boot": {"device": 2, "free_mib": 200, "free_inodes": 1000}}
    found = space_problems(facts(filesystems=systems), needs, 120)
    assert (
        len(found) == 1 and "/boot has 200 MiB free" in found[0]["problem"] and "initramfs 180" in found[0]["evidence"]
    )
    assert not [need for need in space_needed(plan(present=True), facts(), wishes()) if need[1] == "/boot"]


def test_the_largest_image_is_measured(tmp_path: Path) -> None:
    assert largest_initramfs_mib(str(tmp_path)) == 0
    (tmp_path / "boot").mkdir()
    for name, size in {"initramfs-4.img": 3, "initrd.img-6.1": 7, "vmlinuz-6.1": 50}.items():
        with (tmp_path / "boot" / name).open("wb") as file:
            file.truncate(size * 1024 * 1024 - 1)
    assert largest_initramfs_mib(str(tmp_path)) == 7
    unknown = space_needed(plan(), facts(initramfs_mib=0), wishes())
    assert ("initramfs", "/boot", MATRIX["space"]["boot"]["mib"], 1) in unknown


@pytest.mark.parametrize(
    ("locked", "packages", "locks"),
    [(True, [], ""), (True, ["lpips"], ""), (True, ["lpips"], "../shared locks"), (False, [], "")],
)
def test_both_roles_mean_the_same_folder(tmp_path: Path, locked: bool, packages: list[str], locks: str) -> None:
    lock = "py3.11-torch2.13.0-cpu.txt"
    base = (REPOSITORY / "roles/framework_pytorch/files/locks" / lock).read_text().rstrip()
    if packages:
        beside = lock_path(read_wanted(packages, tmp_path), lock, base, "3.11", str(tmp_path), locks)
        beside.parent.mkdir(parents=True)
        beside.write_text("lpips==0.1.4 --hash=sha256:00\n")
    torch = {"version": "2.13.0", "build": "cpu", "lock": lock, "locked": locked, "index_url": ""}
    made = {"pytorch": torch, "python": {"version": "3.11"}, "requirements": ["torch==2.13.0", "numpy"]}
    names = {"preflight": "__preflight_environment", "framework_pytorch": "__framework_pytorch_id"}
    show = [{"ansible.builtin.debug": {"msg": f"{role}={{{{ {name} }}}}="}} for role, name in names.items()]
    for task, role in zip(show, names, strict=True):
        task["vars"] = {"role_path": str(REPOSITORY / "roles" / role)}
    files = [str(REPOSITORY / "roles" / role / "vars/main.yml") for role in names]
    play = {"hosts": "localhost", "gather_facts": False, "become": False, "vars_files": files, "tasks": show}
    (tmp_path / "play.yml").write_text(yaml.safe_dump([play]))
    settings = {"framework_pytorch_lock_file": "", "framework_pytorch_packages": packages}
    settings["framework_pytorch_locks_folder"] = locks
    variables = json.dumps(as_facts({"gpu_node_plan": made, **settings}))
    command = [str(PLAYBOOK), "-i", "localhost,", "-c", "local", str(tmp_path / "play.yml"), "-e", variables]
    done = subprocess.run(command, cwd=REPOSITORY, capture_output=True, text=True, timeout=120)
    folders = {role: done.stdout.partition(f"{role}=")[2].partition("=")[0] for role in names}
    assert folders["preflight"] == folders["framework_pytorch"] and len(folders["preflight"]) == 16, done.stdout
    of_the_plan = hashlib.sha256(f"3.11\n{base}".encode()).hexdigest()[:16]
    assert (folders["preflight"] == of_the_plan) == (locked and not packages)


def statvfs(flag: int = 0, **changes: int) -> Any:
    fields = {"f_flag": flag, "f_bavail": 1000, "f_frsize": 1024 * 1024, "f_files": 10, "f_favail": 7, **changes}
    return lambda path: type("Status", (), fields)()


@pytest.mark.parametrize(
    ("flag", "closed"), [(0, False), (os.ST_RDONLY, True), (os.ST_RDONLY | os.ST_NODEV, True), (os.ST_NOSUID, False)]
)
def test_a_file_system_says_whether_it_is_read_only(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, flag: int, closed: bool
) -> None:
    (tmp_path / "opt").mkdir()
    monkeypatch.setattr(os, "statvfs", statvfs(flag))
    read = read_filesystem(str(tmp_path), "/opt")
    assert read["read_only"] is closed and read["free_mib"] == 1000 and read["free_inodes"] == 7


def test_what_cannot_be_read_is_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert read_filesystem(str(tmp_path), "/usr") is None
    (tmp_path / "usr").mkdir()
    assert read_filesystem(str(tmp_path), "/usr")["device"] == (tmp_path / "usr").stat().st_dev

    def broken(path: str) -> None:
        raise OSError(errno.EIO, "Input/output error")

    monkeypatch.setattr(os, "statvfs", broken)
    assert read_filesystem(str(tmp_path), "/usr") is None


def closed(*folders: str) -> dict[str, Any]:
    known = facts()["filesystems"]
    return facts(filesystems={name: {**row, "read_only": name in folders} for name, row in known.items()})


@pytest.mark.parametrize(
    ("folders", "present", "named"),
    [
        ((), False, ""),
        (("/etc", "/usr", "/usr/local", "/var", "/opt", "/boot", "/tmp"), False, "/boot, /etc, /opt, /tmp, /usr"),
        (("/usr",), False, "/usr"),
        (("/opt",), True, "/opt"),
        (("/etc",), True, "/etc"),
        # Mounted so on purpose on many nodes; a driver that stays writes nothing there.
        (("/boot",), False, "/boot"),
        (("/boot",), True, ""),
    ],
)
def test_a_read_only_file_system_stops(folders: tuple[str, ...], present: bool, named: str) -> None:
    the_facts = closed(*folders)
    found = read_only_problems(the_facts, space_needed(plan(present=present), the_facts, wishes()))
    assert [f"{named}" in row["problem"] and row["stops"] for row in found] == ([True] if named else [])
    for row in found:
        assert "is mounted read-only" in row["problem"] and "remount,rw" in row["next"] and row["evidence"]


def test_where_the_package_manager_cannot_write_it_is_not_asked() -> None:
    assert read_only_folders(closed()) == [] and read_only_folders(closed("/boot", "/tmp")) == []
    assert read_only_folders(closed("/var", "/boot")) == ["/var"]
    assert read_only_folders(facts(filesystems={**facts()["filesystems"], "/var": None})) == []
    tasks = yaml.safe_load((REPOSITORY / "roles/preflight/tasks/host.yml").read_text())
    rehearsal = next(task for task in tasks if "ansible.builtin.include_tasks" in task)
    assert any("read_only" in condition for condition in rehearsal["when"])


def test_read_only_is_asked_whatever_the_space() -> None:
    the_facts = closed("/opt")
    rows = find_problems(host(), plan(), the_facts, wishes(space_percent=0))
    assert ["read-only" in row["problem"] for row in rows] == [True]


def test_every_folder_that_is_judged_is_read(tmp_path: Path) -> None:
    for name in ("etc", "usr/local", "var", "opt", "tmp", "boot"):
        (tmp_path / name).mkdir(parents=True)
    read = read_facts(plan(), lambda command: "", str(tmp_path))["filesystems"]
    assert set(read) == set(facts()["filesystems"]) and None not in read.values()
