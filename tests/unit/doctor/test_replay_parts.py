"""gpu-doctor --replay judges all of a file, or names what it leaves out: every part, every machine, the newest boot."""

from __future__ import annotations

import gzip
import io
import json
import re
import tarfile
import time
from pathlib import Path

import node_names
import pytest
import smi_forms
from gpuwright.doctor.replay import given_file
from gpuwright.doctor.replay import judge_files as replay
from gpuwright.verdict.check import FAIL, PASS, UNKNOWN

XML = (node_names.DATA / "nvidia_smi/580-v100.xml").read_text()
BANNER = "Linux version 5.14.0-427.el9.x86_64 (mockbuild@x86-vm) (gcc (GCC) 11.4.1) #1 SMP PREEMPT_DYNAMIC"
XID_79 = "NVRM: Xid (PCI:0000:5e:00): 79, pid=1234, name=python, GPU has fallen off the bus."
LOADED = "NVRM: loading NVIDIA UNIX x86_64 Kernel Module  580.95.05"
GOOD_LOG = f"[    0.000000] {BANNER}\n[    5.500001] {LOADED}\n"
BAD_LOG = f"{GOOD_LOG}[   99.000001] {XID_79}\n"
LOST = (
    "Unable to determine the device handle for GPU0000:86:00.0: GPU is lost.  Reboot the system to recover this GPU\n"
)
QUERY = f"""\
==============NVSMI LOG==============

Timestamp                                 : Mon Jan  5 10:00:00 2026
Driver Version                            : 580.95.05

Attached GPUs                             : 1
GPU 00000000:3B:00.0
    Product Name                          : Tesla V100-PCIE-16GB
    ECC Errors
        DRAM Uncorrectable                : {12}
    GPU Recovery Action                   : Reset
"""
TABLE = """\
Mon Jan  5 10:00:00 2026
+-----------------------------------------------------------------------------------------+
| NVIDIA-SMI 580.95.05              Driver Version: 580.95.05      CUDA Version: 13.0     |
|-----------------------------------------+------------------------+----------------------+
|   0  Tesla V100-PCIE-16GB           On  |   00000000:3B:00.0 Off |                    2 |
+-----------------------------------------+------------------------+----------------------+
"""
CSV = "index, name, ecc.errors.uncorrected.volatile.total\n0, Tesla V100-PCIE-16GB, 12\n"


def replayed(path: Path, text: str | bytes) -> tuple[int, list[dict], str]:
    """(exit status, records, what is printed) of a file with this text."""
    file = path / "capture.txt"
    file.write_bytes(text if isinstance(text, bytes) else text.encode())
    found = replay.results_of(str(file), str(file))
    shown = "\n".join(line for result in found for line in replay.lines_of(result))
    return replay.exit_status_of(found), found, shown


def failing(found: list[dict]) -> set[str]:
    return {check["id"] for result in found for check in result["checks"] if check["status"] == FAIL}


