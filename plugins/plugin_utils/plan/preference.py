# SPDX-License-Identifier: Apache-2.0
"""Which of several candidates that fit is chosen: the driver branch, the CUDA toolkit, the Python, and the frameworks.

What fits at all is decided by `rules`, from the rows of the matrix: roles/preflight/files/matrix/.
"""

from __future__ import annotations

import functools
from typing import Any

from ansible_collections.gpuwright.node.plugins.module_utils.host.versions import major, version_key

from .candidates import PYPI, Candidate, has_ended, short_support


def preference(candidate: Candidate, chosen: dict[str, Candidate], as_of: str, margin: int) -> tuple[Any, ...]:
    """Sort key, best first: what is maintained, and for long enough, what was verified, then the newest.

    margin  months of updates that a driver branch should still have (support_margin_months of the matrix)
    """
    row = candidate.row
    unverified = not row["verified"]
    if candidate.kind == "driver":
        branch = int(candidate.pins["driver_branch"])
        not_preferred = candidate.pins["driver_flavour"] != row["preferred_flavour"]
        exact = bool(candidate.pins["driver_version"])
        ended = has_ended(row, as_of)
        short = not ended and bool(short_support(row, as_of, margin))
        # Of those that have ended, the one that was updated last: its known holes are fewer.
        last = -int(row["eol"].replace("-", "") or 0) if ended else 0
        return (ended, short, unverified and not ended, last, exact, -branch, not_preferred, row["place"]["rank"])
    if candidate.kind == "python":
        return (has_ended(row, as_of), unverified) + _newest_first(candidate.pins["python"])
    if candidate.kind == "cuda":
        return (_is_ahead_of_driver(candidate, chosen), unverified) + _newest_first(candidate.pins["cuda"])
    if candidate.kind == "pytorch":
        newest = _newest_first(candidate.pins["pytorch"])
        unverified = not row.get("release_verified", row["verified"])
        return (unverified, row["index"] != PYPI, newest, _newest_first(row["cuda"] or "0"))
    newest = _newest_first(candidate.pins[candidate.kind])
    return (unverified, newest) if candidate.kind == "tensorflow" else (unverified, newest, -int(row["cuda_major"]))


@functools.lru_cache(maxsize=4096)
def _newest_first(version: str) -> tuple[int, ...]:
    return tuple(-number for number in version_key(version))


def _is_ahead_of_driver(cuda: Candidate, chosen: dict[str, Candidate]) -> bool:
    """Whether the toolkit came with a newer driver branch: it works, but the driver cannot compile its PTX."""
    driver = chosen.get("driver")
    return driver is not None and int(major(cuda.row["matching_driver"])) > int(driver.pins["driver_branch"])
