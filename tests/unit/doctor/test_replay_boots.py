"""gpu-doctor --replay: of each machine in a log, the newest boot is judged, and what is left out has a name."""

from __future__ import annotations

from typing import Any

import pytest
from gpuwright.verdict.check import FAIL, PASS
from healthy_kernel import record
from test_replay_parts import BAD_LOG, BANNER, GOOD_LOG, LOADED, XID_79, replayed


def log_of(day: int, *messages: str, form: str = "Nov {day} 10:{minute:02}:00 a5-01 kernel: {m}") -> str:
    said = enumerate((BANNER, LOADED, *messages))
    return "".join(form.format(day=day, minute=minute, s=minute * 60, m=message) + "\n" for minute, message in said)


DATED = {
    "journalctl": "Nov {day} 10:{minute:02}:00 a5-01 kernel: {m}",
    "syslog with the kernel's clock": "Nov {day} 10:{minute:02}:30 a5-01 kernel: [{s:5d}.000017] {m}",
    "iso": "2026-11-{day}T10:{minute:02}:00+0100 a5-01 kernel: {m}",
    "full": "Sun 2026-11-{day} 10:{minute:02}:00 UTC a5-01 kernel: {m}",
    "dmesg -T": "[Sun Nov {day} 10:{minute:02}:00 2026] {m}",
}


@pytest.mark.parametrize("form", sorted(DATED))
@pytest.mark.parametrize("newest_first", [True, False])
def test_the_newest_boot_is_judged_in_either_order(tmp_path, form, newest_first):
    """As collectors print them: journalctl -b -0, then -b -1; or as a log grows."""
    for new, old, status in (((XID_79,), (), 1), ((), (XID_79,), 0)):
        boots = [log_of(22, *new, form=DATED[form]), log_of(21, *old, form=DATED[form])]
        code, found, shown = replayed(tmp_path, "".join(boots if newest_first else boots[::-1]))
        assert code == status, shown
        assert len(found) == 1 and len(found[0]["left_out"]) == 1
        assert "an earlier boot is not judged: " in shown and "11-21 " in found[0]["left_out"][0]


def test_three_boots_are_two_named_ones(tmp_path):
    status, found, _shown = replayed(tmp_path, log_of(20, XID_79) + log_of(22) + log_of(21, XID_79))
    assert status == 0 and [words[-37:] for words in found[0]["left_out"]] == [
        f"11-{day} 10:00:00 to 11-{day} 10:02:00, 3 lines"[-37:] for day in (20, 21)
    ]


def test_the_newest_line_first(tmp_path):
    lines = (log_of(21, XID_79) + log_of(22)).splitlines()
    assert replayed(tmp_path, "\n".join(lines[::-1]))[0] == 0
    lines = (log_of(21) + log_of(22, XID_79)).splitlines()
    assert replayed(tmp_path, "\n".join(lines[::-1]))[0] == 1


def test_a_log_that_begins_in_an_earlier_boot(tmp_path):
    earlier = f"Nov 21 09:00:00 a5-01 kernel: {XID_79}\n"
    status, found, _shown = replayed(tmp_path, earlier + log_of(22))
    assert status == 0 and len(found[0]["left_out"]) == 1


@pytest.mark.parametrize(
    "text",
    [
        BAD_LOG + GOOD_LOG.replace("5.500001", "5.611117"),
        GOOD_LOG.replace("5.500001", "5.611117") + BAD_LOG,
    ],
)
def test_boots_without_dates_are_all_judged_and_that_is_said(tmp_path, text):
    status, found, shown = replayed(tmp_path, text)
    assert status == 1 and "2 boots whose order no date tells: all are judged" in shown


def test_journalctls_own_marks_say_what_came_first(tmp_path):
    def boots(first: str, second: str) -> str:
        stamp = "[   {}.000003] a5-01 kernel: {}\n"
        return (
            stamp.format("0", BANNER) + stamp.format(7, first) + f"-- Boot {'ab' * 16} --\n" + stamp.format(9, second)
        )

    assert replayed(tmp_path, boots(XID_79, LOADED))[0] == 0
    assert replayed(tmp_path, boots(LOADED, XID_79))[0] == 1


