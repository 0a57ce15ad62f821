"""The nvidia module in an initramfs: found in every packing, absent, unreadable, and bounded."""

from __future__ import annotations

import gzip
import lzma
import os
import random
import shutil
import subprocess
import time
from pathlib import Path

import pytest
from gpuwright.checks.driver import initramfs
from gpuwright.checks.driver.initramfs import read_initramfs
from host_tree import RUNNING, HostTree
from initramfs_images import MICROCODE, SMALL, image, member, module, pack, packed_files

PLACE = f"usr/lib/modules/{RUNNING}/extra/nvidia.ko"
KINDS = ["plain", "gzip", "xz", "bzip2"] + [name for name in ("zstd", "lz4") if shutil.which(name)]


@pytest.fixture
def host(tmp_path):
    return HostTree(tmp_path)


def read(host: HostTree, data: bytes, path: str = f"/boot/initramfs-{RUNNING}.img") -> dict:
    host.put(path, data)
    found = read_initramfs(host.root, RUNNING)
    assert found is not None
    return found


@pytest.mark.parametrize("early", [True, False])
@pytest.mark.parametrize("kind", KINDS)
def test_the_module_is_found_in_every_packing(host, kind, early):
    found = read(host, image({PLACE: module("535.261.03")}, kind, early))
    assert found == {"image": f"/boot/initramfs-{RUNNING}.img", "version": "535.261.03"}


@pytest.mark.parametrize(
    ("name", "packed"),
    [
        (PLACE, module("580.95.05")),
        (PLACE + ".xz", lzma.compress(module("580.95.05"))),
        (PLACE + ".gz", gzip.compress(module("580.95.05"))),
        (f"lib/modules/{RUNNING}/updates/dkms/nvidia-current.ko", module("580.95.05")),
        (f"lib/modules/{RUNNING}/updates/dkms/nvidia-current-open.ko", module("580.95.05")),
    ],
)
def test_a_module_file_may_be_packed_itself(host, name, packed):
    assert read(host, image({name: packed}))["version"] == "580.95.05"


@pytest.mark.skipif(not shutil.which("zstd"), reason="needs zstd, as such an image does")
def test_a_module_packed_by_zstd(host):
    data = image({PLACE + ".zst": pack(module("580.95.05"), "zstd")}, "zstd")
    assert read(host, data, f"/boot/initrd.img-{RUNNING}")["version"] == "580.95.05"


@pytest.mark.parametrize("kind", KINDS)
def test_an_image_without_the_module(host, kind):
    others = {f"usr/lib/modules/{RUNNING}/extra/nvidia-uvm.ko": module("1.2"), "usr/bin/nvidia.ko.txt": b"x" * 600}
    assert read(host, image(others, kind)) == {"image": f"/boot/initramfs-{RUNNING}.img", "version": None}


def test_without_an_image_there_is_nothing_to_read(host):
    assert read_initramfs(host.root, RUNNING) is None


def test_a_link_to_the_module_is_not_the_module(host):
    link = member("etc/nvidia.ko", b"../extra/nvidia.ko").replace(b"%08X" % 0o100644, b"%08X" % 0o120777, 1)
    assert read(host, gzip.compress(link + packed_files({"a/nvidia.ko": b"", PLACE: module("580.95.05")})))["version"]


WHOLE = image({PLACE: module("580.95.05")}, "plain", early=False)


@pytest.mark.parametrize(
    ("data", "words"),
    [
        (b"", "it is empty"),
        (bytes(5000), "it is empty"),
        (b"not an image at all", "unknown format"),
        (MICROCODE + b"\x99\x99\x99\x99", "unknown format"),
        (WHOLE[:-6000], "ends in the middle"),
        (image({}, "gzip")[:-2000], "ends in the middle"),
        (image({}, "xz")[:-200], "ends in the middle"),
        (b"\x1f\x8b" + b"x" * 500, "cannot be read"),
        (packed_files(SMALL)[:200] + b"x" * 4000, "cannot be read"),
        (image({PLACE: b"\x7fELF" + bytes(4000)}), "has no version"),
        (image({PLACE + ".xz": b"\xfd7zXZ\0" + b"z" * 4000}), "cannot be read"),
    ],
)
def test_a_damaged_image_is_unreadable_and_not_free_of_the_module(host, data, words):
    with pytest.raises(ValueError, match=words):
        read(host, data)


def test_time_and_size_are_bounded(host, monkeypatch):
    host.put(f"/boot/initramfs-{RUNNING}.img", image({"zeros": bytes(40_000_000)}))
    with pytest.raises(ValueError, match="not read to its end"):
        read_initramfs(host.root, RUNNING, seconds=-1)
    monkeypatch.setattr(initramfs, "MOST_BYTES", 10_000_000)
    with pytest.raises(ValueError, match="not read to its end"):
        read_initramfs(host.root, RUNNING)


def test_a_program_that_is_missing_is_named(host, monkeypatch):
    monkeypatch.setattr(initramfs, "find_program", lambda name: None)
    with pytest.raises(ValueError, match="compressed with zstd, which is not installed"):
        read(host, MICROCODE + b"\x28\xb5\x2f\xfd" + bytes(100))


@pytest.mark.skipif(not shutil.which("cpio"), reason="needs cpio")
def test_an_archive_of_the_real_cpio(host, tmp_path):
    folder = tmp_path / "files"
    (folder / "lib/modules").mkdir(parents=True)
    (folder / "lib/modules/nvidia.ko").write_bytes(module("570.172.08"))
    (folder / "init").symlink_to("usr/lib/systemd/systemd")
    names = "\n".join(str(path.relative_to(folder)) for path in sorted(folder.rglob("*")))
    made = subprocess.run(["cpio", "-o", "-H", "newc"], cwd=folder, input=names.encode(), capture_output=True)
    assert read(host, gzip.compress(made.stdout))["version"] == "570.172.08"


@pytest.mark.skipif(not sorted(Path("/boot").glob("initrd.img-*")), reason="this machine boots without one")
def test_an_image_of_this_machine_can_be_read():
    kernel = sorted(Path("/boot").glob("initrd.img-*"))[-1].name.partition("-")[2]
    found = read_initramfs("/", kernel)
    assert found is not None and str(found["image"]).endswith(kernel)


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give its rights away")
def test_an_ordinary_user_is_told_that_root_reads_it(host):
    host.put(f"/boot/initramfs-{RUNNING}.img", WHOLE)
    (host.folder / f"boot/initramfs-{RUNNING}.img").chmod(0o600)
    for parent in [host.folder, *host.folder.parents]:
        parent.chmod(parent.stat().st_mode | 0o055)
    os.seteuid(65534)
    try:
        with pytest.raises(PermissionError, match="root only"):
            read_initramfs(host.root, RUNNING)
    finally:
        os.seteuid(0)


def test_a_large_image_takes_seconds(host):
    chance, begin = random.Random(1), time.monotonic()
    read(host, image({f"firmware/{number}.bin": chance.randbytes(1_000_000) for number in range(60)}))
    # Alone it is 1 s; a reader that is quadratic in the size would take minutes, on any machine.
    assert time.monotonic() - begin < 60
