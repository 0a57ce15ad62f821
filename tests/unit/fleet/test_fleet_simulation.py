"""Decisions of the simulated hardware: which driver the kernel loads, and when nvidia-smi answers."""

from __future__ import annotations

import json
import xml.etree.ElementTree as ElementTree
from pathlib import Path
from types import ModuleType

import pytest
from module_files import load_file

FLEET = Path(__file__).resolve().parents[2] / "fleet"
SIMULATION = FLEET / "el8/overlay/usr/libexec/fleet"
DRIVER_CUDA = FLEET / "packages/nvidia-driver-cuda/usr"
V100 = {
    "pci": "0000:3b:00.0",
    "device": "1db4",
    "name": "Tesla V100-PCIE-16GB",
    "uuid": "GPU-1",
    "serial": "1",
    "numa_node": 0,
}


kernel = load_file(SIMULATION / "kernel.py")
hardware = load_file(SIMULATION / "hardware.py")


@pytest.fixture
def smi(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    module = load_file(DRIVER_CUDA / "bin/nvidia-smi")
    monkeypatch.setattr(module, "CAPTURES", str(DRIVER_CUDA / "share/nvidia-smi"))
    monkeypatch.setattr(module, "OWN_VERSION", "580.95.05")
    monkeypatch.setattr(module, "PLAYER", str(DRIVER_CUDA / "libexec/fleet/fake-nvidia-smi"))
    return module


PROPRIETARY = kernel.Module("580.95.05", "NVIDIA")


@pytest.mark.parametrize(
    ("module", "blacklisted", "driver"),
    [
        (None, False, "nouveau"),
        (PROPRIETARY, False, "nouveau"),
        (None, True, None),
        (PROPRIETARY, True, "nvidia"),
        (kernel.Module("535.261.03", "NVIDIA"), True, "nvidia"),
        (kernel.Module("590.48.01", "NVIDIA"), True, None),
        (kernel.Module("580.95.05", "Dual MIT/GPL"), True, None),
    ],
)
def test_which_driver_takes_a_v100(module: object, blacklisted: bool, driver: str | None) -> None:
    assert kernel.choose([V100], module, blacklisted).driver == driver


def test_a_refused_gpu_is_named_in_the_log() -> None:
    log = kernel.choose([V100], kernel.Module("590.48.01", "Dual MIT/GPL"), True).log
    assert "NVRM: nvidia.ko because it does not include the required GPU" in log


@pytest.mark.parametrize(
    ("config", "cmdline", "expected"),
    [
        ("blacklist nouveau\n", "ro quiet", True),
        ("# blacklist nouveau\n", "ro quiet", False),
        ("", "ro rd.driver.blacklist=nouveau", True),
        ("", "modprobe.blacklist=foo,nouveau", True),
    ],
)
def test_when_nouveau_is_blacklisted(config: str, cmdline: str, expected: bool) -> None:
    assert kernel.nouveau_blacklisted(config, cmdline) is expected


def test_uvm_is_loaded_only_on_request() -> None:
    assert kernel.companions("", "") == ["nvidia_modeset"]
    assert kernel.companions("softdep nvidia post: nvidia-uvm", "") == ["nvidia_modeset", "nvidia_uvm"]
    assert kernel.companions("", "nvidia-uvm\n") == ["nvidia_modeset", "nvidia_uvm"]


def test_cpus_are_shared_among_numa_nodes() -> None:
    assert hardware.split_cpus([0, 1], 2) == [[0], [1]]
    assert hardware.split_cpus([0, 1, 2, 3, 4], 2) == [[0, 1], [2, 3, 4]]
    assert hardware.split_cpus([0], 2) == [[0], [0]]
    assert hardware.cpu_list([0, 1, 2, 5]) == "0-2,5"


def test_one_node_is_simulated_too(tmp_path: Path) -> None:
    """A run on a finished host enters every role if the size of a node is another one, which a balloon changes."""
    hardware.write_nodes(str(tmp_path / "node"), [[0, 1]], 24000)
    assert (tmp_path / "node/node0/meminfo").read_text().startswith("Node 0 MemTotal:       24000 kB\n")
    assert (tmp_path / "node/online").read_text() == "0\n" and (tmp_path / "node/node0/cpulist").read_text() == "0-1\n"
    assert sorted(path.name for path in (tmp_path / "node/node0").glob("cpu?")) == ["cpu0", "cpu1"]


def test_pci_files_of_a_gpu() -> None:
    files = hardware.gpu_files(V100, [0, 1])
    assert files["vendor"] == "0x10de\n"
    assert files["device"] == "0x1db4\n"
    assert files["class"] == "0x030200\n"
    assert files["local_cpulist"] == "0-1\n"


@pytest.mark.parametrize(
    ("loaded", "gpus", "code"),
    [("", [V100], 9), ("580.82.07", [V100], 18), ("580.95.05", [], 6), ("580.95.05", [V100], None)],
)
def test_when_nvidia_smi_refuses(smi: ModuleType, loaded: str, gpus: list[dict], code: int | None) -> None:
    refusal = smi.refusal("580.95.05", loaded, gpus)
    assert (refusal[0] if refusal else None) == code


def test_the_mismatch_names_the_library_version(smi: ModuleType) -> None:
    assert smi.refusal("580.95.05", "535.261.03", [V100])[1].endswith("NVML library version: 580.95\n")


@pytest.mark.parametrize(("version", "tag"), [("535.261.03", "power_draw"), ("580.95.05", "instant_power_draw")])
def test_xml_has_the_shape_of_its_generation(
    smi: ModuleType, monkeypatch: pytest.MonkeyPatch, version: str, tag: str
) -> None:
    monkeypatch.setattr(smi, "OWN_VERSION", version)
    code, text = smi.answer(["-q", "-x"], [V100], {}, {})
    root = ElementTree.fromstring(text)
    assert code == 0
    assert root.findtext("driver_version") == version
    gpu = root.find("gpu")
    assert gpu is not None
    assert gpu.get("id") == "00000000:3B:00.0"
    assert gpu.findtext("product_name") == "Tesla V100-PCIE-16GB"
    assert gpu.findtext(f"gpu_power_readings/{tag}") == "25.42 W"
    assert gpu.findtext("remapped_rows") == "N/A"
    assert gpu.findtext("retired_pages/pending_retirement") == "No"


def test_csv_query(smi: ModuleType) -> None:
    fields = "--query-gpu=index,name,memory.total,power.draw,remapped_rows.pending,compute_cap"
    code, text = smi.answer([fields, "--format=csv,noheader,nounits"], [V100], {}, {})
    assert (code, text) == (0, "0, Tesla V100-PCIE-16GB, 16384, 25.42, [N/A], 7.0\n")
    code, text = smi.answer(["--query-gpu=memory.total", "--format=csv"], [V100], {}, {})
    assert text == "memory.total [MiB]\n16384 MiB\n"


def test_unknown_field_is_an_error(smi: ModuleType) -> None:
    assert smi.answer(["--query-gpu=nonsense"], [V100], {}, {})[0] == 2


def test_injected_readings_appear(smi: ModuleType) -> None:
    text = smi.answer(["-q", "-x"], [V100], {}, {"set": {"temperature/gpu_temp": "91 C"}})[1]
    assert "<gpu_temp>91 C</gpu_temp>" in text


@pytest.mark.parametrize(
    ("faults", "code", "words"),
    [
        ({}, 9, "couldn't communicate"),
        ({"exit": 6, "text": "No devices were found"}, 6, "No devices were found"),
        ({"exit": 0, "replace": [["couldn't", "could not"]]}, 0, "could not communicate"),
        ({"when": {"-q": {"exit": 15}}, "exit": 3}, 15, "couldn't communicate"),
    ],
)
def test_live_answers_go_through_the_replay_tool(
    smi: ModuleType, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys, faults: dict, code: int, words: str
) -> None:
    (tmp_path / "faults.json").write_text(json.dumps(faults))
    monkeypatch.setattr(smi, "FAULTS", str(tmp_path / "faults.json"))
    monkeypatch.setattr(smi, "LOADED_VERSION", str(tmp_path / "nothing"))
    monkeypatch.setattr(smi, "HARDWARE", str(tmp_path / "nothing"))
    assert smi.main(["-q", "-x"]) == code
    assert words in capsys.readouterr().out


def test_a_fault_that_nobody_plays_is_an_error(
    smi: ModuleType, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    (tmp_path / "faults.json").write_text('{"hnag": true}')
    monkeypatch.setattr(smi, "FAULTS", str(tmp_path / "faults.json"))
    with pytest.raises(ValueError, match="nothing plays hnag"):
        smi.main([])


def test_settings_are_remembered(smi: ModuleType) -> None:
    state = {"GPU-1": {"power_limit": "200.00"}}
    text = smi.answer(["--query-gpu=power.limit", "--format=csv,noheader,nounits"], [V100], state, {})[1]
    assert text == "200.00\n"


def test_power_limit_out_of_range_is_refused(smi: ModuleType) -> None:
    code, text = smi.answer(["-pl", "400"], [V100], {}, {})
    assert code == 2
    assert "between 100.00 W and 250.00 W" in text


def test_table_lines_have_one_width(smi: ModuleType) -> None:
    lines = smi.answer([], [V100], {}, {})[1].splitlines()
    assert {len(line) for line in lines if line[:1] in "|+" and line} == {91}


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        (
            ["--cpunodebind=0", "--membind=0", "python", "-m", "x"],
            ["--cpunodebind=0", "--membind=0", "python", "-m", "x"],
        ),
        (["--cpunodebind=1", "--membind=1", "python", "-m", "x"], ["--physcpubind=c1", "python", "-m", "x"]),
        (["-N", "1", "-m1", "true"], ["--physcpubind=c1", "true"]),
        (["--membind=1", "true"], ["--localalloc", "true"]),
        (["--hardware"], ["--hardware"]),
        (["--interleave=all", "true"], ["--interleave=all", "true"]),
    ],
)
def test_numactl_binds_cpus_of_simulated_nodes(arguments: list[str], expected: list[str]) -> None:
    numactl = load_file(FLEET / "packages/numactl/usr/bin/numactl")
    assert numactl.translate(arguments, {0}, lambda node: f"c{node}") == expected


