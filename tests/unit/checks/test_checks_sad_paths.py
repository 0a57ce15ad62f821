"""Every check can fail: one broken node per row, with the status, the words and the code that it must end in."""

from __future__ import annotations

import functools
import importlib
import re
from pathlib import Path

import healthy_node
import kernel_log_rows
import pytest
from gpuwright.checks.all import CHECKS, run_checks
from gpuwright.checks.framework.pytorch import runs_on
from gpuwright.checks.gpu import memory as checks_memory
from gpuwright.checks.waivers.acknowledgements import cards_in
from gpuwright.verdict.check import DEEP, FAIL, PASS, SKIP, WARN

# Each file of rows beside or below this one; those of action_rows are of another form. A family with few rows has them
# beside its healthy values.
FILES = sorted(path.stem for path in Path(__file__).parent.rglob("*_rows.py") if path.stem != "action_rows")
CASES = [row for name in FILES for row in importlib.import_module(name).ROWS]
CASES += [row for part in healthy_node.PARTS for row in getattr(part, "ROWS", [])]
CODE = re.compile(r"[a-z0-9]+(?:-[a-z0-9]+)*")
CODES = Path(__file__).parent / "codes.txt"


@pytest.mark.parametrize("number", range(len(CASES)), ids=[f"{row[0]}-{row[3]}" for row in CASES])
def test_broken_node(number):
    _check, _changes, _asked, status, words = CASES[number]
    found = judged_case(number)
    assert (found["status"], words in found["message"]) == (status, True), found
    assert bool(found["action"]) == (status not in (PASS, SKIP)), found
    # Each outcome has a code that programs may ask, and names what it is about: nobody needs to read its words.
    assert CODE.fullmatch(found["code"]), found
    assert all(isinstance(item, str) and item for item in found["items"]), found
    if status in (FAIL, WARN) and found["id"].startswith(("gpu.", "driver.", "kernel.")):
        named = {card for item in found["items"] for card in cards_in(item)}
        assert set(cards_in(found["message"])) <= named, found


def test_no_code_is_renamed():
    """codes.txt has those that the rows of the checks end in: programs rely on them. A new one is added to it."""
    known = dict(line.split(": ") for line in CODES.read_text(encoding="utf-8").splitlines())
    seen: dict[str, set[str]] = {}
    for number, row in enumerate(CASES):
        seen.setdefault(row[0], set()).add(judged_case(number)["code"])
    assert {name: " ".join(sorted(codes)) for name, codes in seen.items()} == known


@functools.cache
def judged_case(number: int) -> dict:
    """The record of a row, which is judged once for all tests here."""
    return judged_row(*CASES[number][:3])


def judged_row(check_id: str, changes: dict, asked: dict) -> dict:
    """The record of this one check on the healthy node after these changes."""
    record = {**healthy_node.readings(), "smoke": healthy_node.smoke()}
    for path, value in changes.items():
        healthy_node.put(record, path, value)
    expectations = healthy_node.expectations()
    for name, value in asked.items():
        target = expectations["plan"] if "." in name else expectations
        healthy_node.put(target, tuple(name.split(".")), value)
    smoke = record.pop("smoke")
    one = [check for check in CHECKS if check.id == check_id]
    return run_checks(record, expectations, smoke, one, level=DEEP)[0]


def of(check_id: str, smoke: dict) -> dict:
    """The record of one check on the healthy node after this smoke test."""
    records = run_checks(healthy_node.readings(), healthy_node.expectations(), smoke)
    return next(record for record in records if record["id"] == check_id)


def test_every_check_has_a_row_in_which_it_is_bad():
    bad = {check_id for check_id, _changes, _asked, status, _words in CASES if status in (FAIL, WARN)}
    assert bad == {check.id for check in CHECKS}


def test_the_severity_of_a_check_is_the_worst_that_it_ends_in():
    worst = {check.id: WARN for check in CHECKS}
    worst.update({check_id: FAIL for check_id, _changes, _asked, status, _words in CASES if status == FAIL})
    assert worst == {check.id: check.severity for check in CHECKS}


@pytest.mark.parametrize(
    ("built_for", "capability", "expected"),
    [
        (["sm_70"], "7.0", True),
        (["sm_70"], "7.5", True),
        (["sm_75"], "7.0", False),
        (["sm_70"], "8.0", False),
        (["sm_80"], "8.6", True),
        (["sm_86"], "8.0", False),
        (["compute_70"], "9.0", True),
        (["compute_90"], "8.6", False),
        (["sm_90a"], "9.0", True),
        (["sm_100a"], "10.3", False),
        (["sm_120"], "12.0", True),
        (["sm_100"], "12.0", False),
        (["sm_7", "sm_", "banana"], "7.0", False),
        ([], "7.0", False),
    ],
)
def test_code_runs_on_the_card(built_for, capability, expected):
    assert runs_on(built_for, capability) is expected


def test_without_a_named_model_one_model_is_expected():
    readings = healthy_node.readings()
    readings["probe"]["gpus"] = [{"name": "Tesla T4"}, {"name": "Tesla V100-PCIE-16GB"}]
    found = {r["id"]: r for r in run_checks(readings, healthy_node.expectations(gpu_model=""))}["gpu.model"]
    assert (found["value"], found["expected"]) == ("Tesla T4, Tesla V100-PCIE-16GB", "one model")


