"""Proposed rows of the matrix: how they are written, and where they go in the file of their kind."""

from __future__ import annotations

import datetime
from typing import Any, NamedTuple

import yaml

# In which file the rows of a kind are.
FILES = {
    "pytorch": "pytorch.yml",
    "tensorflow": "tensorflow.yml",
    "cudnn": "libraries.yml",
    "nccl": "libraries.yml",
    "drivers": "drivers.yml",
    "bulletins": "bulletins.yml",
    "wheel_holes": "wheel_holes.yml",
}
# What tells the rows of a list apart, where it is not version and CUDA.
KEYS = {"bulletins": ("id",), "wheel_holes": ("ids",)}


class News(NamedTuple):
    """Something newer than the matrix.

    kind  top-level name of the matrix         row   what to add, `{}` where a person has to
    name  of the row, "" in a list of rows     text  one sentence
    more  releases of a series or branch, or of a library, that are known to exist from now on
    awaited  somebody can write the row that is missing, and the table is not whole before
    """

    kind: str
    name: str
    row: dict[str, Any]
    text: str
    more: tuple[str, ...] = ()
    awaited: bool = True


def proposal(news: News) -> str:
    """A row as it would be written in its file."""
    content: Any = {news.name: news.row} if news.name else [news.row]
    lines = yaml.dump(content, Dumper=_Dumper, sort_keys=False, width=1000).rstrip().splitlines()
    return "\n".join("  " + line for line in lines)


class _Dumper(yaml.SafeDumper):
    """Versions in quotes, lists in one line: as the matrix is written."""


def _text(dumper: _Dumper, text: str) -> yaml.Node:
    quoted = text == "" or text.replace(".", "").isdecimal() or text[:4] == datetime.date.today().strftime("%Y")
    return dumper.represent_scalar("tag:yaml.org,2002:str", text, style='"' if quoted else None)


_Dumper.add_representer(str, _text)
_Dumper.add_representer(
    list,
    lambda dumper, items: dumper.represent_sequence(
        "tag:yaml.org,2002:seq", items, flow_style=not items or isinstance(items[0], str)
    ),
)


def add_row(text: str, news: News) -> str:
    """The file's text with the row at the end of its kind. Raises ValueError if it has a row of that name."""
    content = yaml.load(text, yaml.CSafeLoader)[news.kind]
    key = KEYS.get(news.kind, ("version", "cuda_major"))
    taken = (
        news.name in content if news.name else any(all(row[name] == news.row[name] for name in key) for row in content)
    )
    if taken:
        raise ValueError(f"{news.kind} has a row {news.name or news.row[key[0]]}, which stays as it is")
    lines = text.splitlines()
    begin = lines.index(f"{news.kind}:")
    end = next(
        (
            number
            for number in range(begin + 1, len(lines))
            if lines[number][:1] not in ("", " ") and not lines[number].startswith("  #")
        ),
        len(lines),
    )
    while not lines[end - 1].strip():
        end -= 1
    return "\n".join([*lines[:end], proposal(news), *lines[end:]]) + "\n"
