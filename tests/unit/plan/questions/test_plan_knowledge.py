"""Newer tables than the toolkit's own: taken where newer, whole and of the right form, and said where they are not."""

from __future__ import annotations

import copy
import hashlib
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jsonschema
import pytest
import yaml
from ansible_collections.gpuwright.node.plugins.plugin_utils.plan.renewal import knowledge
from ansible_collections.gpuwright.node.plugins.plugin_utils.plan.renewal.form import first_problem
from ansible_collections.gpuwright.node.plugins.plugin_utils.plan.solve import solve
from test_plan_questions import MATRIX, make_host

TODAY = "2027-01-15"
SCHEMA = json.loads(knowledge.SCHEMA.read_text())


def newer(**changes: Any) -> dict[str, Any]:
    """A file's content: branch 580 has ended early, as of the first of the year."""
    drivers = copy.deepcopy(MATRIX["drivers"])
    drivers["620"]["eol"] = "2027-02"
    return {
        "schema": 2,
        "tables": {"drivers": {"as_of": "2027-01-01", "limit_days": 100}},
        "drivers": drivers,
        **changes,
    }


def put(folder: Path, content: Any, digest: str = "") -> str:
    text = content if isinstance(content, str) else yaml.safe_dump(content)
    (folder / knowledge.NAME).write_text(text)
    digest = digest or hashlib.sha256(text.encode()).hexdigest()
    (folder / (knowledge.NAME + ".sha256")).write_text(f"{digest}  {knowledge.NAME}\n")
    return str(folder)


def ask(path: str, signer: str = "", problem: Callable[..., str] = lambda *_: "") -> tuple[dict[str, Any], list[str]]:
    return knowledge.with_knowledge(MATRIX, path, signer, TODAY, problem)


def test_a_newer_table_is_used_and_said(tmp_path: Path) -> None:
    matrix, words = ask(put(tmp_path, newer()))
    assert words == [f"Tables of {tmp_path} are newer than the toolkit's own and are used: drivers (as of 2027-01-01)"]
    # What is known now is what the plan goes by, and the toolkit's other tables stay.
    assert solve(matrix, make_host("A100", "rhel 9.6"), {})["driver"]["branch"] == "580"
    assert matrix["cudnn"] is MATRIX["cudnn"] and matrix["tables"]["drivers"]["as_of"] == "2027-01-01"
    assert ask(str(tmp_path / knowledge.NAME))[0]["drivers"] == matrix["drivers"]
    assert ask("") == (MATRIX, [])


def bulletins(**branches: Any) -> dict[str, Any]:
    one = {"id": "5999", "date": "2026-12-09", "source": "https://example.org/5999", "checked": "2027-01-01"}
    rows = {name[1:]: {"fixed": fixed, "severity": "HIGH", "cves": ["CVE-1"]} for name, fixed in branches.items()}
    tables = {"bulletins": {"as_of": "2027-01-01", "limit_days": 100}}
    return {"schema": 2, "tables": tables, "bulletins": [*MATRIX["bulletins"], {**one, "branches": rows}]}


def test_a_newer_bulletin_is_known_to_the_plan(tmp_path: Path) -> None:
    matrix, words = ask(put(tmp_path, bulletins(n580="580.999.01")))
    assert words[0].endswith("are used: bulletins (as of 2027-01-01)")
    pin = {"driver_version": "580.178.04"}
    before, after = (solve(known, make_host("A100", "rhel 9.6"), pin)["warnings"] for known in (MATRIX, matrix))
    assert not any("known vulnerabilities" in text for text in before)
    assert any("(NVIDIA-5999): they are fixed in 580.999.01" in text for text in after), after
    # What a bulletin names as fixed was released.
    plan = solve(matrix, make_host("A100", "rhel 9.6"), {"driver_version": "580.999.01"})
    assert not any("was released" in text for text in plan["warnings"])


