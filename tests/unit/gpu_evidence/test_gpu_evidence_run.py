"""tests/gpu/evidence from its command line: without PyTorch, with made-up cards, with parts that fail in all ways."""

from __future__ import annotations

import contextlib
import json
import os
import re
import resource
import shutil
import signal
import subprocess
import sys
import time
import xml.etree.ElementTree as ElementTree
from pathlib import Path
from typing import Any

import made_up_torch
import pytest
from conftest import REPOSITORY

PROGRAM = REPOSITORY / "tests/gpu/evidence"
PLAYER = REPOSITORY / "tests/fleet/fake-nvidia-smi"
ANSWER = REPOSITORY / "tests/unit/data/nvidia_smi/570-h100-two.xml"
PARTS = (
    *("machine", "scan", "compilers", "bench", "performance", "smoke", "launcher", "burn_in", "process_group"),
    *("tables", "phases", "plan", "bounds", "calibration"),
)
# A virtual machine may stand still for minutes, and its clock not.
PATIENCE = 600


class Machine:
    """A folder with programs that come first in PATH, and where the results go."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.out = folder, folder / "out"
        (folder / "bin").mkdir()
        self.environment = {"PATH": f"{folder / 'bin'}:/usr/bin:/bin", "HOME": str(folder), "TMPDIR": str(folder)}
        self.python = ""

    def cards(self) -> None:
        """nvidia-smi answers as with two cards, one field of which nobody knows."""
        words = ["--make", str(self.folder / "bin"), "--play", str(ANSWER)]
        old = "<product_architecture>Hopper</product_architecture>"
        script = json.dumps({"replace": [[old, old + "<flux_capacitor>1.21 GW</flux_capacitor>"]]})
        subprocess.run([str(PLAYER), "--script", script, *words], check=True, capture_output=True)

    def torch(self, **faults: str) -> None:
        program = self.folder / "bin/python-with-torch"
        source = Path(made_up_torch.__file__)
        program.write_text(f'#!/bin/sh\nexec {sys.executable} -I {source} "$@"\n')
        program.chmod(0o755)
        self.python = str(program)
        self.environment["MADE_UP"] = json.dumps(faults)

    def command(self, *words: str) -> list[str]:
        given = ["--python", self.python] if self.python else []
        return [sys.executable, str(PROGRAM), "--out", str(self.out), *given, *words]

    def run(self, *words: str, **options: Any) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            self.command(*words), env=self.environment, capture_output=True, text=True, timeout=PATIENCE, **options
        )

    def results(self) -> dict[str, Any]:
        return json.loads((self.out / "evidence.json").read_text())

    def parts(self) -> dict[str, dict[str, Any]]:
        return {part["name"]: part for part in self.results()["parts"]}

    def sleepers(self) -> list[str]:
        """Processes that a made-up part has left."""
        wanted = (str(self.folder).encode(), made_up_torch.MARK.encode())
        found = []
        for file in Path("/proc").glob("[0-9]*/cmdline"):
            with contextlib.suppress(OSError):
                words = file.read_bytes()
                found += [words.decode()] if any(word in words for word in wanted) else []
        return found


@pytest.fixture
def machine(tmp_path: Path) -> Machine:
    return Machine(tmp_path)


def test_without_pytorch_it_ends_by_itself_and_names_each_part_and_why_it_did_not_run(machine: Machine) -> None:
    done = machine.run("--minutes", "9")
    assert done.returncode == 1 and done.stderr == ""
    parts = machine.parts()
    assert tuple(parts) == PARTS
    ran = {name for name, part in parts.items() if part["status"] in ("done", "incomplete")}
    assert {"machine", "scan"} <= ran <= {"machine", "scan", "plan"}
    page = (machine.out / "evidence.md").read_text()
    for part in parts.values():
        assert f"| {part['title']} | {part['status']} | " in page
        if part["name"] not in ran | {"plan"}:
            assert part["status"] == "not run" and "no interpreter with PyTorch was found" in part["why"]
    assert {goal["verdict"] for goal in machine.results()["goals"]} == {"not measured"}
    assert machine.results()["trial"] is True and "**No GPU was used**" in page
    assert [path.name for path in machine.folder.iterdir() if path.name.startswith("gpuwright-")] == []


def test_with_made_up_cards_every_part_runs_and_the_promises_are_judged(machine: Machine) -> None:
    machine.cards()
    machine.torch()
    done = machine.run("--minutes", "9")
    parts = machine.parts()
    told = {name: (part["status"], part["why"]) for name, part in parts.items()}
    complete = {name for name, (status, _why) in told.items() if status == "done"}
    assert complete >= set(PARTS) - {"burn_in", "process_group", "calibration", "plan"}, told
    assert told["burn_in"] == ("incomplete", made_up_torch_fault()), told
    assert told["process_group"][0] == "incomplete" and "-11" in told["process_group"][1]
    assert done.returncode == 1 and machine.results()["trial"] is False
    goals = {goal["name"]: goal for goal in machine.results()["goals"]}
    assert goals["strict"]["verdict"] == "holds" and goals["strict"]["measured"] == pytest.approx(9.4)
    # The best other loop is a little faster, a compiled arm that ran eagerly is none, one promise has no figure.
    assert goals["best"]["verdict"] == "does not hold" and "by hand, CUDA graph" in goals["best"]["why"]
    assert goals["eager_128"]["verdict"] == "not measured" and goals["eager_128"]["why"] == "128 px was not reached"
    assert goals["half"]["verdict"] == "does not hold" and goals["wait"]["verdict"] == "holds"
    assert goals["launcher"]["verdict"] == "holds"
    found = parts["scan"]["found"]
    assert ["flux_capacitor", "1.21 GW"] in found["unknown_fields"]
    page = (machine.out / "evidence.md").read_text()
    for words in ("generator runs eagerly", "ProcessGroupNCCL2", "RuntimeError: not permitted", "below its floor"):
        assert words in page, words
    for file in machine.out.glob("*.svg"):
        ElementTree.parse(file)
        assert f"({file.name})" in page
    assert len(list(machine.out.glob("*.svg"))) >= 4


def made_up_torch_fault() -> str:
    return "cuda:0, 12 s after the start: 1 bytes are not 0xaa as they were moved"


def test_serial_numbers_and_names_are_masked_everywhere(machine: Machine) -> None:
    machine.cards()
    machine.torch(**{"gan_trainer.compiling": "raise"})
    machine.run("--minutes", "9", "--only", "scan", "compilers")
    text = (machine.out / "evidence.json").read_text() + (machine.out / "evidence.md").read_text()
    secrets = set(re.findall(r"<(?:uuid|serial)>(.+?)</", ANSWER.read_text())) - {"N/A"}
    assert secrets and not [secret for secret in secrets if secret in text]
    assert os.uname().nodename not in re.split(r"[^A-Za-z0-9.-]+", text)


@pytest.mark.parametrize("fault", ["hang", "ignore", "orphan"])
def test_a_part_that_hangs_is_ended_at_its_share_with_all_that_it_started(machine: Machine, fault: str) -> None:
    machine.torch(**{"gan_trainer.performance": fault})
    done = machine.run("--minutes", "0.32", "--only", "performance")
    part = machine.parts()["performance"]
    assert part["status"] == "failed" and "did not finish within" in part["why"], part
    assert part["seconds"] <= part["share"] + 8 and done.returncode == 1
    assert machine.sleepers() == []


def test_a_part_that_hangs_by_itself_is_ended_at_its_share(machine: Machine) -> None:
    """Not a program that it started, which has a deadline of its own: the part does not come back from a read."""
    machine.torch(**{"evidence_worker.py": "ignore"})
    machine.run("--minutes", "0.5", "--only", "launcher")
    part = machine.parts()["launcher"]
    assert part["status"] in ("failed", "ended at its share") and part["seconds"] <= part["share"] + 8
    assert part["found"]["choice"]["schema"] == 1, "what it had found before is kept"
    assert machine.sleepers() == []


def test_parts_that_crash_flood_or_raise_take_no_other_with_them(machine: Machine) -> None:
    faults = {"gan_trainer.compiling": "crash", "gan_trainer.performance": "flood", "evidence_tables.py": "raise"}
    machine.torch(**faults)
    machine.run("--only", "compilers", "performance", "tables", "phases", "bounds")
    parts = machine.parts()
    assert "it was ended by signal 11" in parts["compilers"]["why"], parts["compilers"]
    assert "wrote more than" in parts["performance"]["why"], parts["performance"]
    assert "an illegal memory access" in parts["tables"]["why"], parts["tables"]
    assert parts["phases"]["status"] == parts["bounds"]["status"] == "done"


@pytest.mark.parametrize(("number", "status"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_stopped_it_keeps_what_it_has_and_says_so(machine: Machine, number: signal.Signals, status: int) -> None:
    machine.torch(**{"gan_trainer.performance": "ignore"})
    words = machine.command("--only", "compilers", "performance", "smoke")
    child = subprocess.Popen(words, env=machine.environment, stdout=subprocess.PIPE, text=True)
    assert child.stdout
    for line in child.stdout:
        if line.startswith("evidence: compilers"):
            break
    time.sleep(1.0)
    child.send_signal(number)
    assert child.wait(PATIENCE) == status
    parts = machine.parts()
    assert parts["compilers"]["status"] == "done" and parts["compilers"]["found"]["tables"]
    assert parts["performance"]["status"] in ("stopped", "not run")
    assert parts["smoke"]["why"] == f"the run was stopped by {number.name}"
    assert machine.results()["stopped"] == number.name
    assert f"**It was stopped by {number.name}**" in (machine.out / "evidence.md").read_text()
    assert machine.sleepers() == []


def test_where_nothing_can_be_written_the_results_are_printed(machine: Machine) -> None:
    machine.torch()
    no_files = lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (0, 0))  # noqa: E731
    done = machine.run("--only", "phases", preexec_fn=no_files)
    assert done.returncode == 1 and "the results cannot be written" in done.stdout
    printed = json.loads(done.stdout[done.stdout.index("{") :])
    assert [(part["name"], part["status"]) for part in printed["parts"]] == [("machine", "done"), ("phases", "done")]


def test_a_short_run_drops_the_last_parts_and_says_so(machine: Machine) -> None:
    machine.torch()
    machine.run("--minutes", "0.3", "--only", "bench")
    assert machine.parts()["bench"]["why"].startswith("no time was left: ")


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (["--minutes", "0"], "--minutes 0: expected minutes above 0"),
        (["--minutes", "nan"], "--minutes nan: expected minutes above 0"),
        (["--only", "everything"], "--only everything: expected some of machine, scan"),
        (["--python", "/no/such/python"], "--python /no/such/python: there is no such program"),
    ],
)
def test_a_wrong_command_line_is_refused(machine: Machine, words: list[str], says: str) -> None:
    done = machine.run(*words)
    assert done.returncode == 2 and says in done.stderr and not machine.out.exists()


def test_a_copy_without_git_and_without_links_runs_too(machine: Machine) -> None:
    copy = machine.folder / "copy"
    ignored = shutil.ignore_patterns("__pycache__", ".git", "gpuwright", "node")
    for name in ("tests/gpu", "tests/deep", "tests/bench", "tests/node_library", "plugins", "roles/accept", "trainer"):
        shutil.copytree(REPOSITORY / name, copy / name, ignore=ignored)
    for needed in ("library", "roles/preflight/files/matrix"):
        shutil.copytree(REPOSITORY / needed, copy / needed)
    words = [sys.executable, str(copy / "tests/gpu/evidence"), "--out", str(machine.out), "--only", "scan"]
    done = subprocess.run(words, env=machine.environment, capture_output=True, text=True, timeout=PATIENCE)
    assert machine.parts()["scan"]["status"] == "done", (done, machine.parts()["scan"])
    assert machine.results()["commit"] == "unknown"


@pytest.mark.parametrize("there", [True, False])
def test_pillow_s_stand_in_serves_a_python_without_pillow_and_hides_none(tmp_path: Path, there: bool) -> None:
    """This interpreter has no PyTorch; what is asked for here comes before it."""
    if there:
        (tmp_path / "PIL").mkdir()
        (tmp_path / "PIL/__init__.py").write_text("real = True\n")
        (tmp_path / "pillow-13.0.0.dist-info").mkdir()
        (tmp_path / "pillow-13.0.0.dist-info/METADATA").write_text(
            "Metadata-Version: 2.1\nName: pillow\nVersion: 13.0.0\n"
        )
    paths = [REPOSITORY / "tests/gpu/without_pillow", REPOSITORY / "tests/gpu/on_torch", tmp_path]
    code = "import evidence_about as about; about.main(); import PIL; print(hasattr(PIL, 'real'))"
    environment = {"PATH": "/usr/bin:/bin", "PYTHONPATH": os.pathsep.join(map(str, paths))}
    python = [sys.executable, "-S", "-c", code]
    done = subprocess.run(python, env=environment, capture_output=True, text=True, timeout=PATIENCE)
    first, last = done.stdout.splitlines()[0], done.stdout.splitlines()[-1]
    assert last == str(there), done
    assert json.loads(first.removeprefix("RESULT "))["modules"]["PIL"] == ("13.0.0" if there else None)
