"""Nothing that a role wants or made changes unnoticed, and what no role asks for is no reason to work through them."""

from __future__ import annotations

import json
import os
import stat
from collections.abc import Callable
from pathlib import Path

import pytest
from gpuwright.first_record import stamp
from gpuwright.first_record.ledger import LEDGER, RECORD
from gpuwright.first_record.stamp import STAMP, keep_stamp, read_stamp
from stamped_node import FILES, LINKS, NAMES, Stamped

Change = Callable[[Stamped], object]


@pytest.fixture
def node(tmp_path: Path) -> Stamped:
    """One run that leaves the node as it is now, and a second one that changes nothing and keeps the stamp."""
    made = Stamped(tmp_path)
    made.begin("run-1")
    made.end("run-1")
    made.begin_wide("run-2")
    assert keep(made) == []
    made.end("run-2")
    assert made.changed() == []
    return made


def keep(node: Stamped, inputs: str = "i") -> list[str]:
    return keep_stamp(inputs, NAMES, str(node.root), node.systemctl)


def write(path: str, text: str) -> Change:
    return lambda node: node.write(path, text)


def unit(name: str, **shown: str) -> Change:
    return lambda node: node.units.update({name: shown})


def link(path: str, target: str) -> Change:
    def change(node: Stamped) -> None:
        node.path(path).unlink()
        node.path(path).symlink_to(target)

    return change


WANTED = [
    "/etc/yum.repos.d/epel.repo", "/etc/pki/rpm-gpg/RPM-GPG-KEY-epel", "/etc/dnf/dnf.conf",
    "/etc/dnf/plugins/versionlock.list", "/etc/modules-load.d/gpuwright-nvidia.conf",
    "/etc/systemd/system/gpuwright-check.timer", "/etc/systemd/system/gpu-job@.service",
    "/etc/profile.d/gpuwright-cuda.sh", "/etc/gpuwright/runtime.json", "/etc/gpuwright/train-gan/default.yml",
    "/etc/docker/daemon.json", "/usr/local/bin/gpu-run", "/usr/local/lib/gpuwright/gpuwright/host/files.py",
    "/opt/gpuwright/venvs/0123/gpuwright.json", "/etc/udev/rules.d/99-scratch.rules",
    "/opt/gpuwright/venvs/0123/lib/python3.11/site-packages/numpy/core.py",
]  # fmt: skip
FOLDERS = [
    "/etc/gpuwright", "/var/lib/gpuwright", "/opt/gpuwright", "/opt/gpuwright/venvs", "/data/site/runs",
    "/usr/local/lib/gpuwright", "/opt/gpuwright/venvs/0123/lib",
]  # fmt: skip
OTHERS: dict[str, tuple[Change, str]] = {
    "a file of nobody among ours": (write("/usr/local/lib/gpuwright/gpuwright/of_nobody.py", ""), "trees"),
    "a repository more": (write("/etc/yum.repos.d/site.repo", "[site]\n"), "files"),
    "no environment is current": (lambda node: node.path("/opt/gpuwright/venvs/current").unlink(), "trees"),
    "another environment is current": (link("/opt/gpuwright/venvs/current", "4567"), "trees"),
    "another toolkit": (link("/usr/local/cuda", "/usr/local/cuda-0.0"), "files"),
    "a program leads elsewhere": (link("/usr/bin/gpu-run", "/bin/true"), "files"),
    "an account gets a shell": (
        write("/etc/passwd", FILES["/etc/passwd"].replace("/sbin/nologin", "/bin/bash")), "accounts"),
    "an account gets a password": (write("/etc/shadow", FILES["/etc/shadow"].replace("!!", "$6$z")), "accounts"),
    "an account ends": (
        write("/etc/shadow", FILES["/etc/shadow"].replace("!!:19000::::", "!!:19000:::::1")), "accounts"),
    "an account is gone": (write("/etc/passwd", "root:x:0:0:root:/root:/bin/bash\n"), "accounts"),
    "a member leaves": (write("/etc/group", FILES["/etc/group"].replace("mine", "")), "accounts"),
    "numbers of its containers": (write("/etc/subuid", "eve:100000:65536\n"), "accounts"),
    "a unit is disabled": (unit("gpuwright-check.timer", UnitFileState="disabled"), "units"),
    "a unit stops": (unit("gpuwright-check.timer", ActiveState="inactive"), "units"),
    "a unit is masked": (unit("gpuwright-boot-check.service", LoadState="masked", UnitFileState="masked"), "units"),
    "a unit of a package is disabled": (unit("nvidia-persistenced.service", UnitFileState="disabled"), "units"),
    "a unit that is a setting stops": (unit("irqbalance.service", ActiveState="inactive"), "units"),
    "a drop-in": (unit("gpuwright-check.timer", DropInPaths="/etc/systemd/system/x.conf"), "units"),
    "a live setting": (write("/proc/sys/vm/swappiness", "60\n"), "settings"),
    "a boolean of SELinux": (write("/sys/fs/selinux/booleans/container_use_devices", "0 0\n"), "settings"),
    "a package": (lambda node: node.install(numactl="2"), "packages"),
    "a folder of the inventory is gone": (lambda node: node.path("/data/site/runs").rename(node.root / "x"), "named"),
    "a folder of the inventory is new": (lambda node: node.path("/srv/gan/data").mkdir(parents=True), "named"),
}  # fmt: skip


