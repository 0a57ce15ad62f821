"""What is kept of a driver, and how a node is brought back to it: the parts that need no package manager."""

from __future__ import annotations

import json
import os
import stat
from pathlib import Path
from typing import Any

import pytest
from gpuwright.driver_change import kept_driver, kept_packages, kept_record
from gpuwright.driver_change.kept_record import Package

BEGIN, END = "gpuwright-BEGIN-driver-0:0-0.*", "gpuwright-END-driver-0:0-0.*"
BLOCK = f"{BEGIN}\nnvidia-driver-3:570.172.08-1.el8.*\n{END}\n"
RPMS = """nvidia-driver 3:570.172.08-1.el8 x86_64
kmod-nvidia-latest-dkms 3:570.172.08-1.el8 noarch
nvidia-container-toolkit 0:1.17.4-1 x86_64
gpg-pubkey 0:d42d0685-62589a51 (none)
"""
DRIVER, KMOD = (
    Package("nvidia-driver", "3:570.172.08-1.el8", "x86_64"),
    Package("kmod-nvidia-latest-dkms", "3:570.172.08-1.el8", "noarch"),
)
RECORD: dict[str, Any] = {
    "schema": 1, "family": "redhat", "source": "node", "driver": "570.172.08", "packages": [list(DRIVER), list(KMOD)],
    "patterns": ["*nvidia*"], "there": ["nvidia-driver"], "files": [], "links": [], "bytes": 5, "time": "",
    "open": True,
}  # fmt: skip


def test_only_what_has_the_drivers_version_is_kept() -> None:
    found = kept_record.parse_packages("redhat", RPMS)
    assert [package.name for package in found] == [KMOD.name, DRIVER.name, "nvidia-container-toolkit"][:1] + [
        "nvidia-container-toolkit",
        DRIVER.name,
    ]
    assert kept_record.chosen(found, "570.172.08") == [KMOD, DRIVER]
    assert kept_record.chosen(found, "570.172") == []


@pytest.mark.parametrize(
    ("family", "package", "text", "upstream"),
    [
        ("redhat", DRIVER, "nvidia-driver-3:570.172.08-1.el8.x86_64", "570.172.08"),
        ("debian", Package("nvidia-driver", "535.261.03-1~deb12u1", "amd64"),
         "nvidia-driver:amd64=535.261.03-1~deb12u1", "535.261.03"),
        ("debian", Package("nvidia-support", "1:20220217+3~deb12u1", "all"), "nvidia-support=1:20220217+3~deb12u1",
         "20220217+3~deb12u1"),
    ],
)  # fmt: skip
def test_a_package_is_named_exactly(family: str, package: Package, text: str, upstream: str) -> None:
    assert package.spelled(family) == text
    assert package.upstream == upstream or "-" not in package.version


def test_what_dpkg_has_removed_is_not_installed() -> None:
    text = "installed nvidia-driver 535.261.03-1 amd64\nconfig-files nvidia-kernel-dkms 535.261.03-1 amd64\n"
    assert [package.name for package in kept_record.parse_packages("debian", text)] == ["nvidia-driver"]


def test_what_must_be_installed_and_what_must_go() -> None:
    newer = Package("nvidia-driver", "3:580.95.05-1.el8", "x86_64")
    extra = Package("nvidia-new-part", "3:580.95.05-1.el8", "x86_64")
    toolkit = Package("nvidia-container-toolkit", "0:1.17.4-1", "x86_64")
    install, gone = kept_record.changes([newer, extra, toolkit, KMOD], [DRIVER, KMOD], ["nvidia-container-toolkit"])
    assert install == [DRIVER] and gone == ["nvidia-new-part"]
    assert kept_record.changes([DRIVER, KMOD, toolkit], [DRIVER, KMOD], ["nvidia-container-toolkit"]) == ([], [])


