"""The module as a node runs it, and the report that it leaves."""

from __future__ import annotations

import json
import os
import pwd
import re
import shlex
import stat
from pathlib import Path

import healthy_files
import healthy_node
import healthy_plan
import pytest
import yaml
from ansible_collections.gpuwright.node.plugins.modules import gpu_verify
from conftest import REPOSITORY
from gpuwright.checks.all import run_checks
from gpuwright.doctor.report_text import report_lines
from gpuwright.doctor.verification import TOLD
from gpuwright.training.smoke_history import check_mode_smoke
from gpuwright.verdict import report
from gpuwright.verdict.expectations import parse_expectations
from gpuwright.verdict.report import age_seconds, exit_status, make_report, summary_line, write_json, write_report

MODULE = Path(__file__).resolve().parents[3] / "library" / "gpu_verify.py"
DOCUMENTS = ("DOCUMENTATION", "EXAMPLES", "RETURN")
KEYS = (
    "schema",
    "host",
    "time",
    "verdict",
    "checks",
    "readings",
    "expectations",
    "smoke",
    "performance",
    "acknowledgements",
    "strikes",
)
NEWER = ("modules", "services", "host", "link_width", "slowdowns", "dcgm_level")
CHECK = {
    "id": "gpu.count",
    "layer": "system",
    "status": "PASS",
    "value": 1,
    "expected": 1,
    "unit": "GPUs",
    "message": "1 of 1 expected",
    "action": "",
    "remedy": "",
}


@pytest.fixture
def node_commands(fake_bin):
    """This machine's own programs stay out of it; the venv's is the only one that tests on every node need."""
    healthy_files.put_commands(fake_bin)
    fake_bin("nvidia-smi", "#!/bin/sh\necho 'NVIDIA-SMI has failed because it could not' ; exit 9\n")


def test_a_machine_that_is_no_gpu_node_fails_with_reasons(run_module, node_commands, tmp_path):
    path = tmp_path / "report.json"
    verified = tmp_path / "verified.json"
    args = {"expectations": healthy_node.EXPECTATIONS, "report_path": str(path), "verified_path": str(verified)}
    answer = run_module("gpu_verify", {**args, "smoke": {"smoke": healthy_node.smoke()}})
    assert (answer["rc_process"], answer["changed"], answer["verdict"]) == (0, False, "FAIL")
    checks = {check["id"]: check for check in answer["checks"]}
    assert checks["driver.reachable"]["status"] == "FAIL"
    assert "driver is not loaded" in checks["driver.reachable"]["message"]
    assert checks["smoke.amp"]["status"] == "PASS"
    assert not verified.exists()
    written = json.loads(path.read_text())
    assert set(written) == {*KEYS}
    assert written["performance"] is None
    assert written["checks"] == answer["checks"]
    assert written["smoke"] == healthy_node.smoke()
    assert stat.S_IMODE(path.stat().st_mode) == 0o644
    assert sorted(file.name for file in tmp_path.iterdir() if "json" in file.name) == ["args.json", "report.json"]


def test_the_report_carries_what_the_inventory_says_is_simulated(run_module, node_commands, tmp_path):
    path = tmp_path / "report.json"
    args = {"expectations": healthy_node.EXPECTATIONS, "report_path": str(path), "simulated": "the GPUs"}
    run_module("gpu_verify", args)
    assert json.loads(path.read_text())["simulated"] == "the GPUs"
    tasks = yaml.safe_load((REPOSITORY / "roles/verify/tasks/judge.yml").read_text())
    [task] = [task["gpuwright.node.gpu_verify"] for task in tasks if "gpuwright.node.gpu_verify" in task]
    assert task["simulated"] == "{{ gpuwright_simulated }}"


def smoke_test(fake_bin, script: str, **options: object) -> dict:
    """Options of a smoke test whose launcher is this script, as whoever runs the tests."""
    launcher = fake_bin("gpu-run", f"#!/bin/sh\n{script}\n")
    user = pwd.getpwuid(os.getuid()).pw_name
    return {"python": "/v/python", "launcher": str(launcher), "user": user, "device": "cpu", "unit": "", **options}


