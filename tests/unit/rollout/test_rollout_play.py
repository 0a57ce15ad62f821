"""The one play of a rollout, an upgrade and a patch day; what it brings to a host is what the plays of site.yml do."""

from __future__ import annotations

import re
from typing import Any

import pytest
import yaml
from ansible_collections.gpuwright.node.plugins.plugin_utils.layers import INSTALLED
from ansible_collections.gpuwright.node.plugins.plugin_utils.layers import LAYERS as ROLES
from conftest import REPOSITORY
from play_roles import plays, roles_of

LAYERS = ("system", "framework", "model", "verify")
FIRST = ["gpuwright.node.preflight", "gpuwright.node.operator_lock", "gpuwright.node.bundle"]
# Only the first play of site.yml checks hosts, as the rollout's one play does by default.
ONLY_LATER = {"preflight_host_checks": False}
# verify.yml by itself judges nodes that this version does not install; a rollout installs.
ONLY_JUDGED = {"preflight_judges_only": True}


@pytest.mark.parametrize("layer", ["system", "framework", "model"])
def test_handlers_of_a_layer_run_while_its_lock_is_held(layer: str) -> None:
    """Ansible would run them at the end of the play, when somebody else may have the host."""
    play = next(play for play in plays(layer) if "hosts" in play)
    notifying = [role for role in (entry["role"].rpartition(".")[2] for entry in roles_of(play)) if handlers(role)]
    (whole,) = [task for task in play["tasks"] if "always" in task] or [{"block": play["tasks"]}]
    flushes = [task.get("ansible.builtin.meta") for task in whole["block"]]
    after = flushes[max(place for place, task in enumerate(whole["block"]) if "ansible.builtin.import_role" in task) :]
    assert not notifying or "flush_handlers" in after, notifying


def test_handlers_of_a_batch_run_before_its_host_is_given_back() -> None:
    (whole,) = plays("rollout")[0]["tasks"]
    work, flush, finish = whole["block"][1:]
    assert work["ansible.builtin.include_role"]["name"] == "gpuwright.node.{{ rollout_role }}"
    assert flush["ansible.builtin.meta"] == "flush_handlers"
    assert finish["ansible.builtin.include_role"]["tasks_from"] == "finish"


def handlers(role: str) -> bool:
    return (REPOSITORY / f"roles/{role}/handlers/main.yml").exists()


def own_roles(layer: str) -> list[dict[str, Any]]:
    """Those of the first play of a layer, without those with which every play begins."""
    play = next(play for play in plays(layer) if "hosts" in play)
    return [entry for entry in roles_of(play) if entry["role"] not in FIRST]


def imported(play: dict[str, Any]) -> list[str]:
    tasks = [task["ansible.builtin.import_role"] for task in play["tasks"] if "ansible.builtin.import_role" in task]
    return [role["name"] for role in tasks]


def ready(rollout: dict[str, Any]) -> dict[str, Any]:
    """The block that takes a host."""
    (whole,) = rollout["tasks"]
    return whole["block"][0]


def test_a_host_is_taken_where_what_fails_gives_it_back() -> None:
    """A drain outside of this block would stay, and the next run would do the same again."""
    rollout = plays("rollout")[0]
    (whole,) = rollout["tasks"]
    takes = {"name": "gpuwright.node.rollout", "tasks_from": "take"}
    assert [task for task in ready(rollout)["block"] if task.get("ansible.builtin.import_role") == takes]
    assert not [task for task in rollout["pre_tasks"] if task.get("ansible.builtin.import_role") == takes]
    (back,) = ready(rollout)["rescue"]
    assert back["ansible.builtin.include_role"]["tasks_from"] == "not_begun"
    assert whole["always"][0]["ansible.builtin.include_role"]["tasks_from"] == "release"
    assert not {"roles", "post_tasks", "handlers"} & set(rollout)


def test_the_layers_are_those_of_the_one_list_in_their_order() -> None:
    imported = [entry["ansible.builtin.import_playbook"] for entry in plays("site")]
    assert imported == [f"{layer}.yml" for layer in ROLES] == ["preflight.yml", *(f"{layer}.yml" for layer in LAYERS)]
    for layer, roles in ROLES.items():
        listed = [] if layer == "preflight" else [entry["role"] for entry in own_roles(layer)]
        assert listed == [f"gpuwright.node.{role}" for role in roles], layer