def test_a_block_goes_back_and_its_neighbours_stay() -> None:
    other = "# mine\nkernel-0:4.18.0-1.*\n"
    newer = BLOCK.replace("570.172.08", "580.95.05")
    assert kept_record.block_of(other + newer, BEGIN, END) == newer
    assert kept_record.with_block(other + newer, BEGIN, END, BLOCK) == other + BLOCK
    assert kept_record.with_block(other, BEGIN, END, BLOCK) == other + BLOCK
    assert kept_record.with_block(other + newer, BEGIN, END, None) == other
    assert kept_record.with_block(other, BEGIN, END, None) == other


def test_files_and_links_come_back_as_they_were(tmp_path: Path) -> None:
    root = str(tmp_path)
    locks, module = tmp_path / "etc/list", tmp_path / "etc/nvidia.module"
    locks.parent.mkdir()
    locks.write_text("# mine\n" + BLOCK)
    wanted = [{"path": "/etc/list", "begin": BEGIN, "end": END}, {"path": "/etc/nvidia.module"}]
    files = kept_record.read_files(wanted, root)
    assert [one["text"] for one in files] == [BLOCK, None] and kept_record.differing_files(files, root) == []
    locks.write_text("# mine, and newer\n" + BLOCK.replace("570", "580"))
    module.write_text("[nvidia-driver]\nstream=580-dkms\n")
    assert len(kept_record.differing_files(files, root)) == 2
    kept_record.write_files(files, root)
    assert locks.read_text() == "# mine, and newer\n" + BLOCK and not module.exists()
    (tmp_path / "old").mkdir()
    (tmp_path / "current").symlink_to("new")
    kept_record.put_link("/current", "old", root)
    assert (tmp_path / "current").readlink() == Path("old") and kept_record.read_links(["/current", "/etc"], root) == {
        "/current": "old",
        "/etc": None,
    }


def test_mode_and_owner_come_back_and_others_keep_theirs(tmp_path: Path) -> None:
    root, own, group = str(tmp_path), os.getuid(), os.getgid()
    closed, shared = tmp_path / "closed", tmp_path / "shared"
    closed.write_text("login\n")
    shared.write_text("# mine\n" + BLOCK)
    for file in (closed, shared):
        file.chmod(0o640)
    files = kept_record.read_files([{"path": "/closed"}, {"path": "/shared", "begin": BEGIN, "end": END}], root)
    assert (files[0]["mode"], files[0]["uid"], files[0]["gid"]) == (0o640, own, group) and "mode" not in files[1]
    closed.unlink()
    closed.write_text("newer\n")
    shared.write_text("# mine\n")
    shared.chmod(0o600)
    kept_record.write_files(kept_record.differing_files(files, root), root)
    assert [stat.S_IMODE(file.stat().st_mode) for file in (closed, shared)] == [0o640, 0o600]
    # The mode alone differs, too; an earlier release did not record it.
    closed.chmod(0o604)
    kept_record.write_files(kept_record.differing_files(files, root), root)
    assert stat.S_IMODE(closed.stat().st_mode) == 0o640
    old = [{key: one[key] for key in ("path", "begin", "end", "text")} for one in files]
    assert kept_record.differing_files(old, root) == []
    closed.write_text("newer\n")
    kept_record.write_files(kept_record.differing_files(old, root), root)
    assert closed.read_text() == "login\n" and stat.S_IMODE(closed.stat().st_mode) == 0o640


def test_a_record_is_whole_or_refused(tmp_path: Path) -> None:
    root = str(tmp_path)
    assert kept_record.read_record(root) is None
    place = tmp_path / kept_record.RECORD.lstrip("/")
    place.parent.mkdir(parents=True)
    kept_record.write_record(RECORD, root)
    assert kept_record.read_record(root) == RECORD and kept_record.packages_of(RECORD) == [DRIVER, KMOD]
    for damage in ("{", "[]", json.dumps({**RECORD, "schema": 2}), json.dumps({"schema": 1})):
        place.write_text(damage)
        with pytest.raises(kept_record.KeptError, match=r"\[upgrade\.record\]"):
            kept_record.read_record(root)


