"""The benchmark's file belongs to the training user: read it, and nothing that it leads to."""

from __future__ import annotations

import json
import os
import time
from pathlib import Path
from typing import Any

import page_samples
import pytest
from gpuwright.readings.attempt import attempt
from gpuwright.training.bench import LIMIT_BYTES, parse_bench, read_bench

EXPECTATIONS = {"runs_dir": "/srv/gan/runs"}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    path = tmp_path / "srv/gan/runs/bench"
    path.mkdir(parents=True)
    return path


def read(root: Path) -> Any:
    return attempt(read_bench, str(root), EXPECTATIONS)


def test_what_was_measured_is_handed_on_whole(folder, tmp_path):
    (folder / "bench.json").write_text(json.dumps({**page_samples.BENCH, "more": "is left out"}))
    assert read(tmp_path) == page_samples.BENCH


@pytest.mark.parametrize("expectations", [{}, {"runs_dir": None}, {"runs_dir": "runs"}, {"runs_dir": "/nowhere"}])
def test_a_node_without_a_folder_of_runs(tmp_path, expectations):
    assert read_bench(str(tmp_path), expectations) is None


def test_a_node_without_a_benchmark(folder, tmp_path):
    assert read(tmp_path) is None
    folder.rmdir()
    assert read(tmp_path) is None


def link_to_shadow(folder: Path) -> None:
    (folder / "secret").write_text(json.dumps(page_samples.BENCH))
    (folder / "bench.json").symlink_to(folder / "secret")


def hard_link(folder: Path) -> None:
    (folder / "secret").write_text(json.dumps(page_samples.BENCH))
    os.link(folder / "secret", folder / "bench.json")


def linked_folder(folder: Path) -> None:
    folder.rename(folder.with_name("elsewhere"))
    (folder.with_name("elsewhere") / "bench.json").write_text(json.dumps(page_samples.BENCH))
    folder.symlink_to(folder.with_name("elsewhere"))


def pipe(folder: Path) -> None:
    os.mkfifo(folder / "bench.json")


def directory(folder: Path) -> None:
    (folder / "bench.json").mkdir()


def large(folder: Path) -> None:
    (folder / "bench.json").write_text(json.dumps(page_samples.BENCH) + " " * LIMIT_BYTES)


@pytest.mark.parametrize("trick", [link_to_shadow, hard_link, linked_folder, pipe, directory, large])
def test_tricks_are_unreadable_at_once(folder, tmp_path, trick):
    trick(folder)
    begin = time.monotonic()
    assert set(read(tmp_path)) == {"unreadable"}
    assert time.monotonic() - begin < 10


def text_of(**changes: object) -> str:
    return json.dumps({**page_samples.BENCH, **changes})


@pytest.mark.parametrize(
    "text",
    [
        "",
        "null",
        "[]",
        "{}",
        "[" * 100_000,
        '{"schema": ' + "9" * 200_000 + "}",
        '{"schema": NaN}',
        "\udcff",
        text_of(schema=2),
        text_of(time=5),
        text_of(reduced="no"),
        text_of(image_size=-1),
        text_of(image_size=True),
        text_of(images_per_epoch=1.5),
        text_of(precision={}),
        text_of(precision=["x"]),
        text_of(precision=[{"name": "amp"}]),
        text_of(batch=[{}] * 65),
        text_of(ladder=None),
        text_of(contradictions="one"),
        text_of(contradictions=[5]),
        text_of(batch=[{"batch_size": 1, "reported": {"epoch_min": "fast"}}]),
        text_of(batch=[{"batch_size": 1, "reported": [1]}]),
        text_of(device="V100").replace('"reduced": false', '"reduced": 1e999'),
        text_of(ladder=[{"name": "x", "images_per_s": 1e300}]),
    ],
)
def test_garbage_is_refused_at_once(text):
    begin = time.monotonic()
    with pytest.raises(ValueError, match=r"bench|precision|batch|ladder"):
        parse_bench(text.encode("utf-8", "surrogateescape"))
    assert time.monotonic() - begin < 10


def test_every_value_may_be_of_another_kind_without_harm():
    others: list[object] = [None, [], {}, "x", 5, -1, True, [[]], [None]]
    for name, value in page_samples.BENCH.items():
        for other in others:
            if type(other) is not type(value) and other != value:
                found = attempt(parse_bench, text_of(**{name: other}).encode())
                assert set(found) == {"unreadable"} and "Error" not in found["unreadable"], (name, other)


def test_texts_are_short_and_printable():
    found = parse_bench(text_of(contradictions=["\x1b[2J" + "x" * 10_000]).encode())
    (sentence,) = found["contradictions"]
    assert len(sentence) == 400 and sentence.isprintable()
