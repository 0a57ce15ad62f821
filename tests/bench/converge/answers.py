"""What a finished host answers in a run that finds nothing to do, recorded so that many addresses can answer it."""

from __future__ import annotations

import re
import tempfile
from pathlib import Path

from fleet_hosts import Fleet, podman
from ways import HERE, MINUTES, Failed, gpuwright, once

RECORDED = "/var/tmp/converge-record"
NAME = re.compile(r'^    ANSIBALLZ_PARAMS = .*"_ansible_module_name": "([^"]+)"', re.MULTILINE)
# Modules of a run that enters no role.
MOST_MODULES = 4


def key_of(module: str) -> str:
    """The name under which an answer is kept; ValueError: no such module."""
    name = NAME.search(module)
    if not name:
        raise ValueError("not a module as Ansible sends it")
    return name[1]


def record(fleet: Fleet, folder: Path) -> None:
    """Run once more on a finished host through an interpreter that keeps all answers; they are written to `folder`."""
    (host,) = fleet.names
    container = fleet.container(host)
    podman("cp", str(HERE / "target/record"), f"{container}:/usr/libexec/converge-record")
    fleet.do(host, f"rm -rf {RECORDED}")
    inventory = fleet.with_variable("ansible_python_interpreter", "/usr/libexec/converge-record")
    cost = once("recorded run", fleet, gpuwright(inventory, MINUTES), 1)
    if cost.values["modules"] > MOST_MODULES:
        raise Failed(
            f"The run that was to be recorded executed {cost.values['modules']:.0f} modules: nothing is settled."
        )
    folder.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as place:
        podman("cp", f"{container}:{RECORDED}", f"{place}/r")
        for asked in sorted(Path(place, "r").glob("*.in")):
            (folder / key_of(asked.read_text())).write_text(asked.with_suffix(".out").read_text())
    fleet.do(host, f"rm -rf {RECORDED} /usr/libexec/converge-record")


def give(fleet: Fleet, folder: Path) -> None:
    """Put the interpreter that only answers, and the answers, on the first host of a fleet."""
    container = fleet.container(fleet.names[0])
    fleet.do(fleet.names[0], "mkdir -p /usr/libexec/converge")
    podman("cp", f"{folder}/.", f"{container}:/usr/libexec/converge")
    podman("cp", str(HERE / "target/replay"), f"{container}:/usr/libexec/converge/replay")
    fleet.do(fleet.names[0], "chmod -R a+rX /usr/libexec/converge && chmod 755 /usr/libexec/converge/replay")
