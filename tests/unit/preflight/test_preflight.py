"""What preflight says about a host: each fault is named with evidence and a next step, a healthy host has none."""

from __future__ import annotations

import copy
import json
from collections.abc import Callable, Sequence
from typing import Any

import pytest
from ansible.errors import AnsibleError
from ansible_collections.gpuwright.node.plugins.plugin_utils import operator_run
from ansible_collections.gpuwright.node.plugins.plugin_utils import preflight_problems as problems
from ansible_collections.gpuwright.node.plugins.plugin_utils import preflight_rows as rows_of
from ansible_collections.gpuwright.node.plugins.plugin_utils.plan.solve import solve
from given_facts import as_facts
from gpuwright.preflight.host_checks import find_problems, read_facts
from test_plan_questions import MATRIX, ask, make_host

GIB = 1024
PLENTY = {"device": 1, "free_mib": 78 * GIB, "free_inodes": 5_000_000, "read_only": False}
USE: dict[str, list] = {"gpu_processes": [], "users": [], "jobs": []}


def host(**changes: Any) -> dict[str, Any]:
    reading = {
        "secure_boot": "disabled",
        "secure_boot_because": "",
        "module_key": key("none"),
        "module_signature": None,
    }
    return make_host(**{**reading, "in_use": USE, **changes})


def key(state: str, because: str = "") -> dict[str, Any]:
    paths = {"private_key": "/var/lib/dkms/mok.key", "certificate": "/var/lib/dkms/mok.pub"}
    return {**paths, "made": state != "none", "state": state, "because": because}


def facts(**changes: Any) -> dict[str, Any]:
    folders = ("/etc", "/usr", "/usr/local", "/var", "/opt", "/tmp", "/boot")
    found = {"time": 1000.0, "filesystems": dict.fromkeys(folders, PLENTY), "rpm": "kmod.x86_64\n", "lock_holder": None}
    found |= {"unreachable": [], "unpinned": [], "packages": None, "initramfs_mib": 90, "accounts": {}}
    return {**found, "has": {"cuda": False, "cudnn": False, "environment": False}, **changes}


def wishes(**changes: Any) -> dict[str, Any]:
    asked = {"gpu_count": 1, "gpu_model": "Tesla V100-PCIE-16GB", "allow_missing_gpus": False, "allow_unlocked": False}
    asked |= {"allow_kernel_update": False, "time": 1001.0, "space": MATRIX["space"], "space_percent": 120}
    asked |= {"prepare_secure_boot": False, "secure_boot_password_hash": ""}
    asked |= {"training_user": "trainer", "researchers": [], "packages": [], "packages_lock": {}}
    return {**asked, **changes}


def plan(locks: list[str] | None = None, present: bool = False, **changes: Any) -> dict[str, Any]:
    made = solve(MATRIX if locks is None else {**MATRIX, "locks": locks}, make_host(**changes), {})
    made["driver"]["present"] = present
    return made


def found(the_host: Any = None, the_plan: Any = None, the_facts: Any = None, **asked: Any) -> list[dict[str, Any]]:
    return find_problems(the_host or host(), the_plan or plan(), the_facts or facts(), wishes(**asked))


def test_a_healthy_host_has_no_problem() -> None:
    assert found() == []


def test_one_file_system_must_hold_the_sum() -> None:
    """Each part alone would fit into 20 GiB; driver, toolkit, cuDNN, environment and their downloads do not."""
    small = dict.fromkeys(facts()["filesystems"], {**PLENTY, "free_mib": 20 * GIB})
    assert "are needed" in found(the_facts=facts(filesystems=small))[0]["problem"]
    apart = {name: {**row, "device": number} for number, (name, row) in enumerate(small.items())}
    assert found(the_facts=facts(filesystems=apart)) == []
    assert found(the_facts=facts(filesystems=small), space_percent=0) == []
    done = facts(filesystems=small, has={"cuda": True, "cudnn": True, "environment": True})
    assert found(the_plan=plan(present=True), the_facts=done) == []


