"""What runs in the trainer's image beside the trainer, and what its Containerfile promises."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from module_files import load_file
from text_parts import part_of

REPOSITORY = Path(__file__).resolve().parents[3]
FOLDER = REPOSITORY / "deploy/container"
CONTAINERFILE = (FOLDER / "Containerfile").read_text()
LOCKS = REPOSITORY / "roles/framework_pytorch/files/locks"


def program(name: str, *words: str) -> list[str]:
    return [sys.executable, str(FOLDER / f"{name}.py"), *words]


# -- pick_lock ---------------------------------------------------------------------------------------------------------


def test_the_default_build_has_a_lock_for_both_documented_bases():
    pytorch = part_of(r"^ARG PYTORCH=(\S+)$", CONTAINERFILE, re.MULTILINE)
    for python in ("3.11", "3.10"):
        assert load_file(FOLDER / "pick_lock.py").pick(LOCKS, python, pytorch).is_file()


def test_a_missing_lock_names_those_there_are():
    done = subprocess.run(program("pick_lock", str(LOCKS), "torch9"), capture_output=True, text=True)
    python = "{}.{}".format(*sys.version_info[:2])
    assert (done.returncode, done.stdout) == (1, "")
    assert f"no lock file py{python}-torch9.txt" in done.stderr
    for lock in LOCKS.glob(f"py{python}-*.txt"):
        assert lock.stem.partition("-")[2] in done.stderr


def test_a_python_without_locks_asks_for_another_base():
    with pytest.raises(LookupError, match="Python 2.7, which the base image has; take another base"):
        load_file(FOLDER / "pick_lock.py").pick(LOCKS, "2.7", "torch2.10.0-cu128")


# -- gan-health --------------------------------------------------------------------------------------------------------


def test_the_newest_statistics_count(tmp_path: Path):
    for folder, age in ((tmp_path, 500.0), (tmp_path / "second", 40.0)):
        folder.mkdir(exist_ok=True)
        (folder / "stats.jsonl").write_text("{}\n")
        os.utime(folder / "stats.jsonl", (1000 - age, 1000 - age))
    assert load_file(FOLDER / "gan_health.py").last_sign(tmp_path, 0.0) == 960.0


def test_until_there_are_statistics_the_start_counts(tmp_path: Path):
    assert load_file(FOLDER / "gan_health.py").last_sign(tmp_path, 77.0) == 77.0
    assert load_file(FOLDER / "gan_health.py").last_sign(tmp_path / "not there yet", 77.0) == 77.0


def test_a_start_is_read_from_behind_any_name():
    stat = "1 (train) gan) S 0 1 1 0 -1 4194560 1 2 3 4 5 6 7 8 20 0 1 0 2500 999 88\n"
    # 25 s after the boot, which was 1000 s ago.
    assert load_file(FOLDER / "gan_health.py").start_of_process(stat, 1000.0, 50_000.0, 100) == 49_025.0


@pytest.mark.parametrize(("age", "code", "word"), [(10, 0, "alive"), (5000, 1, "stuck")])
def test_old_statistics_of_an_old_container_are_a_stuck_training(tmp_path: Path, monkeypatch, capsys, age, code, word):
    health = load_file(FOLDER / "gan_health.py")
    (tmp_path / "stats.jsonl").write_text("{}\n")
    os.utime(tmp_path / "stats.jsonl", (time.time() - age,) * 2)
    monkeypatch.setattr(health, "start_of_process", lambda *words: time.time() - 86_400)
    assert health.main([str(tmp_path)]) == code
    assert capsys.readouterr().out.startswith(f"{word}: last sign of life in {tmp_path} {age} s ago")


@pytest.mark.parametrize("words", [(), ("a", "b"), ("a", "1", "2"), ("a", "-5")])
def test_health_wants_a_folder_and_seconds(words):
    assert subprocess.run(program("gan_health", *words), capture_output=True).returncode == 2


# -- gan-job -----------------------------------------------------------------------------------------------------------

# Says that it is ready, and answers SIGTERM as the trainer does: with exit status 0. The signal may come in the middle
# of a print, which Python does not enter again, and just before a sleep, which it would not end.
POLITE = """
import os, signal, sys, time
signal.signal(signal.SIGTERM, lambda *a: (os.write(1, b"saved\\n"), sys.exit(0)))
os.write(1, b"ready\\n")
while True:
    time.sleep(0.05)
"""


@pytest.mark.parametrize("code", [0, 1, 2])
def test_a_job_ends_as_its_command_does(code):
    job = program("gan_job", sys.executable, "-c", f"import sys; sys.exit({code})")
    assert subprocess.run(job).returncode == code


def test_a_stopped_training_is_not_a_finished_job():
    job = subprocess.Popen(program("gan_job", sys.executable, "-c", POLITE), stdout=subprocess.PIPE, text=True)
    assert job.stdout and job.stdout.readline() == "ready\n"
    job.send_signal(signal.SIGTERM)
    assert job.stdout.read() == "saved\n", "the command got the signal and time to save"
    assert job.wait(timeout=30) == 75


def test_a_killed_command_is_no_success():
    code = "import os, signal; os.kill(os.getpid(), signal.SIGKILL)"
    assert subprocess.run(program("gan_job", sys.executable, "-c", code)).returncode == 128 + signal.SIGKILL


def test_a_command_that_is_not_there_says_so():
    done = subprocess.run(program("gan_job", "/no/such/program"), capture_output=True, text=True)
    assert done.returncode == 127 and "/no/such/program cannot be started" in done.stderr
    assert subprocess.run(program("gan_job"), capture_output=True).returncode == 2


# -- Containerfile -----------------------------------------------------------------------------------------------------


def test_every_base_is_pinned_by_a_digest():
    sources = re.findall(r"^FROM (\S+)", CONTAINERFILE, re.MULTILINE)
    assert sources == ["${BASE_IMAGE}@${BASE_DIGEST}", "base", "base"]
    digests = re.findall(r"BASE_DIGEST=(\S+)", CONTAINERFILE)
    assert len(digests) == 2 and all(re.fullmatch(r"sha256:[0-9a-f]{64}", digest) for digest in digests)
    assert len(re.findall(r"BASE_IMAGE=(\S+:[^\s:]+)$", CONTAINERFILE, re.MULTILINE)) == 2
    assert ":latest" not in CONTAINERFILE


def test_the_page_shows_the_same_bases():
    page = (REPOSITORY / "docs/containers.md").read_text()
    for word in re.findall(r"BASE_(?:IMAGE|DIGEST)=\S*cuda\S*|BASE_DIGEST=sha256:0014\S+", CONTAINERFILE):
        assert word in page


def test_it_runs_as_a_number_that_is_not_root():
    users = re.findall(r"^USER (\S+)$", CONTAINERFILE, re.MULTILINE)
    assert users == ["10001:10001"]


def test_pip_checks_every_hash_and_keeps_nothing():
    install = part_of(r"(\$pip install --require-hashes.*)", CONTAINERFILE)
    assert "--only-binary :all:" in install and "--no-deps" in install
    assert 'pip="/opt/gan-trainer/bin/python -m pip --disable-pip-version-check --no-cache-dir"' in CONTAINERFILE
