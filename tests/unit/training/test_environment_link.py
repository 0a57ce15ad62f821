"""The link to the current environment: made where no other is, left alone where another is, and never half."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest

NEW, OLDER, OLDEST, BROKEN = "0000000000000001", "ffffffffffffffff", "0123456789abcdef", "fedcba9876543210"


@pytest.fixture
def venvs(tmp_path: Path) -> Path:
    for number, name in enumerate((OLDEST, OLDER, NEW)):
        (tmp_path / "venvs" / name).mkdir(parents=True)
        (tmp_path / "venvs" / name / "gpuwright.json").touch()
        os.utime(tmp_path / "venvs" / name / "gpuwright.json", (1000 + number, 1000 + number))
    (tmp_path / "venvs/file").write_text("no environment")
    return tmp_path / "venvs"


@pytest.fixture
def link(run_module: Callable[..., dict], venvs: Path) -> Callable[..., dict]:
    def run(check: bool = False, **more: object) -> dict:
        return run_module("current_environment", {"folder": str(venvs), "path": str(venvs / NEW), **more}, check=check)

    return run


def test_the_first_one(link: Callable[..., dict], venvs: Path) -> None:
    foretold = link(check=True)
    assert foretold["changed"] and not (venvs / "current").is_symlink()
    done = link()
    assert done["diff"] == foretold["diff"] and (venvs / "current").readlink() == venvs / NEW
    assert (done["elsewhere"], done["others"]) == ("", [str(venvs / OLDER), str(venvs / OLDEST)])
    assert not link()["changed"] and not link(replace=True)["changed"]


@pytest.mark.parametrize("leads", [OLDER, "/nowhere/at-all"])
def test_another_stays_until_nobody_works_by_it(link: Callable[..., dict], venvs: Path, leads: str) -> None:
    (venvs / "current").symlink_to(venvs / leads)
    answer = link()
    assert not answer["changed"] and answer["elsewhere"] == str(venvs / leads)
    assert (venvs / "current").readlink() == venvs / leads
    assert link(replace=True)["changed"] and (venvs / "current").readlink() == venvs / NEW


def test_a_folder_above_that_is_a_link(run_module: Callable[..., dict], venvs: Path, tmp_path: Path) -> None:
    """What the link leads to is named as it is listed, since whatever is listed and not named is removed."""
    (venvs / "current").symlink_to(venvs / OLDER)
    (tmp_path / "other").symlink_to(venvs)
    answer = run_module(
        "current_environment", {"folder": str(tmp_path / "other"), "path": str(tmp_path / f"other/{NEW}")}
    )
    assert answer["elsewhere"] in answer["others"] and answer["elsewhere"].endswith(f"other/{OLDER}")


def test_what_is_no_link_is_not_replaced(link: Callable[..., dict], venvs: Path) -> None:
    (venvs / "current").mkdir()
    assert link()["elsewhere"] == str(venvs / "current")
    answer = link(replace=True)
    assert answer["failed"] and "is a directory and should be a link" in answer["msg"]


def test_what_somebody_else_put_there_is_nobodys_environment(link: Callable[..., dict], venvs: Path) -> None:
    """Those that are listed here are removed once they are more than are kept."""
    for name in ("mine", f"{OLDER}-copy", OLDER.upper(), OLDER[:-1], f"{OLDER}0", f"copy-{OLDER}", f"{OLDER}\n"):
        (venvs / name).mkdir()
        (venvs / name / "gpuwright.json").touch()
    (venvs / "aaaaaaaaaaaaaaaa").symlink_to(venvs / "mine")
    assert link()["others"] == [str(venvs / OLDER), str(venvs / OLDEST)]


def test_an_incomplete_one_pushes_out_no_whole_one(link: Callable[..., dict], venvs: Path) -> None:
    (venvs / BROKEN).mkdir()
    assert link()["others"] == [str(venvs / OLDER), str(venvs / OLDEST), str(venvs / BROKEN)]
