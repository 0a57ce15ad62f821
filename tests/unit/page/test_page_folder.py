"""The folder of pages: what is read, safe names, links that lead somewhere, old pages removed, a thousand hosts."""

from __future__ import annotations

import html
import json
import os
import re
from collections.abc import Callable
from pathlib import Path

import pytest
from ansible_collections.gpuwright.node.plugins.action.report_page import made
from ansible_collections.gpuwright.node.plugins.plugin_utils.page import fleet as index_of
from ansible_collections.gpuwright.node.plugins.plugin_utils.page.folder import page_files, read_host
from page_samples import NOW, broken, make_pages, report, unread, warned, whole

NAMES = (
    *("a5-01", "A5-01", "a.b", "a-b", "a_b", "a b", "..", "...", ".", "-", "gpu#1?x=%2f", "höst", "主机", "x" * 240),
    *("x" * 239 + "y", "con", "a\\b", "a'b\"<script>", "\udcff", "[v6::1]", "index", "a5-01_41_", "²"),
)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Reports of three hosts, one of them damaged, one with a report before."""
    (tmp_path / "previous").mkdir()
    (tmp_path / "a5-01.json").write_text(json.dumps(broken()))
    (tmp_path / "previous/a5-01.json").write_text(json.dumps(report()))
    (tmp_path / "a5-02.json").write_text(json.dumps({**report(), "simulated": "the GPUs"}))
    (tmp_path / "a5-03.json").write_text("{")
    return tmp_path


def links(text: str) -> list[str]:
    return [html.unescape(found) for found in re.findall(r'href="([^"]*)"', text)]


def test_every_host_has_a_page_and_the_links_lead_there_and_back(folder: Path) -> None:
    answer = made(str(folder), False)
    assert answer == {"changed": False, "hosts": 3, "path": str(folder / "index.html")}
    assert sorted(file.name for file in (folder / "hosts").iterdir()) == ["a5-01.html", "a5-02.html", "a5-03.html"]
    index = (folder / "index.html").read_text()
    assert set(links(index)) == {f"hosts/a5-0{number}.html" for number in (1, 2, 3)}
    for file in (folder / "hosts").iterdir():
        assert {(file.parent / link).resolve() for link in links(file.read_text())} == {folder / "index.html"}
    assert "580.95.05 → 535.1" in (folder / "hosts/a5-01.html").read_text()
    assert "cannot be read" in (folder / "hosts/a5-03.html").read_text()


def test_check_mode_writes_and_removes_nothing(folder: Path) -> None:
    assert made(str(folder), True)["hosts"] == 3
    assert not (folder / "index.html").exists() and not (folder / "hosts").exists()
    made(str(folder), False)
    (folder / "a5-02.json").unlink()
    made(str(folder), True)
    assert (folder / "hosts/a5-02.html").exists()


def test_pages_of_hosts_without_a_report_are_removed_and_nothing_else(folder: Path) -> None:
    made(str(folder), False)
    own = {"notes.html": "<html>mine", "notes.txt": "mine", "empty.html": ""}
    for name, text in own.items():
        (folder / "hosts" / name).write_text(text)
    (folder / "a5-02.json").unlink()
    made(str(folder), False)
    left = sorted(file.name for file in (folder / "hosts").iterdir())
    assert left == sorted([*own, "a5-01.html", "a5-03.html"])
    assert "a5-02" not in (folder / "index.html").read_text()


def test_a_page_that_is_as_before_is_not_written_again(folder: Path) -> None:
    made(str(folder), False)
    page = folder / "hosts/a5-01.html"
    os.utime(page, (1, 1))
    made(str(folder), False)
    assert page.stat().st_mtime == 1
    (folder / "a5-01.json").write_text(json.dumps(report()))
    made(str(folder), False)
    assert page.stat().st_mtime > 1


def test_an_open_umask_opens_nothing(folder: Path, open_umask: int) -> None:
    os.umask(0)
    made(str(folder), False)
    modes = {path.name: path.stat().st_mode & 0o777 for path in (folder / "hosts", folder / "hosts/a5-01.html")}
    assert modes == {"hosts": 0o755, "a5-01.html": 0o644}


def test_a_folder_without_reports_or_without_rights_is_told(tmp_path: Path) -> None:
    assert "no report there" in made(str(tmp_path), False)["msg"]
    assert made("/nowhere", False) == {"failed": True, "msg": "/nowhere: No such file or directory [report.failed]"}
    (tmp_path / "a.json").write_text("{}")
    (tmp_path / "hosts").write_text("a file")
    assert made(str(tmp_path), False)["msg"] == f"{tmp_path}/hosts: File exists [report.failed]"


@pytest.mark.parametrize("text", ["", "[]", "{}", '{"schema": 2}', '{"schema": 1, "checks": [{}], "verdict": "PASS"}'])
def test_a_file_that_is_no_report_is_a_host_with_a_problem(tmp_path: Path, text: str) -> None:
    (tmp_path / "a5-01.json").write_text(text)
    found, before, problem = read_host(tmp_path, "a5-01")
    assert (found, before) == (None, None) and problem


def test_names_of_pages_are_safe_and_differ() -> None:
    files = page_files(NAMES)
    assert len({file.casefold() for file in files.values()}) == len(NAMES)
    for name, file in files.items():
        assert re.fullmatch(r"[A-Za-z0-9_-][A-Za-z0-9._-]*\.html", file) and len(file) < 150, name
    assert (files["a.b"], files["a b"]) == ("a.b.html", "a_20_b.html")
    assert page_files(["a5-01"]) == {"a5-01": "a5-01.html"}, "a name alone keeps its page, whoever else comes and goes"


def test_hosts_of_any_name_are_reached_from_the_index(tmp_path: Path) -> None:
    names = [name for name in NAMES if "/" not in name]
    for name in names:
        (tmp_path / f"{name}.json").write_text(json.dumps(report()))
    # Dot files are no reports; Ansible writes them while it copies.
    there = [name for name in names if not name.startswith(".")]
    assert made(str(tmp_path), False)["hosts"] == len(there)
    found = links((tmp_path / "index.html").read_bytes().decode())
    assert {tmp_path / link for link in found} == set((tmp_path / "hosts").iterdir())
    assert len(list((tmp_path / "hosts").iterdir())) == len(there)


def thousand() -> list[tuple]:
    """A large fleet with long names in which much is wrong, and much of it differently on each host."""
    kinds = [whole(broken()), whole(), unread(), warned(), None]
    hosts = []
    for number in range(1000):
        kind = kinds[number % len(kinds)]
        record = kind and {**kind, "simulated": f"the GPUs of rack {number % 40}", "checks": list(kind["checks"])}
        if record:
            bad = {**record["checks"][0], "status": "FAIL", "message": f"own {number} " + "m" * 2000}
            record["checks"][0] = {**bad, "action": f"Run: fix {number} " + "a" * 500}
        name = f"gpu-{number:04}.rack-{number % 40}.hall-3.data-centre-north.example.org"
        hosts.append((name, record, report() if number % 2 else None, "damaged " * 100))
    return hosts


def test_the_index_of_a_thousand_hosts_is_at_most_a_megabyte() -> None:
    hosts = thousand()
    index = make_pages(hosts)["index.html"]
    assert len(index.encode()) <= 1_000_000
    assert all(f"/{name}.html" in index for name, *_rest in hosts), "and every host is in it"
    rows = index.partition("<tbody>")[2].partition("</tbody>")[0]
    assert rows.count("<tr") == 1000


def test_hosts_of_one_verdict_stand_as_people_count() -> None:
    index = make_pages([(f"a5-{number}", report(), None, "") for number in (100, 9, 10)])["index.html"]
    assert re.findall(r">(a5-\d+)</a></th>", index) == ["a5-9", "a5-10", "a5-100"]


def test_findings_beyond_the_first_are_counted() -> None:
    index = make_pages(thousand()[:200])["index.html"]
    assert index.count('class="next"') == index_of.MOST_FINDINGS
    assert re.search(r"And \d+ that are rarer, each on the page of its host", index)


def test_the_module_of_this_name_does_nothing_on_a_node(run_module: Callable[..., dict]) -> None:
    answer = run_module("report_page", {"folder": "/tmp"})
    assert answer["failed"] and "report_page runs on the controller and not on a node" in answer["msg"]


def test_times_are_told_as_ages() -> None:
    assert index_of.age(NOW, NOW) == ("just now", False)
    assert index_of.age("2026-01-06T08:59:00Z", NOW) == ("1 hour ago", False)
    assert index_of.age("2025-12-01T10:00:00Z", NOW) == ("36 days ago", True)
    assert index_of.age("yesterday", NOW) == ("", False)
    assert index_of.age("2026-02-06T08:59:00Z", NOW) == ("just now", False), "a clock that is ahead"
