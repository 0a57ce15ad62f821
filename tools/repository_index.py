"""Files on a server and the indexes of package repositories, for `make matrix-refresh`. A login is never shown."""

from __future__ import annotations

import gzip
import http.client
import lzma
import re
import sys
import zlib
from pathlib import Path
from xml.etree import ElementTree

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "collections"))
from ansible_collections.gpuwright.node.plugins.module_utils.packages import addresses

TIMEOUT_S = 20
# The largest index in NVIDIA's repositories has about 40 MB.
MOST_BYTES = 400_000_000
REPO, COMMON = "{http://linux.duke.edu/metadata/repo}", "{http://linux.duke.edu/metadata/common}"


class NoAnswerError(Exception):
    """Why there was no answer, as a sentence without an address."""


def shown(url: str) -> str:
    return addresses.without_login(url)


def read(url: str) -> bytes:
    """The content of an address or of a local file. Raises NoAnswerError."""
    try:
        if "://" not in url:
            return Path(url).read_bytes()
        with addresses.open_address(url, timeout=TIMEOUT_S) as answer:
            return answer.read(MOST_BYTES)
    except (OSError, http.client.HTTPException, ValueError) as error:
        code = getattr(error, "code", None)
        reason = f"the server answers {code}" if code else "it cannot be reached"
        raise NoAnswerError(reason if "://" in url else f"{getattr(error, 'strerror', None) or error}") from None


def packages(url: str, kind: str) -> dict[str, set[str]]:
    """`{package: versions}` of a repository; kind is rpm or deb (a flat one). Raises NoAnswerError."""
    url = url.rstrip("/") + "/"
    try:
        return _rpm(url) if kind == "rpm" else _deb(url)
    except (ElementTree.ParseError, OSError, EOFError, ValueError, KeyError, zlib.error, lzma.LZMAError):
        raise NoAnswerError("its index cannot be read") from None


def _rpm(url: str) -> dict[str, set[str]]:
    index = ElementTree.fromstring(read(url + "repodata/repomd.xml"))
    places = {item.get("type"): item.find(REPO + "location") for item in index.iter(REPO + "data")}
    primary = places.get("primary")
    if primary is None:
        raise ValueError("no primary")
    found: dict[str, set[str]] = {}
    for package in ElementTree.fromstring(_unpacked(read(url + primary.attrib["href"]))).iter(COMMON + "package"):
        name, version = package.find(COMMON + "name"), package.find(COMMON + "version")
        if name is not None and name.text and version is not None:
            found.setdefault(name.text, set()).add(version.attrib["ver"])
    return found


def _deb(url: str) -> dict[str, set[str]]:
    text = _unpacked(read(url + "Packages.gz")).decode()
    found: dict[str, set[str]] = {}
    for part in text.split("\n\n"):
        fields = dict(re.findall(r"^(Package|Version): (\S+)$", part, re.MULTILINE))
        if len(fields) == 2:
            found.setdefault(fields["Package"], set()).add(fields["Version"])
    if not found:
        raise ValueError("no packages")
    return found


def _unpacked(content: bytes) -> bytes:
    if content.startswith(b"\x1f\x8b"):
        return gzip.decompress(content)
    return lzma.decompress(content) if content.startswith(b"\xfd7zXZ") else content
