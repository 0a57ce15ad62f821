"""files: files, folders and links in one task, each in one step, and nothing that nobody asked to replace."""

from __future__ import annotations

import os
import stat
from pathlib import Path
from typing import Any

import pytest
from ansible_collections.gpuwright.node.plugins.module_utils.host import placing


def task(*entries: dict[str, Any], **more: Any) -> dict[str, Any]:
    return {"entries": list(entries), **more}


@pytest.fixture
def wanted(tmp_path: Path) -> dict[str, Any]:
    return task(
        {"path": str(tmp_path / "etc/example"), "state": "directory"},
        {"path": str(tmp_path / "etc/example/settings.json"), "content": "one\n"},
        {"path": str(tmp_path / "program"), "content": "#!/bin/sh\n", "mode": "0755"},
        {"path": str(tmp_path / "link"), "state": "link", "target": str(tmp_path / "program")},
        {"path": str(tmp_path / "old"), "state": "absent"},
        {"path": ""},
    )


def tree(folder: Path) -> dict[str, tuple[Any, ...]]:
    """Everything below the folder but what run_module leaves there: kind with mode, owner, content or target."""
    found = {}
    for path in sorted(folder.rglob("*")):
        status = path.lstat()
        text = str(path.readlink()) if path.is_symlink() else path.read_text() if path.is_file() else ""
        found[str(path.relative_to(folder))] = (oct(status.st_mode), status.st_uid, status.st_gid, text)
    found.pop("args.json", None)
    return found


@pytest.mark.parametrize("umask", [0o022, 0o077])
def test_writes_then_has_nothing_to_do(run_module, tmp_path: Path, wanted: dict, umask: int) -> None:
    (tmp_path / "old").mkdir()
    (tmp_path / "old/file").write_text("x")
    before = os.umask(umask)
    try:
        first = run_module("files", wanted)
    finally:
        os.umask(before)
    assert first["changed"] and len(first["paths"]) == len(first["diff"]) == 5, first
    made = tree(tmp_path)
    modes = {name: mode for name, (mode, *_more) in made.items() if name != "link"}
    assert modes == {
        "etc": "0o40755",
        "etc/example": "0o40755",
        "etc/example/settings.json": "0o100644",
        "program": "0o100755",
    }
    assert made["etc/example/settings.json"][3] == "one\n" and made["link"][3] == str(tmp_path / "program")
    again = run_module("files", wanted)
    assert (again["changed"], again["paths"], again["diff"]) == (False, [], [])


def relink(path: Path) -> None:
    path.unlink()
    path.symlink_to("/etc/hostname")


SPOILT = {
    "content": lambda at: (at / "program").write_text("by hand"),
    "mode": lambda at: (at / "program").chmod(0o4755),
    "mode of a folder": lambda at: (at / "etc/example").chmod(0o700),
    "missing": lambda at: (at / "etc/example/settings.json").unlink(),
    "a link in the place of a file": lambda at: relink(at / "program"),
    "a link that leads elsewhere": lambda at: relink(at / "link"),
    "a link to nothing that should be absent": lambda at: (at / "old").symlink_to("/nowhere"),
    "owner": lambda at: os.chown(at / "program", 12345, -1),
    "group": lambda at: os.chown(at / "program", -1, 12345),
    "owner of a link": lambda at: os.chown(at / "link", 12345, 12345, follow_symlinks=False),
}  # fmt: skip


@pytest.mark.parametrize("spoil", SPOILT)
def test_repairs_drift_and_foretells_it(run_module, tmp_path: Path, wanted: dict, spoil: str) -> None:
    run_module("files", wanted)
    good, hostname = tree(tmp_path), Path("/etc/hostname").read_bytes()
    SPOILT[spoil](tmp_path)
    spoilt = tree(tmp_path)
    foretold = run_module("files", wanted, check=True)
    assert tree(tmp_path) == spoilt != good
    done = run_module("files", wanted)
    assert done["changed"] and done["paths"] == foretold["paths"] and len(done["paths"]) == 1
    assert done["diff"] == foretold["diff"] and done["diff"][0]["before"] != done["diff"][0]["after"]
    assert tree(tmp_path) == good and not run_module("files", wanted)["changed"]
    assert Path("/etc/hostname").read_bytes() == hostname


def test_check_mode_writes_nothing(run_module, tmp_path: Path, wanted: dict) -> None:
    assert run_module("files", wanted, check=True)["changed"] is True
    assert tree(tmp_path) == {}


