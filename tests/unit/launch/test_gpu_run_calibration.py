"""gpu-run --calibrate: what it takes to replace malloc, and how long the choice holds."""

from __future__ import annotations

import json
import os
import pwd
import random
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from gpu_run_machines import a5, build, choose, write
from gpuwright.host.topology import format_cpu_list
from gpuwright.launch.calibration.chosen import CALIBRATED_PATH, calibrated_arm, command_key, machine_identity
from gpuwright.launch.calibration.measuring import Way, run_once
from gpuwright.launch.calibration.rule import (
    BASE,
    CONTROL,
    LEAST_ROUNDS,
    chance,
    interval,
    judge,
    rounds_needed,
    spread,
)
from gpuwright.launch.library_identity import library_identity
from hypothesis import given, settings
from hypothesis import strategies as st
from warm_python import warm_python

REPOSITORY = Path(__file__).resolve().parents[3]
REAL_LIBRARY = next(Path("/").glob("lib/*/libm.so.6"), None) or Path("/lib64/libm.so.6")
LIBRARY = "/usr/lib64/libjemalloc.so.2"


def rounds_of(seed: int, noise: float, count: int = 10, **gains: float) -> list[dict[str, float]]:
    """Wall times: malloc 1 s, an arm 1 / gain, each multiplied by noise of its own."""
    chance = random.Random(seed)
    arms = {BASE: 1.0, CONTROL: 1.0, **gains}
    return [{arm: chance.gauss(1, noise) / gain for arm, gain in arms.items()} for _ in range(count)]


def test_sign_test_is_the_binomial_one() -> None:
    assert chance(10, 10) == 1 / 1024
    assert chance(9, 10) == 11 / 1024
    assert chance(0, 10) == 1.0


def test_clear_winner_is_chosen_with_its_figures() -> None:
    arm, why, table, _ = judge(rounds_of(1, 0.01, jemalloc=0.8, tcmalloc=1.2), ["jemalloc", "tcmalloc"], False)
    assert arm == "tcmalloc" and "in 10 of them" in why
    assert 1.15 < table["tcmalloc"]["median_ratio"] < 1.25 and table["jemalloc"]["wins"] == 0


def test_of_two_winners_the_faster_is_chosen() -> None:
    assert judge(rounds_of(2, 0.01, jemalloc=1.1, tcmalloc=1.2), ["jemalloc", "tcmalloc"], False)[0] == "tcmalloc"


@pytest.mark.parametrize(
    ("rounds", "words"),
    [
        (rounds_of(3, 0.01, jemalloc=0.8), "no allocator was faster beyond the noise"),
        (rounds_of(4, 0.01, jemalloc=1.01), "no allocator was faster beyond the noise"),
        (rounds_of(5, 0.5, jemalloc=1.3), "too noisy to tell"),
        (rounds_of(6, 0.01), "no allocator was faster"),
    ],
)
def test_what_is_not_proven_is_not_chosen(rounds: list, words: str) -> None:
    arm, why, _, _ = judge(rounds, [name for name in rounds[0] if name not in (BASE, CONTROL)], False)
    assert arm == BASE and words in why


def test_higher_numbers_can_be_better() -> None:
    rounds = [{BASE: 100.0 + i, CONTROL: 100.0 + i, "jemalloc": 130.0 + i} for i in range(10)]
    assert judge(rounds, ["jemalloc"], True)[0] == "jemalloc"
    assert judge(rounds, ["jemalloc"], False)[0] == BASE


@settings(max_examples=200, deadline=None)
@given(seed=st.integers(0, 10**6), noise=st.floats(0.001, 0.2), worse=st.floats(0.5, 1.0))
def test_an_arm_that_is_no_better_is_hardly_ever_chosen(seed: int, noise: float, worse: float) -> None:
    """The rule errs in less than one of 20 machines; here in none of 200, whose seeds hypothesis picks."""
    arms = {"jemalloc": worse, "jemalloc tuned": worse, "tcmalloc": worse}
    if judge(rounds_of(seed, noise, 10, **arms), list(arms), False)[0] != BASE:
        again = [
            judge(rounds_of(seed + shift, noise, 10, **arms), list(arms), False)[0] != BASE for shift in range(1, 61)
        ]
        assert sum(again) <= 6


