"""A finished node is asked and not worked through, and no change of what a role looked at escapes its record."""

from __future__ import annotations

import json
import os
import subprocess
import tarfile
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest
from testinfra.host import Host

REPOSITORY = Path(__file__).resolve().parents[2]
ROLES = (
    "system_kernel", "system_driver", "system_cuda", "system_runtime", "system_training", "system_tuning",
    "system_containers", "system_monitor", "framework_pytorch", "model_trainer", "verify",
)  # fmt: skip
LIBRARY = "/var/tmp/library-of-a-tamper-test"
# What a run asks of a node on which nothing is to do: is it there, what is it, whose is it (for reading, for changing),
# does a training run, is it what it should be; and the report is fetched.
NO_OP = {"raw": 1, "gpu_probe": 1, "operator_lock": 2, "amp_smoke_test": 1, "gpu_verify": 1, "fetch": 1}
# Every way in which a thing of a kind can be changed on this node, made and taken back by a program on the node itself.
TAMPER = (Path(__file__).parent / "tamper.py").read_text()
pytestmark = [pytest.mark.el8, pytest.mark.one_node]


def site(host: Host, folder: Path, *arguments: str) -> list[list]:
    """Run site.yml on this node; what was executed on it."""
    inventory = Path(os.environ["MOLECULE_EPHEMERAL_DIRECTORY"]) / "inventory"
    name = host.ansible.get_variables()["inventory_hostname"]
    log = folder / "executions.jsonl"
    log.unlink(missing_ok=True)
    done = subprocess.run(
        ["ansible-playbook", "-i", str(inventory), "site.yml", "-l", name, *arguments],
        cwd=REPOSITORY,
        env={**os.environ, "ANSIBLE_CALLBACK_PLUGINS": str(REPOSITORY / "tests/executions"), "EXECUTIONS": str(log)},
        capture_output=True,
        text=True,
        timeout=400,
        stdin=subprocess.DEVNULL,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return [json.loads(line) for line in log.read_text().splitlines()]


def executed(lines: list[list]) -> Counter:
    return Counter(action for _host, action, _role, _changed in lines)


@pytest.fixture(scope="module")
def settled_host(host: Host, tmp_path_factory: pytest.TempPathFactory) -> Host:
    """A run found nothing to do since this node's last boot."""
    site(host, tmp_path_factory.mktemp("settled"))
    return host


def test_a_plain_run_asks_the_node_five_times(settled_host: Host, tmp_path: Path) -> None:
    lines = site(settled_host, tmp_path)
    assert executed(lines) == NO_OP and not any(changed for *_rest, changed in lines)


def test_every_role_is_entered_on_request_and_still_changes_nothing(settled_host: Host, tmp_path: Path) -> None:
    lines = site(settled_host, tmp_path, "-e", "gpuwright_full=true")
    assert set(ROLES) - {"system_containers"} <= {role for _host, _action, role, _changed in lines}
    assert not any(changed for *_rest, changed in lines)


def test_one_changed_setting_enters_the_roles_that_it_could_matter_to(settled_host: Host, tmp_path: Path) -> None:
    lines = site(settled_host, tmp_path, "-e", '{"system_training_researchers": ["root"]}')
    entered = {role for _host, _action, role, _changed in lines}
    assert "system_training" in entered and not entered & {"system_kernel", "system_driver", "system_cuda"}, entered
    # Its group has one member more, and the roles that look at accounts see it.
    back = site(settled_host, tmp_path)
    assert {"system_training", "model_trainer"} <= {role for _host, _action, role, _changed in back}
    site(settled_host, tmp_path)
    assert executed(site(settled_host, tmp_path)) == NO_OP


@pytest.fixture
def library(settled_host: Host, tmp_path: Path) -> Iterator[str]:
    """The node's library with its part `settled`, which comes with a module and is not kept there."""
    with tarfile.open(tmp_path / "library.tar", "w") as archive:
        for file in sorted((REPOSITORY / "plugins/module_utils").rglob("*.py")):
            archive.add(file, "gpuwright" / file.relative_to(REPOSITORY / "plugins/module_utils"))
    settled_host.ansible("file", f"path={LIBRARY} state=directory mode=0755", check=False, become=True)
    settled_host.ansible("unarchive", f"src={tmp_path}/library.tar dest={LIBRARY}", check=False, become=True)
    yield LIBRARY
    settled_host.ansible("file", f"path={LIBRARY} state=absent", check=False, become=True)


def test_no_change_of_what_a_role_looked_at_escapes(settled_host: Host, library: str) -> None:
    program = f"import sys; sys.argv = ['', '{library}']\n{TAMPER}"
    with settled_host.sudo():
        told = json.loads(settled_host.check_output("/usr/libexec/platform-python -B -c %s", program))
    found = told["found"]
    missed = [row["what"] for row in found if not row["seen"] or not row["mended"]]
    assert not missed and len(found) >= 60, (missed, len(found))
    assert {role for row in found for role in row["roles"]} == set(ROLES) - {"system_containers"}
    # Only the trees, of which a file was replaced by its copy, are not what they were.
    assert set(told["changed"]) == {"system_runtime", "framework_pytorch", "model_trainer"}
