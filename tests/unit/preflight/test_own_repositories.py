"""Which repositories a next step names: those of the node's own files, in the channel and the way that it uses."""

from __future__ import annotations

from typing import Any

import pytest
from ansible_collections.gpuwright.node.plugins.plugin_utils import preflight_problems
from ansible_collections.gpuwright.node.plugins.plugin_utils.failures.own_repositories import (
    kernel_step,
    repository_step,
)
from given_facts import as_facts
from gpuwright.sources.named import own_repositories
from host_tree import HostTree
from test_plan_questions import MATRIX, make_host, solve

Named = dict[str, bool]


def rhsm(major: str, channel: str = "", on: tuple[str, ...] = (), builder: bool = True) -> Named:
    middle = f"-{channel}" if channel else ""
    ids = {part: f"rhel-{major}-for-x86_64-{part}{middle}-rpms" for part in ("baseos", "appstream")}
    ids |= {"builder": f"codeready-builder-for-rhel-{major}-x86_64{middle}-rpms"} if builder else {}
    return {name: part in on for part, name in ids.items()}


def step(version: str, named: Named, system: str = "rhel") -> str:
    family = {"8": "el8", "9": "el9", "1": "el10"}[version[0]]
    return repository_step({"id": system, "version": version}, MATRIX["os_families"][family]["repositories"], named)


ON = ("baseos", "appstream")
AZURE = {
    "rhel-9-for-x86_64-baseos-eus-rhui-rpms": True,
    "rhel-9-for-x86_64-appstream-eus-rhui-rpms": False,
    "codeready-builder-for-rhel-9-x86_64-eus-rhui-rpms": False,
    "rhel-9-for-x86_64-baseos-rhui-rpms": False,
    "rhel-9-for-x86_64-appstream-rhui-rpms": False,
}
AWS = {
    "rhel-9-baseos-rhui-rpms": True,
    "rhel-9-appstream-rhui-rpms": True,
    "codeready-builder-for-rhel-9-rhui-rpms": False,
}
GOOGLE = {"rhui-rhel-9-for-x86_64-baseos-rhui-rpms": True, "rhui-rhel-9-for-x86_64-appstream-rhui-rpms": True,
          "rhui-codeready-builder-for-rhel-9-x86_64-rhui-rpms": False}  # fmt: skip


@pytest.mark.parametrize(
    ("version", "named", "wanted", "unwanted"),
    [
        ("9.6", rhsm("9", "eus", ("baseos",)) | rhsm("9"), ["--enable=rhel-9-for-x86_64-appstream-eus-rpms",
         "--enable=codeready-builder-for-rhel-9-x86_64-eus-rpms"], ["-appstream-rpms", "baseos"]),
        ("8.8", rhsm("8", "eus", ON) | rhsm("8"), ["--enable=codeready-builder-for-rhel-8-x86_64-eus-rpms"],
         ["-x86_64-rpms"]),
        ("9.2", rhsm("9", "e4s", ("baseos",)) | rhsm("9"), ["appstream-e4s-rpms"], ["-appstream-rpms"]),
        ("8.6", rhsm("8", "aus", ON, builder=False) | rhsm("8"), ["(AUS) are enabled", "none for builder"],
         ["codeready-builder-for-rhel-8-x86_64-rpms"]),
        ("9", rhsm("9", "", ON), ["subscription-manager repos --enable=codeready-builder-for-rhel-9-x86_64-rpms"],
         ["eus"]),
        ("9.6", AZURE, ["dnf config-manager --set-enabled rhel-9-for-x86_64-appstream-eus-rhui-rpms "
         "codeready-builder-for-rhel-9-x86_64-eus-rhui-rpms"], ["subscription-manager", "-appstream-rhui"]),
        ("9.7", AWS, ["--set-enabled codeready-builder-for-rhel-9-rhui-rpms"], ["subscription-manager", "baseos"]),
        ("9.7", GOOGLE, ["--set-enabled rhui-codeready-builder-for-rhel-9-x86_64-rhui-rpms"], ["subscription-manager"]),
        ("9.7", rhsm("9", "", (*ON, "builder")), ["are enabled", "release --show"], ["--enable"]),
        # A view of Satellite that somebody named.
        ("9.4", {"Acme_RHEL9_BaseOS": True, "Acme_RHEL9_AppStream": False}, ["--enable=Acme_RHEL9_AppStream"],
         ["rhel-9"]),
        ("9.6", {}, ["--enable=rhel-9-for-x86_64-baseos-rpms", "With EUS:", "appstream-eus-rpms", "RHUI"], []),
        ("8.10", {}, ["--enable=rhel-8-for-x86_64-baseos-rpms", "RHUI"], ["eus"]),
        ("9.7", {}, ["--enable=rhel-9-for-x86_64-baseos-rpms"], ["eus"]),
    ],
)  # fmt: skip
def test_the_step_has_the_ids_that_the_node_has(version, named, wanted, unwanted):
    text = step(version, named)
    for words in wanted:
        assert words in text, (words, text)
    for words in unwanted:
        assert words not in text, (words, text)


