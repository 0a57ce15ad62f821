"""The administrator's xid.yml: what the reader accepts it reads as YAML does; the rest is an error with its line."""

from __future__ import annotations

import re
import subprocess

import healthy_node
import pytest
import yaml
from gpuwright.checks.all import run_checks
from gpuwright.gpu.xid.overrides import parse_mapping, parse_overrides, read_overrides
from gpuwright.readings.attempt import attempt
from host_tree import HostTree
from hypothesis import given, settings
from hypothesis import strategies as st
from kernel_log_rows import XID_79, event

GOOD = """\
---
# Judged together with our vendor, ticket 4711.
xid:
  63:            # row remapping
    class: fail
    remedy: reset
    action: "Reset it tonight: \\"nvidia-smi -r\\" # all"
    reason: 'it''s what the vendor asks for'
  "74":
    class: warn
    reason: bridge is not used
sxid:
    20034:
        class: harmless
        reason: unplugged on purpose  # port 12
"""
ROW = "xid:\n  63:\n    class: warn\n    reason: {}\n"


def test_the_rows_of_a_file():
    rows = {(row["kind"], row["code"]): row for row in parse_overrides(GOOD)}
    assert sorted(rows) == [("sxid", 20034), ("xid", 63), ("xid", 74)]
    row = rows["xid", 63]
    assert (row["class"], row["remedy"], row["line"]) == ("fail", "reset", 4)
    assert (
        row["action"] == 'Reset it tonight: "nvidia-smi -r" # all' and row["reason"] == "it's what the vendor asks for"
    )
    assert rows["sxid", 20034]["reason"] == "unplugged on purpose"


def test_there_may_be_no_file(tmp_path):
    assert read_overrides(str(tmp_path)) == []
    HostTree(tmp_path).put("/etc/gpuwright/xid.yml", "# nothing yet\n")
    assert read_overrides(str(tmp_path)) == []


@pytest.mark.parametrize(
    ("text", "line", "words"),
    [
        ("gpu:\n  63:\n    class: warn\n", 1, "'gpu' is not one of xid, sxid"),
        ("xid:\n  63: {class: warn, reason: x}\n", 2, "is not plain text"),
        ("xid: {}\n", 1, "is not plain text"),
        ("- xid\n", 1, "expected 'name: value'"),
        ("xid:\n\t63:\n", 2, "a tab"),
        ("  xid:\n", 1, "expected no indentation"),
        ("xid:\n  063:\n    class: warn\n    reason: x\n", 2, "expected 'name: value'"),
        ("xid:\n  1000:\n    class: warn\n    reason: x\n", 2, "1 to 999"),
        ("xid:\n  all:\n    class: warn\n    reason: x\n", 2, "'all' is not a valid xid code"),
        ("xid:\n  63-65:\n    class: warn\n    reason: x\n", 2, "expected 'name: value'"),
        ("xid:\n  63:\n    class: ignore\n    reason: x\n", 3, "class 'ignore' is not one of fail, warn, harmless"),
        ("xid:\n  63:\n    class: fail\n    remedy: pray\n    reason: x\n", 4, "remedy 'pray' is not one of"),
        ("xid:\n  63:\n    class: warn\n    remedy: reset\n    reason: x\n", 2, "a remedy is allowed only with class"),
        ("xid:\n  63:\n    class: warn\n", 2, "xid 63 has no reason"),
        ("xid:\n  63:\n    reason: x\n", 2, "xid 63 has no class"),
        ("xid:\n  63:\n", 2, "xid 63 has no class"),
        ("xid:\n  63:\n    class:\n    reason: x\n", 3, "class has no value"),
        ("xid:\n  63:\n    class: warn\n    reason: x\n    why: z\n", 5, "'why' is not one of class, action"),
        ("xid:\n  63:\n    class: warn\n    reason: x\n    class: fail\n", 5, "a second 'class'"),
        (ROW.format("x") + "  63:\n    class: fail\n    reason: z\n", 5, "a second '63'"),
        (ROW.format("x") + '  "63":\n    class: fail\n    reason: z\n', 5, "a second '63'"),
        (ROW.format("x") + "xid:\n  64:\n    class: warn\n    reason: z\n", 5, "a second 'xid'"),
        ("xid:\n  63:\n    class: warn\n   reason: x\n", 4, "3 spaces where 4 were used before"),
        ("xid:\n  63:\n    class: warn\n      reason: x\n", 4, "6 spaces where 4"),
        (ROW.format("yes"), 4, "put it in double quotes"),
        (ROW.format("Null"), 4, "put it in double quotes"),
        (ROW.format("a: b"), 4, "put it in double quotes"),
        (ROW.format("*anchor"), 4, "put it in double quotes"),
        (ROW.format("4711"), 4, "put it in double quotes"),
        (ROW.format("|"), 4, "put it in double quotes"),
        (ROW.format('"open'), 4, "put it in double quotes"),
        (ROW.format('"a" b'), 4, "text after the closing quote"),
        (ROW.format('"a\\n"'), 4, "put it in double quotes"),
        (ROW.format("x\n    - y"), 5, "expected 'name: value'"),
        (ROW.format("x") + "---\n", 5, "expected 'name: value'"),
    ],
)
def test_everything_else_is_an_error_with_its_line(text, line, words):
    with pytest.raises(ValueError, match=re.escape(f"/etc/gpuwright/xid.yml, line {line}: ")) as error:
        parse_overrides(text)
    assert words in str(error.value)


