"""The four ways to bring hosts to the same state, and one measured run of a way."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from accounts import MIB, Group, Sampler
from fleet_hosts import REPOSITORY, Fleet
from payload import MINUTES, parcel

HERE = Path(__file__).resolve().parent
BARE, STOCK, MITOGEN, OURS = "bare script", "stock role", "stock role, mitogen", "gpuwright"
CHANGED_MINUTES = 10
RUN_SECONDS = 3600
# Actions that talk to a host without a module.
NO_MODULES = ("raw", "fetch")


class Failed(RuntimeError):
    """A run ended badly; the text says which, and its last lines."""


@dataclass(frozen=True)
class Cost:
    """What one run cost. Seconds, MiB, and counts; all but `wall` and the two of memory are of one host."""

    values: dict[str, float]
    output: str = field(compare=False, default="")


Command = Callable[[Path], tuple[list[str], dict[str, str]]]


def environment(log: Path, **more: str) -> dict[str, str]:
    """Of a run of Ansible: what it counts and its sockets lie in the folder `log`."""
    plugins = [str(REPOSITORY / "tests/executions"), str(HERE / "callbacks")]
    program = str(Path(sys.executable).parent)
    return {
        **os.environ,
        "PATH": f"{program}{os.pathsep}{os.environ['PATH']}",
        "ANSIBLE_NOCOLOR": "1",
        "ANSIBLE_CALLBACK_PLUGINS": os.pathsep.join(plugins),
        "ANSIBLE_SSH_CONTROL_PATH_DIR": str(log / "cp"),
        "GPUWRIGHT_LOG_FOLDER": str(log / "logs"),
        "EXECUTIONS": str(log / "executions.jsonl"),
        "CONVERGE_COUNTS": str(log / "counts.json"),
        **more,
    }


def gpuwright(inventory: Path, minutes: int, *words: str) -> Command:
    """site.yml of this checkout."""
    extra = ["-e", json.dumps({"system_monitor_interval_minutes": minutes})] if minutes != MINUTES else []
    command = ["ansible-playbook", "-i", str(inventory), "site.yml", *extra, *words]
    # What runs keep for the next is kept for each fleet alone, so that a first run has nothing.
    home = str(inventory.parent / "ansible")
    return lambda log: (command, environment(log, CONVERGE_CWD=str(REPOSITORY), ANSIBLE_HOME=home))


def stock(inventory: Path, minutes: int, payload: Path, mitogen: Path | None = None) -> Command:
    """The stock role; `mitogen` is the folder into which it was installed."""
    variables = {
        "gpu_node_payload": str(payload),
        "gpu_node_check_minutes": minutes,
        "gpu_node_values": json.loads((payload / "values.json").read_text()),
    }
    command = ["ansible-playbook", "-i", str(inventory), "site.yml", "-e", json.dumps(variables)]
    more = {"CONVERGE_CWD": str(HERE / "stock")}
    if mitogen:
        strategies = str(mitogen / "ansible_mitogen/plugins/strategy")
        more |= {"ANSIBLE_STRATEGY_PLUGINS": strategies, "ANSIBLE_STRATEGY": "mitogen_linear"}
    return lambda log: (command, environment(log, **more))


def bare(fleet: Fleet, minutes: int, payload: Path) -> Command:
    """One ssh call for each host, all at once: an archive with the script and its files."""

    def command(log: Path) -> tuple[list[str], dict[str, str]]:
        archive = log / "parcel.tar.gz"
        parcel(payload, HERE / "bare.sh", minutes, archive)
        place = "/var/tmp/bare"
        remote = f"rm -rf {place} && mkdir {place} && tar -xzf - -C {place} && sh {place}/bare.sh"
        config = fleet.state / "ssh_config"
        calls = [
            f"""ssh -F {config} {name} "sudo sh -c '{remote}'" < {archive} & pids="$pids $!\"""" for name in fleet.names
        ]
        wait = "status=0; for pid in $pids; do wait $pid || status=1; done; exit $status"
        return ["sh", "-c", "\n".join(["pids=", *calls, wait])], {**os.environ, "CONVERGE_CWD": str(HERE)}

    return command


def once(label: str, fleet: Fleet, make: Command, hosts: int) -> Cost:
    """Run it once and count; Failed if it does not succeed."""
    with tempfile.TemporaryDirectory(prefix="cv-") as folder, ExitStack() as stack:
        log = Path(folder)
        words, variables = make(log)
        where = variables.pop("CONVERGE_CWD")
        watched, mirror = fleet.watched()
        group = Group(f"gpuwright-converge-{os.getpid()}")
        stack.callback(group.close)
        sampler = Sampler(group, [*watched, mirror])
        with (log / "output").open("w") as out, sampler.running():
            start = time.monotonic()
            process = subprocess.Popen(
                words,
                cwd=where,
                env=variables,
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=out,
                preexec_fn=group.enter,
            )
            status = process.wait(timeout=RUN_SECONDS)
            wall = time.monotonic() - start
            time.sleep(0.3)
        text = (log / "output").read_text(errors="replace")
        if status:
            raise Failed(f"{label}: exit status {status}\n" + "\n".join(text.splitlines()[-30:]))
        values = {
            "wall": wall,
            "controller CPU": group.cpu() / hosts,
            "memory": sampler.most_anonymous / MIB,
            "memory with files": group.peak() / MIB,
            "target CPU": sum(one.cpu.total for one in watched) / hosts,
            "MB": max(0.0, sum(one.received.total for one in watched) - mirror.sent.total) / hosts / 1e6,
            **counted(log, hosts),
        }
        return Cost(values, text)


def why_not(step: str, values: dict[str, float], timers: list[str], minutes: int) -> str:
    """Why a run was no such step, "" if it was one: by what it changed, and by what is in its hosts' timers now."""
    wanted = f"*:0/{minutes}"
    other = next((text for text in timers if text != wanted), wanted)
    if other != wanted:
        return f"a host has {other or 'nothing'} in its timer, not {wanted}"
    # A way without Ansible counts nothing.
    if values["tasks"] and step == "no-op" and values["changed"]:
        return f"it changed something on its hosts: {values['changed']:g} each"
    if values["tasks"] and step in ("first", "changed variable") and not values["changed"]:
        return "it changed nothing"
    return ""


def counted(log: Path, hosts: int) -> dict[str, float]:
    """What the two callbacks counted, of one host; nothing of a way without Ansible. Failed where a host is missing."""
    if not (log / "counts.json").exists():
        return {"tasks": 0, "modules": 0, "calls": 0, "changed": 0, "smoke": 0.0}
    counts = json.loads((log / "counts.json").read_text())
    file = log / "executions.jsonl"
    rows: list[Any] = [json.loads(line) for line in file.read_text().splitlines()] if file.exists() else []
    smoke = counts["smoke"].values()
    if len(counts["recap"]) != hosts:
        raise Failed(f"{len(counts['recap'])} of {hosts} hosts took part")
    return {
        "tasks": sum(counts["tasks"].values()) / hosts,
        "modules": len(rows) / hosts,
        "calls": sum(action not in NO_MODULES for _host, action, _role, _changed in rows) / hosts,
        "changed": sum(recap["changed"] for recap in counts["recap"].values()) / hosts,
        "smoke": sum(smoke) / len(smoke) if smoke else 0.0,
    }
