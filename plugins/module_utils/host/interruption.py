# SPDX-License-Identifier: Apache-2.0
"""Hold an interruption back where it would leave a program behind."""

import signal
import threading
from contextlib import contextmanager
from typing import Any, Iterator, List, Tuple

# Ctrl-C, a stop by another program, a closed terminal.
INTERRUPTIONS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


@contextmanager
def interruption_held() -> Iterator[None]:
    """Deliver a signal that arrives inside at the end of the block, to the handler that was there.

    Popen returns only after its program has begun. An interruption in between would lose the process, which nobody
    could stop then. A program that is started here has the default handlers, as every program has. Python calls
    handlers in the main thread alone, so there is nothing to hold in another one, nor without a handler.
    """
    handlers = {number: signal.getsignal(number) for number in INTERRUPTIONS}
    own = {number: handler for number, handler in handlers.items() if callable(handler)}
    if not own or threading.current_thread() is not threading.main_thread():
        yield
        return
    arrived: List[Tuple[int, Any]] = []
    for number in own:
        signal.signal(number, lambda number, frame: arrived.append((number, frame)))
    try:
        yield
    finally:
        for number, handler in own.items():
            signal.signal(number, handler)
        if arrived:
            own[signal.Signals(arrived[0][0])](*arrived[0])
