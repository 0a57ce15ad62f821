"""Units, alert rules and dashboard of the role system_monitor; the rules are tested by Prometheus' own promtool."""

from __future__ import annotations

import json
import re
from pathlib import Path

import healthy_node
import pytest
import yaml
from gpuwright.checks.all import CHECKS, run_checks
from gpuwright.checks.gpu.heat import LIMITS as HEAT
from gpuwright.checks.gpu.throttling import BAD_CLOCKS
from gpuwright.checks.waivers.report import with_waivers
from gpuwright.doctor.metrics import STATUS_VALUE, metrics
from gpuwright.doctor.metrics_gpu import QUANTITIES, STATES
from gpuwright.verdict.boot_check import RECORD_PATH, UNIT_PATH
from gpuwright.verdict.report import make_report
from jinja2 import Environment, StrictUndefined
from promtool import promtool
from waiver_rows import MOMENT, THREE, struck

REPOSITORY = Path(__file__).resolve().parents[3]
ROLE = REPOSITORY / "roles/system_monitor"
MONITORING = REPOSITORY / "monitoring"
RULES = MONITORING / "gpuwright.rules.yml"
RULES_TEST = Path(__file__).parents[1] / "data/prometheus/gpuwright.rules.test.yml"
DASHBOARD = json.loads((MONITORING / "grafana-dashboard.json").read_text())
ALERTS = [rule for group in yaml.safe_load(RULES.read_text())["groups"] for rule in group["rules"]]
TESTS = yaml.safe_load(RULES_TEST.read_text())["tests"]
# From the node_exporter that serves gpuwright.prom; everything else must be one of ours.
FOREIGN = {"node_boot_time_seconds"}
INTERVALS = yaml.safe_load((ROLE / "meta/argument_specs.yml").read_text())["argument_specs"]["main"]["options"][
    "system_monitor_interval_minutes"
]["choices"]
BAND = f"{HEAT['temperature_band'].value:g}"
# A node is silent for too long after two of the longest intervals.
SILENT_S = f"{max(INTERVALS) * 60 * 2}"
# What an alert and the program both know, as the rule spells it.
SAID_TWICE = (
    ("GpuwrightVerdictFail", f"gpuwright_verdict == {STATUS_VALUE['FAIL']}"),
    ("GpuwrightVerdictUnknown", f"gpuwright_verdict == {STATUS_VALUE['UNKNOWN']}"),
    ("GpuwrightCheckFail", f"gpuwright_check == {STATUS_VALUE['FAIL']}"),
    ("GpuwrightCheckWarn", f"gpuwright_check == {STATUS_VALUE['WARN']}"),
    ("GpuwrightCheckUnknown", f"gpuwright_check == {STATUS_VALUE['UNKNOWN']} unless"),
    ("GpuwrightCheckUnknown", f'gpuwright_check{{id="driver.reachable"}} == {STATUS_VALUE["FAIL"]}'),
    ("GpuwrightStale", f"gpuwright_last_run_timestamp_seconds > {SILENT_S}"),
    ("GpuwrightGpuHot", f"gpuwright_gpu_temperature_slowdown_celsius - {BAND}"),
)
# The same for all expressions, those of the dashboard, too; any other is compared with another series, 0 or 1.
STATES_OF_A_CHECK = {str(value) for value in STATUS_VALUE.values()}
NUMBERS = {
    "gpuwright_verdict": STATES_OF_A_CHECK,
    "gpuwright_check": STATES_OF_A_CHECK,
    "gpuwright_last_run_timestamp_seconds": {SILENT_S},
    "gpuwright_gpu_temperature_slowdown_celsius": {BAND},
}
SELECTOR = re.compile(r"\{[^}]*\}")
NUMBER = re.compile(r"(\w+)\)* *(?:[=!]=|[<>]=?|[-+*/]) *(-?\d+\b)")
METRIC = re.compile(r"\b(?:gpuwright|node)_[a-z0-9_]+\b")


def text_of_a_node_with_everything() -> str:
    """Metrics of a made-up node whose cards have every value there is."""
    readings = healthy_node.readings()
    card = readings["nvidia_smi"]["gpus"][0]
    for _name, _kind, _words, path, _factor in QUANTITIES:
        healthy_node.put(card, path, 1)
    for _name, _words, path in STATES:
        healthy_node.put(card, path, False)
    readings["strikes"]["cards"] = [struck(*THREE), struck(*THREE, uuid="", serial="123")]
    readings["moment"] = dict(MOMENT)
    expectations = healthy_node.expectations(skip_checks={"gpu.sram": "a known card"})
    checks = run_checks(readings, expectations, healthy_node.smoke())
    report = with_waivers(make_report("a5-01", "2026-01-05T10:00:00Z", checks, readings, expectations, None))
    return metrics(report, "quick", 0.5)


def written_metrics() -> set[str]:
    return set(re.findall(r"(?m)^# TYPE (\S+)", text_of_a_node_with_everything()))


