"""Every plan that a shipped profile makes has a lock file, and lock files hold what their names and plans say."""

from __future__ import annotations

import functools
import re
from pathlib import Path

import pytest
from ansible_collections.gpuwright.node.plugins.plugin_utils.plan.matrix import SHIPPED, read_matrix
from ansible_collections.gpuwright.node.plugins.plugin_utils.plan.question import imagined_host
from ansible_collections.gpuwright.node.plugins.plugin_utils.plan.solve import solve
from gpuwright.host.versions import version_key
from module_files import load_file

environments = load_file("tools/environments.py")
FILES = sorted(environments.LOCKS.glob("*.txt"))


@functools.cache
def plans() -> dict[str, dict]:
    """Plans of the shipped profiles by the names of their lock files; made by the first test, not by each worker."""
    return {plan["pytorch"]["lock"]: plan for plan in environments.shipped_plans()}


def locked(file: Path) -> dict[str, tuple[str, int]]:
    """Version and number of hashes of each package."""
    found = {}
    for block in re.split(r"\n(?=\S)", re.sub(r"(?m)^#.*\n", "", file.read_text()).strip()):
        match = re.match(r"([A-Za-z0-9._-]+)==([^\s;]+)", block)
        assert match, block[:80]
        found[match.group(1)] = (match.group(2), len(re.findall(r"--hash=sha256:[0-9a-f]{64}", block)))
    return found


def test_every_plan_of_a_profile_can_be_locked() -> None:
    assert [name for name, plan in plans().items() if not environments.can_be_locked(plan)] == []


def test_every_plan_of_a_profile_is_locked() -> None:
    assert set(plans()) <= {file.name for file in FILES}


def test_tensorflow_beside_the_default_pytorch_is_locked_for_every_python() -> None:
    """`framework_pytorch_tensorflow_version: "2.20"` finds a lock on every system with its Pythons 3.10 to 3.13."""
    pairs = {name for name, plan in plans().items() if plan["tensorflow"]["version"].startswith("2.20")}
    assert {f"py{python}-torch2.10.0-cu128-tf2.20.0.txt" for python in ("3.10", "3.11", "3.12", "3.13")} <= pairs


def test_tensorflow_beside_the_cpu_build_is_locked_and_brings_no_cuda() -> None:
    """A node that trains on its processor asks for TensorFlow by `framework_pytorch_tensorflow_version: "2.20"`."""
    matrix = read_matrix(SHIPPED) | {"locks": [file.name for file in FILES]}
    pins = {"pytorch": "2.13.0", "pytorch_build": "cpu", "tensorflow": "2.20"}
    plan = solve(matrix, imagined_host("V100", "debian 12"), pins)
    assert plan["pytorch"]["locked"] and not plan["tensorflow"]["cuda_from_pip"]
    content = locked(environments.LOCKS / plan["pytorch"]["lock"])
    assert content["torch"][0] == "2.13.0+cpu" and content["tensorflow"][0] == "2.20.0"
    assert [name for name in content if name.startswith("nvidia-")] == []
    names = [re.split("[<>=]", line)[0].lower().replace("_", "-") for line in plan["requirements"]]
    assert set(names) <= set(content)


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.name)
def test_a_lock_holds_what_its_plan_asks_for(file: Path) -> None:
    """A plan with pins has one, too, where somebody has made it: then what it was made from is what counts."""
    content, plan = locked(file), plans().get(file.name)
    assert all(hashes > 0 for _version, hashes in content.values())
    parts = re.fullmatch(r"py[0-9.]+-torch([0-9.]+)-\w+?(?:-tf([0-9.]+))?\.txt", file.name)
    assert parts is not None
    pytorch, tensorflow = parts.groups()
    assert content["torch"][0].partition("+")[0] == pytorch
    assert content.get("tensorflow", ("",))[0] == (tensorflow or "")
    asked = file.with_suffix(".in").read_text().splitlines()
    for requirement in plan["requirements"] if plan else [line for line in asked if not line.startswith("#")]:
        match = re.fullmatch(r"([A-Za-z_]+)(?:>=([0-9.]+))?.*", requirement)
        assert match is not None, requirement
        name = match.group(1).lower().replace("_", "-")
        assert name in content, requirement
        if match.group(2):
            assert version_key(content[name][0]) >= version_key(match.group(2)), requirement


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.name)
def test_a_lock_names_no_place(file: Path) -> None:
    """Where packages come from is the node's affair: an address or path here would be this machine's."""
    text = file.read_text()
    assert "://" not in text and "--find-links" not in text and "--index" not in text
    assert file.with_suffix(".in").exists()
