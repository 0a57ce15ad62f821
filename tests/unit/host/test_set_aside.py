"""A damaged state file is set aside by whoever may write it, under a name beside it."""

from __future__ import annotations

import os
import re
from pathlib import Path

import pytest
from gpuwright.host.written import aside

NAME = re.compile(r"state\.json\.damaged-\d{4}-\d\d-\d\dT\d{6}Z(-\d+)?")


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "state.json"
    path.write_text("torn")
    return path


def names(folder: Path) -> list[str]:
    return sorted(one.name for one in folder.iterdir())


def test_it_keeps_its_content_mode_and_a_time_in_its_name(file: Path) -> None:
    file.chmod(0o600)
    new = Path(aside.set_aside(str(file)))
    assert NAME.fullmatch(new.name) and names(file.parent) == [new.name] == aside.set_aside_before(str(file))
    assert new.read_text() == "torn" and new.stat().st_mode & 0o777 == 0o600


def test_at_most_three_are_kept_and_the_newest_stay(file: Path) -> None:
    (file.parent / "other.json.damaged-2020-01-01T000000Z").write_text("")
    for number in range(5):
        file.write_text(f"torn {number}")
        aside.set_aside(str(file))
    found = [file.parent / name for name in aside.set_aside_before(str(file))]
    assert sorted(one.read_text() for one in found) == ["torn 2", "torn 3", "torn 4"]
    # Two of one second have different names, and somebody else's is no business of ours.
    assert len(names(file.parent)) == 4


@pytest.mark.parametrize("kind", ["folder", "link", "pipe"])
def test_whatever_stands_in_its_place_is_moved_and_not_followed(tmp_path: Path, kind: str) -> None:
    path = tmp_path / "state.json"
    if kind == "folder":
        (path / "inside").mkdir(parents=True)
    elif kind == "link":
        path.symlink_to("elsewhere")
    else:
        os.mkfifo(path)
    new = aside.set_aside(str(path))
    assert not os.path.lexists(path) and os.path.lexists(new)


def test_where_nothing_may_be_written_it_is_only_said(file: Path) -> None:
    words = aside.begin_anew(str(file), "it is damaged at a.b: text", "the hosts that are done", may_write=False)
    assert names(file.parent) == ["state.json"]
    assert (
        words == "it is damaged at a.b: text. It would be set aside, and what it said is lost: the hosts that are done"
    )
    assert "It was set aside as state.json.damaged-2" in aside.begin_anew(str(file), "damaged", "all")
