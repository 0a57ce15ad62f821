"""gpu-doctor --bundle: what is in it, what is masked in it, and that it is written whole, privately and once."""

from __future__ import annotations

import io
import json
import os
import random
import re
import tarfile
from pathlib import Path

import canary_node
import pytest
import test_gpu_doctor
from canary_node import CANARIES
from gpuwright.doctor.bundle import make as bundle
from gpuwright.verdict.report import make_report
from text_parts import part_of

# The made-up node and the installed script are those of gpu-doctor's own tests.
folder, node, doctor = test_gpu_doctor.folder, test_gpu_doctor.node, test_gpu_doctor.doctor
pytestmark = test_gpu_doctor.pytestmark

ALWAYS = {
    "manifest.json",
    "report.json",
    "expectations.json",
    "nvidia-smi/query.xml",
    "nvidia-smi/query.txt",
    "nvidia-smi/list.txt",
    "nvidia-smi/topology.txt",
    "nvidia-smi/nvlink-status.txt",
    "nvidia-smi/nvlink-errors.txt",
    "kernel.log",
    "lspci.txt",
    "modinfo-nvidia.txt",
    "dkms.txt",
    "packages.txt",
    "driver/version.txt",
    "driver/params.txt",
    "plan.json",
    "sysfs.txt",
}


def write(folder: Path, name: str, script: str) -> None:
    (folder / "bin" / name).write_text(f"#!/bin/sh\n{script}\n")
    (folder / "bin" / name).chmod(0o755)


@pytest.fixture
def canaries(doctor, folder, node):
    canary_node.put(node)
    for name, text in canary_node.answers().items():
        (folder / name).write_text(text)
    for name, script in canary_node.commands(str(folder)).items():
        write(folder, name, script)
    return doctor


def members(path: Path) -> dict[str, bytes]:
    with tarfile.open(path) as archive:
        files = {member.name: archive.extractfile(member) for member in archive}
        found = {name: file.read() for name, file in files.items() if file is not None}
        assert len(found) == len(files)
    assert all(name.startswith("gpuwright-bundle/") for name in found)
    return {name.partition("/")[2]: data for name, data in found.items()}


def test_what_identifies_is_nowhere_in_a_masked_bundle(canaries, folder):
    done = canaries("--bundle", str(folder / "b.tar.gz"))
    assert (done.returncode, done.stderr) == (0, ""), done.stdout
    found = members(folder / "b.tar.gz")
    assert set(found) >= ALWAYS
    text = "\n".join(name + "\n" + data.decode() for name, data in found.items()).lower()
    # An age in seconds may have the digits of a number in it.
    left = {
        name: value for name, value in CANARIES.items() if re.search(rf"(?<!\d){re.escape(value.lower())}(?!\d)", text)
    }
    assert left == {}
    # Nor in what is packed around the files.
    with tarfile.open(folder / "b.tar.gz") as archive:
        heads = repr([(member.name, member.uname, member.gname, member.uid) for member in archive])
    assert not [value for value in CANARIES.values() if value in heads]


def test_every_canary_is_in_the_unmasked_bundle(canaries, folder):
    """Otherwise the test above would look for what nobody ever wrote."""
    done = canaries("--bundle", str(folder / "b.tar.gz"), "--unmasked")
    assert done.returncode == 0 and "nothing is masked" in done.stdout
    text = "\n".join(data.decode() for data in members(folder / "b.tar.gz").values()).lower()
    assert [name for name, value in CANARIES.items() if value.lower() not in text] == []


def test_equal_values_have_equal_tokens_in_all_files(canaries, folder):
    canaries("--bundle", str(folder / "b.tar.gz"))
    found = {name: data.decode() for name, data in members(folder / "b.tar.gz").items()}
    serial = part_of(r"<serial>(.*)</serial>", found["nvidia-smi/query.xml"])
    assert serial.isdigit() and len(serial) == len(CANARIES["serial"])
    assert part_of(r"Serial Number +: (.*)", found["nvidia-smi/query.txt"]) == serial
    uuid = part_of(r"<uuid>(.*)</uuid>", found["nvidia-smi/query.xml"])
    assert re.fullmatch(r"GPU-[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}", uuid)
    assert uuid in found["nvidia-smi/list.txt"] and uuid in found["sysfs.txt"] and uuid in found["report.json"]
    report = json.loads(found["report.json"])
    assert report["readings"]["nvidia_smi"]["gpus"][0]["uuid"] == uuid
    host = part_of(r"\] (\S+) kernel: ", found["kernel.log"])
    assert re.fullmatch(r"host-[0-9]+", host)
    assert f"vg_{host}/root" in found["kernel.log"] and f"signer:         {host} " in found["modinfo-nvidia.txt"]
    assert f"Set hostname to <{host}.domain-" in found["kernel.log"]
    boot = part_of(r"boot_id: (\S+)", found["sysfs.txt"])
    assert json.loads(found["boot-check.json"])["boot_id"] == boot
    assert len({serial, part_of(r"Board Serial Number: (.*)", found["kernel.log"])}) == 2
    home = part_of(r"--data (\S+)/images", found["nvidia-smi/query.xml"])
    assert f"{home}/bin/python" in found["nvidia-smi/query.txt"]
    clique = part_of(r"<cliqueId>(.*)</cliqueId>", found["nvidia-smi/query.xml"])
    assert clique.isdigit() and part_of(r"CliqueId +: (.*)", found["nvidia-smi/query.txt"]) == clique


