"""Somebody who has installed the collection has no site.yml."""

from __future__ import annotations

import re

import healthy_node
import pytest
from gpuwright.checks.all import CHECKS
from gpuwright.verdict.check import judge
from gpuwright.verdict.commands import as_started


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("Run: ansible-playbook site.yml --tags system", "Run: ansible-playbook gpuwright.node.site --tags system"),
        ("run ansible-playbook playbooks/system.yml -l a5", "run ansible-playbook gpuwright.node.system -l a5"),
        (
            "First look: lspci ; then ansible-playbook site.yml",
            "First look: lspci ; then ansible-playbook gpuwright.node.site",
        ),
        ("ansible-playbook my-site.yml", "ansible-playbook my-site.yml"),
    ],
)
def test_a_command_fits_how_the_toolkit_was_started(text: str, expected: str) -> None:
    assert as_started(text, "collection") == expected
    assert as_started(text, "checkout") == as_started(text, "") == text


def test_the_actions_of_checks_are_written_so() -> None:
    """All checks on a node of which nothing could be read, once for each way."""
    said = {}
    for way in ("checkout", "collection"):
        expectations = {**healthy_node.expectations(), "started_as": way}
        said[way] = [judge(check, {}, expectations)["action"] for check in CHECKS]
        said[way] += [as_started(check.action, way) for check in CHECKS]
    assert any("ansible-playbook site.yml" in text for text in said["checkout"])
    assert not [text for text in said["collection"] if re.search(r"ansible-playbook \S+\.yml", text)]
    assert any("ansible-playbook gpuwright.node.site" in text for text in said["collection"])
