"""Images as dracut and update-initramfs make them: archives behind each other, the last one packed."""

from __future__ import annotations

import bz2
import gzip
import lzma
import random
import subprocess
from collections.abc import Callable


def member(name: str, data: bytes, number: int = 1) -> bytes:
    """One file of a cpio archive in the format newc."""
    raw = name.encode() + b"\0"
    numbers = [number, 0o100644, 0, 0, 1, 0, len(data), 0, 0, 0, 0, len(raw), 0]
    head = b"070701" + b"".join(b"%08X" % value for value in numbers) + raw
    head += b"\0" * (-len(head) % 4)
    return head + data + b"\0" * (-len(data) % 4)


def packed_files(files: dict[str, bytes]) -> bytes:
    text = b"".join(member(name, data, number) for number, (name, data) in enumerate(files.items(), 1))
    text += member("TRAILER!!!", b"", 0)
    return text + b"\0" * (-len(text) % 512)


def pack(data: bytes, kind: str) -> bytes:
    """The data packed by a library or, where Python has none, by the system's program."""
    if kind == "plain":
        return data
    libraries: dict[str, Callable[[bytes], bytes]] = {"gzip": gzip.compress, "xz": lzma.compress, "bzip2": bz2.compress}
    if kind in libraries:
        return libraries[kind](data)
    legacy = {"lz4": ["lz4", "-l", "-c"], "zstd": ["zstd", "-c", "-q"]}[kind]
    return subprocess.run(legacy, input=data, capture_output=True, check=True).stdout


def module(version: str) -> bytes:
    """A module file: the section .modinfo between other words, among them one that only looks like it."""
    words = [b"license=NVIDIA", b"srcversion=533BB7E5866E52F63B9ACCB", b"version=" + version.encode(), b"name=nvidia"]
    code = random.Random(1).randbytes(5000)
    return b"\x7fELF\x02\x01\x01" + bytes(600) + b"\0".join([b"", *words, b""]) + b"rhelversion=8.10\0" + code


MICROCODE = packed_files({"kernel/x86/microcode/GenuineIntel.bin": bytes(range(256)) * 40, "early_cpio": b"1\n"})
SMALL = {"init": b"#!/bin/sh\n", "etc/initrd-release": b"NAME=dracut\n", "usr/lib/firmware/big.bin": bytes(300_001)}


def image(files: dict[str, bytes], kind: str = "gzip", early: bool = True) -> bytes:
    return (MICROCODE if early else b"") + pack(packed_files({**SMALL, **files}), kind)
