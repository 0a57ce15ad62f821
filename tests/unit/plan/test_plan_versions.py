"""Versions as people write them: a slip, one that was never released or is newer than the matrix, a branch."""

from __future__ import annotations

import copy
from datetime import date, timedelta
from typing import Any

import pytest
from ansible_collections.gpuwright.node.plugins.plugin_utils.plan.solve import solve
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


@pytest.mark.parametrize(
    ("version", "words"),
    [
        ("580.999.99", "is newer than this matrix"),
        ("580.200.01", "is newer than this matrix"),
        ("580.95", "is not a release of branch 580 that this matrix knows"),
        ("580.95.50", "is not a release of branch 580 that this matrix knows"),
        ("535.43.23", "is not a release of branch 535 that this matrix knows"),
        ("560.99.99", "is newer than this matrix"),
    ],
)
def test_a_driver_that_was_never_released_is_refused(version: str, words: str) -> None:
    answer = ask("V100" if not version.startswith("560") else "A100", "rhel 8.10", driver_version=version)
    assert words in reasons(answer), answer
    assert AS_OF in reasons(answer)
    for choice in ways_out(answer):
        gpu = "V100" if not version.startswith("560") else "A100"
        assert "conflicts" not in ask(gpu, "rhel 8.10", **{"driver_version": version, **choice})


@pytest.mark.parametrize("version", ["580.95.05", "580.142", "535.288.01", "550.163.01", "570.211.01"])
def test_a_driver_that_was_released_is_planned(version: str) -> None:
    assert ask("V100", "rhel 8.10", driver_version=version)["driver"]["version"] == version


def test_a_driver_of_a_branch_whose_releases_are_unknown_is_planned_with_a_warning() -> None:
    plan = ask("A100", "rhel 8.10", driver_version="610.57.04")
    assert any("610.57.04" in warning and "was not verified" in warning for warning in plan["warnings"])


NEWER = "is newer than this matrix"
NEVER = "was never released, as far as this matrix knows"
NO_ROW = "was released and has no row"
SLIP = "is not known"


@pytest.mark.parametrize(
    ("pins", "words"),
    [
        ({"cuda": "13.9"}, NEWER),
        ({"cuda": "14.0"}, NEWER),
        ({"cuda": "12.7"}, NEVER),
        ({"cuda": "11.9"}, NEVER),
        ({"cuda": "12.O"}, SLIP),
        ({"cudnn": "9.99"}, NEWER),
        ({"cudnn": "9.18.0"}, NO_ROW),
        ({"cudnn": "9.28"}, NO_ROW),
        ({"cudnn": "9.5.1"}, NO_ROW),
        ({"cudnn": "9.10.9"}, NEVER),
        ({"nccl": "2.28.3"}, NO_ROW),
        ({"nccl": "2.99"}, NEWER),
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


@pytest.mark.parametrize("pins", [{"cuda": "13.9"}, {"pytorch": "2.99"}, {"cudnn": "9.99"}, {"tensorflow": "2.99"}])
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
