# SPDX-License-Identifier: Apache-2.0
"""Where the indexes and folders that pip is configured for on this machine have a wheel (PEP 503, PEP 691).

pip itself would download a wheel of 900 MB to report its address; here only the pages are read.
"""

from __future__ import annotations

import html.parser
import json
import re
import subprocess
import sys
import urllib.parse
import urllib.request
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import NamedTuple

from ansible_collections.gpuwright.node.plugins.module_utils.packages.addresses import open_address, without_login

PYPI = "https://pypi.org/simple"
JSON = "application/vnd.pypi.simple.v1+json"
LINE = re.compile(r"^([\w:-]+)\.([\w-]+)='(.*)'$")
# What comes later takes precedence, as pip has it.
KINDS = ("global", "user", "site", "install", "download", ":env:")
PIP_SECONDS = 60
MOST_BYTES = 64 * 1024 * 1024
SHA256 = re.compile(r"sha256=([0-9a-f]{64})")


class Link(NamedTuple):
    """A file of an index: its name, its address, and its SHA-256 if the index says it."""

    file: str
    url: str
    sha256: str


class Sources(NamedTuple):
    """Addresses of indexes, and of folders with wheels."""

    indexes: tuple[str, ...]
    folders: tuple[str, ...]


def read_configuration(text: str) -> dict[str, str]:
    """What `pip config list` prints: the values that count."""
    found: dict[str, tuple[int, str]] = {}
    for kind, name, value in (match.groups() for match in map(LINE.match, text.splitlines()) if match):
        rank = KINDS.index(kind) if kind in KINDS else -1
        if rank >= found.get(name, (-1, ""))[0]:
            found[name] = (rank, value)
    return {name: value for name, (_rank, value) in found.items()}


def sources_of(configuration: Mapping[str, str], index_url: str = "", extra_index_url: str = "") -> Sources:
    """From pip's configuration, an index used in place of all others, and one besides."""
    folders = tuple(configuration.get("find-links", "").split())
    if index_url:
        return Sources((index_url,), folders)
    indexes = [] if configuration.get("no-index", "").lower() in ("1", "true", "yes", "on") else [
        configuration.get("index-url") or PYPI,
        *configuration.get("extra-index-url", "").split(),
        *([extra_index_url] if extra_index_url else []),
    ]  # fmt: skip
    return Sources(tuple(dict.fromkeys(indexes)), folders)


def configuration() -> dict[str, str]:
    """pip's configuration on this machine."""
    command = [sys.executable, "-m", "pip", "config", "list"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=PIP_SECONDS, check=False)
    return read_configuration(done.stdout)


def links(sources: Sources, name: str) -> tuple[list[Link], list[str]]:
    """All files of a package in all sources, and what is wrong with sources that cannot be read."""
    found: list[Link] = []
    wrong = []
    for folder in sources.folders:
        found += links_of_folder(folder)
    for index in sources.indexes:
        try:
            found += links_of_page(f"{index.rstrip('/')}/{name}/")
        except (OSError, ValueError) as error:
            wrong.append(without_login(f"{index}: {error}"))
    return found, wrong


def links_of_folder(folder: str) -> list[Link]:
    """The wheels of a folder of this machine; another kind of find-links is left to the indexes."""
    path = local_path(folder) or Path(folder)
    return (
        [Link(file.name, file.absolute().as_uri(), "") for file in sorted(path.glob("*.whl"))] if path.is_dir() else []
    )


def links_of_page(url: str) -> list[Link]:
    """The files of one project's page. OSError, ValueError."""
    path = local_path(url)
    if path is not None:
        return list(links_of_html((path / "index.html").read_text("utf-8"), url))
    with open_address(url, headers={"Accept": f"{JSON}, text/html;q=0.1"}) as answer:
        data, kind, place = answer.read(MOST_BYTES), answer.headers.get_content_type(), answer.geturl()
    if kind == JSON:
        return [
            Link(row["filename"], urllib.parse.urljoin(place, row["url"]), row.get("hashes", {}).get("sha256", ""))
            for row in json.loads(data)["files"]
        ]
    return list(links_of_html(data.decode("utf-8", "replace"), place))


class _Anchors(html.parser.HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.base, self.targets = "", list[str]()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        target = dict(attrs).get("href")
        if tag == "a" and target:
            self.targets.append(target)
        elif tag == "base" and target:
            self.base = target


def links_of_html(text: str, url: str) -> Iterator[Link]:
    """The files of a page in HTML."""
    anchors = _Anchors()
    anchors.feed(text)
    for target in anchors.targets:
        place, _, fragment = urllib.parse.urljoin(anchors.base or url, target).partition("#")
        digest = SHA256.search(fragment)
        yield Link(urllib.parse.unquote(place.rsplit("/", 1)[-1]), place, digest.group(1) if digest else "")


def local_path(url: str) -> Path | None:
    """The file or folder that a file: address names; None for any other."""
    parts = urllib.parse.urlsplit(url)
    return Path(urllib.request.url2pathname(parts.path)) if parts.scheme == "file" else None
