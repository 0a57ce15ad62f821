"""The Python that modules run under on a host: the system's own, which has its bindings, wherever a newer one lies."""

from __future__ import annotations

import importlib
from pathlib import Path
from typing import Any

import pytest
from ansible_collections.gpuwright.node.plugins.module_utils.host import os_family
from test_host_plan import Action, ask

LIST = "ansible_interpreter_python_fallback"
SYSTEM = ["/usr/libexec/platform-python", "/usr/bin/python3"]


@pytest.fixture
def discovered(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """What each module's call tells Ansible to look for, in this order."""
    told: list[Any] = []
    execute = Action._execute_module

    def note(self: Action, name: str, arguments: dict[str, Any], **options: Any) -> dict[str, Any]:
        told.append(options["task_vars"].get(LIST))
        return execute(self, name, arguments, **options)

    monkeypatch.setattr(Action, "_execute_module", note)
    return told


def test_the_system_s_own_comes_before_a_newer_one(discovered: list[Any]) -> None:
    ask()
    (names,) = discovered
    assert names[:2] == SYSTEM
    # A host that has neither is still reached.
    assert "python3.11" in names[2:] and "python3.12" in names[2:]


def test_a_site_s_own_list_stays(discovered: list[Any], monkeypatch: pytest.MonkeyPatch) -> None:
    ask(**{LIST: ["/opt/python/bin/python3"]})
    assert discovered == [["/opt/python/bin/python3"]]


BUNDLE = importlib.import_module("ansible_collections.gpuwright.node.plugins.modules.bundle_packages")


@pytest.mark.parametrize("again", [False, True])
def test_packages_of_a_bundle_are_found_under_dnf_s_own_python(
    again: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A second time would not help, and Ansible forbids it."""
    program, python = tmp_path / "dnf", tmp_path / "python3.9"
    program.write_text(f"#!{python} -s\n")
    for file in (program, python):
        file.touch()
        file.chmod(0o755)
    started: list[str] = []
    monkeypatch.setattr(os_family, "find_program", lambda name: str(tmp_path / name))
    monkeypatch.setattr(BUNDLE, "has_respawned", lambda: again)
    monkeypatch.setattr(BUNDLE, "respawn_module", started.append)
    BUNDLE.go_on_with_dnf()
    assert started == ([] if again else [str(python)])


def test_a_machine_without_dnf_goes_on_to_say_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os_family, "find_program", lambda name: None)
    BUNDLE.go_on_with_dnf()
