"""The module software_inventory, as it reads a made-up environment and the answers of rpm and dpkg."""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import Any

import pytest
from module_files import load_file

inventory: Any = load_file("library/software_inventory.py")
RECORD = "torch/__init__.py,sha256=x,5\ntorch-2.13.0.dist-info/RECORD,,\n"


@pytest.fixture
def venvs(tmp_path: Path) -> Path:
    site = tmp_path / "a/lib/python3.11/site-packages"
    (site / "torch").mkdir(parents=True)
    (site / "torch/__init__.py").write_text("12345")
    info = site / "torch-2.13.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: torch\nVersion: 2.13.0\n\nName: of the text\n")
    (info / "RECORD").write_text(RECORD)
    hashes = [f"    --hash=sha256:{digit * 64}" for digit in "10"]
    (tmp_path / "a/lock.txt").write_text(" \\\n".join(["# one\nTorch==2.13.0", *hashes]) + "\n")
    (tmp_path / "current").symlink_to("a")
    return tmp_path


def read(venvs: Path) -> tuple[dict[str, Any], list[str]]:
    unread: list[str] = []
    (found,) = inventory.read_environments(str(venvs), unread)
    return found, unread


def test_an_environment(venvs: Path) -> None:
    found, unread = read(venvs)
    assert found["current"] is True and unread == []
    assert found["lock"] == {"torch": {"version": "2.13.0", "hashes": ["0" * 64, "1" * 64]}}
    record = hashlib.sha256(RECORD.encode()).hexdigest()
    assert found["distributions"] == [{"name": "torch", "version": "2.13.0", "record": record, "damaged": 0}]


@pytest.mark.parametrize("content", ["123456", None])
def test_a_file_that_is_missing_or_has_another_size_is_damage(venvs: Path, content: str | None) -> None:
    file = venvs / "a/lib/python3.11/site-packages/torch/__init__.py"
    file.unlink() if content is None else file.write_text(content)
    assert read(venvs)[0]["distributions"][0]["damaged"] == 1


def test_what_cannot_be_read_is_named(venvs: Path) -> None:
    (venvs / "a/lock.txt").unlink()
    (venvs / "a/lib/python3.11/site-packages/torch-2.13.0.dist-info/METADATA").unlink()
    found, unread = read(venvs)
    assert found["lock"] is None and found["distributions"] == [] and len(unread) == 2
    assert inventory.read_environments(str(venvs / "nowhere"), unread) == []


def test_answers_of_both_package_managers() -> None:
    key = "gpg-pubkey\t0\t1\t2\t(none)\t(none)\n"
    rpm = f"zlib\t0\t1.2\t3.el8\tx86_64\tzlib.src.rpm\n{key}a\t1\t2\t3\tnoarch\ta.src.rpm\n"
    assert [(row["name"], row["epoch"], row["release"]) for row in inventory.packages_in(rpm)] == [
        ("a", "1", "3"),
        ("zlib", "0", "3.el8"),
    ]
    dpkg = "gcc\t\t4:12.2\t\tamd64\tgcc-defaults\tinstalled\nold\t\t1\t\tamd64\told\tconfig-files\n"
    assert [(row["name"], row["version"]) for row in inventory.packages_in(dpkg)] == [("gcc", "4:12.2")]


def test_a_silent_package_manager_is_no_empty_list(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(inventory, "RPM", ["no-such-program"])
    unread: list[str] = []
    assert inventory.read_packages("redhat", unread) == [] and unread[0].startswith("the package database: ")
