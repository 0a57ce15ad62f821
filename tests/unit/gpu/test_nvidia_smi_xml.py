"""The XML of nine drivers, and XML that no driver wrote."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from gpuwright.gpu.nvidia_smi.xml import UnreadableXml, parse_log
from hypothesis import given, settings
from hypothesis import strategies as st

DATA = Path(__file__).parents[1] / "data" / "nvidia_smi"
U = "unknown"

V100 = {
    "serial": "0320000000001",
    "name": "Tesla V100-PCIE-16GB",
    "pci_id": "0000:3b:00.0",
    "device_id": "1db4",
    "architecture": "volta",
    "persistence_mode": "Enabled",
    "ecc_mode": "Enabled",
    "mig_mode": None,
    "ecc_uncorrected_volatile": 0,
    "retired_pages_pending": False,
    "remapped_rows_pending": None,
    "throttle_reasons": ["gpu_idle"],
    "processes": [],
}

# What must come out of each file, for the first GPU; the DTD in the name of the file is never looked at.
EXPECTED: dict[str, tuple[str, str, dict[str, object]]] = {
    "418-v100": (
        "418.87.01",
        "10.1",
        {**V100, "memory_total_mib": 16130, "power_draw_w": 25.4, "recovery_action": None},
    ),
    "460-v100-busy": (
        "460.73.01",
        "11.2",
        {
            **V100,
            "persistence_mode": "Disabled",
            "temperature_c": 83,
            "ecc_uncorrected_volatile": 2,
            "retired_pages_pending": True,
            "throttle_reasons": ["hw_slowdown", "hw_thermal_slowdown", "sw_power_cap"],
            "processes": [
                {
                    "pid": 4321,
                    "type": "C",
                    "name": "/opt/gpuwright/venvs/current/bin/python3",
                    "used_memory_mib": 15799,
                },
                {"pid": 1999, "type": "G", "name": "/usr/libexec/Xorg", "used_memory_mib": 4},
            ],
        },
    ),
    "515-t4": (
        "515.105.01",
        "11.7",
        {"architecture": "turing", "retired_pages_pending": False, "throttle_reasons": [], "memory_used_mib": 1032},
    ),
    "525-rtx3090": (
        "525.125.06",
        "12.0",
        {"architecture": "ampere", "ecc_mode": None, "ecc_uncorrected_volatile": None, "power_limit_w": 350.0},
    ),
    "535-a100-mig": (
        "535.54.03",
        "12.2",
        {
            "mig_mode": "Enabled",
            "ecc_uncorrected_volatile": 0,
            "retired_pages_pending": None,
            "remapped_rows_pending": None,
            "power_draw_w": 67.03,
            "recovery_action": "none",
        },
    ),
    "570-h100-two": (
        "570.124.06",
        "12.8",
        {
            "architecture": "hopper",
            "mig_mode": "Disabled",
            "power_draw_w": 71.25,
            "ecc_uncorrected_volatile": 0,
            "remapped_rows_pending": False,
            "recovery_action": "none",
        },
    ),
    "580-v100": (
        "580.95.05",
        "13.0",
        {**V100, "memory_total_mib": 16384, "power_draw_w": 25.01, "power_limit_w": 250.0, "recovery_action": "none"},
    ),
    "595-rtx4000-ada": (
        "595.84",
        "13.2",
        {"architecture": "ada", "ecc_mode": "Disabled", "ecc_uncorrected_volatile": None, "power_draw_w": 8.44},
    ),
}  # fmt: skip


def text_of(name: str) -> str:
    return (DATA / f"{name}.xml").read_text()


def replaced(text: str, tag: str, value: str) -> str:
    """The text with another value in every element `tag`; fails when there is none."""
    changed, count = re.subn(rf"<{tag}>[^<]*</{tag}>", f"<{tag}>{value}</{tag}>", text)
    assert count, tag
    return changed


def without(text: str, tag: str) -> str:
    changed, count = re.subn(rf"(?s)<{tag}>.*?</{tag}>", "", text)
    assert count, tag
    return changed


def test_every_file_has_its_expectation():
    assert {file.stem for file in DATA.glob("*.xml")} == set(EXPECTED)


@pytest.mark.parametrize("name", EXPECTED)
def test_a_driver(name):
    driver, cuda, first = EXPECTED[name]
    log = parse_log(text_of(name))
    assert (log["driver_version"], log["cuda_version"], log["attached_gpus"]) == (driver, cuda, len(log["gpus"]))
    assert {key: log["gpus"][0][key] for key in first} == first
    # A healthy card of a known shape leaves nothing unread.
    assert [key for key, value in log["gpus"][0].items() if value == U] == []


def test_two_cards_keep_their_own_values():
    first, second = parse_log(text_of("570-h100-two"))["gpus"]
    assert (first["pci_id"], second["pci_id"]) == ("0000:19:00.0", "0000:3b:00.0")
    assert (first["remapped_rows_pending"], second["remapped_rows_pending"]) == (False, True)
    assert (first["recovery_action"], second["recovery_action"]) == ("none", "drain and reset")


# N/A where this card certainly has the thing is a failed reading; where it may not, it is null.
@pytest.mark.parametrize(
    ("name", "tag", "value", "field", "expected"),
    [
        ("580-v100", "current_ecc", "N/A", "ecc_mode", U),
        ("580-v100", "current_ecc", "[N/A]", "ecc_mode", U),
        ("580-v100", "total", "[Unknown Error]", "ecc_uncorrected_volatile", U),
        ("580-v100", "total", "N/A", "ecc_uncorrected_volatile", U),
        ("580-v100", "total", "ERR!", "memory_total_mib", U),
        ("580-v100", "pending_retirement", "ERR!", "retired_pages_pending", U),
        ("580-v100", "gpu_temp", "N/A", "temperature_c", U),
        ("580-v100", "gpu_temp", "ERR!", "temperature_c", U),
        ("580-v100", "gpu_temp", "[GPU requires reset]", "temperature_c", U),
        ("580-v100", "gpu_temp", "34 F", "temperature_c", U),
        ("580-v100", "current_power_limit", "N/A", "power_limit_w", U),
        ("580-v100", "persistence_mode", "[Insufficient Permissions]", "persistence_mode", U),
        ("580-v100", "uuid", "", "uuid", U),
        ("580-v100", "product_name", "", "name", U),
        ("580-v100", "gpu_recovery_action", "Unknown Error", "recovery_action", U),
        ("580-v100", "clocks_event_reason_hw_slowdown", "ERR!", "throttle_reasons", U),
        ("580-v100", "clocks_event_reason_hw_slowdown", "N/A", "throttle_reasons", ["gpu_idle"]),
        ("580-v100", "instant_power_draw", "N/A", "power_draw_w", 25.3),
        ("580-v100", "processes", "N/A", "processes", U),
        ("515-t4", "dram_uncorrectable", "3", "ecc_uncorrected_volatile", 3),
        ("515-t4", "sram_uncorrectable", "[N/A]", "ecc_uncorrected_volatile", U),
        ("515-t4", "sram_uncorrectable", "ERR!", "ecc_uncorrected_volatile", U),
        ("515-t4", "pending_blacklist", "Yes", "retired_pages_pending", True),
        ("525-rtx3090", "power_draw", "N/A", "power_draw_w", None),
        ("525-rtx3090", "power_draw", "ERR!", "power_draw_w", U),
        ("525-rtx3090", "current_ecc", "ERR!", "ecc_mode", U),
        ("535-a100-mig", "current_mig", "N/A", "mig_mode", U),
        ("535-a100-mig", "reset_required", "Yes", "recovery_action", "gpu reset"),
        ("535-a100-mig", "drain_and_reset_recommended", "Yes", "recovery_action", "drain and reset"),
        ("535-a100-mig", "reset_required", "ERR!", "recovery_action", U),
        ("570-h100-two", "sram_uncorrectable_parity", "1", "ecc_uncorrected_volatile", 1),
        ("570-h100-two", "remapped_row_failure", "Yes", "remapped_rows_failure", True),
        ("570-h100-two", "remapped_row_failure", "N/A", "remapped_rows_failure", U),
        ("570-h100-two", "remapped_rows", "N/A", "remapped_rows_pending", U),
        ("460-v100-busy", "used_memory", "N/A", "processes", [
            {"pid": 4321, "type": "C", "name": "/opt/gpuwright/venvs/current/bin/python3", "used_memory_mib": None},
            {"pid": 1999, "type": "G", "name": "/usr/libexec/Xorg", "used_memory_mib": None},
        ]),
        ("418-v100", "memory_temp", "GPU requires reset", "recovery_action", "gpu reset"),
        ("595-rtx4000-ada", "instant_power_draw", "Requested functionality has been deprecated", "power_draw_w", 8.81),
    ],
)  # fmt: skip
def test_one_value_that_is_none(name, tag, value, field, expected):
    text = text_of(name)
    if tag == "remapped_rows":
        text = without(text, tag).replace("<temperature>", "<remapped_rows>N/A</remapped_rows><temperature>")
    else:
        text = replaced(text, tag, value)
    assert parse_log(text)["gpus"][0][field] == expected


@pytest.mark.parametrize(
    ("name", "tag", "field", "expected"),
    [
        ("580-v100", "fb_memory_usage", "memory_total_mib", U),
        ("580-v100", "temperature", "temperature_c", U),
        ("580-v100", "gpu_power_readings", "power_draw_w", U),
        ("580-v100", "ecc_mode", "ecc_mode", U),
        ("580-v100", "ecc_errors", "ecc_uncorrected_volatile", U),
        ("580-v100", "retired_pages", "retired_pages_pending", U),
        ("580-v100", "clocks_event_reasons", "throttle_reasons", U),
        ("580-v100", "processes", "processes", U),
        ("580-v100", "persistence_mode", "persistence_mode", U),
        ("580-v100", "uuid", "uuid", U),
        ("580-v100", "pci_device_id", "architecture", "volta"),
        ("418-v100", "pci_device_id", "architecture", U),
        ("525-rtx3090", "ecc_mode", "ecc_mode", U),
        ("570-h100-two", "mig_mode", "mig_mode", U),
        ("570-h100-two", "gpu_recovery_action", "recovery_action", "none"),
    ],
)
def test_one_block_that_is_missing(name, tag, field, expected):
    assert parse_log(without(text_of(name), tag))["gpus"][0][field] == expected


def test_versions_that_are_missing():
    log = parse_log(without(without(text_of("580-v100"), "driver_version"), "cuda_version"))
    assert (log["driver_version"], log["cuda_version"]) == (U, U)


@pytest.mark.parametrize(
    ("address", "expected"),
    [
        ("00010000:3B:00.0", "10000:3b:00.0"),
        ("0000:3B:00.0", "0000:3b:00.0"),
        ("3B:00.0", U),
        ("", "0000:3b:00.0"),
    ],
)
def test_pci_addresses(address, expected):
    text = text_of("580-v100").replace('id="00000000:3B:00.0"', f'id="{address}"')
    assert parse_log(text)["gpus"][0]["pci_id"] == expected


def test_warnings_around_the_xml_are_passed_over():
    text = "WARNING: something\n" + text_of("580-v100") + "\nWARNING: infoROM is corrupted at gpu 0000:3B:00.0\n"
    assert len(parse_log(text)["gpus"]) == 1


BOMB = (
    '<?xml version="1.0"?>\n<!DOCTYPE nvidia_smi_log [\n<!ENTITY a "aaaaaaaaaa">\n<!ENTITY b "&a;&a;&a;&a;">\n]>\n'
    "<nvidia_smi_log><driver_version>&b;</driver_version></nvidia_smi_log>\n"
)
FILE_ENTITY = (
    '<!DOCTYPE nvidia_smi_log [<!ENTITY f SYSTEM "file:///etc/passwd">]><nvidia_smi_log><gpu>&f;</gpu></nvidia_smi_log>'
)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", "no <nvidia_smi_log>"),
        ("No devices were found\n", "no <nvidia_smi_log>"),
        (BOMB, "declares entities"),
        (FILE_ENTITY, "declares entities"),
        ('<nvidia_smi_log><!DOCTYPE x [<!ENTITY a "b">]></nvidia_smi_log>', "declares entities"),
        ("<nvidia_smi_log>&b;</nvidia_smi_log>", "damaged"),
        ("<nvidia_smi_log><gpu></nvidia_smi_log>", "damaged"),
        ("<nvidia_smi_log>\x00</nvidia_smi_log>", "damaged"),
        ("<nvidia_smi_log>\x1b[31m</nvidia_smi_log>", "damaged"),
        ("</nvidia_smi_log><nvidia_smi_log>", "cut off"),
    ],
)
def test_what_is_refused(text, words):
    with pytest.raises(UnreadableXml, match=words):
        parse_log(text)


def test_markup_in_a_name_stays_text():
    text = replaced(text_of("580-v100"), "product_name", "&lt;b&gt;V100&lt;/b&gt; $(reboot) {{ lookup('env') }}")
    assert parse_log(text)["gpus"][0]["name"] == "<b>V100</b> $(reboot) {{ lookup('env') }}"


@pytest.mark.parametrize("name", EXPECTED)
def test_every_truncation_is_noticed(name):
    text = text_of(name).rstrip()
    for end in range(0, len(text) - 1, 97):
        with pytest.raises(UnreadableXml):
            parse_log(text[:end])


TAGS = sorted(set(re.findall(r"<([a-z_0-9]+)>", "".join(text_of(name) for name in EXPECTED))))
TOKENS = [
    "N/A",
    "ERR!",
    "[Unknown Error]",
    "",
    "-1",
    "99999999999999999999",
    "Enabled",
    "Yes",
    "\u0664 C",
    "<x/>",
    "&amp;",
]


@settings(max_examples=200, deadline=None)
@given(
    st.sampled_from(sorted(EXPECTED)), st.lists(st.tuples(st.sampled_from(TAGS), st.sampled_from(TOKENS)), max_size=8)
)
def test_no_combination_of_odd_values_raises(name, changes):
    text = text_of(name)
    for tag, value in changes:
        text = re.sub(rf"<{tag}>[^<]*</{tag}>", f"<{tag}>{value}</{tag}>", text)
    keys = set(parse_log(text_of(name))["gpus"][0])
    assert all(set(gpu) == keys for gpu in parse_log(text)["gpus"])
