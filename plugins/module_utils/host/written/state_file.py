# SPDX-License-Identifier: Apache-2.0
"""Small JSON files of our own, which a later run reads: one reader and one writer, both with the file's whole form.

A power cut, a full disk or a person may have damaged such a file in any place, so nothing in it counts before all of it
has the form. A form is written as its JSON looks:

  str, int, float, bool, None    a value of that type; float takes whole numbers, too
  NAME                           a text that may hold bytes of a file name that is no UTF-8
  ANY                            whatever JSON can hold
  {"on", "off"}                  one of these values
  MODE, ID, range(5)             a whole number that is in this range: permission bits, a user or group
  (str, None)                    either form
  [str]                          any number of these
  [str, int]                     exactly these, in this order
  {"a": str, "b?": int}          these keys and no others; "?": it may be missing; "...": others may be there
  {str: int}                     any keys
"""

import json
import os
import stat
from typing import Any, List, Mapping, Optional

from ..whole_file import write_whole
from .owning import Owner, make_folders

MOST_BYTES = 16 * 1024 * 1024
MOST_DEPTH = 40
MOST_NUMBER = 2**63
MOST_SHOWN = 60
# What the kernel takes; -1, and all bits of 32, mean no change of the owner.
MODE, ID = range(0o10000), range(2**32 - 1)
ANY, NAME, OTHERS = object(), object(), "..."


class Damaged(ValueError):
    """A file has another form than it should have.

    path, place, why    the file, where in it (such as packages[3].version; "" for all of it), what is wrong there
    """

    def __init__(self, path: str, place: str, why: str) -> None:
        super().__init__(f"{path} is damaged{' at ' + place if place else ''}: {why}")
        self.path, self.place, self.why = path, place, why


def read_state(path: str, form: Any, most: int = MOST_BYTES, shown: str = "") -> Any:
    """The content of the file, None if there is none; OSError, `Damaged`.

    most    bytes that it may have      shown   its name in messages, where that is another than `path`
    """
    shown = shown or path
    try:
        # A pipe in its place is not waited for.
        handle = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    except FileNotFoundError:
        return None
    with os.fdopen(handle, "rb") as file:
        found = os.fstat(file.fileno())
        if not stat.S_ISREG(found.st_mode):
            raise Damaged(shown, "", "it is no regular file")
        # Python would make room for all that it is asked for.
        data = file.read(min(found.st_size, most) + 1)
        if len(data) > found.st_size:
            data += file.read(max(most - found.st_size, 0))
    if len(data) > most:
        raise Damaged(shown, "", f"it is longer than {most} bytes")
    return parsed(data, form, shown)


def parsed(data: bytes, form: Any, shown: str) -> Any:
    """The same for bytes that were read already; `Damaged`."""
    try:
        value = json.loads(data.decode("utf-8"), parse_constant=_refuse)
    except (ValueError, RecursionError) as error:
        raise Damaged(shown, "", f"it is not JSON ({error})" if data.strip() else "it is empty")
    check(value, form, shown)
    return value


def check(value: Any, form: Any, shown: str) -> None:
    """`Damaged` unless the value has the form."""
    wrong = _wrong(value, form, "", 0)
    if wrong is not None:
        raise Damaged(shown, wrong[0].lstrip("."), wrong[1])


def write_state(
    path: str, value: Any, form: Any, mode: int, owner: Owner = None, indent: Optional[int] = 1, folder: bool = True
) -> None:
    """Replace the file in one step, on the disk, too; `Damaged` for what the reader would refuse, OSError."""
    check(value, form, path)
    separators = (",", ":") if indent is None else None
    text = json.dumps(value, indent=indent, sort_keys=True, separators=separators) + "\n"
    if folder:
        make_folders(os.path.dirname(path) or ".")
    write_whole(path, text.encode("ascii"), mode, owner)


def _refuse(text: str) -> Any:
    raise ValueError(f"{text} is no number of JSON")


