# SPDX-License-Identifier: Apache-2.0
"""What gpu-run needs of a named tuple; importing collections and making five of them takes a fifth of its start."""


class Record:
    """A value with the fields named in `__slots__`, given by position; equal to one of its class with equal fields."""

    __slots__ = ()

    def __init__(self, *values):
        if len(values) != len(self.__slots__):
            raise TypeError(f"{type(self).__name__} has the fields {', '.join(self.__slots__)}")
        for index, name in enumerate(self.__slots__):
            setattr(self, name, values[index])

    def as_dict(self):
        """{field: value}."""
        return {name: getattr(self, name) for name in self.__slots__}

    def changed(self, **fields):
        """A copy with other values in some fields."""
        values = dict(self.as_dict(), **fields)
        if len(values) > len(self.__slots__):
            raise TypeError(f"{type(self).__name__} has the fields {', '.join(self.__slots__)}")
        return type(self)(*(values[name] for name in self.__slots__))

    def __eq__(self, other):
        return type(self) is type(other) and self.as_dict() == other.as_dict()

    # Fields may hold sets and dicts.
    __hash__ = None

    def __repr__(self):
        fields = ", ".join(f"{name}={value!r}" for name, value in sorted(self.as_dict().items()))
        return f"{type(self).__name__}({fields})"
