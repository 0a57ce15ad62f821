"""In FIPS mode MD5 is away, and SHA-1 will be: nothing of ours asks for either."""

from __future__ import annotations

import re
from pathlib import Path

import efi
import pytest
from conftest import REPOSITORY
from gpuwright.host.secure_boot import certificates

FOLDERS = ("library", "plugins", "roles", "playbooks")
KINDS = (".py", ".yml", ".yaml", ".j2", ".sh", "")
WEAK = re.compile(r"\b(?:md5|sha1|sha_1|uuid3|uuid5|md5sum|sha1sum|get_md5|to_uuid)\b", re.IGNORECASE)
# What the firmware shows to who confirms a key at its console is told to them: named there, rested on nowhere.
SHOWN = (
    ("plugins/module_utils/host/secure_boot/certificates.py", 'FIRMWARE_SHOWS = "sha1"'),
    ("plugins/module_utils/host/secure_boot/mok_request.py", "SHA1 fingerprint {fingerprint}"),
)
# Ansible's stat, find and slurp-like modules take SHA-1 unless they are told another.
CHECKSUM = re.compile(r"\b(\w+)\.(?:stat\.)?checksum\b")
TASK = re.compile(r"^ *- name:", re.MULTILINE)


def sources() -> list[Path]:
    found = [path for folder in FOLDERS for path in (REPOSITORY / folder).rglob("*") if path.suffix in KINDS]
    return [path for path in found if path.is_file() and "__pycache__" not in path.parts]


def text_of(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8")
    except UnicodeDecodeError:
        return ""


def test_nobody_asks_for_a_weak_digest() -> None:
    files = sources()
    assert len(files) > 300
    weak = [
        (str(path.relative_to(REPOSITORY)), line.strip())
        for path in files
        for line in text_of(path).splitlines()
        if WEAK.search(line)
    ]
    shown = [(name, line) for name, line in weak if any(name == file and words in line for file, words in SHOWN)]
    assert [found for found in weak if found not in shown] == []
    assert len(shown) == len(SHOWN), "an exception that is no longer needed, or is used twice"


def test_without_the_digest_that_the_firmware_shows_a_key_is_known_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its fingerprint cannot be told then."""

    def forbidden(name: str, *_data: bytes) -> None:
        raise ValueError(f"unsupported hash type {name}")

    monkeypatch.setattr(certificates.hashlib, "new", forbidden)
    assert certificates.fingerprint(efi.KEY) == ""
    assert certificates.digest(efi.KEY) != certificates.digest(efi.OTHER_KEY)


def test_a_checksum_names_its_algorithm() -> None:
    """In the task that registers it, which may stand in another file than who uses it."""
    files = [path for path in sources() if path.suffix == ".yml"]
    assert len(files) > 150 and CHECKSUM.findall("{{ found.stat.checksum }}") == ["found"]
    # None at the moment: the marks of environments are compared by a module of our own.
    used = {name for path in files for name in CHECKSUM.findall(text_of(path))}
    for name in used:
        tasks = [task for path in files for task in TASK.split(text_of(path)) if f"register: {name}\n" in task]
        assert tasks, f"nobody registers {name}"
        assert [task for task in tasks if "checksum_algorithm: sha256" not in task] == []
