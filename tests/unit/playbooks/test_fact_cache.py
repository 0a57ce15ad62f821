"""What an earlier run has found on a host is never taken for this run's, where the controller keeps facts."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import pytest
import yaml
from left_out_site import Site, reached

STALE, PASSED = "the plan of an earlier run", "the verdict of an earlier run"


@pytest.fixture
def site(tmp_path: Path) -> Site:
    """A host that an earlier run has read and passed, and whose kept facts are told from those of this run."""
    made = Site(tmp_path)
    made.host("a1")
    first = made.run("site.yml", **kept(tmp_path))
    assert first.returncode == 0 and "system" in reached(first.stdout)["a1"], first.stdout
    file = tmp_path / "kept" / "a1"
    facts = json.loads(file.read_text())
    assert {"gpu_node", "gpu_node_plan", "gpu_node_preflight", "gpu_node_settled"} <= set(facts)
    facts["gpu_node_plan"]["stale"] = facts["gpu_node"]["hostname"] = STALE
    # As after a PASS; and a fact of the site.
    facts |= {"gpu_node_verdict": {"verdict": "PASS", "message": PASSED}, "ansible_own": "of the site"}
    file.write_text(json.dumps(facts))
    asked = ("gpu_node_plan.stale", "gpu_node.hostname", "gpu_node_verdict")
    shown = " ".join(["SHOWN", *(f"{{{{ ansible_facts.{name} | default }}}}" for name in asked)])
    made.tasks("system_driver", [Site.mark("system"), {"ansible.builtin.debug": {"msg": shown}}])
    return made


def kept(folder: Path) -> dict[str, str]:
    return {"ANSIBLE_CACHE_PLUGIN": "jsonfile", "ANSIBLE_CACHE_PLUGIN_CONNECTION": str(folder / "kept")}


@pytest.mark.parametrize("playbook", ["playbooks/system.yml", "site.yml"])
def test_a_playbook_reads_its_hosts_again(site: Site, playbook: str) -> None:
    done = site.run(playbook, **kept(site.folder))
    assert done.returncode == 0 and "system" in reached(done.stdout)["a1"], done.stdout
    assert "SHOWN" in done.stdout and STALE not in done.stdout and PASSED not in done.stdout
    assert json.loads((site.folder / "kept" / "a1").read_text())["ansible_own"] == "of the site"


def test_a_host_that_has_changed_since_is_refused_now(site: Site) -> None:
    """Its last plan was fine, and its variables are wrong today."""
    site.hosts["a1"]["system_driver_brunch"] = "580"
    done = site.run("playbooks/system.yml", **kept(site.folder))
    assert done.returncode == 2 and "did you mean system_driver_branch?" in " ".join(done.stdout.split()), done.stdout
    assert reached(done.stdout) == {}


def own_play(site: Site, **play: object) -> subprocess.CompletedProcess[str]:
    """A play of somebody's own repository, whose run loads none of the toolkit's callbacks."""
    file = site.folder / "own" / "own.yml"
    file.parent.mkdir()
    config = file.with_name("ansible.cfg")
    config.touch()
    file.write_text(yaml.safe_dump([{"hosts": "gpu_nodes", "gather_facts": False, **play}]))
    settings = {"ANSIBLE_CONFIG": str(config), "ANSIBLE_COLLECTIONS_PATH": str(site.folder / "collections")}
    return site.run(str(file), **settings, **kept(site.folder))


def test_the_role_preflight_in_a_play_of_the_site_reads_again(site: Site) -> None:
    done = own_play(site, roles=["gpuwright.node.preflight", "gpuwright.node.system_driver"])
    assert done.returncode == 0 and "SHOWN" in done.stdout and STALE not in done.stdout, done.stdout


def test_a_role_alone_refuses_a_plan_of_an_earlier_run(site: Site) -> None:
    ask = {"ansible.builtin.debug": {"msg": "SHOWN {{ lookup('gpuwright.node.asked', 'environment') }}"}}
    done = own_play(site, tasks=[ask])
    said = " ".join(done.stdout.split())
    assert done.returncode == 2 and "of an earlier run" in said and "[fact.missing]" in said, done.stdout
