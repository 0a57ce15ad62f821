"""The page of the fleet and the schema of a report: complete, honest about what it cannot show, and harmless."""

from __future__ import annotations

import copy
import html.parser
import json
from pathlib import Path

import healthy_node
import jsonschema
import pytest
from gpuwright.checks import run_checks
from gpuwright.page import make_page, read_folder
from gpuwright.page_facts import as_built, bars, changes
from gpuwright.page_markup import el, escape
from gpuwright.report import make_report

REPOSITORY = Path(__file__).resolve().parents[2]
SCHEMA = json.loads((REPOSITORY / "roles/verify/files/report.schema.json").read_text())
HOSTILE = "<script>alert(1)</script>\"'&{{ 7*7 }}\x1b[2J"
NOW = "2026-01-06T10:00:00Z"
VOID = ("meta", "rect", "line")


def report(readings: dict | None = None, time: str = "2026-01-05T10:00:00Z") -> dict:
    readings = readings or healthy_node.readings()
    expectations = healthy_node.expectations()
    checks = run_checks(readings, expectations, healthy_node.smoke())
    return make_report("a5-01", time, checks, readings, expectations, healthy_node.smoke())


def broken() -> dict:
    readings = healthy_node.readings()
    readings["probe"]["nvidia"]["loaded"]["version"] = "535.1"
    readings["nvidia_smi"]["driver_version"] = "535.1"
    readings["persistenced"] = "failed"
    return report(readings, NOW)


