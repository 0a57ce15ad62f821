"""Images from folders, caches and shards: what is in a step, what is bad, and how it reaches the device."""

from __future__ import annotations

import io
import itertools
import mmap
import tarfile
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from PIL import Image

from gan_trainer.config import Config, make_config
from gan_trainer.data.batches import Batches
from gan_trainer.data.cache import CachedImages, cache_file, wait_for_cache, write_cache
from gan_trainer.data.images import DataError, FolderImages, SyntheticImages
from gan_trainer.data.loader import open_loader
from gan_trainer.data.prefetch import Prefetcher, in_background, normalise
from gan_trainer.data.workers import count_workers, cpus_near
from gan_trainer.parallel.distributed import ALONE, Ranks


def test_synthetic_images_are_a_function_of_seed_and_index() -> None:
    first, again, other = SyntheticImages(32, 8, 0), SyntheticImages(32, 8, 0), SyntheticImages(32, 8, 1)
    assert first[3].dtype == torch.uint8 and first[3].shape == (3, 32, 32)
    assert torch.equal(first[3], again[3])
    assert not torch.equal(first[3], first[4]) and not torch.equal(first[3], other[3])


def test_batches_cover_an_epoch_once_and_resume_in_its_middle() -> None:
    batches = list(Batches(images=10, batch_size=3, seed=5, start=0, end=9))
    for epoch in range(3):
        seen = [index for batch in batches[epoch * 3 : epoch * 3 + 3] for index in batch]
        assert len(set(seen)) == 9 and set(seen) < set(range(10))
    assert batches[:3] != batches[3:6]
    assert list(Batches(10, 3, 5, start=4, end=9)) == batches[4:]
    assert list(Batches(10, 3, 6, start=0, end=9)) != batches


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    sub = tmp_path / "images" / "deeper"
    sub.mkdir(parents=True)
    Image.new("RGB", (60, 40), (255, 0, 0)).save(sub / "a.png")
    Image.new("L", (40, 90), 128).save(sub / "b.JPG")
    Image.new("RGBA", (33, 33), (0, 0, 255, 128)).save(sub / "c.webp", lossless=True)
    Image.new("P", (8, 8)).save(sub / "d.png")
    (sub / "notes.txt").write_text("no image")
    return tmp_path / "images"


def test_folder_of_mixed_images(folder: Path) -> None:
    images: Any = FolderImages(str(folder), 32, max_bad=0)
    assert len(images) == 4
    assert all(images[index].shape == (3, 32, 32) and images[index].dtype == torch.uint8 for index in range(4))
    assert images[0].float().mean(dim=(1, 2)).tolist() == [255.0, 0.0, 0.0]


