# SPDX-License-Identifier: Apache-2.0
"""The nvidia module inside the initramfs with which a kernel boots: it is loaded before the one on disk is visible.

An image is a sequence of archives (cpio, "newc"), plain ones for the processor's microcode first and a compressed one
last. It is read as a stream, within limits of time and size, and nothing is unpacked to disk. Python has gzip, xz and
bzip2; for zstd and lz4, the system's own programs are used, which must exist for such images to have been made.
Source: Linux Documentation/driver-api/early-userspace/buffer-format.rst.
"""

import bz2
import lzma
import os
import stat
import subprocess
import time
import zlib
from typing import BinaryIO, Dict, Iterable, Iterator, Optional, Sequence, Union

from ...host.bounded import find_program, program_environment
from ...host.files import below, exists, resolve
from ...host.patterns import lazily

IMAGES = ("/boot/initramfs-{}.img", "/boot/initrd.img-{}", "/lib/modules/{}/initrd", "/lib/modules/{}/initramfs.img")
SECONDS = 30
# An image with firmware for every card unpacks to some hundred MiB.
MOST_BYTES = 2 * 1024 * 1024 * 1024
MOST_MODULE_BYTES = 256 * 1024 * 1024
CHUNK = 1024 * 1024
HEADER = 110
PLAIN = (b"070701", b"070702")
LAST = b"TRAILER!!!"
MODULE = lazily(rb"(?:^|/)nvidia(?:-current|-current-open)?\.ko(?:\.(?:gz|xz|zst|bz2))?$")
# The section .modinfo is a list of null-terminated words.
VERSION = lazily(rb"\0version=([0-9]{3,4}\.[0-9.]{2,16})\0")
PROGRAMS = {"zstd": ["zstd", "-d", "-c", "-q"], "lz4": ["lz4", "-d", "-c", "-q"], "lzop": ["lzop", "-d", "-c", "-q"]}
MAGIC = (
    (b"\x1f\x8b", "gzip"),
    (b"\xfd7zXZ\0", "xz"),
    (b"\x5d\0\0", "lzma"),
    (b"BZh", "bzip2"),
    (b"\x28\xb5\x2f\xfd", "zstd"),
    (b"\x02\x21\x4c\x18", "lz4"),
    (b"\x04\x22\x4d\x18", "lz4"),
    (b"\x89LZO", "lzop"),
)


class Limit(Exception):
    """The image is larger, or takes longer to read, than the limit."""


def read_initramfs(root: str, kernel: str, seconds: float = SECONDS) -> Optional[Dict[str, Optional[str]]]:
    """`{image, version}` of this kernel's image; version null if it has no nvidia module. None without an image.

    OSError and ValueError for an image that cannot be read to its end within `seconds`.
    """
    image = next((path.format(kernel) for path in IMAGES if exists(root, path.format(kernel))), None)
    if image is None:
        return None
    try:
        with open(resolve(root, image) or below(root, image), "rb") as file:
            return {"image": image, "version": module_version(file, time.monotonic() + seconds)}
    except PermissionError:
        raise PermissionError(f"{image} is readable by root only")
    except Limit:
        raise ValueError(f"{image} was not read to its end within {seconds} s and {MOST_BYTES} bytes")
    except (ValueError, EOFError, zlib.error, lzma.LZMAError) as error:
        raise ValueError(f"{image} cannot be read: {error}")


def module_version(file: BinaryIO, deadline: float) -> Optional[str]:
    """The version of the nvidia module in an image; None if there is none. ValueError, EOFError for a damaged one."""
    number = 0
    while True:
        start = _skip_zeros(file)
        if start is None:
            if not number:
                raise ValueError("it is empty")
            return None
        number += 1
        kind = _kind(file, start)
        stream = Stream(unpacked(file, kind), deadline)
        version = _version_in_archive(stream)
        if version is not None or kind != "plain":
            # There could be another archive after a compressed one, but no tool on these systems makes such images.
            return version
        # A plain archive ends somewhere in the data read; the next one begins at a multiple of four after it.
        file.seek(start + stream.position)


class Stream(object):
    """Bytes from an iterator of chunks, counted and limited."""

    def __init__(self, chunks: Iterable[bytes], deadline: float) -> None:
        self.chunks = iter(chunks)
        self.deadline = deadline
        self.waiting = b""
        self.position = 0

    def take(self, size: int, keep: bool = True) -> bytes:
        """The next `size` bytes (b"" if they are not kept); EOFError if there are fewer."""
        parts, left = [], size
        while left:
            if not self.waiting:
                if time.monotonic() > self.deadline or self.position > MOST_BYTES:
                    raise Limit
                chunk = next(self.chunks, None)
                if chunk is None:
                    raise EOFError("it ends in the middle of an archive")
                self.waiting = chunk
            part, self.waiting = self.waiting[:left], self.waiting[left:]
            left -= len(part)
            self.position += len(part)
            if keep:
                parts.append(part)
        return b"".join(parts)


