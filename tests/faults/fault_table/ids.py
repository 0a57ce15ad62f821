"""The ids of messages, read from the code that prints them."""

from __future__ import annotations

import ast
import re
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

REPOSITORY = Path(__file__).resolve().parents[3]
FAULT = r"[a-z][a-z0-9_]*\.[a-z][a-z0-9_]*"
# At the end of a message, or of its first line.
IN_BRACKETS = re.compile(rf"(?<!:)[ \"']\[({FAULT})\](?=[\"'\n]|$)", re.MULTILINE)
# In these files an id is a value of its own, and the brackets are put around it where the rows are printed.
VALUES = (
    "plugins/module_utils/preflight",
    "plugins/module_utils/packages/state.py",
    "plugins/plugin_utils/failures",
    "plugins/plugin_utils/preflight_problems.py",
    "plugins/plugin_utils/preflight_rows.py",
    "plugins/plugin_utils/bundle",
    "plugins/plugin_utils/plan/machines/guests.py",
)


def sources() -> Iterator[Path]:
    for folder, pattern in (("roles", "*.yml"), ("playbooks", "*.yml"), ("plugins", "*.py"), ("library", "*.py")):
        yield from sorted((REPOSITORY / folder).rglob(pattern))


def values_in(file: Path) -> Iterator[str]:
    """Ids that are arguments, elements of a tuple, or values: not part of a longer text, and no name of a file."""
    for node in ast.walk(ast.parse(file.read_text())):
        value = node.value if isinstance(node, ast.Constant) else None
        if isinstance(value, str) and re.fullmatch(FAULT, value) and not value.endswith(".service"):
            yield value


def ids() -> dict[str, list[str]]:
    """Each id and the files that print it, by name."""
    found: dict[str, set[str]] = defaultdict(set)
    for file in sources():
        name = str(file.relative_to(REPOSITORY))
        if "module_utils/checks" in name or "plugins/modules/" in name:
            continue
        for fault in IN_BRACKETS.findall(file.read_text()):
            found[fault].add(name)
        if name.startswith(VALUES):
            for fault in values_in(file):
                found[fault].add(name)
    return {fault: sorted(found[fault]) for fault in sorted(found)}
