# SPDX-License-Identifier: Apache-2.0
"""Check the variables of a host against the argument specs of the roles, before anything else is checked.

Ansible itself says nothing about a misspelt name, accepts -3 as a count, and reads an unquoted 8.10 as 8.1.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

from ansible.errors import AnsibleFilterError
from ansible.module_utils.common.arg_spec import ArgumentSpecValidator
from ansible_collections.gpuwright.node.plugins.plugin_utils.host_values import ciphertext_of
from ansible_collections.gpuwright.node.plugins.plugin_utils.role_options import ROLES, role_specs
from ansible_collections.gpuwright.node.plugins.plugin_utils.rollout.settings import KNOWN as ROLLOUT
from jinja2 import Undefined

# The value of a variable with such a name, or of a key in it, is never written into a message.
SECRET = re.compile(r"password|passwd|passphrase|secret|token", re.IGNORECASE)
TEMPLATE = re.compile(r"\{\{|\{%")
VERSION = re.compile(r"[0-9]+(\.[0-9]+)*([-+][A-Za-z0-9._+-]+)?")
# Of a part that a node may be without.
VERSION_OR_NONE = re.compile(rf"none|{VERSION.pattern}")
FINGERPRINT = re.compile(r"[0-9A-Fa-f]{40}")
# A login may be part of it only if its "/", "?" and "#" are encoded; otherwise it is unclear where the host begins.
URL = re.compile(
    r"file:///\S+|[a-z][a-z0-9+.-]*://([^\s/?#]*@)?(\[[0-9A-Fa-f:.]+\]|[A-Za-z0-9_.$-]+)(:[0-9]+)?([/?#]\S*)?"
)
AN_ADDRESS = "must be an address such as https://host/path/ (a login in it with %2F for /, %3F for ?, %23 for #)"
# Whatever is before an @ in a value that is shown, with or without an address.
LOGIN = re.compile(r"[^\s'\"]*@")
# Paths that systemd units contain unchanged: white space would end the path there, and % would begin a specifier.
UNIT_PATH = re.compile(r"/[^\s%'\"\\]*")
UNIT_PATH_SUFFIXES = ("_data_dir", "_runs_dir", "_textfile_dir")
# The lowest value of a number, by the end of its name. A count may be zero; a time may not.
LEAST = {
    "_count": (lambda number: number >= 0, "must be 0 or more"),
    "_hours": (lambda number: number >= 0, "must be 0 or more"),
    "_timeout": (lambda number: number > 0, "must be greater than 0"),
    "_wait_seconds": (lambda number: number >= 0, "must be 0 or more"),
    "_steps": (lambda number: number > 0, "must be greater than 0"),
}
# What Ansible calls int, bool, dict ... in words.
KINDS = {
    "int": "a whole number",
    "float": "a number",
    "bool": "true or false",
    "list": "a list, such as [one, two]",
    "dict": "names with their values, such as {name: value}",
    "path": "a path",
}
LONGEST_VALUE = 60
# Whose values have rules of their own, in variables/structured.py.
STRUCTURED = ("verify_skip_checks", "verify_expected_mig", "model_trainer_configs", "model_trainer_jobs")
# Variables for the run as a whole, set on the command line.
OF_THE_RUN = ("gpuwright_hosts", "gpuwright_lock", *ROLLOUT)
# Names from earlier releases; they are refused, so that nobody believes that they still have an effect.
RENAMED = {
    "system_driver_reboot": "system_reboot_policy",
    "system_driver_reboot_timeout": "system_reboot_timeout",
    "model_trainer_user": "system_training_user",
    "model_trainer_adopt_user": "system_training_adopt_user",
    "model_trainer_group": "system_training_group",
    "model_trainer_researchers": "system_training_researchers",
    "system_tuning_limits_group": "system_training_group",
}
# A name this close to a known one is a typing error, even if the name of the role itself is misspelt.
CLOSE = 0.85


def variable_problems(
    variables: Mapping[str, Any], argument_specs: Mapping[str, Mapping[str, Mapping[str, Any]]]
) -> list[str]:
    """Sorted one-line messages about a host's variables; empty if there are no problems.

    variables        name: value. Values that are still templates, encrypted, or secret are not examined
    argument_specs   role name: its options, as in `argument_specs.main.options` of meta/argument_specs.yml
    """
    for what in (variables, argument_specs):
        if not isinstance(what, Mapping):
            raise AnsibleFilterError(
                "variable_problems expects a dict of variables and a dict of the options of each role, not "
                f"{type(what).__name__}"
            )
    options = {name: spec for role in argument_specs.values() for name, spec in role.items()}
    problems: list[str] = []
    for name, value in variables.items():
        if name in options:
            problems.extend(f"{line} [variable.value]" for line in _problems_of_value(name, value, options[name]))
        elif name == "gpuwright_lock" and not _is_template(value):
            problems.extend(filter(None, [wrong_takeover(value)]))
        else:
            problems.extend(_problems_of_name(name, argument_specs, options))
    return sorted(problems)


def problems_by_roles(variables: Mapping[str, Any], roles: Iterable[str]) -> list[str]:
    """`variable_problems` by the argument specs of these roles of the collection, which a run reads once."""
    known = role_specs(ROLES)
    return variable_problems(variables, {role: known[role]["main"].get("options", {}) for role in roles})


def wrong_takeover(word: Any) -> str:
    """Why this is no value of gpuwright_lock; "" if it is one."""
    if word in ("", None, "break"):
        return ""
    return (
        f"gpuwright_lock is {word}, expected break (take the lock from the run that holds it); "
        "correct it or leave it out, and run again. [operator.takeover]"
    )


def _problems_of_name(name: str, roles: Mapping[str, Any], options: Mapping[str, Any]) -> Iterator[str]:
    if name.startswith("__"):
        owner = next((role for role in roles if name.startswith(f"__{role}_")), None)
        if owner:
            yield f"{name} is internal to the role {owner} and cannot be set [variable.internal]"
        return
    if name in OF_THE_RUN:
        return
    if name in RENAMED:
        yield f"{name} is called {RENAMED[name]} now; rename it in the inventory [variable.renamed]"
        return
    nearest = difflib.get_close_matches(name, options, 1, CLOSE)
    # Role names may begin alike (system_driver, system_driver_x): the longest that fits is meant.
    role = max((role for role in roles if name.startswith(f"{role}_")), key=len, default="")
    if role:
        # The words after the role's name decide: all of its variables are alike in the words before.
        endings = {option.removeprefix(f"{role}_"): option for option in roles[role]}
        nearest = [endings[end] for end in difflib.get_close_matches(name.removeprefix(f"{role}_"), endings, 1)]
    if role or nearest:
        hint = f", did you mean {nearest[0]}?" if nearest else ""
        yield f"unknown variable {name}{hint} [variable.unknown]"


def _problems_of_value(name: str, value: Any, spec: Mapping[str, Any]) -> Iterator[str]:
    parts = list(_parts(value))
    if any(isinstance(part, Undefined) for part in parts):
        yield f"{name} uses a variable that is not defined"
        return
    # A value that cannot be read yet cannot be checked yet; the role's own argument specs check it later.
    if any(ciphertext_of(part) or _is_template(part) for part in parts):
        return
    if value is None:
        yield f'{name} has no value: write "" for none, or remove the line'
        return
    wanted = spec.get("type", "str")
    if name in STRUCTURED and not isinstance(value, Mapping):
        # In the words for what it has to be, of which the kind alone says nothing.
        yield from (f"{line}{_shown(name, value, spec)}" for line in _problems_of_structure(name, value))
        return
    problem = _wrong_kind(wanted, value, spec.get("choices")) or _refused_by_spec(name, value, spec)
    if problem:
        yield f"{name}: {problem}{_shown(name, value, spec)}"
        return
    if name in STRUCTURED:
        yield from _problems_of_structure(name, value)
        return
    check = _check_by_name(name) if wanted == "str" else None
    if check and not (value == "" and spec.get("default", "") == ""):
        problem = check(value)
    elif wanted in ("int", "float"):
        problem = next(
            (text for end, (fits, text) in LEAST.items() if name.endswith(end) and not fits(float(value))), ""
        )
    if problem:
        yield f"{name}: {problem}{_shown(name, value, spec)}"


def _problems_of_structure(name: str, value: Any) -> Iterator[str]:
    """In the words of whatever reads it on the node."""
    if value == {}:
        return
    # Only for who needs it: collections have no compiled files, so this costs every host a second of processor time.
    from ansible_collections.gpuwright.node.plugins.plugin_utils.variables import structured

    yield from structured.PROBLEMS[name](value)


def _parts(value: Any) -> Iterator[Any]:
    """A value and everything in it, without reading what is encrypted."""
    yield value
    if isinstance(value, Mapping):
        for key, inner in value.items():
            yield key
            yield from _parts(inner)
    elif isinstance(value, (list, tuple)):
        for inner in value:
            yield from _parts(inner)


def _is_template(value: Any) -> bool:
    return isinstance(value, str) and TEMPLATE.search(value) is not None


def _wrong_kind(wanted: str, value: Any, choices: Sequence[Any] | None = None) -> str:
    """What Ansible would convert silently: numbers into text, true into 1."""
    if wanted == "str" and not isinstance(value, str):
        if choices:
            return f"must be one of {', '.join(map(str, filter(None, choices)))}, as text in quotes"
        if isinstance(value, (Mapping, list, tuple)):
            return "must be text"
        return "must be text: write it in quotes" + (": YAML turns 8.10 into 8.1" if isinstance(value, float) else "")
    if wanted in ("int", "float") and isinstance(value, bool):
        return "must be a number"
    return ""


def _refused_by_spec(name: str, value: Any, spec: Mapping[str, Any]) -> str:
    # An unset variable gets its role's default; required ones need not come from the inventory.
    checked = {key: content for key, content in spec.items() if key not in ("required", "default")}
    result = ArgumentSpecValidator({name: checked}).validate({name: value})
    if not result.errors.errors:
        return ""
    choices = spec.get("choices")
    if choices:
        return "must be one of " + ", ".join(str(choice) or '""' for choice in choices)
    if "options" in spec or "elements" in spec:
        detail = LOGIN.sub("***@", " ".join(str(result.errors.errors[0]).split()))
        return "is not what its argument spec describes" + ("" if _is_secret(name, value, spec) else f" ({detail})")
    return f"must be {KINDS.get(str(spec.get('type', 'str')), 'text')}"


def _check_by_name(name: str) -> Callable[[str], str] | None:
    """Problems of a value whose format follows from the end of its variable's name."""
    if name == "system_cuda_version":
        return _matches(VERSION_OR_NONE, 'must be a version such as "12.9", or none')
    if name.endswith("_branch"):
        return _matches(VERSION, 'must be a branch such as "580", or a version such as "580.95.05"')
    if name.endswith("_version"):
        return _matches(VERSION, 'must be a version such as "580.95.05"')
    if name.endswith("_sha256"):
        return _matches(re.compile(r"[0-9A-Fa-f]{64}"), "must be a SHA-256 of 64 hex digits")
    if name == "system_driver_package_file":
        return _matches(re.compile(r"/\S+"), "must be the absolute path of a file on the controller")
    if name.endswith("_fingerprint"):
        return _matches(FINGERPRINT, "must be a fingerprint of 40 hex digits without spaces")
    if name.endswith(UNIT_PATH_SUFFIXES):
        return _matches(UNIT_PATH, "must be an absolute path without white space, quotes, % and backslashes")
    if name.endswith("_wheelhouse"):
        return _matches(re.compile(r"/[^\s]*"), "must be the absolute path of a folder on the node")
    if name.endswith("_url"):
        return _matches(URL, AN_ADDRESS)
    return None


def _matches(pattern: re.Pattern[str], message: str) -> Callable[[str], str]:
    return lambda value: "" if pattern.fullmatch(value) else message


def _is_secret(name: str, value: Any, spec: Mapping[str, Any]) -> bool:
    words = [name, *(part for part in _parts(value) if isinstance(part, str) and isinstance(value, Mapping))]
    return bool(spec.get("no_log")) or any(SECRET.search(word) for word in words)


def _shown(name: str, value: Any, spec: Mapping[str, Any]) -> str:
    """The end of a message: the value that was given, unless it may be secret."""
    if _is_secret(name, value, spec):
        return ""
    text = LOGIN.sub("***@", " ".join(repr(value).split()))
    return f" (given: {text if len(text) <= LONGEST_VALUE else text[: LONGEST_VALUE - 3] + '...'})"
