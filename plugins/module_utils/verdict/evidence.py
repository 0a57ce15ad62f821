# SPDX-License-Identifier: Apache-2.0
"""Typed access to readings: every method raises rather than return something doubtful.

So a check cannot fail open: a value that is missing, marked unreadable, of a different type from the one asked for, or
one of the words with which tools say "I do not know", is an `Unreadable`, and `check.judge` makes that UNKNOWN.
"""

import re
from typing import Any, Collection, List, Pattern, Union

from ..host.patterns import lazily

# What nvidia-smi and our own readers write in place of a value that they could not get.
NOT_A_VALUE = lazily(r"|unknown|n/a|err!|\[.*\]", re.IGNORECASE)
PCI_ID = lazily(r"[0-9a-f]{4,8}:[0-9a-f]{2}:[0-9a-f]{2}\.[0-7]")
VERSION = lazily(r"[0-9]+(\.[0-9]+)*")
# What is larger is no float, and no reading.
LARGEST = 1e300
DEVICE = lazily(r"cuda:[0-9]+|cpu")


class Unreadable(Exception):
    """A value that a check needs is missing or unreadable; the message says which and why.

    name       of the reading or expectation, such as "readings.probe.gpus"; "" if it is no particular one
    code       why, where the reading says so, such as "no-user"; "" where it does not
    only_root  an ordinary user asked for it, and root could read it
    """

    only_root = False
    code = ""

    def __init__(self, message: str, name: str = "") -> None:
        super().__init__(message)
        self.name = name


class Evidence(object):
    """Typed access to nested readings; every method raises `Unreadable` rather than return something doubtful."""

    def __init__(self, value: Any, name: str) -> None:
        self.value = value
        self.name = name

    def at(self, *path: str) -> "Evidence":
        """The `Evidence` under these keys."""
        here = self
        for key in path:
            record = here._known(dict, "a record")
            name = f"{here.name}.{key}"
            if key not in record:
                raise Unreadable(f"{name} was not read", name)
            here = Evidence(record[key], name)
        return here

    def each(self, *path: str) -> "List[Evidence]":
        """A list of `Evidence`, one for each member."""
        here = self.at(*path)
        members = enumerate(here._known(list, "a list"))
        return [Evidence(member, f"{here.name}[{index}]") for index, member in members]

    def names(self, *path: str) -> List[str]:
        """The keys of a record, sorted."""
        return sorted(self.at(*path)._known(dict, "a record"))

    def text(self, *path: str) -> str:
        """A meaningful text: not empty, not "unknown", not "[N/A]"."""
        here = self.at(*path)
        value = here._known(str, "a string")
        if NOT_A_VALUE.fullmatch(value.strip()):
            raise Unreadable(f"{here.name} reads {value!r}", here.name)
        return value

    def version(self, *path: str) -> str:
        """A dotted number such as "580.95.05"."""
        return self.matching(VERSION, "a version", *path)

    def pci_id(self, *path: str) -> str:
        """An address such as "0000:3b:00.0", as sysfs writes it."""
        return self.matching(PCI_ID, "a PCI address", *path)

    def device(self, *path: str) -> str:
        """Where PyTorch computes: "cuda:0" or "cpu"."""
        return self.matching(DEVICE, "a device", *path)

    def number(self, *path: str) -> int:
        """A whole number, zero or more."""
        here = self.at(*path)
        if isinstance(here.value, bool) or not 0 <= here._known(int, "a number") < LARGEST:
            raise Unreadable(f"{here.name} is not a count: {here.value!r:.60}", here.name)
        return here.value

    def signed(self, *path: str) -> int:
        """A whole number that may be below zero, such as degrees or a margin."""
        here = self.at(*path)
        if isinstance(here.value, bool) or not -LARGEST < here._known(int, "a number") < LARGEST:
            raise Unreadable(f"{here.name} is not a number: {here.value!r:.60}", here.name)
        return here.value

    def amount(self, *path: str) -> Union[int, float]:
        """A number with or without a fraction, zero or more."""
        here = self.at(*path)
        value = here.value
        if isinstance(value, bool) or not isinstance(value, (int, float)) or not 0 <= value < LARGEST:
            here._known(float, "a number")
            raise Unreadable(f"{here.name} is not an amount: {value!r:.60}", here.name)
        return value

    def flag(self, *path: str) -> bool:
        """True or False."""
        return self.at(*path)._known(bool, "true or false")

    def absent(self, *path: str) -> bool:
        """Whether the value is null, which the contract must define as "there is none" if the caller is to use this."""
        return self.at(*path).value is None

    def wish(self, *path: str) -> str:
        """A text, or "" if the contract defines that as "none", as a plan does for what it does not install."""
        return "" if self.at(*path).value == "" else self.text(*path)

    def one_of(self, choices: Collection[str], *path: str) -> str:
        """A text that is one of `choices`."""
        value = self.text(*path)
        if value not in choices:
            name = self.at(*path).name
            raise Unreadable(f"{name} is not one of {', '.join(choices)}: {value!r}", name)
        return value

    def matching(self, pattern: Pattern[str], words: str, *path: str) -> str:
        """A text that matches the compiled `pattern` as a whole; `words` say what it should be."""
        value = self.text(*path)
        if not pattern.fullmatch(value):
            name = self.at(*path).name
            raise Unreadable(f"{name} is not {words}: {value!r}", name)
        return value

    def _known(self, kind: type, words: str) -> Any:
        if isinstance(self.value, dict) and "unreadable" in self.value:
            error = Unreadable(f"{self.name}: {self.value['unreadable']}", self.name)
            error.only_root = self.value.get("only_root") is True
            code = self.value.get("code")
            error.code = code if isinstance(code, str) else ""
            raise error
        if not isinstance(self.value, kind):
            raise Unreadable(f"{self.name} is not {words}: {self.value!r}", self.name)
        return self.value
