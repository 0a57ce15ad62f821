"""Acknowledgements and switched-off checks: what they cover, what they never hide, and how long they hold."""

from __future__ import annotations

import copy
import json
import os
from collections.abc import Callable
from pathlib import Path

import healthy_node
import pytest
from gpuwright.checks.all import CHECKS, run_checks
from gpuwright.checks.waivers import acknowledgements
from gpuwright.checks.waivers import rules as waivers
from gpuwright.checks.waivers.acknowledgements import cards_in, parse_duration, parse_reason, read_acknowledgements
from gpuwright.readings.attempt import attempt
from gpuwright.verdict import boot_check
from gpuwright.verdict.check import DEEP, FAIL, PASS, QUICK, REPLACE, SKIP, UNKNOWN, WARN, Check, failed, passed, worst
from gpuwright.verdict.report import exit_status, make_report
from host_tree import HostTree
from hypothesis import given, settings
from hypothesis import strategies as st
from row_values import DOWN
from waiver_rows import MOMENT, entry

SRAM = ("nvidia_smi", "gpus", 0, "health", "sram_uncorrected_aggregate")
SECOND = "0000:af:00.0"
FIRM = [check.id for check in CHECKS if not check.waivable]


@pytest.fixture
def host(tmp_path) -> HostTree:
    (tmp_path / "var/lib/gpuwright").mkdir(parents=True)
    return HostTree(tmp_path)


def node(*entries: dict, sram: object = 5, moment: dict | None = None) -> dict:
    """A node whose card counts so many errors of its SRAM (4 are allowed), with these acknowledgements."""
    readings = healthy_node.readings("gpu.sram")
    healthy_node.put(readings, SRAM, sram)
    return {**readings, "moment": dict(moment or MOMENT), "acknowledgements": list(entries)}


def of(readings: dict, check_id: str = "gpu.sram", **expected: object) -> dict:
    records = run_checks(readings, healthy_node.expectations(**expected), healthy_node.smoke())
    return next(record for record in records if record["id"] == check_id)


def second_card(readings: dict, sram: int) -> dict:
    card = copy.deepcopy(readings["nvidia_smi"]["gpus"][0])
    card.update(pci_id=SECOND, uuid="GPU-00000000-1111-2222-3333-000000000002")
    card["health"]["sram_uncorrected_aggregate"] = sram
    readings["nvidia_smi"]["gpus"].append(card)
    return readings


# --- what an acknowledgement does


def test_an_acknowledged_fail_is_a_warning_that_says_who_why_and_what():
    assert of(node())["status"] == FAIL
    found = of(node(entry()))
    assert found["status"] == WARN and found["remedy"] == ""
    assert found["message"] == (
        "acknowledged until 2026-02-06T10:00:00Z by alice: a new card is ordered; "
        "the finding: 0000:3b:00.0: 5 uncorrected errors"
    )
    assert found["action"].startswith("Before it expires: ")
    waived = found["waived"]
    assert (waived["by"], waived["status"], waived["remedy"]) == ("acknowledgement", FAIL, REPLACE)
    assert waived["acknowledgements"][0]["reason"] == "a new card is ordered"


@pytest.mark.parametrize("sram", [0, 4])
def test_a_check_that_passes_stays_pass(sram):
    assert of(node(entry(), sram=sram))["status"] == PASS


@pytest.mark.parametrize("sram", ["unknown", {"unreadable": "ERR!"}, -1])
def test_what_cannot_be_read_is_never_acknowledged(sram):
    found = of(node(entry(), sram=sram))
    assert found["status"] == UNKNOWN and "waived" not in found


