"""tools/gpu-plan --host FILE: what would fit a machine that was scanned elsewhere."""

from __future__ import annotations

import copy
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import healthy_node
import pytest
from ansible_collections.gpuwright.node.plugins.plugin_utils.plan.scanned import nearest, scanned_host
from conftest import REPOSITORY
from gpu_plan_program import ask
from gpuwright.doctor.scan import examine, scope
from gpuwright.verdict.check import STANDARD
from gpuwright.verdict.report import make_report
from test_plan_questions import MATRIX

ROCKY_88 = {"id": "rocky", "version": "8.8", "major": 8, "family": "redhat", "name": "Rocky Linux 8.8"}
SYSTEMS = {
    "arch": ({"id": "arch", "version": "unknown", "family": "unknown", "name": "Arch Linux"}, "rhel 8.10"),
    "sles": ({"id": "sles", "version": "15.6", "family": "unknown", "name": "SLES 15 SP6"}, "rhel 8.10"),
    "oracle": ({"id": "ol", "version": "8.9", "family": "redhat", "name": "Oracle Linux Server 8.9"}, "rhel 8.10"),
    "ubuntu": ({"id": "ubuntu", "version": "20.04", "family": "debian", "name": "Ubuntu 20.04.6 LTS"}, "ubuntu 24.04"),
    "debian": ({"id": "debian", "version": "11", "family": "debian", "name": "Debian GNU/Linux 11"}, "debian 12"),
    "rocky": ({"id": "rocky", "version": "8.4", "family": "redhat", "name": "Rocky Linux 8.4"}, "rocky 8.10"),
    "nameless": ({"id": "unknown", "version": "unknown", "family": "unknown", "name": "unknown"}, "rhel 8.10"),
}


def report(system: dict[str, Any] = ROCKY_88, **facts: Any) -> dict[str, Any]:
    """What gpu-doctor --scan --json prints of a machine with one V100."""
    readings = healthy_node.readings()
    readings["probe"].update({"os": {"major": None, **system}, "machine": "x86_64", **facts})
    expectations = scope.scan_expectations(readings, "root", "/nowhere")
    records = examine.scan_records(readings, expectations, STANDARD)
    return make_report("a5-01", "2026-01-05T10:00:00Z", records, readings, expectations, None)


def put(folder: Path, record: Any) -> Path:
    file = folder / "scan.json"
    file.write_text(record if isinstance(record, str) else json.dumps(record))
    return file


def test_a_scan_answers_what_would_fit_its_machine(tmp_path):
    file = put(tmp_path, report())
    done = ask("--host", file, "--json")
    assert (done.returncode, done.stderr) == (0, "")
    plan = json.loads(done.stdout)
    assert (plan["driver"]["branch"], plan["cuda"]["version"]) == ("580", "12.9")
    # The driver that is loaded there is the right one, and is kept.
    assert plan["driver"]["present"] is True
    assert ask("--host", "-", "--json", stdin=file.read_text()).stdout == done.stdout
    probe = put(tmp_path, report()["readings"]["probe"])
    assert ask("--host", probe, "--json").stdout == done.stdout
    pinned = json.loads(ask("--host", file, "system_cuda_version=12.6", "--json").stdout)
    assert pinned["cuda"]["version"] == "12.6"


def test_another_system_on_the_same_machine(tmp_path):
    file = put(tmp_path, report(SYSTEMS["arch"][0]))
    done = ask("--host", file, "--os", "rhel 8.10", "--json")
    plan = json.loads(done.stdout)
    assert done.returncode == 0 and plan["driver"]["present"] is False


@pytest.mark.parametrize("name", sorted(SYSTEMS))
def test_what_is_not_installed_is_one_sentence_with_the_nearest(tmp_path, name):
    system, near = SYSTEMS[name]
    file = put(tmp_path, report(system))
    done = ask("--host", file)
    assert (done.returncode, done.stderr) == (1, "")
    [sentence] = done.stdout.splitlines()
    assert sentence.startswith(
        f"{system['name'] if name != 'nameless' else 'unknown unknown'} is not installed by this"
    )
    assert f"--host {file} --os '{near}' tells what would fit" in sentence
    # What it says to type is answered.
    assert ask("--host", file, "--os", near).returncode == 0
    conflicts = json.loads(ask("--host", file, "--json").stdout)["conflicts"]
    assert [conflict["what"] for conflict in conflicts] == [sentence]


def play(*arguments: str) -> subprocess.CompletedProcess:
    command = [str(Path(sys.executable).parent / "ansible-playbook"), "playbooks/plan.yml", *arguments]
    environment = {**os.environ, "ANSIBLE_NOCOLOR": "1", "ANSIBLE_CALLBACK_RESULT_FORMAT": "yaml"}
    return subprocess.run(command, cwd=REPOSITORY, capture_output=True, text=True, env=environment)


@pytest.mark.parametrize(
    ("system", "arguments", "status", "words"),
    [
        (ROCKY_88, [], 0, "Tesla V100-PCIE-16GB on rocky 8.8"),
        (SYSTEMS["arch"][0], ["-e", "os='rhel 8.10'"], 0, "Tesla V100-PCIE-16GB on rhel 8.10"),
        (SYSTEMS["arch"][0], [], 2, "the nearest is RHEL 8.10: ansible-playbook playbooks/plan.yml -e scan="),
    ],
    ids=["a plan", "another system", "not installed"],
)
def test_the_playbook_takes_a_scan_too(tmp_path, system, arguments, status, words):
    file = put(tmp_path, report(system))
    done = play("-e", f"scan={file}", *arguments)
    assert done.returncode == status and words in " ".join(done.stdout.split()), done.stdout + done.stderr