@pytest.mark.parametrize(
    ("entry", "words"),
    [
        ({"state": "link", "target": "/x"}, "is a directory and should be a link"),
        ({"content": "x"}, "is a directory and should be a file"),
        ({"content": "x", "owner": "nobody-of-that-name"}, "no account nobody-of-that-name"),
        ({"content": "x", "mode": "u=rw"}, "u=rw"),
    ],
)
def test_what_is_in_the_way_stays(run_module, tmp_path: Path, entry: dict, words: str) -> None:
    (tmp_path / "here").mkdir()
    answer = run_module("files", task({"path": str(tmp_path / "here"), **entry}))
    assert answer["failed"] and words in answer["msg"] and "[files.failed]" in answer["msg"], answer
    assert (tmp_path / "here").is_dir()


def test_those_before_a_failure_stay_and_a_rerun_goes_on(run_module, tmp_path: Path) -> None:
    entries = task({"path": str(tmp_path / "a"), "content": "a"}, {"path": str(tmp_path / "no/b"), "content": "b"})
    answer = run_module("files", entries)
    assert answer["failed"] and answer["paths"] == [str(tmp_path / "a")] and "no/b" in answer["msg"]
    (tmp_path / "no").mkdir()
    assert run_module("files", entries)["paths"] == [str(tmp_path / "no/b")]


def test_data_is_written_as_json(run_module, tmp_path: Path) -> None:
    run_module("files", task({"path": str(tmp_path / "a"), "content": {"schema": 1}}))
    assert (tmp_path / "a").read_text() == '{\n    "schema": 1\n}\n'


def test_text_is_written_byte_for_byte(run_module, tmp_path: Path) -> None:
    run_module("files", task({"path": str(tmp_path / "a"), "content": "\u00e4 \n\n\t", "mode": "0640"}))
    assert (tmp_path / "a").read_bytes() == "\u00e4 \n\n\t".encode()
    assert stat.S_IMODE((tmp_path / "a").stat().st_mode) == 0o640


def test_a_reader_never_finds_half_a_file_or_no_link(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    target, link = tmp_path / "file", tmp_path / "link"
    target.write_text("old")
    link.symlink_to("old")
    seen = []

    real = os.rename

    def rename(old: str, new: str, **folders: int) -> None:
        seen.append((new, os.path.lexists(tmp_path / new)))
        real(old, new, **folders)

    monkeypatch.setattr(os, "rename", rename)
    ids = os.geteuid(), os.getegid()
    for one in (
        placing.Wanted(str(target), "file", b"new", "", 0o644, *ids),
        placing.Wanted(str(link), "link", b"", "new", 0, *ids),
    ):
        placing.place(one, placing.differences(placing.found_at(one.path), one))
    assert seen == [("file", True), ("link", True)]
    assert target.read_text() == "new" and str(link.readlink()) == "new"
    assert sorted(path.name for path in tmp_path.iterdir()) == ["file", "link"]


def test_a_tree_beside_the_entries(run_module, tmp_path: Path) -> None:
    wish = task(
        {"path": str(tmp_path / "program"), "content": "#!/bin/sh\nexec true\n", "mode": "0755"},
        trees=[{"dest": str(tmp_path / "lib"), "files": {"a.py": "x = 1\n", "b/c.py": ""}}],
        prove=[str(tmp_path / "program")],
    )
    (tmp_path / "lib").mkdir()
    (tmp_path / "lib/old.py").write_text("")
    foretold = run_module("files", wish, check=True)
    assert foretold["changed"] and not (tmp_path / "program").exists()
    done = run_module("files", wish)
    assert done["diff"] == foretold["diff"]
    assert done["paths"] == [str(tmp_path / name) for name in ("lib/a.py", "lib/b/c.py", "lib/old.py", "program")]
    assert not (tmp_path / "lib/old.py").exists() and not run_module("files", wish)["changed"]


def test_a_program_that_does_not_start(run_module, tmp_path: Path) -> None:
    entry = {"path": str(tmp_path / "program"), "content": "#!/bin/sh\necho broken >&2\nexit 1\n", "mode": "0755"}
    answer = run_module("files", task(entry, prove=[entry["path"], "--json"]))
    assert answer["failed"] and "program --json does not work: broken [files.proof]" in answer["msg"], answer


def test_an_owner_that_is_missing_can_be_told(run_module, tmp_path: Path) -> None:
    wish = task({"path": str(tmp_path / "a"), "state": "directory"}, {"path": "", "owner": "x"}, owner="no-such-one")
    answer = run_module("files", {**wish, "missing_account": "tell"})
    assert not answer["changed"] and "there is no account no-such-one" in answer["no_account"]
    assert not (tmp_path / "a").exists() and run_module("files", wish)["failed"]
    assert run_module("files", {**wish, "owner": "root", "missing_account": "tell"})["no_account"] == ""
