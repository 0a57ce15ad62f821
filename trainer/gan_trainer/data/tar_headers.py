# SPDX-License-Identifier: Apache-2.0
"""Where the files of a tar archive lie, from its headers alone (POSIX.1-2001, pax: "ustar Interchange Format" and "pax
Header Block"; GNU tar manual, "Basic Tar Format").

Python's tarfile takes longer for a member's header than Pillow for the header of an image, and it takes a damaged
header for the end of the archive. What is rare in image sets (compression, sparse files, several volumes) is left
to it.
"""

from __future__ import annotations

from typing import Iterator, NamedTuple

from .image_files import read_at

BLOCK = 512
# One reading holds the header, or a pax header, its records and the header itself.
READ = 4 * BLOCK
NAME, SIZE, CHECKSUM, MAGIC, PREFIX = slice(0, 100), slice(124, 136), slice(148, 156), slice(257, 265), slice(345, 500)
KIND = 156
POSIX, GNU, OLD = b"ustar\x0000", b"ustar  \x00", bytes(8)
FILES = (b"0", b"\0", b"7")
# Links, devices, folders and pipes: no content follows them.
WITHOUT_CONTENT = (b"1", b"2", b"3", b"4", b"5", b"6")
LONG_NAME, LONG_LINK, PAX, PAX_SUN, PAX_OF_ALL = b"L", b"K", b"x", b"X", b"g"
# Longer than any path; a larger number is damage, and would be read into memory.
MOST_RECORDS = 1 << 20


class DamagedTar(OSError):
    """The archive ends too early, or is no tar where a header has to be; the text says where."""


class UnendedTar(DamagedTar):
    """The archive ends after a whole member, without the blocks of zeros that mark its end: it may have been cut there,
    and GNU tar takes it as it is."""


class UnusualTar(Exception):
    """An archive that tarfile may read, and this module does not; the text says what it has."""


class Member(NamedTuple):
    """A regular file in an archive: its name, and the first byte and the length of its content."""

    name: str
    start: int
    length: int


def members(file: int, length: int) -> Iterator[Member]:
    """The regular files of the archive of `length` bytes that is open as `file`, in their order.

    Raises DamagedTar (also UnendedTar) after the files before the damage, and UnusualTar.
    """
    if not length:
        raise DamagedTar("the archive is empty: it has 0 bytes")
    place, given = 0, Given()
    while place < length:
        window = read_at(file, READ, place)
        header = window[:BLOCK]
        if len(header) < BLOCK and place:
            raise DamagedTar(f"the archive is cut off at byte {length}, inside a header")
        if len(header) == BLOCK and not any(header):
            return
        check(header, place)
        kind, start = header[KIND : KIND + 1], place + BLOCK
        size = number(header[SIZE], place)
        if kind in (LONG_NAME, LONG_LINK, PAX, PAX_SUN, PAX_OF_ALL):
            records = content_of(file, window, start, size, length)
            given = given.with_records(kind, records, place)
            place = start + whole_blocks(size)
        else:
            name = given.name or name_of(header)
            size = size if given.size is None else given.size
            # Before POSIX, a folder was a file whose name ends in a slash.
            if kind in WITHOUT_CONTENT or (kind == b"\0" and name.endswith("/")):
                size = 0
            elif kind not in FILES:
                raise UnusualTar(f"a member of type {kind!r}")
            elif start + size > length:
                raise DamagedTar(f"the archive is cut off at byte {length}, inside {name}")
            else:
                yield Member(name, start, size)
            place, given = start + whole_blocks(size), Given()
    if place > length:
        raise DamagedTar(f"the archive is cut off at byte {length}, inside its last block")
    raise UnendedTar(f"the archive ends at byte {length} without the mark of its end")


