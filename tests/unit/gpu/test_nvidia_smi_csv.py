"""The CSV of nvidia-smi: header, units and words of several generations, and tables that nobody wrote."""

from __future__ import annotations

import json

import pytest
from fault_rows import TOKENS
from gpuwright.gpu.nvidia_smi.csv import FIELDS, IDENTITY, UnreadableCsv, parse_csv, unknown_fields
from hypothesis import given, settings
from hypothesis import strategies as st

U = "unknown"
V100 = {"pci.bus_id": "00000000:3B:00.0", "pci.device_id": "0x1DB410DE", "name": "Tesla V100-PCIE-16GB"}
H100 = {"pci.bus_id": "00000000:19:00.0", "pci.device_id": "0x233010DE", "name": "NVIDIA H100 80GB HBM3"}
RTX = {"pci.bus_id": "00000000:01:00.0", "pci.device_id": "0x220410DE", "name": "NVIDIA GeForce RTX 3090"}
GOOD = {"count": "7", "amount": "25.42", "mode": "Enabled", "flag": "No", "text": "P0", "version": "7.0", "mask": "0x4"}
READ = {"count": 7, "amount": 25.42, "mode": "Enabled", "flag": False, "text": "P0", "version": "7.0", "mask": 4}


def table(card: dict, values: dict, header: str = "") -> str:
    """What nvidia-smi prints with --format=csv."""
    names = [
        f"{name} [{FIELDS[name][2]}]" if name in FIELDS and FIELDS[name][2] else name for name in {**card, **values}
    ]
    return (header or ", ".join(names)) + "\n" + ", ".join({**card, **values}.values()) + "\n"


def read(card: dict, values: dict, **more: str) -> dict:
    (record,) = parse_csv(table(card, values, **more), [*IDENTITY, *values])
    return record["values"]


def with_unit(field: str, text: str) -> str:
    unit = FIELDS[field][2]
    return f"{text} {unit}" if unit else text


@pytest.mark.parametrize("field", FIELDS)
def test_every_field_has_a_form(field):
    form = FIELDS[field][1]
    assert read(V100, {field: with_unit(field, GOOD[form])}) == {field: READ[form]}


def test_a_card_is_named_as_sysfs_names_it():
    (record,) = parse_csv(table(V100, {"memory.used": "0 MiB"}), [*IDENTITY, "memory.used"])
    assert record == {"pci_id": "0000:3b:00.0", "name": "Tesla V100-PCIE-16GB", "values": {"memory.used": 0}}


@pytest.mark.parametrize("field", [field for field in FIELDS if FIELDS[field][1] != "text"])
def test_words_are_never_a_value(field):
    for token in TOKENS:
        assert read(V100, {field: token})[field] in (None, U), token


@pytest.mark.parametrize(
    ("card", "values", "expected"),
    [
        (V100, {"temperature.gpu": "[N/A]"}, U),
        (V100, {"retired_pages.pending": "[N/A]"}, U),
        (V100, {"remapped_rows.pending": "[N/A]"}, None),
        (H100, {"retired_pages.pending": "[N/A]"}, None),
        (H100, {"remapped_rows.pending": "[N/A]"}, U),
        (H100, {"remapped_rows.pending": "[N/A]", "mig.mode.current": "Enabled"}, None),
        (H100, {"remapped_rows.pending": "[N/A]", "mig.mode.current": "Disabled"}, U),
        (H100, {"utilization.gpu": "[N/A]", "mig.mode.current": "Enabled"}, None),
        (H100, {"utilization.gpu": "[N/A]", "mig.mode.current": "Disabled"}, U),
        (H100, {"mig.mode.current": "[N/A]"}, U),
        (RTX, {"mig.mode.current": "[N/A]"}, None),
        (RTX, {"power.limit": "[N/A]"}, None),
        (RTX, {"remapped_rows.pending": "[N/A]"}, None),
        (RTX, {"ecc.mode.current": "[N/A]"}, None),
        (V100, {"ecc.mode.current": "[N/A]"}, U),
        (V100, {"ecc.errors.uncorrected.volatile.total": "[N/A]"}, U),
        (V100, {"ecc.errors.uncorrected.volatile.total": "[N/A]", "ecc.mode.current": "Disabled"}, None),
        (V100, {"pstate": "[Requested functionality has been deprecated]"}, U),
        (V100, {"memory.total": "16384"}, U),
        (V100, {"memory.total": "16 GiB"}, U),
        (V100, {"clocks_throttle_reasons.active": "0x0000000000000048"}, 0x48),
        (V100, {"clocks_throttle_reasons.active": "48"}, U),
        ({**V100, "name": "[N/A]"}, {"retired_pages.pending": "[N/A]"}, U),
        ({**H100, "pci.device_id": "ERR!"}, {"retired_pages.pending": "[N/A]"}, None),
    ],
)
def test_which_absence_is_believed(card, values, expected):
    assert read(card, values)[next(iter(values))] == expected


