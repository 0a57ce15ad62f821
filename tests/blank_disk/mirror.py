"""A mirror on the controller: what the machine asks for comes from the archives that apt uses here, and is kept.

The machine reaches it as it would reach a site's mirror; it needs no way to the outside, and knows no name of there.
"""

from __future__ import annotations

import os
import shutil
import tempfile
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Mapping
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from socketserver import BaseRequestHandler, ThreadingUDPServer
from urllib.parse import unquote

# Files whose names say what they hold: a cached one stays right.
UNCHANGING = ("/pool/", "/by-hash/")
SECONDS = 300


class Mirror(ThreadingHTTPServer):
    """Serves archives and folders.

    archives  {first part of the path: address of an archive}
    folders   {first part of the path: folder here}
    port      0 for any

    asked     [(when, by the monotonic clock, and which path)], also for what is not there
    """

    daemon_threads = True

    def __init__(self, archives: Mapping[str, str], folders: Mapping[str, Path], cache: Path, port: int) -> None:
        super().__init__(("127.0.0.1", port), Answer)
        self.archives = {name: address.rstrip("/") for name, address in archives.items()}
        self.folders = dict(folders)
        self.cache = cache
        # {path: the file that is answered instead of the archive's}
        self.own: dict[str, Path] = {}
        self.failures: list[str] = []
        self.asked: list[tuple[float, str]] = []
        threading.Thread(target=self.serve_forever, daemon=True).start()

    @property
    def port(self) -> int:
        return self.server_address[1]

    def file(self, path: str) -> Path | None:
        """The file for a path, None if the archive or the folder has none. OSError: the archive did not answer."""
        name, _slash, rest = path.lstrip("/").partition("/")
        if ".." in rest.split("/"):
            return None
        if name in self.folders:
            found = self.folders[name] / rest
            return found if found.is_file() else None
        if name not in self.archives:
            return None
        if path.lstrip("/") in self.own:
            return self.own[path.lstrip("/")]
        kept = self.cache / name / rest
        if kept.is_file() and any(part in path for part in UNCHANGING):
            return kept
        return kept if self.download(f"{self.archives[name]}/{rest}", kept) else None

    def download(self, address: str, place: Path) -> bool:
        """Whether the archive has it. The file is there whole or not at all."""
        place.parent.mkdir(parents=True, exist_ok=True)
        try:
            with (
                urllib.request.urlopen(address, timeout=SECONDS) as source,
                tempfile.NamedTemporaryFile(dir=place.parent, prefix=".", delete=False) as target,
            ):
                shutil.copyfileobj(source, target)
        except urllib.error.HTTPError as error:
            if error.code == 404:
                return False
            raise
        Path(target.name).replace(place)
        return True


class Answer(BaseHTTPRequestHandler):
    """One connection of the installer's wget, of apt or of pip."""

    protocol_version = "HTTP/1.1"
    server: Mirror

    def do_GET(self) -> None:
        path = unquote(self.path.partition("?")[0])
        self.server.asked.append((time.monotonic(), path))
        try:
            found = self.server.file(path)
        except OSError as error:
            self.server.failures.append(f"{path}: {error}")
            return self.send_error(502)
        if found is None:
            return self.send_error(404)
        with found.open("rb") as content:
            self.send_response(200)
            self.send_header("Content-Type", "application/octet-stream")
            self.send_header("Content-Length", str(os.fstat(content.fileno()).st_size))
            self.end_headers()
            if self.command == "GET":
                shutil.copyfileobj(content, self.wfile)
        return None

    do_HEAD = do_GET

    def log_message(self, format: str, *arguments: object) -> None:
        """Nothing for each file: `asked` has them."""


class Log(ThreadingUDPServer):
    """What the machine sends of its system log; the installer keeps its own in memory alone."""

    daemon_threads = True

    def __init__(self, file: Path) -> None:
        super().__init__(("127.0.0.1", 0), Line)
        self.file = file
        file.write_text("")
        threading.Thread(target=self.serve_forever, daemon=True).start()

    @property
    def port(self) -> int:
        return self.server_address[1]


class Line(BaseRequestHandler):
    server: Log

    def handle(self) -> None:
        with self.server.file.open("ab") as file:
            file.write(self.request[0].rstrip(b"\n\0") + b"\n")
