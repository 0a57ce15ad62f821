# SPDX-License-Identifier: Apache-2.0
"""What happens to the driver that a node has: it is kept and guarded, or would have to be downgraded."""

from typing import Any, List, Mapping

from ..host.files import exists, read_text
from ..host.versions import is_version, version_key
from .problem import (
    Problem,
    problem,
)

# Written by the role system_driver; the lock list has blocks of other owners, too.
LOCK_LIST = "/etc/dnf/plugins/versionlock.list"
LOCK_BLOCK = "gpuwright-BEGIN-driver-0:0-0.*"
APT_GUARDS = ("/etc/apt/apt.conf.d/52gpuwright-unattended-upgrades", "/etc/apt/preferences.d/gpuwright-driver.pref")


def read_guarded(family: str, root: str = "/") -> Any:
    """Whether guards of an earlier run exist; the role itself compares and refreshes them."""
    if family == "debian":
        return all(exists(root, path) for path in APT_GUARDS)
    return LOCK_BLOCK in (read_text(root, LOCK_LIST) or "").splitlines()


def guard_remarks(host: Mapping[str, Any], plan: Mapping[str, Any], facts: Mapping[str, Any]) -> List[Problem]:
    """A driver that is already correct is not touched, but guarded; the operator should know that beforehand."""
    driver, guards = plan["driver"], plan.get("guards", {}).get("driver")
    if not (driver["present"] and guards) or facts.get("guarded", True):
        return []
    text = "Driver {} is already the right one: it is kept as it is, guarded by {}".format(
        (host.get("nvidia") or {}).get("user_space") or driver["branch"], ", ".join(guards)
    )
    step = "Nothing. system_driver_guards: never omits the guards."
    return [problem("driver.guards", text, "the guards are not there yet", step, stops=False)]


def downgrade_problems(host: Mapping[str, Any], plan: Mapping[str, Any], wishes: Mapping[str, Any]) -> List[Problem]:
    """A newer driver than the planned one, if nobody has asked for an older one."""
    driver, found = plan["driver"], (host.get("nvidia") or {}).get("user_space") or ""
    planned = driver["version"] or driver["branch"]
    if driver["present"] or not (is_version(found) and is_version(planned)) or wishes.get("allow_downgrade"):
        return []
    parts = len(version_key(planned))
    if version_key(found)[:parts] <= version_key(planned):
        return []
    because = plan.get("because", {}).get("driver") or ""
    text = f"The node has driver {found}, which is newer than the planned {planned}, and a downgrade was not asked for"
    step = (
        'To go back, name it in the inventory (system_driver_branch: "{}", or an exact system_driver_version), or set '
        'system_driver_allow_downgrade: true. To stay, pin the branch that the node has: system_driver_branch: "{}".'
    )
    return [
        problem(
            "driver.newer",
            text,
            because or "libraries of the driver",
            step.format(driver["branch"], found.split(".")[0]),
        )
    ]
