"""A layout of MIG devices that the inventory declares: how it is read, and the command that brings it back."""

from __future__ import annotations

from typing import Any

import healthy_node
import pytest
from ansible_collections.gpuwright.node.plugins.plugin_utils.variables.structured import PROBLEMS
from gpuwright.checks import collect
from gpuwright.checks.gpu import mig
from gpuwright.checks.gpu.mig import layout, parse_devices, read_mig
from gpuwright.host.bounded import Finished
from gpuwright.verdict.evidence import Evidence
from gpuwright.verdict.expectations import parse_expectations, parse_mig
from gpuwright.verdict.reader import Seen

FIRST, SECOND = "GPU-5d0f3a52-6c0f-1c1c-9d4a-000000000001", "GPU-5d0f3a52-6c0f-1c1c-9d4a-000000000002"
# As drivers from 470 on print it; the second card has a device of one compute instance, and one for media.
LISTED = f"""GPU 0: NVIDIA A100-SXM4-40GB (UUID: {FIRST})
  MIG 3g.20gb     Device  0: (UUID: MIG-c6d4f1ef-42e4-5de3-91c7-45d71c87eb3f)
  MIG 3g.20gb     Device  1: (UUID: MIG-cba663e8-9bed-5b25-b243-5985ef7c9beb)
GPU 1: NVIDIA A100-SXM4-40GB (UUID: {SECOND})
  MIG 1c.3g.20gb  Device  0: (UUID: MIG-GPU-{SECOND[4:]}/1/0)
  MIG 1g.5gb+me   Device  1: (UUID: MIG-GPU-{SECOND[4:]}/7/0)
GPU 2: NVIDIA A100-SXM4-40GB (UUID: GPU-5d0f3a52-6c0f-1c1c-9d4a-000000000003)
"""


def profiles(text: str) -> dict[str, list[str]]:
    return {card["uuid"]: [device["profile"] for device in card["devices"]] for card in parse_devices(text)}


def test_devices_are_read_by_card():
    assert list(profiles(LISTED).values()) == [["3g.20gb", "3g.20gb"], ["1c.3g.20gb", "1g.5gb+me"], []]
    assert list(profiles(LISTED)) == [FIRST, SECOND, "GPU-5d0f3a52-6c0f-1c1c-9d4a-000000000003"]
    with pytest.raises(ValueError, match="before any card"):
        parse_devices("".join(LISTED.splitlines(keepends=True)[1:]))


def test_the_driver_is_asked_only_where_a_layout_is_declared_and_a_card_is_cut(on_path):
    on_path("nvidia-smi", f"cat <<'END'\n{LISTED}END")
    whole, cut = {"gpus": [{"mig_mode": "Disabled"}]}, {"gpus": [{"mig_mode": "Disabled"}, {"mig_mode": "Enabled"}]}
    wanted = {"mig": {"all": ["3g.20gb"]}}
    assert read_mig(Seen("/", {}, {}, cut)) is None
    assert read_mig(Seen("/", wanted, {}, whole)) is None
    assert read_mig(Seen("/", wanted, {}, {"unreadable": "x"})) is None
    found = read_mig(Seen("/", wanted, {}, cut))
    assert found is not None and len(found) == 3
    on_path("nvidia-smi", "echo Insufficient Permissions; exit 4")
    with pytest.raises(OSError, match="ended with 4: Insufficient"):
        read_mig(Seen("/", wanted, {}, cut))


def test_level_quick_waits_no_longer_for_the_list(on_path, monkeypatch):
    """All questions share the time that nvidia-smi has."""
    asked = []
    finished = Finished(0, LISTED, "", False, False, False, "")

    def answer(_words, seconds):
        asked.append(seconds)
        return finished

    monkeypatch.setattr(mig, "run_bounded", answer)
    gpus = [{**gpu, "mig_mode": "Enabled"} for gpu in healthy_node.readings()["nvidia_smi"]["gpus"]]
    for taken, left in ((0.5, 2.5), (2.9, 1.0)):
        clock = iter((0.0, taken))
        monkeypatch.setattr(collect, "query", lambda _seconds: {"gpus": gpus})
        monkeypatch.setattr(collect.time, "monotonic", lambda clock=clock: next(clock, 0.0))
        collect.collect({"mig": {"all": ["3g.20gb"]}}, "/nowhere", collect.QUICK_NVIDIA_SMI_SECONDS, "quick")
        assert asked.pop() == pytest.approx(left)


def said(mode: str, here: list[str], wanted: list[str], later: str = "") -> tuple[str, str, str]:
    """(status, code, action) for one card with these devices; `later`: its mode after a reset."""
    readings = healthy_node.readings()
    gpu = readings["nvidia_smi"]["gpus"][0]
    gpu["mig_mode"] = mode
    gpu["health"] = {**gpu["health"], "mig_pending": later or mode}
    readings["mig"] = [{"uuid": gpu["uuid"], "devices": [{"profile": name, "uuid": name} for name in here]}]
    expected = healthy_node.expectations(mig={"all": wanted})
    outcome = layout(Evidence(readings, "readings"), Evidence(expected, "expectations"))
    return outcome.status, outcome.code, outcome.action


