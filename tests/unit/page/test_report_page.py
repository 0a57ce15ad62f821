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
from ansible_collections.gpuwright.node.plugins.plugin_utils.page.facts import as_built, changes, from_plan, tuning
from ansible_collections.gpuwright.node.plugins.plugin_utils.page.findings import to_do
from ansible_collections.gpuwright.node.plugins.plugin_utils.page.speed import performance_bars, smoke_bars, status_of
from page_samples import HOSTILE, broken, everywhere, fleet, make_pages, report, unread, waived, whole

REPOSITORY = Path(__file__).resolve().parents[3]
SCHEMA = json.loads((REPOSITORY / "roles/verify/files/report.schema.json").read_text())
VOID = ("br", "meta", "rect", "line", "input")


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


def page(name: str, *host: object) -> Page:
    """The page of one host."""
    [text, _index] = make_pages([(name, *host)]).values()
    return Page(text)


def index(*hosts: tuple) -> Page:
    return Page(make_pages(list(hosts))["index.html"])


def test_a_fleet_has_the_worst_host_first():
    hosts = [("a5-01", report(), None, ""), ("a5-02", broken(), report(), ""), ("a5-03", None, None, "damaged")]
    found = index(*hosts)
    rows = found.text[found.text.index("Checked") :]
    order = [rows.index(name) for name in ("a5-02", "a5-03", "a5-01")]
    assert order == sorted(order)
    assert "535.1 instead of 580.*" in found.text and "never: damaged" in found.text
    for text in (found.text, page(*hosts[1]).text):
        unit = "nvidia-persistenced"
        assert f"Run: sudo systemctl unmask {unit} ; sudo systemctl enable --now {unit}" in text
    assert "The report of this host cannot be read: damaged. Run: ansible-playbook" in page(*hosts[2]).text


def test_every_skip_is_justified_and_every_check_is_there():
    found = page("a5-01", report(), None, "")
    for check in report()["checks"]:
        assert check["id"] in found.text
        assert check["status"] != "SKIP" or f"{check['id']}: {check['message']}" in found.text


def test_what_is_acknowledged_or_switched_off_is_shown_with_its_reason():
    found = page("a5-01", waived(), None, "").text
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
    assert "Acknowledged and switched off" not in page("a5-01", report(), None, "").text


def test_what_a_warranty_claim_needs():
    found = page("a5-01", waived(), None, "").text
    assert "What a warranty claim needs" in found
    assert "serial 1234567890123, UUID GPU-00000000-1111-2222-3333-000000000001, Tesla V100-PCIE-16GB" in found
    # Two boots before, and the failure of this one, which is acknowledged.
    [card] = waived()["strikes"]
    assert (card["boots_total"], card["counts"]) == (3, {"gpu.sram": 3})
    assert "gpu.sram (3)" in found and "2026-01-01T10:00:00Z" in found
    assert "What a warranty claim needs" not in page("a5-01", report(), None, "").text
    damaged = {**waived(), "strikes": {"unreadable": "strikes.json is damaged"}}
    assert "not read: strikes.json is damaged" in page("a5-01", damaged, None, "").text


def test_waivers_cannot_become_markup_and_no_shape_of_them_breaks_the_page():
    record = everywhere(waived())
    record["checks"] = [{**check, "action": ""} for check in record["checks"]]
    found = page("a5-01", record, None, "")
    assert "script" not in found.tags
    values: list[object] = [None, 5, "x", [], [5, None, {}], {"unreadable": "no"}, {}, True]
    for value in values:
        for name in ("acknowledgements", "strikes"):
            page("a5-01", {**waived(), name: value}, None, "")
        checks = [{**check, "waived": value} for check in waived()["checks"]]
        page("a5-01", {**waived(), "checks": checks}, None, "")
        for by in ("acknowledgement", "inventory"):
            half = [{**check, "waived": {"by": by, "acknowledgements": value}} for check in waived()["checks"]]
            page("a5-01", {**waived(), "checks": half}, None, "")
        page("a5-01", {**waived(), "strikes": [{"counts": value, "serial": value}]}, None, "")


def test_drift_from_the_plan():
    assert from_plan(whole()) == ["vm.swappiness: 60, wanted 10", "transparent huge pages: none, wanted madvise"]
    as_planned = whole()
    as_planned["readings"]["tuning"] = as_planned["readings"]["tuning"][:1]
    assert from_plan(as_planned) == []
    assert "Nothing: versions and settings are as planned." in page("a5-01", as_planned, None, "").text
    assert "driver: 535.1, planned 580.*" in (from_plan(broken()) or [])
    assert from_plan({**report(), "expectations": None}) is None
    text = page("a5-01", whole(broken()), whole(), "").text
    assert "Against the plan" in text and "driver: 535.1, planned 580.*" in text and "driver: 580.95.05 → 535.1" in text
    assert "No plan is kept in this report" in page("a5-01", {**report(), "expectations": None}, None, "").text
    assert "This is the first report" in page("a5-01", report(), None, "").text
    assert "Nothing since the report of" in page("a5-01", report(), report(), "").text


