"""What a sweep says of a node: its own earlier days, the fleet, bits, errors; what was not measured drains nobody."""

from __future__ import annotations

from typing import Any

import pytest
from ansible_collections.gpuwright.node.plugins.plugin_utils.history import kept
from ansible_collections.gpuwright.node.plugins.plugin_utils.page.speed import measure_words
from ansible_collections.gpuwright.node.plugins.plugin_utils.sweep import cards, judge, load
from nodes_and_speeds import answer, device, look

NOW = "2026-11-28T12:00:00Z"
EXPECTED = {"device": "cuda", "gpus": 1}
# A model without published floors.
Z9 = "NVIDIA Z9000"


def node(factor: float = 1.0, bits: str = "aaaa", serial: str | None = "S1", **more: Any) -> dict[str, Any]:
    """What one node's burn-in answers; more: of its device."""
    products = {"of": "8192 80 multiprocessors", "bits": {"fp32": bits}}
    identity = {"pci_id": "0000:3b:00.0", "name": Z9, "serial": serial, "uuid": f"GPU-{serial}"}
    return answer(
        device(name=Z9, factor=factor, products=products, **more), cards={"driver": "580", "gpus": [identity]}
    )


def report(verdict: str = "PASS", **gpu: Any) -> dict[str, Any]:
    check = {"id": "gpu.heat", "status": verdict, "message": "91 C", "action": "Clean the fan."}
    row = {"pci_id": "0000:3b:00.0", "ecc_uncorrected_volatile": 0, "health": {"pcie_replays": 0, **gpu}}
    smoke = {"steps": 20, "devices": [{"device": "cuda:0", "fp32": {"seconds": 2.0}, "amp": {"seconds": 1.0}}]}
    return {"verdict": verdict, "checks": [check], "readings": {"nvidia_smi": {"gpus": [row]}}, "smoke": smoke}


def judged(told: Any, histories: dict[str, Any] | None = None, host: str = "n1", **more: Any) -> dict[str, Any]:
    whole = judge.Told(told, EXPECTED, more.get("report", report()), more.get("troubles", ()), more.get("seen", seen()))
    known = {name: {**one} for name, one in (histories or {}).items()}
    if "had" in more:
        known[host] = {**known.get(host, kept.empty(host)), "load": load.before(host, more["had"])}
    return judge.judged(host, whole, {**known, host: judge.with_rows(host, whole, known, NOW)}, 0.1, NOW)


def card(place: str = "0000:3b:00.0", serial: Any = "S1", **more: Any) -> dict[str, Any]:
    return {"pci_id": place, "serial": serial, "uuid": f"GPU-{serial}", "lost": False, **more}


def seen(*gpus: dict[str, Any], boot: str = "b1", **smi: Any) -> dict[str, Any]:
    told = {"reachable": True, "message": f"{len(gpus)} GPUs", "gpus": list(gpus), **smi}
    return {"boot": boot, "uptime": "1000.52 8000.01\n", "smi": told}


BOTH = (card(), card("0000:d8:00.0", "S2"))
SILENT: dict[str, Any] = {"reachable": False, "gpus": []}
DIED = {"record": None, "problem": "the program ended with signal 6"}


@pytest.mark.parametrize(
    ("after", "reason"),
    [
        (seen(BOTH[0]), "sweep.lost_card: 0000:d8:00.0 (S2): lost under load, the driver does not show it any more"),
        (seen(BOTH[0], card("0000:d8:00.0", "unknown", lost=True)), "sweep.lost_card: 0000:d8:00.0 (S2): lost under"),
        (
            seen(message="the handle of GPU0000:D8:00.0 is unknown", **SILENT),
            "sweep.lost_card: 0000:d8:00.0 (S2): lost",
        ),
        (seen(message="it hangs", **SILENT), "sweep.lost_card: nvidia-smi told of 2 cards before the load and of none"),
        (seen(*BOTH, boot="b2"), "sweep.rebooted: rebooted under load"),
        (seen(message="no driver", boot="b2", **SILENT), "sweep.rebooted: rebooted under load"),
    ],
)
@pytest.mark.parametrize("told", [DIED, None], ids=["an answer", "none"])
def test_a_card_or_node_that_dies_under_load_is_bad(after: dict[str, Any], reason: str, told: Any) -> None:
    found = judged(told, had=seen(*BOTH), seen=after, report=None, troubles=["the verification failed"])
    assert found["verdict"] == "FAIL" and judge.reason(found).startswith(reason) and found["load"] is None
    left = judge.left("n1", {**kept.empty("n1"), "tried": NOW, "load": load.before("n1", seen(*BOTH))}, after, NOW)
    assert left["verdict"] == "FAIL" and judge.reason(left).startswith(reason), "its controller was killed"


