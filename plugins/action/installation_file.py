# SPDX-License-Identifier: Apache-2.0
"""Write the kickstart or preseed of a host on the controller; no host is contacted."""

from __future__ import annotations

import re
from dataclasses import fields
from pathlib import Path
from typing import Any

import yaml
from ansible.module_utils.common.validation import check_type_bool, check_type_int, check_type_list
from ansible.plugins.action import ActionBase
from ansible_collections.gpuwright.node.plugins.plugin_utils.kickstart import answers, file, render
from ansible_collections.gpuwright.node.plugins.plugin_utils.plan.matrix import SHIPPED

SPEC: dict[str, dict[str, Any]] = {
    "answers": {"type": "dict", "required": True, "no_log": True},
    "installers": {"type": "path", "required": True},
    "folder": {"type": "path", "required": True},
    "problems": {"type": "list", "elements": "str", "default": []},
}
PREFIX = "kickstart_"


def text(value: Any) -> str:
    """As check_type_int and the others: TypeError for what is none. A release of 8.10 without quotes is 8.1."""
    if not isinstance(value, str):
        raise TypeError
    return value


TYPES = {
    "str": (text, 'text in quotes, such as "8.8"'),
    "int": (check_type_int, "a whole number"),
    "bool": (check_type_bool, "true or false"),
    "list[str]": (check_type_list, "a list, such as [one, two]"),
}


class ActionModule(ActionBase):
    """`installation_file:` of a task; the module of the same name documents it."""

    TRANSFERS_FILES = False
    _requires_connection = False

    def run(self, tmp: str | None = None, task_vars: dict[str, Any] | None = None) -> dict[str, Any]:
        result = super().run(tmp, task_vars)
        _validated, options = self.validate_argument_spec(SPEC)
        host = (task_vars or {})["inventory_hostname"]
        return {**result, **installed(host, options, self._task.check_mode)}


def installed(host: str, options: dict[str, Any], check_mode: bool) -> dict[str, Any]:
    """The result of the task."""
    rows = yaml.safe_load(Path(options["installers"]).read_text("utf-8"))["installers"]
    try:
        plain = {name.removeprefix(PREFIX): value for name, value in options["answers"].items()}
        given = typed(plain, options["problems"])
        given = {**given, "host": host, "hostname": given["hostname"] or host}
        wanted = read(given, rows, options["problems"])
        row = answers.row_of(given, rows) or {}
        path = file.path_of(Path(options["folder"]), host, row["form"])
        written = file.write(path, render.text(wanted, row), check_mode)
    except answers.Refused as refused:
        return {"failed": True, "msg": f"{refused_text(host, refused.problems)} [kickstart.refused]"}
    except OSError as error:
        said = f"{error.filename or options['folder']}: {error.strerror or error}"
        return {"failed": True, "msg": f"{said}. Next: set kickstart_folder, or mend that [kickstart.folder]"}
    changes = file.difference(written, wanted.admin_password_hash) if written.changed else []
    return {"changed": written.changed, "path": str(path), "diff": changes}


def typed(given: dict[str, Any], problems: list[str]) -> dict[str, Any]:
    """The values as their fields have them: on a command line, every value is text. Raises answers.Refused."""
    wrong, found = [], dict(given)
    for field in fields(answers.Answers):
        convert, words = TYPES.get(str(field.type), (None, ""))
        try:
            if convert and field.name in given:
                found[field.name] = convert(given[field.name])
        except TypeError:
            wrong.append(f"{PREFIX}{field.name}: must be {words} [kickstart.value]")
    if wrong:
        raise answers.Refused(_all(wrong, problems))
    return found


def read(given: dict[str, Any], rows: list[dict[str, Any]], problems: list[str]) -> answers.Answers:
    """The answers. Raises answers.Refused with what is wrong with the names of variables, too."""
    releases = yaml.safe_load((SHIPPED / "systems.yml").read_text("utf-8"))["os_releases"]
    try:
        wanted = answers.read(given, rows, [f"{release['id']} {release['version']}" for release in releases])
    except answers.Refused as refused:
        raise answers.Refused(_all(refused.problems, problems)) from None
    if problems:
        raise answers.Refused(problems)
    return wanted


def _all(own: list[str], problems: list[str]) -> list[str]:
    """What the installer needs, then what no variable may be; each variable is in one of them."""
    named = {re.split(r"\W", line)[0] for line in own}
    return [*own, *(line for line in problems if re.split(r"\W", line)[0] not in named)]


def refused_text(host: str, problems: list[str]) -> str:
    """Everything that is missing or wrong, a line each."""
    count = f"{len(problems)} correction" + "s" * (len(problems) != 1)
    lines = [f"No installation file was written for {host}; its variables need {count}:"]
    lines += [f"- {problem}" for problem in problems]
    return "\n".join([*lines, "Next: set them for this host or its group in the inventory (docs/kickstart.md)."])
