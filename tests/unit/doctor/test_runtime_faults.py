"""Each fault of `fault_rows` through the whole stack but Ansible: module, gpu-doctor with its exit code, page."""

from __future__ import annotations

import html
import json
import os
import shutil
import time
from collections.abc import Callable
from pathlib import Path

import gpuwright.doctor.program
import healthy_files
import healthy_kernel
import healthy_node
import pytest
from fault_rows import ROWS, TOKEN_FIELDS, TOKENS, Row
from gpuwright.verdict.commands import lines_of
from host_tree import HostTree
from module_files import load_file
from page_samples import make_pages

CAPTURES = Path(__file__).parents[1] / "data/nvidia_smi"
TOOL = Path(__file__).resolve().parents[2] / "fleet/fake-nvidia-smi"
EXIT_STATUS = {"FAIL": 1, "UNKNOWN": 3, "WARN": 0, "PASS": 0}
NOW = "2026-01-06T10:00:00Z"
SECONDS = 1.0

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="files of the made-up node must belong to root")
player = load_file(TOOL)


@pytest.fixture
def play(fake_bin: Callable, tmp_path: Path) -> Callable[[Row], None]:
    """The node's programs, and nvidia-smi as the row plays it."""
    healthy_files.put_commands(fake_bin)

    def install(row: Row) -> None:
        script = {"play": str(CAPTURES / f"{row.capture}.xml"), **row.smi}
        player.make(str(tmp_path / "fake_bin"), script)
        for program, line in row.commands.items():
            text = f"#!/bin/sh\ncat <<'E'\n{line}\nE\n"
            if program == "journalctl":
                log = f"{healthy_kernel.KERNEL_LOG}[   10.000001] a5-01 kernel: {line}\n"
                text = healthy_kernel.journalctl(log)
            fake_bin(program, text)

    return install


@pytest.fixture
def examine(play: Callable, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys) -> Callable[[Row], tuple]:
    """(exit status, report) of `gpu-doctor --level quick --json` on a node that is healthy but for the row."""

    def run(row: Row) -> tuple[int, dict]:
        play(row)
        host = HostTree(tmp_path / "node")
        healthy_files.put_node(host)
        if row.node:
            row.node(host)
        host.put("/etc/gpuwright/expectations.json", json.dumps(healthy_node.expectations(**row.expected)))
        monkeypatch.setenv("PATH", f"{tmp_path / 'fake_bin'}:/usr/bin:/bin")
        collect = gpuwright.doctor.program.collect

        def impatient(expectations: dict, root: str, _seconds: float, level: str, site: bool) -> dict:
            return collect(expectations, root, SECONDS, level, site=site)

        monkeypatch.setattr(gpuwright.doctor.program, "collect", impatient)
        status = gpuwright.doctor.program.main(["--level", "quick", "--json"], root=host.root)
        report = json.loads(capsys.readouterr().out)
        monkeypatch.undo()
        shutil.rmtree(host.folder)
        return status, report

    return run


def page_of(report: dict) -> str:
    return html.unescape(make_pages([("a5-01", report, None, "")], NOW)["hosts/a5-01.html"])


def holds(report: dict, says: tuple) -> None:
    """Report and page both have these findings, with what to do: what follows from another, once that one is mended."""
    found = {check["id"]: check for check in report["checks"]}
    page = page_of(report)
    to_do = page[page.index("What to do next") : page.index("<h2>Drift")]
    for check_id, status, words in says:
        check = found[check_id]
        assert (check["status"], words in check["message"]) == (status, True), check
        assert check["action"] and check_id in page and check["message"] in page
        cause = found[check.get("caused_by", check_id)]
        assert cause["status"] in ("FAIL", status) and not cause.get("caused_by"), cause
        assert cause["action"] and cause["message"] in to_do
        assert [line for line in lines_of(cause["action"]) if line not in to_do] == []
        assert cause["id"] in to_do and ("because of this" in to_do or cause is check)


@pytest.mark.parametrize("row", ROWS, ids=[row.name for row in ROWS])
def test_a_fault_is_told_by_doctor_and_page(examine, row):
    begin = time.monotonic()
    status, report = examine(row)
    assert time.monotonic() - begin < SECONDS + 5
    holds(report, row.says)
    worst = "FAIL" if any(said[1] == "FAIL" for said in row.says) else row.says[0][1]
    assert (report["verdict"], status) == (worst, EXIT_STATUS[worst])
    # What is said is the fault alone: nothing else on the node is called bad.
    assert f'<span class="word {worst}">{worst}</span>' in page_of(report)


@pytest.mark.parametrize("row", [row for row in ROWS if row.smi], ids=[row.name for row in ROWS if row.smi])
def test_a_fault_is_told_by_the_module(run_module, play, row):
    play(row)
    answer = run_module("nvidia_smi_info", {"timeout": SECONDS})
    assert (answer["status"], answer["rc_process"]) == (row.status, 0)
    assert row.status == "ok" or (answer["message"] and answer["action"])


def test_the_healthy_node_passes(examine):
    status, report = examine(Row("healthy", ()))
    assert (status, report["verdict"]) == (0, "PASS")
    assert "Nothing: the node is as it should be." in page_of(report)


@pytest.mark.parametrize("reason", ["gpu_idle", "sw_power_cap"])
def test_harmless_reasons_for_low_clocks_are_no_fault(examine, reason):
    name = f"clocks_event_reasons/clocks_event_reason_{reason}"
    assert examine(Row("idle", (), smi={"set": {name: "Active"}}))[1]["verdict"] == "PASS"


@pytest.mark.parametrize("path", TOKEN_FIELDS)
def test_a_word_in_the_place_of_a_value_is_unknown(examine, path):
    """Every word of the grammar, where the card certainly has the value."""
    for token in TOKENS:
        status, report = examine(Row("token", (), smi={"set": {path: token}}))
        found = {check["id"]: check["status"] for check in report["checks"]}
        asks_for_reset = token == "[GPU requires reset]"
        assert found[TOKEN_FIELDS[path]] == "UNKNOWN", (token, found)
        assert (report["verdict"], status) == (("FAIL", 1) if asks_for_reset else ("UNKNOWN", 3)), token
