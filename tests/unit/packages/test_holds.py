"""Holds: installed versions in blocks or files of their own; a held package may change to the planned version only."""

from __future__ import annotations

import re
from fnmatch import fnmatch
from pathlib import Path
from typing import Any

import pytest
import yaml
from conftest import REPOSITORY
from gpuwright.packages import holds
from gpuwright.packages.holds import debs, held_text, listed, owners_of, planned_text, preferences, rpms
from test_plan_questions import ask
from text_parts import part_of

LIST = """# the site's own
bash-0:4.4.20-4.el8_6.*
gpuwright-BEGIN-driver-0:0-0.*
kmod-nvidia-latest-dkms-3:580.95.05-1.el8.*
libnvidia-ml-3:580.95.05-1.el8.*
nvidia-driver-cuda-3:580.95.05-1.el8.*
gpuwright-END-driver-0:0-0.*
gpuwright-BEGIN-cuda-0:0-0.*
cuda-toolkit-12-9-0:12.9.1-1.*
libcudnn9-cuda-12-0:9.13.0.50-1.*
libnccl-0:2.28.3-1+cuda13.0.*
gpuwright-END-cuda-0:0-0.*
nvidia-docker2-0:2.14.0-1.*
"""
PREFERENCES = """# Written by gpuwright: these packages stay at their version.

Package: libcuda1
Pin: version 535.247.01-1~deb12u1
Pin-Priority: 1001

Package: nvidia-persistenced
Pin: version 525.85.05-1
Pin-Priority: 1001
"""


def lines_of(text: str, owner: str) -> list[str]:
    return part_of(
        rf"gpuwright-BEGIN-{owner}-0:0-0\.\*\n(.*)gpuwright-END-{owner}-0:0-0\.\*\n", text, re.DOTALL
    ).splitlines()


def locks(line: str, name: str, evr: str) -> bool:
    """Whether dnf's versionlock lets this version of the package be: epoch and architecture may be left out."""
    full = [f"{name}-{evr}.x86_64", f"{name}-{evr.split(':')[1]}.x86_64", f"{name}-{evr.split(':')[1]}"]
    return any(fnmatch(each, line) for each in full)


@pytest.mark.parametrize(
    ("version", "allowed", "refused"),
    [
        ("570.*", ["3:570.172.08-1.el8", "3:570.86.10-2.el8"], ["3:580.95.05-1.el8", "3:590.48.01-1.el8"]),
        ("580.82.07-*", ["3:580.82.07-1.el8", "3:580.82.07-2.el8"], ["3:580.95.05-1.el8", "3:580.8.1-1.el8"]),
    ],
)
def test_dnf_may_bring_the_planned_driver_and_no_other(version: str, allowed: list, refused: list) -> None:
    text = planned_text(LIST, "redhat", "driver", version)
    found = lines_of(text, "driver")
    assert len(found) == 3
    for name in ("kmod-nvidia-latest-dkms", "libnvidia-ml", "nvidia-driver-cuda"):
        own = [line for line in found if line.startswith(name + "-5")]
        assert len(own) == 1
        assert all(locks(own[0], name, evr) for evr in allowed), own
        assert not any(locks(own[0], name, evr) for evr in refused), own
    # Nobody else's lines change, and a run that is cut off and begun again for another version finds its way.
    assert text.replace("\n".join(found), "") == LIST.replace("\n".join(lines_of(LIST, "driver")), "")
    assert planned_text(text, "redhat", "driver", "590.*") == planned_text(LIST, "redhat", "driver", "590.*")


def test_packages_are_named_one_by_one_where_each_has_its_own_version() -> None:
    wanted = ["cuda-toolkit-12-9", "libcudnn9-cuda-12-9.10.2.21-1", "libnccl-2.27.5-1+cuda12.9"]
    text = planned_text(LIST, "redhat", "cuda", packages=wanted)
    kept, cudnn, nccl = lines_of(text, "cuda")
    assert kept == "cuda-toolkit-12-9-0:12.9.1-1.*"
    assert locks(cudnn, "libcudnn9-cuda-12", "0:9.10.2.21-1") and not locks(cudnn, "libcudnn9-cuda-12", "0:9.13.0.50-1")
    assert locks(nccl, "libnccl", "0:2.27.5-1+cuda12.9") and not locks(nccl, "libnccl", "0:2.28.3-1+cuda13.0")
    assert lines_of(text, "driver") == lines_of(LIST, "driver")
    # Begun again for another version.
    other = planned_text(text, "redhat", "cuda", packages=["libcudnn9-cuda-12-9.13.0.50-1"])
    assert locks(lines_of(other, "cuda")[1], "libcudnn9-cuda-12", "0:9.13.0.50-1")


