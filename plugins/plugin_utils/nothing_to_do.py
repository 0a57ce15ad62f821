# SPDX-License-Identifier: Apache-2.0
"""Whether a host has nothing to do: from what a run decides, when that is noted down, and whether it is as it was then.

A whole run of site.yml that leaves a node as it found it has nothing to do there. gpu_verify then keeps its stamp
(module_utils/first_record/stamp.py): one checksum of all that the run was decided by, and digests of the node itself.
"""

from __future__ import annotations

import functools
import hashlib
import json
import platform
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

import ansible
from ansible import context
from ansible.module_utils.parsing.convert_bool import boolean

from . import trainer_wheel
from .host_values import facts_of, is_of_another_run, needed_fact
from .layers import INSTALLED
from .layers import ROLES as SETTLING
from .plan.asked import REPOSITORY_SETTINGS
from .role_options import ROLES, defaults, role_specs
from .started import STARTED_AS

# They decide whether a host is left out, and nothing of what the others do; a bundle works by the others' own settings.
OF_EVERY_PLAY = ("operator_lock", "preflight", "bundle")
# A longer text is no path.
MOST_CHARACTERS = 1024
PLUGINS = ("action", "filter", "lookup", "module_utils", "modules", "plugin_utils")
INCLUDED = re.compile(r"name: gpuwright\.node\.(\w+)")
ASKED = re.compile(r"gpuwright\.node\.setting', '(\w+)'")
# The lookup asks for settings by itself.
REPOSITORIES = "gpuwright.node.asked', 'repositories'"
# Facts of the probe that change while nobody changes the node, or that only this decision uses.
VOLATILE = ("disks", "in_use", "kept_plan", "last_verdict", "lock", "settled")
# The same, wherever they are: a virtual machine's host lends it more or less memory (a balloon), and the link of a card
# is slower while the card idles. No role decides anything by them, and the plan is compared as a whole.
MEASURED = ("memory_mib", "speed_now", "width_now")
PASSED = ("PASS", "WARN")
# With these, Ansible leaves tasks out that a plain run has, or changes nothing.
PARTIAL = ("check", "start_at_task", "step")
# A role that leaves something for another run says so: an environment in use, a step that would end somebody's work.
LATER = re.compile(r"__\w+_later")
DONE = "__preflight_layers_done"
# What playbooks/verify.yml gives to its verification, which is the last step of the run on a host; no rollout does.
ENDS = "gpu_run_ends"
# Variables with accounts of the node.
ACCOUNTS = re.compile(r"\w+_(users?|group|researchers)")
ACCOUNT = re.compile(r"[a-z_][a-z0-9_.-]{0,31}\$?")


@functools.cache
def settled_roles(roles: Path = ROLES) -> tuple[str, ...]:
    """The roles of the layers and those that their tasks include, directly or not, sorted."""
    found: set[str] = set()
    todo = list(SETTLING)
    while todo:
        name = todo.pop()
        if name not in found:
            found.add(name)
            todo += INCLUDED.findall(_text(roles / name))
    return tuple(sorted(found))


@functools.cache
def settings(roles: Path = ROLES) -> tuple[str, ...]:
    """Names of the public variables that these roles take or ask for, sorted."""
    return tuple(sorted(_options(roles)))


@functools.cache
def _options(roles: Path) -> dict[str, bool]:
    """`{public variable: whether its value is a secret}`."""
    names: dict[str, bool] = {}
    specs = role_specs(roles)
    secret = {name for each in specs.values() for entry in each.values()
              for name, option in entry.get("options", {}).items() if option.get("no_log")}  # fmt: skip
    for one in set(settled_roles(roles)) - set(OF_EVERY_PLAY):
        text = _text(roles / one)
        asked = [*ASKED.findall(text), *(REPOSITORY_SETTINGS if REPOSITORIES in text else ())]
        for entry in specs[one].values():
            asked += entry.get("options", {})
        names.update({name: name in secret for name in asked})
    return names