NOT_LOCKED = {"path": "/inventory/locks/plan+0.txt", "found": False, "fault": ""}
NOWHERE: dict[str, object] = {
    "name": "epel",
    "url": "http://m/x",
    "variable": "system_kernel_epel_url",
    "why": "HTTP 404 Not Found",
}
NOWHERE["refused"] = False
NO_KEY = {**NOWHERE, "variable": "system_kernel_epel_key_url", "url": "http://m/key"}
TWO_KEYS = {**NO_KEY, "why": "it holds 2 primary keys", "refused": True}
DAMAGED = {"verify": "error: rpmdb: damaged", "check": "", "unfinished": None}
WORKER = {"pid": 7, "name": "python", "user": "alice", "since": "2026-01-05T10:40:00Z"}
IN_USE = {**USE, "gpu_processes": [WORKER, {"pid": None, "name": "unknown: x"}], "jobs": ["slurm job 4"]}
NO_INODES = dict.fromkeys(facts()["filesystems"], {**PLENTY, "free_inodes": 10})


TWICE = facts(rpm="kmod x86_64\nlibs x86_64\nlibs i686\nkmod x86_64\n")


@pytest.mark.parametrize(
    ("changes", "problem", "step", "stops"),
    [
        ({"gpu_count": 2}, "1 of 2 GPUs are there", "preflight_allow_missing_gpus", True),
        ({"gpu_count": 2, "allow_missing_gpus": True}, "1 of 2 GPUs", "preflight_allow", False),
        ({"gpu_count": 0}, "in a node that should have none", "verify_expected_gpu_count: 1", False),
        ({"gpu_model": "Tesla T4"}, "Tesla V100-PCIE-16GB is there, but Tesla T4 is expected", "server and card", True),
        ({"gpu_model": "Tesla V100-PCIE-32GB"}, "is expected", "verify_expected_gpu_model", False),
        ({"time": 1061.5}, "The clock is 62 s behind the controller's", "chronyc", True),
        ({"time": 900.0}, "100 s ahead", "chronyc", True),
        ({"the_host": host(in_use=IN_USE)}, "The GPUs are in use", "Drain", True),
        ({"the_host": host(in_use=IN_USE), "busy": "skip"}, "The GPUs are in use", "gpuwright_busy=wait", True),
        ({"the_host": host(in_use=IN_USE), "busy": "wait"}, "The GPUs are in use", "checks again", False),
        ({"the_host": host(in_use=IN_USE), "busy": "later"}, "The GPUs are in use", "drains this node", False),
        ({"the_host": host(in_use=IN_USE), "busy": "force"}, "The GPUs are in use", "gpuwright_busy=force", False),
        ({"the_facts": facts(rpm=None)}, "rpm database", "rebuilddb", True),
        ({"the_facts": facts(rpm="error: cannot open Packages index")}, "rpm database", "rebuilddb", True),
        ({"the_facts": TWICE}, "installed twice", "Nothing: a run that installs the driver removes", False),
        # No package of the driver would be installed.
        ({"the_facts": TWICE, "the_plan": plan(present=True)}, "installed twice", "--duplicates", True),
        (
            {"the_facts": facts(unpinned=[{"name": "cuda", "key_url": "http://m/k", "key_variable": "x_key_url"}])},
            "The fingerprint of the key of the repository cuda is not known",
            "Read it (`curl -s http://m/k | gpg --show-keys`), compare it with what the vendor says",
            True,
        ),
        ({"the_facts": facts(unreachable=[NOWHERE])}, "The repository epel cannot", "proxy in /etc/dnf/dnf.conf", True),
        ({"the_facts": facts(unreachable=[NO_KEY])}, "The key of the repository epel", "curl -I http://m/key", True),
        (
            {"the_facts": facts(unreachable=[TWO_KEYS])},
            "The key file of the repository epel is refused",
            "name its address in system_kernel_epel_key_url",
            True,
        ),
        ({"the_facts": facts(packages=DAMAGED)}, "rpm database is damaged", "rpm --rebuilddb", True),
        ({"the_facts": facts(lock_holder={"pid": 9, "command": "dnf"})}, "is running", "Nothing", False),
        ({"the_facts": facts(filesystems=NO_INODES)}, "inodes free", "df -i", True),
        ({"the_facts": facts(filesystems={**facts()["filesystems"], "/opt": None})}, "cannot be read", "df /opt", True),
        ({"the_plan": plan(locks=[])}, "There is no lock file", "framework_pytorch_allow_unlocked", True),
        ({"the_plan": plan(locks=[]), "allow_unlocked": True}, "There is no lock file", "lock.yml", False),
        ({"packages": ["lpips"], "packages_lock": NOT_LOCKED}, "There is no lock file of framework", "lock.yml", True),
        (
            {"packages": ["lpips"], "packages_lock": {**NOT_LOCKED, "fault": "'lpips' is nothing"}},
            "An entry of framework_pytorch_packages",
            "Correct the entry",
            True,
        ),
    ],
)
def test_each_fault_is_named(changes: dict[str, Any], problem: str, step: str, stops: bool) -> None:
    rows = found(**changes)
    assert len(rows) == 1, rows
    assert problem in rows[0]["problem"] and rows[0]["evidence"] and step in rows[0]["next"]
    assert rows[0]["stops"] is stops


