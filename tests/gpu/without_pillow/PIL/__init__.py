"""The names of Pillow that the trainer's modules mention when they are imported, for a PyTorch that came without it.

Nothing that is measured decodes an image: whoever does gets an AttributeError.
"""

from __future__ import annotations

from . import Image


class UnidentifiedImageError(OSError):
    """As Pillow's."""


__all__ = ["Image", "UnidentifiedImageError"]
