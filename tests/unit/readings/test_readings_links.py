"""Readers of NVLink, topology, InfiniBand and disks: there, not there, and not understood are three things."""

from __future__ import annotations

import json

import pytest
from gpuwright.checks import shared_readings as readings
from gpuwright.checks.all import READERS
from gpuwright.checks.gpu.nvlink import mig_indexes
from gpuwright.checks.host import disks_reading as readings_storage
from gpuwright.checks.host.disks_reading import ask_disk, read_disks
from gpuwright.gpu.cards import card_of, has_nvlink, is_wired
from gpuwright.readings.attempt import attempt
from gpuwright.readings.links import parse_errors, parse_links, parse_ways, read_infiniband, read_nvlink, read_ways
from gpuwright.verdict.reader import Seen
from host_tree import HostTree

UUID = "(UUID: GPU-00000000-1111-2222-3333-000000000001)"
STATUS = f"""\
GPU 0: NVIDIA A100-SXM4-80GB {UUID}
\t Link 0: 25 GB/s
\t Link 1: <inactive>
GPU 1: Quadro RTX 8000
\t Link 0: 25.781 GB/s

"""
ERRORS = f"""\
GPU 0: NVIDIA A100-SXM4-80GB {UUID}
\t Link 0: Replay Errors: 1
\t Link 0: CRC Flit Errors: 5
\t Link 1: Replay Errors: 2
GPU 1: Quadro RTX 8000
\t Link 0: Replay Errors: 0
"""
MATRIX = (
    "\t\x1b[4mGPU0\tGPU1\tNIC0\tCPU Affinity\tNUMA Affinity\tGPU NUMA ID\x1b[0m\n"
    "GPU0\t X \tNV12\tPXB\t0-31\t0\t\tN/A\nGPU1\tNV12\t X \tSYS\t32-63\t1\t\tN/A\nNIC0\tPXB\tSYS\t X \n\n"
    "Legend:\n\n  X    = Self\n"
)
A100, V100 = {"name": "NVIDIA A100-SXM4-80GB"}, {"name": "Tesla V100-PCIE-16GB"}


@pytest.fixture
def host(tmp_path):
    return HostTree(tmp_path / "node")


def test_nvlink_of_each_card(on_path, tmp_path):
    for name, text in (("s", STATUS), ("e", ERRORS)):
        (tmp_path / name).write_text(text)
    on_path("nvidia-smi", f'cat {tmp_path}/"${{2#-}}"')
    first, second = read_nvlink([A100, V100]) or []
    assert first == {
        "index": 0,
        "name": "NVIDIA A100-SXM4-80GB",
        "links": 2,
        "active": 1,
        "wired": True,
        "errors": {"replay": 3, "crc flit": 5},
    }
    assert (second["links"], second["active"], second["wired"], second["errors"]) == (1, 1, False, {"replay": 0})


def test_cards_without_connectors_are_not_asked(on_path):
    on_path("nvidia-smi", "exit 9")
    assert read_nvlink([V100, {"name": "Tesla T4"}]) is None
    with pytest.raises(OSError, match="nvlink -s ended with 9"):
        read_nvlink([A100])
    on_path("nvidia-smi", "echo 'GPU 0: NVIDIA A40 NVML: Unable to retrieve, as all links are inActive'; exit 3")
    assert [(card["name"], card["links"], card["errors"]) for card in read_nvlink([A100]) or []] == [
        ("NVIDIA A40", 0, {})
    ]


@pytest.mark.parametrize(
    ("name", "connector"),
    [
        ("Tesla V100-PCIE-16GB", False),
        ("Tesla V100-SXM2-16GB", True),
        ("Quadro GV100", True),
        ("NVIDIA H100 80GB HBM3", True),
        ("NVIDIA L40S", False),
        ("NVIDIA GeForce RTX 3090", True),
        ("NVIDIA GeForce RTX 4090", False),
        ("NVIDIA A10", False),
        ("NVIDIA A30", True),
        ("NVIDIA GeForce RTX 2080", True),
        ("NVIDIA RTX A4000", False),
        ("NVIDIA TITAN V", False),
        ("unknown 10de:2abc", True),
    ],
)
def test_connectors(name, connector):
    assert has_nvlink(card_of(name)) is connector


@pytest.mark.parametrize(
    ("name", "wired"),
    [
        ("Tesla P100-SXM2-16GB", True),
        ("Tesla V100-SXM2-16GB", True),
        ("NVIDIA A100-SXM4-80GB", True),
        ("NVIDIA H100 80GB HBM3", True),
        ("NVIDIA H200", True),
        ("NVIDIA B200", True),
        ("NVIDIA B300 SXM6 AC", True),
        ("NVIDIA GB300", True),
        ("NVIDIA B500-SXM8", True),
        ("NVIDIA GH200 480GB", False),
        ("NVIDIA GH200 144G HBM3e", False),
        ("NVIDIA GB200", False),
        ("NVIDIA H200 NVL", False),
        ("NVIDIA H100 NVL", False),
        ("NVIDIA A100 80GB PCIe", False),
        ("Quadro GV100", False),
        ("Tesla T4", False),
    ],
)
def test_boards_that_wire_all_of_their_links(name, wired):
    assert is_wired(card_of(name)) is wired