@functools.cache
def code(roles: Path = ROLES) -> str:
    """Checksum of what a run is made from: roles, playbooks, plug-ins, Ansible, Python, how it was started, wheel."""
    folders = [roles / name for name in settled_roles(roles)]
    folders += [roles.parent / "plugins" / name for name in PLUGINS] + [roles.parent / "playbooks"]
    parts = [ansible.__version__, platform.python_version(), STARTED_AS, *map(_checksum, folders), _trainer()]
    return _sha("\n".join(parts).encode())


def prepare() -> None:
    """Work out what is the same for every host, in the process that forks the workers; each would do it anew."""
    settings(ROLES)
    code(ROLES)


def decided(known: Mapping[str, Any], templar: Any, environment: object) -> dict[str, Any]:
    """For the host with these variables and an environment of that name, whether it has something to do.

    `{roles, all, inputs, names, play, judges_only}`: which play has read it, and whether only to judge.
    """
    node = needed_fact(known, "gpu_node")
    plan = {**needed_fact(known, "gpu_node_plan"), "environment": environment}
    folders = [str(known.get(name) or "") for name in ("playbook_dir", "inventory_dir")]

    def value_of(name: str) -> Any:
        return templar.template(known.get(name, defaults().get(name)))

    question = question_of(value_of, plan, node, folders)
    asked_anyway = bool(known.get("ansible_check_mode")) or boolean(value_of("gpuwright_full"), strict=False)
    settled = not asked_anyway and is_settled(node, question["inputs"])
    read = {
        "play": str(known.get("ansible_play_name") or ""),
        "judges_only": boolean(value_of("preflight_judges_only"), strict=False),
    }
    return {"roles": list(SETTLING) if settled else [], "all": settled, **question, **read}


def question_of(
    value_of: Callable[[str], Any],
    plan: Mapping[str, Any],
    node: Mapping[str, Any],
    folders: Iterable[str] = (),
    roles: Path = ROLES,
) -> dict[str, Any]:
    """`{inputs, names}`: checksum of all that a run is decided by, and what of the node it names.

    value_of  gives the value of a public variable
    folders   of the controller, in which files that values name are looked for, besides the current one
    """
    values = {name: value_of(name) for name in settings(roles)}
    facts = _steady({name: value for name, value in node.items() if name not in VOLATILE})
    # Warnings are words for people, and one of them counts days.
    plan = {name: value for name, value in plan.items() if name != "warnings"}
    record = {
        "code": code(roles),
        "settings": values,
        "files": _files(values.values(), ("", *folders)),
        "plan": plan,
        "node": facts,
    }
    inputs = _sha(json.dumps(record, sort_keys=True, default=str).encode())
    return {"inputs": inputs, "names": _names(values, plan, roles)}


def _names(values: Mapping[str, Any], plan: Mapping[str, Any], roles: Path) -> list[str]:
    """Accounts and absolute paths that settings and plan name; what may be a secret is not among them."""
    secret = _options(roles)
    told = {name: list(_texts(value)) for name, value in values.items() if not secret[name]}
    found = {text for texts in [*told.values(), list(_texts(plan))] for text in texts if _is_path(text)}
    found |= {text for name, texts in told.items() if ACCOUNTS.fullmatch(name) for text in texts
              if ACCOUNT.fullmatch(text)}  # fmt: skip
    return sorted(found)


def _is_path(text: str) -> bool:
    return text.startswith("/") and len(text) < MOST_CHARACTERS and text.isprintable()


def _texts(value: Any) -> Iterator[str]:
    if isinstance(value, Mapping):
        value = list(value.values())
    if isinstance(value, (list, tuple)):
        for one in value:
            yield from _texts(one)
    elif isinstance(value, str):
        yield str(value)


def is_settled(node: Mapping[str, Any], inputs: str) -> bool:
    """Whether the host has nothing to do. `node` is gpu_node with `settled`, the stamp that the probe has compared."""
    if (node.get("last_verdict") or {}).get("verdict") not in PASSED or node["reboot"]["required"]:
        return False
    stamp = node.get("settled") or {}
    return bool(stamp) and stamp["inputs"] == inputs and not stamp["changed"]


