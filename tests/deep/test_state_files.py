"""Damaged state files through their real readers: each is said or set aside by one kind of error, and none escapes."""

from __future__ import annotations

import copy
import json
import os
import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from gpuwright.verdict import boot_check
from state_samples import BOOT, STATES, State

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="some of these files count only if they are root's")
LEAST = 8_000
NEW_OF_EACH = 560
# What json.dumps does not write: a number that is none as a float, and one of more digits than Python reads.
RAW = ("-1e999", "7" * 5000)
STRANGE: list[Any] = [
    *(None, True, False, 0, -1, 2**70, 1.5, -0.0, 1e300, "", "x", "\0", "\udc80", "../..", "a" * 5000),
    # No float, no time, and the largest that counts as a number.
    *(10**399, -(10**4000), 2**63 - 1, 1e18, [1.5, 10**399], [-(10**399), None, 2]),
    *("{{ 1 }}", "\u202e\x1b["),
    *([], {}, [None], [[]], {"": None}, {"schema": 1}, [1, 2, 3], ["a", "b"]),
]
DEEP = "[" * 100_000


def places(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """Every place in a value, the outermost first."""
    yield path
    rows = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, one in rows:
        yield from places(one, (*path, key))


def changed(whole: Any, path: tuple[Any, ...], new: Any) -> Any:
    """A copy with another value in a place; ... takes the place out."""
    if not path:
        return new
    copied = copy.deepcopy(whole)
    inner = copied
    for key in path[:-1]:
        inner = inner[key]
    if new is ...:
        del inner[path[-1]]
    else:
        inner[path[-1]] = new
    return copied


def damages(state: State, chance: random.Random) -> Iterator[bytes]:
    """Values of other types in every place, then texts as disks, editors and power cuts leave them."""
    found = list(places(state.whole))
    for path in found:
        for new in (*STRANGE, ...) if path else STRANGE:
            yield json.dumps(changed(state.whole, path, new)).encode()
    text = json.dumps(state.whole, indent=1).encode()
    yield from (
        b"",
        b"\0" * len(text),
        text[:-1],
        b"\xef\xbb\xbf" + text,
        text.decode().encode("utf-16"),
        DEEP.encode(),
    )
    yield from (
        b"NaN",
        b"Infinity",
        b'{"schema": NaN}',
        b"1" * 5000,
        b'{"a": ' + DEEP.encode(),
        text + text,
        b"\xff" + text,
    )
    for path in found[1:]:
        yield json.dumps(changed(state.whole, path, float("nan"))).encode()
        marked = json.dumps(changed(state.whole, path, "\0"))
        yield from (marked.replace('"\\u0000"', number).encode() for number in RAW)
    while True:
        at, length = chance.randrange(len(text)), chance.randrange(1, 40)
        kind = chance.randrange(4)
        middle = (b"", b"\0" * length, bytes(chance.randrange(256) for _ in range(length)), text[:length])[kind]
        yield text[:at] + middle + text[at + length :]


@pytest.fixture
def root(tmp_path: Path) -> Path:
    for path, text in (
        (boot_check.BOOT_ID_PATH, BOOT),
        (boot_check.UPTIME_PATH, "1100.0 1"),
        (boot_check.UNIT_PATH, ""),
    ):
        file = tmp_path / path.lstrip("/")
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)
    return tmp_path


@pytest.mark.parametrize("name", STATES)
def test_no_damage_is_an_exception_that_nobody_expects(root: Path, name: str) -> None:
    state = STATES[name]
    file = root / state.path.lstrip("/")
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(json.dumps(state.whole))
    file.chmod(0o644)
    # The whole one is read, so that the damage is what is refused.
    state.read(str(root))
    chance = random.Random(1)
    escaped, tried = [], 0
    for data in damages(state, chance):
        tried += 1
        file.write_bytes(data)
        try:
            state.read(str(root))
        except state.known as error:
            assert str(error), data[:200]
        except Exception as error:
            escaped.append(f"{type(error).__name__}: {error}; {data[:300]!r}")
        if tried >= max(NEW_OF_EACH, len(list(places(state.whole))) * (len(STRANGE) + len(RAW) + 2) + 50):
            break
    print(f"{len(escaped)} of {tried} damaged files of {name} ended in an exception")
    assert not escaped, f"{len(escaped)} of {tried}: " + "\n".join(escaped[:5])


def test_enough_files_are_tried() -> None:
    each = [
        max(NEW_OF_EACH, len(list(places(state.whole))) * (len(STRANGE) + len(RAW) + 2) + 50)
        for state in STATES.values()
    ]
    assert sum(each) >= LEAST