def expressions() -> list[tuple[str, str]]:
    """(where, PromQL) of rules and dashboard."""
    found = [(rule["alert"], rule["expr"]) for rule in ALERTS]
    for panel in DASHBOARD["panels"]:
        found += [(panel["title"], target["expr"]) for target in panel.get("targets", [])]
    found += [(variable["name"], variable["definition"]) for variable in DASHBOARD["templating"]["list"][1:]]
    return found


# -- metrics ------------------------------------------------------------------------------------------------------


def test_promtool_finds_nothing_wrong_with_the_metrics():
    text = text_of_a_node_with_everything()
    done = promtool("check", "metrics", input=text)
    assert (done.returncode, done.stdout + done.stderr) == (0, "")


def test_promtool_would_find_something():
    text = "# TYPE a_total gauge\na_total 1\n"
    assert promtool("check", "metrics", input=text).returncode != 0


@pytest.mark.parametrize(("where", "expression"), expressions(), ids=lambda value: str(value)[:40])
def test_rules_and_dashboard_use_only_metrics_that_are_written(where, expression):
    used = set(METRIC.findall(expression))
    assert used and used <= written_metrics() | FOREIGN, where


def test_every_metric_is_on_the_dashboard():
    on_it = {name for _where, expression in expressions() for name in METRIC.findall(expression)}
    assert written_metrics() <= on_it


# -- rules --------------------------------------------------------------------------------------------------------


def test_promtool_accepts_the_rules():
    done = promtool("check", "rules", "--lint-fatal", RULES)
    assert done.returncode == 0, done.stdout + done.stderr


def test_promtool_tests_the_rules():
    done = promtool("test", "rules", RULES_TEST)
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.parametrize("rule", ALERTS, ids=lambda rule: rule["alert"])
def test_an_alert_says_what_how_bad_and_what_to_do(rule):
    assert rule["labels"]["severity"] in ("critical", "warning", "info")
    assert set(rule["annotations"]) == {"summary", "description", "action"}
    assert all(len(text) > 15 for text in rule["annotations"].values())
    assert "{{ $labels.instance }}" in rule["annotations"]["summary"]


@pytest.mark.parametrize("rule", ALERTS, ids=lambda rule: rule["alert"])
def test_an_alert_names_checks_that_exist(rule):
    named = re.findall(r"--explain ([a-z_]+(?:\.[a-z_]+)+)", rule["annotations"]["action"])
    assert set(named) <= {check.id for check in CHECKS}


@pytest.mark.parametrize(("alert", "words"), SAID_TWICE)
def test_a_rule_has_the_limit_that_the_program_has(alert, words):
    (rule,) = (rule for rule in ALERTS if rule["alert"] == alert)
    assert words in rule["expr"]
    if alert == "GpuwrightGpuHot":
        assert f"Within {BAND} degrees" in rule["annotations"]["description"]


def test_a_slowdown_is_an_alert_where_the_check_fails():
    (rule,) = (rule for rule in ALERTS if rule["alert"] == "GpuwrightGpuSlowedDown")
    (reasons,) = re.findall(r'reason=~"([^"]+)"', rule["expr"])
    assert sorted(reasons.split("|")) == sorted(BAD_CLOCKS)


@pytest.mark.parametrize(("where", "expression"), expressions(), ids=lambda value: str(value)[:40])
def test_no_expression_has_a_limit_of_its_own(where, expression):
    found = NUMBER.findall(SELECTOR.sub("", expression))
    assert [(name, number) for name, number in found if number not in NUMBERS.get(name, {"0", "1"})] == [], where


@pytest.mark.parametrize("rule", ALERTS, ids=lambda rule: rule["alert"])
def test_an_alert_is_tested_when_it_fires_and_when_not(rule):
    cases = [case for test in TESTS for case in test["alert_rule_test"] if case["alertname"] == rule["alert"]]
    assert {bool(case["exp_alerts"]) for case in cases} == {True, False}


# -- dashboard ----------------------------------------------------------------------------------------------------


def test_dashboard_can_be_imported_anywhere():
    assert isinstance(DASHBOARD["schemaVersion"], int) and DASHBOARD["schemaVersion"] >= 36
    assert DASHBOARD["uid"] and DASHBOARD["title"] and "id" not in DASHBOARD
    source = DASHBOARD["templating"]["list"][0]
    assert (source["name"], source["type"], source["query"]) == ("datasource", "datasource", "prometheus")


def test_panels_are_whole_and_do_not_overlap():
    panels = DASHBOARD["panels"]
    assert len({panel["id"] for panel in panels}) == len(panels)
    taken: set[tuple[int, int]] = set()
    for panel in panels:
        at = panel["gridPos"]
        cells = {(x, y) for x in range(at["x"], at["x"] + at["w"]) for y in range(at["y"], at["y"] + at["h"])}
        assert not cells & taken and at["x"] + at["w"] <= 24, panel["title"]
        taken |= cells
        assert panel["title"]
        if panel["type"] == "row":
            continue
        assert panel["description"] and panel["targets"], panel["title"]
        sources = [panel["datasource"], *(target["datasource"] for target in panel["targets"])]
        assert all(source == {"type": "prometheus", "uid": "${datasource}"} for source in sources)
        references = [target["refId"] for target in panel["targets"]]
        assert len(set(references)) == len(references)


