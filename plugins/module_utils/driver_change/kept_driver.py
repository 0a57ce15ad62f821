# SPDX-License-Identifier: Apache-2.0
"""What the module kept_driver does, state by state."""

import json
import os
from typing import Any, Dict, List, Mapping, Optional

from ..host.files import below
from ..host.whole_file import write_edited
from . import kept_packages, kept_record
from .kept_record import KeptError

__all__ = ["KeptError", "bring_about"]
MIB = 1024 * 1024
EXPECTATIONS = "/etc/gpuwright/expectations.json"
# Parts of a recorded plan that a change of the environment alone brings back; all others belong to the packages.
OF_ENVIRONMENT = ("python", "pytorch", "tensorflow", "requirements")


def bring_about(params: Mapping[str, Any], check_mode: bool, result: Dict[str, Any]) -> None:
    """Fills in `result` as it proceeds; KeptError, OSError, ValueError."""
    record = kept_record.read_record()
    _tell(record, result)
    state = params["state"]
    if state == "kept":
        _keep(params, record, check_mode, result)
    elif state == "closed":
        result["changed"] = record is not None and record["open"]
        if record is not None and record["open"] and not check_mode:
            kept_record.write_record({**record, "open": False})
    elif state == "put_back":
        if record is None:
            raise KeptError(
                f"Nothing was kept on this host ({kept_record.RECORD} is not there), so there is nothing to go back "
                "to: playbooks/upgrade.yml keeps it before it changes a driver. Install the version that you want with "
                "site.yml and system_driver_version [rollback.packages]"
            )
        _put_back(params["parts"], record, check_mode, result)


def _tell(record: Optional[Mapping[str, Any]], result: Dict[str, Any]) -> None:
    packages = kept_record.packages_of(record) if record else []
    links = [target for _path, target in record["links"]] if record else []
    result.update(
        driver=record["driver"] if record else "",
        packages=[package.spelled(record["family"]) for package in packages] if record else [],
        mib=-(-record["bytes"] // MIB) if record else 0,
        environment=(links[-1] or "") if links else "",
        open=bool(record and record["open"]),
        install=[],
        remove=[],
    )


def _keep(
    params: Mapping[str, Any], record: Optional[Mapping[str, Any]], check_mode: bool, result: Dict[str, Any]
) -> None:
    if record is not None and record["open"]:
        if not check_mode:
            kept_packages.complete(record)
        return
    there = kept_packages.installed(params["family"], params["patterns"] + params["also"])
    packages = kept_record.chosen(there, params["driver"]) if params["driver"] else []
    packages += kept_packages.installed(params["family"], params["also"]) if params["also"] else []
    packages = sorted(set(packages))
    result.update(changed=True, install=[package.spelled(params["family"]) for package in packages])
    if not check_mode:
        _tell(kept_packages.keep(params, packages, there), result)


def _put_back(parts: List[str], record: Mapping[str, Any], check_mode: bool, result: Dict[str, Any]) -> None:
    links = record["links"]
    expected = [one["text"] for one in record["files"] if one["path"] == EXPECTATIONS and one["text"]]
    if expected:
        now = kept_record.read_whole("/", EXPECTATIONS) or ""
        wanted = expectations(now, expected[0], parts)
        if wanted != now:
            result["changed"] = True
            if not check_mode:
                write_edited(EXPECTATIONS, wanted.encode("utf-8"))
    if "packages" in parts:
        # The settings come first: a module stream or a hold of the new driver would forbid the old one.
        files = kept_record.differing_files([one for one in record["files"] if one["path"] != EXPECTATIONS])
        have = kept_packages.installed(record["family"], record["patterns"])
        install, gone = kept_record.changes(have, kept_record.packages_of(record), record["there"])
        result["install"] = [package.spelled(record["family"]) for package in install]
        result["remove"] = gone
        result["changed"] = result["changed"] or bool(files or install or gone)
        if not check_mode:
            newer = kept_record.read_files(files)
            kept_record.write_files(files)
            try:
                if install or gone:
                    kept_packages.put_back_packages(record, install, gone)
            except kept_record.Refused:
                # The newer packages stay, and so do their settings.
                kept_record.write_files(newer)
                raise
    chosen = (links[:-1] if "packages" in parts else []) + (links[-1:] if "environment" in parts else [])
    for path, target in chosen:
        _put_back_link(path, target, check_mode, result)


def expectations(now: str, before: str, parts: List[str]) -> str:
    """The node's expectations once these parts are as they were: all of the earlier ones, or a part of their plan."""
    if not now or set(parts) == {"packages", "environment"}:
        return before
    found, earlier = json.loads(now), json.loads(before)
    for key, value in earlier["plan"].items():
        if (key in OF_ENVIRONMENT) == ("environment" in parts):
            found["plan"][key] = value
    return json.dumps(found, indent=4, sort_keys=True) + "\n" if found != json.loads(now) else now


def _put_back_link(path: str, target: Optional[str], check_mode: bool, result: Dict[str, Any]) -> None:
    if target is None or kept_record.read_links([path])[path] == target:
        return
    place = os.path.join(os.path.dirname(path), target)
    if not os.path.isdir(below("/", place)):
        raise KeptError(
            f"{path} led to {place} before the upgrade, and that is gone, so the link stays as it is. Keep more "
            "environments (framework_pytorch_keep), or build it again with site.yml [rollback.environment]"
        )
    result["changed"] = True
    if not check_mode:
        kept_record.put_link(path, target)
