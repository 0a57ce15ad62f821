"""The pure parts of a rollout: what may be asked for, batches, and whether the next one may begin."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from ansible_collections.gpuwright.node.plugins.plugin_utils.rollout import batches, digest, judge, settings, table
from ansible_collections.gpuwright.node.plugins.plugin_utils.variables.rules import variable_problems
from hypothesis import given
from hypothesis import strategies as st

ENTRIES = st.lists(
    st.one_of(st.integers(1, 50), st.integers(1, 100).map(lambda percent: f"{percent}%")), min_size=1, max_size=5
)


@pytest.mark.parametrize(
    ("count", "entries", "most", "expected"),
    [
        (20, (1, "10%", "50%", "100%"), 0, [1, 2, 10, 7]),
        (5, (1, "10%", "50%", "100%"), 0, [1, 1, 2, 1]),
        (1, (1, "10%", "50%", "100%"), 0, [1]),
        (0, (1,), 0, []),
        (7, (2,), 0, [2, 2, 2, 1]),
        (10, (1, "100%"), 4, [1, 4, 4, 1]),
        (10, (5,), 1, [1] * 10),
    ],
)
def test_sizes_of_batches(count: int, entries: tuple, most: int, expected: list[int]) -> None:
    assert batches.sizes(count, entries, most) == expected


@given(st.integers(0, 300), ENTRIES, st.integers(0, 40))
def test_every_host_has_one_batch_and_none_is_too_large(count: int, entries: list, most: int) -> None:
    found = batches.sizes(count, entries, most)
    assert sum(found) == count and all(size >= 1 for size in found)
    assert not most or max(found, default=0) <= most
    hosts = [f"n{number}" for number in range(count)]
    assert [host for batch in batches.split(hosts, found) for host in batch] == hosts


@pytest.mark.parametrize(
    ("extra", "words"),
    [
        ({"gpuwright_batches": []}, "gpuwright_batches is empty, expected a list of whole numbers of 1 or more"),
        ({"gpuwright_batches": [0]}, "gpuwright_batches has 0, expected"),
        ({"gpuwright_batches": [1, "0%"]}, "has '0%'"),
        ({"gpuwright_batches": [1, "101%"]}, "has '101%'"),
        ({"gpuwright_batches": [1, "ten"]}, "has 'ten'"),
        ({"gpuwright_batches": [True]}, "has True"),
        ({"gpuwright_batches": [1.5]}, "has 1.5"),
        ({"gpuwright_batches": "1,10%"}, "has '1,10%'"),
        ({"gpuwright_down_at_once": -1}, "gpuwright_down_at_once is -1, expected a whole number of 0 or more (hosts)"),
        ({"gpuwright_breaker_percent": "101"}, "is '101', expected a whole number from 0 to 100 (percent)"),
        ({"gpuwright_step_timeout": 0}, "gpuwright_step_timeout is 0, expected a whole number of 1 or more (s)"),
        ({"gpuwright_rollout": "../x"}, "gpuwright_rollout is '../x', expected a name"),
        ({"gpuwright_rollout_again": "maybe"}, "is 'maybe', expected true or false"),
        ({"gpuwright_batchs": [1]}, "unknown variable gpuwright_batchs, did you mean gpuwright_batches?"),
    ],
)
def test_one_clear_error_for_each_wrong_value(extra: dict[str, Any], words: str) -> None:
    (found,) = settings.problems(extra, [], [])
    assert words in found and found.endswith("]") and "[rollout." in found


def test_a_variable_of_the_run_has_no_place_in_the_inventory() -> None:
    hosts: dict[str, dict[str, Any]]
    hosts = {"a": {"gpuwright_batches": [1], "gpuwright_busy": "wait"}, "b": {"gpuwright_down_at_once": 1}}
    found = settings.misplaced({"gpuwright_down_at_once": 1}, hosts)
    assert [line.split()[0] for line in found] == ["gpuwright_batches"] and found[0].endswith("[rollout.variable]")


def test_preflight_knows_the_variables_of_a_rollout() -> None:
    specs = {"system_busy": {"gpuwright_busy": {"type": "str"}}}
    assert variable_problems(dict.fromkeys(settings.KNOWN, 1), specs) == []


@pytest.mark.parametrize(
    ("run", "skip", "wrong"),
    [
        ((), (), False),
        (("all",), (), False),
        (("framework", "verify"), (), False),
        (("system",), (), True),
        (("all",), ("verify",), True),
        (("all",), ("model",), False),
    ],
)
def test_a_rollout_that_verifies_nothing_is_refused(run: tuple, skip: tuple, wrong: bool) -> None:
    found = settings.problems({}, run, skip)
    assert bool(found) == wrong and all(line.endswith("[rollout.tags]") for line in found)


def test_what_the_command_line_gives_as_text_is_read_as_numbers() -> None:
    asked = settings.settings(
        {"gpuwright_batches": ["2", "50%"], "gpuwright_down_at_once": "3", "gpuwright_rollout_again": "yes"}
    )
    assert asked == settings.Settings(batches=(2, "50%"), down=3, again=True)
    assert settings.settings({}) == settings.Settings("default", (1, "10%", "50%", "100%"), 0, 10, False)


def record(states: dict[str, list[str]], kept: int = 0, down: int = 0, percent: int = 10) -> dict[str, Any]:
    """A record of batches: the states of their hosts, which are named by batch and place."""
    hosts = {
        f"{name}-{place}": {"state": state, "batch": number, "start": 2, "plan": "", "since": "", "why": ""}
        for number, (name, those) in enumerate(states.items(), 1)
        for place, state in enumerate(those)
    }
    made = [[f"{name}-{place}" for place in range(len(those))] for name, those in states.items()]
    rules = {"batches": [1], "down_at_once": down, "breaker_percent": percent}
    return {"hosts": hosts, "starts": 2, "kept": kept, "rules": rules, "batches": made}


P, B, D, S, F, L = judge.PENDING, judge.BEGUN, judge.DONE, judge.SKIPPED, judge.FAILED, judge.LOST


@pytest.mark.parametrize("bad", [B, F, L])
def test_a_canary_that_is_not_done_stops_whatever_the_breaker_allows(bad: str) -> None:
    """`begun` is what a lost host is where no callback has seen it, or the controller has died."""
    found = judge.decide(record({"a": [D] * 20 + [bad], "b": [P]}, percent=100), ["b-0"])
    assert found.go == () and found.stop.startswith("a-20 of the first batch") and "[rollout.canary]" in found.stop


def test_a_skipped_canary_makes_the_next_batch_the_canaries() -> None:
    assert judge.decide(record({"a": [S], "b": [P, P, P]}), ["b-0", "b-1", "b-2"]).go == ("b-0",)
    assert "[rollout.canary]" in judge.decide(record({"a": [S], "b": [L, D], "c": [P]}, percent=100), ["c-0"]).stop
    assert judge.decide(record({"a": [S], "b": [D], "c": [P, P]}), ["c-0", "c-1"]).go == ("c-0", "c-1")
    # What an earlier start has done has proven this plan.
    assert judge.decide(record({"a": [S], "b": [P, P]}, kept=1), ["b-0", "b-1"]).go == ("b-0", "b-1")


@pytest.mark.parametrize(("bad", "stops"), [(1, False), (2, True)])
def test_the_breaker_counts_all_that_were_tried(bad: int, stops: bool) -> None:
    made = record({"a": [D], "b": [D] * (18 - bad) + [F] * bad, "c": [P]})
    found = judge.decide(made, ["c-0"])
    assert ("[rollout.breaker]" in found.stop) == stops and (found.go == ("c-0",)) != stops
    if stops:
        assert found.stop.startswith("2 of 19 hosts tried did not come through, more than the 10 %")


def test_skipped_hosts_do_not_count_for_the_breaker() -> None:
    assert not judge.decide(record({"a": [D], "b": [S, S, S], "c": [P]}, percent=0), ["c-0"]).stop


def test_no_more_hosts_begin_than_may_be_down() -> None:
    made = record({"a": [D], "b": [D] * 8 + [F], "c": [P, P, P]}, down=3)
    assert judge.decide(made, ["c-0", "c-1", "c-2"]).go == ("c-0", "c-1")
    stopped = judge.decide(record({"a": [D], "b": [D] * 8 + [F], "c": [P]}, down=1), ["c-0"])
    assert stopped.go == () and stopped.stop.endswith("[rollout.down]") and "(b-8)" in stopped.stop


def test_what_an_earlier_start_lost_is_down_but_closes_nothing() -> None:
    made = record({"a": [P], "b": [L]}, down=1)
    made["hosts"]["b-0"]["start"] = 1
    assert "[rollout.down]" in judge.decide(made, ["a-0"]).stop
    made["rules"]["down_at_once"] = 2
    assert judge.decide(made, ["a-0"]).go == ("a-0",)


def test_a_plan_is_another_one_with_other_variables_or_roles() -> None:
    own = {"system_driver_branch": "580", "other": 1, "system_driver_repository_password": "x"}
    before = digest.plan_digest(own, ["system_driver"], "roles")
    assert before == digest.plan_digest({**own, "other": 2}, ["system_driver"], "roles")
    assert before == digest.plan_digest({**own, "system_driver_repository_password": "y"}, ["system_driver"], "roles")
    assert before != digest.plan_digest({**own, "system_driver_branch": "570"}, ["system_driver"], "roles")
    assert before != digest.plan_digest(own, ["system_driver"], "other roles")


def test_the_batches_are_announced_within_the_width() -> None:
    rules = {"down_at_once": 5, "breaker_percent": 10}
    lines = table.announcement("driver", [["a5-01"], ["a5-02", "a5-03", "a5-04"]], ["a5-09"], rules, 80)
    text = "\n".join(lines)
    assert max(map(len, lines)) <= 80
    assert 'Rollout "driver": 4 hosts in 2 batches' in text and "at most 5 hosts are" in text
    assert "batch 2   3 hosts    a5-02..a5-04" in text and "Done already with the same plan: a5-09." in text
    (nothing,) = table.announcement("driver", [], ["a5-09"], rules, 80)
    assert nothing.endswith("every selected host is done already with the same plan: a5-09.")


def test_the_last_table_has_every_host_once_and_each_reason_once() -> None:
    made = record({"a": [D, D], "b": [F, L, S, B], "c": [P, P]}) | {"rollout": "driver", "stopped": "too many [x.y]"}
    for name, why in {"b-0": "verify: b-0 is wrong", "b-1": "no route", "b-2": "busy: alice"}.items():
        made["hosts"][name]["why"] = why
    text = "\n".join(table.end(made, 80))
    groups = {"done": "2  a-0, a-1", "failed": "1  b-0", "lost": "1  b-1", "unfinished": "1  b-3", "skipped": "1  b-2"}
    rows = [f"  {word:<11}    {hosts}" for word, hosts in {**groups, "not reached": "2  c-0, c-1"}.items()]
    for line in (*rows, "b-0: verify: b-0 is wrong", "b-2: busy: alice", "Stopped: too many [x.y]"):
        assert text.count(line) == 1, (line, text)


def test_a_plan_is_another_one_with_another_release_of_the_toolkit(tmp_path: Path) -> None:
    trainer = ("trainer/gan_trainer/a.py", "trainer/README.md", "trainer/pyproject.toml")
    for name in ("roles/a/tasks/main.yml", "library/m.py", "plugins/p.py", *trainer):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text("1")
    before = digest.toolkit_digest(tmp_path)
    # What runs leave behind is none.
    for name in ("roles/model_trainer/files/wheels/trainer.whl", "plugins/__pycache__/p.cpython-311.pyc"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text("2")
    assert digest.toolkit_digest(tmp_path) == before
    for name in ("roles/a/tasks/main.yml", "trainer/gan_trainer/a.py", "library/m.py"):
        (tmp_path / name).write_text("2")
        assert digest.toolkit_digest(tmp_path) != before
        before = digest.toolkit_digest(tmp_path)
