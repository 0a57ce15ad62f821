"""Boards with NVSwitches in preflight: what no row knows is refused, and only where something would be installed."""

from __future__ import annotations

import platform_hosts
import pytest
import yaml
from ansible_collections.gpuwright.node.plugins.plugin_utils.plan.question import imagined_host
from ansible_collections.gpuwright.node.plugins.plugin_utils.plan.solve import solve
from conftest import REPOSITORY
from gpuwright.preflight.unknown_board import platform_problems
from gpuwright.probe.board import read_platform
from gpuwright.probe.hardware import read_gpus
from host_tree import HostTree
from test_plan_questions import MATRIX, make_host


def seen(folder, name: str) -> dict:
    tree = HostTree(folder)
    getattr(platform_hosts, name)(tree)
    gpus = read_gpus(tree.root)
    return {"gpus": gpus, "platform": read_platform(tree.root, gpus, "x86_64")}


@pytest.mark.parametrize(
    "name", ["switches_of_an_unknown_id", "b200_of_an_unknown_id", "hopper_behind_ampere_switches"]
)
def test_a_board_that_no_row_knows_is_refused(tmp_path, name):
    host = seen(tmp_path, name)
    (row,) = platform_problems(host)
    assert row["stops"] and row["id"] == "platform.unknown" and row["evidence"] == host["platform"]["because"]
    assert "fabric-manager-user-guide" in row["next"] and "playbooks/verify.yml" in row["next"]


@pytest.mark.parametrize(
    "name", ["dgx_2", "dgx_a100", "hgx_h100", "hgx_b200", "a100_pcie", "v100_sxm2", "hgx_a100_four"]
)
def test_what_is_known_is_no_problem(tmp_path, name):
    assert platform_problems(seen(tmp_path, name)) == []


def test_a_board_whose_switches_are_elsewhere_is_a_remark(tmp_path):
    (row,) = platform_problems(seen(tmp_path, "b200_in_a_vm"))
    assert not row["stops"] and "lspci -d 15b3:1021" in row["evidence"]


def test_a_record_of_an_older_probe_says_nothing():
    assert platform_problems({"gpus": []}) == []


def test_a_verification_of_such_a_board_is_not_refused(tmp_path):
    """It has a plan, and the playbook leaves the host's checks out."""
    host = {**make_host("V100", "rhel 9.6"), **seen(tmp_path, "hopper_behind_ampere_switches")}
    assert "conflicts" not in solve(MATRIX, host, {})
    play = yaml.safe_load((REPOSITORY / "playbooks/verify.yml").read_text())[0]
    assert play["vars"]["preflight_host_checks"] is False


@pytest.mark.parametrize("system", ["rhel 9.6", "ubuntu 24.04"])
def test_a_node_of_nvl72_is_verified_and_not_installed(system):
    """Its processor is aarch64, on which this version installs nothing."""
    host = {
        name: value
        for name, value in imagined_host("4x GB200", system, releases=MATRIX["os_releases"]).items()
        if name != "imagined"
    }
    assert "installs only on x86_64" in solve(MATRIX, host, {})["conflicts"][0]["what"]
    plan = solve(MATRIX, {**host, "only_judged": True}, {})
    assert plan["driver"]["branch"] and "installs nothing on" in plan["warnings"][0]


def test_only_what_judges_takes_a_processor_on_which_nothing_is_installed():
    """The verification does, as a playbook and as a role alone, and playbooks that bring no plan about."""
    book = {path.name: yaml.safe_load(path.read_text()) for path in (REPOSITORY / "playbooks").glob("*.yml")}
    said = {name for name, plays in book.items() for play in plays if play.get("vars", {}).get("preflight_judges_only")}
    assert said == {"verify.yml", "patch.yml", "rollback.yml", "sweep.yml", "uninstall.yml"}
    role = yaml.safe_load((REPOSITORY / "roles/verify/tasks/ready.yml").read_text())
    assert role[0]["vars"]["preflight_judges_only"] is True
