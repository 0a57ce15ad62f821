"""What ansible-core 2.19 and newer no longer allow: texts of Python as templates, and names that are gone."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from ansible.errors import AnsibleUndefinedVariable
from ansible.parsing import vault
from ansible.parsing.dataloader import DataLoader
from ansible.template import Templar
from ansible_collections.gpuwright.node.plugins.plugin_utils import host_values as values
from ansible_collections.gpuwright.node.plugins.plugin_utils.rollout.digest import plan_digest
from ansible_collections.gpuwright.node.plugins.plugin_utils.variables.rules import variable_problems
from conftest import REPOSITORY

OF_THE_CONTROLLER = [
    file
    for folder in ("action", "callback", "filter", "lookup", "plugin_utils", "vars")
    for file in sorted((REPOSITORY / "plugins" / folder).rglob("*.py"))
]
# Deprecated or gone in a release that the toolkit works with.
GONE = (
    "set_temporary_context",
    "AnsibleVaultEncryptedUnicode",
    "AnsibleUnicode",
    "convert_data",
    "_available_variables",
)


def calls_of_template(file: Path) -> Iterator[ast.Call]:
    for node in ast.walk(ast.parse(file.read_text())):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == "template":
            yield node


def test_no_plug_in_makes_a_template_of_a_text_that_it_puts_together() -> None:
    found = {file.name: call for file in OF_THE_CONTROLLER for call in calls_of_template(file)}
    assert found
    for name, call in found.items():
        assert not isinstance(call.args[0], (ast.JoinedStr, ast.Constant, ast.BinOp)), f"{name}:{call.lineno}"


@pytest.mark.parametrize("word", GONE)
def test_no_plug_in_uses_what_is_gone(word: str) -> None:
    assert [file.name for file in OF_THE_CONTROLLER if word in file.read_text()] == []


def test_a_variable_is_read_by_its_name() -> None:
    known = {"outer": {"path": "{{ inner }}/x", "count": "{{ number }}"}, "inner": "/media", "number": 3}
    templar = Templar(DataLoader(), variables={})
    assert values.value_in(known, "outer", templar) == {"path": "/media/x", "count": 3}
    with pytest.raises(AnsibleUndefinedVariable, match="'nobody' is undefined"):
        values.value_in(known, "nobody", templar)
    with pytest.raises(AnsibleUndefinedVariable):
        values.value_in({"outer": "{{ gone }}"}, "outer", templar)


@pytest.fixture
def encrypted(tmp_path: Path) -> Any:
    """A value of an inventory, as Ansible reads it."""
    secret = ("default", vault.VaultSecret(b"password"))
    lines = vault.VaultLib([secret]).encrypt("580.95.05 secret").decode().splitlines()
    file = tmp_path / "vars.yml"
    file.write_text("one: !vault |\n" + "".join(f"  {line}\n" for line in lines))
    loader = DataLoader()
    loader.set_vault_secrets([secret])
    return loader.load_from_file(str(file))["one"]


def test_an_encrypted_value_counts_as_it_is_stored_and_is_not_shown(encrypted: Any) -> None:
    assert values.ciphertext_of(encrypted).startswith("$ANSIBLE_VAULT;1.1;AES256")
    assert values.ciphertext_of("$ANSIBLE_VAULT;1.1;AES256") == "" == values.ciphertext_of(3)
    other = plan_digest({"system_driver_version": "580.95.05 secret"}, ["system_driver"], "")
    assert plan_digest({"system_driver_version": encrypted}, ["system_driver"], "") != other
    specs = {"system_driver": {"system_driver_version": {"type": "str"}}}
    assert variable_problems({"system_driver_version": encrypted}, specs) == []
    assert "580.95.05 secret" in variable_problems({"system_driver_version": "580.95.05 secret"}, specs)[0]


def test_a_value_that_ansible_has_decrypted_is_still_one(monkeypatch: pytest.MonkeyPatch) -> None:
    """As since 2.19, where it is text with a tag."""

    def tagged(value: Any, with_tags: bool) -> str | None:
        return "$ANSIBLE_VAULT;..." if value == "plain" else None

    monkeypatch.setattr(values, "HELPER", SimpleNamespace(get_ciphertext=tagged))
    assert values.ciphertext_of("plain") == "$ANSIBLE_VAULT;..." and values.ciphertext_of("other") == ""


def test_a_lookup_in_a_value_sees_what_was_found_so_far() -> None:
    """As a bundle's question asks for the environment, which needs the plan that the same task has just decided."""
    templar = Templar(DataLoader(), variables={"plan": "old", "outer": "{{ inner }}"})
    known = {"plan": "new", "inner": "{{ lookup('vars', 'plan') }}", "outer": "{{ inner }}"}
    assert values.value_in(known, "outer", templar) == "new"
