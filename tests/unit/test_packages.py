"""The library's packages: layers without a cycle, as docs/architecture.md lists them, and what a node gets of them."""

from __future__ import annotations

import ast
import functools
import graphlib
import re
import shutil
import subprocess
from pathlib import Path

import pytest
import yaml
from ansible_collections.gpuwright.node.plugins.plugin_utils.trees import tree_files
from conftest import LONGEST, MODULE_UTILS, REPOSITORY
from gpuwright.checks.all import MODULES as CHECKED
from gpuwright.doctor.bundle.make import NOT_ON_NODES, identity
from module_files import load_file

architecture = load_file("tools/architecture.py")
CONTROLLER_MODULES, MODULES, NODE_MODULES = (
    architecture.CONTROLLER_MODULES,
    architecture.MODULES,
    architecture.NODE_MODULES,
)
graph, imports_of, package_of = architecture.graph, architecture.imports_of, architecture.package_of

LIBRARY = MODULE_UTILS / "gpuwright"
CONTROLLER = REPOSITORY / "plugins/plugin_utils"
UNIT = REPOSITORY / "tests/unit"
MOST_FILES = 25
TOOLS = sorted(REPOSITORY.glob("roles/*/files/gpu-*"))
OURS = "ansible_collections.gpuwright.node.plugins."
INSTALLED = "/usr/local/lib/gpuwright"


def listed() -> list[str]:
    """The packages of docs/architecture.md, in its order."""
    text = (REPOSITORY / "docs/architecture.md").read_text()
    section = text.partition("\n## Packages\n")[2].partition("\n## ")[0]
    return re.findall(r"^\| `(\w+)` \|", section, re.MULTILINE)


def test_the_library_imports_itself_by_relative_names_alone() -> None:
    """They hold in Ansible, on a node and in a collection alike."""
    for path in NODE_MODULES.values():
        for node in ast.walk(ast.parse(path.read_text())):
            names = [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
            names += [node.module or ""] if isinstance(node, ast.ImportFrom) and not node.level else []
            assert not [name for name in names if "gpuwright" in name], path


def test_no_name_is_used_on_both_sides() -> None:
    assert set(NODE_MODULES) & set(CONTROLLER_MODULES) == set()


def test_nothing_of_a_node_imports_what_the_controller_has() -> None:
    assert set().union(*graph(NODE_MODULES).values()) <= set(graph(NODE_MODULES))


def test_no_module_of_a_node_lies_flat() -> None:
    assert [name for name, path in NODE_MODULES.items() if path.parent == architecture.NODE] == []


def test_packages_have_no_cycle() -> None:
    graphlib.TopologicalSorter(graph()).prepare()


@functools.cache
def every_import() -> dict[str, set[str]]:
    """Of each file of plugins/ and library/, those that it imports: at its top or later, by importlib or for types."""
    folders = {"plugins": REPOSITORY / "plugins", "modules": REPOSITORY / "library"}
    files = {
        ".".join([*(["modules"] if top == "modules" else []), *architecture.name_of(path, folder).split(".")]): path
        for top, folder in folders.items()
        for path in folder.rglob("*.py")
        if folder / "modules" not in path.parents
    }

    def file_of(name: str) -> str:
        while name and name not in files:
            name = name.rpartition(".")[0]
        return name

    found = {}
    for name, path in files.items():
        package = (name if path.name == "__init__.py" else name.rpartition(".")[0]).split(".")
        names: set[str] = set()
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.ImportFrom):
                base = [OURS[:-1], *package[: len(package) + 1 - node.level]] if node.level else []
                names |= {".".join([*base, *filter(None, [node.module]), alias.name]) for alias in node.names}
            elif isinstance(node, ast.Import):
                names |= {alias.name for alias in node.names}
            elif isinstance(node, ast.Constant) and isinstance(node.value, str):
                names.add(node.value)
            elif isinstance(node, ast.Call) and ast.unparse(node.func).endswith("import_module"):
                assert isinstance(node.args[0], ast.Constant), f"{path}: what this imports cannot be seen"
        found[name] = {file_of(one.removeprefix(OURS)) for one in names if one.startswith(OURS)} - {name, ""}
    return found


def test_no_file_imports_itself_through_others() -> None:
    """CycleError names the circle."""
    found = every_import()
    assert len(found) > 500 and "plugin_utils.planning" in found["action.gpu_plan"]
    graphlib.TopologicalSorter(found).prepare()


def test_a_plug_in_is_a_face() -> None:
    """What one of them does is in plugin_utils, where others find it, which import no plug-in either."""
    folders = ("module_utils", "plugin_utils", "modules")
    wrong = {
        f"{name} imports {used}"
        for name, all_used in every_import().items()
        for used in all_used
        if used.partition(".")[0] not in folders
    }
    assert wrong == set()


def test_the_page_lists_each_package_below_those_that_it_imports() -> None:
    order, found = listed(), graph()
    assert sorted(order) == sorted(found)
    for place, package in enumerate(order):
        assert found[package] <= set(order[:place]), f"{package} imports a package that stands below it"


@pytest.mark.parametrize("top", [LIBRARY, CONTROLLER, UNIT], ids=["module_utils", "plugin_utils", "tests"])
def test_no_folder_has_more_than_25_files(top: Path) -> None:
    for folder in [path for path in [top, *top.rglob("*")] if path.is_dir() and path.name != "__pycache__"]:
        files = [path for path in folder.iterdir() if path.is_file() and path.suffix != ".pyc"]
        assert len(files) <= MOST_FILES, folder


