"""The node's side of the burn-in: command lines, ports, and that whatever goes wrong becomes part of the record."""

from __future__ import annotations

import json
import socket
import subprocess
import time
from typing import Any

import pytest
from conftest import REPOSITORY
from gpuwright.host.bounded import Finished
from gpuwright.training.trainer_run import Run, RunError
from module_files import load_file

on_node = load_file("roles/accept/files/burn_in/on_node.py")
RECORD = {"schema": 1, "kind": "node", "problems": []}


def options(*words: str) -> Any:
    return on_node.parse(list(words))


def finished(stdout: str = "", rc: int | None = 0, stderr: str = "", timed_out: bool = False) -> Run:
    problem = "it did not finish within 9 s and was stopped" if timed_out else ""
    return Run(Finished(rc, stdout, stderr, timed_out, False, False, problem), None, "")


def test_it_speaks_the_python_of_rhel_8(node_python: str) -> None:
    file = REPOSITORY / "roles/accept/files/burn_in/on_node.py"
    program = "import sys; compile(open(sys.argv[1], encoding='utf-8').read(), 'x', 'exec')"
    assert subprocess.run([node_python, "-c", program, str(file)]).returncode == 0


def test_a_node_alone_is_loaded_through_the_launcher() -> None:
    words = on_node.command(options("node", "--device", "cpu", "--seconds", "3600", "--timeout", "4500"))
    assert words[:3] == ["/usr/local/bin/gpu-run", "--", "/opt/gpuwright/venvs/current/bin/python"]
    assert words[-7:] == ["node", "--device", "cpu", "--seconds", "3600", "--timeout", "4500"]


def test_a_group_is_started_by_torchrun() -> None:
    given = ("group", "--nodes", "4", "--node-rank", "2", "--ranks", "8", "--address", "10.0.0.1", "--port", "29500")
    words = on_node.command(options(*given))
    for word in ("torch.distributed.run", "--nnodes=4", "--node-rank=2", "--nproc-per-node=8",
                 "--master-addr=10.0.0.1", "--master-port=29500", "group"):  # fmt: skip
        assert word in words


def test_a_free_port_is_found_and_a_used_one_is_a_problem() -> None:
    assert on_node.find_port(0)["port"] > 1023
    with socket.socket() as used:
        used.bind(("", 0))
        used.listen()
        port = used.getsockname()[1]
        found = on_node.find_port(port)
    assert found["port"] == 0 and f"port {port} cannot be used" in found["problem"]


def test_nobody_waits_for_a_rendezvous_without_port(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(on_node, "run_program", lambda *_: pytest.fail("it was started"))
    assert "no port" in on_node.run(options("group", "--port", "0"))["problem"]


def raises(*_arguments: Any) -> Run:
    raise RunError("there is no user trainer", "run the role model_trainer")


@pytest.mark.parametrize(
    ("run", "problem"),
    [
        (raises, "there is no user trainer"),
        (lambda *_: finished(rc=None, timed_out=True), "did not finish within 9 s"),
        (lambda *_: finished("no JSON", rc=3), "exit code 3"),
        (lambda *_: finished(rc=-9), "signal 9"),
    ],
)
def test_what_gives_no_record_says_why(monkeypatch: pytest.MonkeyPatch, run: Any, problem: str) -> None:
    monkeypatch.setattr(on_node, "run_program", run)
    answer = on_node.run(options("node", "--device", "cpu"))
    assert answer["record"] is None and problem in answer["problem"]


def test_the_cards_are_watched_while_the_program_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    def program(*_arguments: Any) -> Run:
        time.sleep(0.3)
        return finished(json.dumps(RECORD))

    gpu = {"pci_id": "0000:3b:00.0", "temperature_c": 64, "serial": "0324", "uuid": "GPU-1", "name": "V100"}
    values = {"clocks.sm": 1380, "clocks.mem": 877, "vbios_version": "88.00"}
    fields = [{"pci_id": "0000:3b:00.0", "name": "V100", "values": values}]
    said = {"reachable": True, "message": "", "gpus": [gpu], "fields": fields, "driver_version": "580.1"}
    monkeypatch.setattr(on_node, "run_program", program)
    monkeypatch.setattr(on_node, "LEAST_PAUSE_S", 0.05)
    monkeypatch.setattr(on_node, "ask", lambda *_: said)
    answer = on_node.run_watched(options("node", "--seconds", "1"))
    assert answer["record"] == RECORD and answer["looks"]
    # However short it is, what it counts is looked at before and after it.
    events: list[str] = []

    def noted(event: str, found: object) -> object:
        events.append(event)
        return found

    monkeypatch.setattr(on_node, "run_program", lambda *_: noted("run", finished(json.dumps(RECORD))))
    monkeypatch.setattr(on_node, "ask", lambda *_: noted("look", said))
    assert len(on_node.run_watched(options("node", "--seconds", "1"))["looks"]) >= 2
    assert (events[0], events[-1]) == ("look", "look") and "run" in events[1:-1]
    monkeypatch.setattr(on_node, "ask", lambda *_: said)
    row = answer["looks"][0]["gpus"][0]
    assert (row["temperature_c"], row["clock_sm_mhz"], row["clock_memory_mhz"]) == (64, 1380, 877)
    assert on_node.identity() == {
        "driver": "580.1", "problem": "",
        "gpus": [{"pci_id": "0000:3b:00.0", "name": "V100", "serial": "0324", "uuid": "GPU-1", "vbios": "88.00"}],
    }  # fmt: skip
    monkeypatch.setattr(on_node, "ask", lambda *_: {**said, "reachable": False, "message": "no answer"})
    assert on_node.look(3.0) == {"at_s": 3.0, "problem": "no answer"}
    assert on_node.identity()["problem"] == "no answer"
