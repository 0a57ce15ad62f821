"""The link to the current environment: made where no other is, left alone where another is, and never half."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest


@pytest.fixture
def venvs(tmp_path: Path) -> Path:
    for number, name in enumerate(("oldest", "older", "new")):
        (tmp_path / "venvs" / name).mkdir(parents=True)
        os.utime(tmp_path / "venvs" / name, (1000 + number, 1000 + number))
    (tmp_path / "venvs/file").write_text("no environment")
    return tmp_path / "venvs"


@pytest.fixture
def link(run_module: Callable[..., dict], venvs: Path) -> Callable[..., dict]:
    def run(check: bool = False, **more: object) -> dict:
        return run_module(
            "current_environment", {"folder": str(venvs), "path": str(venvs / "new"), **more}, check=check
        )

    return run


def test_the_first_one(link: Callable[..., dict], venvs: Path) -> None:
    foretold = link(check=True)
    assert foretold["changed"] and not (venvs / "current").is_symlink()
    done = link()
    assert done["diff"] == foretold["diff"] and (venvs / "current").readlink() == venvs / "new"
    assert (done["elsewhere"], done["others"]) == ("", [str(venvs / "older"), str(venvs / "oldest")])
    assert not link()["changed"] and not link(replace=True)["changed"]


@pytest.mark.parametrize("leads", ["older", "/nowhere/at-all"])
def test_another_stays_until_nobody_works_by_it(link: Callable[..., dict], venvs: Path, leads: str) -> None:
    (venvs / "current").symlink_to(venvs / leads)
    answer = link()
    assert not answer["changed"] and answer["elsewhere"] == str(venvs / leads)
    assert (venvs / "current").readlink() == venvs / leads
    assert link(replace=True)["changed"] and (venvs / "current").readlink() == venvs / "new"


def test_a_folder_above_that_is_a_link(run_module: Callable[..., dict], venvs: Path, tmp_path: Path) -> None:
    """What the link leads to is named as it is listed, since whatever is listed and not named is removed."""
    (venvs / "current").symlink_to(venvs / "older")
    (tmp_path / "other").symlink_to(venvs)
    answer = run_module("current_environment", {"folder": str(tmp_path / "other"), "path": str(tmp_path / "other/new")})
    assert answer["elsewhere"] in answer["others"] and answer["elsewhere"].endswith("other/older")


def test_what_is_no_link_is_not_replaced(link: Callable[..., dict], venvs: Path) -> None:
    (venvs / "current").mkdir()
    assert link()["elsewhere"] == str(venvs / "current")
    answer = link(replace=True)
    assert answer["failed"] and "is a directory and should be a link" in answer["msg"]
