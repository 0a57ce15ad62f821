# SPDX-License-Identifier: Apache-2.0
"""Which packages belong to a driver; the patterns are in roles/preflight/files/matrix/platforms.yml."""

from fnmatch import fnmatchcase

from .device_table import DRIVER_PARTS


def of_driver(name: str) -> bool:
    """Whether a package of this name is a driver's, whoever made it; a container toolkit or CUDA is not."""
    return not is_foreign(name) and (_fits("versioned", name) or _fits("apart", name))


def is_foreign(name: str) -> bool:
    """Whether it is named like a driver and belongs to none: a container toolkit, a kernel for NVIDIA's platforms."""
    return _fits("foreign", name)


def _fits(kind: str, name: str) -> bool:
    return any(fnmatchcase(name, pattern) for pattern in DRIVER_PARTS[kind])
