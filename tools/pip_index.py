"""What the indexes that pip is configured for say about packages: their versions, and what their wheels require.

No package is installed. Each page is asked for once, and of a wheel only its metadata is read: 64 KiB of 900 MB where
an index has it in the wheel alone. No message names an index: its address may hold a login.
"""

from __future__ import annotations

import ast
import email.parser
import functools
import html.parser
import io
import os
import subprocess
import sys
import threading
import zipfile
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any
from urllib.parse import unquote, urldefrag, urljoin, urlsplit, urlunsplit

import requests
from packaging.specifiers import InvalidSpecifier, SpecifierSet
from packaging.tags import Tag, compatible_tags, cpython_tags
from packaging.utils import InvalidWheelFilename, canonicalize_name, parse_wheel_filename
from packaging.version import Version
from remotezip import RangeNotSupported, RemoteIOError, RemoteZip

# A tag is taken literally: a wheel for glibc 2.18 is not one for 2.28.
PLATFORMS = (
    *(f"manylinux_2_{minor}_x86_64" for minor in range(28, 4, -1)),
    *(f"manylinux{name}_x86_64" for name in ("2014", "2010", "1")),
    "linux_x86_64",
)
PYPI = "https://pypi.org/simple/"
JSON = "application/vnd.pypi.simple.v1+json"
ACCEPT = {"Accept": f"{JSON}, text/html;q=0.1"}
# Where an index sends no part of a file, whole wheels up to this size are read.
MOST_BYTES = 64 * 1024 * 1024
CONNECTIONS = 16
ABSENT = "does not have it"


class NoAnswerError(Exception):
    """Why the index had no answer, as one sentence without its address."""

    def __init__(self, reason: str) -> None:
        super().__init__(f"the index that pip is configured for {reason}")


@dataclass(frozen=True)
class File:
    """A wheel on an index. `demands` is its `requires-python`; `described`: its metadata is a file of its own."""

    name: str
    version: Version
    tags: frozenset[Tag]
    url: str
    sha256: str
    demands: str
    yanked: bool
    described: bool


@dataclass(frozen=True)
class Wheel:
    """What was read of a wheel: its package, SHA-256 ("" if the index has none) and the lines of `Requires-Dist`."""

    name: str
    sha256: str
    requires: tuple[str, ...]


class Anchors(html.parser.HTMLParser):
    """Files of a page in the form before JSON, as records of the newer form."""

    def __init__(self) -> None:
        super().__init__()
        self.files: list[dict[str, Any]] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = dict(attrs)
        url, fragment = urldefrag(given.get("href") or "")
        kind, _, digest = fragment.partition("=")
        if tag == "a" and url:
            self.files.append(
                {
                    "filename": unquote(urlsplit(url).path.rpartition("/")[2]),
                    "url": url,
                    "hashes": {kind: digest},
                    "requires-python": given.get("data-requires-python"),
                    "yanked": "data-yanked" in given,
                    "core-metadata": "data-core-metadata" in given or "data-dist-info-metadata" in given,
                }
            )


class Index:
    """The indexes of pip's configuration. Its methods may be called by several threads, and raise NoAnswerError."""

    def __init__(self) -> None:
        told = settings()
        addresses = [told.get("index-url") or PYPI, *told.get("extra-index-url", "").split()]
        self._logins = {urlsplit(url).netloc.rpartition("@")[2]: login_of(url) for url in addresses}
        self._bases = [without_login(url).rstrip("/") + "/" for url in addresses]
        self._seconds = float(told.get("default-timeout") or told.get("timeout") or 15)
        self._session = requests.Session()
        self._session.verify = told.get("cert") or True
        if told.get("proxy"):
            self._session.proxies = {"http": told["proxy"], "https": told["proxy"]}
        tries = int(told.get("retries") or 5)
        adapter = requests.adapters.HTTPAdapter(pool_maxsize=CONNECTIONS, max_retries=tries)
        self._session.mount("https://", adapter)
        self._session.mount("http://", adapter)
        self._pages: dict[str, list[File] | NoAnswerError] = {}
        self._wheels: dict[str, Wheel] = {}
        self._locks: dict[str, threading.Lock] = {}

    def versions(self, package: str, python: str) -> list[str]:
        """Final releases with a wheel for this Python on 64-bit Linux, newest first."""
        # A local version ("2.13.0+cpu") is not a separate release.
        found = {file.version for file in self._for_python(package, python) if not file.yanked}
        return [str(version) for version in sorted(found, reverse=True) if not (version.is_prerelease or version.local)]

    def wheel(self, package: str, version: str, python: str) -> Wheel:
        """The wheel of this version that pip would take for this Python."""
        wanted, order = SpecifierSet(f"=={version}"), supported(python)
        fitting = [file for file in self._for_python(package, python) if wanted.contains(file.version, True)]
        if not fitting:
            raise NoAnswerError(ABSENT)
        best = max(fitting, key=lambda file: (file.version, -min(order[tag] for tag in file.tags & order.keys())))
        with self._lock(best.url):
            if best.url not in self._wheels:
                self._wheels[best.url] = self._read(best)
        return self._wheels[best.url]

    def _for_python(self, package: str, python: str) -> list[File]:
        """The wheels of a package that this Python can use; pip leaves out a version of which only yanked ones are."""
        tags, name = supported(python).keys(), str(canonicalize_name(package))
        with self._lock(name):
            if name not in self._pages:
                self._pages[name] = self._page(name)
        page = self._pages[name]
        if isinstance(page, NoAnswerError):
            raise page
        return [file for file in page if file.tags & tags and allows(file.demands, python)]

    def _lock(self, name: str) -> threading.Lock:
        return self._locks.setdefault(name, threading.Lock())

    def _page(self, name: str) -> list[File] | NoAnswerError:
        """The wheels on all indexes; or why none has any, where the worst reason comes first."""
        found: list[File] = []
        faults: list[NoAnswerError] = []
        for base in self._bases:
            try:
                answer = self._get(f"{base}{name}/", headers=ACCEPT)
                found += wheels_of(answer)
            except NoAnswerError as error:
                faults.append(error)
        worse = [fault for fault in faults if str(fault) != str(NoAnswerError(ABSENT))]
        return found or (worse or [NoAnswerError(ABSENT)])[0]

    def _get(self, url: str, **more: Any) -> requests.Response:
        try:
            answer = self._session.get(url, timeout=self._seconds, auth=self._auth(url), **more)
        except requests.RequestException as error:
            raise NoAnswerError("cannot be reached") from error
        if answer.status_code in (401, 403):
            raise NoAnswerError("refuses the login")
        if answer.status_code >= 500:
            raise NoAnswerError("answers with an error of its own")
        if answer.status_code >= 400:
            raise NoAnswerError(ABSENT)
        return answer

    def _auth(self, url: str) -> tuple[str, str] | None:
        # Of the index itself alone: files may lie on another server. Without one, ~/.netrc counts.
        return self._logins.get(urlsplit(url).netloc)

    def _read(self, file: File) -> Wheel:
        try:
            content = self._metadata(file)
        except zipfile.BadZipFile as error:
            raise NoAnswerError("has a wheel that cannot be read") from error
        told = email.parser.BytesParser().parsebytes(content, headersonly=True)
        return Wheel(file.name, file.sha256, tuple(told.get_all("Requires-Dist") or ()))

    def _metadata(self, file: File) -> bytes:
        if file.described:
            try:
                return self._get(file.url + ".metadata").content
            except NoAnswerError:
                # A mirror may pass on a page and not what it names.
                pass
        try:
            with RemoteZip(file.url, session=self._session, timeout=self._seconds, auth=self._auth(file.url)) as parts:
                return metadata_in(parts)
        except (RangeNotSupported, RemoteIOError, requests.RequestException):
            pass
        answer = self._get(file.url, stream=True)
        if int(answer.headers.get("Content-Length") or MOST_BYTES) >= MOST_BYTES:
            raise NoAnswerError("sends no part of a file, and the whole one is too large")
        with zipfile.ZipFile(io.BytesIO(answer.content)) as parts:
            return metadata_in(parts)


