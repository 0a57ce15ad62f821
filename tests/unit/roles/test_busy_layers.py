"""What each layer does where somebody works: its own tasks, with modules that answer as told."""

from __future__ import annotations

import hashlib
import json
import os
from pathlib import Path
from typing import Any

import pytest
import yaml
from conftest import REPOSITORY
from own_collection import own_collection
from test_system_busy import ALICE, Site

FORCE = {"gpuwright_busy": "force"}


@pytest.fixture
def site(tmp_path: Path) -> Site:
    return Site(tmp_path)


def include(role: str, tasks: str = "main") -> dict[str, Any]:
    return {"ansible.builtin.include_role": {"name": f"gpuwright.node.{role}", "tasks_from": tasks}}


# --- tuning


@pytest.mark.parametrize(
    ("busy", "turns", "variables", "code", "ran"),
    [
        # The first of them changes nothing that work would feel: test_tuning.py.
        (ALICE, "[]", {}, 0, ["host_tuning real"]),
        (ALICE, "['/proc/sys/vm/swappiness']", {}, 2, ["host_tuning real"]),
        (ALICE, "['/proc/sys/vm/swappiness']", FORCE, 0, ["host_tuning real", "host_tuning real"]),
        ("", "['/proc/sys/vm/swappiness']", {}, 0, ["host_tuning real", "host_tuning real"]),
    ],
)
def test_settings_wait_for_who_works(site: Site, busy: str, turns: str, variables: dict, code: int, ran: list) -> None:
    site.module("host_tuning", f"{{'changed': True, 'turns': {turns}, 'settings': []}}")
    known = {"system_tuning_state": "absent", **variables}
    assert site.play([busy], [include("system_tuning", "settings")], **known) == code, site.log
    assert site.ran() == ran
    assert len(site.looks) == (0 if turns == "[]" else 1)
    assert ("did not change /proc/sys/vm/swappiness: " + ALICE in site.text) is (code == 2)


# --- driver


@pytest.mark.parametrize(
    ("busy", "missing", "commands", "variables", "code", "installed"),
    [
        # All packages are there and only the reboot is due: nobody is asked.
        (ALICE, [], [], {}, 0, True),
        (ALICE, ["nvidia-driver-cuda"], [], {}, 2, False),
        (ALICE, [], ["dnf module enable"], {}, 2, False),
        (ALICE, ["nvidia-driver-cuda"], [], FORCE, 0, False),
        ("", ["nvidia-driver-cuda"], ["dnf module enable"], {}, 0, True),
    ],
)
def test_a_driver_waits_for_who_works(
    site: Site, busy: str, missing: list, commands: list, variables: dict, code: int, installed: bool
) -> None:
    state = {
        "changed": False,
        "missing": missing,
        "unfinished": [],
        "half_replaced": [],
        "locked": False,
        "holder": None,
    }
    site.module("missing_packages", repr(state))
    site.module("dnf_module_stream", f"{{'changed': False, 'commands': {commands}}}")
    driver = {"stream": "580-dkms", "switch_removes": [], "packages": ["nvidia-driver-cuda"], "present": False}
    known = {"gpu_node_plan": {"driver": driver}, "gpu_node": {"os": {"family": "redhat"}}}
    touch = f"touch '{site.folder}/done'"
    go_on = {"ansible.builtin.raw": touch, "when": "not __system_driver_in_use"}
    assert site.play([busy], [include("system_driver", "busy"), go_on], **known, **variables) == code, site.log
    assert ("done" in site.wrote()) is installed
    assert site.ran() == ["dnf_module_stream check", "missing_packages real"]
    assert [look["touches"] for look in site.looks] == ["gpu"] * bool(missing or commands)


# --- environments

CURRENT, NEW, OLDER, OLDEST = (letter * 16 for letter in "abcd")


