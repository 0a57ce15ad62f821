# SPDX-License-Identifier: Apache-2.0
"""Single values below an element `gpu` of nvidia-smi's XML, found by path; a missing tag is None.

None (the driver or card has no such thing) and UNKNOWN (nothing says what it is) are never mixed.
"""

from typing import Any, Callable, Dict, Optional
from xml.etree.ElementTree import Element

from .values import (
    NOT_THERE,
    UNKNOWN,
    Count,
    Flag,
    clean,
    read_flag,
    read_mode,
    read_number,
    read_text,
)


def number_at(gpu: Element, path: str, unit: str = "") -> Count:
    """A whole number in `unit`."""
    tag = gpu.find(path)
    return None if tag is None else read_number(tag.text, unit)


def amount_at(gpu: Element, path: str, unit: str) -> Count:
    """A number with or without a fraction in `unit`."""
    tag = gpu.find(path)
    return None if tag is None else read_number(tag.text, unit, whole=False)


def text_at(gpu: Element, path: str) -> Optional[str]:
    tag = gpu.find(path)
    return None if tag is None else read_text(tag.text)


def flag_at(gpu: Element, path: str) -> Flag:
    tag = gpu.find(path)
    return None if tag is None else read_flag(tag.text)


def mode_at(gpu: Element, path: str) -> Optional[str]:
    tag = gpu.find(path)
    return None if tag is None else read_mode(tag.text)


def unread_block(gpu: Element, path: str) -> bool:
    """Whether the block exists and holds a word for an error, such as ERR!, in place of its members."""
    block = gpu.find(path)
    return block is not None and len(block) == 0 and clean(block.text) not in NOT_THERE + ("",)


def members(gpu: Element, path: str, read: Callable[[Element], Dict[str, Any]]) -> Dict[str, Any]:
    """`read(gpu)`, a record; all of it is UNKNOWN if the block at `path` is a word for an error."""
    found = read(gpu)
    return dict.fromkeys(found, UNKNOWN) if unread_block(gpu, path) else found
