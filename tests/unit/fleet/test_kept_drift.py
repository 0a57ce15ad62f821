"""What one ansible-core found for all (tests/cores) is never that of other code, hosts or releases."""

from __future__ import annotations

import importlib
import io
import json
import sys
import tarfile
from pathlib import Path
from typing import Any

import pytest

REPOSITORY = Path(__file__).resolve().parents[3]
sys.path += [str(REPOSITORY / "tests/cores")]
kept_drift = importlib.import_module("kept_drift")


def artefact(folder: Path, **files: str) -> Path:
    """A collection with files of these digests, built at another time each call."""
    listed = [{"name": name, "chksum_sha256": digest} for name, digest in files.items()]
    text = json.dumps({"files": listed, "format": 1}).encode()
    path = folder / f"{len(list(folder.iterdir()))}.tar.gz"
    with tarfile.open(path, "w:gz") as archive:
        member = tarfile.TarInfo("FILES.json")
        member.size = len(text)
        archive.addfile(member, io.BytesIO(text))
    return path


def test_the_key_is_that_of_the_contents_and_changes_with_each(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    first = kept_drift.key(artefact(tmp_path, a="1", b="2"), "hosts")
    assert kept_drift.key(artefact(tmp_path, b="2", a="1"), "hosts") == first
    others = [
        kept_drift.key(artefact(tmp_path, a="1", b="3"), "hosts"),
        kept_drift.key(artefact(tmp_path, a="1"), "hosts"),
        kept_drift.key(artefact(tmp_path, a="1", b="2"), "other hosts"),
    ]
    monkeypatch.setitem(kept_drift.RELEASES, kept_drift.PINNED, "2.16.20")
    others.append(kept_drift.key(artefact(tmp_path, a="1", b="2"), "hosts"))
    monkeypatch.setattr(kept_drift, "machine", lambda: "another machine")
    others.append(kept_drift.key(artefact(tmp_path, a="1", b="2"), "hosts"))
    (tmp_path / "tests").mkdir()
    monkeypatch.setattr(kept_drift, "HERE", tmp_path / "tests")
    others.append(kept_drift.key(artefact(tmp_path, a="1", b="2"), "hosts"))
    assert len({first, *others}) == 1 + len(others)


def test_rows_are_asked_for_once_and_again_where_they_differ(tmp_path: Path) -> None:
    answers: list[dict[str, Any]] = [{"a": 1}, {"a": 2}]
    kept = kept_drift.KeptDrift("key", lambda: answers.pop(0), tmp_path)
    assert kept.beside({"a": 1}) == {"a": 1} and kept.beside({"a": 1}) == {"a": 1} and len(answers) == 1
    # Debian's archive has moved meanwhile, or this release finds something else: only the pinned one can tell.
    assert kept.beside({"a": 2}) == {"a": 2} and answers == []
    assert json.loads(kept.file.read_text()) == {"a": 2}


def test_those_of_other_code_are_neither_used_nor_left(tmp_path: Path) -> None:
    kept_drift.KeptDrift("old", dict, tmp_path).keep({"a": 1})
    new = kept_drift.KeptDrift("new", lambda: {"a": 3}, tmp_path)
    assert new.beside({"a": 1}) == {"a": 3}
    assert [file.name for file in tmp_path.iterdir()] == ["drift-new.json"]
