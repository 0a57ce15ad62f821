"""Tar shards by their own reader: the same samples in the same order as WebDataset's, and no silent damage."""

from __future__ import annotations

import gzip
import io
import itertools
import os
import random
import tarfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import webdataset
from PIL import Image

from gan_trainer.config import make_config
from gan_trainer.data import tar_samples
from gan_trainer.data.images import BadImages, DataError
from gan_trainer.data.loader import open_loader
from gan_trainer.data.shards import SHUFFLE_BUFFER
from gan_trainer.data.tar_headers import BLOCK, DamagedTar, Member, UnusualTar, members
from gan_trainer.data.tar_samples import TarSamples

FORMATS = {"ustar": tarfile.USTAR_FORMAT, "gnu": tarfile.GNU_FORMAT, "pax": tarfile.PAX_FORMAT}
LONG = "a/" * 60 + "picture " + "n" * 90 + ".jpg"
# ustar splits a name at a slash, and has no more than 100 bytes behind it.
MEDIUM = "folder/" * 15 + "picture.jpg"
FOREIGN = "Bäume/été.png"


def put(tar: tarfile.TarFile, name: str, data: bytes = b"", **fields: Any) -> None:
    info = tarfile.TarInfo(name)
    info.size = len(data)
    for field, value in fields.items():
        setattr(info, field, value)
    tar.addfile(info, io.BytesIO(data))


def archive(path: Path, form: str = "pax", names: tuple[str, ...] = (), **fields: Any) -> Path:
    """Each file holds its own name, and some bytes more, so that contents end anywhere in a block."""
    with tarfile.open(path, "w", format=FORMATS[form]) as tar:
        put(tar, "folder", type=tarfile.DIRTYPE)
        for number, name in enumerate(names):
            put(tar, name, name.encode() + b"x" * (number * 131), **fields)
        put(tar, "link.jpg", type=tarfile.SYMTYPE, linkname="l" * 150 if form != "ustar" else "l")
    return path


def read(path: Path) -> list[Member]:
    with path.open("rb") as file:
        return list(members(file.fileno(), path.stat().st_size))


def by_tarfile(path: Path) -> list[Member]:
    with tarfile.open(path) as tar:
        return [Member(info.name, info.offset_data, info.size) for info in tar if info.isreg()]


@pytest.mark.parametrize("form", FORMATS)
@pytest.mark.parametrize("mtime", [0, 1700000000.25])
def test_members_lie_where_tarfile_finds_them(tmp_path: Path, form: str, mtime: float) -> None:
    """A date with a fraction makes Python write a pax header for each file."""
    names = ("a.jpg", MEDIUM, FOREIGN, "__index__", "b.cls", *((LONG,) if form != "ustar" else ()))
    path = archive(tmp_path / "a.tar", form, names, mtime=mtime)
    found = read(path)
    assert found == by_tarfile(path) and [member.name for member in found] == list(names)
    content = path.read_bytes()
    for name, start, _ in found:
        assert content[start:].startswith(name.encode())


def test_headers_of_other_programs(tmp_path: Path) -> None:
    """Signed checksums, sizes in binary, no magic number, a folder written as a file, and a note to all files."""
    path = tmp_path / "a.tar"
    with tarfile.open(path, "w", format=tarfile.PAX_FORMAT, pax_headers={"comment": "made by hand"}) as tar:
        put(tar, "é.jpg", b"1234", mode=0o644)
        put(tar, "b.jpg", b"567")
    data = bytearray(path.read_bytes())
    heads = [place - BLOCK for _, place, _ in by_tarfile(path)]
    for head, signed in zip(heads, (True, False), strict=True):
        data[head + 124 : head + 136] = (0x80 << 88 | (4 if signed else 3)).to_bytes(12, "big")
        data[head + 257 : head + 265] = bytes(8)
        data[head + 148 : head + 156] = b" " * 8
        block = data[head : head + BLOCK]
        total = sum(byte - 256 * (signed and byte > 127) for byte in block)
        data[head + 148 : head + 156] = b"%06o\0 " % total
    path.write_bytes(data)
    assert read(path) == by_tarfile(path) and [member.length for member in read(path)] == [4, 3]


def test_a_folder_from_before_posix_has_no_content(tmp_path: Path) -> None:
    path = tmp_path / "a.tar"
    with tarfile.open(path, "w", format=tarfile.USTAR_FORMAT) as tar:
        put(tar, "folder/", type=tarfile.AREGTYPE)
        put(tar, "folder/a.jpg", b"12")
    assert [member.name for member in read(path)] == ["folder/a.jpg"]