def _wrong(value: Any, form: Any, place: str, depth: int) -> Any:
    """(place, why) of the first part that has another form, None if there is none."""
    if depth > MOST_DEPTH:
        return place, f"more than {MOST_DEPTH} levels"
    if isinstance(form, tuple):
        found = []
        for one in form:
            found.append(_wrong(value, one, place, depth))
            if found[-1] is None:
                return None
        # The farthest way is what was meant.
        return max(found, key=lambda one: len(one[0]))
    if form is ANY:
        form = _any_of(value)
    if isinstance(form, dict) and isinstance(value, dict):
        return _wrong_record(value, form, place, depth)
    if isinstance(form, list) and isinstance(value, list):
        if len(form) > 1 and len(value) != len(form):
            return place, f"{len(value)} values; expected {len(form)}"
        # Long columns of numbers and texts are most of what some files hold.
        if len(form) == 1 and _is_column(value, form[0]):
            return None
        forms = form if len(form) > 1 else form * len(value)
        rows = (_wrong(one, forms[at], f"{place}[{at}]", depth + 1) for at, one in enumerate(value))
        return next((row for row in rows if row is not None), None)
    return None if _is(value, form) else (place, f"{_shown(value)}; expected {_words(form)}")


def _is_column(values: List[Any], form: Any) -> bool:
    """Whether all are texts, or numbers and null, as the form has them; False also where that takes a longer look."""
    kinds = set(map(type, values))
    if form is str:
        return kinds <= {str} and _is("".join(values), str)
    if form != (float, None) or not kinds <= {int, float, type(None)}:
        return False
    try:
        # A sum with something that is no number is none either, and compares with nothing.
        return sum(map(abs, filter(None, values))) < MOST_NUMBER
    except OverflowError:
        # A whole number of 400 digits is no float.
        return False


def _is_plain(value: Mapping[str, Any], form: Any) -> bool:
    """The same for a record of texts or numbers, or of such columns."""
    rows = list(value.values())
    if isinstance(form, list):
        right = len(form) == 1 and all(isinstance(one, list) and _is_column(one, form[0]) for one in rows)
    else:
        right = form is not ANY and _is_column(rows, form)
    return right and _is_column(list(value), str)


def _any_of(value: Any) -> Any:
    """The form of whatever is there, so that depth, numbers and texts are looked at."""
    if isinstance(value, dict):
        return {str: ANY}
    return [ANY] if isinstance(value, list) else None if value is None else type(value)


def _wrong_record(value: Mapping[str, Any], form: Mapping[Any, Any], place: str, depth: int) -> Any:
    if str in form:
        if _is_plain(value, form[str]):
            return None
        forms = dict.fromkeys(value, form[str])
    else:
        forms = {name.rstrip("?"): one for name, one in form.items() if name != OTHERS}
        lacks = [name for name in form if name != OTHERS and not name.endswith("?") and name not in value]
        if lacks:
            return f"{place}.{lacks[0]}", "it is missing"
        strange = [name for name in value if name not in forms]
        if strange and OTHERS not in form:
            return place, f"the key {_shown(strange[0])} is unknown"
        forms.update((name, form[OTHERS]) for name in strange)
    if not all(_is(name, NAME) for name in value):
        return place, "a key that is no text"
    rows = (_wrong(one, forms[name], f"{place}.{name[:MOST_SHOWN]}", depth + 1) for name, one in value.items())
    return next((row for row in rows if row is not None), None)


def _is(value: Any, form: Any) -> bool:
    if isinstance(form, (set, frozenset)):
        return any(type(value) is type(one) and value == one for one in form)
    if isinstance(form, range):
        return type(value) is int and value in form
    if form is None or form is bool:
        return value is None if form is None else isinstance(value, bool)
    if form is int or form is float:
        kinds = (int,) if form is int else (int, float)
        return isinstance(value, kinds) and not isinstance(value, bool) and -MOST_NUMBER < value < MOST_NUMBER
    if form is str or form is NAME:
        # What no file name and no argument of a program can hold; and what cannot be written again.
        if not isinstance(value, str) or "\0" in value:
            return False
        return form is NAME or _is_unicode(value)
    return False


def _is_unicode(text: str) -> bool:
    """Whether it has no half of a surrogate pair, which stands for a byte that is no UTF-8."""
    try:
        text.encode("utf-8")
    except UnicodeEncodeError:
        return False
    return True


def _shown(value: Any) -> str:
    text = ascii(value)
    return text if len(text) <= MOST_SHOWN else text[:MOST_SHOWN] + ".."


def _words(form: Any) -> str:
    if isinstance(form, (set, frozenset, range)):
        return f"{form[0]} to {form[-1]}" if isinstance(form, range) else " or ".join(sorted(map(repr, form)))
    kinds = {str: "text", NAME: "text", int: "a whole number", float: "a number", bool: "true or false", None: "null"}
    return "a list" if isinstance(form, list) else "a record" if isinstance(form, dict) else kinds.get(form, "another")
