"""Names that no ASCII terminal can show, on a node whose locale is C: no file, metric or record is lost over them."""

from __future__ import annotations

import ast
import json
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from gpuwright.host.access import read_account
from gpuwright.host.bounded import run_bounded
from gpuwright.verdict.report import write_text
from healthy_kernel import KERNEL_LOG, record, records
from host_tree import HostTree

# The fixtures of gpu-doctor on a made-up node.
from test_gpu_doctor import doctor, folder, gated, node, pytestmark  # noqa: F401

REPOSITORY = Path(__file__).resolve().parents[3]
ON_NODES = ("plugins/module_utils", "library", "roles/system_runtime/files", "roles/system_tuning/files")
# Letters outside ASCII and a character outside the basic plane; beside them, undecodable bytes and a replacement
# character.
LETTERS = "Größe Ⅱ 😀".encode()
NAMES = {"letters": LETTERS, "bytes": b"V100 \xff\xfe " + "\ufffd ".encode() + LETTERS}


def opened_as_text(tree: ast.AST) -> Iterator[tuple[int, bool]]:
    """(line, whether an encoding is named) of every open() and fdopen() that is not binary."""
    for call in (found for found in ast.walk(tree) if isinstance(found, ast.Call)):
        name = getattr(call.func, "id", None) or getattr(call.func, "attr", None)
        owner = getattr(getattr(call.func, "value", None), "id", "")
        if name not in ("open", "fdopen", "read_text", "write_text"):
            continue
        if name == "open" and isinstance(call.func, ast.Attribute) and owner != "io":
            continue
        # Our own functions of these names know their encoding.
        if name in ("read_text", "write_text") and isinstance(call.func, ast.Name):
            continue
        modes = [*call.args[1:2], *(word.value for word in call.keywords if word.arg == "mode")]
        if not any(isinstance(mode, ast.Constant) and "b" in str(mode.value) for mode in modes):
            yield call.lineno, any(word.arg == "encoding" for word in call.keywords)


def test_every_text_file_is_opened_with_its_encoding():
    found, missing = 0, []
    for path in sorted(path for place in ON_NODES for path in (REPOSITORY / place).rglob("*.py")):
        for line, named in opened_as_text(ast.parse(path.read_text(encoding="utf-8"))):
            found += 1
            missing += [] if named else [f"{path.relative_to(REPOSITORY)}:{line}"]
    assert found > 5 and missing == []


def test_no_program_is_read_as_text_of_the_locale():
    words = ("universal_newlines=True", "text=True", "subprocess.check_output", "os.popen")
    files = [path for place in ON_NODES for path in (REPOSITORY / place).rglob("*") if "__pycache__" not in path.parts]
    texts = {path: path.read_text(encoding="utf-8") for path in files if path.is_file()}
    assert [(path.name, word) for path, text in texts.items() for word in words if word in text] == []


@pytest.fixture(params=sorted(NAMES))
def odd_node(request, folder, node):  # noqa: F811
    """The card's name, a log line of the kernel and a user's real name hold such characters."""
    name = NAMES[request.param]
    xml = (folder_xml(folder)).read_bytes()
    folder_xml(folder).write_bytes(xml.replace(b"Tesla V100-PCIE-16GB", name))
    journal = folder / "bin/journalctl"
    text = name.decode("utf-8", "replace")
    messages = [(6, b"usb 1-1: Product: " + name), (7, b"NVRM: Xid (PCI:0000:3b:00): 999, " + name)]
    # journald prints what is not UTF-8 as a list of bytes.
    said: list[Any] = [(at, list(line) if "\ufffd" in text else line.decode()) for at, line in messages]
    rows = "".join(record("", at * 1000000, MESSAGE=line) + "\n" for at, line in said)
    (folder / "records").write_text(records(KERNEL_LOG) + rows)
    journal.write_text(f"#!/bin/sh\ncat {folder}/records\n")
    passwd = node.folder / "etc/passwd"
    passwd.write_bytes(passwd.read_bytes() + b"operator:x:1000:1000:" + name + b":/home/operator:/bin/bash\n")
    return node


def folder_xml(folder: Path) -> Path:  # noqa: F811
    return folder / "580-v100.xml"


def under_c(folder: Path, *arguments: str) -> subprocess.CompletedProcess:  # noqa: F811
    """gpu-doctor as cron and systemd start it; Python 3.7 and later would change to UTF-8 by themselves."""
    environment = {"PATH": f"{folder}/bin:/usr/bin:/bin", "LC_ALL": "C", "PYTHONCOERCECLOCALE": "0", "PYTHONUTF8": "0"}
    command = [str(folder / "bin/gpu-doctor"), *arguments]
    return subprocess.run(command, env=environment, capture_output=True, timeout=60, cwd="/")


@pytest.mark.parametrize("arguments", [[], ["--json"], ["--nagios"], ["--prom", "-"], ["--record", "900"]])
def test_what_it_prints_survives(doctor, odd_node, folder, arguments):  # noqa: F811
    gated(odd_node)
    done = under_c(folder, "--level", "quick", *arguments)
    assert b"Traceback" not in done.stderr and b"codec" not in done.stderr, done.stderr
    assert done.returncode in (0, 1) and done.stdout.strip()
    done.stdout.decode("utf-8")


def test_metrics_and_record_are_written(doctor, odd_node, folder):  # noqa: F811
    kept, target = gated(odd_node), folder / "gpuwright.prom"
    done = under_c(folder, "--level", "quick", "--record", "900", "--prom", str(target))
    assert b"codec" not in done.stderr and done.returncode in (0, 1), done.stderr
    assert "gpuwright_verdict " in target.read_text(encoding="utf-8")
    assert json.loads(kept.read_text(encoding="utf-8"))["holds_s"] == 900


def test_a_lone_surrogate_does_not_stop_a_file(tmp_path):
    write_text(str(tmp_path / "file"), "name \udcff ü\n")
    assert (tmp_path / "file").read_text(encoding="utf-8") == "name ? ü\n"


def test_a_neighbour_with_a_latin_name_hides_no_account(tmp_path):
    host = HostTree(tmp_path)
    host.put("/etc/passwd", b"jorg:x:5:5:J\xf6rg:/:/bin/sh\ntrainer:x:991:991::/:/sbin/nologin\n")
    host.put("/etc/group", b"stra\xdfe:x:6:\ntrainer:x:991:\n")
    account = read_account(host.root, "trainer")
    assert account is not None and account["groups"] == ["trainer"]


@pytest.mark.parametrize("argument", ["a\0b", "\udfff"])
def test_an_argument_that_no_program_can_get_is_a_problem_and_no_exception(argument):
    done = run_bounded(["true", argument], 5)
    assert done.rc is None and "cannot be run" in done.problem
