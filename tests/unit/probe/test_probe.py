"""The whole probe: the reference server, an empty host, and hosts full of garbage."""

from __future__ import annotations

import json
import shutil
import tempfile
from pathlib import Path

import pytest
from fact_schemas import node_errors
from gpuwright.probe.host import ask, probe, read_os, read_pythons
from host_tree import RUNNING, HostTree, answers
from hypothesis import given, settings
from hypothesis import strategies as st


@pytest.fixture
def host(tmp_path):
    return HostTree(tmp_path)


def reference_server(host: HostTree) -> None:
    """A5: RHEL 8.8 with one V100, nouveau still loaded."""
    host.put("/etc/os-release", 'ID="rhel"\nVERSION_ID="8.8"\nPRETTY_NAME="Red Hat Enterprise Linux 8.8 (Ootpa)"\n')
    host.put("/proc/sys/kernel/hostname", "a5-01\n")
    host.running_kernel(RUNNING)
    host.kernel(RUNNING, headers=True)
    host.pci_device("0000:3b:00.0")
    host.bind("0000:3b:00.0", "nouveau")
    host.put("/sys/module/nouveau/refcnt", "0")


def test_a_bare_reference_server(host):
    reference_server(host)
    node = probe(host.root, answers())
    assert node_errors(node) == []
    assert node["hostname"] == "a5-01"
    assert node["os"]["major"] == 8 and node["os"]["family"] == "redhat"
    assert node["gpus"][0]["bound_driver"] == "nouveau"
    assert node["nouveau_loaded"] is True and node["nvidia"]["loaded"] is None
    # Nothing is installed that a reboot could bring up.
    assert node["reboot"] == {"required": False, "reasons": [], "codes": []}
    assert node["verified"] is False


def test_the_same_server_after_the_installation(host):
    reference_server(host)
    host.put("/var/lib/gpuwright/verified.json", "{}")
    node = probe(host.root, answers(modinfo="license: NVIDIA\nversion: 580.95.05\n"))
    assert node_errors(node) == []
    assert node["reboot"]["required"] is True
    assert "nouveau is loaded" in node["reboot"]["reasons"]
    assert node["verified"] is True


@pytest.mark.parametrize(
    ("report", "check", "expected"),
    [
        (None, None, None),
        ('{"verdict": "FAIL", "time": "2026-01-05T10:00:00Z"}', None, "FAIL 2026-01-05T10:00:00Z"),
        ('{"verdict": "FAIL", "time": "2026-01-05T10:00:00Z"}', '{"verdict": "PASS", "time": "2026-01-06T10:00:00Z"}',
         "PASS 2026-01-06T10:00:00Z"),
        ('{"verdict": "FAIL", "time": "2026-01-07T10:00:00Z"}', '{"verdict": "PASS", "time": "2026-01-06T10:00:00Z"}',
         "FAIL 2026-01-07T10:00:00Z"),
        ("{", '{"verdict": "WARN", "time": "2026-01-06T10:00:00Z"}', "WARN 2026-01-06T10:00:00Z"),
        ('{"verdict": "GREAT", "time": "2026-01-05T10:00:00Z"}', '{"verdict": "FAIL", "time": 5}', None),
        ("[" * 100000, "null", None),
    ],
)  # fmt: skip
def test_the_last_verdict_is_the_newer_one(host, report, check, expected):
    reference_server(host)
    for name, text in (("report", report), ("boot-check", check)):
        if text is not None:
            host.put(f"/var/lib/gpuwright/{name}.json", text)
    told = probe(host.root, answers())["last_verdict"]
    assert (told and f"{told['verdict']} {told['time']}") == expected


def test_a_host_without_anything(tmp_path):
    node = probe(str(tmp_path / "absent"), answers())
    assert node_errors(node) == []
    assert node["gpus"] == [] and node["memory_mib"] is None and node["secure_boot"] == "unsupported"
    assert node["os"] == {"id": "unknown", "version": "unknown", "major": None, "family": "unknown", "name": "unknown"}
    assert node["disks"] == {"/": None, "/boot": None, "/var": None, "/opt": None}


@pytest.mark.parametrize(
    ("release", "family", "major"),
    [
        ('ID="rocky"\nID_LIKE="rhel centos fedora"\nVERSION_ID="8.10"\n', "redhat", 8),
        ('ID="almalinux"\nVERSION_ID="8.10"\n', "redhat", 8),
        ("ID=debian\nVERSION_ID=12\n", "debian", 12),
        ('ID=ubuntu\nID_LIKE=debian\nVERSION_ID="22.04"\n', "debian", 22),
        ("ID=debian\nVERSION_CODENAME=sid\n", "debian", None),
        ("ID=plan9\nVERSION_ID=four\n", "unknown", None),
    ],
)
def test_distributions(host, release, family, major):
    host.put("/etc/os-release", release)
    found = read_os(host.root)
    assert (found["family"], found["major"]) == (family, major)


