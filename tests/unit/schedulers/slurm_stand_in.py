"""Stand-ins of Slurm's commands, which answer from one file; their words are those of Slurm 22.05 in tests/schedulers.

`made_in(folder)` writes sinfo, scontrol and squeue into a folder that is put first in PATH; `Slurm` is the file.
"""

from __future__ import annotations

import fcntl
import json
import sys
import time
from pathlib import Path
from typing import Any

PROGRAM = """\
#!{python}
import sys
sys.dont_write_bytecode = True
sys.path.insert(0, {here!r})
from slurm_stand_in import main
sys.exit(main({name!r}, {file!r}, sys.argv[1:]))
"""


class Slurm:
    """The nodes and jobs that the stand-ins know, and what was asked of them."""

    def __init__(self, folder: Path) -> None:
        self.file = folder / "slurm.json"
        self.folder = folder / "bin"
        self.folder.mkdir(parents=True, exist_ok=True)
        self.write({"nodes": {}, "jobs": {}, "refuses": "", "log": [], "after": [], "meanwhile": []})
        for name in ("sinfo", "scontrol", "squeue"):
            program = self.folder / name
            words = {"python": sys.executable, "here": str(Path(__file__).parent), "name": name, "file": str(self.file)}
            program.write_text(PROGRAM.format(**words))
            program.chmod(0o755)

    def read(self) -> dict[str, Any]:
        return json.loads(self.file.read_text())

    def write(self, state: dict[str, Any]) -> None:
        self.file.write_text(json.dumps(state))

    def node(self, name: str, state: str = "idle", reason: str = "none", **more: Any) -> None:
        """Add or replace a node; `since` in seconds of 1970."""
        content = self.read()
        content["nodes"][name] = {"state": state, "reason": reason, "since": None, "Comment": "(null)", **more}
        self.write(content)

    def change(self, **more: Any) -> None:
        self.write({**self.read(), **more})

    def get(self, name: str) -> dict[str, Any]:
        return self.read()["nodes"][name]

    def drained(self) -> list[str]:
        return sorted(name for name, node in self.read()["nodes"].items() if "drain" in node["state"])

    def updates(self) -> list[list[str]]:
        """The words of every `scontrol update`."""
        return [words[1:] for words in self.read()["log"] if words[0] == "update"]


def main(name: str, file: str, words: list[str]) -> int:
    """One command; two at the same time wait for each other, as slurmctld lets them."""
    with Path(file + ".lock").open("a") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        state = json.loads(Path(file).read_text())
        if name == "scontrol":
            state["log"].append(words)
        if state["refuses"]:
            sys.stderr.write(f"{name}: error: {state['refuses']}\n")
            status = 1
        else:
            status = {"sinfo": sinfo, "scontrol": scontrol, "squeue": squeue}[name](state, words)
            happens(state, name)
        Path(file).write_text(json.dumps(state))
    return status


def happens(state: dict[str, Any], name: str) -> None:
    """What somebody else does right after a call of this program; a row of `meanwhile` is [program, node, values]."""
    if state["meanwhile"] and state["meanwhile"][0][0] == name:
        _name, node, values = state["meanwhile"].pop(0)
        state["nodes"][node].update(values)


def sinfo(state: dict[str, Any], words: list[str]) -> int:
    columns = [column.split(":") for column in words[words.index("--Format") + 1].split(",")]
    wanted = next((word.partition("=")[2] for word in words if word.startswith("--nodes=")), "")
    for name, node in state["nodes"].items():
        stamp = time.strftime("%Y-%m-%dT%H:%M:%S", time.localtime(node["since"])) if node["since"] else "Unknown"
        cells = {"NodeList": name, "StateComplete": node["state"], "Timestamp": stamp, "Reason": node["reason"]}
        cells["Comment"] = node["Comment"]
        if wanted in ("", name):
            # A row for each of the two partitions that the node is in.
            row = "".join(cells[column][: int(width)].ljust(int(width)) for column, width in columns)
            print(row, row, sep="\n")
    return 0


def scontrol(state: dict[str, Any], words: list[str]) -> int:
    if words == ["show", "node"]:
        for name, node in state["nodes"].items():
            print(f"NodeName={name} Arch=x86_64\n   OS=Linux\n   LastBusyTime={node.get('busy', 'Unknown')}\n")
        return 0
    if words[0] != "update":
        node = state["nodes"][words[-1]]
        base, _, drained = node["state"].upper().partition("+")
        flags = f"{base}{'+' + drained if drained else ''}"
        reason = f"Reason={node['reason']} [root@2026-01-05T10:40:00]" if drained else ""
        print(f"NodeName={words[-1]} Arch=x86_64 State={flags} ThreadsPerCore=1 {reason} Comment={node['Comment']}")
        return 0
    given = dict(word.split("=", 1) for word in words[1:])
    node = state["nodes"].get(given["NodeName"])
    if node is None:
        sys.stderr.write("slurm_update error: Invalid node name specified\n")
        return 1
    if given.get("State") == "DRAIN":
        if "Reason" not in given:
            sys.stderr.write("You must specify a reason when DOWNING or DRAINING a node. Request denied\n")
            return 1
        node.update(state=node["state"].partition("+")[0] + "+drain", since=time.time())
    if given.get("State") in ("UNDRAIN", "RESUME"):
        node.update(state=node["state"].partition("+")[0], reason="none", since=None)
    node["reason"] = given.get("Reason", node["reason"])
    node["Comment"] = given.get("Comment", node["Comment"])
    return 0


def squeue(state: dict[str, Any], words: list[str]) -> int:
    """Jobs on one node; each row of `after` replaces them at the next call, as time would."""
    name = next(word.partition("=")[2] for word in words if word.startswith("--nodes="))
    if name not in state["nodes"]:
        sys.stderr.write(f"squeue: error: Invalid node name {name}\n")
        return 1
    for job in state["jobs"].get(name, []):
        print(job)
    if state["after"]:
        state["jobs"][name] = state["after"].pop(0)
    return 0
