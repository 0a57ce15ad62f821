"""gpu-doctor --replay: the node's own verdict from its bundle, and bare files judged by what is in them."""

from __future__ import annotations

import copy
import gzip
import io
import json
import os
import random
import re
import subprocess
import tarfile
from pathlib import Path

import canary_node
import healthy_node
import node_names
import pytest
import test_gpu_doctor
from gpuwright.checks.all import run_checks
from gpuwright.doctor.bundle import make as bundle
from gpuwright.doctor.bundle.masking_known import known_masker
from gpuwright.doctor.replay import given_file as replay_files
from gpuwright.doctor.replay import judge as replay_judge
from gpuwright.doctor.replay import judge_files as replay
from gpuwright.readings.kernel_log.records import Line
from gpuwright.readings.kernel_log.saved import read_saved
from gpuwright.verdict.check import DEEP, UNKNOWN
from gpuwright.verdict.report import make_report
from healthy_kernel import KERNEL_LOG, journalctl

folder, node, doctor = test_gpu_doctor.folder, test_gpu_doctor.node, test_gpu_doctor.doctor
needs_root = test_gpu_doctor.pytestmark
DATA = node_names.DATA
XML = (DATA / "nvidia_smi/580-v100.xml").read_text()
XID_79 = "NVRM: Xid (PCI:0000:3b:00): 79, pid=1234, name=python, GPU has fallen off the bus."
NOW = "2026-01-05T10:00:00Z"


def statuses(checks: list[dict]) -> dict[str, str]:
    return {check["id"]: check["status"] for check in checks}


def judged(path: Path, *more: str) -> list[dict]:
    return replay.results_of(str(path), str(path), *more)


def write_bundle(path: Path, readings: dict, expectations: dict, smoke: dict | None, files: dict | None = None) -> dict:
    """A masked bundle of level deep as gpu-doctor would write it of such readings; returns the node's own report."""
    checks = run_checks(readings, expectations, smoke, level=DEEP)
    report = make_report(canary_node.HOST, NOW, checks, readings, expectations, smoke)
    masker = known_masker("/nonexistent", report)
    masker.learn_from(json.dumps(report))
    rows = [{"name": name, "rc": 0, "problem": ""} for name in files or {}]
    manifest = {"schema": 1, "identity": bundle.identity(), "time": NOW, "level": DEEP, "host": "host-1", "files": rows}
    parts = {
        "manifest.json": manifest,
        "report.json": masker.value(report),
        "expectations.json": masker.value(expectations),
    }
    packed = [(name, json.dumps(value).encode()) for name, value in parts.items()]
    path.write_bytes(bundle.packed(packed + [(name, text.encode()) for name, text in (files or {}).items()]))
    return report


def broken(*changes: tuple) -> dict:
    found = healthy_node.readings()
    for path, value in changes:
        healthy_node.put(found, path, copy.deepcopy(value))
    return found


GPU = ("nvidia_smi", "gpus", 0)
LOST = {"reachable": False, "status": "gpu_lost", "message": "a GPU has fallen off the PCI bus", "action": "power off"}
EVENT = {"code": 79, "pci_id": "0000:3b:00", "count": 1, "first_s": 5, "last_s": 5, "text": XID_79}
NODES = {
    "healthy": (),
    "lost": ((("nvidia_smi",), {**healthy_node.READINGS["nvidia_smi"], **LOST, "gpus": []}),),
    "xid": ((("kernel_log", "xids"), [EVENT]),),
    "memory": (((*GPU, "ecc_uncorrected_volatile"), 3), ((*GPU, "retired_pages_pending"), True)),
    "no driver": ((("probe", "nvidia", "loaded"), None),),
    "no log": ((("kernel_log",), {"unreadable": "no permission for qmarsupial"}),),
    "not measured": ((("performance",), {"unreadable": "another program uses the GPU"}),),
    "wrong versions": ((("cuda", "nvcc"), "11.8"), (("cudnn", "library"), "8.9.7")),
    "users": ((("probe", "in_use"), {"users": ["qmarsupial"], "gpu_processes": [], "jobs": []}),),
    "unsafe": (
        (("permissions",), {"missing": [], "looked_at": 9, "unsafe_count": 1, "unsafe": ["/opt/gpuwright/qmarsupial"]}),
    ),
}