def test_what_stays_is_no_problem() -> None:
    """A driver that is there already suffers neither Secure Boot nor the jobs on it."""
    busy = host(in_use=IN_USE, secure_boot="enabled")
    assert found(busy, plan(present=True)) == []
    assert found(the_facts=facts(rpm="libs.x86_64\nlibs.i686\npackage x is not installed\n")) == []
    assert found(the_facts=facts(time=0.0), time=None) == []


def test_who_works_is_told_with_user_and_start() -> None:
    (row,) = found(host(in_use=IN_USE))
    assert row["evidence"] == "python (pid 7, alice, since 2026-01-05T10:40:00Z); unknown: x; slurm job 4"


def test_an_unlocked_plan_warns() -> None:
    assert any("There is no lock file" in warning for warning in plan(locks=[])["warnings"])


def test_the_module_reports_and_never_fails(run_module: Callable[..., dict], fake_bin: Callable) -> None:
    fake_bin("rpm", "#!/bin/sh\necho 'error: rpmdb is damaged'\n")
    arguments = {"host": host(), "plan": plan(), "space": MATRIX["space"], "gpu_count": 3, "space_percent": 0}
    for check in (False, True):
        answer = run_module("preflight_checks", json.loads(json.dumps(arguments)), check=check)
        assert (answer["changed"], answer["rc_process"]) == (False, 0)
        assert ["1 of 3" in row["problem"] or "rpm" in row["problem"] for row in answer["problems"]] == [True, True]


def test_facts_are_read_below_a_root(tmp_path: Any) -> None:
    for folder in ("usr/local/cuda-12.9", "var", "tmp"):
        (tmp_path / folder).mkdir(parents=True)
    asked = []

    def ask(command: Sequence[str]) -> str:
        asked.append(command)
        return "x"

    read = read_facts(plan(), ask, root=str(tmp_path))
    assert read["has"] == {"cuda": True, "cudnn": False, "environment": False}
    assert read["filesystems"]["/opt"] is None and read["filesystems"]["/var"]["free_mib"] >= 0
    assert asked[0][:2] == ["rpm", "-q"] and "nvidia-driver-cuda" in asked[0]


@pytest.mark.parametrize("pins", [{"driver_branch": "580"}, {"driver_version": "580.95.05"}])
@pytest.mark.parametrize("system", ["rhel 8.10", "rhel 10.1"])
def test_rpm_is_asked_once_for_each_package(tmp_path: Any, system: str, pins: dict[str, str]) -> None:
    """rpm takes a version, also a pattern of one: under two names a package would be called installed twice."""
    asked: list[list[str]] = []

    def answer(command: list[str]) -> str:
        asked.append(command)
        return ""

    read_facts(ask("T4", system, **pins), answer, root=str(tmp_path))
    names = asked[0][asked[0].index("%{NAME} %{ARCH}\\n") + 1 :]
    assert "nvidia-driver-cuda" in names and not any("580" in name for name in names)


