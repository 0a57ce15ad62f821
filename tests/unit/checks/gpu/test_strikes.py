"""Strikes by serial number: once per fault and boot, across slots and boots, closed and acknowledged ones included."""

from __future__ import annotations

import copy
import json
import os

import healthy_node
import pytest
from gpuwright.checks.all import CHECKS, run_checks
from gpuwright.checks.gpu import strikes_kept as strikes
from gpuwright.checks.gpu.strikes_kept import counted, keep_strikes, read_strikes
from gpuwright.checks.waivers.report import strike_lines, with_waivers
from gpuwright.readings.attempt import attempt
from gpuwright.verdict.report import make_report
from host_tree import HostTree
from test_gpu_doctor import doctor, folder, gated, node  # noqa: F401
from test_waivers import SRAM
from waiver_rows import MOMENT, entry

CARD = "0000:3b:00.0"
UUID = "GPU-00000000-1111-2222-3333-000000000001"
needs_root = pytest.mark.skipif(os.geteuid() != 0, reason="only root's file is believed")


def broken(
    sram: int = 5, serial: str | None = "1234567890123", boot: str = "now", day: int = 31, **kept: object
) -> dict:
    """A node whose card has too many errors of its SRAM."""
    readings = healthy_node.readings("gpu.sram")
    healthy_node.put(readings, SRAM, sram)
    readings["nvidia_smi"]["gpus"][0]["serial"] = serial
    readings["moment"] = {**MOMENT, "boot_id": boot, "time": f"2026-01-{day:02}T10:00:00Z"}
    readings["strikes"] = kept or strikes.empty()
    return readings


def count(readings: dict, **expected: object) -> dict:
    expectations = healthy_node.expectations(**expected)
    return counted(readings, expectations, run_checks(readings, expectations, level="quick"), CHECKS)


def xid(code: int, card: str = "0000:3b:00", **more: object) -> dict:
    text = f"NVRM: Xid (PCI:{card}): {code}, pid='<unknown>', name=<unknown>, Ch 00000008"
    return {"code": code, "pci_id": card, "count": 7, "first_s": 3, "last_s": 9, "text": text, **more}


def test_one_fault_counts_once_in_a_boot():
    first = count(broken())
    [card] = first["cards"]
    assert card == {
        "serial": "1234567890123",
        "uuid": UUID,
        "name": "Tesla V100-PCIE-16GB",
        "pci_id": "0000:3b:00",
        "first": "2026-01-31T10:00:00Z",
        "last": "2026-01-31T10:00:00Z",
        "boots_total": 1,
        "boots": [{"boot_id": "now", "time": "2026-01-31T10:00:00Z", "ids": ["gpu.sram"]}],
        "counts": {"gpu.sram": 1},
        "message": "gpu.sram: 0000:3b:00.0: 5 uncorrected errors",
    }
    assert count(broken(**first)) == first
    [later] = count(broken(boot="later", **first))["cards"]
    assert (later["boots_total"], later["counts"], later["first"]) == (2, {"gpu.sram": 2}, "2026-01-31T10:00:00Z")


def test_a_healthy_node_has_no_card_with_strikes_and_knows_who_sits_where():
    found = count(broken(sram=0))
    assert found["cards"] == []
    slot = {"boot_id": "now", "serial": "1234567890123", "uuid": UUID, "name": "Tesla V100-PCIE-16GB"}
    assert found["slots"] == {"0000:3b:00": slot}


def test_the_serial_number_follows_the_card_into_another_slot():
    before = count(broken(boot="before"))
    readings = broken(**before)
    readings["nvidia_smi"]["gpus"][0]["pci_id"] = readings["probe"]["gpus"][0]["pci_id"] = "0000:af:00.0"
    [card] = count(readings)["cards"]
    assert (card["serial"], card["pci_id"], card["boots_total"]) == ("1234567890123", "0000:af:00", 2)


@pytest.mark.parametrize("serial", [None, "unknown", "", "[N/A]", "0"])
def test_a_card_without_a_serial_number_has_its_uuid(serial):
    [card] = count(broken(serial=serial))["cards"]
    assert (card["serial"], card["uuid"]) == ("", UUID)
    [card] = count(broken(boot="later", cards=[card], slots={}))["cards"]
    # It is the same card when it says its number after all.
    assert (card["serial"], card["boots_total"]) == ("1234567890123", 2)


