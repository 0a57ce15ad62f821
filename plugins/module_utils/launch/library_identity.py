# SPDX-License-Identifier: Apache-2.0
"""Which file a library is: its build id, read from the ELF file (elf(5), ld --build-id)."""

import os
import struct

from ..host.files import resolve

# Importing typing would take a third of gpu-run's start time: its names are only for the type checker.
TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, BinaryIO, Dict


def library_identity(path: str, root: str = "/") -> "Dict[str, Any]":
    """{path, file, size, build_id} of a library; only the path if it cannot be read."""
    real = resolve(root, path) or ""
    try:
        with open(real, "rb") as file:
            build_id = _Elf(file).build_id()
            size = os.fstat(file.fileno()).st_size
    except OSError:
        return {"path": path}
    return {"path": path, "file": os.path.basename(real), "size": size, "build_id": build_id}


class _Elf:
    """Just enough of a 64-bit little-endian ELF file to find its build id (elf(5), ld --build-id)."""

    HEADER = struct.Struct("<16sHHIQQQIHHHHHH")
    PROGRAM = struct.Struct("<IIQQQQQQ")
    NOTE = struct.Struct("<III")
    PT_NOTE, NT_GNU_BUILD_ID = 4, 3

    def __init__(self, file: "BinaryIO") -> None:
        self.file = file

    def build_id(self) -> str:
        """Hexadecimal build id, "" if the file has none."""
        head = self.file.read(self.HEADER.size)
        if len(head) < self.HEADER.size or head[:6] != b"\x7fELF\x02\x01":
            return ""
        fields = self.HEADER.unpack(head)
        offset, size, count = fields[5], fields[9], fields[10]
        for number in range(count):
            self.file.seek(offset + number * size)
            entry = self.file.read(self.PROGRAM.size)
            if len(entry) < self.PROGRAM.size:
                return ""
            kind, _, start, _, _, length, _, _ = self.PROGRAM.unpack(entry)
            if kind == self.PT_NOTE:
                self.file.seek(start)
                found = self._in_notes(self.file.read(min(length, 4096)))
                if found:
                    return found
        return ""

    def _in_notes(self, notes: bytes) -> str:
        while len(notes) >= self.NOTE.size:
            name_size, size, kind = self.NOTE.unpack(notes[: self.NOTE.size])
            name_end = self.NOTE.size + (name_size + 3) // 4 * 4
            end = name_end + (size + 3) // 4 * 4
            if kind == self.NT_GNU_BUILD_ID and notes[self.NOTE.size :].startswith(b"GNU\0"):
                return notes[name_end : name_end + size].hex()
            notes = notes[end:]
        return ""
