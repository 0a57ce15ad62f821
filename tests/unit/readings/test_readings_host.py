"""Readers of the host and of a card's health: there, not there and not readable are three different things."""

from __future__ import annotations

from pathlib import Path

import pytest
from gpuwright.gpu.nvidia_smi.xml import parse_log
from gpuwright.readings.host import (
    read_blocked_tasks,
    read_driver_files,
    read_environment,
    read_governors,
    read_library,
    read_swap_mib,
    read_switches,
)
from host_tree import HostTree

V100 = (Path(__file__).parents[1] / "data/nvidia_smi/580-v100.xml").read_text()

FLAG = "<unrepairable_memory>{}</unrepairable_memory>"


@pytest.fixture
def host(tmp_path):
    return HostTree(tmp_path)


def test_governors(host):
    with pytest.raises(OSError, match="lists no processor"):
        read_governors(host.root)
    host.put("/sys/devices/system/cpu/cpu0/online", "1")
    assert read_governors(host.root) is None
    for number, word in enumerate(("performance", "powersave", "performance")):
        host.put(f"/sys/devices/system/cpu/cpu{number}/cpufreq/scaling_governor", word)
    assert read_governors(host.root) == ["performance", "powersave"]


def test_blocked_tasks(host):
    with pytest.raises(OSError, match="lists no process"):
        read_blocked_tasks(host.root)
    for pid, name, state in ((1, "systemd", "S"), (2, "nvidia-smi", "D"), (3, "a) D (b", "S"), (4, "jbd2/sda1-8", "D")):
        host.put(f"/proc/{pid}/stat", f"{pid} ({name}) {state} 1 1 1 0 -1")
    assert read_blocked_tasks(host.root) == {"nvidia": ["nvidia-smi"], "others": ["jbd2/sda1-8"]}


def test_environment(host):
    assert read_environment(host.root) == []
    host.put("/etc/environment", "LANG=C\n# CUDA_PROFILE=1\nLD_PRELOAD=/x.so\n")
    assert read_environment(host.root) == ["LANG", "LD_PRELOAD"]
    (host.folder / "etc/environment").unlink()
    (host.folder / "etc/environment").mkdir()
    with pytest.raises(OSError, match="cannot be read"):
        read_environment(host.root)


def test_switches_are_bridges_of_nvidia(host):
    with pytest.raises(OSError, match="lists no device"):
        read_switches(host.root)
    host.pci_device("0000:3b:00.0")
    assert read_switches(host.root) == 0
    host.pci_device("0000:c1:00.0", **{"class": "0x068000"})
    host.pci_device("0000:00:1f.0", **{"class": "0x068000", "vendor": "0x8086"})
    assert read_switches(host.root) == 1


def test_driver_files(host):
    assert read_driver_files(host.root) == {
        "libraries": {"libcuda.so.1": None, "libnvidia-ml.so.1": None},
        "nvidia_smi": None,
    }
    host.put("/usr/lib64/libcuda.so.1")
    with pytest.raises(ValueError, match="without a version"):
        read_library(host.root, "libcuda.so.1")


@pytest.mark.parametrize(
    ("tag", "text", "name", "expected"),
    [
        ("vbios_version>88.00.48.00.02<", "vbios_version>ERR!<", "vbios", "unknown"),
        ("compute_mode>Default<", "compute_mode>N/A<", "compute_mode", "unknown"),
        ("pending_ecc>Enabled<", "pending_ecc>N/A<", "ecc_pending", "unknown"),
        ("current_link_width>16x<", "current_link_width>8x<", "link_width_now", 8),
        ("current_link_width>16x<", "current_link_width>N/A<", "link_width_now", "unknown"),
        ("current_link_width>16x<", "current_link_width>16<", "link_width_now", "unknown"),
        ("replay_counter>0<", "replay_counter>[Unknown Error]<", "pcie_replays", "unknown"),
        ("gpu_temp_slow_threshold>87 C<", "gpu_temp_slow_threshold>N/A<", "temperature_slowdown_c", None),
        ("gpu_temp_slow_threshold>87 C<", "gpu_temp_slow_threshold>87<", "temperature_slowdown_c", "unknown"),
        ("default_power_limit>250.00 W<", "default_power_limit>N/A<", "power_default_w", "unknown"),
        ("performance_state>P0<", "performance_state>Unknown Error<", "performance_state", "unknown"),
        ("gsp_firmware_version>N/A<", "gsp_firmware_version>580.95.05<", "gsp_firmware", "580.95.05"),
        ("</ecc_errors>", "</ecc_errors>\n", "unrepairable_memory", None),
        ("</ecc_errors>", f"{FLAG.format('Yes')}</ecc_errors>", "unrepairable_memory", True),
        ("</ecc_errors>", f"{FLAG.format('No')}</ecc_errors>", "unrepairable_memory", False),
        ("</ecc_errors>", f"{FLAG.format('N/A')}</ecc_errors>", "unrepairable_memory", None),
        ("</ecc_errors>", f"{FLAG.format('ERR!')}</ecc_errors>", "unrepairable_memory", "unknown"),
        ("<state>N/A<", "<state>Completed<", "fabric_state", "Completed"),
        ("<retired_count>0<", "<retired_count>N/A<", "retired_pages_single_bit", "unknown"),
        (
            "<total>16384 MiB</total>\n\t\t\t<used>2 MiB",
            "<total>N/A</total>\n\t\t\t<used>2 MiB",
            "bar1_total_mib",
            "unknown",
        ),
    ],
)
def test_health_of_a_card(tag, text, name, expected):
    assert tag in V100
    assert parse_log(V100.replace(tag, text))["gpus"][0]["health"][name] == expected


