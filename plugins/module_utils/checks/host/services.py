# SPDX-License-Identifier: Apache-2.0
"""Whether those services of a training node are running that no other check covers."""

from ...verdict.check import (
    DRAIN,
    FAIL,
    STANDARD,
    Check,
    Outcome,
    failed,
    passed,
    skipped,
    warned,
)
from ...verdict.evidence import Evidence
from ...verdict.reader import Reader
from ...verdict.reading_sources import by_hand
from .services_reading import UNITS, read_services

ACTIVE = "active"
ENABLED = "enabled"
# Timers and paths wait all the time. The others do their work once; gpuwright-boot-check ends with the verdict of the
# other checks, so judging by it here would be circular.
WAITING = (".timer", ".path")
ENDS_AS_THE_NODE_IS = "gpuwright-boot-check.service"
STATES = ("active", "inactive", "failed", "activating", "deactivating", "reloading", "maintenance")


def services(readings: Evidence, expected: Evidence) -> Outcome:
    """Every service that the inventory names is active; the toolkit's own units are switched on and have not failed."""
    named = [(row.text("unit"), row.one_of(STATES, "active")) for row in readings.each("services", "inventory")]
    own = readings.each("services", "toolkit")
    wanted = [name.text() for name in expected.each("services")]
    if not own and not wanted:
        return skipped(
            "none",
            "this node has no unit of the toolkit, and the inventory names no service (verify_expected_services)",
        )
    down = [f"{unit} is {state}" for unit, state in named if state != ACTIVE]
    down += [f"the state of {name} was not read" for name in wanted if name not in [unit for unit, _state in named]]
    if down:
        names = " ".join([unit for unit, state in named if state != ACTIVE])
        action = "Run: systemctl unmask {0} ; systemctl enable --now {0} ; their log: journalctl -u {0}"
        return failed("down", len(down), 0, "; ".join(down), action.format(names) if names else "")
    odd = []
    for row in own:
        unit, state, switched = row.one_of(UNITS, "unit"), row.one_of(STATES, "active"), row.wish("enabled")
        if switched != ENABLED:
            odd.append(f"{unit} is {switched or 'not known to systemd'}")
        elif unit.endswith(WAITING) and state != ACTIVE:
            odd.append(f"{unit} is {state}")
        elif unit != ENDS_AS_THE_NODE_IS and state == "failed":
            odd.append(f"{unit} has failed")
    if odd:
        return warned("odd", len(odd), 0, "; ".join(odd))
    return passed(0, 0, f"{len(own) + len(named)} units are as they should be")


READ_SERVICES = Reader(
    name="services",
    level=STANDARD,
    read=lambda seen: read_services(seen.root, seen.expectations.get("services", [])),
    source=by_hand("systemctl show", "systemctl --failed"),
    scanned=False,
)

CHECKS = (
    Check(
        id="host.services",
        layer="system",
        level=STANDARD,
        severity=FAIL,
        remedy=DRAIN,
        question="Are the services of this node running?",
        judge=services,
        unit="units",
        needs_gpu=False,
        action=(
            "Run: ansible-playbook site.yml --tags system_monitor,system_tuning,system_containers,verify ; if one "
            "still fails, see why: systemctl status 'gpuwright-*'"
        ),
        source="NHC check_ps_service, gcm check_service",
        readers=(READ_SERVICES,),
    ),
)