@pytest.mark.parametrize(
    ("changes", "moment", "why"),
    [
        ({}, {"time": "2026-02-06T10:00:00Z"}, "it expired at 2026-02-06T10:00:00Z"),
        (
            {},
            {"time": "2026-01-30T09:59:59Z"},
            "the clock (2026-01-30T09:59:59Z) is earlier than the time when it was given",
        ),
        ({}, {"time": "unknown"}, "the time of this check is not known"),
        ({}, {"time": None}, "the time of this check is not known"),
        ({"cards": ["0000:af:00"], "message": "0000:af:00.0: 5 uncorrected errors"}, {}, "before 0000:3b:00 failed"),
        ({"message": "0000:3b:00.0: 4 uncorrected errors", "value": 4}, {}, "when the finding was less severe"),
        ({"message": "0000:3b:00.0: the driver says no"}, {}, "it was given for another finding"),
        ({"remedy": "drain"}, {}, "it was given when the remedy was drain, now it is replace"),
    ],
)
def test_what_ends_an_acknowledgement(changes, moment, why):
    found = of(node(entry(**changes), moment={**MOMENT, **moment}))
    assert found["status"] == FAIL and found["remedy"] == REPLACE
    assert "acknowledged by alice, which does not count: " in found["message"] and why in found["message"]
    assert "waived" not in found


@pytest.mark.parametrize("time", ["2026-01-30T10:00:00Z", "2026-02-06T09:59:59Z"])
def test_it_holds_from_its_first_second_to_its_last(time):
    assert of(node(entry(), moment={**MOMENT, "time": time}))["status"] == WARN


def test_it_holds_in_the_next_boot_and_without_a_moment_it_does_not():
    assert of(node(entry(), moment={**MOMENT, "boot_id": "later", "uptime_s": 3.0}))["status"] == WARN
    readings = node(entry())
    del readings["moment"]
    assert of(readings)["status"] == FAIL


def test_a_second_card_is_not_hidden_and_one_card_less_is_still_covered():
    both = entry(message="0000:3b:00.0: 5 uncorrected errors; 0000:af:00.0: 9 uncorrected errors")
    both["cards"] = cards_in(both["message"])
    readings = second_card(node(entry()), 9)
    assert "it was given before 0000:af:00 failed" in of(readings, gpu_count=2)["message"]
    readings["acknowledgements"] = [both]
    assert of(readings, gpu_count=2)["status"] == WARN
    assert of(second_card(node(both), 10), gpu_count=2)["status"] == FAIL
    assert of(second_card(node(both, sram=0), 9), gpu_count=2)["status"] == WARN
    assert of(second_card(node(both), 0), gpu_count=2)["status"] == WARN


PAGES = "0000:3b:00.0: {} pages retired, {} of them for double-bit errors"


@pytest.mark.parametrize(
    ("then", "now", "unit", "covered"),
    [
        ((92, 87, "{} C, {} C allowed"), (95, 87, "{} C, {} C allowed"), "C", True),
        ((92, 87, "{} C, {} C allowed"), (97, 87, "{} C, {} C allowed"), "C", False),
        ((8.3, 9.0, "{} GB/s, at least {}"), (8.0, 9.0, "{} GB/s, at least {}"), "GB/s", True),
        ((8.3, 9.0, "{} GB/s, at least {}"), (7.8, 9.0, "{} GB/s, at least {}"), "GB/s", False),
        ((8.3, 9.0, "{} GB/s, at least {}"), (8.9, 9.0, "{} GB/s, at least {}"), "GB/s", True),
        ((8, 16, "{} of {} lanes"), (4, 16, "{} of {} lanes"), "lanes", False),
        ((8, 16, "{} of {} lanes"), (8, 16, "{} of {} lanes"), "lanes", True),
        ((8, 0, "{} lanes of all"), (4, 0, "{} lanes of all"), "lanes", False),
        ((90, 0, "{} C"), (86, 0, "{} C"), "C", True),
        ((90, 0, "{} C"), (85, 0, "{} C"), "C", False),
        ((4, 4, "{} of {}"), (4, 4, "{} of {}"), "", True),
        ((60, 0, PAGES), (60, 1, PAGES), "pages", False),
        ((60, 1, PAGES), (60, 1, PAGES), "pages", True),
        ((3, 0, "GPU 3 fails"), (1, 0, "GPU 1 fails"), "", False),
        ((3, 0, "link is wrong: sm_70"), (3, 0, "link is wrong: sm_80"), "", False),
        ((3, 0, "1 of {}"), (3, 0, "1 of {}, {} more"), "", False),
    ],
)
def test_what_is_worse(then, now, unit, covered):
    limit = None if now[1] == 0 else now[1]
    record = {"message": now[2].format(*now), "value": now[0], "expected": limit, "unit": unit, "remedy": "drain"}
    kept = entry(message=then[2].format(*then), value=then[0], expected=then[1], unit=unit, remedy="drain")
    assert (waivers.why_not_covered(kept, record) == "") is covered