@pytest.mark.parametrize("path", WANTED)
def test_content_mode_owner_and_kind_of_every_file(node: Stamped, path: str) -> None:
    file = node.path(path)
    text, before = file.read_text(), file.stat()

    def replaced_by(other: Callable[[], object]) -> None:
        file.unlink()
        other()

    ways: list[Callable[[], object]] = [
        lambda: file.write_text(text + "# somebody was here\n"),
        lambda: file.write_text(""),
        lambda: file.chmod(stat.S_IMODE(before.st_mode) ^ 0o022),
        file.unlink,
        lambda: replaced_by(lambda: file.symlink_to("/dev/null")),
        lambda: replaced_by(file.mkdir),
    ]
    if os.geteuid() == 0:
        ways.append(lambda: node.chown(path))
    for number, way in enumerate(ways):
        if text or number != 1:
            way()
            assert node.changed(), (path, number)
        if file.is_dir():
            file.rmdir()
        file.unlink(missing_ok=True)
        file.write_text(text)
        file.chmod(stat.S_IMODE(before.st_mode))
        os.chown(file, before.st_uid, before.st_gid)
        # A tree is compared by times, too, so what was put back by hand is another file.
        assert set(node.changed()) <= {"trees"}, (path, number)


@pytest.mark.parametrize("path", FOLDERS)
def test_mode_and_owner_of_every_folder(node: Stamped, path: str) -> None:
    before = node.path(path).stat()
    node.path(path).chmod(0o777)
    assert node.changed()
    node.path(path).chmod(stat.S_IMODE(before.st_mode))
    assert node.changed() == []
    if os.geteuid() == 0:
        node.chown(path)
        assert node.changed()
        os.chown(node.path(path), before.st_uid, before.st_gid)
        assert node.changed() == []


@pytest.mark.skipif(os.geteuid() != 0, reason="only root gives files away")
@pytest.mark.parametrize("path", list(LINKS))
def test_the_owner_of_a_link(node: Stamped, path: str) -> None:
    node.chown(path)
    assert node.changed()


@pytest.mark.parametrize("what", list(OTHERS))
def test_what_else_changes(node: Stamped, what: str) -> None:
    change, part = OTHERS[what]
    change(node)
    assert part in node.changed(), what


@pytest.mark.parametrize(
    "change",
    [
        write("/etc/site.conf", "x"),
        write("/etc/sysctl.d/99-site.conf", "x"),
        write("/etc/systemd/system/site.service", "x"),
        write("/etc/yum.repos.d/README", "x"),
        write("/srv/site/file", "x"),
        write("/var/lib/lastlog", "x"),
        write("/boot/grub2/grubenv", "boot_success=0\n"),
        write("/etc/passwd", FILES["/etc/passwd"] + "new:x:1002:1002::/home/new:/bin/bash\n"),
        write("/etc/shadow", FILES["/etc/shadow"].replace("$6$y", "$6$another")),
        write("/etc/subuid", FILES["/etc/subuid"] + "new:300000:65536\n"),
        write("/var/lib/systemd/linger/eve", ""),
        write("/data/site/runs/another", "x"),
        write("/usr/local/lib/gpuwright/gpuwright/__pycache__/files.cpython-36.pyc", "x"),
        unit("somebodys.service", ActiveState="failed"),
        # A check that a timer starts comes and goes.
        lambda node: None,
    ],
)
def test_what_no_role_asks_for_is_no_reason(node: Stamped, change: Change) -> None:
    change(node)
    assert node.changed() == []


