"""A node's copy of a bundle is held to the list: nothing unsigned gets into place, nothing else stays there."""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import Any

import pytest
from ansible_collections.gpuwright.node.plugins.module_utils.packages import bundle_files

CONTENT = {
    "targets/x/repodata/repomd.xml": b"<repomd/>",
    "targets/x/Packages/a.rpm": b"a" * 10,
    "wheels/b.whl": b"b" * 20,
}
FILES: dict[str, dict[str, Any]] = {
    path: {"size": len(data), "sha256": hashlib.sha256(data).hexdigest()} for path, data in CONTENT.items()
}


def arrive(folder: Path, **other: bytes) -> dict[str, str]:
    folder.mkdir(exist_ok=True)
    found = {}
    for number, path in enumerate(CONTENT):
        place = folder / str(number)
        place.write_bytes(other.get(Path(path).name.split(".")[0], CONTENT[path]))
        found[path] = str(place)
    return found


def test_a_copy_is_complete_and_what_dnf_reads_first_comes_last(tmp_path: Path) -> None:
    dest = str(tmp_path / "dest")
    state = bundle_files.state_of(dest, FILES)
    assert state["missing"][-1].endswith("repomd.xml") and state["bytes"] == sum(len(data) for data in CONTENT.values())
    assert bundle_files.take(dest, FILES, arrive(tmp_path / "in")) == []
    assert bundle_files.missing(dest, FILES) == [] and bundle_files.extras(dest, FILES) == []
    assert not list((tmp_path / "in").iterdir())
    modes = {path.stat().st_mode & 0o777 for path in (tmp_path / "dest").rglob("*")}
    assert modes == {0o644, 0o755}


def test_what_was_altered_on_the_way_is_not_moved_into_place(tmp_path: Path) -> None:
    dest = str(tmp_path / "dest")
    assert bundle_files.take(dest, FILES, arrive(tmp_path / "in", a=b"A" * 10)) == ["targets/x/Packages/a.rpm"]
    assert bundle_files.missing(dest, FILES) == ["targets/x/Packages/a.rpm"]
    assert not [path for path in (tmp_path / "dest").rglob("*.new")]


@pytest.mark.parametrize("damage", ["cut", "link", "folder", "altered"])
def test_each_damage_of_the_copy_is_found_and_mended(tmp_path: Path, damage: str) -> None:
    dest = tmp_path / "dest"
    bundle_files.take(str(dest), FILES, arrive(tmp_path / "in"))
    wheel = dest / "wheels/b.whl"
    data = wheel.read_bytes()
    wheel.unlink()
    if damage == "link":
        (tmp_path / "elsewhere").write_bytes(data)
        wheel.symlink_to(tmp_path / "elsewhere")
    elif damage == "folder":
        (wheel / "more").mkdir(parents=True)
    else:
        wheel.write_bytes(data[:5] if damage == "cut" else b"B" * 20)
    assert bundle_files.missing(str(dest), FILES) == ["wheels/b.whl"]
    arrived = {"wheels/b.whl": arrive(tmp_path / "in")["wheels/b.whl"]}
    assert bundle_files.take(str(dest), FILES, arrived) == [] and bundle_files.missing(str(dest), FILES) == []
    assert not wheel.is_symlink()
    if damage == "link":
        assert (tmp_path / "elsewhere").read_bytes() == data


def test_a_folder_that_leads_elsewhere_is_no_place_for_files(tmp_path: Path) -> None:
    """Root must write nothing where somebody has led it."""
    dest, trap = tmp_path / "dest", tmp_path / "trap"
    dest.mkdir()
    trap.mkdir()
    (dest / "wheels").symlink_to(trap)
    bundle_files.take(str(dest), FILES, arrive(tmp_path / "in"))
    assert not list(trap.iterdir()) and (dest / "wheels/b.whl").read_bytes() == CONTENT["wheels/b.whl"]


def test_what_is_not_in_the_list_goes(tmp_path: Path) -> None:
    dest = tmp_path / "dest"
    bundle_files.take(str(dest), FILES, arrive(tmp_path / "in"))
    (dest / "targets/x/Packages/old.rpm").write_bytes(b"old")
    (dest / "old").mkdir()
    (dest / "old/link").symlink_to("/etc/passwd")
    assert bundle_files.remove_extras(str(dest), FILES) == ["old/link", "targets/x/Packages/old.rpm"]
    assert not (dest / "old").exists() and bundle_files.state_of(str(dest), FILES)["extras"] == []
    assert Path("/etc/passwd").exists()