def test_an_archive_without_the_mark_of_its_end_is_used_and_told(tmp_path: Path, capfd: pytest.CaptureFixture) -> None:
    """It may have been cut exactly there; GNU tar and tarfile say nothing."""
    path = archive(tmp_path / "a.tar", "ustar", ("a.jpg", "b.jpg"))
    with tarfile.open(path) as tar:
        end = max(info.offset_data + (info.size + 511) // 512 * 512 for info in tar)
    path.write_bytes(path.read_bytes()[:end])
    samples = TarSamples(BadImages(0))
    for _ in range(2):
        assert len([sample for sample in samples.of_all([str(path)]) if sample]) == 2
    told = f"train-gan: {path}: the archive ends at byte {end} without the mark of its end; its 2 samples are used"
    assert capfd.readouterr().err.count(told) == 1


NAMES = ("a.jpg", "b.jpg", "c.jpg")


def damaged(tmp_path: Path, kind: str) -> Path:
    path = archive(tmp_path / "a.tar", "ustar" if kind == "changed bit" else "pax", NAMES, mtime=0.5)
    data, (_, second, third) = bytearray(path.read_bytes()), (member.start for member in by_tarfile(path))
    if kind == "changed bit":
        data[third - BLOCK + 3] ^= 1
    if kind == "no number":
        data[third - BLOCK + 124] = ord("x")
        data[third - BLOCK + 148 : third - BLOCK + 156] = b" " * 8
        data[third - BLOCK + 148 : third - BLOCK + 156] = b"%06o\0 " % sum(data[third - BLOCK : third])
    if kind == "pax record":
        data[third - 2 * BLOCK : third - 2 * BLOCK + 2] = b"99"
    cut = {"in a header": third - 100, "in a content": second + 20, "in the padding": second + 200, "empty": 0}
    path.write_bytes(data[: cut.get(kind, len(data))])
    return path


@pytest.mark.parametrize(
    ("kind", "told", "whole"),
    [
        ("changed bit", r"no tar header at byte \d+; what follows is lost", 2),
        ("no number", r"the header at byte \d+ has no number as its size", 2),
        ("pax record", r"the pax header at byte \d+ is damaged", 2),
        ("in a header", r"the archive is cut off at byte \d+, inside a header", 2),
        ("in the padding", r"the archive is cut off at byte \d+, inside its last block", 2),
        ("in a content", r"the archive is cut off at byte \d+, inside b.jpg", 1),
        ("empty", "the archive is empty", 0),
    ],
)
def test_damage_is_told_after_the_members_before_it(tmp_path: Path, kind: str, told: str, whole: int) -> None:
    path, found = damaged(tmp_path, kind), list[str]()
    if kind == "changed bit":
        assert len(by_tarfile(path)) == whole, "tarfile takes it for the end of the archive, and says nothing"
    with path.open("rb") as file, pytest.raises(DamagedTar, match=told):
        for member in members(file.fileno(), path.stat().st_size):
            found.append(member.name)
    assert found == list(NAMES[:whole])


def test_a_damaged_header_counts_as_a_bad_image(tmp_path: Path, capfd: pytest.CaptureFixture) -> None:
    path = damaged(tmp_path, "changed bit")
    samples = TarSamples(BadImages(1))
    for _ in range(2):
        assert [sample[0] for sample in samples.of_all([str(path)]) if sample] == [f"{path}: a.jpg", f"{path}: b.jpg"]
    said = capfd.readouterr().err
    assert said.count("no tar header at byte") == 1 and said.endswith("; copy it again, or pack it anew\n")
    with pytest.raises(DataError, match="1 unreadable images, the last .*a.tar; allowed: 0"):
        list(TarSamples(BadImages(0)).of_all([str(path)]))


def compress(path: Path) -> None:
    path.write_bytes(gzip.compress(path.read_bytes()))


def add_volume(path: Path) -> None:
    with tarfile.open(path, "a", format=tarfile.GNU_FORMAT) as tar:
        put(tar, "second volume", type=b"M")
        put(tar, "d.jpg", b"d.jpg")


def add_sparse(path: Path) -> None:
    with tarfile.open(path, "a", format=tarfile.PAX_FORMAT) as tar:
        # Of five bytes, all five are there.
        put(tar, "d.jpg", b"d.jpg", pax_headers={"GNU.sparse.size": "5", "GNU.sparse.map": "0,5"})


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        (compress, "may be compressed"),
        (add_volume, "a member of type b'M'"),
        (add_sparse, "pax header with GNU.sparse"),
    ],
)
def test_what_is_rare_is_left_to_tarfile_and_that_is_said_once(
    tmp_path: Path, capfd: pytest.CaptureFixture, change: Any, reason: str
) -> None:
    path = archive(tmp_path / "a.tar", "gnu", NAMES)
    change(path)
    with path.open("rb") as file, pytest.raises(UnusualTar, match=reason):
        list(members(file.fileno(), path.stat().st_size))
    samples = TarSamples(BadImages(0))
    for _ in range(2):
        found = [sample[1].rstrip(b"x").decode() for sample in samples.of_all([str(path)]) if sample]
        assert found == [*NAMES, *(["d.jpg"] if change != compress else [])]
    said = capfd.readouterr().err
    assert said.count("Python's tarfile reads it") == 1 and str(path) in said


