"""One row per card: what each must say of itself, and what becomes of a card that has no row."""

from __future__ import annotations

import ast
import copy
import json
import re
from pathlib import Path
from typing import Any

import healthy_node
import jsonschema
import pytest
from ansible_collections.gpuwright.node.plugins.filter import matrix as MATRIX_FILTER
from ansible_collections.gpuwright.node.plugins.plugin_utils.plan.question import imagined_host
from ansible_collections.gpuwright.node.plugins.plugin_utils.plan.solve import solve
from conftest import REPOSITORY
from gpuwright.checks.all import run_checks
from gpuwright.gpu.cards import (
    CARDS,
    CHIPS,
    CONSUMER,
    DATA_CENTRE,
    UNPLACED,
    card_of,
    chip_of,
    could_be,
    examples,
    has_tensor_cores,
    may_lack_ecc,
)
from gpuwright.gpu.device_rows import Card as Row
from gpuwright.gpu.device_table import ARCHITECTURES, KNOWN_GOOD
from gpuwright.gpu.nvidia_smi.absent import Card, believed
from gpuwright.gpu.nvidia_smi.values import UNKNOWN
from gpuwright.verdict.check import FAIL, PASS, SKIP, WARN
from test_plan_questions import MATRIX

SCHEMA = json.loads((REPOSITORY / "roles/preflight/files/matrix.schema.json").read_text())
SERVERS = [card for card in CARDS if card.card_class == DATA_CENTRE]
CONSUMERS = [card for card in CARDS if card.card_class == CONSUMER]


def name(card: object) -> str:
    return f"{card.name} {card.ids[0]}" if isinstance(card, Row) else str(card)


def judged(**changes: object) -> dict[str, str]:
    """The statuses of a healthy node after these changes of what nvidia-smi says of its GPU."""
    readings = healthy_node.readings()
    readings["nvidia_smi"]["gpus"][0].update(changes)
    return {record["id"]: record["status"] for record in run_checks(readings, healthy_node.expectations())}


@pytest.mark.parametrize("field", ["class", "memory", "mig", "ecc"])
@pytest.mark.parametrize("card", ["Tesla T4", "NVIDIA GeForce RTX 2080"])
def test_the_form_asks_for_what_every_card_must_say(card: str, field: str) -> None:
    matrix = copy.deepcopy(MATRIX)
    chip = card_of(card).chip
    del matrix["devices"][chip]["cards"][card][field]
    with pytest.raises(jsonschema.ValidationError, match=field):
        jsonschema.Draft202012Validator(SCHEMA).validate(matrix)


@pytest.mark.parametrize("card", SERVERS, ids=name)
def test_a_data_centre_card_without_ecc_fails(card: Any) -> None:
    """By name alone, as from older drivers and shortened answers, and by both."""
    for device_id in ("", *card.ids):
        assert judged(name=card.name, device_id=device_id, ecc_mode="Disabled")["driver.ecc"] == FAIL


@pytest.mark.parametrize("card", CONSUMERS, ids=name)
def test_a_consumer_card_without_ecc_is_left_out(card: Any) -> None:
    for mode in (None, "Disabled"):
        assert judged(name=card.name, device_id=card.ids[0], ecc_mode=mode)["driver.ecc"] == SKIP
    assert believed(None, "ecc_mode", Card(card.name, chip_of(card).architecture, None, None, card.ids[0])) is None


@pytest.mark.parametrize("card", SERVERS, ids=name)
def test_what_a_data_centre_card_does_not_say_is_unknown(card: Any) -> None:
    asked = Card(card.name, chip_of(card).architecture, "Disabled", "Enabled", card.ids[0])
    repairs = {"pages": "retired_pages_pending", "rows": "remapped_rows_pending"}
    assert believed(None, repairs[ARCHITECTURES[chip_of(card).architecture].memory_repair], asked) == UNKNOWN
    assert believed(None, "power_draw_w", asked) == UNKNOWN
    assert believed(None, "ecc_mode", asked) == (None if card.ecc == "none" else UNKNOWN)
    assert believed(None, "mig_mode", asked) == (UNKNOWN if card.mig else None)


def test_a_card_that_nothing_places_is_judged_strictly() -> None:
    found = card_of("NVIDIA B400", "4abc")
    assert (found.listed, found.card_class, found.chip) == (False, UNPLACED, None)
    wrong = judged(name="NVIDIA B400", device_id="4abc", ecc_mode="Disabled", retired_pages_pending=None)
    assert (wrong["driver.ecc"], wrong["driver.retired_pages"], wrong["gpu.known_card"]) == (FAIL, "UNKNOWN", WARN)
    silent = judged(name="NVIDIA B400", device_id="4abc", ecc_mode=None)
    assert silent["driver.ecc"] == "UNKNOWN"


