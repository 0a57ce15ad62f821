"""The fleet's repositories and wheels over http, and what a bad day makes of them; standard library alone.

    mirror.py REPOSITORIES WHEELS MOOD    on port 80; repositories at /, an index of wheels (PEP 503) at /py/simple/

MOOD is a file that may be written at any time; it holds one of MOODS and applies to packages (rpm, deb, whl), `gone`
and `503` to every request. `slow` sends each package in SLOW_S seconds.
"""

from __future__ import annotations

import html
import re
import shutil
import socket
import sys
import time
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

MOODS = ("well", "gone", "503", "slow", "truncated", "altered", "cut")
PACKAGES = (".rpm", ".deb", ".whl")
PIECE = 65536
# In so many pieces: a link that is slow sends something all the time, and one that is silent is a broken one.
SLOW_S, SLOW_PIECES = 20.0, 40


class Mirror(SimpleHTTPRequestHandler):
    """`cut`: half of a package, and from then on nobody answers. `truncated`: half of each."""

    repositories = wheels = mood_file = Path()
    cut = False

    def mood(self) -> str:
        return self.mood_file.read_text().strip()

    def do_GET(self) -> None:
        mood = self.mood()
        if mood != "cut":
            type(self).cut = False
        if mood == "gone" or self.cut:
            # No answer: the connection ends, as of a server that has died.
            self.close_connection = True
            self.connection.shutdown(socket.SHUT_RDWR)
        elif mood == "503":
            self.send_error(503)
        elif self.path.startswith("/py/simple/"):
            text = self.index().encode()
            self.send_response(200)
            self.send_header("Content-Type", "text/html")
            self.send_header("Content-Length", str(len(text)))
            self.end_headers()
            self.wfile.write(text)
        else:
            super().do_GET()

    def index(self) -> str:
        wanted = self.path.rstrip("/").rpartition("/")[2]
        names = [path.name for path in sorted(self.wheels.glob("*.whl"))]
        found = [name for name in names if re.sub(r"[-_.]+", "-", name.split("-")[0]).lower() == wanted]
        return "".join(f'<a href="/py/wheels/{name}">{html.escape(name)}</a>\n' for name in found)

    def translate_path(self, path: str) -> str:
        parts = [part for part in unquote(urlsplit(path).path).split("/") if part not in ("", ".", "..")]
        root = self.wheels if parts[:2] == ["py", "wheels"] else self.repositories
        return str(root.joinpath(*(parts[2:] if root is self.wheels else parts)))

    def copyfile(self, source: Any, outputfile: Any) -> None:
        mood = self.mood()
        if not self.path.endswith(PACKAGES) or mood in ("well", "503", "gone"):
            shutil.copyfileobj(source, outputfile)
            return
        size = source.seek(0, 2)
        source.seek(0)
        end = size // 2 if mood in ("cut", "truncated") else size
        most = size // SLOW_PIECES + 1 if mood == "slow" else PIECE
        sent = 0
        while sent < end:
            piece = source.read(min(most, end - sent))
            if mood == "altered" and sent <= size // 2 < sent + len(piece):
                middle = size // 2 - sent
                piece = piece[:middle] + bytes([piece[middle] ^ 0xFF]) + piece[middle + 1 :]
            outputfile.write(piece)
            sent += len(piece)
            if mood == "slow":
                time.sleep(SLOW_S * len(piece) / size)
        if mood == "cut":
            type(self).cut = True
        if mood in ("cut", "truncated"):
            self.close_connection = True
            self.connection.shutdown(socket.SHUT_RDWR)


class Server(ThreadingHTTPServer):
    daemon_threads = True


if __name__ == "__main__":
    Mirror.repositories, Mirror.wheels, Mirror.mood_file = map(Path, sys.argv[1:4])
    Server(("", 80), Mirror).serve_forever()
