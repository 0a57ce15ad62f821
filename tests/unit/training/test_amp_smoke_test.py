"""amp_smoke_test as the node runs it, with a launcher that plays every way in which the training can end."""

from __future__ import annotations

import json
import os
import pwd
import shutil
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from gpuwright.probe import workloads
from gpuwright.training import smoke, trainer_run
from gpuwright.training.trainer_run import read_record

Write = Callable[[str, str], Path]
RUN = {"steps_applied": 20, "steps_skipped": 0, "loss_first": 1.4, "loss_last": 0.2, "parameters_changed": True}


def report(**changes: object) -> dict:
    device = {"device": "cuda:0", "name": "Tesla V100-PCIE-16GB", "amp_dtype": "float16", "fp32": RUN, "amp": RUN}
    whole = {"schema": 1, "torch": "2.10.0", "cuda": "12.8", "device": "cuda", "steps": 20, "devices": [device]}
    return {**whole, "problems": [], **changes}


def saying(answer: dict, code: int = 0, before: str = "", after: str = "") -> str:
    return f"#!/bin/sh\n{before}\ncat <<'END'\n{json.dumps(answer)}\nEND\n{after}\nexit {code}\n"


@pytest.fixture
def launch(run_module: Callable[..., dict], fake_bin: Write) -> Callable[..., dict]:
    """Run the module with this script as the launcher, as root or whoever runs the tests."""

    def run(script: str, check: bool = False, **args: object) -> dict:
        launcher = fake_bin("gpu-run", script)
        me = pwd.getpwuid(os.getuid()).pw_name
        wanted = {"python": "/venv/bin/python", "launcher": str(launcher), "user": me, "device": "cuda", "steps": 20}
        wanted["unit"] = ""
        return run_module("amp_smoke_test", {**wanted, **args}, check=check)

    return run


def test_missing_launcher_names_the_role(run_module: Callable[..., dict]) -> None:
    args = {"python": "/venv/bin/python", "launcher": "/no/such/gpu-run", "user": "root", "device": "cpu"}
    answer = run_module("amp_smoke_test", args)
    assert answer["failed"]
    assert "/no/such/gpu-run is not installed" in answer["msg"] and "system_runtime" in answer["msg"]


# launcher script; words that the message must have
FAILURES = {
    "ran on the CPU": (saying(report(devices=[{"device": "cpu"}])), ["to run on cuda, but ran on cpu"]),
    "ran nowhere": (saying(report(devices=[])), ["to run on cuda, but ran on nothing"]),
    "one GPU of two": (
        saying(report(devices=[{"device": "cuda:0"}, {"device": "cpu"}])),
        ["to run on cuda, but ran on cuda:0, cpu"],
    ),
    "problems": (
        saying(report(problems=["cuda:0 amp: no step was applied", "cuda:0 fp32: a loss was not finite"]), 1),
        ["no step was applied; cuda:0 fp32: a loss was not finite", "Next: look at nvidia-smi"],
    ),
    "build for CPUs": (
        saying(report(cuda=None, devices=[], problems=["cuda was requested"]), 1),
        ["cuda was requested. Next: set framework_pytorch_build"],
    ),
    "problems with exit code 0": (saying(report(problems=["lost"])), ["lost"]),
    "exit code without a problem": (saying(report(), 3), ["no problem, but ended with exit code 3"]),
    "no Python": (
        "#!/bin/sh\necho 'gpu-run: /venv/bin/python: command not found' >&2\nexit 127\n",
        ["/venv/bin/python cannot be started", "role framework_pytorch", "command not found"],
    ),
    "no trainer": (
        "#!/bin/sh\necho 'python: Error while finding module: No module named gan_trainer' >&2\nexit 1\n",
        ["/venv/bin/python has no gan_trainer", "role model_trainer"],
    ),
    "no report": ("#!/bin/sh\necho '{not json'\nexit 0\n", ["ended with exit code 0 and printed no report"]),
    "report of another version": (saying(report(schema=2)), ["printed no report"]),
    "report without problems": (saying({"schema": 1}), ["printed no report"]),
    "killed": ("#!/bin/sh\nkill -9 $$\n", ["terminated by signal 9", "lack of memory"]),
    "usage": ("#!/bin/sh\necho 'gpu-run: --gpus 7' >&2\nexit 2\n", ["exit code 2", "gpu-run: --gpus 7"]),
    "no program": ("no shebang and no ELF", ["cannot be run"]),
}


