# SPDX-License-Identifier: Apache-2.0
"""Strikes: how often a card has failed, by its serial number, across boots, drivers and slots.

One strike is one check that failed, or one event of the kernel's log that is a failure, on one card in one boot;
whether somebody has acknowledged it or a reset has closed it since makes no difference. The record of all strikes is
`{cards, slots}`: `cards` as in `new_card`, `slots` which card was where in this boot, since a card that has fallen off
the bus can no longer be asked: `{address: {boot_id, serial, uuid, name}}`.
"""

from typing import Any, Dict, Iterable, List, Mapping, Sequence, Tuple

from ...host.files import below
from ...host.written.aside import MARK, begin_anew, set_aside_before
from ...verdict.check import FAIL, Check
from ...verdict.evidence import NOT_A_VALUE
from ...verdict.kept_file import DamagedRecord, damaged, one_writer, read_kept, write_kept
from ...verdict.report import Record, printable
from ..kernel.event_names import CHECK_OF, address_of
from ..waivers import events as waivable_events
from ..waivers.acknowledgements import card_of, cards_in

PATH = "/var/lib/gpuwright/strikes.json"
SCHEMA = 1
MOST_CARDS = 128
MOST_BOOTS = 40
MOST_IDS = 64
OTHER_IDS = "others"
LONGEST_MESSAGE = 300
LONGEST_NAME = 100
# Checks of the layer system that judge the card itself, not its configuration.
CARD_CHECKS = ("driver.ecc", "driver.retired_pages")
SET_UP = ("gpu.bound_driver", "gpu.compute_mode", "gpu.strikes")
SWITCH = "NVSwitch"

# {address: {serial, uuid, name, and boot_id where it is a slot}}
Slots = Dict[str, Dict[str, str]]


def empty() -> Dict[str, Any]:
    return {"cards": [], "slots": {}}


def parse_strikes(record: Any) -> Dict[str, Any]:
    """The record of all strikes if it is complete; ValueError otherwise."""
    if not isinstance(record, dict) or not isinstance(record.get("slots"), dict):
        raise ValueError("expected cards and slots")
    names = ("boot_id", "serial", "uuid", "name")
    for slot in record["slots"].values():
        if not (isinstance(slot, dict) and all(_text(slot.get(name)) for name in names)):
            raise ValueError(f"a slot is {slot!r}")
    if not isinstance(record.get("cards"), list):
        raise ValueError(f"cards are {record.get('cards')!r}; expected a list")
    for card in record["cards"]:
        texts = ("serial", "uuid", "name", "pci_id", "first", "last", "message")
        whole = isinstance(card, dict) and all(_text(card.get(name)) for name in texts)
        whole = whole and _count(card.get("boots_total")) and isinstance(card.get("counts"), dict)
        whole = whole and all(_count(number) for number in card["counts"].values())
        whole = whole and isinstance(card.get("boots"), list) and all(_boot(boot) for boot in card["boots"])
        if not whole:
            raise ValueError(f"a card is {card!r}")
    return record


def read_strikes(root: str) -> Dict[str, Any]:
    """The node's strikes, none without a file; OSError or ValueError if the file cannot be trusted."""
    record = read_kept(root, PATH, SCHEMA)
    try:
        return empty() if record is None else parse_strikes({name: record.get(name) for name in ("cards", "slots")})
    except ValueError as error:
        raise damaged(PATH, error)


def read_strikes_and_lost(root: str) -> Dict[str, Any]:
    """The same with `set_aside`, the newest of the damaged files beside it, where there is one."""
    lost = set_aside_before(below(root, PATH))
    return dict(read_strikes(root), **({"set_aside": lost[-1]} if lost else {}))


def time_of_aside(name: str) -> str:
    """When a damaged file was set aside, in the report's format, from its name."""
    stamp = name.partition(MARK)[2][: len("2026-01-31T100000Z")]
    return f"{stamp[:13]}:{stamp[13:15]}:{stamp[15:]}"