def reference(shards: list[str], seed: str) -> Iterator[tuple[str, bytes]]:
    """WebDataset's own pipeline, as its documentation has it."""
    pipeline = webdataset.DataPipeline(
        webdataset.SimpleShardList(shards),
        webdataset.tarfile_to_samples(),
        webdataset.shuffle(SHUFFLE_BUFFER, rng=random.Random(seed)),
    )
    for sample in pipeline:
        if "jpg" in sample:
            yield f"{sample['__url__']}: {sample['__key__']}.jpg", sample["jpg"]


@pytest.mark.parametrize("form", FORMATS)
def test_samples_and_their_order_are_those_of_webdataset(tmp_path: Path, form: str) -> None:
    """Of a set larger than the buffer, with labels, samples without an image, notes and names that are no sample's."""
    shards = []
    for shard in range(3):
        names = []
        for number in range(250):
            key = f"{shard}/{number:04}"
            names += [f"{key}.cls", f"{key}.JPG" if number % 5 == 1 else f"{key}.jpg", f"{key}.seg.png"]
            names += [f"{key}-alone.txt"] if number % 7 == 3 else []
        names[10:10] = ["__index__", "README", "__notes__/a.jpg"]
        shards.append(str(archive(tmp_path / f"{shard}.tar", form, tuple(names))))
    samples = TarSamples(BadImages(0))
    # Walked through, and from the places that were kept.
    for seed in ("0", "1"):
        mixed = webdataset.shuffle(SHUFFLE_BUFFER, rng=random.Random(seed))(samples.of_all(shards))
        found = [sample for sample in mixed if sample]
        lower = [(name.replace(".JPG", ".jpg"), data) for name, data in found]
        assert len(found) == 750 and lower == list(reference(shards, seed))


def test_a_file_that_is_there_twice_is_named_and_the_first_is_used(
    tmp_path: Path, capfd: pytest.CaptureFixture
) -> None:
    path = archive(tmp_path / "a.tar", "ustar", ("a.jpg", "a.jpg", "b.jpg"))
    found = [sample for sample in TarSamples(BadImages(1)).of_all([str(path)]) if sample]
    assert [data for _, data in found] == [b"a.jpg", b"b.jpg" + b"x" * 262]
    assert "a.tar: a.jpg: cannot be read as an image: its sample has such a file already" in capfd.readouterr().err


class Reads:
    """Counts how often a file is read, and how many bytes at least."""

    def __init__(self) -> None:
        self.pread, self.lengths = os.pread, list[int]()

    def __call__(self, file: int, length: int, place: int) -> bytes:
        self.lengths.append(length)
        return self.pread(file, length, place)


def test_headers_are_read_once_and_anew_after_a_change(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path, reads = archive(tmp_path / "a.tar", "pax", NAMES, mtime=0.5), Reads()
    monkeypatch.setattr(os, "pread", reads)
    samples = TarSamples(BadImages(0))
    first = list(samples.of_all([str(path)]))
    assert len(reads.lengths) > 2 * len(NAMES)
    reads.lengths.clear()
    assert list(samples.of_all([str(path)])) == first and len(reads.lengths) == len(NAMES)
    archive(path, "pax", ("d.jpg",))
    assert [sample[0] for sample in samples.of_all([str(path)]) if sample] == [f"{path}: d.jpg"]


def test_places_of_very_many_images_are_not_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tar_samples, "KEPT", 4)
    shards = [str(archive(tmp_path / f"{number}.tar", "pax", NAMES)) for number in range(2)]
    samples = TarSamples(BadImages(0))
    assert list(samples.of_all(shards)) == list(samples.of_all(shards)) and list(samples.places) == shards[:1]


def test_an_archive_that_is_cut_off_while_it_is_used(tmp_path: Path, capfd: pytest.CaptureFixture) -> None:
    path = archive(tmp_path / "a.tar", "ustar", NAMES)
    samples = TarSamples(BadImages(1)).of_all([str(path)])
    assert next(samples) is not None
    os.truncate(path, 2000)
    assert list(samples) == [] and "was cut off inside b.jpg while it was read" in capfd.readouterr().err


def test_pictures_of_shards_are_those_of_the_folder(tmp_path: Path) -> None:
    folder = tmp_path / "folder"
    folder.mkdir()
    for number in range(8):
        Image.effect_noise((90, 70 + number), 60).convert("RGB").save(folder / f"{number}.jpg")
    with tarfile.open(tmp_path / "a.tar", "w") as tar:
        for file in sorted(folder.iterdir()):
            tar.add(file, file.name)
    found = []
    for data in (folder, tmp_path / "a.tar"):
        config = make_config(
            {"data": str(data), "image_size": 32, "batch_size": 4, "num_workers": 0, "steps": 2, "max_bad_images": 0}
        )
        with open_loader(config, 0, pin_memory=False) as loader:
            found.append({image.numpy().tobytes() for batch in itertools.islice(loader, 2) for image in batch})
    assert found[0] == found[1] and len(found[0]) == 8
