"""A run while a GPU is missing never replaces the plan that was made for the whole node; the inventory may."""

from __future__ import annotations

import copy
import json
import os
import subprocess
import sys
from pathlib import Path

import healthy_node
import healthy_plan
import pytest
import yaml
from ansible.parsing.dataloader import DataLoader
from ansible.template import Templar
from gpuwright.checks.all import run_checks
from gpuwright.checks.gpu.kept_plan import hold, made_for

REPOSITORY = Path(__file__).resolve().parents[4]
CARD = {"pci_id": "0000:3b:00.0", "name": "Tesla V100-PCIE-16GB"}
EMPTY = {**copy.deepcopy(healthy_plan.PLAN), "driver": {"branch": "", "present": True}}
SMALLER = {**copy.deepcopy(healthy_plan.PLAN), "driver": {**healthy_plan.PLAN["driver"], "branch": "470"}}


def wanted(plan: dict = healthy_plan.PLAN, **changes: object) -> dict:
    return healthy_node.expectations(plan=copy.deepcopy(plan), **changes)


RECORDED = hold(wanted(), None, [CARD]).expectations


@pytest.mark.parametrize(
    ("asked", "recorded", "gpus", "branch", "plan_gpus", "kept"),
    [
        (wanted(), None, [CARD], "580", 1, False),
        (wanted(EMPTY), RECORDED, [], "580", 1, True),
        (wanted(EMPTY), RECORDED, None, "580", 1, True),
        # A record of an older release does not say for how many GPUs its plan was made.
        (wanted(EMPTY), wanted(), [], "580", 1, True),
        (wanted(EMPTY, gpu_count=2), wanted(gpu_count=2), [], "580", 2, True),
        (wanted(SMALLER, gpu_count=2), {**RECORDED, "gpu_count": 2, "plan_gpus": 2}, [CARD], "580", 2, True),
        # The inventory says that the node has fewer now.
        (wanted(SMALLER), {**RECORDED, "gpu_count": 2, "plan_gpus": 2}, [CARD], "470", 1, False),
        (wanted(EMPTY, gpu_count=0), RECORDED, [], "", 0, False),
        # It is whole again, or was changed on purpose.
        (wanted(SMALLER), RECORDED, [CARD], "470", 1, False),
        # Nothing better is known; the check gpu.plan says so.
        (wanted(EMPTY), None, [], "", 0, False),
        (wanted(EMPTY), {"schema": 1}, [], "", 0, False),
        (wanted(EMPTY), [], [], "", 0, False),
        (wanted(EMPTY), wanted(EMPTY), [], "", 0, False),
        (wanted(SMALLER, gpu_count=2), RECORDED, [CARD], "470", 1, False),
    ],
)
def test_which_plan_counts(asked, recorded, gpus, branch, plan_gpus, kept):
    held = hold(asked, recorded, gpus)
    assert (held.expectations["plan"]["driver"]["branch"], held.expectations["plan_gpus"]) == (branch, plan_gpus)
    assert bool(held.because) == kept
    assert {**held.expectations, "plan": 0, "plan_gpus": 0} == {
        **hold(asked, None, gpus).expectations,
        "plan": 0,
        "plan_gpus": 0,
    }


def test_what_the_inventory_says_counts_beside_a_kept_plan():
    held = hold(wanted(EMPTY, services=["slurmd"], link_width="8"), RECORDED, [])
    assert (held.expectations["services"], held.expectations["link_width"]) == (["slurmd"], 8)
    assert "0 of 1 GPUs are on the PCI bus" in held.because and made_for(held.expectations) == 1


@pytest.mark.parametrize(("cards", "words"), [(1, "Run: ansible-playbook"), (0, "First do what gpu.count says")])
def test_the_cards_come_before_the_plan(cards, words):
    readings = healthy_node.readings()
    readings["probe"]["gpus"] = readings["probe"]["gpus"][:cards]
    records = run_checks(readings, {**wanted(), "plan_gpus": 0})
    assert next(record for record in records if record["id"] == "gpu.plan")["action"].startswith(words)


