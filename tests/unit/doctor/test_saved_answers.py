"""A saved answer of nvidia-smi without its node: a broken field is named, and a healthy card is not accused."""

from __future__ import annotations

import re
from pathlib import Path

import healthy_node
import pytest
from gpuwright.checks.all import run_checks
from gpuwright.doctor.replay.given_file import XML, Piece
from gpuwright.doctor.replay.judge import judged
from gpuwright.gpu.nvidia_smi.query import record_of
from gpuwright.host.bounded import Finished
from gpuwright.verdict.check import FAIL, PASS, SKIP, UNKNOWN, WARN

V100 = (Path(__file__).parents[1] / "data" / "nvidia_smi" / "580-v100.xml").read_text()
WIDTH = "<current_link_width>16x</current_link_width>"
IN_GUEST = ("<virtualization_mode>None<", "<virtualization_mode>Pass-Through<")


def states(text: str) -> dict[str, str]:
    return {record["id"]: record["status"] for record in judged(Piece(XML, text))["checks"]}


def replaced(text: str, *pairs: tuple[str, str]) -> str:
    for old, new in pairs:
        assert old in text, old
        text = text.replace(old, new)
    return text


def test_the_healthy_answer_passes():
    assert set(states(V100).values()) <= {PASS, SKIP}
    assert {states(V100)[name] for name in ("gpu.power_limit", "gpu.clocks", "gpu.link_width")} == {PASS}


@pytest.mark.parametrize(
    ("old", "new", "check_id", "status"),
    [
        ("<current_power_limit>250.00 W", "<current_power_limit>125.00 W", "gpu.power_limit", WARN),
        (
            "<applications_clocks>\n\t\t\t<graphics_clock>1245",
            "<applications_clocks><graphics_clock>135",
            "gpu.clocks",
            WARN,
        ),
        (WIDTH, WIDTH.replace("16x", "4x"), "gpu.link_width", WARN),
        (WIDTH, WIDTH.replace("16x", "0x"), "gpu.link_width", FAIL),
        # What the slot has, nobody can tell: half of the lanes may be its design.
        (WIDTH, WIDTH.replace("16x", "8x"), "gpu.link_width", SKIP),
        ("<gpu_temp>34 C", "<gpu_temp>0 C", "gpu.temperature", WARN),
        ("<max_link_gen>3", "<max_link_gen>0", "gpu.link_generation", FAIL),
    ],
)
def test_a_broken_field_of_an_answer_alone_is_named(old, new, check_id, status):
    assert states(replaced(V100, (old, new)))[check_id] == status


def twins(*pairs: tuple[str, str]) -> str:
    """Two cards of one model in a virtual machine; `pairs` are what differs in the second one."""
    text = replaced(V100, IN_GUEST)
    begin, end = text.index("<gpu id"), text.index("</gpu>") + len("</gpu>")
    second = replaced(text[begin:end], ("3B:00", "5E:00"), ("3333-000000000001", "3333-000000000002"), *pairs)
    return text[:end].replace("<attached_gpus>1", "<attached_gpus>2") + second + text[end:]


@pytest.mark.parametrize(
    ("pairs", "check_id", "status"),
    [
        ((), "gpu.link_limit", PASS),
        (
            (("<max_link_gen>3", "<max_link_gen>1"), ("<current_link_gen>3", "<current_link_gen>1")),
            "gpu.link_limit",
            FAIL,
        ),
        ((("<max_link_width>16x", "<max_link_width>8x"), (WIDTH, WIDTH.replace("16x", "8x"))), "gpu.link_width", WARN),
        (((WIDTH, WIDTH.replace("16x", "8x")),), "gpu.link_width", WARN),
        ((("<total>16384 MiB</total>\n\t\t\t<used>2 ", "<total>256 MiB</total><used>2 "),), "gpu.bar1", WARN),
    ],
)
def test_a_card_that_falls_behind_its_twin_is_named(pairs, check_id, status):
    assert states(twins(*pairs))[check_id] == status


def test_a_guest_that_is_not_told_what_the_host_can_compares_its_cards():
    hidden = ("<max_host_link_gen>3", "<max_host_link_gen>N/A")
    slow = (("<max_link_gen>3", "<max_link_gen>1"), ("<current_link_gen>3", "<current_link_gen>1"))
    assert states(replaced(twins(*slow), hidden))["gpu.link_limit"] == WARN
    assert states(replaced(twins(), hidden))["gpu.link_limit"] == SKIP


def test_a_desktop_does_not_make_an_idle_link_a_fault():
    slow = (("<current_link_gen>3", "<current_link_gen>1"), ("<performance_state>P0", "<performance_state>P8"))
    load = ("<gpu_util>0 %", "<gpu_util>2 %")
    assert states(replaced(V100, *slow, load))["gpu.link_generation"] == SKIP
    assert states(replaced(V100, *slow, ("<gpu_util>0 %", "<gpu_util>97 %")))["gpu.link_generation"] == FAIL


ROLLOVERS = re.compile(r"\s*<replay_rollover_counter>0</replay_rollover_counter>")


def of_driver(version: str) -> str:
    """A healthy answer without the count of rollovers, which drivers before 418 do not write."""
    assert ROLLOVERS.search(V100)
    return re.sub(r"<driver_version>[^<]*", f"<driver_version>{version}", ROLLOVERS.sub("", V100))


@pytest.mark.parametrize("version", ["352.99", "375.66", "384.59", "396.26", "410.73", "415.27"])
def test_what_an_old_driver_does_not_write_is_left_out_with_the_reason(version):
    records = {record["id"]: record for record in judged(Piece(XML, of_driver(version)))["checks"]}
    assert records["gpu.pcie_replays"]["status"] == SKIP and "rolled over" in records["gpu.pcie_replays"]["message"]
    assert {record["status"] for record in records.values()} <= {PASS, SKIP}


