# SPDX-License-Identifier: Apache-2.0
"""How fast the error counters of InfiniBand and RoCE ports rise: a counter's value alone may be years old.

What was read is kept with its time, one hour apart, so that a rise has at least an hour in which it happened wherever
a recorded check looked before. A counter that is smaller than it was has been reset, and a boot begins anew, too. One
that has reached its maximum stays there, whatever happens.
"""

from typing import Any, Dict, List, NamedTuple, Optional, Tuple

from ..host.files import names_in, read_text, to_int
from ..host.in_child import examine_at_once
from ..host.written.state_file import check
from ..verdict.boot_check import read_moment
from ..verdict.kept_file import one_writer, read_kept, write_kept
from ..verdict.report import Record
from .attempt import attempt
from .links import INFINIBAND, SECONDS_OF_PORT, port_names, silent_port

PATH = "/var/lib/gpuwright/link-errors.json"
SCHEMA = 1
HOUR_S = 3600.0
FORM = {"schema": {SCHEMA}, "boot_id": str, "ports": {str: [[float, {str: int}]]}}
FOLDERS = ("counters", "hw_counters")
# What the kernel shows in place of the counters of a driver without any, as those of iWARP (core/sysfs.c).
NOT_COUNTED = "N/A (no PMA)"


class Counter(NamedTuple):
    """More than `hourly` in an hour are a finding; at `most` it stops, None for one of 64 bits."""

    hourly: int
    most: Optional[int] = None


BITS_4, BITS_8, BITS_16 = 0xF, 0xFF, 0xFFFF
# By hour: the thresholds of infiniband-diags (ibqueryerrors(8)); our own are link_downed, as one may be a cable that
# somebody plugs, and timeouts, which a peer that ends causes as well. Widths: those of PortCounters, which the kernel
# shows (drivers/infiniband/core/sysfs.c); the InfiniBand specification has them stop at all ones.
COUNTERS = {
    "symbol_error": Counter(10, BITS_16),
    "link_error_recovery": Counter(10, BITS_8),
    "link_downed": Counter(1, BITS_8),
    "port_rcv_errors": Counter(10, BITS_16),
    "port_rcv_remote_physical_errors": Counter(100, BITS_16),
    "port_xmit_discards": Counter(100, BITS_16),
    "local_link_integrity_errors": Counter(10, BITS_4),
    "excessive_buffer_overrun_errors": Counter(10, BITS_4),
    "VL15_dropped": Counter(100, BITS_16),
    "rx_icrc_encapsulated": Counter(10),
    "local_ack_timeout_err": Counter(1000),
}


class Sample(NamedTuple):
    """The counters of a port, and when they were read, in seconds since the boot."""

    uptime_s: float
    counters: Dict[str, int]


Ports = Dict[str, List[Sample]]


def read_link_errors(root: str) -> Any:
    """`[{name, since_s, rises: [{counter, rise}], full, layer, counters}]` of each port. OSError.

    since_s    how long ago the port was looked at before; 0, and no rises, where nothing is known of before
    full       names of the counters that have stopped at their maximum
    layer      "InfiniBand" or "Ethernet", null if unknown
    counters   {name: value}, empty where the driver has none

    Null without an adapter. A port that does not answer, as that of one that hangs, is `{name, unreadable}`.
    """
    if not names_in(root, INFINIBAND):
        return None
    moment = read_moment(root)
    boot_id, uptime_s = moment["boot_id"], moment["uptime_s"]
    if not boot_id or uptime_s is None:
        raise OSError("this boot's id or uptime cannot be read")
    before, found = _read_samples(root, boot_id, uptime_s), []
    ports = port_names(root)
    answers = examine_at_once(lambda port: attempt(_look_at_port, root, *port), ports, SECONDS_OF_PORT)
    for at, (adapter, number) in enumerate(ports):
        answer = answers[at]
        name = f"{adapter} port {number}"
        if answer is None or "unreadable" in answer:
            found.append(silent_port(name, answer))
            continue
        counters = answer["counters"]
        since, rises, _kept = compared(before.get(name, []), Sample(uptime_s, counters))
        told = [{"counter": counter, "rise": rises[counter]} for counter in sorted(rises)]
        found.append(dict(answer, name=name, since_s=since, rises=told, full=full(counters)))
    return found


