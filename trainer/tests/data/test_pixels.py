"""What a viewer shows is trained on: bit depth, transparency, orientation, palettes, modes without colours."""

from __future__ import annotations

import io
import struct
import zlib
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image, ImageDraw

from gan_trainer.data.images import FolderImages
from gan_trainer.data.pixels import UNREADABLE, decode_image

SIZE = 32


def encoded(image: Image.Image, kind: str = "PNG", **options: object) -> bytes:
    data = io.BytesIO()
    image.save(data, kind, **options)
    return data.getvalue()


def mean(data: bytes) -> list[int]:
    return [round(value) for value in decode_image(data, SIZE).float().mean(dim=(1, 2)).tolist()]


def png_of_16_bits(colour_type: int, *samples: int) -> bytes:
    """A plain picture as the PNG specification has it: big-endian samples of 16 bits, one filter byte in each row."""

    def chunk(name: bytes, content: bytes) -> bytes:
        return struct.pack(">I", len(content)) + name + content + struct.pack(">I", zlib.crc32(name + content))

    rows = (b"\0" + struct.pack(f">{len(samples)}H", *samples) * SIZE) * SIZE
    head = struct.pack(">IIBBBBB", SIZE, SIZE, 16, colour_type, 0, 0, 0)
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", head) + chunk(b"IDAT", zlib.compress(rows)) + chunk(b"IEND", b"")


@pytest.mark.parametrize("value", [0, 1000, 32768, 65535])
def test_grey_of_16_bits_keeps_its_brightness(value: int) -> None:
    assert mean(png_of_16_bits(0, value)) == [round(value / 257)] * 3


def test_grey_of_16_bits_as_tiff() -> None:
    image = Image.fromarray(np.full((SIZE, SIZE), 25700, np.uint16))
    assert mean(encoded(image, "TIFF")) == [100, 100, 100]


def test_colours_of_16_bits() -> None:
    assert mean(png_of_16_bits(2, 0, 32896, 65535)) == [0, 128, 255]


@pytest.mark.parametrize(("alpha", "seen"), [(255, [0, 0, 255]), (0, [255, 255, 255]), (128, [127, 127, 255])])
def test_transparent_parts_lie_on_white(alpha: int, seen: list[int]) -> None:
    found = mean(encoded(Image.new("RGBA", (SIZE, SIZE), (0, 0, 255, alpha))))
    assert all(abs(a - b) <= 1 for a, b in zip(found, seen, strict=True)), found


def test_colours_under_full_transparency_do_not_bleed_into_the_edge() -> None:
    """Editors leave any colour where nothing is seen; scaled before it is laid on white it would tint the edge."""
    image = Image.new("RGBA", (256, 256), (255, 0, 0, 0))
    ImageDraw.Draw(image).rectangle((0, 0, 127, 255), fill=(0, 0, 0, 255))
    pixels = decode_image(encoded(image), SIZE)
    # Between black and white there is grey alone.
    assert int((pixels.max(dim=0).values - pixels.min(dim=0).values).max()) <= 1


def test_background_can_be_black() -> None:
    data = encoded(Image.new("LA", (SIZE, SIZE), (200, 0)))
    assert decode_image(data, SIZE, "black").max() == 0 and decode_image(data, SIZE).min() == 255


def test_palette_with_a_transparent_colour() -> None:
    image = Image.new("P", (SIZE, SIZE), 1)
    image.putpalette([0, 0, 0, 10, 20, 30])
    assert mean(encoded(image)) == [10, 20, 30]
    assert mean(encoded(image, transparency=1)) == [255, 255, 255]
    assert mean(encoded(Image.new("RGB", (SIZE, SIZE), (1, 2, 3)), transparency=(1, 2, 3))) == [255, 255, 255]


@pytest.mark.parametrize("orientation", range(1, 9))
@pytest.mark.parametrize("kind", ["JPEG", "PNG", "WEBP"])
def test_the_cameras_orientation_is_followed(orientation: int, kind: str) -> None:
    """Stored as the sensor saw it, with a number that tells how to turn it (EXIF 2.3, tag 274)."""
    upright = Image.new("RGB", (64, 64), "white")
    ImageDraw.Draw(upright).rectangle((0, 0, 31, 15), fill="black")
    # The stored picture is what the orientation turns back into the upright one.
    back = {
        **{2: Image.Transpose.FLIP_LEFT_RIGHT, 3: Image.Transpose.ROTATE_180, 4: Image.Transpose.FLIP_TOP_BOTTOM},
        **{5: Image.Transpose.TRANSPOSE, 6: Image.Transpose.ROTATE_90, 7: Image.Transpose.TRANSVERSE},
        8: Image.Transpose.ROTATE_270,
    }
    stored = upright.transpose(back[orientation]) if orientation in back else upright
    exif = Image.Exif()
    exif[274] = orientation
    found = decode_image(encoded(stored, kind, exif=exif), SIZE).float()
    expected = decode_image(encoded(upright), SIZE).float()
    assert float((found - expected).abs().mean()) < 6


@pytest.mark.parametrize("mode", ["1", "L", "LA", "P", "RGB", "RGBA", "CMYK", "YCbCr"])
def test_every_mode_gives_its_own_colours(mode: str) -> None:
    grey = Image.new("RGB", (SIZE, SIZE), (255, 255, 255)).convert(mode)
    kind = "JPEG" if mode in ("CMYK", "YCbCr") else "PNG"
    assert all(value >= 253 for value in mean(encoded(grey, kind)))


def test_numbers_without_a_range_are_no_picture() -> None:
    """A TIFF of floats (heights, X-ray) says nowhere what is white."""
    data = encoded(Image.fromarray(np.full((SIZE, SIZE), 0.5, np.float32)), "TIFF")
    with pytest.raises(UNREADABLE, match="32-bit"):
        decode_image(data, SIZE)


def test_a_picture_larger_than_any_camera_makes_is_named(tmp_path: Path, capfd: pytest.CaptureFixture) -> None:
    folder = tmp_path / "images"
    folder.mkdir()
    Image.new("1", (30_000, 20_000)).save(folder / "a.png")
    Image.new("RGB", (40, 40), (0, 0, 200)).save(folder / "b.png")
    bad, good = (FolderImages(str(folder), SIZE, 1)[index] for index in (0, 1))
    assert isinstance(bad, torch.Tensor) and isinstance(good, torch.Tensor), "a folder without classes"
    assert torch.equal(bad, good)
    assert "a.png" in capfd.readouterr().err