@pytest.mark.parametrize(
    "words",
    [
        "NVML: Unable to retrieve Nvlink information as all links are inActive",
        "Device does not have or support Nvlink",
    ],
)
def test_a_card_without_a_bridge_has_no_link(words):
    (card,) = parse_links(f"GPU 0: NVIDIA RTX A4000 {UUID} {words}\n")
    assert (card["name"], card["links"], card["active"]) == ("NVIDIA RTX A4000", 0, 0)
    (card,) = parse_links(f"GPU 0: NVIDIA RTX A6000 {UUID}\nNVML: {words.replace('Device does not', 'inActive')}\n")
    assert (card["links"], card["active"]) == (0, 0)


@pytest.mark.parametrize("line", ["\t Link 0: ERR!", "\t Link 0: [N/A]", "something else", "\t Link 0: 0x1"])
def test_a_link_in_unknown_words_is_no_reading(line):
    with pytest.raises(ValueError, match="nvlink -s says"):
        parse_links(f"GPU 0: A100 {UUID}\n{line}\n")


MIG_ANSWERS = [
    "NVML: Unable to retrieve NVLink information: Not Supported",
    "\t MIG devices do not support NVLink",
    "\t Link 0: N/A",
    "\t Link 0: [N/A]\n\t Link 1: [N/A]",
]


@pytest.mark.parametrize("words", MIG_ANSWERS)
def test_a_card_in_mig_mode_may_say_that_it_cannot_tell(on_path, tmp_path, words):
    text = f"GPU 0: NVIDIA A100-SXM4-40GB {UUID}\n{words}\nGPU 1: NVIDIA A100-SXM4-40GB\n\t Link 0: 25 GB/s\n"
    for name, answer in (("s", text), ("e", text + "\t Link 0: Replay Errors: 3\n")):
        (tmp_path / name).write_text(answer)
    on_path("nvidia-smi", f'cat {tmp_path}/"${{2#-}}"; exit 3')
    with pytest.raises((ValueError, OSError)):
        read_nvlink([A100])
    silent, other = read_nvlink([A100], [0]) or []
    assert silent["mig"] == " ".join(words.splitlines()[0].split()) and silent["active"] == 0
    assert ("mig" in other, other["active"], other["errors"]) == (False, 1, {"replay": 3})


def test_errors_of_a_card_in_mig_mode_need_not_be_reported():
    text = "GPU 0: A100\n\t Link 0: Replay Errors: N/A\n"
    assert parse_errors(text, [0]) == {0: {}}
    with pytest.raises(ValueError, match="nvlink -e says"):
        parse_errors(text, [1])


@pytest.mark.parametrize(
    ("answer", "expected"),
    [
        ({"gpus": [{"mig_mode": "Disabled"}, {"mig_mode": "Enabled"}, {"mig_mode": None}]}, [1]),
        ({"unreadable": "no"}, []),
        (None, []),
    ],
)
def test_cards_in_mig_mode_are_those_of_nvidia_smi(answer, expected):
    assert mig_indexes(answer) == expected


def test_a_link_without_speed_is_not_up():
    assert parse_links("GPU 0: A100\n\t Link 0: 0.0 GB/s\n")[0]["active"] == 0


def test_errors_that_are_no_numbers_are_no_reading():
    with pytest.raises(ValueError, match="nvlink -e says"):
        parse_errors("GPU 0: A100\n\t Link 0: Replay Errors: N/A\n")
    with pytest.raises(ValueError, match="nvlink -e says"):
        parse_errors("\t Link 0: Replay Errors: 4\n")


def test_ways(on_path, tmp_path):
    assert parse_ways(MATRIX) == [["X", "NV12"], ["NV12", "X"]]
    (tmp_path / "m").write_text(MATRIX)
    on_path("nvidia-smi", f'[ "$*" = "topo -m" ] && cat {tmp_path}/m')
    assert read_ways([A100, A100]) == [["X", "NV12"], ["NV12", "X"]]
    assert read_ways([A100]) is None


@pytest.mark.parametrize(
    "text",
    ["", "No devices were found", MATRIX.replace("NV12", "ERR!"), "\n".join(MATRIX.splitlines()[:2]), MATRIX[:60]],
)
def test_a_matrix_that_is_not_whole_is_no_reading(text):
    with pytest.raises(ValueError, match="cannot be parsed"):
        parse_ways(text)


