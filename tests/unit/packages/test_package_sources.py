"""dnf's repositories are switched off for a bundle, and on again as they were, line by line."""

from __future__ import annotations

import importlib.util
import json
from pathlib import Path
from types import ModuleType

import pytest
from ansible_collections.gpuwright.node.plugins.module_utils.packages import package_sources

BELOW = "file:///var/lib/gpuwright/bundle/"
TEXT = """# Red Hat's.
[baseos]
name = BaseOS
baseurl = https://cdn.example.com/baseos
enabled = 1
gpgcheck = 1

[source]
baseurl=https://cdn.example.com/source
enabled=0

[mirrors]
mirrorlist=https://mirrors.example.com/$releasever
"""
OWN = f"[gpuwright-baseos]\nbaseurl={BELOW}targets/x\nenabled=1\n"


def test_only_what_is_on_and_elsewhere_is_switched_off() -> None:
    assert package_sources.to_switch_off(TEXT, BELOW) == ["baseos", "mirrors"]
    assert package_sources.to_switch_off(OWN, BELOW) == []
    off = package_sources.switched(TEXT, ["baseos", "mirrors"], "0")
    assert package_sources.to_switch_off(off, BELOW) == []
    assert "[baseos]\nname = BaseOS\nbaseurl = https://cdn.example.com/baseos\nenabled=0\ngpgcheck = 1\n" in off
    assert off.startswith("# Red Hat's.\n") and "[source]\nbaseurl=https://cdn.example.com/source\nenabled=0\n" in off
    on = package_sources.switched(off, ["baseos", "mirrors"], "1")
    assert package_sources.to_switch_off(on, BELOW) == ["baseos", "mirrors"]
    assert package_sources.switched(on, ["baseos", "mirrors"], "1") == on


def test_a_login_keeps_its_mode(tmp_path: Path) -> None:
    file = tmp_path / "a.repo"
    file.write_text(TEXT)
    file.chmod(0o600)
    package_sources.write_file(str(file), OWN)
    assert file.read_text() == OWN and file.stat().st_mode & 0o777 == 0o600


@pytest.fixture
def module(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> ModuleType:
    source = Path(__file__).resolve().parents[3] / "library/package_sources.py"
    spec = importlib.util.spec_from_file_location("package_sources_module", source)
    assert spec and spec.loader
    found = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(found)
    folder = tmp_path / "yum.repos.d"
    folder.mkdir()
    monkeypatch.setattr(found, "FOLDER", str(folder))
    (folder / "redhat.repo").write_text(TEXT)
    (folder / "gpuwright-bundle.repo").write_text(OWN)
    return found


def test_what_was_switched_off_is_switched_on_again(module: ModuleType, tmp_path: Path) -> None:
    record, file = tmp_path / "state/record.json", tmp_path / "yum.repos.d/redhat.repo"
    wish = {"below": BELOW, "record": str(record), "state": "present"}
    assert module.apply(wish, dry=True) == {"changed": True, "switched": ["baseos", "mirrors"]}
    assert file.read_text() == TEXT and not record.exists()
    assert module.apply(wish, dry=False)["changed"] and not module.apply(wish, dry=False)["changed"]
    # A repository that came later is remembered beside the others.
    (tmp_path / "yum.repos.d/late.repo").write_text("[late]\nbaseurl=https://late.example.com\n")
    assert module.apply(wish, dry=False)["switched"] == ["late"]
    assert json.loads(record.read_text())[str(file)] == ["baseos", "mirrors"]
    back = {**wish, "state": "absent"}
    assert module.apply(back, dry=False)["switched"] == ["baseos", "late", "mirrors"]
    assert package_sources.to_switch_off(file.read_text(), BELOW) == ["baseos", "mirrors"]
    assert "[source]\nbaseurl=https://cdn.example.com/source\nenabled=0" in file.read_text()
    assert not record.exists() and not module.apply(back, dry=False)["changed"]