def test_spread_is_that_of_the_quartiles() -> None:
    assert spread([1, 1, 1, 1]) == 0
    assert spread([90, 95, 100, 105, 900]) == pytest.approx(0.1)


@pytest.fixture
def machine(tmp_path: Path) -> Path:
    if os.getuid() != 0:
        pytest.skip("needs root: a library must belong to root")
    root = a5(tmp_path)
    file = root / LIBRARY.lstrip("/")
    file.parent.mkdir(parents=True, mode=0o755)
    shutil.copy(REAL_LIBRARY, file)
    file.chmod(0o755)
    write(root, "proc/cpuinfo", "processor\t: 0\nmodel name\t: Intel(R) Xeon(R) Silver 4210")
    write(root, "sys/devices/system/cpu/present", "0-19")
    write(root, "sys/devices/system/node/online", "0")
    return root


def saved(root: Path, **more: object) -> dict:
    result = {
        "schema": 1,
        "allocator": "jemalloc",
        "malloc_conf": "thp:always",
        "why": "1.200x malloc in the median of 10 rounds",
        "machine": machine_identity(str(root)),
        "library": library_identity(LIBRARY, str(root)),
        **more,
    }
    write(root, CALIBRATED_PATH.lstrip("/"), json.dumps(result))
    return result


def test_library_has_a_build_id(machine: Path) -> None:
    identity = library_identity(LIBRARY, str(machine))
    assert identity["size"] == REAL_LIBRARY.stat().st_size
    assert len(identity["build_id"]) >= 16 and int(identity["build_id"], 16)


def test_malloc_until_calibrated_then_the_choice_and_why(machine: Path) -> None:
    before = choose(machine, allowed="0-19")
    assert "LD_PRELOAD" not in before.environment
    assert ["allocator", "malloc", "not calibrated on this machine: gpu-run --calibrate -- command"] in before.rows
    saved(machine)
    after = choose(machine, allowed="0-19")
    assert after.environment["LD_PRELOAD"] == LIBRARY and after.environment["MALLOC_CONF"] == "thp:always"
    assert ["allocator", "jemalloc", "1.200x malloc in the median of 10 rounds"] in after.rows
    assert after.warnings == []


def test_policy_and_option_go_before_the_calibration(machine: Path) -> None:
    saved(machine)
    assert "LD_PRELOAD" not in choose(machine, allowed="0-19", allocator="none").environment
    assert "LD_PRELOAD" not in choose(machine, allowed="0-19", allocator_option="none").environment


def test_another_library_ends_the_choice_and_says_so(machine: Path) -> None:
    saved(machine)
    with (machine / LIBRARY.lstrip("/")).open("ab") as file:
        file.write(b"x")
    decision = choose(machine, allowed="0-19")
    assert "LD_PRELOAD" not in decision.environment
    assert f"{LIBRARY} is not the file that was measured" in decision.warnings[0]
    assert "gpu-run --calibrate" in decision.warnings[0]


@pytest.mark.parametrize(
    ("file", "text", "words"),
    [
        ("proc/cpuinfo", "model name\t: AMD EPYC", "cpu is AMD EPYC, it was Intel(R) Xeon(R) Silver 4210"),
        ("sys/devices/system/cpu/present", "0-39", "cpus is 0-39, it was 0-19"),
        ("sys/devices/system/node/online", "0-1", "nodes is 0-1, it was 0"),
    ],
)
def test_another_machine_ends_the_choice(file: str, text: str, words: str, machine: Path) -> None:
    saved(machine)
    write(machine, file, text)
    decision = choose(machine, allowed="0-19")
    assert "LD_PRELOAD" not in decision.environment and words in decision.warnings[0]


