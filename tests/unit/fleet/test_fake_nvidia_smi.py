"""The replay tool itself: what it plays is what a reader gets."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

TOOL = Path(__file__).resolve().parents[2] / "fleet/fake-nvidia-smi"
V100 = Path(__file__).parents[1] / "data/nvidia_smi/580-v100.xml"


def make(folder: Path, *options: str) -> Path:
    command = [sys.executable, str(TOOL), "--make", str(folder), *options]
    return Path(subprocess.run(command, check=True, capture_output=True, text=True).stdout.strip())


def run(program: Path, *arguments: str, python: str = sys.executable, **more: Any) -> subprocess.CompletedProcess:
    return subprocess.run([python, str(program), *arguments], capture_output=True, timeout=20, **more)


def test_a_capture_is_played_byte_by_byte(tmp_path, node_python):
    done = run(make(tmp_path, "--play", str(V100)), "-q", "-x", python=node_python)
    assert (done.returncode, done.stdout, done.stderr) == (0, V100.read_bytes(), b"")


@pytest.mark.parametrize(
    ("options", "code", "out", "err"),
    [
        (["--text", "No devices were found\n", "--exit", "6"], 6, b"No devices were found\n", b""),
        (["--play", str(V100), "--exit", "14", "--stderr", "WARNING"], 14, V100.read_bytes(), b"WARNING"),
        (["--play", str(V100), "--truncate", "100"], 0, V100.read_bytes()[:100], b""),
        (["--text", "x", "--signal", "11"], -signal.SIGSEGV, b"x", b""),
        (["--script", '{"when": {"--query-gpu": {"exit": 2}}, "text": "else"}'], 0, b"else", b""),
    ],
)
def test_every_way_to_answer(tmp_path, options, code, out, err):
    done = run(make(tmp_path, *options), "-q")
    assert (done.returncode, done.stdout, done.stderr) == (code, out, err)


def test_arguments_choose_the_answer(tmp_path):
    script = {"text": "", "when": {"--query-gpu": {"exit": 2, "text": "no field"}, "-L": {"text": "GPU 0"}}}
    program = make(tmp_path, "--script", json.dumps(script))
    assert run(program, "--query-gpu=name").stdout == b"no field"
    assert run(program, "-L").stdout == b"GPU 0"


def test_values_are_set_in_all_gpus_or_in_one(tmp_path):
    capture = V100.with_name("570-h100-two.xml")
    program = make(tmp_path, "--play", str(capture), "--set", "uuid=A", "--set", "@1/serial=[N/A]")
    text = run(program).stdout.decode()
    assert text.count("<uuid>A</uuid>") == 2 and text.count("<serial>[N/A]</serial>") == 1
    assert "has no nothing" in run(make(tmp_path, "--play", str(capture), "--set", "nothing=1")).stderr.decode()


def test_a_delay(tmp_path):
    begin = time.monotonic()
    assert run(make(tmp_path, "--delay", "0.3", "--text", "late")).stdout == b"late"
    assert time.monotonic() - begin >= 0.3


@pytest.mark.parametrize(("options", "dies"), [(["--hang"], True), (["--hang", "ignore"], False)])
def test_it_hangs(tmp_path, options, dies):
    program = make(tmp_path, "--play", str(V100), "--truncate", "15", *options)
    with subprocess.Popen([sys.executable, program], stdout=subprocess.PIPE) as child:
        try:
            assert child.stdout and child.stdout.read(15) == V100.read_bytes()[:15]
            time.sleep(0.2)
            child.terminate()
            time.sleep(0.3)
            assert (child.poll() is not None) == dies
        finally:
            child.kill()


def test_a_key_that_nobody_plays_is_an_error(tmp_path):
    program = make(tmp_path)
    Path(f"{program}.json").write_text('{"hnag": true}')
    assert "nothing plays hnag" in run(program).stderr.decode()