def wanted_stamp(variables: Mapping[str, Any]) -> dict[str, Any]:
    """`{inputs, names}` if this run has worked through every role of every layer on this host, to its end; else {}.

    variables  of the host, at the end of site.yml. Whether it changed anything, only the node knows.
    """
    facts = facts_of(variables)
    decision = facts.get("gpu_node_settled") or {}
    whole = list(variables.get(DONE) or ()) == list(INSTALLED) and _is_plain(variables)
    # Ansible leaves this variable after a task that failed and was rescued.
    smooth = "ansible_failed_task" not in variables and not any(
        value for name, value in variables.items() if LATER.fullmatch(name)
    )
    due = ((facts.get("gpu_node") or {}).get("reboot") or {}).get("required")
    if not (whole and smooth and decision.get("inputs")) or due:
        return {}
    return {"inputs": decision["inputs"], "names": decision["names"]}


def may_rely(variables: Mapping[str, Any]) -> bool:
    """Whether the last smoke test may be taken for the present: in a whole run of site.yml with nothing to do here.

    Whether it still holds, only the node knows.
    """
    facts = facts_of(variables)
    settled = (facts.get("gpu_node_settled") or {}).get("all") is True and not is_of_another_run(facts)
    if not settled:
        return False
    # By itself, verify.yml reads the hosts to judge them only; before it, the first play of site.yml has read them.
    whole = variables.get(ENDS) is True and facts["gpu_node_settled"].get("judges_only") is False
    return whole and _is_plain(variables)


def _is_plain(variables: Mapping[str, Any]) -> bool:
    """Whether the run leaves out no task by options or tags, and changes what it finds."""
    return (
        not any(context.CLIARGS.get(option) for option in PARTIAL)
        and not variables.get("ansible_check_mode")
        and list(variables.get("ansible_run_tags") or ()) == ["all"]
        # No task of a role has the tag never, so skipping it leaves nothing out.
        and not set(variables.get("ansible_skip_tags") or ()) - {"never"}
    )


def _steady(facts: Any) -> Any:
    """The facts without what is MEASURED."""
    if isinstance(facts, Mapping):
        return {name: _steady(value) for name, value in facts.items() if name not in MEASURED}
    return [_steady(value) for value in facts] if isinstance(facts, (list, tuple)) else facts


def _files(values: Iterable[Any], folders: Iterable[str]) -> dict[str, str]:
    """Checksums of the controller's files that values name, such as a lock file."""
    found = {}
    for value in values:
        if isinstance(value, Mapping):
            found.update(_files(value.values(), folders))
        elif isinstance(value, (list, tuple)):
            found.update(_files(value, folders))
        elif (
            isinstance(value, str)
            and value
            and "\0" not in value
            and "\n" not in value
            and len(value) < MOST_CHARACTERS
        ):
            paths = [Path(folder) / Path(value).expanduser() for folder in folders]
            found.update({str(path): _sha(path.read_bytes()) for path in paths if path.is_file()})
    return found


def _trainer() -> str:
    try:
        return trainer_wheel.source_digest()
    except FileNotFoundError as error:
        # The role says what to do about it, where it is entered.
        return str(error)


@functools.cache
def _text(role: Path) -> str:
    files = sorted(path for path in role.rglob("*.yml") if "files" not in path.relative_to(role).parts)
    return "\n".join(path.read_text("utf-8") for path in files)


@functools.cache
def _checksum(folder: Path) -> str:
    """Names and contents of the folder's files, without Python's caches."""
    files = sorted(path for path in folder.rglob("*") if path.is_file() and "__pycache__" not in path.parts)
    return _sha("\n".join(f"{path.relative_to(folder)} {_sha(path.read_bytes())}" for path in files).encode())


def _sha(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()