@pytest.mark.parametrize(
    "text",
    ["", "[]", "null", '{"schema": 1}', '"x"', "\x00"],
)
def test_damaged_file_is_malloc_and_a_warning(text: str, machine: Path) -> None:
    write(machine, CALIBRATED_PATH.lstrip("/"), text)
    arm = calibrated_arm(str(machine))
    assert arm.allocator == "none" and arm.problem.endswith("gpu-run --calibrate has run again")


@pytest.mark.parametrize(
    "more",
    [{"schema": 2}, {"allocator": "mimalloc"}, {"why": 3}, {"malloc_conf": "a\0b"}, {"library": {}}, {"machine": []}],
)
def test_file_of_another_making_is_malloc_and_a_warning(more: dict, machine: Path) -> None:
    saved(machine, **more)
    arm = calibrated_arm(str(machine))
    assert arm.allocator == "none" and arm.problem


CODE = """
import json, os, sys
sys.path.insert(0, sys.argv[1])
from gpuwright.launch import launcher
sys.exit(launcher.main(json.loads(sys.argv[3]), root=sys.argv[2]))
"""
# Faster with the library in its memory, as an allocator would make it: a number that the command prints.
COMMAND = ["sh", "-c", 'grep -q libjemalloc /proc/self/maps && echo "speed: $FAST" || echo "speed: 100.0"']


NOBODY = pwd.getpwnam("nobody")


def calibrate(python: str, root: Path, *words: str, **environment: str) -> subprocess.CompletedProcess:
    arguments = ["--calibrate", "--rounds", "6", *words]
    library = str(REPOSITORY / "tests/node_library")
    return warm_python((python,), library).run(
        CODE,
        ["-c", library, str(root), json.dumps(arguments)],
        {"PATH": os.environ["PATH"], "SUDO_UID": str(NOBODY.pw_uid), **environment},
        timeout=120,
    )


@pytest.fixture
def real(open_umask: int) -> Iterator[Path]:
    """A root with a policy and a library, which lies at the same path below "/" too, where the loader looks.

    Not in pytest's own folder, into which the user who runs the command cannot look.
    """
    if os.getuid() != 0:
        pytest.skip("needs root: a library must belong to root")
    with tempfile.TemporaryDirectory() as name:
        Path(name).chmod(0o755)
        yield with_library(Path(name))


def with_library(tmp_path: Path) -> Path:
    folder = tmp_path / "real"
    folder.mkdir()
    shutil.copy(REAL_LIBRARY, folder / "libjemalloc.so.2")
    policy = {"libraries": {"jemalloc": str(folder / "libjemalloc.so.2"), "tcmalloc": "/no/such/library.so"}}
    target = tmp_path / str(folder).lstrip("/")
    target.mkdir(parents=True)
    shutil.copy(REAL_LIBRARY, target / "libjemalloc.so.2")
    write(tmp_path, "etc/gpuwright/runtime.json", json.dumps({**policy, "malloc_conf": "thp:always"}))
    return tmp_path


def test_calibration_of_a_command_that_gains(real: Path, node_python: str) -> None:
    done = calibrate(node_python, real, "--metric", "speed: ([0-9.]+)", "--", *COMMAND, FAST="150.0")
    assert done.returncode == 0, done.stderr
    assert "left out: tcmalloc: library /no/such/library.so: there is no such file" in done.stderr
    result = json.loads((real / CALIBRATED_PATH.lstrip("/")).read_text())
    assert result["arm"] in ("jemalloc", "jemalloc tuned") and result["library"]["build_id"]
    assert len(result["rounds"]) == 6 and set(result["rounds"][0]) == {BASE, CONTROL, "jemalloc", "jemalloc tuned"}
    assert f"chosen: {result['arm']}: 1.500x malloc" in done.stdout
    assert calibrated_arm(str(real)).allocator == "jemalloc"