@pytest.mark.parametrize("name", FAILURES)
def test_failure_names_fault_next_step_and_evidence(name: str, launch: Callable[..., dict]) -> None:
    script, words = FAILURES[name]
    answer = launch(script)
    assert answer["failed"] and not answer["changed"]
    assert answer["msg"].startswith("AMP smoke test on ") and " Next: " in answer["msg"]
    for word in words:
        assert word in answer["msg"]
    assert "Traceback" not in answer["msg"]


def test_record_comes_back_with_the_failure(launch: Callable[..., dict]) -> None:
    answer = launch(saying(report(problems=["x"]), 1))
    assert answer["smoke"]["problems"] == ["x"] and answer["smoke"]["devices"]


def test_evidence_is_the_last_20_lines(launch: Callable[..., dict]) -> None:
    answer = launch("#!/bin/sh\nfor i in $(seq 100); do echo line-$i >&2; done\nexit 1\n")
    assert answer["msg"].splitlines()[-20:] == [f"line-{number}" for number in range(81, 101)]
    assert "line-80" not in answer["msg"]


def test_deadline_kills_the_whole_group(launch: Callable[..., dict], tmp_path: Path) -> None:
    pids = tmp_path / "pids"
    script = f"#!/bin/sh\ntrap '' TERM\nsleep 300 &\necho $! $$ > {pids}\nwait\nsleep 300\n"
    started = time.monotonic()
    answer = launch(script, timeout=1.0)
    assert time.monotonic() - started < 120
    assert "did not finish within 1 s" in answer["msg"] and "verify_smoke_timeout" in answer["msg"]
    time.sleep(0.2)
    for pid in pids.read_text().split():
        status = Path(f"/proc/{pid}/status")
        # Without a parent that collects it, a dead process may stay as a zombie.
        assert not status.exists() or "State:\tZ" in status.read_text()


@pytest.mark.parametrize(
    ("args", "message"),
    [
        ({"user": "no-such-user"}, "there is no user no-such-user"),
        ({"steps": 9}, "steps is 9, expected 10 to 100000"),
        ({"steps": 100001}, "steps is 100001, expected 10 to 100000"),
        ({"timeout": 0}, "timeout is 0.0 s, expected a number above 0"),
        ({"timeout": -1}, "expected a number above 0"),
        ({"timeout": "nan"}, "expected a number above 0"),
        ({"device": "auto"}, "value of device must be one of: cuda, cpu"),
        ({"steps": "many"}, "steps"),
        ({"python": None}, "python"),
    ],
)
def test_bad_parameters(launch: Callable[..., dict], tmp_path: Path, args: dict, message: str) -> None:
    answer = launch(f"#!/bin/sh\ntouch {tmp_path}/started\n", **args)
    assert answer["failed"] and message in answer["msg"]
    assert not (tmp_path / "started").exists()


def test_check_mode_starts_nothing(launch: Callable[..., dict], tmp_path: Path) -> None:
    answer = launch(f"#!/bin/sh\ntouch {tmp_path}/started\n", check=True)
    assert answer["skipped"] and not answer["changed"] and not answer.get("failed")
    assert not (tmp_path / "started").exists()


def test_good_run_returns_the_record_and_the_command(launch: Callable[..., dict], tmp_path: Path) -> None:
    before = f'printf "%s\\n" "$@" > {tmp_path}/arguments; echo "a library greets"; echo "{{}}"; echo noise >&2'
    answer = launch(saying(report(), before=before, after="echo 'and says goodbye'"))
    assert not answer.get("failed") and answer["changed"] is False
    assert answer["smoke"] == {**report(), "sandbox": None, "sandbox_because": "no sandbox was asked for"}
    trainer = ["/venv/bin/python", "-m", "gan_trainer.smoke", "--device", "cuda", "--steps", "20", "--json"]
    assert answer["command"][1:] == ["--", *trainer]
    assert (tmp_path / "arguments").read_text().split() == ["--", *trainer]


def test_rehearsal_on_the_cpu_is_a_good_run(launch: Callable[..., dict]) -> None:
    answer = launch(saying(report(device="cpu", devices=[{"device": "cpu"}])), device="cpu")
    assert not answer.get("failed") and answer["smoke"]["devices"] == [{"device": "cpu"}]


@pytest.fixture
def open_folder() -> Iterator[Path]:
    """A folder that every user can reach, which pytest's own is not."""
    folder = Path(tempfile.mkdtemp())
    folder.chmod(0o755)
    yield folder
    shutil.rmtree(folder)


