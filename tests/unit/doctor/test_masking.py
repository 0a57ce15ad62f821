"""Masking: what identifies goes, what explains stays, and one value has one token."""

from __future__ import annotations

import re
import time

import pytest
from gpuwright.doctor.bundle.masking import Masker
from gpuwright.doctor.bundle.masking_known import people, vocabulary

NAMES = {
    "host": ("gpu-a100-07.hpc.uni-x.de", "node1"),
    "user": ("ada", "nvidia", "jdoe", "bob"),
}


@pytest.fixture
def masker() -> Masker:
    made = Masker(vocabulary({"in_use": {}}))
    for kind, names in NAMES.items():
        for name in names:
            made.learn(kind, name)
    return made


GONE = {
    "journal": ("Jan 05 10:00:00 gpu-a100-07 kernel: NVRM: Xid", "gpu-a100-07"),
    "capitals": ("connected to GPU-A100-07", "a100-07"),
    "other host": ("nfs: server storage.hpc.uni-x.de not responding", "storage"),
    "parent domain": ("mail from uni-x.de", "uni-x"),
    "its other host": ("ssh login.uni-x.de", "login"),
    "device mapper": ("root=/dev/mapper/gpu--a100--07-root", "a100--07"),
    "volume group": ("rd.lvm.lv=gpu_a100_07/root", "a100_07"),
    "home": ("/home/jdoe/.cache", "jdoe"),
    "home of a tool's name": ("/home/nvidia/run.py", "/nvidia/"),
    "unknown home": ("/home/zed_q/run.py", "zed_q"),
    "in a word": ("bob_data bob.1.log ~bob (bob)", "bob"),
    "uid": ('audit: acct="ada" exe=su', "ada"),
    "address": ("inet 10.0.0.5/24 brd 10.0.0.255", "10.0.0"),
    "port": ("tcp 10.0.0.5:8080", "10.0.0"),
    "range": ("dhcp 10.0.0.5-10.0.0.9", "10.0.0"),
    "command line": ("ip=10.1.2.3::10.1.2.1:255.255.255.0:n:eth0", "10.1.2"),
    "ipv6": ("fe80::5e26:aff:fe01:9b3d%eno1 [2001:db8::5]:443", "5e26"),
    "ipv6 long": ("2001:db8:0:0:0:0:0:7", "db8"),
    "ipv4 in ipv6": ("::ffff:10.9.8.7", "10.9.8"),
    "mac": ("link/ether aa:bb:cc:dd:ee:ff", "bb:cc"),
    "mac with hyphens": ("BOOTIF=01-aa-bb-cc-dd-ee-ff", "bb-cc"),
    "gid": ("gid fe80:0000:0000:0000:0c42:a103:0016:054c", "a103"),
    "guid": ("node_guid: 0c42:a103:0016:054c", "a103"),
    "hexadecimal guid": ("Node GUID: 0x0c42a1030016054c", "a103"),
    "uuid in capitals": ("UUID 4E3D2C1B-1111-2222-3333-444455556666", "4e3d"),
    "old MIG": ("MIG-GPU-4e3d2c1b-1111-2222-3333-444455556666/1/0", "4e3d"),
    "short uuid": ("CUDA_VISIBLE_DEVICES=GPU-4e3d2c1b", "4e3d"),
    "machine id": ("machine-id 4e3d2c1b11112222333344445555666a", "4e3d"),
    "vfat": ("root=UUID=4E3D-1234", "4e3d"),
    "label": ("root=LABEL=labroot", "labroot"),
    "disk": ("/dev/disk/by-id/nvme-SAMSUNG_MZQL2_S64FNE0R123456", "s64fne"),
    "serial": ("usb 1-1: SerialNumber: 0123456789AB", "6789ab"),
    "serial of a table": ("Serial Number: WD-WX12345", "wx12345"),
    "s/n": ("baseboard S/N: ZM195S012345", "zm195"),
    "mail": ("Maintainer <john.doe@acme.com>", "doe"),
    "login": ("https://u:p@ss@mirror.acme.com/x", "p@ss"),
    "mirror": ("https://u:p@ss@mirror.acme.com/x", "acme"),
    "token": ("GET /x?token=abc123def&y=1", "abc123"),
    "password": ("run --password hunter2 --epochs 5", "hunter2"),
    "key": ("WANDB_API_KEY=0a1b2c3d4e", "0a1b"),
    "initiator": ("iqn.1994-05.com.redhat:4f2e", "4f2e"),
    "wwn": ("/dev/disk/x wwn-0x5000c500a1b2c3d4", "c500a1"),
    "field": ("    Chassis Serial Number             : 18220001", "18220001"),
    "xml": ("<slot_number>27</slot_number>", "27"),
    "pdi": ("    GPU PDI                               : 0x427f47bdf3c96203", "427f"),
}


