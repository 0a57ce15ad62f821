# SPDX-License-Identifier: Apache-2.0
"""What a run of playbooks/drift.yml has found, host by host, and what that amounts to."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Mapping
from typing import Any

from ..summary.words import natural, printable
from .differences import Difference, Place

DRIFT, UNKNOWN, NONE = "drift", "unknown", "no drift"
# Of a row: somebody else has changed it since the toolkit's last run.
NOT_OURS = "not by us"
# Worst first.
ORDER = (DRIFT, UNKNOWN, NONE)


@dataclasses.dataclass
class Unknown:
    """Something that was not looked at, and why."""

    layer: str
    role: str
    task: str
    why: str


@dataclasses.dataclass
class Found:
    """One host. `ended` is why its run ended early, `judged` whether the last play was reached.

    not_ours  names of what somebody else has changed since the toolkit's last run
    """

    differences: list[Difference] = dataclasses.field(default_factory=list)
    unknown: list[Unknown] = dataclasses.field(default_factory=list)
    remarks: list[str] = dataclasses.field(default_factory=list)
    verdict: str = ""
    ended: str = ""
    judged: bool = False
    not_ours: list[str] = dataclasses.field(default_factory=list)

    def others(self, told: Mapping[str, Any], place: Place) -> None:
        """Note what the module first_record says that others have changed."""
        self.not_ours += [str(name) for name in told["not_ours"]]
        self.remarks += [f"{path}: a site's own drop-in of {unit}" for path, unit in told["drop_ins"].items()]
        if told["because"]:
            self.unknown.append(Unknown(place.layer, place.role, place.task, printable(told["because"])))


def status_of(host: Found) -> str:
    """A host that differs has drift, whatever else is unknown; one that was not seen whole is never without drift."""
    if host.differences:
        return DRIFT
    return NONE if host.judged and not host.unknown and not host.ended else UNKNOWN


def judged(host: Found, verifies: bool) -> Found:
    """The host as the end of the run leaves it: each row once, and one for whatever the run did not come to.

    verifies  whether the run was to end with a verdict
    """
    others = {row: NOT_OURS if row.what in host.not_ours else "" for row in host.differences}
    rows = [dataclasses.replace(row, who=who) for row, who in others.items()]
    unknown = list({dataclasses.astuple(row): row for row in host.unknown}.values())
    if host.ended:
        unknown.append(Unknown("", "", "everything after that", host.ended))
    elif not host.judged:
        unknown.append(Unknown("", "", "everything", "the run ended before this host was looked at"))
    elif verifies and not host.verdict:
        unknown.append(Unknown("verify", "verify", "the verification", "no verdict of it was seen"))
    return dataclasses.replace(host, differences=rows, unknown=unknown)


def of_checks(checks: Iterable[Any]) -> tuple[list[Difference], list[Unknown], list[str]]:
    """Rows for what verification finds wrong, cannot read, or only remarks, without what follows from another check."""
    rows, unknown, remarks = [], [], []
    for check in checks:
        if not isinstance(check, Mapping) or check.get("caused_by"):
            continue
        name, layer, message = (str(check.get(key) or "") for key in ("id", "layer", "message"))
        if check.get("status") == "FAIL":
            now, planned = in_words(check.get("value")), in_words(check.get("expected"))
            rows.append(
                Difference(layer, "verify", f"Check {name}", name, "check", now, planned, (printable(message),))
            )
        elif check.get("status") == "UNKNOWN":
            unknown.append(Unknown(layer, "verify", f"Check {name}", printable(message)))
        elif check.get("status") == "WARN":
            remarks.append(f"{name}: {printable(message)}")
    return rows, unknown, remarks


def in_words(value: Any) -> str:
    """A check's value in a cell; lists and records are long, and the message has them."""
    return "" if value is None or isinstance(value, (list, dict)) else printable(value)


def counts(host: Found) -> str:
    """For example "2 differences (system 1, model 1), 1 unknown"."""
    layers: dict[str, int] = {}
    for row in host.differences:
        layers[row.layer] = layers.get(row.layer, 0) + 1
    number = len(host.differences)
    where = f" ({', '.join(f'{layer} {of}' for layer, of in layers.items())})" if layers else ""
    text = f"{number} difference{'' if number == 1 else 's'}{where}"
    return f"{text}, {len(host.unknown)} unknown" if host.unknown else text


def overall(hosts: Mapping[str, Found]) -> str:
    """The worst status; a run without hosts knows nothing."""
    return min((status_of(host) for host in hosts.values()), key=ORDER.index, default=UNKNOWN)


def worst_first(hosts: Mapping[str, Found]) -> list[str]:
    """Names, worst status first, then by name."""
    return sorted(hosts, key=lambda name: (ORDER.index(status_of(hosts[name])), natural(name)))


def record(hosts: Mapping[str, Found], time: str, asked: Mapping[str, Any]) -> dict[str, Any]:
    """The JSON record, as docs/drift.md describes it. `asked`: limit and tags of the run."""
    told = {
        name: {
            "status": status_of(hosts[name]),
            "verdict": hosts[name].verdict or None,
            "differences": [dataclasses.asdict(row) for row in hosts[name].differences],
            "unknown": [dataclasses.asdict(row) for row in hosts[name].unknown],
            "remarks": hosts[name].remarks,
        }
        for name in worst_first(hosts)
    }
    return {"schema": 1, "time": time, **asked, "status": overall(hosts), "hosts": told}
