"""The GPU that the virtual machine gets: what a kernel reads and writes while it enumerates the bus."""

from __future__ import annotations

import socket
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "vm"))
from gpuwright_vm import gpu as vm_gpu


@pytest.fixture
def card() -> Iterator[vm_gpu.Gpu]:
    card = vm_gpu.Gpu()
    yield card
    card.plug.close()


def ask(card: vm_gpu.Gpu, command: int, data: bytes) -> int:
    """As qemu asks: a message, and the answer's 64 bits."""
    card.plug.sendall(vm_gpu.HEADER.pack(command, len(data)) + data)
    answer = card.plug.recv(24, socket.MSG_WAITALL)
    assert vm_gpu.HEADER.unpack(answer[:16]) == (vm_gpu.RET, 8)
    return int.from_bytes(answer[16:], "little")


def read(card: vm_gpu.Gpu, address: int, length: int) -> int:
    return ask(card, vm_gpu.CONFIG_READ, vm_gpu.CONFIG.pack(address, 0, length))


def write(card: vm_gpu.Gpu, address: int, value: int, length: int) -> None:
    ask(card, vm_gpu.CONFIG_WRITE, vm_gpu.CONFIG.pack(address, value, length))


def test_it_is_a_v100(card: vm_gpu.Gpu) -> None:
    assert (read(card, 0, 2), read(card, 2, 2)) == (0x10DE, 0x1DB4)
    assert (read(card, 0x0A, 2), read(card, 8, 1)) == (0x0302, 0xA1)
    assert read(card, 0x0E, 1) == 0


def test_its_registers_take_16_mib_where_the_kernel_puts_them(card: vm_gpu.Gpu) -> None:
    write(card, 0x10, 0xFFFFFFFF, 4)
    assert -read(card, 0x10, 4) & 0xFFFFFFFF == 16 << 20
    write(card, 0x10, 0xFB000000, 4)
    assert read(card, 0x10, 4) == 0xFB000000
    write(card, 0x13, 0xFC, 1)
    assert read(card, 0x10, 4) == 0xFC000000
    assert ask(card, vm_gpu.REGISTER_READ, vm_gpu.REGISTERS.pack(0xFC000000, 0, 4, True)) == 0


def test_there_are_no_other_regions(card: vm_gpu.Gpu) -> None:
    for address in range(0x14, 0x2C, 4):
        write(card, address, 0xFFFFFFFF, 4)
        assert read(card, address, 4) == 0


def test_ids_cannot_be_written_and_a_reset_undoes_the_rest(card: vm_gpu.Gpu) -> None:
    write(card, 0, 0x12345678, 4)
    write(card, 4, 0x0006, 2)
    assert (read(card, 0, 4), read(card, 4, 2)) == (0x1DB410DE, 6)
    ask(card, vm_gpu.RESET, b"")
    assert read(card, 4, 2) == 0


def test_messages_with_file_descriptors_get_no_answer(card: vm_gpu.Gpu) -> None:
    """Memory (0) and interrupts (6): qemu waits for none, and the next question must get its own."""
    with socket.socket() as other:
        socket.send_fds(card.plug, [vm_gpu.HEADER.pack(6, 0)], [other.fileno()])
    card.plug.sendall(vm_gpu.HEADER.pack(0, 192) + bytes(192))
    assert read(card, 0, 2) == 0x10DE