@pytest.mark.parametrize("name", sorted(NODES))
@pytest.mark.parametrize("user", ["trainer", "qmarsupial", "nvidia", "python", "zoo_ml", "gan"])
def test_a_bundle_is_judged_as_the_node_was(tmp_path, name, user):
    expectations = healthy_node.expectations(training_user=user)
    report = write_bundle(tmp_path / "b.tar.gz", broken(*NODES[name]), expectations, healthy_node.smoke())
    result = judged(tmp_path / "b.tar.gz")[0]
    assert result["problem"] == ""
    assert statuses(result["checks"]) == statuses(report["checks"])
    assert (result["verdict"], result["node_verdict"]) == (report["verdict"], report["verdict"])
    if name not in ("healthy", "users"):
        assert report["verdict"] in ("FAIL", "UNKNOWN")


@pytest.mark.parametrize("check_id", sorted(healthy_node.OTHER_NODES))
def test_nodes_of_other_kinds_too(tmp_path, check_id):
    readings, expectations = healthy_node.readings(check_id), healthy_node.elsewhere(check_id, "expectations")
    report = write_bundle(tmp_path / "b.tar.gz", readings, expectations, healthy_node.elsewhere(check_id, "smoke"))
    result = judged(tmp_path / "b.tar.gz")[0]
    assert statuses(result["checks"]) == statuses(report["checks"])
    assert statuses(result["checks"])[check_id] == "PASS"


@needs_root
@pytest.mark.parametrize("damage", ["", "cuda", "xid", "ecc", "canaries"])
def test_the_program_says_the_same_of_the_bundle_as_of_the_node(doctor, node, folder, damage):
    if damage == "cuda":
        (node.folder / "usr/local/cuda").unlink()
    elif damage == "xid":
        text = f"{KERNEL_LOG}[    9.0] a5-01 kernel: {XID_79}\n"
        (folder / "bin/journalctl").write_text(journalctl(text))
    elif damage == "ecc":
        (folder / "580-v100.xml").write_text(XML.replace("<current_ecc>Enabled", "<current_ecc>Disabled"))
    elif damage == "canaries":
        canary_node.put(node)
        for name, text in canary_node.answers().items():
            (folder / name).write_text(text)
        for name, script in canary_node.commands(str(folder)).items():
            (folder / "bin" / name).write_text(f"#!/bin/sh\n{script}\n")
            (folder / "bin" / name).chmod(0o755)
    own = json.loads(doctor("--json").stdout)
    assert doctor("--bundle", str(folder / "b.tar.gz")).returncode == 0
    done = doctor("--replay", str(folder / "b.tar.gz"), "--json")
    result = json.loads(done.stdout)["files"][0]
    assert statuses(result["checks"]) == statuses(own["checks"])
    verdict = {"": "PASS", "canaries": "WARN"}.get(damage, "FAIL")
    assert result["verdict"] == own["verdict"] == verdict
    assert done.returncode == (1 if own["verdict"] == "FAIL" else 0)


