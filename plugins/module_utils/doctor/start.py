# SPDX-License-Identifier: Apache-2.0
"""How gpu-doctor starts: what only reads the record of root's last check answers before anything else is loaded.

Monitors ask every minute, and the gate is asked before each job: neither is to cost what a check costs.
"""

import sys
from typing import Optional, Sequence

from .recorded import answered


def main(arguments: Optional[Sequence[str]] = None, root: str = "/") -> int:
    """Run the program; returns its exit status."""
    status = answered(sys.argv[1:] if arguments is None else arguments, root)
    if status is not None:
        return status
    # The whole program takes a tenth of a second to load.
    from .program import main as whole

    return whole(arguments, root)