@pytest.mark.parametrize(
    ("text", "cards"),
    [
        ("0000:3b:00.0 and 00000000:AF:00.0", ["0000:3b:00", "0000:af:00"]),
        ("0000:3b:00: 5 errors", ["0000:3b:00"]),
        ("NVRM: Xid (PCI:0000:3b:00): 48", ["0000:3b:00"]),
        ("10000:01:00.0: 5 errors", ["10000:01:00"]),
        ("at 12:30:45 nothing, 00:1b:21:aa:bb:cc is a network card", []),
        ("", []),
    ],
)
def test_cards_in_a_message(text, cards):
    assert cards_in(text) == cards


# --- what no waiver hides


BROKEN: dict[str, dict[tuple, object]] = {
    "a GPU that is off the bus": {("probe", "gpus"): []},
    "a driver that does not answer": {("nvidia_smi",): DOWN},
    "another driver on the card": {("probe", "gpus", 0, "bound_driver"): None},
    "no module": {("probe", "nvidia", "loaded"): None},
    "no uvm": {("probe", "nvidia", "uvm_loaded"): False},
    "no device file": {("device_nodes",): {}},
    "a card that waits for its reset": {("nvidia_smi", "gpus", 0, "recovery_action"): "gpu reset"},
    "no libcuda": {("driver_files", "libraries", "libcuda.so.1"): None},
}


REASONS = (
    "gpu.count",
    "gpu.bound_driver",
    "gpu.identity",
    "gpu.recovery_action",
    "driver.reachable",
    "driver.version",
    "driver.module_matches_user_space",
    "driver.device_nodes",
    "driver.uvm",
    "driver.libraries",
    "waivers.valid",
)


@pytest.mark.parametrize("check_id", REASONS)
def test_what_may_not_be_waived_says_why(check_id):
    check = next(check for check in CHECKS if check.id == check_id)
    assert not check.waivable and len(check.firm_because) > 20
    told = waivers.problems_of_skips({"skip_checks": {check_id: "x"}}, CHECKS)
    assert told == {check_id: f"it cannot be switched off: {check.firm_because}"}


@pytest.mark.parametrize("name", BROKEN)
def test_a_lost_gpu_or_a_missing_driver_shows_whatever_is_waived(name):
    """Everything is switched off and everything is acknowledged at once: the verdict is still FAIL."""
    readings = node(sram=None)
    for path, value in BROKEN[name].items():
        healthy_node.put(readings, path, value)
    bare = [r for r in run_checks(readings, healthy_node.expectations(), healthy_node.smoke()) if r["status"] == FAIL]
    assert bare
    everything = {check.id: "quiet" for check in CHECKS}
    forged = [entry(r["id"], message=r["message"], remedy=r["remedy"], value=r["value"], unit=r["unit"]) for r in bare]
    for record in forged:
        record["cards"] = cards_in(record["message"])
    readings["acknowledgements"] = forged
    for skips in ({}, everything):
        records = run_checks(readings, healthy_node.expectations(skip_checks=skips), healthy_node.smoke())
        assert worst([record["status"] for record in records]) == FAIL
        waived = {record["id"] for record in records if "waived" in record}
        assert not waived & set(FIRM)
        told = next(record for record in records if record["id"] == "waivers.valid")
        assert told["status"] == WARN and "cannot be acknowledged: " in told["message"]


# --- checks that the inventory switches off


