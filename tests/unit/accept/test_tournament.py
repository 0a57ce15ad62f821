"""The tournament between nodes: slow, hanging and dying nodes are named, and nobody else is."""

from __future__ import annotations

import itertools

import pytest
from ansible_collections.gpuwright.node.plugins.plugin_utils.accept import tournament
from nodes_and_speeds import SHARE, Cluster, speeds


@pytest.mark.parametrize("count", [2, 3, 4, 5, 7, 8, 33])
def test_equal_nodes_are_all_good_after_few_rounds(count: int) -> None:
    cluster = Cluster(speeds(count))
    now = cluster.play()
    assert now.good == list(cluster.speeds) and not now.named and not now.open
    assert len(cluster.history) <= 4


@pytest.mark.parametrize("count", [3, 4, 5, 8, 33])
def test_one_slow_node_is_named_wherever_it_is(count: int) -> None:
    for place in range(1, count + 1):
        cluster = Cluster(speeds(count, **{f"n{place}": 0.5}))
        now = cluster.play()
        assert (now.named, now.open) == ([f"n{place}"], [])
        assert tournament.slow_groups(now.good, cluster.history, SHARE) == []


@pytest.mark.parametrize("count", [4, 5, 6, 8])
def test_two_slow_nodes_are_named_whether_they_meet_or_not(count: int) -> None:
    for first, second in itertools.combinations(range(1, count + 1), 2):
        cluster = Cluster(speeds(count, **{f"n{first}": 0.5, f"n{second}": 0.3}))
        now = cluster.play()
        assert now.named == [f"n{first}", f"n{second}"], cluster.history


def test_two_slow_nodes_in_different_halves_are_not_taken_for_the_normal_speed() -> None:
    """Each half of eight nodes has one: halving alone would see two equal halves."""
    now = Cluster(speeds(8, n2=0.4, n7=0.4)).play()
    assert now.named == ["n2", "n7"]


def test_nothing_is_named_within_the_allowed_share() -> None:
    assert Cluster(speeds(6, n3=0.91)).play().named == []
    assert Cluster(speeds(6, n3=0.89)).play().named == ["n3"]


def hangs(name: str) -> Cluster:
    return Cluster(speeds(6), lambda group: f"{name} did not finish within 300 s" if name in group else "")


@pytest.mark.parametrize("name", ["n1", "n4", "n6"])
def test_a_node_that_hangs_is_named_and_the_others_work_together(name: str) -> None:
    cluster = hangs(name)
    now = cluster.play()
    assert now.named == [name] and len(now.good) == 5
    assert cluster.kinds() == ["together", "pairs", "pairs", "pairs", "rest"]
    assert cluster.history[-1]["results"][0]["group"] == now.good


def test_a_node_that_dies_is_not_asked_again() -> None:
    cluster = Cluster(speeds(5), lambda group: "n2 gave no answer" if "n2" in group else "", gone=["n2"])
    now = cluster.play()
    assert set(now.good) == {"n1", "n3", "n4", "n5"}
    assert all("n2" not in result["group"] for row in cluster.history[1:] for result in row["results"])


def test_a_node_whose_partner_was_lost_is_tried_with_another_and_not_named() -> None:
    """The partner was good before, so that its last pair would speak against whoever it was paired with."""

    def one(*group: str, problem: str = "") -> dict[str, object]:
        figures = None if problem else {"reduce_gb_s": 1.0, "steps_per_s": 10.0}
        return {"group": list(group), "figures": figures, "problem": problem, "own_product_s": {}}

    history = [
        {"kind": tournament.TOGETHER, "results": [one("n1", "n2", "n3")]},
        {"kind": tournament.PAIRS, "results": [one("n2", "n3")]},
        {"kind": tournament.PAIRS, "results": [one("n1", "n3", problem="n3 gave no answer")]},
    ]
    nodes, alive = ["n1", "n2", "n3"], ["n1", "n2"]
    assert tournament.next_step(nodes, alive, history, SHARE) == (tournament.AGAIN, [["n2", "n1"]])
    history.append({"kind": tournament.AGAIN, "results": [one("n2", "n1")]})
    assert tournament.next_step(nodes, alive, history, SHARE).groups == []
    assert tournament.standing(nodes, history, SHARE, lost=["n3"]).named == []


