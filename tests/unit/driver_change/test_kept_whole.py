"""Packages that are kept for a rollback are whole, on the disk, and tried, before and when they are needed."""

from __future__ import annotations

import os
import random
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from gpuwright.driver_change import kept_driver, kept_record
from gpuwright.driver_change.kept_record import Package
from gpuwright.driver_change.way_back import trial, whole_packages
from test_kept_driver import DRIVER, KMOD, RECORD, program


@pytest.fixture
def places(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """Two files of packages that are kept, and programs that read names and versions from their first line."""
    for name, place in (("FOLDER", "kept"), ("RECORD", "kept/record.json"), ("FILES", "kept/packages")):
        monkeypatch.setattr(kept_record, name, str(tmp_path / place))
    folder = tmp_path / "kept/packages"
    folder.mkdir(parents=True)
    for package in (DRIVER, KMOD):
        content = f"{package.name} {package.version} {package.arch}\n" + "payload\n" * 100
        (folder / f"{package.name}.rpm").write_text(content)
    shape = r'case "$1" in -K) [ $(grep -c payload "$3") = 100 ];; -qp) head -n 1 "$5";; *) printf "$INSTALLED";; esac'
    program(tmp_path, "rpm", shape, monkeypatch)
    program(tmp_path, "dnf", 'case "$*" in *reinstall*) echo none >&2; exit 1;; esac', monkeypatch)
    program(tmp_path, "trial", 'exit "${TRIAL:-0}"', monkeypatch)
    monkeypatch.setattr(trial, "python_of_dnf", lambda: str(tmp_path / "bin/trial"))
    monkeypatch.setenv("INSTALLED", "")
    return folder


def calls(tmp_path: Path) -> list[str]:
    return (tmp_path / "calls").read_text().splitlines()


def record_of(folder: Path, **changes: Any) -> dict[str, Any]:
    sums = whole_packages.sums_of([str(file) for file in sorted(folder.iterdir())])
    return {**RECORD, "patterns": ["*nvidia*"], "sums": sums, **changes}


DAMAGES: dict[str, Callable[[bytes], bytes]] = {
    "half": lambda data: data[: len(data) // 2],
    "zeros, as after a power cut": lambda data: data[:100] + b"\0" * (len(data) - 100),
    "one byte": lambda data: data[:-2] + b"?\n",
    "more": lambda data: data + b"more",
    "empty": lambda _data: b"",
}


@pytest.mark.parametrize("damage", DAMAGES)
def test_a_package_that_is_not_whole_ends_a_rollback_before_any_change(
    places: Path, tmp_path: Path, damage: str
) -> None:
    kept_record.write_record(record_of(places))
    file = places / "nvidia-driver.rpm"
    file.write_bytes(DAMAGES[damage](file.read_bytes()))
    with pytest.raises(
        kept_record.Refused, match=r"nvidia-driver-3:570\.172\.08.*is not whole.*\[rollback\.packages\]"
    ):
        kept_driver.bring_about({"state": "put_back", "parts": ["packages"]}, False, {"changed": False})
    assert not [call for call in calls(tmp_path) if "shell" in call]


def test_half_a_package_of_an_earlier_record_is_none(places: Path) -> None:
    """Its name and version stand in its first bytes."""
    assert set(whole_packages.files_in("redhat", str(places))) == {DRIVER, KMOD}
    file = places / "nvidia-driver.rpm"
    file.write_bytes(file.read_bytes()[:500])
    assert set(whole_packages.files_in("redhat", str(places))) == {KMOD}


@pytest.mark.skipif(shutil.which("dpkg-deb") is None, reason="a system without dpkg")
def test_half_a_real_package_is_none(tmp_path: Path) -> None:
    (tmp_path / "tree/DEBIAN").mkdir(parents=True)
    (tmp_path / "tree").chmod(0o755)
    (tmp_path / "tree/DEBIAN").chmod(0o755)
    (tmp_path / "tree/DEBIAN/control").write_text(
        "Package: thing\nVersion: 1-1\nArchitecture: all\nMaintainer: a <a@example.org>\nDescription: a thing\n"
    )
    (tmp_path / "tree/data").write_bytes(random.Random(1).randbytes(100_000))
    (tmp_path / "kept").mkdir()
    deb = tmp_path / "kept/thing.deb"
    subprocess.run(["dpkg-deb", "--build", str(tmp_path / "tree"), str(deb)], check=True, capture_output=True)
    assert list(whole_packages.files_in("debian", str(deb.parent))) == [Package("thing", "1-1", "all")]
    deb.write_bytes(deb.read_bytes()[:60_000])
    assert whole_packages.files_in("debian", str(deb.parent)) == {}


def test_packages_are_on_the_disk_before_their_record(
    places: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    order: list[str] = []
    sync, rename = os.fsync, os.rename

    def fsync(handle: int) -> None:
        order.append(Path(f"/proc/self/fd/{handle}").readlink().name)
        sync(handle)

    def renamed(source: str, target: str, **folders: int) -> None:
        order.append(f"named {target}")
        rename(source, target, **folders)

    monkeypatch.setattr(os, "fsync", fsync)
    monkeypatch.setattr(os, "rename", renamed)
    monkeypatch.setenv("INSTALLED", "".join(f"{one.name} {one.version} {one.arch}\\n" for one in (DRIVER, KMOD)))
    request = {
        "state": "kept", "family": "redhat", "source": "node", "driver": "570.172.08", "patterns": ["*nvidia*"],
        "also": [], "files": [], "links": [],
    }  # fmt: skip
    kept_driver.bring_about(request, False, {"changed": False})
    before = order[: order.index("named record.json")]
    assert {"nvidia-driver.rpm", "kmod-nvidia-latest-dkms.rpm", "packages"} <= set(before)
    made = kept_record.read_record()
    assert (
        made is not None
        and made["sums"] == record_of(places)["sums"]
        and made["bytes"] == sum(file.stat().st_size for file in places.iterdir())
    )
    # The way back was tried with these files.
    assert any('"again": true' in call and "nvidia-driver.rpm" in call for call in calls(tmp_path))


def test_what_could_not_be_put_back_is_not_kept(places: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("INSTALLED", "".join(f"{one.name} {one.version} {one.arch}\\n" for one in (DRIVER, KMOD)))
    monkeypatch.setenv("TRIAL", "1")
    request = {
        "state": "kept", "family": "redhat", "source": "node", "driver": "570.172.08", "patterns": ["*nvidia*"],
        "also": [], "files": [], "links": [],
    }  # fmt: skip
    with pytest.raises(kept_record.KeptError, match=r"could not be put back: a trial.*status 1.*\[upgrade\.packages\]"):
        kept_driver.bring_about(request, False, {"changed": False})
    assert kept_record.read_record() is None


def test_a_trial_that_fails_leaves_packages_and_settings(
    places: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    hold = tmp_path / "hold"
    hold.write_text("old\n")
    files = kept_record.read_files([{"path": str(hold)}])
    hold.write_text("new\n")
    kept_record.write_record(record_of(places, files=files))
    monkeypatch.setenv("TRIAL", "1")
    with pytest.raises(kept_record.Refused, match=r"570\.172\.08 cannot be put back: a trial.*\[rollback\.packages\]"):
        kept_driver.bring_about({"state": "put_back", "parts": ["packages"]}, False, {"changed": False})
    assert hold.read_text() == "new\n" and not [call for call in calls(tmp_path) if "shell" in call]
    # Without a network, and with one: what the kept packages require may be gone, and only a repository has it.
    assert ['"online": true' in call for call in calls(tmp_path) if '"online":' in call] == [False, True]


def test_a_second_try_finds_what_the_first_one_kept_whole_or_ends(places: Path, tmp_path: Path) -> None:
    kept_record.write_record(record_of(places))
    result: dict[str, Any] = {"changed": False}
    kept_driver.bring_about({"state": "kept"}, False, result)
    assert not result["changed"] and "reinstall" not in str(calls(tmp_path))
    (places / "nvidia-driver.rpm").write_text("")
    with pytest.raises(kept_record.KeptError, match=r"not whole any more.*\[upgrade\.packages\]"):
        kept_driver.bring_about({"state": "kept"}, False, result)