def test_a_check_that_is_switched_off_is_a_skip_with_its_reason():
    found = of(node(), skip_checks={"gpu.sram": " new card is on its way "})
    assert (found["status"], found["message"]) == (SKIP, "switched off by the inventory: new card is on its way")
    assert found["waived"] == {"by": "inventory", "reason": "new card is on its way"} and not found["action"]


@pytest.mark.parametrize("skips", [{"gpu.sarm": "x"}, {"gpu.sram": ""}, {"gpu.sram": None}, {"gpu.sram": ["x"]}])
def test_what_cannot_be_switched_off_is_judged_as_always(skips):
    assert of(node(), skip_checks=skips)["status"] == FAIL
    assert of(node(), "waivers.valid", skip_checks=skips)["status"] == WARN


def test_switched_off_before_it_is_acknowledged():
    found = of(node(entry()), skip_checks={"gpu.sram": "card 3"})
    assert (found["status"], found["waived"]["by"]) == (SKIP, "inventory")


# --- events of the kernel's log, on the readings alone


def event(code: int = 48, last: int | None = 500, count: object = 1, card: str = "0000:3b:00", **more: object) -> dict:
    return {"code": code, "pci_id": card, "count": count, "first_s": 400, "last_s": last, "text": "Xid", **more}


XID = "kernel.xid:48@0000:3b:00"
GIVEN = entry(XID, message="48 on 0000:3b:00: double-bit", last_s=500, count=1)


def closed(readings: dict, entries: list[dict]) -> list[str]:
    log = waivers.close_events(readings, entries)["kernel_log"]
    return [record.get("closed_by", "") for name in ("xids", "sxids", "findings") for record in log[name]]


@pytest.mark.parametrize(
    ("events", "covered"),
    [
        ([event()], [True]),
        ([event(last=499)], [True]),
        ([event(last=501)], [False]),
        ([event(count=2)], [False]),
        ([event(code=79)], [False]),
        ([event(card="0000:af:00")], [False]),
        ([event(card="unnamed")], [False]),
        ([event(), event(card="0000:af:00")], [True, False]),
        ([event(last=None)], [False]),
        ([event(count="many")], [False]),
        ([event(card="00000000:3B:00.0")], [True]),
    ],
)
def test_an_event_is_covered_up_to_the_moment_of_its_acknowledgement(events, covered):
    readings = node(sram=0)
    readings["kernel_log"]["xids"] = events
    before = copy.deepcopy(readings)
    words = closed(readings, [GIVEN])
    assert [bool(text) for text in words] == covered
    assert readings == before
    assert all(
        text in ("", "acknowledged until 2026-02-06T10:00:00Z by alice: a new card is ordered") for text in words
    )


def test_events_of_every_kind_are_named_and_closed():
    readings = node(sram=0)
    log = readings["kernel_log"]
    log["sxids"] = [event(20034, card="0000:c5:00")]
    log["findings"] = [
        {"kind": "lockup", "count": 1, "first_s": 3, "last_s": 3, "text": "soft lockup"},
        {"kind": "pcie", "count": 1, "first_s": 3, "last_s": 3, "text": "AER", "pci_id": "0000:3b:00.0"},
    ]
    names = ["kernel.sxid:20034@0000:c5:00", "kernel.lockups:lockup", "kernel.pcie_errors:pcie@0000:3b:00"]
    given = [entry(name, last_s=500, count=1) for name in names]
    assert all(closed(readings, given))
    for place, name in enumerate(names):
        assert [bool(text) for text in closed(readings, [entry(name, last_s=500, count=1)])] == [
            other == place for other in range(3)
        ]


def test_what_is_closed_already_keeps_its_own_words():
    readings = node(sram=0)
    readings["kernel_log"]["xids"] = [event(closed_by="the GPU was reset at 600 s")]
    assert closed(readings, [GIVEN]) == ["the GPU was reset at 600 s"]


@pytest.mark.parametrize("log", [None, {}, {"unreadable": "no"}, {"xids": 5}, {"xids": [5, None, {}]}, []])
def test_a_log_of_any_shape_is_left_as_it_is(log):
    readings = {"kernel_log": log}
    assert waivers.close_events(readings, [GIVEN]) == readings


