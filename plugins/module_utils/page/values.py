# SPDX-License-Identifier: Apache-2.0
"""Values of a report for people: nothing raises, whatever a damaged or hostile report holds."""

NOT_READ = "not read"
LARGEST = 1e15


def look(record, *path):
    """The value at `path`; None where there is none, words where it could not be read."""
    for key in path:
        if isinstance(record, dict) and "unreadable" in record:
            return "{}: {}".format(NOT_READ, record["unreadable"])
        try:
            record = record[key]
        except (KeyError, IndexError, TypeError):
            return None
    if isinstance(record, dict) and "unreadable" in record:
        return "{}: {}".format(NOT_READ, record["unreadable"])
    return record


def as_list(value):
    return value if isinstance(value, list) else []


def in_words(value):
    """A value for people."""
    if value is None or value == "":
        return "none"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, list):
        return ", ".join(in_words(member) for member in value) or "none"
    return str(value)


def shorten(text, letters):
    return text if len(text) <= letters else text[: letters - 1] + "…"


def is_number(value):
    """A number of which a bar can be drawn; JSON also knows numbers that no float holds."""
    return isinstance(value, (int, float)) and not isinstance(value, bool) and 0 <= value < LARGEST
