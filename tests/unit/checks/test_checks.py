"""The registry: no check fails open, whatever happens to the readings that it looks at."""

from __future__ import annotations

from typing import Any

import healthy_node
import pytest
from gpuwright.checks import all as checks
from gpuwright.checks.all import CHECKS, run_checks
from gpuwright.verdict import check as verdict
from gpuwright.verdict.check import (
    DEEP,
    DRAIN,
    FAIL,
    LEVELS,
    PASS,
    QUICK,
    REMEDIES,
    SKIP,
    UNKNOWN,
    WARN,
    Check,
    Judge,
    judge,
    worst,
)
from gpuwright.verdict.evidence import Evidence, Unreadable
from hypothesis import example, given, settings
from hypothesis import strategies as st

# What tools, broken files and other programs put where a value was expected.
NO_VALUES = [{"unreadable": "no permission"}, None, {}, "unknown", "[N/A]", "ERR!", "", "   ", -1, 3.5, ["x"]]
BY_ID = {check.id: check for check in CHECKS}


def node(check_id: str = "") -> dict[str, dict]:
    return {
        "readings": {**healthy_node.readings(check_id), "smoke": healthy_node.elsewhere(check_id, "smoke")},
        "expectations": healthy_node.elsewhere(check_id, "expectations"),
    }


def made_up(judge_it: Judge) -> Check:
    return Check("a.b", "system", "Why?", "The check's action.", judge_it, QUICK, FAIL, DRAIN)


def value_at(record: Any, path: tuple) -> Any:
    for key in path:
        record = record[key]
    return record


@pytest.fixture(scope="module")
def looked_at() -> dict[str, set[str]]:
    """For each check the readings and expectations that it asks for on a healthy node."""
    original = Evidence.at
    found: dict[str, set[str]] = {}
    for check in CHECKS:
        names = found.setdefault(check.id, set())

        def spy(self, *path, names=names):
            here = original(self, *path)
            names.update(f"{self.name}.{'.'.join(path[: count + 1])}" for count in range(len(path)))
            return here

        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(Evidence, "at", spy)
            healthy = node(check.id)
            assert judge(check, healthy["readings"], healthy["expectations"])["status"] == PASS, (
                f"{check.id} does not pass on the healthy node: what it is for stands in OTHER_NODES of its family"
            )
    return found


def dotted(root: str, path: tuple) -> str:
    return root + "".join(f"[{key}]" if isinstance(key, int) else f".{key}" for key in path)


def test_a_healthy_node_passes_every_check():
    records = run_checks(healthy_node.readings(), healthy_node.expectations(), healthy_node.smoke(), level=DEEP)
    skipped = [record["id"] for record in records if record["status"] == SKIP]
    assert sorted(skipped) == sorted(healthy_node.OTHER_NODES), "OTHER_NODES of healthy_<family>.py says for which node"
    assert [(r["id"], r["message"]) for r in records if r["status"] not in (PASS, SKIP)] == []
    assert worst([record["status"] for record in records]) == PASS
    for record in records:
        keys = {"id", "layer", "status", "code", "items", "value", "expected", "unit", "message", "action", "remedy"}
        assert set(record) == keys and (record["code"] == "ok" or record["status"] == SKIP) and not record["items"]
        assert record["message"] and not record["action"] and not record["remedy"], record


def test_ids_are_unique_and_every_check_is_documented():
    assert len(BY_ID) == len(CHECKS)
    for check in CHECKS:
        assert check.layer in ("system", "framework", "model")
        assert check.question.endswith("?")
        assert check.action and check.judge.__doc__
        assert check.level in LEVELS and check.severity in (FAIL, WARN), check.id


def test_every_check_runs_at_the_level_of_its_own_row():
    """Whatever file it stands in: a level that is overridden elsewhere is one that nobody can look up."""
    rows = [check for module in checks.MODULES for check in module.CHECKS]
    assert [(row.id, row.level) for row in rows] == [(check.id, check.level) for check in CHECKS]


def test_every_fail_names_its_remedy():
    for check in CHECKS:
        assert check.remedy in (REMEDIES if check.severity == FAIL else ("",)), check.id


def test_what_tells_a_lost_gpu_or_a_missing_driver_cannot_be_waived():
    firm = {check.id for check in CHECKS if not check.waivable}
    assert firm >= {"gpu.count", "gpu.bound_driver", "driver.reachable", "driver.version", "kernel.gpu_lost"}
    assert not any(name.startswith(("kernel.", "host.", "performance.")) for name in firm - {"kernel.gpu_lost"})