@pytest.mark.parametrize(
    "unlisted", ["NVIDIA GeForce RTX 6090", "GeForce RTX 6090", "NVIDIA TITAN Z", "NVIDIA GeForce RTX 4060 Made Up"]
)
def test_an_unlisted_geforce_does_not_fail_for_lack_of_ecc(unlisted: str) -> None:
    found = judged(
        name=unlisted,
        device_id="4abc",
        ecc_mode=None,
        ecc_uncorrected_volatile=None,
        retired_pages_pending=None,
    )
    assert (found["driver.ecc"], found["driver.retired_pages"], found["gpu.known_card"]) == (SKIP, SKIP, WARN)


@pytest.mark.parametrize(
    ("unlisted", "card_class"),
    [
        ("NVIDIA RTX PRO 7000 Rubin Server Edition", DATA_CENTRE),
        ("NVIDIA RTX PRO 7000 Rubin", "workstation"),
        ("Quadro K2200", "workstation"),
        ("NVIDIA B500-SXM8-192GB", DATA_CENTRE),
        ("NVIDIA R200", UNPLACED),
        ("Tesla X100", UNPLACED),
        ("GeForceful B400", UNPLACED),
        ("NVIDIA L4 for GeForce NOW", UNPLACED),
        ("", UNPLACED),
        ("unknown", UNPLACED),
    ],
)
def test_lines_of_products_place_unlisted_cards(unlisted: str, card_class: str) -> None:
    assert card_of(unlisted).card_class == card_class


@pytest.mark.parametrize(
    ("spelling", "device_id", "row"),
    [
        ("NVIDIA A100-SXM4-40GB", "", "NVIDIA A100-SXM4-40GB"),
        ("A100-SXM4-40GB", "", "NVIDIA A100-SXM4-40GB"),
        ("a100-sxm4-40gb", "", "NVIDIA A100-SXM4-40GB"),
        ("NVIDIA  Tesla V100-PCIE-16GB", "", "Tesla V100-PCIE-16GB"),
        ("GeForce GTX 1070 Ti", "", "NVIDIA GeForce GTX 1070 Ti"),
        ("NVIDIA PG509-210", "", "NVIDIA A100-SXM4-80GB"),
        ("NVIDIA GH200 480GB", "", "NVIDIA GH200"),
        # The id decides over any name, and over none.
        ("Graphics Device", "2184", "NVIDIA GeForce GTX 1660"),
        ("NVIDIA GeForce RTX 3090", "20B0", "NVIDIA A100-SXM4-40GB"),
        ("", "1eb8", "Tesla T4"),
        # Cards that share an id are told apart by name.
        ("NVIDIA A16", "25b6", "NVIDIA A16"),
        ("NVIDIA A2", "25b6", "NVIDIA A2"),
        ("Quadro RTX 8000", "1e30", "Quadro RTX 8000"),
        ("Graphics Device", "25b6", "NVIDIA A2"),
        # An id without a row, or none that can be read: the name says it.
        ("NVIDIA GB200", "2341", "NVIDIA GB200"),
        ("NVIDIA A10G", "0000", "NVIDIA A10G"),
        ("NVIDIA L40S", "zz", "NVIDIA L40S"),
    ],
)
def test_which_row_a_card_has(spelling: str, device_id: str, row: str) -> None:
    assert card_of(spelling, device_id).name == row


@pytest.mark.parametrize(
    "near", ["NVIDIA A100-PCIE-40G", "NVIDIA A1000", "NVIDIA L40SX", "Tesla T40", "NVIDIA H1000 PCIe"]
)
def test_a_name_that_is_nearly_one_has_no_row(near: str) -> None:
    assert not card_of(near).listed and card_of(near).card_class == UNPLACED


def test_an_unlisted_card_of_a_known_chip_inherits_the_chip() -> None:
    """20ff lies in the block of GA100, and no card of the table has it."""
    found = card_of("NVIDIA A999", "20ff")
    assert (found.listed, found.chip, chip_of(found).architecture) == (False, "GA100", "ampere")
    asked = Card("NVIDIA A999", chip_of(found).architecture, "Disabled", "Enabled", "20ff")
    assert (
        believed(None, "remapped_rows_pending", asked) == UNKNOWN
        and believed(None, "retired_pages_pending", asked) is None
    )


