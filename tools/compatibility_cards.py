"""The first screen of docs/compatibility.md: the cards that people have, by system (tools/compatibility.py)."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import yaml

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "collections"))
from ansible_collections.gpuwright.node.plugins.module_utils.gpu import cards
from ansible_collections.gpuwright.node.plugins.plugin_utils.plan.candidates import has_ended
from ansible_collections.gpuwright.node.plugins.plugin_utils.plan.question import imagined_host
from ansible_collections.gpuwright.node.plugins.plugin_utils.plan.solve import solve

# How people name the systems; the first one of a row is asked.
NAMES = {
    "RHEL, Rocky, Alma 8": "rhel 8.10",
    "RHEL, Rocky, Alma 9": "rhel 9",
    "RHEL, Rocky, Alma 10": "rhel 10",
    "Debian 12": "debian 12",
    "Debian 13": "debian 13",
    "Ubuntu 22.04": "ubuntu 22.04",
    "Ubuntu 24.04": "ubuntu 24.04",
}
# Cards are named in data alone.
DATA: dict[str, Any] = yaml.safe_load(Path(__file__).with_suffix(".yml").read_text())
PEOPLE_HAVE: dict[str, str] = DATA["people_have"]
# Of a driver branch that its vendor no longer mends.
ENDED = " (ended)"
KEY = " (key)"
SUPPORT = Path(__file__).resolve().parents[1] / "SUPPORT.md"


def table(titles: list[str], rows: list[list[str]]) -> list[str]:
    lines = ["| " + " | ".join(titles) + " |", "|" + "---|" * len(titles)]
    return [*lines, *("| " + " | ".join(cell or " " for cell in row) + " |" for row in rows), ""]


def answer_in_short(matrix: dict[str, Any], card: str, system: str) -> str:
    """The newest plan in a cell: driver, toolkit, PyTorch."""
    answer = solve(matrix, imagined_host(card, system), {"profile": "current"})
    if "conflicts" in answer:
        return "no plan"
    lock = "" if answer["pytorch"]["locked"] else ", no lock file"
    branch = answer["driver"]["branch"]
    ended = ENDED if has_ended(matrix["drivers"][branch], matrix["as_of"]) else ""
    source = answer["driver"]["repository"]
    key = KEY if source.get("key_url") and not source["key_fingerprint"] else ""
    return f"{branch}{ended}, {answer['cuda']['version']}, {answer['pytorch']['version']}{lock}{key}"


def what_ran(name: str) -> str:
    """What SUPPORT.md says of a system beyond its plan: the words for how, and the release, if it is one of several."""
    rows = [[cell.strip() for cell in line.strip("|").split("|")] for line in SUPPORT.read_text().splitlines()]
    systems, _, major = name.rpartition(" ")
    found = []
    for system, releases, tested in (row[:3] for row in rows if len(row) == 4):
        words = [word for word in tested.split(", ") if word != "planned"]
        if words and system in systems.split(", ") and (releases == major or releases.startswith(f"{major}.")):
            found.append(", ".join(words) + (f" of {system} {releases}" if releases != major else ""))
    return "; ".join(found)


def columns(matrix: dict[str, Any]) -> list[tuple[str, list[str]]]:
    """Architectures that have the same answer on every system, newest first: the cards' names, and the answers."""
    found: dict[tuple[str, ...], list[str]] = {}
    for architecture, names in PEOPLE_HAVE.items():
        cards_of_it = [card for card in cards.examples() if cards.chip_of(card).architecture == architecture]
        # The newest card of an architecture; of Kepler, K80 is the only one with a plan at all.
        answers = tuple(answer_in_short(matrix, cards_of_it[-1].name, system) for system in NAMES.values())
        found.setdefault(answers, []).append(names)
    return [("; ".join(names), list(answers)) for answers, names in found.items()]


def first_page(matrix: dict[str, Any], refused: str) -> str:
    """One screen: the cards that people have, by system.

    refused  why hosts are refused whose cells have KEY, and what resolves it
    """
    groups = columns(matrix)
    letters = [chr(ord("A") + number) for number in range(len(groups))]
    rows = [[name, *(answers[number] for _, answers in groups), what_ran(name)] for number, name in enumerate(NAMES)]
    lines = [
        "# Does it fit my card and my system?",
        "",
        f"Written by `make docs` from the version matrix; do not edit. Last checked {matrix['as_of']}.",
        "",
        "1. Find your card:",
        "",
        *table(["group", "cards"], [[letter, names] for letter, (names, _) in zip(letters, groups, strict=True)]),
        "2. Find your system. A cell is what a plain `site.yml` installs: **driver, CUDA, PyTorch**.",
        "",
        *table(["system", *letters, "what ran"], rows),
        "* **No plan** means that no driver, CUDA and PyTorch fit both; the run says so before it changes anything.",
        "* **(ended)**: this driver gets no more updates. `gpu-plan` names its known vulnerabilities; another system "
        "may do better.",
        f"* **(key)**: the key of NVIDIA's repository is {refused}.",
        "* **A card cut into MIG devices** has the plan of its card ([mig.md](mig.md)).",
        "* **HGX and DGX boards** also get their fabric manager ([hgx.md](hgx.md)).",
        "* **vGPU guests** get the driver that your site names ([vgpu.md](vgpu.md)).",
        f"* **ARM servers** are planned only. {DATA['without_plan']}",
        "* **How sure is it?** [SUPPORT.md](../SUPPORT.md) explains the last column, and says what did not run.",
        "",
        "Ask for exactly yours, without any host:",
        "",
        "```",
        DATA["question"],
        "```",
        "",
        "Every card, every system and every version, with its source: [the complete tables](compatibility-tables.md).",
    ]
    return "\n".join([*lines, ""])