def test_the_newer_name_of_the_throttle_reasons():
    header = "pci.bus_id, pci.device_id, name, clocks_event_reasons.active"
    assert read(V100, {"clocks_throttle_reasons.active": "0x1"}, header=header) == {"clocks_throttle_reasons.active": 1}


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", "empty"),
        ("No devices were found\n", "first line is 'No devices were found'"),
        ("\n\n", "first line is ''"),
        (table(V100, {"memory.used": "0 MiB"})[:-3], "cut off"),
        (table(V100, {"memory.used": "0 MiB"}) + "00000000:AF:00.0, 0x1DB410DE\n", "2 values instead of 4"),
        (table(V100, {"memory.total": "0 MiB"}), "first line"),
    ],
)
def test_what_is_refused(text, words):
    with pytest.raises(UnreadableCsv, match=words):
        parse_csv(text, [*IDENTITY, "memory.used"])


@settings(max_examples=300, deadline=None)
@given(st.text(max_size=200), st.integers(0, 120))
def test_no_text_raises_another_error(noise, place):
    text = table(V100, {"memory.used": "0 MiB", "power.draw": "1.0 W"})
    for damaged in (noise, text[:place] + noise + text[place:], text[:place] + noise):
        try:
            parse_csv(damaged, [*IDENTITY, "memory.used", "power.draw"])
        except UnreadableCsv as error:
            assert str(error)


def test_the_module_reads_fields(run_module, fake_bin):
    answer = table(V100, {"clocks.sm": "1380 MHz", "fan.speed": "[N/A]"})
    fake_bin("nvidia-smi", "#!/bin/sh\ncase $1 in --query-gpu=*)\ncat <<'E'\n" + answer + "E\n;; *) exit 9;; esac\n")
    found = run_module("nvidia_smi_info", {"fields": ["clocks.sm", "fan.speed"]})
    assert found["fields"][0]["values"] == {"clocks.sm": 1380, "fan.speed": None} and found["fields_problem"] == ""
    assert found["status"] == "driver_not_loaded"


def test_the_module_says_why_there_are_no_fields(run_module, fake_bin):
    words = 'Field "compute_cap" is not a valid field to query.'
    fake_bin("nvidia-smi", f"#!/bin/sh\necho '{words}'; exit 2\n")
    found = run_module("nvidia_smi_info", {"fields": ["compute_cap"]})
    assert found["fields"] == [] and words in found["fields_problem"] and "--help-query-gpu" in found["fields_problem"]
    assert run_module("nvidia_smi_info")["fields_problem"] == ""


def test_a_field_that_nobody_reads_is_a_usage_error(run_module):
    found = run_module("nvidia_smi_info", {"fields": ["clocks.smm"]})
    assert found["failed"] and "no such fields: clocks.smm" in json.dumps(found["msg"])
    assert unknown_fields(["name", "clocks.sm"]) == ["name"]
