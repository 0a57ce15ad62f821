# SPDX-License-Identifier: Apache-2.0
"""Read nvidia-smi's answers that are not XML: the text of -q, --query-gpu as CSV, and the table.

Each is turned into the elements of the XML by the names of `forms`, so that `xml.read_gpu` judges it. A field whose
value the form does not have is left out of the record, and its name is in `lacks`: it is neither healthy nor unknown.
"""

import csv
import io
import re
from typing import Any, Dict, Iterable, List, NamedTuple, Optional, Set, Tuple
from xml.etree.ElementTree import Element, SubElement

from .forms import OF_DRIVER, REPEATED, by_column, by_label, names_of
from .values import NOT_THERE, clean
from .xml import log_of

LABELS, COLUMNS = by_label(), by_column()
TEXT_BEGIN = re.compile(r"\s*=+NVSMI LOG=+\s*$")
GPU_LINE = re.compile(r"\s*GPU ([0-9A-Fa-f]{4,8}:[0-9A-Fa-f]{2}:[0-9A-Fa-f]{2}\.[0-7])\s*$")
PAIR = re.compile(r"(\s*)(\S.*?)\s*(?:\s:(?: (.*))?)?$")
# The last block of a whole answer of -q.
LAST_BLOCK = "processes"
LONGEST_LINE = 512
# A head with units, as --format=csv writes it, and one value of it.
HEAD = re.compile(r"([a-z][A-Za-z0-9_.]*)(?: \[([^\]]*)\])?$")
MASK = (
    "gpu_idle",
    "applications_clocks_setting",
    "sw_power_cap",
    "hw_slowdown",
    "sync_boost",
    "sw_thermal_slowdown",
    "hw_thermal_slowdown",
    "hw_power_brake_slowdown",
    "display_clocks_setting",
)
REASONS = "clocks_event_reasons/clocks_event_reason_"
ECC_MODE = "ecc_mode/current_ecc"
MASKS = ("clocks_event_reasons.active", "clocks_throttle_reasons.active")
# These may be asked for in place of the address, and the card's names come with them.
ADDRESS = ("pci.bus_id", "gpu_bus_id")
# No card has such an address: of the first, second, ... card of a table without addresses.
STAND_IN = "ffff:ff:{:02x}.0"
# A table of cards has one of these columns; a table of programs or pages has one of the others.
OF_CARDS = ADDRESS + (
    "index",
    "uuid",
    "gpu_uuid",
    "name",
    "gpu_name",
    "serial",
    "gpu_serial",
    "driver_version",
    "count",
)
OF_OTHERS = ("pid", "process_name", "used_gpu_memory", "used_memory", "retired_pages.address", "gpu_util", "mem_util")


class Form(NamedTuple):
    """An answer in another form.

    root   the XML's root element with what there is of it
    lacks  the record's fields that none of its cards has a value of
    cut    the answer ends within a card
    """

    root: Element
    lacks: Tuple[str, ...]
    cut: bool = False


def record_of_form(form: Form, without: bool = True) -> Dict[str, Any]:
    """What `xml.parse_log` returns, with `lacks`; the fields that the form lacks are not there, else None."""
    log = log_of(form.root, [])
    gone = set(form.lacks)
    for gpu in log["gpus"]:
        for record in (gpu, gpu["health"]):
            for name in gone.intersection(record) - {"lost", "health", "pci_id"}:
                if without or name == "processes":
                    del record[name]
                else:
                    record[name] = None
    return dict(log, lacks=list(form.lacks))


def is_text(line: str) -> bool:
    """Whether the text of nvidia-smi -q begins here."""
    return TEXT_BEGIN.match(line) is not None


def parse_text(lines: Iterable[str]) -> Form:
    """The text of `nvidia-smi -q`, also of single sections (-d), from its first line on."""
    root, gpu = Element("nvidia_smi_log"), None
    stack: List[Tuple[int, str]] = []
    given: Set[str] = set()
    seen_last, whole_answer = True, False
    for line in lines:
        head = GPU_LINE.match(line)
        if head:
            gpu = SubElement(root, "gpu", id=head.group(1))
            stack = [(len(line) - len(line.lstrip()), "")]
            seen_last = False
            given.add("pci/pci_bus_id")
            continue
        pair = PAIR.match(line[:LONGEST_LINE])
        if pair is None:
            continue
        indent, label, value = len(pair.group(1)), " ".join(pair.group(2).lower().split()), pair.group(3)
        if gpu is None:
            tag = OF_DRIVER.get(label, "")
            if tag:
                SubElement(root, tag).text = value or ""
            continue
        while stack and stack[-1][0] >= indent and len(stack) > 1:
            stack.pop()
        stack.append((indent, label))
        path = "/".join(name for _indent, name in stack[1:])
        seen_last = seen_last or path == LAST_BLOCK
        whole_answer = whole_answer or path == "product name"
        _place(gpu, path, value, given)
    for found in root.iter("gpu"):
        settle(found, given)
    cut = whole_answer and not seen_last
    return Form(root, () if whole_answer else lacking(root, given), cut)


def belongs_to_text(line: str) -> bool:
    """Whether the line may stand in the text of -q behind its first one."""
    return GPU_LINE.match(line) is not None or (
        PAIR.match(line[:LONGEST_LINE]) is not None and (line[:1].isspace() or " : " in line or line.endswith(" :"))
    )


def _place(gpu: Element, path: str, value: Optional[str], given: Set[str]) -> None:
    """Put the value of one line where the XML has it; other values are kept, since a word for an error counts."""
    if path in REPEATED:
        _element(gpu, REPEATED[path], again=True)
    xml = LABELS.get(path)
    if value is None:
        return
    if xml is None:
        SubElement(gpu, "other").text = value
        return
    given.add(xml)
    _element(gpu, xml).text = value


