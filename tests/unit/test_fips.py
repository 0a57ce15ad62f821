"""In FIPS mode MD5 is away, and SHA-1 will be: nothing of ours asks for either."""

from __future__ import annotations

import re
from pathlib import Path

from conftest import REPOSITORY

FOLDERS = ("library", "module_utils", "roles", "playbooks")
KINDS = (".py", ".yml", ".yaml", ".j2", ".sh", "")
WEAK = re.compile(r"\b(?:md5|sha1|sha_1|uuid3|uuid5|md5sum|sha1sum|get_md5|to_uuid)\b", re.IGNORECASE)
# Ansible's stat, find and slurp-like modules take SHA-1 unless they are told another.
CHECKSUM = re.compile(r"\.(?:stat\.)?checksum\b")


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
        f"{path.relative_to(REPOSITORY)}: {line.strip()}"
        for path in files
        for line in text_of(path).splitlines()
        if WEAK.search(line)
    ]
    assert weak == []


def test_a_checksum_names_its_algorithm() -> None:
    asked = [path for path in sources() if path.suffix == ".yml" and CHECKSUM.search(text_of(path))]
    assert asked, "a test that looks at no file is none"
    assert [str(path) for path in asked if "checksum_algorithm: sha256" not in text_of(path)] == []
