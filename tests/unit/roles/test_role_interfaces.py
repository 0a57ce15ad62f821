"""Defaults and argument_specs of every role say the same; roles decide no versions; names carry their role."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
import yaml
from play_roles import plays, roles_of

ROLES = sorted(path for path in (Path(__file__).resolve().parents[3] / "roles").iterdir() if path.is_dir())
TYPES = {"str": str, "bool": bool, "int": int, "float": float, "list": list, "dict": dict}


def load(path: Path) -> dict:
    return (yaml.safe_load(path.read_text()) if path.exists() else None) or {}


def options(role: Path) -> dict[str, dict[str, Any]]:
    return load(role / "meta/argument_specs.yml")["argument_specs"]["main"]["options"]


@pytest.mark.parametrize("role", ROLES, ids=lambda role: role.name)
def test_defaults_and_specs_agree(role: Path) -> None:
    defaults = load(role / "defaults/main.yml")
    assert {name: option["default"] for name, option in options(role).items()} == defaults


@pytest.mark.parametrize("role", ROLES, ids=lambda role: role.name)
def test_options_are_typed_described_and_named_after_their_role(role: Path) -> None:
    for name, option in options(role).items():
        # What is said to the whole toolkit begins with its name; the role that asks for it has its specification.
        toolkit = role.name in ("preflight", "system_busy", "verify") and name.startswith("gpuwright_")
        assert name.startswith(f"{role.name}_") or toolkit
        assert len(option["description"]) > 10, name
        defaults = option["default"] if option["type"] == "list" else [option["default"]]
        assert {str(value) for value in defaults} <= {str(value) for value in option.get("choices", defaults)}, name
        assert isinstance(option["default"], TYPES[option["type"]]), name


@pytest.mark.parametrize("role", ROLES, ids=lambda role: role.name)
def test_every_default_has_a_comment(role: Path) -> None:
    file = role / "defaults/main.yml"
    lines = file.read_text().splitlines() if file.exists() else []
    for before, line in zip(lines, lines[1:], strict=False):
        if re.match(r"[a-z]\w*:", line):
            assert before.startswith("# "), f"{role.name}: {line}"


def task_files() -> list[Path]:
    return sorted(file for role in ROLES for file in role.glob("tasks/*.yml"))


# What compares versions, or decides by the name of a system what only the matrix should know.
VERSION_LOGIC = re.compile(
    r"\bis version|version_compare|\.split\(\s*'\.'|ansible_distribution|ansible_facts\.distribution"
    r"|(version|branch|stream|cuda|cudnn|python|pytorch|\bos\.(id|major))[\w.]*\)?(\s*\|\s*(int|float))?\s*"
    r"(<=|>=|<|>|==|!=)\s*['\"\d]"
)


def logic_files() -> list[Path]:
    folders = ("tasks", "vars", "handlers", "defaults")
    return sorted(file for role in ROLES for folder in folders for file in role.glob(f"{folder}/*.yml"))


@pytest.mark.parametrize("file", logic_files(), ids=lambda file: "/".join(file.parts[-3:]))
def test_roles_hold_no_version_logic(file: Path) -> None:
    """Versions are compared in gpu_plan and nowhere else."""
    assert not VERSION_LOGIC.search(re.sub(r"(?m)#.*$", "", file.read_text()))


@pytest.mark.parametrize(
    "line",
    [
        "when: ansible_facts.gpu_node_plan.cuda.version is version('12', '<')",
        "when: ansible_facts.gpu_node.nvidia.loaded.version.split('.')[0] == '580'",
        "when: ansible_facts.gpu_node_plan.driver.branch | int >= 590",
        "when: ansible_facts.gpu_node_plan.python.version == '3.11'",
        "when: ansible_distribution == 'RedHat'",
        "when: ansible_facts.gpu_node.os.major >= 8",
    ],
)
def test_version_logic_is_recognised(line: str) -> None:
    assert VERSION_LOGIC.search(line)


@pytest.mark.parametrize("file", task_files(), ids=lambda file: f"{file.parents[1].name}/{file.name}")
def test_task_files_are_short_and_honest(file: Path) -> None:
    text = file.read_text()
    assert len(text.splitlines()) <= 75
    for silenced in ("ignore_errors", "ansible.builtin.shell", "disable_gpg_check", "validate_certs: false", "noqa"):
        assert silenced not in text
    tasks = yaml.safe_load(text)
    for task in walk(tasks):
        for module in ("copy", "template", "file", "get_url", "blockinfile", "yum_repository"):
            arguments = task.get(f"ansible.builtin.{module}", {})
            if arguments.get("state") in ("absent", "link") or "delegate_to" in task or not arguments:
                continue
            assert "owner" in arguments and "mode" in arguments, task["name"]


def walk(tasks: list[dict]) -> list[dict]:
    """All tasks of a file, those in blocks included."""
    found = []
    for task in tasks:
        found.append(task)
        for part in ("block", "rescue", "always"):
            found += walk(task.get(part, []))
    return found


def role_texts(role: Path) -> list[tuple[Path, str]]:
    files = [file for folder in ("tasks", "vars", "handlers", "templates") for file in role.glob(f"{folder}/**/*")]
    return [(file, file.read_text()) for file in files if file.is_file()]


OTHERS = {role.name: [other.name for other in ROLES if other.name != role.name] for role in ROLES}


@pytest.mark.parametrize("role", ROLES, ids=lambda role: role.name)
def test_no_role_reads_what_is_internal_to_another(role: Path) -> None:
    """What one role leaves for another has a name without __, and stands in its entry point's comment."""
    for file, text in role_texts(role):
        for name in re.findall(r"\b__([a-z]\w*)", text):
            longest = max(
                (other for other in [role.name, *OTHERS[role.name]] if name.startswith(f"{other}_")),
                key=len,
                default="",
            )
            assert longest in ("", role.name), f"{file}: __{name} is internal to {longest}"


