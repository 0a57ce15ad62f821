"""An NVIDIA GPU on the PCI bus of the machine, as far as enumeration goes.

qemu's device x-pci-proxy-dev asks another process for every access to its configuration space and registers. This is
that process: it answers with the ids of a Tesla V100, so that the guest's kernel finds the card by itself, looks for a
driver by its alias, and calls the driver's probe. All registers read 0, as no living card's do: drivers refuse it.

The messages are those of qemu's include/hw/remote/mpqemu-link.h: int command, size_t size, then the data.
"""

from __future__ import annotations

import socket
import struct
import threading

HEADER = struct.Struct("=i4xQ")
CONFIG = struct.Struct("=IIi")
REGISTERS = struct.Struct("=QQI?3x")
RET, CONFIG_WRITE, CONFIG_READ, REGISTER_WRITE, REGISTER_READ, RESET = 1, 2, 3, 4, 5, 7
CONFIG_BYTES = 256
BAR0, BAR0_BYTES = 0x10, 16 << 20
WITHOUT_ANSWER_FDS = 8

# Tesla V100-PCIE-16GB, a 3D controller without a display.
VENDOR, DEVICE, SUBSYSTEM = 0x10DE, 0x1DB4, 0x1214
CLASS_AND_REVISION = 0x030200A1


def configuration() -> bytearray:
    """The 256 bytes of the card's configuration space after a reset."""
    space = bytearray(CONFIG_BYTES)
    struct.pack_into("<HHHHI", space, 0, VENDOR, DEVICE, 0, 0, CLASS_AND_REVISION)
    struct.pack_into("<HH", space, 0x2C, VENDOR, SUBSYSTEM)
    space[0x3D] = 1  # INTA
    return space


class Gpu:
    """Answers qemu's messages; `plug` is the end of the socket that qemu gets."""

    def __init__(self) -> None:
        self.space = configuration()
        self.plug, self.end = socket.socketpair(socket.AF_UNIX, socket.SOCK_STREAM)
        threading.Thread(target=self.serve, daemon=True).start()

    def serve(self) -> None:
        """Until qemu goes away. Messages about memory and interrupts, which have file descriptors, need no answer."""
        while header := self.receive(HEADER.size):
            command, size = HEADER.unpack(header)
            data = self.receive(size)
            if command in (CONFIG_WRITE, CONFIG_READ, REGISTER_WRITE, REGISTER_READ, RESET):
                self.end.sendall(HEADER.pack(RET, 8) + struct.pack("=Q", self.answer(command, data)))

    def receive(self, size: int) -> bytes:
        """Exactly `size` bytes, or none when qemu is gone; file descriptors that come along are closed."""
        data = b""
        while len(data) < size:
            part, descriptors, _, _ = socket.recv_fds(self.end, size - len(data), WITHOUT_ANSWER_FDS)
            for descriptor in descriptors:
                socket.close(descriptor)
            if not part:
                return b""
            data += part
        return data

    def answer(self, command: int, data: bytes) -> int:
        if command == RESET:
            self.space = configuration()
        elif command == CONFIG_READ:
            address, _, length = CONFIG.unpack(data)
            return int.from_bytes(self.space[address : address + length], "little")
        elif command == CONFIG_WRITE:
            self.write(*CONFIG.unpack(data))
        return 0

    def write(self, address: int, value: int, length: int) -> None:
        """Only what a card lets be written: command, cache line, latency, the base of its registers, interrupt line."""
        if BAR0 <= address < BAR0 + 4:
            shift = 8 * (address - BAR0)
            old = int.from_bytes(self.space[BAR0 : BAR0 + 4], "little")
            mask = ((1 << 8 * length) - 1) << shift
            base = (old & ~mask | value << shift & mask) & ~(BAR0_BYTES - 1) & 0xFFFFFFFF
            self.space[BAR0 : BAR0 + 4] = base.to_bytes(4, "little")
            return
        for number, byte in enumerate(value.to_bytes(8, "little")[:length], address):
            if number in (0x04, 0x05, 0x0C, 0x0D, 0x3C):
                self.space[number] = byte
