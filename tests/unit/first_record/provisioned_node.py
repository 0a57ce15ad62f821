"""A folder as the root of a node, whose package manager a test makes up."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from gpuwright.first_record.ledger import LEDGER, RECORD, begin, end, load
from gpuwright.first_record.look import look as real_look

# What a made-up package manager has installed.
PACKAGES = {"bash.x86_64": "0:4.4-1"}
EDITOR = "/etc/apt/sources.list.d/site.sources"
OURS = "/etc/modules-load.d/gpuwright-nvidia.conf"


class Node:
    """A folder as the root of a node, with packages that a test changes."""

    def __init__(self, root: Path) -> None:
        self.root, self.packages = root, dict(PACKAGES)
        for name in ("etc/apt/sources.list.d", "etc/modules-load.d", "etc/docker", "var/lib/rpm", "usr/local/bin"):
            (root / name).mkdir(parents=True)
        (root / "etc/os-release").write_text("ID=rhel\nID_LIKE=fedora\n")
        (root / "etc/passwd").write_text("root:x:0:0:root:/root:/bin/bash\n")
        (root / "etc/group").write_text("root:x:0:\n")
        self.install()

    def install(self, **packages: str) -> None:
        for name, version in packages.items():
            self.packages[name] = version
        (self.root / "var/lib/rpm/rpmdb.sqlite").write_text(json.dumps(self.packages))

    def write(self, path: str, text: str) -> None:
        (self.root / path[1:]).parent.mkdir(parents=True, exist_ok=True)
        (self.root / path[1:]).write_text(text)
        (self.root / path[1:]).chmod(0o644)

    def look(self, family: str, root: str, known: Any = None) -> dict[str, Any]:
        return real_look(family, root, known, lambda family: dict(self.packages))

    def begin(self, run: str, by_hand: tuple[str, ...] = ()) -> bool:
        return begin(run, str(self.root), self.look, lambda family, root: by_hand)

    def end(self, run: str) -> None:
        end(run, str(self.root), self.look)

    def record(self) -> dict[str, Any]:
        return load(RECORD, str(self.root)) or {}

    def ledger(self) -> dict[str, Any]:
        return load(LEDGER, str(self.root)) or {}

    def ours(self, kind: str) -> dict[str, Any]:
        return self.ledger()["ours"][kind]
