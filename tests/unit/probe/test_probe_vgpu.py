"""Parts of cards in virtual machines are recognised by what the hypervisor writes; whole ones are never taken so."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest
from gpuwright.gpu.vgpu_types import VGPU_TYPES
from gpuwright.probe.hardware import read_gpus
from gpuwright.probe.vgpu import add_vgpus
from host_tree import HostTree

PCI = "0000:00:07.0"
FOLDER = f"/sys/bus/pci/devices/{PCI}"
VIRTUAL = "processor\t: 0\nflags\t\t: fpu sse2 hypervisor avx\n"
QUERY = "GPU 00000000:00:07.0\n    GPU Virtualization Mode\n        Virtualization Mode               : {}\n"


def configuration(*capabilities: bytes, listed: bool = True) -> bytes:
    """A configuration space with these capabilities, the first at 0x50; each begins with its id."""
    space = bytearray(256)
    space[6] = 0x10 if listed else 0
    place = 0x50
    space[0x34] = place
    for number, content in enumerate(capabilities):
        after = place + 0x30 if number + 1 < len(capabilities) else 0
        space[place : place + len(content) + 2] = bytes([content[0], after, len(content) + 2]) + content[1:] + b"\0"
        place = after
    return bytes(space)


def marked(version: str = "550.90.05", first: bytes = b"") -> bytes:
    """The capability of a vGPU: signature, records, and of the host's driver its version and branch."""
    record = bytes([0, 22]) + version.encode().ljust(10, b"\0") + b"r550_00".ljust(10, b"\0")
    return b"\x09" + b"VF" + first + record


def read(tmp_path, answer=None, config=None, info="", cpu=VIRTUAL, driver="", **files):
    host = HostTree(tmp_path)
    host.pci_device(PCI, **{"device": "0x2236", "class": "0x030000", **files})
    host.put("/proc/cpuinfo", cpu)
    if config is not None:
        host.put(FOLDER + "/config", config)
    if info:
        host.put(f"/proc/driver/nvidia/gpus/{PCI}/information", f"Model: \t\t {info}\nIRQ:   \t\t 24\n")
    if driver:
        host.bind(PCI, driver)
    asked = []
    gpus = read_gpus(host.root)

    def run(command: Sequence[str]) -> Any:
        asked.append(list(command))
        return answer

    add_vgpus(host.root, gpus, run)
    (gpu,) = gpus
    return gpu["vgpu"], asked


NVIDIA = {"subsystem_vendor": "0x10de"}


@pytest.mark.parametrize(
    ("given", "words", "version"),
    [
        ({"subsystem_device": "0x14bb", **NVIDIA}, "10de:14bb", ""),
        ({"subsystem_device": "0x14BF", **NVIDIA}, "10de:14bf", ""),
        ({"device": "0x1eb8", "subsystem_device": "0x130f", **NVIDIA}, "10de:130f", ""),
        ({"device": "0x2330", "subsystem_device": "0x187a", **NVIDIA}, "10de:187a", ""),
        ({"config": configuration(marked())}, "configuration space", "550.90.05"),
        ({"config": configuration(b"\x01\0\0", b"\x05\0\0", marked(first=b"\x01\x04ab"))}, "space", "550.90.05"),
        # A card before Turing, whose types no table has.
        ({"device": "0x1db4", "config": configuration(marked("535.161.05"))}, "configuration space", "535.161.05"),
        ({"config": configuration(marked("x"))}, "configuration space", ""),
        ({"config": configuration(b"\x09VF")}, "configuration space", ""),
        ({"device": "0x1db4", "info": "GRID V100D-8C"}, "GRID V100D-8C", ""),
        ({"device": "0x2330", "info": "NVIDIA H100XM-1-10CME"}, "H100XM-1-10CME", ""),
        ({"answer": QUERY.format("VGPU"), "driver": "nvidia"}, "virtualization mode is VGPU", ""),
        ({"answer": QUERY.format("VSGA"), "driver": "nvidia"}, "virtualization mode is VSGA", ""),
    ],
)
def test_a_part_of_a_card_is_recognised(tmp_path, given, words, version):
    found, _asked = read(tmp_path, **given)
    assert found is not None
    assert words in found["because"] and found["host_driver"] == version


@pytest.mark.parametrize(
    "given",
    [
        {},
        # The boards themselves, in a machine and passed through to one.
        {"subsystem_device": "0x1482", **NVIDIA},
        {"device": "0x1eb8", "subsystem_device": "0x12a2", **NVIDIA},
        # Another maker's board with the number of a type.
        {"subsystem_vendor": "0x1028", "subsystem_device": "0x14bb"},
        # A type of another card.
        {"device": "0x2235", "subsystem_device": "0x14bb", **NVIDIA},
        {"config": configuration(b"\x09\x14\x01")},
        {"config": configuration(marked(), listed=False)},
        # What root alone may read is cut off.
        {"config": configuration(marked())[:64]},
        {"config": b""},
        {"config": configuration(b"\x05\0\0")[:80] + b"\x50" * 176},
        {"info": "NVIDIA A10", "answer": QUERY.format("Pass-Through"), "driver": "nvidia"},
        {"device": "0x20b5", "info": "NVIDIA A100-SXM4-80GB"},
        {"answer": QUERY.format("None"), "driver": "nvidia"},
        {"answer": None, "driver": "nvidia"},
        {"answer": "NVIDIA-SMI has failed", "driver": "nvidia"},
    ],
)
def test_a_whole_card_is_none(tmp_path, given):
    assert read(tmp_path, **given)[0] is None


@pytest.mark.parametrize(
    "given",
    [
        {"driver": "nvidia", "cpu": "processor\t: 0\nflags\t\t: fpu sse2\n"},
        {"driver": "nvidia", "cpu": ""},
        {},
        {"driver": "vfio-pci"},
        {"driver": "nvidia", "subsystem_device": "0x14bb", **NVIDIA},
    ],
)
def test_nvidia_smi_is_only_asked_where_nothing_else_can_tell(tmp_path, given):
    """It may take seconds, and hang on a sick card: on bare metal it has nothing to say about this."""
    assert read(tmp_path, **given)[1] == []


def test_the_spans_of_the_table_are_in_order():
    for device, spans in VGPU_TYPES.items():
        numbers = [int(part, 16) for span in spans.split() for part in span.split("-")]
        assert numbers == sorted(numbers), device
