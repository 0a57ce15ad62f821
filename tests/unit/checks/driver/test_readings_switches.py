"""What nvlsm and IMEX say of themselves, read only where the board of the node needs them."""

from __future__ import annotations

import pytest
from gpuwright.checks.driver.switches import NVLSM_PROGRAM, read_imex, read_nvlsm
from gpuwright.verdict.reader import Seen
from healthy_driver import board
from host_tree import HostTree


def seen(root: str, *needs: str) -> Seen:
    return Seen(root, {}, {"platform": board("a-board", *needs)}, {})


@pytest.mark.parametrize(
    ("process", "program", "found"),
    [
        ("nvlsm", True, {"installed": True, "running": True}),
        ("nv-fabricmanage", True, {"installed": True, "running": False}),
        ("bash", False, {"installed": False, "running": False}),
    ],
)
def test_the_subnet_manager_is_a_process_and_a_program(tmp_path, process, program, found):
    tree = HostTree(tmp_path)
    tree.process(1, "systemd")
    tree.process(4711, process)
    if program:
        tree.put(NVLSM_PROGRAM, "x")
    assert read_nvlsm(seen(tree.root, "fabric_manager", "nvlsm")) == found


def test_processes_that_are_hidden_are_not_no_process(tmp_path, monkeypatch):
    monkeypatch.setattr("gpuwright.checks.driver.switches.why_hidden", lambda root: "hidepid=2")
    with pytest.raises(OSError, match="hidepid=2"):
        read_nvlsm(seen(HostTree(tmp_path).root, "nvlsm"))


@pytest.mark.parametrize(
    "record", [{}, {"platform": None}, {"platform": board("x", "fabric_manager")}, {"unreadable": "x"}]
)
def test_nobody_is_asked_on_another_board(tmp_path, record):
    nobody = Seen(str(tmp_path), {}, record, {})
    assert read_nvlsm(nobody) is None and read_imex(nobody) is None


@pytest.mark.parametrize(
    ("program", "version"),
    [("echo 'IMEX version is: 580.95.05'", "580.95.05"), (None, None)],
)
def test_imex_tells_its_state_and_its_version(tmp_path, fake_bin, monkeypatch, program, version):
    folder = fake_bin("systemctl", "#!/bin/sh\necho inactive; exit 3\n").parent
    if program:
        fake_bin("nvidia-imex", f"#!/bin/sh\n{program}\n")
    monkeypatch.setenv("PATH", f"{folder}:/usr/bin:/bin")
    assert read_imex(seen(str(tmp_path), "imex")) == {"state": "inactive", "version": version}


def test_an_answer_of_imex_without_a_version_is_unreadable(tmp_path, fake_bin, monkeypatch):
    folder = fake_bin("systemctl", "#!/bin/sh\necho active\n").parent
    fake_bin("nvidia-imex", "#!/bin/sh\necho segmentation fault\n")
    monkeypatch.setenv("PATH", f"{folder}:/usr/bin:/bin")
    with pytest.raises(OSError, match="segmentation fault"):
        read_imex(seen(str(tmp_path), "imex"))