@pytest.mark.parametrize("name", sorted(GONE))
def test_it_is_gone(masker, name):
    text, secret = GONE[name]
    masker.learn_from(text)
    assert secret.lower() in text.lower() and secret.lower() not in masker.text(text).lower()


STAYS = [
    "00000000:3B:00.0 0000:3b:00.0 PCI:0000:3b:00 [10de:1db4] (rev a1)",
    "nvidia-smi nvidia node1 /sys/devices/system/node/node1/cpulist ada lovelace",
    "NVRM version: NVIDIA UNIX x86_64 Kernel Module  580.95.05",
    "    VBIOS Version                         : 96.00.D9.00.02",
    "    Image Version                         : G503.0203.00.05",
    "    Board Part Number                     : 900-21001-0000-000",
    "    Serial Number                         : N/A",
    "    Serial Number                         : Unknown Error",
    "<serial>GPU is lost</serial><clusterUuid>00000000-0000-0000-0000-000000000000</clusterUuid>",
    "libcudnn9-cuda-12-9.10.2.21-1.x86_64 libcublas-12.9.1.4 nvidia-cublas-cu12==12.9.1.4 cudnn 9.10.2.21",
    "libnccl.so.2.27.5 libcudnn.so.9.10.2.21 firmware version 1.2.3.4",
    "127.0.0.1 ::1 0.0.0.0 255.255.255.0 10:00:00",
    "https://developer.download.nvidia.com/compute/cuda/repos docs.nvidia.com pypi.org",
    "train-gan@default.service user@1000.service gan_trainer.smoke",
    "DMI: Dell Inc. PowerEdge R750xa/0PJ80M, BIOS 1.6.5 04/15/2022",
    "[    5.123456] Serial: 8250/16550 driver, 4 ports, IRQ sharing enabled",
    "srcversion:     8A3F0D1C2B4E5F6071829A3",
    "vermagic:       4.18.0-477.10.1.el8_8.x86_64 SMP mod_unload modversions",
    "[    0.000000] BIOS-e820: [mem 0x0000000000000000-0x000000000009ffff] usable",
    "root=/dev/mapper/rhel-root ro crashkernel=auto",
]


@pytest.mark.parametrize("text", STAYS)
def test_it_stays(masker, text):
    masker.learn_from(text)
    assert masker.text(text) == text


def test_one_value_one_token_and_two_values_two(masker):
    uuid = "4e3d2c1b-1111-2222-3333-444455556666"
    masker.learn("serial", "1320621000001")
    masker.learn("serial", "1320621000002")
    text = masker.text(f"GPU-{uuid} {uuid.upper()} {uuid.replace('-', '')} 1320621000001 1320621000002 1320621000001")
    first, second, bare, one, two, again = text.split()
    assert first == "GPU-" + second and second.replace("-", "") == bare
    assert one == again != two and len(one) == 13 and (one + two).isdigit()
    assert re.fullmatch(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}", second)


def test_a_token_is_not_masked_again(masker):
    """The serial number of one card may be the token of another."""
    cards = [f"{number:013d}" for number in (3, 1, 2)]
    text = "\n".join(f"    Serial Number  : {card}" for card in cards)
    masker.learn_from(text)
    found = re.findall(r": ([0-9]+)", masker.text(text))
    assert len(set(found)) == 3 and masker.text(text) == masker.text(text)