def test_what_an_older_reader_missed_is_read_again(tmp_path):
    """The readings of the bundle say that all is well; its raw answers do not."""
    log = f"[    0.000000] a5-01 kernel: Linux version 4.18\n[    9.000000] a5-01 kernel: {XID_79}\n"
    files = {
        "kernel.log": log,
        "nvidia-smi/query.xml": XML.replace("<current_ecc>Enabled", "<current_ecc>Disabled"),
    }
    write_bundle(
        tmp_path / "b.tar.gz", healthy_node.readings(), healthy_node.expectations(), healthy_node.smoke(), files
    )
    same = judged(tmp_path / "b.tar.gz")[0]
    assert same["verdict"] == "PASS"
    members = dict(replay_files.pieces_of(str(tmp_path / "b.tar.gz"))[0].members)
    manifest = json.loads(members["manifest.json"])
    members["manifest.json"] = json.dumps({**manifest, "identity": "0123456789ab"}).encode()
    (tmp_path / "old.tar.gz").write_bytes(bundle.packed(sorted(members.items())))
    old = judged(tmp_path / "old.tar.gz")[0]
    assert (old["verdict"], old["node_verdict"]) == ("FAIL", "PASS")
    assert {"kernel.xid", "driver.ecc"} <= {check["id"] for check in old["checks"] if check["status"] == "FAIL"}
    assert "another release" in old["parsed"]
    assert "the node itself said PASS" in "\n".join(replay.lines_of(old))


def test_an_unpacked_bundle_is_one_thing(tmp_path):
    write_bundle(tmp_path / "b.tar.gz", healthy_node.readings(), healthy_node.expectations(), healthy_node.smoke())
    with tarfile.open(tmp_path / "b.tar.gz") as archive:
        archive.extractall(tmp_path / "x")
    (tmp_path / "b.tar.gz").unlink()
    assert [Path(name).name for name in replay_files.files_in(str(tmp_path))] == ["gpuwright-bundle"]
    assert judged(tmp_path / "x/gpuwright-bundle")[0]["verdict"] == "PASS"


# -- bare files


def test_an_answer_is_judged_by_what_it_can_show(tmp_path):
    (tmp_path / "a.xml").write_text(XML)
    result = judged(tmp_path / "a.xml")[0]
    assert (result["verdict"], result["driver"], result["gpus"]) == ("PASS", "580.95.05", ["Tesla V100-PCIE-16GB"])
    ids = statuses(result["checks"])
    assert {"driver.ecc", "driver.reachable", "gpu.temperature"} <= set(ids) and len(ids) > 12
    assert not [name for name in ids if name.startswith(("kernel.", "host.", "framework.", "cuda.", "performance."))]
    assert "UNKNOWN" not in ids.values()


@pytest.mark.parametrize(
    ("old", "new", "check"),
    [
        ("<current_ecc>Enabled", "<current_ecc>Disabled", "driver.ecc"),
        ("<compute_mode>Default", "<compute_mode>Prohibited", "gpu.compute_mode"),
        ("<gpu_recovery_action>None", "<gpu_recovery_action>Reboot", "gpu.recovery_action"),
    ],
)
def test_a_fault_in_an_answer_fails(tmp_path, old, new, check):
    assert old in XML
    (tmp_path / "a.xml").write_text(XML.replace(old, new))
    result = judged(tmp_path / "a.xml")[0]
    assert result["verdict"] == "FAIL" and statuses(result["checks"])[check] == "FAIL"


def test_an_unreadable_value_is_unknown_and_no_pass(tmp_path):
    (tmp_path / "a.xml").write_text(XML.replace("<gpu_temp>34 C", "<gpu_temp>ERR!"))
    result = judged(tmp_path / "a.xml")[0]
    assert result["verdict"] == UNKNOWN and statuses(result["checks"])["gpu.temperature"] == UNKNOWN


@pytest.mark.parametrize("length", [0.1, 0.5, 0.9, 0.999])
def test_an_answer_that_is_cut_off_is_unknown(tmp_path, length):
    (tmp_path / "a.xml").write_text(XML[: int(len(XML) * length)])
    result = judged(tmp_path / "a.xml")[0]
    assert (result["verdict"], list(statuses(result["checks"]))) == (UNKNOWN, ["driver.reachable"])


def test_a_capture_with_several_answers_and_a_warning(tmp_path):
    warning = "WARNING: infoROM is corrupted at gpu 0000:3B:00.0\n"
    text = f"# a capture\n$ nvidia-smi -q -x\n{XML}\nhelp: warnings may be given\n\n$ nvidia-smi -q -x\n{XML}{warning}"
    (tmp_path / "capture.txt").write_text(text)
    first, second = judged(tmp_path / "capture.txt")
    assert first["verdict"] == "PASS" and first["file"].endswith("(1 of 2)")
    assert second["verdict"] == "FAIL" and statuses(second["checks"])["gpu.inforom"] == "FAIL"