@pytest.mark.parametrize("fast", ["60.0", "100.0"])
def test_calibration_of_a_command_that_does_not_gain(fast: str, real: Path, node_python: str) -> None:
    done = calibrate(node_python, real, "--metric", "speed: ([0-9.]+)", "--json", "--", *COMMAND, FAST=fast)
    assert json.loads(done.stdout)["arm"] == BASE, done.stderr
    arm = calibrated_arm(str(real))
    assert (arm.allocator, arm.problem) == ("none", "") and "no allocator was faster" in arm.why


def test_dry_run_writes_nothing(real: Path, node_python: str) -> None:
    done = calibrate(node_python, real, "--dry-run", "--metric", "speed: ([0-9.]+)", "--", *COMMAND, FAST="150.0")
    assert done.returncode == 0 and "chosen: jemalloc" in done.stdout
    assert not (real / CALIBRATED_PATH.lstrip("/")).exists()


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--", "sh", "-c", "echo broken; exit 3"], "ended with exit code 3: broken"),
        (["--", "/no/such/program"], "/no/such/program: cannot be executed"),
        (["--metric", "speed: ([0-9.]+)", "--", "echo", "fast"], "the command printed no number"),
        (["--metric", "speed: (.*)", "--", "echo", "speed: nan"], "expected a positive number"),
    ],
)
def test_command_that_cannot_be_measured_writes_nothing(
    words: list, message: str, real: Path, node_python: str
) -> None:
    done = calibrate(node_python, real, *words)
    assert done.returncode == 125 and message in done.stderr.splitlines()[-1]
    assert not (real / CALIBRATED_PATH.lstrip("/")).exists()


def test_arm_under_which_the_command_fails_is_left_out(real: Path, node_python: str) -> None:
    done = calibrate(node_python, real, "--", "sh", "-c", "! grep -q libjemalloc /proc/self/maps")
    assert done.returncode == 0, done.stderr
    assert "left out from now on: jemalloc: the command ended with exit code 1" in done.stderr
    assert json.loads((real / CALIBRATED_PATH.lstrip("/")).read_text())["arm"] == BASE


# -- placement ----------------------------------------------------------------------------------------------------

# Seconds of a training of 20 s with each placement: on two sockets, and on one node under other work.
RECORDED = {
    "node": [
        {"bare": 20.4, "bare again": 20.6, "threads": 20.1, "node": 16.9, "node bind": 17.0},
        {"bare": 20.9, "bare again": 20.5, "threads": 20.7, "node": 17.2, "node bind": 17.3},
        {"bare": 20.3, "bare again": 20.4, "threads": 20.2, "node": 16.8, "node bind": 17.1},
        {"bare": 20.7, "bare again": 20.9, "threads": 20.6, "node": 17.4, "node bind": 17.2},
        {"bare": 20.5, "bare again": 20.3, "threads": 20.8, "node": 16.7, "node bind": 17.0},
        {"bare": 20.6, "bare again": 20.7, "threads": 20.4, "node": 17.1, "node bind": 17.4},
        {"bare": 20.8, "bare again": 20.5, "threads": 20.5, "node": 17.0, "node bind": 17.1},
    ],
    "bare": [
        {"bare": 20.4, "bare again": 22.6, "threads": 19.1, "node": 20.9, "node bind": 21.0},
        {"bare": 20.9, "bare again": 20.1, "threads": 21.7, "node": 20.2, "node bind": 21.3},
        {"bare": 22.3, "bare again": 20.4, "threads": 20.2, "node": 20.8, "node bind": 21.1},
        {"bare": 20.7, "bare again": 20.9, "threads": 20.6, "node": 20.4, "node bind": 21.2},
        {"bare": 20.5, "bare again": 21.3, "threads": 19.8, "node": 20.7, "node bind": 21.0},
        {"bare": 21.6, "bare again": 20.7, "threads": 21.4, "node": 21.1, "node bind": 21.4},
        {"bare": 20.8, "bare again": 20.5, "threads": 20.5, "node": 21.0, "node bind": 21.1},
    ],
}