def test_a_record_is_masked_by_its_keys_and_its_texts(masker):
    record = {
        "hostname": "node1",
        "users": ["nvidia", "guest7"],
        "training_user": "trainer",
        "clique_id": 5,
        "slot_number": 12,
        "count": 5,
        "version": "12.9.1.4",
        "ok": True,
        "none": None,
        "load": 0.5,
        "/home/jdoe/x": ["/home/jdoe/y"],
        "gpus": [{"serial": "1320621000001", "name": "NVIDIA A100-SXM4-80GB"}],
    }
    masked = masker.value(record)
    assert masked["hostname"].startswith("host-") and masked["users"][0].startswith("user-")
    assert len(set(masked["users"])) == 2 and masked["training_user"] == "trainer"
    assert (masked["clique_id"], masked["slot_number"], masked["count"]) == (1, 1, 5)
    same = ("version", "ok", "none", "load")
    assert [masked[name] for name in same] == [record[name] for name in same]
    key = next(name for name in masked if name.startswith("/home/"))
    assert re.fullmatch(r"/home/user-[0-9]+/x", key) and masked[key] == [key[:-1] + "y"]
    assert masked["gpus"][0]["name"] == "NVIDIA A100-SXM4-80GB" and masked["gpus"][0]["serial"] != "1320621000001"
    assert record["hostname"] == "node1"


def test_who_the_people_of_a_node_are(tmp_path, monkeypatch):
    for name in ("SUDO_USER", "LOGNAME", "USER"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("SUDO_USER", "admin7")
    (tmp_path / "etc").mkdir()
    lines = ["root:x:0:0:root:/root:/bin/sh", "chrony:x:990:990::/var/lib/chrony:/sbin/nologin", "damaged:line"]
    lines += ["nobody:x:65534:65534:Kernel Overflow User:/:/sbin/nologin"]
    lines += ["zed:x:1000:1000:Zed Zebra,Room 7:/data/people/zed:/bin/sh", "ann:x:2001:1:,:/home/ann:/bin/sh"]
    (tmp_path / "etc/passwd").write_text("\n".join(lines) + "\n")
    assert [pair for pair in people(str(tmp_path)) if pair[1]] == [
        ("user", "admin7"),
        ("user", "zed"),
        ("person", "Zed Zebra"),
        ("home", "/data/people/zed"),
        ("user", "ann"),
    ]


@pytest.mark.parametrize(
    "unit", ["a", "a:", "0", "1.", "ab-", "a@", "a://", "a.", ":", "token=", "A b ", "<a>", "x\n", "lib-"]
)
def test_the_time_grows_with_the_text_alone(masker, unit):
    """A log may hold a line of megabytes; a pattern that begins anew at each letter would take hours for it."""

    def seconds(size: int) -> float:
        text = unit * (size // len(unit))
        begin = time.process_time()
        masker.learn_from(text)
        masker.text(text)
        return time.process_time() - begin

    assert seconds(400_000) < 8


@pytest.mark.parametrize("reason", ["ok", "see gannetbox4", "gannetbox4 (Balthasar) swaps S/N 7HQ-88"])
def test_what_a_person_gave_as_a_reason_is_masked_as_a_whole(reason):
    """A sentence may name a host or a person that nothing else on the node names."""
    masker = Masker()
    masker.learn_reason(reason)
    until = "acknowledged until 2026-02-06T10:00:00Z by user-1: "
    assert masker.text(f"{until}{reason}; the finding: 8 lanes") == f"{until}reason-1; the finding: 8 lanes"
    assert masker.text(f"switched off by the inventory: {reason}") == "switched off by the inventory: reason-1"
    record = {"reason": reason, "skip_checks": {"gpu.sram": f" {reason} "}, "status": "all ok"}
    found = {"reason": "reason-1", "skip_checks": {"gpu.sram": "reason-1"}, "status": "all ok"}
    assert masker.value(record) == found


@pytest.mark.parametrize(
    "line",
    ["nfs: server {} not responding, still trying", "nfs: server {} OK", r"CIFS: VFS: \\{} has not responded"],
)
def test_a_file_server_of_the_kernels_log_is_a_host(line):
    masker = Masker()
    masker.learn_from("[    5.000000] a5-01 kernel: " + line.format("filer-north7"))
    assert "filer-north7" not in masker.text(
        '{"pci_id": "filer-north7", "text": "' + line.format("filer-north7") + '"}'
    )
