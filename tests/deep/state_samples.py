"""A whole state file of each kind, what reads it, and the errors that its callers know."""

from __future__ import annotations

import importlib.machinery
import importlib.util
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import healthy_node
from ansible_collections.gpuwright.node.plugins.plugin_utils.history import kept as history
from ansible_collections.gpuwright.node.plugins.plugin_utils.history import trend
from ansible_collections.gpuwright.node.plugins.plugin_utils.page import folder as page
from ansible_collections.gpuwright.node.plugins.plugin_utils.rollout import judge
from ansible_collections.gpuwright.node.plugins.plugin_utils.rollout import state_file as rollout
from gpuwright.checks.containers import reading as containers
from gpuwright.checks.gpu import strikes_kept as strikes
from gpuwright.checks.waivers import acknowledgements
from gpuwright.doctor import root_result
from gpuwright.driver_change import kept_driver, kept_record
from gpuwright.first_record import ledger, stamp
from gpuwright.host.bounded import Finished
from gpuwright.host.secure_boot import mok_request
from gpuwright.launch import runtime_policy
from gpuwright.launch.calibration import chosen as calibrated
from gpuwright.operator import record as operator
from gpuwright.packages import package_sources
from gpuwright.probe import plan_choices
from gpuwright.readings import link_errors, software
from gpuwright.training import smoke_history
from gpuwright.tuning import reading as tuning
from gpuwright.tuning import store as tuning_store
from gpuwright.verdict import boot_check, expectations, last
from gpuwright.verdict.report import REPORT_PATH, now_utc

REPOSITORY = Path(__file__).resolve().parents[2]
BOOT = "11111111-2222-3333-4444-555555555555"


LOOKED = {
    "files": {"/etc/a": "file 644 0:0 00"},
    "packages": {"a": "1"},
    "users": {"a": "1:1"},
    "groups": {"a": "1"},
    "stamp": "0",
}


@dataclass(frozen=True)
class State:
    """A state file: where it lies below the root, a whole one, what reads it, and the errors that its callers know."""

    path: str
    whole: Any
    read: Callable[[str], Any]
    known: tuple[type[BaseException], ...] = ()


def look_again(*_arguments: Any, **_more: Any) -> dict[str, Any]:
    """A host on which one file has changed since."""
    return {"files": {"/etc/a": "file 644 0:0 01"}, "packages": {"a": "1"}, "users": {}, "groups": {}, "stamp": "1"}


def read_changes(root: str) -> None:
    """A run that begins after a killed one, and its end."""
    Path(root, ledger.RECORD[1:]).write_text("{}")
    ledger.begin("another", root, look_again, lambda *_arguments: ())
    ledger.end("another", root, look_again)


def program_of_drains() -> Any:
    loader = importlib.machinery.SourceFileLoader("drains", str(REPOSITORY / "deploy/slurm/gpuwright-drains"))
    spec = importlib.util.spec_from_loader("drains", loader)
    assert spec is not None
    module = importlib.util.module_from_spec(spec)
    loader.exec_module(module)
    return module


def read_history(root: str) -> None:
    """The page of the fleet, and the next sweep of this node."""
    found, _problem = history.read(root, "n1", begins=True)
    cards = [card for _node, card in history.cards_of({"n1": found}).values()]
    medians = trend.fleet_medians(cards * trend.LEAST_CARDS)
    for card in cards:
        trend.worst(card, medians)
        trend.grown(card)
        row = history.Row("H100", "slot", "s", {"gemm": 1.0}, {"ecc": 0.0})
        trend.worst(history.with_row(card, row, now_utc()), medians)
    for name in ("swept", "tried", "idle_since"):
        history.epoch(found[name])
    history.write(root, found)


def read_kept_driver(root: str) -> None:
    record = kept_record.read_record(root)
    if record is None:
        return
    kept_driver._tell(record, {})
    kept_record.differing_files(record["files"], root)
    kept_record.changes([], kept_record.packages_of(record), record["there"])


def read_rollout(root: str) -> None:
    record = rollout.read(Path(root, "rollout.json"))
    if record is None:
        return
    plans = {"a": "1", "new": "2"}
    again = rollout.with_batches(rollout.begun(record, "x", [], plans, plans, False), [["new"]])
    judge.of_start(again["hosts"], again["starts"])


def read_tuning_store(root: str) -> None:
    before = tuning_store.load(root)
    for path, record in before["files"].items():
        if path == "/etc/a":
            tuning_store.put_back(root, path, record)


def read_link_errors(root: str) -> None:
    """A look at a node with an adapter, which also keeps what it saw."""
    counter = Path(root, "sys/class/infiniband/mlx5_0/ports/1/counters/symbol_error")
    counter.parent.mkdir(parents=True, exist_ok=True)
    counter.write_text("5")
    found = link_errors.read_link_errors(root)
    link_errors.keep_link_errors({"link_errors": found, "moment": boot_check.read_moment(root)}, root)


