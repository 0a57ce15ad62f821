"""A small bundle, signed with a key of its own, for tests that damage it."""

from __future__ import annotations

import datetime
import subprocess
from pathlib import Path
from typing import Any, NamedTuple

from ansible_collections.gpuwright.node.plugins.plugin_utils.bundle import listing as lists
from ansible_collections.gpuwright.node.plugins.plugin_utils.bundle.signature import sign
from ansible_collections.gpuwright.node.plugins.plugin_utils.bundle.verified import entry_of, files_in

NOW = datetime.datetime(2026, 11, 24, 19, 0, tzinfo=datetime.timezone.utc)
DAYS = datetime.timedelta(days=90)
TARGET = "targets/rhel-8-x86_64"
FILES = {
    f"{TARGET}/epel/repodata/repomd.xml": b"<repomd/>",
    f"{TARGET}/epel/dkms-3.0-1.el8.noarch.rpm": b"dkms" * 1000,
    f"{TARGET}/keys/epel.asc": b"a key",
    "wheels/torch-2.10.0-cp312.whl": b"torch" * 2000,
}
HOSTS: dict[str, dict[str, Any]] = {
    "a5-01": {
        "plan": {"release": "rhel 8.8 x86_64"},
        "digest": "0" * 64,
        "target": "rhel-8-x86_64",
        "wheels": ["wheels/torch-2.10.0-cp312.whl"],
    }
}
REPOSITORY: dict[str, Any] = {"id": "epel", "folder": f"{TARGET}/epel"}
TARGETS: dict[str, dict[str, Any]] = {"rhel-8-x86_64": {"folder": TARGET, "repositories": [REPOSITORY]}}


class Key(NamedTuple):
    """A private key of ssh, and its fingerprint."""

    path: Path
    fingerprint: str


def key(folder: Path, name: str = "operator") -> Key:
    path = folder / name
    words = ["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-C", name, "-f", str(path)]
    subprocess.run(words, check=True, capture_output=True)
    told = subprocess.run(["ssh-keygen", "-l", "-f", f"{path}.pub"], check=True, capture_output=True, text=True)
    return Key(path, told.stdout.split()[1])


def listing(folder: Path, **other: Any) -> lists.Listing:
    """The list of the files that are there."""
    files = {path: entry_of(folder / path) for path, kind in files_in(folder) if kind == "file"}
    files = {path: entry for path, entry in files.items() if path not in (lists.LIST, lists.SIGNATURE)}
    return lists.Listing(NOW, NOW + DAYS, "1.0.0", files, HOSTS, TARGETS)._replace(**other)


def write_list(folder: Path, data: bytes, by: Key) -> None:
    (folder / lists.LIST).write_bytes(data)
    (folder / lists.SIGNATURE).write_bytes(sign(data, by.path))


def bundle(folder: Path, by: Key, **other: Any) -> Path:
    for path, data in FILES.items():
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        (folder / path).write_bytes(data)
    write_list(folder, lists.text_of(listing(folder, **other)).encode(), by)
    return folder