class Page(html.parser.HTMLParser):
    """Counts elements and checks that each one that is opened is closed."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.tags: list[str] = []
        self.attributes: list[tuple[str, str | None]] = []
        self.text = ""
        self.feed(text)
        assert self.open == []

    def handle_starttag(self, tag: str, attrs: list) -> None:
        self.tags.append(tag)
        self.attributes += attrs
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list) -> None:
        self.tags.append(tag)
        self.attributes += attrs

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.text += data


def page(*hosts: tuple) -> Page:
    return Page(make_page(list(hosts), NOW))


def test_a_fleet_has_the_worst_host_first():
    found = page(("a5-01", report(), None, ""), ("a5-02", broken(), report(), ""), ("a5-03", None, None, "damaged"))
    order = [found.text.index(name + "\n") for name in ("a5-02", "a5-03", "a5-01")]
    assert order == sorted(order)
    assert "535.1 instead of 580.*" in found.text and "damaged" in found.text
    assert "Run: systemctl enable --now nvidia-persistenced" in found.text


def test_every_skip_is_justified_and_every_check_is_there():
    found = page(("a5-01", report(), None, ""))
    for check in report()["checks"]:
        assert check["id"] in found.text
        assert check["status"] != "SKIP" or f"{check['id']}: {check['message']}" in found.text


def test_what_changed():
    assert changes(None, report()) is None
    assert changes(report(), report()) == []
    found = changes(report(), broken())
    assert "driver: 580.95.05 → 535.1" in found and "driver.version: PASS → FAIL" in found
    less = report()
    less["checks"] = less["checks"][1:]
    assert changes(report(), less) == ["gpu.count: no longer checked"]


def test_it_is_one_file_without_scripts():
    found = page(("a5-01", broken(), report(), ""))
    assert not {"script", "link", "img", "iframe", "object"} & set(found.tags)
    assert {"svg", "rect", "details"} <= set(found.tags)
    names = {name for name, _value in found.attributes}
    assert not [name for name in names if name.startswith("on") or name in ("src", "srcset")]
    assert all(value.startswith("#host-") for name, value in found.attributes if name == "href")


def everywhere(value: object) -> object:
    """The record with every text of it made hostile, but for what the page must understand."""
    if isinstance(value, dict):
        return {key: v if key in ("status", "verdict", "time", "id") else everywhere(v) for key, v in value.items()}
    if isinstance(value, list):
        return [everywhere(member) for member in value]
    return HOSTILE if isinstance(value, str) else value


def test_no_text_becomes_markup():
    found = page((HOSTILE, everywhere(broken()), report(), HOSTILE), (HOSTILE, None, None, HOSTILE))
    assert not {"script", "img"} & set(found.tags)
    assert "<script>alert(1)</script>" in found.text and "\x1b" not in found.text


@pytest.mark.parametrize("part", ["readings", "expectations", "smoke"])
@pytest.mark.parametrize("value", [None, {}, [], "x", 5, {"unreadable": "no permission"}])
def test_a_report_without_a_part_is_shown(part, value):
    found = page(("a5-01", {**report(), part: value}, None, ""))
    assert "What to do next" in found.text


def test_values_of_any_kind_are_shown():
    for path in healthy_node.leaves(healthy_node.READINGS["probe"]):
        record = report()
        healthy_node.put(record["readings"]["probe"], path, {"unreadable": "why"})
        page(("a5-01", record, None, ""))


def test_as_built_has_reasons():
    record = report()
    record["expectations"]["plan"]["because"] = {"driver": "volta ends at 580"}
    assert ("driver", "580.95.05", "volta ends at 580") in as_built(record)


def test_a_floor_is_for_its_card_only():
    record = report()
    record["smoke"]["devices"][0]["speed_ratio"] = 1.9
    assert bars(record)[0][1:4] == (1.9, "x", 1.62)
    record["readings"]["probe"]["gpus"][0]["architecture"] = "hopper"
    assert bars(record)[0][3] is None
    record["smoke"]["devices"][0]["speed_ratio"] = "unknown"
    assert bars(record) == []


def test_escaping():
    assert escape("a<b>&\"'") == "a&lt;b&gt;&amp;&quot;&#39;"
    assert el("p", "<", title='"') == '<p title="&quot;">&lt;</p>\n'


@pytest.mark.parametrize("text", ["", "[]", "{}", '{"schema": 2}', '{"schema": 1, "checks": [{}], "verdict": "PASS"}'])
def test_a_file_that_is_no_report_is_a_host_with_a_problem(tmp_path, text):
    (tmp_path / "a5-01.json").write_text(text)
    (name, found, before, problem), *rest = read_folder(str(tmp_path))
    assert (name, found, before, rest) == ("a5-01", None, None, []) and problem


def test_the_module_writes_the_page(run_module, tmp_path):
    folder = tmp_path / "reports"
    (folder / "previous").mkdir(parents=True)
    assert "no report there" in run_module("report_page", {"folder": str(folder)})["msg"]
    (folder / "a5-01.json").write_text(json.dumps(broken()))
    (folder / "previous" / "a5-01.json").write_text(json.dumps(report()))
    answer = run_module("report_page", {"folder": str(folder)}, check=True)
    assert not (folder / "index.html").exists()
    answer = run_module("report_page", {"folder": str(folder)})
    assert (answer["changed"], answer["hosts"], answer["path"]) == (False, 1, str(folder / "index.html"))
    assert "580.95.05 → 535.1" in (folder / "index.html").read_text()
    assert "No such file" in run_module("report_page", {"folder": "/nowhere"})["msg"]


def test_reports_fit_the_schema():
    for record in (report(), broken(), {**report(), "smoke": None}):
        jsonschema.Draft202012Validator(SCHEMA).validate(record)


@pytest.mark.parametrize(
    ("path", "value"),
    [
        (("schema",), 2),
        (("verdict",), "SKIP"),
        (("time",), "yesterday"),
        (("checks", 0, "status"), "OK"),
        (("checks", 0, "action"), "do something"),
        (("checks", 0, "message"), ""),
        (("checks", 0, "more"), 1),
        (("more",), 1),
    ],
)
def test_what_is_no_report_does_not_fit_the_schema(path, value):
    record = copy.deepcopy(report())
    healthy_node.put(record, path, value)
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.Draft202012Validator(SCHEMA).validate(record)
