"""A mirror that asks for a login, and a forward proxy; each runs in a container beside the fleet's hosts.

    servers.py mirror USER PASSWORD REPOSITORIES WHEELS    on port 80, everything below /site/gpu/
    servers.py proxy                                       on port 3128, GET, HEAD and CONNECT

Each prints one line for each request. Standard library alone: the container has no more.
"""

from __future__ import annotations

import base64
import html
import http.client
import re
import select
import shutil
import socket
import sys
from http.server import BaseHTTPRequestHandler, SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from urllib.parse import unquote, urlsplit

PREFIX = "/site/gpu/"
IDLE_SECONDS = 60


class Server(ThreadingHTTPServer):
    address_family = socket.AF_INET6 if socket.has_dualstack_ipv6() else socket.AF_INET
    daemon_threads = True

    def server_bind(self) -> None:
        if self.address_family == socket.AF_INET6:
            self.socket.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 0)
        super().server_bind()


class Mirror(SimpleHTTPRequestHandler):
    """Repositories as they are, an index of wheels (PEP 503) in py/simple/, a file with two keys in keys/two."""

    login = ""
    repositories = wheels = Path()

    def do_GET(self) -> None:
        if self.headers.get("Authorization") != self.login:
            self.send_response(401)
            self.send_header("WWW-Authenticate", 'Basic realm="site"')
            self.end_headers()
        elif not self.path.startswith(PREFIX):
            self.send_error(404)
        elif self.path.startswith(PREFIX + "py/simple/"):
            self.send_text(self.index(), "text/html")
        elif self.path == PREFIX + "keys/two":
            keys = ("debian", "nvidia")
            text = "".join((self.repositories / "keys" / f"RPM-GPG-KEY-{key}").read_text() for key in keys)
            self.send_text(text, "text/plain")
        else:
            super().do_GET()

    def index(self) -> str:
        wanted = self.path.rstrip("/").rpartition("/")[2]
        names = [path.name for path in sorted(self.wheels.glob("*.whl"))]
        found = [name for name in names if re.sub(r"[-_.]+", "-", name.split("-")[0]).lower() == wanted]
        return "".join(f'<a href="{PREFIX}wheels/{name}">{html.escape(name)}</a>\n' for name in found)

    def send_text(self, text: str, kind: str) -> None:
        self.send_response(200)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(text.encode())))
        self.end_headers()
        self.wfile.write(text.encode())

    def translate_path(self, path: str) -> str:
        parts = [part for part in unquote(urlsplit(path).path)[len(PREFIX) :].split("/") if part not in ("", ".", "..")]
        if parts[:1] == ["wheels"]:
            return str(self.wheels.joinpath(*parts[1:]))
        return str(self.repositories.joinpath(*parts))


class Proxy(BaseHTTPRequestHandler):
    """Forwards absolute addresses and tunnels CONNECT."""

    def do_GET(self) -> None:
        address = urlsplit(self.path)
        if address.scheme != "http" or not address.hostname:
            return self.send_error(400, "An absolute http address is expected")
        connection = http.client.HTTPConnection(address.hostname, address.port or 80, timeout=IDLE_SECONDS)
        headers = {name: text for name, text in self.headers.items() if not name.lower().startswith("proxy-")}
        try:
            path = address._replace(scheme="", netloc="").geturl()
            connection.request(self.command, path, headers={**headers, "Connection": "close"})
            answer = connection.getresponse()
        except OSError as error:
            return self.send_error(502, str(error))
        self.send_response(answer.status, answer.reason)
        for name, text in answer.getheaders():
            if name.lower() not in ("connection", "transfer-encoding", "date", "server"):
                self.send_header(name, text)
        self.end_headers()
        shutil.copyfileobj(answer, self.wfile)
        connection.close()
        return None

    do_HEAD = do_GET

    def do_CONNECT(self) -> None:
        name, _, port = self.path.rpartition(":")
        try:
            other = socket.create_connection((name.strip("[]"), int(port)), timeout=IDLE_SECONDS)
        except (OSError, ValueError) as error:
            return self.send_error(502, str(error))
        self.send_response(200, "Connection established")
        self.end_headers()
        ends = {self.connection: other, other: self.connection}
        while ready := select.select(list(ends), [], [], IDLE_SECONDS)[0]:
            for end in ready:
                data = end.recv(65536)
                if not data:
                    other.close()
                    return None
                ends[end].sendall(data)
        other.close()
        return None


def main(words: list[str]) -> None:
    if words[0] == "proxy":
        handler: type[BaseHTTPRequestHandler] = Proxy
        port = 3128
    else:
        Mirror.login = "Basic " + base64.b64encode(f"{words[1]}:{words[2]}".encode()).decode()
        Mirror.repositories, Mirror.wheels = Path(words[3]), Path(words[4])
        handler, port = Mirror, 80
    Server(("::" if Server.address_family == socket.AF_INET6 else "", port), handler).serve_forever()


if __name__ == "__main__":
    main(sys.argv[1:])
