# SPDX-License-Identifier: Apache-2.0
"""What a recorded check keeps for the next ones: strikes of cards, and the error counters of links."""

from ..checks.all import CHECKS
from ..checks.gpu.strikes_kept import keep_strikes
from ..readings.link_errors import keep_link_errors
from ..verdict.report import Record


def keep_for_next(report: Record, root: str = "/") -> str:
    """Keep it, as root; returns what could not be kept or is lost, "" if nothing is. No verdict depends on that."""
    said = []
    try:
        said.append(keep_strikes(report, CHECKS, root))
    except (OSError, ValueError) as error:
        said.append(f"strikes are not counted: {error}")
    try:
        keep_link_errors(report["readings"], root)
    except (OSError, ValueError) as error:
        said.append(f"the error counters of links are not kept: {error}")
    return "; ".join(one for one in said if one)
