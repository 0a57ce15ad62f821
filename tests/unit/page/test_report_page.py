"""The page of the fleet and the schema of a report: complete, honest about what it cannot show, and harmless."""

from __future__ import annotations

import copy
import html.parser
import json
import random
import re
from pathlib import Path

import healthy_node
import jsonschema
import pytest
from gpuwright.page.facts import as_built, changes, tuning
from gpuwright.page.fleet import make_page, read_folder
from gpuwright.page.host import to_do
from gpuwright.page.markup import el, escape
from gpuwright.page.speed import performance_bars, smoke_bars, status_of
from page_samples import HOSTILE, broken, everywhere, fleet, report, unread, waived, whole

REPOSITORY = Path(__file__).resolve().parents[3]
SCHEMA = json.loads((REPOSITORY / "roles/verify/files/report.schema.json").read_text())
NOW = "2026-01-06T10:00:00Z"
VOID = ("meta", "rect", "line")


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
    order = [found.text.index(name + " ") for name in ("a5-02", "a5-03", "a5-01")]
    assert order == sorted(order)
    assert "535.1 instead of 580.*" in found.text and "damaged" in found.text
    assert "Run: systemctl unmask nvidia-persistenced ; systemctl enable --now nvidia-persistenced" in found.text


def test_every_skip_is_justified_and_every_check_is_there():
    found = page(("a5-01", report(), None, ""))
    for check in report()["checks"]:
        assert check["id"] in found.text
        assert check["status"] != "SKIP" or f"{check['id']}: {check['message']}" in found.text


def test_what_is_acknowledged_or_switched_off_is_shown_with_its_reason():
    found = page(("a5-01", waived(), None, "")).text
    assert "Acknowledged and switched off" in found
    for words in (
        "a new card is ordered",
        "alice",
        "2026-02-06T10:00:00Z",
        "0000:3b:00.0: 5 uncorrected errors",
        "riser with 8 lanes",
        "gpu.bar1 by bob: it expired at 2026-01-02T00:00:00Z",
        "1 switched off, 1 acknowledged",
    ):
        assert words in found, words
    assert "Acknowledged and switched off" not in page(("a5-01", report(), None, "")).text


def test_what_a_warranty_claim_needs():
    found = page(("a5-01", waived(), None, "")).text
    assert "What a warranty claim needs" in found
    assert "serial 1234567890123, UUID GPU-00000000-1111-2222-3333-000000000001, Tesla V100-PCIE-16GB" in found
    # Two boots before, and the failure of this one, which is acknowledged.
    [card] = waived()["strikes"]
    assert (card["boots_total"], card["counts"]) == (3, {"gpu.sram": 3})
    assert "gpu.sram (3)" in found and "2026-01-01T10:00:00Z" in found
    assert "What a warranty claim needs" not in page(("a5-01", report(), None, "")).text
    damaged = {**waived(), "strikes": {"unreadable": "strikes.json is damaged"}}
    assert "not read: strikes.json is damaged" in page(("a5-01", damaged, None, "")).text


def test_waivers_cannot_become_markup_and_no_shape_of_them_breaks_the_page():
    record = everywhere(waived())
    record["checks"] = [{**check, "action": ""} for check in record["checks"]]
    found = page(("a5-01", record, None, ""))
    assert "script" not in found.tags
    for value in (None, 5, "x", [], [5, None, {}], {"unreadable": "no"}, {}, True):
        for name in ("acknowledgements", "strikes"):
            page(("a5-01", {**waived(), name: value}, None, ""))
        checks = [{**check, "waived": value} for check in waived()["checks"]]
        page(("a5-01", {**waived(), "checks": checks}, None, ""))
        for by in ("acknowledgement", "inventory"):
            half = [{**check, "waived": {"by": by, "acknowledgements": value}} for check in waived()["checks"]]
            page(("a5-01", {**waived(), "checks": half}, None, ""))
        page(("a5-01", {**waived(), "strikes": [{"counts": value, "serial": value}]}, None, ""))


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
    links = {value for name, value in found.attributes if name == "href"}
    assert links == {"#fleet", "#host-a5-01"}


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


PARTS = ("performance", "smoke", "expectations", "tuning", "bench", "locks", "probe")
ODD = (None, [], {}, "x", -1, True, 10**400, float("nan"), [None], {"unreadable": "why"})