def test_unreadable_images_are_named_replaced_and_counted_once(folder: Path, capfd: pytest.CaptureFixture) -> None:
    whole = (folder / "deeper" / "b.JPG").read_bytes()
    (folder / "deeper" / "b.JPG").write_bytes(whole[: len(whole) // 2])
    (folder / "deeper" / "c.webp").write_bytes(b"")
    images: Any = FolderImages(str(folder), 32, max_bad=2)
    last = images[3]
    for _ in range(2):
        assert torch.equal(images[1], last)
    errors = capfd.readouterr().err
    assert errors.count("b.JPG: cannot be read as an image") == errors.count("c.webp: cannot be read as an image") == 1
    with pytest.raises(DataError, match="2 unreadable images, the last .*c.webp; allowed: 1"):
        FolderImages(str(folder), 32, max_bad=1)[1]


def test_folder_without_one_readable_image_ends(tmp_path: Path) -> None:
    (tmp_path / "a.png").write_bytes(b"")
    with pytest.raises(DataError, match="1 unreadable images"):
        FolderImages(str(tmp_path), 32, max_bad=10)[0]


@pytest.mark.parametrize(
    ("data", "message"), [("empty", "holds no file"), ("none", "is not a folder"), ("few", "more than the 4")]
)
def test_data_that_cannot_be_trained_on(data: str, message: str, folder: Path, tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    folder.rename(tmp_path / "few")
    config = make_config({"data": str(tmp_path / data), "batch_size": 8, "num_workers": 0, "image_size": 32})
    with pytest.raises(DataError, match=message), open_loader(config, 0, pin_memory=False):
        pass


def test_ranks_share_each_batch_of_the_one_process(folder: Path) -> None:
    whole = list(Batches(10, 4, 5, 0, 6))
    parts = [list(Batches(10, 4, 5, 0, 6, Ranks(rank=rank, world=2))) for rank in (0, 1)]
    assert [first + second for first, second in zip(*parts, strict=True)] == whole
    with pytest.raises(ValueError, match="batch_size: 4 cannot be shared by 3 processes"):
        list(Batches(10, 4, 5, 0, 6, Ranks(rank=0, world=3)))


def cached(folder: Path, cache: Path, max_bad: int = 0) -> CachedImages:
    return CachedImages(write_cache(FolderImages(str(folder), 32, max_bad), cache, max_bad, workers=0), 32)


class Told:
    """A mapping that writes down what it is advised of."""

    def __init__(self) -> None:
        self.ranges: list[tuple[int, int]] = []

    def madvise(self, advice: int, start: int, length: int) -> None:
        assert advice == mmap.MADV_WILLNEED and start % mmap.PAGESIZE == 0
        self.ranges.append((start, start + length))


def test_exactly_the_pages_of_a_batch_are_asked_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    size, count = 32, 20
    file = tmp_path / "cache"
    file.write_bytes(bytes(range(256)) * (3 * size * size * count // 256))
    cache = CachedImages(file, size)
    pages = Told()
    monkeypatch.setattr(cache, "pages", pages)
    # The first reads a block, the second waits for a page, the third finds all in memory, and so does the fourth.
    read = iter([(0, 0), (8, 0), (8, 0), (8, 1), (8, 1), (8, 1), (8, 1), (8, 1)])
    monkeypatch.setattr("gan_trainer.data.cache.pages_read", lambda: next(read))
    batch = cache.__getitems__([7, 0, 19])
    assert batch.shape == (3, 3, size, size) and cache[19].equal(batch[2])
    assert cache[5].equal(batch[0]) and cache[5].equal(batch[0])
    each = 3 * size * size
    wanted = [(index * each, (index + 1) * each) for index in (7, 0, 19, 19, 5)]
    for (start, end), (first, last) in zip(pages.ranges, wanted, strict=True):
        assert first - mmap.PAGESIZE < start <= first and end == last


def test_cache_holds_what_the_folder_decodes_to(folder: Path, tmp_path: Path) -> None:
    images: Any = FolderImages(str(folder), 32, 0)
    cache = cached(folder, tmp_path / "cache")
    assert len(cache) == len(images) == 4
    assert all(torch.equal(cache[index], images[index]) for index in range(4))
    batch = cache.__getitems__([3, 1])
    assert batch.dtype == torch.uint8 and torch.equal(batch, torch.stack([images[3], images[1]]))
    batch.zero_()
    assert torch.equal(cache[3], images[3]), "a batch is a copy"


def test_cache_is_made_once_and_anew_for_a_changed_folder(
    folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture
) -> None:
    first = cached(folder, tmp_path / "cache").file
    assert "decoding 4 images" in capsys.readouterr().out
    assert cached(folder, tmp_path / "cache").file == first and capsys.readouterr().out == ""
    Image.new("RGB", (9, 9)).save(folder / "e.png")
    assert len(cached(folder, tmp_path / "cache")) == 5
    assert sorted(path.suffix for path in (tmp_path / "cache").iterdir()) == [".u8", ".u8"]


def test_cache_names_unreadable_images_leaves_them_out_and_gives_up_above_the_limit(
    folder: Path, tmp_path: Path, capfd: pytest.CaptureFixture
) -> None:
    (folder / "deeper" / "c.webp").write_bytes(b"")
    with pytest.raises(DataError, match="1 unreadable images, the last .*c.webp; allowed: 0"):
        cached(folder, tmp_path / "cache")
    assert list((tmp_path / "cache").iterdir()) == []
    assert len(cached(folder, tmp_path / "cache", max_bad=1)) == 3
    assert "c.webp: cannot be read as an image" in capfd.readouterr().err


def test_other_ranks_wait_for_the_cache_as_long_as_it_grows(folder: Path, tmp_path: Path) -> None:
    source, cache = FolderImages(str(folder), 32, max_bad=0), tmp_path / "cache"
    cache.mkdir()
    file = cache_file(source, cache)
    part = file.with_suffix(".123.tmp")

    def write() -> None:
        for _ in range(6):
            with part.open("ab") as out:
                out.write(b"x" * 100)
            time.sleep(0.3)
        part.replace(file)

    writer = threading.Thread(target=write)
    writer.start()
    wait_for_cache(source, cache, silent_seconds=10.0)
    assert file.exists()
    writer.join()


def test_writer_that_died_is_told(folder: Path, tmp_path: Path) -> None:
    source = FolderImages(str(folder), 32, max_bad=0)
    with pytest.raises(DataError, match="has not grown for 1 s"):
        wait_for_cache(source, tmp_path, silent_seconds=1.0)


def test_damaged_cache_says_what_to_do(folder: Path, tmp_path: Path) -> None:
    file = cached(folder, tmp_path / "cache").file
    file.write_bytes(file.read_bytes()[:-1])
    with pytest.raises(DataError, match="is damaged; remove it"):
        cached(folder, tmp_path / "cache")


@pytest.mark.parametrize("workers", [0, 2])
def test_cached_loader_gives_the_batches_of_the_folder(folder: Path, tmp_path: Path, workers: int) -> None:
    base = {"data": str(folder), "image_size": 32, "batch_size": 2, "steps": 4, "num_workers": workers}
    found = []
    for cache_dir in ("", str(tmp_path / "cache")):
        with open_loader(make_config({**base, "cache_dir": cache_dir}), 1, pin_memory=False) as loader:
            found.append(list(loader))
    assert len(found[0]) == 3 and all(torch.equal(*pair) for pair in zip(*found, strict=True))


def encode(colour: tuple[int, int, int], kind: str = "PNG") -> bytes:
    file = io.BytesIO()
    Image.new("RGB", (40, 32), colour).save(file, kind)
    return file.getvalue()


def write_shards(folder: Path, shards: int, images: int, damage: tuple = ()) -> str:
    """Shard s holds images of red s and green 0 to `images` - 1, each with a label; returns the pattern."""
    folder.mkdir(exist_ok=True)
    for shard in range(shards):
        with tarfile.open(folder / f"set-{shard:03}.tar", "w") as tar:
            for number in range(images):
                content = b"no image" if (shard, number) in damage else encode((shard, number, 0))
                for suffix, data in (("png", content), ("cls", b"1")):
                    info = tarfile.TarInfo(f"{shard:03}-{number:03}.{suffix}")
                    info.size = len(data)
                    tar.addfile(info, io.BytesIO(data))
    return str(folder / f"set-{{000..{shards - 1:03}}}.tar")


def shard_config(pattern: str, **changes: object) -> Config:
    base = {"data": pattern, "image_size": 32, "batch_size": 4, "num_workers": 0, "max_bad_images": 0, "steps": 30}
    return make_config({**base, **changes})


def colours(config: Config, start: int, count: int, ranks: Ranks = ALONE) -> list[list[tuple[int, int]]]:
    """(shard, number) of each image of `count` batches."""
    with open_loader(config, start, pin_memory=False, ranks=ranks) as loader:
        return [[tuple(image[:2, 0, 0].tolist()) for image in batch] for batch in itertools.islice(loader, count)]


def test_shards_give_every_image_once_in_an_epoch_in_a_new_order_each(tmp_path: Path) -> None:
    config = shard_config(write_shards(tmp_path / "s", 4, 6))
    batches = colours(config, 0, 12)
    first, second = sum(batches[:6], []), sum(batches[6:], [])
    everything = {(shard, number) for shard in range(4) for number in range(6)}
    assert set(first) == set(second) == everything and len(first) == 24 and first != second
    assert colours(config, 0, 12) == batches
    assert colours(shard_config(config.data, seed=1), 0, 6) != batches[:6]


@pytest.mark.parametrize("workers", [0, 1, 3])
@pytest.mark.parametrize("start", [1, 5, 7])
def test_resumed_shards_go_on_where_they_stopped(tmp_path: Path, workers: int, start: int) -> None:
    config = shard_config(write_shards(tmp_path / "s", 4, 6), num_workers=workers)
    assert colours(config, start, 10 - start) == colours(config, 0, 10)[start:]


def test_ranks_read_different_shards(tmp_path: Path) -> None:
    config = shard_config(write_shards(tmp_path / "s", 4, 6))
    both = [sum(colours(config, 0, 6, Ranks(rank=rank, world=2)), []) for rank in (0, 1)]
    assert not set(both[0]) & set(both[1]) and len(set(both[0] + both[1])) == 24


def test_unreadable_image_in_a_shard_is_named_replaced_and_counted(
    tmp_path: Path, capfd: pytest.CaptureFixture
) -> None:
    pattern = write_shards(tmp_path / "s", 2, 6, damage=((1, 3),))
    batches = colours(shard_config(pattern, max_bad_images=1), 0, 3)
    assert sum(len(batch) for batch in batches) == 12 and (1, 3) not in sum(batches, [])
    assert "set-001.tar: 001-003.png: cannot be read as an image" in capfd.readouterr().err
    with pytest.raises(DataError, match="1 unreadable images, the last .*001-003.png; allowed: 0"):
        colours(shard_config(pattern), 0, 3)


def test_cut_off_shard_is_a_bad_image_and_a_limit(tmp_path: Path) -> None:
    pattern = write_shards(tmp_path / "s", 2, 6)
    shard = tmp_path / "s" / "set-001.tar"
    shard.write_bytes(shard.read_bytes()[:3000])
    with pytest.raises(DataError, match="1 unreadable images"):
        colours(shard_config(pattern), 0, 6)


@pytest.mark.parametrize(
    ("damage", "ranks", "message"),
    [
        ("missing", Ranks(), "set-001.tar is not a file .1 of 2 shards are missing"),
        ("", Ranks(rank=0, world=4), "2 shards cannot feed 4 processes"),
        ("labels alone", Ranks(), "no image ending in .jpg, .* can be read"),
    ],
)
def test_shards_that_cannot_be_trained_on(tmp_path: Path, damage: str, ranks: Ranks, message: str) -> None:
    pattern = write_shards(tmp_path / "s", 2, 0 if damage == "labels alone" else 3)
    if damage == "missing":
        (tmp_path / "s" / "set-001.tar").unlink()
    with pytest.raises(DataError, match=message):
        colours(shard_config(pattern), 0, 1, ranks)


def test_normalised_images_span_minus_one_to_one() -> None:
    images = torch.tensor([0, 51, 255], dtype=torch.uint8).reshape(1, 3, 1, 1)
    assert normalise(images, torch.device("cpu")).flatten().tolist() == pytest.approx([-1.0, -0.6, 1.0])


def test_prefetcher_keeps_order_and_measures_the_wait() -> None:
    def slow() -> Iterator[torch.Tensor]:
        for number in range(3):
            time.sleep(0.02)
            yield torch.full((1, 3, 2, 2), number, dtype=torch.uint8)

    batches = Prefetcher(slow(), torch.device("cpu"), torch.contiguous_format, ahead=True)
    seen = [round((float(batch.mean()) + 1) * 127.5) for batch in batches]
    assert seen == [0, 1, 2] and 0.06 <= batches.waited < 0.5


def test_background_thread_works_ahead_and_hands_on_errors() -> None:
    taken = []

    def items() -> Iterator[int]:
        for number in range(5):
            taken.append(number)
            yield number
        raise DataError("data: gone")

    background = in_background(items(), depth=2)
    assert next(background) == 0
    deadline = time.monotonic() + 300
    while len(taken) < 3 and time.monotonic() < deadline:
        time.sleep(0.01)
    assert len(taken) >= 3, "nothing was prepared while the caller was busy"
    assert [next(background) for _ in range(4)] == [1, 2, 3, 4]
    with pytest.raises(DataError, match="gone"):
        next(background)


def test_background_thread_ends_with_its_caller() -> None:
    background: Any = in_background(iter(range(10**9)), depth=2)
    assert next(background) == 0
    background.close()
    import threading

    assert "prefetch" not in {thread.name for thread in threading.enumerate()}


@pytest.mark.parametrize(
    ("cpus", "processes", "workers"),
    [(1, 1, 0), (2, 1, 1), (16, 1, 15), (16, 4, 3), (20, 8, 1), (4, 8, 0), (256, 2, 16)],
)
def test_workers_follow_the_cpus_next_to_the_gpu(cpus: int, processes: int, workers: int) -> None:
    assert count_workers(cpus, processes) == workers


def test_cpus_of_a_numa_node_are_read_from_the_kernel(tmp_path: Path) -> None:
    device = tmp_path / "0000:3b:00.0"
    device.mkdir()
    (device / "local_cpulist").write_text("0-2,8,10-11\n")
    assert cpus_near("0000:3b:00.0", tmp_path) == {0, 1, 2, 8, 10, 11}
    from gan_trainer import CPUS_AT_START

    assert cpus_near("0000:5e:00.0", tmp_path) == cpus_near("", tmp_path) == set(CPUS_AT_START)