def look_at_open_xids(readings, expected):
    """A check of the kind that heeds `closed_by`."""
    bad = [e for e in readings.each("kernel_log", "xids") if not e.value.get("closed_by")]
    names = ", ".join(str(e.number("code")) for e in bad)
    return failed("asks", names, "none", "Xid " + names) if bad else passed("none", "none", "no open Xid")


HEEDS = Check(
    id="kernel.xid",
    layer="system",
    question="?",
    action="Reset it.",
    judge=look_at_open_xids,
    level=QUICK,
    severity=FAIL,
    remedy="reset",
)


def heeding(readings: dict) -> dict:
    return run_checks(readings, healthy_node.expectations(), checks=(HEEDS,))[0]


def test_an_acknowledged_event_is_a_warning_and_not_a_pass():
    readings = node(GIVEN, sram=0)
    readings["kernel_log"]["xids"] = [event()]
    found = heeding(readings)
    assert found["status"] == WARN and found["message"].startswith(f"{XID} acknowledged until ")
    assert found["message"].endswith("the finding: Xid 48") and found["waived"]["status"] == FAIL
    readings["kernel_log"]["xids"] = [event(), event(79)]
    assert heeding(readings)["status"] == FAIL and heeding(readings)["message"] == "Xid 79"
    readings["kernel_log"]["xids"] = [event(last=700, count=2)]
    assert heeding(readings)["status"] == FAIL


def test_only_the_acknowledgements_that_matter_are_named():
    other = entry("kernel.xid:63@0000:3b:00", last_s=500, count=9, user="bob")
    lockup = entry("kernel.lockups:lockup", last_s=500, count=9, user="carol")
    readings = node(GIVEN, other, lockup, sram=0)
    readings["kernel_log"]["xids"] = [event(), event(63)]
    readings["kernel_log"]["findings"] = [{"kind": "lockup", "count": 1, "first_s": 3, "last_s": 3, "text": "soft"}]
    assert [given["user"] for given in heeding(readings)["waived"]["acknowledgements"]] == ["alice", "bob"]


@pytest.mark.parametrize("moment", [{"boot_id": "later"}, {"boot_id": None}, {"time": "2026-02-06T10:00:00Z"}])
def test_an_event_is_acknowledged_in_its_own_boot_and_time(moment):
    readings = node(GIVEN, sram=0, moment={**MOMENT, **moment})
    readings["kernel_log"]["xids"] = [event()]
    assert heeding(readings)["status"] == FAIL


def test_a_check_of_the_kernels_log_is_acknowledged_for_one_boot():
    given = entry("kernel.xid", message="Xid 48", cards=[], remedy="reset", value=None, unit="")
    readings = node(given, sram=0)
    readings["kernel_log"]["xids"] = [event()]
    assert heeding(readings)["status"] == WARN
    readings["moment"]["boot_id"] = "later"
    assert "given in another boot" in heeding(readings)["message"]


@pytest.mark.parametrize(
    ("end", "why"),
    [
        (lambda readings: readings["kernel_log"]["xids"].append(event(79)), "Xid 79"),
        (lambda readings: readings["kernel_log"]["xids"][0].update(last_s=700, count=2), "Xid 48"),
        (lambda readings: readings["moment"].update(time="2026-02-06T10:00:00Z"), "Xid 48"),
        (lambda readings: readings["moment"].update(boot_id="later"), "Xid 48"),
        (lambda readings: readings["acknowledgements"].clear(), "Xid 48"),
        (lambda readings: readings.update(acknowledgements={"unreadable": "damaged"}), "Xid 48"),
    ],
)
def test_the_gate_opens_for_an_acknowledged_event_and_closes_again(host, end, why):
    """FAIL, closed; acknowledged, open; expired, withdrawn, another boot, or a new event: closed."""
    host.put(boot_check.BOOT_ID_PATH, "now\n")
    host.put(boot_check.UPTIME_PATH, "1000.00 3000.00\n")
    host.put(boot_check.UNIT_PATH, "[Unit]\n")
    readings = node(sram=0)
    readings["kernel_log"]["xids"] = [event()]

    def gate() -> tuple[bool, str]:
        records = [heeding(readings)]
        report = make_report("a5-01", str(MOMENT["time"]), records, readings, healthy_node.expectations(), None)
        boot_check.keep_record(report, "quick", 900, host.root)
        return boot_check.gate(host.root)

    assert not gate()[0]
    readings["acknowledgements"] = [copy.deepcopy(GIVEN)]
    assert gate()[0] and gate()[1].startswith("open: verdict WARN")
    end(readings)
    is_open, sentence = gate()
    assert not is_open and f"kernel.xid: {why}" in sentence


