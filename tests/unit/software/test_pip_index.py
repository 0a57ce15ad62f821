"""What is read of an index: its pages in both forms, and the wheel that pip would take."""

from __future__ import annotations

import base64
import io
import json
import os
import sys
import threading
import zipfile
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest
from conftest import REPOSITORY
from module_files import load_file

sys.path.insert(0, str(REPOSITORY / "tools"))
pip_index = load_file("tools/lock_check.py").pip_index
JSON = "application/vnd.pypi.simple.v1+json"


def wheel(*requires: str, padding: int = 0) -> bytes:
    """A wheel that demands this; `padding` bytes of code lie before its metadata."""
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w") as parts:
        parts.writestr("big/code.py", b"x" * padding)
        parts.writestr(
            "big-1.dist-info/METADATA", "Name: big\n" + "".join(f"Requires-Dist: {one}\n" for one in requires)
        )
    return file.getvalue()


class Server(ThreadingHTTPServer):
    """Serves `pages`, {path: (content type, bytes)}, in parts where it is asked to; notes (path, header, range)."""

    def __init__(self) -> None:
        self.pages: dict[str, tuple[str, bytes]] = {}
        self.asked: list[tuple[str, str, str]] = []
        server = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                wanted = self.headers.get("Range", "")
                server.asked.append((self.path, self.headers.get("Authorization", ""), wanted))
                kind, content = server.pages.get(self.path, ("", b""))
                if not kind:
                    return self.send_error(404)
                start, stop = 0, len(content)
                if wanted:
                    first, _, last = wanted.removeprefix("bytes=").partition("-")
                    start = int(first) if first else max(0, stop - int(last))
                    stop = min(int(last) + 1, stop) if first and last else stop
                self.send_response(206 if wanted else 200)
                self.send_header("Content-Type", kind)
                self.send_header("Content-Length", str(stop - start))
                if wanted:
                    self.send_header("Content-Range", f"bytes {start}-{stop - 1}/{len(content)}")
                self.end_headers()
                self.wfile.write(content[start:stop])

            def log_message(self, *_arguments: Any) -> None:
                """Silent."""

        super().__init__(("127.0.0.1", 0), Handler)
        threading.Thread(target=self.serve_forever, daemon=True).start()
        self.host = f"127.0.0.1:{self.server_port}"

    def serve(self, package: str, *files: dict[str, Any]) -> None:
        records = [{"url": f"../../files/{file['filename']}", "hashes": {"sha256": "ab"}, **file} for file in files]
        self.pages[f"/simple/{package}/"] = (JSON, json.dumps({"files": records}).encode())

    def of(self, path: str) -> list[tuple[str, str, str]]:
        return [one for one in self.asked if one[0] == path]


@pytest.fixture
def server() -> Iterator[Server]:
    made = Server()
    yield made
    made.shutdown()


@pytest.fixture
def index(server: Server, monkeypatch: pytest.MonkeyPatch) -> Any:
    for name in [name for name in os.environ if name.startswith("PIP_")]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("PIP_CONFIG_FILE", os.devnull)
    monkeypatch.setenv("PIP_INDEX_URL", f"http://somebody:s3cret@{server.host}/simple")
    monkeypatch.setenv("PIP_RETRIES", "0")
    monkeypatch.setenv("no_proxy", "127.0.0.1")
    return pip_index.Index()


LINUX = "manylinux_2_28_x86_64"


def test_the_wheel_is_the_one_that_pip_would_take(server: Server, index: Any) -> None:
    names = ("cp311-cp311-manylinux_2_17_x86_64", f"cp311-cp311-{LINUX}", f"cp312-cp312-{LINUX}", "py3-none-any")
    server.serve("big", *({"filename": f"big-1.0-{name}.whl"} for name in names), {"filename": "big-1.0.tar.gz"})
    for name in names:
        server.pages[f"/files/big-1.0-{name}.whl"] = ("application/zip", wheel(name.replace("-", "_")))
    for python, wanted in (("3.11", names[1]), ("3.12", names[2]), ("3.13", names[3])):
        assert index.wheel("big", "1.0", python).requires == (wanted.replace("-", "_"),)


