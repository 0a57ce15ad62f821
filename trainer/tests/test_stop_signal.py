# SPDX-License-Identifier: Apache-2.0
"""A stop that is asked for while the training waits for data."""

from __future__ import annotations

import io
import os
import signal
import sys
import time
from collections.abc import Iterator
from typing import Any

import pytest

from gan_trainer import stop_signal
from gan_trainer.stop_signal import STOP_SIGNALS, StopSignal, StopWaiting


@pytest.fixture
def stop(monkeypatch: pytest.MonkeyPatch) -> Iterator[StopSignal]:
    monkeypatch.setattr(stop_signal, "PATIENCE", 0.2)
    before = {number: signal.getsignal(number) for number in (*STOP_SIGNALS, signal.SIGALRM)}
    yield StopSignal()
    signal.setitimer(signal.ITIMER_REAL, 0)
    for number, handler in before.items():
        signal.signal(number, handler)


def test_a_batch_that_is_on_its_way_still_arrives(stop: StopSignal) -> None:
    """Torn out of its handing over, the data worker's other end is closed under it and it prints a traceback."""
    handed_over = False
    with stop.may_interrupt():
        os.kill(os.getpid(), signal.SIGTERM)
        time.sleep(0.05)
        handed_over = True
    assert handed_over and stop.agreed()


def test_data_that_never_comes_is_not_waited_for(stop: StopSignal) -> None:
    with pytest.raises(StopWaiting), stop.may_interrupt():
        os.kill(os.getpid(), signal.SIGTERM)
        time.sleep(30)


def test_a_stop_before_the_wait_needs_no_data(stop: StopSignal) -> None:
    os.kill(os.getpid(), signal.SIGTERM)
    with pytest.raises(StopWaiting), stop.may_interrupt():
        pytest.fail("waited for data")


class InterruptedOnce(io.RawIOBase):
    """A terminal on which Ctrl-C is typed while it takes the first text."""

    taken = 0

    def writable(self) -> bool:
        return True

    def write(self, data: Any, /) -> int:
        self.taken += 1
        if self.taken == 1:
            signal.raise_signal(signal.SIGINT)
        return len(data)


def test_control_c_in_the_middle_of_a_print_stops_well(
    stop: StopSignal, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture
) -> None:
    """Python does not enter a stream again that it is just writing to: the training would end with a RuntimeError."""
    text = io.TextIOWrapper(io.BufferedWriter(InterruptedOnce()), line_buffering=True)
    monkeypatch.setattr(sys, "stderr", text)
    print("step 1", file=sys.stderr)
    assert stop.agreed()
    assert capfd.readouterr().err == "train-gan: saving after this step; Ctrl-C again ends at once\n"


def test_no_alarm_is_left_when_the_data_came(stop: StopSignal) -> None:
    """It would go off after Python has taken its handlers away, and kill a training that ended well."""
    with stop.may_interrupt():
        os.kill(os.getpid(), signal.SIGTERM)
    assert signal.getitimer(signal.ITIMER_REAL) == (0, 0) and stop.agreed()
