"""What drivers from 610 on write (comments, new names), words that are values, and cards that are lost."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from gpuwright.gpu.nvidia_smi.query import interpret, query
from gpuwright.gpu.nvidia_smi.xml import UnreadableXml, parse_log
from gpuwright.host.bounded import Finished
from text_parts import part_of

DATA = Path(__file__).parents[1] / "data" / "nvidia_smi"
V100 = (DATA / "580-v100.xml").read_text()
H100 = (DATA / "570-h100-two.xml").read_text()
NOTE = "<!-- driver_version is deprecated and will be removed in CUDA 14.0. Use kmd_version instead -->"


def newer(text: str, note: str = NOTE) -> str:
    """The answer as 615 writes it: notes in comments, new names, limits of power one element deeper."""
    text = text.replace(
        "<driver_version>580.95.05</driver_version>", f"{note}<driver_version>615.36.01</driver_version>"
    )
    text = text.replace(
        "<cuda_version>", "<kmd_version>615.36.01</kmd_version><cuda_umd_version>13.4</cuda_umd_version><cuda_version>"
    )
    limits = part_of(r"(?s)(<current_power_limit>.*?</default_power_limit>)", text)
    text = text.replace(limits, f"<gpu_ceiling_power_limit>{limits}</gpu_ceiling_power_limit>")
    return text.replace(
        "</gpu_power_readings>", "</gpu_power_readings><power_smoothing>Insufficient Permissions</power_smoothing>"
    )


def done(text: str, rc: int = 0) -> Finished:
    return Finished(rc, text, "", timed_out=False, missing=False, truncated=False, problem="")


def test_the_answer_of_615_is_read():
    meaning, log = interpret(done(newer(V100)))
    assert log is not None
    assert (meaning.status, log["driver_version"], log["cuda_version"]) == ("ok", "615.36.01", "13.4")
    (gpu,) = log["gpus"]
    (before,) = parse_log(V100)["gpus"]
    assert gpu == before and gpu["power_limit_w"] == gpu["health"]["power_default_w"] == 250.0


@pytest.mark.parametrize(
    ("change", "driver", "cuda"),
    [
        (("(?s)<driver_version>.*</cuda_version>", "<kmd_version>615.1.2</kmd_version>"), "615.1.2", "unknown"),
        ((">580.95.05</driver", ">610.57.04 [Deprecated; use KMD Version]</driver"), "610.57.04", "13.0"),
        ((">580.95.05</driver", ">580.95.05<!-- gone soon --></driver"), "580.95.05", "13.0"),
        (("<driver_version>", "<kmd_version>ERR!</kmd_version><driver_version>"), "580.95.05", "13.0"),
    ],
)
def test_versions_under_either_name(change, driver, cuda):
    pattern, instead = change
    log = parse_log(re.sub(pattern, instead, V100))
    assert (log["driver_version"], log["cuda_version"]) == (driver, cuda)


@pytest.mark.parametrize(
    "comment",
    [
        "<!---->",
        "<!-- <gpu> -->",
        "<!--\n</nvidia_smi_log>\n-->",
        "<!-- <nvidia_smi_log> -->",
        "<!-- <!ENTITY a 'b'> -->",
    ],
)
def test_a_comment_anywhere_changes_nothing(comment):
    right = parse_log(V100)
    for text in (comment + V100, V100 + comment, V100.replace("<pci>", comment + "<pci>")):
        assert parse_log(text) == right


@pytest.mark.parametrize(
    "markup",
    ["<!-- no end", "<![CDATA[ x ]]>", "<![CDATA[ <!-- ]]> -->", "<!DOCTYPE x>", "<!ENTITY a 'b'>", "<?php x ?>", "<!"],
)
def test_other_markup_inside_is_refused(markup):
    with pytest.raises(UnreadableXml):
        parse_log(V100.replace("<pci>", markup + "<pci>"))


def test_words_inside_an_answer_are_no_sentence_about_it():
    broken = newer(V100).replace("<pci>", "<![CDATA[x]]><pci>")
    meaning, log = interpret(done(broken))
    assert (meaning.status, log) == ("unreadable", None) and "permission" not in meaning.message
    assert interpret(done(newer(V100), 255))[0].status == "failed"
    assert "permission" not in interpret(done(newer(V100), 255))[0].message
    assert "permission" in interpret(done("Failed to initialize NVML: Insufficient Permissions\n", 255))[0].message


WORDS = ("GPU is lost", "[GPU is lost]", "Unable to determine the device handle for GPU 0000:3B:00.0: Unknown Error")


@pytest.mark.parametrize("words", WORDS)
@pytest.mark.parametrize("tag", ["gpu_temp", "uuid", "total", "performance_state", "compute_mode"])
def test_a_lost_card_is_named_whichever_value_says_so(words, tag):
    text = re.sub(rf"<{tag}>[^<]*</{tag}>", f"<{tag}>{words}</{tag}>", V100, count=1)
    meaning, log = interpret(done(text))
    assert meaning.status == "gpu_lost" and "0000:3b:00.0" in meaning.message
    assert "power the node off and on" in meaning.action
    assert log is not None and log["gpus"][0]["lost"] is True


def test_the_other_cards_of_a_node_with_a_lost_one_are_still_read(monkeypatch):
    head, _second, tail = H100.partition('<gpu id="00000000:3B:00.0">')
    text = (
        head
        + _second
        + tail.replace("<remapped_rows>", "<fabric><state>GPU is lost</state></fabric><remapped_rows>", 1)
    )
    monkeypatch.setattr("gpuwright.gpu.nvidia_smi.query.run_bounded", lambda *_arguments: done(text))
    record = query()
    assert (record["status"], record["reachable"]) == ("gpu_lost", True)
    assert [gpu["lost"] for gpu in record["gpus"]] == [False, True]
    assert record["gpus"][1]["health"]["fabric_state"] == "unknown"


@pytest.mark.parametrize("place", ["before", "behind"])
def test_a_sentence_about_a_lost_card_beside_the_answer_counts(place):
    sentence = "Unable to determine the device handle for GPU1: 0000:5E:00.0: Unknown Error\n"
    meaning, log = interpret(done(sentence + V100 if place == "before" else V100 + "\n" + sentence))
    assert meaning.status == "gpu_lost" and "5E:00.0" in meaning.message
    assert log is not None and log["gpus"]


def test_a_lost_card_is_seen_in_a_damaged_or_failed_answer():
    text = V100.replace("34 C", "GPU is lost")
    assert interpret(done(text[:-40]))[0].status == "gpu_lost"
    assert interpret(done(text, 255))[0].status == "gpu_lost"


@pytest.mark.parametrize(
    ("block", "fields"),
    [
        ("<fabric>ERR!</fabric>", ("fabric_state", "fabric_status")),
        (
            "<fabric><state>Completed</state><status>Success</status><health>ERR!</health></fabric>",
            ("fabric_summary", "fabric_bandwidth", "fabric_route_unhealthy", "fabric_configuration"),
        ),
        (
            "<remapped_rows><row_remapper_histogram>[Unknown Error]</row_remapper_histogram></remapped_rows>",
            ("spare_rows_none", "spare_rows_low"),
        ),
    ],
)
def test_a_block_that_is_one_word_for_an_error_is_unread_as_a_whole(block, fields):
    text = re.sub(r"(?s)<remapped_rows>.*?</remapped_rows>", "", V100).replace("<temperature>", block + "<temperature>")
    health = parse_log(text)["gpus"][0]["health"]
    assert [health[field] for field in fields] == ["unknown"] * len(fields)


def test_memory_whose_own_counters_are_all_absent_is_counted_by_the_rest():
    """One counter that reads N/A among others that do not is a failed reading; all of them are a card without."""
    text = (DATA / "515-t4.xml").read_text()
    none = re.sub(r"<(sram_\w+)>0<", r"<\1>N/A<", text)
    assert parse_log(none)["gpus"][0]["ecc_uncorrected_volatile"] == 0
    one = re.sub(r"<(sram_uncorrectable)>0<", r"<\1>N/A<", text)
    assert parse_log(one)["gpus"][0]["ecc_uncorrected_volatile"] == "unknown"


@pytest.mark.parametrize(
    ("text", "expected"), [("Not Applicable", None), ("Timeout", "unknown"), ("Degraded", "Degraded")]
)
def test_words_of_the_fabric(text, expected):
    block = f"<fabric><state>Completed</state><health><bandwidth>{text}</bandwidth></health></fabric>"
    health = parse_log(V100.replace("<temperature>", block + "<temperature>"))["gpus"][0]["health"]
    assert health["fabric_bandwidth"] == expected