@pytest.mark.parametrize("expected", RECORDED)
def test_recorded_timings_decide_by_their_interval(expected: str) -> None:
    rounds = RECORDED[expected]
    candidates = [arm for arm in rounds[0] if not arm.startswith("bare")]
    arm, _, table, _ = judge(rounds, candidates, False, "bare", "bare again", "placement")
    assert arm == expected
    low, high = table["node"]["interval"]
    assert (low > 1) == (expected == "node") and low <= table["node"]["median_ratio"] <= high


def test_interval_is_the_sign_test_turned_around() -> None:
    """Order statistics of 10: ranks 2 and 9 leave out at most 11 in 1024 on either side, 1 and 10 one."""
    ratios = [1.0, 1.1, 1.2, 1.3, 1.4, 1.5, 1.6, 1.7, 1.8, 1.9]
    assert interval(ratios, 0.05) == (1.1, 1.8)
    assert interval(ratios, 0.01) == (1.0, 1.9)
    assert interval(ratios, 0.0001) == (0.0, float("inf"))
    assert rounds_needed(1) == LEAST_ROUNDS and rounds_needed(5) == 7


# Programs that say how long a step took: a third of it on one CPU, or with a number of threads. As a number, and not as
# time on the wall, so that other work on this machine decides nothing.
ON_ONE_CPU = "grep -q 'Cpus_allowed_list:.*[-,]' /proc/self/status && echo step: 75 || echo step: 25"
IN_THREADS = '[ -n "$OMP_NUM_THREADS" ] && echo step: 25 || echo step: 75'
INDIFFERENT = "echo step: 25"
STEP = ("--metric", "step: ([0-9]+)", "--lower-is-better")


@pytest.fixture
def two_nodes(open_umask: int) -> Iterator[Path]:
    """The CPUs of this machine as two nodes, the GPU at the second."""
    cpus = sorted(os.sched_getaffinity(0))
    if os.getuid() != 0 or len(cpus) < 2:
        pytest.skip("needs root, and two CPUs")
    with tempfile.TemporaryDirectory() as name:
        root = Path(name)
        root.chmod(0o755)
        nodes = {0: ",".join(map(str, cpus[:-1])), 1: str(cpus[-1])}
        write(build(root, nodes, {"0000:3b:00.0": 1}, memory="0"), "etc/gpuwright/runtime.json", "{}")
        yield root


@pytest.mark.parametrize(
    ("script", "arm", "cpus"), [(ON_ONE_CPU, "node", 1), (IN_THREADS, "threads", 2), (INDIFFERENT, "bare", 2)]
)
def test_the_placement_that_a_command_gains_by_is_chosen_and_used(
    two_nodes: Path, node_python: str, script: str, arm: str, cpus: int
) -> None:
    done = calibrate(node_python, two_nodes, *STEP, "--", "sh", "-c", script)
    assert done.returncode == 0, done.stderr
    assert f"placement: {arm}: " in done.stdout
    kept = json.loads((two_nodes / CALIBRATED_PATH.lstrip("/")).read_text())["placements"]
    assert kept[f"sh -c {script}"]["arm"] == arm
    allowed = format_cpu_list(os.sched_getaffinity(0))
    decision = choose(two_nodes, allowed=allowed, command=("sh", "-c", script))
    assert (len(decision.cpus) == 1) == (cpus == 1)
    assert ("OMP_NUM_THREADS" in decision.changed) == (arm != "bare")
    assert any(row[:2] == ["placement", arm] for row in decision.rows)
    # Of another command nothing is known, and an option overrides it.
    assert len(choose(two_nodes, allowed=allowed, command=("sh", "-c", "true")).cpus) == 1
    assert len(choose(two_nodes, allowed=allowed, command=("sh", "-c", script), numa_option="node").cpus) == 1


def test_a_placement_that_the_kernel_refuses_is_left_out(two_nodes: Path, node_python: str) -> None:
    """This machine has no memory node 1."""
    write(two_nodes, "sys/devices/system/node/has_memory", "0-1")
    done = calibrate(node_python, two_nodes, "--dry-run", "--", "sh", "-c", "true")
    assert "left out: node: refused by the kernel: Invalid argument" in done.stderr
    assert "left out: socket: is the same here as node" in done.stderr


