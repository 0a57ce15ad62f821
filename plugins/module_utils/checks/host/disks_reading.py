# SPDX-License-Identifier: Apache-2.0
"""The disks' health, by their own report (smartctl) and the kernel's.

A virtual disk has no health of its own: it is its host's. Without smartctl, which is optional, `health` is null.
"""

import json
import re
from typing import Any, Dict, List, Optional

from ...host.bounded import find_program, run_bounded
from ...host.files import exists, names_in, read_text

BLOCK = "/sys/block"
SECONDS = 20
NVME = re.compile(r"nvme[0-9]+n[0-9]+$")
SCSI = re.compile(r"sd[a-z]+$")
# Names that hypervisors give their disks.
VIRTUAL = re.compile(r"qemu|virtual|vmware|vbox|msft|amazon|google|xen|rbd|hyperdisk|cloud", re.IGNORECASE)


def read_disks(root: str) -> Optional[List[Dict[str, Any]]]:
    """`[{name, model, state, health}]` of the physical disks; null if there are none."""
    names = names_in(root, BLOCK)
    if not names:
        raise OSError(f"{BLOCK} lists no device")
    found = []
    for name in names:
        folder = f"{BLOCK}/{name}"
        model = "{} {}".format(
            read_text(root, folder + "/device/vendor") or "", read_text(root, folder + "/device/model") or ""
        )
        hardware = (NVME.match(name) or SCSI.match(name)) and exists(root, folder + "/device")
        if not hardware or VIRTUAL.search(model) or read_text(root, folder + "/removable") == "1":
            continue
        state = read_text(root, folder + "/device/state")
        found.append({"name": name, "model": model.strip(), "state": state, "health": ask_disk(name)})
    return found or None


def ask_disk(name: str) -> Optional[Dict[str, Any]]:
    """`{passed, critical_warning, percentage_used}` of a disk; null without smartctl; unreadable without an answer."""
    if find_program("smartctl") is None:
        return None
    done = run_bounded(["smartctl", "--json", "--health", "--attributes", "/dev/" + name], SECONDS)
    try:
        answer = json.loads(done.stdout)
        passed = answer["smart_status"]["passed"]
    except (ValueError, KeyError, TypeError):
        words = " ".join(done.stdout.split())[:200]
        return {"unreadable": done.problem or f"smartctl does not report the health of /dev/{name}: {words}"}
    log = answer.get("nvme_smart_health_information_log") or {}
    return {
        "passed": passed,
        "critical_warning": log.get("critical_warning"),
        "percentage_used": log.get("percentage_used"),
    }
