"""The last smoke test holds while all that it depends on is as it was, and it is young: each thing alone ends that."""

from __future__ import annotations

import copy
import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from conftest import REPOSITORY
from gpuwright.first_record import depends, tested
from gpuwright.first_record.depends import look_at_all
from gpuwright.first_record.tested import begin_test, keep_parts, passed, still_holds
from gpuwright.gpu.nvidia_smi.query import record_of
from gpuwright.host.bounded import Finished
from stamped_node import FILES, NAMES, Stamped

XML = (REPOSITORY / "tests/unit/data/nvidia_smi/580-v100.xml").read_text()
UNIT = "/etc/systemd/system/train-gan@.service"
OPTIONS: dict[str, Any] = {
    "python": "/opt/gpuwright/venvs/current/bin/python", "launcher": "/usr/local/bin/gpu-run", "user": "trainer",
    "device": "cuda", "steps": 20, "timeout": 600.0, "unit": UNIT, "agents": [], "hours": 24.0, "names": NAMES,
}  # fmt: skip
LOG = {"xids": [], "sxids": [], "findings": [], "whole": True, "lines": 7, "from_boot": True, "source": "journal"}
EVENT = {"pci_id": "0000:3b:00", "count": 1, "first_s": 5, "last_s": 5, "text": "words", "closed_by": ""}
BOOT_ID, UPTIME = "/proc/sys/kernel/random/boot_id", "/proc/uptime"
SYSTEM = {
    BOOT_ID: "1111\n",
    UPTIME: "1000.00 4000.00\n",
    "/proc/sys/kernel/osrelease": "4.18.0-553.el8.x86_64\n",
    "/proc/modules": "nvidia 56823808 3 nvidia_uvm, Live 0xffffffffc0a00000 (POE)\next4 7 0 - Live 0xc0000000\n",
    "/proc/driver/nvidia/version": "NVRM version: 580.95.05\n",
    "/proc/driver/nvidia/params": "EnableGpuFirmware: 18\n",
    "/sys/module/nvidia/version": "580.95.05\n",
    "/sys/module/nvidia/srcversion": "ABCD\n",
    "/sys/bus/pci/devices/0000:3b:00.0/vendor": "0x10de\n",
    "/etc/ld.so.cache": "libcudnn\n",
    UNIT: "[Service]\nUser=trainer\nExecStart=/usr/local/bin/gpu-run\nProtectSystem=strict\n",
    f"{UNIT}.d/site.conf": "[Service]\nLimitNOFILE=4096\n",
    "/usr/lib64/libjemalloc.so.2": "a library\n",
}
THEN, NOW = "2026-01-05T10:00:00Z", "2026-01-05T11:00:00Z"


class Tried(Stamped):
    """A node on which a test has passed an hour ago; a test changes one thing of it."""

    def __init__(self, root: Path) -> None:
        super().__init__(root)
        for path, text in SYSTEM.items():
            self.write(path, text)
        self.xml, self.log, self.options, self.holders = XML, copy.deepcopy(LOG), dict(OPTIONS), "InvocationID=1\n"
        self.drop_ins, self.slices = "DropInPaths=\n", "GPU 0: A100\n  MIG 3g.20gb Device 0: (UUID: MIG-1)\n"
        checks = [{"id": "smoke.amp", "status": "PASS"}, {"id": "smoke.parallel", "status": "SKIP"}]
        report: dict[str, Any] = {
            "time": THEN,
            "checks": checks,
            "smoke": {"tested_at": THEN, "devices": [], "problems": []},
        }
        parts = self.parts()
        assert parts
        keep_parts(report, parts, self.parts(), str(root))
        self.report = report
        self.pass_time(3600)

    def pass_time(self, seconds: float) -> None:
        self.write(UPTIME, f"{1000 + seconds} 1.00\n")

    def asked(self, command: Any, seconds: float) -> Finished:
        if "Id,InvocationID,ActiveEnterTimestampMonotonic" in command:
            return Finished(0, self.holders, "", False, False, False, "")
        if "train-gan@gpuwright-smoke.service" in command:
            return Finished(0, self.drop_ins, "", False, False, False, "")
        if command == ["nvidia-smi", "-L"]:
            return Finished(0, self.slices, "", False, False, False, "")
        return self.systemctl(command, seconds)

    def parts(self) -> dict[str, str]:
        smi = record_of(Finished(0, self.xml, "", False, False, False, ""))
        return look_at_all(self.options, str(self.root), self.asked, lambda: smi, lambda root: self.log)

    def holds(self, now: str = NOW, hours: float = 24.0) -> bool:
        self.write("/var/lib/gpuwright/report.json", json.dumps(self.report))
        return still_holds(self.parts(), hours, root=str(self.root), now=now) is not None


