"""Whose turn it is: idle nodes within hours, share and interval; drains of others are left alone."""

from __future__ import annotations

import calendar
import time
from typing import Any

import pytest
from ansible_collections.gpuwright.node.plugins.plugin_utils.history import kept
from ansible_collections.gpuwright.node.plugins.plugin_utils.sweep import choose

NOW = float(calendar.timegm((2026, 11, 28, 12, 0, 0)))
TODAY, LONG_AGO = "2026-11-28T11:00:00Z", "2026-11-01T11:00:00Z"
IDLE = choose.Look("", NOW - 7200)


def rules(share: int = 10, fleet: int = 40, idle: float = 1800, interval: float = 86400 * 7, **more: Any) -> Any:
    return choose.Settings(share, fleet, idle, interval, more.get("hours", (0, 24)))


def turns(looks: dict[str, choose.Look], histories: dict[str, Any] | None = None, **more: Any) -> dict[str, Any]:
    return choose.turns(looks, histories or {}, rules(**more), NOW)


def history(**more: Any) -> dict[str, Any]:
    return {**kept.empty("n1"), **more}


def slurm(state: str, reason: str = "none", busy: str = "2026-11-20T00:00:00") -> choose.Look:
    row = f"{'n1':<64}{state:<128}{reason:<512}\n"
    details = (
        f"NodeName=n1 Arch=x86_64\n   Comment=gpuwright PASS\n   LastBusyTime={busy}\n" if busy else "NodeName=n1\n"
    )
    return choose.slurm_looks(row + row, details)["n1"]


@pytest.mark.parametrize("state", ["idle", "IDLE", "idle+cloud", "idle+dynamic_norm"])
def test_an_idle_node_of_slurm_is_taken(state: str) -> None:
    look = slurm(state)
    assert (look.why, look.taken, look.bad) == ("", False, False) and turns({"n1": look})["n1"] == choose.Turn(4, "")


@pytest.mark.parametrize(
    "state",
    ["allocated", "mixed", "completing", "idle+completing", "idle*", "down", "idle+maint", "idle+reserved",
     "idle+planned", "idle+powered_down", "idle+reboot_requested", "idle+not_responding", "future", "unknown"],
)  # fmt: skip
def test_a_node_in_any_other_state_is_not_taken(state: str) -> None:
    assert slurm(state).why == f"it is {state}" and turns({"n1": slurm(state)}, idle=0)["n1"].at_once == 0


def test_whose_drain_it_is_is_told_by_its_reason() -> None:
    ours = slurm("idle+drain", "gpuwright: planned work: sweep (gpuwright)")
    assert ours.taken and turns({"n1": ours})["n1"].left
    # A node that does not answer is returned once it does.
    gone = slurm("down*+drain", "gpuwright: planned work: sweep (gpuwright)")
    newer = slurm("down+drain+not_responding", "gpuwright: planned work: sweep (gpuwright)")
    for look in (gone, newer):
        assert look.taken and not turns({"n1": look})["n1"].left
    rebooted = slurm("down+drain", "gpuwright: planned work: sweep (gpuwright)")
    assert turns({"n1": rebooted})["n1"].left
    bad = slurm("idle+drain", "gpuwright: sweep: accept.product: its product differs")
    assert bad.bad and not turns({"n1": bad})["n1"].left
    for reason in ("bob: fan", "gpuwright: planned work: driver 580 (alice)", "gpuwright: kernel.xid: Run: reboot",
                   "gpuwright: planned work: sweep (bob)",
                   "not gpuwright: planned work: sweep (x)", "none"):  # fmt: skip
        look = slurm("idle+drain", reason)
        assert look.why == f"it is drained by somebody else ({reason})" and not look.taken and not look.bad


def test_a_node_must_be_idle_for_long_enough() -> None:
    assert turns({"n1": choose.Look("", NOW - 600)})["n1"].why == "it is idle for 10 of 30 minutes"
    assert turns({"n1": choose.Look("", NOW - 1800)})["n1"].at_once == 4
    assert slurm("idle", busy="Unknown").since is None and turns({"n1": slurm("idle", busy="Unknown")})["n1"].at_once
    # An older Slurm does not say it.
    assert "sweep_idle_minutes: 0" in turns({"n1": slurm("idle", busy="")})["n1"].why
    assert turns({"n1": slurm("idle", busy="")}, idle=0)["n1"].at_once == 4