def test_what_matches_a_pattern_is_held_as_well(monkeypatch: pytest.MonkeyPatch) -> None:
    wanted = ["gcc", "libnccl-2.32.3-1+cuda13.*", "libnccl-devel-2.32.3-1+cuda13.*"]
    said = {
        "-q gcc": ["gcc-0:8.5.0-1.el8.*"],
        f"-qa {wanted[1]} {wanted[2]}": ["libnccl-0:2.32.3-1+cuda13.3.*"],
    }
    monkeypatch.setattr(holds, "_ask", lambda argv: said[" ".join((argv[1], *argv[4:]))])
    text = held_text("redhat", "cuda", wanted, [], "", None) or ""
    assert lines_of(text, "cuda") == ["gcc-0:8.5.0-1.el8.*", "libnccl-0:2.32.3-1+cuda13.3.*"]
    allowed = lines_of(planned_text(text, "redhat", "cuda", packages=["libnccl-2.33.1-1+cuda13.*"]), "cuda")[1]
    assert locks(allowed, "libnccl", "0:2.33.1-1+cuda13.4") and not locks(allowed, "libnccl", "0:2.33.1-1+cuda12.9")


def test_apt_may_bring_the_planned_driver_and_no_other() -> None:
    text = planned_text(PREFERENCES, "debian", "driver", "535.*", own_versions=["nvidia-persistenced"])
    assert text == PREFERENCES.replace("535.247.01-1~deb12u1", "535.*")
    exact = planned_text(text, "debian", "driver", "535.261.03-*", own_versions=["nvidia-persistenced"])
    assert exact == PREFERENCES.replace("535.247.01-1~deb12u1", "535.261.03-*")
    named = planned_text(PREFERENCES, "debian", "cuda", packages=["libcuda1=535.*", "nvidia-persistenced"])
    assert named == text


def test_what_has_a_version_of_its_own_is_known_to_the_plan() -> None:
    debian = ask("V100", "debian 12", driver_source="distribution")["guards"]
    assert debian["own_versions"] == ["nvidia-persistenced", "nvidia-modprobe"]
    assert ask("V100", "debian 12", driver_source="nvidia")["guards"]["own_versions"] == []
    assert ask("V100", "rhel 8.8")["guards"]["own_versions"] == []


@pytest.mark.parametrize("role", ["system_driver", "system_cuda"])
def test_nothing_is_released_before_it_is_installed(role: str) -> None:
    """The empty list of packages releases a hold: only the last step, when it is not wanted, may say that."""
    for file in (REPOSITORY / "roles" / role / "tasks").glob("*.yml"):
        for task in _all_tasks(yaml.safe_load(file.read_text())):
            include = task.get("ansible.builtin.include_role", {})
            if include.get("name") == "system_version_lock":
                assert task["vars"].get("system_version_lock_packages") != [], file


def _all_tasks(tasks: list) -> list:
    inner = [
        each for task in tasks for word in ("block", "rescue", "always") for each in _all_tasks(task.get(word, []))
    ]
    return [*tasks, *inner]


RPMS = """#!/bin/sh
# rpm -q|-qa --qf FORM NAME...
case "$1 $*" in
  *broken*) echo "error: rpmdb open failed" >&2; exit 1 ;;
esac
if [ "$1" = -q ]; then
  shift 3
  for name; do
    case "$name" in
      nvidia-driver-cuda) echo "nvidia-driver-cuda-3:580.95.05-1.el8.*" ;;
      kmod-nvidia-latest-dkms) echo "kmod-nvidia-latest-dkms-3:580.95.05-1.el8.*" ;;
      *) echo "package $name is not installed"; missing=1 ;;
    esac
  done
  exit ${missing:-0}
fi
echo "nvidia-persistenced-3:580.95.05-1.el8.*"
echo "nvidia-docker2-0:2.14.0-1.*"
"""
DEBS = """#!/bin/sh
# dpkg-query --show --showformat FORM NAME...
shift 3
for name; do
  case "$name" in
    libcuda1) echo "installed libcuda1 535.247.01-1~deb12u1" ;;
    nvidia-removed) echo "config-files nvidia-removed 1" ;;
    "*nvidia*") echo "installed nvidia-smi 535.247.01-1~deb12u1"; echo "installed nvidia-other 999-1" ;;
    broken) echo "dpkg-query: error: database" >&2 ;;
    *) echo "dpkg-query: no packages found matching $name" >&2; missing=1 ;;
  esac
done
exit ${missing:-0}
"""
OURS = [
    "kmod-nvidia-latest-dkms-3:580.95.05-1.el8.*",
    "nvidia-driver-cuda-3:580.95.05-1.el8.*",
]