def test_the_smoke_test_is_run_here_and_judged(run_module, node_commands, fake_bin, tmp_path):
    path = tmp_path / "report.json"
    smoke = {**healthy_node.smoke(), "device": "cpu", "devices": [{"device": "cpu"}]}
    script = f"sleep 0.3; printf '%s\\n' {shlex.quote(json.dumps(smoke))}"
    args = {"expectations": healthy_node.EXPECTATIONS, "smoke_test": smoke_test(fake_bin, script)}
    answer = run_module("gpu_verify", {**args, "report_path": str(path)})
    written = json.loads(path.read_text())
    tested_at = written["smoke"].pop("tested_at")
    assert written["smoke"] == {**smoke, "sandbox": None, "sandbox_because": "no sandbox was asked for"}
    assert answer["tested_at"] == tested_at <= written["time"]
    written["smoke"]["tested_at"] = tested_at
    assert 0.3 <= answer["smoke_seconds"] <= 60
    # Nothing of the report is told twice, and put together it is the file on the node.
    assert {**answer["report"], **{name: answer[name] for name in ("verdict", "checks", "readings")}} == written


def test_a_smoke_test_that_fails_is_a_finding(run_module, node_commands, fake_bin):
    args = {"expectations": healthy_node.EXPECTATIONS, "smoke_test": smoke_test(fake_bin, "echo no >&2; exit 3")}
    answer = run_module("gpu_verify", args)
    found = {check["id"]: check for check in answer["checks"]}["smoke.amp"]
    assert (answer["verdict"], found["status"]) == ("FAIL", "FAIL") and "exit code 3" in found["message"]


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"timeout": 0}, "smoke_test: timeout is 0.0 s, expected a number above 0"),
        ({"device": "tpu"}, "value of device must be one of: cuda, cpu, got: tpu found in smoke_test"),
    ],
)
def test_wrong_options_of_the_smoke_test_are_refused(run_module, fake_bin, options, words):
    args = {"expectations": healthy_node.EXPECTATIONS, "smoke_test": smoke_test(fake_bin, "touch ran", **options)}
    answer = run_module("gpu_verify", args)
    assert answer["failed"] and answer["msg"] == words


def test_check_mode_runs_no_smoke_test(run_module, node_commands, fake_bin, tmp_path):
    args = {"expectations": healthy_node.EXPECTATIONS}
    args["smoke_test"] = smoke_test(fake_bin, f"touch {tmp_path}/ran")
    answer = run_module("gpu_verify", args, check=True)
    smoke = next(check for check in answer["checks"] if check["id"] == "smoke.amp")
    assert (smoke["status"], smoke["message"]) == ("SKIP", "check mode runs no smoke test")
    assert answer["smoke_seconds"] is None and not (tmp_path / "ran").exists()


def test_check_mode_judges_and_writes_nothing(run_module, node_commands, tmp_path):
    path = tmp_path / "not yet made" / "report.json"
    args = {"expectations": healthy_node.EXPECTATIONS, "report_path": str(path)}
    args["smoke"] = {"skipped": True, "msg": "check mode skips it", "changed": False}
    answer = run_module("gpu_verify", args, check=True)
    assert (answer["verdict"], answer["changed"]) == ("FAIL", False)
    smoke = next(check for check in answer["checks"] if check["id"] == "smoke.amp")
    assert (smoke["status"], smoke["message"]) == ("SKIP", "check mode runs no smoke test")
    assert not path.exists()


def test_check_mode_still_tells_what_the_last_smoke_test_found(tmp_path):
    path = tmp_path / "report.json"
    readings, then, now = healthy_node.readings(), "2026-01-05T10:00:00Z", "2026-01-07T10:00:00Z"
    found = {"PASS": healthy_node.smoke(), "FAIL": {**healthy_node.smoke(), "problems": ["the loss is not a number"]}}
    for status, smoke in found.items():
        path.write_text(json.dumps({"time": then, "smoke": smoke, "readings": readings}))
        told = check_mode_smoke(str(path), readings, now)
        rows = {row["id"]: row for row in run_checks(readings, healthy_node.EXPECTATIONS, told)}
        assert rows["smoke.amp"]["status"] == ("SKIP" if status == "PASS" else "FAIL")
        assert "check mode runs no smoke test" in rows["smoke.amp"]["message"] and "2 d" in rows["smoke.amp"]["message"]


def test_a_hanging_nvidia_smi_costs_its_seconds_and_no_more(run_module, node_commands, fake_bin):
    fake_bin("nvidia-smi", "#!/bin/sh\ntrap '' TERM\nsleep 60\n")
    args = {"expectations": healthy_node.EXPECTATIONS, "nvidia_smi_timeout": 0.5}
    answer = run_module("gpu_verify", args, timeout=30)
    assert {c["id"]: c["status"] for c in answer["checks"]}["driver.reachable"] == "FAIL"
    assert answer["readings"]["nvidia_smi"]["status"] == "timeout"


