"""A finished node is asked and not worked through, and no change of what a role wants or made escapes its stamp."""

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
from test_finished_settled import BREAK

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


def test_one_changed_setting_enters_every_role_and_one_run_settles_it(site) -> None:
    setting = ("-e", '{"system_training_researchers": ["root"]}')
    entered = {role for _host, _action, role, _changed in site(*setting)}
    assert set(ROLES) - {"system_kernel", "system_containers"} <= entered
    # Its group has one member more, which the second run finds as it should be.
    assert not any(changed for *_rest, changed in site(*setting))
    assert executed(site(*setting)) == NO_OP
    for _twice in range(2):
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


def test_no_change_of_what_a_role_wants_escapes(library: str) -> None:
    tamper = (Path(__file__).parent / "tamper.py").read_text()
    told = json.loads(on_host(tamper, program=f"/usr/libexec/platform-python -B - {library}"))
    found = told["found"]
    missed = [row["what"] for row in found if not row["seen"] or not row["mended"]]
    assert not missed and len(found) >= 150, (missed, len(found))
    # Only the trees, of which a file was replaced by its copy, are not what they were.
    assert told["left"] == ["trees"]


PARTS = """
import json, sys
sys.path.insert(0, "{library}")
from gpuwright.first_record.stamp import STAMP, parts_now
with open(STAMP) as file:
    print(json.dumps(parts_now(json.load(file)["names"])))
"""


def test_each_way_to_break_it_changes_the_stamp(library: str, site) -> None:
    """By what a probe sees before and after each line, without a run."""
    look = lambda: on_host(PARTS.format(library=library), program="/usr/libexec/platform-python -B -")  # noqa: E731
    # systemd refuses to mask a unit whose file lies where the mask would.
    lines = [line for line in BREAK.strip().splitlines() if not line.endswith("|| true")]
    before, escaped = look(), []
    for line in lines:
        on_host(line)
        now = look()
        escaped += [line] if now == before else []
        before = now
    assert not escaped and len(lines) >= 34, escaped
    for _twice in range(2):
        site()
    assert executed(site()) == NO_OP
