# SPDX-License-Identifier: Apache-2.0
"""The end of a run in check mode: what would change, by layer and host, and what would reboot."""

from __future__ import annotations

from collections.abc import Mapping

from .rows import Host
from .words import counted, fold_names, name_some, natural, printable, wrapped


def would_change(hosts: Mapping[str, Host], columns: int, whole: bool) -> list[str]:
    """Lines for the screen; [] if nothing would change and nothing reboot.

    whole  whether every host reached its end; only then does seeing no reboot mean that there would be none
    """
    names = sorted(hosts, key=natural)
    layers: dict[str, dict[str, list[str]]] = {}
    for name in names:
        for layer, task in hosts[name].changes:
            layers.setdefault(layer, {}).setdefault(task, []).append(name)
    lines: list[str] = []
    for layer, tasks in layers.items():
        lines.append(f"Would change: {layer}")
        for task, of in tasks.items():
            most = max(counted(of).values())
            text = printable(task) + (f" ({most} times)" if most > 1 else "")
            label = name_some(fold_names(dict.fromkeys(of)), columns // 2)
            lines += wrapped(text, columns, f"  {label}  ", "    ")
    reboots: dict[str, list[str]] = {}
    for name in names:
        if hosts[name].reboots:
            reboots.setdefault("; ".join(hosts[name].reboots), []).append(name)
    if reboots:
        lines.append("Would reboot")
        for why, of in reboots.items():
            lines += wrapped(printable(why), columns, f"  {name_some(fold_names(of), columns // 2)}  ", "    ")
    elif lines and whole:
        lines.append("Would reboot: no host")
    return lines
