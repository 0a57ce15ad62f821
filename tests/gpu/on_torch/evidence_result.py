"""How the scripts of this folder tell what they found: a line that begins with RESULT, the last one counts."""

from __future__ import annotations

import json
import sys
import traceback
from collections.abc import Callable
from typing import Any


class Found:
    """A record that is printed anew with every value, so that a script that is ended leaves what it had."""

    def __init__(self, **values: Any) -> None:
        self.values = values

    def add(self, **values: Any) -> None:
        self.values.update(values)
        sys.stdout.write("RESULT " + json.dumps(self.values, default=str) + "\n")
        sys.stdout.flush()

    def attempt(self, name: str, work: Callable[[], Any]) -> None:
        """`name` becomes what `work` returns, or {failed: why}: one failure takes nothing else with it."""
        try:
            self.add(**{name: work()})
        # Of as many kinds as there are broken installations.
        except Exception as error:
            traceback.print_exc()
            self.add(**{name: {"failed": in_one_line(error)}})


def in_one_line(error: BaseException) -> str:
    return f"{type(error).__name__}: {' '.join(str(error).split())[:400]}"