def test_every_query_of_the_dashboard_is_promql(tmp_path):
    """promtool parses what it is given as a rule, so each query becomes one."""
    queries = [target["expr"] for panel in DASHBOARD["panels"] for target in panel.get("targets", [])]
    rules = [{"record": f"query:{n}", "expr": query.replace("$instance", ".*")} for n, query in enumerate(queries)]
    file = tmp_path / "queries.yml"
    file.write_text(yaml.safe_dump({"groups": [{"name": "queries", "rules": rules}]}))
    done = promtool("check", "rules", file)
    assert done.returncode == 0 and len(rules) > 25, done.stdout + done.stderr


# -- units --------------------------------------------------------------------------------------------------------

VARIABLES = yaml.safe_load((ROLE / "vars/main.yml").read_text())
UNITS = VARIABLES["__system_monitor_units"]


def unit(name: str, **values: object) -> dict[str, list[str]]:
    """The unit as the role writes it: "Section.Key" to its values."""
    context = {
        "ansible_managed": "Ansible managed",
        "at_boot": "boot" in name,
        "system_monitor_interval_minutes": 5,
        "system_monitor_textfile_dir": "/var/lib/metrics",
        "__system_monitor_metrics": "/var/lib/metrics/gpuwright.prom",
        "__system_monitor_holds_seconds": 900,
        **values,
    }
    source = ROLE / f"templates/gpuwright-check.{name.rpartition('.')[2]}.j2"
    environment = Environment(undefined=StrictUndefined, trim_blocks=True, keep_trailing_newline=True)
    text = environment.from_string(source.read_text()).render(context)
    found: dict[str, list[str]] = {}
    section = ""
    for line in text.splitlines():
        if line.startswith("["):
            section = line.strip("[]")
        elif line and not line.startswith("#"):
            key, separator, value = line.partition("=")
            assert separator, line
            found.setdefault(f"{section}.{key}", []).append(value)
    return found


@pytest.mark.parametrize("name", [name for name in UNITS if name.endswith(".service")])
def test_services_check_quickly_and_keep_the_result(name):
    found = unit(name)
    command = "/usr/local/bin/gpu-doctor --level quick --record 900 --prom /var/lib/metrics/gpuwright.prom"
    assert found["Service.ExecStart"] == [command]
    assert found["Service.Type"] == ["oneshot"]
    assert found["Unit.ConditionPathExists"] == ["/etc/gpuwright/expectations.json"]
    assert "nvidia-persistenced.service" in found["Unit.After"][0].split()
    assert found["Service.ReadWritePaths"] == ["/var/lib/gpuwright /var/lib/metrics"]


def test_the_boot_check_runs_once_in_a_boot():
    found = unit("gpuwright-boot-check.service")
    assert found["Install.WantedBy"] == ["multi-user.target"]
    assert found["Service.RemainAfterExit"] == ["yes"]
    other = unit("gpuwright-check.service")
    assert "Install.WantedBy" not in other and "Service.RemainAfterExit" not in other


def test_the_timer_does_not_depend_on_the_last_run():
    found = unit("gpuwright-check.timer", system_monitor_interval_minutes=10)
    assert found["Timer.OnCalendar"] == ["*:0/10"] and found["Timer.OnActiveSec"] == ["1s"]
    assert not [key for key in found if key.startswith("Timer.OnUnit")]


@pytest.mark.parametrize("name", ["gpuwright-check.timer", "gpuwright-check.path"])
def test_what_starts_a_check_starts_the_service(name):
    found = unit(name)
    assert found[f"{name.rpartition('.')[2].title()}.Unit"] == ["gpuwright-check.service"]
    assert found["Install.WantedBy"]


def test_paths_are_the_same_in_role_and_program():
    assert VARIABLES["__system_monitor_record"] == RECORD_PATH
    assert UNIT_PATH == "/etc/systemd/system/gpuwright-boot-check.service"
    assert Path(UNIT_PATH).name in UNITS


def test_every_choice_of_the_interval_divides_the_hour():
    options = yaml.safe_load((ROLE / "meta/argument_specs.yml").read_text())["argument_specs"]["main"]["options"]
    assert all(60 % minutes == 0 for minutes in options["system_monitor_interval_minutes"]["choices"])


def test_the_training_unit_asks_the_gate_under_every_systemd():
    lines = (REPOSITORY / "roles/model_trainer/templates/gpu-job@.service.j2").read_text().splitlines()
    for setting in ("ExecCondition", "ExecStartPre"):
        assert f"{setting}=/usr/bin/env -i /usr/local/bin/gpu-doctor --gate" in lines
    after = next(line for line in lines if line.startswith("After=")).partition("=")[2].split()
    wants = next(line for line in lines if line.startswith("Wants=")).partition("=")[2].split()
    assert {"gpuwright-boot-check.service", "gpuwright-check.service"} <= set(after)
    assert "gpuwright-boot-check.service" in wants and "gpuwright-check.service" not in wants
