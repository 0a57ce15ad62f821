"""A saved answer of nvidia-smi without its node: a broken field is named, and a healthy card is not accused."""

from __future__ import annotations

from pathlib import Path

import pytest
from gpuwright.replay_files import XML, Piece
from gpuwright.replay_judge import judged
from gpuwright.verdict import FAIL, PASS, SKIP, WARN

V100 = (Path(__file__).parent / "data" / "nvidia_smi" / "580-v100.xml").read_text()
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
