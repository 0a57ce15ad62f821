# SPDX-License-Identifier: Apache-2.0
"""What kind of file was given, and its parts, read within limits; nothing in the content is trusted."""

import codecs
import io
import json
import os
import re
import stat
import tarfile
import zlib
from typing import Any, Dict, List, Mapping, NamedTuple, Optional, Tuple

from ..bundle.make import MANIFEST
from .log import Log, kernel_log

# Above any genuine bundle (20 MB packed, 19 MB unpacked), answer (1 MiB) or log of a boot.
MOST_BYTES = 32 * 1024 * 1024
MOST_UNPACKED = 64 * 1024 * 1024
MOST_FILES = 20000
MOST_MEMBERS = 1000
GZIP = b"\x1f\x8b"
XML_BEGIN, XML_END = "<nvidia_smi_log", "</nvidia_smi_log>"
# How nvidia-smi begins if it prints a sentence instead of an answer.
SENTENCE = re.compile(
    r"\s*(?:NVIDIA-SMI has failed|NVIDIA-SMI couldn't|Failed to initialize NVML|No devices were found|"
    r"Unable to determine the device handle|GPU is lost|Insufficient Permissions)"
)
LONGEST_SENTENCE = 4096

BUNDLE, XML, LOG, OTHER, DAMAGED = "bundle", "nvidia-smi XML", "kernel log", "not recognised", "damaged"


class Piece(NamedTuple):
    """One thing to judge.

    kind     BUNDLE, XML, LOG, or OTHER and DAMAGED, for which there is nothing to judge
    text     nvidia-smi's answer, or why there is none
    log      the kernel's log of a LOG
    members  {name: bytes} of a BUNDLE
    cut      the file is longer than what was read of it
    """

    kind: str
    text: str = ""
    log: Any = None
    members: Mapping[str, bytes] = {}
    cut: bool = False


def files_in(path: str) -> List[str]:
    """The regular files below a folder in order, without hidden folders and links; the path itself if it is no folder.

    An unpacked bundle counts as one: its folder is returned.
    """
    if not os.path.isdir(path):
        return [path]
    found = []
    for folder, names, files in os.walk(path):
        if _holds_bundle(folder):
            found.append(folder)
            names[:] = []
            continue
        names[:] = sorted(name for name in names if not name.startswith("."))
        for name in sorted(files):
            full = os.path.join(folder, name)
            if stat.S_ISREG(os.lstat(full).st_mode):
                found.append(full)
        if len(found) > MOST_FILES:
            break
    return found[:MOST_FILES]


def _holds_bundle(folder: str) -> bool:
    try:
        return _manifest(read_bounded(os.path.join(folder, MANIFEST))) is not None
    except (OSError, ValueError):
        return False


def read_bounded(path: str) -> bytes:
    """At most MOST_BYTES + 1 bytes of a regular file."""
    # Opening a pipe in its place would wait.
    if not stat.S_ISREG(os.stat(path).st_mode):
        raise ValueError("it is not a regular file")
    with open(path, "rb") as file:
        return file.read(MOST_BYTES + 1)


def pieces_of(path: str) -> List[Piece]:
    """What there is to judge in a file, or in the folder of an unpacked bundle; OSError if it cannot be read."""
    if os.path.isdir(path):
        names = [name for name in files_in_plain(path)]
        return [Piece(BUNDLE, members={name: read_bounded(os.path.join(path, name)) for name in names})]
    data = read_bounded(path)
    cut = len(data) > MOST_BYTES
    if data.startswith(GZIP):
        data, whole = unzipped(data)
        members = unpacked(data) if data[257:262] == b"ustar" else None
        if members is not None and MANIFEST in members:
            return [Piece(BUNDLE, members=members, cut=not whole)]
        if members is not None or (not data and not whole):
            kind = DAMAGED if not whole or not members else OTHER
            return [Piece(kind, f"an archive that is not a complete bundle of gpu-doctor: {MANIFEST} is missing")]
        cut = cut or not whole
    elif data[257:262] == b"ustar":
        members = unpacked(data)
        if MANIFEST in members:
            return [Piece(BUNDLE, members=members, cut=cut)]
    return pieces_of_text(data, cut)


def files_in_plain(folder: str) -> List[str]:
    """Names below an unpacked bundle, as its manifest gives them."""
    found = []
    for here, _folders, files in os.walk(folder):
        for name in files:
            full = os.path.join(here, name)
            if stat.S_ISREG(os.lstat(full).st_mode):
                found.append(os.path.relpath(full, folder))
    return sorted(found)[:MOST_MEMBERS]