def test_what_is_simulated_is_said_where_the_inventory_says_it():
    made_up = {**report(), "simulated": "the GPUs and nvidia-smi"}
    hosts = [("a5-01", made_up, None, ""), ("a5-02", report(), None, ""), ("a5-03", dict(made_up), None, "")]
    pages = make_pages(hosts)
    assert "Simulated: the GPUs and nvidia-smi" in Page(pages["hosts/a5-01.html"]).text
    assert "imulated" not in Page(pages["hosts/a5-02.html"]).text.partition("</style>")[2]
    found = Page(pages["index.html"]).text
    assert "a5-01, a5-03: the GPUs and nvidia-smi" in found
    assert found.count(" simulated") == 2
    assert "all 2 hosts: the GPUs" in index(*hosts[::2]).text
    assert "Simulated on this page" not in index(hosts[1]).text


def test_what_changed():
    assert changes(None, report()) is None
    assert changes(report(), report()) == []
    found = changes(report(), broken())
    assert found is not None
    assert "driver: 580.95.05 → 535.1" in found and "driver.version: PASS → FAIL" in found
    less = report()
    less["checks"] = less["checks"][1:]
    assert changes(report(), less) == ["gpu.count: no longer checked"]


@pytest.mark.parametrize(
    ("path", "scripts", "links"),
    [("hosts/a5-01.html", 0, {"../index.html"}), ("index.html", 1, {"hosts/a5-01.html"})],
)
def test_each_page_is_one_file_that_loads_nothing(path, scripts, links):
    found = Page(make_pages([("a5-01", broken(), report(), "")])[path])
    assert not {"link", "img", "iframe", "object"} & set(found.tags) and found.tags.count("script") == scripts
    assert {"svg", "rect"} <= set(found.tags)
    names = {name for name, _value in found.attributes}
    assert not [name for name in names if name.startswith("on") or name in ("src", "srcset")]
    assert {value for name, value in found.attributes if name == "href"} == links


def test_no_text_becomes_markup():
    hostile = {**everywhere(broken()), "simulated": HOSTILE}
    pages = make_pages([(HOSTILE, hostile, report(), HOSTILE), (f"{HOSTILE}2", None, None, HOSTILE)])
    for path, text in pages.items():
        found = Page(text)
        assert "img" not in found.tags and found.tags.count("script") == (path == "index.html")
        assert "<script>alert(1)</script>" in found.text and "\x1b" not in found.text
        assert not [name for name, _value in found.attributes if name.startswith("on")]


@pytest.mark.parametrize("part", ["readings", "expectations", "smoke"])
@pytest.mark.parametrize("value", [None, {}, [], "x", 5, {"unreadable": "no permission"}])
def test_a_report_without_a_part_is_shown(part, value):
    found = page("a5-01", {**report(), part: value}, None, "")
    assert "What to do next" in found.text


def test_values_of_any_kind_are_shown():
    for path in healthy_node.leaves(healthy_node.READINGS["probe"]):
        record = report()
        healthy_node.put(record["readings"]["probe"], path, {"unreadable": "why"})
        page("a5-01", record, None, "")


PARTS = ("performance", "smoke", "expectations", "tuning", "bench", "locks", "probe")
ODD: tuple[object, ...] = (None, [], {}, "x", -1, True, 10**400, float("nan"), [None], {"unreadable": "why"})


def test_no_value_of_a_report_breaks_the_page_of_the_fleet():
    """A node writes its report; whatever it writes, the other nodes' cards are there."""
    chance = random.Random(1)
    good = whole()
    paths = [path for path in healthy_node.leaves(good) if set(path[:2]) & set(PARTS)]
    for path in chance.sample(paths, 150):
        record = whole()
        healthy_node.put(record, path, chance.choice(ODD))
        pages = make_pages([("a", record, good, ""), ("b", good, record, "")])
        assert "hosts/b.html" in pages["index.html"] and len(pages) == 3


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


def test_what_a_quick_verification_has_not_looked_at_is_neither_absent_nor_another():
    short = report()
    for name in ("cuda", "cudnn", "nccl", "venv"):
        short["readings"].pop(name, None)
    rows = {row.part: row for row in as_built(short)}
    for part in ("CUDA toolkit", "cuDNN", "NCCL", "Python", "PyTorch"):
        assert rows[part].found == "not looked at" and not rows[part].differs
    assert "not looked at" in index(("a5-01", short, None, "")).text


def test_what_an_old_report_lacks_is_said_and_not_guessed():
    record = report()
    record["performance"] = None
    record["readings"].update(tuning=None, bench=None)
    found = page("a5-01", record, None, "")
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
    assert words in page("a5-01", {**report(), "performance": performance}, None, "").text


