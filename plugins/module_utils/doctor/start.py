# SPDX-License-Identifier: Apache-2.0
"""How gpu-doctor starts: what only reads the record of root's last check answers before anything else is loaded.

Monitors ask every minute, and the gate is asked before each job: neither is to cost what a check costs.
"""

import signal
import sys
from typing import Optional, Sequence

from ..host.terminal import escape_output
from ..verdict.boot_check import gate
from .recorded import is_watched, nagios_of_recorded


def main(arguments: Optional[Sequence[str]] = None, root: str = "/") -> int:
    """Run the program; returns its exit status."""
    status = answered(sys.argv[1:] if arguments is None else arguments, root)
    if status is not None:
        return status
    # The whole program takes a tenth of a second to load.
    from .program import main as whole

    return whole(arguments, root)


def answered(arguments: Sequence[str], root: str = "/") -> Optional[int]:
    """Answer --gate or --nagios, each alone, from the record; None if that is not what was asked, or there is none."""
    asked = list(arguments)
    if asked not in (["--gate"], ["--nagios"]) or (asked == ["--nagios"] and not is_watched(root)):
        return None
    signal.signal(signal.SIGPIPE, signal.SIG_DFL)
    escape_output()
    if asked == ["--gate"]:
        is_open, sentence = gate(root)
        print("gpu-doctor: " + sentence, file=sys.stdout if is_open else sys.stderr)
        return 0 if is_open else 1
    line, status = nagios_of_recorded(root)
    print(line)
    return status