@pytest.mark.parametrize("check_id", BY_ID)
@pytest.mark.parametrize("part", ["readings", "expectations"])
def test_no_value_that_cannot_be_read_passes(check_id, part, looked_at):
    """Replace every value that the check looks at, one at a time, by everything that is no value."""
    for path in healthy_node.leaves(node(check_id)[part]):
        if dotted(part, path) not in looked_at[check_id]:
            continue
        for no_value in NO_VALUES:
            broken = node(check_id)
            before = value_at(broken[part], path)
            # In a plan an empty text is a decision: this is not installed.
            decided = part == "expectations" and no_value == ""
            # Where a fraction was read, another one is a value.
            decided = decided or isinstance(before, float) and isinstance(no_value, float)
            # Null is a word of the contract: this node is not tuned, so what it came with is right.
            untuned = path == ("tuning",) and no_value is None
            decided = decided or untuned and check_id in ("gpu.power_limit", "gpu.clocks", "host.cpu_governor")
            # Null is "this driver does not say": then the card is held to all of its memory.
            decided = decided or path[-1] == "virtualization" and no_value is None
            if decided or before == no_value or isinstance(before, list) and isinstance(no_value, list):
                continue
            healthy_node.put(broken[part], path, no_value)
            result = judge(BY_ID[check_id], broken["readings"], broken["expectations"])
            assert result["status"] != PASS, (path, no_value, result)
            assert result["message"], (path, no_value)
            assert result["action"] or result["status"] == SKIP, (path, no_value)


def test_every_check_looks_at_something(looked_at):
    for check_id, names in looked_at.items():
        assert [name for name in names if name.startswith("readings.")], check_id


@pytest.mark.parametrize("check_id", BY_ID)
def test_a_reading_that_was_never_made_does_not_pass(check_id, looked_at):
    for path in healthy_node.leaves(node(check_id)["readings"]):
        if dotted("readings", path) not in looked_at[check_id]:
            continue
        record = node(check_id)["readings"]
        del value_at(record, path[:-1])[path[-1]]
        assert judge(BY_ID[check_id], record, node(check_id)["expectations"])["status"] != PASS, path


@pytest.mark.parametrize("check_id", BY_ID)
@pytest.mark.parametrize("readings", [{}, None, [], "nothing", {"unreadable": "no"}])
def test_nothing_at_all_is_unknown(check_id, readings):
    assert judge(BY_ID[check_id], readings, node(check_id)["expectations"])["status"] == UNKNOWN


# Texts that a check shows and does not judge by, or one of several that may all be right.
SHOWN_ONLY = (
    "folder",
    "mount",
    "sandbox_because",
    "amp_dtype",
    "allocator.why",
    "groups[0]",
    "architectures[1]",
    "architectures[2]",
    "architectures[3]",
    "architectures[4]",
)

SHOWN_IN = (
    ("gpu.vbios", "name"),
    ("gpu.nvlink", "name"),
    ("gpu.dcgm_diag", "name"),
    ("gpu.dcgm_diag", "words"),
    ("host.infiniband", "name"),
    ("host.infiniband", "rate"),
    ("host.disks", "name"),
    ("runtime.ranks", "name"),
    ("smoke.compile", "what"),
    ("smoke.compile", "words"),
    ("driver.packages", "name"),
    ("driver.source", "name"),
    # Its number is what is compared.
    ("driver.module_signer", "signer"),
    ("driver.module_signer", "name"),
    # Equal in all devices is what counts.
    ("performance.spread", "name"),
    ("gpu.bar1", "name"),
    ("gpu.link_width", "name"),
    # Only a word for a part of a card makes less memory lawful.
    ("gpu.memory_size", "virtualization"),
)


@pytest.mark.parametrize("check_id", BY_ID)
def test_a_word_that_nobody_knows_does_not_pass(check_id, looked_at):
    healthy = node(check_id)["readings"]
    for path in healthy_node.leaves(healthy):
        name = dotted("readings", path)
        shown_only = (
            (check_id, path[-1]) in SHOWN_IN
            or not isinstance(value_at(healthy, path), str)
            or name.endswith(SHOWN_ONLY)
        )
        if name not in looked_at[check_id] or shown_only:
            continue
        readings = node(check_id)["readings"]
        healthy_node.put(readings, path, "banana!")
        assert judge(BY_ID[check_id], readings, node(check_id)["expectations"])["status"] != PASS, path


@pytest.mark.parametrize(
    ("statuses", "expected"),
    [
        ([], UNKNOWN),
        ([SKIP], UNKNOWN),
        ([SKIP, SKIP, PASS], PASS),
        ([PASS, WARN], WARN),
        ([PASS, WARN, UNKNOWN], UNKNOWN),
        ([PASS, WARN, UNKNOWN, FAIL], FAIL),
        ([FAIL, PASS], FAIL),
        ([PASS, "pass"], UNKNOWN),
        ([PASS, None], UNKNOWN),
        ([PASS], PASS),
    ],
)
def test_verdict_is_the_worst_that_counts(statuses, expected):
    assert worst(statuses) == expected