@pytest.mark.parametrize(
    ("device_id", "chip"), [("1d80", "GV100"), ("1dff", "GV100"), ("1d7f", "GP108"), ("1e00", "TU102")]
)
def test_a_block_begins_and_ends_with_its_own_ids(device_id: str, chip: str) -> None:
    assert card_of(device_id=device_id).chip == chip


@pytest.mark.parametrize(
    ("card", "may"),
    [
        ("Tesla M10", True),
        ("Tesla T4", False),
        ("NVIDIA GeForce RTX 4090", True),
        ("NVIDIA RTX A6000", False),
        ("Quadro P4000", True),
        ("Quadro K2200", True),
        ("NVIDIA B400", False),
        ("NVIDIA RTX PRO 7000 Rubin Server Edition", False),
    ],
)
def test_which_card_may_lack_ecc(card: str, may: bool) -> None:
    assert may_lack_ecc(card_of(card)) is may


@pytest.mark.parametrize(
    ("card", "capability", "has"),
    [
        ("Tesla V100-PCIE-16GB", "7.0", True),
        ("NVIDIA GeForce RTX 2080 Ti", "7.5", True),
        ("NVIDIA GeForce GTX 1660 SUPER", "7.5", False),
        ("NVIDIA GeForce GTX 1650", "7.5", False),
        ("NVIDIA GeForce GTX 1080 Ti", "6.1", False),
        ("Tesla P100-PCIE-16GB", "6.0", False),
        ("NVIDIA R200", "13.0", True),
    ],
)
def test_tensor_cores(card: str, capability: str, has: bool) -> None:
    assert has_tensor_cores(card_of(card), capability) is has


def test_a_name_of_a_shared_id_fits_each_of_its_cards() -> None:
    assert could_be("NVIDIA A2 or A16", "NVIDIA A16") and could_be("NVIDIA A2 or A16", "nvidia a2")
    assert could_be("NVIDIA GH200", "NVIDIA GH200 480GB") and could_be("Tesla T4", "tesla t4")
    assert not could_be("NVIDIA A2 or A16", "NVIDIA A10") and not could_be("Tesla T4", "NVIDIA T4G")


@pytest.mark.parametrize(
    ("wanted", "status"), [("NVIDIA A16", PASS), ("NVIDIA A2", PASS), ("NVIDIA A2 or A16", PASS), ("NVIDIA A10", FAIL)]
)
def test_the_inventory_names_one_of_the_cards_that_share_an_id(wanted: str, status: str) -> None:
    readings = healthy_node.readings()
    readings["probe"]["gpus"][0].update(name="NVIDIA A2 or A16", device_id="25b6")
    found = {r["id"]: r for r in run_checks(readings, healthy_node.expectations(gpu_model=wanted))}
    assert found["gpu.model"]["status"] == status


def test_the_plan_is_made_without_the_rows_of_cards() -> None:
    """The role leaves devices.yml out of what it sends to every host."""
    variables = (REPOSITORY / "roles/preflight/vars/main.yml").read_text()
    assert "| gpuwright.node.matrix(without=['devices.yml'])" in variables
    matrix = MATRIX_FILTER.matrix(str(REPOSITORY / "roles/preflight/files/matrix"), without=["devices.yml"])
    assert set(MATRIX) - set(matrix) - {"locks"} == {"devices", "card_naming", "known_good"}
    host = imagined_host("NVIDIA A40", "debian 12")
    assert solve({**matrix, "locks": []}, host, {}) == solve({**MATRIX, "locks": []}, host, {})


def test_rows_agree_with_each_other() -> None:
    for card in CARDS:
        assert card.chip in CHIPS and set(card.known_good) <= set(KNOWN_GOOD), card.name
        assert not (card.ecc == "none" and card.ecc_delivered), card.name
        assert not (str(card.memory_kind).startswith("hbm") and card.card_class == DATA_CENTRE and card.ecc == "none")
        assert not card.mig or chip_of(card).compute_capability >= "8.0" or chip_of(card).architecture == "blackwell"
        assert not card.direct_links or card.nvlink, card.name
    assert set(KNOWN_GOOD) == {name for card in CARDS for name in card.known_good}


def test_cards_of_one_name_differ_in_nothing_that_is_asked_for_by_name() -> None:
    kinds: dict[str, set] = {}
    by_id = ("chip", "ids", "first_driver", "later_branches", "peaks")
    for card in CARDS:
        same = tuple(value for name, value in card._asdict().items() if name not in by_id)
        kinds.setdefault(card.name, set()).add((chip_of(card).compute_capability, same))
    assert {found for found, rows in kinds.items() if len(rows) > 1} == set()


