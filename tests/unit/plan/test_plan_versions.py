"""Versions as people write them: a slip, one that was never released, one that is newer, a branch."""

from __future__ import annotations

import copy
from datetime import date, timedelta
from typing import Any

import pytest
from ansible_collections.gpuwright.node.plugins.plugin_utils.plan.solve import solve
from ansible_collections.gpuwright.node.plugins.plugin_utils.software import bulletins
from test_plan_questions import MATRIX, ask, make_host

AS_OF = MATRIX["as_of"]


def reasons(answer: dict[str, Any]) -> str:
    return " ".join(entry["what"] for entry in answer.get("conflicts", []))


def ways_out(answer: dict[str, Any]) -> list[dict[str, str]]:
    return [choice for entry in answer["conflicts"] for choice in entry["choices"]]


@pytest.mark.parametrize("gpu", ["V100", "A100", "B200"])
@pytest.mark.parametrize("branch", ["580", "595"])
def test_a_branch_is_no_exact_version(gpu: str, branch: str) -> None:
    answer = ask(gpu, "rhel 8.10", driver_version=branch)
    assert f'system_driver_version "{branch}" is a branch' in reasons(answer)
    assert "system_driver_branch" in reasons(answer)


def test_the_way_out_of_a_branch_leads_to_its_newest_release() -> None:
    choices = ways_out(ask("A100", "rhel 8.10", driver_version="580"))
    assert {"driver_version": "", "driver_branch": "580"} in choices
    plan = ask("A100", "rhel 8.10", driver_version="", driver_branch="580")
    # With the CUDA of the branch: a bare branch once counted as 580.0, older than what CUDA 13 needs.
    assert (plan["driver"]["branch"], plan["cuda"]["version"]) == ("580", "13.0")


def warnings(answer: dict[str, Any]) -> str:
    assert "conflicts" not in answer, reasons(answer)
    return " ".join(answer["warnings"])


@pytest.mark.parametrize(
    ("version", "words"),
    [
        ("580.190.01", "it is newer than 580.178.04"),
        ("580.999.99", "it is newer than 580.178.04"),
        ("595.104", "it is newer than 595.91.07"),
        ("560.99.99", "it is newer than 560.35.03"),
        ("535.320.01", "it is newer than 535.309.01"),
        ("580.173.02", "it is not on the list, whose nearest is 580.178.04"),
        ("580.95.50", "it is not on the list, whose nearest is 580.95.05"),
        ("580.95", "it is not on the list, whose nearest is 580.95.05"),
        ("620.80.01", "it is newer than 620.70.06"),
    ],
)
def test_a_driver_that_is_on_no_list_is_planned_with_a_warning(version: str, words: str) -> None:
    plan = ask("A100", "rhel 8.10", driver_version=version)
    assert words in warnings(plan) and f"whether {version} was released" in warnings(plan)
    assert plan["driver"]["version"] == version and version in " ".join(plan["driver"]["packages"])


@pytest.mark.parametrize(
    ("version", "words"),
    [
        ("580.99999.1", "is not how NVIDIA writes the version of a driver"),
        ("580.178.4.4.4", "is not how NVIDIA writes the version of a driver"),
        ("580.178.4", "The nearest that is known is 580.178.04"),
        ("580.95.5", "The nearest that is known is 580.95.05"),
        ("595.9", "is not how NVIDIA writes the version of a driver"),
        ("620.1", "is not how NVIDIA writes the version of a driver"),
        ("abc", "is not a version of a known branch"),
        ("580.178.04-1", "is not a version of a known branch"),
        ("58.178.04", "is not a version of a known branch"),
        ("650.10.01", "is not a version of a known branch"),
        ("650.10.01", "Of a newer branch this matrix does not know which GPUs it drives"),
    ],
)
def test_a_slip_in_the_version_of_a_driver_is_refused(version: str, words: str) -> None:
    answer = ask("A100", "rhel 8.10", driver_version=version)
    assert words in reasons(answer), answer
    for choice in ways_out(answer):
        assert "conflicts" not in ask("A100", "rhel 8.10", **{"driver_version": version, **choice})


FIXED = sorted(
    (branch, row["fixed"])
    for bulletin in bulletins.of(MATRIX).bulletins
    for branch, row in bulletin["branches"].items()
)
SYSTEMS = [
    f"{row['id']} {row['version']}"
    for row in MATRIX["os_releases"]
    if row["version"] in ("8.10", "9", "10", "12", "13", "22.04", "24.04")
]


