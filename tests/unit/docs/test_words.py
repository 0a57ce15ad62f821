"""The words of the field, in all text that people read: pages, comments, docstrings, names of tasks, descriptions."""

from __future__ import annotations

import ast
import io
import re
import subprocess
import tokenize
from collections.abc import Iterator
from pathlib import Path

import pytest

REPOSITORY = Path(__file__).resolve().parents[3]
# Retired: what to write instead. Names in code follow when their modules move; `wish` is still one of them.
RETIRED = {
    r"wish(es|ed|ing)?": "variable, request, what is asked for",
    r"strangers?": "unknown card, other",
    r"rehears(al|als|e|es|ed|ing)": "dry run, trial",
    r"(no|without a) way out": "air-gapped",
    r"disks? that turns?": "spinning disk",
    r"what else it must have": "set X to require more",
    r"(can|could|cannot|to) be had": "is available, missing, can be read or fetched",
    r"left away": "omitted, left out",
    r"(goes?|went) before (it|them)": "takes precedence",
    r"ways out": "choices, what resolves it",
}
PATTERN = re.compile(rf"(?i)\b({'|'.join(RETIRED)})\b")


def docstrings(tree: ast.Module) -> Iterator[tuple[int, str]]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            text = ast.get_docstring(node, clean=False)
            if text is not None:
                yield node.body[0].lineno, text


def prose(path: str, text: str) -> Iterator[tuple[int, str]]:
    """The lines that people read: all, of Python its comments and docstrings."""
    if not path.endswith(".py"):
        # The name of a file or a variable is no prose; it is a word with underscores, a slash or a dot.
        yield from enumerate((re.sub(r"\S*[_/]\S*", "", line) for line in text.splitlines()), 1)
        return
    for line, found in docstrings(ast.parse(text)):
        # The table of a function's parameters names them.
        yield from ((line, re.sub(r"(?m)^ +\w+  .*$", "", row)) for row in found.splitlines())
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type == tokenize.COMMENT:
            yield token.start[0], token.string


def tracked() -> list[str]:
    listed = subprocess.run(["git", "ls-files"], cwd=REPOSITORY, capture_output=True, text=True, check=True).stdout
    # This file names the words, and recorded data is nobody's prose.
    own = str(Path(__file__).relative_to(REPOSITORY))
    return [path for path in listed.splitlines() if path != own and not path.startswith("tests/unit/data/")]


def retired_in(path: str, text: str) -> list[str]:
    return [f"{path}:{line}: {hit[0]}" for line, row in prose(path, text) for hit in PATTERN.finditer(row)]


def test_retired_words_are_gone() -> None:
    found = []
    for path in tracked():
        file = REPOSITORY / path
        if file.is_symlink() or not file.is_file() or file.suffix in (".png", ".pt"):
            continue
        text = file.read_text()
        # Finding out which of a file's words are prose takes a hundred times as long as finding such a word at all.
        found += retired_in(path, text) if PATTERN.search(text) else []
    assert not found, found


@pytest.mark.parametrize(
    ("path", "text", "count"),
    [
        ("a.md", "Nodes without a way out, or with a disk that turns.", 2),
        ("a.yml", "- name: Rehearse it\n  include_tasks: rehearsal_debian.yml", 1),
        ("a.py", '"""Your wish."""\nwish = 1  # a stranger\n', 2),
        ("a.py", "strangers = 'rehearsal'\n", 0),
        ("a.md", "What cannot be had is left away, and a pin goes before it; these are its ways out.", 4),
    ],
)
def test_the_words_are_found_where_people_read_them(path: str, text: str, count: int) -> None:
    assert len(retired_in(path, text)) == count


def test_the_glossary_is_short_sorted_and_used() -> None:
    page = (REPOSITORY / "docs/architecture.md").read_text()
    table = page.partition("\n## Words\n")[2]
    words = re.findall(r"(?m)^\| ([\w -]+) \| ", table)[1:]
    assert 15 <= len(words) <= 25 and words == sorted(words)
    others = "".join(file.read_text() for file in [REPOSITORY / "README.md", *(REPOSITORY / "docs").glob("**/*.md")])
    before = page.partition("\n## Words\n")[0]
    text = " ".join(others.replace(page, before).split())
    unused = [word for word in words if not re.search(rf"(?i)\b{word}", text)]
    assert not unused, unused
