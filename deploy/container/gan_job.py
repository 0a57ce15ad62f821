#!/opt/gan-trainer/bin/python
# SPDX-License-Identifier: Apache-2.0
"""Run a training as a batch job: one that was stopped by a signal does not count as finished.

    gan-job COMMAND [ARGUMENT ...]

The trainer answers SIGTERM with a checkpoint and exit status 0, as a service should. A batch system that drains a node
would count that as a finished job and never start it again. gan-job passes the signal on, waits, and then ends with 75
(sysexits.h: try again later). Otherwise it ends as the command does.
"""

from __future__ import annotations

import signal
import subprocess
import sys

STOPPED = 75
SIGNALS = (signal.SIGTERM, signal.SIGINT, signal.SIGUSR1)


def main(words: list[str]) -> int:
    if not words:
        print("usage: gan-job COMMAND [ARGUMENT ...]", file=sys.stderr)
        return 2
    received: list[int] = []
    child: subprocess.Popen[bytes] | None = None

    def pass_on(number: int, frame: object) -> None:
        received.append(number)
        if child is not None:
            child.send_signal(number)

    for number in SIGNALS:
        signal.signal(number, pass_on)
    try:
        child = subprocess.Popen(words)
    except OSError as error:
        print(f"gan-job: {words[0]} cannot be started: {error.strerror}", file=sys.stderr)
        return 127
    if received:
        child.send_signal(received[0])
    status = child.wait()
    if received:
        print(f"gan-job: stopped by {signal.Signals(received[0]).name}; start it again to go on", file=sys.stderr)
        return STOPPED
    return 128 - status if status < 0 else status


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
