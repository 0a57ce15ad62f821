"""Every field of nvidia-smi's answer that can say "broken" is judged: break one leaf, and a check notices.

Healthy answers of every architecture and form of driver pass; then each leaf gets each of the values that hardware, or
a failed reading, leaves there (`nvidia_smi_fields.JUDGED`). What is left alone has a reason in NOT_JUDGED.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from xml.etree import ElementTree

import answers
import healthy_node
import nvidia_smi_fields as fields
import pytest
from gpuwright.checks.all import CHECKS, run_checks
from gpuwright.gpu.nvidia_smi import query as nvidia_smi
from gpuwright.gpu.nvidia_smi.values import NOT_THERE, clean
from gpuwright.host.bounded import Finished
from gpuwright.verdict.check import FAIL, QUICK, UNKNOWN, WARN

REPOSITORY = Path(__file__).resolve().parents[2]
BAD = (FAIL, UNKNOWN, WARN)
OF_THE_ANSWER = tuple(
    check
    for check in CHECKS
    if check.level == QUICK
    and (
        check.id.startswith("gpu.")
        or check.id
        in ("driver.reachable", "driver.ecc", "driver.retired_pages", "driver.persistence", "driver.version")
    )
)
# What a healthy answer may say besides PASS and SKIP, and on which cards.
WORDS_OF_HEALTHY = {"gpu.mig_mode": "MIG is Enabled", "gpu.known_card": "no row for"}
CASES = answers.cases()
# Each form of an answer once, each card with its newest driver, and MIG.
FORMS = {(model.architecture, driver): (model, driver, mig) for model, driver, mig in reversed(CASES) if not mig}
BROKEN = [case for case in CASES if case[2] or case in FORMS.values() or case[1] == max(answers.drivers_of(case[0]))]


def name_of(case: tuple) -> str:
    model, driver, mig = case
    return f"{model.name.replace(' ', '-')}-{driver}{'-mig' if mig else ''}"


def record_of(text: str) -> dict:
    """What a node reads when nvidia-smi answers with this text."""
    return nvidia_smi.record_of(Finished(0, text, "", timed_out=False, missing=False, truncated=False, problem=""))


def judge(text: str, like: dict | None = None, only: tuple[str, ...] = ()) -> dict[str, dict]:
    """The records of the checks, by name, on a node that has just these cards; `like` is the healthy record."""
    chosen = [check for check in OF_THE_ANSWER if not only or check.id in only]
    readings = healthy_node.readings()
    answer = readings["nvidia_smi"] = record_of(text)
    known = like or answer
    slot = readings["probe"]["gpus"][0]
    readings["probe"]["gpus"] = [{**slot, "pci_id": gpu["pci_id"], "name": gpu["name"]} for gpu in known["gpus"]]
    readings["probe"]["nvidia"]["loaded"]["version"] = known["driver_version"]
    expectations = healthy_node.expectations(gpu_count=len(known["gpus"]), gpu_model=known["gpus"][0]["name"])
    expectations["plan"]["driver"]["branch"] = known["driver_version"].split(".")[0]
    return {record["id"]: record for record in run_checks(readings, expectations, checks=chosen, level=QUICK)}


def leaves(element: ElementTree.Element, path: str = "") -> list[tuple[str, ElementTree.Element]]:
    """(path below the card, element) of everything that holds a value."""
    if not len(element):
        return [(path, element)]
    return [leaf for child in element for leaf in leaves(child, f"{path}/{child.tag}" if path else child.tag)]


def mutants(path: str, text: str) -> list[str]:
    """The values that this leaf gets; none for a leaf that is left alone or says that the card has no such thing."""
    rule = fields.rule_of(path)
    if rule is None or clean(text) in (*NOT_THERE, answers.GONE, ""):
        return []
    absent = [fields.ABSENT] if rule.needed else []
    return [value for value in (*rule.broken, *fields.UNREADABLE, *absent) if value != clean(text)]


@pytest.mark.parametrize(("model", "driver", "mig"), CASES, ids=map(name_of, CASES))
def test_a_healthy_answer_passes(model, driver, mig):
    text = answers.answer(model, driver, mig)
    record = record_of(text)
    assert (record["status"], record["driver_version"]) == ("ok", answers.VERSIONS[driver][0])
    unread = [
        name for gpu in record["gpus"] for name, value in (*gpu.items(), *gpu["health"].items()) if value == "unknown"
    ]
    assert unread == (["architecture"] * 2 if model.architecture == "rubin" else [])
    found = judge(text)
    bad = {name: one["message"] for name, one in found.items() if one["status"] in BAD}
    assert {name: words for name, words in bad.items() if WORDS_OF_HEALTHY.get(name, "?") not in words} == {}
    assert bool(bad) == (mig or model.architecture == "rubin")


def broken(model: answers.Model, driver: int, mig: bool) -> Iterator[tuple[str, str, tuple[str, ...], bool]]:
    """(path, value, checks that must notice it, whether one does) of every way in which one field is broken."""
    text = answers.answer(model, driver, mig)
    healthy = record_of(text)
    before = judge(text)
    root = ElementTree.fromstring(text)
    for path, leaf in leaves(root.findall("gpu")[0]):
        right, rule = leaf.text, fields.rule_of(path)
        for value in mutants(path, right or ""):
            assert rule is not None, path
            leaf.text = value
            after = judge(ElementTree.tostring(root, encoding="unicode"), healthy, rule.checks)
            worse = [name for name in rule.checks if name in after and after[name]["status"] in BAD]
            yield path, value, rule.checks, any(after[name] != before[name] for name in worse)
        leaf.text = right


@pytest.mark.parametrize(("model", "driver", "mig"), BROKEN, ids=map(name_of, BROKEN))
def test_every_field_that_can_say_broken_is_judged(model, driver, mig):
    tried = list(broken(model, driver, mig))
    unnoticed = [f"{path} = {value}: {names}" for path, value, names, noticed in tried if not noticed]
    looked_at = len({path for path, _value, _names, _noticed in tried})
    print(f"\n{model.name} {driver}: {looked_at} fields, {len(tried)} mutants, {len(unnoticed)} unnoticed")
    assert len(tried) > 100
    assert unnoticed == [], "\n".join(unnoticed)


@pytest.mark.parametrize("words", fields.CARD_WORDS)
@pytest.mark.parametrize(("model", "driver"), [(model, max(answers.drivers_of(model))) for model in answers.MODELS])
def test_a_word_for_the_whole_card_is_noticed_in_any_field(model, driver, words):
    text = answers.answer(model, driver)
    healthy = record_of(text)
    root = ElementTree.fromstring(text)
    for path, leaf in leaves(root.findall("gpu")[-1]):
        right, leaf.text = leaf.text, words
        after = judge(ElementTree.tostring(root, encoding="unicode"), healthy)
        leaf.text = right
        assert after["driver.reachable"]["status"] == FAIL, path
        if "lost" in words:
            assert after["driver.reachable"]["remedy"] == "power-cycle", path
        assert "fabricmanager" not in after["driver.reachable"]["action"]


def test_no_pattern_is_without_use():
    """Each row of the two tables is about a leaf that some answer has, so that neither excuses what is not there."""
    paths = {
        path
        for model, driver, mig in CASES
        for path, _leaf in leaves(ElementTree.fromstring(answers.answer(model, driver, mig)).findall("gpu")[0])
    }
    used = {
        next(row for row in fields.JUDGED if fields.fnmatchcase(path, row)) for path in paths if fields.rule_of(path)
    }
    assert set(fields.JUDGED) - used <= {
        # Of guests with a part of a card, which tests/unit/doctor/test_vgpu_guest.py breaks.
        "vgpu_software_licensed_product/license_status",
        "processes/process_info/type",
        "processes/process_info/process_name",
    }
    known = {check.id for check in CHECKS}
    assert {name for rule in fields.JUDGED.values() for name in rule.checks} <= known
    assert all(fields.NOT_JUDGED.values())


def test_a_rack_card_with_eleven_broken_fields_fails_in_eleven_checks():
    text = answers.answer(next(model for model in answers.MODELS if model.name == "NVIDIA GB200"), 580)
    healthy = record_of(text)
    broken = {
        "fabric/health/bandwidth": "Degraded",
        "fabric/health/route_unhealthy": "True",
        "fabric/health/access_timeout_recovery": "True",
        "fabric/health/summary": "Unhealthy",
        "fabric/health/incorrect_configuration": "Incorrect SysGUID",
        "ecc_errors/channel_repair_pending": "Yes",
        "ecc_errors/tpc_repair_pending": "Yes",
        "fb_memory_usage/total": "0 MiB",
        "pci/pci_gpu_link_info/pcie_gen/current_link_gen": "1",
        "remapped_rows/row_remapper_histogram/row_remapper_histogram_none": "3 bank(s)",
        "temperature/memory_temp": "105 C",
    }
    root = ElementTree.fromstring(text)
    for path, value in broken.items():
        leaf = root.findall("gpu")[0].find(path)
        assert leaf is not None, path
        leaf.text = value
    found = judge(ElementTree.tostring(root, encoding="unicode"), healthy)
    assert len([name for name, record in found.items() if record["status"] == FAIL]) >= len(broken)


def test_the_page_is_written_from_the_tables():
    assert (REPOSITORY / "docs/nvidia-smi-fields.md").read_text() == fields.page(), "run `make docs`"


def test_every_leaf_of_recorded_answers_is_known():
    """Of our own files, or of a folder of answers that others recorded, which CORPUS names."""
    files = sorted(Path(os.environ.get("CORPUS") or REPOSITORY / "tests/unit/data").rglob("*.xml"))
    assert files
    unknown = set()
    for file in files:
        text = file.read_text()
        if "<nvidia_smi_log" in text:
            for gpu in ElementTree.fromstring(text[text.index("<nvidia_smi_log") :]).findall("gpu"):
                for path, _leaf in leaves(gpu):
                    try:
                        fields.rule_of(path)
                    except KeyError as error:
                        unknown.add(str(error))
    assert unknown == set()
