"""Judgement and certificate: floors, the fleet's median, wrong results, and that what is not known is not accepted."""

from __future__ import annotations

from typing import Any

import pytest
from ansible_collections.gpuwright.node.plugins.lookup.accept import answer_in
from ansible_collections.gpuwright.node.plugins.module_utils.gpu import floors
from ansible_collections.gpuwright.node.plugins.plugin_utils.accept import certificate
from ansible_collections.gpuwright.node.plugins.plugin_utils.accept.figures import slower
from nodes_and_speeds import Cluster, answer, device, look, speeds

RUN = {"began": "2026-11-23T10:00:00Z", "ended": "2026-11-23T11:10:00Z", "minutes": 60, "share_percent": 10}
EXPECTED = {"device": "cuda", "gpus": 1, "os": "rhel 8.8", "kernel": "4.18"}
V100, UNKNOWN_CARD = "Tesla V100-PCIE-16GB", "NVIDIA Z9000"
ON_CPU = {**EXPECTED, "device": "cpu", "gpus": 0}


def judged(answers: dict[str, Any], expected: dict[str, Any] = EXPECTED, history: Any = None) -> dict[str, Any]:
    if history is None:
        cluster = Cluster({name: 1.0 for name in answers})
        cluster.play()
        history = cluster.history
    return certificate.certificates(answers, {name: expected for name in answers}, history, RUN)


def ids(record: dict[str, Any], status: str = "FAIL") -> list[str]:
    return [row["id"] for row in record["findings"] if row["status"] == status]


def without(measure: str, reason: str) -> dict[str, Any]:
    """A device that gives a reason in place of a measure."""
    found = device(left_out={measure: reason})
    return {**found, "series": {name: series for name, series in found["series"].items() if name != measure}}


def fleet(count: int = 4, **more: Any) -> dict[str, Any]:
    return {**{f"n{number}": answer(device()) for number in range(1, count + 1)}, **more}


def test_equal_healthy_nodes_are_accepted() -> None:
    found = judged(fleet())
    assert {record["verdict"] for record in found.values()} == {"ACCEPTED"}
    assert found["n1"]["findings"] == [] and found["n1"]["trial"] is None
    assert certificate.refusal(found["n1"], "reports") == ""


def test_an_outlier_is_named_with_figure_median_and_share() -> None:
    others = {name: answer(device(name=UNKNOWN_CARD)) for name in ("n1", "n2", "n3")}
    found = judged({**others, "n4": answer(device(name=UNKNOWN_CARD, factor=0.8))})
    assert ids(found["n4"]) == ["accept.outlier"] * 4 and found["n1"]["verdict"] == "ACCEPTED"
    texts = [row["text"] for row in found["n4"]["findings"]]
    assert "cuda:0: copy in GPU memory 608 GB/s is 20 % below the median of 4 nodes, 760 GB/s; 10 % is allowed" in texts
    message = certificate.refusal(found["n4"], "reports/acceptance")
    assert message.count("(accept.outlier)") == 4 and "more reasons" not in message
    assert message.startswith("n4 is not accepted: ") and message.endswith("[accept.refused]")
    assert "reports/acceptance/n4.html" in message


@pytest.mark.parametrize(("factor", "refused"), [(0.91, False), (0.89, True)])
def test_the_allowed_share_is_the_limit(factor: float, refused: bool) -> None:
    found = judged(fleet(n4=answer(device(factor=factor))))
    assert ("accept.outlier" in ids(found["n4"])) is refused


def test_the_worst_card_of_a_node_stands_for_it_in_the_median() -> None:
    two = {f"n{n}": answer(device(), device(index=1, all_reduce=1)) for n in range(1, 4)}
    for each in two.values():
        each["record"]["devices"][0]["series"]["all_reduce"] = [[1.0, 20.0]]
    two["n3"]["record"]["devices"][1] = device(index=1, factor=0.5)
    found = judged(two, {**EXPECTED, "gpus": 2})
    texts = [row["text"] for row in found["n3"]["findings"] if row["id"] == "accept.outlier"]
    assert texts and all(text.startswith("cuda:1: ") for text in texts)


def test_a_card_that_counts_no_errors_is_accepted() -> None:
    """One without ECC, as nvidia-smi says N/A of it."""
    found = judged(fleet(4, n4=answer(device(), looks=[look(0, None), look(9, None)])))
    assert found["n4"]["verdict"] == "ACCEPTED"


def test_two_nodes_are_no_fleet_and_only_their_floors_count() -> None:
    found = judged(fleet(2, n2=answer(device(factor=0.95))))
    assert found["n2"]["verdict"] == "ACCEPTED" and ids(found["n2"], "NOTE") == ["accept.no_fleet"]


