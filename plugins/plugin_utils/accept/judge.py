# SPDX-License-Identifier: Apache-2.0
"""Whether a node is accepted: pure functions of what the nodes have answered and of the tournament between them.

A node is accepted if everything was measured, every result was right, no figure is below its published floor or too
far below the fleet's median, and it works with others. What was not measured or cannot be compared is not accepted.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any, NamedTuple

from ansible_collections.gpuwright.node.plugins.plugin_utils.page.speed import WORDS

from . import tournament
from .figures import LEAST_NODES, Answer, Figure, Fleet, devices_of

ACCEPTED, REFUSED = "ACCEPTED", "NOT ACCEPTED"
FAIL, WARN, NOTE = "FAIL", "WARN", "NOTE"
NEEDED = ("copy_gb_s", "d2h_gb_s", "h2d_gb_s", "matmul_fp32_tflops")
ON_CPU = "cpu"
# Of the cards, by nvidia-smi: one count tells nothing of what came since then.
LEAST_LOOKS = 2
Expected = Mapping[str, Any]


class Finding(NamedTuple):
    """One sentence about a node: FAIL refuses it, WARN and NOTE are told only."""

    id: str
    status: str
    text: str


def judge(
    host: str,
    fleet: Fleet,
    answer: Answer | None,
    expected: Expected,
    history: Sequence[Any],
    share: float,
    lost: Collection[str] = (),
) -> list[Finding]:
    """All findings about one node. `expected`: device ("cuda" or "cpu") and gpus, how many it was bought with.

    share  part by which a node may stay below the fleet's median, 0.1 for 10 %
    lost   nodes that did not take part to the end: good pairs before that do not make up for it, and pairs that failed
           with one say nothing of the other node
    """
    if answer is None:
        return [Finding("accept.lost", FAIL, "it was lost during the burn-in and gave no record")]
    record = answer.get("record")
    if not isinstance(record, dict):
        text = f"the burn-in gave no record: {answer.get('problem') or 'no reason is known'}"
        return [Finding("accept.no_record", FAIL, text)]
    found = [Finding("accept.lost", FAIL, "it was lost before the acceptance ended")] if host in lost else []
    found += [Finding("accept.problem", FAIL, str(text)) for text in record.get("problems") or []]
    found += whole(record, answer, expected)
    found += errors_of_memory(answer, expected)
    found += [Finding("accept.product", status, text) for status, text in fleet.unlike(host)]
    speed = [finding for figure in fleet.figures[host] for finding in of_figure(host, fleet, figure, share)]
    found += speed + comparable(host, fleet, speed_is_judged(host, fleet))
    return found + between(host, history, share, lost)


def whole(record: Mapping[str, Any], answer: Answer, expected: Expected) -> list[Finding]:
    """Whether all devices took part, what they computed wrongly, and what is missing."""
    devices, found = devices_of(answer), []
    if record.get("device") != expected["device"]:
        found.append(Finding("accept.device", FAIL, f"it ran on {record.get('device')}, not on {expected['device']}"))
    if expected["device"] != ON_CPU and len(devices) != int(expected["gpus"]):
        text = f"{len(devices)} GPUs took part, expected {expected['gpus']} (verify_expected_gpu_count)"
        found.append(Finding("accept.count", FAIL, text))
    for device in devices:
        faults = [str(text) for text in device.get("faults") or []]
        more = int((device.get("counts") or {}).get("faults", len(faults))) - len(faults)
        found += [Finding("accept.wrong_result", FAIL, text) for text in faults]
        if more > 0:
            found.append(Finding("accept.wrong_result", FAIL, f"{device.get('device')}: {more} more faults"))
        series, left = device.get("series") or {}, device.get("left_out") or {}
        for measure in NEEDED:
            if not series.get(measure):
                reason = f": {left[measure]}" if measure in left else ""
                text = f"{device.get('device')}: {WORDS[measure]} was not measured{reason}"
                found.append(Finding("accept.unmeasured", FAIL, text))
    ranks = max(len(devices), 1)
    if ranks > 1 and not any((device.get("series") or {}).get("all_reduce") for device in devices):
        found.append(Finding("accept.unmeasured", FAIL, f"{WORDS['all_reduce']} was not measured"))
    return found


def errors_of_memory(answer: Answer, expected: Expected) -> list[Finding]:
    """Uncorrected memory errors that a card has counted during the burn-in, or that nobody has looked for them."""
    looks = [look for look in answer.get("looks") or [] if look.get("gpus")]
    if expected["device"] != ON_CPU and len(looks) < LEAST_LOOKS:
        said = [str(look["problem"]) for look in answer.get("looks") or [] if look.get("problem")]
        why = f": {said[-1]}" if said else ""
        text = f"errors of memory were not counted, as nvidia-smi told of the cards in {len(looks)} looks{why}"
        return [Finding("accept.unmeasured", FAIL, text)]
    first: dict[str, int] = {}
    last: dict[str, int] = {}
    for look in looks:
        for gpu in look.get("gpus") or []:
            count = gpu.get("ecc_uncorrected_volatile")
            if isinstance(count, int):
                first.setdefault(gpu["pci_id"], count)
                last[gpu["pci_id"]] = count
    return [
        Finding("accept.ecc", FAIL, f"{card}: {last[card] - first[card]} uncorrected memory errors during the burn-in")
        for card in last
        if last[card] > first[card]
    ]


def of_figure(host: str, fleet: Fleet, figure: Figure, share: float) -> list[Finding]:
    """One figure against its floor, against the fleet, and against itself at the begin of the burn-in."""
    against, found = fleet.against(host, figure), []
    name = f"{figure.device}: {WORDS[figure.measure]} {figure.value:.4g} {figure.unit}"
    if against.floor is not None and figure.value < against.floor:
        text = f"{name} is below the floor of {against.floor:g} {figure.unit} ({against.source})"
        found.append(Finding("accept.floor", FAIL, text))
    if against.below is not None and against.median is not None and against.below > share:
        text = (
            f"{name} is {100 * against.below:.0f} % below the median of {against.nodes} nodes, "
            f"{against.median:.4g} {figure.unit}; {100 * share:g} % is allowed"
        )
        found.append(Finding("accept.outlier", FAIL, text))
    if figure.slower > share:
        text = f"{name}: the last quarter of the burn-in was {100 * figure.slower:.0f} % slower than the first"
        found.append(Finding("accept.slower", WARN, text))
    return found


def speed_is_judged(host: str, fleet: Fleet) -> bool:
    """Whether any figure of this node has a floor or a fleet to be compared with."""
    seen = [fleet.against(host, figure) for figure in fleet.figures[host]]
    return any(against.floor is not None or against.median is not None for against in seen)


def comparable(host: str, fleet: Fleet, judged: bool) -> list[Finding]:
    """What could not be compared: a note if there is a floor in place of the fleet, else a reason not to accept."""
    count, model = len(fleet.like(host)), fleet.models[host] or "this model"
    if count >= LEAST_NODES:
        return []
    text = f"no fleet to compare with: {count} nodes with {model} in this run, {LEAST_NODES} are needed"
    if judged:
        return [Finding("accept.no_fleet", NOTE, f"{text}; published floors alone were used")]
    return [Finding("accept.unjudged", FAIL, f"{text}, and nobody has published a floor for it: no speed was judged")]


def between(host: str, history: Sequence[Any], share: float, lost: Collection[str] = ()) -> list[Finding]:
    """What the tournament says about one node."""
    took_part = [result for result in tournament.results_of(history) if host in result["group"]]
    if not history:
        return [Finding("accept.alone", NOTE, "nothing was run between nodes: it was the only one")]
    best = tournament.reference(history)
    everybody = sorted({name for result in tournament.results_of(history) for name in result["group"]})
    now = tournament.standing(everybody, history, share, lost)
    if host in now.good:
        groups = [one for one in tournament.slow_groups(now.good, history, share) if host in one["group"]]
        return [Finding("accept.group", FAIL, group_words(one, best, share)) for one in groups]
    bad = [one for one in took_part if len(one["group"]) == 2]
    if not bad:
        return [Finding("accept.untried", FAIL, "it was tried in no pair of nodes")]
    texts = [pair_words(host, one, best, share) for one in bad]
    if host in now.named:
        texts.append("those it was paired with are fast in other pairs")
        return [Finding("accept.between", FAIL, "; ".join(texts))]
    return [Finding("accept.between", FAIL, "; ".join([*texts, "no pair of it works, so the slow one is not known"]))]


def pair_words(host: str, result: Mapping[str, Any], best: Mapping[str, float], share: float) -> str:
    partner = " and ".join(name for name in result["group"] if name != host)
    return f"with {partner}: {group_state(dict(result), best, share)}"


def group_words(result: Mapping[str, Any], best: Mapping[str, float], share: float) -> str:
    names = ", ".join(result["group"])
    state = group_state(dict(result), best, share)
    return f"each pair is fast, but {names} together are not ({state}): look at the switch and the cables between them"


def group_state(result: dict[str, Any], best: Mapping[str, float], share: float) -> str:
    """Why a group is not good, in words."""
    if result["problem"]:
        return str(result["problem"])
    short = tournament.shortfall(result, dict(best), share)
    if short is None:
        return "fast enough"
    name, value, _limit = short
    unit = tournament.FIGURES[name]
    return f"{value:.4g} {unit}, {100 * (1 - value / best[name]):.0f} % below the best pair's {best[name]:.4g} {unit}"


def verdict_of(findings: Sequence[Finding]) -> str:
    return REFUSED if any(finding.status == FAIL for finding in findings) else ACCEPTED
