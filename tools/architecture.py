"""Write the picture and tables of docs/architecture.md that are made from the code (`make docs`).

The flow comes from playbooks/site.yml and the roles of each playbook, the packages from the imports of
plugins/module_utils and plugins/plugin_utils. What a package holds is written by hand.
tests/unit/docs/test_architecture_page.py finds drift.
"""

from __future__ import annotations

import ast
import functools
import re
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Any

import yaml

REPOSITORY = Path(__file__).resolve().parents[1]
PAGE = REPOSITORY / "docs/architecture.md"
PLAYBOOKS = REPOSITORY / "playbooks"
NODE = REPOSITORY / "plugins/module_utils"
CONTROLLER = REPOSITORY / "plugins/plugin_utils"
PREFIX = "gpuwright.node."
# How plug-ins import either folder: by the full name of the collection.
FULL = re.compile(r"ansible_collections\.gpuwright\.node\.plugins\.(?:module|plugin)_utils\.?(.*)")
MISSING = "?"
Graph = Mapping[str, Collection[str]]


def name_of(path: Path, top: Path) -> str:
    """Dotted name below the folder; for a package, that of its folder."""
    parts = path.relative_to(top).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def modules_of(top: Path) -> dict[str, Path]:
    return {name_of(path, top): path for path in top.rglob("*.py") if path != top / "__init__.py"}


NODE_MODULES = modules_of(NODE)
CONTROLLER_MODULES = modules_of(CONTROLLER)
MODULES = {**NODE_MODULES, **CONTROLLER_MODULES}


@functools.cache
def imports_of(name: str) -> set[str]:
    """Modules of the two folders that this one imports, at its top or later."""
    package = (name if MODULES[name].name == "__init__.py" else name.rpartition(".")[0]).split(".")
    found = set()
    for node in ast.walk(ast.parse(MODULES[name].read_text())):
        if isinstance(node, ast.ImportFrom):
            full = FULL.fullmatch(node.module or "")
            if not node.level and not full:
                continue
            base = [*package[: len(package) + 1 - node.level], *(node.module or "").split(".")]
            base = full.group(1).split(".") if full else base
            names = {".".join([*filter(None, base), alias.name]) for alias in node.names}
            found |= {full if full in MODULES else full.rpartition(".")[0] for full in names}
    return found


def package_of(name: str) -> str:
    return name.partition(".")[0]


def graph(modules: Collection[str] = MODULES) -> dict[str, set[str]]:
    """Package: the other packages that its modules import."""
    found: dict[str, set[str]] = {}
    for name in modules:
        package = package_of(name)
        found.setdefault(package, set()).update({package_of(used) for used in imports_of(name)} - {package})
    return found


def lowest_first(packages: Graph, before: list[str]) -> list[str]:
    """Each package after those that it imports, otherwise in the order of `before`. ValueError names a cycle."""
    waiting = sorted(packages, key=lambda name: (before.index(name) if name in before else len(before), name))
    order: list[str] = []
    while waiting:
        ready = next((name for name in waiting if not (set(packages[name]) & set(packages)) - set(order)), None)
        if ready is None:
            raise ValueError(f"The packages {', '.join(waiting)} import each other in a circle.")
        order.append(ready)
        waiting.remove(ready)
    return order


def table(packages: Graph, order: list[str], text: str) -> str:
    """Rows of `packages` (a part of `order`); what they hold is taken from the table in `text`."""
    held = dict(re.findall(r"(?m)^\| `(\w+)` \| (.+) \|$", text))
    rows = [f"| `{name}` | {held.get(name, MISSING)} |" for name in order if name in packages]
    return "\n".join(["| package | holds |", "|---|---|", *rows])


def plays() -> dict[str, list[dict[str, Any]]]:
    """The playbooks that playbooks/site.yml imports, in this order, each with its plays."""
    imported = [
        play["ansible.builtin.import_playbook"] for play in yaml.safe_load((PLAYBOOKS / "site.yml").read_text())
    ]
    return {Path(name).stem: yaml.safe_load((PLAYBOOKS / name).read_text()) for name in imported}


def roles_of(play: Mapping[str, Any]) -> list[str]:
    """The roles that a play lists, or imports one after the other, in a block or not."""
    tasks = [one for task in play.get("tasks", []) for one in task.get("block", [task])]
    imported = [task.get("ansible.builtin.import_role") for task in tasks]
    return [role["role"] for role in play.get("roles", [])] + [role["name"] for role in imported if role]


def flow(found: Mapping[str, list[dict[str, Any]]]) -> str:
    """One box for each playbook of a run, with its roles in order; those with which every play begins come first."""
    roles = {
        name: list(dict.fromkeys(role.removeprefix(PREFIX) for play in book for role in roles_of(play)))
        for name, book in found.items()
    }
    common = [role for role in next(iter(roles.values())) if all(role in names for names in roles.values())]
    lines = ["```mermaid", "flowchart LR"]
    for name, names in roles.items():
        own = [role for role in names if role not in common] or ["changes nothing"]
        lines.append(f'  {name}["<b>{name}.yml</b><br/>{"<br/>".join(own)}"]')
    lines += [f"  {first} --> {second}" for first, second in zip(roles, list(roles)[1:], strict=False)]
    begin = " and ".join(f"`{role}`" for role in common)
    return "\n".join([*lines, "```", "", f"Every play begins with {begin}, which is left out above."])


def between(text: str, name: str) -> str:
    found = re.search(rf"(?s)<!-- {name}: .*?-->\n(.*?)\n<!-- end of {name} -->", text)
    if not found:
        raise ValueError(f"{PAGE.name} has no part between `<!-- {name}: ... -->` and `<!-- end of {name} -->`.")
    return found[1]


def page(text: str, packages: Graph, found: Mapping[str, list[dict[str, Any]]]) -> str:
    """The whole page: `text` with its generated parts for these packages and plays."""
    held = between(text, "packages")
    before = re.findall(r"(?m)^\| `(\w+)` \| .+ \|$", held)
    order = lowest_first(packages, before)
    on_nodes = {package_of(name) for name in NODE_MODULES}
    tables = [
        table({name: used for name, used in packages.items() if (name in on_nodes) is node}, order, held)
        for node in (True, False)
    ]
    between_tables = (
        "`plugins/plugin_utils/` runs only on the controller, on its Python 3.10 or newer, and imports "
        "the packages above by their full names:"
    )
    parts = {
        "flow": flow(found),
        "packages": "\n\n".join([tables[0], between_tables, tables[1]]),
    }
    for name, made in parts.items():
        text = text.replace(f"-->\n{between(text, name)}\n<!-- end of {name}", f"-->\n{made}\n<!-- end of {name}")
    return text


if __name__ == "__main__":
    PAGE.write_text(page(PAGE.read_text(), graph(), plays()))
