"""Wheels of lock files: found in what pip is configured for, continued, and kept only with a hash of the lock."""

from __future__ import annotations

import hashlib
import http.server
import threading
import zipfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from ansible_collections.gpuwright.node.plugins.plugin_utils.bundle import index, wheels
from ansible_collections.gpuwright.node.plugins.plugin_utils.bundle.listing import BundleError

LOCKS = Path(__file__).resolve().parents[3] / "roles/framework_pytorch/files/locks"
BIG, SMALL = "big_net-1.0-cp311-cp311-manylinux_2_28_x86_64.whl", "small-2.0-py3-none-any.whl"


@pytest.mark.parametrize("lock", sorted(LOCKS.glob("*.txt")), ids=lambda path: path.stem)
def test_every_package_of_every_lock_is_read_with_all_of_its_hashes(lock: Path) -> None:
    text = lock.read_text()
    found = wheels.read_lock(text, "3.11")
    assert len(found) == sum("==" in line and not line.lstrip().startswith("#") for line in text.splitlines())
    assert sum(len(one.hashes) for one in found) == text.count("--hash=sha256:")


def test_a_wheel_for_another_python_or_machine_does_not_serve() -> None:
    one = wheels.Wanted("numpy", "2.4.6", frozenset("a"), "3.11")
    assert wheels.rank_of("numpy-2.4.6-cp311-cp311-manylinux_2_28_x86_64.whl", one) is not None
    for name in (
        "numpy-2.4.6-cp312-cp312-manylinux_2_28_x86_64.whl", "numpy-2.4.6-cp311-cp311-manylinux_2_28_aarch64.whl",
        "numpy-2.4.6-cp311-cp311-manylinux_2_39_x86_64.whl", "numpy-2.4.5-cp311-cp311-manylinux_2_28_x86_64.whl",
        "scipy-2.4.6-py3-none-any.whl", "numpy-2.4.6.tar.gz",
    ):  # fmt: skip
        assert wheels.rank_of(name, one) is None, name


def test_what_pip_is_configured_for() -> None:
    text = "global.index-url='https://a/simple'\nuser.index-url='https://b/simple'\nglobal.find-links='/x /y'\n"
    assert index.sources_of(index.read_configuration(text)) == index.Sources(("https://b/simple",), ("/x", "/y"))
    more = index.read_configuration(text + ":env:.index-url='https://c/simple'\n")
    assert index.sources_of(more, extra_index_url="https://torch").indexes == ("https://c/simple", "https://torch")
    assert index.sources_of(more, index_url="https://only").indexes == ("https://only",)
    assert index.sources_of({}).indexes == (index.PYPI,)
    assert index.sources_of({"no-index": "1", "find-links": "/x"}) == index.Sources((), ("/x",))


class Server(http.server.ThreadingHTTPServer):
    """An index over http whose answers a test can spoil."""

    files: dict[str, bytes]
    asked: list[str]
    cut_after: int
    ranges: bool


class Handler(http.server.BaseHTTPRequestHandler):
    server: Server

    def log_message(self, *_words: object) -> None:
        pass

    def do_HEAD(self) -> None:
        self.do_GET()

    def do_GET(self) -> None:
        name = self.path.strip("/").split("/")[-1]
        if self.path.startswith("/simple/"):
            data = "".join(
                f'<a href="../../files/{file}#sha256={hashlib.sha256(content).hexdigest()}">{file}</a>'
                for file, content in self.server.files.items()
                if file.replace("_", "-").startswith(name)
            ).encode()
        else:
            data = self.server.files[name]
        span = self.headers.get("Range")
        at = int(span.removeprefix("bytes=").rstrip("-")) if span and self.server.ranges else 0
        self.server.asked.append(f"{self.command} {name} {at}")
        if at >= len(data):
            self.send_error(416)
            return
        self.send_response(206 if at else 200)
        self.send_header("Content-Type", "text/html")
        self.send_header("Content-Length", str(len(data) - at))
        self.end_headers()
        if self.command == "GET":
            body = data[at:]
            self.wfile.write(body[: self.server.cut_after] if name in self.server.files else body)


@pytest.fixture
def server(tmp_path: Path) -> Iterator[Server]:
    found = Server(("127.0.0.1", 0), Handler)
    found.files = {BIG: bytes(range(256)) * 4000, SMALL: b"small"}
    found.asked, found.cut_after, found.ranges = [], 10**9, True
    thread = threading.Thread(target=found.serve_forever, daemon=True)
    thread.start()
    for folder in ("wheels", "parts"):
        (tmp_path / folder).mkdir()
    yield found
    found.shutdown()
    found.server_close()