@pytest.mark.parametrize(
    "words",
    [
        "NVIDIA-SMI has failed because it couldn't communicate with the NVIDIA driver. Make sure that ...\n",
        "Failed to initialize NVML: Driver/library version mismatch\nNVML library version: 580.95\n",
        "No devices were found\n",
        "Unable to determine the device handle for GPU0000:3B:00.0: Unknown Error\n",
    ],
)
def test_a_sentence_in_the_place_of_an_answer_fails(tmp_path, words):
    (tmp_path / "smi.txt").write_text(words)
    result = judged(tmp_path / "smi.txt")[0]
    assert result["verdict"] == "FAIL" and list(statuses(result["checks"])) == ["driver.reachable"]


LOG_LINES = {
    "dmesg": "[  123.456789] {}",
    "dmesg with a thread": "[  123.456789] [  T1234] {}",
    "dmesg -x": "kern  :err   : [  123.456789] {}",
    "dmesg -T": "[Mon Jan  5 10:00:00 2026] {}",
    "dmesg -x --time-format iso": "kern  :warn  : 2026-01-05T10:00:00,123456+00:00 {}",
    "dmesg --time-format iso": "2026-01-05T10:00:00,123456+00:00 {}",
    "serial console": "<3>[  123.456789] {}",
    "/dev/kmsg": "3,1234,123456789,-;{}",
    "journalctl -k": "Jan 05 10:00:00 a5-01 kernel: {}",
    "journalctl -o short-monotonic": "[  123.456789] a5-01 kernel: {}",
    "journalctl -o short-iso": "2026-01-05T10:00:00+0100 a5-01 kernel: {}",
    "syslog": "Jan  5 10:00:00 a5-01 kernel: [  123.456789] {}",
    "journalctl -o cat": "{}",
    "grep -o": "kernel: {}",
    "rsyslog": "2026-01-05T10:00:00.123456+01:00 a5-01 kernel: [  123.456789] {}",
    "rsyslog, RFC 5424": "<4>1 2026-01-05T10:00:00.123456+00:00 a5-01 kernel - - - [  123.456789] {}",
    "syslog with a facility": "Jan  5 10:00:00 a5-01 kern.err kernel: [  123.456789] {}",
    "dmesg -H, first of a minute": "[Jan 5 10:00] {}",
    "dmesg -H, padded": "[Jan05 10:00] {}",
    "dmesg -H": "[  +0.000012] {}",
    "dmesg -d": "[  123.456789 <    0.000012>] {}",
    "dmesg -d -T": "[Mon Jan  5 10:00:00 2026 <    0.000012>] {}",
    "dmesg -T, Dutch": "[ma mrt 21 17:09:43 2022] {}",
    "dmesg --color": "\x1b[32m[  123.456789] \x1b[0m\x1b[31m{}\x1b[0m",
    "journalctl -k, Chinese": "11月 15 14:15:47 a5-01 kernel: {}",
    "journalctl -k, German": "Dez 05 14:15:47 a5-01 kernel: {}",
    "journalctl -k, French": "févr. 05 14:15:47 a5-01 kernel: {}",
    "journalctl -o short-full": "Mon 2026-01-05 10:00:00 CET a5-01 kernel: {}",
    "journalctl -o json": '{{"MESSAGE":"{}","_TRANSPORT":"kernel","__MONOTONIC_TIMESTAMP":"123456789"}}',
    "syslog with a year": "2026 Jan 05 10:00:00 a5-01 kernel: {}",
    "grep -n": "1021:[  123.456789] {}",
    "grep of syslog files": "/var/log/messages-20260105:Jan  5 10:00:00 a5-01 kernel: {}",
    "grep -n of syslog files": "kern.log:17:Jan  5 10:00:00 a5-01 kernel: {}",
    "pdsh": "a5-01: [  123.456789] {}",
    "quoted in a mail": "> > [  123.456789] {}",
    "without host": "kernel: [  123.456789] {}",
}