def test_a_broken_file_leaves_the_xids_unjudged(tmp_path):
    HostTree(tmp_path).put("/etc/gpuwright/xid.yml", "xid:\n  63:\n    class: ignore\n    reason: x\n")
    node = {**healthy_node.readings(), "xid_policy": attempt(read_overrides, str(tmp_path))}
    found = {record["id"]: record for record in run_checks(node, healthy_node.expectations())}
    assert found["kernel.xid"]["status"] == found["kernel.sxid"]["status"] == "UNKNOWN"
    assert "/etc/gpuwright/xid.yml, line 3: class 'ignore'" in found["kernel.xid"]["message"]
    assert found["kernel.gpu_lost"]["status"] == "PASS"


@pytest.mark.parametrize("kind", ["warn", "harmless"])
def test_a_lost_gpu_stays_a_failure(kind):
    node = healthy_node.readings()
    node["xid_policy"] = parse_overrides(f"xid:\n  79:\n    class: {kind}\n    reason: it is never there\n")
    node["kernel_log"]["xids"] = [event(79, XID_79)]
    found = {record["id"]: record for record in run_checks(node, healthy_node.expectations())}
    assert found["kernel.xid"]["status"] == found["kernel.gpu_lost"]["status"] == "FAIL"
    assert "has no effect" in found["kernel.xid"]["message"]


def as_texts(value: object) -> object:
    """What YAML read, with codes as the texts that they were and an empty mapping for nothing."""
    if isinstance(value, dict):
        return {str(key): as_texts(member) for key, member in value.items()}
    return value


def filled(value: object, depth: int = 0) -> object:
    """Nothing where a mapping belongs is an empty mapping."""
    if isinstance(value, dict):
        return {key: filled(member, depth + 1) for key, member in value.items()}
    return {} if value is None and depth < 3 else value


def same_as_yaml(text: str) -> None:
    try:
        ours = parse_mapping(text)
    except ValueError:
        return
    assert ours == filled(as_texts(yaml.safe_load(text))), text


SCALARS = st.one_of(
    st.text("ab :#'\"\\-yes0.1~!&*|>%@`{}[],?\té\u2028\x85", max_size=12),
    st.sampled_from(
        ["yes", "No", "null", "~", "1", "1.5", "0x1f", "1e3", "2025-11-22", ".inf", "<<", "=", "a:b", "a#b", "y"]
    ),
    st.text(max_size=8),
)
LINES = st.builds(
    "{}{}{}{}".format,
    st.sampled_from(["", "  ", "    ", "   ", "\t"]),
    st.sampled_from(
        ["xid", "sxid", "63", '"63"', "'64'", "class", "reason", "yes", "? a", "63 ", "<<", "0x1", "1_0", "on"]
    ),
    st.sampled_from([":", ": ", ":  ", " :", " : ", ""]),
    SCALARS,
)


@settings(max_examples=1500, deadline=None)
@given(st.lists(st.one_of(LINES, SCALARS, st.sampled_from(["---", "...", "# x", "", "xid:", "  63:"])), max_size=8))
def test_what_is_accepted_is_read_as_yaml_does(lines):
    same_as_yaml("\n".join(lines))


@settings(max_examples=500, deadline=None)
@given(SCALARS)
def test_every_value_is_read_as_yaml_does(value):
    same_as_yaml(f"xid:\n  63:\n    class: warn\n    reason: {value}\n")


TEXTS = st.text(st.characters(min_codepoint=32, max_codepoint=0x17F, exclude_categories=["Cc", "Zs", "Cf"]), min_size=1)


@settings(max_examples=300, deadline=None)
@given(st.dictionaries(st.integers(1, 999), TEXTS.map(str.strip).filter(bool), min_size=1, max_size=5))
def test_quoted_texts_come_through(reasons):
    text = "xid:\n" + "".join(
        '  {}:\n    class: warn\n    reason: "{}"\n'.format(code, why.replace("\\", "\\\\").replace('"', '\\"'))
        for code, why in reasons.items()
    )
    assert {row["code"]: row["reason"] for row in parse_overrides(text)} == reasons
    same_as_yaml(text)


def test_the_reader_runs_on_a_node(node_python, tmp_path):
    """Under every Python that a node may have, with what Ansible ships there."""
    from conftest import MODULE_UTILS

    (tmp_path / "xid.yml").write_text(GOOD)
    script = (
        "import sys; sys.path.insert(0, sys.argv[1]); from gpuwright.gpu.xid.overrides import parse_overrides as p; "
    )
    script += "print([r['code'] for r in p(open(sys.argv[2]).read())])"
    command = [node_python, "-c", script, str(MODULE_UTILS), str(tmp_path / "xid.yml")]
    assert subprocess.run(command, capture_output=True, text=True, check=True).stdout == "[63, 74, 20034]\n"
