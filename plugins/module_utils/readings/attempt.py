# SPDX-License-Identifier: Apache-2.0
"""One reading of a node that may be broken: a value, or `{"unreadable": "why"}`, and never an exception.

An exception with a `code` says why in a word that checks may ask: `{"unreadable": "why", "code": "no-user"}`.
"""

import os
from typing import Any, Callable, Dict, TypeVar, overload

A = TypeVar("A")
B = TypeVar("B")
C = TypeVar("C")
D = TypeVar("D")


# With these, a type checker compares the arguments with the reader's; at run time, a wrong one would just be
# unreadable.
@overload
def attempt(read: Callable[[], Any]) -> Any:
    """A reader of nothing."""


@overload
def attempt(read: Callable[[A], Any], __a: A) -> Any:
    """A reader of one argument."""


@overload
def attempt(read: Callable[[A, B], Any], __a: A, __b: B) -> Any:
    """A reader of two."""


@overload
def attempt(read: Callable[[A, B, C], Any], __a: A, __b: B, __c: C) -> Any:
    """A reader of three."""


@overload
def attempt(read: Callable[[A, B, C, D], Any], __a: A, __b: B, __c: C, __d: D) -> Any:
    """A reader of four."""


def attempt(read: Callable[..., Any], *arguments: Any) -> Any:
    """The reading, or `{"unreadable": "why"}`: on a broken node anything may go wrong, nothing may stop the rest."""
    try:
        return read(*arguments)
    except PermissionError as error:
        return unreadable_for_users(str(error))
    except (OSError, ValueError) as error:
        code = getattr(error, "code", "")
        why = {"unreadable": str(error) or type(error).__name__}
        return dict(why, code=code) if code else why
    except Exception as error:
        return {"unreadable": f"{type(error).__name__}: {error}"}


def unreadable_for_users(why: str) -> Dict[str, Any]:
    """A value that an ordinary user could not read says that root can; for root, it is just unreadable."""
    return {"unreadable": why} if os.geteuid() == 0 else {"unreadable": why, "only_root": True}


def for_root(reading: Any) -> Any:
    """The reading, with every unreadable value in it marked as needing root, for programs that do not say so."""
    if isinstance(reading, dict):
        if "unreadable" in reading:
            return unreadable_for_users(reading["unreadable"])
        return {name: for_root(value) for name, value in reading.items()}
    return [for_root(value) for value in reading] if isinstance(reading, list) else reading
