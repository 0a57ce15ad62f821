# SPDX-License-Identifier: Apache-2.0
"""`gpu-doctor --bundle`: the state of a node in one file, for a vendor or a colleague; see docs/parts/report.md."""

import errno
import gzip
import hashlib
import io
import json
import os
import tarfile
import time
import zipfile
from typing import Any, Callable, Dict, List, NamedTuple, Optional, Tuple

from ...host.files import below
from ...host.whole_file import write_new
from ...verdict.expectations import EXPECTATIONS_PATH, parse_expectations
from ...verdict.report import now_utc, read_json
from .answers import Answer, as_json, raw_answers
from .masking import Masker
from .masking_known import known_masker

SCHEMA = 1
FOLDER = "gpuwright-bundle"
MANIFEST = "manifest.json"
REPORT = "report.json"
EXPECTATIONS = "expectations.json"
QUERY_XML = "nvidia-smi/query.xml"
KERNEL_LOG = "kernel.log"
SUFFIX = ".tar.gz"
# Limit of all unpacked files together, so that the packed file stays below 20 MB whatever is in it.
MOST_BYTES = 19 * 1000 * 1000
MOST_JSON_BYTES = 6 * 1000 * 1000
OWNER_ONLY = 0o600
# Packages that only modules and the controller import: the library on a node does not have them.
NOT_ON_NODES = ("driver_change", "first_record", "operator", "preflight", "takeover")
LIBRARY = os.path.abspath(os.path.join(os.path.dirname(__file__), "..", ".."))


class Made(NamedTuple):
    """A bundle that was written: its path, the rows of its manifest, its size in bytes, {kind: values masked}."""

    path: str
    rows: list
    size: int
    masked: dict


def identity(folder: str = LIBRARY) -> str:
    """Which library this is: 12 hexadecimal digits of a hash over its sources, the same in a checkout and on a node."""
    sources = _sources_in_folder(folder) if os.path.isdir(folder) else _sources_in_archive(folder)
    digest = hashlib.sha256()
    for name, text in sorted(sources.items()):
        digest.update(name.encode() + b"\0" + text + b"\0")
    return digest.hexdigest()[:12]


def _sources_in_folder(folder: str) -> Dict[str, bytes]:
    sources = {}
    for path, folders, names in os.walk(folder):
        if path == folder:
            folders[:] = [name for name in folders if name not in NOT_ON_NODES]
        for name in names:
            if name.endswith(".py"):
                with open(os.path.join(path, name), "rb") as file:
                    sources[os.path.relpath(file.name, folder)] = file.read()
    return sources


def _sources_in_archive(folder: str) -> Dict[str, bytes]:
    """The sources of a library in a zip file, such as that of gpu-doctor.pyz."""
    archive, _slash, inside = folder.rpartition("/")
    with zipfile.ZipFile(archive) as opened:
        names = [name for name in opened.namelist() if name.startswith(inside + "/") and name.endswith(".py")]
        return {name[len(inside) + 1 :]: opened.read(name) for name in names}


def make_bundle(
    path: str,
    root: str,
    level: str,
    masked: bool,
    examine: Callable,
    expected_at: str = "",
    scan: Optional[Callable] = None,
) -> Made:
    """Write the bundle to `path` ("": a name from host and time, in the current folder); OSError if that fails.

    `examine(expectations)` returns the report of this moment; `scan()`, if given, does so without any. An existing file
    is never replaced.
    """
    if path and os.path.lexists(path):
        raise FileExistsError(errno.EEXIST, "it already exists; choose another file name")
    now = now_utc()
    report, answers = (
        _scanned(scan()) if scan else _report(root, examine, expected_at or below(root, EXPECTATIONS_PATH))
    )
    answers += raw_answers(root)
    host = str(report.get("host") or "") if report else ""
    masker = _masker(root, report, answers) if masked else None
    rows, files = _files(answers, masker)
    manifest: Dict[str, Any] = {
        "schema": SCHEMA,
        "identity": identity(),
        "time": now,
        "level": level,
        "host": masker.value(host, "host") if masker else host,
        "masked": masked,
        "masked_values": masker.counts() if masker else {},
        "files": rows,
    }
    files.insert(0, (MANIFEST, _json(manifest)))
    if not path:
        name = manifest["host"] or "host"
        path = f"gpuwright-{name}-{now.replace('-', '').replace(':', '')}{SUFFIX}"
    data = packed(files)
    write_new(path, data, OWNER_ONLY)
    return Made(path, rows, len(data), manifest["masked_values"])


