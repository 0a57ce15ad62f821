"""The gate after events that leave a node fit for work, by gpu-doctor --record and --gate as installed."""

from __future__ import annotations

import os
import re

import pytest
from healthy_kernel import KERNEL_LOG, records
from kernel_records import CORRECTED_RECORDS, KILLED_RECORDS, RESET_RECORDS, SXID, UNMENDED_RECORDS
from test_gpu_doctor import doctor, folder, gated, node  # noqa: F401

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="files of the made-up node must belong to root")
RECORD = ("--level", "quick", "--record", "900")


@pytest.fixture
def logged(folder):  # noqa: F811
    """Let journalctl print the boot's messages and these, from 1000 s after the boot on."""

    def put(text: str) -> None:
        lines = [f"[ {1000 + number}.000000] a5-01 kernel: {line}" for number, line in enumerate(text.split("\n"))]
        (folder / "log").write_text(records(KERNEL_LOG + "\n".join(lines) + "\n"))
        (folder / "bin/journalctl").write_text(f"#!/bin/sh\ncat {folder}/log\n")

    return put


def test_the_gate_stays_open_where_nobody_has_to_act(doctor, node, logged):  # noqa: F811
    """A killed program, a corrected memory error, a reset that worked: PASS or WARN, and a training may start."""
    gated(node)
    for verdict, text in KILLED_RECORDS + CORRECTED_RECORDS + RESET_RECORDS:
        logged(text)
        done = doctor(*RECORD)
        assert (done.returncode, done.stderr) == (0, ""), (text, done.stdout)
        assert f"a5-01: {verdict} (" in done.stdout or f": {verdict} (" in done.stdout.splitlines()[-1], (
            text,
            done.stdout,
        )
        opened = doctor("--gate")
        assert (opened.returncode, opened.stderr) == (0, ""), text
        assert opened.stdout.startswith(f"gpu-doctor: open: verdict {verdict} of "), (text, opened.stdout)


def test_the_gate_closes_where_somebody_has_to_act_and_says_how(doctor, node, logged):  # noqa: F811
    """The same faults unmended: FAIL, and the gate names the check and the command to type, filled in and whole."""
    gated(node)
    for check, command, text in UNMENDED_RECORDS:
        logged(text)
        assert doctor(*RECORD).returncode == 1, text
        closed = doctor("--gate")
        assert (closed.returncode, closed.stdout) == (1, ""), text
        assert f": {check}: " in closed.stderr and command in closed.stderr, closed.stderr


def test_a_driver_that_is_away_comes_first_and_in_few_lines(doctor, node, folder):  # noqa: F811
    """What fails is the first line; the many checks that only wait for the driver are one line."""
    gated(node)
    (folder / "bin/nvidia-smi").write_text("#!/bin/sh\necho 'NVIDIA-SMI has failed: no driver'\nexit 9\n")
    done = doctor(*RECORD)
    lines = done.stdout.splitlines()
    assert done.returncode == 1
    assert lines[0].startswith("FAIL driver.reachable: ") and " -> Run: sudo modprobe nvidia" in lines[0]
    # It, what the GPU's own verdicts say of PyTorch and containers at this level, and the verdict.
    assert len(lines) == 2 and "more because of this: " in lines[0] and "gpu.*" in lines[0], done.stdout


def test_the_way_back_from_a_fatal_switch_error(doctor, node, logged):  # noqa: F811
    """No log tells that a reset of the switches worked: the action's last command opens the gate."""
    gated(node)
    logged(SXID + "20034, Fatal, Link 48 LTSSM Fault Up")
    assert doctor(*RECORD).returncode == 1
    command = re.search(r"gpu-doctor (--acknowledge \S+ --reason) '([^']+)'", doctor("--gate").stderr)
    assert command is not None
    done = doctor(*command.group(1).split(), command.group(2))
    assert (done.returncode, done.stderr) == (0, "") and "gate open: verdict WARN" in done.stdout
    assert doctor(*RECORD).returncode == 0 and doctor("--gate").returncode == 0
    logged(SXID + "20034, Fatal, Link 48 LTSSM Fault Up\n" * 2 + SXID + "20034, Fatal, Link 48 LTSSM Fault Up")
    assert doctor(*RECORD).returncode == 1 and doctor("--gate").returncode == 1


def test_explain_knows_events_and_guesses_what_was_meant(doctor):  # noqa: F811
    """An event's name, copied from a message, explains its check; a typo names the checks that may be meant."""
    done = doctor("--explain", "kernel.xid:48@0000:3b:00")
    assert (done.returncode, done.stderr) == (0, "") and done.stdout.startswith("kernel.xid (system layer)\n")
    done = doctor("--explain", "kernel.xidd")
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr == "gpu-doctor: there is no check 'kernel.xidd': did you mean kernel.xid or kernel.sxid?\n"
    assert doctor("--explain", "driver.uvmm").stderr.endswith(" did you mean driver.uvm?\n")


@pytest.mark.parametrize("file", ["acknowledgements", "strikes"])
def test_a_damaged_file_says_what_to_do(doctor, node, file):  # noqa: F811
    """The sentence ends with a command; typed as it stands, it mends the matter."""
    path = node.folder / f"var/lib/gpuwright/{file}.json"
    path.parent.mkdir(parents=True, exist_ok=True)
    for text in ("{", "[]", '{"schema": 1}'):
        path.write_text(text)
        done = doctor(f"--{file}")
        assert done.returncode == 3 and done.stderr.count("\n") == 1
        command = done.stderr.partition("as root: ")[2].split()
        assert command == ["mv", f"/var/lib/gpuwright/{file}.json", f"/var/lib/gpuwright/{file}.json.damaged"]
        path.rename(node.folder / command[2][1:])
        assert doctor(f"--{file}").returncode == 0
