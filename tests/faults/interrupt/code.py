"""The code that a step exercises, as one fingerprint: names, comments, descriptions and types do not count."""

from __future__ import annotations

import ast
import hashlib
import json
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

import yaml

from interrupt.host import REPO_ROOT
from interrupt.steps import Step

# In every run of these playbooks.
ALWAYS = ("preflight", "operator_lock", "system_busy")
PLUGINS = REPO_ROOT / "plugins"
KINDS = ("action", "filter", "lookup", "modules", "callback", "vars")
# What these roles copy to a node, whole.
BROUGHT = {"system_runtime": "plugins/module_utils", "model_trainer": "trainer/gan_trainer"}
# Only texts.
FOR_READERS = ("name", "fail_msg", "success_msg", "description", "short_description")


# How a module of this collection begins where its name is written out.
COLLECTION = "ansible_collections.gpuwright.node."


class Loader(yaml.SafeLoader):
    """Reads tags of Ansible (!unsafe, !vault) as the text that they are on."""


Loader.add_multi_constructor("!", lambda loader, suffix, node: loader.construct_scalar(node))


def for_the_machine(value: Any) -> Any:
    """A file of tasks without the texts that only people read."""
    if isinstance(value, dict):
        return {str(key): for_the_machine(each) for key, each in value.items() if key not in FOR_READERS}
    return [for_the_machine(each) for each in value] if isinstance(value, list) else str(value)


def is_documentation(node: ast.stmt) -> bool:
    if isinstance(node, ast.Assign):
        return ast.unparse(node.targets[0]) in ("DOCUMENTATION", "EXAMPLES", "RETURN")
    return isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)


class WithoutTypes(ast.NodeTransformer):
    """Takes the types out; a class keeps its own, which are the fields of a dataclass or of a named tuple."""

    def visit_arg(self, node: ast.arg) -> ast.arg:
        node.annotation = None
        return node

    def visit_FunctionDef(self, node: ast.FunctionDef) -> ast.AST:
        node.returns = None
        return self.generic_visit(node)

    def visit_AnnAssign(self, node: ast.AnnAssign) -> ast.stmt:
        return ast.Assign([node.target], node.value) if node.value else node

    def visit_ClassDef(self, node: ast.ClassDef) -> ast.ClassDef:
        node.body = [each if isinstance(each, ast.AnnAssign) else self.visit(each) for each in node.body]
        return node


def without_documentation(source: str) -> str:
    """A Python file as its syntax tree, without docstrings, types and the documentation of modules."""
    tree = WithoutTypes().visit(ast.parse(source))
    for node in ast.walk(tree):
        body = getattr(node, "body", None)
        if isinstance(body, list):
            body[:] = [each for each in body if not is_documentation(each)]
    return ast.dump(tree)


@cache
def content(path: Path) -> str:
    """The part of one file that counts."""
    if path.suffix in (".yml", ".yaml"):
        return json.dumps([for_the_machine(each) for each in yaml.load_all(path.read_text(), Loader)], sort_keys=True)
    if path.suffix == ".py":
        return without_documentation(path.read_text())
    return hashlib.sha256(path.read_bytes()).hexdigest()


def role_files(role: str) -> Iterator[Path]:
    """All of a role that a run reads; locks of environments are data of the plan."""
    for path in sorted((REPO_ROOT / "roles" / role).rglob("*")):
        if path.is_file() and path.suffix != ".md" and "locks" not in path.parts and "__pycache__" not in path.parts:
            yield path


def imports(path: Path) -> Iterator[Path]:
    """The files of this repository that a Python file names in its imports: modules, and packages on the way."""
    for node in ast.walk(ast.parse(path.read_text())):
        if not isinstance(node, ast.ImportFrom):
            continue
        module = node.module or ""
        if node.level:
            base = path.parents[node.level - 1] / module.replace(".", "/")
        elif module.startswith(COLLECTION):
            base = REPO_ROOT / module[len(COLLECTION) :].replace(".", "/")
        else:
            continue
        places = [base, *(base / each.name for each in node.names)]
        yield from (place.with_suffix(".py") for place in places if place.with_suffix(".py").is_file())
        yield from (place / "__init__.py" for place in places if (place / "__init__.py").is_file())


@cache
def imported(path: Path) -> frozenset[Path]:
    """A Python file and those of this repository that it imports, directly or indirectly."""
    found, todo = set(), [path]
    while todo:
        file = todo.pop()
        if file not in found:
            found.add(file)
            todo += imports(file)
    return frozenset(found)


def called(path: Path) -> list[str]:
    """Roles and plug-ins of this collection that a file of a role names."""
    return re.findall(r"gpuwright\.node\.([a-z_0-9]+)", path.read_text()) if path.suffix in (".yml", ".j2") else []


def roles_of(step: Step) -> list[str]:
    """The roles of a step and those that they call."""
    found, todo = set(), [] if step.command else [*ALWAYS, *step.roles]
    while todo:
        role = todo.pop()
        if role not in found:
            found.add(role)
            words = [word for path in role_files(role) for word in called(path)]
            todo += [word for word in words if (REPO_ROOT / "roles" / word).is_dir()]
    return sorted(found)


def exercised(step: Step) -> list[Path]:
    """Every file that a step's outcome depends on: its playbook, its roles and those that they call, their plug-ins."""
    if step.command:
        programs = [file for folder in step.programs for file in (REPO_ROOT / folder).rglob("*.py")]
        return sorted(set().union(*map(imported, programs)))
    files = {REPO_ROOT / "playbooks" / step.playbook}
    for role in roles_of(step):
        for path in role_files(role):
            files.add(path)
            for word in called(path):
                files |= plugins(word)
    return sorted(files)


def plugins(word: str) -> set[Path]:
    """The plug-ins of this name with all that they import; an action names the modules that it sends to the node."""
    files: set[Path] = set()
    for kind in KINDS:
        plugin = PLUGINS / kind / f"{word}.py"
        if plugin.is_file():
            files |= imported(plugin)
            names = re.findall(r'_execute_module\("gpuwright\.node\.(\w+)"', plugin.read_text())
            files |= set().union(*(plugins(name) for name in names if name != word))
    return files


def brought(step: Step) -> str:
    """12 hex digits of what a step copies to its host; how it does so is in `fingerprint`."""
    digest = hashlib.sha256()
    for role in roles_of(step):
        for path in sorted((REPO_ROOT / BROUGHT[role]).rglob("*.py")) if role in BROUGHT else ():
            digest.update(f"{path.relative_to(REPO_ROOT)}\0".encode() + path.read_bytes())
    return digest.hexdigest()[:12]


def fingerprint(step: Step) -> str:
    """12 hex digits that change when a pair of this step has to be tried again."""
    words = [step.command] if step.command else [step.words(), step.variables]
    digest = hashlib.sha256(json.dumps(words, sort_keys=True).encode())
    for path in exercised(step):
        digest.update(f"{path.relative_to(REPO_ROOT)}\0{content(path)}\0".encode())
    return digest.hexdigest()[:12]
