"""What the checks and preflight are told of the repositories is what the role system_repository is told."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import pytest
import yaml
from ansible_collections.gpuwright.node.plugins.plugin_utils.plan import asked
from conftest import REPOSITORY
from gpuwright.sources.relied import relied_of

ROLE = REPOSITORY / "roles/system_repository"
VENDOR = {"id": "cuda-x", "url": "https://v/x/", "key_fingerprint": "A" * 40, "title": "EPEL"}
PLAN: dict[str, Any] = {
    "epel": VENDOR,
    "kernel": {"packages": ["gcc", "dkms"]},
    "runtime": {"packages": ["jemalloc"]},
    "driver": {"source": "nvidia", "branch": "580", "present": False, "packages": ["d"], "repository": VENDOR},
    "platform": {"packages": []},
    "cuda": {"package": "toolkit"},
    "cudnn": {"packages": []},
    "nccl": {"packages": ["n"]},
}


def rows(family: str, **settings: Any) -> list[dict[str, Any]]:
    known: dict[str, Any] = dict.fromkeys(asked.REPOSITORY_SETTINGS, "")
    known.update(system_kernel_epel_metadata_signed=False, system_driver_repository_metadata_signed="true", **settings)
    nothing: Callable[..., Any] = lambda *args, **words: None  # noqa: E731
    return asked.Asked(known.__getitem__, nothing, nothing, {}).repositories({"os": {"family": family}}, PLAN)


@pytest.mark.parametrize(("family", "ids"), [("redhat", ["epel", "cuda-x"]), ("debian", ["cuda-x"])])
def test_each_has_what_a_check_compares(family: str, ids: list[str]) -> None:
    found = rows(family, system_driver_repository_url="https://me:secret@mirror/x/")
    assert [row["id"] for row in found] == ids
    relied = relied_of(found[-1], family)
    assert (relied.url, relied.also) == ("https://mirror/x/", "https://v/x/")
    assert (relied.packages_signed, relied.metadata_signed, relied.fingerprint) == (True, True, "A" * 40)
    assert found[-1]["packages"] == ["d", "toolkit", "n"]
    assert "secret" not in str(found)


def test_the_container_toolkits_is_there_with_an_engine() -> None:
    row = rows("debian", system_containers_engine="podman", system_containers_repository_key_fingerprint="B" * 40)[-1]
    assert (row["id"], row["packages_signed"], row["metadata_signed"]) == ("nvidia-container-toolkit", False, True)
    known = yaml.safe_load((ROLE / "vars/main.yml").read_text())["__system_repository_containers"]
    assert known == asked.CONTAINERS and row["url"] == known["debian"]


def test_the_role_asks_for_the_same_settings() -> None:
    files = [*(ROLE / "tasks").glob("*.yml"), REPOSITORY / "roles/system_kernel/tasks/repository.yml"]
    text = "\n".join(file.read_text() for file in files)
    for name in asked.REPOSITORY_SETTINGS[1:]:
        assert re.search(rf"\b{name}\b", text), name