TWO_PARTS: dict[str, tuple[str | bytes, str]] = {
    "answer, then log": (XML + BAD_LOG, "kernel.gpu_lost"),
    "log, then answer": (BAD_LOG + XML, "kernel.gpu_lost"),
    "commands and fences": (f"$ nvidia-smi -q -x\n```\n{XML}```\n\n# dmesg\n```\n{BAD_LOG}```\n", "kernel.gpu_lost"),
    "a log between two answers": (XML + BAD_LOG + XML, "kernel.gpu_lost"),
    "few lines of the kernel among many": (XML + "a line\n" * 40 + f"[   99.000001] {XID_79}\n", "kernel.gpu_lost"),
    "a cut answer, then log": (XML[:3000].rpartition("\n")[0] + "\n" + BAD_LOG, "kernel.gpu_lost"),
    "a sentence, then another card's answer": (LOST + XML, "driver.reachable"),
    "another card's answer, then a sentence": (XML + LOST, "driver.reachable"),
    "a log, then a sentence": (GOOD_LOG + "No devices were found\n", "driver.reachable"),
    "a sentence far behind": (XML + "a line\n" * 30 + LOST, "driver.reachable"),
    "a good answer, then a bad one": (XML + XML.replace("<current_ecc>Enabled", "<current_ecc>Disabled"), "driver.ecc"),
    "a log indented as a whole": (f"{XML}The log:\n\n    " + BAD_LOG.replace("\n", "\n    "), "kernel.gpu_lost"),
    "a log in a text of Windows": ((XML + BAD_LOG).replace("\n", "\r\n").encode("utf-16"), "kernel.gpu_lost"),
    "a log behind a block of null bytes": (bytes(4096) + BAD_LOG.encode(), "kernel.gpu_lost"),
    "the text form, then a log": (QUERY + GOOD_LOG, "gpu.recovery_action"),
    "a log, then the text form": (GOOD_LOG + QUERY, "gpu.recovery_action"),
    "a table of columns, then a log": (CSV + GOOD_LOG, "driver.ecc"),
    "an answer, then the table": (XML + TABLE, "driver.ecc"),
    "lines picked without time": (XML + XID_79 + "\n", "kernel.gpu_lost"),
}  # fmt: skip


@pytest.mark.parametrize("name", sorted(TWO_PARTS))
def test_every_part_of_a_file_is_judged(tmp_path, name):
    text, check = TWO_PARTS[name]
    status, found, shown = replayed(tmp_path, text)
    assert status == 1 and check in failing(found), shown


KNOWN = {
    "rows": ("00000000:3B:00.0, 12, 34\n", "CSV of nvidia-smi without its first line"),
    "links": ("GPU 0: Tesla V100 (UUID: GPU-1)\n\t Link 0: Replay Errors: 70000\n", "nvidia-smi nvlink"),
    "dcgmi": ("Successfully ran diagnostic for group.\n| Software | Fail |\n", "dcgmi"),
    "events": ("   1 | 01/05/26 | 10:00:00 | Memory #0x12 | Uncorrectable ECC | Asserted\n", "the server's event log"),
    "container": (f"2026-01-05T10:00:00.123456789Z stderr F x {XID_79}\n", "in no form of a log that is known"),
}


@pytest.mark.parametrize("name", sorted(KNOWN))
@pytest.mark.parametrize("healthy", ["log", "answer"])
@pytest.mark.parametrize("first", [True, False])
def test_what_is_known_and_not_judged_is_named_and_unknown_at_best(tmp_path, name, healthy, first):
    """The shape of nvidia-bug-report.log: a healthy part, and one that tells of a card's health and is not read."""
    part, words = KNOWN[name]
    good = GOOD_LOG if healthy == "log" else XML
    status, found, shown = replayed(tmp_path, part + "\n" + good if first else good + "\n" + part)
    assert status == 3 and words in shown, shown
    assert {result["verdict"] for result in found} == {PASS, UNKNOWN}


def test_what_is_in_no_known_form_is_named_with_its_size(tmp_path):
    status, found, shown = replayed(tmp_path, GOOD_LOG + "Some remark\nand more\n" + XML)
    assert status == 0 and "2 lines in no known form, the first: Some remark" in shown
    assert found[0]["left_out"] == ["2 lines in no known form, the first: Some remark"]


@pytest.mark.parametrize(
    "text",
    [
        f"$ dmesg\n{GOOD_LOG}",
        f"[root@a5-01 ~]# dmesg -T | grep -i xid\n{GOOD_LOG}[root@a5-01 ~]# \n",
        f"user@host:~$ sudo dmesg\n{GOOD_LOG}user@host:~$\n",
        f"```\n{GOOD_LOG}```\n",
        f"-- Logs begin at Mon 2026-01-05 10:00:00 CET, end at Mon 2026-01-05 11:00:00 CET. --\n{GOOD_LOG}",
        f"Script started on Mon Jan  5\n{GOOD_LOG}\n-----------------\n",
        f"# nvidia-smi -q -x\n{XML}",
    ],
)
def test_a_prompt_or_a_fence_is_no_part(tmp_path, text):
    status, found, shown = replayed(tmp_path, text)
    assert (status, len(found), found[0]["left_out"]) == (0, 1, []), shown