def test_a_clock_that_is_set_back_is_no_other_boot(tmp_path):
    """A board clock in local time: the first lines are hours ahead, and it is still one boot."""
    text = f"Nov 22 12:00:05 a5-01 kernel: {BANNER}\nNov 22 10:00:10 a5-01 kernel: {LOADED}\n"
    assert replayed(tmp_path, text + f"Nov 22 10:09:10 a5-01 kernel: {XID_79}\n")[0] == 1


def test_an_end_of_an_earlier_boot_without_its_beginning_is_judged_and_that_is_said(tmp_path):
    text = log_of(22) + f"Nov 21 10:09:10 a5-01 kernel: {XID_79}\n"
    status, _found, shown = replayed(tmp_path, text)
    assert status == 1 and "the dates go back" in shown


def test_the_turn_of_the_year_in_both_orders(tmp_path):
    old = f"Dec 31 10:00:00 h kernel: {BANNER}\nDec 31 10:01:00 h kernel: {XID_79}\n"
    new = f"Jan  1 10:00:00 h kernel: {BANNER}\nJan  1 10:01:00 h kernel: {LOADED}\n"
    assert replayed(tmp_path, old + new)[0] == replayed(tmp_path, new + old)[0] == 0


@pytest.mark.parametrize(
    "again",
    [
        f"Nov 22 10:00:20 a5-01 kernel: {BANNER}\n",
        f"[    0.000000] {BANNER}\n[    5.500001] {LOADED}\n",
        f"Nov 22 10:00:20 a5-01 kernel: [    0.000000] {BANNER}\nNov 22 10:00:20 a5-01 kernel: [    7.000009] x\n",
    ],
)
def test_a_boot_begins_once(tmp_path, again):
    """Two collectors, or dmesg and journal of one boot: the first words a second time drop nothing."""
    text = f"Nov 22 10:00:00 a5-01 kernel: {BANNER}\nNov 22 10:00:10 a5-01 kernel: {XID_79}\n"
    assert replayed(tmp_path, text + again)[0] == replayed(tmp_path, again + text)[0] == 1


def test_two_copies_of_one_boot_count_each_message_once(tmp_path):
    once = f"{GOOD_LOG}[   99.000001] NVRM: Xid (PCI:0000:3b:00): 109, pid=1, name=x, Ch 00000008\n"
    for text in (once, once + once):
        status, found, shown = replayed(tmp_path, text)
        assert status == 0 and "kernel.xid: 109 on 0000:3b:00" in shown and "(1 times;" in shown, shown


def test_records_of_several_boots(tmp_path):
    new, old = "b" * 32, "a" * 32
    rows = [record(BANNER, _BOOT_ID=new), record(XID_79, 9000000, _BOOT_ID=new)]
    past = "1767000000000000"
    before: dict[str, Any] = {"_BOOT_ID": old, "__REALTIME_TIMESTAMP": past}
    rows += [record(BANNER, **before), record(LOADED, 5, **before)]
    for order in (rows, rows[2:] + rows[:2]):
        status, found, _shown = replayed(tmp_path, "\n".join(order) + "\n")
        assert status == 1 and len(found[0]["left_out"]) == 1


# -- several machines


def test_the_boot_of_one_machine_drops_nothing_of_another(tmp_path):
    one = f"Nov 22 10:00:00 a5-01 kernel: {XID_79}\n"
    other = f"Nov 22 10:05:00 a5-02 kernel: {BANNER}\nNov 22 10:06:00 a5-02 kernel: {LOADED}\n"
    for text in (one + other, other + one):
        status, found, shown = replayed(tmp_path, text)
        assert status == 1 and sorted(result["verdict"] for result in found) == [FAIL, PASS]
        assert "kernel log of a5-01" in shown and "kernel log of a5-02" in shown


def test_a_machine_that_gets_its_name_while_it_starts_is_one(tmp_path):
    def boot(day: int, *messages: str) -> str:
        head = f"Nov {day} 10:00:00 localhost kernel: {BANNER}\nNov {day} 10:00:09 a5-01.example kernel: {LOADED}\n"
        return head + "".join(f"Nov {day} 10:01:00 a5-01 kernel: {message}\n" for message in messages)

    status, found, _shown = replayed(tmp_path, boot(21, XID_79) + boot(22))
    assert status == 0 and len(found) == 1 and len(found[0]["left_out"]) == 1
