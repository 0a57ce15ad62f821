# SPDX-License-Identifier: Apache-2.0
"""Errors that a user can correct: such an error ends train-gan with one clear message and its exit code."""

from __future__ import annotations

EXIT_FAILED = 1
EXIT_USAGE = 2
EXIT_INTERRUPTED = 130


class UserError(RuntimeError):
    """Something failed for a reason that a user can act on; the text says what, where and what to do."""

    exit_code = EXIT_FAILED


class UsageError(UserError):
    """The command line, the configuration or the data cannot be used; trying again does not help."""

    exit_code = EXIT_USAGE