def keep_strikes(report: Record, checks: Sequence[Check], root: str = "/") -> str:
    """Add the strikes of a report of these checks to the node's file; OSError or ValueError if that cannot be done.

    A damaged file may be the evidence of a warranty claim: it is set aside, counting begins anew, and this returns a
    sentence on that, even if nothing can be written afterwards; else "".
    """
    with one_writer(root):
        said = ""
        try:
            before = read_strikes(root)
        except DamagedRecord as error:
            before = empty()
            said = begin_anew(below(root, PATH), error.what, "strikes of until now")
        readings = dict(report["readings"], strikes=before)
        try:
            after = counted(readings, report["expectations"], report["checks"], checks)
            if after != before:
                write_kept(root, PATH, dict(after, schema=SCHEMA))
        except (OSError, ValueError) as error:
            if not said:
                raise
            said = f"{said}. Those of now are not counted: {error}"
    return said


def counted(
    readings: Record, expectations: Record, records: Iterable[Record], checks: Sequence[Check]
) -> Dict[str, Any]:
    """The strikes in `readings.strikes` with those of `records` and of the kernel's log added; counts each once.

    `checks` are all that there are, by which an event of the log is a failure.

    Unreadable strikes stay unreadable, and nothing is counted in a boot that cannot be named.
    """
    moment = readings.get("moment")
    boot_id, now = (moment.get(name) if isinstance(moment, dict) else None for name in ("boot_id", "time"))
    try:
        before = parse_strikes(readings.get("strikes"))
    except ValueError as error:
        kept = readings.get("strikes")
        return kept if isinstance(kept, dict) and "unreadable" in kept else {"unreadable": str(error)}
    if not (isinstance(boot_id, str) and boot_id and isinstance(now, str)):
        return before
    slots = _slots_now(readings, before["slots"], boot_id)
    cards = [dict(card, counts=dict(card["counts"]), boots=list(card["boots"])) for card in before["cards"]]
    for address, fault, message in occurrences(readings, expectations, records, checks, slots):
        _strike(cards, _identity(address, slots, boot_id), fault, message, boot_id, now)
    cards.sort(key=lambda card: card["last"], reverse=True)
    # What is said of a damaged file stays beside.
    return dict(before, cards=cards[:MOST_CARDS], slots=slots)


def occurrences(
    readings: Record, expectations: Record, records: Iterable[Record], checks: Sequence[Check], slots: Slots
) -> List[Tuple[str, str, str]]:
    """`[(address, id, message)]` of all that failed because of a card, including acknowledged and closed ones."""
    known = set(slots) | {address for address, _name in _on_the_bus(readings)}
    found = []
    for record in records:
        failed = record["status"] == FAIL or (record.get("waived") or {}).get("status") == FAIL
        of_a_card = record["id"].startswith("gpu.") and record["id"] not in SET_UP or record["id"] in CARD_CHECKS
        if failed and of_a_card:
            message = (record.get("waived") or record).get("message", "")
            cards = [card for item in record.get("items", []) for card in cards_in(item)]
            found += [(card, record["id"], message) for card in dict.fromkeys(cards) if card in known]
    for name, event, event_id, bad in waivable_events.failing(readings, expectations, checks):
        address = address_of(event.get("pci_id"))
        if address and (address in known or name in CHECK_OF):
            found.append((address, event_id.partition("@")[0], bad[0]["message"]))
    return found


def label(card: Record) -> str:
    """The name for a card: its serial number, else its UUID, else the slot in which it failed."""
    if card["serial"]:
        return f"serial {card['serial']}"
    return card["uuid"] or f"the card at {card['pci_id']}"


def same_card(card: Record, identity: Mapping[str, str]) -> bool:
    """Whether both are one card: by serial number or UUID; one that never reported either is known only by its slot."""
    for name in ("serial", "uuid"):
        if card[name] and card[name] == identity[name]:
            return True
    silent = not any(who[name] for who in (card, identity) for name in ("serial", "uuid"))
    return silent and card["pci_id"] == identity["pci_id"]


