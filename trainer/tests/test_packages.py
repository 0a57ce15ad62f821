"""The trainer's packages: who imports whom, how large they are, and that each says what it holds."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest
from conftest import PACKAGE
from graphlib import TopologicalSorter

ROOT = PACKAGE / "gan_trainer"
MOST_FILES = 25
MODULES = {path.relative_to(ROOT).with_suffix("").as_posix().replace("/", "."): path for path in ROOT.rglob("*.py")}
FOLDERS = sorted({path.parent for path in [*ROOT.rglob("*.py"), *(PACKAGE / "tests").rglob("*.py")]})


def imported_by(name: str) -> set[str]:
    """The modules of the package that this one imports anywhere, and their packages' own files."""
    found = set()
    for node in ast.walk(ast.parse(MODULES[name].read_text())):
        if isinstance(node, ast.ImportFrom) and node.level:
            base = name.split(".")[: -node.level]
            target = ".".join([*base, *(node.module.split(".") if node.module else [])])
            names = {target, *(f"{target}.{alias.name}".lstrip(".") for alias in node.names)}
            found |= names & MODULES.keys()
    return found


def package_of(name: str) -> str:
    """The first folder; a module at the top stands for itself."""
    return name.partition(".")[0]


def test_no_module_imports_one_that_imports_it() -> None:
    TopologicalSorter({name: imported_by(name) for name in MODULES}).prepare()


def test_no_package_imports_one_that_imports_it() -> None:
    graph: dict[str, set[str]] = {}
    for name in MODULES:
        graph.setdefault(package_of(name), set()).update(map(package_of, imported_by(name)))
    assert len(graph) > 15 and graph["engine"] >= {"data", "models", "parallel", "runs"}
    TopologicalSorter({name: others - {name} for name, others in graph.items()}).prepare()


@pytest.mark.parametrize("folder", FOLDERS, ids=lambda folder: str(folder.relative_to(PACKAGE)))
def test_a_folder_can_be_overlooked(folder: Path) -> None:
    assert len(list(folder.glob("*.py"))) <= MOST_FILES


def test_every_package_says_what_it_holds() -> None:
    for folder in {path.parent for path in MODULES.values()}:
        assert ast.get_docstring(ast.parse((folder / "__init__.py").read_text())), folder


SUBSCRIPTED_SINCE_39 = {"list", "dict", "tuple", "set", "frozenset", "type"}


@pytest.mark.parametrize("name", sorted(MODULES))
def test_python_38_can_evaluate_each_type_outside_annotations(name: str) -> None:
    """Annotations are never evaluated, but `cast(list[Tensor], ...)` raises a TypeError before Python 3.9."""
    tree = ast.parse(MODULES[name].read_text())
    spots = [getattr(node, field, None) for node in ast.walk(tree) for field in ("annotation", "returns")]
    deferred = any(isinstance(node, ast.ImportFrom) and node.module == "__future__" for node in tree.body)
    left_out = {id(part) for spot in spots if spot is not None and deferred for part in ast.walk(spot)}
    subscripts = [node for node in ast.walk(tree) if isinstance(node, ast.Subscript) and id(node) not in left_out]
    late = [node for node in subscripts if isinstance(node.value, ast.Name) and node.value.id in SUBSCRIPTED_SINCE_39]
    unions = [node for node in ast.walk(tree) if isinstance(node, ast.BinOp) and isinstance(node.op, ast.BitOr)]
    optional = [
        each for each in unions if id(each) not in left_out and "None" in map(ast.unparse, (each.left, each.right))
    ]
    found: list[ast.expr] = [*late, *optional]
    assert [f"line {node.lineno}: {ast.unparse(node)}" for node in found] == []


PAGES = (PACKAGE / "README.md", PACKAGE.parent / "docs/trainer.md")


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_a_module_that_a_page_names_is_there(page: Path) -> None:
    named = {word.removesuffix(".py").replace("/", ".") for word in re.findall(r"`([\w/]+\.py)`", page.read_text())}
    assert len(named) > 10
    assert {name for name in named if name not in MODULES and not (PACKAGE.parent / f"{name}.py").exists()} == set()
