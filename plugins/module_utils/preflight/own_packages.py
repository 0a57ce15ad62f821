# SPDX-License-Identifier: Apache-2.0
"""Packages beside those of the plan (framework_pytorch_packages): whether they can be installed by their hashes."""

from typing import Any, List, Mapping

from .problem import Problem, problem


def own_package_problems(plan: Mapping[str, Any], wishes: Mapping[str, Any]) -> List[Problem]:
    """What the role framework_pytorch would stop at, after the system layer was changed.

    wishes  packages: names and wheels as the inventory lists them; packages_lock: {path, found, fault} of their lock
            file on the controller, as the lookup package_lock tells it
    """
    packages, lock = wishes["packages"], wishes["packages_lock"]
    if not packages:
        return []
    asked = ", ".join(packages)
    if lock.get("fault"):
        step = "Correct the entry in the inventory; a wheel's path begins at the inventory's folder."
        return [
            problem("framework.packages", "An entry of framework_pytorch_packages cannot be used", lock["fault"], step)
        ]
    if not plan["pytorch"]["locked"]:
        return [
            problem(
                "framework.packages_plan",
                "framework_pytorch_packages is for plans with a lock file, and this plan has none",
                f"{asked} beside {plan['pytorch']['lock']}",
                "Set framework_pytorch_packages: [], pin versions that have a lock file (docs/compatibility.md), or "
                "name your own in framework_pytorch_lock_file.",
            )
        ]
    if lock.get("found"):
        return []
    return [
        problem(
            "framework.packages_lock",
            "There is no lock file of framework_pytorch_packages for this plan",
            f"{asked}: {lock.get('path', 'the file')} is not on the controller",
            "Make it there, and keep it with the inventory: `ansible-playbook playbooks/lock.yml` (it reads the hosts "
            "and changes none; for one plan: `make lock PLAN=plan.json PACKAGES=...`).",
        )
    ]
