"""The task that makes a bundle, as a run has it: in check mode it says how much there is, from the first run on."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from ansible_collections.gpuwright.node.plugins.action import bundle_make
from ansible_collections.gpuwright.node.plugins.plugin_utils.bundle import making
from made_bundle import key
from test_bundle_making import WHEEL, built, lock, question

OPTIONS: dict[str, Any] = {"question": {}, "key": "", "days": 90, "pythons": [], "controller_only": False, "image": ""}


def task(folder: Path, said: list[str], dry: bool, **other: Any) -> dict[str, Any]:
    action = bundle_make.ActionModule.__new__(bundle_make.ActionModule)
    action._task = SimpleNamespace(check_mode=dry)
    action._display = SimpleNamespace(display=said.append)
    return action._made({**OPTIONS, "folder": str(folder), **other}, "a5-01")


def test_check_mode_says_the_size_on_a_first_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "shelf").mkdir()
    (tmp_path / "shelf" / WHEEL).write_bytes(b"net")
    places = {"no-index": "true", "find-links": str(tmp_path / "shelf")}
    for module in (making, bundle_make):
        monkeypatch.setattr(module, "configuration", lambda: places)
    folder, said = tmp_path / "bundle", list[str]()
    assert task(folder, said, dry=True, question=question(lock=lock())) == {"changed": False}
    assert task(folder, said, dry=True) == {"changed": False}
    assert said == ["a5-01: 1 wheels to download, 0 MiB"] and not folder.exists()


def test_a_run_makes_it_whole_and_the_next_one_leaves_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for module in (making, bundle_make):
        monkeypatch.setattr(module, "configuration", lambda: {"no-index": "true"})
    operator, folder = key(tmp_path), tmp_path / "bundle"
    places = making.Places(folder)
    assert task(folder, [], dry=False, question=question())["changed"]
    # As the action does that fetches the packages.
    making.claim(places, dry=False)
    built(places)
    for name in ("baseos", "epel", "nvidia"):
        (folder / "targets/rhel-8-x86_64" / name / "repodata").mkdir(parents=True)
        (folder / "targets/rhel-8-x86_64" / name / "repodata/repomd.xml").touch()
    for changed in (True, False):
        made = task(folder, [], dry=False, key=str(operator.path))
        assert made == {"changed": changed, "signer": operator.fingerprint}
    assert list((folder / "collection").glob("gpuwright-node-*.tar.gz")) and (folder / "matrix/about.yml").exists()
