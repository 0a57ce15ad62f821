# SPDX-License-Identifier: Apache-2.0
"""Which packages belong to a driver; the patterns are in roles/preflight/files/matrix/platforms.yml."""

from fnmatch import fnmatchcase

from .device_table import DRIVER_PARTS


def of_driver(name: str) -> bool:
    """Whether a package of this name is a driver's, whoever made it; a container toolkit or CUDA is not."""
    kinds = [kind for kind in ("foreign", "versioned", "apart") if _fits(kind, name)]
    return bool(kinds) and "foreign" not in kinds


def _fits(kind: str, name: str) -> bool:
    return any(fnmatchcase(name, pattern) for pattern in DRIVER_PARTS[kind])
