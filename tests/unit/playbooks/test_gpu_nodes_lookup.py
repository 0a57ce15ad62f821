"""A run that would do nothing, or cannot work, says so and ends with an error: tried with ansible-playbook itself."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from ansible_collections.gpuwright.node.plugins.lookup import gpu_nodes as LOOKUP
from ansible_collections.gpuwright.node.plugins.vars import gpu_limit as LIMIT
from given_facts import as_facts

REPOSITORY = Path(__file__).resolve().parents[3]
TWO = ("a5-01", "a5-02")
PLAYBOOK = Path(sys.executable).parent / "ansible-playbook"
HOSTS = "gpu_nodes: {hosts: {a5-01: {}, a5-02: {}}}\nother: {hosts: {web: {}}}\n"


def play(
    tmp_path: Path, inventory: str | None, *arguments: str, playbook: str = "site.yml"
) -> subprocess.CompletedProcess:
    file = tmp_path / "inventory.yml"
    if inventory is not None:
        file.write_text(inventory)
    command = [str(PLAYBOOK), "-i", str(file), playbook, "--list-tasks", *arguments]
    environment = {**os.environ, "ANSIBLE_NOCOLOR": "1"}
    return subprocess.run(command, cwd=REPOSITORY, capture_output=True, text=True, env=environment)


@pytest.mark.parametrize(
    ("inventory", "arguments", "message"),
    [
        ("gpu_nodes: {hosts: {}}\n", [], "no host in the group gpu_nodes"),
        ("gpu_node: {hosts: {a5-01: {}}}\n", [], "no host in the group gpu_nodes"),
        ("", [], "no inventory was read, or it has no host: start this in the folder of the checkout"),
        (None, [], "parse"),
        (HOSTS, ["-l", "web"], "--limit web selects none of the hosts of gpu_nodes: a5-01, a5-02"),
        (HOSTS, ["-l", "a5-03"], "a5-03 is neither a host nor a group of the inventory; did you mean a5-0"),
        (HOSTS.replace("a5-02", "n-02.example.com"), ["-l", "n-02"], "did you mean n-02.example.com?"),
        (HOSTS, ["-l", "gpu_node"], "gpu_node is neither a host nor a group of the inventory; did you mean gpu_nodes?"),
        (HOSTS, ["-l", "a5-01,a5-20"], "a5-20 is neither a host nor a group"),
        (HOSTS, ["-l", "gpu_nodes:!a5-2"], "a5-2 is neither a host nor a group of the inventory; did you mean a5-02?"),
        (HOSTS, ["-e", "gpuwright_hosts=othr"], "no host in the group othr"),
        (HOSTS, ["-e", "gpuwright_hosts=other", "-l", "a5-01"], "selects none of the hosts of other: web"),
        (HOSTS, ["--tags", "systm"], "no task has the tag systm (did you mean system?)"),
        (HOSTS, ["--skip-tags", "framwork"], "did you mean framework?"),
    ],
)
def test_stops(tmp_path: Path, inventory: str | None, arguments: list[str], message: str) -> None:
    done = play(tmp_path, inventory, *arguments)
    assert done.returncode != 0
    assert message in " ".join((done.stdout + done.stderr).split())
    assert (done.stdout + done.stderr).count("ERROR!") == 1 or inventory in ("", None)


@pytest.mark.parametrize(
    ("inventory", "arguments", "begins"),
    [
        (HOSTS, [], False),
        (HOSTS, ["-l", "gpu_nodes"], True),
        (HOSTS, ["-l", "a5-01"], True),
        (HOSTS, ["-e", "gpuwright_hosts=gpu_nodes"], True),
        (HOSTS, ["--check"], True),
        ("gpu_nodes: {hosts: {a5-01: {}}}\n", [], True),
    ],
)
def test_several_hosts_are_uninstalled_only_where_they_are_named(
    tmp_path: Path, inventory: str, arguments: list[str], begins: bool
) -> None:
    done = play(tmp_path, inventory, *arguments, playbook="playbooks/uninstall.yml")
    assert (done.returncode == 0) is begins
    assert begins or "-l a5-01 for one host, -l gpu_nodes for all of them [run.limit]" in " ".join(done.stderr.split())


@pytest.mark.parametrize(
    ("limit", "wrong"),
    [
        ("a5-01", ""),
        ("a5-0*", ""),
        ("~a5-0[12]", ""),
        ("~a6", "~a6"),
        ("gpu_nodes[0]", ""),
        ("gpu_nodes[0:1]:!a5-02", ""),
        ("all:&gpu_nodes", ""),
        ("@hosts.txt", ""),
        ("localhost", ""),
        ("a5-01, a5-02", ""),
        ("a5-01,A5-02", "A5-02"),
        ("a6-*", "a6-*"),
        ("gpu_nodse[0:3]", "gpu_nodse[0:3]"),
    ],
)
def test_each_part_of_a_limit_must_fit(limit: str, wrong: str) -> None:
    found = LIMIT.limit_problems(limit, ["a5-01", "a5-02", "gpu_nodes"])
    assert [row.split(": ")[1].split(" is neither a host")[0] for row in found] == ([wrong] if wrong else [])


@pytest.mark.parametrize("arguments", [[], ["-l", "a5-02"], ["-l", "gpu_nodes"], ["--tags", "system_driver,verify"]])
def test_lets_a_good_run_start(tmp_path: Path, arguments: list[str]) -> None:
    done = play(tmp_path, HOSTS, *arguments)
    assert done.returncode == 0, done.stderr
    assert "Preflight" in done.stdout


@pytest.mark.parametrize(
    ("version", "fits"),
    [
        ("2.16.19", True),
        ("2.16.0", True),
        # A fleet without RHEL 8 is managed by a newer one; the plan refuses RHEL 8 hosts under it.
        ("2.17.3", True),
        ("2.19.0rc1", True),
        ("3.0.0", True),
        ("2.15.13", False),
        ("2.9.27", False),
    ],
)
def test_refuses_an_older_ansible_core(version: str, fits: bool) -> None:
    variables = {"ansible_version": {"full": version}, "groups": {"gpu_nodes": ["a5-01"]}}
    found = LOOKUP.problems(variables, ["a5-01"], ["a5-01"], ["system"])
    assert (found == []) is fits
    assert fits or f"ansible-core {version} is too old" in found[0]


def test_another_group_may_be_meant(tmp_path: Path) -> None:
    done = play(tmp_path, HOSTS, "-e", "gpuwright_hosts=other")
    assert done.returncode == 0 and "play #3 (other): System layer" in done.stdout, done.stdout + done.stderr


def test_syntax_is_checked_without_an_inventory() -> None:
    """As ansible-lint and galaxy-importer do: nothing is going to be done, so nothing is missing."""
    command = [str(PLAYBOOK), "-i", "localhost,", "--syntax-check", "playbooks/system.yml"]
    done = subprocess.run(command, cwd=REPOSITORY, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr


NOTHING_TO_DO = """
- hosts: gpu_nodes
  gather_facts: false
  tasks:
    - ansible.builtin.set_fact:
        cacheable: true
        gpu_node_plan: {}
        gpu_node_settled: {all: "{{ settled }}"}
