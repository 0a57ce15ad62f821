"""The planner's answers are what the vendors' pages say (plan_questions.txt, _systems, _safety and _cards)."""

from __future__ import annotations

import operator
import re
from typing import Any

import pytest
from ansible_collections.gpuwright.node.plugins.plugin_utils.plan.question import imagined_host
from ansible_collections.gpuwright.node.plugins.plugin_utils.plan.solve import solve
from conftest import REPOSITORY
from gpuwright.host.versions import is_part_of, version_key
from test_plan_questions import MATRIX

FILES = (
    *("plan_questions.txt", "plan_questions_systems.txt"),
    *("questions/plan_questions_safety.txt", "questions/plan_questions_cards.txt"),
)
LINES = [line for name in FILES for line in (REPOSITORY / "tests/unit/plan" / name).read_text().splitlines()]
QUESTIONS = [[part.strip() for part in line.lstrip("! ").split("|")] for line in LINES if not line.startswith("#")]
# Behind a "!" at its beginning: the planner is wrong so far, and the test fails as soon as it is right.
WRONG = [line.startswith("!") for line in LINES if not line.startswith("#")]
LOCKS = [file.name for file in (REPOSITORY / "roles/framework_pytorch/files/locks").glob("*.txt")]
BOUNDS = {"<": operator.lt, ">=": operator.ge}


def parts_of(plan: dict[str, Any]) -> dict[str, str]:
    return {
        "driver": plan["driver"]["branch"],
        "cuda": plan["cuda"]["version"],
        "cudnn": plan["cudnn"]["version"],
        "python": plan["python"]["version"],
        "torch": plan["pytorch"]["version"],
        "build": plan["pytorch"]["build"],
        "tensorflow": plan["tensorflow"]["version"],
        "amp": plan["amp"]["dtype"],
        "index": "yes" if plan["pytorch"]["index_url"] else "no",
        "dcgm": plan["dcgm"]["packages"][-1].rsplit("-", 1)[-1] if plan["dcgm"]["packages"] else "none",
        "stream": plan["driver"]["stream"] or "none",
        "machine": plan["driver"]["repository"].get("url", "").rstrip("/").rsplit("/", 1)[-1],
    }


def shortfalls(plan: dict[str, Any], wanted: str) -> list[str]:
    """What of "driver>=570 open, cuda<13" is not true of a plan."""
    found = []
    claims, *others = wanted.split(" ; ")
    packages = [*plan["driver"]["packages"], *plan["platform"]["packages"], plan["cuda"]["package"]]
    packages += [*plan["cuda"]["compiler"], *plan["cudnn"]["packages"]]
    words = " ".join([*plan["warnings"], *plan["because"].values(), *plan["neighbours"].values()])
    for other in others:
        kind, _colon, what = other.partition(": ")
        true = {
            "has": any(name.startswith(what) for name in packages),
            "lacks": not any(name.startswith(what) for name in packages),
            "says": what in words,
            "silent": what not in words,
        }
        found += [other] * (not true[kind])
    for claim in claims.split(", "):
        match = re.fullmatch(r"([a-z]+)(<|>=|=)([a-z0-9.-]+)( open| proprietary)?", claim)
        assert match, claim
        name, relation, value, flavour = match.groups()
        have = parts_of(plan)[name]
        holds = is_part_of(have, value) if relation == "=" else BOUNDS[relation](version_key(have), version_key(value))
        if not holds or (flavour and plan["driver"]["flavour"] != flavour.strip()):
            found.append(f"{claim}, and it is {have} {plan['driver']['flavour'] if flavour else ''}")
    return found


@pytest.mark.parametrize(
    "question",
    [
        pytest.param(row, marks=pytest.mark.xfail(strict=True)) if wrong else row
        for row, wrong in zip(QUESTIONS, WRONG, strict=True)
    ],
    ids=lambda row: re.sub("[ ,]+", "_", "-".join(row[:3])),
)
def test_the_answer_is_what_the_vendors_say(question: list[str]) -> None:
    cards, place, pins, wanted, source = question
    system, _on, machine = place.partition(" on ")
    if wanted.startswith("?: "):
        with pytest.raises(ValueError, match=re.escape(wanted[3:])):
            imagined_host(cards, system, machine=machine)
        return
    host = imagined_host(cards, system, machine=machine, releases=MATRIX["os_releases"])
    host["today"] = MATRIX["as_of"]
    answer = solve({**MATRIX, "locks": LOCKS}, host, dict(pin.split("=", 1) for pin in pins.split(",") if pin))
    reasons = " ".join(entry["what"] for entry in answer.get("conflicts", []))
    if wanted.startswith("no: "):
        assert "conflicts" in answer, (source, answer["because"])
        words, _semicolon, offer = wanted[4:].partition(" ; offers: ")
        assert words in reasons, source
        choices = [choice for entry in answer["conflicts"] for choice in entry["choices"]]
        assert not offer or dict([offer.split("=")]) in choices, (source, choices)
    else:
        assert "conflicts" not in answer, (source, reasons)
        assert shortfalls(answer, wanted) == [], source


def test_there_are_enough_questions_and_each_has_a_source() -> None:
    # The same question may be asked again for another part of its answer.
    assert len({tuple(row[:4]) for row in QUESTIONS}) == len(QUESTIONS) >= 340
    assert sum(WRONG) <= 1
    assert all(len(row) == 5 and row[4] for row in QUESTIONS)
