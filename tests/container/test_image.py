"""The image trains as a user who is not root, holds only what was locked, and leaves nothing of its making behind."""

from __future__ import annotations

import json
import re
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from conftest import REPOSITORY, build, podman, wheelhouse

TWO_STEPS = ("--config", "/etc/gan/config.yml", "steps=2", "batch_size=4")


def test_it_trains_two_steps_as_a_user_who_is_not_root(in_container: Callable, runs: Path) -> None:
    done = in_container(*TWO_STEPS, "log_every=1")
    assert done.returncode == 0, done.stdout + done.stderr
    lines = [json.loads(line) for line in (runs / "first/stats.jsonl").read_text().splitlines()]
    assert [line["step"] for line in lines] == [1, 2]
    owners = {(file.stat().st_uid, file.stat().st_gid) for file in (runs / "first").rglob("*")}
    assert owners == {(10001, 10001)}
    assert list((runs / "first").rglob("*.pt")), "no checkpoint was written"


def test_the_same_command_goes_on_where_it_stopped(in_container: Callable, runs: Path) -> None:
    for steps in (2, 3):
        done = in_container(*TWO_STEPS[:2], f"steps={steps}", "batch_size=4", "log_every=1")
        assert done.returncode == 0, done.stdout + done.stderr
    lines = (runs / "first/stats.jsonl").read_text().splitlines()
    assert [json.loads(line)["step"] for line in lines] == [1, 2, 3]


def test_a_stopped_job_keeps_its_work_and_is_not_done(image: str, in_container: Callable, runs: Path) -> None:
    """What Kubernetes does when it drains a node: SIGTERM to the first process, then time."""
    with ThreadPoolExecutor(1) as pool:
        words = ("train-gan", *TWO_STEPS[:2], "steps=100000", "batch_size=4", "log_every=1")
        job = pool.submit(in_container, *words, program="gan-job", name="gpuwright-container-stopped")
        deadline, lines = time.monotonic() + 120, runs / "first/stats.jsonl"
        # The file is there before the first step; its first line is not, and until then there is nothing to keep.
        while not (lines.exists() and lines.read_text()) and time.monotonic() < deadline and not job.done():
            time.sleep(0.5)
        podman("stop", "--time", "100", "gpuwright-container-stopped")
        done = job.result()
    assert done.returncode == 75, done.stdout + done.stderr
    assert list((runs / "first").rglob("*.pt")), "no checkpoint was written"


def test_a_wrong_configuration_ends_with_2(in_container: Callable) -> None:
    done = in_container(*TWO_STEPS, "image_size=33")
    assert done.returncode == 2 and "image_size" in done.stderr, done.stderr


def test_the_process_has_no_rights(in_container: Callable) -> None:
    status = in_container("/proc/self/status", program="cat").stdout
    found = dict(re.findall(r"^(\w+):\s+(.*)$", status, re.MULTILINE))
    assert found["Uid"].split() == ["10001"] * 4 and found["Gid"].split() == ["10001"] * 4
    assert int(found["CapEff"], 16) == int(found["CapBnd"], 16) == 0
    assert found["NoNewPrivs"] == "1"


def test_nothing_but_data_and_runs_can_be_written(in_container: Callable) -> None:
    found = in_container("/", "-xdev", "-writable", "-not", "-type", "l", "-not", "-path", "/proc/*", program="find")
    places = {"/".join(path.split("/")[:3]) for path in found.stdout.split()}
    assert places <= {"/srv/gan", "/tmp", "/dev/null", "/dev/zero"}, places


def test_no_program_gives_more_rights(in_container: Callable) -> None:
    found = in_container("/opt", "/srv", "/usr/local", "-perm", "/6000", program="find")
    assert found.stdout == ""


def test_exactly_the_locked_packages_are_in_it(in_container: Callable) -> None:
    code = "import importlib.metadata as m; print(*sorted(d.name.lower() for d in m.distributions()))"
    done = in_container("-c", code, program="/opt/gan-trainer/bin/python")
    locked = re.findall(r"^([A-Za-z0-9._-]+)==", wheelhouse.LOCK.read_text(), re.MULTILINE)
    names = {re.sub(r"[-_.]+", "-", name.lower()) for name in done.stdout.split()}
    # A venv of Python 3.11 brings setuptools, which the lock replaces; pip has been removed.
    assert names == {re.sub(r"[-_.]+", "-", name.lower()) for name in locked} | {"gan-trainer"}
    kept = in_container("/opt/gan-trainer/lock.txt", program="cat").stdout
    assert kept == wheelhouse.LOCK.read_text()


def test_code_can_be_compiled_in_it(in_container: Callable) -> None:
    words = ("-m", "gan_trainer.compiling", "--device", "cpu", "--json")
    found = json.loads(in_container(*words, program="/opt/gan-trainer/bin/python").stdout)
    assert found["problems"] == [] and [step["name"] for step in found["steps"]] == ["c", "extension"]


def test_no_cache_and_no_list_is_left(in_container: Callable) -> None:
    folders = ("/var/lib/apt/lists", "/var/cache/apt", "/root/.cache", "/srv/gan/.cache")
    found = in_container(*folders, "/wheels", "/locks", "/source", "-type", "f", program="find")
    assert found.stdout == ""


def test_it_says_what_it_is(about: dict) -> None:
    config = about["Config"]
    assert config["User"] == "10001:10001"
    assert config["Entrypoint"] == ["train-gan"]
    assert config["Labels"]["org.opencontainers.image.revision"] == "abc123"
    version = re.search(r'^version = "(.+)"', TRAINER_PROJECT.read_text(), re.MULTILINE)
    assert version and config["Labels"]["org.opencontainers.image.version"] == version[1]
    assert about["Healthcheck"]["Test"] == ["CMD", "gan-health", "/srv/gan/runs"]
    assert not [word for word in config["Env"] if word.startswith("PIP_")]


def test_its_health_is_that_of_the_training(in_container: Callable) -> None:
    assert in_container("/srv/gan/runs", program="gan-health").returncode == 0
    assert in_container("/srv/gan/runs", "x", program="gan-health").returncode == 2


def test_a_build_without_a_lock_makes_no_image(build_arguments: list[str]) -> None:
    done = build("localhost/gpuwright-container-never", *build_arguments, "--build-arg", "PYTORCH=torch9", check=False)
    assert done.returncode != 0
    # podman 4.3 loses the end of what a program says now and then; the words are tested in tests/unit.
    assert "pick_lock" in done.stdout + done.stderr
    assert podman("image", "exists", "localhost/gpuwright-container-never", check=False).returncode == 1


TRAINER_PROJECT = REPOSITORY / "trainer/pyproject.toml"
