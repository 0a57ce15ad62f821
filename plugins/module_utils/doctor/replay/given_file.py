# SPDX-License-Identifier: Apache-2.0
"""What kind of file was given, and its parts, read within limits; nothing in the content is trusted."""

import io
import json
import os
import re
import stat
import tarfile
import zlib
from typing import Any, Dict, List, Mapping, NamedTuple, Optional, Sequence, Tuple

from ..bundle.make import MANIFEST
from .given_text import decoded, untangled
from .parts import CSV_FORM, TABLE_FORM, TEXT_FORM, parts_of

# Above any genuine bundle (20 MB packed, 19 MB unpacked), answer (1 MiB) or log of a boot.
MOST_BYTES = 32 * 1024 * 1024
MOST_UNPACKED = 64 * 1024 * 1024
MOST_FILES = 20000
MOST_MEMBERS = 1000
GZIP = b"\x1f\x8b"
# Packed in a way that is not unpacked here: it may hold anything.
PACKED = {
    b"PK\x03\x04": "zip",
    b"\xfd7zXZ\x00": "xz",
    b"BZh": "bzip2",
    b"\x28\xb5\x2f\xfd": "zstd",
    b"7z\xbc\xaf": "7z",
    GZIP: "gzip, twice",
}

BUNDLE, XML, LOG, OTHER, DAMAGED = "bundle", "nvidia-smi XML", "kernel log", "not recognised", "damaged"
FORMS = (TEXT_FORM, CSV_FORM, TABLE_FORM)
# Something that may tell of a card's health. Beside something that is judged, all is UNKNOWN at best.
NOT_JUDGED = "not judged"

# How Windows drives a card, which only its nvidia-smi tells: in the XML, in the text of -q, and over its table.
WINDOWS = re.compile(
    r"<current_dm>(?:WDDM|TCC|MCDM)\b|Driver Model\s+Current\s+: (?:WDDM|TCC|MCDM)\b|TCC/WDDM|Driver-Model"
)


class Piece(NamedTuple):
    """One thing to judge.

    kind     BUNDLE, XML, one of FORMS, LOG, or OTHER, NOT_JUDGED and DAMAGED, for which there is nothing to judge
    text     nvidia-smi's answer, or why there is none
    log      the machine of a LOG, as `boots` returns it; of FORMS, what `other_forms` returns
    of       number of lines of the text that a LOG is in
    members  {name: bytes} of a BUNDLE
    cut      the file is longer than what was read of it
    left_out sentences about what is in the file and not judged
    windows  it is an answer of Windows' nvidia-smi
    """

    kind: str
    text: str = ""
    log: Any = None
    of: int = 0
    members: Mapping[str, bytes] = {}
    cut: bool = False
    left_out: Sequence[str] = ()
    windows: bool = False


class Found(NamedTuple):
    """Files below a folder; (what could not be looked at, why); what was passed over on purpose, in words."""

    files: List[str]
    problems: List[Tuple[str, str]]
    left_out: List[str]


def files_in(path: str) -> List[str]:
    """The regular files below a folder in order, without hidden folders and links; the path itself if it is no folder.

    An unpacked bundle counts as one: its folder is returned.
    """
    return look_below(path).files


def look_below(path: str) -> Found:
    """`files_in`, and what is not among them."""
    if not os.path.isdir(path):
        return Found([path], [], [])
    found = Found([], [], [])
    hidden = others = 0

    def refused(error: OSError) -> None:
        found.problems.append((str(error.filename), f"it cannot be read: {error.strerror or error}"))

    for folder, names, files in os.walk(path, onerror=refused):
        if _holds_bundle(folder):
            found.files.append(folder)
            names[:] = []
            continue
        hidden += sum(1 for name in names if name.startswith("."))
        others += sum(1 for name in names if os.path.islink(os.path.join(folder, name)))
        names[:] = sorted(name for name in names if not name.startswith("."))
        for name in sorted(files):
            full = os.path.join(folder, name)
            if stat.S_ISREG(os.lstat(full).st_mode):
                found.files.append(full)
            else:
                others += 1
        if len(found.files) > MOST_FILES:
            found.problems.append((path, f"it has more than {MOST_FILES} files, and the others are not judged"))
            del found.files[MOST_FILES:]
            break
    for number, what in ((hidden, "hidden folders"), (others, "links, pipes and the like")):
        if number:
            found.left_out.append(f"{number} {what}")
    return found


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
        names = files_in_plain(path)
        members, cut = read_members(path, names)
        return [Piece(BUNDLE, members=members, cut=cut)]
    data = read_bounded(path)
    cut = len(data) > MOST_BYTES
    if data.startswith(GZIP):
        data, whole = unzipped(data)
        cut = cut or not whole
        if not data and cut:
            return [Piece(DAMAGED, f"an archive that is not a complete bundle of gpu-doctor: {MANIFEST} is missing")]
    if data[257:262] == b"ustar":
        members, whole = unpacked(data)
        cut = cut or not whole
        if MANIFEST in members:
            return [Piece(BUNDLE, members=members, cut=cut)]
        words = f"an archive that is not a complete bundle of gpu-doctor: {MANIFEST} is missing"
        return [Piece(DAMAGED if cut or not members else NOT_JUDGED, words + "; unpack it to judge what is in it")]
    return pieces_of_text(data, cut)


