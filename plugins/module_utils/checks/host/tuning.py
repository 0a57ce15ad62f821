# SPDX-License-Identifier: Apache-2.0
"""Whether the host still has the settings that system_tuning gave it."""

from ...tuning.catalogue import BY_NAME
from ...verdict.check import (
    QUICK,
    WARN,
    Check,
    Outcome,
    passed,
    skipped,
    unknown,
    warned,
)
from ...verdict.evidence import Evidence

TUNE = "Run: ansible-playbook playbooks/system.yml --tags system_tuning"
ACTION = TUNE + " ; on the node, sudo gpu-tune shows all settings"


def tuned_to(readings: Evidence, name: str) -> str:
    """The value that system_tuning gave this setting, "" if it left it alone."""
    if readings.absent("tuning"):
        return ""
    wanted = {row.one_of(sorted(BY_NAME), "name"): row for row in readings.each("tuning")}
    return wanted[name].text("wanted") if name in wanted else ""


def tuning(readings: Evidence, expected: Evidence) -> Outcome:
    """Every setting that was applied is still in force; tuned, sysctl.d, a reboot or a person may have changed it."""
    if readings.absent("tuning"):
        return skipped("not-tuned", "this node is not tuned: /etc/gpuwright/tuning.json is not there")
    rows = readings.each("tuning")
    if not rows:
        return unknown("empty", "tuning.json holds no setting", action=ACTION)
    different, names = [], []
    for row in rows:
        name, wanted, found = row.one_of(sorted(BY_NAME), "name"), row.text("wanted"), row.text("found")
        if found != wanted:
            different.append(f"{name}: found {found}, wanted {wanted}")
            names.append(name)
    if different:
        return warned("different", len(different), 0, "; ".join(different), items=names)
    return passed(0, 0, f"{len(rows)} settings are as they were set")


CHECKS = (
    Check(
        id="host.tuning",
        layer="system",
        level=QUICK,
        severity=WARN,
        question="Are the host's settings still those of system_tuning?",
        judge=tuning,
        unit="settings",
        needs_gpu=False,
        action=ACTION,
        source="own: the list of docs/tuning.md",
    ),
)