def test_every_folder_is_a_package() -> None:
    """Without __init__.py a folder would be a namespace package, which anybody's folder of that name could join; it is
    empty, as ansible-test asks, and what a package holds stands in the table of the page."""
    for folder in {path.parent for path in MODULES.values()} - {CONTROLLER}:
        file = folder / "__init__.py"
        assert file.exists() and not file.read_text(), folder


def test_no_module_repeats_the_name_of_its_package() -> None:
    for name in MODULES:
        parent, _dot, last = name.rpartition(".")
        assert last != parent.rpartition(".")[2] and not last.startswith(parent.rpartition(".")[2] + "_"), name


ENDINGS = re.compile(r"(?<=....)(?:ments?|ings?|ions?|ates?|ated|ed|ers?|es?|s|d)$")


def test_no_two_files_of_a_folder_differ_by_an_ending() -> None:
    """As calibrate.py and calibrated.py once did: which of them does what could only be guessed."""
    for folder in {path.parent for path in [*MODULES.values(), *(REPOSITORY / "library").glob("*.py")]}:
        beginnings: dict[str, list[str]] = {}
        for path in folder.glob("*.py"):
            beginnings.setdefault("_".join(ENDINGS.sub("", word) for word in path.stem.split("_")), []).append(
                path.stem
            )
        assert [names for names in beginnings.values() if len(names) > 1] == [], folder


def test_few_files_have_a_name_that_fits_any() -> None:
    """A check's file may, since it is named by the check's id; `host/files.py` has the name by which all know it."""
    general = ("files", "record", "utils", "helpers", "common", "misc", "tools")
    named = {name for name in MODULES if name.rpartition(".")[2] in general and not name.startswith("checks.")}
    assert named == {"host.files", "operator.record"}


def test_the_id_of_a_check_says_where_it_is() -> None:
    """`gpu.count` in the folder checks/gpu; a family of one module may be that module, checks/<family>.py."""
    for module in CHECKED:
        for check in module.CHECKS:
            assert module.__name__.split(".")[:3] == ["gpuwright", "checks", check.id.partition(".")[0]], check.id


def test_tests_lie_in_folders_of_the_packages_names() -> None:
    names = {path.parent.relative_to(UNIT).parts[0] for path in UNIT.glob("*/**/test_*.py")}
    assert names <= {*graph(), "docs", "fleet", "gpu_evidence", "nodes", "playbooks", "roles", "schedulers"}


def test_the_longest_files_are_there() -> None:
    assert [name for name in LONGEST if not (UNIT / name).is_file()] == [] and len(set(LONGEST)) == len(LONGEST)


def imported_by_tools() -> set[str]:
    """Every module that a tool of the node can come to import."""
    waiting = [name for tool in TOOLS for name in re.findall(r"^from gpuwright\.(\S+) import", tool.read_text(), re.M)]
    found: set[str] = set()
    while waiting:
        name = waiting.pop()
        if name not in found:
            found.add(name)
            waiting += imports_of(name)
    return found


def test_a_node_gets_the_packages_that_its_tools_import_and_no_other() -> None:
    variables = yaml.safe_load((REPOSITORY / "roles/system_runtime/vars/main.yml").read_text())
    tasks = (REPOSITORY / "roles/system_runtime/tasks/tools.yml").read_text()
    assert "tree_files(__system_runtime_not_on_nodes)" in tasks
    assert {path.name for path in TOOLS} == {"gpu-doctor", "gpu-job", "gpu-run", "gpu-tune"}
    needed = {package_of(name) for name in imported_by_tools()}
    assert variables["__system_runtime_not_on_nodes"] == sorted(set(graph(NODE_MODULES)) - needed) == list(NOT_ON_NODES)


@pytest.fixture
def installed(tmp_path: Path) -> Path:
    """The library as the role's task installs it."""
    for name, text in tree_files(str(LIBRARY), NOT_ON_NODES).items():
        file = tmp_path / "library/gpuwright" / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)
    return tmp_path / "library"


@pytest.mark.parametrize("tool", TOOLS, ids=lambda tool: tool.name)
def test_the_tools_start_from_what_a_node_gets(tool: Path, installed: Path, node_python: str) -> None:
    text = tool.read_text()
    assert INSTALLED in text and "/usr/libexec/platform-python" in text
    program = installed.parent / tool.name
    program.write_text(text.replace(INSTALLED, str(installed)).replace("/usr/libexec/platform-python", node_python))
    done = subprocess.run(["/bin/sh", str(program), "--help"], capture_output=True, text=True, timeout=60)
    assert (done.returncode, done.stderr) == (0, "") and tool.name in done.stdout


def test_a_node_s_library_is_known_as_that_of_the_checkout(installed: Path, tmp_path: Path) -> None:
    """A bundle of this release is judged by what the node itself saw, whoever judges it."""
    assert identity(str(installed / "gpuwright")) == identity()
    copy = tmp_path / "copy"
    shutil.copytree(LIBRARY, copy, ignore=shutil.ignore_patterns("__pycache__"))
    (copy / "preflight/host_checks.py").write_text("")
    assert identity(str(copy)) == identity()
    (copy / "gpu/xid/table.py").write_text("")
    assert identity(str(copy)) != identity()
