"""The mirror of tests/blank_disk: what it passes on, keeps, answers itself, and refuses."""

from __future__ import annotations

import http.server
import threading
import urllib.error
import urllib.request
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from module_files import load_file

made = load_file("tests/blank_disk/mirror.py")
POOL = "debian/pool/main/a/a_1.udeb"
INDEX = "debian/dists/one/Release"


class Quiet(http.server.SimpleHTTPRequestHandler):
    def log_message(self, format: str, *arguments: object) -> None:
        """Nothing on the screen of the tests."""


@pytest.fixture
def archive(tmp_path: Path) -> Iterator[tuple[Path, str]]:
    """The folder of an archive, and its address."""
    folder = tmp_path / "archive"
    folder.mkdir()
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), partial(Quiet, directory=str(folder)))
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield folder, f"http://127.0.0.1:{server.server_address[1]}/"
    server.shutdown()
    server.server_close()


@pytest.fixture
def mirror(archive: tuple[Path, str], tmp_path: Path) -> Iterator[Any]:
    (tmp_path / "here").mkdir()
    mirror = made.Mirror({"debian": archive[1]}, {"install": tmp_path / "here"}, tmp_path / "cache", 0)
    yield mirror
    mirror.shutdown()
    mirror.server_close()


def asked(mirror: Any, path: str) -> tuple[int, str]:
    """Status and content of an answer."""
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{mirror.port}/{path}", timeout=30) as answer:
            return answer.status, answer.read().decode()
    except urllib.error.HTTPError as error:
        return error.code, ""


def put(archive: tuple[Path, str], path: str, text: str) -> None:
    file = archive[0] / path.removeprefix("debian/")
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(text)


def test_a_package_is_kept_and_an_index_is_asked_for_again(mirror: Any, archive: tuple[Path, str]) -> None:
    for path in (POOL, INDEX):
        put(archive, path, "old")
        assert asked(mirror, path) == (200, "old")
        put(archive, path, "new")
    assert asked(mirror, POOL) == (200, "old") and asked(mirror, INDEX) == (200, "new")
    assert [path for _, path in mirror.asked] == [f"/{path}" for path in (POOL, INDEX, POOL, INDEX)]


def test_what_nobody_has_is_not_found(mirror: Any, tmp_path: Path) -> None:
    (tmp_path / "secret").write_text("x")
    for path in (POOL, "elsewhere/file", "install/none", "install/../secret", "debian/../secret"):
        assert asked(mirror, path)[0] == 404, path
    assert mirror.failures == []


def test_an_archive_that_does_not_answer_is_no_missing_file(tmp_path: Path) -> None:
    mirror = made.Mirror({"debian": "http://127.0.0.1:9"}, {}, tmp_path, 0)
    assert asked(mirror, POOL)[0] == 502
    assert POOL in mirror.failures[0]
    mirror.shutdown()
    mirror.server_close()


def test_folders_and_own_answers_come_from_here(mirror: Any, tmp_path: Path) -> None:
    (tmp_path / "here/a.cfg").write_text("answers")
    mirror.own = {INDEX: tmp_path / "here/a.cfg"}
    assert asked(mirror, "install/a.cfg") == asked(mirror, INDEX) == (200, "answers")
