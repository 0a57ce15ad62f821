"""One file reaches inside Ansible, and what it does there is done with Ansible's own objects."""

from __future__ import annotations

import ast
import multiprocessing
import os
from collections.abc import Iterator
from pathlib import Path

from ansible.inventory.manager import InventoryManager
from ansible.parsing.dataloader import DataLoader
from ansible.vars.manager import VariableManager
from ansible_collections.gpuwright.node.plugins.plugin_utils import host_values, operator_run
from conftest import REPOSITORY

ONE = REPOSITORY / "plugins/plugin_utils/host_values.py"
FOLDERS = ("action", "callback", "filter", "lookup", "plugin_utils", "vars")
# What a callback and an action plug-in are given by those names, as Ansible documents them for their authors.
GIVEN = {"_result", "_task", "_host", "_role", "_uuid", "_shell", "_file_name", "_replace", "_asdict", "_fields"}
# Of these, nobody says that they stay; tasks are run by Ansible alone.
INSIDE = (
    "ansible._",
    "ansible.executor.task_queue_manager",
    "ansible.executor.process",
    "ansible.executor.play_iterator",
    "ansible.plugins.strategy",
)


def test_no_other_file_reaches_inside() -> None:
    files = [file for folder in FOLDERS for file in sorted((REPOSITORY / "plugins" / folder).rglob("*.py"))]
    assert {line for file in files if file != ONE for line in reaches(file)} == set()
    assert reaches(ONE)


def reaches(file: Path) -> set[str]:
    return set(_reaches(file))


def _reaches(file: Path) -> Iterator[str]:
    tree = ast.parse(file.read_text())
    own = {node.attr for node in ast.walk(tree) if isinstance(node, ast.Attribute) and _is_self(node.value)}
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and node.value.startswith("ansible._"):
            yield f"{file.relative_to(REPOSITORY)}: {node.value}"
        if isinstance(node, ast.ImportFrom) and str(node.module).startswith(INSIDE):
            yield f"{file.relative_to(REPOSITORY)}: {node.module}"
        if not isinstance(node, ast.Attribute) or not node.attr.startswith("_") or node.attr.startswith("__"):
            continue
        if not _is_self(node.value) and node.attr not in GIVEN | own and _is_foreign(node.attr):
            yield f"{file.relative_to(REPOSITORY)}: {ast.unparse(node)}"


def _is_self(node: ast.expr) -> bool:
    return isinstance(node, ast.Name) and node.id in ("self", "cls")


def _is_foreign(name: str) -> bool:
    """Whether no file of ours defines it: what one of our callbacks calls of another is no inside of Ansible."""
    return not any(f"def {name}(" in file.read_text() for file in (REPOSITORY / "plugins").rglob("*.py"))


def test_inventory_and_fact_cache_are_those_of_the_run() -> None:
    inventory = InventoryManager(DataLoader(), sources=["a,b,"])
    hosts = inventory.hosts
    manager = VariableManager(loader=DataLoader(), inventory=inventory)
    assert host_values.inventory_of(manager) is inventory and host_values.inventory_of(None) is None
    manager.set_host_facts("a", {"gpu_node": {"x": 1}, "gpu_node_plan": {}, "site": 1})
    manager.set_host_facts("b", {"site": 2})
    host_values.forget(manager, ["a", "b", "c"])
    facts = {name: manager.get_vars(host=hosts[name])["ansible_facts"] for name in "ab"}
    assert facts == {"a": {"site": 1}, "b": {"site": 2}}


def test_the_main_process_is_that_of_the_run_in_its_workers_too() -> None:
    """As Ansible forks them."""
    assert operator_run.main_pid() == os.getpid()
    context = multiprocessing.get_context("fork")
    reader, writer = context.Pipe(duplex=False)
    worker = context.Process(target=lambda: writer.send((operator_run.main_pid(), os.getpid())))
    worker.start()
    main, own = reader.recv()
    worker.join()
    assert main == os.getpid() != own