@pytest.mark.parametrize(
    "line",
    [
        "a@" + "a" * 300_000,
        "a, " * 100_000,
        "[root@a " + "b " * 100_000,
        "=" * 300_000,
        "[    1.0] x\n" + "NVRM: y\n" * 40_000,
        "[    1.0] x\n[    9.0] y\n" * 15_000,
        "<nvidia_smi_log" * 3_000,
        "level " * 50_000,
        "NVRM: Xid\n" * 30_000,
    ],
)
def test_no_text_makes_it_slow(tmp_path, line):
    begin = time.process_time()
    replayed(tmp_path, GOOD_LOG + line + "\n" + GOOD_LOG)
    assert time.process_time() - begin < 10


# -- what is not read to its end


def test_a_file_that_is_cut_is_unknown_whatever_its_first_part_says(tmp_path):
    packed = gzip.compress(XML.encode() + b"\n" * 200_000)
    status, found, _shown = replayed(tmp_path, packed[:-30])
    assert (status, found[0]["verdict"]) == (3, UNKNOWN) and "not read to its end" in found[0]["problem"]
    status, found, _shown = replayed(tmp_path, gzip.compress(GOOD_LOG.encode()) + BAD_LOG.encode())
    assert status == 3, found


def test_an_archive_says_that_it_is_to_be_unpacked(tmp_path):
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w") as archive:
        member = tarfile.TarInfo("logs/kern.log")
        member.size = len(BAD_LOG)
        archive.addfile(member, io.BytesIO(BAD_LOG.encode()))
    for data in (buffer.getvalue(), gzip.compress(buffer.getvalue())):
        status, found, _shown = replayed(tmp_path, data)
        assert status == 3 and "unpack it" in found[0]["problem"]


def test_in_a_folder_too_what_is_known_and_not_judged_leaves_no_pass(tmp_path, capsys):
    (tmp_path / "good.log").write_text(GOOD_LOG)
    assert replay.replay(str(tmp_path)) == 0
    (tmp_path / "q.txt").write_text(KNOWN["dcgmi"][0])
    assert replay.replay(str(tmp_path)) == 3
    assert "dcgmi" in capsys.readouterr().out


def test_a_folder_names_what_it_passes_over(tmp_path, capsys, monkeypatch):
    for name in ("a", ".hidden"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "good.log").write_text(GOOD_LOG)
    (tmp_path / "link.log").symlink_to(tmp_path / "a/good.log")
    assert replay.replay(str(tmp_path)) == 0
    last = capsys.readouterr().out.splitlines()[-1]
    assert "1 hidden folders not looked at" in last and "1 links, pipes and the like not looked at" in last
    (tmp_path / "a/more.log").write_text(GOOD_LOG)
    monkeypatch.setattr("gpuwright.doctor.replay.given_file.MOST_FILES", 1)
    assert replay.replay(str(tmp_path), as_json=True) == 3
    record = json.loads(capsys.readouterr().out)
    assert "more than 1 files" in record["files"][0]["problem"] and len(record["left_out"]) == 2


