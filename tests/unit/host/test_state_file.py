"""The one reader of state files: what it takes, what it refuses, and where it says the damage is."""

from __future__ import annotations

import json
import os
import stat
from pathlib import Path
from typing import Any

import pytest
from gpuwright.host.written.state_file import ANY, ID, MODE, NAME, OTHERS, Damaged, check, read_state, write_state

FORM = {
    "schema": {1},
    "names": [str],
    "pair": [str, int],
    "either": (str, None),
    "by_key": {str: {"a": bool, "b?": float, OTHERS: ANY}},
    "path": NAME,
    "columns?": {str: [(float, None)]},
    "mode?": MODE,
    "owner?": ID,
}
WHOLE: dict[str, Any] = {
    "schema": 1, "names": ["a", "b"], "pair": ["a", 1], "either": None, "path": "/etc/\udcff",
    "by_key": {"k": {"a": True, "b": 1, "more": [{}]}},
}  # fmt: skip


def test_what_was_written_is_read_with_its_mode(tmp_path: Path) -> None:
    file = tmp_path / "folder/file.json"
    assert read_state(str(file), FORM) is None
    write_state(str(file), WHOLE, FORM, 0o600)
    assert read_state(str(file), FORM) == WHOLE and stat.S_IMODE(file.stat().st_mode) == 0o600
    with pytest.raises(Damaged, match="names"):
        write_state(str(file), {**WHOLE, "names": [1]}, FORM, 0o600)
    assert read_state(str(file), FORM) == WHOLE


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"schema": True}, "at schema: True; expected 1"),
        ({"schema": 2}, "at schema: 2; expected 1"),
        ({"names": ["a", None]}, r"at names\[1\]: None; expected text"),
        ({"names": {}}, "at names: {}; expected a list"),
        ({"pair": ["a"]}, "at pair: 1 values; expected 2"),
        ({"pair": ["a", True]}, r"at pair\[1\]: True; expected a whole number"),
        ({"either": 1}, "at either: 1; expected"),
        ({"by_key": {"k": {"b": 1}}}, "at by_key.k.a: it is missing"),
        ({"by_key": {"k": {"a": True, "b": "1"}}}, "at by_key.k.b: '1'; expected a number"),
        ({"strange": 1}, "the key 'strange' is unknown"),
        ({"path": "a\0b"}, "at path"),
        ({"names": ["\udc80"]}, "at names"),
        ({"names": ["a" * 500 + "\0"]}, r"at names\[0\]: 'aaa[^ ]{1,70}\.\.; expected text"),
        ({"by_key": {"k": {"a": True, "more": 2**70}}}, "at by_key.k.more"),
        # Too large for a float, in a column with one; an infinite one is no number of JSON, and 1e999 becomes one.
        ({"columns": {"k": [1.5, 10**399]}}, r"at columns.k\[1\]: 1000+\.\.; expected"),
        ({"columns": {"k": [1.5, -(10**399), None]}}, r"at columns.k\[1\]: -1000+\.\.; expected"),
        ({"columns": {"k": [1.5, float("inf")]}}, r"at columns.k\[1\]: inf; expected"),
        ({"columns": {"k": [float("nan"), 1]}}, r"at columns.k\[0\]: nan; expected"),
        ({"mode": 0o10000}, "at mode: 4096; expected 0 to 4095"),
        ({"mode": 420.0}, "at mode: 420.0; expected 0 to 4095"),
        ({"mode": -1}, "at mode: -1; expected 0 to 4095"),
        ({"mode": True}, "at mode: True; expected 0 to 4095"),
        ({"owner": 2**32 - 1}, "at owner: 4294967295; expected 0 to 4294967294"),
    ],
)
def test_the_place_of_the_damage_is_said(changes: dict[str, Any], words: str) -> None:
    with pytest.raises(Damaged, match=f"^/the/file is damaged.*{words}"):
        check({**WHOLE, **changes}, FORM, "/the/file")


@pytest.mark.parametrize("text", ["", "\0\0", "{", "NaN", "[" * 100_000, '{"schema": 1e999}', "\ufeff{}"])
def test_what_is_no_json_is_damaged(tmp_path: Path, text: str) -> None:
    (tmp_path / "file").write_text(text)
    with pytest.raises(Damaged, match="file is damaged"):
        read_state(str(tmp_path / "file"), FORM)


def test_a_file_that_is_too_long_is_damaged(tmp_path: Path) -> None:
    (tmp_path / "file").write_text(json.dumps("a" * 10) + " " * 100)
    assert read_state(str(tmp_path / "file"), str, most=200) == "a" * 10
    with pytest.raises(Damaged, match="longer than 50 bytes"):
        read_state(str(tmp_path / "file"), str, most=50)


def test_a_pipe_or_a_folder_in_its_place_is_no_file(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(Damaged, match="no regular file"):
        read_state(str(tmp_path / "pipe"), FORM)


@pytest.mark.parametrize("value", [float("nan"), float("inf"), -float("inf"), 2.0**63, True, "1", [1.0], {}])
def test_a_column_of_numbers_has_no_other_value_in_it(value):
    for place in range(3):
        column = [1.0, None, 2]
        column[place] = value
        with pytest.raises(Damaged):
            check(column, [(float, None)], "x")
    check([1.0, None, 2, 0, -3.5], [(float, None)], "x")
    check([None], [(float, None)], "x")


@pytest.mark.parametrize("value", ["\0", "\udc80", None, 1])
def test_a_column_of_texts_has_no_other_value_in_it(value):
    with pytest.raises(Damaged):
        check(["a", value, "b"], [str], "x")
    check(["a", "", "ü"], [str], "x")
    check([], [str], "x")