@pytest.fixture
def node(tmp_path: Path) -> Tried:
    return Tried(tmp_path)


Change = Callable[[Tried], object]


def write(path: str, text: str) -> Change:
    return lambda node: node.write(path, text)


def option(**changes: Any) -> Change:
    return lambda node: node.options.update(changes)


def smi(before: str, after: str) -> Change:
    assert before in XML, before

    def change(node: Tried) -> None:
        node.xml = node.xml.replace(before, after)

    return change


def loaded_again(node: Tried) -> None:
    """As sysfs does: another folder of that name, while the first one is still held by the test."""
    folder = node.path("/sys/module/nvidia")
    folder.rename(folder.with_name("held"))
    folder.mkdir()
    for name in ("version", "srcversion"):
        (folder / name).write_text((folder.with_name("held") / name).read_text())


def found_again(node: Tried) -> None:
    folder = node.path("/sys/bus/pci/devices/0000:3b:00.0")
    folder.rename(folder.with_name("held"))
    folder.mkdir()


def switch(node: Tried) -> None:
    link = node.path("/opt/gpuwright/venvs/current")
    link.unlink()
    link.symlink_to("4567")


def set_to(name: str, value: Any) -> Change:
    return lambda node: setattr(node, name, value)


ENVIRONMENT = "/opt/gpuwright/venvs/0123/lib/python3.11/site-packages"
# Whatever line 8 of the promise names (docs/parts/smoke-test.md), by its words.
CHANGES: dict[str, Change] = {
    "boot": write(BOOT_ID, "2222\n"),
    "kernel": write("/proc/sys/kernel/osrelease", "4.18.0-600.el8.x86_64\n"),
    "module loaded again": loaded_again,
    "module at another place": write("/proc/modules", "nvidia 56823808 3 nvidia_uvm, Live 0xffffffffc1b00000 (POE)\n"),
    "another module": write("/sys/module/nvidia/srcversion", "EFGH\n"),
    "module not loaded": lambda node: node.path("/sys/module/nvidia").rename(node.root / "gone"),
    "parameters of the module": write("/proc/driver/nvidia/params", "EnableGpuFirmware: 0\n"),
    "reset: the cards' holder began again": set_to("holders", "InvocationID=2\n"),
    "reset: the card was found again": found_again,
    "reset: counters begin again": smi("<total>0</total>", "<total>2</total>"),
    "driver": write("/proc/driver/nvidia/version", "NVRM version: 580.82.07\n"),
    "package": lambda node: node.install(glibc="2.28-252"),
    "loader": write("/etc/ld.so.cache", "libcudnn libothers\n"),
    "preloaded everywhere": write("/etc/ld.so.preload", "/usr/lib64/libsite.so\n"),
    "cuDNN": write("/opt/gpuwright/cudnn/9.10.2/lib/libcudnn.so.9", "cudnn\n"),
    "environment": write(f"{ENVIRONMENT}/numpy/core.py", "x = 2\n"),
    "trainer": write(f"{ENVIRONMENT}/gan_trainer/smoke.py", "x = 2\n"),
    "another environment": switch,
    "unit": write(UNIT, SYSTEM[UNIT].replace("strict", "full")),
    "drop-in of the unit": write(f"{UNIT}.d/site.conf", "[Service]\nLimitNOFILE=1024\n"),
    "a drop-in more": write(f"{UNIT}.d/zz.conf", "[Service]\nPrivateDevices=yes\n"),
    "a drop-in elsewhere": set_to("drop_ins", "DropInPaths=/run/systemd/system/service.d/x.conf\n"),
    "no unit": lambda node: node.path(UNIT).unlink(),
    "account": write("/etc/passwd", FILES["/etc/passwd"].replace("/var/lib/x", "/home/x")),
    "groups of the account": write("/etc/group", FILES["/etc/group"].replace("wheel:x:10:", "wheel:x:10:trainer")),
    "launcher": write("/usr/local/bin/gpu-run", "#!/bin/bash\n"),
    "launcher's library": write("/usr/local/lib/gpuwright/gpuwright/host/files.py", "x = 2\n"),
    "launcher's policy": write("/etc/gpuwright/runtime.json", '{"allocator": "jemalloc"}\n'),
    "calibration": write("/etc/gpuwright/runtime-calibrated.json", '{"allocator": "jemalloc"}\n'),
    "verify_smoke_device": option(device="cpu"),
    "verify_smoke_steps": option(steps=21),
    "verify_smoke_timeout": option(timeout=601.0),
    "system_training_user": option(user="mine"),
    "power limit": smi("<current_power_limit>250.00 W<", "<current_power_limit>200.00 W<"),
    "ECC": smi("<current_ecc>Enabled<", "<current_ecc>Disabled<"),
    "ECC at the next boot": smi("<pending_ecc>Enabled<", "<pending_ecc>Disabled<"),
    "MIG": smi("<current_mig>N/A<", "<current_mig>Enabled<"),
    "persistence": smi("<persistence_mode>Enabled<", "<persistence_mode>Disabled<"),
    "a live setting": write("/proc/sys/vm/swappiness", "60\n"),
    "an Xid": lambda node: node.log.update(xids=[{**EVENT, "code": 31}]),
    "an SXid": lambda node: node.log.update(sxids=[{**EVENT, "code": 20034}]),
    "a finding": lambda node: node.log.update(findings=[{**EVENT, "kind": "aer"}]),
    "the log is not whole": lambda node: node.log.update(whole=False),
}  # fmt: skip