def test_a_service_that_runs_once_and_ends_comes_and_goes(tmp_path: Path) -> None:
    node = Stamped(tmp_path)
    node.begin("run-1")
    node.end("run-1")
    node.units["gpuwright-boot-check.service"] = {"Type": "oneshot", "ActiveState": "activating"}
    node.begin_wide("run-2")
    assert keep(node) == []
    node.units["gpuwright-boot-check.service"]["ActiveState"] = "inactive"
    assert node.changed() == []
    node.units["gpuwright-boot-check.service"].update(RemainAfterExit="yes")
    assert node.changed() == ["units"]


def test_a_run_that_changed_something_keeps_none(node: Stamped) -> None:
    node.begin_wide("run-3")
    node.write("/etc/gpuwright/runtime.json", '{"x": 1}')
    assert keep(node) == ["files"]
    # What an earlier run has kept is true of the node as it was then.
    assert node.changed() == ["files"]


def test_what_others_do_meanwhile_and_no_role_asks_for(node: Stamped) -> None:
    node.begin_wide("run-3")
    node.write("/etc/somebody.conf", "x")
    assert keep(node, "other") == [] and read_stamp(str(node.root), node.systemctl)["inputs"] == "other"


def test_a_run_that_did_not_look_before_keeps_none(node: Stamped) -> None:
    """As the first run, which makes the record, and a verification by itself."""
    node.begin("run-3")
    assert keep(node) != []


WHOLE = {"schema": 1, "inputs": "i", "names": [], "parts": {}}
CHANGES: tuple[dict[str, object], ...] = ({"schema": 2}, {"names": 7}, {"parts": []})
DAMAGED = [json.dumps({**WHOLE, **change}) for change in CHANGES]


@pytest.mark.parametrize("text", ["", "{", "[]", "[" * 9000, "\0", *DAMAGED])
def test_a_damaged_stamp_is_none_and_never_the_way_back(node: Stamped, text: str) -> None:
    node.write(STAMP, text)
    before = [node.path(path).read_bytes() for path in (RECORD, LEDGER)]
    assert read_stamp(str(node.root), node.systemctl) == {}
    node.begin_wide("run-3")
    assert keep(node) == [] and node.changed() == []
    assert node.path(RECORD).read_bytes() == before[0]


def test_a_stamp_without_a_part_is_not_that_of_this_node(node: Stamped) -> None:
    record = json.loads(node.path(STAMP).read_text())
    del record["parts"]["units"]
    node.write(STAMP, json.dumps(record))
    assert node.changed() == ["units"]


def test_what_cannot_be_looked_at_has_changed(node: Stamped) -> None:
    broken = lambda command, seconds: node.systemctl(command, seconds)._replace(rc=1, stderr="no bus")  # noqa: E731
    assert read_stamp(str(node.root), broken)["changed"] == ["units"]


def test_only_root_reads_it_and_no_password_is_in_it(node: Stamped) -> None:
    assert stat.S_IMODE(node.path(STAMP).stat().st_mode) == 0o600
    assert "$6$" not in node.path(STAMP).read_text() + node.path(LEDGER).read_text()


def test_a_node_without_one(tmp_path: Path) -> None:
    assert read_stamp(str(tmp_path)) == {}


@pytest.mark.parametrize("verdict", ["FAIL", "UNKNOWN", ""])
def test_a_node_that_does_not_pass_gets_none(monkeypatch: pytest.MonkeyPatch, verdict: str) -> None:
    monkeypatch.setattr(stamp, "keep_stamp", lambda *asked: pytest.fail("kept"))
    assert stamp.record_stamp({"inputs": "i", "names": []}, verdict) == ""
    assert stamp.record_stamp({}, "PASS") == ""


def test_a_stamp_that_cannot_be_written_is_a_warning(monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*asked: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(stamp, "keep_stamp", full)
    assert "not noted down" in stamp.record_stamp({"inputs": "i", "names": []}, "PASS")


def test_what_earlier_versions_kept_goes_with_the_first_stamp(tmp_path: Path) -> None:
    node = Stamped(tmp_path)
    node.write(stamp.EARLIER, "{}")
    node.begin("run-1")
    node.end("run-1")
    node.begin_wide("run-2")
    assert node.path(stamp.EARLIER).exists() and keep(node) == [] and not node.path(stamp.EARLIER).exists()


def test_what_could_not_be_looked_at_before_nor_after_leaves_no_stamp(node: Stamped) -> None:
    """The same reason twice is not the same state."""
    asked = node.systemctl
    node.systemctl = lambda command, seconds: asked(command, seconds)._replace(rc=1, stderr="no bus")  # type: ignore[method-assign]  # one node
    node.begin_wide("run-3")
    assert keep(node) == ["units"]