def test_pci_configuration_space() -> None:
    config = hardware.pci_config("0x10de", "0x1db4", "0x030200", "0x1214")
    assert len(config) == 64
    assert config[:4] == b"\xde\x10\xb4\x1d"
    assert config[9:12] == b"\x00\x02\x03"
    assert config[44:48] == b"\xde\x10\x14\x12"


ENTRIES = """\
index=0
kernel="/boot/vmlinuz-4.18.0"
args="ro quiet"
id="m-4.18.0"
index=1
kernel="/boot/vmlinuz-4.18.1"
args="ro {panic}quiet"
id="m-4.18.1"
"""


@pytest.mark.parametrize(
    ("once", "panic", "panics", "starts"),
    [
        ("", "", "", "4.18.0"),
        ("next_entry=\n", "", "", "4.18.0"),
        ("next_entry=m-4.18.1\n", "", "", "4.18.1"),
        # An entry that is not there is none.
        ("next_entry=m-4.18.9\n", "", "", "4.18.0"),
        ("next_entry=m-4.18.1\n", "panic=30 ", "4.18.1\n", "4.18.0"),
        ("next_entry=m-4.18.1\n", "", "4.18.1\n", ""),
        ("next_entry=m-4.18.1\n", "panic=30 ", "4.18.0\n4.18.1\n", ""),
    ],
)
def test_a_choice_for_one_boot_is_gone_with_it(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, once: str, panic: str, panics: str, starts: str
) -> None:
    """As grub.cfg has it; a kernel that panics reboots where its arguments say so, and then the default starts."""
    environment, told = tmp_path / "grubenv", ENTRIES.format(panic=panic)
    environment.write_text(f"# GRUB Environment Block\nsaved_entry=m-4.18.0\n{once}")
    (tmp_path / "panics").write_text(panics)
    for name, path in (("ENTRIES", tmp_path), ("GRUB_ENVIRONMENT", environment), ("PANICS", tmp_path / "panics")):
        monkeypatch.setattr(hardware, name, str(path))
    monkeypatch.setattr(hardware, "grubby", lambda word: told if word == "--info=ALL" else told.split("index=1")[0])
    if not starts:
        with pytest.raises(SystemExit, match="Kernel panic"):
            hardware.boot_loader()
    else:
        release, arguments = hardware.boot_loader()
        assert (
            release == starts
            and arguments == f"root=/dev/mapper/rhel-root ro {panic if starts[-1] == '1' else ''}quiet"
        )
    left = environment.read_text().splitlines()
    assert "saved_entry=m-4.18.0" in left and [line for line in left if "m-4.18.1" in line] == []
