# SPDX-License-Identifier: Apache-2.0
"""What a task of check mode would change, as rows: what differs, what the host has now, and what is planned.

A module tells it as a difference of attributes or texts, systemd's as the state of a unit, dnf's as lines. A result in
none of these forms still is a row, with the name of its task. Arguments of modules are not read: whether a result has
them is a matter of Ansible's release.
"""

from __future__ import annotations

import dataclasses
import difflib
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from ansible_collections.gpuwright.node.plugins.module_utils.host.written.told import printable as on_one_line
from ansible_collections.gpuwright.node.plugins.module_utils.host.written.told import values_hidden, without_secrets

from ..summary.words import printable

HIDDEN = "hidden (no_log)"
# Lines of a text's difference that are kept, and characters of one value.
MOST_LINES, MOST_LETTERS = 40, 300
SINGLE = (str, int, float, bool, type(None))


@dataclasses.dataclass(frozen=True)
class Difference:
    """One row. `what` is a file, unit, package or setting, `attribute` what of it; `lines` is a difference of texts.

    who  whether somebody else has changed it, in words; "" if that is not known
    """

    layer: str
    role: str
    task: str
    what: str
    attribute: str
    now: str
    planned: str
    lines: tuple[str, ...] = ()
    who: str = ""


@dataclasses.dataclass(frozen=True)
class Place:
    """Where a result comes from: the layer of its play, its role, the name of its task, and the action's last name."""

    layer: str
    role: str
    task: str
    action: str


def differences(result: Mapping[str, Any], place: Place, looped: bool) -> list[Difference]:
    """The rows of one result that is "changed"; `looped`: whether `results` has one result for each item."""
    found = result.get("results")
    items = [item for item in found if isinstance(item, Mapping)] if looped and isinstance(found, list) else [result]
    rows = [row for item in items if item.get("changed") for row in _of_item(item, place)]
    # A looped result that is hidden as a whole has no items.
    return list(dict.fromkeys(rows)) or [_row(place, place.task, "", "", "would change")]


def _of_item(item: Mapping[str, Any], place: Place) -> list[Difference]:
    if "censored" in item:
        return [_row(place, place.task, "", HIDDEN, HIDDEN)]
    return (
        (_of_settings(item, place) if place.action == "host_tuning" else _of_diff(item, place))
        or _of_unit(item, place)
        or _of_packages(item, place)
        or [_row(place, _name(item) or place.task, "", "", "would change")]
    )


def _row(
    place: Place, what: object, attribute: str, now: object, planned: object, lines: Iterable[str] = ()
) -> Difference:
    cells = (_short(what), attribute, _short(now), _short(planned))
    return Difference(place.layer, place.role, printable(place.task), *cells, tuple(lines))


def _short(value: object) -> str:
    text = printable("" if value is None else value)
    return text if len(text) <= MOST_LETTERS else text[:MOST_LETTERS] + " ..."


def _name(item: Mapping[str, Any]) -> str:
    """The file or unit that the result names."""
    return next((item[key] for key in ("dest", "path", "name") if isinstance(item.get(key), str) and item[key]), "")


def _of_diff(item: Mapping[str, Any], place: Place) -> list[Difference]:
    """Rows from what --diff adds to a result."""
    told = values_hidden(item.get("diff"))
    rows: list[Difference] = []
    for one in told if isinstance(told, list) else [told]:
        if not isinstance(one, Mapping):
            continue
        before, after = one.get("before"), one.get("after")
        named = _name(item)
        if isinstance(before, Mapping) and isinstance(after, Mapping):
            path = after.get("path") or before.get("path") or named or place.task
            rows += [_row(place, path, key, *pair) for key, pair in _attributes(before, after)]
        elif isinstance(before, str) and isinstance(after, str) and before != after:
            # Of a file that is not there yet, copy and template name only its source on the controller.
            header = str(one.get("before_header") or "").removesuffix(" (content)")
            label = item.get("_ansible_item_label")
            path = named or header or (f"{place.task} ({label})" if isinstance(label, str) else place.task)
            rows.append(_of_texts(place, path, before, after))
        elif isinstance(one.get("prepared"), str) and one["prepared"].strip():
            rows.append(_row(place, named or place.task, "content", "", "differs", _kept(one["prepared"].splitlines())))
    return rows