GONE = "Requested functionality has been deprecated"


@pytest.mark.parametrize(
    ("memory", "graphics", "name", "expected"),
    [
        ("877 MHz", "1245 MHz", "Tesla V100-PCIE-16GB", "877,1245"),
        (GONE, GONE, "NVIDIA RTX PRO 6000 Blackwell", "deprecated"),
        (f"[{GONE}]", f"[{GONE}]", "Tesla V100-PCIE-16GB", "deprecated"),
        (GONE, "1245 MHz", "Tesla V100-PCIE-16GB", "unknown"),
        ("N/A", "N/A", "NVIDIA GeForce RTX 3090", None),
        ("N/A", "N/A", "Tesla V100-PCIE-16GB", "unknown"),
        ("N/A", "1245 MHz", "NVIDIA GeForce RTX 3090", "unknown"),
        ("877", "1245", "Tesla V100-PCIE-16GB", "unknown"),
        ("ERR!", "1245 MHz", "Tesla V100-PCIE-16GB", "unknown"),
    ],
)
def test_application_clocks(memory, graphics, name, expected):
    begin, end = V100.index("<applications_clocks>"), V100.index("</applications_clocks>")
    block = f"<applications_clocks><graphics_clock>{graphics}</graphics_clock><mem_clock>{memory}</mem_clock>"
    device_id = "220410DE" if "GeForce" in name else "1DB410DE"
    text = (V100[:begin] + block + V100[end:]).replace("Tesla V100-PCIE-16GB", name)
    log = parse_log(text.replace("1DB410DE", device_id))
    assert log["gpus"][0]["health"]["clocks_applied"] == expected
    # As in captures of drivers that leave the block out.
    assert parse_log(V100[:begin] + V100[end + 22 :])["gpus"][0]["health"]["clocks_applied"] == "unknown"


@pytest.mark.parametrize(
    ("text", "expected"),
    [("SwapTotal: 2048 kB", 2), ("SwapTotal: 0 kB", 0), ("MemTotal: 5 kB", None), ("SwapTotal: many kB", None)],
)
def test_swap(host, text, expected):
    host.put("/proc/meminfo", text + "\n")
    if expected is None:
        with pytest.raises(ValueError, match="SwapTotal"):
            read_swap_mib(host.root)
    else:
        assert read_swap_mib(host.root) == expected


def test_a_card_with_row_remapping_must_say_how_many():
    a100 = V100.replace("1DB410DE", "20B210DE").replace("Tesla V100-PCIE-16GB", "NVIDIA A100-SXM4-80GB")
    rows = "<remapped_rows><remapped_row_unc>{}</remapped_row_unc></remapped_rows>"
    for text, expected in (("3", 3), ("N/A", "unknown")):
        a100_rows = a100.replace("<remapped_rows>N/A</remapped_rows>", rows.format(text))
        assert parse_log(a100_rows)["gpus"][0]["health"]["remapped_rows_uncorrected"] == expected


def test_warnings_around_the_xml_are_kept():
    log = parse_log(V100 + "\nWARNING: infoROM is corrupted at gpu 0000:3B:00.0\n")
    assert log["warnings"] == ["WARNING: infoROM is corrupted at gpu 0000:3B:00.0"]
    assert parse_log(V100)["warnings"] == []
