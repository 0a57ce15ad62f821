# SPDX-License-Identifier: Apache-2.0
"""The names that this node knows: its own, its users', its domain's; only from files, no name service is asked."""

import os
import platform
import re
from typing import Any, Iterator, List, Tuple

from ...checks.all import CHECKS
from ...gpu.device_table import ARCHITECTURES, CARDS
from ...host.files import read_text
from ...verdict.check import LEVELS, REMEDIES, SEVERITY
from .masking import Masker

# useradd's first uid for people; 65534 is "nobody" (useradd(8), systemd's users-groups-ids).
FIRST_PERSON = 1000
NOBODY_ID = 65534
HOST_FILES = ("/etc/hostname", "/proc/sys/kernel/hostname", "/etc/mailname")
LOGIN_NAMES = ("SUDO_USER", "LOGNAME", "USER")
SHORTEST_NAME_OF_A_PERSON = 5
# Words of the bundle itself and of every node.
PLAIN_WORDS = (
    "user host name data admin system test gpu gpus node nodes cuda nvidia driver kernel model train "
    "training train-gan gan default service bench python torch linux debian ubuntu redhat rhel rocky alma "
    "podman docker slurm server compute main local serial memory disk home scratch work opt usr var lib "
    "run srv bin dev proc sys etc tmp boot intel amd"
)
CARD_WORDS = {word for card in CARDS for word in card.name.lower().split()} | set(ARCHITECTURES)


def known_masker(root: str, report: dict) -> Masker:
    """A masker that knows this node's names; `report` is its report, {} if there is none."""
    masker = Masker(vocabulary(report))
    for name in host_names(root):
        masker.learn("host", name)
    for name in domains(root):
        masker.learn("domain", name)
    for kind, name in people(root):
        masker.learn(kind, name)
    for kind, name in named_in(report):
        masker.learn(kind, name)
    for reason in reasons_in(report):
        masker.learn_reason(reason)
    return masker


def vocabulary(report: dict) -> set:
    """Words that are not names: those of the checks, of the report's keys and of the field."""
    words = set(PLAIN_WORDS.split()) | CARD_WORDS
    for text in [check.id for check in CHECKS] + list(keys_of(report)) + list(LEVELS + REMEDIES + SEVERITY):
        words.add(text.lower())
        words.update(part for part in re.split(r"[^a-z0-9]+", text.lower()) if part)
    return words


def keys_of(value: Any, depth: int = 0) -> Iterator[str]:
    """Every key in nested records, except paths and addresses."""
    if depth > 20:
        return
    members = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, member in members:
        if isinstance(key, str) and re.fullmatch(r"[A-Za-z_]+", key):
            yield key
        yield from keys_of(member, depth + 1)


def host_names(root: str) -> list:
    names = [(read_text(root, path) or "").partition("\n")[0] for path in HOST_FILES]
    names.append(platform.node())
    for line in (read_text(root, "/etc/hosts") or "").splitlines():
        names += line.partition("#")[0].split()[1:]
    # ip6-loopback and its like are on every Debian.
    return [name for name in names if not name.startswith(("localhost", "ip6-"))]


def domains(root: str) -> list:
    found = []
    for line in (read_text(root, "/etc/resolv.conf") or "").splitlines():
        words = line.split()
        if words[:1] in (["search"], ["domain"]):
            found += [word.strip(".") for word in words[1:]]
    return found


def people(root: str) -> list:
    """[(kind, name)] of the accounts of people, their homes and full names, and of who called this program."""
    found = [("user", os.environ.get(name, "")) for name in LOGIN_NAMES]
    for line in (read_text(root, "/etc/passwd") or "").splitlines():
        fields = line.split(":")
        if len(fields) < 7 or not fields[2].isdecimal() or not FIRST_PERSON <= int(fields[2]) != NOBODY_ID:
            continue
        full_name = fields[4].partition(",")[0].strip()
        found.append(("user", fields[0]))
        if len(full_name) >= SHORTEST_NAME_OF_A_PERSON:
            found.append(("person", full_name))
        if fields[5].count("/") > 1 and not fields[5].startswith(("/home/", "/var/", "/usr/")):
            found.append(("home", fields[5].rstrip("/")))
    return found


def named_in(value: Any, key: str = "") -> List[Tuple[str, str]]:
    """[(kind, name)] of hosts and users that a report names under their own keys."""
    if isinstance(value, dict):
        return [pair for name, member in value.items() for pair in named_in(member, str(name))]
    if isinstance(value, list):
        return [pair for member in value for pair in named_in(member, key)]
    kind = {
        "hostname": "host",
        "host": "host",
        "inventory_name": "host",
        "users": "user",
        "user": "user",
        "training_user": "user",
        "serial": "serial",
    }.get(key)
    return [(kind, value)] if kind and isinstance(value, str) else []


def reasons_in(report: dict) -> list:
    """The reasons that people gave for acknowledgements, for checks that are switched off, and for Xid overrides."""
    parts = [report.get(name) for name in ("readings", "expectations")]
    readings, expectations = (part if isinstance(part, dict) else {} for part in parts)
    rows = [row for name in ("acknowledgements", "xid_policy") for row in _list(readings.get(name))]
    given = [row.get("reason") for row in rows + _list(report.get("acknowledgements")) if isinstance(row, dict)]
    skips = expectations.get("skip_checks")
    given += list(skips.values()) if isinstance(skips, dict) else []
    return [reason for reason in given if isinstance(reason, str)]


def _list(value: Any) -> List[Any]:
    return value if isinstance(value, list) else []
