"""Where things are, and the content hashes that decide what must be built again."""

from __future__ import annotations

import hashlib
import os
from pathlib import Path

FLEET_DIR = Path(__file__).resolve().parent.parent
REPO_ROOT = FLEET_DIR.parent.parent
EL8_DIR = FLEET_DIR / "el8"
DEBIAN_DIR = FLEET_DIR / "debian12"
UBUNTU_DIR = FLEET_DIR / "ubuntu"
CONTAINERFILE = FLEET_DIR / "Containerfile"
PACKAGES_DIR = FLEET_DIR / "packages"
HOSTS_FILE = FLEET_DIR / "hosts.yml"
REPOSITORIES_FILE = FLEET_DIR / "repositories.yml"
DEBIAN_REPOSITORIES_FILE = DEBIAN_DIR / "repositories.yml"
UBUNTU_REPOSITORIES_FILE = UBUNTU_DIR / "repositories.yml"


def cache_dir() -> Path:
    """The folder that survives `git clean` and is shared by all check-outs of one user."""
    explicit = os.environ.get("GPUWRIGHT_CACHE")
    base = Path(explicit) if explicit else Path(os.environ.get("XDG_CACHE_HOME") or "~/.cache") / "gpuwright"
    return base.expanduser() / "fleet"


def is_complete(folder: Path) -> bool:
    """Whether a folder of the cache was built to its end; its time then says when it was last used."""
    stamp = folder / "complete"
    if not stamp.exists():
        return False
    os.utime(folder)
    return True


def state_dir(fleet: str) -> Path:
    """Inventory, ssh key and ssh_config of one running fleet (git-ignored)."""
    return REPO_ROOT / ".fleet" / fleet


def content_hash(paths: list[Path], *words: str) -> str:
    """12 hex digits that change when a file below `paths` (name, mode, content) or one of `words` changes."""
    digest = hashlib.sha256()
    for word in words:
        digest.update(f"word {word}\0".encode())
    for root in paths:
        files = sorted(p for p in root.rglob("*") if p.is_file()) if root.is_dir() else [root]
        for file in files:
            if "__pycache__" in file.parts:
                continue
            name = file.relative_to(root.parent)
            digest.update(f"file {name} {file.stat().st_mode & 0o111}\0".encode())
            digest.update(file.read_bytes())
    return digest.hexdigest()[:12]
