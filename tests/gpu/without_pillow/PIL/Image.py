"""As `PIL.Image`, names only."""

from __future__ import annotations

from enum import IntEnum


class DecompressionBombError(Exception):
    """As Pillow's."""


class Image:
    """As Pillow's, in annotations."""


class Transpose(IntEnum):
    """As Pillow's."""

    FLIP_LEFT_RIGHT = 0
    FLIP_TOP_BOTTOM = 1
    ROTATE_90 = 2
    ROTATE_180 = 3
    ROTATE_270 = 4
    TRANSPOSE = 5
    TRANSVERSE = 6
