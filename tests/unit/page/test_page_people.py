"""The page speaks to people: questions, since when, who acts, how many GPUs can be used, each host its own detail."""

from __future__ import annotations

import copy

import healthy_node
import node_names
import pytest
from ansible_collections.gpuwright.node.plugins.plugin_utils.page.people import question, since, usable
from gpuwright.checks.all import run_checks
from gpuwright.verdict.report import make_report
from page_samples import NOW, make_pages, report

ADDRESS = node_names.PCI_ID


def made(readings: dict, **expected: object) -> dict:
    expectations = healthy_node.expectations(**expected)
    checks = run_checks(readings, expectations, healthy_node.smoke())
    return make_report("a5-01", NOW, checks, readings, expectations, healthy_node.smoke())


def two_cards() -> dict:
    readings = healthy_node.readings()
    for cards in (readings["probe"]["gpus"], readings["nvidia_smi"]["gpus"]):
        cards.append({**copy.deepcopy(cards[0]), "pci_id": "0000:5e:00.0"})
    return readings


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        ({}, "2 of 2"),
        ({"lost": True}, "1 of 2"),
        ({"lost": "unknown"}, "1 of 2"),
        ({"retired_pages_pending": True}, "1 of 2"),
    ],
)
def test_how_many_gpus_can_be_used(change, expected):
    readings = two_cards()
    readings["nvidia_smi"]["gpus"][1].update(change)
    assert usable(made(readings, gpu_count=2)) == expected


def test_without_an_answer_of_the_driver_there_is_none_or_nobody_knows():
    readings = two_cards()
    readings["nvidia_smi"].update(reachable=False, status="driver_not_loaded", message="not loaded", gpus=[])
    assert usable(made(readings, gpu_count=2)) == "0 of 2"
    readings["nvidia_smi"].update(status="unreadable")
    assert usable(made(readings, gpu_count=2)) == "? of 2"
    assert usable(None) == "?"


def test_since_when_as_far_as_two_reports_tell():
    readings = healthy_node.readings()
    readings["host"]["clock_source"] = "hpet"
    now, good = made(readings), {**report(), "time": "2026-01-01T00:00:00Z"}
    assert since("host.clock_source", now, good) == "new since 2026-01-01T00:00:00Z"
    assert since("host.clock_source", now, {**now, "time": "2026-01-02T00:00:00Z"}).startswith("since 2026-01-02")
    assert since("host.clock_source", now, None) == f"seen at {NOW}"


def test_a_finding_is_a_question_with_who_acts_and_what_follows():
    readings = healthy_node.readings()
    readings["nvidia_smi"].update(
        reachable=False, status="driver_not_loaded", message="not loaded", gpus=[], action="modprobe nvidia"
    )
    page = make_pages([("a5-01", made(readings), None, "")])["hosts/a5-01.html"]
    assert question(["driver.reachable"]) in page and "To be done by root on the node" in page
    assert "more findings are because of this" in page and "GPUs that can be used: <b>0 of 1</b>" in page
    assert page.count('class="next"') == 1


def test_no_host_is_told_the_detail_of_another():
    hosts = []
    for number in range(4):
        readings = healthy_node.readings()
        readings["probe"]["cpu"] = {"sockets": 2, "physical_cores": 20, "logical_cpus": 20}
        readings["host"]["environment"] = ["LD_PRELOAD" if number % 2 else "CUDA_LAUNCH_BLOCKING"]
        readings["host"]["clock_source"] = "hpet" if number % 2 else "acpi_pm"
        hosts.append((f"a5-0{number}", made(readings), None, ""))
    fleet = make_pages(hosts)["index.html"].partition('<section id="fleet">')[0]
    assert "For example" not in fleet
    entries = [entry for entry in fleet.split('<li class="WARN">') if "To be done by" in entry]
    for number in range(4):
        # The same command for all: one entry, in which each host has its own line.
        clock = "hpet" if number % 2 else "acpi_pm"
        assert f"<li>a5-0{number}: the clock source is {clock}</li>" in fleet
        # A command of its own: an entry of those hosts alone.
        word, other = ("LD_PRELOAD", "CUDA_LAUNCH_BLOCKING")[:: 1 if number % 2 else -1]
        (own,) = [text for text in entries if "host.environment" in text and f'"hosts/a5-0{number}.html"' in text]
        assert f"<p>set for all users: {word}</p>" in own and f"({word})" in own and other not in own
    assert len(entries) == 3
