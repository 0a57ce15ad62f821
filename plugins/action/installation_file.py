# SPDX-License-Identifier: Apache-2.0
"""Write the kickstart or preseed of a host on the controller; no host is contacted."""

from __future__ import annotations

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
TYPES = {"int": check_type_int, "bool": check_type_bool, "list[str]": check_type_list}


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
        given = typed({name.removeprefix(PREFIX): value for name, value in options["answers"].items()})
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


def typed(given: dict[str, Any]) -> dict[str, Any]:
    """The values as their fields have them: on a command line, every value is text. Raises answers.Refused."""
    problems, found = [], dict(given)
    for field in fields(answers.Answers):
        convert = TYPES.get(str(field.type))
        try:
            if convert and field.name in given:
                found[field.name] = convert(given[field.name])
        except TypeError as error:
            problems.append(f"{PREFIX}{field.name}: {error} [kickstart.value]")
    if problems:
        raise answers.Refused(problems)
    return found


def read(given: dict[str, Any], rows: list[dict[str, Any]], problems: list[str]) -> answers.Answers:
    """The answers. Raises answers.Refused with what is wrong with the names of variables, too."""
    releases = yaml.safe_load((SHIPPED / "systems.yml").read_text("utf-8"))["os_releases"]
    found: list[str] = list(problems)
    try:
        wanted = answers.read(given, rows, [f"{release['id']} {release['version']}" for release in releases])
    except answers.Refused as refused:
        found += refused.problems
    if found:
        raise answers.Refused(found)
    return wanted


def refused_text(host: str, problems: list[str]) -> str:
    """Everything that is missing or wrong, a line each."""
    count = f"{len(problems)} correction" + "s" * (len(problems) != 1)
    lines = [f"No installation file was written for {host}; its variables need {count}:"]
    lines += [f"  {problem}" for problem in problems]
    return "\n".join([*lines, "Next: set them for this host or its group in the inventory (docs/kickstart.md)."])
