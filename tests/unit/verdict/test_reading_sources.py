"""Each UNKNOWN says which file or command could not be read, why, and what to run next."""

from __future__ import annotations

import ast
from pathlib import Path

import gpuwright
import healthy_node
import pytest
from gpuwright.checks.all import CHECKS, READERS, run_checks
from gpuwright.verdict.check import DEEP, UNKNOWN, Check, judge, within
from gpuwright.verdict.commands import pasteable
from gpuwright.verdict.reading_sources import OURS, SOURCES, source_of

WHY = "Input/output error"
READINGS = {**healthy_node.readings(), "smoke": healthy_node.smoke()}
OWN = {f"readings.{reader.name}": reader.source for reader in READERS}


@pytest.mark.parametrize("name", sorted(READINGS))
def test_a_reading_that_fails_names_its_source_and_how_to_look(name):
    readings, smoke = healthy_node.readings(), healthy_node.smoke()
    if name == "smoke":
        smoke = {"unreadable": WHY}
    else:
        readings[name] = {"unreadable": WHY}
    told = run_checks(readings, healthy_node.expectations(), smoke, level=DEEP)
    unknown = [check for check in told if check["status"] == UNKNOWN and f"readings.{name}" in check["message"]]
    source = {**SOURCES, **OWN}[f"readings.{name}"]
    assert source.what and source.look.startswith("Run: ")
    for check in unknown:
        assert WHY in check["message"] and f"(read from {source.what})" in check["message"], check
        assert check["action"] == pasteable(source.look), check


def test_an_expectation_that_fails_is_written_anew_by_a_verification():
    expectations = healthy_node.expectations(gpu_count="many")
    told = run_checks(healthy_node.readings(), expectations, healthy_node.smoke())
    [count] = [check for check in told if check["id"] == "gpu.count"]
    assert count["status"] == UNKNOWN and "/etc/gpuwright/expectations.json" in count["message"]
    assert "site.yml --tags verify" in count["action"]


def test_an_error_of_the_program_is_reported_to_its_maintainers():
    def broken(readings, expected):
        raise KeyError("x")

    made_up = Check(id="a.b", layer="system", level=DEEP, severity="WARN", question="?", judge=broken, action="-")
    assert "gpu-doctor --bundle" in judge(made_up, {}, {"gpu_count": 1})["action"]
    assert source_of("readings.nobody.knows", OWN) == OURS == source_of("", OWN)


def test_the_longest_name_counts():
    assert source_of("readings.fabric_manager_version", {}).look.startswith("Run: nv-fabricmanager --version")
    assert source_of("readings.nvidia_smi.gpus[3].uuid", {}).what == "nvidia-smi -q -x"


def test_a_reading_that_a_check_brings_along_has_one_reader_and_one_source():
    """Two readers of one name, or a source in both places, would let the order decide."""
    named = [reader for check in CHECKS for reader in check.readers]
    assert {reader.name for reader in named} <= {reader.name for reader in READERS}
    assert [reader.name for reader in named if reader not in READERS] == []
    names = [(reader.name, reader.level) for reader in READERS]
    assert len(set(names)) == len(names) and OWN.items() <= SOURCES.items()


def test_every_reading_has_a_reader():
    """Beside the two that all others are given, and what a training leaves; another way would be a second one."""
    assert {*healthy_node.READINGS} <= {reader.name for reader in READERS} | {"probe", "nvidia_smi"}
    assert sorted(SOURCES.keys() - OWN.keys()) == [
        "expectations",
        "readings.nvidia_smi",
        "readings.probe",
        "readings.site_checks",
        "readings.smoke",
    ]


def test_a_reading_is_taken_at_every_level_of_the_checks_that_ask_for_it():
    for check in CHECKS:
        for reader in check.readers:
            assert reader.level in within(check.level), (check.id, reader.name)
            assert reader.source.look.startswith("Run: "), reader.name


def test_every_doubt_of_a_check_names_the_reading():
    """Without a name the program itself would be blamed."""
    folder = Path(next(iter(gpuwright.__path__)))
    for path in folder.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Call) and getattr(node.func, "id", "") == "Unreadable":
                assert len(node.args) == 2, f"{path.name}:{node.lineno}"


def test_nothing_asks_root_to_be_root():
    """What a run of root's prints never ends in "run it with sudo"."""
    broken = {name: {"unreadable": WHY} for name in healthy_node.readings()}
    for readings in (broken, {}, healthy_node.readings()):
        for check in run_checks(readings, healthy_node.expectations(), None, level=DEEP):
            assert "sudo gpu-doctor" not in check["action"] + check["message"], check
            assert bool(check["action"]) == (check["status"] not in ("PASS", "SKIP")), check


def test_every_check_has_an_action_for_what_it_cannot_tell():
    assert [check.id for check in CHECKS if not check.action.strip()] == []