def read_members(path: str, names: Sequence[str]) -> Tuple[Dict[str, bytes], bool]:
    """({name: content}, whether something is missing) within one budget for all; holes in a file take room, too."""
    found: Dict[str, bytes] = {}
    room, cut = MOST_UNPACKED, len(names) > MOST_MEMBERS
    for name in names[:MOST_MEMBERS]:
        full = os.path.join(path, name)
        size = os.stat(full).st_size
        if size > min(room, MOST_BYTES):
            cut = True
            continue
        room -= size
        found[name] = read_bounded(full)
    return found, cut


def files_in_plain(folder: str) -> List[str]:
    """Names below an unpacked bundle, as its manifest gives them."""
    found = []
    for here, _folders, files in os.walk(folder):
        for name in files:
            full = os.path.join(here, name)
            if stat.S_ISREG(os.lstat(full).st_mode):
                found.append(os.path.relpath(full, folder))
    return sorted(found)


def pieces_of_text(data: bytes, cut: bool = False) -> List[Piece]:
    """Everything in a text that can be judged, what is known and cannot be, and in words what else there is."""
    if not data.strip():
        return [Piece(OTHER, "an empty file")]
    text = decoded(data)
    if text is None:
        name = next((name for start, name in PACKED.items() if data.startswith(start)), "")
        if name:
            return [Piece(NOT_JUDGED, f"a packed file ({name}); unpack it first")]
        return [Piece(OTHER, "a binary file")]
    apart = untangled(text)
    if apart is not None:
        pieces = [piece for one in apart.texts for piece in pieces_of_text(one.encode("utf-8", "replace"), cut)]
        more = [one for one in pieces_of_text(apart.rest.encode("utf-8", "replace"), cut) if one.kind != OTHER]
        said = [] if more else parts_of(apart.rest).rest
        return [pieces[0]._replace(left_out=[*pieces[0].left_out, *said])] + pieces[1:] + more
    parts = parts_of(text)
    found = [Piece(XML, answer, cut=cut, windows=bool(WINDOWS.search(answer))) for answer in parts.answers]
    found += [Piece(XML, sentence, cut=cut) for sentence in parts.sentences]
    for name, form in parts.forms:
        if isinstance(form, str):
            found.append(Piece(DAMAGED, f"{name} that cannot be read: {form}", cut=cut))
        elif form.root.find("gpu") is not None or form.root.find("attached_gpus") is not None:
            found.append(Piece(name, log=form, cut=cut or form.cut, windows=bool(WINDOWS.search(text))))
        elif form.root.find("attached_units") is None:
            found.append(Piece(NOT_JUDGED, f"{name} without a card"))
    found += [Piece(LOG, log=log, of=parts.of, cut=cut, left_out=log.left_out) for log in parts.machines]
    if not found and parts.known:
        return [Piece(NOT_JUDGED, "; ".join(parts.known))]
    found += [Piece(NOT_JUDGED, words) for words in parts.known]
    if not found:
        words = "neither an answer of nvidia-smi, nor a kernel log, nor a bundle of gpu-doctor"
        if parts.quoted:
            words = f"a text that only quotes a kernel log (lines: {parts.quoted})"
        return [Piece(OTHER, words)]
    first = found[0]
    return [first._replace(left_out=[*first.left_out, *parts.rest])] + found[1:]


def unzipped(data: bytes) -> Tuple[bytes, bool]:
    """(bytes, whether that is all): a damaged or endless stream is cut where it fails."""
    found, reader = bytearray(), zlib.decompressobj(wbits=31)
    try:
        while data and len(found) < MOST_UNPACKED:
            found += reader.decompress(data, MOST_UNPACKED - len(found))
            if reader.eof:
                data, reader = reader.unused_data, zlib.decompressobj(wbits=31)
                if not data.startswith(GZIP):
                    # Tapes fill up with null bytes; anything else was not written by gzip.
                    return bytes(found), not data.strip(b"\0")
            else:
                data = reader.unconsumed_tail
    except zlib.error:
        pass
    return bytes(found), False


def unpacked(data: bytes) -> Tuple[Dict[str, bytes], bool]:
    """({name without the first folder: bytes} of the regular files, whether these are all).

    Of a damaged archive, there are those before the damage.
    """
    found: Dict[str, bytes] = {}
    whole = True
    try:
        with tarfile.open(fileobj=io.BytesIO(data), mode="r:") as archive:
            room = MOST_UNPACKED
            for member in archive:
                # A sparse member is a few bytes here and may be any size when it is read.
                if member.issparse() or member.size > room:
                    whole = False
                elif member.isreg() and len(found) < MOST_MEMBERS:
                    room -= member.size
                    file = archive.extractfile(member)
                    part = file.read() if file else b""
                    if len(part) == member.size:
                        found[member.name.partition("/")[2] or member.name] = part
                    else:
                        whole = False
                elif member.isreg():
                    whole = False
    except (tarfile.TarError, OSError, ValueError, EOFError):
        whole = False
    return found, whole


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
