# SPDX-License-Identifier: Apache-2.0
"""Have a connected machine get the packages of all plans for its release, and copy them from it into the bundle."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

from ansible.parsing.ajson import AnsibleJSONEncoder
from ansible.plugins.action import ActionBase
from ansible_collections.gpuwright.node.plugins.module_utils.host.whole_file import sync_file, write_whole
from ansible_collections.gpuwright.node.plugins.plugin_utils.bundle.listing import BundleError, Entry
from ansible_collections.gpuwright.node.plugins.plugin_utils.bundle.making import (
    MIB,
    Places,
    check_room,
    claim,
    read_questions,
)
from ansible_collections.gpuwright.node.plugins.plugin_utils.bundle.verified import files_in, why_not
from ansible_collections.gpuwright.node.plugins.plugin_utils.bundle.wanted import group_of, release_of, repositories_of

MODULE = "gpuwright.node.bundle_packages"
WORK = "/var/cache/gpuwright/bundle"


class StepFailed(Exception):
    """A module has failed; its result is that of the task."""

    def __init__(self, result: dict[str, Any]) -> None:
        super().__init__(result.get("msg"))
        self.result = result


class ActionModule(ActionBase):
    """`bundle_packages:` of a task with C(folder); the module of the same name documents the rest."""

    TRANSFERS_FILES = True

    def run(self, tmp: str | None = None, task_vars: dict[str, Any] | None = None) -> dict[str, Any]:
        result = super().run(tmp, task_vars)
        options = json.loads(json.dumps(self._task.args, cls=AnsibleJSONEncoder, vault_to_text=True))
        places = Places(Path(options["dest"]))
        release = release_of({"os": options["os"], "machine": options["machine"]})
        try:
            questions = [one for one in read_questions(places).values() if release_of(one) == release]
            if not questions:
                return {**result, "changed": False, "msg": f"No plan is for {release}; this machine gets nothing."}
            claim(places, self._task.check_mode)
            return {**result, **self._made(places, release, questions, task_vars or {})}
        except StepFailed as error:
            return {**result, **error.result}
        except BundleError as error:
            return {**result, "failed": True, "msg": str(error)}
        except OSError as error:
            return {
                **result,
                "failed": True,
                "msg": f"The packages cannot be copied into the bundle: {error}. Mend that, run again [bundle.files]",
            }

    def _step(self, name: str, arguments: dict[str, Any], task_vars: dict[str, Any]) -> dict[str, Any]:
        answer = self._execute_module(name, arguments, task_vars=task_vars)
        if answer.get("failed") or answer.get("unreachable"):
            raise StepFailed({key: value for key, value in answer.items() if key != "invocation"})
        return answer

    def _made(
        self, places: Places, release: str, questions: list[dict[str, Any]], task_vars: dict[str, Any]
    ) -> dict[str, Any]:
        rows = {name: row for question in questions for name, row in repositories_of(question).items()}
        for folder in (WORK, f"{WORK}/keys"):
            place = {"path": folder, "state": "directory", "owner": "root", "group": "root", "mode": "0755"}
            self._step("ansible.builtin.file", place, task_vars)
        repositories = []
        for name, row in rows.items():
            key = f"{WORK}/keys/{name}.asc"
            pinned = {"url": row["key_url"], "fingerprint": row["key_fingerprint"], "dest": key}
            self._step("gpuwright.node.repository_key", pinned, task_vars)
            repositories.append({"id": name, "url": row["url"], "key": f"file://{key}"})
        groups = {json.dumps(group_of(one), sort_keys=True): group_of(one) for one in questions}
        wish = {"groups": list(groups.values()), "repositories": repositories, "work": WORK}
        # In check mode, too: nothing is installed, and the folder with the metadata is a cache.
        found = self._step(MODULE, {**wish, "download": False}, task_vars)
        host = task_vars["inventory_hostname"]
        size = sum(row["size"] for row in found["packages"])
        self._display.display(
            f"{host}: {len(found['packages'])} packages for {release}, {size / MIB:.0f} MiB; "
            f"{found['bytes'] / MIB:.0f} MiB to download"
        )
        if found["free"] < found["bytes"]:
            raise BundleError(
                "bundle.space", f"{WORK} on {host} has no room for what is to be downloaded",
                f"{found['bytes'] // MIB} MiB to download, {found['free'] // MIB} MiB free",
                "Make room there and run again",
            )  # fmt: skip
        if self._task.check_mode:
            return {"changed": found["bytes"] > 0}
        got = self._step(MODULE, {**wish, "download": True}, task_vars)
        target = places.bundle / "targets" / release
        fetched = self._fetch(got["files"], target)
        for name in rows:
            (target / "keys").mkdir(parents=True, exist_ok=True)
            self._connection.fetch_file(f"{WORK}/keys/{name}.asc", str(target / "keys" / f"{name}.asc"))
        for path, _kind in list(files_in(target)):
            if path not in got["files"] and path not in {f"keys/{name}.asc" for name in rows}:
                (target / path).unlink()
        folder = f"targets/{release}"
        answer = {
            "folder": folder,
            "repositories": [{**row, "folder": f"{folder}/{row['id']}"} for row in got["repositories"]],
        }
        places.targets.mkdir(parents=True, exist_ok=True)
        write_whole(str(places.targets / f"{release}.json"), (json.dumps(answer, indent=1) + "\n").encode())
        return {"changed": fetched > 0, "fetched": fetched, "packages": len(got["packages"])}

    def _fetch(self, files: dict[str, dict[str, Any]], target: Path) -> int:
        """Copy what is not whole yet; returns how many files came."""
        target.mkdir(parents=True, exist_ok=True)
        missing = [path for path, row in files.items() if why_not(target / path, Entry(**row))]
        check_room(target, sum(files[path]["size"] for path in missing))
        for path in missing:
            place = target / path
            place.parent.mkdir(parents=True, exist_ok=True)
            part = place.with_name(f".{place.name}.new")
            self._connection.fetch_file(f"{WORK}/repositories/{path}", str(part))
            why = why_not(part, Entry(**files[path]))
            if why:
                part.unlink(missing_ok=True)
                raise BundleError("bundle.download", f"{path} came damaged: {why}", "", "Run again to continue")
            sync_file(str(part))
            part.rename(place)
        for folder in sorted((one for one in target.rglob("*") if one.is_dir()), reverse=True):
            if not any(folder.iterdir()):
                shutil.rmtree(folder)
        return len(missing)
