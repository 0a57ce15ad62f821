# SPDX-License-Identifier: Apache-2.0
"""One reading of a node that may be broken: a value, or `{"unreadable": "why"}`, and never an exception."""

import os


def attempt(read, *arguments):
    """The reading, or `{"unreadable": "why"}`: on a broken node anything may go wrong, nothing may stop the rest."""
    try:
        return read(*arguments)
    except PermissionError as error:
        return unreadable_for_users(str(error))
    except (OSError, ValueError) as error:
        return {"unreadable": str(error) or type(error).__name__}
    except Exception as error:
        return {"unreadable": f"{type(error).__name__}: {error}"}


def unreadable_for_users(why):
    """What an ordinary user could not read says that root can; for root it is as unreadable as anything."""
    return {"unreadable": why} if os.geteuid() == 0 else {"unreadable": why, "only_root": True}


def for_root(reading):
    """The reading, every unreadable value in it marked as one that needs root, for programs that do not say so."""
    if isinstance(reading, dict):
        if "unreadable" in reading:
            return unreadable_for_users(reading["unreadable"])
        return {name: for_root(value) for name, value in reading.items()}
    return [for_root(value) for value in reading] if isinstance(reading, list) else reading
