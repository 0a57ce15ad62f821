"""A first run with NVIDIA's real packages from Debian's archive: ours beside a script that installs the same ones."""

from __future__ import annotations

import re
import shlex
import tarfile
from pathlib import Path
from typing import Any

from fleet_hosts import Fleet, cli, containers, podman, readable
from payload import MINUTES
from same import LIST_FILES, compared, sums_of
from ways import BARE, HERE, OURS, Command, Failed, environment, gpuwright, once

HOST = "deb12-01"
# The module is built for a kernel of Debian that does not run here, so no verification can pass; 2 says that it failed.
MOST_STATUS = 2
SOURCE = '{"system_driver_source": "distribution"}'
LIST_PACKAGES = "dpkg-query -W -f '${db:Status-Abbrev}${binary:Package}=${Version}\\n' | sed -n 's/^ii *//p' | sort"
# What our run writes itself; all else in these folders is of packages.
OWN_FILES = (
    "find /etc/apt /etc/gpuwright /etc/modules-load.d /etc/modprobe.d /etc/profile.d /etc/security/limits.d"
    " /etc/systemd/system /usr/local/bin /usr/local/lib/gpuwright -xdev -type f"
    " \\( -path '/etc/apt/*' -o -path '*gpuwright*' -o -name 'gpu-*' -o -name 'train-gan*'"
    " -o -path '*gpu-job@*' -o -path '*train-gan@*' \\) ! -path '*__pycache__*' ! -name expectations.json"
)


class DebianFleet(Fleet):
    """One host of Debian 12, whose packages come from the archive."""

    def __init__(self, slug: str) -> None:
        super().__init__(f"real-{slug}", 1)

    def make_bare(self) -> None:
        with readable():
            self.down()
            cli.up(self.name, HOST)
        self.hosts = [containers.Host(HOST, "", {})]


def added(before: str, after: str) -> list[str]:
    """NAME=VERSION of each package that is new, from two answers of LIST_PACKAGES."""
    known = {line.partition("=")[0] for line in before.split()}
    return [line for line in after.split() if line.partition("=")[0] not in known]


def take(fleet: DebianFleet, before: str, folder: Path) -> None:
    """Write what the script needs to do the same as our run has done: its values, and an archive of files."""
    folder.mkdir(parents=True, exist_ok=True)
    venv = fleet.do(HOST, "readlink -f /opt/gpuwright/venvs/current").strip()
    cudnn = fleet.do(HOST, "find /opt/gpuwright/cudnn -mindepth 1 -maxdepth 1 -type l").strip()
    beside = f"cd {venv} && ls -d $PWD/*.whl $PWD/gan_trainer.digest $PWD/gpuwright.json $PWD/lock.txt"
    fleet.do(
        HOST,
        f"{{ {OWN_FILES}; ({beside}); ls {cudnn}.wheel/lock.txt; }} | cut -c2- | tar -C / -cf /var/tmp/own.tar -T -",
    )
    podman("cp", f"{fleet.container(HOST)}:/var/tmp/own.tar", str(folder / "files.tar"))
    fleet.do(HOST, "rm /var/tmp/own.tar")
    values = {
        "PACKAGES": " ".join(added(before, fleet.do(HOST, LIST_PACKAGES))),
        "HOLDS": " ".join(fleet.do(HOST, "apt-mark showhold").split()),
        "VENV": venv,
        "CUDNN": cudnn,
        "COMMENT": fleet.do(HOST, "getent passwd trainer").split(":")[4],
    }
    (folder / "values.sh").write_text("".join(f"{name}={shlex.quote(text)}\n" for name, text in values.items()))


def ours(fleet: DebianFleet) -> Command:
    """site.yml, which may end with the verdict that this host has not passed."""

    def command(log: Path) -> tuple[list[str], dict[str, str]]:
        words, variables = gpuwright(fleet.inventory, MINUTES, "-e", SOURCE)(log)
        return ["sh", "-c", f"{shlex.join(words)}; test $? -le {MOST_STATUS}"], variables

    return command


def came_to_its_end(output: str) -> bool:
    """Whether the host was verified, whatever the verdict; a run that stops early has the same status."""
    return bool(re.search(r"\bVerdict (FAIL|UNKNOWN)\b|\b(PASS|WARN)\b", output))


def bare(fleet: DebianFleet, payload: Path) -> Command:
    """One ssh call with an archive of the script and its files."""

    def command(log: Path) -> tuple[list[str], dict[str, str]]:
        archive = log / "parcel.tar.gz"
        with tarfile.open(archive, "w:gz", compresslevel=1) as packed:
            for name in ("values.sh", "files.tar"):
                packed.add(payload / name, name)
            packed.add(HERE / "bare_debian.sh", "bare.sh")
        place = "/var/tmp/bare"
        remote = f"rm -rf {place} && mkdir {place} && tar -xzf - -C {place} && sh {place}/bare.sh"
        call = f"ssh -F {fleet.state / 'ssh_config'} {HOST} \"sudo sh -c '{remote}'\" < {archive}"
        return ["sh", "-c", call], {**environment(log), "CONVERGE_CWD": str(HERE)}

    return command


def first_runs(rounds: int, payload: Path, say: Any) -> dict[str, Any]:
    """{way: {"first": [values of each run]}}, and under "same" whether they did the same; ours begins."""
    values: dict[str, dict[str, list[dict[str, float]]]] = {OURS: {"first": []}, BARE: {"first": []}}
    seen: dict[str, tuple[str, str]] = {}
    for _round in range(rounds):
        for way, slug in ((OURS, "ours"), (BARE, "bare")):
            fleet = DebianFleet(slug)
            try:
                fleet.make_bare()
                before = fleet.do(HOST, LIST_PACKAGES)
                make = ours(fleet) if way == OURS else bare(fleet, payload)
                cost = once(f"{way}, first run with real packages", fleet, make, 1)
                if way == OURS and not came_to_its_end(cost.output):
                    raise Failed(f"{way}: the run ended before its verification\n{cost.output[-3000:]}")
                values[way]["first"].append(cost.values)
                say(f"{way}, first run with real packages: wall {cost.values['wall']:.0f} s")
                if way == OURS:
                    take(fleet, before, payload)
                seen[way] = (fleet.do(HOST, LIST_PACKAGES), fleet.do(HOST, LIST_FILES, check=False))
            finally:
                fleet.down()
    packages = [set(seen[way][0].split()) for way in (OURS, BARE)]
    odd = sorted({line.partition("=")[0] for line in packages[0] ^ packages[1]})
    same = {"packages": len(packages[0]), "packages that differ": odd[:12]}
    same |= compared(*(sums_of(seen[way][1]) for way in (OURS, BARE)))
    return {"values": values, "same": {BARE: same}}