def test_the_last_test_holds_while_nothing_changes(node: Tried) -> None:
    assert node.holds()
    # More was said in the log, and somebody else's program watches cards: no finding, nothing that a test uses.
    node.log.update(lines=99)
    node.options.update(agents=["dcgm"], hours=1.5)
    node.write("/etc/motd", "hello\n")
    assert node.holds()


@pytest.mark.parametrize("what", list(CHANGES))
def test_each_thing_alone_lets_a_test_run(node: Tried, what: str) -> None:
    CHANGES[what](node)
    assert not node.holds(), what


@pytest.mark.parametrize(
    ("now", "up_s", "hours", "holds"),
    [
        (NOW, 3600, 24, True),
        (NOW, 3600, 0, False),
        (NOW, 3600, 1, False),
        (NOW, 3600, 1.1, True),
        ("2026-01-06T09:59:59Z", 86399, 24, True),
        ("2026-01-06T10:00:00Z", 86399, 24, False),
        # The clock was set back: before the test, and to some moment after it.
        ("2026-01-05T09:59:59Z", 3600, 24, False),
        (THEN, 3600, 24, False),
        ("2026-01-05T10:30:00Z", 3600, 24, False),
        ("2026-01-05T10:30:00Z", 90000, 24, False),
        # As far as NTP slews it, and set forward: then it is older, not younger.
        ("2026-01-05T10:59:00Z", 3600, 24, True),
        ("2026-01-06T09:00:00Z", 3600, 24, True),
        # An uptime from before the test is of no boot that it could have run in.
        (NOW, -1, 24, False),
    ],
)
def test_the_age_by_clock_and_uptime(node: Tried, now: str, up_s: float, hours: float, holds: bool) -> None:
    node.pass_time(up_s)
    assert node.holds(now, hours) is holds


@pytest.mark.parametrize(
    ("smoke", "checks"),
    [
        ({"busy": "alice"}, {}),
        ({"check_mode": True}, {}),
        ({"problems": ["no step"]}, {}),
        ({"tested_at": None}, {}),
        ({"depends_on": None}, {}),
        ({"depends_on": {"parts": {}}}, {}),
        ({}, {"smoke.amp": "FAIL"}),
        ({}, {"smoke.amp": "SKIP"}),
        ({}, {"smoke.amp": "WARN"}),
        ({}, {"smoke.compile": "UNKNOWN"}),
        ({}, {"smoke.parallel": "FAIL"}),
    ],
)
def test_a_test_that_did_not_really_run_and_pass(node: Tried, smoke: dict[str, Any], checks: dict[str, str]) -> None:
    others = [row for row in node.report["checks"] if row["id"] not in checks]
    node.report["checks"] = others + [{"id": name, "status": status} for name, status in checks.items()]
    node.report["smoke"].update(smoke)
    assert not node.holds()


@pytest.mark.parametrize("report", ["", "{}", "[]", '{"smoke": null, "checks": []}', '{"smoke": {}}'])
def test_no_report_or_a_damaged_one(node: Tried, report: str) -> None:
    node.write("/var/lib/gpuwright/report.json", report)
    assert still_holds(node.parts(), 24, root=str(node.root), now=NOW) is None


def test_an_accepted_or_switched_off_check_is_no_pass() -> None:
    amp: dict[str, Any] = {"id": "smoke.amp", "status": "PASS"}
    report: dict[str, Any] = {"smoke": {"devices": []}, "checks": [amp]}
    assert passed(report)
    for row in ({**amp, "waived": {"by": "inventory"}}, {**amp, "id": "gpu.count"}):
        assert not passed({**report, "checks": [row]})