@pytest.mark.parametrize(("branch", "fixed"), FIXED)
def test_every_release_that_a_bulletin_names_as_fixed_is_planned_wherever_its_branch_is(
    branch: str, fixed: str
) -> None:
    there = [system for system in SYSTEMS if "conflicts" not in ask("A100", system, driver_branch=branch)]
    assert there
    for system in there:
        plan = ask("A100", system, driver_version=fixed)
        assert plan["driver"]["version"] == fixed, system
        assert "was released" not in " ".join(plan["warnings"])


@pytest.mark.parametrize("version", ["580.95.05", "580.142", "535.288.01", "550.163.01", "570.211.01"])
def test_a_driver_that_was_released_is_planned(version: str) -> None:
    assert ask("V100", "rhel 8.10", driver_version=version)["driver"]["version"] == version


HOLE = "has known vulnerabilities, the worst of severity HIGH"


@pytest.mark.parametrize(
    ("version", "fixed"), [("580.126.20", "580.178.04"), ("580.159.03", "580.178.04"), ("570.195.03", "570.211.01")]
)
def test_a_pinned_driver_with_a_known_hole_is_planned_with_the_fix(version: str, fixed: str) -> None:
    plan = ask("V100", "rhel 8.10", driver_version=version)
    assert plan["driver"]["version"] == version
    assert f'system_driver_version "{version}" {HOLE}' in warnings(plan)
    assert f"they are fixed in {fixed}" in warnings(plan)


def test_nothing_is_said_of_holes_that_a_release_has_not_or_may_not_have() -> None:
    for pins in ({"driver_version": "580.178.04"}, {"driver_branch": "580"}, {}):
        assert "vulnerabilities" not in warnings(ask("V100", "rhel 8.10", **pins))


def test_a_driver_that_is_there_and_stays_is_compared_too() -> None:
    host = make_host("V100", "rhel 8.10")
    there = {"version": "580.126.20", "flavour": "proprietary"}
    modules = {release: there for release in host["nvidia"]["modules"]}
    host["nvidia"] = {
        "loaded": there,
        "modules": modules,
        "user_space": "580.126.20",
        "nvidia_smi": "/usr/bin/nvidia-smi",
    }
    plan = solve(MATRIX, host, {})
    assert plan["driver"]["present"] and f"Driver 580.126.20, which is there and stays, {HOLE}" in warnings(plan)
    # A pin brings another one.
    assert "vulnerabilities" not in warnings(solve(MATRIX, host, {"driver_version": "580.178.04"}))


@pytest.mark.parametrize(
    ("pins", "system", "packages", "words"),
    [
        ({"cuda": "13.9"}, "rhel 9.6", ["cuda-toolkit-13-9"], "whether CUDA 13.9 was released"),
        ({"cuda": "13.2.1"}, "rhel 9.6", ["cuda-toolkit-13-2"], "are named after 13.2 alone"),
        ({"cuda": "13.9.2"}, "ubuntu 24.04", ["cuda-toolkit-13-9"], "whether CUDA 13.9 was released"),
        ({"cudnn": "9.28.1"}, "rhel 9.6", ["libcudnn9-cuda-13-9.28.1.*-1"], "what holds for cuDNN 9.26.0"),
        ({"cudnn": "9.28.1.12"}, "ubuntu 24.04", ["libcudnn9-cuda-13=9.28.1.12-1"], "cuDNN 9.26.0"),
        ({"cudnn": "9.28"}, "ubuntu 24.04", ["libcudnn9-cuda-13=9.28.*-1"], "cuDNN 9.26.0"),
        ({"cudnn": "9.99"}, "rhel 8.10", ["libcudnn9-cuda-13-9.99.*-1"], "whether cuDNN 9.99 was released"),
        ({"cudnn": "9.10.3"}, "rhel 8.10", ["libcudnn9-cuda-12-9.10.3.*-1"], "whether cuDNN 9.10.3 was released"),
        ({"cudnn": "9.5.1"}, "rhel 8.10", ["libcudnn9-cuda-12-9.5.1.*-1"], "it has no row here"),
        ({"nccl": "2.31.2"}, "rhel 9.6", ["libnccl-2.31.2-1+cuda13.*"], "what holds for NCCL 2.28.9"),
        ({"nccl": "2.99"}, "ubuntu 24.04", ["libnccl2=2.99.*-1+cuda13.*"], "whether NCCL 2.99 was released"),
        ({"pytorch": "2.14.2"}, "rhel 9.6", ["torch==2.14.2"], "whether PyTorch 2.14.2 was released"),
        ({"pytorch": "2.15.1"}, "rhel 9.6", ["torch==2.15.1"], "whether PyTorch 2.15.1 was released"),
        ({"tensorflow": "2.20.1", "pytorch_build": "cpu"}, "rhel 9.6", ["tensorflow==2.20.1"], "2.20.0"),
        ({"python": "3.12.7"}, "rhel 9.6", ["python3.12"], "are named after 3.12 alone"),
    ],
)
def test_a_release_that_is_newer_than_its_row_is_planned_with_a_warning(
    pins: dict[str, str], system: str, packages: list[str], words: str
) -> None:
    plan = ask("A100", system, **pins)
    assert words in warnings(plan)
    planned = [plan["cuda"]["package"], *plan["cudnn"]["packages"], *plan["nccl"]["packages"]]
    planned += [*plan["requirements"], *plan["python"]["packages"]]
    assert set(packages) <= set(planned), planned


