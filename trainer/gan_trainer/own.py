# SPDX-License-Identifier: Apache-2.0
"""Functions of a user's own package, named in the configuration as package.module:function."""

from __future__ import annotations

import importlib
import re
from typing import Any

from .errors import UsageError

NAME = re.compile(r"[^\W\d]\w*(\.[^\W\d]\w*)*:[^\W\d]\w*")
FORM = "package.module:function"


class OwnError(UsageError):
    """The function cannot be imported, or returns what the trainer cannot use; the text names key and function."""


def is_own(value: object) -> bool:
    """Whether this names a function of a package; nothing is imported."""
    return isinstance(value, str) and NAME.fullmatch(value) is not None


def call(key: str, name: str, *arguments: Any) -> Any:
    """What the function `name`, which the configuration has under `key`, returns. Raises OwnError."""
    module, _, function = name.partition(":")
    try:
        found = getattr(importlib.import_module(module), function, None)
    except ImportError as error:
        raise OwnError(f"{key}: {name}: {error}; install its package into this environment") from error
    if found is None:
        raise OwnError(f"{key}: {name}: {module} has no {function}")
    if not callable(found):
        raise OwnError(f"{key}: {name}: {function} cannot be called")
    try:
        return found(*arguments)
    except UsageError:
        raise
    # Whatever the user's code raises, the sentence says whose code it was; the traceback follows it.
    except Exception as error:
        raise OwnError(f"{key}: {name}: {type(error).__name__}: {error}") from error
