# SPDX-License-Identifier: Apache-2.0
"""The results of `train-gan bench` on this node; its file belongs to the training user and is not trusted.

Root reads it, so it must not become a way to read other files: no link is followed below the folder of runs, only a
regular file with a single name is opened, its size is limited, and only data in the known format is passed on.
"""

import json
import os
import stat
from typing import Any, Dict, Mapping, Sequence

from ..host.files import resolve
from ..verdict.report import printable

SCHEMA = 1
FOLDER, FILE = "bench", "bench.json"
LIMIT_BYTES = 256 * 1024
LONGEST_LIST = 64
LONGEST_TEXT = 400
LARGEST = 1e15

TEXT, AMOUNT, COUNT, FLAG, REPORTED, SENTENCES = "text", "amount", "count", "flag", "reported", "sentences"
# Field: (kind, may be null). A record in any other format is refused as a whole.
PRECISION = {
    "name": (TEXT, False),
    "gpus": (COUNT, False),
    "epoch_s": (AMOUNT, True),
    "memory_fraction": (AMOUNT, True),
    "stable": (FLAG, True),
    "fid": (AMOUNT, True),
    "reported": (REPORTED, True),
}
BATCH = {
    "batch_size": (COUNT, False),
    "epoch_s": (AMOUNT, True),
    "memory_fraction": (AMOUNT, True),
    "reported": (REPORTED, True),
}
LADDER = {
    "name": (TEXT, False),
    "images_per_s": (AMOUNT, True),
    "ratio": (AMOUNT, True),
    "peak_memory_mib": (AMOUNT, True),
    "not_run": (TEXT, True),
}
LISTS = {"precision": PRECISION, "batch": BATCH, "ladder": LADDER}
HEAD = {
    "time": (TEXT, False),
    "device": (TEXT, False),
    "torch": (TEXT, False),
    "image_size": (COUNT, False),
    "images_per_epoch": (COUNT, False),
    "reduced": (FLAG, False),
    "contradictions": (SENTENCES, False),
}


def read_bench(root: str, expectations: Mapping[str, Any]) -> Any:
    """The checked record of `<runs_dir>/bench/bench.json`; None if this node ran no benchmark.

    Raises OSError if it cannot be opened and ValueError if it is not such a record.
    """
    folder = expectations.get("runs_dir")
    full = resolve(root, folder) if isinstance(folder, str) and folder.startswith("/") else None
    if full is None:
        return None
    try:
        data = read_below(full, (FOLDER, FILE))
    except FileNotFoundError:
        return None
    return parse_bench(data)


def read_below(folder: str, names: Sequence[str]) -> Any:
    """Up to LIMIT_BYTES of a regular file below `folder`; OSError for a link in the path, ValueError for all else."""
    here = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        for name in names[:-1]:
            deeper = os.open(name, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW, dir_fd=here)
            os.close(here)
            here = deeper
        # Without O_NONBLOCK, opening a pipe in place of the file would wait.
        file = os.open(names[-1], os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK, dir_fd=here)
    finally:
        os.close(here)
    with os.fdopen(file, "rb") as stream:
        status = os.fstat(stream.fileno())
        # A second name may be a hard link to a file that its maker could not read.
        if not stat.S_ISREG(status.st_mode) or status.st_nlink != 1:
            raise ValueError(f"{names[-1]} is not an ordinary file with one name")
        data = stream.read(LIMIT_BYTES + 1)
    if len(data) > LIMIT_BYTES:
        raise ValueError(f"{names[-1]} is larger than {LIMIT_BYTES // 1024} KiB")
    return data


def parse_bench(data: bytes) -> Dict[str, Any]:
    """The record in these bytes, only with the known fields; ValueError says which one is wrong."""
    try:
        record = json.loads(data.decode("utf-8"), parse_int=_whole, parse_constant=_refuse)
    except RecursionError:
        raise ValueError("bench.json is nested too deeply")
    except ValueError as error:
        raise ValueError(f"bench.json is not JSON: {printable(str(error))[:LONGEST_TEXT]}")
    if not isinstance(record, dict) or record.get("schema") != SCHEMA:
        raise ValueError(f"bench.json is not a record of schema {SCHEMA}")
    found = _fields(record, HEAD, "bench.json")
    for name, fields in LISTS.items():
        members = _members(record.get(name), name)
        found[name] = [_fields(member, fields, f"{name}[{index}]") for index, member in enumerate(members)]
    return dict(found, schema=SCHEMA)


def _whole(digits: str) -> int:
    # A number of a hundred thousand digits would take minutes to convert.
    return int(digits) if len(digits) <= 16 else _refuse(digits[:16])


def _refuse(word: str) -> int:
    raise ValueError(f"{word} is not a number here")


def _members(value: Any, name: str) -> Any:
    if not isinstance(value, list) or len(value) > LONGEST_LIST:
        raise ValueError(f"{name} is not a list of up to {LONGEST_LIST} members")
    return value


def _fields(record: Any, fields: Any, where: str) -> Dict[str, Any]:
    if not isinstance(record, dict):
        raise ValueError(f"{where} is not a record")
    return {name: _value(record.get(name), kind, null, where + "." + name) for name, (kind, null) in fields.items()}


def _value(value: Any, kind: Any, null: bool, where: str) -> Any:
    if value is None and null:
        return None
    if kind == TEXT and isinstance(value, str):
        return printable(value[:LONGEST_TEXT])
    if kind == FLAG and isinstance(value, bool):
        return value
    if kind == SENTENCES:
        return [_value(member, TEXT, False, where) for member in _members(value, where)]
    if kind == REPORTED and isinstance(value, dict):
        return {
            printable(str(name)[:LONGEST_TEXT]): _value(number, AMOUNT, True, where)
            for name, number in list(value.items())[:LONGEST_LIST]
        }
    number = isinstance(value, (int, float)) and not isinstance(value, bool) and 0 <= value <= LARGEST
    if number and (kind == AMOUNT or (kind == COUNT and isinstance(value, int))):
        return value
    raise ValueError(f"{where} is {printable(repr(value)[:80])}; expected {kind}")
