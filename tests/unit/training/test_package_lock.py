"""Packages beside a plan's lock file: resolved and locked on the controller, installed on the node by their hashes.

pip is real and resolves among wheels that are made here; no index is asked.
"""

from __future__ import annotations

import hashlib
import json
import os
import subprocess
import sys
import zipfile
from pathlib import Path
from typing import Any

import pytest
import yaml
from ansible_collections.gpuwright.node.plugins.action.package_lock import locked
from ansible_collections.gpuwright.node.plugins.plugin_utils.package_lock import (
    LockError,
    lock_name,
    lock_text,
    pins,
    read_report,
    read_wanted,
)
from conftest import REPOSITORY
from given_facts import as_facts
from test_environment_modes import PLAYBOOK, Environment, made, quick

__all__ = ["made", "quick"]
BASE = "torch==2.13.0+cpu \\\n    --hash=sha256:00\nnumpy==2.1.0 \\\n    --hash=sha256:00\n"
NAME = "py3.11-torch2.13.0-cpu.txt"


def put(folder: Path, name: str, version: str, *requires: str, tag: str = "py3-none-any") -> str:
    """A wheel of nothing but its metadata; its SHA-256."""
    file, info = folder / f"{name}-{version}-{tag}.whl", f"{name}-{version}.dist-info"
    needs = "".join(f"Requires-Dist: {text}\n" for text in requires)
    with zipfile.ZipFile(file, "w") as wheel:
        wheel.writestr(f"{info}/METADATA", f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n{needs}")
        wheel.writestr(f"{info}/WHEEL", f"Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: {tag}\n")
        wheel.writestr(f"{info}/RECORD", "")
    return hashlib.sha256(file.read_bytes()).hexdigest()


@pytest.fixture
def wheels(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """What pip finds, in place of every index."""
    folder = tmp_path / "index"
    folder.mkdir()
    for name in [name for name in os.environ if name.startswith("PIP_")]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("PIP_CONFIG_FILE", os.devnull)
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(folder))
    return folder


def found(folder: Path, python: str, *packages: str) -> dict[str, str]:
    text = lock_text(NAME, BASE, python, read_wanted(packages, folder))
    assert text.count("--hash=sha256:") == len(pins(text))
    return pins(text)


def test_a_package_brings_what_it_needs_and_leaves_the_plan_as_it_is(wheels: Path) -> None:
    digest = put(wheels, "metric", "1.4", "torch>=1.0", "numpy", "picture>=1")
    put(wheels, "picture", "1.2")
    put(wheels, "picture", "0.9")
    # Newer than the plan's, and not wanted.
    put(wheels, "numpy", "9.0")
    text = lock_text(NAME, BASE, "3.11", read_wanted(["metric==1.4"], wheels))
    assert pins(text) == {"metric": "1.4", "picture": "1.2"}
    assert f"metric==1.4 \\\n    --hash=sha256:{digest}\n" in text
    assert text.startswith(f"# Beside {NAME}, written by gpuwright.node.lock. Asked for:\n# metric==1.4\n")


def test_what_the_plan_has_already_is_not_locked_again(wheels: Path) -> None:
    assert found(wheels, "3.11", "numpy>=2") == {}


@pytest.mark.parametrize(("python", "names"), [("3.9", {"metric", "older"}), ("3.13", {"metric", "newer"})])
def test_conditions_are_those_of_the_nodes_python(wheels: Path, python: str, names: set[str]) -> None:
    """pip itself asks the controller's Python, which is neither."""
    older = 'older; python_version < "3.10"'
    put(wheels, "metric", "1.4", older, 'newer; python_version >= "3.13"', 'win; sys_platform == "win32"')
    put(wheels, "older", "1.0")
    put(wheels, "newer", "1.0")
    assert set(found(wheels, python, "metric")) == names


def test_a_wheel_is_the_one_for_the_nodes_python_and_extras_count(wheels: Path) -> None:
    digest = put(wheels, "fast", "1.0", tag="cp39-cp39-manylinux_2_28_x86_64")
    put(wheels, "fast", "1.0", tag="cp311-cp311-manylinux_2_28_x86_64")
    put(wheels, "metric", "1.4", 'fast; extra == "speed"')
    text = lock_text(NAME, BASE, "3.9", read_wanted(["metric[speed]"], wheels))
    assert pins(text) == {"metric": "1.4", "fast": "1.0"} and digest in text


def test_a_wheel_of_ones_own_is_locked_with_what_it_needs(wheels: Path, tmp_path: Path) -> None:
    digest = put(tmp_path, "my_gan", "0.1.0", "torch", "metric", "gan_trainer")
    put(wheels, "metric", "1.4")
    text = lock_text(NAME, BASE, "3.11", read_wanted(["my_gan-0.1.0-py3-none-any.whl"], tmp_path))
    assert pins(text) == {"my-gan": "0.1.0", "metric": "1.4"} and digest in text


@pytest.mark.parametrize(
    ("packages", "words"),
    [
        (["numpy<2"], ["numpy<2 cannot be resolved for Python 3.11", "the plan has numpy 2.1.0", "Next: "]),
        (["metric"], ["metric cannot be resolved", "metric 1.4 depends on torch<2", "the plan has torch 2.13.0+cpu"]),
        (["none-such==1"], ["none-such==1 cannot be resolved", "No matching distribution found", "docs/compatibility"]),
    ],
)
def test_what_does_not_fit_the_plan_is_one_sentence(wheels: Path, packages: list[str], words: list[str]) -> None:
    put(wheels, "metric", "1.4", "torch<2")
    with pytest.raises(LockError) as raised:
        found(wheels, "3.11", *packages)
    assert [word for word in words if word not in str(raised.value)] == [], raised.value
    assert "\n" not in str(raised.value)


@pytest.mark.parametrize(
    ("entry", "words"),
    [
        ("lpips = 1", "'lpips = 1' is neither a package of an index, such as lpips==0.1.4, nor the path of a wheel"),
        ("--index-url=http://x", "is neither a package"),
        ("lpips @ https://host/lpips.zip", "is neither a package"),
        ("mine.whl", "'mine.whl' is not the name of a wheel, such as mine-0.1.0-py3-none-any.whl"),
        ("mine-0.1.0-py3-none-any.whl", "cannot be read at /srv/none/mine-0.1.0-py3-none-any.whl: No such file"),
    ],
)
def test_an_entry_that_is_no_package_is_named(entry: str, words: str) -> None:
    with pytest.raises(LockError, match="framework_pytorch_packages: ") as raised:
        read_wanted([entry], Path("/srv/none"))
    assert words in str(raised.value)


def test_an_index_without_hashes_is_refused() -> None:
    item = {"metadata": {"name": "metric", "version": "1.4"}, "download_info": {"url": "https://host/metric.whl"}}
    with pytest.raises(LockError, match="gives no SHA-256 for metric 1.4"):
        read_report({"install": [item]})


def test_a_file_for_which_an_older_pip_gives_no_hash_is_hashed_here(tmp_path: Path) -> None:
    wheel = tmp_path / "a place/torch-2.13.0+cpu-py3-none-any.whl"
    wheel.parent.mkdir()
    wheel.write_bytes(b"wheel")
    item = {"metadata": {"name": "torch", "version": "2.13.0+cpu"}, "download_info": {"url": wheel.as_uri()}}
    assert "%2B" in wheel.as_uri() and "%20" in wheel.as_uri()
    (found,) = read_report({"install": [item]})
    assert found.sha256 == hashlib.sha256(b"wheel").hexdigest()


def test_the_name_changes_with_all_that_decides_the_content(tmp_path: Path) -> None:
    put(tmp_path, "my_gan", "0.1.0")
    mine = "my_gan-0.1.0-py3-none-any.whl"
    names = {
        lock_name(NAME, base, python, read_wanted(packages, tmp_path))
        for base in (BASE, BASE.replace("2.1.0", "2.1.1"))
        for python in ("3.11", "3.12")
        for packages in (["metric"], ["metric==1"], [mine], ["metric", mine])
    }
    put(tmp_path, "my_gan", "0.1.0", "numpy")
    names.add(lock_name(NAME, BASE, "3.11", read_wanted([mine], tmp_path)))
    assert len(names) == 17 and all(name.startswith("py3.11-torch2.13.0-cpu+") for name in names)
    again = [lock_name(NAME, BASE, "3.11", read_wanted(order, tmp_path)) for order in (["a", "b"], ["b", "a"])]
    assert again[0] == again[1]


def options(folder: Path, *packages: str) -> dict[str, Any]:
    known = {"base_name": NAME, "base": BASE, "python": "3.11", "index_url": "", "extra_index_url": "", "locks": ""}
    return {**known, "packages": list(packages), "folder": str(folder)}


def test_a_lock_file_that_is_there_stays(wheels: Path, tmp_path: Path) -> None:
    put(wheels, "metric", "1.4")
    assert locked(options(tmp_path, "metric"), check_mode=True)["changed"]
    assert not (tmp_path / "locks").exists()
    first = locked(options(tmp_path, "metric"), check_mode=False)
    put(wheels, "metric", "1.5")
    second = locked(options(tmp_path, "metric"), check_mode=False)
    assert (first["changed"], second["changed"]) == (True, False) and first["path"] == second["path"]
    assert pins(Path(first["path"]).read_text()) == {"metric": "1.4"}


@pytest.mark.parametrize("locks", ["../shared locks", "/", "~"])
def test_lock_files_of_several_inventories_can_share_a_folder(
    wheels: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, locks: str
) -> None:
    """From the inventory's folder, absolute, or from the user's own."""
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    inventory = tmp_path / "inventory"
    inventory.mkdir()
    put(wheels, "metric", "1.4")
    given = str(tmp_path / "absolute") if locks == "/" else f"{locks}/locks" if locks == "~" else locks
    expected = {"/": tmp_path / "absolute", "~": tmp_path / "home/locks"}.get(locks, tmp_path / "shared locks")
    told = locked({**options(inventory, "metric"), "locks": given}, check_mode=False)
    assert [path.parent.resolve() for path in (Path(told["path"]),)] == [expected]
    assert pins(Path(told["path"]).read_text()) == {"metric": "1.4"} and not (inventory / "locks").exists()


def lock(folder: Path, *arguments: str) -> tuple[int, str]:
    """playbooks/lock.yml for a plan in a file, with an inventory in the folder."""
    (folder / "hosts.yml").write_text("---\nungrouped:\n  hosts:\n    localhost:\n")
    command = [str(PLAYBOOK), "-i", str(folder / "hosts.yml"), "playbooks/lock.yml", *arguments]
    environment = {**os.environ, "ANSIBLE_NOCOLOR": "1"}
    done = subprocess.run(command, cwd=REPOSITORY, env=environment, capture_output=True, text=True, timeout=120)
    return done.returncode, " ".join((done.stdout + done.stderr).split())


@pytest.mark.parametrize("broken", ["fsync", "rename"])
def test_a_lock_file_that_cannot_be_finished_is_not_there(
    wheels: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, broken: str
) -> None:
    """Half of one would stay: every later run takes the file that is there."""
    put(wheels, "lpips", "0.1.4")

    def full(*_arguments: object, **_named: object) -> None:
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as disk:
        disk.setattr(os, broken, full)
        stopped = locked(options(tmp_path, "lpips"), check_mode=False)
    assert stopped["failed"] and "No space left on device" in stopped["msg"], stopped
    assert list((tmp_path / "locks").iterdir()) == []
    assert locked(options(tmp_path, "lpips"), check_mode=False)["changed"] is True


def test_the_playbook_locks_and_the_role_installs_by_hashes(quick: Environment, wheels: Path) -> None:
    """A package of an index and a wheel of one's own, whose hash is then not what it was."""
    put(wheels, "metric", "1.4")
    put(wheels, "my_gan", "0.1.0", "metric", "gan_trainer")
    own = quick.folder / "my_gan-0.1.0-py3-none-any.whl"
    (wheels / own.name).rename(own)
    base = quick.folder / "base.txt"
    shared = {"framework_pytorch_locks_folder": "kept/apart"}
    base.write_text(f"tiny-thing==1.0 --hash=sha256:{quick.digest}\n")
    torch = {"version": "1.0", "build": "cpu", "lock": "lock.txt", "locked": True, "index_url": ""}
    plan = {"python": {"version": "3.11", "executable": quick.python, "packages": []}, "pytorch": torch}
    (quick.folder / "plan.json").write_text(json.dumps(plan))
    packages = ["metric", own.name]
    given = {"framework_pytorch_packages": packages, "framework_pytorch_lock_file": str(base), **shared}
    # As from where the playbook is started, which is not its own folder.
    named = "plan=" + os.path.relpath(quick.folder / "plan.json", REPOSITORY)
    asked = ["-e", named, "-e", json.dumps(given)]
    code, said = lock(quick.folder, *asked)
    assert code == 0 and f"{quick.folder}/kept/apart/base+" in said and "keep it with the inventory" in said, said
    code, said = lock(quick.folder, *asked)
    assert code == 0 and "already exists" in said, said
    code, said = lock(quick.folder, "-e", named, "-e", f"framework_pytorch_lock_file={base}")
    assert code == 0 and "nothing has to be locked" in said, said

    # On the node only what the hashes name: this is another metric 1.4.
    (quick.wheels / "metric-1.4-py3-none-any.whl").write_bytes((wheels / "metric-1.4-py3-none-any.whl").read_bytes())
    variables: dict[str, Any] = {**given, "gpu_node_plan": plan, "inventory_dir": str(quick.folder)}
    assert quick.run(0o022, **variables) == 0, quick.log
    installed = {path.name for path in quick.venv.glob("lib/*/site-packages/*.dist-info")}
    assert {"tiny_thing-1.0.dist-info", "metric-1.4.dist-info", "my_gan-0.1.0.dist-info"} <= installed
    assert pins((quick.venv / "lock.txt").read_text()) == {"tiny-thing": "1.0", "metric": "1.4", "my-gan": "0.1.0"}
    before = quick.venv
    put(quick.wheels, "metric", "1.4", "numpy")
    assert quick.run(0o022, **variables) == 0 and quick.venv == before, quick.log
    for path in sorted(before.rglob("*"), reverse=True):
        path.rmdir() if path.is_dir() and not path.is_symlink() else path.unlink()
    assert quick.run(0o022, **variables) != 0 and "DO NOT MATCH THE HASHES" in quick.log


def test_a_plan_without_a_lock_file_gets_one_that_the_role_takes(quick: Environment, wheels: Path) -> None:
    """The last PyTorch for Volta, which the PyTorch index alone has: by the command that the plan names."""
    question = [
        "Titan V",
        "--os",
        "rhel 9.6",
        "--json",
        "framework_pytorch_version=2.14.1",
        "framework_pytorch_python=3.11",
    ]
    command = [sys.executable, "tools/gpu-plan", *question]
    plan = json.loads(subprocess.run(command, cwd=REPOSITORY, capture_output=True, check=True).stdout)
    torch, name = plan["pytorch"], "py3.11-torch2.14.1-cu126.txt"
    assert (torch["lock"], torch["locked"]) == (name, False)
    (said,) = [text for text in plan["warnings"] if name in text]
    assert f"where PyPI and {torch['index_url']} can be reached" in said
    assert (
        "> plan.json; make lock PLAN=plan.json, or, for framework_pytorch_lock_file, ansible-playbook playbooks/"
        in said
    )

    code, said = lock(quick.folder, "-e", f"plan={quick.folder}/plan.json")
    assert code != 0
    plan["python"]["executable"] = quick.python
    (quick.folder / "plan.json").write_text(json.dumps(plan))
    code, said = lock(quick.folder, "-e", f"plan={quick.folder}/plan.json")
    assert code != 0 and "torch==2.14.1+cu126" in said and "cannot be resolved for Python 3.11" in said, said
    put(wheels, "torch", "2.14.1+cu126", "typing_extensions", "old_thing; python_version < '3.11'")
    put(wheels, "typing_extensions", "4.15.0")
    for line in plan["requirements"][1:]:
        put(wheels, line.replace("-", "_"), "1.0")
    code, said = lock(quick.folder, "-e", f"plan={quick.folder}/plan.json")
    file = quick.folder / "locks" / name
    assert code == 0 and f"{file} is the lock file of the plan" in said and "nothing has to be locked" in said, said
    locked_versions = pins(file.read_text())
    assert locked_versions["torch"] == "2.14.1+cu126" and locked_versions["typing-extensions"] == "4.15.0"
    assert len(locked_versions) == len(plan["requirements"]) + 1

    for wheel in wheels.iterdir():
        (quick.wheels / wheel.name).write_bytes(wheel.read_bytes())
    variables: dict[str, Any] = {"gpu_node_plan": plan, "inventory_dir": str(quick.folder)}
    # These wheels have no module to import.
    variables |= {"framework_pytorch_lock_file": str(file), "__framework_pytorch_imports": ["pip"]}
    assert quick.run(0o022, **variables) == 0, quick.log
    installed = {path.name for path in quick.venv.glob("lib/*/site-packages/*.dist-info")}
    assert {"torch-2.14.1+cu126.dist-info", "typing_extensions-4.15.0.dist-info"} <= installed
    put(quick.wheels, "torch", "2.14.1+cu126", "another_thing")
    for path in sorted(quick.venv.rglob("*"), reverse=True):
        path.rmdir() if path.is_dir() and not path.is_symlink() else path.unlink()
    assert quick.run(0o022, **variables) != 0 and "DO NOT MATCH THE HASHES" in quick.log


@pytest.mark.parametrize("entry", ["metric", "metric = 1"])
def test_packages_that_nobody_has_locked_stop_the_role(tmp_path: Path, entry: str) -> None:
    file = REPOSITORY / "roles/framework_pytorch/tasks/main.yml"
    name = "Refuse packages that nobody has locked"
    (task,) = [task for task in yaml.safe_load(file.read_text()) if task["name"] == name]
    torch = {"lock": "py3.11-torch2.13.0-cpu.txt", "locked": True}
    variables = {
        "gpu_node_plan": {"pytorch": torch, "python": {"version": "3.11"}},
        "framework_pytorch_packages": [entry],
        "framework_pytorch_lock_file": "",
        "framework_pytorch_locks_folder": "",
        "role_path": str(REPOSITORY / "roles/framework_pytorch"),
    }
    files = [str(REPOSITORY / "roles/framework_pytorch/vars/main.yml")]
    play = {"hosts": "localhost", "gather_facts": False, "become": False, "vars_files": files, "tasks": [task]}
    (tmp_path / "play.yml").write_text(yaml.safe_dump([play]))
    command = [str(PLAYBOOK), "-i", "localhost,", "-c", "local", str(tmp_path / "play.yml")]
    command += ["-e", json.dumps(as_facts(variables))]
    done = subprocess.run(command, cwd=REPOSITORY, capture_output=True, text=True, timeout=120)
    said = " ".join((done.stdout + done.stderr).split())
    assert done.returncode != 0
    if entry != "metric":
        assert "framework_pytorch_packages: 'metric = 1' is neither a package of an index" in said, said
        assert "Unhandled" not in said and "unhandled" not in said
        return
    assert f"framework_pytorch_packages: there is no lock file {tmp_path}/locks/py3.11-torch2.13.0-cpu+" in said, said
    assert "of metric for this plan. Make it on the controller, and keep it with the inventory: " in said
    assert "ansible-playbook playbooks/lock.yml -l localhost" in said