# --- what the report says of them


def test_the_report_tells_of_every_entry_whether_it_counts():
    expired = entry("gpu.bar1", when="2026-01-01T00:00:00Z", until="2026-01-02T00:00:00Z")
    readings = node(entry(), expired, entry("gpu.fabric"), entry("smoke.amp"), entry("no.check"), GIVEN)
    records = run_checks(readings, healthy_node.expectations(), level=QUICK)
    found = {given["id"]: (given["counts"], given["because"]) for given in waivers.reported(readings, records)}
    assert found == {
        "gpu.sram": (True, ""),
        "gpu.bar1": (False, "it expired at 2026-01-02T00:00:00Z"),
        "gpu.fabric": (False, "the check is SKIP"),
        "smoke.amp": (False, "the check is not of this level"),
        "no.check": (False, "the check is not of this level"),
        XID: (False, "the kernel's log does not show it any more"),
    }
    readings["kernel_log"]["xids"] = [event(last=501)]
    assert waivers.reported(readings, records)[-1]["because"] == "it happened again after that"


# --- the file


@pytest.mark.parametrize(
    ("text", "seconds"),
    [("30m", 1800), ("12h", 43200), ("7d", 604800), ("90d", 7776000), ("2160h", 7776000)],
)
def test_durations(text, seconds):
    assert parse_duration(text) == seconds


@pytest.mark.parametrize(
    "text", ["", "7", "d", "0d", "-1d", "1.5h", "7 d", "91d", "2161h", "٧d", "7d\n", "1w", "99999999d"]
)
def test_what_is_no_duration(text):
    with pytest.raises(ValueError, match="expected"):
        parse_duration(text)


@pytest.mark.parametrize("text", ["", "  ", "x" * 201, "two\nlines", "clear\x1b[2J", "\udcff"])
def test_what_is_no_reason(text):
    with pytest.raises(ValueError, match="expected"):
        parse_reason(text)


def test_a_reason_of_200_characters_is_one():
    assert parse_reason(" " + "ü" * 200) == "ü" * 200


needs_root = pytest.mark.skipif(os.geteuid() != 0, reason="only root's file is believed")


@needs_root
def test_the_file_is_public_and_comes_back_as_it_was(host):
    acknowledgements.write_acknowledgements(host.root, [entry(), GIVEN])
    file = host.folder / acknowledgements.PATH[1:]
    assert oct(file.stat().st_mode & 0o777) == "0o644"
    assert read_acknowledgements(host.root) == [entry(), GIVEN]


def test_without_a_file_there_are_none(host):
    assert read_acknowledgements(host.root) == []


def put(host: HostTree, content: str) -> None:
    host.put(acknowledgements.PATH, content)
    (host.folder / acknowledgements.PATH[1:]).chmod(0o644)


def record(**changes: object) -> str:
    return json.dumps({"schema": 1, "acknowledgements": [{**entry(), **changes}]})