def _report(root: str, examine: Callable, path: str) -> Tuple[dict, List[Answer]]:
    """The report ({} if the node's expectations cannot be read), and both as answers."""
    what, expected = "the readings and checks at this moment", "what the node was judged by"
    shown = EXPECTATIONS_PATH if path == below(root, EXPECTATIONS_PATH) else path
    try:
        report = examine(parse_expectations(read_json(path)))
    except (OSError, ValueError) as error:
        why = f"{shown}: {getattr(error, 'strerror', None) or error}"
        missing = [Answer(REPORT, what, "gpu-doctor", None, "", "nothing was judged: " + why)]
        return {}, missing + [Answer(EXPECTATIONS, expected, shown, None, "", why)]
    return report, [
        Answer(REPORT, what, "gpu-doctor", None, json.dumps(report), ""),
        Answer(EXPECTATIONS, expected, shown, None, json.dumps(report["expectations"]), ""),
    ]


def _scanned(report: dict) -> Tuple[dict, List[Answer]]:
    """The report of a scan, for which there are no expectations, as an answer."""
    what = "the readings and checks at this moment"
    return report, [Answer(REPORT, what, "gpu-doctor --scan", None, json.dumps(report), "")]


def _masker(root: str, report: dict, answers: List[Answer]) -> Masker:
    masker = known_masker(root, report)
    # All texts are searched before the first is masked: a name from one of them may appear in any other.
    for answer in answers:
        masker.learn_from(answer.text)
        masker.learn_from(answer.problem)
    return masker


def _files(answers: List[Answer], masker: Optional[Masker]) -> Tuple[list, List[Tuple[str, bytes]]]:
    """The rows of the manifest, and (name, bytes) of each existing answer."""
    rows, files, left = [], [], MOST_BYTES
    for answer in answers:
        data, problem = _bytes(answer, masker), answer.problem
        most = min(left, MOST_JSON_BYTES) if answer.name.endswith(".json") else left
        if len(data) > most:
            # A truncated record cannot be parsed; a truncated log can be read.
            data = b"" if answer.name.endswith(".json") else data[:most].rpartition(b"\n")[0]
            problem = "; ".join([problem] if problem else []) + f"too large, {'cut' if data else 'left out'}"
        left -= len(data)
        row: Dict[str, Any] = {
            "name": answer.name if data else None,
            "file": answer.name,
            "what": answer.what,
            "command": answer.command,
            "rc": answer.rc,
            "bytes": len(data),
            "problem": problem or ("" if data else "no output"),
        }
        rows.append(
            dict(row, command=masker.text(row["command"]), problem=masker.text(row["problem"])) if masker else row
        )
        if data:
            files.append((answer.name, data))
    return rows, files


def _bytes(answer: Answer, masker: Optional[Masker]) -> bytes:
    record = as_json(answer.text) if answer.name.endswith(".json") else None
    if isinstance(record, (dict, list)):
        return _json(masker.value(record) if masker else record)
    text = masker.text(answer.text) if masker else answer.text
    return text.encode("utf-8", "replace")


def _json(value: Any) -> bytes:
    # Escapes for other alphabets would hide a name from a person who searches the file for it.
    return (json.dumps(value, indent=1, sort_keys=True, ensure_ascii=False) + "\n").encode("utf-8", "replace")


def packed(files: List[Tuple[str, bytes]]) -> bytes:
    """A .tar.gz of (name, bytes) in one folder; no owner, and no file name in its header."""
    moment = int(time.time())
    plain, buffer = io.BytesIO(), io.BytesIO()
    with tarfile.open(fileobj=plain, mode="w", format=tarfile.USTAR_FORMAT) as archive:
        for name, data in files:
            member = tarfile.TarInfo(f"{FOLDER}/{name}")
            member.size, member.mtime, member.mode = len(data), moment, OWNER_ONLY
            archive.addfile(member, io.BytesIO(data))
    with gzip.GzipFile(filename="", mode="wb", fileobj=buffer, mtime=moment) as stream:
        stream.write(plain.getvalue())
    return buffer.getvalue()
