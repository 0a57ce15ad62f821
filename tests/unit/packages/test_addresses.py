"""Addresses with a login: taken apart, shown without it, and asked with it."""

from __future__ import annotations

import base64
import threading
import urllib.error
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest
from gpuwright.packages.addresses import open_address, split_login, without_login


@pytest.mark.parametrize(
    ("url", "parts"),
    [
        ("https://mirror/path/", ("https://mirror/path/", "", "")),
        ("https://u:s3cret@mirror/path/", ("https://mirror/path/", "u", "s3cret")),
        ("https://u:s3cret@mirror:8443/path/", ("https://mirror:8443/path/", "u", "s3cret")),
        ("https://u:p%40ss%2Fw%3A@[2001:db8::1]:8443/x", ("https://[2001:db8::1]:8443/x", "u", "p@ss/w:")),
        ("https://u:p@ss@mirror", ("https://mirror", "u", "p@ss")),
        ("https://token@mirror?x=a@b", ("https://mirror?x=a@b", "token", "")),
        ("https://mirror/@scope/x", ("https://mirror/@scope/x", "", "")),
        ("file:///srv/a@b", ("file:///srv/a@b", "", "")),
        ("/srv/wheels", ("/srv/wheels", "", "")),
        ("", ("", "", "")),
    ],
)
def test_taken_apart(url: str, parts: tuple[str, str, str]) -> None:
    assert tuple(split_login(url)) == parts


@pytest.mark.parametrize(
    "text",
    [
        "https://user:canary@mirror/x",
        "see https://user:canary@mirror:8443/ and http://other:canary@b/",
        "https://canary@mirror",
        "https://user:ca@nary-canary@mirror/",
        "https://user:can/canary@mirror/x",
        "https://user:can?canary#canary@mirror/x",
        "nonnumeric port: //user 'https://user:canary@mirror'",
    ],
)
def test_shown_without(text: str) -> None:
    shown = without_login(text)
    assert "canary" not in shown and "***@" in shown and "mirror" in shown or "b/" in shown


@pytest.mark.parametrize("text", ["https://mirror:8443/a@b", "http://mirror/@scope", "ssh git@host"])
def test_what_is_no_login_stays(text: str) -> None:
    assert without_login(text) == text


@pytest.fixture
def servers() -> Iterator[list[Any]]:
    """Two servers: the first wants a login and sends everybody who asks for /away to the second."""

    class Server(ThreadingHTTPServer):
        free = False
        url = other = ""

        def __init__(self) -> None:
            super().__init__(("127.0.0.1", 0), Handler)
            self.seen: list[tuple[str, str | None]] = []

    class Handler(BaseHTTPRequestHandler):
        server: Server

        def do_GET(self) -> None:
            self.server.seen.append((self.path, self.headers.get("Authorization")))
            if self.path == "/away":
                self.send_response(302)
                self.send_header("Location", self.server.other)
            elif self.path == "/home":
                self.send_response(302)
                self.send_header("Location", "/x")
            else:
                wanted = "Basic " + base64.b64encode(b"u:p@ss").decode()
                free = self.server.free
                self.send_response(200 if free or self.headers.get("Authorization") == wanted else 401)
            self.end_headers()

        def log_message(self, *arguments: Any) -> None:
            pass

    made = [Server() for _number in range(2)]
    for server, free in zip(made, (False, True), strict=True):
        server.free = free
        server.url = f"http://127.0.0.1:{server.server_port}"
        threading.Thread(target=server.serve_forever, daemon=True).start()
    made[0].other = made[1].url + "/x"
    yield made
    for server in made:
        server.shutdown()
        server.server_close()


def test_the_login_goes_to_its_server_alone(servers: list[Any]) -> None:
    first, second = servers
    for path in ("/x", "/home", "/away"):
        assert open_address(first.url + path, "u", "p@ss", proxy="").status == 200
    assert all(login for _path, login in first.seen), first.seen
    assert [login for _path, login in second.seen] == [None]
    with pytest.raises(urllib.error.HTTPError):
        open_address(first.url + "/x", "u", "wrong", proxy="")
    with pytest.raises(urllib.error.HTTPError):
        open_address(first.url + "/x", proxy="")