def _attributes(before: Mapping[str, Any], after: Mapping[str, Any]) -> list[tuple[str, tuple[Any, Any]]]:
    """(name, (now, planned)) of what differs; values that are no single ones are named only."""
    found = []
    for key in after:
        old, new = before.get(key), after[key]
        if key == "path" or old == new:
            continue
        whole = isinstance(old, SINGLE) and isinstance(new, SINGLE)
        found.append((str(key), (old, new) if whole else ("", "differs")))
    return found


def _of_texts(place: Place, path: str, before: str, after: str) -> Difference:
    """A text's difference: how many lines would come and go, and the lines themselves."""
    compared = list(difflib.unified_diff(before.splitlines(), after.splitlines(), "now", "planned", lineterm="", n=1))
    gone = sum(line.startswith("-") for line in compared[2:])
    come = sum(line.startswith("+") for line in compared[2:])
    now = "" if before else "is not there"
    lines = f"+{come} -{gone} lines" if before else f"{come} line{'' if come == 1 else 's'}"
    planned = lines if after else "removed"
    return _row(place, path, "content", now, planned, _kept(compared[2:]))


def _kept(lines: Sequence[str]) -> list[str]:
    """Lines that may be shown: without logins in addresses and control characters, and not more than a screen."""
    clean = [on_one_line(line) for line in without_secrets("\n".join(lines)).split("\n")]
    more = len(clean) - MOST_LINES
    return [line[:MOST_LETTERS] for line in clean[:MOST_LINES]] + ([f"... and {more} more lines"] if more > 0 else [])


def _of_settings(item: Mapping[str, Any], place: Place) -> list[Difference]:
    """Settings of the host: host_tuning tells "key = value" for each, "path: written" for each file, and its link."""
    told = item.get("diff")
    diffs = [one for one in (told if isinstance(told, list) else [told]) if isinstance(one, Mapping)]
    texts = [one for one in diffs if not isinstance(one.get("after"), Mapping)]
    old, new = (
        [line for one in texts for line in str(one.get(side) or "").splitlines()] for side in ("before", "after")
    )
    before = dict(_setting(line) for line in old if " = " in line)
    rows = []
    for line in new:
        if " = " in line:
            key, value = _setting(line)
            rows.append(_row(place, key, "setting", before.get(key), value))
        elif line.strip():
            path, _colon, word = line.rpartition(": ")
            rows.append(_row(place, path or line, "content", "differs", word if path else "differs"))
    return rows + _of_diff({"diff": [one for one in diffs if one not in texts]}, place)


def _setting(line: str) -> tuple[str, str]:
    key, _equals, value = line.partition(" = ")
    return key, value


def _of_unit(item: Mapping[str, Any], place: Place) -> list[Difference]:
    """A unit whose state or start at boot differs: systemd's own words for what it is now."""
    status = item.get("status")
    if not isinstance(status, Mapping) or "ActiveState" not in status:
        return []
    unit = item.get("name") or status.get("Id") or place.task
    rows = []
    file_state = str(status.get("UnitFileState") or status.get("LoadState") or "")
    if item.get("enabled") is True and file_state != "enabled":
        rows.append(_row(place, unit, "start at boot", file_state or "not known", "enabled"))
    if item.get("enabled") is False and file_state not in ("disabled", ""):
        rows.append(_row(place, unit, "start at boot", file_state, "disabled"))
    wanted = {"started": "active", "restarted": "restarted", "reloaded": "reloaded", "stopped": "inactive"}
    planned = wanted.get(str(item.get("state")))
    active = str(status["ActiveState"])
    if planned and planned != active:
        rows.append(_row(place, unit, "state", active, planned))
    return rows


def _of_packages(item: Mapping[str, Any], place: Place) -> list[Difference]:
    """What dnf would do, in its own words ("Installed: jq-1.6"); apt's are a difference."""
    told = item.get("results") if place.action in ("dnf", "dnf5", "yum", "package") else None
    lines = [line.partition(":") for line in told or [] if isinstance(line, str)]
    return [
        _row(place, name.strip(), "package", "", word.strip().lower()) for word, _colon, name in lines if name.strip()
    ]