DAMAGES = {
    "empty": "",
    "cut off": record()[:-9],
    "a list": "[]",
    "no list": '{"schema": 1, "acknowledgements": {}}',
    "another schema": record().replace('"schema": 1', '"schema": 2'),
    "deep": "[" * 100000,
    "not UTF-8": "\udcff",
    "no time": record(until=None),
    "for ever": record(until="2099-01-01T00:00:00Z"),
    "backwards": record(until="2026-01-01T00:00:00Z"),
    "no reason": record(reason=""),
    "a terminal's code": record(reason="a\x1b[2J"),
    "no cards": record(cards=None),
    "no id": record(id="../../etc"),
    "a bool": record(last_s=True),
    "nan": record(uptime_s=float("nan")),
}


@needs_root
@pytest.mark.parametrize("name", DAMAGES)
def test_a_damaged_file_counts_for_nothing_and_is_a_warning(host, name):
    host.folder.joinpath(acknowledgements.PATH[1:]).write_bytes(DAMAGES[name].encode("utf-8", "surrogateescape"))
    found = {**node(), "acknowledgements": attempt(read_acknowledgements, host.root)}
    assert "acknowledgements.json" in found["acknowledgements"]["unreadable"]
    assert of(found)["status"] == FAIL
    assert of(found, "waivers.valid")["status"] == WARN
    # By itself it does not close the gate.
    healthy = {**node(sram=0), "acknowledgements": found["acknowledgements"]}
    statuses = [r["status"] for r in run_checks(healthy, healthy_node.expectations(), healthy_node.smoke())]
    assert worst(statuses) == WARN and exit_status(worst(statuses)) == 0


@needs_root
def test_a_damaged_file_is_set_aside_by_who_adds_to_it(host):
    put(host, record(until=None))
    kept, said = acknowledgements.read_to_add(host.root)
    [aside] = (host.folder / acknowledgements.PATH[1:]).parent.glob("acknowledgements.json*")
    assert kept == [] and aside.read_text() == record(until=None) and aside.name in said
    assert "has until None" in said and "counts as a finding again" in said
    assert acknowledgements.read_to_add(host.root) == ([], "")
    # Not damaged: a later version's, and one that another can write.
    for content, mode in ((record().replace('"schema": 1', '"schema": 2'), 0o644), (record(), 0o666)):
        put(host, content)
        (host.folder / acknowledgements.PATH[1:]).chmod(mode)
        with pytest.raises(ValueError, match=r"schema 1|than root"):
            acknowledgements.read_to_add(host.root)


@needs_root
def test_only_a_regular_file_of_root_is_believed(host):
    def broken(change: Callable) -> str:
        file = host.folder / acknowledgements.PATH[1:]
        if file.exists() or file.is_symlink():
            file.unlink()
        put(host, record())
        change(file)
        return attempt(read_acknowledgements, host.root)["unreadable"]

    def made_a_pipe(file: Path) -> None:
        file.unlink()
        os.mkfifo(file, 0o600)

    assert "by users other than root" in broken(lambda file: file.chmod(0o664))
    assert "by users other than root" in broken(lambda file: os.chown(file, 1000, 0))
    assert "Too many levels" in broken(lambda file: (file.rename(f"{file}.x"), file.symlink_to(f"{file}.x")))
    assert "not a regular file" in broken(made_a_pipe)


ANY = st.recursive(
    st.none() | st.booleans() | st.integers(-2, 3) | st.floats(allow_nan=False) | st.text(max_size=6),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=6), inner, max_size=3),
    max_leaves=8,
)


@settings(max_examples=150, deadline=None)
@given(st.sampled_from([*sorted(entry()), "moment", "acknowledgements", "strikes", "kernel_log", "skip_checks"]), ANY)
def test_waivers_of_any_shape_break_nothing_and_hide_nothing(name, value):
    readings, expectations = node(entry(), sram="unknown"), healthy_node.expectations()
    if name in entry():
        readings["acknowledgements"][0][name] = value
    else:
        (expectations if name == "skip_checks" else readings)[name] = value
    records = run_checks(readings, expectations, healthy_node.smoke(), level=DEEP)
    for found in records:
        assert "this check ended with an error" not in found["message"], found
    assert next(found for found in records if found["id"] == "gpu.sram")["status"] == UNKNOWN