@pytest.mark.parametrize(
    ("args", "words"),
    [
        ({}, "/etc/gpuwright/expectations.json cannot be read"),
        ({"expectations": {}}, "schema is None; expected a whole number"),
        ({"expectations": {**healthy_node.EXPECTATIONS, "gpu_count": "eight"}}, "gpu_count is 'eight'"),
        ({"expectations": healthy_node.EXPECTATIONS, "report_path": "/nowhere/report.json"}, "existing folder"),
        ({"expectations": healthy_node.EXPECTATIONS, "verified_path": "verified.json"}, "verified_path: verified.json"),
        ({"expectations": healthy_node.EXPECTATIONS, "nvidia_smi_timeout": 0}, "expected seconds above 0"),
        ({"expectations": healthy_node.EXPECTATIONS, "report_path": "/proc/report.json"}, "cannot be written"),
    ],
)
def test_wrong_parameters_are_one_clear_error(run_module, node_commands, args, words):
    answer = run_module("gpu_verify", args)
    assert answer["failed"] and words in answer["msg"] and "\n" not in answer["msg"]


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"schema": 2}, "schema is 2; this program knows 1"),
        ({"gpu_count": -1}, "gpu_count is -1"),
        ({"gpu_count": True}, "gpu_count is True"),
        ({"gpu_count": 1.5}, "gpu_count is 1.5"),
        ({"gpu_model": None}, "gpu_model is None"),
        ({"venv": "venvs/current"}, "expected an absolute path"),
        ({"smoke_device": "gpu"}, "expected cuda or cpu"),
        ({"training_user": "$(id)"}, "the name of a user"),
        ({"training_user": "trainer\n"}, "the name of a user"),
        ({"modules": "gdrdrv"}, "modules is 'gdrdrv'; expected a list"),
        ({"services": None}, "services is None; expected a list"),
        ({"host": []}, "host is []; expected a record"),
        ({"skip_checks": ["gpu.sram"]}, "skip_checks is ['gpu.sram']; expected a record"),
        ({"host": {"cpus": "many"}}, "host.cpus is 'many'; expected a whole number"),
        ({"host": {"cpus": True}}, "host.cpus is True"),
        ({"host": {"swap_gib": -1}}, "host.swap_gib is -1"),
        ({"link_width": "many"}, "link_width is 'many'; expected lanes, 0 to 32"),
        ({"link_width": True}, "link_width is True"),
        ({"link_width": 33}, "link_width is 33"),
        ({"link_width": -8}, "link_width is -8"),
        ({"dcgm_level": 5}, "dcgm_level is 5; expected 1 to 4, or 0 for no diagnostic"),
        ({"dcgm_level": True}, "dcgm_level is True"),
        ({"slowdowns": "sw_power_cap"}, "expected a list of clock event reasons"),
        ({"slowdowns": ["gpu_idle"]}, "slowdowns contains 'gpu_idle'; expected some of applications_clocks_setting"),
        ({"plan": None}, "plan has no driver, cuda"),
        ({"plan": {**healthy_plan.PLAN, "cudnn": []}}, "plan has no cudnn"),
    ],
)
def test_expectations_that_nobody_can_judge_by(change, words):
    with pytest.raises(ValueError, match=re.escape(words)):
        parse_expectations(healthy_node.expectations(**change))


def test_expectations_of_an_older_release_ask_for_nothing_more():
    record = {name: value for name, value in healthy_node.EXPECTATIONS.items() if name not in NEWER}
    nothing = {"modules": [], "services": [], "host": {}, "link_width": 0, "slowdowns": [], "dcgm_level": 0}
    assert {name: parse_expectations(record)[name] for name in NEWER} == nothing
    stated = parse_expectations({**record, "link_width": "8", "slowdowns": ["sw_power_cap"]})
    assert (stated["link_width"], stated["slowdowns"]) == (8, ["sw_power_cap"])
    assert parse_expectations({**record, "host": {"cpus": "64"}})["host"] == {"cpus": 64}


@pytest.mark.parametrize("record", [None, [], "x", 5])
def test_expectations_must_be_a_record(record):
    with pytest.raises(ValueError, match="expected a record"):
        parse_expectations(record)


def test_numbers_may_come_as_ansible_makes_them():
    parsed = parse_expectations(healthy_node.expectations(gpu_count="2", schema="1"))
    assert (parsed["gpu_count"], parsed["schema"]) == (2, 1)
    left_out = {"dcgm_level": 0, "inventory_name": "", "mig": {}}
    assert parse_expectations(healthy_node.EXPECTATIONS) == {**healthy_node.EXPECTATIONS, **left_out}