def test_repositories_matter_where_packages_are_missing(tmp_path: Any) -> None:
    rows = [
        {"name": "epel", "packages": ["dkms"], "key_fingerprint": ""},
        {"name": "cuda", "packages": ["driver"], "key_fingerprint": ""},
    ]
    asked = []

    def look(needed: list[dict], major: int, root: str, family: str, passwords: None) -> list[dict]:
        asked.append(([row["name"] for row in needed], major))
        return []

    def missing(names: list[str], family: str) -> list[str]:
        return [name for name in names if name == "dkms"]

    def ask(command: list[str]) -> str:
        return ""

    system = {"family": "redhat", "major": 9}
    read = read_facts(plan(), ask, str(tmp_path), rows, system, look, missing)
    assert asked == [(["epel"], 9)] and read["packages"] == {"verify": "", "check": "", "unfinished": None}
    # A key is asked for where something will be installed.
    assert [row["name"] for row in read["unpinned"]] == ["epel"]
    pinned = [dict(row, key_fingerprint="A" * 40) for row in rows]
    assert read_facts(plan(), ask, str(tmp_path), pinned, system, look, missing)["unpinned"] == []
    asked = asked[:1]
    calm = read_facts(plan(), ask, str(tmp_path), rows, system, look, lambda names, family: [])
    assert (calm["unreachable"], calm["packages"]) == ([], None)
    # dpkg keeps no history like dnf's; what it left unfinished is set up before anything is installed.
    debian = read_facts(plan(), ask, str(tmp_path), rows, {"family": "debian", "major": 12}, look, missing)
    assert (debian["rpm"], debian["packages"]) == ("", None)
    assert len(asked) == 2


def test_a_package_manager_that_cannot_be_asked_lacks_everything(tmp_path: Any) -> None:
    def broken(names: list[str], family: str) -> list[str]:
        raise OSError("rpm cannot say what is installed")

    rows = [{"name": "epel", "packages": ["dkms"]}]
    read = read_facts(plan(), lambda command: "", str(tmp_path), rows, None, lambda *seen: ["asked"], broken)
    assert read["unreachable"] == ["asked"]


@pytest.mark.parametrize("rehearsal", [{"changed": True}, {"msg": "No package matching 'dkms' is available"}])
def test_lists_that_apt_cannot_read_are_the_problem(rehearsal: dict[str, Any]) -> None:
    node = make_host("V100", "debian 12")
    node["os"]["family"] = "debian"
    found = {
        "inventory_hostname": "cut-off",
        "__preflight_lists": {"msg": "Failed to update apt cache: Failed to fetch http://mirror.example/InRelease"},
        "gpu_node_preflight": {"rows": []},
        "__preflight_rehearsal": rehearsal,
        "gpu_node": node,
        "gpu_node_plan": plan(system="debian 12"),
    }
    (row,) = problems.preflight_problems([as_facts(found)])
    assert row["stops"] and "http://mirror.example/InRelease" in row["problem"] and "dkms" not in row["problem"]
    found["__preflight_lists"] = {"changed": False}
    assert [row["problem"][:9] for row in problems.preflight_problems([as_facts(found)])] == ["Packages:"] * (
        "msg" in rehearsal
    )


def test_all_problems_of_all_hosts_are_one_table() -> None:
    conflict = solve(MATRIX, make_host(), {"cuda": "13.0"})["conflicts"]
    dnf = {"rc": 1, "msg": "x", "failures": ["No package kernel-devel-4.18.0-1.el8.x86_64 available."]}
    made = copy.deepcopy(plan())
    made["kernel"]["devel"] = ["kernel-devel-4.18.0-1.el8.x86_64"]
    hosts = [
        {"inventory_hostname": "good", "gpu_node_preflight": {"rows": []}},
        {"inventory_hostname": "away", "gpu_node_preflight": {"rows": [rows_of.unreached_row("no route", "away", {})]}},
        {"inventory_hostname": "typo", "gpu_node_preflight": {"rows": rows_of.variable_rows(["one", "two"])}},
        {
            "inventory_hostname": "clash",
            "gpu_node_preflight": {"rows": rows_of.plan_rows({"conflicts": conflict, "msg": "No plan"})},
        },
        {
            "inventory_hostname": "stale",
            "gpu_node_preflight": {"rows": []},
            "__preflight_rehearsal": dnf,
            "__preflight_checks": {"problems": [{"problem": "p", "evidence": "e", "next": "n", "stops": False}]},
            "gpu_node": host(),
            "gpu_node_plan": made,
        },
    ]
    rows = problems.preflight_problems(map(as_facts, hosts))
    assert [row["host"] for row in rows] == ["away", "typo", "typo", "clash", "stale", "stale"]
    table = problems.problem_table(rows)
    assert table.startswith("5 problem(s) on 4 host(s). Nothing was changed.")
    for words in ('system_cuda_version: "12.9"', "cannot be built for kernel 4.18.0-1.el8.x86_64", "remark: p", "EUS"):
        assert words in table
    assert "subscription-manager repos --enable=rhel-8-for-x86_64-baseos-rpms" in table
    assert "good" not in table


