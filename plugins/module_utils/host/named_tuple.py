# SPDX-License-Identifier: Apache-2.0
"""The parts of a named tuple that gpu-run needs; importing collections and making five takes a fifth of its start."""

# Importing typing takes just as long: its names are only for the type checker.
TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Dict, Tuple, TypeVar

    Self = TypeVar("Self", bound="Record")


class Record:
    """A value with the fields named in `__slots__`, given by position; equal to one of its class with equal fields."""

    __slots__: "Tuple[str, ...]" = ()

    def __init__(self, *values: "Any") -> None:
        if len(values) != len(self.__slots__):
            raise TypeError(f"{type(self).__name__} has the fields {', '.join(self.__slots__)}")
        for index, name in enumerate(self.__slots__):
            setattr(self, name, values[index])

    def as_dict(self) -> "Dict[str, Any]":
        """{field: value}."""
        return {name: getattr(self, name) for name in self.__slots__}

    def changed(self: "Self", **fields: "Any") -> "Self":
        """A copy with other values in some fields."""
        values = dict(self.as_dict(), **fields)
        if len(values) > len(self.__slots__):
            raise TypeError(f"{type(self).__name__} has the fields {', '.join(self.__slots__)}")
        return type(self)(*(values[name] for name in self.__slots__))

    # Fields may hold sets and dicts, so a record has no hash: Python takes it away where __eq__ is defined alone.
    def __eq__(self, other: object) -> bool:
        return isinstance(other, Record) and type(self) is type(other) and self.as_dict() == other.as_dict()

    def __repr__(self) -> str:
        fields = ", ".join(f"{name}={value!r}" for name, value in sorted(self.as_dict().items()))
        return f"{type(self).__name__}({fields})"