def test_releases_are_final_ones_that_this_python_can_use(server: Server, index: Any) -> None:
    more = {"requires-python": ">=3.12"}, {"yanked": "broken"}, {"requires-python": "no condition"}
    server.serve(
        "big",
        *({"filename": f"big-{version}-py3-none-any.whl"} for version in ("1.0", "2.0rc1", "1.5+cpu", "1.10")),
        *({"filename": f"big-{number}.0-py3-none-any.whl", **one} for number, one in enumerate(more, start=3)),
        {"filename": "big-9.0-py3-none-win_amd64.whl"},
    )
    assert index.versions("big", "3.11") == ["5.0", "1.10", "1.0"]
    assert index.versions("Big", "3.12") == ["5.0", "3.0", "1.10", "1.0"]
    assert len(server.of("/simple/big/")) == 1


def test_of_a_large_wheel_only_its_end_is_read(server: Server, index: Any) -> None:
    server.serve("big", {"filename": "big-1-py3-none-any.whl"})
    server.pages["/files/big-1-py3-none-any.whl"] = ("application/zip", wheel("numpy", padding=10**7))
    assert index.wheel("big", "1", "3.11") == pip_index.Wheel("big", "ab", ("numpy",))
    assert all(wanted for _path, _login, wanted in server.of("/files/big-1-py3-none-any.whl"))


@pytest.mark.parametrize("key", ["core-metadata", "data-dist-info-metadata"])
def test_metadata_beside_the_wheel_is_enough(server: Server, index: Any, key: str) -> None:
    server.serve("big", {"filename": "big-1-py3-none-any.whl", key: {"sha256": "cd"}})
    server.pages["/files/big-1-py3-none-any.whl.metadata"] = ("text/plain", b"Name: big\nRequires-Dist: six\n")
    assert index.wheel("big", "1", "3.11").requires == ("six",) and index.wheel("big", "1", "3.11").sha256 == "ab"
    assert len(server.of("/files/big-1-py3-none-any.whl.metadata")) == 1


def test_the_older_form_of_a_page(server: Server, index: Any) -> None:
    attributes = 'data-requires-python="&gt;=3.9" data-core-metadata="true"'
    page = f'<a href="/files/big-1-py3-none-any.whl#sha256=ef" {attributes}>x</a>'
    server.pages["/simple/big/"] = ("text/html", page.encode())
    server.pages["/files/big-1-py3-none-any.whl.metadata"] = ("text/plain", b"Requires-Dist: six\n")
    assert index.wheel("big", "1", "3.11") == pip_index.Wheel("big", "ef", ("six",))
    assert index.versions("big", "3.8") == []


def test_the_login_is_for_the_index_alone(server: Server, index: Any) -> None:
    other = Server()
    try:
        url = f"http://{other.host}/big-1-py3-none-any.whl"
        server.serve("big", {"filename": "big-1-py3-none-any.whl", "url": url})
        other.pages["/big-1-py3-none-any.whl"] = ("application/zip", wheel("six"))
        assert index.wheel("big", "1", "3.11").requires == ("six",)
    finally:
        other.shutdown()
    sent = base64.b64encode(b"somebody:s3cret").decode()
    assert {login for _path, login, _range in server.asked} == {f"Basic {sent}"}
    assert {login for _path, login, _range in other.asked} == {""}


@pytest.mark.parametrize(
    ("page", "words"),
    [
        ((JSON, b"[]"), "answers with an error of its own"),
        ((JSON, b'{"files": [3]}'), "answers with an error of its own"),
        (("text/html", b"<html>nothing</html>"), "does not have it"),
        (
            (JSON, b'{"files": [{"filename": "big-1-py3-none-any.whl", "url": "/bad"}]}'),
            "has a wheel that cannot be read",
        ),
    ],
)
def test_what_cannot_be_read_is_said(server: Server, index: Any, page: tuple[str, bytes], words: str) -> None:
    server.pages |= {"/simple/big/": page, "/bad": ("application/zip", b"no archive")}
    with pytest.raises(pip_index.NoAnswerError, match=words) as caught:
        index.wheel("big", "1", "3.11")
    assert "127.0.0.1" not in str(caught.value)