@pytest.mark.parametrize(
    ("status", "marked", "exit_code"), [("PASS", True, 0), ("WARN", True, 0), ("FAIL", False, 1), ("UNKNOWN", False, 3)]
)
def test_only_a_node_that_passed_is_marked(tmp_path, status, marked, exit_code):
    record = make_report("a5-01", "2026-01-05T10:00:00Z", [{**CHECK, "status": status}], {}, {}, None)
    write_report(record, str(tmp_path / "report.json"), str(tmp_path / "verified.json"))
    assert (tmp_path / "verified.json").exists() is marked
    assert exit_status(record["verdict"]) == exit_code
    if marked:
        mark = {"schema": 1, "host": "a5-01", "time": "2026-01-05T10:00:00Z", "verdict": status}
        assert json.loads((tmp_path / "verified.json").read_text()) == mark


def test_a_mark_is_left_alone_by_a_later_failure(tmp_path):
    (tmp_path / "verified.json").write_text("earlier")
    record = make_report("a5-01", "2026-01-05T10:00:00Z", [], {}, {}, None)
    assert record["verdict"] == "UNKNOWN"
    write_report(record, None, str(tmp_path / "verified.json"))
    assert (tmp_path / "verified.json").read_text() == "earlier"


def test_a_write_that_fails_leaves_the_old_file_and_no_scraps(tmp_path):
    path = tmp_path / "report.json"
    write_json(str(path), {"a": 1})
    with pytest.raises(TypeError):
        write_json(str(path), {"a": object()})
    assert json.loads(path.read_text()) == {"a": 1}
    assert [file.name for file in tmp_path.iterdir()] == ["report.json"]


def test_the_mode_of_a_report_does_not_depend_on_the_umask(tmp_path):
    before = os.umask(0o077)
    try:
        write_json(str(tmp_path / "report.json"), {})
    finally:
        os.umask(before)
    assert stat.S_IMODE((tmp_path / "report.json").stat().st_mode) == 0o644


def test_exit_status_of_a_verdict_that_does_not_exist():
    assert exit_status("fine") == 3


def test_age():
    assert age_seconds("2026-01-05T10:00:00Z", "2026-01-06T11:00:01Z") == 90001
    for text in (
        "yesterday",
        "",
        "2026-13-05T10:00:00Z",
        "2026-01-05T10:00:00",
        "2026-01-05T10:00:00Z\n",
        "2026-1-5T1:0:0Z",
    ):
        with pytest.raises(ValueError):
            age_seconds(text, "2026-01-06T11:00:01Z")


def test_the_report_for_people_has_the_worst_last_and_says_what_to_do():
    statuses = {"a": "PASS", "b": "SKIP", "c": "WARN", "d": "UNKNOWN", "e": "FAIL"}
    checks = [{**CHECK, "id": name, "status": status, "action": "do it"} for name, status in statuses.items()]
    lines = report_lines(checks)
    first = [line.split()[0] for line in lines if line and not line.startswith(" ")]
    assert first == ["STATUS", "PASS", "SKIP", "WARN", "UNKNOWN", "FAIL"]
    assert sum("-> do it" in line for line in lines) == 3
    assert summary_line(checks) == "4 checks: 1 FAIL, 1 UNKNOWN, 1 WARN, 1 PASS; 1 skipped"
    assert summary_line([]) == "0 checks: none; 0 skipped"


def test_the_report_for_people_does_not_let_a_name_repaint_the_terminal():
    lines = report_lines(
        [{**CHECK, "status": "FAIL", "value": "x\x1b[2Jy", "message": "a\nb\x1b[31m", "action": "c\rd"}]
    )
    assert all(line.isprintable() for line in lines)
    # Headings, what and where, expected, what to do, by whom.
    assert len(lines) <= 6
    assert report.printable("a\x1b[0m\u202eb") == "a [0m b"


def assert_documented(options: dict, spec: dict) -> None:
    assert set(options) == set(spec)
    for name, option in options.items():
        wanted = {key: value for key, value in spec[name].items() if key != "options"}
        assert {
            key: option[key] for key in ("type", "elements", "required", "default", "choices") if key in option
        } == wanted, name


def test_the_module_documents_every_parameter_and_result():
    blocks = {name: yaml.safe_load(getattr(gpu_verify, name)) for name in DOCUMENTS}
    options = blocks["DOCUMENTATION"]["options"]
    assert_documented(options, gpu_verify.SPEC)
    assert_documented(options["smoke_test"]["suboptions"], gpu_verify.SPEC["smoke_test"]["options"])
    assert set(blocks["RETURN"]) == {*TOLD, "smoke_seconds", "tested_at", "busy", "report", "dest", "ansible_facts"}
    assert set(blocks["RETURN"]["checks"]["contains"]) == {*CHECK, "waived", "caused_by"}