- hosts: "{{ query('gpuwright.node.gpu_nodes', layer='framework') }}"
  gather_facts: false
  vars: {preflight_layer: framework}
  roles: [gpuwright.node.preflight]
  tasks:
    - ansible.builtin.debug: {msg: "entered on {{ inventory_hostname }}"}
    - ansible.builtin.assert:
        that: inventory_hostname not in fails
- hosts: "{{ query('gpuwright.node.gpu_nodes', layer='model') }}"
  gather_facts: false
  vars: {preflight_layer: model}
  roles: [gpuwright.node.preflight]
  tasks:
    - ansible.builtin.debug: {msg: "model on {{ inventory_hostname }}"}
- hosts: "{{ lookup('gpuwright.node.gpu_nodes') }}"
  gather_facts: false
  tasks:
    - ansible.builtin.debug: {msg: "verified {{ inventory_hostname }}"}
"""


def run_layers(folder: Path, settled: list[bool], fails: Sequence[str] = ()) -> tuple[int, str, str]:
    """Exit status, screen and log of the plays above on two hosts that have nothing to do, or have."""
    (folder / "play.yml").write_text(NOTHING_TO_DO)
    hosts = {name: {"settled": nothing, "fails": list(fails)} for name, nothing in zip(TWO, settled, strict=True)}
    (folder / "inventory.yml").write_text(json.dumps({"gpu_nodes": {"hosts": hosts}}))
    command = [str(PLAYBOOK), "-i", str(folder / "inventory.yml"), str(folder / "play.yml")]
    environment = {**os.environ, "ANSIBLE_NOCOLOR": "1", "GPUWRIGHT_LOG_FOLDER": str(folder / "logs")}
    done = subprocess.run(command, cwd=REPOSITORY, capture_output=True, text=True, env=environment)
    return done.returncode, done.stdout + done.stderr, next((folder / "logs").glob("*.log")).read_text()


@pytest.mark.parametrize(
    ("settled", "entered"),
    [([False, False], ["a5-01", "a5-02"]), ([True, False], ["a5-02"]), ([True, True], [])],
)
def test_a_layer_is_for_the_hosts_that_have_something_to_do(
    tmp_path: Path, settled: list[bool], entered: list[str]
) -> None:
    status, said, log = run_layers(tmp_path, settled)
    assert status == 0, said
    assert [name for name in TWO if f"entered on {name}" in log] == entered
    assert [name for name in TWO if f"model on {name}" in log] == entered
    assert [name for name in TWO if f"verified {name}" in log] == list(TWO)
    # That a layer has nothing to do is no news, and no warning.
    assert "no hosts matched" not in said and "WARNING" not in said


def test_a_host_that_fails_where_no_other_has_anything_to_do_ends_no_other(tmp_path: Path) -> None:
    """Ansible ends a run where all hosts of a play have failed."""
    status, said, log = run_layers(tmp_path, [True, False], fails=["a5-02"])
    assert status == 2 and "entered on a5-02" in log and "entered on a5-01" not in log, said
    assert "verified a5-01" in log and "verified a5-02" not in log


def test_a_host_of_which_nothing_is_known_has_something_to_do() -> None:
    nothing = {"all": True}
    known: dict[str, Any] = {"a": {"gpu_node_settled": nothing}, "b": {}, "c": {"gpu_node_settled": None}}
    variables = {"hostvars": {name: as_facts(facts) for name, facts in known.items()}}
    assert LOOKUP.hosts_of("model", ["a", "b", "c", "d"], variables) == ["b", "c", "d", "a"]


@pytest.mark.parametrize(
    ("facts", "layers"),
    [
        ({}, {"preflight", "closer"}),
        # An earlier play has left it out, for somebody's work: it is not read again.
        ({"gpu_node_left_out": {"kind": "busy"}}, set()),
        ({"gpu_node_plan": {}, "gpu_node_preflight": {"finished": True}}, set()),
        ({"gpu_node_plan": {}, "gpu_node_preflight": {"finished": False}}, {"closer"}),
        # No plan fits.
        ({"gpu_node_preflight": {"finished": False}}, {"preflight", "closer"}),
        ({"gpu_node_plan": {}, "gpu_node_preflight": {"finished": False}, "__preflight_checks": {}}, set()),
        # What was found is missing: the play for a closer look ends with an error there.
        ({"gpu_node_plan": {}}, {"closer"}),
    ],
)
def test_a_host_is_read_once_and_looked_at_more_closely_once(facts: dict[str, Any], layers: set[str]) -> None:
    variables = {"hostvars": {"a": as_facts(facts)}, "ansible_run_tags": ["all"]}
    assert {layer for layer in ("preflight", "closer") if LOOKUP.hosts_of(layer, ["a"], variables)} == layers


@pytest.mark.parametrize(("tags", "hosts"), [(["report"], []), (["report", "verify"], ["a"]), (["all"], ["a"])])
@pytest.mark.parametrize("layer", ["preflight", "closer", "ready", "verdict"])
def test_the_page_alone_reads_no_host(layer: str, tags: list[str], hosts: list[str]) -> None:
    assert LOOKUP.hosts_of(layer, ["a"], {"hostvars": {}, "ansible_run_tags": tags}) == hosts


def test_what_is_ready_to_be_verified_gets_no_play_before_but_as_a_companion() -> None:
    ready, other = {"gpu_node_preflight": {"ready": True}}, {"gpu_node_preflight": {"ready": False}}
    known: dict[str, Any] = {"a": ready, "b": other, "c": {"gpu_node_left_out": {"kind": "busy"}}, "d": ready, "e": {}}
    variables = {"hostvars": {name: as_facts(facts) for name, facts in known.items()}, "ansible_run_tags": ["all"]}
    assert LOOKUP.hosts_of("ready", ["a", "d"], variables) == []
    assert LOOKUP.hosts_of("ready", ["a", "b", "c", "d", "e"], variables) == ["b", "c", "e", "a"]
    # Who was left out is not verified; the page alone needs a host to be made on, and contacts none.
    assert LOOKUP.hosts_of("verify", ["a", "c", "e"], variables) == ["a", "e"]
    assert LOOKUP.hosts_of("verify", ["e"], {"hostvars": known, "ansible_run_tags": ["report"]}) == ["e"]


def test_only_who_did_not_pass_ends_with_a_verdict_and_never_alone() -> None:
    verdicts = {"a": "PASS", "b": "FAIL", "c": "UNKNOWN", "d": "WARN"}
    known: dict[str, Any] = {name: as_facts({"gpu_node_verdict": {"verdict": word}}) for name, word in verdicts.items()}
    left_out = {"gpu_node_left_out": {"kind": "busy"}}
    variables = {"hostvars": {**known, "e": {}, "f": left_out}, "ansible_run_tags": ["all"]}
    assert LOOKUP.hosts_of("verdict", ["a", "d", "f"], variables) == []
    # One without a verdict has not passed.
    assert LOOKUP.hosts_of("verdict", ["b", "c", "d", "e"], variables) == ["b", "c", "e", "d"]
    assert LOOKUP.hosts_of("verdict", ["b"], variables) == ["b"]


def test_one_of_the_others_comes_with_those_that_are_looked_at_more_closely() -> None:
    finished, bad = (
        as_facts({"gpu_node_plan": {}, "gpu_node_preflight": {"finished": done}}) for done in (True, False)
    )
    variables = {"hostvars": {"a": finished, "b": bad, "c": finished}, "ansible_run_tags": ["all"]}
    assert LOOKUP.hosts_of("closer", ["a", "b", "c"], variables) == ["b", "a"]
    assert LOOKUP.hosts_of("closer", ["a", "c"], variables) == [] and LOOKUP.hosts_of("closer", ["b"], variables) == [
        "b"
    ]