class Environments:
    def __init__(self, site: Site) -> None:
        self.site, self.venvs = site, site.folder / "venvs"
        for number, name in enumerate((OLDEST, OLDER, CURRENT, NEW)):
            (self.venvs / name).mkdir(parents=True)
            (self.venvs / name / "gpuwright.json").write_text("{}")
            os.utime(self.venvs / name / "gpuwright.json", (1000 + number, 1000 + number))
        (self.venvs / "current").symlink_to(self.venvs / CURRENT)

    def run(self, answers: list[Any], *tasks: str, **variables: Any) -> int:
        known: dict[str, Any] = {"__framework_pytorch_venvs": str(self.venvs), "__framework_pytorch_id": NEW}
        known |= {"framework_pytorch_keep": 0, **variables}
        return self.site.play(answers, [include("framework_pytorch", name) for name in tasks], **known)

    @property
    def current(self) -> str:
        return (self.venvs / "current").readlink().name

    def names(self) -> list[str]:
        return sorted(path.name for path in self.venvs.iterdir() if not path.is_symlink())


@pytest.fixture
def environments(site: Site) -> Environments:
    return Environments(site)


BY_LINK = {"who": ALICE, "by_link": True}
UNKNOWN = {"who": "1 unknown processes", "unreadable": "not seen"}


@pytest.mark.parametrize(
    ("answer", "variables", "code", "current"),
    [
        ("", {}, 0, NEW),
        (ALICE, {}, 2, CURRENT),
        (BY_LINK, {}, 2, CURRENT),
        # Told to: who was called by its environment's own path keeps its files, who was called by the link would not.
        (ALICE, FORCE, 0, NEW),
        (BY_LINK, FORCE, 0, CURRENT),
        (UNKNOWN, FORCE, 0, CURRENT),
    ],
)
def test_the_switch_waits(environments: Environments, answer: Any, variables: dict, code: int, current: str) -> None:
    assert environments.run([answer], "switch", **variables) == code, environments.site.log
    assert environments.current == current
    (look,) = environments.site.looks
    assert look["environment"] == f"{environments.venvs}/current" and look["venvs"] == str(environments.venvs)


def test_the_current_one_stays_whoever_works(environments: Environments) -> None:
    assert environments.run([ALICE], "switch", __framework_pytorch_id=CURRENT) == 0, environments.site.log
    assert environments.site.looks == [] and "changed=0" in environments.site.text


@pytest.mark.parametrize(
    ("answer", "left"),
    [
        ({}, [NEW]),
        ({"environments": {f"{{venvs}}/{OLDER}": ALICE}}, [NEW, OLDER]),
        (UNKNOWN, [CURRENT, NEW, OLDER, OLDEST]),
    ],
)
def test_what_somebody_uses_is_not_removed(environments: Environments, answer: dict, left: list[str]) -> None:
    used = {path.format(venvs=environments.venvs): who for path, who in answer.get("environments", {}).items()}
    answer = {"who": "", **answer, **({"environments": used} if used else {})}
    assert environments.run(["", answer], "switch", "prune") == 0, environments.site.log
    assert environments.names() == left
    assert (f"{OLDER} stays until a later run: {ALICE}" in environments.site.text) is bool(used)


def test_what_the_link_leads_to_is_never_removed(environments: Environments) -> None:
    """The switch was held, and who held it has ended since."""
    assert environments.run([BY_LINK, ""], "switch", "prune", **FORCE) == 0, environments.site.log
    assert environments.names() == [CURRENT, NEW]


def test_nobody_is_asked_where_nothing_is_too_many(environments: Environments) -> None:
    assert environments.run([ALICE], "switch", "prune", __framework_pytorch_id=CURRENT,
                            framework_pytorch_keep=3) == 0, environments.site.log  # fmt: skip
    assert environments.site.looks == [] and len(environments.names()) == 4


# --- trainer