CDI = " ; systemctl try-restart gpuwright-cdi"
CREATE = "nvidia-smi mig -i 0000:3b:00.0 -cgi "


@pytest.mark.parametrize(
    ("mode", "here", "code", "commands"),
    [
        ("Disabled", [], "lost", f"nvidia-smi -i 0000:3b:00.0 -mig 1 ; {CREATE}3g.20gb,2g.10gb,1g.5gb -C"),
        ("Enabled", [], "lost", f"{CREATE}3g.20gb,2g.10gb,1g.5gb -C"),
        ("Enabled", ["3g.20gb"], "partial", f"{CREATE}1g.5gb,2g.10gb -C"),
        (
            "Enabled",
            ["3g.20gb", "3g.20gb"],
            "other",
            "nvidia-smi mig -i 0000:3b:00.0 -dci ; nvidia-smi mig -i 0000:3b:00.0 -dgi ; "
            f"{CREATE}3g.20gb,2g.10gb,1g.5gb -C",
        ),
    ],
)
def test_the_command_brings_the_layout_back(mode, here, code, commands):
    assert said(mode, here, ["3g.20gb", "2g.10gb", "1g.5gb"]) == ("FAIL", code, f"Run: {commands}{CDI}")


KEEP, RESET = "nvidia-smi -i 0000:3b:00.0 -mig 1", "nvidia-smi --gpu-reset -i 0000:3b:00.0"
HALF = [
    # Half disabled: with all devices it still works, without them it is lost today.
    ("Enabled", "Disabled", ["3g.20gb", "1g.5gb"], ("WARN", "changes-later", KEEP)),
    ("Enabled", "Disabled", [], ("FAIL", "lost", f"{KEEP} ; {CREATE}3g.20gb,1g.5gb -C")),
    ("Enabled", "Disabled", ["3g.20gb"], ("FAIL", "partial", f"{KEEP} ; {CREATE}1g.5gb -C")),
    # Half enabled: only a reset is missing.
    ("Disabled", "Enabled", [], ("FAIL", "lost", f"{RESET} ; {CREATE}3g.20gb,1g.5gb -C")),
]


@pytest.mark.parametrize(("mode", "later", "here", "expected"), HALF)
def test_a_mode_that_waits_for_a_reset_is_judged_by_the_devices(mode, later, here, expected):
    status, code, action = said(mode, here, ["3g.20gb", "1g.5gb"], later)
    assert (status, code, action) == (*expected[:2], f"Run: {expected[2]}{CDI}")


@pytest.mark.parametrize(("mode", "later", "command"), [
    ("Enabled", "Disabled", RESET), ("Disabled", "Enabled", "nvidia-smi -i 0000:3b:00.0 -mig 0"),
    ("Enabled", "Enabled", "nvidia-smi -i 0000:3b:00.0 -mig 0"),
])  # fmt: skip
def test_a_card_that_is_declared_whole(mode, later, command):
    assert said(mode, [], [], later)[0] == "FAIL" and said(mode, [], [], later)[2] == f"Run: {command}{CDI}"


GOOD: tuple[dict[Any, Any], ...] = (
    {},
    {"all": ["3g.20gb"]},
    {0: ["7g.80gb"], "0000:3B:00.0": [], "GPU-5d0f3a52-6c0f-1c1c-9d4a-000000000001": ["1g.10gb+me", "1g.12gb"]},
    {"all": ["1g.24gb+gfx", "2g.48gb-me", "1g.24gb+me.all"]},
)
BAD = (
    ({"gpu0": ["3g.20gb"]}, "'gpu0'"),
    ({"all": "3g.20gb"}, "'3g.20gb'"),
    ({"all": ["3g20gb"]}, "3g20gb"),
    ({"all": ["1c.3g.20gb"]}, "1c.3g.20gb"),
    ({"all": [9]}, "mig.all has 9"),
    ({"all": ["1g.5gb"] * 8}, "at most 7"),
    ({"all": None}, "None"),
)


@pytest.mark.parametrize("value", GOOD)
def test_a_declaration(value):
    assert parse_mig(value) == {str(card).lower(): names for card, names in value.items()}
    assert list(PROBLEMS["verify_expected_mig"](value)) == []
    assert parse_expectations(healthy_node.expectations(mig=value))["mig"] == parse_mig(value)


@pytest.mark.parametrize(("value", "words"), BAD)
def test_a_wrong_declaration_is_one_line_before_any_host_is_changed(value, words):
    [line] = PROBLEMS["verify_expected_mig"](value)
    assert line.startswith("verify_expected_mig: mig") and words in line
    with pytest.raises(ValueError, match="expectations: mig"):
        parse_expectations(healthy_node.expectations(mig=value))
    assert list(PROBLEMS["verify_expected_mig"]([])) != []
