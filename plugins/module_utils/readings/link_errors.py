# SPDX-License-Identifier: Apache-2.0
"""How fast the error counters of InfiniBand and RoCE ports rise: a counter's value alone may be years old.

What was read is kept with its time, one hour apart, so that a rise has at least an hour in which it happened wherever
somebody looked before. A counter that is smaller than it was has been reset, and a boot begins anew, too.
"""

import contextlib
import os
from typing import Any, Dict, List, NamedTuple, Tuple

from ..host.files import names_in, read_int
from ..host.written.state_file import check
from ..verdict.boot_check import read_moment
from ..verdict.kept_file import read_kept, write_kept
from .links import INFINIBAND

PATH = "/var/lib/gpuwright/link-errors.json"
SCHEMA = 1
HOUR_S = 3600.0
FORM = {"schema": {SCHEMA}, "boot_id": str, "ports": {str: [[float, {str: int}]]}}
FOLDERS = ("counters", "hw_counters")
# More than so many in an hour are a finding. From the thresholds of infiniband-diags (ibqueryerrors(8)); our own are
# link_downed, as one may be a cable that somebody plugs, and timeouts, which a peer that ends causes as well.
LIMITS = {
    "symbol_error": 10,
    "link_error_recovery": 10,
    "link_downed": 1,
    "port_rcv_errors": 10,
    "port_rcv_remote_physical_errors": 100,
    "port_xmit_discards": 100,
    "local_link_integrity_errors": 10,
    "excessive_buffer_overrun_errors": 10,
    "VL15_dropped": 100,
    "rx_icrc_encapsulated": 10,
    "local_ack_timeout_err": 1000,
}


class Sample(NamedTuple):
    """The counters of a port, and when they were read, in seconds since the boot."""

    uptime_s: float
    counters: Dict[str, int]


Ports = Dict[str, List[Sample]]


def read_link_errors(root: str) -> Any:
    """`[{name, since_s, rises: [{counter, rise}]}]` of each port; null if there is no adapter. OSError.

    since_s    how long ago the port was looked at before; 0, and no rises, where nothing is known of before
    """
    if not names_in(root, INFINIBAND):
        return None
    moment = read_moment(root)
    boot_id, uptime_s = moment["boot_id"], moment["uptime_s"]
    if not boot_id or uptime_s is None:
        raise OSError("this boot's id or uptime cannot be read")
    before, after, found = _read_samples(root, boot_id, uptime_s), {}, []
    for name, counters in _counters(root).items():
        since, rises, after[name] = compared(before.get(name, []), Sample(uptime_s, counters))
        told = [{"counter": counter, "rise": rises[counter]} for counter in sorted(rises)]
        found.append({"name": name, "since_s": since, "rises": told})
    if after != before:
        _keep_samples(root, boot_id, after)
    return found


def compared(before: List[Sample], now: Sample) -> Tuple[float, Dict[str, int], List[Sample]]:
    """Seconds since the oldest sample, how much each counter has risen since, and the samples to keep."""
    known = [sample.counters for sample in before]
    if not before or any(now.counters[name] < old[name] for old in known for name in set(old) & set(now.counters)):
        return 0.0, {}, [now]
    oldest = before[0]
    rises = {name: now.counters[name] - oldest.counters[name] for name in set(oldest.counters) & set(now.counters)}
    kept = [before[-1], now] if now.uptime_s - before[-1].uptime_s >= HOUR_S else before
    return now.uptime_s - oldest.uptime_s, rises, kept


def _counters(root: str) -> Dict[str, Dict[str, int]]:
    """The counters that a port has, by its name."""
    found: Dict[str, Dict[str, int]] = {}
    for adapter in names_in(root, INFINIBAND):
        for number in names_in(root, f"{INFINIBAND}/{adapter}/ports"):
            port = f"{INFINIBAND}/{adapter}/ports/{number}"
            there = {
                name: f"{port}/{folder}/{name}" for folder in FOLDERS for name in names_in(root, f"{port}/{folder}")
            }
            values = {name: read_int(root, there[name]) for name in LIMITS if name in there}
            found[f"{adapter} port {number}"] = {name: one for name, one in values.items() if one is not None}
    return found


def _read_samples(root: str, boot_id: str, uptime_s: float) -> Ports:
    """Those of this boot; none where the file is damaged: then counting begins anew, as after a boot."""
    try:
        record = read_kept(root, PATH, SCHEMA)
        if record is None:
            return {}
        check(record, FORM, PATH)
        if record["boot_id"] != boot_id:
            return {}
        found = {name: [Sample(*row) for row in rows] for name, rows in record["ports"].items()}
        return {} if any(one.uptime_s > uptime_s for rows in found.values() for one in rows) else found
    except (OSError, ValueError):
        return {}


def _keep_samples(root: str, boot_id: str, ports: Ports) -> None:
    """Keep them, if root reads; where that fails, the next rise is told over a longer time."""
    if os.geteuid() == 0:
        with contextlib.suppress(OSError, ValueError):
            write_kept(root, PATH, {"schema": SCHEMA, "boot_id": boot_id, "ports": ports})