def test_no_value_of_a_report_breaks_the_page_of_the_fleet():
    """A node writes its report; whatever it writes, the other nodes' cards are there."""
    chance = random.Random(1)
    good = whole()
    paths = [path for path in healthy_node.leaves(good) if set(path[:2]) & set(PARTS)]
    for path in chance.sample(paths, 150):
        record = whole()
        healthy_node.put(record, path, chance.choice(ODD))
        assert "host-b" in make_page([("a", record, good, ""), ("b", good, record, "")], NOW)


def test_hosts_whose_names_differ_in_a_sign_have_links_of_their_own():
    found = page(("a.b", report(), None, ""), ("a-b", report(), None, ""))
    names = [value for name, value in found.attributes if name == "id"]
    assert len(names) == len(set(names)) == 3


def test_as_built_has_reasons():
    record = report()
    record["expectations"]["plan"]["because"] = {"driver": "volta ends at 580"}
    row = next(row for row in as_built(record) if row.part == "driver")
    assert row == ("Driver", "driver", "580.95.05", "580.*", "volta ends at 580", False)


@pytest.mark.parametrize(
    ("gpus", "found"),
    [
        ([{"health": {"gsp_firmware": "580.95.05"}}, {"health": {"gsp_firmware": "580.95.05"}}], "580.95.05"),
        ([{"health": {"gsp_firmware": None}}], "none"),
        ([{"health": {"gsp_firmware": "unknown"}}, {}], "none, unknown"),
        ([], "not measured"),
        ({"unreadable": "no driver"}, "not measured"),
    ],
)
def test_firmware_of_the_cards_is_as_built(gpus, found):
    record = report()
    record["readings"]["nvidia_smi"]["gpus"] = gpus
    assert next(row.found for row in as_built(record) if row.part == "GSP firmware") == found


def test_as_built_says_what_is_not_as_planned():
    record = broken()
    record["readings"]["locks"] = {"streams": {"nvidia-driver": "enabled open-dkms"}, "versions": []}
    assert [row.part for row in as_built(record) if row.differs] == ["driver", "module streams"]
    assert [row.part for row in as_built(whole()) if row.differs] == []


def test_what_an_old_report_lacks_is_said_and_not_guessed():
    record = report()
    record["performance"] = None
    record["readings"].update(tuning=None, bench=None)
    found = page(("a5-01", record, None, ""))
    assert "Not measured: this verification did not ask for it" in found.text
    assert "Not measured: nobody has run train-gan bench" in found.text
    assert "Not measured: this node was not tuned" in found.text


@pytest.mark.parametrize(
    ("performance", "words"),
    [
        ({"because": "another program uses cuda:0", "devices": []}, "Not measured: another program uses cuda:0."),
        ({"because": "", "devices": [], "problems": ["out of memory"]}, "no reason is given; out of memory."),
        ({"unreadable": "no answer in 300 s"}, "Not read: no answer in 300 s"),
    ],
)
def test_speed_that_could_not_be_measured(performance, words):
    assert words in page(("a5-01", {**report(), "performance": performance}, None, "")).text


def test_bars_stand_against_their_floors():
    found = {bar.name: status_of(bar) for bar in performance_bars(whole())}
    assert found["cuda:0: host to GPU"] == "PASS" and found["cuda:0: GPU to host"] == "WARN"
    assert found["cuda:0: host to GPU from the far CPU"] == "FAIL"
    assert found["cuda:0: matrix product in fp32"] == "" and found["all-reduce over 2 GPUs"] == "PASS"
    text = page(("a5-01", whole(), None, "")).text
    assert "Not measured: cuda:0: matrix product in bf16, cuda:0: matrix product in tf32." in text
    assert "9.2 GB/s" in text and "15.75 GB/s" in text


def test_tuning_is_compared():
    states = {row[0]: row[4] for row in tuning(whole())}
    assert states == {"cpu governor": "as wanted", "vm.swappiness": "differs", "transparent huge pages": "differs"}
    record = whole()
    record["readings"]["tuning"][0]["found"] = {"unreadable": "no such file"}
    assert tuning(record)[0][2:] == ("not read: no such file", "the loader's workers decide", "not read")
    record["readings"]["tuning"] = {"unreadable": "no permission"}
    assert tuning(record) == "Not read: no permission"


