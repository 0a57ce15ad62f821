# SPDX-License-Identifier: Apache-2.0
"""The contents of the page's tables: text, a badge, marked text, a bar; templates/parts.html.j2 draws them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from ansible_collections.gpuwright.node.plugins.module_utils.verdict.check import UNKNOWN
from ansible_collections.gpuwright.node.plugins.module_utils.verdict.report import TABLE_ORDER

from .drawing import Meter


class Badge(NamedTuple):
    """A status in a frame of its colour."""

    text: str
    status: str

    @property
    def kind(self) -> str:
        return "badge"


class Marked(NamedTuple):
    """Bold text in the colour of a status."""

    text: str
    status: str

    @property
    def kind(self) -> str:
        return "marked"


class Bar(NamedTuple):
    """A bar, and beside it the badge of its status if there is a floor."""

    meter: Meter
    badge: Badge | None

    @property
    def kind(self) -> str:
        return "bar"


Cell = str | Badge | Marked | Bar


class Table(NamedTuple):
    """A table whose first column names each row.

    groups  titles of its parts, one for each row: a new title begins a new part; () for none
    looks   classes of the style sheet besides `wide`
    """

    caption: str
    head: Sequence[str]
    rows: Sequence[Sequence[Cell]]
    groups: Sequence[str] = ()
    looks: str = ""


def badge(status: str) -> Badge:
    """The badge of a status; a word that is not a status gets the colour of UNKNOWN."""
    return Badge(status, status if status in TABLE_ORDER else UNKNOWN)
