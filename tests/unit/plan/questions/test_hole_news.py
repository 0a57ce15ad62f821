"""What the sources of vulnerabilities say by now: bulletins that were revised, and holes of any release of a plan."""

from __future__ import annotations

import copy
import io
import json
import tarfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml
from module_files import load_file
from test_plan_questions import FOLDER, MATRIX

refresh = load_file("tools/matrix_refresh.py")
hole_news, knowledge_file = refresh.hole_news, refresh.knowledge_file
DAY = "2026-12-10"
NEWEST = max(MATRIX["bulletins"], key=lambda one: one["date"])


def bulletin(one: dict[str, Any]) -> dict[str, Any]:
    """A row of the matrix, as NVIDIA writes the bulletin."""
    holes = []
    for branch, row in one["branches"].items():
        affected = f"linuxr{branch}_tesla_all_driver_versions_prior_to_" + row["fixed"].replace(".", "_")
        status = {"known_affected": [affected]}
        scores = [{"cvss_v3": {"baseSeverity": row["severity"]}}]
        holes += [{"cve": cve, "product_status": status, "scores": scores} for cve in row["cves"]]
    tracking = {"id": one["id"], "initial_release_date": one["date"] + "T00:00:00Z"}
    return {"document": {"title": "GPU Display Driver", "tracking": tracking}, "vulnerabilities": holes}


def ask_nvidia(folder: Path, rows: list[dict[str, Any]]) -> list[Any]:
    with tarfile.open(folder / "bulletins.tar.gz", "w:gz") as archive:
        for one in rows:
            data = json.dumps(bulletin(one)).encode()
            member = tarfile.TarInfo(f"product-security-main/{one['date'][:4]}/{one['id']}/{one['id']}.json")
            member.size = len(data)
            archive.addfile(member, io.BytesIO(data))
    return list(hole_news.bulletin_news(MATRIX, str(folder / "bulletins.tar.gz"), DAY))


def change(**changes: Any) -> Callable[[dict[str, Any]], None]:
    def work(branches: dict[str, Any]) -> None:
        branches["580"].update(changes)

    return work


def test_bulletins_that_say_what_the_table_says_are_no_news(tmp_path: Path) -> None:
    assert ask_nvidia(tmp_path, MATRIX["bulletins"]) == []


@pytest.mark.parametrize(
    ("revise", "words"),
    [
        (change(fixed="580.999.01"), "branch 580 is fixed in 580.999.01"),
        (change(severity="CRITICAL"), "the severity for branch 580 is CRITICAL"),
        (change(cves=[*NEWEST["branches"]["580"]["cves"], "CVE-2026-99999"]), "branch 580 has CVE-2026-99999"),
        (lambda branches: branches.update({"535": branches["580"] | {"fixed": "535.9.9"}}), "535 is fixed in 535.9.9"),
        (change(fixed="580.1.1"), ""),
        (lambda branches: branches.pop("580"), ""),
    ],
    ids=["higher", "worse", "more", "branch", "lower", "fewer"],
)
def test_a_bulletin_that_was_revised_keeps_its_table_from_being_renewed(
    tmp_path: Path, revise: Callable[[dict[str, Any]], Any], words: str
) -> None:
    rows = copy.deepcopy(MATRIX["bulletins"])
    one = next(one for one in rows if one["id"] == NEWEST["id"])
    revise(one["branches"])
    found = ask_nvidia(tmp_path, rows)
    assert [entry.row for entry in found] == ([{}] if words else [])
    assert not words or (f"bulletin {NEWEST['id']}" in found[0].text and words in found[0].text)
    files = {file.name: file.read_text() for file in FOLDER.glob("*.yml")}
    written, left = knowledge_file.write(tmp_path / "tables", files, found, [])
    assert written is not None
    assert ("bulletins" in yaml.safe_load(written.read_text())) == (not words)
    assert not words or words in left[0]


def test_an_archive_that_is_older_than_the_table_renews_nothing(tmp_path: Path) -> None:
    with pytest.raises(refresh.repository_index.NoAnswerError, match=f"older than bulletin {NEWEST['id']}"):
        ask_nvidia(tmp_path, [one for one in MATRIX["bulletins"] if one is not NEWEST])


