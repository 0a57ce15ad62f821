"""Facts of the toolkit's modules are read as facts, whatever a site has set about facts as variables."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from conftest import REPOSITORY
from left_out_site import LAYERS, Site, reached, summary

OWN = re.compile(r"(?<![\w.'\"/-])gpu_node(_plan|_settled|_preflight|_lock|_bundle|_verdict)?\b(?![:\w-])")
FILES = [
    file
    for pattern in ("roles/*/*/**/*.yml", "roles/*/templates/**/*.j2", "playbooks/*.yml")
    for file in sorted(REPOSITORY.glob(pattern))
    if "meta" not in file.parts and "files" not in file.parts
]
SWITCHED_OFF = {"ANSIBLE_INJECT_FACT_VARS": "False"}


@pytest.mark.parametrize("file", FILES, ids=lambda file: "/".join(file.parts[-3:]))
def test_no_expression_reads_a_fact_as_a_variable(file: Path) -> None:
    """In ansible-core 2.24, and where inject_facts_as_vars is off, there is none: write ansible_facts.NAME."""
    lines = [line for line in file.read_text().splitlines() if not line.lstrip().startswith("#")]
    assert [line for line in lines if OWN.search(line)] == []


@pytest.mark.parametrize("playbook", ["playbooks/preflight.yml", "site.yml"])
def test_a_wrong_variable_is_refused(tmp_path: Path, playbook: str) -> None:
    site = Site(tmp_path)
    site.host("a1", system_driver_brunch="580")
    done = site.run(playbook, **SWITCHED_OFF)
    said = " ".join(done.stdout.split())
    assert done.returncode == 2 and "did you mean system_driver_branch?" in said, done.stdout
    assert "Nothing was done: 1 problem(s) on 1 host(s)" in said and reached(done.stdout) == {}


def test_hosts_are_read_left_out_and_taken_through_all_layers(tmp_path: Path) -> None:
    site = Site(tmp_path)
    site.host("a1")
    site.refused("a2")
    done = site.run("site.yml", **SWITCHED_OFF)
    assert reached(done.stdout) == {"a1": list(LAYERS)} and done.returncode == 2, done.stdout
    assert "a2 refused" in summary(done.stdout) and "is undefined" not in done.stdout


def test_a_play_without_what_was_read_ends_with_an_error(tmp_path: Path) -> None:
    """Not with "nothing to do"."""
    site = Site(tmp_path)
    site.host("a1")
    site.tasks("preflight", [], "read.yml")
    done = site.run("playbooks/preflight.yml")
    said = " ".join(done.stdout.split())
    assert done.returncode == 2 and "a1: the fact gpu_node_preflight is missing" in said and "DONE" not in said, said
