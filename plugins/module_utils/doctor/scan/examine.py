# SPDX-License-Identifier: Apache-2.0
"""A scan: what is on a host, judged by the same checks as a node of the toolkit, but without a plan."""

import os
import platform
import pwd
from typing import Dict, List

from ...checks.all import CHECKS, run_checks
from ...checks.collect import QUICK_NVIDIA_SMI_SECONDS, collect, collect_level
from ...checks.host.services_reading import read_services
from ...checks.waivers.report import with_waivers
from ...gpu.nvidia_smi.query import DEFAULT_TIMEOUT_SECONDS
from ...host.access import read_device_access
from ...readings.attempt import attempt
from ...verdict.check import PASS, QUICK, SKIP, STANDARD, UNKNOWN, Check, within
from ...verdict.reader import Seen
from ...verdict.report import make_report, now_utc
from .scope import KEY, LEFT_OUT, is_node, scan_expectations, scanned_checks, without_bus
from .words import host_of, reworded

# Folder into which only an environment of the toolkit is written.
ENVIRONMENT = "environment"
NO_CARD = "no-card"
NO_CARD_WORDS = ": nothing is known of GPUs here"
NO_CARD_ACTION = (
    "On a machine that has GPUs: lspci -nn -d 10de: ; in a container or virtual machine, give it the cards. A machine"
    " without GPUs needs no scan of them."
)


def scan(root: str = "/", level: str = STANDARD, program: str = "gpu-doctor") -> Dict:
    """The report of this moment; `program` is what to type for the next scan. Nothing is written."""
    user = own_name()
    seconds = QUICK_NVIDIA_SMI_SECONDS if level == QUICK else DEFAULT_TIMEOUT_SECONDS
    readings = scan_readings(root, level, user, seconds)
    expectations = scan_expectations(readings, user, root)
    records = scan_records(readings, expectations, level, program)
    return with_waivers(make_report(platform.node(), now_utc(), records, readings, expectations, None))


def scan_readings(root: str, level: str, user: str, seconds: float) -> Dict:
    """What `checks.collect` reads, except what only a node of the toolkit has."""
    expectations = {"training_user": user}
    readings = collect(expectations, root, seconds, QUICK, dkms=True)
    host = without_bus(readings["probe"], root)
    readings["probe"] = host
    readings["device_nodes"] = attempt(read_own_access, root, host)
    if isinstance(readings["file_systems"], list):
        readings["file_systems"] = [row for row in readings["file_systems"] if not is_room_for_nothing(row)]
    if level != QUICK:
        seen = Seen(root, expectations, host, readings["nvidia_smi"])
        readings.update(collect_level(seen, STANDARD, scanned=True))
        if is_node(root):
            readings["services"] = attempt(read_services, root, [])
    return readings


def is_room_for_nothing(row: Dict) -> bool:
    """Whether this is the folder of an environment that will not be made on this host."""
    return row.get("use") == ENVIRONMENT and row.get("there") is False


def read_own_access(root: str, host: Dict) -> Dict:
    """What the scanning account may do with the device files; ValueError if the probe found none."""
    if "unreadable" in host:
        raise ValueError(host["unreadable"])
    account = {"uid": os.geteuid(), "gids": sorted({os.getegid(), *os.getgroups()})}
    return read_device_access(root, host["nvidia"]["device_nodes"], account)


def own_name() -> str:
    """The name of the scanning account; if it has none, as in a container, its number."""
    try:
        return pwd.getpwuid(os.geteuid()).pw_name
    except KeyError:
        return "uid {}".format(os.geteuid())


def scan_records(readings: Dict, expectations: Dict, level: str, program: str = "gpu-doctor") -> List[Dict]:
    """The records of all checks of the level in their order; those that a scan leaves out are SKIP. Never raises."""
    records = run_checks(readings, expectations, None, scanned_checks(expectations), level)
    judged = {record["id"]: record for record in records}
    asked = [check for check in CHECKS if check.level in within(level)]
    found = [judged.get(check.id) or left_out(check, expectations[KEY]) for check in asked]
    host = host_of(readings)
    said = [reworded(record, expectations, host, program) for record in found]
    return [without_card(record) if expectations["gpu_count"] == 0 else record for record in said]


def without_card(record: Dict) -> Dict:
    """Where no card is to be seen, that is what a scan says of GPUs: it is not a good result of theirs."""
    if record["id"] != "gpu.count" or record["status"] not in (PASS, SKIP):
        return record
    return dict(
        record, status=UNKNOWN, code=NO_CARD, message=f"{record['message']}{NO_CARD_WORDS}", action=NO_CARD_ACTION
    )


def left_out(check: Check, why: str) -> Dict:
    """The record of a check that says nothing about a host without a plan."""
    return {
        "id": check.id,
        "layer": check.layer,
        "status": SKIP,
        "code": LEFT_OUT,
        "items": [],
        "value": None,
        "expected": None,
        "unit": check.unit,
        "message": why,
        "action": "",
        "remedy": "",
    }
