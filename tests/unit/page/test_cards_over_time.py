"""The line of each card on the pages, the worst first, and the same as metrics."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from ansible_collections.gpuwright.node.plugins.module_utils.verdict.report import write_json
from ansible_collections.gpuwright.node.plugins.plugin_utils.history import kept
from ansible_collections.gpuwright.node.plugins.plugin_utils.page import cards
from ansible_collections.gpuwright.node.plugins.plugin_utils.page.fleet import MOST_CARDS
from ansible_collections.gpuwright.node.plugins.plugin_utils.page.folder import INDEX, METRICS, write_pages
from page_samples import HOSTILE, NOW, whole
from test_report_page import Page

AT = [f"2026-11-{day:02}T10:00:00Z" for day in range(1, 7)]


def history(host: str, key: str, values: list[float | None], *findings: tuple[str, str], name: str = "Z9") -> Any:
    card = {
        "name": name, "place": "0000:3b:00.0", "at": AT[: len(values)], "software": ["580"] * len(values),
        "figures": {"copy_gb_s": values}, "counters": {}, "product": None, "now": None,
    }  # fmt: skip
    rows = [{"id": "sweep.x", "status": status, "text": text, "card": key} for status, text in findings]
    verdict = findings[0][0] if findings else "PASS"
    return {**kept.empty(host), "swept": AT[0], "verdict": verdict, "findings": rows, "cards": {key: card}}


def fleet() -> dict[str, Any]:
    found = [history(f"n{number}", f"S{number}", [700.0] * 6) for number in range(1, 5)]
    found += [history("n5", "S5", [700.0, 700.0, 700.0, 650.0]), history("n6", "S6", [700.0], ("FAIL", "bits"))]
    return {one["host"]: one for one in found}


def lines(histories: dict[str, Any]) -> list[cards.CardLine]:
    return cards.card_lines(histories, {"n5": "n5.html"}, "hosts")


def test_the_worst_cards_come_first() -> None:
    found = lines(fleet())
    assert [line.key for line in found] == ["S6", "S5", "S1", "S2", "S3", "S4"]
    assert found[0].status == "FAIL" and found[1].page == "hosts/n5.html" and found[0].page == ""
    assert found[1].text == "650 GB/s, 7 % below its first 3 days" and found[1].measure == "copy in GPU memory"


def test_the_drawing_begins_at_zero_and_leaves_out_what_was_not_measured() -> None:
    assert cards.points([700.0, None, 350.0]) == "0,1.0 100,10.5"
    assert cards.points([700.0]) == "0,1.0 100,1.0" and cards.points([]) == "" and cards.points([0.0]) != ""


def test_the_pages_have_the_lines_and_a_card_of_a_damaged_history_is_not_silently_gone(tmp_path: Path) -> None:
    write_json(str(tmp_path / "n5.json"), whole())
    for one in fleet().values():
        kept.write(tmp_path, one)
    for number in range(10, 10 + MOST_CARDS):
        kept.write(tmp_path, history(f"n{number}", f"S{number}", [700.0]))
    kept.path_of(tmp_path, "n4").write_text("{")
    write_pages(tmp_path, ["n5"], NOW)
    index = Page((tmp_path / INDEX).read_text())
    assert "Cards over time" in index.text and index.tags.count("polyline") == MOST_CARDS
    assert "n4.json is damaged" in index.text and "more cards, which have dropped less" in index.text
    host = Page((tmp_path / "hosts/n5.html").read_text())
    assert host.tags.count("polyline") == 1 and "650 GB/s, 7 % below its first 3 days" in host.text
    text = (tmp_path / METRICS).read_text()
    assert 'gpuwright_sweep_below_ratio{card="S5",host="n5"} 0.0714' in text
    assert 'gpuwright_sweep_verdict{host="n6"} 2' in text and "gpuwright_sweep_timestamp_seconds" in text


def test_without_a_history_nothing_of_it_is_shown_or_written(tmp_path: Path) -> None:
    write_json(str(tmp_path / "n5.json"), whole())
    write_pages(tmp_path, ["n5"], NOW)
    assert "Cards over time" not in (tmp_path / INDEX).read_text() and not (tmp_path / METRICS).exists()


def test_nothing_of_a_history_becomes_markup(tmp_path: Path) -> None:
    write_json(str(tmp_path / "n5.json"), whole())
    kept.write(tmp_path, history("n5", HOSTILE, [1.0], ("FAIL", HOSTILE), name=HOSTILE))
    write_pages(tmp_path, ["n5"], NOW)
    plain = tmp_path / "plain"
    plain.mkdir()
    write_json(str(plain / "n5.json"), whole())
    kept.write(plain, history("n5", "S5", [1.0], ("FAIL", "bad"), name="Z9"))
    write_pages(plain, ["n5"], NOW)
    for name in (INDEX, "hosts/n5.html"):
        assert Page((tmp_path / name).read_text()).tags == Page((plain / name).read_text()).tags
