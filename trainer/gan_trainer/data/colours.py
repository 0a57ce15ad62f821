# SPDX-License-Identifier: Apache-2.0
"""Colours by an image's own ICC profile, as a viewer shows them: cameras, telephones and printers have other primaries
and other curves than sRGB, which networks and screens take pixels for."""

from __future__ import annotations

import io
from functools import lru_cache
from typing import Any

import numpy as np
from PIL import Image

# Levels of 255 by which a profile may differ from sRGB and still be it: most photos have one of some version of sRGB.
SAME = 2
# Kinds of pixels that a profile may be about, by the name in its header (ICC.1, 7.2.6), and Pillow's mode.
MODES = {"RGB": "RGB", "GRAY": "L", "CMYK": "CMYK"}
KEPT = 64


def in_srgb(image: Image.Image, profile: Any, grey: bool = False) -> Image.Image:
    """An RGB or CMYK image in sRGB, in RGB also one that was `grey`; as it is where its profile is sRGB, is damaged, or
    is about other pixels."""
    found = transform_of(bytes(profile)) if profile else None
    if found is None:
        return image
    mode, transform = found
    if grey:
        # All channels are equal.
        return applied(image.getchannel(0), transform) if mode == "L" else image
    return applied(image, transform) if mode == image.mode else image


def applied(image: Image.Image, transform: Any) -> Image.Image:
    from PIL import ImageCms

    made = ImageCms.applyTransform(image, transform)
    return image if made is None else made


@lru_cache(KEPT)
def transform_of(profile: bytes) -> tuple[str, Any] | None:
    """Pillow's mode of the pixels that the profile is about, and a transform of these into sRGB; None where nothing is
    to be done, or nothing can be."""
    try:
        # Some builds of Pillow lack LittleCMS.
        from PIL import ImageCms

        opened = ImageCms.ImageCmsProfile(io.BytesIO(profile))
        mode = MODES.get(opened.profile.xcolor_space.strip())
        if mode is None:
            return None
        transform = ImageCms.buildTransform(opened, ImageCms.createProfile("sRGB"), mode, "RGB")
        return None if mode != "CMYK" and is_srgb(mode, transform) else (mode, transform)
    # LittleCMS and its binding fail in several ways for a damaged profile; the picture is still one.
    except Exception:
        return None


def is_srgb(mode: str, transform: Any) -> bool:
    """Whether it leaves all colours of a coarse cube as they are."""
    steps = np.arange(0, 256, 51, dtype=np.uint8)
    if mode == "L":
        cube = np.repeat(steps[None, :, None], 3, axis=2)
        image = Image.fromarray(steps[None, :])
    else:
        cube = np.stack(np.meshgrid(steps, steps, steps), axis=-1).reshape(1, -1, 3)
        image = Image.fromarray(cube)
    found = np.asarray(applied(image, transform)).astype(int)
    return bool(np.abs(found - cube.astype(int)).max() <= SAME)