@pytest.mark.parametrize("form", sorted(LOG_LINES))
@pytest.mark.parametrize("ending", ["\n", "\r\n"])
def test_kernel_logs_in_all_forms(tmp_path, form, ending):
    line = LOG_LINES[form]
    (tmp_path / "good.log").write_text(line.format("NVRM: loading NVIDIA UNIX x86_64 Kernel Module") + ending)
    (tmp_path / "bad.log").write_text(
        line.format("NVRM: GPU at PCI:0000:3b:00") + ending + line.format(XID_79) + ending
    )
    good, bad = judged(tmp_path / "good.log")[0], judged(tmp_path / "bad.log")[0]
    assert (good["verdict"], bad["verdict"]) == ("PASS", "FAIL")
    assert statuses(bad["checks"])["kernel.xid"] == "FAIL"
    assert all(name.startswith("kernel.") for name in statuses(bad["checks"]))
    assert "2 lines, which do not begin at the boot" in bad["parsed"]


def test_lines_of_programs_are_no_kernel_log():
    text = (
        "2026-01-05T10:00:00 INFO NVRM: Xid (PCI:0000:3b:00): 79 seen by an agent\n"
        "Jan  5 10:00:00 a5-01 python[77]: NVRM: Xid (PCI:0000:3b:00): 79, pid=1\n"
        '    "[  12.3] NVRM: Xid (PCI:0000:3b:00): 79",\n'
        "[Feb 25 2025 13:59:45] [INFO] [tid 1803] Received an inband message\n"
        "python[77]: NVRM: Xid (PCI:0000:3b:00): 79, pid=1\n"
        '{"MESSAGE": "NVRM: Xid (PCI:0000:3b:00): 79, pid=1", "_TRANSPORT": "stdout", "SYSLOG_IDENTIFIER": "kernel"}\n'
        '{"MESSAGE": ["NVRM: Xid"], "_TRANSPORT": "kernel"}\n{"_TRANSPORT": "kernel"\n'
        "> Jan  5 10:00:00 a5-01 python[77]: NVRM: Xid (PCI:0000:3b:00): 79, pid=1\n"
    )
    assert read_saved(text, bare=True).messages() == 0


@pytest.mark.parametrize("form", ["dmesg", "journalctl -k", "rsyslog, RFC 5424", "quoted in a mail", "dmesg -H"])
@pytest.mark.parametrize("further", ["{}", "               {}"])
def test_a_message_of_several_lines_is_one_in_every_form(tmp_path, form, further):
    first, *rest = (
        "NVRM: The NVIDIA GPU 0000:3b:00.0 (PCI ID: 10de:1180)",
        "NVRM: installed in this system is not supported by the",
        "NVRM: NVIDIA 535.54.03 driver release.",
    )
    quoted = "> > " if "mail" in form else ""
    lines = [LOG_LINES[form].format(first)] + [quoted + further.format(line) for line in rest]
    (tmp_path / "bad.log").write_text("\n".join(lines) + "\n")
    result = judged(tmp_path / "bad.log")[0]
    assert statuses(result["checks"])["kernel.driver_start"] == "FAIL", result


def test_times_since_the_boot_and_the_order_of_lines_stay():
    saved = read_saved("[   12.5] a\n3,7,98000000,-;b\nJan  5 10:00:00 h kernel: c\n")
    lines = [line for line in saved.lines if isinstance(line, Line)]
    assert [(line.clock, line.text) for line in lines] == [(12500000, "a"), (98000000, "b"), (None, "c")]


