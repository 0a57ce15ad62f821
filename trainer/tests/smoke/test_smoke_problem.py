"""A problem of the smoke test is a sentence and a code."""

from __future__ import annotations

import errno

import pytest

from gan_trainer.smoke.problem import WRONG, Problem, from_error, prefixed


def test_a_problem_is_its_sentence():
    problem = prefixed("cuda:0 amp: ", "a loss was not finite")
    assert problem == "cuda:0 amp: a loss was not finite" and problem.code == WRONG
    assert prefixed("x: ", Problem("y", "no-gpu")).code == "no-gpu"


@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EDQUOT, errno.EROFS])
def test_a_disk_without_room_is_told_wherever_the_error_came_from(number):
    try:
        try:
            raise OSError(number, "x")
        except OSError as error:
            raise RuntimeError("it cannot be compiled") from error
    except RuntimeError as error:
        assert from_error(error, "words", "cannot-import").code == "no-room"


def test_any_other_error_keeps_the_code_of_its_place():
    assert from_error(ImportError("x"), "words", "cannot-import").code == "cannot-import"
    assert from_error(OSError(errno.EACCES, "x"), "words").code == "raised"
