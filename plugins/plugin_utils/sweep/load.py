# SPDX-License-Identifier: Apache-2.0
"""What the load of a sweep has cost a node: its boot, a card, or an error of the driver. Nothing here acts."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ansible_collections.gpuwright.node.plugins.module_utils.gpu.xid import table
from ansible_collections.gpuwright.node.plugins.module_utils.gpu.xid.policy import judge_xid
from ansible_collections.gpuwright.node.plugins.module_utils.verdict.check import FAIL, WARN
from ansible_collections.gpuwright.node.plugins.plugin_utils.page.values import as_list, is_number, look

from .cards import keys_of

# (id, status, text, key of the card or "")
Found = tuple[str, str, str, str]
MOST_TEXT = 120


def before(host: str, seen: Mapping[str, Any]) -> dict[str, Any]:
    """Of `seen` (tasks/look.yml), what the history keeps while a node is under load: {boot, uptime, cards}.

    uptime  seconds since the boot    cards  {place: serial number or UUID}, without those that are lost already
    """
    told = [gpu for gpu in as_list(look(seen, "smi", "gpus")) if isinstance(gpu, dict) and gpu.get("lost") is not True]
    places = [str(gpu.get("pci_id")) for gpu in told]
    keys = keys_of(host, told, [{"device": place} for place in places])
    words = str(look(seen, "uptime") or "").split()
    uptime = float(words[0]) if words and words[0].replace(".", "", 1).isdecimal() else 0.0
    return {"boot": str(look(seen, "boot") or ""), "uptime": uptime, "cards": dict(zip(places, keys, strict=True))}


def cost(host: str, load: Mapping[str, Any], seen: Mapping[str, Any]) -> list[Found]:
    """What the node had before the load (`before`) and has no more, by what is seen of it now."""
    now = before(host, seen)
    if load["boot"] and now["boot"] and load["boot"] != now["boot"]:
        # The driver of the new boot may not be there yet.
        return [("sweep.rebooted", FAIL, "rebooted under load: its boot is another one than when the test began", "")]
    here = {*now["cards"], *now["cards"].values()}
    gone = {place: key for place, key in load["cards"].items() if place not in here and key not in here}
    if not gone:
        return []
    said = str(look(seen, "smi", "message") or "no reason is known")
    if look(seen, "smi", "reachable") is not True:
        named = {place: key for place, key in gone.items() if place.partition(":")[2].lower() in said.lower()}
        if not named:
            text = f"nvidia-smi told of {len(gone)} cards before the load and of none after it: {said}"
            return [("sweep.lost_card", FAIL, text, "")]
        gone = named
    return [
        ("sweep.lost_card", FAIL, f"{place} ({key}): lost under load, the driver does not show it any more", key)
        for place, key in gone.items()
    ]


def xids(load: Mapping[str, Any], report: Mapping[str, Any] | None, loaded: bool) -> list[Found]:
    """The Xids that came under load; a mild one fails, too, if the load came to no end (`loaded` is False)."""
    readings = look(report, "readings")
    if look(readings, "probe", "kernel", "boot_id") != load["boot"]:
        return []
    found, overrides = [], [row for row in as_list(look(readings, "xid_policy")) if isinstance(row, dict)]
    for event in as_list(look(readings, "kernel_log", "xids")):
        code, text, last = (look(event, name) for name in ("code", "text", "last_s"))
        if not isinstance(code, int) or not isinstance(text, str) or not is_number(last) or last < int(load["uptime"]):
            continue
        count = look(event, "count")
        kind = judge_xid(code, text, int(count) if is_number(count) else 1, overrides).kind
        status = {table.FAIL: FAIL, table.WARN: WARN if loaded else FAIL}.get(kind)
        if status:
            pci_id = str(look(event, "pci_id"))
            key = next((key for place, key in load["cards"].items() if place.startswith(pci_id)), "")
            words = f"{pci_id}{f' ({key})' if key else ''}: Xid {code} under load: {text[:MOST_TEXT]}"
            found.append(("sweep.xid", status, words, key))
    return found