def hole(*events: dict[str, str], severity: str = "HIGH", cve: str = "CVE-2026-1", **more: Any) -> dict[str, Any]:
    """A record of OSV; its severity is the publisher's word, or a CVSS vector."""
    spans = [{"type": "ECOSYSTEM", "events": list(events)}] if events else []
    one = {"package": {"name": "torch", "ecosystem": "PyPI"}, "ranges": spans, **more}
    named = {"id": "GHSA-" + cve[4:], "aliases": [cve], "summary": "A picture can run code."}
    said: dict[str, Any] = {"database_specific": {"severity": severity}}
    if ":" in severity or not severity:
        said = {"severity": [{"type": "CVSS_V3", "score": severity}] if severity else []}
    return {**named, **said, "affected": [one]}


def ask_osv(monkeypatch: pytest.MonkeyPatch, *records: dict[str, Any]) -> list[Any]:
    """OSV itself says which records are about a version."""

    def answer(url: str, question: Any = None) -> Any:
        if question is None:
            return next(one for one in records if url.endswith(one["id"]))
        results = []
        for query in question["queries"]:
            asked = (query["package"]["name"], query["version"])
            results.append({"vulns": [{"id": one["id"]} for one in records if hole_news.osv.affects(one, *asked)[0]]})
        return {"results": results}

    monkeypatch.setattr(hole_news.osv, "_ask", answer)
    return list(hole_news.wheel_news(MATRIX, "https://osv.example", DAY))


ALL = {"introduced": "0"}


@pytest.mark.parametrize(
    ("record", "fixed", "words"),
    [
        # Only a plan for Maxwell and Pascal has such a release.
        (hole(ALL, {"fixed": "2.7.2"}, severity="CRITICAL"), "2.7.2", "torch 2.7.1"),
        (hole({"introduced": "2.11"}, {"fixed": "2.12.1"}), "2.12.1", "torch 2.12.0"),
        # Between two releases of one series, and in listed versions without a word on a fix.
        (hole({"introduced": "2.14.0"}, {"fixed": "2.14.1"}), "2.14.1", "torch 2.14.0"),
        (hole(versions=["2.13.0"]), "2.14.0", "torch 2.13.0"),
        (hole(ALL, {"last_affected": "2.13.0"}), "2.14.0", "torch 2.13.0"),
        # Of which a row warns already, and releases that no plan has.
        (hole(ALL, {"fixed": "2.7.2"}), "", ""),
        (hole({"introduced": "2.8"}, {"fixed": "2.10"}), "", ""),
        (hole(ALL, {"fixed": "1.9.1"}), "", ""),
        (hole(ALL, {"fixed": "2.14.1"}, severity="MODERATE"), "", ""),
        # Records that have a vector in place of a word.
        (hole(ALL, {"fixed": "2.14.1"}, severity="CVSS:3.1/AV:N/AC:L/PR:N/UI:R/S:U/C:H/I:H/A:H"), "2.14.1", "2.14.0"),
        (hole(ALL, {"fixed": "2.14.1"}, severity="CVSS:3.1/AV:L/AC:L/PR:L/UI:N/S:U/C:N/I:N/A:L"), "", ""),
        (hole(ALL, {"fixed": "2.5"}, severity="CVSS:4.0/AV:N"), "", ""),
        (hole(ALL, {"fixed": "2.14.1"}, severity="CVSS:4.0/AV:N"), "", "how bad it is is not said"),
        (hole(ALL, {"fixed": "2.14.1"}, severity=""), "", "how bad it is is not said"),
        # What nobody can say by a row.
        (hole(ALL), "", "which no release fixes"),
        (hole(ALL, {"fixed": "2.11"}, cve="CVE-2026-24747"), "", "torch 2.10.0 has CVE-2026-24747, fixed in 2.11 only"),
    ],
)
def test_holes_of_all_releases_of_plans_are_known(
    monkeypatch: pytest.MonkeyPatch, record: dict[str, Any], fixed: str, words: str
) -> None:
    found = ask_osv(monkeypatch, record)
    assert [entry.row.get("fixed", "") for entry in found] == ([fixed] if words else [])
    assert not words or words in found[0].text
    assert not fixed or found[0].row["what"] == "A picture can run code"


