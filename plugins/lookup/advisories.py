# SPDX-License-Identifier: Apache-2.0
"""Known vulnerabilities of a node's locked wheels and of its driver."""

from __future__ import annotations

DOCUMENTATION = """
name: advisories
author: The gpuwright developers (@gpuwright)
version_added: "0.2.0"
short_description: Known vulnerabilities of locked Python packages and of NVIDIA drivers
description:
  - Compares the versions of a lock file with OSV's advisories, and drivers with NVIDIA's bulletins. Runs on the
    controller; no node is contacted. Without a file it asks OSV, which learns names and versions of the packages.
  - Fails if OSV neither answers nor is replaced by a file, since nothing is known then.
options:
  _terms:
    description: Names of lock files, for the table.
    type: list
    elements: str
    required: true
  text:
    description: The text of the lock file.
    type: str
    required: true
  drivers:
    description: Versions of NVIDIA's driver that are installed or planned; empty ones are left out.
    type: list
    elements: str
    default: []
  file:
    description: OSV's export, a zip or a folder of JSON records; empty asks OSV.
    type: path
    default: ""
  bulletins:
    description: A file of bulletins in addition to the toolkit's own, in the same form.
    type: path
    default: ""
  knowledge:
    description: A file or folder with newer tables than the toolkit's own, as C(preflight_knowledge).
    type: path
    default: ""
  knowledge_signer:
    description: Fingerprint of the key that must have signed it; empty takes its SHA-256 for enough.
    type: str
    default: ""
  branch:
    description: The branch of a driver that is planned without a version; if no driver is named either, it is unknown.
    type: str
    default: ""
"""
EXAMPLES = """
- name: Compare
  ansible.builtin.set_fact:
    found: "{{ lookup('gpuwright.node.advisories', 'a.txt', text=lookup('file', 'a.txt'), drivers=['580.95.05']) }}"
"""
RETURN = """
_raw:
  description:
    - For each lock file C(rows), C(unknown) (sentences), C(lines) (the table), and C(as_of) (how old the knowledge is,
      and what was not compared).
  type: list
  elements: dict
"""

import datetime
from pathlib import Path
from typing import Any

from ansible.errors import AnsibleLookupError
from ansible.plugins.lookup import LookupBase
from ansible_collections.gpuwright.node.plugins.plugin_utils.bundle.signature import signature_problem
from ansible_collections.gpuwright.node.plugins.plugin_utils.plan.matrix import CARDS, SHIPPED, read_matrix
from ansible_collections.gpuwright.node.plugins.plugin_utils.plan.renewal.knowledge import with_knowledge
from ansible_collections.gpuwright.node.plugins.plugin_utils.software import bulletins, osv
from ansible_collections.gpuwright.node.plugins.plugin_utils.software.advisory import AdvisoryError, Row
from ansible_collections.gpuwright.node.plugins.plugin_utils.started import told
from packaging.version import InvalidVersion

NOT_COMPARED = (
    "Not compared with anything here: toolkit, cuDNN and NCCL of the system, container toolkit, firmware, VBIOS, "
    "kernel and other packages of the distribution"
)


def compared(
    lock: str,
    text: str,
    drivers: list[str],
    file: str,
    more: str,
    branch: str = "",
    today: datetime.date | None = None,
    newer: tuple[str, str] = ("", ""),
) -> dict[str, Any]:
    """Rows, what is unknown, the table, and how old all that is. AdvisoryError: there is nothing to compare with.

    newer  where newer tables than the toolkit's own are, and by which key they must be signed
    """
    today = today or datetime.date.today()
    pins, unpinned = osv.pins_and_rest(text)
    matrix, said = with_knowledge(read_matrix(SHIPPED, without=[CARDS]), *newer, today.isoformat(), signature_problem)
    known = bulletins.of(matrix)
    known = known.with_file(Path(more).expanduser()) if more else known
    records: list[osv.Record] = []
    ages, unknown = [], []
    if pins:
        records = osv.from_file(Path(file).expanduser(), pins) if file else osv.from_server(pins.items())
        age, doubt = osv.age_of(Path(file).expanduser(), today) if file else (f"OSV was asked on {today}", "")
        ages.append(age)
        unknown += [doubt] if doubt else []
    rows = osv.rows(records, pins, lock)
    unknown += [] if pins else [f"{lock or 'the plan'} pins no package, so none was compared"]
    unknown += [f"{line!r} in {lock or 'the lock'} names no version that could be compared" for line in unpinned]
    unknown += osv.undecided(records, pins)
    versions = sorted({version for version in drivers if version})
    for version in versions:
        try:
            rows += bulletins.rows(version, known.bulletins, "driver")
            unknown.append(known.unknown(version, today))
        except InvalidVersion:
            unknown.append(f"NVIDIA driver {version}: not the version of a driver")
    if branch and not versions:
        unknown.append(f"NVIDIA driver {branch}: none is installed, and the plan names no version")
    if branch or versions:
        ages += [known.told(today), *said]
    unknown = [text for text in unknown if text]
    found = {"rows": [row.told() for row in rows], "unknown": unknown, "lines": lines(rows, unknown)}
    return {**found, "as_of": [*ages, NOT_COMPARED]}


def lines(rows: list[Row], unknown: list[str]) -> list[str]:
    """One line for each vulnerability, and what to do for each place that has one."""
    found = [
        f"{row.what} {row.version}: {', '.join(row.ids[:4])} ({row.severity}), {in_words(row.fixed)} [{row.lock}]"
        for row in rows
    ]
    found += [f"UNKNOWN {text}" for text in unknown]
    for place in sorted({row.lock for row in rows}):
        found.append(f"{place}: {refresh(place)}")
    return found


def in_words(fixed: str) -> str:
    return f"fixed in {fixed}" if fixed else "no fixed version is named"


def refresh(place: str) -> str:
    """What brings another version to this place."""
    if place == "driver":
        return told("set system_driver_version to a fixed one, then ansible-playbook site.yml")
    return (
        "a release of the toolkit with newer lock files (make lock writes them), or your own in "
        "framework_pytorch_lock_file; " + told("for framework_pytorch_packages: ansible-playbook playbooks/lock.yml")
    )


class LookupModule(LookupBase):
    """`lookup('gpuwright.node.advisories', lock, text=text, drivers=[...])`."""

    def run(self, terms: list, variables: dict | None = None, **kwargs: Any) -> list[dict[str, Any]]:
        drivers = [str(version) for version in kwargs.get("drivers") or []]
        file, more = str(kwargs.get("file") or ""), str(kwargs.get("bulletins") or "")
        newer = (str(kwargs.get("knowledge") or ""), str(kwargs.get("knowledge_signer") or ""))
        try:
            text, branch = str(kwargs.get("text") or ""), str(kwargs.get("branch") or "")
            return [compared(str(name), text, drivers, file, more, branch, newer=newer) for name in terms]
        except AdvisoryError as error:
            raise AnsibleLookupError(str(error)) from error
