"""nvidia-smi's text, CSV and table are read as its XML is; what a form does not have is left out and named."""

from __future__ import annotations

from pathlib import Path

import pytest
from gpuwright.doctor.replay.given_file import CSV_FORM, NOT_JUDGED, TABLE_FORM, TEXT_FORM, pieces_of_text
from gpuwright.doctor.replay.judge import judged
from gpuwright.gpu.nvidia_smi.forms import FIELDS
from gpuwright.gpu.nvidia_smi.other_forms import parse_csv_answer, parse_text, record_of_form
from gpuwright.gpu.nvidia_smi.xml import parse_log
from gpuwright.verdict.check import FAIL, PASS, UNKNOWN, WARN
from smi_forms import as_csv, as_text

DATA = Path(__file__).parents[1] / "data" / "nvidia_smi"
ANSWERS = sorted(path.name for path in DATA.glob("*.xml"))
HEALTHY = (DATA / "580-v100.xml").read_text()
TABLE = """\
Wed Aug 12 21:53:45 2026
+-----------------------------------------------------------------------------------------+
| NVIDIA-SMI 580.95.05              Driver Version: 580.95.05      CUDA Version: 13.0     |
+-----------------------------------------+------------------------+----------------------+
| GPU  Name                 Persistence-M | Bus-Id          Disp.A | Volatile Uncorr. ECC |
| Fan  Temp   Perf          Pwr:Usage/Cap |           Memory-Usage | GPU-Util  Compute M. |
|                                         |                        |               MIG M. |
|=========================================+========================+======================|
|   0  Tesla V100-SXM2-16GB           On  |   00000000:3B:00.0 Off |                    0 |
| N/A   41C    P0             41W /  300W |       0MiB /  16384MiB |      0%      Default |
|                                         |                        |                  N/A |
+-----------------------------------------+------------------------+----------------------+
|   1  Tesla V100-SXM2-16GB           On  |   00000000:AF:00.0 Off |                    0 |
| N/A   40C    P0             40W /  300W |       0MiB /  16384MiB |      0%      Default |
|                                         |                        |                  N/A |
+-----------------------------------------+------------------------+----------------------+

+-----------------------------------------------------------------------------------------+
| Processes:                                                                              |
|  No running processes found                                                             |
+-----------------------------------------------------------------------------------------+
"""
OF_FORMS = {field.name for field in FIELDS}


def verdicts(text: str) -> list[tuple[str, str, dict[str, str]]]:
    found = [judged(piece) for piece in pieces_of_text(text.encode())]
    return [(one["kind"], one["verdict"], {check["id"]: check["status"] for check in one["checks"]}) for one in found]


def flat(gpu: dict) -> dict:
    record = {**gpu, **gpu["health"]}
    return {name: value for name, value in record.items() if name in OF_FORMS}


@pytest.mark.parametrize("name", ANSWERS)
def test_the_text_has_what_the_xml_has(name):
    xml = (DATA / name).read_text()
    found = record_of_form(parse_text(as_text(xml).split("\n")))
    wanted = parse_log(xml)
    assert [flat(gpu) for gpu in found["gpus"]] == [flat(gpu) for gpu in wanted["gpus"]]
    assert (found["driver_version"], found["lacks"]) == (wanted["driver_version"], [])


@pytest.mark.parametrize("name", ANSWERS)
def test_the_text_is_judged_as_the_xml_is(name):
    xml = (DATA / name).read_text()
    [(_kind, verdict, by_xml)] = verdicts(xml)
    assert verdicts(as_text(xml)) == [(TEXT_FORM, verdict, by_xml)]


@pytest.mark.parametrize("nounits", [False, True])
@pytest.mark.parametrize("name", ANSWERS)
def test_a_table_of_columns_is_judged_as_the_xml_is_where_it_has_values(name, nounits):
    xml = (DATA / name).read_text()
    [(_kind, _verdict, by_xml)] = verdicts(xml)
    [(kind, _verdict, found)] = verdicts(as_csv(xml, nounits))
    different = {check: (status, by_xml[check]) for check, status in found.items() if by_xml[check] != status}
    assert kind == CSV_FORM and len(found) >= 10 and not different, different


@pytest.mark.parametrize(
    ("old", "new", "check", "status"),
    [
        (
            "Pending Page Blacklist                      : No",
            "Pending Page Blacklist : Yes",
            "driver.retired_pages",
            FAIL,
        ),
        ("Total                                       : 0", "Total : 3", "driver.ecc", FAIL),
        ("Hw Slowdown                             : Not Active", "HW Slowdown : Active", "gpu.throttle", FAIL),
    ],
)
def test_what_is_broken_in_the_text_is_found(old, new, check, status):
    import re

    text = as_text(HEALTHY)
    label, _colon, value = old.partition(":")
    pattern = re.compile(rf"^( +){label.strip()} *: {value.strip()}$", re.M)
    assert pattern.search(text), text
    broken = pattern.sub(lambda match: match.group(1) + new, text)
    [(_kind, verdict, found)] = verdicts(broken)
    assert found[check] in (status, FAIL) and verdict in (status, FAIL), found[check]