def test_no_pair_works_and_nobody_is_named_alone() -> None:
    cluster = Cluster(speeds(4), lambda group: "no route to host")
    now = cluster.play()
    assert (now.good, now.named, now.open) == ([], [], ["n1", "n2", "n3", "n4"])
    assert cluster.kinds() == ["together", "pairs", "pairs", "pairs"]


def test_two_nodes_of_which_one_fails_cannot_be_told_apart() -> None:
    now = Cluster(speeds(2), lambda group: "timed out").play()
    assert (now.good, now.named, now.open) == ([], [], ["n1", "n2"])


def test_a_slow_switch_is_found_by_halves_although_all_pairs_are_fast() -> None:
    cluster = Cluster(speeds(8))
    cluster.slow_switch = {"n1", "n2", "n3"}
    now = cluster.play()
    assert now.named == [] and "halves" in cluster.kinds()
    groups = [one["group"] for one in tournament.slow_groups(now.good, cluster.history, SHARE)]
    assert groups == [["n1", "n2", "n3", "n4"]]


@pytest.mark.parametrize("count", [2, 3, 4, 5, 6, 9, 16])
def test_pairings_repeat_no_pair_and_leave_nobody_out(count: int) -> None:
    found = tournament.pairings([f"n{number}" for number in range(count)])
    pairs = [frozenset(pair) for pairing in found for pair in pairing]
    assert len(set(pairs)) == len(pairs) and len(found) == min(3, count - 1 + count % 2)
    for pairing in found:
        assert len(pairing) == count // 2 and len({name for pair in pairing for name in pair}) == 2 * (count // 2)
    if count in (2, 3, 4):
        assert len(pairs) == count * (count - 1) // 2


def test_one_node_has_no_tournament() -> None:
    assert tournament.next_step(["n1"], ["n1"], [], SHARE).groups == []


def printed(number: int = 3, rate: float = 2.0, **more: object) -> dict:
    series = {"reduce_gb_s": [rate, rate, 9.0], "steps_per_s": [30.0]}
    record = {"schema": 1, "kind": "group", "series": series, "problems": [], "faults": [], "own_product_s": 0.1}
    return {"record": {**record, **more}, "problem": "", "round": number}


def test_a_group_is_as_fast_as_its_slowest_answer() -> None:
    step = tournament.Step("pairs", [["a", "b"]])
    row = tournament.gathered(step, {"a": printed(), "b": printed(rate=1.5)}, 3)
    assert row["kind"] == "pairs"
    assert row["results"] == [
        {"group": ["a", "b"], "figures": {"reduce_gb_s": 1.5, "steps_per_s": 30.0}, "problem": "",
         "own_product_s": {"a": 0.1, "b": 0.1}}
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("other", "words"),
    [
        (None, "b gave no answer"),
        (printed(number=2), "b gave no answer"),
        ({"record": None, "problem": "it did not finish within 90 s", "round": 3}, "b: it did not finish within 90 s"),
        (printed(problems=["RuntimeError: connection closed"]), "b: RuntimeError: connection closed"),
        (printed(faults=["1 of 64 numbers of a product differ"]), "b: 1 of 64 numbers of a product differ"),
        (printed(series={"reduce_gb_s": [], "steps_per_s": [1.0]}), "nothing was measured"),
        (printed(series=None), "nothing was measured"),
    ],
)
def test_an_answer_that_is_none_is_a_problem_of_its_group(other: object, words: str) -> None:
    row = tournament.gathered(tournament.Step("pairs", [["a", "b"]]), {"a": printed(), "b": other}, 3)
    assert row["results"][0]["figures"] is None and row["results"][0]["problem"] == words
    assert not tournament.is_good(row["results"][0], {}, SHARE)
