# SPDX-License-Identifier: Apache-2.0
"""Single values of nvidia-smi, as `--query-gpu=FIELDS --format=csv` of drivers 418 to 620 writes them.

Every value comes with its unit; a value whose unit or format is not the expected one is UNKNOWN. `absent` decides which
values may be N/A, as for the XML.
"""

import re
from typing import Any, Dict, Iterable, List, Sequence, Tuple

from ...host.bounded import run_bounded
from ..devices import describe_device
from .absent import Card, believed
from .query import interpret
from .values import UNKNOWN, clean, read_flag, read_mode, read_number, read_text, read_version

COUNT, AMOUNT, MODE, FLAG, TEXT, VERSION, MASK = "count", "amount", "mode", "flag", "text", "version", "mask"
# Always asked for: they say which card it is, and so which values it may lack.
IDENTITY = ("pci.bus_id", "pci.device_id", "name")
# Field: (its name in absent, format, unit). Units as in the help of --query-gpu; temperatures have none.
FIELDS = {
    "uuid": ("uuid", TEXT, ""),
    "serial": ("serial", TEXT, ""),
    "driver_version": ("driver_version", VERSION, ""),
    "vbios_version": ("vbios", TEXT, ""),
    "compute_cap": ("compute_capability", VERSION, ""),
    "pstate": ("pstate", TEXT, ""),
    "persistence_mode": ("persistence_mode", MODE, ""),
    "compute_mode": ("compute_mode", TEXT, ""),
    "mig.mode.current": ("mig_mode", MODE, ""),
    "ecc.mode.current": ("ecc_mode", MODE, ""),
    "ecc.mode.pending": ("ecc_pending", MODE, ""),
    "ecc.errors.corrected.volatile.total": ("ecc_corrected_volatile", COUNT, ""),
    "ecc.errors.uncorrected.volatile.total": ("ecc_uncorrected_volatile", COUNT, ""),
    "ecc.errors.uncorrected.aggregate.total": ("ecc_uncorrected_volatile", COUNT, ""),
    "retired_pages.sbe": ("retired_pages_single_bit", COUNT, ""),
    "retired_pages.dbe": ("retired_pages_double_bit", COUNT, ""),
    "retired_pages.pending": ("retired_pages_pending", FLAG, ""),
    "remapped_rows.correctable": ("remapped_rows_corrected", COUNT, ""),
    "remapped_rows.uncorrectable": ("remapped_rows_uncorrected", COUNT, ""),
    "remapped_rows.pending": ("remapped_rows_pending", FLAG, ""),
    "remapped_rows.failure": ("remapped_rows_failure", FLAG, ""),
    "memory.total": ("memory_total_mib", COUNT, "MiB"),
    "memory.used": ("memory_used_mib", COUNT, "MiB"),
    "memory.free": ("memory_free_mib", COUNT, "MiB"),
    "utilization.gpu": ("utilization_gpu", COUNT, "%"),
    "utilization.memory": ("utilization_memory", COUNT, "%"),
    "fan.speed": ("fan_speed", COUNT, "%"),
    "temperature.gpu": ("temperature_c", COUNT, ""),
    "temperature.memory": ("temperature_memory_c", COUNT, ""),
    "power.draw": ("power_draw_w", AMOUNT, "W"),
    "power.limit": ("power_limit_w", AMOUNT, "W"),
    "power.default_limit": ("power_default_w", AMOUNT, "W"),
    "enforced.power.limit": ("power_limit_w", AMOUNT, "W"),
    "clocks.sm": ("clocks_sm", COUNT, "MHz"),
    "clocks.mem": ("clocks_mem", COUNT, "MHz"),
    "clocks.max.sm": ("clocks_max_sm", COUNT, "MHz"),
    "clocks.max.mem": ("clocks_max_mem", COUNT, "MHz"),
    "pcie.link.gen.current": ("link_gen_now", COUNT, ""),
    "pcie.link.gen.max": ("link_gen_max", COUNT, ""),
    "pcie.link.width.current": ("link_width_now", COUNT, ""),
    "pcie.link.width.max": ("link_width_max", COUNT, ""),
    "clocks_throttle_reasons.active": ("throttle_reasons", MASK, ""),
    "gpu_recovery_action": ("recovery_action", TEXT, ""),
}
# The names of the same fields in the header from 535 on, which still accepts the older names.
RENAMED = {"clocks_event_reasons.active": "clocks_throttle_reasons.active"}
MASK_FORM = re.compile(r"0x[0-9a-fA-F]{1,16}$")