def test_a_word_for_an_error_in_any_value_counts():
    text = as_text(HEALTHY)
    lost = text.replace("    Processes", "    Something New                         : GPU is lost\n    Processes")
    [(_kind, verdict, found)] = verdicts(lost)
    assert verdict == FAIL and found["driver.reachable"] == FAIL


def test_a_text_that_ends_within_a_card_is_not_good():
    text = as_text(HEALTHY)
    [(_kind, verdict, _found)] = verdicts(text[: text.index("    Processes")])
    assert verdict == UNKNOWN


def test_a_section_alone_says_what_it_does_not_tell():
    text = "==============NVSMI LOG==============\n\nTimestamp : now\nDriver Version : 580.95.05\n\nAttached GPUs : 1\n"
    text += (
        "GPU 00000000:3B:00.0\n    ECC Errors\n        Volatile\n            Single Bit\n                Total : 0\n"
    )
    text += "            Double Bit\n                Total : 2\n"
    [piece] = pieces_of_text(text.encode())
    found = judged(piece)
    statuses = {check["id"]: check["status"] for check in found["checks"]}
    assert UNKNOWN not in statuses.values() and any("temperature_c" in words for words in found["left_out"]), found


def test_the_table_is_judged_and_says_what_it_lacks():
    [piece] = pieces_of_text(TABLE.encode())
    found = judged(piece)
    assert (found["kind"], found["verdict"]) == (TABLE_FORM, PASS), found
    assert found["gpus"] == ["Tesla V100-SXM2-16GB"] * 2 and found["driver"] == "580.95.05"
    assert any("recovery_action" in words for words in found["left_out"])


@pytest.mark.parametrize(
    ("old", "new", "check", "status"),
    [
        ("  0 |\n| N/A   41C", "  7 |\n| N/A   41C", "driver.ecc", FAIL),
        ("| N/A   41C ", "| ERR!  ERR!", "gpu.temperature", UNKNOWN),
        ("41W /  300W", "ERR! / ERR!", "gpu.power_draw", UNKNOWN),
        (
            "0MiB /  16384MiB |      0%      Default",
            "0MiB /  16384MiB |      0%   Prohibited",
            "gpu.compute_mode",
            FAIL,
        ),
    ],
)
def test_what_is_broken_in_the_table_is_found(old, new, check, status):
    assert old in TABLE
    [(_kind, verdict, found)] = verdicts(TABLE.replace(old, new, 1))
    assert verdict != PASS and (status is None or found[check] == status), (verdict, found)


def test_a_mask_of_reasons_is_read():
    head = "index, name, pci.bus_id, driver_version, clocks_event_reasons.active\n"
    row = "0, NVIDIA H100 80GB HBM3, 00000000:3B:00.0, 580.95.05, 0x{:016X}\n"
    [(_kind, good, _found)] = verdicts(head + row.format(1))
    [(_kind, bad, found)] = verdicts(head + row.format(0x48))
    assert good == PASS and bad in (FAIL, WARN) and found["gpu.throttle"] == bad


@pytest.mark.parametrize(
    "text",
    [
        "index, name, driver_version, bus\n0, NVIDIA H100, 580.95.05\n",
        "0, GPU-2f1b8c44-0000-1111-2222-333344445555, 35\n",
    ],
)
def test_a_table_that_cannot_be_read_is_not_good(text):
    found = verdicts(text)
    assert all(verdict is None or verdict == UNKNOWN for _kind, verdict, _checks in found)


def test_a_row_with_other_columns_is_refused():
    with pytest.raises(ValueError, match="instead of"):
        parse_csv_answer(["index, name, pci.bus_id", "0, NVIDIA H100"])


def test_programs_in_a_table_are_no_cards():
    found = verdicts("pid, process_name, used_gpu_memory [MiB]\n7, python, 300 MiB\n")
    assert [kind for kind, _verdict, _checks in found] != [CSV_FORM] and NOT_JUDGED


def test_all_forms_in_one_file_are_judged():
    text = (
        f"$ nvidia-smi\n{TABLE}\n$ nvidia-smi -q\n{as_text(HEALTHY)}\n$ nvidia-smi --query-gpu=...\n{as_csv(HEALTHY)}"
    )
    text += HEALTHY
    kinds = [kind for kind, _verdict, _found in verdicts(text)]
    assert sorted(kinds) == sorted([TABLE_FORM, TEXT_FORM, CSV_FORM, "nvidia-smi XML"])


def test_every_row_is_of_a_field_that_is_read():
    gpu = parse_log(HEALTHY)["gpus"][0]
    assert {field.name for field in FIELDS} <= set(gpu) | set(gpu["health"])
    paths = [field.xml for field in FIELDS]
    assert len(paths) == len(set(paths))