def test_no_other_file_lists_them() -> None:
    """Of those that are not plays: a second list would be forgotten where a role is added."""
    roles = [role for names in INSTALLED.values() for role in names]
    files = [file for folder in ("plugins", "roles", "tools") for file in (REPOSITORY / folder).rglob("*.*")]
    texts = {file: file.read_text() for file in files if file.suffix in (".py", ".yml", ".j2") and file.is_file()}
    listing = {str(file.relative_to(REPOSITORY)) for file, text in texts.items() if all(role in text for role in roles)}
    assert listing == {"plugins/plugin_utils/layers.py", "roles/rollout/tasks/layers.yml"}


def test_what_it_brings_to_a_host_is_that_of_the_layers_in_their_order() -> None:
    tasks = yaml.safe_load((REPOSITORY / "roles/rollout/tasks/layers.yml").read_text())
    brought = [
        {
            "role": task["ansible.builtin.import_role"]["name"],
            **{key: task[key] for key in ("tags", "when") if key in task},
        }
        for task in tasks
    ]
    assert brought == [entry for layer in LAYERS for entry in own_roles(layer)]


@pytest.mark.parametrize("layer", LAYERS)
def test_its_variables_are_those_of_the_layers(layer: str) -> None:
    rollout = plays("rollout")[0]
    play = next(play for play in plays(layer) if "hosts" in play)
    left_out = (ONLY_LATER, ONLY_JUDGED, {"preflight_layer": layer})
    variables = {name: value for name, value in play["vars"].items() if {name: value} not in left_out}
    assert variables.items() <= rollout["vars"].items()
    first = {"tasks": [*rollout["pre_tasks"], *ready(rollout)["block"]]}
    # The lock twice: draining may take longer than a lease lasts without a call.
    again = [*FIRST[:2], "gpuwright.node.operator_lock", *FIRST[2:]]
    assert "roles" not in rollout and [name for name in imported(first) if name in FIRST] == again
    for key in ("become", "gather_facts", "environment"):
        assert play[key] == rollout[key], key


def test_the_parts_of_the_verification_are_those_of_its_role_in_their_order() -> None:
    tasks = [task for play in plays("verify") for task in play.get("tasks", [])]
    imported = [task["ansible.builtin.import_role"] for task in tasks]
    parts = [role["tasks_from"] for role in imported if role["name"] == "gpuwright.node.verify"]
    whole = yaml.safe_load((REPOSITORY / "roles/verify/tasks/main.yml").read_text())
    words = ("ansible.builtin.include_tasks", "ansible.builtin.import_tasks")
    assert [f"{part}.yml" for part in parts] == [task[word] for task in whole for word in words if word in task]


def test_the_environment_is_switched_when_site_yml_switches_it() -> None:
    (framework,) = [entry for entry in plays("site") if entry.get("vars")]
    assert framework["vars"].items() <= plays("rollout")[0]["vars"].items()


def test_both_turns_are_the_same_play() -> None:
    idle, busy = plays("rollout")
    assert (idle["vars"].pop("rollout_turn"), busy["vars"].pop("rollout_turn")) == ("idle", "busy")
    assert idle == busy


@pytest.mark.parametrize("name", ["upgrade", "patch"])
def test_what_differs_is_data(name: str) -> None:
    """They say what is due on all hosts, and change nothing by that; then they are a rollout with other variables."""
    first, rest = plays(name)
    assert [role.get("vars") for role in first["roles"]] == [None, {"operator_lock_take": False}]
    assert rest["ansible.builtin.import_playbook"] == "rollout.yml" and rest["vars"]["rollout_role"] == name
    own = {key for key in rest["vars"] if key.startswith("rollout_")}
    assert own <= set(plays("rollout")[0]["vars"]) and rest["vars"]["rollout_kind"]["whole"] is True


def test_no_task_leaves_a_value_under_the_name_of_one_of_its_variables() -> None:
    """What a task of the first turn registers or sets is there in the second one, and comes before the play's own."""
    left: set[str] = set()
    for file in REPOSITORY.glob("roles/*/tasks/*.yml"):
        text = file.read_text()
        left |= set(re.findall(r"register: (\w+)", text))
        left |= {
            name
            for block in re.findall(r"set_fact:\n((?: {4,}.*\n)+)", text)
            for name in re.findall(r"(?m)^ +(\w+):", block)
        }
    assert "rollout_look" in left and "patch_due" in left
    assert left & set(plays("rollout")[0]["vars"]) == set()