@pytest.mark.parametrize("pins", [{"cuda": "13.9"}, {"cudnn": "9.28.1"}, {"nccl": "2.31.2"}, {"pytorch": "2.14.2"}])
def test_such_a_release_is_for_nobody_who_does_not_pin_it(pins: dict[str, str]) -> None:
    # Another pin clashes, and what is offered instead has rows.
    answer = ask("A100", "rhel 9.6", driver_branch="515", driver_version="620.70.06", **pins)
    assert not any(value in choice.values() for choice in ways_out(answer) for value in pins.values())


@pytest.mark.parametrize(
    ("system", "python"),
    [("rhel 9.9", "3.12"), ("rocky 10.7", "3.12"), ("debian 12.15", "3.11"), ("ubuntu 24.04.4", "3.12")],
)
def test_a_minor_release_of_a_known_system_is_that_system(system: str, python: str) -> None:
    assert ask("A100", system)["python"]["version"] == python


NEWER = "is newer than this matrix"
NEVER = "was never released, as far as this matrix knows"
SLIP = "is not known"


@pytest.mark.parametrize(
    ("pins", "words"),
    [
        ({"cuda": "14.0"}, NEWER),
        ({"cuda": "12.7"}, NEVER),
        ({"cuda": "11.9"}, NEVER),
        ({"cuda": "12.O"}, SLIP),
        ({"cuda": "12.9.1.1"}, SLIP),
        ({"nccl": "2.28.9.1"}, SLIP),
        ({"pytorch": "2.14.1.1"}, SLIP),
        ({"cudnn": "10.0"}, NEWER),
        ({"cudnn": "9.10.9"}, NEVER),
        ({"nccl": "3.0"}, NEWER),
        ({"nccl": "2.26.9"}, NEVER),
        ({"pytorch": "2.99"}, NEWER),
        ({"pytorch": "3.0"}, NEWER),
        ({"pytorch": "2.10.5"}, NEVER),
        ({"pytorch": "latest"}, SLIP),
        ({"tensorflow": "2.99"}, NEWER),
        ({"tensorflow": "2.16.0"}, NEVER),
        ({"driver_branch": "625"}, NEWER),
        ({"driver_branch": "581"}, SLIP),
        ({"python": "3.x"}, SLIP),
    ],
)
def test_the_kinds_of_unknown_are_told_apart(pins: dict[str, str], words: str) -> None:
    answer = ask("A100", "rhel 8.10", **pins)
    assert words in reasons(answer), reasons(answer)
    assert reasons(answer).count("Known: ") == 1
    if words != SLIP:
        assert AS_OF in reasons(answer)
    for choice in ways_out(answer):
        assert "conflicts" not in ask("A100", "rhel 8.10", **{**pins, **choice})


@pytest.mark.parametrize("pins", [{"cuda": "14.0"}, {"pytorch": "2.99"}, {"cudnn": "10.0"}, {"tensorflow": "2.99"}])
def test_who_has_something_newer_is_told_which_row_to_add(pins: dict[str, str]) -> None:
    assert "roles/preflight/files/matrix/" in reasons(ask("A100", "rhel 8.10", **pins))