@pytest.mark.parametrize(
    ("busy", "stamp", "variables", "code", "looks"),
    [(ALICE, "same", {}, 0, 0), (ALICE, "other", {}, 2, 1), (ALICE, "other", FORCE, 0, 1)],
)
def test_the_trainer_is_not_replaced_under_who_works(
    site: Site, busy: str, stamp: str, variables: dict, code: int, looks: int
) -> None:
    venv = site.folder / "venvs/one"
    venv.mkdir(parents=True)
    mark = hashlib.sha256(stamp.encode()).hexdigest()
    site.module("python_environment", f"{{'changed': False, 'whole': True, 'because': '', 'mark_sha256': '{mark}'}}")
    known = {"__model_trainer_digest": "same", "gpu_node_plan": {}}
    known["framework_pytorch_planned"] = {"path": str(venv), "complete": True}
    tasks = [include("model_trainer", "package")]
    assert site.play([busy], tasks, **known, **variables) == code, site.log
    assert len(site.looks) == looks and not (venv / "bin").exists()
    if looks:
        assert site.looks[0]["environment"] == str(venv)
        assert f"did not install another version of the trainer: {ALICE}" in site.text


def test_an_environment_that_the_trainer_waits_for_is_not_the_current_one_yet(environments: Environments) -> None:
    site, new = environments.site, environments.venvs / NEW
    known = {
        "gpu_node_plan": {},
        "__model_trainer_digest": "same",
        "framework_pytorch_planned": {"path": str(new), "complete": True},
    }
    known.update({"__framework_pytorch_venvs": str(environments.venvs), "__framework_pytorch_id": NEW})
    main = yaml.safe_load((REPOSITORY / "roles/model_trainer/tasks/main.yml").read_text())
    (switch,) = [task for task in main if task["name"] == "Make the environment with the trainer the current one"]
    answers = [ALICE, "", ""]
    assert site.play(answers, [include("model_trainer", "package"), switch], **known, **FORCE) == 0, site.log
    assert environments.current == CURRENT and [look["environment"] for look in site.looks] == [str(new)]


# --- verification


WAIT = {"gpuwright_busy": "wait", "gpuwright_busy_wait_seconds": 0, "__system_busy_poll_seconds": 1}
JUDGED = {"verdict": "PASS", "findings": [], "message": "Verdict PASS"}


@pytest.mark.parametrize(
    ("busy", "device", "variables", "tried", "looks"),
    [
        # The verification looks for itself who works there, right before it trains.
        (ALICE, "cuda", {}, True, 0),
        (ALICE, "cuda", FORCE, True, 0),
        (ALICE, "cuda", WAIT, False, 1),
        ("", "cuda", WAIT, True, 1),
        (ALICE, "cpu", WAIT, True, 0),
    ],
)
def test_the_cards_are_not_tried(site: Site, busy: str, device: str, variables: dict, tried: bool, looks: int) -> None:
    asked = f"open({str(site.folder / 'smoke')!r}, 'w').write(json.dumps(arguments))"
    facts = {"gpu_node_verdict": JUDGED}
    site.module("gpu_verify", f"({asked}, {{'changed': False, 'verdict': 'PASS', 'ansible_facts': {facts}}})[1]")
    site.module("report_page", "{'changed': False, 'path': '/x'}")
    known = {"verify_smoke_device": device, "__verify_held": {}, "preflight_agents": ["nvitop"]}
    tasks = [include("verify", "busy"), include("verify", "judge")]
    assert site.play([busy], tasks, **known, **variables) == 0, site.log
    arguments = json.loads((site.folder / "smoke").read_text())
    assert ("smoke_test" in arguments) is tried and len(site.looks) == looks
    assert arguments.get("smoke") == (None if tried else {"busy": ALICE})
    assert not tried or arguments["smoke_test"]["agents"] == ["nvitop"]


def test_who_works_on_the_cards_is_told_with_the_next_step(site: Site) -> None:
    own = own_collection(site.folder) / "plugins/modules/gpu_verify.py"
    own.unlink()
    own.write_text(
        "from ansible.module_utils.basic import AnsibleModule\n"
        "module = AnsibleModule({'stamp': {'type': 'dict'}}, supports_check_mode=True)\n"
        f"module.exit_json(changed=False, verdict='WARN', checks=[], busy={ALICE!r})\n"
    )
    assert site.play([], [{"gpuwright.node.gpu_verify": {}}]) == 0, site.log
    assert f"a5-01 is in use, so this run did not train on the GPUs to try them: {ALICE}. Next: run again" in site.text
    assert "ansible-playbook site.yml -l a5-01 -e gpuwright_busy=wait" in site.text