@pytest.mark.parametrize(("system", "named", "wanted"), [
    ("rocky", {}, "--set-enabled baseos appstream powertools"),
    ("almalinux", {"baseos": True, "appstream": True, "powertools": False}, "--set-enabled powertools`"),
])  # fmt: skip
def test_a_rebuild_is_asked_only_for_what_is_off(system, named, wanted):
    assert wanted in step("8.10", named, system)


@pytest.mark.parametrize(
    ("version", "named", "wanted", "unwanted"),
    [
        ("9.6", rhsm("9", "eus", ON), "are in rhel-9-for-x86_64-appstream-eus-rpms", "older"),
        ("10.0", rhsm("10", "eus", ON), "are in rhel-10-for-x86_64-appstream-eus-rpms", "older"),
        ("8.8", rhsm("8", "eus", ON), "are in rhel-8-for-x86_64-baseos-eus-rpms", "appstream"),
        ("9.6", rhsm("9", "", ON), "with EUS, rhel-9-for-x86_64-appstream-eus-rpms", "older"),
        ("8.10", {}, "release --set", "EUS"),
        ("9.6", AZURE, "are in rhel-9-for-x86_64-appstream-eus-rhui-rpms", "older"),
    ],
)
def test_headers_are_where_the_release_has_them(version, named, wanted, unwanted):
    family = {"8": "el8", "9": "el9", "1": "el10"}[version[0]]
    repositories = MATRIX["os_families"][family]["repositories"]
    text = kernel_step({"id": "rhel", "version": version}, repositories, named)
    assert wanted in text and unwanted not in text and "system_kernel_allow_update" in text


def test_the_files_of_the_node_are_read_as_dnf_reads_them(tmp_path):
    host = HostTree(tmp_path)
    host.put("/etc/os-release", 'ID=rhel\nVERSION_ID="9.6"\n')
    section = "[{}]\nname=x\nbaseurl=https://cdn.test/x\nenabled={}\n"
    text = section.format("rhel-9-for-x86_64-baseos-eus-rpms", 1) + section.format(
        "rhel-9-for-x86_64-appstream-eus-rpms", 0
    )
    text += section.format("rhel-9-for-x86_64-baseos-eus-debug-rpms", 0) + section.format("cuda-rhel9-x86_64", 1)
    text += section.format("rhel-9-for-x86_64-baseos-eus-source-rpms", 0) + section.format(
        "rhel-9-for-x86_64-baseos-eus-rpms", 0
    )
    host.put("/etc/yum.repos.d/redhat.repo", text)
    host.put("/etc/yum.repos.d/broken.repo", "[rhel-9-baseos-rhui-rpms]\nthis is no setting\n")
    found = own_repositories(host.root)
    assert found == {"rhel-9-for-x86_64-baseos-eus-rpms": True, "rhel-9-for-x86_64-appstream-eus-rpms": False}


def test_the_table_of_problems_names_them():
    host: dict[str, Any] = make_host(system="rhel 9.6", kernel={"running": "5.14.0-570.112.1.el9_6.x86_64",
                                     "next_boot": "5.14.0-570.112.1.el9_6.x86_64"})  # fmt: skip
    plan = solve(MATRIX, host, {})
    devel = plan["kernel"]["devel"][0]
    variables = {
        "inventory_hostname": "a5-01",
        "gpu_node_preflight": {"rows": []},
        "__preflight_rehearsal": {"rc": 1, "msg": "Failed", "failures": [f"No package {devel} available."]},
        "__preflight_checks": {"problems": [], "own_repositories": rhsm("9", "eus", ("baseos",))},
        "gpu_node": {**host, "os": {**host["os"], "family": "redhat"}},
        "gpu_node_plan": plan,
    }
    (row,) = preflight_problems.preflight_problems([as_facts(variables)])
    assert "--enable=rhel-9-for-x86_64-appstream-eus-rpms" in row["next"] and "older" not in row["next"]
    assert "rhel-9-for-x86_64-appstream-rpms" not in row["next"]