@pytest.fixture
def extra_groups() -> Iterator[None]:
    """Groups of root's, as sudo and ssh give them, which the training user must not inherit."""
    before = os.getgroups()
    os.setgroups([0, 4, 6])
    yield
    os.setgroups(before)


@pytest.mark.skipif(os.getuid() != 0, reason="needs root to become another user")
def test_root_and_its_environment_are_left_behind(
    run_module: Callable[..., dict], open_folder: Path, request: pytest.FixtureRequest
) -> None:
    request.getfixturevalue("extra_groups")
    launcher = open_folder / "gpu-run"
    launcher.write_text(
        """#!/bin/sh
touch "$HOME/written" || exit 9
{
    echo "ids $(id -u) $(id -g) $(id -G) $(umask)"
    echo "folders $PWD $HOME"
    echo "names" $(env | cut -d= -f1)
    echo "capabilities $(grep CapEff /proc/self/status | cut -f2)"
} >&2
exit 1
"""
    )
    launcher.chmod(0o755)
    args = {"python": "/venv/bin/python", "launcher": str(launcher), "user": "nobody", "device": "cpu", "unit": ""}
    lines = [line.split() for line in run_module("amp_smoke_test", args)["msg"].splitlines()]
    told = {words[0]: words[1:] for words in lines if words}
    account = pwd.getpwnam("nobody")
    assert told["ids"] == [str(account.pw_uid), str(account.pw_gid), str(account.pw_gid), "0077"]
    folder, home = told["folders"]
    assert folder == home and home.startswith(tempfile.gettempdir()) and not Path(home).exists()
    assert set(told["names"]) <= {"HOME", "PATH", "LANG", "USER", "LOGNAME", "PWD", "OLDPWD", "SHLVL", "_"}
    assert int(told["capabilities"][0], 16) == 0


@pytest.mark.parametrize(
    ("stdout", "found"),
    [
        ("", False),
        ("{}", False),
        ("[]", False),
        ("{" * 100_000, False),
        (json.dumps(report())[:-1], False),
        (json.dumps(report()), True),
        ("\x00\ufffd\n" + json.dumps(report()) + "\n{}\n{broken", True),
        (" " + json.dumps(report()), False),
    ],
)
def test_record_is_found_among_other_output(stdout: str, found: bool) -> None:
    assert (read_record(stdout) == report()) is found
    assert (read_record(stdout) is None) is not found


@pytest.mark.parametrize(
    ("device", "agents", "works", "begins"),
    [
        ("cuda", ["nvitop"], True, False),
        ("cuda", ["nvitop"], False, True),
        # Nobody asked for it, or no card is used.
        ("cuda", None, True, True),
        ("cpu", ["nvitop"], True, True),
    ],
)
def test_cards_in_use_are_left_alone(
    device: str, agents: list[str] | None, works: bool, begins: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    row = {"what": "train", "name": "train", "pid": 7, "user": "alice", "since": "", "cards": [0], "job": False}
    row |= {"unreadable": "", "given": False}
    asked: list[list[str]] = []

    def read(agents: list[str]) -> dict[str, Any]:
        asked.append(agents)
        return {"workloads": [row] * works}

    monkeypatch.setattr(workloads, "read_workloads", read)
    monkeypatch.setattr(smoke, "SmokeBeside", lambda options: options["device"])
    begun, who = smoke.start_beside({"device": device, "agents": agents})
    assert (begun, who) == ((device, "") if begins else (None, "train (pid 7, alice)"))
    assert asked == ([agents] if device == "cuda" and agents is not None else [])


def test_the_service_that_is_named_is_the_sandbox(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[tuple] = []

    def run_program(command: list[str], user: str, seconds: float, unit: str) -> Any:
        asked.append((user, seconds, unit))
        raise trainer_run.RunError("enough", "nothing")

    monkeypatch.setattr(smoke, "run_program", run_program)
    options = {"launcher": "gpu-run", "python": "/venv/bin/python", "device": "cpu", "steps": 20, "user": "trainer"}
    smoke.run_smoke({**options, "timeout": 60, "unit": "/etc/systemd/system/train-gan@.service"})
    assert asked == [("trainer", 60, "/etc/systemd/system/train-gan@.service")]


def test_without_options_nothing_begins() -> None:
    assert smoke.start_beside(None) == (None, "")
