"""Whatever writes text for people is known, and passes the door for what others chose; found by the syntax tree."""

from __future__ import annotations

import ast
import io
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from ansible_collections.gpuwright.node.plugins.plugin_utils.screen.voice import Voice
from gpuwright.host import terminal

REPOSITORY = Path(__file__).resolve().parents[3]
NODE = REPOSITORY / "plugins/module_utils"
STREAMS = re.compile(r"sys\.(?:__)?std(?:out|err)(?:__)?(?:\.buffer)?\.write")
# Programs whose streams are not made safe, and what they write: gpu-run and gpu-job start too often to load more.
SMALL = {
    "launch/job.py": "a refusal in one line, with the words of the person who started it",
    "launch/launcher.py": "the same, of a command that cannot be started",
    "host/terminal.py": "what print_utf8() is given, for programs: JSON, which has no control characters",
}
# Ansible's own display, past the screen's door: names, paths and counts of our own, or words that passed `printable`.
DISPLAYS = {
    "plugins/action/bundle_packages.py", "plugins/action/gpu_verify.py", "plugins/action/operator_lock.py",
    "plugins/action/sweep.py", "plugins/callback/drift.py", "plugins/callback/lock.py", "plugins/callback/rollout.py",
    "plugins/callback/summary.py", "plugins/plugin_utils/rollout/current.py", "plugins/plugin_utils/screen/run_log.py",
    "plugins/plugin_utils/screen/voice.py",
}  # fmt: skip


def calls(path: Path) -> Iterator[str]:
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Call):
            yield ast.unparse(node.func)


def writers(folder: Path) -> set[str]:
    """Modules that print, or write to the standard streams."""
    return {
        str(path.relative_to(folder))
        for path in folder.rglob("*.py")
        if any(name == "print" or STREAMS.fullmatch(name) for name in calls(path))
    }


def imports(path: Path) -> set[str]:
    found = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.ImportFrom):
            found |= {alias.name for alias in node.names} | {(node.module or "").rpartition(".")[2]}
    return found


def test_every_program_that_prints_begins_with_safe_streams() -> None:
    """A module that prints is started by one that calls escape_output(), the first thing its main() does."""
    everything: dict[str, list[Path]] = {}
    for path in NODE.rglob("*.py"):
        everything.setdefault(path.stem, []).append(path)
    waiting = [path.stem for path in NODE.rglob("*.py") if "escape_output" in set(calls(path))]
    reached = set(waiting)
    while waiting:
        for path in everything[waiting.pop()]:
            new = (imports(path) & set(everything)) - reached
            reached |= new
            waiting += new
    outside = {name for name in writers(NODE) if Path(name).stem not in reached}
    assert outside <= set(SMALL), outside - set(SMALL)
    assert set(SMALL) <= writers(NODE), set(SMALL) - writers(NODE)


def test_whoever_uses_ansibles_display_is_known() -> None:
    uses = re.compile(r"(?i).*display\)?(?:\(\))?\.(?:display|warning|error|deprecated|v+)")
    found = {
        str(path.relative_to(REPOSITORY))
        for folder in ("action", "callback", "lookup", "plugin_utils", "filter", "vars")
        for path in (REPOSITORY / "plugins" / folder).rglob("*.py")
        if any(uses.fullmatch(name) for name in calls(path))
    }
    assert found <= DISPLAYS, found - DISPLAYS


@pytest.mark.parametrize("char", ["\x1b", "\x9b", "\r", "\b", "\u202e"])
def test_a_stream_of_a_program_passes_no_control_character(monkeypatch: pytest.MonkeyPatch, char: str) -> None:
    streams = {name: io.TextIOWrapper(io.BytesIO(), "utf-8") for name in ("stdout", "stderr")}
    for name, stream in streams.items():
        monkeypatch.setattr(sys, name, stream)
    terminal.escape_output()
    terminal.escape_output()
    print(f"a{char}b\tc\nd")
    print(f"a{char}b", file=sys.stderr)
    for stream, words in zip(streams.values(), ("a b\tc\nd\n", "a b\n"), strict=True):
        stream.flush()
        assert stream.buffer.getvalue().decode() == words


def test_the_screen_and_the_log_get_no_secret_and_no_control_character() -> None:
    told: list[str] = []

    class Display:
        verbosity = 0

        def display(self, msg: str, **_named: Any) -> None:
            told.append(msg)

    voice = Voice(Display())
    voice.display("fatal: https://u:canary@m/x \x1b[2J\nnext: --hf-token canary")
    assert told == ["fatal: https://***@m/x  [2J\nnext: --hf-token ***"]
