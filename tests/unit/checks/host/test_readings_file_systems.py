"""The file systems that matter are found by their mounts, at any depth, behind links, and never hold a check up."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import pytest
from gpuwright.checks.host import file_systems as readings_file_systems
from gpuwright.checks.host.file_systems import MOUNTS, Mount, look, mount_of, read_file_systems, read_mounts
from host_tree import HostTree

REPOSITORY = Path(__file__).resolve().parents[4]
# Of a node with data on NFS and a separate /opt/gpuwright; the second line of /srv/gan covers the first.
LINES = """\
22 1 8:2 / / rw,relatime shared:1 - xfs /dev/sda2 rw,attr2
30 22 8:1 / /boot rw,relatime shared:2 - ext4 /dev/sda1 rw
31 22 253:1 / /opt/gpuwright rw,nodev shared:3 - xfs /dev/mapper/vg-opt rw
40 22 8:17 / /srv/gan rw - ext4 /dev/sdb1 rw
41 40 0:50 / /srv/gan rw,relatime - nfs4 filer:/gan ro,vers=4.2
42 22 8:33 / /mnt/with\\040blank ro,relatime - xfs /dev/sdc1 rw
"""


@pytest.fixture
def host(tmp_path):
    tree = HostTree(tmp_path)
    tree.put(MOUNTS, LINES)
    for folder in ("boot", "var", "opt/gpuwright/venvs", "srv/gan/runs", "mnt/with blank/data"):
        (tmp_path / folder).mkdir(parents=True)
    return tree


def found(host, **expectations):
    return {row["use"]: row for row in read_file_systems(host.root, expectations)}


def test_each_folder_is_looked_at_where_it_lies(host):
    seen = found(host, runs_dir="/srv/gan/runs", data_dir="/mnt/with blank/data")
    assert {use: (row["folder"], row["mount"], row["kind"]) for use, row in seen.items()} == {
        "system": ("/", "/", "xfs"),
        "boot": ("/boot", "/boot", "ext4"),
        "state": ("/var", "/", "xfs"),
        "environment": ("/opt/gpuwright", "/opt/gpuwright", "xfs"),
        "data": ("/mnt/with blank/data", "/mnt/with blank", "xfs"),
        "runs": ("/srv/gan/runs", "/srv/gan", "nfs4"),
    }
    assert {use for use, row in seen.items() if row["read_only"]} == {"data", "runs"}
    status = os.statvfs(host.root)
    assert abs(seen["runs"]["free_mib"] - status.f_bavail * status.f_frsize // 2**20) < 500
    assert all(row["there"] for row in seen.values())


def test_a_folder_behind_a_link_lies_where_the_link_leads(host):
    host.link("/srv/elsewhere", "/mnt/with blank")
    assert found(host, runs_dir="/srv/elsewhere/data")["runs"]["mount"] == "/mnt/with blank"


def test_a_folder_that_is_not_there_would_be_made_above(host):
    seen = found(host, runs_dir="/srv/gan/more/runs")["runs"]
    assert (seen["there"], seen["mount"], seen["folder"]) == (False, "/srv/gan", "/srv/gan/more/runs")


def test_expectations_of_an_older_release_name_no_folder(host):
    assert set(found(host)) == {"system", "boot", "state", "environment"}
    assert set(found(host, runs_dir="", data_dir=5)) == {"system", "boot", "state", "environment"}


def test_a_list_of_mounts_in_another_form_is_no_list(host):
    host.put(MOUNTS, "something else\n")
    with pytest.raises(ValueError, match="an unknown form"):
        read_mounts(host.root)


def test_a_name_that_begins_like_a_mount_is_not_below_it():
    mounts = [Mount("/", "xfs", False), Mount("/srv/gan", "nfs4", False)]
    assert mount_of("/srv/gansta", mounts) == mounts[0] and mount_of("/srv/gan", mounts) == mounts[1]
    assert mount_of("/srv", []) is None


def test_a_file_system_that_does_not_answer_ends_after_its_time(host, monkeypatch):
    """As a dead NFS server: every call waits."""
    right = readings_file_systems.look

    def look(root, folder, mounts):
        if folder == "/srv/gan/data":
            time.sleep(60)
        if folder == "/srv/gan/runs":
            raise OSError("Stale file handle")
        return right(root, folder, mounts)

    monkeypatch.setattr(readings_file_systems, "look", look)
    monkeypatch.setattr(readings_file_systems, "SECONDS", 0.5)
    begin = time.monotonic()
    host.put(MOUNTS, "1 0 8:1 / / rw - xfs /dev/sda1 rw\n")
    found = read_file_systems(host.root, {"data_dir": "/srv/gan/data", "runs_dir": "/srv/gan/runs"})
    assert time.monotonic() - begin < 40
    # The one behind it is looked at all the same.
    assert [row["unreadable"] for row in found[-2:]] == [
        "the file system of /srv/gan/data does not answer within 0.5 s", "Stale file handle"
    ]  # fmt: skip


def test_a_host_without_processes_to_give_costs_the_inventorys_folders_only(host, monkeypatch):
    def none():
        raise BlockingIOError(11, "Resource temporarily unavailable")

    monkeypatch.setattr(os, "fork", none)
    host.put(MOUNTS, "1 0 8:1 / / rw - xfs /dev/sda1 rw\n")
    found = read_file_systems(host.root, {"data_dir": "/srv/gan/data", "runs_dir": "/srv/gan/runs"})
    assert [row["use"] for row in found] == ["system", "boot", "state", "environment", "data", "runs"]
    assert all(row["free_mib"] for row in found[:4])
    assert all("temporarily unavailable" in row["unreadable"] for row in found[4:])


@pytest.mark.skipif(os.geteuid() != 0, reason="becomes an ordinary user")
def test_a_closed_folder_is_for_root():
    with tempfile.TemporaryDirectory() as name:
        host = HostTree(Path(name))
        Path(name).chmod(0o755)
        host.put(MOUNTS, LINES)
        (Path(name) / "srv/gan/runs").mkdir(parents=True)
        program = (
            "import json, sys; sys.path.insert(0, sys.argv[2]);"
            "from gpuwright.checks.host.file_systems import read_file_systems as read;"
            "print(json.dumps(read(sys.argv[1], {'runs_dir': '/srv/gan/runs'})[-1]))"
        )
        copy = Path(name) / "lib"
        subprocess.run(["cp", "-rL", str(REPOSITORY / "tests/node_library"), str(copy)], check=True)
        # Whatever the umask of who runs the tests: only the one folder is closed.
        subprocess.run(["chmod", "-R", "a+rX", name], check=True)
        (Path(name) / "srv/gan").chmod(0o770)
        command = ["/usr/bin/python3", "-c", program, host.root, str(copy)]
        said = subprocess.run(
            command, user=65534, group=65534, extra_groups=[], capture_output=True, text=True, cwd="/"
        )
        row = json.loads(said.stdout)
        assert row["only_root"] is True and row["folder"] == "/srv/gan/runs", said.stderr


@pytest.mark.skipif(sys.platform != "linux", reason="reads this machine")
def test_this_machine_can_be_read():
    rows = read_file_systems("/", {"runs_dir": "/tmp"})
    assert [row["use"] for row in rows if "unreadable" in row] == []
    assert {row["use"] for row in rows} == {"system", "boot", "state", "environment", "runs"}
    assert look("/", "/", read_mounts("/"))["mount"] == "/"


def test_a_sandboxed_service_sees_what_is_writable_for_others(host):
    """ProtectSystem=strict mounts everything read-only for the service alone, with the file systems as they were."""
    sandboxed = LINES.replace(" rw,relatime ", " ro,relatime ").replace(" rw,nodev ", " ro,nodev ")
    host.put(MOUNTS, sandboxed.replace(" / rw", " / ro"))
    seen = found(host, runs_dir="/srv/gan/runs", data_dir="/mnt/with blank/data")
    # The filer's export is read-only for everybody.
    assert {use for use, row in seen.items() if row["read_only"]} == {"runs"}
    host.put(MOUNTS, sandboxed.replace("/dev/sda2 rw,attr2", "/dev/sda2 ro,attr2"))
    assert found(host)["system"]["read_only"] and found(host)["state"]["read_only"]