def test_below_a_published_floor_is_refused_even_if_all_are() -> None:
    floor = floors.floor_of(V100, "copy_gb_s").floor
    assert floor
    slow = answer(device(factor=0.9 * floor / 760.0))
    found = judged({name: slow for name in ("n1", "n2", "n3")})
    assert all("accept.floor" in ids(record) for record in found.values())
    worse = certificate.refusal(judged(fleet(n4=answer(device(factor=0.3))))["n4"], "reports")
    assert (
        worse.count("(accept.") == certificate.MOST_REASONS and "; and 4 more reasons. Look at reports/n4.html" in worse
    )
    assert f"below the floor of {floor:g} GB/s (" in found["n1"]["findings"][0]["text"]


def test_a_card_without_floor_and_without_fleet_is_not_accepted() -> None:
    found = judged({"n1": answer(device(name=UNKNOWN_CARD))}, history=[])
    assert ids(found["n1"]) == ["accept.unjudged"] and ids(found["n1"], "NOTE") == ["accept.alone"]


def test_different_models_are_not_compared() -> None:
    found = judged(fleet(3, n4=answer(device(name=UNKNOWN_CARD, factor=3.0))))
    assert "accept.outlier" not in ids(found["n1"]) and ids(found["n4"]) == ["accept.unjudged"]


@pytest.mark.parametrize(
    ("wrong", "expected_id"),
    [
        (None, "accept.lost"),
        ({"record": None, "problem": "it did not finish within 960 s"}, "accept.no_record"),
        ({"record": "text"}, "accept.no_record"),
        (answer(), "accept.count"),
        (answer(device(), device(index=1)), "accept.count"),
        (answer(device(faults=["cuda:0, 12 s after the start: 1 of 64 numbers"])), "accept.wrong_result"),
        (answer(device(counts={"faults": 3})), "accept.wrong_result"),
        (answer(device(series={})), "accept.unmeasured"),
        # Whatever the node gives as its reason, it was not measured.
        (answer(without("copy_gb_s", "no memory is free")), "accept.unmeasured"),
        (answer(device(), looks=[]), "accept.unmeasured"),
        (answer(device(), looks=[{"at_s": 1, "problem": "nvidia-smi did not answer"}] * 9), "accept.unmeasured"),
        # One count says nothing of what came during the burn-in.
        (
            answer(device(), looks=[look(1, 0), {"at_s": 9, "problem": "nvidia-smi did not answer"}]),
            "accept.unmeasured",
        ),
        (answer(device(), kind="cpu"), "accept.device"),
        (
            answer(device(), looks=[look(1, 0), look(9, 2)]),
            "accept.ecc",
        ),
    ],
)
def test_what_is_wrong_or_unknown_is_not_accepted(wrong: Any, expected_id: str) -> None:
    found = judged(fleet(4, n4=wrong))
    assert expected_id in ids(found["n4"]) and found["n4"]["verdict"] == "NOT ACCEPTED"
    assert found["n1"]["verdict"] == "ACCEPTED"
    assert "NOT ACCEPTED" in certificate.page(found["n4"])


def test_a_problem_of_the_record_is_told() -> None:
    broken = answer(device())
    broken["record"]["problems"] = ["rank 0 died without a message"]
    found = judged(fleet(4, n4=broken))
    assert "rank 0 died without a message (accept.problem)" in certificate.refusal(found["n4"], "x")


def test_a_node_that_is_slow_with_others_is_named_with_its_pairs() -> None:
    cluster = Cluster(speeds(4, n3=0.4))
    cluster.play()
    found = judged(fleet(), history=cluster.history)
    assert (
        ids(found["n3"]) == ["accept.between"] and [found[n]["verdict"] for n in ("n1", "n2", "n4")] == ["ACCEPTED"] * 3
    )
    text = found["n3"]["findings"][0]["text"]
    assert "with n2: 4 steps/s, 60 % below the best pair's 10 steps/s" in text and text.endswith("fast in other pairs")


def test_a_node_that_died_before_any_pair_is_not_accepted() -> None:
    cluster = Cluster(speeds(4), lambda group: "n2 gave no answer" if "n2" in group else "", gone=["n2"])
    cluster.play()
    found = judged(fleet(4, n2=None), history=cluster.history)
    assert ids(found["n2"]) == ["accept.lost"] and found["n1"]["verdict"] == "ACCEPTED"
    answered = judged(fleet(4), history=cluster.history)
    assert ids(answered["n2"]) == ["accept.untried"]


def test_a_node_that_is_lost_after_a_good_pair_is_not_accepted() -> None:
    """It was measured, and its first pair was fast; nobody knows what it would have done in the others."""
    cluster = Cluster(speeds(4))
    cluster.play()
    before = cluster.history[:2]
    found = certificate.certificates(fleet(), dict.fromkeys(fleet(), EXPECTED), before, RUN, lost=["n3"])
    assert found["n3"]["verdict"] == "NOT ACCEPTED" and ids(found["n3"]) == ["accept.lost"], found["n3"]["findings"]
    assert [found[name]["verdict"] for name in ("n1", "n2", "n4")] == ["ACCEPTED"] * 3


