# SPDX-License-Identifier: Apache-2.0
"""From an encoded image to the pixels that a viewer would show: upright, in 8 bits, laid on a background."""

from __future__ import annotations

import io
import os
import warnings
from pathlib import Path
from typing import Any, BinaryIO, Callable, Iterator, Sequence, Union

import numpy as np
import torch
from PIL import Image, UnidentifiedImageError
from torch import Tensor

from .colours import in_srgb
from .image_files import read_at

Encoded = Union[bytes, BinaryIO, Path]
# What Pillow raises for a damaged file, and what is raised here for numbers that are not a picture.
UNREADABLE = (OSError, ValueError, SyntaxError, UnidentifiedImageError, Image.DecompressionBombError)
ORIENTATION = 274
# It reads images up to twice that limit, and its warning is about attacks.
warnings.filterwarnings("ignore", category=Image.DecompressionBombWarning)
# Modes with transparency of each pixel; that of LAB is a colour.
ALPHA = ("LA", "PA", "RGBA", "La", "RGBa")
GREY = ("1", "L", "LA", "La", "I")
# Bytes of a file that is read as a whole.
AT_ONCE = 1 << 26
# Images, and bytes of their files, that are read before the first of them is decoded.
TOGETHER, TOGETHER_BYTES = 32, 1 << 25
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


def decode_image(source: Encoded, size: int, background: str = "white") -> Tensor:
    """The middle square of an encoded image as it is meant to be seen, scaled to uint8 (3, size, size).

    Transparent parts show `background`. Raises one of UNREADABLE.
    """
    return torch.from_numpy(planes(square_of(open_image(whole(source), size), size, background)).copy())


def decode_into(batch: np.ndarray, sources: Sequence[Encoded], background: str = "white") -> dict[int, Exception]:
    """The same of many into `batch`, uint8 (N, 3, size, size): each step for all of them, then the next step.

    That is faster than one image after the other, as the processor's caches keep the code of a step. Returned are the
    reasons of those that cannot be read, by their number; their part of `batch` is left as it was.
    """
    size = batch.shape[-1]
    failed: dict[int, Exception] = {}
    for group in groups(sources, failed):
        opened = each(group, lambda encoded: open_image(encoded, size), failed)
        squares = each(opened, lambda image: square_of(image, size, background), failed)
        for number, square in squares.items():
            batch[number] = planes(square)
    return failed


def groups(sources: Sequence[Encoded], failed: dict[int, Exception]) -> Iterator[dict[int, Encoded]]:
    """Contents by their number, read together as far as memory allows."""
    group: dict[int, Encoded] = {}
    held = 0
    for number, source in enumerate(sources):
        read = each({number: source}, whole, failed)
        group.update(read)
        held += sum(len(content) for content in read.values() if isinstance(content, bytes))
        if len(group) == TOGETHER or held > TOGETHER_BYTES:
            yield group
            group, held = {}, 0
    yield group


def each(items: dict[int, Any], step: Callable[[Any], Any], failed: dict[int, Exception]) -> dict[int, Any]:
    """What `step` makes of the items, which are taken out one by one: a decoded image takes much memory."""
    done = {}
    for number in list(items):
        try:
            done[number] = step(items.pop(number))
        except UNREADABLE as error:
            # The calls that it came through hold the image.
            failed[number] = error.with_traceback(None)
    return done


def whole(source: Encoded) -> Encoded:
    """A file's content, read at once: Pillow asks a file for a JPEG's header in dozens of small pieces. Of a very large
    file, such as a TIFF of many pages, the path, for one image of it may be all that is wanted."""
    if not isinstance(source, Path):
        return source
    # Python's own file objects ask the kernel four more questions.
    file = os.open(source, os.O_RDONLY | os.O_CLOEXEC)
    try:
        length = os.fstat(file).st_size
        return read_at(file, length, 0) if length <= AT_ONCE else source
    finally:
        os.close(file)


def open_image(source: Encoded, size: int) -> Image.Image:
    """The image with its header read, and with the JPEG decoder told to skip detail that scaling down would drop."""
    try:
        image = Image.open(io.BytesIO(source) if isinstance(source, bytes) else source)
    except UnidentifiedImageError:
        # Pillow names an object in memory.
        raise UnidentifiedImageError("it has no image format that Pillow knows, or is damaged in its header") from None
    except Image.DecompressionBombError:
        # Pillow's words are about attacks.
        most = 2 * (Image.MAX_IMAGE_PIXELS or 0)
        raise ValueError(f"it has more than {most:,} pixels, the most that is read; save it smaller") from None
    image.draft("RGB", (size, size))
    return image


def square_of(opened: Image.Image, size: int, background: str) -> Image.Image:
    """See `decode_image`; RGB of size x size."""
    with opened as image:
        edge = min(image.size)
        left, top = (image.width - edge) // 2, (image.height - edge) // 2
        box = (left, top, left + edge, top + edge)
        turn = TURNS.get(image.getexif().get(ORIENTATION)) if "exif" in image.info or image.format == "TIFF" else None
        square = to_rgb(image, background)
        if square.size == (size, size):
            # Scaling would copy it.
            square.load()
        else:
            square = square.resize((size, size), Image.Resampling.BILINEAR, box)
        if "icc_profile" in image.info:
            square = in_srgb(square, image.info["icc_profile"], image.mode in GREY or image.mode.startswith("I;16"))
        # The middle square is the same for every orientation, and a small one turns faster.
        return square if turn is None else square.transpose(turn)


def planes(square: Image.Image) -> np.ndarray:
    """A view (3, S, S) of its bytes: NumPy turns rows of pixels into planes of colours faster than torch does."""
    return np.frombuffer(square.tobytes(), np.uint8).reshape(square.height, square.width, 3).transpose(2, 0, 1)


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
    if image.mode == "CMYK" and "icc_profile" in image.info:
        return in_srgb(image, image.info["icc_profile"]).convert("RGB")
    return image.convert("RGB")
