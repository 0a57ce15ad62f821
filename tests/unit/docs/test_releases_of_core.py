"""Which ansible-core the collection takes, what the pages say of it, and what is tried (tests/cores) are the same."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
import yaml
from ansible_collections.gpuwright.node.plugins.lookup.gpu_nodes import OLDEST_ANSIBLE_CORE
from ansible_collections.gpuwright.node.plugins.plugin_utils.plan.input import PINNED_CORE
from packaging.specifiers import SpecifierSet

REPOSITORY = Path(__file__).resolve().parents[3]
sys.path[:0] = [str(REPOSITORY / "tests")]

from cores.releases_of_core import PINNED, RELEASES  # noqa: E402

FIRST, LAST = list(RELEASES)[0], list(RELEASES)[-1]
NEXT = f"{LAST.split('.')[0]}.{int(LAST.split('.')[1]) + 1}"


def test_the_collection_takes_each_release_that_is_tried_and_no_other() -> None:
    takes = SpecifierSet(yaml.safe_load((REPOSITORY / "meta/runtime.yml").read_text())["requires_ansible"])
    assert [version for version in RELEASES.values() if version not in takes] == []
    assert [version for version in ("2.15.13", f"{NEXT}.0", f"{NEXT}.3") if version in takes] == []
    assert ".".join(map(str, OLDEST_ANSIBLE_CORE)) == FIRST and RELEASES[PINNED] == PINNED_CORE


def test_no_minor_release_between_is_left_out() -> None:
    assert [int(minor.split(".")[1]) for minor in RELEASES] == list(range(int(FIRST[2:]), int(LAST[2:]) + 1))
    assert all(version.startswith(f"{minor}.") for minor, version in RELEASES.items())


@pytest.mark.parametrize("page", ["SUPPORT.md", "docs/collection.md", "docs/architecture.md", "CONTRIBUTING.md"])
def test_the_pages_name_the_bounds(page: str) -> None:
    text = (REPOSITORY / page).read_text()
    assert f"to {LAST}" in text and "2.16" in text and NEXT not in text
