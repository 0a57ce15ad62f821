# SPDX-License-Identifier: Apache-2.0
"""The text of a kickstart or a preseed, and of the scripts in it. The same answers give the same text, byte by byte."""

from __future__ import annotations

import functools
import ipaddress
import json
import shlex
from collections.abc import Mapping
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from ansible_collections.gpuwright.node.plugins.plugin_utils.kickstart.answers import ANACONDA, Answers, security_host
from jinja2 import Environment, FileSystemLoader, StrictUndefined

TEMPLATES = Path(__file__).parent / "templates"
# They end a file or a section of a kickstart, whatever text they stand in.
SECTIONS = ("%end", "%include", "%ksappend", "%pre", "%post", "%packages", "%addon", "%onerror", "%traceback")
# A file of these contents is written on the node; a program can read which installation it is of.
SCHEMA = 1
# Partitions whose sizes nobody chooses, as the templates have them; and both copies of the GPT, with their alignment.
EFI_MIB, BIOS_BOOT_MIB, LEAST_SCRATCH_MIB, LABEL_MIB = 600, 1, 1024, 8


def text(answers: Answers, row: Mapping[str, Any]) -> str:
    """The installation file of a host: a kickstart or a preseed, as the `form` of its row in installers.yml says."""
    values = {"a": answers, "row": row, "disk_script": disk_script(answers, row), "post": post_script(answers, row)}
    name = "anaconda.cfg.j2" if row["form"] == ANACONDA else "debian.cfg.j2"
    return _render(name, **values, **_network(answers), **_addresses(answers))


def disk_script(answers: Answers, row: Mapping[str, Any]) -> str:
    """What runs before any disk is touched: the disk is there, it is a whole one, and the firmware is the expected."""
    return _script(_render("disk.sh.j2", a=answers, row=row, least_mib=least_mib(answers)))


def least_mib(answers: Answers) -> int:
    """The smallest disk for the layout, in MiB. On a smaller one, Debian's partitioner makes another layout."""
    first = EFI_MIB if answers.firmware == "uefi" else BIOS_BOOT_MIB
    scratch = LEAST_SCRATCH_MIB if answers.scratch_dir else 0
    return first + answers.boot_mib + answers.swap_mib + answers.root_mib + scratch + LABEL_MIB


def post_script(answers: Answers, row: Mapping[str, Any]) -> str:
    """What runs in the installed system, as root, before its first start."""
    return _script(_render("post.sh.j2", a=answers, row=row, installed=_installed(answers), units=units(answers)))


def units(answers: Answers) -> dict[str, str]:
    """systemd's units of the first start: {name: text}."""
    second = "timer" if answers.first_boot == "pull" else "path"
    names = ("gpuwright-first-boot.service", f"gpuwright-first-boot.{second}")
    return {name: _render(f"{answers.first_boot}.{name.rpartition('.')[2]}.j2", a=answers) for name in names}


def echoed(script: str) -> list[str]:
    """Shell words that print a script line by line; a preseed's value is one line, so it can hold no script itself.

    dash's echo gives a meaning to backslashes: a script with one cannot be passed on like this, which is a bug here.
    """
    if "\\" in script:
        raise ValueError(f"a backslash in a script of a preseed: {script!r}")
    return [f"echo {shlex.quote(line)}" for line in script.splitlines()]


def megabytes(mib: int) -> int:
    """MiB in the unit of Debian's partitioner, which is 10^6 bytes, rounded up."""
    return -(-mib * 1024 * 1024 // 1_000_000)


def _script(script: str) -> str:
    bad = [line for line in script.splitlines() if line.lstrip().startswith(SECTIONS)]
    if bad:
        raise ValueError(f"a line that Anaconda would take for a section: {bad[0]!r}")
    return script


def _installed(answers: Answers) -> str:
    """What /etc/gpuwright/installed.json says."""
    keys = ("distribution", "release", "hostname", "disk", "firmware", "first_boot")
    return json.dumps({"schema": SCHEMA, **{key: getattr(answers, key) for key in keys}}, sort_keys=True)


def _network(answers: Answers) -> dict[str, str]:
    """Address and netmask, both empty for DHCP."""
    if not answers.address:
        return {"ip": "", "netmask": ""}
    own = ipaddress.IPv4Interface(answers.address)
    return {"ip": str(own.ip), "netmask": str(own.netmask)}


def _addresses(answers: Answers) -> dict[str, Any]:
    """The parts of the mirrors' addresses for which Debian has questions."""
    found = urlsplit(answers.mirror)
    mirror = {"scheme": found.scheme, "host": found.netloc, "path": "/" + found.path.strip("/")}
    return {"mirror": mirror, "security": security_host(answers.mirror_security)}


@functools.cache
def _environment() -> Environment:
    # Not for a browser: each template quotes for its own language, with `q` for shell and kickstart.
    environment = Environment(
        loader=FileSystemLoader(TEMPLATES, encoding="utf-8"),
        autoescape=False,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )
    environment.filters["q"] = shlex.quote
    environment.filters["echoed"] = echoed
    environment.filters["mb"] = megabytes
    return environment


def _render(template: str, **values: Any) -> str:
    return _environment().get_template(template).render(values)
