# SPDX-License-Identifier: Apache-2.0
"""Dotted version numbers: "12.9" is a list of whole numbers, so 8.10 comes after 8.9."""

import functools
from typing import Any, Tuple

from .patterns import lazily

NUMBER = lazily(r"[0-9]{1,9}(\.[0-9]{1,9})*")


def is_version(text: Any) -> bool:
    """Whether `text` is a dotted number such as "580" or "9.10.2.21"."""
    return isinstance(text, str) and NUMBER.fullmatch(text) is not None


@functools.lru_cache(maxsize=4096)
def version_key(text: str) -> Tuple[int, ...]:
    """The key for sorting and comparing dotted numbers; raises ValueError for anything else, including ""."""
    if not is_version(text):
        raise ValueError(f'{text!r} is not a version: dotted numbers such as "12.9" are expected')
    return tuple(int(part) for part in text.split("."))


@functools.lru_cache(maxsize=4096)
def major(text: str) -> str:
    """The first number, as text: "12" for "12.9"."""
    return text.split(".")[0]


def is_part_of(version: str, prefix: str) -> bool:
    """Whether `version` is `prefix` or one of its releases: 9.10.2 belongs to 9.10, 9.1 does not."""
    return version == prefix or version.startswith(prefix + ".")