@pytest.fixture
def hold(run_module, fake_bin, tmp_path: Path):
    fake_bin("rpm", RPMS)
    fake_bin("dpkg-query", DEBS)

    def run(family: str = "redhat", **arguments: Any) -> dict[str, Any]:
        check = arguments.pop("check", False)
        arguments = {"owner": "driver", "family": family, "path": str(tmp_path / "holds"), **arguments}
        return run_module("version_hold", arguments, check=check)

    return run


def test_what_is_installed_is_held_and_others_lines_stay(hold, tmp_path: Path) -> None:
    place = tmp_path / "holds"
    place.write_text("# the site's own\nbash-0:4.4.20-4.el8_6.*\n")
    asked = {"packages": ["nvidia-driver-cuda", "kmod-nvidia-latest-dkms", "not-installed"]}
    foretold = hold(check=True, **asked)
    assert place.read_text() == "# the site's own\nbash-0:4.4.20-4.el8_6.*\n"
    first = hold(**asked)
    assert first["changed"] and first["diff"] == foretold["diff"] and not first["unsupported"]
    assert lines_of(place.read_text(), "driver") == OURS
    assert place.read_text().startswith("# the site's own\nbash-0:4.4.20-4.el8_6.*\ngpuwright-BEGIN-driver-0:0-0.*\n")
    assert hold(**asked)["changed"] is False
    more = hold(**asked, patterns=["*nvidia*"], version="580.95.05")
    assert lines_of(more["diff"][0]["after"], "driver") == [*OURS, "nvidia-persistenced-3:580.95.05-1.el8.*"]
    assert hold(packages=[])["changed"] and place.read_text() == first["before"]


def test_without_its_plugin_nothing_can_be_held(hold, tmp_path: Path) -> None:
    asked = {"packages": ["nvidia-driver-cuda"]}
    assert (hold(**asked)["unsupported"], hold(**asked)["changed"]) == (True, False)
    assert hold(check=True, **asked)["changed"] is True
    assert hold(packages=[])["changed"] is False
    assert not (tmp_path / "holds").exists()


def test_apt_has_a_file_for_each_owner(hold, tmp_path: Path) -> None:
    asked = {"packages": ["libcuda1=535.*", "nvidia-removed"], "patterns": ["*nvidia*"], "version": "535.247.01"}
    done = hold("debian", **asked)
    assert done["changed"] and (tmp_path / "holds").read_text() == PREFERENCES.replace(
        "Package: nvidia-persistenced\nPin: version 525.85.05-1",
        "Package: nvidia-smi\nPin: version 535.247.01-1~deb12u1",
    )
    assert not hold("debian", **asked)["changed"]
    # What is held stays held when nothing of it is installed for the moment, as between two versions.
    assert not hold("debian", packages=["not-installed"])["changed"]
    assert hold("debian", packages=[])["changed"] and not (tmp_path / "holds").exists()
    assert not hold("debian", packages=[])["changed"]


@pytest.mark.parametrize("family", ["redhat", "debian"])
def test_a_database_that_does_not_answer_releases_nothing(hold, tmp_path: Path, family: str) -> None:
    (tmp_path / "holds").write_text(LIST)
    answer = hold(family, packages=["broken"])
    assert answer["failed"] and "error" in answer["msg"] and "[packages.hold]" in answer["msg"]
    assert (tmp_path / "holds").read_text() == LIST


def test_planned_and_put_back(hold, tmp_path: Path) -> None:
    place = tmp_path / "holds"
    assert hold(state="planned", version="590.*")["changed"] is False and not place.exists()
    place.write_text(LIST)
    planned = hold(state="planned", version="590.*")
    assert planned["before"] == LIST and place.read_text() == planned_text(LIST, "redhat", "driver", "590.*")
    assert hold(state="restored", text=planned["before"])["changed"] and place.read_text() == LIST