BUG_REPORT = """\
____________________________________________

Start of NVIDIA bug report log file.  Please include this file, along
with a detailed description of your problem, when reporting a graphics
driver bug.

nvidia-bug-report.sh Version: 34275571

Date: Mon Jan  5 10:00:00 UTC 2026
uname: Linux a5-01 5.14.0-427.el9.x86_64 #1 SMP x86_64 GNU/Linux
command line flags:

____________________________________________

*** /etc/issue
*** ls: -rw-r--r-- 1 root root 23 2026-01-05 10:00:00.000000000 +0000 /etc/issue
\\S

____________________________________________

*** /var/log/Xorg.0.log does not exist

____________________________________________

/usr/bin/lspci -d "10de:*" -v -xxx

3b:00.0 3D controller: NVIDIA Corporation GV100GL [Tesla V100 PCIe 16GB] (rev a1)

____________________________________________

/usr/bin/nvidia-smi --query

{query}
____________________________________________

/usr/bin/nvidia-smi --query --unit

==============NVSMI LOG==============

Timestamp                                 : Mon Jan  5 10:00:00 2026
Driver Version                            : 580.95.05
Attached Units                            : 0

____________________________________________

/usr/bin/dmesg

{log}
____________________________________________

End of NVIDIA bug report log file.
"""


@pytest.mark.parametrize("packed", [False, True])
def test_a_bug_report_is_judged_as_a_whole(tmp_path, packed):
    query = smi_forms.as_text(XML)
    bad_query = re.sub(r"(Pending Page Blacklist +): No", r"\1: Yes", query)
    for text, log, status, check in (
        (query, GOOD_LOG, 0, ""),
        (query, BAD_LOG, 1, "kernel.gpu_lost"),
        (bad_query, GOOD_LOG, 1, "driver.retired_pages"),
    ):
        report = BUG_REPORT.format(query=text, log=log)
        data: str | bytes = gzip.compress(report.encode()) if packed else report
        found_status, found, shown = replayed(tmp_path, data)
        assert found_status == status and (not check or check in failing(found)), shown
        assert "judged: /usr/bin/nvidia-smi --query, " in shown, shown
        assert "not judged: /etc/issue, /usr/bin/lspci" in shown and "Xorg" not in shown, shown


def test_an_archive_with_a_hole_takes_no_memory(tmp_path):
    """One member of two GiB of nothing is some bytes in the archive."""
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w:gz", format=tarfile.GNU_FORMAT) as archive:
        member = tarfile.TarInfo("bundle/report.json")
        member.size = 2**31
        member.type = tarfile.GNUTYPE_SPARSE
        archive.addfile(member)
    _status, found, shown = replayed(tmp_path, buffer.getvalue())
    assert found[0]["verdict"] == UNKNOWN and found[0]["problem"].strip(), shown


def test_a_folder_with_holes_takes_no_memory(tmp_path):
    folder = tmp_path / "bundle"
    folder.mkdir()
    (folder / "manifest.json").write_text('{"identity": "x", "files": []}')
    for number in range(4):
        with (folder / f"part-{number}").open("wb") as file:
            file.truncate(31 * 1024 * 1024)
    members, cut = given_file.read_members(str(folder), sorted(path.name for path in folder.iterdir()))
    assert cut and sum(len(part) for part in members.values()) <= given_file.MOST_UNPACKED


@pytest.mark.parametrize("form", ["xml", "text", "table"])
def test_what_windows_cannot_type_is_given_for_linux(tmp_path, form):
    """Its nvidia-smi tells how Windows drives the card, and nobody has systemctl there."""
    if form == "xml":
        text = re.sub("<compute_mode>.*</compute_mode>", "<compute_mode>Prohibited</compute_mode>", XML)
        text = text.replace(
            "<compute_mode>", "<driver_model><current_dm>WDDM</current_dm></driver_model><compute_mode>", 1
        )
    elif form == "text":
        text = QUERY.replace(
            "    ECC Errors", "    Driver Model\n        Current : WDDM\n        Pending : WDDM\n    ECC Errors"
        )
    else:
        text = TABLE.replace(
            "|---",
            "| GPU  Name                  Driver-Model | Bus-Id          Disp.A | Volatile Uncorr. ECC |\n|---",
            1,
        )
    _status, found, shown = replayed(tmp_path, text)
    actions = [check["action"] for result in found for check in result["checks"] if check["action"]]
    assert actions and all(action.startswith("On Linux: ") for action in actions)
    assert "the answer is from Windows" in shown