def test_what_explains_a_fault_stays(canaries, folder):
    canaries("--bundle", str(folder / "b.tar.gz"))
    found = {name: data.decode() for name, data in members(folder / "b.tar.gz").items()}
    assert "00000000:3B:00.0" in found["nvidia-smi/query.xml"] and "[10de:1db4]" in found["lspci.txt"]
    assert "900-2G500-0000-000" in found["nvidia-smi/query.txt"] and "88.00.48.00.02" in found["nvidia-smi/query.txt"]
    assert "libcudnn9-cuda-12-9.10.2.21-1.x86_64" in found["packages.txt"] and "bash" not in found["packages.txt"]
    assert "NVRM: loading NVIDIA UNIX x86_64 Kernel Module  580.95.05" in found["kernel.log"]
    assert "255.255.255.0" in found["kernel.log"] and "PCI:0000:3b:00" in found["kernel.log"]
    assert "trainer" in found["expectations.json"]


def test_the_identity_is_that_of_every_source(tmp_path):
    """Two libraries judge alike where all of their sources are the same, in whatever folder below they lie."""
    (tmp_path / "gpu").mkdir()
    (tmp_path / "gpu" / "cards.py").write_text("ROWS = 1\n")
    before = bundle.identity(str(tmp_path))
    (tmp_path / "gpu" / "cards.pyc").write_text("compiled")
    assert bundle.identity(str(tmp_path)) == before
    (tmp_path / "gpu" / "cards.py").write_text("ROWS = 2\n")
    assert bundle.identity(str(tmp_path)) != before


def test_the_manifest_names_each_file_its_command_and_what_is_missing(canaries, folder):
    (folder / "bin" / "dkms").unlink()
    canaries("--bundle", str(folder / "b.tar.gz"))
    found = members(folder / "b.tar.gz")
    manifest = json.loads(found["manifest.json"])
    assert manifest["schema"] == bundle.SCHEMA and manifest["masked"] is True and manifest["level"] == "standard"
    assert re.fullmatch("[0-9a-f]{12}", manifest["identity"])
    rows = {row["file"]: row for row in manifest["files"]}
    assert {row["name"] for row in rows.values() if row["name"]} == set(found) - {"manifest.json"}
    assert rows["nvidia-smi/query.xml"]["command"] == "nvidia-smi -q -x" and rows["nvidia-smi/query.xml"]["rc"] == 0
    assert rows["dkms.txt"]["name"] is None and "not installed" in rows["dkms.txt"]["problem"]
    assert re.fullmatch(r"lspci: no permission on host-[0-9]+", rows["lspci.txt"]["problem"])
    assert all(rows[name]["bytes"] == len(found[name]) for name in rows if rows[name]["name"])


def test_the_file_is_private_new_and_named_by_token_and_time(doctor, folder):
    where = folder / "work"
    where.mkdir()
    done = doctor("--bundle", preexec_fn=lambda: os.chdir(where))
    assert done.returncode == 0
    name = next(iter(where.iterdir()))
    assert re.fullmatch(r"gpuwright-host-[0-9]+-[0-9]{8}T[0-9]{6}Z\.tar\.gz", name.name)
    assert name.stat().st_mode & 0o777 == 0o600 and len(list(where.iterdir())) == 1
    assert name.name in done.stdout


def test_nothing_is_overwritten(doctor, folder):
    (folder / "b.tar.gz").write_text("mine")
    done = doctor("--bundle", str(folder / "b.tar.gz"))
    assert done.returncode == 2 and "already exists" in done.stderr
    assert (folder / "b.tar.gz").read_text() == "mine"
    (folder / "link.tar.gz").symlink_to(folder / "nowhere")
    assert doctor("--bundle", str(folder / "link.tar.gz")).returncode == 2
    assert not (folder / "nowhere").exists()


def test_a_folder_that_is_not_there_leaves_nothing_behind(doctor, folder):
    done = doctor("--bundle", str(folder / "none" / "b.tar.gz"))
    assert done.returncode == 3 and "cannot be written" in done.stderr and "Traceback" not in done.stderr


def test_a_full_disk_leaves_nothing_behind(tmp_path, monkeypatch):
    def full(_handle):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(bundle.os, "fsync", full)
    with pytest.raises(OSError):
        bundle.write_new(str(tmp_path / "b.tar.gz"), b"x", 0o600)
    assert list(tmp_path.iterdir()) == []