def test_placements_of_other_commands_are_kept(two_nodes: Path, node_python: str) -> None:
    for script in ("true", ": 2"):
        assert calibrate(node_python, two_nodes, "--", "sh", "-c", script).returncode == 0
    kept = json.loads((two_nodes / CALIBRATED_PATH.lstrip("/")).read_text())["placements"]
    assert set(kept) == {"sh -c true", "sh -c : 2"}


@pytest.mark.parametrize(
    ("words", "environment", "policy", "said"),
    [
        (["--numa", "node"], {}, {}, "option --numa sets it"),
        (["--threads", "1"], {}, {}, "option --threads sets it"),
        ([], {"OMP_NUM_THREADS": "1"}, {}, "OMP_NUM_THREADS is set by the caller"),
        ([], {"LOCAL_RANK": "0", "LOCAL_WORLD_SIZE": "2"}, {}, "several ranks divide the host"),
        ([], {}, {"numa": "socket"}, "the policy names socket"),
    ],
)
def test_placement_is_not_compared_where_somebody_has_chosen_it(
    words: list, environment: dict, policy: dict, said: str, two_nodes: Path
) -> None:
    write(two_nodes, "etc/gpuwright/runtime.json", json.dumps(policy))
    done = calibrate("/usr/bin/python3", two_nodes, *words, "--dry-run", "--", "true", **environment)
    assert f"placement: {said}" in done.stderr and "bare" not in done.stdout


@pytest.mark.parametrize(
    ("command", "key"),
    [
        ("python train.py --epochs 3", "python train.py"),
        ("/opt/venv/bin/python3 -u -m gan_trainer x.yml", "python3 -m gan_trainer"),
        ("train-gan x.yml", "train-gan"),
        ("bash run.sh 1", "bash run.sh"),
        ("python", "python"),
    ],
)
def test_what_a_placement_is_kept_under(command: str, key: str) -> None:
    assert command_key(command.split()) == key


@pytest.mark.parametrize(
    "broken", [{"numa": "all"}, {"memory": "interleave"}, {"threads": 3}, {"why": None}, {"arm": 1}, "text", []]
)
def test_a_damaged_placement_is_a_warning_and_the_usual_one(machine: Path, broken: object) -> None:
    good = {"arm": "bare", "why": "w", "numa": "none", "memory": "none", "threads": "unset"}
    saved(machine, placements={"python train.py": {**good, **broken} if isinstance(broken, dict) else broken})
    decision = choose(machine, allowed="0-19")
    assert decision.environment["OMP_NUM_THREADS"] == "10"
    assert any("is damaged" in warning for warning in decision.warnings)
    saved(machine, placements={"python train.py": good}, allocator="none", library={})
    assert "OMP_NUM_THREADS" not in choose(machine, allowed="0-19").environment
    write(machine, "sys/devices/system/cpu/present", "0-39")
    again = choose(machine, allowed="0-19")
    assert again.environment["OMP_NUM_THREADS"] == "10" and "no longer holds" in again.warnings[0]


# -- whose rights the command has ---------------------------------------------------------------------------------

# Of the shell: its session, itself, its input. Field 6 of stat is the session (proc(5)); a shell's name has no blank.
WHO = (
    'grep -E "^(Uid|Gid|Groups|CapEff|CapPrm|CapInh|CapAmb):" /proc/self/status; env; '
    'echo "session $(cut -d" " -f6 /proc/$$/stat) $$ $(readlink /proc/$$/fd/0)"'
)


def told(root: Path, python: str, *words: str, **environment: str) -> tuple[subprocess.CompletedProcess, str]:
    """A calibration of a command that writes down who it is."""
    folder = root / "drop"
    folder.mkdir(exist_ok=True)
    folder.chmod(0o1777)
    done = calibrate(python, root, *words, "--", "sh", "-c", f"({WHO}) > {folder}/who", **environment)
    file = folder / "who"
    return done, file.read_text() if file.exists() else ""


