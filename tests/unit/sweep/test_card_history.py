"""The history of cards: small, rotated, read by its form, and what a decline or an outlier is."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from ansible_collections.gpuwright.node.plugins.plugin_utils.history import kept, trend

ROW = kept.Row("Z9", "0000:3b:00.0", "torch 2, CUDA 12, driver 580", {"copy_gb_s": 700.0}, {"pcie_replays": 0})


def card(values: Sequence[float | None], software: list[str] | None = None, name: str = "Z9") -> dict[str, Any]:
    count = len(values)
    return {
        "name": name, "place": "0000:3b:00.0", "at": [f"2026-11-{day:02}T10:00:00Z" for day in range(1, count + 1)],
        "software": software or ["580"] * count, "figures": {"copy_gb_s": list(values)}, "counters": {},
        "product": None, "now": None,
    }  # fmt: skip


def test_a_history_is_read_as_it_was_written(tmp_path: Path) -> None:
    history = {**kept.empty("n1"), "cards": {"S1": kept.with_row(None, ROW, "2026-11-01T10:00:00Z")}}
    kept.write(tmp_path, history)
    assert kept.read(tmp_path, "n1") == (history, "") and kept.read_all(tmp_path) == ({"n1": history}, {})
    assert kept.read(tmp_path, "n2") == (kept.empty("n2"), "") and kept.read_all(tmp_path / "no") == ({}, {})
    assert [path.name for path in (tmp_path / "history").iterdir()] == ["n1.json"]


@pytest.mark.parametrize(
    "damage",
    [lambda text: text[:-9], lambda text: "", lambda text: "[]", lambda text: text.replace('"at":', '"when":'),
     lambda text: text.replace("700.0", "NaN"), lambda text: text.replace("[700.0]", "[700.0, 1.0]"),
     lambda text: text.replace('"S1":', '"S1":[],"x":')],
)  # fmt: skip
def test_a_damaged_history_costs_the_history_only_and_is_said(tmp_path: Path, damage: Any) -> None:
    kept.write(tmp_path, {**kept.empty("n1"), "cards": {"S1": kept.with_row(None, ROW, "2026-11-01T10:00:00Z")}})
    kept.write(tmp_path, kept.empty("n2"))
    path = kept.path_of(tmp_path, "n1")
    assert path.read_text() != damage(path.read_text())
    path.write_text(damage(path.read_text()))
    damaged = path.read_text()
    found, problems = kept.read_all(tmp_path)
    assert found["n1"] == kept.empty("n1") and "n2" in found
    assert list(problems) == ["n1"] and "n1.json is damaged" in problems["n1"]
    assert path.read_text() == damaged, "whoever only reads changes nothing"
    _found, problems = kept.read_all(tmp_path, begins=True)
    assert "It was set aside as n1.json.damaged-" in problems["n1"] and problems["n1"].endswith("[sweep.history]")
    (aside,) = path.parent.glob("*.damaged-*")
    assert aside.read_text() == damaged and kept.read_all(tmp_path)[1] == {}
    kept.write(tmp_path, kept.empty("n1"))
    assert kept.read(tmp_path, "n1")[1] == ""


def test_a_history_of_an_earlier_version_is_read(tmp_path: Path) -> None:
    kept.write(tmp_path, kept.empty("n1"))
    path = kept.path_of(tmp_path, "n1")
    older = {key: value for key, value in json.loads(path.read_text()).items() if key not in ("chosen", "load")}
    path.write_text(json.dumps(older))
    assert kept.read(tmp_path, "n1") == (kept.empty("n1"), "")


def test_the_history_of_a_later_version_is_not_touched(tmp_path: Path) -> None:
    kept.write(tmp_path, kept.empty("n1"))
    path = kept.path_of(tmp_path, "n1")
    path.write_text(path.read_text().replace('"schema":1', '"schema":2'))
    assert kept.read(tmp_path, "n1", begins=True)[1] and '"schema":2' in path.read_text()


def test_the_first_days_stay_and_the_rest_is_rotated() -> None:
    found = None
    for number in range(1, 100):
        row = ROW._replace(figures={"copy_gb_s": float(number)} | ({"h2d_gb_s": 1.0} if number == 60 else {}))
        found = kept.with_row(found, row, f"{number}")
    assert found is not None
    assert found["figures"]["copy_gb_s"] == [1.0, 2.0, 3.0, 4.0, 5.0, *map(float, range(85, 100))]
    assert len(found["at"]) == kept.MOST_ROWS == len(found["software"]) and list(found["figures"]) == ["copy_gb_s"]
    assert len(json.dumps(found)) < 3000


def test_a_card_takes_its_history_along_to_another_node() -> None:
    old, new = card([700.0] * 4), card([700.0] * 5)
    histories = {"n1": {**kept.empty("n1"), "cards": {"S1": old}}, "n2": {**kept.empty("n2"), "cards": {"S1": new}}}
    assert kept.cards_of(histories) == {"S1": ("n2", new)} == kept.cards_of(dict(reversed(histories.items())))


def test_a_card_is_held_against_its_own_first_days() -> None:
    drop = trend.since_its_first_days(card([700.0, 702.0, 698.0, 630.0]), "copy_gb_s")
    assert drop and drop._replace(below=0.0) == trend.Drop("copy_gb_s", 630.0, 700.0, 0.0, days=3)
    assert drop.below == pytest.approx(0.1)
    assert trend.since_its_first_days(card([700.0, 700.0, 630.0]), "copy_gb_s") is None, "too few days"
    # Another driver begins anew.
    anew = card([700.0] * 5 + [600.0] * 3, ["570"] * 5 + ["580"] * 3)
    assert trend.since_its_first_days(anew, "copy_gb_s") is None
    assert trend.since_its_first_days(card([700.0] * 5 + [None]), "copy_gb_s") is None
    assert trend.since_its_first_days(card([None, 700.0, 700.0, None, 700.0, 630.0]), "copy_gb_s").days == 3  # type: ignore[union-attr]


def test_a_decline_that_lasts_is_told_from_one_bad_day() -> None:
    slowly = trend.since_its_first_days(card([700.0, 701.0, 699.0, 690.0, 680.0, 670.0, 660.0, 655.0]), "copy_gb_s")
    once = trend.since_its_first_days(card([700.0, 701.0, 699.0, 700.0, 700.0, 701.0, 700.0, 655.0]), "copy_gb_s")
    assert slowly and once and slowly.lasts and not once.lasts


def test_a_card_is_held_against_the_fleet_s_cards_of_its_model() -> None:
    cards = [card([700.0]), card([710.0]), card([690.0]), card([500.0]), card([100.0], name="other")]
    medians = trend.fleet_medians(cards)
    assert medians == {("Z9", "580", "copy_gb_s"): (695.0, 4)}
    drop = trend.against_the_fleet(cards[3], "copy_gb_s", medians)
    assert drop and drop.cards == 4 and drop.below == pytest.approx(1 - 500 / 695)
    assert trend.against_the_fleet(cards[4], "copy_gb_s", medians) is None
    # While the fleet is half upgraded, each half is compared by itself.
    newer = [*cards, card([900.0], ["620"]), card([910.0], ["620"])]
    assert trend.fleet_medians(newer) == medians
    assert trend.worst(cards[3], medians) == drop and trend.worst(cards[4], medians) is None


def test_a_counter_that_has_grown_is_told() -> None:
    found = {
        **card([1.0, 1.0]),
        "counters": {"pcie_replays": [2, 5], "retired_pages_double_bit": [0, 0], "new": [None, 3]},
    }
    assert trend.grown(found) == [("pcie_replays", 2, 5)]
    assert trend.grown({**found, "counters": {"pcie_replays": [5, 0]}}) == [], "a reset of the driver"