def test_infiniband(host):
    assert read_infiniband(host.root) is None
    port = "/sys/class/infiniband/mlx5_0/ports/1"
    for name, text in (
        ("state", "4: ACTIVE"),
        ("phys_state", "5: LinkUp"),
        ("rate", "100 Gb/sec (4X EDR)"),
        ("link_layer", "InfiniBand"),
        ("counters/link_downed", "2"),
        ("counters/link_error_recovery", "1"),
    ):
        host.put(f"{port}/{name}", text + "\n")
    host.put("/sys/class/infiniband/mlx5_0/fw_ver", "20.31.2006\n")
    (found,) = read_infiniband(host.root)
    assert found == {
        "name": "mlx5_0 port 1",
        "state": "ACTIVE",
        "physical": "LinkUp",
        "rate": "100 Gb/sec (4X EDR)",
        "layer": "InfiniBand",
        "link_downed": 2,
        "recovered": 1,
        "firmware": "20.31.2006",
        "usable": False,
    }
    host.put("/sys/class/infiniband_verbs/uverbs0/ibdev", "mlx5_0\n")
    assert read_infiniband(host.root)[0]["usable"] is False
    host.put("/dev/infiniband/uverbs0")
    assert read_infiniband(host.root)[0]["usable"] is True
    (host.folder / port.lstrip("/") / "state").write_text("what?\n")
    assert read_infiniband(host.root)[0]["state"] == ""


def put_disk(host: HostTree, name: str, **files: str) -> None:
    for path, text in {"device/model": "ACME 9000", "device/state": "live", "removable": "0", **files}.items():
        host.put(f"/sys/block/{name}/{path}", text + "\n")


def test_disks_that_are_hardware(host, monkeypatch):
    with pytest.raises(OSError, match="lists no device"):
        read_disks(host.root)
    monkeypatch.setattr(readings_storage, "find_program", lambda name: None)
    host.put("/sys/block/loop0/size", "0")
    host.put("/sys/block/vda/device/vendor", "0x1af4")
    put_disk(host, "sdb", **{"device/model": "QEMU HARDDISK", "device/state": "running"})
    put_disk(host, "sdc", removable="1")
    put_disk(host, "nvme1n1", **{"device/model": "Amazon Elastic Block Store"})
    assert read_disks(host.root) is None
    put_disk(host, "nvme0n1")
    put_disk(host, "sda", **{"device/state": "running", "device/vendor": "ATA"})
    assert [(disk["name"], disk["model"], disk["state"], disk["health"]) for disk in read_disks(host.root) or []] == [
        ("nvme0n1", "ACME 9000", "live", None),
        ("sda", "ATA ACME 9000", "running", None),
    ]


@pytest.mark.parametrize(
    ("answer", "expected"),
    [
        ({"smart_status": {"passed": False}}, {"passed": False, "critical_warning": None, "percentage_used": None}),
        (
            {
                "smart_status": {"passed": True},
                "nvme_smart_health_information_log": {"critical_warning": 1, "percentage_used": 7},
            },
            {"passed": True, "critical_warning": 1, "percentage_used": 7},
        ),
    ],
)
def test_what_smartctl_says(on_path, answer, expected):
    # Its exit status is a set of bits, and not 0 for a failing disk whose state it tells.
    on_path("smartctl", f"cat <<'E'\n{json.dumps(answer)}\nE\nexit 8")
    assert ask_disk("nvme0n1") == expected


@pytest.mark.parametrize(
    "script", ["echo Permission denied; exit 2", "echo '{}'", "echo '[]'", "echo '{\"smart_status\": 1}'"]
)
def test_smartctl_without_an_answer_is_unreadable(on_path, script):
    on_path("smartctl", script)
    assert "smartctl does not report the health of /dev/sda" in (ask_disk("sda") or {})["unreadable"]


def test_the_fabric_managers_version(on_path):
    on_path("nv-fabricmanager", "echo 'Fabric Manager version is : 535.104.05'")
    assert readings.read_fabric_version() == "535.104.05"
    on_path("nv-fabricmanager", "echo 'Fabric Manager version is : unknown'")
    with pytest.raises(OSError, match="says"):
        readings.read_fabric_version()


@pytest.mark.parametrize(
    ("platform", "switches", "asked"),
    [
        ({"known": True, "needs": []}, 0, False),
        (None, 0, False),
        (None, 2, True),
        # A board whose switches are behind bridges, one that nobody knows, and a bus that cannot be read.
        ({"known": True, "needs": ["fabric-manager"]}, 0, True),
        ({"known": False, "needs": [], "because": "new"}, 0, True),
        ({"known": True, "needs": []}, OSError("no bus"), True),
    ],
)
def test_systemd_is_asked_for_the_fabric_manager_only_where_the_board_may_need_it(
    on_path, monkeypatch, platform, switches, asked
):
    def read_switches(_root):
        if isinstance(switches, OSError):
            raise switches
        return switches

    on_path("systemctl", "echo active")
    monkeypatch.setattr(readings, "read_switches", read_switches)
    [reader] = [one for one in readings.READERS if one.name == "fabric_manager"]
    seen = Seen("/", {}, {} if platform is None else {"platform": platform}, {})
    assert reader.read(seen) == ("active" if asked else None)


def test_a_node_without_a_fabric_manager(monkeypatch):
    monkeypatch.setenv("PATH", "/nonexistent")
    assert readings.read_fabric_version() is None


def test_links_of_a_node_that_was_not_probed():
    seen = Seen("/", {}, {"unreadable": "no sysfs"}, {})
    readers = [reader for reader in READERS if reader.name in ("nvlink", "gpu_ways", "machine", "isolation")]
    assert len(readers) == 4 and all(attempt(reader.read, seen) == {"unreadable": "no sysfs"} for reader in readers)