def test_a_log_of_windows_and_one_packed(tmp_path):
    line = LOG_LINES["dmesg"].format(XID_79) + "\n"
    (tmp_path / "utf16.txt").write_bytes(line.encode("utf-16"))
    (tmp_path / "log.gz").write_bytes(gzip.compress(line.encode()))
    (tmp_path / "xml.gz").write_bytes(gzip.compress(XML.encode()))
    assert [judged(tmp_path / name)[0]["verdict"] for name in ("utf16.txt", "log.gz", "xml.gz")] == [
        "FAIL",
        "FAIL",
        "PASS",
    ]


OTHERS = {
    "empty": b"",
    "blank": b" \n\n",
    "elf": b"\x7fELF\x02\x01\x01" + bytes(4000),
    "random": random.Random(7).randbytes(50000),
    "json": b'{"schema": 1, "files": []}',
    "deep json": b"[" * 100000,
    "deep xml": b"<a>" * 100000,
    "text": b"NVRM: Xid is a word of this page\n" * 40,
    "lspci": b"3b:00.0 3D controller [0302]: NVIDIA Corporation GV100GL [10de:1db4]\n",
    "smi": b"==============NVSMI LOG==============\n\nDriver Version : 580\n",
    "latin1": "Gerät gefunden\n".encode("latin-1"),
    "zip": b"PK\x03\x04" + bytes(100),
    "gzip of nothing": gzip.compress(b""),
}


@pytest.mark.parametrize("name", sorted(OTHERS))
def test_files_of_others_get_one_sentence_and_no_verdict(tmp_path, capsys, name):
    (tmp_path / "f").write_bytes(OTHERS[name])
    status = replay.replay(str(tmp_path / "f"))
    result = judged(tmp_path / "f")[0]
    assert (result["verdict"], status) == (None, 3) and result["problem"] and "\n" not in result["problem"]
    shown = capsys.readouterr().out
    assert "nothing judged; 1 not recognised" in shown and "broke" not in shown


def damaged_bundles(good: bytes) -> dict[str, bytes]:
    plain = gzip.decompress(good)
    no_report = bundle.packed([("manifest.json", b'{"files": [], "identity": "x", "schema": 1}')])
    texts = {
        "list": b"[]",
        "text": b"not json",
        "report": b'{"readings": 5}',
        "readings": b'{"readings": {}, "expectations": {}}',
        "null": b"null",
        "deep": b'{"readings": ' + b"[" * 100000,
    }
    manifest = b'{"files": [{"name": 5}, 7], "identity": "x", "schema": 1}'
    made = {name: bundle.packed([("manifest.json", manifest), ("report.json", text)]) for name, text in texts.items()}
    return {
        "cut": good[: len(good) // 2],
        "head": good[:12],
        "flipped": good[:200] + bytes(200) + good[400:],
        "no report": no_report,
        "bare manifest": bundle.packed([("manifest.json", b"[]")]),
        "other tar": gzip.compress(plain.replace(b"manifest.json", b"manifesto.txt")),
        **made,
    }


def test_damaged_bundles_are_unknown(tmp_path):
    readings, expectations = healthy_node.readings(), healthy_node.expectations()
    write_bundle(tmp_path / "b.tar.gz", readings, expectations, healthy_node.smoke(), {"nvidia-smi/query.xml": XML})
    for name, data in damaged_bundles((tmp_path / "b.tar.gz").read_bytes()).items():
        (tmp_path / "d").write_bytes(data)
        result = judged(tmp_path / "d")[0]
        assert result["verdict"] in (UNKNOWN, None), name
        assert result["problem"] and "broke" not in result["problem"], (name, result["problem"])
        assert replay.exit_status_of([result]) == 3, name


def test_a_tenth_of_a_bundle_at_a_time_never_raises(tmp_path):
    readings, expectations = healthy_node.readings(), healthy_node.expectations()
    write_bundle(tmp_path / "b.tar.gz", readings, expectations, healthy_node.smoke(), {"nvidia-smi/query.xml": XML})
    good = (tmp_path / "b.tar.gz").read_bytes()
    for seed in range(60):
        chance = random.Random(seed)
        data = bytearray(good if seed % 2 else gzip.decompress(good))
        for _ in range(chance.randint(1, 30)):
            data[chance.randrange(len(data))] = chance.randrange(256)
        (tmp_path / "d").write_bytes(data[: chance.randint(1, len(data))])
        for result in judged(tmp_path / "d"):
            assert "broke" not in result["problem"], (seed, result["problem"])


def test_a_packed_file_that_unpacks_without_end_is_bounded(tmp_path):
    (tmp_path / "bomb.gz").write_bytes(gzip.compress(bytes(300_000_000), 9))
    assert judged(tmp_path / "bomb.gz")[0]["verdict"] in (UNKNOWN, None)


def test_a_huge_log_is_read_to_its_bound_and_says_so(tmp_path, monkeypatch):
    monkeypatch.setattr(replay_files, "MOST_BYTES", 20_000)
    line = LOG_LINES["dmesg"].format("usb 1-1: new device") + "\n"
    (tmp_path / "a.log").write_text(line * 1000)
    result = judged(tmp_path / "a.log")[0]
    assert result["verdict"] == UNKNOWN and "cut off" in result["parsed"]
    (tmp_path / "b.log").write_text(LOG_LINES["dmesg"].format(XID_79) + "\n" + line * 1000)
    assert judged(tmp_path / "b.log")[0]["verdict"] == "FAIL"


def test_pipes_links_and_hidden_folders_are_left_alone(tmp_path):
    (tmp_path / "sub/.git").mkdir(parents=True)
    (tmp_path / "sub/.git/a.xml").write_text(XML)
    (tmp_path / "sub/a.xml").write_text(XML)
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "loop").symlink_to(tmp_path)
    (tmp_path / "link.xml").symlink_to(tmp_path / "sub/a.xml")
    assert replay_files.files_in(str(tmp_path)) == [str(tmp_path / "sub/a.xml")]
    assert "not a regular file" in judged(tmp_path / "pipe")[0]["problem"]