def test_a_block_stays_where_it_is_and_old_marks_go() -> None:
    moved = listed(LIST, "driver", ["libcuda1-0:1-1.*"])
    assert lines_of(moved, "driver") == ["libcuda1-0:1-1.*"] and lines_of(moved, "cuda") == lines_of(LIST, "cuda")
    assert moved.index("BEGIN-driver") < moved.index("BEGIN-cuda")
    assert listed(LIST, "driver", lines_of(LIST, "driver")) == LIST
    old = LIST.replace("gpuwright-BEGIN-cuda-0:0-0.*", "# BEGIN gpuwright cuda").replace(
        "gpuwright-END-cuda-0:0-0.*", "# END gpuwright cuda"
    )
    assert sorted(listed(old, "cuda", lines_of(LIST, "cuda")).splitlines()) == sorted(LIST.splitlines())


@pytest.mark.parametrize("gone", ["gpuwright-BEGIN-driver-0:0-0.*\n", "gpuwright-END-driver-0:0-0.*\n"])
def test_a_lost_mark_makes_no_second_block_inside_another(gone: str) -> None:
    text = listed(LIST.replace(gone, ""), "driver", OURS)
    assert [text.count(f"gpuwright-{word}-driver-0:0-0.*") for word in ("BEGIN", "END")] == [1, 1]
    assert lines_of(text, "driver") == OURS and lines_of(text, "cuda") == lines_of(LIST, "cuda")
    assert listed(text, "driver", OURS) == text


def test_lines_of_the_package_managers() -> None:
    lines = ["package x is not installed", "a-0:1-1.*", "b-3:580.95.05-1.el8.*", "c-3:580.95.050-1.el8.*"]
    assert rpms(lines, "") == lines[1:] and rpms(lines, "580.95.05") == [lines[2]]
    lines = [
        "installed a 1",
        "config-files b 1",
        "installed c 3:535.247.01-1",
        "installed d 535.247.012-1",
        "installed e 535.247.01",
    ]
    assert debs(lines, "") == [("a", "1"), ("c", "3:535.247.01-1"), ("d", "535.247.012-1"), ("e", "535.247.01")]
    assert debs(lines, "535.247.01") == [("c", "3:535.247.01-1"), ("e", "535.247.01")]
    assert preferences([("libcuda1", "535.247.01-1~deb12u1"), ("nvidia-persistenced", "525.85.05-1")]) == PREFERENCES


def test_who_holds_something() -> None:
    text = listed(listed("mine-0:1-1.*\n", "driver", ["a-0:1-1.*"]), "cuda", ["b-0:1-1.*"])
    assert owners_of(text) == ["cuda", "driver"] and owners_of("mine-0:1-1.*\n") == []
    # Of version 0.1.0, and of a list that somebody has cut in two.
    assert owners_of("# BEGIN gpuwright kernel\n") == ["kernel"]
    assert owners_of(listed(text, "driver", [])) == ["cuda"]


def test_who_holds_something_on_debian(hold, tmp_path: Path) -> None:
    folder = tmp_path / "preferences.d"
    folder.mkdir()
    (folder / "gpuwright-cuda.pref").write_text(PREFERENCES)
    (folder / "site.pref").write_text("")
    asked = {"path": str(folder / "gpuwright-driver.pref")}
    assert hold("debian", packages=["libcuda1"], check=True, **asked)["owners"] == ["cuda", "driver"]
    assert hold("debian", state="planned", version="590.*", **asked)["owners"] == ["cuda"]
    assert hold("debian", packages=["libcuda1"], **asked)["owners"] == ["cuda", "driver"]
    assert hold("debian", owner="cuda", packages=[], path=str(folder / "gpuwright-cuda.pref"))["owners"] == ["driver"]
    assert hold("debian", packages=[], **asked)["owners"] == []
    # Where nothing was ever held, dnf has no list and apt may have no folder.
    assert hold(packages=[], path=str(tmp_path / "none.list"))["owners"] == []
    assert hold("debian", owner="cuda", packages=[], path=str(tmp_path / "none/gpuwright-cuda.pref"))["owners"] == []