def _element(gpu: Element, path: str, again: bool = False) -> Element:
    """The element at this path, made if it is not there; of repeated ones the last, or a further one."""
    here = gpu
    names = path.split("/")
    for number, name in enumerate(names):
        found = here.findall(name)
        is_new = not found or (again and number == len(names) - 1)
        here = SubElement(here, name) if is_new else found[-1]
    return here


def settle(gpu: Element, given: Set[str]) -> None:
    """What the XML writes in another way; and ECC is on where errors are counted."""
    counts = [element.text or "" for element in gpu.findall("ecc_errors/volatile//*")]
    if gpu.find(ECC_MODE) is None and any(re.match("[0-9]+$", count.strip()) for count in counts):
        put(gpu, {ECC_MODE: "Enabled"}, given)
    device = gpu.find("pci/pci_device_id")
    if device is not None:
        device.text = re.sub(r"^0x", "", clean(device.text))
    for block in gpu.findall("ecc_errors/*"):
        whole, part = block.find("sram_uncorrectable"), block.find("sram_uncorrectable_parity")
        if whole is not None and part is not None:
            # A table has the sum and its parts; only one of them has a value on most cards.
            parts = [part, block.find("sram_uncorrectable_secded")]
            gone = parts if clean(part.text) in NOT_THERE else [whole]
            for element in [element for element in gone if element is not None]:
                block.remove(element)
    processes = gpu.find("processes")
    if processes is not None and clean(processes.text) == "None":
        processes.text = ""
    for reasons in gpu.findall("clocks_event_reasons"):
        reasons.text = reasons.text if len(reasons) == 0 else ""


def lacking(root: Element, given: Iterable[str]) -> Tuple[str, ...]:
    """Names of the record for which a form has no value at all."""
    everything = names_of(list(LABELS.values()) + list(COLUMNS.values()))
    named = root.find("driver_version") is not None or root.find("kmd_version") is not None
    return tuple(sorted(everything - names_of(given))) + (() if named else ("driver_version",))


def put(gpu: Element, found: Dict[str, str], given: Set[str]) -> None:
    """Values by their XML paths; those that are N/A say nothing."""
    for path, text in found.items():
        if text not in ("N/A", ""):
            _element(gpu, path).text = text
            given.add(path)


# -- CSV


def csv_head(line: str) -> Optional[List[Tuple[str, str]]]:
    """[(column in lower case, unit)] if the line is the head of a table of --query-gpu; None if it is not."""
    cells = [cell.strip() for cell in line.strip().split(",")]
    matches = [HEAD.match(cell) for cell in cells]
    found = [(match.group(1).lower(), match.group(2) or "") for match in matches if match]
    known = [name for name, _unit in found if name in COLUMNS or name in MASKS]
    is_of_cards = any(name in OF_CARDS for name, _unit in found) and not any(name in OF_OTHERS for name, _unit in found)
    return found if len(found) == len(cells) > 1 and known and is_of_cards else None


def belongs_to_csv(head: List[Tuple[str, str]], line: str) -> bool:
    """Whether the line has as many values as this head."""
    return len(next(iter(csv.reader([line], skipinitialspace=True)), [])) == len(head)


def parse_csv_answer(lines: List[str]) -> Form:
    """A table of `nvidia-smi --query-gpu=... --format=csv`, head first; ValueError if a line does not fit it."""
    head = csv_head(lines[0]) or []
    rows = [row for row in csv.reader(io.StringIO("\n".join(lines[1:])), skipinitialspace=True) if row]
    root = Element("nvidia_smi_log")
    given: Set[str] = set()
    names = [name for name, _unit in head]
    for number, row in enumerate(rows):
        if len(row) != len(head):
            raise ValueError(f"a line has {len(row)} values instead of {len(head)}")
        cells = {name: (row[place].strip(), unit) for place, (name, unit) in enumerate(head)}
        address = next((cells[name][0] for name in ADDRESS if name in cells), STAND_IN.format(number % 256))
        gpu = SubElement(root, "gpu", id=address)
        for name in names:
            text, unit = cells[name]
            if name in MASKS:
                _unmask(gpu, text, given)
            elif name == "driver_version" and root.find(name) is None:
                SubElement(root, name).text = text
            elif name in COLUMNS:
                _element(gpu, COLUMNS[name]).text = _as_in_xml(COLUMNS[name], text, unit)
                given.add(COLUMNS[name])
            else:
                SubElement(gpu, "other").text = text
        settle(gpu, given)
    return Form(root, lacking(root, given))


def _as_in_xml(path: str, text: str, unit: str) -> str:
    """The value with the unit that the XML writes; temperatures have none in a table, widths no "x"."""
    if re.match(r"-?[0-9.]+$", text):
        if path.startswith("temperature/"):
            return text + " C"
        if "/link_widths/" in path:
            return text + "x"
        if "row_remapper_histogram" in path:
            return text + " bank(s)"
        return f"{text} {unit}" if unit else text
    return text


def _unmask(gpu: Element, text: str, given: Set[str]) -> None:
    """The reasons behind a mask of clocks_event_reasons.active."""
    match = re.match(r"0x([0-9a-fA-F]{1,16})$", text)
    for bit, name in enumerate(MASK):
        element = _element(gpu, REASONS + name)
        element.text = text if match is None else "Active" if int(match.group(1), 16) >> bit & 1 else "Not Active"
        given.add(REASONS + name)
