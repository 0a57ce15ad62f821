# SPDX-License-Identifier: Apache-2.0
"""Ansible's display as the screen's callback needs it: everything into the log, only some of it onto the screen."""

from __future__ import annotations

from typing import Any

from ansible_collections.gpuwright.node.plugins.module_utils.host.written.told import kept_lines, without_secrets

from ..summary.words import width
from . import lines

# Length of the line of asterisks that Ansible draws.
RULE = 79


class Voice:
    """Ansible's display for the parent class: into the log, and onto the screen while it is `aloud`."""

    def __init__(self, display: Any) -> None:
        self._display = display
        self.log: Any = None
        self.aloud = False

    def __getattr__(self, name: str) -> Any:
        return getattr(self._display, name)

    def display(self, msg: str, **named: Any) -> None:
        """The door to screen and log: messages of hosts are in it, with secrets and control characters."""
        msg = kept_lines(without_secrets(msg))
        if self.log is None or self._display.verbosity:
            self._display.display(msg, **named)
            return
        if not named.get("screen_only"):
            self.log.write(msg)
        if self.aloud and not named.get("log_only"):
            self.log.show(lines.fitted(msg, width()), color=named.get("color"), stderr=named.get("stderr", False))

    def banner(self, msg: str, color: str | None = None, cows: bool = True) -> None:
        if self.log is None or self._display.verbosity:
            self._display.banner(msg, color=color, cows=cows)
        else:
            self.display(f"\n{msg} " + "*" * max(RULE - len(msg), 3), color=color)