def test_the_command_runs_as_who_called_sudo(real: Path, node_python: str) -> None:
    os.setgroups([0, 4, 27])
    done, text = told(real, node_python, SUDO_USER="nobody", SUDO_COMMAND="x", HOME="/root", USER="root", MAIL="/m")
    assert done.returncode == 0, done.stderr
    assert "6 round(s) as user nobody of: " in done.stderr
    lines = dict(line.split(":\t") for line in text.splitlines() if ":\t" in line)
    assert lines["Uid"].split() == [str(NOBODY.pw_uid)] * 4 and lines["Gid"].split() == [str(NOBODY.pw_gid)] * 4
    assert lines["Groups"].split() == [str(NOBODY.pw_gid)]
    assert {lines[name] for name in ("CapEff", "CapPrm", "CapInh", "CapAmb")} == {"0" * 16}
    names = dict(line.split("=", 1) for line in text.splitlines() if "=" in line)
    assert (names["HOME"], names["USER"], names["LOGNAME"]) == (NOBODY.pw_dir, "nobody", "nobody")
    assert not [name for name in names if name.startswith("SUDO_") or name == "MAIL"]
    kept = (real / CALIBRATED_PATH.lstrip("/")).stat()
    assert (kept.st_uid, kept.st_mode & 0o777) == (0, 0o644)


def test_the_command_has_no_terminal(real: Path, node_python: str) -> None:
    """In root's session it could open root's terminal by its name, and type into it."""
    done, text = told(real, node_python)
    assert done.returncode == 0, done.stderr
    (line,) = [line for line in text.splitlines() if line.startswith("session ")]
    _word, session, process, descriptor = line.split()
    assert session == process and descriptor == "/dev/null"


@pytest.mark.parametrize(
    ("words", "environment"),
    [
        (["--user", "daemon"], {"SUDO_UID": "0"}),
        (["--user", str(pwd.getpwnam("daemon").pw_uid)], {}),
        ([], {"SUDO_UID": "", "SUDO_USER": "daemon"}),
        ([], {"SUDO_UID": "", "PKEXEC_UID": str(pwd.getpwnam("daemon").pw_uid)}),
        ([], {"SUDO_UID": "", "DOAS_USER": "daemon"}),
    ],
)
def test_other_ways_to_say_who_runs_it(words: list, environment: dict, real: Path, node_python: str) -> None:
    done, text = told(real, node_python, *words, **environment)
    assert done.returncode == 0 and f"Uid:\t{pwd.getpwnam('daemon').pw_uid}\t" in text, done.stderr


@pytest.mark.parametrize("dry", [[], ["--dry-run"]])
@pytest.mark.parametrize(
    ("words", "environment", "message"),
    [
        ([], {"SUDO_UID": ""}, "--calibrate runs the command, and not as root: call it with sudo"),
        ([], {"SUDO_UID": "0", "SUDO_USER": "root"}, "or add --user NAME"),
        ([], {"SUDO_UID": "", "SUDO_USER": "root"}, "or add --user NAME"),
        ([], {"SUDO_UID": "", "SUDO_USER": "no-such-user"}, "there is no user no-such-user"),
        ([], {"SUDO_UID": "", "PKEXEC_UID": "0"}, "or add --user NAME"),
        (["--user", "0"], {}, "user root has uid 0"),
        (["--user", "4000000"], {}, "there is no user 4000000"),
        (["--user", ""], {}, "there is no user"),
        ([], {"SUDO_UID": "4000000"}, "SUDO_UID='4000000' is not the uid of a user here"),
        ([], {"SUDO_UID": "-1"}, "SUDO_UID='-1' is not the uid of a user here"),
        ([], {"SUDO_UID": "99999999999999999999"}, "is not the uid of a user here"),
        ([], {"SUDO_UID": "x"}, "SUDO_UID='x' is not the uid of a user here"),
        (["--user", "root"], {}, "user root has uid 0, but this process does not run as root"),
        (["--user", "no-such-user"], {}, "there is no user no-such-user"),
    ],
)
def test_roots_own_calibration_runs_nothing(
    words: list, environment: dict, message: str, dry: list, real: Path, node_python: str
) -> None:
    done, text = told(real, node_python, *dry, *words, **environment)
    assert (done.returncode, text) == (125, "") and message in done.stderr and done.stderr.count("\n") == 1
    assert not (real / CALIBRATED_PATH.lstrip("/")).exists()


