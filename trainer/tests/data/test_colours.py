"""Colours by the profile of an image, as a viewer shows them; expected values are computed here from the curves."""

from __future__ import annotations

import io
import struct
from pathlib import Path

import numpy as np
import pytest
from PIL import Image, ImageCms

from gan_trainer.config import make_config
from gan_trainer.data import census
from gan_trainer.data.colours import transform_of
from gan_trainer.data.pixels import decode_image

SIZE = 32
# sRGB's own red, green and blue, adapted to the white of profiles (IEC 61966-2-1, ICC.1 annex E).
PRIMARIES = {"r": (0.43607, 0.22249, 0.01392), "g": (0.38515, 0.71687, 0.09708), "b": (0.14307, 0.06061, 0.71410)}
SRGB = ImageCms.ImageCmsProfile(ImageCms.createProfile("sRGB")).tobytes()


def profile(space: str, gamma: float, order: str = "rgb") -> bytes:
    """A profile as ICC.1:2001-04 has it: curves with one exponent, and for RGB sRGB's primaries in another `order`."""

    def number(value: float) -> bytes:
        return struct.pack(">i", round(value * 65536))

    curve = b"curv" + bytes(4) + struct.pack(">IH", 1, round(gamma * 256)) + bytes(2)
    tags = [(b"wtpt", b"XYZ " + bytes(4) + b"".join(map(number, (0.9642, 1.0, 0.8249))))]
    if space == "GRAY":
        tags.append((b"kTRC", curve))
    for letter, own in zip("rgb", order) if space == "RGB " else ():
        tags.append((letter.encode() + b"XYZ", b"XYZ " + bytes(4) + b"".join(map(number, PRIMARIES[own]))))
        tags.append((letter.encode() + b"TRC", curve))
    place, table, body = 128 + 4 + 12 * len(tags), struct.pack(">I", len(tags)), b""
    for name, content in tags:
        table += name + struct.pack(">II", place + len(body), len(content))
        body += content
    head = (
        struct.pack(">I", place + len(body)) + bytes(4) + bytes.fromhex("02400000") + b"mntr" + space.encode() + b"XYZ "
    )
    head += bytes(12) + b"acsp" + bytes(28) + b"".join(map(number, (0.9642, 1.0, 0.8249)))
    return head.ljust(128, b"\0") + table + body


def encoded(image: Image.Image, icc: bytes | None, kind: str = "PNG", **options: object) -> bytes:
    data = io.BytesIO()
    image.save(data, kind, icc_profile=icc, **options)
    return data.getvalue()


def colour_of(data: bytes) -> list[int]:
    return [round(value) for value in decode_image(data, SIZE).float().mean(dim=(1, 2)).tolist()]


def in_srgb(level: float) -> int:
    """A linear part of 255 in sRGB's curve."""
    value = level / 255
    return round(255 * (12.92 * value if value <= 0.0031308 else 1.055 * value ** (1 / 2.4) - 0.055))


def near(found: list[int], expected: list[int]) -> bool:
    return all(abs(one - other) <= 2 for one, other in zip(found, expected, strict=True))


@pytest.mark.parametrize("kind", ["PNG", "JPEG", "WEBP", "TIFF"])
@pytest.mark.parametrize("size", [SIZE, 80])
def test_a_linear_profile_is_brought_to_the_curve_of_screens(kind: str, size: int) -> None:
    image = Image.new("RGB", (size, size), (40, 128, 220))
    exact = {"quality": 100} if kind == "JPEG" else {"lossless": True} if kind == "WEBP" else {}
    found = colour_of(encoded(image, profile("RGB ", 1.0), kind, **exact))
    assert near(found, [in_srgb(40), in_srgb(128), in_srgb(220)]), found


def test_other_primaries_are_other_colours() -> None:
    assert near(
        colour_of(encoded(Image.new("RGB", (SIZE, SIZE), (255, 0, 0)), profile("RGB ", 2.2, "grb"))), [0, 255, 0]
    )


def test_grey_has_profiles_too() -> None:
    for mode in ("L", "LA"):
        image = Image.new(mode, (SIZE, SIZE), 128 if mode == "L" else (128, 255))
        assert near(colour_of(encoded(image, profile("GRAY", 1.0))), [in_srgb(128)] * 3)


@pytest.mark.parametrize(
    "icc", [SRGB, b"no profile", SRGB[:200], b"", profile("GRAY", 1.0)], ids=["sRGB", "text", "cut", "empty", "of grey"]
)
def test_others_leave_colours_as_they_are(icc: bytes) -> None:
    """A profile of sRGB, a damaged one, one of other pixels."""
    image = Image.new("RGB", (SIZE, SIZE), (40, 128, 220))
    assert colour_of(encoded(image, icc)) == [40, 128, 220]


def test_transparent_pictures_keep_the_background() -> None:
    image = Image.new("RGBA", (SIZE, SIZE), (128, 128, 128, 255))
    assert near(colour_of(encoded(image, profile("RGB ", 1.0))), [in_srgb(128)] * 3)
    clear = Image.new("RGBA", (SIZE, SIZE), (128, 128, 128, 0))
    assert near(colour_of(encoded(clear, profile("RGB ", 1.0))), [255] * 3)


def test_a_profile_is_read_once_and_one_of_srgb_costs_nothing() -> None:
    transform_of.cache_clear()
    for icc in (SRGB, profile("RGB ", 1.0)) * 3:
        decode_image(encoded(Image.new("RGB", (SIZE, SIZE)), icc), SIZE)
    assert transform_of.cache_info().misses == 2 and transform_of(SRGB) is None


def test_the_census_says_how_many_have_one(tmp_path: Path) -> None:
    image = Image.fromarray(np.zeros((40, 40, 3), np.uint8))
    for number, icc in enumerate((SRGB, profile("RGB ", 1.0), None)):
        (tmp_path / f"{number}.png").write_bytes(encoded(image, icc))
    said = census.describe(make_config({"data": str(tmp_path), "image_size": 32}))
    assert "1 with a colour profile of their own, shown in sRGB" in said[-1]


def test_a_picture_that_is_too_large_is_left_out_in_plain_words(monkeypatch: pytest.MonkeyPatch) -> None:
    data = encoded(Image.new("RGB", (SIZE, SIZE)), None)
    monkeypatch.setattr(Image, "MAX_IMAGE_PIXELS", SIZE * SIZE // 2 - 1)
    with pytest.raises(ValueError, match="it has more than 1,022 pixels, the most that is read; save it smaller"):
        decode_image(data, SIZE)
