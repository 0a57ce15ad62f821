# SPDX-License-Identifier: Apache-2.0
"""What apt's files name as sources: lines of *.list, stanzas of *.sources. sources.list(5)."""

import re
from typing import Dict, List, NamedTuple, Sequence, Tuple

from ..host.files import names_in, read_bytes
from .relied import Entry, plain_address

LIST, PARTS = "/etc/apt/sources.list", "/etc/apt/sources.list.d"
CONF, CONF_PARTS = "/etc/apt/apt.conf", "/etc/apt/apt.conf.d"
# apt ignores other names.
NAME = re.compile(r"[\w:-][\w.:-]*\.(list|sources)", re.ASCII)
# StringToBool of apt-pkg.
OFF = ("0", "no", "false", "without", "off", "disable")
TYPES = ("deb", "deb-src")
ONE_LINE = re.compile(r"\s*(?P<type>[\w-]+)\s+(?:\[(?P<options>[^\]]*)\]\s*)?(?P<uri>\S+)\s+(?P<suite>\S+)(?P<rest>.*)")
OPTION = re.compile(r"([\w-]+)[+-]?=(\"[^\"]*\"|\S+)")
# Settings for all sources. One that apt does not know by this name is none of these.
LOOSE = re.compile(
    r"\b(AllowUnauthenticated|AllowInsecureRepositories|AllowDowngradeToInsecureRepositories)\s+\"?(\w+)\"?\s*;",
    re.IGNORECASE,
)
FIELD = re.compile(r"([!-9;-~]+)\s*:(.*)")
# Names of the same options in one line and in a stanza.
SAME = {"arch": "architectures", "lang": "languages", "target": "targets"}


class Places(NamedTuple):
    """Where apt looks, and the machine's own architecture, which stands for $(ARCH)."""

    list: str = LIST
    parts: str = PARTS
    architecture: str = ""


DEFAULT = Places()


def paths(places: Places = DEFAULT, root: str = "/") -> List[str]:
    """The files in apt's order, whether they are there or not."""
    return [places.list, *(f"{places.parts}/{name}" for name in names_in(root, places.parts) if NAME.fullmatch(name))]


def read_texts(places: Places = DEFAULT, root: str = "/") -> Dict[str, str]:
    """`{path: text}` of the files that are there."""
    found = {path: read_bytes(root, path) for path in paths(places, root)}
    return {path: data.decode("utf-8", "surrogateescape") for path, data in found.items() if data is not None}


def parse(path: str, text: str, architecture: str = "") -> List[Entry]:
    """The entries of one file. What apt refuses is left out: apt itself says which line that is."""
    found = _stanzas(path, text) if path.endswith(".sources") else _lines(path, text)
    return [entry._replace(addresses=_addresses(entry, architecture)) for entry in found]


def _addresses(entry: Entry, architecture: str) -> Tuple[str, ...]:
    return tuple(
        address_of(uri, suite, architecture)
        for uri in entry.values["uris"].split()
        for suite in entry.values["suites"].split()
    )


def address_of(uri: str, suite: str, architecture: str = "") -> str:
    """One address for a repository: a suite that ends with a slash is a folder below the URI, any other is a name."""
    uri, suite = (word.replace("$(ARCH)", architecture) for word in (uri, suite))
    return plain_address(f"{uri}/{suite}") if suite.endswith("/") else f"{plain_address(uri)} {suite}"


def _lines(path: str, text: str) -> List[Entry]:
    found = []
    for number, line in enumerate(text.splitlines(), 1):
        match = ONE_LINE.match(_without_comment(line))
        if not match or match.group("type") not in TYPES:
            continue
        options = {name.lower(): value.strip('"') for name, value in OPTION.findall(match.group("options") or "")}
        values = {SAME.get(name, name): value for name, value in options.items()}
        uri, suite = (match.group(name).strip('"') for name in ("uri", "suite"))
        values.update(types=match.group("type"), uris=uri, suites=suite, components=match.group("rest").strip())
        found.append(Entry(path, number, number, "", (), True, values))
    return found


def _without_comment(line: str) -> str:
    """A # begins a comment, but not inside brackets."""
    inside = False
    for place, letter in enumerate(line):
        inside = letter == "[" or (inside and letter != "]")
        if letter == "#" and not inside:
            return line[:place]
    return line


def _stanzas(path: str, text: str) -> List[Entry]:
    found = []
    lines = text.splitlines()
    for first, last in _blocks(lines):
        values = fields(lines[first - 1 : last])
        types = values.get("types", "").split()
        if not set(types) & set(TYPES) or not values.get("uris") or not values.get("suites"):
            continue
        enabled = values.get("enabled", "yes").strip().lower() not in OFF
        found.append(Entry(path, first, last, "", (), enabled, values))
    return found


def _blocks(lines: Sequence[str]) -> List[Tuple[int, int]]:
    """First and last line of each stanza, without the comments around it."""
    found, first, last = [], 0, 0
    for number, line in enumerate([*lines, ""], 1):
        if not line.strip():
            if first:
                found.append((first, last))
            first = 0
        elif not line.startswith("#"):
            first, last = first or number, number
    return found


def fields(lines: Sequence[str]) -> Dict[str, str]:
    """`{name in small letters: value}` of a stanza; lines that begin with a blank go on with the value before."""
    found: Dict[str, str] = {}
    name = ""
    for line in lines:
        match = FIELD.match(line)
        if line.startswith("#"):
            continue
        if line[:1] in (" ", "\t"):
            found[name] = f"{found.get(name, '')}\n{line.strip()}".strip()
        elif match:
            name = match.group(1).lower()
            found[name] = match.group(2).strip()
    return found


def settings_files(root: str = "/") -> List[str]:
    """Files beside those of sources that decide what apt makes of them."""
    return [CONF, *(f"{CONF_PARTS}/{name}" for name in names_in(root, CONF_PARTS))]