def test_a_file_system_without_links_is_written_to_and_still_not_overwritten(tmp_path, monkeypatch):
    def refused(_from, _to, **_folders):
        raise PermissionError(1, "Operation not permitted")

    monkeypatch.setattr(bundle.os, "link", refused)
    bundle.write_new(str(tmp_path / "b.tar.gz"), b"x", 0o600)
    assert (tmp_path / "b.tar.gz").read_bytes() == b"x"
    with pytest.raises(OSError):
        bundle.write_new(str(tmp_path / "b.tar.gz"), b"y", 0o600)
    assert [file.name for file in tmp_path.iterdir()] == ["b.tar.gz"]


def test_an_ordinary_user_gets_what_it_may_read_and_is_told_the_rest(doctor, node, folder):
    (node.folder / "proc/driver/nvidia/params").chmod(0o600)
    (folder / "work").mkdir()
    (folder / "work").chmod(0o777)
    done = doctor("--bundle", str(folder / "work/b.tar.gz"), user=65534)
    assert done.returncode == 0, done.stderr
    assert "driver/params.txt" in done.stdout
    rows = {row["file"]: row for row in json.loads(members(folder / "work/b.tar.gz")["manifest.json"])["files"]}
    assert (
        rows["driver/params.txt"]["name"] is None
        and "not readable by this user" in rows["driver/params.txt"]["problem"]
    )
    assert rows["report.json"]["name"] and rows["kernel.log"]["name"]


def test_a_node_that_was_never_verified_gives_its_raw_answers(doctor, node, folder):
    (node.folder / "etc/gpuwright/expectations.json").unlink()
    assert doctor("--bundle", str(folder / "b.tar.gz")).returncode == 0
    found = members(folder / "b.tar.gz")
    assert "report.json" not in found and "nvidia-smi/query.xml" in found
    rows = {row["file"]: row for row in json.loads(found["manifest.json"])["files"]}
    assert "expectations.json: No such file" in rows["report.json"]["problem"]
    replayed = doctor("--replay", str(folder / "b.tar.gz"))
    assert replayed.returncode == 0 and "without a report" in replayed.stdout and "PASS" in replayed.stdout


def test_a_driver_that_hangs_is_asked_once(monkeypatch):
    from gpuwright.doctor.bundle import answers as bundle_answers
    from gpuwright.host.bounded import Finished

    asked = []

    def hang(command, timeout, limit_bytes):
        asked.append(command)
        is_smi = command[0] == "nvidia-smi"
        return Finished(None if is_smi else 0, "", "", is_smi, False, False, "did not finish" if is_smi else "")

    monkeypatch.setattr(bundle_answers, "run_bounded", hang)
    found = {answer.name: answer for answer in bundle_answers.raw_answers("/nonexistent")}
    assert [command for command in asked if command[0] == "nvidia-smi"] == [["nvidia-smi", "-q", "-x"]]
    assert "did not finish" in found["nvidia-smi/query.xml"].problem
    assert "did not answer earlier" in found["nvidia-smi/list.txt"].problem


def test_the_whole_stays_below_twenty_megabytes(tmp_path, monkeypatch):
    """Incompressible answers: each at its bound."""
    chance = random.Random(1)
    lines = "".join(chance.randbytes(500).hex() + "\n" for _ in range(6000))
    answers = [bundle.Answer(f"part-{index}.txt", "", "", 0, lines, "") for index in range(8)]
    monkeypatch.setattr(bundle, "raw_answers", lambda root: answers)
    report = make_report("a5-01", "2026-01-05T10:00:00Z", [], {}, {}, None)
    monkeypatch.setattr(bundle, "_report", lambda *given: (report, []))
    made = bundle.make_bundle(str(tmp_path / "b.tar.gz"), str(tmp_path), "standard", False, lambda expectations: report)
    assert made.size < 20_000_000
    rows = {row["file"]: row for row in made.rows}
    assert rows["part-0.txt"]["problem"] == "" and "too large" in rows["part-7.txt"]["problem"]


def test_options_that_contradict_each_other(doctor):
    for wrong in (
        ("--unmasked",),
        ("--bundle", "a", "--replay", "b"),
        ("--bundle", "a", "--json"),
        ("--bundle", "a", "--record", "60"),
        ("--replay", "b", "--nagios"),
        ("--replay", "b", "--expectations", "c"),
    ):
        done = doctor(*wrong)
        assert done.returncode == 2 and "only" in done.stderr, wrong


def test_packed_names_no_file_outside(tmp_path):
    data = bundle.packed([("a.txt", b"x")])
    assert data[3] & 8 == 0  # no file name in the head of gzip (RFC 1952)
    with tarfile.open(fileobj=io.BytesIO(data)) as archive:
        assert archive.getnames() == ["gpuwright-bundle/a.txt"]