def _version_in_archive(stream: Stream) -> Optional[str]:
    """The version of the nvidia module in one archive, None if there is none; the stream is then at its end."""
    while True:
        header = stream.take(HEADER)
        if header[:6] not in PLAIN:
            raise ValueError("there is no archive where one should begin")
        # 13 numbers of eight hexadecimal digits: the second is the mode, the seventh the size, the twelfth the length
        # of the name.
        mode, size, length = (int(header[start : start + 8], 16) for start in (14, 54, 94))
        name = stream.take(length)[:-1]
        stream.take(-stream.position % 4, keep=False)
        if name == LAST:
            return None
        # If a file has several names, the last one has the content; the others, like folders, are empty.
        wanted = MODULE.search(name) is not None and stat.S_ISREG(mode) and size > 0
        if wanted and size > MOST_MODULE_BYTES:
            raise ValueError(f"{name.decode('utf-8', 'replace')} has {size} bytes")
        data = stream.take(size, keep=wanted)
        if wanted:
            return version_of(data, name.decode("utf-8", "replace"), stream.deadline)
        stream.take(-stream.position % 4, keep=False)


def version_of(data: bytes, name: str, deadline: float) -> str:
    """The version that a module file states, unpacked if it is compressed; ValueError if it states none."""
    if not data.startswith(b"\x7fELF"):
        # Level quick does not come here, and this loads six modules.
        import tempfile

        with tempfile.TemporaryFile() as file:
            file.write(data)
            file.seek(0)
            data = _joined(unpacked(file, _kind(file, 0)), deadline)
    match = VERSION.search(data)
    if not match:
        raise ValueError(f"{name} has no version")
    return match.group(1).decode("ascii")


def _joined(chunks: Iterable[bytes], deadline: float) -> bytes:
    parts, size = [], 0
    for chunk in chunks:
        parts.append(chunk)
        size += len(chunk)
        if size > MOST_MODULE_BYTES or time.monotonic() > deadline:
            raise Limit
    return b"".join(parts)


def _skip_zeros(file: BinaryIO) -> Optional[int]:
    """Go to the next non-zero byte, where an archive begins, and return its position; None at the end."""
    while True:
        start = file.tell()
        chunk = file.read(CHUNK)
        if not chunk:
            return None
        rest = chunk.lstrip(b"\0")
        if rest:
            start += len(chunk) - len(rest)
            file.seek(start)
            return start


def _kind(file: BinaryIO, start: int) -> str:
    """The compression of the data that begins here; ValueError if it is unknown."""
    first = file.read(8)
    file.seek(start)
    if first.startswith(PLAIN):
        return "plain"
    kind = next((kind for magic, kind in MAGIC if first.startswith(magic)), None)
    if kind is None:
        raise ValueError(f"it is compressed in an unknown format: {first.hex()}")
    return kind


def unpacked(file: BinaryIO, kind: str) -> Iterator[bytes]:
    """The unpacked bytes from the file's current position, in chunks; its position afterwards is undefined."""
    if kind in PROGRAMS:
        return _by_program(file, PROGRAMS[kind])
    if kind == "plain":
        return iter(lambda: file.read(CHUNK), b"")
    if kind == "gzip":
        return _gzip(file)
    return _by_library(file, bz2.BZ2Decompressor() if kind == "bzip2" else lzma.LZMADecompressor())


# Both yield pieces of limited size: a few bytes of input may expand to a GiB of zeros.


def _gzip(file: BinaryIO) -> Iterator[bytes]:
    decompressor = zlib.decompressobj(31)
    chunk = b""
    while not decompressor.eof:
        piece = decompressor.decompress(chunk, CHUNK)
        chunk = decompressor.unconsumed_tail
        if piece:
            yield piece
        elif not chunk and not decompressor.eof:
            chunk = _more(file)


def _by_library(file: BinaryIO, decompressor: Union[bz2.BZ2Decompressor, lzma.LZMADecompressor]) -> Iterator[bytes]:
    while not decompressor.eof:
        yield decompressor.decompress(_more(file) if decompressor.needs_input else b"", CHUNK)


def _more(file: BinaryIO) -> bytes:
    chunk = file.read(CHUNK)
    if not chunk:
        raise EOFError("it ends in the middle of compressed data")
    return chunk


def _by_program(file: BinaryIO, command: Sequence[str]) -> Iterator[bytes]:
    program = find_program(command[0])
    if program is None:
        raise ValueError(f"it is compressed with {command[0]}, which is not installed")
    # The program reads from the file's position, which must be the same for Python and for the kernel.
    os.lseek(file.fileno(), file.tell(), os.SEEK_SET)
    child = subprocess.Popen(
        [program, *command[1:]],
        stdin=file,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        env=program_environment(),
        start_new_session=True,
    )
    if child.stdout is None:
        raise AssertionError("Popen makes the pipe that it is asked for")
    try:
        while True:
            chunk = child.stdout.read(CHUNK)
            if not chunk:
                break
            yield chunk
    finally:
        child.stdout.close()
        child.kill()
        child.wait()