def lock_rows(holder: dict[str, Any] | None, damaged: str = "") -> list[dict[str, Any]]:
    rows = rows_of.lock_rows({"holder": holder, "damaged": damaged})
    return problems.preflight_problems(
        [as_facts({"inventory_hostname": "a5-01", "gpu_node_preflight": {"rows": rows}})]
    )


def test_another_run_on_the_host_is_a_remark() -> None:
    own = {**operator_run.claim(), "since": "2026-01-05T10:00:00Z"}
    assert lock_rows(None) == [] and lock_rows(own) == []
    (row,) = lock_rows({**own, "run": "ctl-2:7:8", "who": "alice", "machine": "other:boot:1"})
    assert not row["stops"] and "alice" in row["problem"] and row["problem"].endswith("[operator.busy]")
    # A run of this controller that has ended holds nothing.
    assert lock_rows({**own, "run": "x:1:2", "pid": 2**22 + 1, "started": "1"}) == []
    (row,) = lock_rows(None, "/run/gpuwright/operator.json is damaged: it has no usable value for pid")
    assert not row["stops"] and "has no usable value for pid" in row["evidence"]


def stop(what: str, **more: Any) -> dict[str, Any]:
    return {"host": "a", "problem": what, "evidence": "e", "next": f"mend {what}", "stops": True, **more}


@pytest.mark.parametrize(
    ("rows", "kind"),
    [
        ([stop("x", kind="busy")], "busy"),
        ([stop("x", kind="busy"), stop("y", kind="busy")], "busy"),
        ([stop("x", kind="busy"), stop("y")], "refused"),
        ([stop("x", kind="unreachable")], "unreachable"),
        ([stop("x", kind="unreachable"), stop("y", kind="busy")], "refused"),
        ([stop("x")], "refused"),
    ],
)
def test_a_host_is_busy_only_where_nothing_else_is_wrong(rows: list[dict[str, Any]], kind: str) -> None:
    told = problems.left_out(rows)
    assert told["kind"] == kind and [row["problem"] for row in told["problems"]] == [row["problem"] for row in rows]
    assert all(f"mend {row['problem']}" in told["next"] and row["problem"] in told["reason"] for row in rows)


def test_what_a_host_says_is_no_template_for_ansible() -> None:
    told = problems.left_out([stop("{{ lookup('pipe', 'id') }}")])
    for text in (told["reason"], told["next"], told["problems"][0]["problem"]):
        assert getattr(text, "__UNSAFE__", False)


def test_work_on_the_gpus_is_the_row_that_is_busy() -> None:
    use = {**USE, "gpu_processes": [{"pid": 7, "name": "python3"}]}
    assert [row["kind"] for row in found(host(in_use=use))] == ["busy"]


@pytest.mark.parametrize(
    ("hosts", "common"),
    [
        ([["a", "b"], ["b", "a"]], ["a", "b"]),
        ([["a", "b"], ["b"]], ["b"]),
        ([["a"], []], []),
        ([["a"]], ["a"]),
        ([], []),
    ],
)
def test_what_is_wrong_on_every_host(hosts: list[list[str]], common: list[str]) -> None:
    found = [as_facts({"gpu_node_preflight": {"variables": lines}}) for lines in hosts]
    assert problems.common_problems(found) == common
    # One that an earlier play has left out was not asked, and is no reason to go on.
    left_out = {"gpu_node_left_out": {"kind": "busy"}}
    assert problems.common_problems([*found, left_out]) == common
    with pytest.raises(AnsibleError, match=r"a9: the fact gpu_node_preflight is missing.*\[fact.missing\]"):
        problems.common_problems([*found, {"inventory_hostname": "a9"}])


def test_the_same_remarks_of_many_hosts_are_told_once() -> None:
    remark = {"problem": "p", "evidence": "", "next": "", "stops": False}
    rows = [{"host": name, **remark} for name in ("a", "b")] + [{"host": "c", **remark, "problem": "q"}]
    assert problems.problem_table(rows) == (
        "3 remark(s), none of which stops a host.\n\na, b\n  1. remark: p\n\nc\n  1. remark: q"
    )
