"""A whole run of site.yml asks for a stamp, any other does not, and the run after it works through no role."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from left_out_site import Site, reached

VERIFY = """
import json
from ansible.module_utils.basic import AnsibleModule
module = AnsibleModule(argument_spec={{"stamp": {{"type": "dict"}}}}, supports_check_mode=True)
with open("{file}", "w") as file:
    json.dump(module.params["stamp"], file)
module.exit_json(changed=False, verdict="PASS", checks=[], smoke_seconds=None, busy="")
"""
RESCUED: list[dict[str, Any]] = [
    {"block": [{"ansible.builtin.fail": {"msg": "x"}}], "rescue": [{"ansible.builtin.debug": {"msg": "mended"}}]}
]
LATER: list[dict[str, Any]] = [{"ansible.builtin.set_fact": {"__system_busy_later": True}}]
LAYERS = ["system", "framework", "model"]


@pytest.fixture
def site(tmp_path: Path) -> Site:
    made = Site(tmp_path)
    (tmp_path / "library/gpu_verify.py").write_text(VERIFY.format(file=tmp_path / "stamp.json"))
    made.tasks("verify", [{"gpuwright.node.gpu_verify": {}}], "judge.yml")
    made.host("c1")
    tell(made, reboot={"required": False}, last_verdict={"verdict": "PASS", "time": ""})
    return made


def tell(site: Site, **facts: Any) -> None:
    """What the probe says of the host from now on, besides what it has said before."""
    file = site.folder / "nodes/c1.json"
    file.write_text(json.dumps({**json.loads(file.read_text()), **facts}))


def asked_of(site: Site, *arguments: str) -> tuple[dict[str, Any], list[str]]:
    """The stamp that the verification is asked to keep, and the layers that the host went through."""
    done = site.run("site.yml", *arguments)
    assert done.returncode == 0, done.stdout
    return json.loads((site.folder / "stamp.json").read_text()), reached(done.stdout).get("c1", [])


def test_a_whole_run_asks_for_a_stamp_and_the_next_one_enters_no_layer(site: Site) -> None:
    stamp, layers = asked_of(site)
    assert layers == LAYERS and set(stamp) == {"inputs", "names"} and "/srv/gan/runs" in stamp["names"]
    tell(site, settled={"inputs": stamp["inputs"], "changed": []})
    # It was not worked through, so it gets no other one; a variable of any role enters all.
    assert asked_of(site) == ({}, [])
    assert asked_of(site, "-e", "model_trainer_runs_dir=/data")[1] == LAYERS
    full = asked_of(site, "-e", "gpuwright_full=true")
    assert full[1] == LAYERS and full[0]
    tell(site, settled={"inputs": stamp["inputs"], "changed": ["units"]})
    assert asked_of(site) == (stamp, LAYERS)


@pytest.mark.parametrize(
    "arguments", [["--tags", "system,framework,model,verify"], ["--skip-tags", "framework"]], ids=" ".join
)
def test_a_part_of_a_run_asks_for_none(site: Site, arguments: list[str]) -> None:
    assert asked_of(site, *arguments)[0] == {}


@pytest.mark.parametrize("tasks", [RESCUED, LATER], ids=["rescued", "left for another run"])
def test_a_run_that_was_not_smooth_asks_for_none(site: Site, tasks: list[dict[str, Any]]) -> None:
    site.tasks("system_driver", [*tasks, site.mark("system")])
    assert asked_of(site) == ({}, LAYERS)
