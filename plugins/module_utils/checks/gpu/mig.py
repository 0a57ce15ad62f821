# SPDX-License-Identifier: Apache-2.0
"""Whether each card is whole, or cut into the MIG devices that the inventory declares.

A reboot leaves no MIG device, and on cards after A100 and A30 it ends the mode as well (NVIDIA's MIG User Guide).
"""

from collections import Counter
from typing import Any, Dict, List, Mapping, NamedTuple, Optional, Sequence

from ...host.bounded import run_bounded
from ...host.patterns import lazily
from ...verdict.check import DRAIN, FAIL, PASS, QUICK, WARN, Check, Outcome, failed, passed, slots, warned
from ...verdict.evidence import Evidence, Unreadable
from ...verdict.expectations import ALL_CARDS
from ...verdict.reader import Reader, Seen
from ...verdict.reading_sources import by_hand
from ..waivers.acknowledgements import card_of
from .cards import answering_gpus
from .each_card import Judged, over_gpus

CARD = lazily(r"GPU [0-9]+: .*\(UUID: (GPU-[0-9A-Fa-f-]+)\)")
DEVICE = lazily(r"\s+MIG (\S+)\s+Device\s+[0-9]+: \(UUID: (MIG-[^)\s]+)\)")
CREATE = "nvidia-smi mig -i {0} -cgi {1} -C"
DESTROY = "nvidia-smi mig -i {0} -dci ; nvidia-smi mig -i {0} -dgi"
MODE = "nvidia-smi -i {0} -mig {1}"
# Where the mode was set and only waits; to set it once more changes nothing.
RESET = "nvidia-smi --gpu-reset -i {0}"
CORRECT = "Correct verify_expected_mig in the inventory, then run: ansible-playbook site.yml --tags verify"
AFTER = " ; systemctl try-restart gpuwright-cdi"


def read_mig(seen: Seen) -> Optional[List[Dict[str, Any]]]:
    """`[{uuid, devices: [{profile, uuid}]}]` of every card, as `nvidia-smi -L` lists them; null where the inventory
    declares none, or no card is in MIG mode."""
    gpus = seen.nvidia_smi.get("gpus") or []
    if not seen.expectations.get("mig") or not any(gpu.get("mig_mode") == "Enabled" for gpu in gpus):
        return None
    done = run_bounded(["nvidia-smi", "-L"], seen.smi_seconds)
    if done.rc != 0:
        words = " ".join(done.stdout.split())[:200]
        raise OSError(done.problem or f"nvidia-smi -L ended with {done.rc}: {words}")
    return parse_devices(done.stdout)


def parse_devices(text: str) -> List[Dict[str, Any]]:
    """The cards of `nvidia-smi -L`; ValueError for a device without a card."""
    cards: List[Dict[str, Any]] = []
    for line in text.splitlines():
        card, device = CARD.match(line), DEVICE.match(line)
        if card:
            cards.append({"uuid": card.group(1), "devices": []})
        elif device:
            if not cards:
                raise ValueError("nvidia-smi -L lists a MIG device before any card")
            cards[-1]["devices"].append({"profile": device.group(1), "uuid": device.group(2)})
    return cards


def whole(gpu: Evidence) -> Judged:
    """The card is not cut into MIG slices: nobody has declared any."""
    if gpu.absent("mig_mode"):
        return PASS, "ok", "none", "no MIG"
    mode = gpu.text("mig_mode")
    later = later_mode(gpu, mode)
    if later:
        return WARN, "changes-later", mode, _words(mode, later)
    return (PASS if mode == "Disabled" else WARN, "on", mode, f"MIG is {mode}")


def later_mode(gpu: Evidence, mode: str) -> str:
    """The mode after a reset; "" if that is the same."""
    if gpu.absent("health", "mig_pending"):
        return ""
    later = gpu.text("health", "mig_pending")
    return later if later != mode else ""


def _words(mode: str, later: str) -> str:
    return f"MIG is {mode}" + (f" and will be {later} after a reset" if later else "")


def layout(readings: Evidence, expected: Evidence) -> Outcome:
    """Each card is cut into the MIG devices that verify_expected_mig declares for it, and a card without such an entry
    is not cut. A device that is missing, another one, or a card that has lost the mode fails.
    """
    declared = expected.at("mig").value if "mig" in expected.names() else {}
    gpus = answering_gpus(readings)
    if not declared or not gpus:
        return over_gpus(whole, "Disabled", "no card is cut into MIG slices")(readings, expected)
    names = [_name_of(declared, at, gpu) for at, gpu in enumerate(gpus)]
    strange = sorted(set(declared) - set(names) - {ALL_CARDS})
    if strange:
        words = f"verify_expected_mig names {', '.join(strange)}: no card here is called so, or it is named twice"
        return failed("no-such-card", ", ".join(strange), None, words, CORRECT)
    found = [_judged(gpu, declared.get(names[at]), readings) for at, gpu in enumerate(gpus)]
    told = {at: _told(declared.get(name)) for at, name in enumerate(names)}
    for status, make in ((FAIL, failed), (WARN, warned)):
        bad = [at for at, row in enumerate(found) if row.status == status]
        if bad:
            words = "; ".join(f"{gpus[at].pci_id('pci_id')}: {found[at].words}" for at in bad)
            commands = list(dict.fromkeys(found[at].command for at in bad if found[at].command != CORRECT))
            by_hand = f" # {CORRECT}" if any(found[at].command == CORRECT for at in bad) else ""
            action = f"Run: {' ; '.join(commands)}{AFTER}{by_hand}" if commands else CORRECT
            items = slots(gpus[at].pci_id("pci_id") for at in bad)
            return make(found[bad[0]].code, found[bad[0]].value, told[bad[0]], words, action, items=items)
    return passed(" / ".join(row.value for row in found), " / ".join(told.values()), "each card is cut as declared")