def test_a_slow_switch_is_told_to_all_behind_it() -> None:
    cluster = Cluster(speeds(8))
    cluster.slow_switch = {"n1", "n2", "n3"}
    cluster.play()
    found = judged(fleet(8), history=cluster.history)
    assert [name for name in found if ids(found[name])] == ["n1", "n2", "n3", "n4"]
    assert ids(found["n1"]) == ["accept.group"]


def test_a_card_that_becomes_slower_is_warned_about() -> None:
    hot = device()
    hot["series"]["copy_gb_s"] = [[float(at), 800.0 - 20.0 * at] for at in range(10)]
    found = judged(fleet(4, n4=answer(hot)))
    assert ids(found["n4"], "WARN") == ["accept.slower"]
    assert slower([10.0] * 7 + [1.0]) == 0.0 or slower([10.0] * 7 + [1.0]) < 1.0
    assert slower([1.0, 2.0]) == 0.0 and slower([10.0, 10.0, 8.0, 8.0, 8.0, 8.0, 5.0, 5.0]) == 0.5


def test_a_trial_on_cpus_says_what_it_does_not_certify() -> None:
    cpus = {f"n{n}": answer(device(name="CPU"), kind="cpu") for n in range(1, 4)}
    found = judged(cpus, ON_CPU)
    page = certificate.page(found["n1"])
    assert found["n1"]["verdict"] == "ACCEPTED" and "certifies nothing about GPUs" in page
    assert found["n1"]["trial"] == certificate.TRIAL
    gpus = certificate.page(judged(fleet())["n1"])
    assert "certifies nothing" not in gpus


def test_a_page_shows_cards_and_escapes_what_a_node_says() -> None:
    cards = {"driver": "580.1", "gpus": [
        {"pci_id": "0000:3b:00.0", "name": "<script>alert(1)</script>", "serial": "0324", "uuid": "U1", "vbios": None}
    ]}  # fmt: skip
    looks = [{"at_s": 10.0, "gpus": [
        {"pci_id": "0000:3b:00.0", "temperature_c": 71, "clock_sm_mhz": 1380, "throttle_reasons": ["sw_power_cap"]}
    ]}]  # fmt: skip
    record = judged(fleet(3, n3=answer(device(), cards=cards, looks=looks)))["n3"]
    page = certificate.page(record)
    assert "<script" not in page and "&lt;script&gt;" in page
    assert "0324" in page and "71 °C" in page and "sw_power_cap" in page and "unknown" in page
    assert record["heat"] == [
        {"pci_id": "0000:3b:00.0", "hottest_c": 71, "clock_lowest_mhz": 1380, "clock_highest_mhz": 1380,
         "held_down_by": ["sw_power_cap"]}
    ]  # fmt: skip
    assert "http" not in page.split("<main>")[0]


def test_names_that_are_no_file_names_get_safe_ones() -> None:
    found = judged(fleet(3, **{"../n": answer(device())}))
    assert "/" not in found["../n"]["file"]


@pytest.mark.parametrize(
    ("text", "record"),
    [
        ("", None),
        ("hello\n", None),
        ('hi\n{"a": 1}\n', {"a": 1}),
        ("{broken\n", None),
        ({"a": 1}, {"a": 1}),
        (None, None),
    ],
)
def test_the_record_is_the_last_line_that_is_one(text: Any, record: Any) -> None:
    assert answer_in(text) == record


def with_bits(bits: str, index: int = 0, **kind: Any) -> dict[str, Any]:
    return device(index=index, products={"of": "8192 80 multiprocessors", "bits": {"fp32": bits}, **kind})


def test_the_card_whose_product_differs_in_a_bit_from_all_others_is_named() -> None:
    nodes = {name: answer(with_bits("aaaa")) for name in ("n1", "n2", "n3")}
    found = judged({**nodes, "n4": answer(with_bits("bbbb"))})
    assert ids(found["n4"]) == ["accept.product"] and found["n1"]["verdict"] == "ACCEPTED"
    assert found["n4"]["findings"][0]["text"] == (
        "cuda:0: its product in fp32 differs in its bits from that of 3 of 3 other cards (bbbb, they have aaaa)"
    )


def test_of_two_nodes_that_differ_neither_is_refused_and_of_two_cards_in_a_node_the_node_is() -> None:
    found = judged({"n1": answer(with_bits("aaaa")), "n2": answer(with_bits("bbbb"))})
    assert "accept.product" in ids(found["n1"], "WARN") and "accept.product" in ids(found["n2"], "WARN")
    two = {**EXPECTED, "gpus": 2}
    found = judged({"n1": answer(with_bits("aaaa"), with_bits("bbbb", 1))}, two)
    assert ids(found["n1"]).count("accept.product") == 2


def test_products_of_other_libraries_or_of_earlier_releases_are_not_compared() -> None:
    nodes = {name: answer(with_bits("aaaa")) for name in ("n1", "n2", "n3")}
    other = answer(with_bits("bbbb", of="8192 78 multiprocessors"))
    found = judged({**nodes, "n4": other, "n5": answer(device()), "n6": answer(device(products="damaged"))})
    assert {record["verdict"] for record in found.values()} == {"ACCEPTED"}
