# SPDX-License-Identifier: Apache-2.0
"""Events of a run that a callback must not lose: what it has not seen would pass for nothing.

If a callback fails at an event, Ansible warns and goes on without it. So the callback itself notes what it lost.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

Event = Callable[..., None]


def noted(event: Event) -> Event:
    """The method for a task's result: if it fails, the callback's `_unread(result, why)` notes it."""

    @functools.wraps(event)
    def method(callback: Any, result: Any, *more: Any, **options: Any) -> None:
        try:
            event(callback, result, *more, **options)
        except Exception as error:
            callback._unread(result, f"its result could not be read ({type(error).__name__}: {error})")

    return method


def registers(task: Any) -> set[str]:
    """Names under which a task registers its result: a text before ansible-core 2.21, since then a dict by name."""
    told = task.register or ()
    return {told} if isinstance(told, str) else set(told)