class Card(NamedTuple):
    """The judgement of one card; `command` brings the declared layout back."""

    status: str
    code: str
    value: str
    words: str
    command: str = CORRECT


def _judged(gpu: Evidence, wanted: Optional[Sequence[str]], readings: Evidence) -> Card:
    """One card against the devices that it should have; None: nobody has declared any."""
    address = gpu.pci_id("pci_id")
    if gpu.absent("mig_mode"):
        words = f"the card has no MIG; declared: {_told(wanted)}"
        return Card(FAIL, "no-mig", "none", words) if wanted else Card(PASS, "ok", "none", "no MIG")
    mode = gpu.text("mig_mode")
    later = later_mode(gpu, mode)
    if not wanted:
        status, code, value, words = whole(gpu)
        off = RESET.format(address) if later == "Disabled" else MODE.format(address, 0)
        # What is declared as whole has to be whole.
        return Card(FAIL if status == WARN and wanted is not None else status, code, str(value), words, off)
    create = CREATE.format(address, ",".join(wanted))
    if mode != "Enabled":
        begin = RESET.format(address) if later == "Enabled" else MODE.format(address, 1)
        return Card(FAIL, "lost", mode, f"{_words(mode, later)}; declared: {_told(wanted)}", f"{begin} ; {create}")
    # Enabled once more, what waits for a reset is called off.
    keep = f"{MODE.format(address, 1)} ; " if later else ""
    here = _devices(gpu, readings)
    missing = Counter(wanted) - Counter(here)
    if not missing and len(here) == len(wanted):
        if later:
            return Card(WARN, "changes-later", mode, _words(mode, later), MODE.format(address, 1))
        return Card(PASS, "ok", _told(here), "")
    words = f"{_told(here) if here else 'no MIG device'}; declared: {_told(wanted)}"
    words = f"{_words(mode, later)}, with {words}" if later else words
    if here and not Counter(here) - Counter(wanted):
        rest = ",".join(name for name in sorted(missing.elements()))
        return Card(FAIL, "partial", _told(here), words, keep + CREATE.format(address, rest))
    if not here:
        return Card(FAIL, "lost", "none", words, keep + create)
    return Card(FAIL, "other", _told(here), words, f"{keep}{DESTROY.format(address)} ; {create}")


def _devices(gpu: Evidence, readings: Evidence) -> List[str]:
    """Profiles of the card's MIG devices; `Unreadable` where nvidia-smi did not list the card."""
    uuid = gpu.text("uuid")
    for card in readings.each("mig"):
        if card.text("uuid").lower() == uuid.lower():
            return [device.text("profile") for device in card.each("devices")]
    raise Unreadable(f"nvidia-smi -L does not list {uuid}", "readings.mig")


def _name_of(declared: Mapping[str, Any], at: int, gpu: Evidence) -> str:
    """The entry that means this card, "" if none does."""
    address = card_of(gpu.pci_id("pci_id"))
    own = [name for name in declared if ":" in name and card_of(name) == address]
    own += [name for name in (str(at), str(gpu.value.get("uuid")).lower(), ALL_CARDS) if name in declared]
    return own[0] if own else ""


def _told(profiles: Optional[Sequence[str]]) -> str:
    """For example "2 x 3g.20gb, 1g.5gb"; "whole" for none."""
    number = Counter(profiles or ())
    return ", ".join(f"{number[name]} x {name}" if number[name] > 1 else name for name in sorted(number)) or "whole"


READER = Reader(
    name="mig",
    level=QUICK,
    read=read_mig,
    source=by_hand("nvidia-smi -L"),
)

CHECKS = (
    Check(
        id="gpu.mig_mode",
        layer="system",
        level=QUICK,
        severity=FAIL,
        remedy=DRAIN,
        question="Is each card whole, or cut into the declared MIG devices?",
        judge=layout,
        action=(
            "If the devices are meant, declare them with verify_expected_mig. Otherwise stop what uses the card, "
            "and run: nvidia-smi -mig 0 ; where that waits for a reset: nvidia-smi --gpu-reset"
        ),
        source="NVIDIA's MIG User Guide: devices do not outlast a reboot",
        readers=(READER,),
    ),
)
