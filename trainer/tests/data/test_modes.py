"""A folder with a picture of every mode that a file can have: what the census says, and what the loader gives."""

from __future__ import annotations

import weakref
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from conftest import TINY
from PIL import Image, ImageDraw

from gan_trainer.config import make_config
from gan_trainer.data import pixels
from gan_trainer.data.census import describe
from gan_trainer.data.images import FolderImages, LabelledImages
from gan_trainer.data.loader import open_loader

SIZE = 32
COLOUR, GREY, WHITE = (200, 100, 50), (124, 124, 124), (255, 255, 255)
SOLID = Image.new("RGB", (SIZE, SIZE), COLOUR)
UNSEEN = Image.new("RGBA", (SIZE, SIZE), (*COLOUR, 0))
# 16 bits: 31,868 of 65,535 are 124 of 255.
DEEP = 31868

Row = tuple[str, Image.Image, dict[str, Any], str, tuple[int, int, int]]


def of_16_bits(mode: str) -> Image.Image:
    return Image.new(mode, (SIZE, SIZE), DEEP)


def turned() -> tuple[Image.Image, dict[str, Any]]:
    """Black above white for a viewer; stored lying on its side."""
    upright = Image.new("RGB", (SIZE, SIZE), "white")
    ImageDraw.Draw(upright).rectangle((0, 0, SIZE - 1, SIZE // 2 - 1), fill="black")
    exif = Image.Exif()
    exif[274] = 6
    return upright.transpose(Image.Transpose.ROTATE_90), {"exif": exif}


# File, picture, how it is saved, the mode that Pillow opens it in, and the mean colour that a viewer shows.
READABLE: list[Row] = [
    ("bits.png", Image.new("1", (SIZE, SIZE), 1), {}, "1", WHITE),
    ("grey.png", SOLID.convert("L"), {}, "L", GREY),
    ("grey.pgm", SOLID.convert("L"), {}, "L", GREY),
    ("grey-alpha.png", SOLID.convert("LA"), {}, "LA", GREY),
    ("grey-unseen.tif", UNSEEN.convert("LA"), {}, "LA", WHITE),
    ("palette.gif", SOLID.quantize(4), {}, "P", COLOUR),
    ("palette.bmp", SOLID.quantize(4), {}, "P", COLOUR),
    ("palette-unseen.png", SOLID.quantize(4), {"transparency": 0}, "P", WHITE),
    ("palette-alpha.tif", SOLID.quantize(4).convert("PA"), {}, "PA", COLOUR),
    ("colour.png", SOLID, {}, "RGB", COLOUR),
    ("colour.jpg", SOLID, {"quality": 95}, "RGB", COLOUR),
    ("colour.webp", SOLID, {"lossless": True}, "RGB", COLOUR),
    ("colour.ppm", SOLID, {}, "RGB", COLOUR),
    ("alpha.png", SOLID.convert("RGBA"), {}, "RGBA", COLOUR),
    ("unseen.webp", UNSEEN, {"lossless": True}, "RGBA", WHITE),
    ("ink.jpg", SOLID.convert("CMYK"), {"quality": 95}, "CMYK", COLOUR),
    ("ink.tif", SOLID.convert("CMYK"), {}, "CMYK", COLOUR),
    ("video.tif", SOLID.convert("YCbCr"), {}, "YCbCr", COLOUR),
    # Lightness 128 of 255, no colour.
    ("lab.tif", Image.new("LAB", (SIZE, SIZE), (128, 128, 128)), {}, "LAB", (119, 119, 119)),
    ("deep.png", of_16_bits("I;16"), {}, "I;16", GREY),
    ("deep.tif", of_16_bits("I;16"), {}, "I;16", GREY),
    ("deep-big-endian.tiff", of_16_bits("I;16B"), {}, "I;16B", GREY),
    ("turned.jpeg", *turned(), "RGB", (128, 128, 128)),
]
# Nobody knows their white.
WITHOUT_WHITE = [("whole-numbers.tif", SOLID.convert("I")), ("fractions.tif", SOLID.convert("F"))]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    made = tmp_path / "every mode"
    made.mkdir()
    for name, picture, options, *_ in READABLE:
        picture.save(made / name, **options)
    for name, picture in WITHOUT_WHITE:
        picture.save(made / name)
    whole = (made / "colour.jpg").read_bytes()
    (made / "truncated.jpg").write_bytes(whole[: len(whole) // 2])
    return made


def test_pillow_opens_each_in_the_mode_that_it_stands_for(folder: Path) -> None:
    for name, _, _, mode, _ in READABLE:
        with Image.open(folder / name) as image:
            # Pillow before 11 opens 16 bits of grey in PNG as "I".
            assert image.mode == mode or (name == "deep.png" and image.mode == "I"), name


def test_the_loader_gives_what_a_viewer_shows(folder: Path, capfd: pytest.CaptureFixture) -> None:
    images = FolderImages(str(folder), SIZE, max_bad=3)
    places = {path.name: number for number, path in enumerate(images.files)}
    assert len(places) == len(READABLE) + 3
    for name, _, _, _, seen in READABLE:
        pixels = images[places[name]]
        assert isinstance(pixels, torch.Tensor), "a folder without classes"
        assert pixels.dtype == torch.uint8 and pixels.shape == (3, SIZE, SIZE), name
        found = pixels.float().mean(dim=(1, 2)).tolist()
        assert all(abs(one - other) <= 3 for one, other in zip(found, seen, strict=True)), (name, found)
    upright = images[places["turned.jpeg"]]
    assert isinstance(upright, torch.Tensor)
    assert upright[:, 4].float().mean() < 10 and upright[:, -4].float().mean() > 245, "black is above"
    assert capfd.readouterr().err == "", "none of them is unreadable"
    for name in [*(name for name, _ in WITHOUT_WHITE), "truncated.jpg"]:
        assert isinstance(images[places[name]], torch.Tensor), "its neighbour stands in"
    said = capfd.readouterr().err
    assert (
        said.count("its 32-bit numbers do not say what is white") == 2 and said.count("truncated.jpg: cannot be") == 1
    )


def test_the_census_counts_every_mode(folder: Path) -> None:
    config = make_config({**TINY, "data": str(folder), "batch_size": 2})
    found, *_others, looked = describe(config)
    assert found.startswith(f"data: {len(READABLE) + 3} images in {folder} ")
    assert looked.startswith(f"data: of {len(READABLE) + 3} looked at: {SIZE}x{SIZE} to {SIZE}x{SIZE}")
    # LAB has an A in its name, and no transparency.
    transparent = sum(mode in ("LA", "PA", "RGBA") or "transparency" in options for _, _, options, mode, _ in READABLE)
    assert f"; {transparent} with transparency, laid on white" in looked
    assert "; 1 turned upright" in looked
    for part in ("5 RGB", "3 P", "2 RGBA", "2 LA"):
        assert part in looked, part


def test_a_training_reads_all_of_it(folder: Path, capfd: pytest.CaptureFixture) -> None:
    count = len(READABLE) + 3
    values = {**TINY, "data": str(folder), "batch_size": count, "max_bad_images": 3, "steps": 2}
    with open_loader(make_config(values), 0, pin_memory=False) as batches:
        shapes = [tuple(batch.shape) for batch in batches]
    assert shapes == [(count, 3, SIZE, SIZE)] * 2
    assert capfd.readouterr().err.count("cannot be read as an image") == 3


def test_a_batch_holds_what_each_image_alone_gives(
    folder: Path, capfd: pytest.CaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of every mode, with the unreadable ones replaced, and told in the order of the batch."""
    # More groups than one, with an unreadable file in the middle of one.
    monkeypatch.setattr(pixels, "TOGETHER", 7)
    one, many = (FolderImages(str(folder), SIZE, max_bad=3) for _ in range(2))
    order = [(number * 7) % len(one) for number in range(len(one))]
    single: list[Any] = [one[index] for index in order]
    told = capfd.readouterr().err
    batch = many.__getitems__(order)
    assert batch.dtype == torch.uint8 and batch.shape == (len(order), 3, SIZE, SIZE)
    assert all(torch.equal(image, alone) for image, alone in zip(batch, single, strict=True))
    assert capfd.readouterr().err == told and told.count("cannot be read as an image") == 3


def test_large_files_are_not_read_together(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    files = sorted(folder.glob("*.png"))
    lengths = [file.stat().st_size for file in files]
    monkeypatch.setattr(pixels, "TOGETHER_BYTES", 2 * max(lengths))
    groups: list[list[Any]] = [list(group.values()) for group in pixels.groups(files, {})]
    assert [len(content) for group in groups for content in group] == lengths and len(groups) > 1
    assert all(sum(len(content) for content in group[:-1]) <= 2 * max(lengths) for group in groups)


def test_a_decoded_image_is_let_go_before_the_next_one(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A batch of photographs would otherwise take gigabytes while it is scaled down."""
    alive: list[weakref.ref] = []
    whole = pixels.to_rgb

    def watched(image: Image.Image, background: str) -> Image.Image:
        assert sum(ref() is not None and ref() is not image for ref in alive) <= 1, "the last one may still be there"
        made = whole(image, background)
        alive.append(weakref.ref(image))
        return made

    monkeypatch.setattr(pixels, "to_rgb", watched)
    files = [folder / name for name in ("colour.png", "grey.png", "truncated.jpg", "alpha.png", "ink.tif", "deep.png")]
    batch = np.empty((len(files), 3, SIZE // 2, SIZE // 2), np.uint8)
    assert list(pixels.decode_into(batch, files)) == [2] and len(alive) == 5


def test_an_image_that_stands_in_brings_its_class(tmp_path: Path) -> None:
    for place, name in enumerate(("cats", "dogs")):
        (tmp_path / name).mkdir()
        for number in range(3):
            Image.new("RGB", (SIZE, SIZE), (100 * place, 10 * number, 0)).save(tmp_path / name / f"{number}.png")
    (tmp_path / "cats" / "2.png").write_bytes(b"no image")
    images, labels = LabelledImages(str(tmp_path), SIZE, 1, "white", 2).__getitems__([5, 2, 0])
    assert labels.tolist() == [1, 1, 0] and labels.dtype == torch.int64
    assert images[:, :2, 0, 0].tolist() == [[100, 20], [100, 0], [0, 0]]
