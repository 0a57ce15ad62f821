# SPDX-License-Identifier: Apache-2.0
"""Dates of log lines as seconds, also of lines that do not name the year."""

import re
from typing import Optional, Tuple

from .records import UNIX_BEGIN

MONTH_NAMES = ("jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec")
MONTHS = {name: number for number, name in enumerate(MONTH_NAMES, 1)}
# Of other languages, those that are short and mean one month only.
MONTHS.update(mai=5, okt=10, dez=12)
NUMBERED = re.compile(r"([0-9]{1,2})(?:月|\uc6d4)?$")
DAYS_BEFORE = (0, 31, 59, 90, 120, 151, 181, 212, 243, 273, 304, 334)
DAY = 24 * 3600


# How a date is to be understood: dates of two scales cannot be compared exactly, those without a year not at all.
UTC, LOCAL, NO_YEAR = "utc", "local", "no year"


class Dates(object):
    """Seconds since the year 0; a date without a year is in the one that brings it next to the date before it."""

    def __init__(self) -> None:
        self.last: Optional[int] = None
        self.year = 2000  # a leap year, so that February 29 exists

    def read(self, year: str, month: str, day: str, clock: str, zone: Optional[str] = None) -> Optional[int]:
        """None for the months of a language that is not known here, and for what is no date."""
        number = _month(month)
        if number is None or not 1 <= int(day) <= 31:
            return None
        return _absolute(int(year), number, int(day), clock) - _offset(zone)

    def read_without_year(self, month: str, day: str, clock: str) -> Optional[int]:
        """The same, on the scale of those that name no year."""
        number = _month(month)
        if number is None or not 1 <= int(day) <= 31:
            return None
        dates = [_absolute(self.year + step, number, int(day), clock) for step in (0, -1, 1)]
        last = self.last
        found = dates[0] if last is None else min(dates, key=lambda date: abs(date - last))
        self.year += (0, -1, 1)[dates.index(found)]
        self.last = found
        return found

    def of_unix(self, seconds: str) -> int:
        """The date of so many seconds after 1970."""
        return int(seconds) + UNIX_BEGIN


def words(date: int, scale: str) -> str:
    """ "2026-01-05 10:00:00", without the year where no line named it."""
    days, seconds = divmod(date, DAY)
    year = max(1, days * 400 // 146097 - 1)
    while _absolute(year + 1, 1, 1, "00:00:00") // DAY <= days:
        year += 1
    month = 12
    while month > 1 and _absolute(year, month, 1, "00:00:00") // DAY > days:
        month -= 1
    day = days - _absolute(year, month, 1, "00:00:00") // DAY + 1
    stamp = "{:02d}-{:02d} {:02d}:{:02d}:{:02d}".format(month, day, *_clock(seconds))
    return stamp if scale == NO_YEAR else f"{year}-{stamp}" + (" UTC" if scale == UTC else "")


def _clock(seconds: int) -> Tuple[int, int, int]:
    return seconds // 3600, seconds // 60 % 60, seconds % 60


def _month(word: str) -> Optional[int]:
    match = NUMBERED.match(word)
    # A longer word is another language's, and may begin like an English month.
    number = int(match.group(1)) if match else MONTHS.get(word[:3].lower() if len(word) <= 4 else "")
    return number if number is not None and 1 <= number <= 12 else None


def _offset(zone: Optional[str]) -> int:
    if not zone or zone.strip() == "Z":
        return 0
    digits = zone.strip().replace(":", "")
    return (1 if digits[0] == "+" else -1) * (int(digits[1:3]) * 3600 + int(digits[3:5]) * 60)


def _absolute(year: int, month: int, day: int, clock: str) -> int:
    leap = year % 4 == 0 and (year % 100 != 0 or year % 400 == 0)
    past = year - 1
    days = past * 365 + past // 4 - past // 100 + past // 400
    days += DAYS_BEFORE[month - 1] + day + (1 if leap and month > 2 else 0)
    return days * DAY + int(clock[:2]) * 3600 + int(clock[3:5]) * 60 + int(clock[6:8])