def metadata_in(wheel: zipfile.ZipFile) -> bytes:
    names = [name for name in wheel.namelist() if name.count("/") == 1 and name.endswith(".dist-info/METADATA")]
    if not names:
        raise NoAnswerError("has a wheel without metadata")
    return wheel.read(names[0])


def wheels_of(page: requests.Response) -> list[File]:
    """The wheels that a page lists, in either of its two forms."""
    if page.headers.get("Content-Type", "").startswith(JSON):
        try:
            return [file for record in page.json()["files"] for file in wheel_of(record, page.url)]
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            raise NoAnswerError("answers with an error of its own") from error
    anchors = Anchors()
    anchors.feed(page.text)
    return [file for record in anchors.files for file in wheel_of(record, page.url)]


def wheel_of(record: dict[str, Any], page: str) -> Iterator[File]:
    """The file of a record, unless it is no wheel."""
    try:
        name, version, _build, tags = parse_wheel_filename(record["filename"])
    except InvalidWheelFilename:
        return
    described = record.get("core-metadata", record.get("data-dist-info-metadata", False))
    digest = (record.get("hashes") or {}).get("sha256", "")
    demands, yanked = record.get("requires-python") or "", bool(record.get("yanked"))
    url = urljoin(page, record["url"])
    yield File(str(name), version, tags, url, digest, demands, yanked, bool(described))


@functools.cache
def supported(python: str) -> dict[Tag, int]:
    """The tags of wheels for this Python, each with its rank: 0 is the best."""
    version = tuple(int(part) for part in python.split("."))
    name = f"cp{version[0]}{version[1]}"
    # Pythons before 3.8 say that they have their own way to take memory.
    abi = name + "m" if version < (3, 8) else name
    tags = [*cpython_tags(version, [abi], PLATFORMS), *compatible_tags(version, name, PLATFORMS)]
    return {tag: rank for rank, tag in reversed(list(enumerate(tags)))}


def allows(demands: str, python: str) -> bool:
    """Whether a file's `requires-python` takes this Python; one that cannot be read does, as for pip."""
    try:
        return SpecifierSet(demands).contains(f"{python}.0")
    except InvalidSpecifier:
        return True


def settings() -> dict[str, str]:
    """pip's own settings, by its own command: what `pip install` would use."""
    command = [sys.executable, "-m", "pip", "--no-color", "--disable-pip-version-check", "config", "list"]
    environment = {**os.environ, "PIP_NO_INPUT": "1"}
    done = subprocess.run(command, capture_output=True, text=True, env=environment, check=False)
    if done.returncode:
        raise NoAnswerError("is not known: pip cannot read its own configuration")
    told: dict[str, dict[str, str]] = {"global": {}, "install": {}, ":env:": {}}
    for line in done.stdout.splitlines():
        where, _, value = line.partition("=")
        scope, _, name = where.rpartition(".")
        if scope in told:
            told[scope][name] = str(ast.literal_eval(value))
    return {name: value for scope in told.values() for name, value in scope.items()}


def login_of(url: str) -> tuple[str, str] | None:
    parts = urlsplit(url)
    return (unquote(parts.username), unquote(parts.password or "")) if parts.username else None


def without_login(url: str) -> str:
    parts = urlsplit(url)
    return urlunsplit(parts._replace(netloc=parts.netloc.rpartition("@")[2]))