def test_another_card_in_the_slot_starts_at_nothing():
    before = count(broken(boot="before"))
    readings = broken(serial="999", **before)
    readings["nvidia_smi"]["gpus"][0]["uuid"] = "GPU-ffffffff-1111-2222-3333-000000000009"
    found = count(readings)["cards"]
    assert sorted((card["serial"], card["boots_total"]) for card in found) == [("1234567890123", 1), ("999", 1)]


@pytest.mark.parametrize("closed_by", ["", "the GPU was reset at 60 s", "acknowledged until"])
def test_an_event_counts_open_or_closed(closed_by):
    readings = broken(sram=0)
    readings["kernel_log"]["xids"] = [xid(48, closed_by=closed_by), xid(79), xid(13)]
    [card] = count(readings)["cards"]
    assert card["counts"] == {"kernel.xid:48": 1, "kernel.xid:79": 1}
    assert card["boots_total"] == 1


def test_an_acknowledged_failure_counts():
    readings = broken()
    readings["acknowledgements"] = [entry()]
    records = run_checks(readings, healthy_node.expectations(), level="quick")
    assert next(record for record in records if record["id"] == "gpu.sram")["status"] == "WARN"
    assert counted(readings, healthy_node.expectations(), records, CHECKS)["cards"][0]["counts"] == {"gpu.sram": 1}


def test_a_card_that_has_fallen_off_is_known_by_its_slot_of_this_boot():
    seen = count(broken(sram=0))
    readings = broken(**seen)
    readings["nvidia_smi"].update(reachable=False, status="gpu_lost", gpus=[], message="GPU is lost", action="x")
    readings["kernel_log"]["xids"] = [xid(79)]
    [card] = count(readings)["cards"]
    assert (card["serial"], card["counts"]) == ("1234567890123", {"kernel.xid:79": 1})
    # After a boot nobody can say whether it is still the same card.
    readings["moment"]["boot_id"] = "later"
    [card] = count(readings)["cards"]
    assert (card["serial"], card["uuid"], card["pci_id"]) == ("", "", "0000:3b:00")
    assert strikes.label(card) == "the card at 0000:3b:00"


def test_one_of_two_cards_that_is_not_shown_any_more():
    readings = broken(sram=0)
    second = {**copy.deepcopy(readings["probe"]["gpus"][0]), "pci_id": "0000:af:00.0"}
    readings["probe"]["gpus"].append(second)
    slot = {"boot_id": "now", "serial": "42", "uuid": "GPU-2", "name": "Tesla V100-PCIE-16GB"}
    readings["strikes"] = {"cards": [], "slots": {"0000:af:00": slot}}
    [card] = count(readings, gpu_count=2)["cards"]
    assert (card["serial"], card["counts"]) == ("42", {"gpu.count": 1})


@pytest.mark.parametrize(
    "change",
    [
        # How it is set up is not the card's fault.
        {("probe", "gpus", 0, "bound_driver"): "nouveau"},
        {("nvidia_smi", "gpus", 0, "health", "compute_mode"): "Prohibited"},
        # A warning is no failure, and neither is what cannot be read.
        {("nvidia_smi", "gpus", 0, "persistence_mode"): "Disabled"},
        {("nvidia_smi", "gpus", 0, "temperature_c"): "unknown"},
        {("kernel_log",): {"unreadable": "no permission"}},
        # Not a card: a port of the bus, and a log line without an address.
        {
            ("kernel_log", "findings"): [
                {"kind": "pcie", "count": 1, "last_s": 3, "text": "AER", "pci_id": "0000:00:1c.0"}
            ]
        },
        {("kernel_log", "xids"): [xid(48, "unnamed")]},
        {("moment", "boot_id"): None},
        {("moment",): {"unreadable": "no"}},
    ],
)
def test_what_is_no_strike(change):
    readings = broken(sram=0)
    for path, value in change.items():
        healthy_node.put(readings, path, value)
    assert count(readings)["cards"] == []