def test_the_playbook_is_told_what_is_wrong_with_a_file(tmp_path):
    done = play("-e", f"scan={put(tmp_path, BAD['cut'])}")
    assert done.returncode == 2 and "scan.json: not JSON" in " ".join(done.stdout.split()), done.stdout


def test_the_nearest_is_of_the_same_family():
    row = nearest(MATRIX["os_releases"], {"id": "linuxmint", "version": "22", "family": "debian"})
    assert row["id"] in ("debian", "ubuntu")


@pytest.mark.parametrize("version", ["9.4", "9.9"])
def test_a_scan_of_a_newer_system_has_a_plan(tmp_path, version):
    done = ask("--host", put(tmp_path, report({**ROCKY_88, "version": version})))
    assert done.returncode == 0 and f"Tesla V100-PCIE-16GB on rocky {version}" in done.stdout
    assert "no host with it was available" in " ".join(done.stdout.split())


def test_cards_are_described_by_the_table_of_today(tmp_path):
    record = report()
    record["readings"]["probe"]["gpus"][0].update(name="unknown", architecture="unknown", compute_capability="")
    gpu = scanned_host(record)["gpus"][0]
    assert (gpu["name"], gpu["architecture"], gpu["compute_capability"]) == ("Tesla V100-PCIE-16GB", "volta", "7.0")


def test_a_machine_without_cards_is_refused_in_the_planners_words(tmp_path):
    done = ask("--host", put(tmp_path, report(gpus=[])))
    assert done.returncode == 1 and "No NVIDIA GPU is on the PCI bus of this host" in done.stdout


def damaged(path: tuple[Any, ...], value: Any) -> dict[str, Any]:
    record = copy.deepcopy(report())
    here = record["readings"]["probe"]
    for key in path[:-1]:
        here = here[key]
    here[path[-1]] = value
    return record


BAD: dict[str, Any] = {
    "empty": "",
    "no JSON": "GPU OK: 17 checks",
    "cut": '{"schema": 1, "host"',
    "list": [],
    "number": 1,
    "other JSON": {"schema": 1},
    "deep": "[" * 100_000,
    "no probe": {"readings": {"probe": {"unreadable": "/proc is not there"}}},
    "no bus": damaged(("gpus",), {"unreadable": scope.NO_PCI}),
    "no cards": damaged(("gpus",), None),
    "text for cards": damaged(("gpus",), ["V100"]),
    "card without id": damaged(("gpus", 0, "device_id"), None),
    "no system": damaged(("os",), None),
    "number for version": damaged(("os", "version"), 8.8),
    "no machine": damaged(("machine",), None),
    "no kernel": damaged(("kernel",), "5.14"),
    "no modules": damaged(("nvidia",), None),
    "bad module": damaged(("nvidia", "loaded"), {"version": 580}),
}


@pytest.mark.parametrize("name", sorted(BAD))
def test_a_bad_file_is_one_clear_error(tmp_path, name):
    file = put(tmp_path, BAD[name])
    done = ask("--host", file)
    assert (done.returncode, done.stdout) == (2, ""), done.stdout
    [line] = done.stderr.splitlines()
    assert line.startswith(f"gpu-plan: {file}: ") and "Traceback" not in line and len(line) < 400
    assert "gpu-doctor --scan --json" in line or name == "no bus"


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ([], "expected either cards or --host FILE"),
        (["V100", "--host", "x"], "expected either cards or --host FILE"),
        (["--host", "/nowhere/scan.json"], "/nowhere/scan.json: No such file or directory"),
        (["--host", "/tmp"], "/tmp: Is a directory"),
    ],
)
def test_what_cannot_be_asked(arguments, words):
    done = ask(*arguments)
    assert done.returncode == 2 and words in done.stderr and done.stdout == ""


@pytest.mark.parametrize("platform", ["HGX", {"needs": "all"}, {"needs": ["a turbine"], "known": True}, {"needs": []}])
def test_a_board_that_no_scan_writes_is_refused(platform):
    with pytest.raises(ValueError, match="platform is"):
        scanned_host(report(platform=platform))


def test_the_board_of_a_scanned_machine_is_planned_for():
    board = {"id": "hgx-h100", "name": "HGX or DGX H100", "needs": ["fabric_manager"], "known": True, "because": ""}
    assert scanned_host(report(platform=board))["platform"] == board
    # A scan of a release that did not look.
    older = report()
    del older["readings"]["probe"]["platform"]
    assert "platform" not in scanned_host(older)


@pytest.mark.parametrize(
    ("part", "key", "damaged", "words"),
    [
        ("kernel", "installed", 3, "kernel is damaged at installed: 3; expected a list"),
        ("kernel", "installed", [10**399], r"kernel is damaged at installed\[0\]: 1000+\.\.; expected text"),
        ("kernel", "owners", "x", "kernel is damaged at owners"),
        ("kernel", "owners", {"4.18": {}}, "kernel is damaged at owners.4.18"),
        ("kernel", "metapackages", [{"name": "x"}], r"kernel is damaged at metapackages\[0\]"),
        ("kernel", "build", 10**399, "kernel is damaged at build: 1000"),
        ("nvidia", "user_space", 580, "nvidia is damaged at user_space: 580; expected"),
    ],
)
def test_a_part_of_another_form_is_said(part: str, key: str, damaged: Any, words: str) -> None:
    probe = copy.deepcopy(report()["readings"]["probe"])
    probe[part][key] = damaged
    with pytest.raises(ValueError, match=f"^scan.json: {words}.*; expected what gpu-doctor --scan"):
        scanned_host(probe, "scan.json")
