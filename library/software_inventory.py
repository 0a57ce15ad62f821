#!/usr/bin/python
# SPDX-License-Identifier: Apache-2.0
"""Ansible module: lists what software is really installed on a host."""

DOCUMENTATION = r"""
---
module: software_inventory
short_description: List the packages, Python distributions and kernel modules that are really installed
version_added: "0.2.0"
description:
  - Reads the package database, every distribution in the Python environments with their lock files, and the loaded
    kernel modules.
  - A part that cannot be read is named in RV(unread). Changes nothing.
options:
  family:
    description: Which package database is asked.
    type: str
    choices: [redhat, debian]
    required: true
  venvs:
    description: Folder of the environments.
    type: path
    default: /opt/gpuwright/venvs
extends_documentation_fragment: [gpuwright.node.read_only]
author: The gpuwright developers (@gpuwright)
"""

EXAMPLES = r"""
- name: List the software
  gpuwright.node.software_inventory: {family: redhat}
  register: software
"""

RETURN = r"""
packages:
  description: Installed packages, each with C(name), C(epoch), C(version), C(release), C(arch) and C(source).
  returned: success
  type: list
  elements: dict
environments:
  description:
    - Each with C(path), C(current), C(lock) (null without one) and C(distributions), of which C(damaged) counts the
      files that are missing or have another size than RECORD says.
  returned: success
  type: list
  elements: dict
modules:
  description: Loaded kernel modules with C(name), C(version) and C(srcversion).
  returned: success
  type: list
  elements: dict
firmware:
  description: C(vendor), C(version) and C(date) of the firmware; empty where it says nothing.
  returned: success
  type: dict
unread:
  description: What could not be read, one sentence for each part.
  returned: success
  type: list
  elements: str
"""

import csv
import email
import hashlib
import os
import re
from typing import Any, Dict, List, Optional

from ansible_collections.gpuwright.node.plugins.module_utils.host.bounded import run_bounded
from ansible_collections.gpuwright.node.plugins.module_utils.host.files import names_in, read_text
from ansible_collections.gpuwright.node.plugins.module_utils.operator.node_module import AnsibleModule

SECONDS = 120
RPM = ["rpm", "-qa", "--qf", r"%{NAME}\t%{EPOCHNUM}\t%{VERSION}\t%{RELEASE}\t%{ARCH}\t%{SOURCERPM}\n"]
# dpkg keeps epoch, version and revision in one field.
DEB = r"${Package}\t\t${Version}\t\t${Architecture}\t${source:Package}\t${db:Status-Status}\n"
DPKG = ["dpkg-query", "-W", "-f", DEB]
FIELDS = ("name", "epoch", "version", "release", "arch", "source")
PIN = re.compile(r"^([A-Za-z0-9][A-Za-z0-9._-]*)==([^\s;\\]+)")
HASH = re.compile(r"--hash=sha256:([0-9a-f]{64})")
DMI = {"vendor": "bios_vendor", "version": "bios_version", "date": "bios_date"}


def packages_in(text: str) -> List[Dict[str, str]]:
    """Records of the lines of rpm or dpkg-query, sorted; keys of rpm, and what dpkg has not installed, are left out."""
    found = []
    for line in text.splitlines():
        cells = line.split("\t")
        if len(cells) >= len(FIELDS) and cells[0] != "gpg-pubkey" and cells[len(FIELDS) :] in ([], ["installed"]):
            found.append({key: cells[place] for place, key in enumerate(FIELDS)})
    return sorted(found, key=lambda row: sorted(row.items()))


def read_packages(family: str, unread: List[str]) -> List[Dict[str, str]]:
    done = run_bounded(RPM if family == "redhat" else DPKG, timeout=SECONDS, limit_bytes=16 * 1024 * 1024)
    if done.rc != 0:
        unread.append("the package database: " + (done.problem or done.stderr.strip() or "it does not answer"))
        return []
    return packages_in(done.stdout)