def test_members_that_lie_about_themselves(tmp_path):
    """A bundle is read in memory: names that lead elsewhere, links and devices write and open nothing."""
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w:gz") as archive:
        for name, kind in (
            ("../../etc/x", tarfile.REGTYPE),
            ("a/manifest.json", tarfile.SYMTYPE),
            ("d", tarfile.CHRTYPE),
        ):
            member = tarfile.TarInfo(name)
            member.type, member.linkname = kind, "/etc/passwd"
            archive.addfile(member)
    (tmp_path / "b.tar.gz").write_bytes(buffer.getvalue())
    assert judged(tmp_path / "b.tar.gz")[0]["verdict"] in (UNKNOWN, None)


def test_a_hostile_name_cannot_paint_the_terminal(tmp_path):
    (tmp_path / "a\x1b[2J\n.xml").write_text(XML.replace("Tesla V100-PCIE-16GB", "Tesla &#x202E;"))
    result = judged(next(tmp_path.iterdir()))[0]
    assert all(line.isprintable() for line in replay.lines_of(result))


# -- the folder, the exit status


def corpus(path: Path) -> None:
    (path / "sub").mkdir(parents=True)
    (path / "good.xml").write_text(XML)
    (path / "sub/bad.log").write_text(LOG_LINES["dmesg -T"].format(XID_79) + "\n")
    (path / "sub/cut.xml").write_text(XML[:2000])
    (path / "README").write_text("what these are\n")


def test_a_folder_is_judged_file_by_file(tmp_path, capsys):
    corpus(tmp_path / "c")
    assert replay.replay(str(tmp_path / "c")) == 1
    shown = capsys.readouterr().out
    assert shown.splitlines()[-1] == "4 files: 1 FAIL, 1 UNKNOWN, 1 PASS; 1 not recognised"
    assert "sub/bad.log\n  parsed   kernel log, 1 lines" in shown
    assert replay.replay(str(tmp_path / "c"), as_json=True) == 1
    record = json.loads(capsys.readouterr().out)
    assert record["counts"] == {"FAIL": 1, "UNKNOWN": 1, "WARN": 0, "PASS": 1, "none": 1}
    assert [entry["file"] for entry in record["files"]] == ["README", "good.xml", "sub/bad.log", "sub/cut.xml"]


