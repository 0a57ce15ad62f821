# SPDX-License-Identifier: Apache-2.0
"""Texts of the page's templates, in which nothing that was read from a node can become markup."""

from __future__ import annotations

import functools
from pathlib import Path
from typing import Any

from ansible_collections.gpuwright.node.plugins.module_utils.verdict.report import printable
from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup

TEMPLATES = Path(__file__).parent / "templates"


def render(template: str, **values: Any) -> str:
    """The text of a template of this folder; every value is escaped where it is put in."""
    return _environment().get_template(template).render(values)


@functools.cache
def _environment() -> Environment:
    return Environment(
        loader=FileSystemLoader(TEMPLATES, encoding="utf-8"),
        autoescape=True,
        undefined=StrictUndefined,
        finalize=_shown,
        trim_blocks=True,
        lstrip_blocks=True,
    )


def _shown(value: Any) -> str:
    """Text without control characters, which could repaint a terminal; what a macro made is markup already."""
    if isinstance(value, Markup):
        return value
    text = str(value)
    return text if text.isprintable() else printable(text)