class Given(NamedTuple):
    """What extra headers say about the member that follows."""

    name: str = ""
    size: int | None = None

    def with_records(self, kind: bytes, records: bytes, place: int) -> Given:
        """The same after one more header; that of a link's target changes nothing."""
        if kind == LONG_NAME:
            return self._replace(name=text(records))
        if kind == LONG_LINK:
            return self
        found = pax_records(records, place)
        odd = [key for key in found if key.startswith("GNU.sparse.") or key == "hdrcharset"]
        if kind == PAX_OF_ALL:
            odd += [key for key in found if key in ("path", "size")]
        if odd:
            raise UnusualTar(f"a pax header with {odd[0]}")
        if kind == PAX_OF_ALL:
            return self
        name = found.get("path", b"").decode("utf-8", "surrogateescape").rstrip("/")
        if found.get("size", b"0").strip(b"0123456789") or found.get("size") == b"":
            raise DamagedTar(f"the pax header at byte {place} has no number as its size")
        return Given(name or self.name, int(found["size"]) if "size" in found else self.size)


def check(header: bytes, place: int) -> None:
    """Whether this is a header: the sum of its bytes, its own checksum taken as blanks, and its magic number."""
    right = sum(header) - sum(header[CHECKSUM]) + 8 * ord(" ")
    stored = octal(header[CHECKSUM])
    if len(header) < BLOCK or (stored != right and stored != right - signed_differ(header)):
        if place == 0:
            raise UnusualTar("no tar header at its start; it may be compressed")
        raise DamagedTar(f"no tar header at byte {place}; what follows is lost")
    if header[MAGIC] not in (POSIX, GNU, OLD):
        raise UnusualTar(f"a header of the form {header[MAGIC]!r}")


def signed_differ(header: bytes) -> int:
    """By how much the sum is smaller in some old programs, which summed signed bytes."""
    return 256 * sum(byte > 127 for byte in header[:148] + header[156:])


def number(field: bytes, place: int) -> int:
    """Octal digits or, with the highest bit set, as GNU tar writes from 8 GiB on, a binary number."""
    found = int.from_bytes(field[1:], "big") if field[0] == 0x80 else octal(field)
    if found is None:
        raise DamagedTar(f"the header at byte {place} has no number as its size")
    return found


def octal(field: bytes) -> int | None:
    digits = field.partition(b"\0")[0].strip()
    # int() would also take signs, underscores and other alphabets.
    return int(digits or b"0", 8) if not digits.strip(b"01234567") else None


def name_of(header: bytes) -> str:
    """POSIX puts what does not fit into 100 bytes before it; GNU has other things there."""
    name = text(header[NAME])
    prefix = text(header[PREFIX]) if header[MAGIC] == POSIX else ""
    return f"{prefix}/{name}" if prefix else name


def text(field: bytes) -> str:
    return field.partition(b"\0")[0].decode("utf-8", "surrogateescape")


def content_of(file: int, window: bytes, start: int, size: int, length: int) -> bytes:
    """What an extra header holds; mostly it has been read with the header."""
    if size > MOST_RECORDS or start + size > length:
        raise DamagedTar(f"the header at byte {start - BLOCK} is longer than the archive, or than any name")
    return window[BLOCK : BLOCK + size] if BLOCK + size <= len(window) else read_at(file, size, start)


def pax_records(records: bytes, place: int) -> dict[str, bytes]:
    """Each is "LENGTH KEY=VALUE" and a line feed; LENGTH counts all of it, in decimal digits."""
    found, at = {}, 0
    while at < len(records):
        digits, blank, _ = records[at : at + 12].partition(b" ")
        end = at + int(digits) if blank and digits and not digits.strip(b"0123456789") else at
        key, equals, value = records[at + len(digits) + 1 : end - 1].partition(b"=")
        if end <= at or not equals or records[end - 1 : end] != b"\n":
            raise DamagedTar(f"the pax header at byte {place} is damaged")
        found[key.decode("utf-8", "surrogateescape")] = value
        at = end
    return found


def whole_blocks(size: int) -> int:
    return (size + BLOCK - 1) // BLOCK * BLOCK
