"""Every module documents exactly the options that it takes, and every example and return value is real YAML."""

from __future__ import annotations

import ast
import importlib
import unittest.mock
from pathlib import Path
from typing import Any

import pytest
import yaml
from ansible.plugins.action import ActionBase

LIBRARY = Path(__file__).resolve().parents[3] / "library"
MODULES = sorted(LIBRARY.glob("*.py"))
MOST_LINES = 200
FRAGMENTS = "ansible_collections.gpuwright.node.plugins.doc_fragments"
ACTIONS = "ansible_collections.gpuwright.node.plugins.action"
# Keys of a return value: https://docs.ansible.com/ansible-core/2.16/dev_guide/developing_modules_documenting.html
RETURNED = {"description", "returned", "type", "elements", "sample", "choices", "contains", "version_added"}
# Keys of an argument_spec that documentation repeats under the same name, with what Ansible takes when they are absent.
SHARED = {"type": "str", "required": False, "default": None, "choices": None, "elements": None, "aliases": []}


def constants(path: Path) -> dict[str, str]:
    """The module's top-level strings by name."""
    tree = ast.parse(path.read_text())
    found = {}
    for node in tree.body:
        if isinstance(node, ast.Assign) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str):
            found.update({target.id: node.value.value for target in node.targets if isinstance(target, ast.Name)})
    return found


class SpecTaken(Exception):
    """Carries what the module gave to AnsibleModule."""

    def __init__(self, arguments: dict[str, Any]) -> None:
        super().__init__("spec taken")
        self.arguments = arguments


def argument_spec(path: Path) -> dict[str, Any]:
    """The keyword arguments of the module's AnsibleModule call, taken by calling its main()."""

    def take_spec(*_args: Any, **arguments: Any) -> None:
        raise SpecTaken(arguments)

    source = path.read_text()
    space: dict[str, Any] = {"__name__": "module_under_test", "__file__": str(path)}
    exec(compile(source, str(path), "exec"), space)
    space["AnsibleModule"] = take_spec
    with pytest.raises(SpecTaken) as taken:
        space["main"]()
    return taken.value.arguments


@pytest.fixture(params=MODULES, ids=lambda path: path.stem)
def module(request: pytest.FixtureRequest) -> Path:
    return request.param


def documentation(path: Path) -> dict[str, Any]:
    """The module's own, with the options that its fragments have for several modules."""
    found = yaml.safe_load(constants(path)["DOCUMENTATION"])
    for name in found.get("extends_documentation_fragment", []):
        shared = importlib.import_module(f"{FRAGMENTS}.{name.rpartition('.')[2]}").ModuleDocFragment
        options = yaml.safe_load(shared.DOCUMENTATION).get("options", {})
        assert not set(options) & set(found.get("options", {})), f"{path.name} repeats what {name} has"
        found["options"] = {**options, **found.get("options", {})}
    return found


def differences(documented: dict[str, Any], taken: dict[str, Any], where: str = "") -> list[str]:
    """Sentences, one for each option or property on which documentation and argument_spec disagree."""
    found = [f"{where}{name} is taken but not documented" for name in sorted(set(taken) - set(documented))]
    found += [f"{where}{name} is documented but not taken" for name in sorted(set(documented) - set(taken))]
    for name in sorted(set(documented) & set(taken)):
        if not documented[name].get("description"):
            found.append(f"{where}{name} has no description")
        for key, absent in SHARED.items():
            said, meant = documented[name].get(key, absent), taken[name].get(key, absent)
            if said != meant or type(said) is not type(meant) and not isinstance(said, (int, float)):
                found.append(f"{where}{name}: {key} is documented as {said!r} and taken as {meant!r}")
        nested = documented[name].get("suboptions"), taken[name].get("options")
        if any(nested):
            found += differences(nested[0] or {}, nested[1] or {}, f"{where}{name}.")
    return found


def test_there_are_modules():
    assert MODULES


def test_a_module_is_thin(module):
    """Its documentation, its parameters and its answer; what it does lies in plugins/module_utils, where tests and
    gpu-doctor reach it without Ansible."""
    assert len(module.read_text().splitlines()) <= MOST_LINES


def test_the_documentation_names_the_module_and_says_what_it_does(module):
    said = documentation(module)
    assert said["module"] == module.stem
    assert said["short_description"] and not said["short_description"].endswith(".")
    assert said["description"]


def test_options_and_argument_spec_agree(module):
    said = documentation(module).get("options") or {}
    assert differences(said, argument_spec(module).get("argument_spec") or {}) == []


def options_of_the_action(name: str) -> Any:
    """What the action plug-in of this name takes, which does all the work of a module that only documents it."""
    action = importlib.import_module(f"{ACTIONS}.{name}")
    made = action.ActionModule(*(unittest.mock.MagicMock() for _argument in range(6)))
    with (
        unittest.mock.patch.object(ActionBase, "run", return_value={}),
        unittest.mock.patch.object(ActionBase, "validate_argument_spec", side_effect=SpecTaken({})) as taken,
        pytest.raises(SpecTaken),
    ):
        made.run(None, {"inventory_hostname": "n1"})
    return taken.call_args.args[0]


def test_a_module_that_only_documents_its_action_takes_the_same(module):
    if "runs on the controller" not in module.read_text().partition("def main")[2]:
        return
    assert argument_spec(module)["argument_spec"] == options_of_the_action(module.stem)


def test_every_module_supports_check_mode(module):
    assert argument_spec(module).get("supports_check_mode") is True


def test_the_examples_are_tasks_that_use_the_module_with_known_options(module):
    tasks = yaml.safe_load(constants(module)["EXAMPLES"])
    known = set(documentation(module).get("options") or {})
    name = f"gpuwright.node.{module.stem}"
    uses = [task[name] or {} for task in tasks if name in task]
    assert uses, "no example uses the module"
    assert all(task.get("name") for task in tasks)
    assert {option for use in uses for option in use} <= known


def unfinished_values(values: dict[str, Any], where: str = "") -> list[str]:
    """Return values without description or type, or with a key that is none, those inside `contains` included."""
    found = []
    for name, value in values.items():
        if not value.get("description") or not value.get("type"):
            found.append(f"{where}{name}")
        # A comma ends a text without quotes inside of braces, and what follows it is a key.
        found += [f"{where}{name}: {key}" for key in value if key not in RETURNED]
        found += unfinished_values(value.get("contains") or {}, f"{where}{name}.")
    return found


def test_every_return_value_has_description_and_type(module):
    values = yaml.safe_load(constants(module)["RETURN"])
    assert values and unfinished_values(values) == []


@pytest.mark.parametrize(
    ("documented", "taken", "words"),
    [
        ({}, {"a": {}}, "a is taken but not documented"),
        ({"a": {"description": "x"}}, {}, "a is documented but not taken"),
        ({"a": {}}, {"a": {}}, "a has no description"),
        ({"a": {"description": "x", "default": 30}}, {"a": {"default": 31}}, "default is documented as 30"),
        ({"a": {"description": "x"}}, {"a": {"required": True}}, "required is documented as False"),
        ({"a": {"description": "x"}}, {"a": {"type": "int"}}, "type is documented as 'str'"),
        (
            {"a": {"description": "x", "type": "dict", "suboptions": {"b": {"description": "y"}}}},
            {"a": {"type": "dict", "options": {}}},
            "a.b is documented but not taken",
        ),
    ],
)
def test_a_difference_is_seen(documented, taken, words):
    (sentence,) = differences(documented, taken)
    assert words in sentence
