"""Somebody who has installed the collection has no site.yml."""

from __future__ import annotations

import re

import healthy_node
import pytest
from gpuwright.checks.all import CHECKS
from gpuwright.verdict.check import judge
from gpuwright.verdict.commands import as_started, lines_of, on_this_node, pasteable


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


@pytest.mark.parametrize(
    ("action", "told"),
    [
        ("Run: modprobe nvidia", "Run: sudo modprobe nvidia"),
        ("Run: systemctl unmask a ; then systemctl start a", "Run: sudo systemctl unmask a ; sudo systemctl start a"),
        ("Run: nvidia-smi -rac ; set the clocks", "Run: sudo nvidia-smi -rac # Set the clocks"),
        # What is read, and all behind it, also if it begins with a program's name.
        ("Run: modprobe x ; modinfo x says why ; rm y", "Run: sudo modprobe x # Modinfo x says why ; Rm y"),
        ("Run: dracut -f (Debian: update-initramfs -u)", "Run: sudo dracut -f # On Debian: sudo update-initramfs -u"),
        ("Run: systemctl a && systemctl b", "Run: sudo systemctl a && sudo systemctl b"),
        # The controller's shell is another one.
        (
            "Run: dnf install -y x ; then ansible-playbook site.yml",
            "Run: sudo dnf install -y x # Then, on the controller: ansible-playbook site.yml",
        ),
        ("Run: ansible-playbook a.yml ; it says why", "Run: ansible-playbook a.yml # It says why"),
        ("Run: sudo gpu-doctor", "Run: sudo gpu-doctor"),
        ("Run: sudo rm x # Done", "Run: sudo rm x # Done"),
        # A folder's name that begins as a program does, and what no shell takes.
        (
            "Run: unset CUDA_VISIBLE_DEVICES ; then run it again.",
            "Run: unset CUDA_VISIBLE_DEVICES # Then run it again.",
        ),
        ("Reseat the card ; then boot", "Reseat the card ; then boot"),
    ],
)
def test_an_action_is_commands_and_then_words(action: str, told: str) -> None:
    assert pasteable(action) == told
    assert pasteable(told) == told
    assert lines_of(told)[0].count(" # ") == 0


def test_each_of_the_words_has_a_line_of_its_own() -> None:
    assert lines_of("Run: sudo a ; sudo b # First ; Second") == ["Run: sudo a ; sudo b", "First", "Second"]
    assert lines_of("Look at # 1 ; and 2") == ["Look at # 1 ; and 2"]


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("Run: ansible-playbook site.yml --tags a", "Run: ansible-playbook site.yml -l a5-01 --tags a"),
        ("x: ansible-playbook gpuwright.node.site", "x: ansible-playbook gpuwright.node.site -l a5-01"),
        ("Run: ansible-playbook playbooks/verify.yml # So", "Run: ansible-playbook playbooks/verify.yml -l a5-01 # So"),
        ("Run: ansible-playbook site.yml -l gpu_nodes", "Run: ansible-playbook site.yml -l gpu_nodes"),
        ("Run: sudo reboot", "Run: sudo reboot"),
    ],
)
def test_a_playbook_is_limited_to_the_node_that_says_it(text: str, told: str) -> None:
    assert on_this_node(text, "a5-01") == told
    assert on_this_node(text, None) == on_this_node(text, "") == text


def test_a_name_that_a_shell_would_take_apart_is_quoted() -> None:
    assert on_this_node("ansible-playbook site.yml", "a b; c") == "ansible-playbook site.yml -l 'a b; c'"
