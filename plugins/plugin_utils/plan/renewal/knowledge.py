# SPDX-License-Identifier: Apache-2.0
"""Newer knowledge than the toolkit's own: tables of the matrix from a file that the inventory names.

The file has the tables and, under `tables`, the day of each. It counts only whole: with the SHA-256 that lies beside
it, or the signature of the key that the inventory names (as of a bundle), in the form of matrix.schema.json. A table is
taken where its day is later than that of the toolkit's own and is not to come. Whatever is not taken is said.
"""

from __future__ import annotations

import datetime
import hashlib
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import yaml

from ...software.bulletins import assert_form
from ..matrix import LOADER, SHIPPED
from .form import first_problem

NAME = "knowledge.yml"
SCHEMA = SHIPPED.parent / "matrix.schema.json"
# What is published anew all the time and what plans alone rest on. What roles and probes need comes with the toolkit.
TABLES = (
    *("drivers", "released", "bulletins", "cuda", "cudnn", "nccl"),
    *("pytorch", "pytorch_builds", "tensorflow", "wheel_holes"),
)


Problem = Callable[[bytes, bytes, str], str]


class KnowledgeError(Exception):
    """Why a file is not taken, as the end of a sentence."""


def with_knowledge(
    matrix: dict[str, Any], path: str, signer: str, today: str, signature_problem: Problem
) -> tuple[dict[str, Any], list[str]]:
    """The matrix with the newer tables of a file or folder, and sentences on what was taken or why nothing was.

    path    of a file, or of a folder with knowledge.yml in it; "" for none
    signer  fingerprint of the key that must have signed it; "" if its SHA-256 is enough
    today   YYYY-MM-DD
    signature_problem  of (data, signature, fingerprint), "" for a good one
    """
    if not path:
        return matrix, []
    try:
        content = read(Path(path).expanduser(), signer, signature_problem)
        taken, left = _newer(matrix, content, today)
        merged = {**matrix, **{name: content[name] for name in taken}}
        merged["tables"] = {**matrix["tables"], **{name: content["tables"][name] for name in taken}}
        problem = first_problem({name: merged[name] for name in (*taken, "tables")}, _schema_of(taken), _schema())
        problem = problem or _wrong_bulletin(merged["bulletins"])
        if problem:
            raise KnowledgeError(f"it has not the form of the matrix ({problem})")
    except KnowledgeError as error:
        return matrix, [f"The knowledge of {path} is not used, and the plan is by the toolkit's own tables: {error}"]
    words = [f"{name} (as of {content['tables'][name]['as_of']})" for name in taken]
    said = [f"Tables of {path} are newer than the toolkit's own and are used: {', '.join(words)}"] if taken else []
    return merged, said + ([f"Not used of {path}: {', '.join(left)}"] if left else [])


def read(path: Path, signer: str, signature_problem: Problem) -> dict[str, Any]:
    """The content of a file that is whole. Raises KnowledgeError."""
    file = path / NAME if path.is_dir() else path
    try:
        data = file.read_bytes()
        proof = file.with_name(file.name + (".sig" if signer else ".sha256")).read_bytes()
    except OSError as error:
        raise KnowledgeError(f"{error.filename} cannot be read ({error.strerror})") from None
    if signer:
        problem = signature_problem(data, proof, signer)
        if problem:
            raise KnowledgeError(problem)
    elif proof.split()[:1] != [hashlib.sha256(data).hexdigest().encode()]:
        raise KnowledgeError(f"{file.name} has not the SHA-256 that {file.name}.sha256 says")
    try:
        content = yaml.load(data, Loader=LOADER)
    except (ValueError, RecursionError, yaml.YAMLError):
        raise KnowledgeError(f"{file.name} is no YAML") from None
    if not (isinstance(content, dict) and isinstance(content.get("tables"), dict)):
        raise KnowledgeError(f"{file.name} has no `tables` with the day of each")
    return content


def _newer(matrix: dict[str, Any], content: dict[str, Any], today: str) -> tuple[list[str], list[str]]:
    """Names of the tables that count, and why others do not."""
    taken, left = [], []
    for name in (name for name in content if name not in ("tables", "schema")):
        day = content["tables"].get(name, {})
        as_of = str(day.get("as_of", "")) if isinstance(day, dict) else ""
        if name not in TABLES:
            left.append(f"{name}, which comes with the toolkit alone")
        elif not _is_day(as_of):
            left.append(f"{name}, which has no day")
        elif as_of > today:
            left.append(f"{name}, whose day {as_of} is to come")
        elif as_of <= matrix["tables"][name]["as_of"]:
            left.append(f"{name} of {as_of}, which is not newer than the toolkit's own")
        else:
            taken.append(name)
    return taken, left


def _wrong_bulletin(found: list[dict[str, Any]]) -> str:
    """What the schema cannot say: a fix is a release of its branch."""
    try:
        for one in found:
            assert_form(one)
    except ValueError as error:
        return str(error)
    return ""


def _is_day(text: str) -> bool:
    try:
        return datetime.date.fromisoformat(text).isoformat() == text
    except ValueError:
        return False


def _schema() -> dict[str, Any]:
    found: dict[str, Any] = json.loads(SCHEMA.read_text(encoding="utf-8"))
    return found


def _schema_of(names: list[str]) -> dict[str, Any]:
    rows = _schema()["properties"]
    return {"type": "object", "properties": {name: rows[name] for name in (*names, "tables")}}


def write(folder: Path, matrix: dict[str, Any], tables: list[str]) -> Path:
    """Write a file of these tables, and its SHA-256 beside it; to sign it: ssh-keygen -Y sign -n gpuwright-bundle."""
    content = {"schema": matrix["schema"], "tables": {name: matrix["tables"][name] for name in tables}}
    text = yaml.safe_dump({**content, **{name: matrix[name] for name in tables}}, sort_keys=False, width=1000)
    file = folder / NAME
    folder.mkdir(parents=True, exist_ok=True)
    file.write_text(text, encoding="utf-8")
    digest = hashlib.sha256(text.encode()).hexdigest()
    file.with_name(NAME + ".sha256").write_text(f"{digest}  {NAME}\n", encoding="utf-8")
    return file
