# SPDX-License-Identifier: Apache-2.0
"""Run gpu-doctor.pyz on a host from a temporary folder, and bring its report back; no module runs there."""

from __future__ import annotations

import json
import shlex
from pathlib import Path
from typing import Any

from ansible import constants
from ansible.plugins.action import ActionBase
from ansible_collections.gpuwright.node.plugins.module_utils.doctor.scan.scope import is_scan, off_node
from ansible_collections.gpuwright.node.plugins.module_utils.verdict.report import SCHEMA, json_text
from ansible_collections.gpuwright.node.plugins.plugin_utils import doctor_pyz
from ansible_collections.gpuwright.node.plugins.plugin_utils.page.kept_report import keep_report
from ansible_collections.gpuwright.node.plugins.plugin_utils.summary.verdict_fact import verdict_fact

SPEC: dict[str, Any] = {
    "level": {"type": "str", "choices": ["quick", "standard"], "default": "standard"},
    "folder": {"type": "path"},
}
# The system's own first: root must not start one from a home folder or an environment.
PYTHONS = ("/usr/libexec/platform-python", "/usr/bin/python3", "python3", "/usr/local/bin/python3")
NO_PYTHON = 66
# In an argument of sh -c; -I and -S keep the caller's PYTHON* variables and packages out, -B leaves nothing behind.
RUN = """\
for python in {pythons}; do
  "$python" -I -S -c 'import sys; sys.exit(sys.version_info < (3, 6))' >/dev/null 2>&1 || continue
  exec "$python" -I -S -B {file} --json --level {level}
done
exit {no_python}"""
LAST_LINES = 5


class ActionModule(ActionBase):
    """`gpu_scan:` of a task; the module of the same name documents it."""

    # Ansible makes the temporary folder for it.
    TRANSFERS_FILES = True

    def run(self, tmp: str | None = None, task_vars: dict[str, Any] | None = None) -> dict[str, Any]:
        result = super().run(tmp, task_vars)
        variables = task_vars or {}
        try:
            _validated, options = self.validate_argument_spec(SPEC)
            done = self._scan(options["level"], str(variables.get("ansible_python_interpreter") or ""))
        except (OSError, ValueError) as error:
            return {
                **result,
                "failed": True,
                "msg": f"gpu-doctor.pyz cannot be built on the controller: {error} [scan.program]",
            }
        finally:
            self._remove_tmp_path(self._connection._shell.tmpdir)
        try:
            report = report_of(done)
        except ValueError as error:
            return {**result, "failed": True, "msg": f"{error} [scan.failed]"}
        folder = None if self._task.check_mode else options["folder"]
        try:
            dest = keep(Path(folder), str(variables.get("inventory_hostname")), report) if folder else ""
        except OSError as error:
            return {
                **result,
                "failed": True,
                "msg": f"{error.filename or folder}: {error.strerror or error} [scan.report]",
            }
        found = {"verdict": report["verdict"], "checks": report["checks"], "report": report, "dest": str(dest)}
        found["ansible_facts"] = verdict_fact(report["verdict"], report["checks"])
        # A report is long, and a file.
        return {**result, "changed": False, "_ansible_verbose_override": True, **found}

    def _scan(self, level: str, interpreter: str) -> dict[str, Any]:
        """Copy the program and run it. Raises OSError or ValueError if it cannot be built."""
        # The workers of a run share this folder, which is removed with the run: the program is built once, not for each
        # host.
        local = Path(constants.DEFAULT_LOCAL_TMP) / "scan"
        built = local / doctor_pyz.NAME if (local / doctor_pyz.NAME).exists() else doctor_pyz.write(local)
        folder = self._connection._shell.tmpdir
        file = self._connection._shell.join_path(folder, doctor_pyz.NAME)
        self._transfer_file(str(built), file)
        self._fixup_perms2((folder, file))
        return self._low_level_execute_command(command(file, level, interpreter), sudoable=True)


def command(file: str, level: str, interpreter: str = "") -> str:
    """The command for the host's shell; the inventory's `interpreter` is tried first if it is a path."""
    pythons = ([interpreter] if interpreter.startswith("/") else []) + list(PYTHONS)
    names = " ".join(map(shlex.quote, pythons))
    return RUN.format(pythons=names, file=shlex.quote(file), level=level, no_python=NO_PYTHON)


def report_of(done: dict[str, Any]) -> dict[str, Any]:
    """The report in the program's output, which a login greeting may surround. ValueError says what is wrong."""
    text = str(done.get("stdout") or "")
    try:
        report = json.JSONDecoder().raw_decode(text, text.index("{"))[0]
    except (ValueError, RecursionError):
        report = None
    fits = isinstance(report, dict) and report.get("schema") == SCHEMA and is_scan(report.get("expectations"))
    if fits and {"verdict", "checks", "readings"} <= set(report):
        return report
    if done.get("rc") == NO_PYTHON:
        raise ValueError(
            "The host has no Python 3.6 or newer; expected one of " + ", ".join(PYTHONS) + ". Install the "
            "distribution's, or name another in ansible_python_interpreter."
        )
    said = "\n".join((str(done.get("stderr") or "") or text).splitlines()[-LAST_LINES:])
    raise ValueError(
        f"gpu-doctor.pyz ended with {done.get('rc')} and no report; run it by hand: copy build/gpu-doctor.pyz (make "
        f"pyz) to the host and start it with python3 there. It said:\n{said}"
    )


def keep(folder: Path, name: str, report: dict[str, Any]) -> Path:
    """The file in which the host's report is kept; a verification's report is never replaced by a scan's."""
    file = f"{name}.json" if off_node(report["expectations"]) else f"{name}.scan.json"
    return keep_report(folder, file, json_text(report))