def test_pythons(host):
    for path in (
        "/usr/bin/python3.11",
        "/usr/local/bin/python3.11",
        "/usr/local/bin/python3.12",
        "/usr/bin/python3.6m",
    ):
        host.put(path, "#!")
        (host.folder / path.lstrip("/")).chmod(0o755)
    host.put("/usr/bin/python3.9", "not executable")
    host.link("/usr/bin/python3.8", "gone")
    assert read_pythons(host.root) == {"3.11": "/usr/bin/python3.11", "3.12": "/usr/local/bin/python3.12"}


def test_an_interpreter_behind_an_absolute_link(host):
    host.put("/opt/python/bin/python3.11", "#!")
    (host.folder / "opt/python/bin/python3.11").chmod(0o755)
    host.link("/usr/local/bin/python3.11", "/opt/python/bin/python3.11")
    assert read_pythons(host.root) == {"3.11": "/usr/local/bin/python3.11"}


def test_a_program_that_is_not_there_says_nothing():
    assert ask(["gpuwright-no-such-program"]) is None
    assert ask(["sh", "-c", "echo out; echo err >&2; exit 3"]) == "out\nerr\n"


# Every file that the probe reads, so that garbage lands where it hurts.
FILES = [
    "/etc/os-release", "/proc/cpuinfo", "/proc/meminfo", "/proc/sys/kernel/osrelease", "/proc/sys/kernel/hostname",
    "/proc/driver/nvidia/version", "/proc/7/stat", "/proc/7/comm", "/proc/7/fd", "/sys/module/nvidia/version",
    "/sys/module/nvidia/taint", "/sys/bus/pci/devices/0000:01:00.0/device",
    "/sys/bus/pci/devices/0000:01:00.0/numa_node", "/sys/bus/pci/devices/0000:01:00.0/current_link_speed",
    "/sys/bus/pci/devices/0000:01:00.0/max_link_width",
    "/sys/devices/system/node/node0/meminfo", "/sys/devices/system/node/node0/cpulist", "/boot/grub2/grubenv",
    "/boot/loader/entries/a.conf", "/boot/vmlinuz-x", "/lib/modules/x/vmlinuz", "/usr/lib64/libnvidia-ml.so.1",
    "/sys/firmware/efi/efivars/SecureBoot-8be4df61", "/var/lib/dkms/mok.pub", "/run/utmp", "/run/systemd/sessions/1",
    "/var/spool/slurmd/job1", "/usr/bin/python3.11",
]  # fmt: skip
PIECES = [
    b"", b"\0", b"\xff\xfe", b"0x10de", b"-1", b"=", b":", b"saved_entry=0", b"saved_entry=\0", b"USER=x\nLEADER=7",
    b"linux /vmlinuz-x", b"MemTotal: 99999999999999999999 kB", b"Node 0 MemTotal: 1 kB", b"processor : 0", b"8 GT/s",
    b"VERSION_ID=8.8", b"580.95.05", b"\n", b"7 (x) S 1", b"saved_entry=\xc2\xb2", b"USER=x\nLEADER=\xc2\xb2",
    b"7 (x) S \xc2\xb2", b"1_0", "\u0664\u00e9".encode(), b"9" * 400,
]  # fmt: skip
garbage = st.lists(st.sampled_from(PIECES) | st.binary(max_size=8), max_size=4).map(b"".join)
words = st.none() | garbage.map(lambda data: data.decode("utf-8", "replace"))


@settings(max_examples=150, deadline=None)
@given(
    content=st.dictionaries(st.sampled_from(FILES), garbage | st.just("folder") | st.just("link"), max_size=len(FILES)),
    said=words,
)
def test_no_garbage_raises_anything_or_breaks_the_shape(content, said):
    folder = Path(tempfile.mkdtemp(prefix="gpuwright-garbage-"))
    try:
        host = HostTree(folder)
        host.put("/sys/bus/pci/devices/0000:01:00.0/vendor", "0x10de\n")
        host.put("/sys/bus/pci/devices/0000:01:00.0/class", "0x030200\n")
        for path, data in content.items():
            if data == "folder":
                host.put(path + "/x")
            elif data == "link":
                host.link(path, "/proc/self/root/../" + path)
            else:
                host.put(path, data)
        node = probe(host.root, lambda command: said)
    finally:
        shutil.rmtree(folder)
    assert node_errors(node) == []
    assert len(node["gpus"]) == 1
    json.dumps(node)