def test_a_node_is_swept_once_in_its_interval_and_tried_again_after_a_day() -> None:
    assert turns({"n1": IDLE}, {"n1": history(swept=TODAY)})["n1"].why == f"it was swept at {TODAY}"
    assert turns({"n1": IDLE}, {"n1": history(swept=LONG_AGO, tried=LONG_AGO)})["n1"].at_once == 4
    assert "came to no end" in turns({"n1": IDLE}, {"n1": history(swept=LONG_AGO, tried=TODAY)})["n1"].why
    yesterday = history(tried="2026-11-27T11:59:59Z")
    assert turns({"n1": IDLE}, {"n1": yesterday})["n1"].at_once == 4
    assert turns({"n1": IDLE}, {"n1": history(swept=TODAY, tried=TODAY)}, interval=0)["n1"].at_once == 4
    assert turns({"n1": IDLE}, {"n1": history(swept="damaged", tried="")})["n1"].at_once == 4


def test_what_was_chosen_and_not_tested_is_not_chosen_in_every_run() -> None:
    chosen = history(chosen="2026-11-28T11:10:00Z")
    assert "it was chosen at 2026-11-28T11:10:00Z and not tested" in turns({"n1": IDLE}, {"n1": chosen})["n1"].why
    assert turns({"n1": IDLE}, {"n1": history(chosen=TODAY)})["n1"].at_once == 4, "an hour ago"
    assert turns({"n1": IDLE}, {"n1": chosen}, interval=0)["n1"].at_once == 4


def test_a_node_that_was_chosen_is_asked_again_before_it_is_taken() -> None:
    hour = time.localtime(NOW).tm_hour
    over = rules(hours=((hour + 1) % 24, (hour + 2) % 24 or 24))
    assert choose.still(IDLE, rules(), NOW) == "" and "of sweep_hours" in choose.still(IDLE, over, NOW)
    assert choose.still(choose.Look("", NOW - 60), rules(), NOW) == "it is idle for 1 of 30 minutes"
    assert choose.still(slurm("mixed"), rules(), NOW) == "it is mixed"


def test_what_a_sweep_has_found_bad_counts_for_the_share() -> None:
    bad = choose.Look("a sweep has found it bad (fan)", bad=True)
    looks = {"n1": IDLE, "n2": IDLE, "n3": bad}
    assert [one.at_once for one in turns(looks).values()] == [3, 3, 0]
    found = turns(looks, fleet=3)
    assert found["n1"].at_once == 0 and "as many nodes as sweep_share_percent allows" in found["n1"].why
    found = choose.turns({"n1": IDLE}, {}, rules(fleet=20), NOW, ["n8", "n9"])
    assert found["n1"].at_once == 0 and "n8, n9" in found["n1"].why, "outside of this run's limit"
    assert turns({"n1": IDLE}, fleet=1, share=1)["n1"].at_once == 1, "one at least"


@pytest.mark.parametrize(
    ("text", "inside", "outside"),
    [("22-6", (22, 23, 0, 5), (6, 12, 21)), ("1-5", (1, 4), (0, 5, 23)), ("0-24", (0, 23), ())],
)  # fmt: skip
def test_hours_of_the_day(text: str, inside: tuple[int, ...], outside: tuple[int, ...]) -> None:
    hours = choose.hours_of(text)
    assert all(choose.within(hours, hour) for hour in inside)
    assert not any(choose.within(hours, hour) for hour in outside)


@pytest.mark.parametrize("text", ["", "22", "22-", "5-5", "24-6", "0-25", "22:00-6:00", "-1-5", "night"])
def test_hours_that_are_none_are_refused(text: str) -> None:
    with pytest.raises(ValueError, match="such as 22-6"):
        choose.hours_of(text)


def test_nobody_is_taken_outside_the_hours_and_what_is_left_is_returned() -> None:
    hour = time.localtime(NOW).tm_hour
    taken = choose.Look("left", taken=True)
    found = turns({"n1": IDLE, "n2": taken}, hours=((hour + 1) % 24, (hour + 2) % 24 or 24))
    assert found["n1"].at_once == 0 and "sweep_hours" in found["n1"].why and found["n2"].left


def test_a_node_without_a_scheduler_is_idle_since_the_first_look_that_found_nobody() -> None:
    now = "2026-11-28T12:00:00Z"
    first = choose.host_look("", None, now)
    assert first == choose.Look("", NOW) and choose.idle_since(first, kept.empty("n1"), now) == now
    kept_since = history(idle_since=TODAY)
    assert choose.host_look("", kept_since, now).since == NOW - 3600
    assert choose.idle_since(choose.host_look("", kept_since, now), kept_since, now) == TODAY
    busy = choose.host_look("train-gan of alice", kept_since, now)
    assert busy.why == "in use: train-gan of alice" and choose.idle_since(busy, kept_since, now) == ""
    assert choose.host_look("", None, now, known=False).why == "it has not answered"
    assert turns({"n1": busy}, idle=0)["n1"].at_once == 0


def test_the_table_has_each_reason_once_with_its_nodes() -> None:
    found = turns({"n1": IDLE, "n2": IDLE, "n3": slurm("mixed"), "n4": slurm("mixed")})
    assert choose.table(found) == ["n1, n2: swept now", "n3, n4: not taken, it is mixed"]