def full(counters: Dict[str, int]) -> List[str]:
    """The counters that stand at their maximum; none of a port whose driver shows wider ones, which go on."""
    tops = {name: COUNTERS[name].most for name in counters}
    if any(top is not None and counters[name] > top for name, top in tops.items()):
        return []
    return sorted(name for name, top in tops.items() if counters[name] == top)


def keep_link_errors(readings: Record, root: str = "/") -> None:
    """Keep what a recorded check has read, for the next ones; OSError or ValueError if that cannot be done.

    What a quicker check has kept since stays as it is.
    """
    ports, moment = readings.get("link_errors"), readings.get("moment")
    boot_id, uptime_s = (moment.get(name) if isinstance(moment, dict) else None for name in ("boot_id", "uptime_s"))
    if not isinstance(ports, list) or not boot_id or uptime_s is None:
        return
    with one_writer(root):
        before, after = _read_samples(root, boot_id, max(uptime_s, read_moment(root)["uptime_s"] or 0.0)), {}
        if _is_newer(before, uptime_s):
            return
        for port in ports:
            name = port["name"]
            if "counters" in port:
                after[name] = compared(before.get(name, []), Sample(uptime_s, port["counters"]))[2]
            elif name in before:
                after[name] = before[name]
        if after != before:
            record = {"schema": SCHEMA, "boot_id": boot_id, "ports": after}
            write_kept(root, PATH, record)


def compared(before: List[Sample], now: Sample) -> Tuple[float, Dict[str, int], List[Sample]]:
    """Seconds since the oldest sample, how much each counter has risen since, and the samples to keep."""
    known = [sample.counters for sample in before]
    if not before or any(now.counters[name] < old[name] for old in known for name in set(old) & set(now.counters)):
        return 0.0, {}, [now]
    oldest = before[0]
    rises = {name: now.counters[name] - oldest.counters[name] for name in set(oldest.counters) & set(now.counters)}
    kept = [before[-1], now] if now.uptime_s - before[-1].uptime_s >= HOUR_S else before
    return now.uptime_s - oldest.uptime_s, rises, kept


def _look_at_port(root: str, adapter: str, number: str) -> Dict[str, Any]:
    """Its link layer and its counters; OSError."""
    layer = read_text(root, f"{INFINIBAND}/{adapter}/ports/{number}/link_layer")
    return {"layer": layer, "counters": _counters(root, adapter, number)}


def _counters(root: str, adapter: str, number: str) -> Dict[str, int]:
    """The counters that a port has, by name; none if its driver has none. OSError if none can be read."""
    port = f"{INFINIBAND}/{adapter}/ports/{number}"
    there = {name: f"{port}/{folder}/{name}" for folder in FOLDERS for name in names_in(root, f"{port}/{folder}")}
    texts = {name: read_text(root, there[name]) for name in COUNTERS if name in there}
    values = {name: to_int(text) for name, text in texts.items()}
    if texts and set(values.values()) == {None} and set(texts.values()) != {NOT_COUNTED}:
        raise OSError(f"{adapter} port {number}: none of {len(texts)} error counters can be read")
    return {name: one for name, one in values.items() if one is not None}


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
        return {} if _is_newer(found, uptime_s) else found
    except (OSError, ValueError):
        return {}


def _is_newer(samples: Ports, uptime_s: float) -> bool:
    """Whether one of them was taken after this time."""
    return any(one.uptime_s > uptime_s for rows in samples.values() for one in rows)