@pytest.mark.parametrize("severity", ["HIGH", "CRITICAL", ""])
def test_a_hole_that_no_release_fixes_is_told_and_leaves_the_table_to_be_renewed(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, severity: str
) -> None:
    """Nobody can write its row: the table would never have today's day again."""
    newer = hole(ALL, {"fixed": "2.14.1"}, cve="CVE-2026-2")
    files = {file.name: file.read_text() for file in FOLDER.glob("*.yml")}
    for others, whole in (([], True), ([newer], True), ([hole(ALL, {"fixed": "2.14.1"}, severity="")], False)):
        found = ask_osv(monkeypatch, hole(ALL, severity=severity, cve="CVE-2026-3"), *others)
        assert ["CVE-2026-3, which no release fixes" in entry.text for entry in found].count(True) == 1
        written, left = knowledge_file.write(tmp_path / "tables", files, found, [])
        assert written is not None
        tables = yaml.safe_load(written.read_text())
        assert ("wheel_holes" in tables, left == []) == (whole, whole)
        # A row that somebody has to write is the one that is named.
        assert whole or ("how bad it is is not said" in left[0] and "no release fixes" not in left[0])
        named = {name for row in tables.get("wheel_holes", []) for name in row["ids"]}
        assert "CVE-2026-3" not in named and (not whole or ("CVE-2026-2" in named) == bool(others))


@pytest.mark.parametrize("order", [1, -1])
def test_of_two_vectors_the_one_that_has_a_word_counts(order: int) -> None:
    scores = [
        {"type": "CVSS_V3", "score": "CVSS:3.1/AV:N/AC:L/PR:N/UI:R/S:U/C:H/I:H/A:H"},
        {"type": "CVSS_V4", "score": "CVSS:4.0/AV:N/AC:L/AT:N/PR:N/UI:N/VC:H/VI:H/VA:H/SC:N/SI:N/SA:N"},
    ]
    assert hole_news.osv.severity({"severity": scores[::order]}) == scores[0]["score"]
    assert hole_news.osv.severity({"severity": scores[1:]}) == scores[1]["score"]
    older = {"type": "CVSS_V2", "score": "AV:N/AC:L/Au:N/C:P/I:P/A:P"}
    assert hole_news.osv.severity({"severity": [scores[0], older][::order]}) == scores[0]["score"]


def test_each_new_hole_has_a_row(monkeypatch: pytest.MonkeyPatch) -> None:
    found = ask_osv(monkeypatch, *(hole(ALL, {"fixed": "2.14.1"}, cve=f"CVE-2026-{number}") for number in (1, 2)))
    assert [entry.row["ids"][0] for entry in found] == ["CVE-2026-1", "CVE-2026-2"]


@pytest.mark.parametrize(
    ("vector", "word"),
    [
        # Scores of NVD's calculator: 9.8, 10.0, 7.8, 8.8, 7.5, 6.5, 5.3, 3.3, 6.1, 0.0.
        ("CVSS:3.1/AV:N/AC:L/PR:N/UI:N/S:U/C:H/I:H/A:H", "CRITICAL"),
        ("CVSS:3.0/AV:N/AC:L/PR:N/UI:N/S:C/C:H/I:H/A:H", "CRITICAL"),
        ("CVSS:3.1/AV:L/AC:L/PR:N/UI:R/S:U/C:H/I:H/A:H", "HIGH"),
        ("CVSS:3.1/AV:N/AC:L/PR:N/UI:R/S:U/C:H/I:H/A:H/E:P", "HIGH"),
        ("CVSS:3.1/AV:N/AC:L/PR:N/UI:N/S:U/C:N/I:N/A:H", "HIGH"),
        ("CVSS:3.1/AV:N/AC:L/PR:N/UI:R/S:U/C:N/I:N/A:H", "MEDIUM"),
        ("CVSS:3.1/AV:N/AC:L/PR:N/UI:N/S:U/C:N/I:N/A:L", "MEDIUM"),
        ("CVSS:3.1/AV:L/AC:L/PR:L/UI:N/S:U/C:N/I:N/A:L", "LOW"),
        ("CVSS:3.1/AV:N/AC:L/PR:N/UI:R/S:C/C:L/I:L/A:N", "MEDIUM"),
        ("CVSS:3.1/AV:N/AC:L/PR:N/UI:N/S:U/C:N/I:N/A:N", "LOW"),
        ("CVSS:4.0/AV:N/AC:L/AT:N/PR:N/UI:N/VC:H/VI:H/VA:H/SC:N/SI:N/SA:N", ""),
        ("CVSS:3.1/AV:N/AC:L", ""),
        ("CVSS:3.1/AV:X/AC:L/PR:N/UI:N/S:U/C:H/I:H/A:H", ""),
        ("CVSS:3.1", ""),
        ("not given", ""),
    ],
)
def test_a_vector_has_the_word_of_its_score(vector: str, word: str) -> None:
    assert hole_news.cvss.word_of(vector) == word