def pieces_of_text(data: bytes, cut: bool = False) -> List[Piece]:
    """The answers of nvidia-smi in a text (a capture may hold several), or the kernel log that it is."""
    if not data.strip():
        return [Piece(OTHER, "an empty file")]
    text = decoded(data)
    if text is None:
        return [Piece(OTHER, "a binary file")]
    if XML_BEGIN in text:
        return [Piece(XML, answer, cut=cut) for answer in answers_in(text)]
    log = kernel_log(text)
    if log.is_log():
        return [Piece(LOG, log=log, cut=cut)]
    if len(text) <= LONGEST_SENTENCE and SENTENCE.match(text):
        return [Piece(XML, text)]
    if "==NVSMI LOG==" in text:
        return [Piece(OTHER, "nvidia-smi -q as plain text; only nvidia-smi -q -x can be judged")]
    return [Piece(OTHER, "neither nvidia-smi -q -x, nor a kernel log, nor a bundle of gpu-doctor")]


def decoded(data: bytes) -> Optional[str]:
    """The text, None for a binary file; Windows shells save UTF-16."""
    if data.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
        return data.decode("utf-16", "replace")
    if b"\0" in data[:8192]:
        return None
    return data.decode("utf-8-sig", "replace")


def answers_in(text: str) -> List[str]:
    """Each answer from its prolog to its end, with the lines next to it that warn of something."""
    starts = [match.start() for match in re.finditer(XML_BEGIN, text)][:100]
    found = []
    for index, start in enumerate(starts):
        limit = starts[index + 1] if index + 1 < len(starts) else len(text)
        end = text.find(XML_END, start, limit)
        stop = limit if end < 0 else end + len(XML_END)
        behind = "" if end < 0 else _warnings(text[stop:limit].splitlines()[:10])
        before = _warnings(text[max(0, start - 2000) : start].splitlines()[-10:]) if index == 0 else ""
        found.append(before + text[start:stop] + "\n" + behind)
    return found


def _warnings(lines: List[str]) -> str:
    return "".join(line + "\n" for line in lines if re.match(r"\s*warning\b", line, re.IGNORECASE))


def unzipped(data: bytes) -> Tuple[bytes, bool]:
    """(bytes, whether that is all): a damaged or endless stream is cut where it fails."""
    found, reader = bytearray(), zlib.decompressobj(wbits=31)
    try:
        while data and len(found) < MOST_UNPACKED:
            found += reader.decompress(data, MOST_UNPACKED - len(found))
            if reader.eof:
                data, reader = reader.unused_data, zlib.decompressobj(wbits=31)
                if not data.startswith(GZIP):
                    return bytes(found), True
            else:
                data = reader.unconsumed_tail
    except zlib.error:
        pass
    return bytes(found), False


def unpacked(data: bytes) -> Dict[str, bytes]:
    """{name without the first folder: bytes} of the regular files; those before the damage of a damaged archive."""
    found: Dict[str, bytes] = {}
    try:
        with tarfile.open(fileobj=io.BytesIO(data), mode="r:") as archive:
            for member in archive:
                if member.isreg() and len(found) < MOST_MEMBERS:
                    file = archive.extractfile(member)
                    part = file.read() if file else b""
                    if len(part) == member.size:
                        found[member.name.partition("/")[2] or member.name] = part
    except (tarfile.TarError, OSError, ValueError, EOFError):
        pass
    return found


def _manifest(data: bytes) -> Optional[Dict[str, Any]]:
    """The record of a manifest, None for any other JSON."""
    try:
        record = json.loads(data.decode("utf-8"))
    except RecursionError:
        raise ValueError(f"{MANIFEST} is nested too deeply")
    fits = isinstance(record, dict) and isinstance(record.get("files"), list) and "identity" in record
    return record if fits else None


def manifest_of(members: Mapping[str, bytes]) -> dict:
    """The manifest of a bundle; ValueError if it is not one."""
    record = _manifest(members.get(MANIFEST, b""))
    if record is None:
        raise ValueError(f"{MANIFEST} was not written by gpu-doctor")
    return record


def log_of(data: bytes) -> Log:
    """The kernel log of a bundle."""
    return kernel_log(data.decode("utf-8", "replace"))