def lock_of(text: str) -> Dict[str, Dict[str, Any]]:
    """{normalised name: {version, hashes}} of a lock file with hashes (pip's requirements format)."""
    found: Dict[str, Dict[str, Any]] = {}
    for line in text.replace("\\\n", " ").splitlines():
        pin = PIN.match(line)
        if pin:
            found[normal(pin.group(1))] = {"version": pin.group(2), "hashes": sorted(set(HASH.findall(line)))}
    return found


def normal(name: str) -> str:
    """A distribution's name as indexes compare it (PEP 503)."""
    return re.sub(r"[-_.]+", "-", name).lower()


def distribution(folder: str, info: str) -> Dict[str, Any]:
    """One distribution; `record` is the SHA-256 of its RECORD or null. OSError if METADATA cannot be read."""
    with open(os.path.join(folder, info, "METADATA"), encoding="utf-8", errors="replace") as file:
        head = email.message_from_string(file.read().partition("\n\n")[0])
    record = os.path.join(folder, info, "RECORD")
    digest: Optional[str] = None
    damaged = 0
    if os.path.isfile(record):
        with open(record, "rb") as binary:
            content = binary.read()
        digest = hashlib.sha256(content).hexdigest()
        damaged = sum(differs(folder, row) for row in csv.reader(content.decode("utf-8", "replace").splitlines()))
    return {"name": head["Name"] or info, "version": head["Version"] or "", "record": digest, "damaged": damaged}


def differs(folder: str, row: List[str]) -> bool:
    """Whether the file of a line of RECORD (path, digest, bytes) is missing or has another size."""
    if len(row) < 3 or not row[1]:
        return False
    try:
        size = os.stat(os.path.join(folder, row[0])).st_size
    except OSError:
        return True
    return row[2].isdecimal() and size != int(row[2])


def read_environment(path: str, current: bool, unread: List[str]) -> Dict[str, Any]:
    found: List[Dict[str, Any]] = []
    lock: Optional[Dict[str, Any]] = None
    library = os.path.join(path, "lib")
    for python in sorted(os.listdir(library)) if os.path.isdir(library) else []:
        folder = os.path.join(library, python, "site-packages")
        for info in sorted(os.listdir(folder)) if os.path.isdir(folder) else []:
            if info.endswith(".dist-info"):
                try:
                    found.append(distribution(folder, info))
                except (OSError, csv.Error) as error:
                    unread.append("{}: {}".format(os.path.join(folder, info), error))
    try:
        with open(os.path.join(path, "lock.txt"), encoding="utf-8") as file:
            lock = lock_of(file.read())
    except (OSError, ValueError) as error:
        unread.append("the lock file of {}: {}".format(path, error))
    return {"path": path, "current": current, "lock": lock, "distributions": found}


def read_environments(venvs: str, unread: List[str]) -> List[Dict[str, Any]]:
    if not os.path.isdir(venvs):
        return []
    current = os.path.realpath(os.path.join(venvs, "current"))
    paths = [os.path.join(venvs, name) for name in sorted(os.listdir(venvs))]
    real = [path for path in paths if os.path.isdir(path) and not os.path.islink(path)]
    return [read_environment(path, os.path.realpath(path) == current, unread) for path in real]


def read_modules() -> List[Dict[str, str]]:
    names, place = names_in("/", "/sys/module"), "/sys/module/{}/{}"
    rows = [
        (name, *((read_text("/", place.format(name, key)) or "").strip() for key in ("version", "srcversion")))
        for name in names
    ]
    return [{"name": name, "version": at, "srcversion": source} for name, at, source in rows if at or source]


def main() -> None:
    """Read and return; change nothing."""
    module = AnsibleModule(
        argument_spec={
            "family": {"type": "str", "choices": ["redhat", "debian"], "required": True},
            "venvs": {"type": "path", "default": "/opt/gpuwright/venvs"},
        },
        supports_check_mode=True,
    )
    unread: List[str] = []
    packages = read_packages(module.params["family"], unread)
    environments = read_environments(module.params["venvs"], unread)
    firmware = {key: (read_text("/", "/sys/class/dmi/id/" + name) or "").strip() for key, name in DMI.items()}
    found = {"packages": packages, "environments": environments, "modules": read_modules(), "firmware": firmware}
    module.exit_json(changed=False, unread=unread, **found)


if __name__ == "__main__":
    main()