@pytest.mark.parametrize("version", ["418.39", "450.51", "580.95.05"])
def test_what_a_driver_should_write_and_does_not_is_unknown(version):
    assert states(of_driver(version))["gpu.pcie_replays"] == UNKNOWN


@pytest.mark.parametrize("word", ["ERR!", "[Unknown Error]", ""])
def test_an_unreadable_count_is_unknown_whatever_the_driver(word):
    text = re.sub(r"<driver_version>[^<]*", "<driver_version>410.73", V100)
    old = "<replay_rollover_counter>0<"
    assert states(replaced(text, (old, f"<replay_rollover_counter>{word}<")))["gpu.pcie_replays"] == UNKNOWN


def test_many_replays_warn_under_an_old_driver_too():
    text = replaced(of_driver("410.73"), ("<replay_counter>0<", "<replay_counter>48100<"))
    node = {**healthy_node.readings(), "nvidia_smi": record_of(Finished(0, text, "", False, False, False, ""))}
    records = run_checks(node, healthy_node.expectations(), healthy_node.smoke(), level="quick")
    (found,) = [record for record in records if record["id"] == "gpu.pcie_replays"]
    assert found["status"] == WARN


def node_of(*changes: tuple[str, str]) -> str:
    """As many cards of one model as there are `changes`: each (memory, firmware)."""
    begin, end = V100.index("<gpu id"), V100.index("</gpu>") + len("</gpu>")
    cards = [
        replaced(
            V100[begin:end],
            ("3B:00", f"{60 + number}:00"),
            ("3333-000000000001", f"3333-00000000000{number}"),
            ("<total>16384 MiB</total>\n\t\t\t<reserved>", f"<total>{memory}</total>\n\t\t\t<reserved>"),
            ("88.00.48.00.02", firmware),
        )
        for number, (memory, firmware) in enumerate(changes)
    ]
    count = f"<attached_gpus>{len(cards)}"
    return V100[:begin].replace("<attached_gpus>1", count) + "".join(cards) + V100[end:]


@pytest.mark.parametrize(
    ("memory", "status"),
    [("16384 MiB", PASS), ("16381 MiB", PASS), ("16383 MiB", PASS), ("16221 MiB", PASS), ("16219 MiB", FAIL)],
)
def test_cards_that_differ_by_what_their_firmware_keeps_lack_no_memory(memory, status):
    firmware = "88.00.48.00.02"
    assert states(node_of(("16384 MiB", firmware), (memory, firmware)))["gpu.memory_size"] == status


@pytest.mark.parametrize(
    ("firmware", "status"),
    [
        ("88.00.48.00.02", PASS),
        ("88.00.48.00.03", PASS),
        ("88.00.48.01.02", WARN),
        ("88.00.4F.00.02", WARN),
        ("89.00.48.00.02", WARN),
        ("88.00.48.00", WARN),
    ],
)
def test_the_last_part_of_a_firmware_names_the_board_and_the_place_on_it(firmware, status):
    answer = node_of(("16384 MiB", "88.00.48.00.02"), ("16384 MiB", firmware))
    assert states(answer)["gpu.vbios"] == status


def test_a_gpu_beside_its_processor_needs_no_window():
    bar1 = re.compile(r"(<bar1_memory_usage>\s*<total>)[^<]*")
    none = bar1.sub(r"\1N/A", V100)
    assert states(V100)["gpu.bar1"] == PASS and states(none)["gpu.bar1"] == UNKNOWN
    coherent = replaced(none, ("<pci>", "<c2c_mode>Enabled</c2c_mode><pci>"))
    assert states(coherent.replace("c2c_mode>Enabled", "c2c_mode>Disabled"))["gpu.bar1"] == UNKNOWN
    assert states(coherent)["gpu.bar1"] == SKIP
    assert states(bar1.sub(r"\1ERR!", coherent))["gpu.bar1"] == UNKNOWN
    assert states(bar1.sub(r"\g<1>0 MiB", coherent))["gpu.bar1"] == FAIL


ECC_FREE = (
    (r"<current_ecc>Enabled", "<current_ecc>N/A"),
    (r"<pending_ecc>Enabled", "<pending_ecc>N/A"),
    (r"(?s)<ecc_errors>.*?</ecc_errors>", ""),
    (r"<pending_(blacklist|retirement)>No", r"<pending_\1>N/A"),
    (r"<retired_count>0", "<retired_count>N/A"),
    ("Tesla V100-PCIE-16GB", "GRID K520"),
    ("1DB410DE", "118A10DE"),
    ("<product_architecture>Volta", "<product_architecture>Kepler"),
    (r"(<(?:graphics|mem)_clock>)[^<]*", r"\1N/A"),
    ("<total>16384 MiB", "<total>4095 MiB"),
    ("250.00 W", "125.00 W"),
)


def test_a_card_without_ecc_has_no_broken_memory_to_tell_of():
    text = of_driver("352.99")
    for old, new in ECC_FREE:
        text, count = re.subn(old, new, text)
        assert count, old
    found = states(text)
    assert (found["driver.ecc"], found["driver.retired_pages"]) == (SKIP, SKIP)
    assert UNKNOWN not in found.values() and FAIL not in found.values()
    strict = states(text.replace("GRID K520", "Tesla V100-PCIE-16GB").replace("118A10DE", "1DB410DE"))
    assert (strict["driver.ecc"], strict["driver.retired_pages"]) == (UNKNOWN, UNKNOWN)
