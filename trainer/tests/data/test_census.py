"""What the data holds is told before the training: found, left out, sizes and modes, and how the run ends."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from conftest import TINY
from PIL import Image

from gan_trainer.config import make_config
from gan_trainer.data.census import counted, describe
from gan_trainer.data.image_files import list_images
from gan_trainer.data.images import DataError


def picture(path: Path, mode: str = "RGB", size: tuple[int, int] = (40, 30), **options: Any) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    Image.new(mode, size).save(path, **options)


def told(folder: Path, **settings: object) -> list[str]:
    return describe(make_config({**TINY, "data": str(folder), **settings}))


def test_every_kind_that_can_be_decoded_is_used(tmp_path: Path) -> None:
    for kind in ("jpg", "jpeg", "JFIF", "png", "webp", "bmp", "gif", "tif", "TIFF", "ppm", "pgm"):
        picture(tmp_path / f"a.{kind}", "L" if kind == "pgm" else "RGB")
    assert len(list_images(tmp_path).files) == 11


def test_linked_folders_are_followed_and_each_is_counted_once(tmp_path: Path) -> None:
    for number in range(3):
        picture(tmp_path / "elsewhere" / f"{number}.png")
    data = tmp_path / "data"
    picture(data / "own.png")
    (data / "linked").symlink_to(tmp_path / "elsewhere")
    (data / "linked again").symlink_to(tmp_path / "elsewhere")
    (data / "linked" / "back").symlink_to(data)
    listing = list_images(data)
    assert len(listing.files) == 4 and listing.files == sorted(listing.files)
    assert "4 images" in told(data)[0] and "linked folder(s) followed" in told(data)[0]


def test_what_is_left_out_is_counted(tmp_path: Path) -> None:
    picture(tmp_path / "a.png")
    for name in ("readme.txt", "b.txt", "more.zip", "._a.png", "LABELS"):
        (tmp_path / name).write_text("no image")
    (tmp_path / "gone.png").symlink_to(tmp_path / "nowhere.png")
    found, left_out, *_others = told(tmp_path)
    assert found == f"data: 1 images in {tmp_path} (1 png)"
    assert left_out.startswith("data: left out: 2 .txt, 1 ")
    for reason in ("1 .zip", "1 hidden file", "1 without a suffix", "1 broken link"):
        assert reason in left_out


@pytest.mark.parametrize(
    ("settings", "said"),
    [({}, True), ({"augment": "ada"}, False), ({"augment": "diff"}, False), ({"task": "flow"}, False)],
)
def test_few_images_are_told_with_what_helps(tmp_path: Path, settings: dict[str, Any], said: bool) -> None:
    picture(tmp_path / "a.png")
    lines = [line for line in told(tmp_path, **settings) if "augment=ada" in line]
    assert bool(lines) is said and all(line.startswith("data: 1 images are few") for line in lines)


@pytest.mark.parametrize(
    ("files", "settings", "end"),
    [
        (("dark/a", "light/a"), {}, "one kind; classes=2 learns them apart"),
        (("dark/new/a", "dark/b", "light/a"), {}, "one kind; classes=2 learns them apart"),
        (("dark/a", "light/a"), {"cache_dir": "cache"}, "one kind; classes=2, without cache_dir, learns them apart"),
        (("dark/a", "light/a"), {"task": "flow"}, "they are trained as one kind"),
        (("train/a", "Val/a"), {}, "they are trained as one kind"),
        (("dark/a", "light/a"), {"classes": 2}, ""),
        (("dark/a", "light/a", "loose"), {}, ""),
        (("dark/a", "dark/new/a"), {}, ""),
        (("a", "b"), {}, ""),
    ],
)
def test_folders_that_are_trained_as_one_kind_are_told(
    tmp_path: Path, files: tuple[str, ...], settings: dict[str, Any], end: str
) -> None:
    for name in files:
        picture(tmp_path / f"{name}.png")
    lines = [line for line in told(tmp_path, **settings) if "one kind" in line]
    assert len(lines) == bool(end) and all(line.endswith(end) for line in lines)
    assert all(line.startswith(f"data: 2 folders found in {tmp_path}; they are trained ") for line in lines)


def test_sizes_modes_and_what_is_done_to_them(tmp_path: Path) -> None:
    picture(tmp_path / "a.png", size=(300, 200))
    picture(tmp_path / "b.png", "RGBA", (20, 31))
    picture(tmp_path / "c.png", "I;16", (64, 64))
    exif = Image.Exif()
    exif[274] = 6
    picture(tmp_path / "d.jpg", size=(64, 64), exif=exif)
    frames = [Image.new("L", (50, 50), colour) for colour in (0, 255)]
    frames[0].save(tmp_path / "e.gif", save_all=True, append_images=frames[1:])
    (tmp_path / "f.png").write_bytes(b"broken")
    line = told(tmp_path)[-1]
    assert line.startswith("data: of 6 looked at: 20x31 to 300x200, short edge 64 in the middle; ")
    for part in (
        *("1 RGBA", "1 with transparency, laid on white", "1 of 16 bits, scaled to 8", "1 turned upright"),
        *("1 of several pictures, the first is used", "1 unreadable", "1 smaller than image_size 32, scaled up"),
    ):
        assert part in line, part


def test_made_up_pictures_say_so(tmp_path: Path) -> None:
    (line,) = describe(make_config(TINY))
    assert "synthetic" in line and "teach nothing" in line and "set data to a folder" in line


def test_data_that_is_not_there_is_told_before_anything_is_built(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="is not a folder"):
        told(tmp_path / "nothing")
    with pytest.raises(DataError, match="is not a file"):
        told(tmp_path / "nothing.tar")


def test_many_kinds_are_summed() -> None:
    from collections import Counter

    assert counted(Counter("aaaabbbccdef g")) == "4 a, 3 b, 2 c, 1 d, 1 e and 3 more kinds (3)"