def read_doctor(root: str) -> None:
    root_result.roots_results({}, now_utc(), root)
    last.read_last_verdict(root)


def read_gate(root: str) -> None:
    boot_check.gate(root)
    read_doctor(root)


def idle(_words: Any, _seconds: float) -> Finished:
    return Finished(0, "", "", False, False, False, "")


DRAINS = program_of_drains()
ROLLOUT = rollout.with_batches(
    {
        **rollout.begun(None, "x", ["/i"], {"a": "1", "b": "2"}, ["a", "b"], False),
        "rules": {"batches": [1, "10%"], "down_at_once": 0, "breaker_percent": 10},
        "run": {"machine": "m", "pid": 1, "started": "1", "controller": "c", "who": "w"},
    },
    [["a"], ["b"]],
)
REPORT = {
    "schema": 1,
    "host": "a",
    "time": "2026-01-05T10:00:00Z",
    "verdict": "FAIL",
    "expectations": {},
    "readings": {},
    "checks": [
        {
            "id": "gpu.sram",
            "layer": "system",
            "status": "FAIL",
            "unit": "",
            "message": "m",
            "action": "a",
            "remedy": "",
            "value": "1",
            "expected": "0",
            "code": "c",
            "items": ["x"],
        }
    ],
}
ENTRY: dict[str, Any] = dict.fromkeys(acknowledgements.FORM, "x")
ENTRY.update(id="gpu.sram", when="2026-01-05T10:00:00Z", until="2026-01-06T10:00:00Z", uid=0)
ENTRY.update(uptime_s=1.0, cards=["0000:3b:00.0"], last_s=None, count=1)
STATES = {
    "kept driver": State(
        kept_record.RECORD,
        {
            "schema": 1,
            "family": "redhat",
            "source": "node",
            "driver": "570.1",
            "packages": [["a", "1:2-3", "noarch"]],
            "patterns": ["*"],
            "there": ["a"],
            "links": [["/a", None], ["/b", "c"]],
            "bytes": 5,
            "time": "",
            "open": True,
            "files": [{"path": "/etc/a", "begin": "", "end": "", "text": "x", "mode": 420, "uid": 0, "gid": 0}],
            "sums": {"a.rpm": {"size": 5, "sha256": "00"}},
        },
        read_kept_driver,
        (kept_record.KeptError, OSError),
    ),
    "tuning before": State(
        tuning_store.BEFORE,
        {
            "schema": 1,
            "knobs": {"sysctl vm.a": "1"},
            "folders": ["/etc/b"],
            "files": {
                "/etc/a": {"content": "eA==", "mode": 420, "uid": 0, "gid": 0},
                "/etc/b": None,
                "/c": {"link": "d"},
            },
        },
        read_tuning_store,
        (ValueError,),
    ),
    "tuning": State(
        tuning.RECORD,
        {
            "schema": 1,
            "skipped": [],
            "settings": [{"name": "n", "wanted": "1", "reason": "r", "keys": {"sysctl vm.a": "1"}}],
        },
        tuning.read_tuning,
        (ValueError,),
    ),
    "rollout": State("/rollout.json", ROLLOUT, read_rollout, (rollout.RecordError,)),
    "stamp of a host": State(
        stamp.STAMP,
        {"schema": 1, "inputs": "1", "names": ["/etc/a", "trainer"], "parts": {"files": "00", "units": "00"}},
        lambda root: stamp.read_stamp(root, idle),
    ),
    "package sources": State(
        "/sources.json",
        {"/etc/yum.repos.d/a.repo": ["a", "b"]},
        lambda root: package_sources.read_record(f"{root}/sources.json"),
        (ValueError,),
    ),
    "secure boot": State(mok_request.RECORD, {"schema": 1, "sha256": "00", "boot_id": BOOT}, mok_request._read_record),
    "containers": State(
        containers.RECORD,
        {"schema": 1, "spec": "/run/cdi/nvidia.yaml", "engine": "podman"},
        containers.read_containers,
        (ValueError,),
    ),
    "acknowledgements": State(
        acknowledgements.PATH,
        {"schema": 1, "acknowledgements": [ENTRY]},
        acknowledgements.read_acknowledgements,
        (ValueError,),
    ),
    "strikes": State(
        strikes.PATH,
        {
            "schema": 1,
            "slots": {"0000:3b:00.0": dict.fromkeys(("boot_id", "serial", "uuid", "name"), "x")},
            "cards": [
                {
                    **strikes.new_card({"serial": "1", "uuid": "u", "name": "n", "pci_id": "p"}, "now"),
                    "counts": {"gpu.sram": 1},
                    "boots": [{"boot_id": "b", "time": "t", "ids": ["gpu.sram"]}],
                }
            ],
        },
        strikes.read_strikes,
        (ValueError,),
    ),
    "errors of links": State(
        link_errors.PATH,
        {"schema": 1, "boot_id": BOOT, "ports": {"mlx5_0 port 1": [[900.0, {"symbol_error": 1}]]}},
        read_link_errors,
    ),
    "operator": State(
        operator.RECORD,
        {
            "schema": 1,
            "run": "r",
            "who": "w",
            "controller": "c",
            "machine": "m",
            "pid": 1,
            "started": "1",
            "playbook": "p",
            "boot_id": BOOT,
            "seen_s": 1.0,
            "since": "s",
        },
        operator.read_lock,
    ),
    "boot check": State(
        boot_check.RECORD_PATH,
        {
            **REPORT,
            "boot_id": BOOT,
            "uptime_s": 1000.0,
            "holds_s": 900,
            "level": "quick",
            "expectations_sha256": "00",
            "findings": [{"id": "gpu.sram", "status": "FAIL", "message": "m", "action": "a"}],
        },
        read_gate,
    ),
    "report": State(REPORT_PATH, REPORT, read_doctor),
    "smoke test": State(
        "/report.json",
        {**REPORT, "smoke": {"time": "2026-01-05T10:00:00Z", "passed": True}},
        lambda root: smoke_history.last_smoke(f"{root}/report.json", {}, now_utc()),
    ),
    "page": State("/page/a.json", REPORT, lambda root: list(page.pages(f"{root}/page", ["a"], now_utc()))),
    "expectations": State(
        "/etc/gpuwright/expectations.json",
        healthy_node.expectations(),
        lambda root: (
            plan_choices.read_kept_plan(root),
            expectations.parse_expectations(expectations.read_own(f"{root}/etc/gpuwright/expectations.json")),
        ),
        (ValueError,),
    ),
    "history of cards": State(
        f"/{history.FOLDER}/n1.json",
        {
            **history.empty("n1"),
            "findings": [dict.fromkeys(history.FINDING, "x")],
            "cards": {
                "serial 1": {
                    **{"name": "H100", "place": "slot", "product": None},
                    "at": [f"2026-01-0{day}T10:00:00Z" for day in range(1, 5)],
                    "software": ["s"] * 4,
                    "figures": {"gemm": [1.0, None, 3, 2.5]},
                    "counters": {"ecc": [0, 1, 2.0, 3]},
                    "now": {"kind": "k", "bits": {"a": "00"}, "at": "2026-01-04T10:00:00Z"},
                }
            },
        },
        read_history,
    ),
    "drains": State(
        "/drains.json",
        {"schema": DRAINS.SCHEMA, "drains": {"n1": {"at": 1.0, "request": "r"}}},
        lambda root: DRAINS.remember(DRAINS.load(f"{root}/drains.json"), [], [], 2.0, 60.0),
        (DRAINS.Trouble,),
    ),
    "calibration": State(
        calibrated.CALIBRATED_PATH,
        {
            "schema": 1,
            "allocator": "jemalloc",
            "malloc_conf": "",
            "why": "w",
            "machine": calibrated.machine_identity(),
            "library": None,
            "commands": {"python a.py": {}},
        },
        calibrated.calibrated_arm,
    ),
    "policy": State(
        runtime_policy.POLICY_PATH,
        {"allocator": "none", "libraries": {"jemalloc": "/a"}},
        runtime_policy.load_policy,
        (runtime_policy.LaunchError,),
    ),
    "changes of a node": State(
        ledger.LEDGER,
        {
            "schema": 1,
            "run": "killed",
            "before": LOOKED,
            "after": None,
            "ours": {"files": {"/etc/b": ["file 644 0:0 00", True]}, "packages": {}, "users": {}, "groups": {}},
            "foreign": {"files /etc/b": "x"},
            "taken": {"/etc/c": {"line": "file 644 0:0 00", "content": "eA==", "entries": ["0"], "left": "x"}},
        },
        read_changes,
        (ledger.Damaged, OSError),
    ),
    "first record": State(
        ledger.RECORD,
        {
            "schema": 1,
            "time": "2026-01-05T10:00:00Z",
            "family": "debian",
            "late": ["/etc/gpuwright"],
            "contents": {"00": "eA=="},
            "own": {"files": {"/etc/gpuwright": "folder 755 0:0"}, "users": {}},
            **LOOKED,
        },
        lambda root: ledger.new_ledger(ledger.load(ledger.RECORD, root) or {}),
        (ledger.Damaged, OSError),
    ),
    "stamp": State(
        "/venv/gpuwright.json",
        {"schema": 1, "packages": {"torch": "2"}, "lock": "00"},
        lambda root: software.read_environment_stamp(root, "/venv"),
        (ValueError, OSError),
    ),
}
