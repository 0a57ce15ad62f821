"""What a start of gpu-run may load, and that the small stand-ins for slow modules do what those do."""

from __future__ import annotations

import json
import math
import os
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest
from gpuwright.host.named_tuple import Record
from gpuwright.launch import fast_json
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

MODULE_UTILS = Path(__file__).resolve().parents[3] / "tests/node_library"
# Each takes milliseconds; --explain, --calibrate and errors may load them.
SLOW = {
    "argparse",
    "collections",
    "ctypes",
    "enum",
    "functools",
    "gpuwright.gpu.cards",
    "gpuwright.gpu.device_table",
    "json",
    "re",
    "signal",
    "struct",
    "subprocess",
    "typing",
}
JSON_VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    max_leaves=10,
)
START = """
import os, sys
sys.path.insert(0, sys.argv[1])
from gpuwright.launch import launcher
def become(*_):
    sys.stdout.write(" ".join(sys.modules))
    sys.stdout.flush()
    os._exit(0)
os.execvpe = become
launcher.main(["--", "true"], root=sys.argv[2])
"""


@pytest.mark.parametrize("state", ["fresh", "policy", "calibrated", "card"])
def test_start_loads_nothing_slow(node_python: str, tmp_path: Path, state: str) -> None:
    folder = tmp_path / "etc/gpuwright"
    folder.mkdir(parents=True)
    if state == "card":
        card = tmp_path / "sys/bus/pci/devices/0000:3b:00.0"
        card.mkdir(parents=True)
        for name, value in (("vendor", "0x10de"), ("device", "0x1db4"), ("class", "0x030200"), ("numa_node", "0")):
            (card / name).write_text(value + "\n")
    if state != "fresh":
        (folder / "runtime.json").write_text('{"schema": 1, "allocator": "calibrated"}')
    if state == "calibrated":
        machine = {"cpu": None, "cpus": None, "nodes": None, "libc": os.confstr("CS_GNU_LIBC_VERSION")}
        saved = {"schema": 1, "allocator": "none", "malloc_conf": "", "why": "nothing was faster", "machine": machine}
        (folder / "runtime-calibrated.json").write_text(json.dumps(saved))
    words = [node_python, "-I", "-S", "-c", START, str(MODULE_UTILS), str(tmp_path)]
    done = subprocess.run(words, capture_output=True, text=True, env={"PATH": "/usr/bin:/bin"}, timeout=30)
    loaded = set(done.stdout.split())
    assert "gpuwright.launch.decision" in loaded and done.stderr == ""
    assert not loaded & SLOW


@pytest.mark.parametrize("text", ['{"schema": 1,}', "{", "[1,]", '{"schema": 1} {}', '"\n"', "nul", "\ufeff{}"])
@pytest.mark.parametrize("name", ["runtime.json", "runtime-calibrated.json"])
def test_a_damaged_file_is_told_by_an_interpreter_that_has_loaded_nothing(
    node_python: str, tmp_path: Path, name: str, text: str
) -> None:
    folder = tmp_path / "etc/gpuwright"
    folder.mkdir(parents=True)
    (folder / "runtime.json").write_text('{"schema": 1, "allocator": "calibrated"}')
    (folder / name).write_text(text, encoding="utf-8")
    words = [node_python, "-I", "-S", "-c", START, str(MODULE_UTILS), str(tmp_path)]
    done = subprocess.run(words, capture_output=True, text=True, env={"PATH": "/usr/bin:/bin"}, timeout=30)
    assert "Traceback" not in done.stderr and f"{name}" in done.stderr
    started = "gpuwright.launch.decision" in done.stdout.split()
    assert started == (name != "runtime.json")


# How long a machine under load takes to make values says nothing of the reader.
@settings(suppress_health_check=[HealthCheck.too_slow], deadline=None)
@given(JSON_VALUES, st.booleans())
def test_reads_what_json_reads(value: object, spread_out: bool) -> None:
    text = json.dumps(value, indent=2 if spread_out else None)
    assert fast_json.loads(f"\n{text} ") == json.loads(text)


def answers_as_json_does(text: str) -> None:
    def answer(loads: Callable[[str], object]) -> tuple:
        try:
            value = loads(text)
        except ValueError as error:
            return "error", str(error)
        return "value", "nan" if isinstance(value, float) and math.isnan(value) else value

    assert answer(fast_json.loads) == answer(json.loads)


@given(st.text(alphabet='{}[]",:0123456789.eE+-truefalsn \n\\u', max_size=12))
def test_answers_every_text_as_json_does(text: str) -> None:
    answers_as_json_does(text)


@pytest.mark.parametrize("text", ["NaN", "-Infinity", "1e400", "\x0b1", "[1,]", "{} {}", "", "\ufeff{}", '"\n"'])
def test_answers_odd_texts_as_json_does(text: str) -> None:
    answers_as_json_does(text)


class Point(Record):
    __slots__ = ("x", "y")
    x: int
    y: object


class Place(Record):
    __slots__ = ("x", "y")


def test_record() -> None:
    point = Point(1, {2})
    assert (point.x, point.y, point.as_dict()) == (1, {2}, {"x": 1, "y": {2}})
    assert point == Point(1, {2}) and point != Point(1, {3}) and point != Place(1, {2})
    assert (point.changed(y=3), point.y, repr(Point(1, "a"))) == (Point(1, 3), {2}, "Point(x=1, y='a')")
    for wrong in (lambda: Point(1), lambda: Point(1, 2, 3), lambda: point.changed(z=1)):
        with pytest.raises(TypeError):
            wrong()