def test_every_compute_capability_that_has_a_card_has_one_example() -> None:
    found: dict[str, list[str]] = {chip_of(card).compute_capability: [] for card in CARDS}
    for card in examples():
        found[chip_of(card).compute_capability].append(card.name)
    assert {capability: names for capability, names in found.items() if len(names) != 1} == {}


# NVIDIA gave these one id; the name that nvidia-smi prints tells them apart.
OF_ONE_ID = {
    "1e30": {"Quadro RTX 6000", "Quadro RTX 8000"},
    "1e78": {"Quadro RTX 6000", "Quadro RTX 8000"},
    "25b6": {"NVIDIA A2", "NVIDIA A16"},
    "2bb3": {"NVIDIA RTX PRO 5000 Blackwell", "NVIDIA RTX PRO 5000 72GB Blackwell"},
}


def test_no_other_cards_share_an_id() -> None:
    """One that was copied with its row would give a card the limits of another."""
    names: dict[str, set[str]] = {}
    for card in CARDS:
        for device_id in card.ids:
            names.setdefault(device_id, set()).add(card.name)
    assert {device_id: cards for device_id, cards in names.items() if len(cards) > 1} == OF_ONE_ID


# -- No other place knows cards by name ------------------------------------------------------------------------

CARD_WORDS = re.compile(
    r"\b(Tesla|GeForce|Quadro|TITAN|RTX|GTX|SXM[0-9]?|[KMP][0-9]{2,3}|[VAHBLT][0-9]{1,3}[A-Z]?|G[BHVAKMP][0-9]{3})\b"
)
ARCHITECTURE_WORDS = re.compile(r"\b(kepler|maxwell|pascal|volta|turing|ampere|ada|hopper|blackwell)\b", re.IGNORECASE)
FOLDERS = ("plugins", "library", "roles", "tools", "deploy", "playbooks", "inventory")
# Sentences for people that name a card, by how they begin; no code decides by them.
SENTENCES = (
    "Choose an older PyTorch or another build",
    'a name that nvidia-smi prints, such as "Tesla V100-PCIE-16GB"',
    "GeForce and RTX captures of drivers 418 to 595",
    "Documented for the A5 server",
    'cards: "Tesla V100-PCIE-16GB", 10de:1db4',
)


def texts_of(code: str) -> list[str]:
    """The strings of a module without documentation, and without where a limit comes from."""
    tree = ast.parse(code)
    prose: set[ast.AST] = set()
    for node in ast.walk(tree):
        body = getattr(node, "body", None)
        if isinstance(body, list) and body and isinstance(body[0], ast.Expr):
            prose.add(body[0].value)
        target = node.targets[0] if isinstance(node, ast.Assign) else None
        documents = getattr(target, "id", getattr(target, "attr", "")) in (
            "DOCUMENTATION",
            "RETURN",
            "EXAMPLES",
            "__doc__",
        )
        of_source = isinstance(node, ast.keyword) and node.arg == "source"
        if isinstance(node, ast.Assign | ast.keyword) and (documents or of_source):
            prose.update(ast.walk(node.value))
    return [
        node.value
        for node in ast.walk(tree)
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and node not in prose
    ]


def names_in_code(code: str) -> list[str]:
    found = [text for text in texts_of(code) if CARD_WORDS.search(text) or ARCHITECTURE_WORDS.search(text)]
    return [text for text in found if not text.startswith(SENTENCES)]


def product_files() -> list[Path]:
    """All Python of the product but the trainer's, which runs without this table and names whose figures it repeats."""
    files = [file for folder in FOLDERS for file in (REPOSITORY / folder).rglob("*.py")]
    files += [REPOSITORY / "tools/gpu-plan"]
    left_out = {REPOSITORY / "plugins/module_utils/gpu/device_table.py"}
    return sorted(file for file in files if file not in left_out)


def test_no_code_knows_a_card_or_an_architecture_by_name() -> None:
    assert len(product_files()) > 150
    found = {str(file.relative_to(REPOSITORY)): names_in_code(file.read_text()) for file in product_files()}
    assert {file: texts for file, texts in found.items() if texts} == {}


@pytest.mark.parametrize(
    "code",
    [
        r'CARDS = re.compile(r"\b(A2|A10G|H20)\b")',
        'fast = "V100" in name',
        'RETIRES = ("volta", "turing")',
        'if name.startswith("NVIDIA RTX"): pass',
        'CARDS = ("K80", "GB200")',
    ],
)
def test_a_name_in_code_is_found(code: str) -> None:
    assert names_in_code(code) != []


def test_prose_is_not_taken_for_code() -> None:
    assert names_in_code('"""For the V100."""\nDOCUMENTATION = "H100"\nCheck(source="A100, 8 of them")\n') == []