def wanted_of(server: Server) -> list[wheels.Wanted]:
    lock = "".join(
        f"{name}=={version} \\\n    --hash=sha256:{hashlib.sha256(server.files[file]).hexdigest()} \\\n"
        f"    --hash=sha256:{'0' * 64}\n"
        for name, version, file in (("big-net", "1.0", BIG), ("small", "2.0", SMALL))
    )
    return wheels.read_lock(lock, "3.11")


def sources(server: Server) -> index.Sources:
    return index.Sources((f"http://127.0.0.1:{server.server_port}/simple",), ())


def test_sizes_are_known_before_anything_is_downloaded(server: Server) -> None:
    found = wheels.locate(wanted_of(server), sources(server))
    assert [one.size for one in found] == [len(server.files[BIG]), len(server.files[SMALL])]
    assert not [line for line in server.asked if line.startswith("GET") and ".whl" in line]


@pytest.mark.parametrize("ranges", [True, False], ids=["server knows ranges", "server knows none"])
def test_a_download_that_broke_off_is_continued(server: Server, tmp_path: Path, ranges: bool) -> None:
    big = wheels.locate(wanted_of(server), sources(server))[0]
    server.cut_after, server.ranges = 300_000, ranges
    with pytest.raises(BundleError, match=r"\[bundle.download\]"):
        wheels.fetch(big, tmp_path / "wheels", tmp_path / "parts")
    assert not list((tmp_path / "wheels").iterdir())
    server.cut_after = 10**9
    path = wheels.fetch(big, tmp_path / "wheels", tmp_path / "parts")
    assert path.read_bytes() == server.files[BIG] and not list((tmp_path / "parts").iterdir())
    assert server.asked[-1] == f"GET {BIG} {300_000 if ranges else 0}"
    known = wheels.there(tmp_path / "wheels")
    assert wheels.held(big.wanted, known) == BIG


@pytest.mark.parametrize("part", [b"other bytes", b"x" * 2_000_000], ids=["shorter", "longer"])
def test_a_part_of_another_file_is_no_wheel(server: Server, tmp_path: Path, part: bytes) -> None:
    big = wheels.locate(wanted_of(server), sources(server))[0]
    (tmp_path / f"parts/{BIG}.part").write_bytes(part)
    assert wheels.fetch(big, tmp_path / "wheels", tmp_path / "parts").read_bytes() == server.files[BIG]


def test_a_file_with_another_hash_is_never_kept(server: Server, tmp_path: Path) -> None:
    small = wheels.locate(wanted_of(server), sources(server))[1]
    server.files[SMALL] = b"other"
    with pytest.raises(BundleError, match=r"\[bundle.wheel_hash\]"):
        wheels.fetch(small, tmp_path / "wheels", tmp_path / "parts")
    assert not list((tmp_path / "wheels").iterdir()) and not list((tmp_path / "parts").iterdir())


def test_what_no_index_has_is_named(server: Server) -> None:
    wanted = wanted_of(server)
    del server.files[SMALL]
    with pytest.raises(BundleError, match=r"small 2.0 for Python 3.11.*\[bundle.wheels\]"):
        wheels.locate(wanted, sources(server))


def test_a_folder_of_wheels_and_an_index_of_files(tmp_path: Path) -> None:
    folder, page = tmp_path / "folder", tmp_path / "simple/small"
    for place in (folder, page, tmp_path / "files", tmp_path / "wheels", tmp_path / "parts"):
        place.mkdir(parents=True)
    with zipfile.ZipFile(folder / SMALL, "w") as file:
        file.writestr("a", "b")
    wanted = wheels.Wanted("small", "2.0", frozenset([wheels.sha256_of(folder / SMALL)]), "3.11")
    (found,) = wheels.locate([wanted], index.Sources((), (str(folder),)))
    assert found.size == (folder / SMALL).stat().st_size
    (folder / SMALL).rename(tmp_path / "files" / SMALL)
    (page / "index.html").write_text(f'<a href="../../files/{SMALL}">{SMALL}</a>')
    (found,) = wheels.locate([wanted], index.Sources(((tmp_path / "simple").as_uri(),), ()))
    assert wheels.fetch(found, tmp_path / "wheels", tmp_path / "parts").name == SMALL
