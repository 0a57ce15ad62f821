# SPDX-License-Identifier: Apache-2.0
"""Regular expressions that are compiled where they are first used: a check of a minute has no use for most of them."""

import re
from typing import Any, AnyStr, Optional, Pattern, cast


class _Later:
    """Acts as the compiled pattern, which it becomes as soon as something of it is asked for."""

    def __init__(self, pattern: Any, flags: int) -> None:
        self._text, self._flags = pattern, flags
        self._compiled: Optional[Pattern] = None

    def __getattr__(self, name: str) -> Any:
        if self._compiled is None:
            self._compiled = re.compile(self._text, self._flags)
        value = getattr(self._compiled, name)
        # The next time, Python finds it without asking here.
        setattr(self, name, value)
        return value


def lazily(pattern: AnyStr, flags: int = 0) -> Pattern[AnyStr]:
    """As re.compile, at its first use; a wrong pattern raises re.error only there."""
    return cast("Pattern[AnyStr]", _Later(pattern, flags))
