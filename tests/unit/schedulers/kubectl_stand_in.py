"""A stand-in of kubectl that answers from one file, in the words of kubectl 1.31; no API server was asked."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

PROGRAM = """\
#!{python}
import sys
sys.dont_write_bytecode = True
sys.path.insert(0, {here!r})
from kubectl_stand_in import main
sys.exit(main({file!r}, sys.argv[1:]))
"""
BUDGET = "Cannot evict pod as it would violate the pod's disruption budget."


class Kubernetes:
    """The nodes that the stand-in knows, pods that do not leave, commands that are refused, and what was asked."""

    def __init__(self, folder: Path) -> None:
        self.file = folder / "kubernetes.json"
        self.folder = folder / "bin"
        self.folder.mkdir(parents=True, exist_ok=True)
        self.write({"nodes": {}, "pods": [], "stays": [], "refuses": {}, "log": []})
        program = self.folder / "kubectl"
        words = {"python": sys.executable, "here": str(Path(__file__).parent), "file": str(self.file)}
        program.write_text(PROGRAM.format(**words))
        program.chmod(0o755)

    def read(self) -> dict[str, Any]:
        return json.loads(self.file.read_text())

    def write(self, state: dict[str, Any]) -> None:
        self.file.write_text(json.dumps(state))

    def node(self, name: str, cordoned: bool = False, annotations: dict[str, str] | None = None) -> None:
        spec = {"unschedulable": True} if cordoned else {}
        metadata = {"name": name, **({"annotations": annotations} if annotations else {})}
        state = self.read()
        state["nodes"][name] = {"metadata": metadata, "spec": spec, "status": {"conditions": [{"type": "Ready"}]}}
        self.write(state)

    def change(self, **more: Any) -> None:
        self.write({**self.read(), **more})

    def get(self, name: str) -> dict[str, Any]:
        return self.read()["nodes"][name]

    def condition(self, name: str) -> dict[str, str]:
        """The condition of planned work; {} if there is none."""
        found = [row for row in self.get(name)["status"]["conditions"] if row["type"] == "GpuwrightPlannedWork"]
        return found[0] if found else {}

    def changes(self) -> list[str]:
        """The first word of every command that was no question."""
        return [words[0] for words in self.read()["log"] if words[0] != "get"]


def main(file: str, words: list[str]) -> int:
    state = json.loads(Path(file).read_text())
    state["log"].append(words)
    name = words[1] if words[0] in ("cordon", "uncordon", "drain") else words[2]
    node = state["nodes"].get(name)
    if node is None:
        sys.stderr.write(f'Error from server (NotFound): nodes "{name}" not found\n')
        status = 1
    elif words[0] in state["refuses"]:
        sys.stderr.write(f"Error from server: {state['refuses'][words[0]]}\n")
        status = 1
    else:
        status = COMMANDS[words[0]](state, node, name, words)
    Path(file).write_text(json.dumps(state))
    return status


def get(_state: dict, node: dict, _name: str, _words: list[str]) -> int:
    print(json.dumps(node))
    return 0


def cordon(_state: dict, node: dict, name: str, _words: list[str]) -> int:
    print(f"node/{name} {'already cordoned' if node['spec'].get('unschedulable') else 'cordoned'}")
    node["spec"]["unschedulable"] = True
    return 0


def uncordon(_state: dict, node: dict, name: str, _words: list[str]) -> int:
    node["spec"].pop("unschedulable", None)
    print(f"node/{name} uncordoned")
    return 0


def annotate(_state: dict, node: dict, name: str, words: list[str]) -> int:
    notes = node["metadata"].setdefault("annotations", {})
    for word in words[3:]:
        key, _, value = word.partition("=")
        if word.endswith("-") and not value:
            notes.pop(key[:-1], None)
        elif not word.startswith("--"):
            notes[key] = value
    print(f"node/{name} annotated")
    return 0


def patch(_state: dict, node: dict, name: str, words: list[str]) -> int:
    """A strategic merge of conditions: by their type, as an API server does."""
    if "--subresource=status" not in words or "--type=strategic" not in words:
        sys.stderr.write("error: the stand-in knows only a strategic patch of the status\n")
        return 1
    for new in json.loads(words[words.index("--patch") + 1])["status"]["conditions"]:
        rest = [row for row in node["status"]["conditions"] if row["type"] != new["type"]]
        node["status"]["conditions"] = [*rest, new]
    print(f"node/{name} patched")
    return 0


def drain(state: dict, node: dict, name: str, words: list[str]) -> int:
    """Evicts `pods`; those of `stays` are kept by their budget until the time is over."""
    cordon(state, node, name, words)
    limit = next(word.partition("=")[2] for word in words if word.startswith("--timeout="))
    for pod in state["pods"]:
        sys.stderr.write(f"evicting pod gan/{pod}\n")
    if not state["stays"]:
        for pod in state["pods"]:
            print(f"pod/{pod} evicted")
        state["pods"] = []
        print(f"node/{name} drained")
        return 0
    for pod in state["stays"]:
        sys.stderr.write(f'error when evicting pods/"{pod}" -n "gan" (will retry after 5s): {BUDGET}\n')
    sys.stderr.write(f'error: unable to drain node "{name}" due to error: global timeout reached: {limit}\n')
    return 1


COMMANDS = {
    "get": get, "cordon": cordon, "uncordon": uncordon, "annotate": annotate, "patch": patch, "drain": drain,
}  # fmt: skip
