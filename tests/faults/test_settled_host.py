"""A finished node is asked and not worked through, and no change of what a role looked at escapes its record."""

from __future__ import annotations

import base64
import io
import json
import tarfile
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest
from conftest import REPOSITORY, on_host, play

ROLES = (
    "system_kernel", "system_driver", "system_cuda", "system_runtime", "system_training", "system_tuning",
    "system_containers", "system_monitor", "framework_pytorch", "model_trainer", "verify",
)  # fmt: skip
LIBRARY = "/var/tmp/library-of-a-tamper-test"
# What a run asks of a node on which nothing is to do: is it there, what is it, and, in one question, may this run have
# it, does a training run and is it what it should be.
NO_OP = {"raw": 1, "gpu_probe": 1, "gpu_verify": 1}


@pytest.fixture
def site(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """Run site.yml; what was executed on the host, as [host, action, role, changed]."""
    log = tmp_path / "executions.jsonl"
    monkeypatch.setenv("ANSIBLE_CALLBACK_PLUGINS", str(REPOSITORY / "tests/executions"))
    monkeypatch.setenv("EXECUTIONS", str(log))

    def run(*arguments: str) -> list[list]:
        log.unlink(missing_ok=True)
        done = play("site.yml", *arguments)
        assert done.rc == 0, done.output
        return [json.loads(line) for line in log.read_text().splitlines()]

    return run


def executed(lines: list[list]) -> Counter:
    return Counter(action for _host, action, _role, _changed in lines)


@pytest.fixture(scope="module")
def settled_host(finished_host: None) -> None:
    """Two runs: what tests before have left is put right by the first, and the second finds nothing to do."""
    for _twice in range(2):
        done = play("site.yml")
        assert done.rc == 0, done.output


pytestmark = pytest.mark.usefixtures("settled_host")


def test_a_plain_run_asks_the_node_three_times(site) -> None:
    lines = site()
    assert executed(lines) == NO_OP and not any(changed for *_rest, changed in lines)


def test_every_role_is_entered_on_request_and_still_changes_nothing(site) -> None:
    lines = site("-e", "gpuwright_full=true")
    # All that system_kernel does here is done by roles that it includes, and containers are not asked for.
    assert set(ROLES) - {"system_kernel", "system_containers"} <= {role for _host, _action, role, _changed in lines}
    assert not any(changed for *_rest, changed in lines)


def test_one_changed_setting_enters_the_roles_that_it_could_matter_to(site) -> None:
    lines = site("-e", '{"system_training_researchers": ["root"]}')
    entered = {role for _host, _action, role, _changed in lines}
    assert "system_training" in entered and not entered & {"system_kernel", "system_driver", "system_cuda"}, entered
    # Its group has one member more, and the roles that look at accounts see it.
    entered = {role for _host, _action, role, _changed in site()}
    assert {"system_training", "model_trainer"} <= entered, entered
    site()
    assert executed(site()) == NO_OP


@pytest.fixture
def library() -> Iterator[str]:
    """The node's library with its part `settled`, which comes with a module and is not kept there."""
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w:gz") as archive:
        for file in sorted((REPOSITORY / "plugins/module_utils").rglob("*.py")):
            archive.add(file, f"gpuwright/{file.relative_to(REPOSITORY / 'plugins/module_utils')}")
    text = base64.encodebytes(packed.getvalue()).decode()
    on_host(f"mkdir -p {LIBRARY}\nbase64 -d <<'END' | tar -xz -C {LIBRARY}\n{text}END")
    yield LIBRARY
    on_host(f"rm -r {LIBRARY}")


def test_no_change_of_what_a_role_looked_at_escapes(library: str) -> None:
    tamper = (Path(__file__).parent / "tamper.py").read_text()
    told = json.loads(on_host(tamper, program=f"/usr/libexec/platform-python -B - {library}"))
    found = told["found"]
    missed = [row["what"] for row in found if not row["seen"] or not row["mended"]]
    assert not missed and len(found) >= 60, (missed, len(found))
    assert {role for row in found for role in row["roles"]} == set(ROLES) - {"system_containers"}
    # Only the trees, of which a file was replaced by its copy, are not what they were.
    assert set(told["changed"]) == {"system_runtime", "framework_pytorch", "model_trainer"}