@pytest.mark.parametrize(
    ("before", "after"),
    [
        (seen(*BOTH), seen(*BOTH)),
        (seen(*BOTH), seen(*reversed(BOTH))),
        # It was lost before, which level deep says; nobody knew its cards before; no boot could be read.
        (seen(BOTH[0], card("0000:d8:00.0", "S2", lost=True)), seen(BOTH[0])),
        (seen(**SILENT), seen(*BOTH)),
        (seen(*BOTH, boot=""), seen(*BOTH)),
        ({}, {}),
    ],
)
def test_a_load_that_has_cost_nothing_drains_nobody(before: dict[str, Any], after: dict[str, Any]) -> None:
    assert judged(DIED, had=before, seen=after)["verdict"] == "UNKNOWN"
    begun = {**kept.empty("n1"), "tried": NOW, "load": load.before("n1", before)}
    assert judge.left("n1", begun, after, NOW) == {**begun, "load": None}
    assert judge.left("n1", kept.empty("n1"), after, NOW) == kept.empty("n1"), "killed before the load began"


def xid(code: Any, last_s: int = 1000, **more: Any) -> dict[str, Any]:
    text = f"NVRM: Xid (PCI:0000:3b:00): {code}, pid=7, name=python, x"
    return {"code": code, "pci_id": "0000:3b:00", "last_s": last_s, "first_s": 9, "count": 1, "text": text, **more}


@pytest.mark.parametrize(
    ("event", "told", "status"),
    [
        (xid(31), DIED, "FAIL"),
        (xid(31), node(), "WARN"),
        (xid(48), node(), "FAIL"),
        # Before the load; what follows the end of any program; what an administrator has judged.
        (xid(31, last_s=999), DIED, ""),
        (xid(45), DIED, ""),
        (xid("31"), DIED, ""),
    ],
)
def test_an_xid_under_load_is_told_with_its_card(event: dict[str, Any], told: Any, status: str) -> None:
    kernel_log = {"xids": [event, "damaged"]}
    later = {**report(), "readings": {"kernel_log": kernel_log, "probe": {"kernel": {"boot_id": "b1"}}}}
    found = judged(told, had=seen(card()), seen=seen(card()), report=later)
    rows = [row for row in found["findings"] if row["id"] == "sweep.xid"]
    assert [row["status"] for row in rows] == ([status] if status else [])
    assert not rows or (rows[0]["card"] == "S1" and rows[0]["text"].startswith("0000:3b:00 (S1): Xid "))


def fleet(count: int = 4, days: int = 1, **of: Any) -> dict[str, Any]:
    """Histories of healthy nodes n2, n3 ..., each with a card."""
    found: dict[str, Any] = {}
    for number in range(2, count + 1):
        for _day in range(days):
            found[f"n{number}"] = judged(node(serial=f"S{number}", **of), found, f"n{number}")
    return found


def ids(history: dict[str, Any], status: str = "FAIL") -> list[str]:
    return [row["id"] for row in history["findings"] if row["status"] == status]


def test_a_healthy_node_passes_and_its_card_is_remembered() -> None:
    found = judged(node())
    assert (found["verdict"], found["findings"], found["swept"], judge.reason(found)) == ("PASS", [], NOW, "")
    ((key, card),) = found["cards"].items()
    assert key == "S1" and card["product"]["bits"] == {"fp32": "aaaa"} and card["counters"]["pcie_replays"] == [0]
    assert card["figures"]["matmul_fp32_tflops"] == [13.4] and card["figures"]["smoke_amp"] == [20.0]
    assert card["software"] == ["torch 2.10.0+cu128, CUDA 12.8, driver 580"]


def test_a_card_slower_than_the_fleet_is_bad_with_its_numbers() -> None:
    found = judged(node(0.8), fleet())
    assert set(ids(found)) == {"sweep.outlier"} and found["verdict"] == "FAIL"
    assert judge.reason(found).startswith(
        "sweep.outlier: 0000:3b:00.0 (S1): copy in GPU memory 608 GB/s is 20 % below the median of 4 cards of its "
    )
    assert "model, 760 GB/s, 10 % is allowed" in judge.reason(found) and judge.reason(found).endswith(" (and 1 more)")
    assert judged(node(0.8))["verdict"] == "PASS", "one card has no fleet"


def test_a_card_that_became_slower_than_on_its_own_first_days_is_bad() -> None:
    histories: dict[str, Any] = {}
    for _day in range(4):
        histories["n1"] = judged(node(), histories)
    found = judged(node(0.85), histories)
    assert set(ids(found)) == {"sweep.slower"}
    assert "15 % below the median of its own first 4 days" in judge.reason(found)