def test_files_elsewhere_keep_the_checks_action():
    readings = healthy_node.readings()
    readings["permissions"].update(unsafe_count=1, unsafe=["/elsewhere/x: writable"])
    records = run_checks(readings, wanted())
    [found] = [record for record in records if record["id"] == "model.permissions"]
    assert found["action"].startswith("Run: sudo chown -R root:root FILE")


@pytest.mark.skipif(os.geteuid() != 0, reason="the role writes files of root's")
def test_the_role_keeps_the_plan_while_a_gpu_is_missing(tmp_path: Path) -> None:
    file = tmp_path / "expectations.json"
    play = {"hosts": "localhost", "connection": "local", "gather_facts": False}
    play["tasks"] = yaml.safe_load((REPOSITORY / "roles/verify/tasks/expect.yml").read_text())
    (tmp_path / "play.yml").write_text(yaml.safe_dump([play]))

    def run(plan: dict, gpus: list, **changes: object) -> str:
        known = {"__verify_expectations": wanted(plan, **changes), "__verify_expectations_file": str(file)}
        known["__verify_kept"] = []
        known.update(ansible_facts={"gpu_node": {"gpus": gpus}}, ansible_python_interpreter=sys.executable)
        (tmp_path / "vars.json").write_text(json.dumps(known))
        command = [str(Path(sys.executable).with_name("ansible-playbook")), "-i", "localhost,", "play.yml"]
        command[-1] = str(tmp_path / "play.yml")
        done = subprocess.run(
            [*command, "-e", f"@{tmp_path}/vars.json"], cwd=REPOSITORY, capture_output=True, text=True, check=False
        )
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout + done.stderr

    run(healthy_plan.PLAN, [CARD])
    before = file.read_text()
    assert json.loads(before)["plan_gpus"] == 1
    assert "0 of 1 GPUs are on the PCI bus" in " ".join(run(EMPTY, []).split())
    assert file.read_text() == before
    run(EMPTY, [], gpu_count=0)
    assert json.loads(file.read_text())["plan"]["driver"]["branch"] == ""


FILE, VENDORS = [{"id": "nvidia", "url": "file:///var/lib/gpuwright/bundle/r"}], [{"id": "nvidia", "url": "https://v"}]


@pytest.mark.parametrize(
    ("kept", "recorded", "found"),
    [
        ([], FILE, VENDORS),
        (["repositories"], FILE, FILE),
        # A record of a release that had none of it, and a node that was never verified.
        (["repositories"], None, VENDORS),
        (["repositories"], ..., VENDORS),
    ],
)
@pytest.mark.parametrize("gpus", [[CARD], []])
def test_what_a_run_cannot_know_stays_as_it_was_recorded(kept, recorded, found, gpus):
    """A verification alone uses no bundle, and would expect the vendor's addresses of a node that has the bundle's."""
    before = None if recorded is ... else {**RECORDED, **({"repositories": recorded} if recorded else {})}
    if before and not recorded:
        before.pop("repositories", None)
    held = hold(wanted(repositories=VENDORS), before, gpus, kept)
    assert held.expectations["repositories"] == found
    assert {**held.expectations, "repositories": 0} == {
        **hold(wanted(repositories=VENDORS), before, gpus).expectations,
        "repositories": 0,
    }


def test_a_verification_without_the_bundle_keeps_the_addresses_that_are_recorded():
    """In every run that has not made its variables; one that has, and a node without a bundle, say their own."""
    task = yaml.safe_load((REPOSITORY / "roles/verify/tasks/expect.yml").read_text())[0][
        "gpuwright.node.gpu_expectations"
    ]
    text = yaml.safe_load((REPOSITORY / "roles/verify/vars/main.yml").read_text())[task["kept"].strip("{} ")]
    own = text.replace("lookup('gpuwright.node.setting', 'gpuwright_bundle')", "own")
    for bundle, more, wanted_parts in (
        ("", {}, []),
        ("/media/bundle", {}, ["repositories"]),
        ("/media/bundle", {"bundle_pending": False}, []),
        ("/media/bundle", {"bundle_pending": True}, []),
    ):
        assert Templar(loader=DataLoader(), variables={"own": bundle, **more}).template(own) == wanted_parts
