# SPDX-License-Identifier: Apache-2.0
"""The words and numbers in nvidia-smi's answer, and what each kind of "no value" means.

Three outcomes, never mixed: a value; None, if the card has no such thing; UNKNOWN, if nothing says what it is.
Vocabulary from captures of drivers 418 to 595 on data-centre, workstation and consumer cards.
"""

import re
from typing import Any, Iterable, Optional, Union

UNKNOWN = "unknown"
# "There is no such thing"; the caller decides whether that can be true of this card.
NOT_THERE = ("N/A", "Not Supported", "Not Available", "Not Applicable")
NEEDS_RESET = "GPU requires reset"
# The card no longer answers on the bus.
LOST_WORDS = ("GPU is lost", "Unable to determine the device handle")
# The texts of NVML's errors (nvmlErrorString) that may appear in place of a value.
ERRORS = (
    "ERR!",
    "Unknown Error",
    "Error",
    NEEDS_RESET,
    "Insufficient Permissions",
    "Uninitialized",
    "Invalid Argument",
    "Insufficient Size",
    "Timeout",
    "Driver Not Loaded",
    "Interrupt Request Issue",
    "Function Not Found",
    "Corrupted infoROM",
    "Operation Not Permitted",
    "Insufficient Resources",
    "Internal Error",
)
# Everything else that is no value: ERR!, Unknown Error, GPU requires reset, Insufficient Permissions, and
# "Requested functionality has been deprecated" are UNKNOWN because they match no expected form.
FLAGS = {
    "Yes": True,
    "No": False,
    "Active": True,
    "Not Active": False,
    "True": True,
    "False": False,
    "Pending": True,
}
MODES = ("Enabled", "Disabled")
LONGEST_TEXT = 200
# A value, None or UNKNOWN.
Count = Union[int, float, str, None]
Flag = Union[bool, str, None]


def clean(text: Optional[str]) -> str:
    """One line of at most 200 printable characters, without brackets around the whole as in [N/A]; "" for None."""
    text = (text or "").lstrip()[: 2 * LONGEST_TEXT]
    text = " ".join("".join(c if c.isprintable() else " " for c in text).split())[:LONGEST_TEXT]
    return text[1:-1].strip() if text.startswith("[") and text.endswith("]") else text


def read_number(text: Optional[str], unit: str, whole: bool = True) -> Count:
    """The number before exactly this `unit` ("" for a plain count); None for N/A, else UNKNOWN."""
    text = clean(text)
    if text in NOT_THERE:
        return None
    match = re.match(r"(-?[0-9]{1,15}(?:\.[0-9]{1,6})?)(?: (\S+))?$", text)
    if not match or (match.group(2) or "") != unit:
        return UNKNOWN
    if whole:
        return int(match.group(1)) if "." not in match.group(1) else UNKNOWN
    return float(match.group(1))


def read_flag(text: Optional[str]) -> Flag:
    """True for Yes, Active, True and Pending, False for their opposites, None for N/A, else UNKNOWN."""
    text = clean(text)
    return None if text in NOT_THERE else FLAGS.get(text, UNKNOWN)


def read_mode(text: Optional[str]) -> Optional[str]:
    """Enabled or Disabled; None for N/A, else UNKNOWN."""
    text = clean(text)
    if text in NOT_THERE:
        return None
    return text if text in MODES else UNKNOWN


def read_version(text: Optional[str]) -> Optional[str]:
    """A dotted number such as "580.95.05"; None for N/A, else UNKNOWN."""
    text = clean(text)
    if text in NOT_THERE:
        return None
    return text if re.match(r"[0-9]{1,5}(\.[0-9]{1,5}){1,3}$", text) else UNKNOWN


def read_text(text: Optional[str]) -> Optional[str]:
    """Free text such as a name; None for N/A, UNKNOWN for empty text or one of nvidia-smi's words for an error."""
    text = clean(text)
    if text in NOT_THERE:
        return None
    is_error = text in ("",) + ERRORS or any(words in text for words in LOST_WORDS)
    return UNKNOWN if is_error or "functionality has been deprecated" in text else text


def first_known(values: Iterable[Any]) -> Any:
    """The first real value. If there is none: None if there are values and all are None, else UNKNOWN."""
    values = list(values)
    for value in values:
        if value is not None and value != UNKNOWN:
            return value
    return UNKNOWN if UNKNOWN in values or not values else None


def any_flag(flags: Iterable[Flag]) -> Flag:
    """True if one is; UNKNOWN if one is, if only some are None, or for an empty list; None if all are; else False."""
    flags = list(flags)
    if True in flags:
        return True
    if UNKNOWN in flags or not flags:
        return UNKNOWN
    return (None if set(flags) == {None} else UNKNOWN) if None in flags else False


def total(counts: Iterable[Count]) -> Count:
    """The sum of counters; None if all are None, UNKNOWN if only some are, since the missing one may not be zero."""
    counts = list(counts)
    if counts and set(counts) == {None}:
        return None
    known = [count for count in counts if isinstance(count, (int, float))]
    return sum(known) if known and len(known) == len(counts) else UNKNOWN