def test_a_switch_has_strikes_under_its_address():
    readings = broken(sram=0)
    readings["kernel_log"]["sxids"] = [
        {**xid(20034, "0000:c5:00"), "text": "SXid (PCI:0000:c5:00.0): 20034, Fatal, Link"}
    ]
    [card] = count(readings)["cards"]
    assert (card["name"], card["pci_id"], card["counts"]) == ("NVSwitch", "0000:c5:00", {"kernel.sxid:20034": 1})


def test_it_stays_small():
    record = strikes.empty()
    for boot in range(strikes.MOST_BOOTS + 5):
        readings = broken(boot=f"boot {boot}", **record)
        readings["kernel_log"]["xids"] = [xid(48), xid(79)]
        record = count(readings)
    [card] = record["cards"]
    assert (card["boots_total"], len(card["boots"])) == (strikes.MOST_BOOTS + 5, strikes.MOST_BOOTS)
    assert card["counts"]["kernel.xid:48"] == strikes.MOST_BOOTS + 5
    many = [
        {**card, "serial": str(n), "uuid": f"GPU-{n}", "last": f"2025-01-01T00:{n // 60:02}:{n % 60:02}Z"}
        for n in range(500)
    ]
    found = count(broken(serial="new", cards=many, slots={}))["cards"]
    assert len(found) == strikes.MOST_CARDS and found[0]["serial"] == "new"
    full = {**card, "counts": {f"kernel.xid:{n}": 1 for n in range(strikes.MOST_IDS)}}
    [card] = count(broken(boot="x", cards=[full], slots={}))["cards"]
    assert len(card["counts"]) == strikes.MOST_IDS + 1 and card["counts"]["others"] == 1


@pytest.mark.parametrize("kept", [None, 5, [], {}, {"cards": 5, "slots": {}}, {"cards": [{}], "slots": {}}])
def test_a_damaged_record_stays_unread(kept):
    readings = {**broken(), "strikes": kept}
    assert set(count(readings)) == {"unreadable"}
    assert count({**broken(), "strikes": {"unreadable": "why"}}) == {"unreadable": "why"}


def test_three_boots_are_a_warning_the_present_one_included():
    record = strikes.empty()
    for boot in ("a", "b"):
        record = count(broken(boot=boot, **record))
    status = {}
    for name, sram in (("healthy", 0), ("broken", 5)):
        records = run_checks(broken(sram=sram, boot="c", **record), healthy_node.expectations(), level="quick")
        found = next(record for record in records if record["id"] == "gpu.strikes")
        status[name] = found["status"]
    assert status == {"healthy": "PASS", "broken": "WARN"}
    assert "serial 1234567890123 (Tesla V100-PCIE-16GB at 0000:3b:00) failed in 3 boots" in found["message"]
    assert "gpu.sram (3)" in found["message"]


# --- the file


@pytest.fixture
def host(tmp_path) -> HostTree:
    (tmp_path / "var/lib/gpuwright").mkdir(parents=True)
    return HostTree(tmp_path)


def report(readings: dict) -> dict:
    records = run_checks(readings, healthy_node.expectations(), level="quick")
    return with_waivers(
        make_report("a5-01", "2026-01-31T10:00:00Z", records, readings, healthy_node.expectations(), None)
    )


@needs_root
def test_they_are_kept_across_boots(host):
    for boot in ("a", "b", "b", "c"):
        keep_strikes(report(broken(boot=boot)), CHECKS, host.root)
    file = host.folder / strikes.PATH[1:]
    assert oct(file.stat().st_mode & 0o777) == "0o644"
    [card] = read_strikes(host.root)["cards"]
    assert card["boots_total"] == 3
    before = file.stat().st_mtime_ns
    keep_strikes(report(broken(boot="c")), CHECKS, host.root)
    # Nothing new, nothing written.
    assert file.stat().st_mtime_ns == before


