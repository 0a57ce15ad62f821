# SPDX-License-Identifier: Apache-2.0
"""What an answer must respect: a pin, a GPU or the operating system."""

from __future__ import annotations

from typing import Any, NamedTuple


class Fact(NamedTuple):
    """Something that an answer must respect.

    kind   pin, gpu or os     name   of the pin     value  the pin's value, a Gpu, or a row of os_releases
    label  for people: system_driver_branch "590"            origin  of a pin: the variable, or the profile that asked
    """

    kind: str
    name: str
    value: Any
    label: str
    origin: str
