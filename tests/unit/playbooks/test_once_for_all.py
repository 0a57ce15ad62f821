"""What the tests keep for all runs of Ansible is what Ansible itself would work out."""

from __future__ import annotations

import ast
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import ansible
import jinja2
import jinja2.environment
import jinja2.nodes
import pytest
from ansible.executor.module_common import ModuleDepFinder
from conftest import REPOSITORY
from jinja2.nativetypes import NativeEnvironment
from module_files import load_file

UTILS = Path(ansible.__file__).parent / "module_utils"
SOURCES = [
    *(REPOSITORY / "library").glob("*.py"),
    *(REPOSITORY / "plugins/module_utils/packages").rglob("*.py"),
    *(REPOSITORY / "plugins/module_utils/host").rglob("*.py"),
    *UTILS.glob("*.py"),
    *UTILS.glob("common/**/*.py"),
]


@pytest.fixture
def once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    """The file as a module of another name, with a folder of its own."""
    monkeypatch.delenv("ONCE_FOR_ALL")
    module = load_file("tests/once_for_all/sitecustomize.py")
    monkeypatch.setattr(module, "FOLDER", str(tmp_path))
    return module


def packed(tree: ast.AST, path: Path) -> tuple[set, set]:
    """What Ansible finds that a source imports, and which of it at need only."""
    found = ModuleDepFinder(f"ansible.module_utils.{path.stem}", tree, path.stem == "__init__")
    return found.submodules, found.optional_imports


def test_a_module_is_packed_with_what_it_imports(once: Any) -> None:
    module_common = SimpleNamespace()
    once.of_packing(module_common)
    needed = 0
    for path in SOURCES:
        source = path.read_bytes()
        whole = packed(compile(source, "<unknown>", "exec", ast.PyCF_ONLY_AST), path)
        needed += bool(whole[1])
        for _first_and_kept in range(2):
            assert packed(module_common.compile(source, "<unknown>", "exec", ast.PyCF_ONLY_AST), path) == whole, path
    assert needed
    with pytest.raises(SyntaxError):
        module_common.compile(b"import (", "<unknown>", "exec", ast.PyCF_ONLY_AST)


def test_kept_code_runs_under_the_name_of_its_file(once: Any) -> None:
    source = "def who():\n    raise ValueError('x')\n"
    for name in ("/first.py", "/second.py"):
        space: dict = {}
        exec(once.code_of(source, name, dont_inherit=True), space)
        assert space["who"].__code__.co_filename == name
    exec(once.code_of(source.replace("'x'", "'y'"), "/third.py", dont_inherit=True), space)
    with pytest.raises(ValueError, match="y"):
        space["who"]()


def test_what_cannot_be_kept_is_worked_out_each_time(once: Any, tmp_path: Path) -> None:
    answers = iter([object, object])
    assert [once.kept("yaml", "x", lambda: next(answers)) for _ in range(2)] == [object, object]
    assert list(tmp_path.iterdir()) == []
    once.FOLDER = str(tmp_path / "none")
    assert once.kept("yaml", b"x", lambda: 1) == 1


@pytest.fixture
def templates(once: Any, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """Jinja2 keeps what it compiles in this folder until the test ends."""
    for place, name in ((jinja2.environment.Environment, "compile"), (jinja2.nodes._FilterTestCommon, "as_const")):
        monkeypatch.setattr(place, name, getattr(place, name))
    once.of_templates(jinja2.environment)
    return tmp_path


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        ("{{ x | default(7) }} of {{ y }}", "7 of 2"),
        ("{% for n in range(y) %}{{ n }}\n{% endfor %}", "0\n1\n"),
        ("{{ [y, y] | map('string') | join(',') }}", "2,2"),
        ("{% set z = y + 1 %}{{ z if z is defined else x }}", "3"),
    ],
)
def test_a_kept_template_says_the_same(templates: Path, source: str, expected: str) -> None:
    for kept in (0, 1, 1):
        assert len(list(templates.glob("template.*"))) == kept
        assert jinja2.Environment().from_string(source).render(y=2) == expected


def test_a_template_is_kept_for_environments_like_its_own(templates: Path) -> None:
    source = "{% if true %}\n{{ y }}{% endif %}"
    for _first_and_kept in range(2):
        assert jinja2.Environment().from_string(source).render(y=2) == "\n2"
        assert jinja2.Environment(trim_blocks=True).from_string(source).render(y=2) == "2"
        native: Any = NativeEnvironment(trim_blocks=True).from_string(source).render(y=2)
        assert native == 2


def test_what_a_filter_made_of_a_constant_is_not_kept(templates: Path) -> None:
    for value in ("first", "second"):
        environment = jinja2.Environment()
        environment.filters["told"] = lambda _word, now=value: now
        assert environment.from_string("{{ 'x' | told }}").render() == value


def test_a_template_that_is_wrong_fails_each_time(templates: Path) -> None:
    for _time in range(2):
        with pytest.raises(jinja2.TemplateSyntaxError):
            jinja2.Environment().from_string("{{ y")