@pytest.mark.parametrize("broken", ["smi", "log", "boot"])
def test_what_cannot_be_read_holds_nothing(node: Tried, broken: str) -> None:
    if broken == "smi":
        node.xml = "NVIDIA-SMI has failed"
    elif broken == "boot":
        node.path(BOOT_ID).unlink()
    else:
        node.log = {}
    assert node.parts() == {} and not node.holds()


def test_a_container_that_sees_no_log_still_has_a_state(node: Tried) -> None:
    node.log = None  # type: ignore[assignment]
    assert node.parts()


def test_what_changes_while_it_runs_is_not_known_to_be_tested(node: Tried) -> None:
    """But for modules, which the test itself loads: they are as they were at its end."""
    bare = {"smoke": {"devices": []}, "checks": [{"id": "smoke.amp", "status": "PASS"}]}
    before = node.parts()
    node.write("/sys/module/nvidia_uvm/version", "580.95.05\n")
    after = node.parts()
    report: dict[str, Any] = copy.deepcopy(bare)
    keep_parts(report, before, after, str(node.root))
    assert report["smoke"]["depends_on"]["parts"] == after != before
    for name in sorted(set(after) - {"modules"}):
        report = copy.deepcopy(bare)
        keep_parts(report, {**after, name: "other"}, after, str(node.root))
        assert "depends_on" not in report["smoke"], name
    report = {**copy.deepcopy(bare), "checks": [{"id": "smoke.amp", "status": "FAIL"}]}
    keep_parts(report, after, after, str(node.root))
    assert "depends_on" not in report["smoke"]


@pytest.mark.parametrize(("hours", "holds", "begun"), [(24.0, True, False), (24.0, False, True), (0.0, True, True)])
def test_a_test_begins_unless_the_last_one_holds(
    monkeypatch: pytest.MonkeyPatch, hours: float, holds: bool, begun: bool
) -> None:
    known = {"devices": [], "tested_at": THEN}
    monkeypatch.setattr(depends, "look_at_all", lambda options: {"boot": "1"})
    monkeypatch.setattr(tested, "still_holds", lambda parts, hours: known if parts and holds else None)
    training: Any = object()
    monkeypatch.setattr(tested, "start_beside", lambda options: (training, ""))
    test = begin_test({**OPTIONS, "hours": hours})
    assert (test.training is training, test.known) == (begun, None if begun else known)
    monkeypatch.setattr(tested, "start_beside", lambda options: (None, "alice"))
    assert begin_test({**OPTIONS, "hours": 0}).known == {"busy": "alice"}
    assert begin_test(None) == tested.Test(None)


def test_the_time_of_the_test_is_never_renewed(node: Tried) -> None:
    """A run that takes it over leaves it in its report as it was, so that the next one counts from the test itself."""
    for hour in (1, 2, 23):
        node.pass_time(hour * 3600)
        now = f"2026-01-0{5 + (10 + hour) // 24}T{(10 + hour) % 24:02}:00:00Z"
        node.write("/var/lib/gpuwright/report.json", json.dumps(node.report))
        smoke = still_holds(node.parts(), 24, root=str(node.root), now=now)
        assert smoke and (smoke["tested_at"], smoke["age_s"]) == (THEN, hour * 3600)
        node.report.update(time=now, smoke=smoke)
    node.pass_time(24 * 3600)
    assert not node.holds("2026-01-06T10:00:00Z")


def test_it_is_read_as_it_is_on_this_machine() -> None:
    """The real programs answer in some way, and twice the same."""
    options = {**OPTIONS, "device": "cpu", "unit": "", "user": "root", "names": []}
    if os.geteuid() == 0:
        assert look_at_all(options) == look_at_all(options)


def test_a_card_that_is_cut_otherwise_is_tested_again(node: Tried) -> None:
    """Its mode and its counters are the same."""
    smi("<current_mig>N/A<", "<current_mig>Enabled<")(node)
    before = node.parts()
    node.slices = node.slices.replace("3g.20gb", "1g.5gb")
    assert before and before["cards"] != node.parts()["cards"]


@pytest.mark.parametrize("name", ["holders", "drop_ins"])
def test_what_systemd_does_not_answer_is_not_the_same_twice(node: Tried, name: str) -> None:
    asked = node.asked

    def silent(command: Any, seconds: float) -> Finished:
        done = asked(command, seconds)
        return Finished(1, "", "no bus", False, False, False, "") if done.stdout == getattr(node, name) else done

    node.asked = silent  # type: ignore[method-assign]  # one node, one answer
    assert node.parts() == {}