def test_bars_stand_against_their_floors():
    found = {bar.name: status_of(bar) for bar in performance_bars(whole())}
    assert found["cuda:0: host to GPU"] == "PASS" and found["cuda:0: GPU to host"] == "WARN"
    assert found["cuda:0: host to GPU from the far CPU"] == "FAIL"
    assert found["cuda:0: matrix product in fp32"] == "" and found["all-reduce over 2 GPUs"] == "PASS"
    text = page("a5-01", whole(), None, "").text
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
    text = page("a5-01", whole(), None, "").text
    for words in ("18 min", "18.7 min", "95 %", "93 %", "20.1", "21.4", "5.5 min", "6.8 min", "batch of 32", "1.80 ×"):
        assert words in text
    assert "here they take 0.62 of one" in text and "reduced run" not in text
    # In place of a figure that it has not.
    assert "torch.compile is off: compute capability 7.0" in text
    record = whole()
    record["readings"]["bench"].update(reduced=True, contradictions=[])
    text = page("a5-01", record, None, "").text
    assert "This was a reduced run" in text and "No contradictions" in text


def test_a_measurement_that_moved_is_a_change():
    now = whole()
    now["performance"]["devices"][0]["measures"]["h2d_gb_s"]["value"] = 6.15
    now["performance"]["devices"][0]["measures"]["copy_gb_s"]["value"] = 775.0
    now["readings"]["tuning"][1]["found"] = "10"
    found = changes(whole(), now)
    assert found == ["vm.swappiness: 60 → 10", "cuda:0: host to GPU: 12.3 GB/s → 6.15 GB/s (-50%)"]


def test_in_a_fleet_a_finding_is_told_once_with_its_hosts():
    found = index(*fleet(40))
    assert found.text.count("What to do next in the fleet") == 1
    assert "host.cpu_governor on 11 hosts: a5-04, a5-31, a5-32, a5-33, a5-34, a5-35 and 5 more" in found.text
    assert "kernel.xid, kernel.sxid, kernel.gpu_lost" in found.text
    assert "stale: 66 days ago" in found.text
    assert "What to do next in the fleet" not in index(("a5-01", None, None, "damaged")).text


@pytest.mark.parametrize("record", [report(), broken(), unread()])
def test_the_number_to_do_is_that_of_the_entries(record):
    pages = make_pages([("a5-01", record, None, "")])
    (number,) = re.findall(
        r'<span class="word \w+">\w+</span></td><td>([0-9]+)(?:: [a-z, ]+)?</td>', pages["index.html"]
    )
    assert int(number) == pages["hosts/a5-01.html"].count('class="next"') == len(to_do(record))


def test_checks_that_end_so_for_one_reason_are_one_entry():
    """The first are named; all of them are there for who unfolds the entry, and on paper."""
    names = [check["id"] for check in unread()["checks"] if "kernel_log: no permission" in check["message"]]
    assert len(names) > 4 and tuple(names) in [entry[1] for entry in to_do(unread())]
    short = "{} and {} more".format(", ".join(names[:3]), len(names) - 3)
    for found in (page("a5-01", unread(), None, ""), index(*fleet(4))):
        assert short in found.text and "All {} checks{}".format(len(names), ", ".join(names)) in found.text
    (few,) = [entry[1] for entry in to_do(broken()) if "driver.version" in entry[1]]
    assert len(few) < 5 and "{} ".format(", ".join(few)) in page("a5-01", broken(), None, "").text


@pytest.mark.parametrize(
    ("node", "place"), [(0, "NUMA node 0"), (1, "NUMA node 1"), (-1, "No NUMA node"), ("x", "No NUMA node")]
)
def test_a_gpu_is_drawn_at_its_node(node, place):
    record = report()
    record["readings"]["probe"]["gpus"][0]["numa_node"] = node
    found = page("a5-01", record, None, "")
    (told,) = [value for name, value in found.attributes if name == "aria-label"]
    assert told is not None
    assert [part for part in told.split("; ") if part.endswith("with 1 GPU")][0].startswith(place)


def test_a_floor_is_for_its_card_only():
    record = report()
    record["smoke"]["devices"][0]["speed_ratio"] = 1.9
    assert smoke_bars(record)[0][1:4] == (1.9, "×", 1.62)
    record["readings"]["probe"]["gpus"][0]["architecture"] = "hopper"
    assert smoke_bars(record)[0].floor is None
    record["smoke"]["devices"][0]["speed_ratio"] = "unknown"
    assert smoke_bars(record) == []


def test_reports_fit_the_schema():
    more = (
        {**report(), "smoke": None},
        {**report(), "simulated": "the GPUs"},
        {**report(), "readings": whole()["readings"]},
    )
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
        (("simulated",), ""),
    ],
)
def test_what_is_no_report_does_not_fit_the_schema(path, value):
    record = copy.deepcopy(report())
    healthy_node.put(record, path, value)
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.Draft202012Validator(SCHEMA).validate(record)
