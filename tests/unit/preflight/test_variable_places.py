"""A message about a variable says where it was set, by what Ansible itself remembers of it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from ansible import context
from ansible.module_utils.common.collections import ImmutableDict
from ansible.parsing.dataloader import DataLoader
from ansible_collections.gpuwright.node.plugins.plugin_utils.variables.place import place_of, with_places

GROUP = """---
# The group's.
system_driver_branch: 580
system_cuda_version: "12.9"
system_reboot_policy:
framework_pytorch_allow_unlocked: yes  # for now
verify_expected_mig:
  all: [3g.20gb]
verify_skip_checks: [gpu.sram]
"""


@pytest.fixture
def site(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / "group vars").mkdir()
    (tmp_path / "group vars/gpu_nodes.yml").write_text(GROUP)
    (tmp_path / "hosts.yml").touch()
    given = {"extra_vars": ("system_cuda_version=12.6", '{"a": 1, "verify_level": "deep"}', "@more.yml")}
    monkeypatch.setattr(context, "CLIARGS", ImmutableDict(given | {"inventory": (str(tmp_path / "hosts.yml"), "a,")}))
    monkeypatch.chdir(tmp_path)
    return tmp_path


def read(path: Path) -> dict[str, Any]:
    found = DataLoader().load_from_file(str(path))
    assert isinstance(found, dict)
    return found


@pytest.mark.parametrize(
    ("name", "place"),
    [
        ("system_driver_branch", "set in group vars/gpu_nodes.yml:3"),
        ("system_cuda_version", "set on the command line"),
        ("verify_level", "set on the command line"),
        ("system_reboot_policy", "set in group vars/gpu_nodes.yml:5"),
        ("framework_pytorch_allow_unlocked", "set in group vars/gpu_nodes.yml:6"),
        ("verify_skip_checks", "set in group vars/gpu_nodes.yml:9"),
    ],
)
def test_the_place_is_told(site: Path, name: str, place: str) -> None:
    variables = {**read(site / "group vars/gpu_nodes.yml"), "verify_level": "deep"}
    assert place_of(name, variables) == place


def test_of_two_files_the_one_that_counts_is_told_or_none(site: Path) -> None:
    """Ansible keeps the name of the first file beside the value of the second."""
    (site / "host.yml").write_text('system_driver_branch: "575"\nverify_expected_gpu_count: 2\n')
    (site / "late.yml").write_text("verify_expected_gpu_count: 3\n")
    known = read(site / "group vars/gpu_nodes.yml") | read(site / "host.yml") | read(site / "late.yml")
    assert place_of("system_driver_branch", known) == "set in host.yml:1"
    # A number has no place before ansible-core 2.19; never that of the value that lost.
    told = place_of("verify_expected_gpu_count", known)
    assert told in ("set in late.yml:1", "to find where it is set: grep -rnw verify_expected_gpu_count .")


def test_what_a_value_holds_is_no_variable_of_the_command_line(site: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    given = ("drain_reason='swap system_driver_branch=580'", '{"site": {"verify_skip_checks": []}}')
    monkeypatch.setattr(context, "CLIARGS", ImmutableDict({"extra_vars": given}))
    known = read(site / "group vars/gpu_nodes.yml")
    for name in ("system_driver_branch", "verify_skip_checks"):
        assert place_of(name, known).startswith("set in group vars/")


def test_a_message_has_the_place_before_its_id(site: Path) -> None:
    known = {**read(site / "group vars/gpu_nodes.yml"), "system_drivr": "x"}
    lines = [
        "system_driver_branch: must be text (given: 580) [variable.value]",
        "system_reboot_policy has no value [variable.value]",
        "unknown variable system_drivr, did you mean system_driver? [variable.unknown]",
        "of no variable [variable.value]",
        "verify_skip_checks: must be such as {all: [3g.20gb]}",
    ]
    # Variables of a site, whose names are words of a message.
    known |= {"unknown": 1, "variable": 2, "all": 3}
    assert with_places(lines, known) == [
        "system_driver_branch: must be text (given: 580; set in group vars/gpu_nodes.yml:3) [variable.value]",
        "system_reboot_policy has no value (set in group vars/gpu_nodes.yml:5) [variable.value]",
        "unknown variable system_drivr, did you mean system_driver? "
        "(to find where it is set: grep -rnw system_drivr .) [variable.unknown]",
        "of no variable [variable.value]",
        "verify_skip_checks: must be such as {all: [3g.20gb]} (set in group vars/gpu_nodes.yml:9)",
    ]
