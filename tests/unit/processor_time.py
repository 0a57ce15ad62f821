"""What programs cost, whatever else this machine does at the time."""

from __future__ import annotations

import resource
from collections.abc import Callable, Iterator
from contextlib import contextmanager


def _of_children() -> float:
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


@contextmanager
def processor_seconds() -> Iterator[Callable[[], float]]:
    """CPU seconds, in user and system mode, of the programs that were started and waited for since."""
    before = _of_children()
    yield lambda: _of_children() - before