def test_make_test_corpus_judges_our_own_files():
    """The command that CONTRIBUTING names, over the made-up answers and logs of these tests."""
    command = ["make", "--no-print-directory", "test-corpus", f"CORPUS={DATA}"]
    done = subprocess.run(command, cwd=test_gpu_doctor.REPOSITORY, capture_output=True, text=True, timeout=120)
    assert (done.returncode, done.stderr) == (0, "")
    blocks = re.split(r"\n(?=\S)", done.stdout.strip())
    shown = {block.splitlines()[0]: block for block in blocks[:-1]}
    files = sorted(str(path.relative_to(DATA)) for path in DATA.rglob("*") if path.is_file())
    assert sorted(shown) == files and blocks[-1].startswith(f"{len(files)} files: ")
    assert "  verdict  PASS" in shown["nvidia_smi/580-v100.xml"]
    assert "  verdict  PASS" in shown["kernel_log/boot.dmesg"]
    assert "  verdict  FAIL" in shown["kernel_log/fallen-off.journal"]
    assert "  FAIL     kernel.xid: 79 on 0000:3b:00" in shown["kernel_log/fallen-off.journal"]
    for name in ("kernel_log/agent.log", "prometheus/gpuwright.rules.test.yml"):
        assert "verdict" not in shown[name] and "problem  neither" in shown[name]
    missing = subprocess.run(
        [*command[:-1], "CORPUS=/nonexistent"], cwd=test_gpu_doctor.REPOSITORY, capture_output=True
    )
    assert missing.returncode != 0 and b"no such file or folder" in missing.stderr


@pytest.mark.parametrize(
    ("verdicts", "status"),
    [
        (["PASS", "WARN", None], 0),
        (["PASS", "FAIL", "UNKNOWN"], 1),
        (["PASS", "UNKNOWN"], 3),
        ([None], 3),
        ([], 3),
    ],
)
def test_exit_status(verdicts, status):
    assert replay.exit_status_of([{"verdict": verdict} for verdict in verdicts]) == status


@needs_root
def test_the_program_needs_no_expectations_no_gpu_and_no_root(doctor, node, folder):
    (node.folder / "etc/gpuwright/expectations.json").unlink()
    for name in ("nvidia-smi", "journalctl"):
        (folder / "bin" / name).unlink()
    done = doctor("--replay", str(folder / "580-v100.xml"), user=65534)
    assert (done.returncode, done.stderr) == (0, ""), done.stdout
    assert "driver 580.95.05, 1 x Tesla V100-PCIE-16GB" in done.stdout
    missing = doctor("--replay", str(folder / "none"))
    assert missing.returncode == 2 and "no such file" in missing.stderr


def test_a_check_that_needs_more_than_the_file_is_left_out():
    found = replay_judge.checks_of_part({"kernel_log": None}, replay_judge.expectations_of_part(1))
    assert {check["status"] for check in found} == {"SKIP"}
    assert {check["id"].split(".")[0] for check in found} == {"kernel"}


def test_a_name_that_is_no_text_in_a_manifest_is_passed_over(tmp_path):
    """Whatever somebody wrote into it: the raw answers that are there are judged, and no word of Python is shown."""
    rows = [{"name": [1]}, {"name": {}}, {"name": None}, {"file": "kernel.log"}, {"name": "kernel.log", "problem": ""}]
    manifest = json.dumps({"schema": 1, "identity": "x", "files": rows}).encode()
    log = b"[    5.000000] NVRM: Xid (PCI:0000:3b:00): 48, pid=1, name=x, DBE\n"
    (tmp_path / "b.tar.gz").write_bytes(bundle.packed([("manifest.json", manifest), ("kernel.log", log)]))
    (result,) = judged(tmp_path / "b.tar.gz")
    assert (result["kind"], result["verdict"], result["problem"]) == ("bundle", "FAIL", "")