def plan(driver: str, torch: str) -> dict[str, Any]:
    return {"gpu_count": 1, "plan": {"driver": {"branch": driver}, "pytorch": {"version": torch}}}


@pytest.mark.parametrize(
    ("parts", "driver", "torch"),
    [(["packages", "environment"], "570", "2.9"), (["packages"], "570", "2.10"), (["environment"], "580", "2.9")],
)
def test_expectations_are_those_of_what_came_back(parts: list[str], driver: str, torch: str) -> None:
    before, now = json.dumps(plan("570", "2.9")), json.dumps(plan("580", "2.10"))
    assert json.loads(kept_driver.expectations(now, before, parts)) == plan(driver, torch)
    assert kept_driver.expectations(before, before, parts) == before


def test_without_a_record_there_is_nothing_to_go_back_to(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kept_record, "read_record", lambda root="/": None)
    with pytest.raises(kept_record.KeptError, match=r"nothing to go back to.*\[rollback\.packages\]"):
        kept_driver.bring_about({"state": "put_back", "parts": ["packages"]}, False, {"changed": False})


def test_an_environment_that_is_gone_is_named(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    link = tmp_path / "current"
    link.symlink_to("new")
    monkeypatch.setattr(
        kept_record,
        "read_record",
        lambda root="/": {**RECORD, "links": [["/usr/local/cuda-not-there", None], [str(link), "old"]]},
    )
    request = {"state": "put_back", "parts": ["environment"]}
    with pytest.raises(kept_record.KeptError, match=r"framework_pytorch_keep.*\[rollback\.environment\]"):
        kept_driver.bring_about(request, False, {"changed": False})
    (tmp_path / "old").mkdir()
    result: dict[str, Any] = {"changed": False}
    kept_driver.bring_about(request, True, result)
    assert result["changed"] and link.readlink() == Path("new")
    kept_driver.bring_about(request, False, result)
    assert link.readlink() == Path("old")


def test_what_a_broken_upgrade_left_is_not_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    """The record stays open until the change has passed, and an open one is not replaced."""
    monkeypatch.setattr(kept_record, "read_record", lambda root="/": RECORD)
    monkeypatch.setattr(kept_packages, "complete", lambda _record: None)
    result: dict[str, Any] = {"changed": False}
    kept_driver.bring_about({"state": "kept"}, False, result)
    assert result["changed"] is False and result["driver"] == "570.172.08" and result["mib"] == 1


PROGRAM = """#!/bin/sh
echo "$@" >> {folder}/calls
{body}
"""


def program(folder: Path, name: str, body: str, monkeypatch: pytest.MonkeyPatch) -> None:
    (folder / "bin").mkdir(exist_ok=True)
    path = folder / "bin" / name
    path.write_text(PROGRAM.format(folder=folder, body=body))
    path.chmod(0o755)
    monkeypatch.setenv("PATH", f"{folder}/bin:{os.environ['PATH']}")


def test_a_version_that_no_repository_has_any_more_ends_before_any_change(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    for name, place in (("FOLDER", "kept"), ("RECORD", "kept/record.json"), ("FILES", "kept/packages")):
        monkeypatch.setattr(kept_record, name, str(tmp_path / place))
    program(tmp_path, "rpm", f"printf '{RPMS}'", monkeypatch)
    program(
        tmp_path,
        "dnf",
        "echo 'Installed package nvidia-driver-3:570.172.08-1.el8.x86_64 not available.' >&2; exit 1",
        monkeypatch,
    )
    request = {
        "state": "kept", "family": "redhat", "source": "node", "driver": "570.172.08", "patterns": ["*nvidia*"],
        "also": [], "files": [], "links": [],
    }  # fmt: skip
    with pytest.raises(kept_record.KeptError, match=r"(?s)nvidia-driver-3:570.*not available.*\[upgrade\.packages\]"):
        kept_driver.bring_about(request, False, {"changed": False})
    assert not (tmp_path / "kept/record.json").exists() and not (tmp_path / "kept/packages").exists()
    assert "reinstall --downloadonly" in (tmp_path / "calls").read_text()