@needs_root
@pytest.mark.parametrize("content", ["", "{", '{"schema": 0}', '{"schema": 1, "cards": [], "slots": 5}'])
def test_a_damaged_file_is_evidence_and_set_aside(host, content):
    host.put(strikes.PATH, content)
    file = host.folder / strikes.PATH[1:]
    file.chmod(0o644)
    readings = {**broken(), "strikes": attempt(strikes.read_strikes_and_lost, host.root)}
    found = {record["id"]: record["status"] for record in report(readings)["checks"]}
    assert found["gpu.strikes"] == "WARN" and set(report(readings)["strikes"]) == {"unreadable"}
    # Whoever only reads changes nothing.
    assert file.read_text() == content

    said = keep_strikes(report(broken()), CHECKS, host.root)
    [aside] = file.parent.glob("strikes.json.damaged-*")
    assert "is damaged" in said and aside.name in said and "strikes of until now" in said
    assert aside.read_text() == content
    # Counting goes on, and for a month a row says what is missing.
    assert len(read_strikes(host.root)["cards"]) == 1 and not keep_strikes(report(broken()), CHECKS, host.root)
    lost = strikes.read_strikes_and_lost(host.root)
    day = strikes.time_of_aside(aside.name)[:10]
    for time, status in ((f"{day}T23:59:59Z", "WARN"), ("2099-01-01T00:00:00Z", "PASS")):
        readings = {**broken(), "strikes": lost}
        readings["moment"] = {**readings["moment"], "time": time}
        [row] = [record for record in report(readings)["checks"] if record["id"] == "gpu.strikes"]
        assert row["status"] == status, row
        assert status == "PASS" or aside.name in row["message"] and f"/{aside.name} " in row["action"]


@needs_root
def test_a_later_versions_file_is_whole_and_stays(host):
    host.put(strikes.PATH, '{"schema": 2}')
    (host.folder / strikes.PATH[1:]).chmod(0o644)
    with pytest.raises(ValueError, match="expected a record of schema 1"):
        keep_strikes(report(broken()), CHECKS, host.root)
    assert (host.folder / strikes.PATH[1:]).read_text() == '{"schema": 2}'


def test_lines_for_a_claim():
    assert strike_lines([]) == ["No card of this node has a strike."]
    lines = strike_lines(report(broken())["strikes"])
    assert lines == [
        f"serial 1234567890123: Tesla V100-PCIE-16GB, UUID {UUID}, last seen at 0000:3b:00",
        "  failed in 1 boot, first 2026-01-31T10:00:00Z, last 2026-01-31T10:00:00Z",
        "  gpu.sram once",
        "  last: gpu.sram: 0000:3b:00.0: 5 uncorrected errors",
    ]


@needs_root
def test_the_program_counts_what_it_records_and_lists_it(doctor, node, folder):  # noqa: F811
    gated(node)
    lanes = "<current_link_width>16x</current_link_width>"
    xml = (folder / "580-v100.xml").read_text()
    (folder / "580-v100.xml").write_text(xml.replace(lanes, lanes.replace("16", "8")))
    assert doctor("--level", "quick").returncode == 1
    assert not (node.folder / strikes.PATH[1:]).exists()
    assert doctor("--strikes").stdout == "No card of this node has a strike.\n"
    for boot in ("a", "b", "c"):
        node.put("/proc/sys/kernel/random/boot_id", f"boot-{boot}\n")
        done = doctor("--level", "quick", "--record", "900")
        assert done.returncode == 1
    assert "WARN gpu.strikes: " in done.stdout
    told = doctor("--strikes", user=65534)
    assert told.returncode == 0 and "failed in 3 boots" in told.stdout and "gpu.link_width 3 times" in told.stdout
    kept = json.loads((node.folder / strikes.PATH[1:]).read_text())
    assert kept["cards"][0]["counts"] == {"gpu.link_width": 3}


@needs_root
def test_strikes_that_cannot_be_kept_do_not_hold_the_gate(doctor, node):  # noqa: F811
    gated(node)
    node.put(strikes.PATH, "{")
    (node.folder / strikes.PATH[1:]).chmod(0o644)
    done = doctor("--level", "quick", "--record", "900")
    assert done.returncode == 0 and "It was set aside as strikes.json.damaged-" in done.stderr
    assert "WARN gpu.strikes: strikes are not counted" in done.stdout and doctor("--gate").returncode == 0
    done = doctor("--strikes")
    assert done.returncode == 0 and "in a damaged file beside, strikes.json.damaged-" in done.stdout
