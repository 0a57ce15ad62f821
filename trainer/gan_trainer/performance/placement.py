# SPDX-License-Identifier: Apache-2.0
"""Which processors and memory are next to a GPU, and how to work from there or from the far side for a moment."""

from __future__ import annotations

import ctypes
import os
import platform
from contextlib import contextmanager
from pathlib import Path
from typing import Iterator

SYSTEM = Path("/sys")
# set_mempolicy(2), which glibc does not wrap: its number by processor, and the policy "where the thread runs".
SET_MEMPOLICY = {"x86_64": 238, "aarch64": 237}
MPOL_DEFAULT = 0
BUS_ID_BYTES = 16


class PlacementError(RuntimeError):
    """A place cannot be found or taken; the text says why."""


def pci_address(index: int) -> str:
    """The address of a CUDA device as sysfs writes it; torch itself provides it only in its newest releases."""
    try:
        driver = ctypes.CDLL("libcuda.so.1")
    except OSError as error:
        raise PlacementError(f"libcuda.so.1 cannot be loaded: {error}") from error
    device, text = ctypes.c_int(), ctypes.create_string_buffer(BUS_ID_BYTES)
    for code in (
        driver.cuInit(0),
        driver.cuDeviceGet(ctypes.byref(device), index),
        driver.cuDeviceGetPCIBusId(text, BUS_ID_BYTES, device),
    ):
        if code:
            raise PlacementError(f"the driver does not say where cuda:{index} is (CUDA error {code})")
    return text.value.decode("ascii").lower()


def read_word(path: Path) -> str:
    """The first word of a file; raises PlacementError."""
    try:
        return path.read_text(encoding="ascii").split()[0]
    except (OSError, ValueError, IndexError) as error:
        raise PlacementError(f"{path} cannot be read") from error


def numa_nodes(system: Path = SYSTEM) -> dict[int, set[int]]:
    """The host's processors by NUMA node; nodes that only have memory are left out."""
    folders = {int(path.name[4:]): path for path in (system / "devices/system/node").glob("node[0-9]*")}
    texts = {node: (path / "cpulist").read_text(encoding="ascii").strip() for node, path in folders.items()}
    return {node: parse_cpus(text) for node, text in texts.items() if text}


def parse_cpus(text: str) -> set[int]:
    """ "0-3,8" as a set of numbers."""
    found: set[int] = set()
    for part in text.split(","):
        first, _, last = part.partition("-")
        found.update(range(int(first), int(last or first) + 1))
    return found


def gpu_node(address: str, system: Path = SYSTEM) -> int:
    """The GPU's NUMA node, -1 if the host does not say."""
    return int(read_word(system / "bus/pci/devices" / address / "numa_node"))


def link_speed(address: str, which: str, system: Path = SYSTEM) -> float:
    """GT/s of the GPU's PCIe link: `which` is current or max."""
    return float(read_word(system / "bus/pci/devices" / address / f"{which}_link_speed"))


@contextmanager
def working_on(cpus: set[int]) -> Iterator[None]:
    """Run and allocate on these processors inside the block, whatever a launcher has chosen; raises PlacementError.

    The memory policy is not restored: nothing after a measurement depends on it.
    """
    number = SET_MEMPOLICY.get(platform.machine())
    if number is None or ctypes.CDLL(None, use_errno=True).syscall(number, MPOL_DEFAULT, None, 0):
        raise PlacementError("the memory policy cannot be set back to the default")
    before = os.sched_getaffinity(0)
    try:
        os.sched_setaffinity(0, cpus)
    except OSError as error:
        raise PlacementError(f"processors {sorted(cpus)} cannot be taken: {error.strerror}") from error
    try:
        yield
    finally:
        os.sched_setaffinity(0, before)
