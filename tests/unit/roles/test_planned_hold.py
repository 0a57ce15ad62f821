"""While a held package changes, it may go to the planned version and nowhere else: what apt and dnf are told then."""

from __future__ import annotations

import re
from fnmatch import fnmatch

import pytest
import yaml
from ansible_collections.gpuwright.node.plugins.filter import planned_hold as _module
from conftest import REPOSITORY
from test_plan_questions import ask
from text_parts import part_of

planned_hold = _module.planned_hold

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
    text = planned_hold(LIST, "redhat", "driver", version)
    found = lines_of(text, "driver")
    assert len(found) == 3
    for name in ("kmod-nvidia-latest-dkms", "libnvidia-ml", "nvidia-driver-cuda"):
        own = [line for line in found if line.startswith(name + "-5")]
        assert len(own) == 1
        assert all(locks(own[0], name, evr) for evr in allowed), own
        assert not any(locks(own[0], name, evr) for evr in refused), own
    # Nobody else's lines change, and a run that is cut off and begun again for another version finds its way.
    assert text.replace("\n".join(found), "") == LIST.replace("\n".join(lines_of(LIST, "driver")), "")
    assert planned_hold(text, "redhat", "driver", "590.*") == planned_hold(LIST, "redhat", "driver", "590.*")


def test_packages_are_named_one_by_one_where_each_has_its_own_version() -> None:
    wanted = ["cuda-toolkit-12-9", "libcudnn9-cuda-12-9.10.2.21-1", "libnccl-2.27.5-1+cuda12.9"]
    text = planned_hold(LIST, "redhat", "cuda", packages=wanted)
    kept, cudnn, nccl = lines_of(text, "cuda")
    assert kept == "cuda-toolkit-12-9-0:12.9.1-1.*"
    assert locks(cudnn, "libcudnn9-cuda-12", "0:9.10.2.21-1") and not locks(cudnn, "libcudnn9-cuda-12", "0:9.13.0.50-1")
    assert locks(nccl, "libnccl", "0:2.27.5-1+cuda12.9") and not locks(nccl, "libnccl", "0:2.28.3-1+cuda13.0")
    assert lines_of(text, "driver") == lines_of(LIST, "driver")
    # Begun again for another version.
    other = planned_hold(text, "redhat", "cuda", packages=["libcudnn9-cuda-12-9.13.0.50-1"])
    assert locks(lines_of(other, "cuda")[1], "libcudnn9-cuda-12", "0:9.13.0.50-1")


def test_apt_may_bring_the_planned_driver_and_no_other() -> None:
    text = planned_hold(PREFERENCES, "debian", "driver", "535.*", own_versions=["nvidia-persistenced"])
    assert text == PREFERENCES.replace("535.247.01-1~deb12u1", "535.*")
    exact = planned_hold(text, "debian", "driver", "535.261.03-*", own_versions=["nvidia-persistenced"])
    assert exact == PREFERENCES.replace("535.247.01-1~deb12u1", "535.261.03-*")
    named = planned_hold(PREFERENCES, "debian", "cuda", packages=["libcuda1=535.*", "nvidia-persistenced"])
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
