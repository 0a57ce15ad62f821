"""A container image in a bundle: told before it is copied, kept once, and refused if nobody could load it."""

from __future__ import annotations

import io
import tarfile
from pathlib import Path

import pytest
from ansible_collections.gpuwright.node.plugins.plugin_utils.bundle import images, making
from ansible_collections.gpuwright.node.plugins.plugin_utils.bundle.listing import BundleError

MIB = 1024**2


def image(path: Path, *names: str) -> Path:
    """An archive with a layer of 2 MiB and these files."""
    with tarfile.open(path, "w") as archive:
        for name in ("layer.tar", *names):
            member = tarfile.TarInfo(name)
            member.size = 2 * MIB
            archive.addfile(member, io.BytesIO(bytes(member.size)))
    return path


@pytest.mark.parametrize("mark", images.MARKS)
def test_an_image_is_copied_once(tmp_path: Path, mark: str) -> None:
    places, said = making.Places(tmp_path / "bundle"), list[str]()
    file = image(tmp_path / "gan-trainer-0.1.0.tar", mark)
    for dry in (True, False, False):
        assert images.carried_image(places, str(file), said.append, dry) == {"images/gan-trainer-0.1.0.tar"}
        assert places.bundle.exists() is not dry
    assert said == ["container image: gan-trainer-0.1.0.tar, 4 MiB to copy"] * 2
    assert (places.bundle / "images/gan-trainer-0.1.0.tar").read_bytes() == file.read_bytes()
    assert not list(places.parts.iterdir())
    image(file, mark, "another layer")
    images.carried_image(places, str(file), said.append, False)
    assert (places.bundle / "images/gan-trainer-0.1.0.tar").read_bytes() == file.read_bytes()
    assert images.carried_image(places, "", said.append, False) == set()


def missing(_path: Path) -> None:
    pass


def other(path: Path) -> None:
    image(path)


def half(path: Path) -> None:
    image(path, "manifest.json")
    with path.open("r+b") as file:
        file.truncate(3 * MIB)


def compressed(path: Path) -> None:
    with tarfile.open(path, "w:gz") as archive:
        archive.addfile(tarfile.TarInfo("manifest.json"))


@pytest.mark.parametrize("made", [missing, other, half, compressed], ids=lambda made: made.__name__)
def test_what_cannot_be_loaded_is_named(tmp_path: Path, made) -> None:
    made(tmp_path / "image.tar")
    places = making.Places(tmp_path / "bundle")
    with pytest.raises(BundleError, match=r"image.tar: .*podman save.*\[bundle.image\]"):
        images.carried_image(places, str(tmp_path / "image.tar"), print, False)
    assert not places.bundle.exists()


def test_a_name_that_no_bundle_has_is_refused(tmp_path: Path) -> None:
    with pytest.raises(BundleError, match=r"letters, digits.*\[bundle.image\]"):
        images.check_image(image(tmp_path / "my image.tar", "manifest.json"))
