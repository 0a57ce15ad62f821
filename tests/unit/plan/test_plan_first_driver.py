"""From which driver on a card is driven: by the card, not by its architecture.

Read in the tables of github.com/NVIDIA/open-gpu-kernel-modules: README.md at each tag of a release, betas for
Vulkan left out.
"""

from __future__ import annotations

from typing import Any

import pytest
from ansible_collections.gpuwright.node.plugins.plugin_utils.plan.question import imagined_host
from ansible_collections.gpuwright.node.plugins.plugin_utils.plan.solve import solve
from gpuwright.gpu.cards import CARDS, card_of, first_driver
from test_plan_questions import MATRIX


def answer(card: str, system: str = "rhel 8.10", **pins: str) -> dict[str, Any]:
    return solve(MATRIX, imagined_host(card, system), pins)


def reasons(plan: dict[str, Any]) -> str:
    return " ".join(entry["what"] for entry in plan.get("conflicts", []))


@pytest.mark.parametrize(
    ("card", "branch", "first"),
    [
        ("NVIDIA B300 SXM6 AC", "570", "580.82.07"),
        ("NVIDIA B300 SXM6 AC", "575", "580.82.07"),
        ("NVIDIA H200", "525", "550.90.07"),
        ("NVIDIA H200", "535", "550.90.07"),
        ("NVIDIA H200", "545", "550.90.07"),
        ("NVIDIA H200 NVL", "550", "565.57.01"),
        ("NVIDIA GeForce RTX 5050", "570", "575.64.03"),
        ("NVIDIA RTX PRO 6000 Blackwell Server Edition", "570", "575.57.08"),
        ("NVIDIA L40S", "525", "535.104.05"),
        ("NVIDIA H100 NVL", "525", "535.104.05"),
        ("NVIDIA H20", "525", "535.161.07"),
        # Devices that no row names: the first card of their chip.
        ("10de:3190", "570", "580.82.07"),
    ],
)
def test_an_older_branch_is_refused_with_the_first_driver(card: str, branch: str, first: str) -> None:
    refused = answer(card, driver_branch=branch)
    assert first in reasons(refused), refused
    for entry in refused["conflicts"]:
        assert entry["choices"]
        for choice in entry["choices"]:
            assert "conflicts" not in answer(card, **{"driver_branch": branch, **choice})


@pytest.mark.parametrize(
    ("card", "pins"),
    [
        ("NVIDIA H200", {"driver_branch": "550"}),
        ("NVIDIA B300 SXM6 AC", {"driver_branch": "580"}),
        ("NVIDIA GeForce RTX 5050", {"driver_branch": "575"}),
        # Later releases of 570 know cards that its first ones did not.
        ("NVIDIA RTX PRO 5000 Blackwell", {"driver_branch": "570"}),
        ("NVIDIA RTX PRO 5000 Blackwell", {"driver_version": "570.153.02"}),
        ("NVIDIA L40S", {"driver_branch": "535"}),
        ("NVIDIA H20", {"driver_branch": "535"}),
        ("Tesla T4", {"driver_branch": "525"}),
        ("NVIDIA A100-SXM4-40GB", {"driver_branch": "470"}),
    ],
)
def test_the_first_branch_and_later_ones_are_planned(card: str, pins: dict[str, str]) -> None:
    assert "conflicts" not in answer(card, **pins), reasons(answer(card, **pins))


@pytest.mark.parametrize(
    ("card", "version", "first"),
    [
        ("NVIDIA RTX PRO 5000 Blackwell", "570.86.16", "570.153.02"),
        ("NVIDIA H200", "550.54.14", "550.90.07"),
        ("NVIDIA B300 SXM6 AC", "580.65.06", "580.82.07"),
        # In 535 before it was in 550: each branch counts for itself.
        ("NVIDIA H20-3e", "550.54.14", "550.127.08"),
    ],
)
def test_an_exact_version_must_be_new_enough(card: str, version: str, first: str) -> None:
    assert first in reasons(answer(card, driver_version=version))


@pytest.mark.parametrize(
    ("card", "branch"),
    [("NVIDIA H20", "545"), ("NVIDIA GeForce RTX 4090 D", "545"), ("NVIDIA H20-3e", "560"),
     ("NVIDIA RTX PRO 2000 Blackwell", "575")],
)  # fmt: skip
def test_a_branch_that_never_got_the_card_is_refused(card: str, branch: str) -> None:
    assert f"no release of branch {branch} drives it" in reasons(answer(card, driver_branch=branch))


@pytest.mark.parametrize("branch", ["515", "525", "535", "545", "550", "555"])
@pytest.mark.parametrize("card", ["NVIDIA GeForce RTX 3090", "NVIDIA RTX A6000", "Quadro RTX 6000"])
def test_geforce_and_workstation_cards_have_no_open_module_before_560(card: str, branch: str) -> None:
    refused = answer(card, driver_branch=branch, driver_flavour="open")
    assert "beta for all but data-centre cards" in reasons(refused), refused
    assert "conflicts" not in answer(card, driver_branch=branch)


@pytest.mark.parametrize(
    ("card", "branch"), [("NVIDIA A100-PCIE-40GB", "515"), ("Tesla T4", "550"), ("RTX 3090", "560")]
)
def test_the_open_module_is_for_data_centre_cards_before_560_and_then_for_all(card: str, branch: str) -> None:
    assert "conflicts" not in answer(card, driver_branch=branch, driver_flavour="open")


def test_what_is_read_of_a_card_is_consistent() -> None:
    for card in CARDS:
        branches = sorted(card.later_branches, key=int)
        first = (card.first_driver or "0").split(".")[0]
        assert all(int(branch) > int(first) for branch in branches), card.name
        for branch, version in card.later_branches.items():
            assert version == "" or version.startswith(branch + "."), card.name
    assert first_driver(card_of("NVIDIA H20-3e"), "550") == "550.127.08"
    assert first_driver(card_of("NVIDIA H20-3e"), "560") is None
    assert first_driver(card_of("NVIDIA H20-3e"), "570") == ""