def rows(**changes: Any) -> dict[str, Any]:
    return {**copy.deepcopy(MATRIX["drivers"]["620"]), **changes}


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (newer(tables={"drivers": {"as_of": "2026-11-28", "limit_days": 100}}), "is not newer than the toolkit's own"),
        (newer(tables={"drivers": {"as_of": "2025-01-01", "limit_days": 100}}), "is not newer than the toolkit's own"),
        (newer(tables={"drivers": {"as_of": "2027-01-16", "limit_days": 100}}), "is to come"),
        (newer(tables={"drivers": {"as_of": "soon", "limit_days": 100}}), "has no day"),
        (newer(tables={"drivers": "2027-01-01"}), "has no day"),
        (newer(tables={}), "has no day"),
        (newer(os_families={}), "os_families, which comes with the toolkit alone"),
        (newer(drivers={"620": rows(eol="soon")}), "has not the form of the matrix"),
        (newer(drivers={"620": rows(stream="x")}), "has not the form of the matrix"),
        (newer(drivers={"six": rows()}), "has not the form of the matrix"),
        (newer(drivers=[]), "has not the form of the matrix"),
        (newer(drivers=None), "has not the form of the matrix"),
        (bulletins(n580="595.1"), "has not the form of the matrix (bulletin 5999, branch 580"),
        (bulletins(n580="soon"), "has not the form of the matrix"),
        ({**bulletins(n580="580.1"), "bulletins": []}, "has not the form of the matrix"),
        ("drivers: [", "is no YAML"),
        ("[" * 5000, "is no YAML"),
        ("", "has no `tables`"),
        ("- 3", "has no `tables`"),
        (yaml.safe_dump(newer())[:-40], "has no day"),
    ],
)
def test_what_is_old_or_wrong_is_not_used_and_said(tmp_path: Path, content: Any, words: str) -> None:
    matrix, said = ask(put(tmp_path, content))
    if words.startswith("os_families"):
        assert matrix["os_families"] == MATRIX["os_families"]
    else:
        assert matrix["drivers"] == MATRIX["drivers"] and matrix["tables"] == MATRIX["tables"]
    assert words in " ".join(said), said


def test_a_file_that_is_not_the_one_that_was_written_is_not_used(tmp_path: Path) -> None:
    path = put(tmp_path, newer(), "0" * 64)
    assert ask(path)[0] is MATRIX and "has not the SHA-256" in ask(path)[1][0]
    (tmp_path / (knowledge.NAME + ".sha256")).unlink()
    assert ask(path)[0] is MATRIX and "cannot be read" in ask(path)[1][0]
    assert "cannot be read" in ask(str(tmp_path / "nothing"))[1][0]


def test_a_signature_is_asked_for_where_the_inventory_names_a_key(tmp_path: Path) -> None:
    path = put(tmp_path, newer())
    assert "cannot be read" in ask(path, "SHA256:" + "A" * 43)[1][0]
    (tmp_path / (knowledge.NAME + ".sig")).write_text("signature")
    matrix, said = ask(path, "SHA256:" + "A" * 43, lambda *_: "signed by another key")
    assert matrix is MATRIX and "signed by another key" in said[0]
    assert ask(path, "SHA256:" + "A" * 43)[0] is not MATRIX


def test_what_is_written_is_read_again(tmp_path: Path) -> None:
    matrix = copy.deepcopy(MATRIX)
    for name in knowledge.TABLES:
        matrix["tables"][name]["as_of"] = "2027-01-02"
    knowledge.write(tmp_path / "deep", matrix, list(knowledge.TABLES))
    found, said = ask(str(tmp_path / "deep"))
    assert {name: found[name] for name in knowledge.TABLES} == {name: MATRIX[name] for name in knowledge.TABLES}
    assert len(said) == 1 and "wheel_holes (as of 2027-01-02)" in said[0]


def drop(*path: Any) -> Callable[[Any], None]:
    def change(matrix: Any) -> None:
        for key in path[:-1]:
            matrix = matrix[key]
        del matrix[path[-1]]

    return change


def change(value: Any, *path: Any) -> Callable[[Any], None]:
    def put_it(matrix: Any) -> None:
        for key in path[:-1]:
            matrix = matrix[key]
        matrix[path[-1]] = value

    return put_it


@pytest.mark.parametrize(
    "damage",
    [
        lambda matrix: None,
        drop("drivers", "580", "source"),
        drop("drivers", "515", "unverified"),
        change("x", "drivers", "580", "unverified"),
        change(12.9, "cudnn", 0, "version"),
        change(True, "support_margin_months"),
        change([], "cuda", "12.9", "without_capabilities"),
        change(["8.6", "8.6"], "cuda", "12.9", "without_capabilities"),
        change("LOW", "wheel_holes", 0, "severity"),
        change("not an address", "nccl", 0, "source"),
        change({}, "pytorch", "x.y"),
        change({"index": "conda"}, "pytorch", "2.14", "builds", "cu126"),
        change({}, "os_families", "debian12", "distribution", "drivers"),
        drop("schema"),
        drop("about") if "about" in MATRIX else drop("machine"),
    ],
)
def test_the_form_is_judged_as_by_the_library(damage: Callable[[Any], None]) -> None:
    matrix = copy.deepcopy(MATRIX)
    damage(matrix)
    wrong = not jsonschema.Draft202012Validator(SCHEMA).is_valid(matrix)
    assert bool(first_problem(matrix, SCHEMA, SCHEMA)) == wrong