def test_an_ordinary_user_measures_as_themselves(real: Path) -> None:
    """Only a dry run, and nobody else's rights: --user is root's."""
    shutil.copytree(REPOSITORY / "tests/node_library", real / "lib", ignore=shutil.ignore_patterns("__pycache__"))
    # A checkout may have been made under a umask that keeps others out.
    for path in (real / "lib").rglob("*"):
        path.chmod(path.stat().st_mode | (0o055 if path.is_dir() else 0o044))
    code = CODE.replace("sys.argv[1]", repr(str(real / "lib")), 1)
    for words, ends in (
        (["--dry-run"], 0),
        (["--dry-run", "--user", "nobody"], 0),
        (["--dry-run", "--user", "root"], 125),
    ):
        arguments = json.dumps(["--calibrate", "--rounds", "6", *words, "--", "id", "-u"])
        done = subprocess.run(
            ["/usr/bin/python3", "-B", "-c", code, "-", str(real), arguments],
            env={"PATH": "/usr/bin:/bin"},
            capture_output=True,
            text=True,
            timeout=120,
            cwd="/",
            user=NOBODY.pw_uid,
            group=NOBODY.pw_gid,
            extra_groups=[],
        )
        assert done.returncode == ends, done.stderr
    assert "--user root: only root can run the command as somebody else" in done.stderr


@pytest.mark.parametrize("sent", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_an_interrupted_calibration_leaves_no_command_behind(real: Path, sent: signal.Signals) -> None:
    """The command has a session of its own, so that a signal reaches it through gpu-run alone."""
    folder = real / "drop"
    folder.mkdir()
    folder.chmod(0o1777)
    arguments = ["--calibrate", "--rounds", "6", "--", "sh", "-c", f"echo $$ > {folder}/pid; sleep 60"]
    words = ["/usr/bin/python3", "-c", CODE, str(REPOSITORY / "tests/node_library"), str(real), json.dumps(arguments)]
    environment = {"PATH": "/usr/bin:/bin", "SUDO_UID": str(NOBODY.pw_uid)}
    # Under nohup, or in a shell's background, some are ignored from the start, and stay so.
    with subprocess.Popen(
        words, env=environment, stderr=subprocess.PIPE, text=True, cwd="/",
        preexec_fn=lambda: signal.signal(sent, signal.SIG_DFL),
    ) as child:  # fmt: skip
        deadline = time.monotonic() + 30
        while not (folder / "pid").exists() or not (folder / "pid").read_text().strip():
            assert time.monotonic() < deadline and child.poll() is None
            time.sleep(0.05)
        child.send_signal(sent)
        assert child.stderr and child.wait(20) == 130
        assert "interrupted; nothing was written" in child.stderr.read()
    command = Path("/proc") / (folder / "pid").read_text().strip() / "stat"
    assert not command.exists() or command.read_text().rpartition(")")[2].split()[0] == "Z"


def test_an_interruption_as_the_command_begins_stops_it(monkeypatch: pytest.MonkeyPatch) -> None:
    children: list[subprocess.Popen] = []

    class Interrupted(subprocess.Popen):
        def __init__(self, *words, **options):
            super().__init__(*words, **options)
            children.append(self)
            os.kill(os.getpid(), signal.SIGINT)

    monkeypatch.setattr(subprocess, "Popen", Interrupted)
    with pytest.raises(KeyboardInterrupt):
        run_once(Way({"PATH": "/usr/bin:/bin"}, None), ["sleep", "60"], None)
    assert children[0].wait(20) == -signal.SIGKILL