@pytest.mark.parametrize(
    ("seconds", "words"),
    [
        (0, "0 seconds ago"),
        (119, "119 seconds ago"),
        (120, "2 minutes ago"),
        (7199, "119 minutes ago"),
        (7200, "2 hours ago"),
        (172799, "47 hours ago"),
        (172800, "2 days ago"),
    ],
)
def test_the_age_of_a_smoke_test(seconds, words):
    smoke = {**healthy_node.smoke(), "age_s": seconds}
    found = of("smoke.amp", smoke)
    assert found["message"] == f"trained on cuda:0 in float32 and float16, {words}"


@pytest.mark.parametrize("check_id", ["gpu.throttle", "gpu.graphics", "gpu.fabric_summary"])
def test_nothing_found_is_told_as_none(check_id):
    found = {r["id"]: r for r in run_checks(healthy_node.readings(check_id), healthy_node.expectations())}[check_id]
    assert found["value"] == "none"


def test_as_many_names_as_fit_are_all():
    readings = healthy_node.readings("host.held_updates")
    updates = [{"package": f"p{number}", "advisory": "a"} for number in range(4)]
    healthy_node.put(readings, ("held_updates", "updates"), updates)
    found = {r["id"]: r for r in run_checks(readings, healthy_node.expectations())}["host.held_updates"]
    assert found["message"] == "held back: p0: a, p1: a, p2: a, p3: a"


def test_as_many_problems_and_files_as_fit_are_all():
    [(path, asked)] = healthy_node.OTHER_NODES["host.repositories"].items()
    [(_path, kept)] = healthy_node.OTHER_NODES["host.repository_files"].items()
    problem = {"place": "/etc/a.repo:1", "what": "gpgcheck", "found": "0", "wanted": "1"}
    readings = healthy_node.readings("host.repositories")
    healthy_node.put(readings, path, {**asked, "problems": [problem] * 3})
    found = {r["id"]: r for r in run_checks(readings, healthy_node.expectations())}["host.repositories"]
    assert found["message"].count("gpgcheck is 0, not 1") == 3 and "more" not in found["message"]
    readings = healthy_node.readings("host.repository_files")
    healthy_node.put(readings, _path, {**kept, "now": {f"/etc/{name}.repo": "1" for name in "abc"}, "then": {}})
    found = {r["id"]: r for r in run_checks(readings, healthy_node.expectations())}["host.repository_files"]
    assert found["message"].endswith("/etc/a.repo, /etc/b.repo, /etc/c.repo")


@pytest.mark.parametrize(("stated", "expected"), [(0, "all"), (16, 16)])
def test_lanes_are_expected_as_the_inventory_states_them(stated, expected):
    records = run_checks(healthy_node.readings(), healthy_node.expectations(link_width=stated))
    assert {r["id"]: r for r in records}["gpu.link_width"]["expected"] == expected


def test_expectations_of_an_older_release_state_nothing_of_lanes_and_slowdowns():
    expectations = healthy_node.expectations()
    del expectations["link_width"], expectations["slowdowns"]
    records = {r["id"]: r["status"] for r in run_checks(healthy_node.readings(), expectations)}
    assert {records[f"gpu.{name}"] for name in ("link_width", "throttle", "throttle_history")} == {PASS}


@pytest.mark.parametrize(
    ("size", "made_with", "status"),
    [
        (14745, 16384, FAIL),
        (14746, 16384, PASS),
        (16384, 16384, PASS),
        (900, 1000, PASS),
        (1, None, PASS),
        (0, None, FAIL),
    ],
)
def test_memory_is_held_against_what_the_model_was_made_with(monkeypatch, size, made_with, status):
    monkeypatch.setattr(checks_memory, "expected_memory_mib", lambda gpu: made_with)
    readings = healthy_node.readings()
    readings["nvidia_smi"]["gpus"][0]["memory_total_mib"] = size
    found = {r["id"]: r for r in run_checks(readings, healthy_node.expectations())}["gpu.memory_size"]
    assert found["status"] == status
    assert (f"of {made_with}" in found["message"]) == (status == FAIL and bool(made_with))


def test_one_xid_stands_alone():
    readings = healthy_node.readings()
    readings["kernel_log"]["xids"] = [kernel_log_rows.event(79, kernel_log_rows.XID_79)]
    found = {r["id"]: r for r in run_checks(readings, healthy_node.expectations())}["kernel.xid"]
    assert (
        found["message"].endswith("off the bus.; event kernel.xid:79@0000:3b:00)") and "off and on" in found["action"]
    )
    readings["kernel_log"]["xids"] = [kernel_log_rows.event(46)]
    found = {r["id"]: r for r in run_checks(readings, healthy_node.expectations())}["kernel.xid"]
    assert "--gpu-reset -i 0000:3b:00.0 " in found["action"]
    readings["kernel_log"]["xids"] = [kernel_log_rows.event(46, pci_id="unnamed")]
    found = {r["id"]: r for r in run_checks(readings, healthy_node.expectations())}["kernel.xid"]
    assert "--gpu-reset ; drivers" in found["action"] and "unnamed" not in found["action"]


def test_one_problem_stands_alone():
    smoke = {**healthy_node.smoke(), "problems": ["cuda:0 amp: a loss was not finite"]}
    found = of("smoke.amp", smoke)
    assert found["message"] == "cuda:0 amp: a loss was not finite"
