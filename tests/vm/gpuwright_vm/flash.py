"""Variables in the flash image of OVMF: authenticated variables as EDK2 keeps them (MdeModulePkg, VariableFormat.h)."""

from __future__ import annotations

import struct
import uuid
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

SHIM = "605dab50-e046-4300-abb6-3dd810dd8b23"
# Behind the head of the firmware volume.
START = 0x48
STORE = struct.Struct("<16sIBBHI")
HEAD = struct.Struct("<HBBIQ16sIII16s")
MARK, ADDED = 0x55AA, 0x3F
# Kept, and seen by boot services and by the running system.
ATTRIBUTES = 7


@dataclass
class Flash:
    """The variables of a machine that is switched off."""

    file: Path

    def _entries(self) -> Iterator[tuple[int, str, bytes]]:
        """Where each ends, its name (empty for a deleted one) and its data."""
        image = self.file.read_bytes()
        end, place = START + STORE.unpack_from(image, START)[1], START + STORE.size
        while place + HEAD.size <= end:
            mark, state, _, _, _, _, _, names, size, _ = HEAD.unpack_from(image, place)
            if mark != MARK:
                return
            name, data = place + HEAD.size, place + HEAD.size + names
            place = (data + size + 3) & ~3
            there = image[name:data].decode("utf-16-le").rstrip("\0") if state == ADDED else ""
            yield place, there, image[data : data + size]

    def variables(self) -> dict[str, bytes]:
        return {name: data for _, name, data in self._entries() if name}

    def add(self, name: str, data: bytes) -> None:
        """A variable of shim's, as the running system writes it."""
        place = max((end for end, _, _ in self._entries()), default=START + STORE.size)
        text = (name + "\0").encode("utf-16-le")
        owner = uuid.UUID(SHIM).bytes_le
        head = HEAD.pack(MARK, ADDED, 0, ATTRIBUTES, 0, bytes(16), 0, len(text), len(data), owner)
        image = bytearray(self.file.read_bytes())
        image[place : place + len(head + text + data)] = head + text + data
        self.file.write_bytes(image)
