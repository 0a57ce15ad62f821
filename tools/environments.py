"""Lock files of the Python environments: `make lock` writes one for every plan that a shipped profile makes.

And for the plans that add the newest TensorFlow to the default one.

Plans are made for all GPU architectures on every system of the matrix. A build that only the PyTorch index has is left
out and named. The CPU build for trials is not in a profile's plans: its lock file is maintained by hand, and that with
TensorFlow is made from a plan. `--missing` leaves existing files alone; `--plan FILE` locks one plan, as `gpu-plan
--json` printed it (`make lock PLAN=FILE`), also one for the PyTorch index, as playbooks/lock.yml does.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import yaml

REPOSITORY = Path(__file__).resolve().parents[1]
LOCKS = REPOSITORY / "roles/framework_pytorch/files/locks"
sys.path.insert(0, str(REPOSITORY / "collections"))
from ansible_collections.gpuwright.node.plugins.module_utils.gpu import cards
from ansible_collections.gpuwright.node.plugins.module_utils.host.versions import version_key
from ansible_collections.gpuwright.node.plugins.plugin_utils import package_lock
from ansible_collections.gpuwright.node.plugins.plugin_utils.plan.question import imagined_host
from ansible_collections.gpuwright.node.plugins.plugin_utils.plan.solve import solve

# One card of every compute capability: no other property of a card affects a plan.
CARDS = tuple(card.name for card in cards.examples())


def shared_tensorflow(matrix: dict[str, Any]) -> str:
    """The newest TensorFlow, such as "2.20", that shares an environment with some PyTorch."""
    names = [name for name, row in matrix["tensorflow"].items() if row["pytorch"]]
    return max(names, key=version_key)


def shipped_pins(matrix: dict[str, Any]) -> list[dict[str, str]]:
    """The pins of the plans: every profile, and the default one with TensorFlow in addition to PyTorch."""
    profiles = [{"profile": name} for name in matrix["profiles"]]
    return [*profiles, {"profile": matrix["default_profile"], "tensorflow": shared_tensorflow(matrix)}]


def shipped_plans() -> list[dict[str, Any]]:
    """One plan for each environment, whichever host asks for it first."""
    files = sorted((REPOSITORY / "roles/preflight/files/matrix").glob("*.yml"))
    matrix = {name: rows for file in files for name, rows in yaml.load(file.read_text(), yaml.CSafeLoader).items()}
    # An environment depends on no more of a release than these two.
    releases = {(row["family"], *row["pythons"]): row for row in matrix["os_releases"]}
    systems = [f"{row['id']} {row['version']}" for row in releases.values()]
    found: dict[str, Any] = {}
    for pins in shipped_pins(matrix):
        for system in systems:
            for card in CARDS:
                plan = solve(matrix, imagined_host(card, system), pins)
                if "conflicts" not in plan:
                    found.setdefault(plan["pytorch"]["lock"], plan)
    return list(found.values())


def can_be_locked(plan: dict[str, Any]) -> bool:
    """Whether PyPI itself serves the build."""
    return plan["pytorch"]["index_url"] == ""


def lock(plan: dict[str, Any]) -> None:
    """Write the input and the lock file of a plan's environment. Raises CalledProcessError if uv finds no answer."""
    target = LOCKS / plan["pytorch"]["lock"]
    source = target.with_suffix(".in")
    source.write_text("# Written by `make lock` from the plan.\n" + "\n".join(plan["requirements"]) + "\n")
    command = ["uv", "pip", "compile", "--python-version", plan["python"]["version"]]
    command += ["--python-platform", "x86_64-manylinux_2_28", "--generate-hashes", "--only-binary", ":all:"]
    command += ["--no-emit-index-url", "--no-emit-find-links", "--no-annotate", "--no-header", "--quiet"]
    subprocess.run([*command, str(source), "--output-file", str(target)], check=True)


def lock_by_pip(plan: dict[str, Any]) -> None:
    """The same from PyPI and the PyTorch index together, as playbooks/lock.yml does it. Raises LockError."""
    name, index = plan["pytorch"]["lock"], package_lock.Index(extra=plan["pytorch"]["index_url"])
    wanted = package_lock.read_wanted(plan["requirements"], LOCKS)
    text = package_lock.lock_text(name, "", plan["python"]["version"], wanted, index)
    (LOCKS / name).with_suffix(".in").write_text("\n".join(["# From the plan.", *plan["requirements"], ""]))
    (LOCKS / name).write_text(text)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--missing", action="store_true", help="leave alone the lock files that are there")
    parser.add_argument(
        "--plan", type=Path, help="a plan as gpu-plan --json printed it, instead of the shipped profiles' plans"
    )
    asked = parser.parse_args()
    for plan in [json.loads(asked.plan.read_text())] if asked.plan else shipped_plans():
        if asked.missing and (LOCKS / plan["pytorch"]["lock"]).exists():
            continue
        if can_be_locked(plan):
            print("locking", plan["pytorch"]["lock"])
            lock(plan)
        elif asked.plan:
            print("locking", plan["pytorch"]["lock"], "from", plan["pytorch"]["index_url"])
            lock_by_pip(plan)
        else:
            print("left out", plan["pytorch"]["lock"], "which only", plan["pytorch"]["index_url"], "serves")
    return 0


if __name__ == "__main__":
    sys.exit(main())