def test_a_slow_decline_is_told_before_the_limit() -> None:
    histories: dict[str, Any] = {}
    for factor in (1.0, 1.001, 0.999, 0.97, 0.96, 0.95, 0.94, 0.935):
        histories["n1"] = judged(node(factor), histories)
    assert set(ids(histories["n1"], "WARN")) == {"sweep.declines"} and histories["n1"]["verdict"] == "WARN"


def test_a_product_with_another_bit_is_bad_and_is_not_what_later_ones_are_held_against() -> None:
    histories = {"n1": judged(node())}
    found = judged(node(bits="bbbb"), histories)
    assert ids(found) == ["accept.product"] and f"from its own of {NOW}" in judge.reason(found)
    assert found["cards"]["S1"]["product"]["bits"] == {"fp32": "aaaa"}
    assert ids(judged(node(bits="bbbb"), {"n1": found})) == ["accept.product"]
    assert ids(judged(node(bits="bbbb"), fleet())) == ["accept.product"], "without any day of its own"
    # Three others computed as this one does today: what it did earlier was wrong.
    assert judged(node(bits="bbbb"), {**histories, **fleet(bits="bbbb")})["verdict"] == "PASS"


@pytest.mark.parametrize(
    "told",
    [
        None,
        {"record": None, "problem": "no space"},
        {**node(), "looks": []},
        node(left_out={"copy_gb_s": "x"}, series={}),
    ],
)
def test_what_was_not_measured_drains_nobody(told: Any) -> None:
    histories = {"n1": judged(node())}
    found = judged(told, histories)
    assert found["verdict"] == "UNKNOWN" and judge.reason(found) == ""
    assert found["cards"]["S1"]["product"] == histories["n1"]["cards"]["S1"]["product"], "its history stays"


def test_a_verification_without_a_report_is_told_and_drains_nobody() -> None:
    found = judged(node(), report=None, troubles=["no space left"])
    assert found["verdict"] == "UNKNOWN" and found["findings"][0]["text"] == "no space left"


def test_a_finding_of_level_deep_is_the_reason() -> None:
    found = judged(node(), report=report("FAIL"))
    assert judge.reason(found) == "gpu.heat: 91 C" and found["verdict"] == "FAIL"
    assert judged(node(), report=report("UNKNOWN"))["verdict"] == "UNKNOWN"


def test_wrong_results_and_memory_errors_of_the_burn_in_are_bad() -> None:
    wrong = node(faults=["a product is wrong"])
    assert ids(judged(wrong)) == ["accept.wrong_result"]
    assert ids(judged({**node(), "looks": [look(0.0, 0), look(60.0, 2)]})) == ["accept.ecc"]


def test_a_counter_that_grew_since_the_sweep_before_is_told() -> None:
    found = judged(node(), {"n1": judged(node())}, report=report(pcie_replays=70))
    assert found["findings"][0]["text"].endswith("(S1): pcie_replays 0 → 70 since the sweep before")
    assert found["verdict"] == "WARN"


def test_keys_are_serials_or_uuids_where_there_is_none_or_it_is_shared() -> None:
    devices = [{"device": "cuda:0"}, {"device": "cuda:1"}]

    def keys(*identities: dict[str, Any]) -> list[str]:
        return cards.keys_of("n1", list(identities), devices)

    assert keys({"serial": "S1", "uuid": "U1"}, {"serial": "S2", "uuid": "U2"}) == ["S1", "S2"]
    assert keys({"serial": "S1", "uuid": "U1"}, {"serial": "S1", "uuid": "U2"}) == ["U1", "U2"]
    assert keys({"serial": None, "uuid": "U1"}, {"serial": "0", "uuid": "U2"}) == ["U1", "U2"]
    assert keys({}, {}) == ["n1 cuda:0 0", "n1 cuda:1 1"]


def test_all_reduce_is_compared_between_nodes_of_as_many_cards() -> None:
    devices = [device(index=index, pci_id=f"0000:{index}:00.0") for index in range(2)]
    devices[0]["series"] = {**devices[0]["series"], "all_reduce": [[1.0, 100.0]]}
    two = judge.Told(answer(*devices), {"device": "cuda", "gpus": 2}, report())
    cards_of = judge.with_rows("n1", two, {}, NOW)["cards"].values()
    assert ["2x_all_reduce" in card["figures"] for card in cards_of] == [True, False]
    assert measure_words("2x_all_reduce") == ("all-reduce over 2 devices", "GB/s")


def test_a_reason_has_no_quote_and_no_sign_that_slurm_would_change() -> None:
    found = judged(node(faults=['a "product" of 5 °C\nis wrong']))
    assert judge.reason(found).isascii() and '"' not in judge.reason(found) and "\n" not in judge.reason(found)


def test_what_a_sweep_keeps_is_what_its_reader_takes(tmp_path: Any) -> None:
    history = judged(node(0.8), fleet())
    kept.write(tmp_path, history)
    assert kept.read(tmp_path, "n1") == (history, "")