def test_a_check_that_breaks_is_unknown():
    def broken(readings, expected):
        raise ZeroDivisionError("oops")

    record = judge(made_up(broken), {}, {"gpu_count": 1})
    assert record["status"] == UNKNOWN
    assert "ZeroDivisionError: oops" in record["message"]


def test_without_a_smoke_test_its_check_is_unknown():
    records = run_checks(healthy_node.readings(), healthy_node.expectations(), None)
    unknown = {r["id"]: r["message"] for r in records if r["status"] == UNKNOWN}
    assert set(unknown) == {"smoke.amp", "smoke.speed_ratio", "smoke.compile", "smoke.sandbox", "model.limits"}
    assert all("no smoke test was run" in message for message in unknown.values())


def test_a_node_without_gpus_skips_what_needs_one_and_says_so():
    readings = healthy_node.readings()
    readings["probe"]["gpus"] = []
    readings["nvidia_smi"] = {"reachable": False, "status": "not_installed", "message": "not installed", "action": ""}
    records = {r["id"]: r for r in run_checks(readings, healthy_node.expectations(gpu_count=0), healthy_node.smoke())}
    assert records["gpu.count"]["status"] == PASS
    assert records["driver.reachable"]["status"] == SKIP
    assert records["driver.reachable"]["message"] == "the inventory expects no GPU on this node"
    assert not [r for r in records.values() if r["status"] == SKIP and not r["message"]]


@pytest.mark.parametrize(
    ("method", "value"),
    [
        ("text", 5),
        ("text", "N/A"),
        ("text", "[Unknown Error]"),
        ("text", "[GPU requires reset]"),
        ("version", "580.x"),
        ("version", "580."),
        ("pci_id", "3b:00.0"),
        ("number", True),
        ("number", "5"),
        ("number", -1),
        ("flag", 1),
        ("flag", "true"),
        ("each", {}),
        ("names", []),
        ("wish", None),
    ],
)
def test_evidence_refuses_what_is_not_what_was_asked_for(method, value):
    with pytest.raises(Unreadable) as error:
        getattr(Evidence({"a": value}, "readings"), method)("a")
    assert "readings.a" in str(error.value)


def test_an_unreadable_record_keeps_its_reason_at_any_depth():
    evidence = Evidence({"probe": {"unreadable": "disk on fire"}}, "readings")
    for path in (("probe",), ("probe", "gpus"), ("probe", "a", "b")):
        with pytest.raises(Unreadable, match="disk on fire"):
            evidence.flag(*path)
    assert Evidence({"a": {"unreadable": "x"}}, "r").absent("a") is False


@pytest.mark.parametrize(
    ("outcome", "action"),
    [
        (verdict.passed(1, 1, "fine"), ""),
        (verdict.skipped("x", "no need"), ""),
        (verdict.failed("x", 1, 2, "bad"), "The check's action."),
        (verdict.failed("x", 1, 2, "bad", "its own"), "its own"),
        (verdict.warned("x", 1, 2, "odd", "its own"), "its own"),
        (verdict.unknown("x", "why"), "The check's action."),
        (verdict.unknown("x", "why", action="its own"), "its own"),
    ],
)
def test_the_finding_names_the_action_before_the_check_does(outcome, action):
    check = made_up(lambda readings, expected: outcome)
    assert judge(check, {}, {"gpu_count": 1})["action"] == action


JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-2, 3) | st.floats(allow_nan=False) | st.text(max_size=6),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=6), inner, max_size=3),
    max_leaves=8,
)
PATHS = healthy_node.leaves(node()["readings"])


@settings(max_examples=300, deadline=None)
@given(st.lists(st.tuples(st.sampled_from(PATHS), JSON), min_size=1, max_size=4))
@example([(("smoke", "limits", "memlock"), ":")])
@example([(("nvidia_smi", "gpus", 0), None)])
def test_values_of_any_shape_break_no_check(changes):
    record = node()["readings"]
    for path, value in changes:
        try:
            healthy_node.put(record, path, value)
        except (KeyError, IndexError, TypeError):
            continue
    smoke = record.pop("smoke")
    smoke = smoke if isinstance(smoke, dict) else {"unreadable": "no record"}
    for found in run_checks(record, healthy_node.expectations(), smoke, level=DEEP):
        assert found["status"] in ("PASS", "WARN", "FAIL", "SKIP", "UNKNOWN")
        assert isinstance(found["message"], str) and found["message"]
        assert "this check ended with an error" not in found["message"], found