def test_the_seed_report_has_both_numbers_and_the_contradictions():
    text = page(("a5-01", whole(), None, "")).text
    for words in ("18 min", "18.7 min", "95 %", "93 %", "20.1", "21.4", "5.5 min", "6.8 min", "batch of 32", "1.80 ×"):
        assert words in text
    assert "here they take 0.62 of one" in text and "reduced run" not in text
    record = whole()
    record["readings"]["bench"].update(reduced=True, contradictions=[])
    text = page(("a5-01", record, None, "")).text
    assert "This was a reduced run" in text and "No contradictions" in text


def test_a_measurement_that_moved_is_a_change():
    now = whole()
    now["performance"]["devices"][0]["measures"]["h2d_gb_s"]["value"] = 6.15
    now["performance"]["devices"][0]["measures"]["copy_gb_s"]["value"] = 775.0
    now["readings"]["tuning"][1]["found"] = "10"
    found = changes(whole(), now)
    assert found == ["vm.swappiness: 60 → 10", "cuda:0: host to GPU: 12.3 GB/s → 6.15 GB/s (-50%)"]


def test_in_a_fleet_a_finding_is_told_once_with_its_hosts():
    found = page(*fleet(40))
    assert found.text.count("What to do next in the fleet") == 1
    assert "host.cpu_governor on 11 hosts: a5-04, a5-31, a5-32, a5-33, a5-34, a5-35 and 5 more" in found.text
    assert "kernel.xid, kernel.sxid, kernel.gpu_lost" in found.text
    assert "stale: 66 days ago" in found.text
    assert "What to do next in the fleet" not in page(*fleet(2)).text


@pytest.mark.parametrize("record", [report(), broken(), unread()])
def test_the_number_to_do_is_that_of_the_entries(record):
    text = make_page([("a5-01", record, None, "")], NOW)
    (number,) = re.findall(r'<td data-name="To do">([0-9]+)</td>', text)
    assert int(number) == text.count('class="next"') == len(to_do(record))


def test_checks_that_end_so_for_one_reason_are_one_entry():
    """The first are named; all of them are there for who unfolds the entry, and on paper."""
    names = [check["id"] for check in unread()["checks"] if "kernel_log: no permission" in check["message"]]
    assert len(names) > 4 and tuple(names) in [entry[1] for entry in to_do(unread())]
    short = "{} and {} more".format(", ".join(names[:3]), len(names) - 3)
    for hosts in ([("a5-01", unread(), None, "")], fleet(4)):
        text = page(*hosts).text
        assert short in text and "All {} checks\n{}".format(len(names), ", ".join(names)) in text
    (few,) = [entry[1] for entry in to_do(broken()) if "driver.version" in entry[1]]
    assert len(few) < 5 and "{} ".format(", ".join(few)) in page(("a5-01", broken(), None, "")).text


@pytest.mark.parametrize(
    ("node", "place"), [(0, "NUMA node 0"), (1, "NUMA node 1"), (-1, "No NUMA node"), ("x", "No NUMA node")]
)
def test_a_gpu_is_drawn_at_its_node(node, place):
    record = report()
    record["readings"]["probe"]["gpus"][0]["numa_node"] = node
    found = page(("a5-01", record, None, ""))
    (told,) = [value for name, value in found.attributes if name == "aria-label"]
    assert [part for part in told.split("; ") if part.endswith("with 1 GPU")][0].startswith(place)


def test_a_floor_is_for_its_card_only():
    record = report()
    record["smoke"]["devices"][0]["speed_ratio"] = 1.9
    assert smoke_bars(record)[0][1:4] == (1.9, "×", 1.62)
    record["readings"]["probe"]["gpus"][0]["architecture"] = "hopper"
    assert smoke_bars(record)[0].floor is None
    record["smoke"]["devices"][0]["speed_ratio"] = "unknown"
    assert smoke_bars(record) == []


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
    more = ({**report(), "smoke": None}, {**report(), "readings": whole()["readings"]})
    for record in (report(), broken(), waived(), {**waived(), "strikes": {"unreadable": "damaged"}}, *more):
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
        (("checks", 0, "waived"), {"by": "nobody"}),
        (("checks", 0, "waived"), {"by": "inventory"}),
        (("checks", 0, "waived"), {"by": "acknowledgement", "status": "WARN"}),
        (("acknowledgements",), [{"id": "gpu.sram"}]),
        (("strikes",), [{"serial": "1"}]),
    ],
)
def test_what_is_no_report_does_not_fit_the_schema(path, value):
    record = copy.deepcopy(report())
    healthy_node.put(record, path, value)
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.Draft202012Validator(SCHEMA).validate(record)