class UnreadableCsv(Exception):
    """The text is not the table that was asked for; the message says what is wrong with it."""


def unknown_fields(fields: Iterable[str]) -> List[str]:
    """Those of `fields` for which this reader has no format."""
    return [field for field in fields if field not in FIELDS]


def query_fields(
    fields: Sequence[str], timeout: float, executable: str = "nvidia-smi"
) -> Tuple[List[Dict[str, Any]], str]:
    """`(records, problem)`: what `parse_csv` returns and "", or [] and a sentence with the next step.

    `timeout` in seconds; a field outside FIELDS raises ValueError.
    """
    if unknown_fields(fields):
        raise ValueError(f"no such fields: {', '.join(unknown_fields(fields))}; known fields: {', '.join(FIELDS)}")
    if not fields:
        return [], ""
    asked = list(IDENTITY) + [field for field in fields if field not in IDENTITY]
    finished = run_bounded([executable, "--query-gpu=" + ",".join(asked), "--format=csv"], timeout)
    if finished.rc != 0:
        meaning = interpret(finished)[0]
        return [], f"{meaning.message}. Next: {meaning.action}"
    try:
        return parse_csv(finished.stdout, asked), ""
    except UnreadableCsv as error:
        return [], f"nvidia-smi's table cannot be read: {error}. Next: nvidia-smi --help-query-gpu"


def parse_csv(text: str, fields: Sequence[str]) -> List[Dict[str, Any]]:
    """`[{pci_id, name, values: {field: value}}]` of a table with header and units; raises `UnreadableCsv`.

    `fields` are the columns in their order and begin with IDENTITY. As in the XML, None means "the card has no such
    thing", and UNKNOWN "nothing says what it is".
    """
    if not text.endswith("\n"):
        raise UnreadableCsv("it is cut off within a line" if text else "it is empty")
    lines = [line for line in text.splitlines() if line.strip()]
    names = [cell.partition(" [")[0].strip() for cell in lines[0].split(",")] if lines else []
    if [RENAMED.get(name, name) for name in names] != list(fields):
        raise UnreadableCsv(f"its first line is {clean(lines[0]) if lines else ''!r}")
    return [_record(line.split(", "), fields) for line in lines[1:]]


def _record(cells: Sequence[str], fields: Sequence[str]) -> Dict[str, Any]:
    if len(cells) != len(fields):
        raise UnreadableCsv(f"a line has {len(cells)} values instead of {len(fields)}")
    words = {field: cells[number] for number, field in enumerate(fields)}
    name = read_text(words["name"]) or UNKNOWN
    address = re.match(r"([0-9A-Fa-f]{4,8}):([0-9A-Fa-f]{2}:[0-9A-Fa-f]{2}\.[0-7])$", clean(words["pci.bus_id"]))
    device = re.match(r"0x([0-9A-Fa-f]{4})10[dD][eE]$", clean(words["pci.device_id"]))
    device_id = device.group(1).lower() if device else ""
    architecture = describe_device(device_id).architecture if device else UNKNOWN
    # A mode that was not asked for does not justify an N/A.
    mig, ecc = (
        read_mode(words[mode]) if mode in words else UNKNOWN for mode in ("mig.mode.current", "ecc.mode.current")
    )
    card = Card(name, architecture, mig, ecc, device_id)
    return {
        "pci_id": f"{int(address.group(1), 16):04x}:{address.group(2).lower()}" if address else UNKNOWN,
        "name": name,
        "values": {field: read_field(field, words[field], card) for field in fields if field not in IDENTITY},
    }


def read_field(field: str, text: str, card: Card) -> Any:
    """One value in its format."""
    name, form, unit = FIELDS[field]
    if form in (COUNT, AMOUNT):
        value = read_number(text, unit, whole=form == COUNT)
    elif form == MASK:
        word = read_text(text)
        value = int(word, 16) if word and MASK_FORM.match(word) else (None if word is None else UNKNOWN)
    else:
        value = {MODE: read_mode, FLAG: read_flag, TEXT: read_text, VERSION: read_version}[form](text)
    return believed(value, name, card)
