# SPDX-License-Identifier: Apache-2.0
"""One row of advisories, and how rows are told."""

from __future__ import annotations

from typing import Any, NamedTuple


class AdvisoryError(Exception):
    """Advisories cannot be read or compared; the text says why and what to do next."""


class Row(NamedTuple):
    """A known vulnerability of one thing. `fixed`: the first version without it, "" if none is known."""

    what: str
    version: str
    source: str
    ids: list[str]
    severity: str
    fixed: str
    lock: str

    def joined(self, other: Row) -> Row:
        """The same vulnerability as another record tells it: all names, and what this one does not know."""
        ids = sorted({*self.ids, *other.ids})
        worse = other.severity if self.severity == "not given" or ":" in self.severity else self.severity
        return self._replace(ids=ids, severity=worse, fixed=self.fixed or other.fixed)

    def told(self) -> dict[str, Any]:
        return self._asdict()
