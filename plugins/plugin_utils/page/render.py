# SPDX-License-Identifier: Apache-2.0
"""Renders the page's templates so that nothing read from a node can become markup."""

from __future__ import annotations

import functools
from pathlib import Path
from typing import Any

from ansible_collections.gpuwright.node.plugins.module_utils.verdict.commands import lines_of
from ansible_collections.gpuwright.node.plugins.module_utils.verdict.report import printable
from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup

TEMPLATES = Path(__file__).parent / "templates"


def render(template: str, **values: Any) -> str:
    """The rendered text of a template in this folder; every value is escaped when it is inserted."""
    return environment().get_template(template).render(values)


@functools.cache
def environment(*own: Path) -> Environment:
    """The pages' templates and style, and `own` folders that come before them."""
    made = Environment(
        loader=FileSystemLoader([*own, TEMPLATES], encoding="utf-8"),
        autoescape=True,
        undefined=StrictUndefined,
        finalize=_shown,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    made.filters["lines_of"] = lines_of
    return made


def _shown(value: Any) -> str:
    """Text without control characters, which could repaint a terminal; output of a macro is already markup."""
    if isinstance(value, Markup):
        return value
    text = str(value)
    return text if text.isprintable() else printable(text)
