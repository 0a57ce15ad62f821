"""What needs no host: documentation, a plan, and what is in the file."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
import yaml
from conftest import REPOSITORY, Call

# Each kind of plug-in, and the folder in which ours of that kind lie; a filter's file may hold several.
KINDS = ("module", "filter", "lookup", "callback", "vars")


def names(kind: str) -> set[str]:
    if kind == "module":
        return {path.stem for path in (REPOSITORY / "library").glob("*.py")}
    if kind == "filter":
        files = (REPOSITORY / "plugins/filter").glob("*.py")
        texts = [file.read_text().partition("def filters")[2] for file in files]
        return {name for text in texts for name in re.findall(r'"(\w+)": ', text)}
    return {path.stem for path in (REPOSITORY / f"plugins/{kind}").glob("*.py")}


@pytest.mark.parametrize("kind", KINDS)
def test_every_plug_in_is_documented(call: Call, kind: str) -> None:
    asked = sorted(f"gpuwright.node.{name}" for name in names(kind))
    assert asked
    done = call("ansible-doc", "-t", kind, "--json", *asked)
    assert done.returncode == 0 and "WARNING" not in done.stderr, done.stderr
    found = json.loads(done.stdout)
    assert set(found) == set(asked)
    for name, page in found.items():
        assert page["doc"]["short_description"] and page["doc"]["description"], name
        if kind in ("module", "filter", "lookup"):
            assert page["examples"] and page["return"], name


def test_every_role_is_documented(call: Call) -> None:
    done = call("ansible-doc", "-t", "role", "-l", "--json", "gpuwright.node")
    assert done.returncode == 0, done.stderr
    roles = {path.name for path in (REPOSITORY / "roles").iterdir()}
    assert {name.rpartition(".")[2] for name in json.loads(done.stdout)} == roles


def test_a_plan_without_a_host(call: Call) -> None:
    done = call("ansible-playbook", "gpuwright.node.plan", "-e", "gpu='Tesla V100-PCIE-16GB'", "-e", "os='alma 8.10'")
    assert done.returncode == 0, done.stdout + done.stderr
    assert "cuda-toolkit-12-" in done.stdout and "580" in done.stdout


PLAYBOOKS = ("site", "preflight", "system", "framework", "model", "verify", "scan", "lock", "kickstart")


def test_every_playbook_knows_its_roles(call: Call, elsewhere: Path) -> None:
    (elsewhere / "workers.yml").write_text(yaml.safe_dump({"workers": {"hosts": {"w1": {}}}}))
    names = [f"gpuwright.node.{name}" for name in PLAYBOOKS]
    done = call("ansible-playbook", *names, "-i", "workers.yml", "-e", "gpuwright_hosts=workers", "--list-tasks")
    assert done.returncode == 0, done.stdout + done.stderr
    listed = re.split(r"^playbook: .*/(\w+)\.yml$", done.stdout, flags=re.MULTILINE)[1:]
    assert listed[::2] == list(PLAYBOOKS) and all("(workers)" in text for text in listed[1::2]), done.stdout


def test_a_wrong_limit_stops_without_our_ansible_cfg(call: Call, elsewhere: Path) -> None:
    (elsewhere / "hosts.yml").write_text(yaml.safe_dump({"gpu_nodes": {"hosts": {"a5-01": {}, "a5-02": {}}}}))
    done = call("ansible-playbook", "gpuwright.node.site", "-i", "hosts.yml", "-l", "a5-01,a5-03", "--list-tasks")
    assert done.returncode != 0 and "a5-03 is neither a host nor a group" in done.stdout + done.stderr


def test_nothing_of_a_developer_is_in_it(installed: Path) -> None:
    root = installed / "ansible_collections/gpuwright/node"
    assert not [
        name
        for name in ("collections", "tests/unit", "tests/fleet", ".venv", ".fleet", "reports")
        if (root / name).exists()
    ]
    assert (root / "plugins/modules").is_symlink() and (root / "plugins/modules/gpu_probe.py").is_file()
    # What the artefact held: Python has since compiled what was used of it.
    shipped = [row["name"] for row in json.loads((root / "FILES.json").read_text())["files"]]
    assert "plugins/lookup/gpu_nodes.py" in shipped and not [name for name in shipped if "__pycache__" in name]
    # For a controller that cannot build it.
    assert len(list(root.glob("roles/model_trainer/files/wheels/*/*.whl"))) == 1
    files = [root / name for name in shipped]
    assert sum(file.stat().st_size for file in files if file.is_file() and not file.is_symlink()) < 12e6
