# SPDX-License-Identifier: Apache-2.0
"""From an encoded image to the pixels that a viewer would show: upright, in 8 bits, laid on a background."""

from __future__ import annotations

import io
import os
from pathlib import Path
from typing import BinaryIO

import numpy as np
import torch
from PIL import Image, UnidentifiedImageError
from torch import Tensor

# What Pillow raises for a damaged file, and what is raised here for numbers that are not a picture.
UNREADABLE = (OSError, ValueError, SyntaxError, UnidentifiedImageError, Image.DecompressionBombError)
ORIENTATION = 274
# Modes with transparency of each pixel; that of LAB is a colour.
ALPHA = ("LA", "PA", "RGBA", "La", "RGBa")
# Bytes of a file that is read as a whole.
AT_ONCE = 1 << 26
# How a picture stored with this EXIF orientation is turned upright (EXIF 2.3, 4.6.4).
TURNS = {
    2: Image.Transpose.FLIP_LEFT_RIGHT,
    3: Image.Transpose.ROTATE_180,
    4: Image.Transpose.FLIP_TOP_BOTTOM,
    5: Image.Transpose.TRANSPOSE,
    6: Image.Transpose.ROTATE_270,
    7: Image.Transpose.TRANSVERSE,
    8: Image.Transpose.ROTATE_90,
}


def decode_image(source: bytes | BinaryIO | Path, size: int, background: str = "white") -> Tensor:
    """The middle square of an encoded image as it is meant to be seen, scaled to uint8 (3, size, size).

    Transparent parts show `background`. Raises one of UNREADABLE.
    """
    square = square_of(whole(source) if isinstance(source, Path) else source, size, background)
    # NumPy turns rows of pixels into planes of colours faster than torch does.
    pixels = np.frombuffer(square.tobytes(), np.uint8).reshape(size, size, 3)
    return torch.from_numpy(pixels.transpose(2, 0, 1).copy())


def whole(path: Path) -> bytes | Path:
    """The file's content, read at once: Pillow asks a file for a JPEG's header in dozens of small pieces. Of a very
    large file, such as a TIFF of many pages, the path, for one image of it may be all that is wanted."""
    with path.open("rb", buffering=0) as file:
        return file.read() if os.fstat(file.fileno()).st_size <= AT_ONCE else path


def square_of(source: bytes | BinaryIO | Path, size: int, background: str) -> Image.Image:
    """See `decode_image`; RGB of size x size."""
    try:
        opened = Image.open(io.BytesIO(source) if isinstance(source, bytes) else source)
    except UnidentifiedImageError:
        # Pillow names an object in memory.
        raise UnidentifiedImageError("it has no image format that Pillow knows, or is damaged in its header") from None
    with opened as image:
        # Allows the JPEG decoder to skip detail that scaling down would drop.
        image.draft("RGB", (size, size))
        edge = min(image.size)
        left, top = (image.width - edge) // 2, (image.height - edge) // 2
        box = (left, top, left + edge, top + edge)
        turn = TURNS.get(image.getexif().get(ORIENTATION)) if "exif" in image.info or image.format == "TIFF" else None
        square = to_rgb(image, background).resize((size, size), Image.Resampling.BILINEAR, box)
        # The middle square is the same for every orientation, and a small one turns faster.
        return square if turn is None else square.transpose(turn)


def to_rgb(image: Image.Image, background: str) -> Image.Image:
    """8 bits of red, green and blue; ValueError for numbers whose white is not known."""
    if image.mode in ("RGB", "L") and "transparency" not in image.info:
        # Converting RGB to RGB would be one more copy.
        return image if image.mode == "RGB" else image.convert("RGB")
    # Pillow before 11 opens 16 bits of grey in PNG as "I"; it scales PGM's whole numbers to 16 bits.
    if image.mode.startswith("I;16") or (image.mode == "I" and image.format in ("PNG", "PPM")):
        grey = np.asarray(image).astype(np.uint32)
        return Image.fromarray(((grey + 128) // 257).clip(0, 255).astype(np.uint8)).convert("RGB")
    if image.mode in ("I", "F"):
        raise ValueError("its 32-bit numbers do not say what is white; save it in 8 or 16 bits")
    if image.mode in ALPHA or "transparency" in image.info:
        seen = image.convert("RGBA")
        # Before scaling: under full transparency, the colours are whatever an editor left there.
        return Image.alpha_composite(Image.new("RGBA", seen.size, background), seen).convert("RGB")
    return image.convert("RGB")