@pytest.mark.parametrize("role", ROLES, ids=lambda role: role.name)
def test_a_default_stands_in_one_place(role: Path) -> None:
    """A variable of another role is asked for by gpuwright.node.setting, which knows its default."""
    public = {name for other in ROLES for name in options(other)}
    for file, text in role_texts(role):
        for name, value in re.findall(r"(?<![\w.'])([a-z]\w+) \| default\(([^)]*)\)", text):
            assert name not in public or value == "omit", f"{file}: {name} | default({value})"


def test_every_entry_point_has_a_spec() -> None:
    called = set()
    for role in ROLES:
        for file, text in role_texts(role):
            called |= set(re.findall(r"name: gpuwright\.node\.(\w+)\n\s+tasks_from: (\w+)", text))
            assert text.count("tasks_from:") == len(re.findall(r"name: gpuwright\.node\.\w+\n\s+tasks_from: ", text)), (
                file
            )
    assert len(called) >= 10
    for name, entry in called:
        specs = load(ROLES[0].parent / name / "meta/argument_specs.yml")["argument_specs"]
        assert entry in specs and specs[entry]["short_description"], f"{name}: {entry}"


LAYERS = ("system", "framework", "model", "verify")
FIRST = ("preflight", "operator_lock", "bundle")


@pytest.mark.parametrize("role", ROLES, ids=lambda role: role.name)
def test_a_role_that_reads_the_plan_makes_it(role: Path) -> None:
    """By its dependency; verify by a task, since its page needs no host."""
    meta = load(role / "meta/main.yml")
    depends = [entry["role"] for entry in meta["dependencies"]] == ["gpuwright.node.preflight"]
    first = load(role / "tasks" / ("ready.yml" if role.name == "verify" else "main.yml"))[0]
    asks = first.get("ansible.builtin.include_role", {}).get("name") == "gpuwright.node.preflight"
    assert meta["galaxy_info"]["license"] == "Apache-2.0" and meta["galaxy_info"]["description"]
    alone = {entry["role"] for name in LAYERS for play in plays(name) for entry in roles_of(play)}
    assert (depends or asks) == (f"gpuwright.node.{role.name}" in alone and role.name not in FIRST), role.name