def identities(readings: Record) -> Slots:
    """`{address: {serial, uuid, name}}` of the cards that answer now; "" for what a card lacks or does not report."""
    smi = readings.get("nvidia_smi")
    gpus = smi.get("gpus") if isinstance(smi, dict) else None
    found = {}
    for gpu in gpus if isinstance(gpus, list) else []:
        address = _address(gpu)
        if address:
            found[address] = {name: _known(gpu.get(name)) for name in ("serial", "uuid", "name")}
            # What some boards without a serial number report.
            if not found[address]["serial"].strip("0"):
                found[address]["serial"] = ""
    return found


def _on_the_bus(readings: Record) -> List[Tuple[str, str]]:
    host = readings.get("probe")
    gpus = host.get("gpus") if isinstance(host, dict) else None
    members = gpus if isinstance(gpus, list) else []
    return [(_address(gpu), _known(gpu.get("name"))) for gpu in members if _address(gpu)]


def _address(gpu: Any) -> str:
    pci_id = gpu.get("pci_id") if isinstance(gpu, dict) else None
    found = cards_in(pci_id) if isinstance(pci_id, str) else []
    return card_of(found[0]) if found else ""


def _slots_now(readings: Record, before: Slots, boot_id: str) -> Slots:
    """Which card is in which slot in this boot; since an earlier boot, cards may have been moved."""
    slots = {address: slot for address, slot in before.items() if slot["boot_id"] == boot_id}
    for address, name in _on_the_bus(readings):
        slots.setdefault(address, {"boot_id": boot_id, "serial": "", "uuid": "", "name": name})
    for address, identity in identities(readings).items():
        if identity["serial"] or identity["uuid"]:
            slots[address] = dict(identity, boot_id=boot_id)
    return dict(sorted(slots.items())[:MOST_CARDS])


def _identity(address: str, slots: Slots, boot_id: str) -> Dict[str, str]:
    slot = slots.get(address, {"serial": "", "uuid": "", "name": SWITCH})
    return {"serial": slot["serial"], "uuid": slot["uuid"], "name": slot["name"], "pci_id": address}


def new_card(identity: Mapping[str, str], now: str) -> Dict[str, Any]:
    """A card without strikes. `boots` are the last ones with a strike, `counts` strikes per check or event."""
    card = {"first": now, "last": now, "boots_total": 0, "boots": [], "counts": {}, "message": ""}
    return dict(card, **identity)


def _strike(
    cards: List[Dict[str, Any]], identity: Mapping[str, str], fault: str, message: str, boot_id: str, now: str
) -> None:
    card = next((card for card in cards if same_card(card, identity)), None)
    if card is None:
        card = new_card(identity, now)
        cards.append(card)
    fault = fault if fault in card["counts"] or len(card["counts"]) < MOST_IDS else OTHER_IDS
    boot = next((boot for boot in card["boots"] if boot["boot_id"] == boot_id), None)
    if boot is None:
        boot = {"boot_id": boot_id, "time": now, "ids": []}
        card["boots"] = (card["boots"] + [boot])[-MOST_BOOTS:]
        card["boots_total"] += 1
    card.update({name: identity[name] or card[name] for name in ("serial", "uuid", "name", "pci_id")})
    card.update(last=now)
    if fault in boot["ids"]:
        return
    place = card["boots"].index(boot)
    card["boots"][place] = dict(boot, ids=sorted(boot["ids"] + [fault]))
    card["counts"][fault] = card["counts"].get(fault, 0) + 1
    card["message"] = f"{fault}: {printable(message)}"[:LONGEST_MESSAGE]


def _known(value: Any) -> str:
    if not isinstance(value, str) or NOT_A_VALUE.fullmatch(value.strip()):
        return ""
    return printable(value.strip())[:LONGEST_NAME]


def _text(value: Any) -> bool:
    return isinstance(value, str)


def _count(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value >= 0


def _boot(boot: Any) -> bool:
    return (
        isinstance(boot, dict)
        and all(_text(boot.get(name)) for name in ("boot_id", "time"))
        and isinstance(boot.get("ids"), list)
        and all(_text(name) for name in boot["ids"])
    )
