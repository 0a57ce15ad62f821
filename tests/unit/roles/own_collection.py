"""The collection beside a test's play: links to this checkout, in which a test replaces modules and roles."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from conftest import REPOSITORY

PARTS = ("galaxy.yml", "meta", "playbooks", "plugins", "roles", "trainer")


def own_collection(folder: Path) -> Path:
    """Make it once below the folder of a play, where Ansible looks first; the value is its root."""
    root = folder / "collections/ansible_collections/gpuwright/node"
    if root.exists():
        return root
    root.mkdir(parents=True)
    for part in PARTS:
        if part == "plugins":
            _links(REPOSITORY / part, root / part, without=("modules", "action"))
        elif part == "roles":
            _links(REPOSITORY / part, root / part)
        else:
            (root / part).symlink_to(REPOSITORY / part)
    _links(REPOSITORY / "library", root / "plugins/modules")
    _links(REPOSITORY / "plugins/action", root / "plugins/action")
    return root


def own_module(folder: Path, name: str, program: str) -> None:
    """`gpuwright.node.<name>` of a play in the folder is this program, without an action plug-in."""
    plugins = own_collection(folder) / "plugins"
    for kind in ("action", "modules"):
        (plugins / kind / f"{name}.py").unlink(missing_ok=True)
    (plugins / "modules" / f"{name}.py").write_text(program)


def _links(source: Path, folder: Path, without: Sequence[str] = ()) -> None:
    folder.mkdir()
    for entry in source.iterdir():
        if entry.name not in (*without, "__pycache__"):
            (folder / entry.name).symlink_to(entry)
