"""The check of TensorFlow, of a real one for processors: $TENSORFLOW_VENV is its environment."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Any

import pytest

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "node_library"))
from gpuwright.checks.framework.tensorflow import tensorflow
from gpuwright.host.as_user import Account
from gpuwright.readings import tensorflow as reading
from gpuwright.verdict.check import FAIL, PASS
from gpuwright.verdict.evidence import Evidence

VENV = os.environ.get("TENSORFLOW_VENV", "")
WANTED: dict[str, Any] = {
    "venv": VENV,
    "gpu_count": 1,
    "plan": {"tensorflow": {"version": "2.20.0"}, "pytorch": {"build": "cpu"}},
}


def read() -> Any:
    """As whoever runs the tests: another account cannot enter their cache."""
    with pytest.MonkeyPatch.context() as patch:
        own = Account("own", os.geteuid(), os.getegid(), os.getgroups())
        patch.setattr(reading, "ordinary_account", lambda user, root: own)
        return reading.read_tensorflow("/", VENV, "/no/launcher", "trainer")


@pytest.fixture(scope="module")
def found() -> Any:
    return read()


def judged(found: Any, **plan: Any) -> tuple[str, str]:
    expected = {**WANTED, "plan": {**WANTED["plan"], **plan}}
    outcome = tensorflow(Evidence({"tensorflow": found}, "readings"), Evidence(expected, "expected"))
    return outcome.status, outcome.message


def test_it_multiplies_and_learns_in_mixed_precision(found: Any) -> None:
    assert found["devices"] == [{"device": "cpu:0", "product": True, "learns": True, "there": True}]
    assert (found["built_for"], found["cards"], found["lost"]) == ("cpu", 0, [])
    assert judged(found) == (PASS, "TensorFlow 2.20.0: right on cpu:0, also in mixed precision")


def test_another_one_than_the_planned_fails(found: Any) -> None:
    assert judged(found, tensorflow={"version": "2.13.1"}) == (FAIL, "TensorFlow 2.20.0 instead of 2.13.1")


def test_a_wheel_for_processors_is_none_for_a_node_with_cards(found: Any) -> None:
    status, message = judged(found, pytorch={"build": "cu128"})
    assert status == FAIL and message.endswith("0 of 1 GPUs: its wheel is built for processors alone")


def test_an_operation_that_fails_is_the_word_of_the_device(monkeypatch: pytest.MonkeyPatch) -> None:
    """TensorFlow's own error, not a traceback of the reading."""
    monkeypatch.setattr(reading, "PROGRAM", reading.PROGRAM.replace("tf.zeros([3, 3, 3, 4])", "tf.zeros([3, 3, 7, 4])"))
    status, message = judged(read())
    assert status == FAIL and message.startswith("TensorFlow fails on cpu:0: "), message
