"""Every number, comparison and wait in the alert rules is there for a reason: change one, and promtool must notice."""

from __future__ import annotations

import re

import pytest
import yaml
from promtool import promtool
from test_monitoring import ALERTS, RULES_TEST


def changed(rule: dict) -> list[dict]:
    """The rule with each number of its expression, its comparison and its patience changed, one at a time."""
    found = [
        {**rule, "expr": rule["expr"][: match.start()] + str(int(match.group()) + 1) + rule["expr"][match.end() :]}
        for match in re.finditer(r"(?<![\w.])[0-9]+\b(?![dhms])", rule["expr"])
    ]
    swaps = {">=": "<", "==": "!=", " > ": " <= ", " < ": " >= ", "unless": "and"}
    found += [{**rule, "expr": rule["expr"].replace(old, new, 1)} for old, new in swaps.items() if old in rule["expr"]]
    return [*found, {**rule, "for": "100d"}, {**rule, "labels": {"severity": "other"}}]


@pytest.mark.parametrize("rule", ALERTS, ids=lambda rule: rule["alert"])
def test_the_tests_of_the_rules_notice_every_change(rule, tmp_path):
    test_file = yaml.safe_load(RULES_TEST.read_text())
    test_file["rule_files"] = ["rules.yml"]
    (tmp_path / "tests.yml").write_text(yaml.safe_dump(test_file))
    for other in [rule, *changed(rule)]:
        group = {"name": "changed", "rules": [other if each is rule else each for each in ALERTS]}
        (tmp_path / "rules.yml").write_text(yaml.safe_dump({"groups": [group]}))
        done = promtool("test", "rules", tmp_path / "tests.yml")
        assert (done.returncode == 0) is (other is rule), other
