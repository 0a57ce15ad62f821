"""The one play of a rollout has the roles, tags and variables of the five plays of site.yml."""

from __future__ import annotations

from typing import Any

import yaml
from conftest import REPOSITORY

LAYERS = ("system", "framework", "model", "verify")
FIRST = ["gpuwright.node.preflight", "gpuwright.node.operator_lock"]
# In each play that installs; in the rollout's one play, once.
BUNDLE = {"role": "gpuwright.node.bundle", "tags": ["always"]}
# Only the first play of site.yml checks hosts, as the rollout's one play does by default.
ONLY_LATER = {"preflight_host_checks": False}
# verify.yml by itself judges nodes that this version does not install; a rollout installs.
ONLY_JUDGED = {"preflight_judges_only": True}


def plays(name: str) -> list[dict[str, Any]]:
    return yaml.safe_load((REPOSITORY / f"playbooks/{name}.yml").read_text())


def roles_of(play: dict[str, Any]) -> list[dict[str, Any]]:
    """The roles that a play lists; those that it imports one after the other look like these."""
    imported = [task for task in play.get("tasks", []) if "ansible.builtin.import_role" in task]
    assert all(set(task) == {"name", "ansible.builtin.import_role", "tags"} for task in imported)
    names = [(task["ansible.builtin.import_role"]["name"], task["tags"]) for task in imported]
    return play.get("roles", []) + [{"role": name, "tags": tags} for name, tags in names]


def test_its_roles_are_those_of_the_layers_in_their_order() -> None:
    (rollout,) = plays("rollout_batches")
    imported = [entry["ansible.builtin.import_playbook"] for entry in plays("site")]
    assert imported == ["preflight.yml", *(f"{layer}.yml" for layer in LAYERS)]
    begin, own = rollout["roles"][:2], []
    assert [entry["role"] for entry in begin] == FIRST
    for layer in LAYERS:
        (play, *parts) = [play for play in plays(layer) if "hosts" in play]
        assert not parts or layer == "verify"
        assert roles_of(play)[:2] == begin
        own += [entry for entry in roles_of(play)[2:] if entry != BUNDLE]
        # Its one play is of all layers.
        left_out = (ONLY_LATER, ONLY_JUDGED, {"preflight_layer": layer})
        variables = {name: value for name, value in play["vars"].items() if {name: value} not in left_out}
        assert variables.items() <= rollout["vars"].items()
        for key in ("become", "gather_facts", "environment"):
            assert play[key] == rollout[key], (layer, key)
    assert rollout["roles"] == [*begin, BUNDLE, *own]


def test_the_parts_of_the_verification_are_those_of_its_role_in_their_order() -> None:
    tasks = [task for play in plays("verify") for task in play.get("tasks", [])]
    imported = [task["ansible.builtin.import_role"] for task in tasks]
    parts = [role["tasks_from"] for role in imported if role["name"] == "gpuwright.node.verify"]
    whole = yaml.safe_load((REPOSITORY / "roles/verify/tasks/main.yml").read_text())
    words = ("ansible.builtin.include_tasks", "ansible.builtin.import_tasks")
    assert [f"{part}.yml" for part in parts] == [task[word] for task in whole for word in words if word in task]


def test_the_environment_is_switched_when_site_yml_switches_it() -> None:
    (rollout,) = plays("rollout_batches")
    (framework,) = [entry for entry in plays("site") if entry.get("vars")]
    assert framework["vars"].items() <= rollout["vars"].items()


def test_both_turns_are_the_same_play() -> None:
    turns = plays("rollout")
    assert [turn["ansible.builtin.import_playbook"] for turn in turns] == ["rollout_batches.yml"] * 2
    assert [turn["vars"] for turn in turns] == [{"rollout_turn": "idle"}, {"rollout_turn": "busy"}]
