# SPDX-License-Identifier: Apache-2.0
"""How long a stretch of training has taken, and how long what is left will take."""

from __future__ import annotations

import time


class Elapsed:
    """From step `first` of `last` on; times in s of the monotonic clock."""

    def __init__(self, first: int, last: int) -> None:
        self.first, self.last = first, last
        self.started = time.monotonic()

    def so_far(self) -> str:
        return duration(time.monotonic() - self.started)

    def left(self, step: int) -> str:
        """Such as "3 h 12 min left", from the mean pace so far; "" before there is one."""
        pace = self.pace(step) if step < self.last else None
        if pace is None:
            return ""
        return duration(pace * (self.last - step)) + " left"

    def pace(self, step: int) -> float | None:
        """Mean seconds of a step so far; None before there is one."""
        done = step - self.first
        return (time.monotonic() - self.started) / done if done > 0 else None


def duration(seconds: float) -> str:
    """Such as "45 s", "12 min", "3 h 05 min", "2 d 4 h"."""
    whole = round(seconds)
    if whole < 90:
        return f"{whole} s"
    minutes = round(seconds / 60)
    if minutes < 60:
        return f"{minutes} min"
    hours, minutes = divmod(minutes, 60)
    return f"{hours} h {minutes:02d} min" if hours < 48 else f"{hours // 24} d {hours % 24} h"
