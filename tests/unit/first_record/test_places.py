"""What roles write lies where the first record looks."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from conftest import REPOSITORY
from gpuwright.first_record import places

PARAMETERS = {
    "copy": "dest", "template": "dest", "file": "path", "blockinfile": "path", "lineinfile": "path",
    "repository_key": "dest", "yum_repository": "reposdir", "file_tree": "dest", "apt_components": "path",
}  # fmt: skip
# Not of a node's configuration: the controller's, and what the node's own timer makes again.
ELSEWHERE = ("/var/tmp/", "/run/")


def tasks(part: Any) -> Iterator[dict[str, Any]]:
    for each in part or []:
        yield each
        for word in ("block", "rescue", "always"):
            yield from tasks(each.get(word))


def entries(task: dict[str, Any]) -> list[str]:
    """The paths that a task of the module files writes, as far as they stand in it."""
    given = task.get("gpuwright.node.files", {}).get("entries", [])
    return [str(entry["path"]) for entry in given if isinstance(entry, dict) and entry.get("state") != "absent"]


def written() -> Iterator[tuple[str, str]]:
    """(file of the role, the literal beginning of a path that one of its tasks writes)"""
    for file in sorted((REPOSITORY / "roles").glob("*/tasks/*.yml")):
        for task in tasks(yaml.safe_load(file.read_text())):
            for path in entries(task):
                if path.startswith("/"):
                    yield f"{file.parts[-3]}/{file.name}", path.partition("{{")[0]
            for name, parameter in PARAMETERS.items():
                for prefix in ("ansible.builtin.", "gpuwright.node."):
                    value = (task.get(prefix + name) or {}).get(parameter, "") if prefix + name in task else ""
                    words = task.get("loop") if value == "{{ item }}" else [value]
                    for word in words if isinstance(words, list) else []:
                        if str(word).startswith("/"):
                            yield f"{file.parts[-3]}/{file.name}", str(word).partition("{{")[0]


def watched(path: str) -> bool:
    folder = path.rpartition("/")[0] or "/"
    return (
        path in places.FILES
        or path in places.TREES
        or folder in places.NAMES
        or any(path.startswith((f"{tree}/", places.FOLDER)) for tree in (*places.TREES, *places.OWN_TREES))
    )


@pytest.mark.parametrize(("role", "path"), sorted(set(written())))
def test_what_a_role_writes_is_watched(role: str, path: str) -> None:
    assert watched(path) or path.startswith(ELSEWHERE), f"{role} writes {path}, which the first record does not keep"


def test_the_list_is_not_empty() -> None:
    assert len({path for _role, path in written()}) > 15


@pytest.mark.parametrize(
    "path", ["/usr/bin/gpu-run", "/etc/systemd/system/train-gan@.service", "/opt/gpuwright", "/etc/gpuwright/plan.json",
             "/etc/systemd/system/multi-user.target.wants/gpuwright-tuning.service"]
)  # fmt: skip
def test_what_the_toolkit_alone_makes_is_known_by_its_name(path: str) -> None:
    assert places.is_own(path)


@pytest.mark.parametrize("path", ["/etc/yum.repos.d/epel.repo", "/etc/docker/daemon.json", "/usr/bin/gpu-manager"])
def test_what_others_may_make_is_not(path: str) -> None:
    assert not places.is_own(path)


def test_no_place_is_named_twice() -> None:
    assert len(set(places.FILES)) == len(places.FILES)
    inside = [one for one in places.TREES for other in places.TREES if Path(other) in Path(one).parents]
    assert inside == []
