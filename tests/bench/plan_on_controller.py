"""What the plan costs a run: as a module on each host, as it was, and as the action of the controller, side by side.

`make bench-plan` writes docs/benchmarks/plan.json and plan.md. The module is made from the same solver in a copy of the
collection: its package back in module_utils, a module that asks it, and the matrix as an argument of the task. Both
plays run on made-up hosts with a local connection, so the module's copy over ssh and the slower Python of a node come
on top of what is measured.
"""

from __future__ import annotations

import importlib
import json
import os
import resource
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import yaml

REPOSITORY = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(REPOSITORY / "tests/node_library"), str(REPOSITORY / "collections")]
sys.path[:0] = [*map(str, (REPOSITORY / "tests/unit").glob("**"))]
make_host = importlib.import_module("test_plan_questions").make_host

HOSTS, ROUNDS = 10, 5
OUT = REPOSITORY / "docs/benchmarks"
FULL = "ansible_collections.gpuwright.node.plugins"
MODULE = f"""#!/usr/bin/python
from ansible.module_utils.basic import AnsibleModule
from {FULL}.module_utils.plan.solve import solve

def main():
    spec = dict.fromkeys(("matrix", "host"), {{"type": "dict"}})
    module = AnsibleModule({{**spec, "pins": {{"type": "dict"}}, "locks": {{"type": "list"}}}})
    given = module.params
    plan = solve(dict(given["matrix"], locks=given["locks"]), given["host"], given["pins"])
    module.exit_json(ansible_facts={{"gpu_node_plan": plan}})

main()
"""
MATRIX = {
    "action": "{{ folder }}",
    "module": "{{ folder | gpuwright.node.matrix(without=['devices.yml']) }}",
    "empty": None,
}
TEXT = """\
# The plan on the controller

Written by `make bench-plan`; do not edit. {rounds} rounds of one play that plans for {hosts} made-up hosts, each once
with the module that a node ran, once with the action of the controller and once without the task; medians of what the
task adds, per host and run. Every host is this machine, so the module's way over ssh and the older Python of a node are
not in it.

| | module | action | module / action |
|---|---|---|---|
| time, ms | {module_wall_ms} | {action_wall_ms} | {wall_ratio} |
| CPU of controller and host, ms | {module_cpu_ms} | {action_cpu_ms} | {cpu_ratio} |

Ratios are medians of each round's own. The module took {matrix_kb} kB of matrix to each host; the action takes none and
contacts no host. The matrix is parsed once in a run.
"""


def as_module(folder: Path) -> Path:
    """A copy of the collection in which the solver is a module's; its folder of collections."""
    root = folder / "ansible_collections/gpuwright/node"
    root.mkdir(parents=True)
    ignored = shutil.ignore_patterns("__pycache__")
    for name in ("galaxy.yml", "meta", "plugins"):
        source = REPOSITORY / name
        shutil.copytree(source, root / name, ignore=ignored) if source.is_dir() else shutil.copy(source, root)
    shutil.move(root / "plugins/plugin_utils/plan", root / "plugins/module_utils/plan")
    # The bulletins, which the plan reads, too.
    shutil.copytree(root / "plugins/plugin_utils/software", root / "plugins/module_utils/software")
    (root / "plugins/action/gpu_plan.py").unlink()
    (root / "plugins/modules/gpu_plan.py").write_text(MODULE)
    for file in (root / "plugins").rglob("*.py"):
        text = file.read_text()
        if f"{FULL}.plugin_utils.plan" in text:
            file.write_text(text.replace(f"{FULL}.plugin_utils.plan", f"{FULL}.module_utils.plan"))
    return folder


def run(collections: Path, folder: Path, kind: str) -> tuple[float, float]:
    """Seconds and CPU seconds of a whole run of ansible-playbook."""
    task = {
        "gpuwright.node.gpu_plan": {
            "matrix": MATRIX[kind],
            "host": "{{ host }}",
            "pins": {"pytorch": "2.10.0"},
            "locks": ["py3.11-torch2.10.0-cu128.txt"],
        }
    }
    play = {"hosts": "nodes", "gather_facts": False, "tasks": [] if kind == "empty" else [task]}
    (folder / "play.yml").write_text(yaml.safe_dump([play]))
    environment = {**os.environ, "ANSIBLE_COLLECTIONS_PATH": str(collections), "ANSIBLE_STDOUT_CALLBACK": "minimal"}
    playbook = str(Path(sys.executable).parent / "ansible-playbook")
    command = [playbook, "-i", str(folder / "hosts.yml"), str(folder / "play.yml")]
    before, start = resource.getrusage(resource.RUSAGE_CHILDREN), time.monotonic()
    done = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True)
    wall, after = time.monotonic() - start, resource.getrusage(resource.RUSAGE_CHILDREN)
    if done.returncode or (kind != "empty" and done.stdout.count("gpu_node_plan") < HOSTS):
        raise SystemExit(f"{kind}: {done.stdout[-2000:]}{done.stderr[-2000:]}")
    return wall, after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def write_inventory(folder: Path) -> None:
    hosts = {f"node-{number:02}": {"host": {**make_host(), "hostname": f"node-{number:02}"}} for number in range(HOSTS)}
    own = {"ansible_connection": "local", "ansible_python_interpreter": sys.executable}
    own["folder"] = str(REPOSITORY / "roles/preflight/files/matrix")
    (folder / "hosts.yml").write_text(yaml.safe_dump({"nodes": {"hosts": hosts, "vars": own}}))


def measure() -> list[dict[str, tuple[float, float]]]:
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        write_inventory(folder)
        old = as_module(folder / "as-module")
        # The order changes from round to round, so that nobody is always the first.
        kinds = {"module": old, "action": REPOSITORY / "collections", "empty": REPOSITORY / "collections"}
        rounds = []
        for number in range(ROUNDS + 1):
            order = [*kinds][number % 3 :] + [*kinds][: number % 3]
            rounds.append({kind: run(kinds[kind], folder, kind) for kind in order})
        # The first round fills caches.
        return rounds[1:]


def main() -> None:
    rounds = measure()
    matrix = [
        file for file in (REPOSITORY / "roles/preflight/files/matrix").glob("*.yml") if file.name != "devices.yml"
    ]
    found: dict[str, float] = {
        "hosts": HOSTS,
        "rounds": ROUNDS,
        "matrix_kb": round(sum(file.stat().st_size for file in matrix) / 1000),
    }
    for place, name in enumerate(("wall", "cpu")):
        added = {
            kind: [(one[kind][place] - one["empty"][place]) / HOSTS * 1000 for one in rounds]
            for kind in ("module", "action")
        }
        found |= {f"{kind}_{name}_ms": round(statistics.median(values)) for kind, values in added.items()}
        ratios = [old / new for old, new in zip(added["module"], added["action"], strict=True)]
        found[f"{name}_ratio"] = round(statistics.median(ratios), 1)
    (OUT / "plan.json").write_text(json.dumps(found, indent=2, sort_keys=True) + "\n")
    (OUT / "plan.md").write_text(TEXT.format(**found))
    print(TEXT.format(**found))


if __name__ == "__main__":
    main()