@pytest.mark.parametrize(
    ("gpu", "pins", "words"),
    [
        ("V100", {"cudnn": "9.11"}, "the last cuDNN for volta is 9.10.2"),
        ("V100", {"cudnn": "9.11.1"}, "the last cuDNN for volta is 9.10.2"),
        ("P100", {"cudnn": "9.12.0"}, "the last cuDNN for pascal is 9.10.2"),
        ("V100", {"cudnn": "9.18.1"}, "the last cuDNN for volta is 9.10.2"),
        ("M60", {"cudnn": "9.28.0"}, "the last cuDNN for maxwell is 9.10.2"),
        ("V100", {"cuda": "13.5"}, "the last toolkit for volta is 12.9"),
        ("V100", {"cuda": "13.9"}, "the last toolkit for volta is 12.9"),
        ("P100", {"driver_branch": "625"}, "pascal needs the proprietary module of branch 580 or older"),
        ("V100", {"pytorch": "2.99"}, "has no code for Tesla V100-PCIE-16GB (sm_70)"),
    ],
)
def test_an_unknown_version_does_not_hide_what_rules_it_out_anyway(gpu: str, pins: dict[str, str], words: str) -> None:
    assert words in reasons(ask(gpu, "rhel 8.10", **pins))


def test_an_old_matrix_says_so() -> None:
    matrix = copy.deepcopy(MATRIX)
    host = make_host("A100", "rhel 8.10")
    assert not any("days old" in warning for warning in solve(matrix, {**host, "today": AS_OF}, {})["warnings"])
    for days, old in ((179, False), (181, True), (1000, True)):
        today = (date.fromisoformat(AS_OF) + timedelta(days)).isoformat()
        warnings = solve(matrix, {**host, "today": today}, {})["warnings"]
        assert any("days old" in warning for warning in warnings) is old, today


def test_a_table_that_was_not_compared_for_long_is_named_in_plans_that_rest_on_it() -> None:
    host, tables = make_host("A100", "rhel 8.10"), MATRIX["tables"]

    def told(days: int, table: str, **pins: str) -> str:
        today = date.fromisoformat(tables[table]["as_of"]) + timedelta(days)
        found = solve(MATRIX, {**host, "today": today.isoformat()}, pins)["warnings"]
        return next((text for text in found if text.startswith("Not compared with its sources for long")), "")

    limit = tables["drivers"]["limit_days"]
    assert "drivers" not in told(limit, "drivers") and f"drivers (as of {tables['drivers']['as_of']}" in told(
        limit + 1, "drivers"
    )
    assert "nccl" not in told(limit + 1, "nccl") and "nccl (as of" in told(limit + 1, "nccl", nccl="2.28.9")
    assert "bulletins (as of 2026-09-30, limit 100 days)" in told(limit, "drivers")
    assert told(1, "drivers") == ""


def test_what_ends_after_the_day_of_the_matrix_has_ended() -> None:
    host = make_host("A100", "rhel 8.10")
    for today, ended in (("2027-03-31", False), ("2027-04-01", True)):
        plan = solve(MATRIX, {**host, "today": today}, {"driver_branch": "595"})
        assert any("has had no updates since 2027-03" in text for text in plan["warnings"]) is ended
    # What is chosen does not change by itself on some day.
    assert solve(MATRIX, {**host, "today": "2029-04-01"}, {})["driver"]["branch"] == "620"


def test_a_version_stands_in_one_place() -> None:
    """What has a row was released; listed is what has none."""
    released = MATRIX["released"]
    rows = {kind: {row["version"] for row in MATRIX[kind]} for kind in ("cudnn", "nccl")} | {
        "cuda": set(MATRIX["cuda"])
    }
    for kind in ("pytorch", "tensorflow"):
        rows[kind] = {release for row in MATRIX[kind].values() for release in row["releases"]}
    for kind, versions in rows.items():
        assert versions.isdisjoint(released.get(kind, [])), kind
    for branch, versions in released["driver_version"].items():
        assert branch in MATRIX["drivers"] and all(version.startswith(branch + ".") for version in versions)


def test_a_plan_without_a_lock_says_what_the_run_will_do_and_how_to_make_one() -> None:
    plan = solve({**MATRIX, "locks": []}, make_host("V100"), {})
    warning = next(text for text in plan["warnings"] if "lock file" in text)
    for words in ("site.yml stops", "make lock", "framework_pytorch_allow_unlocked"):
        assert words in warning
