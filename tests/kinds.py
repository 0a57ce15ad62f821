"""The kinds of tests: what each runs. tests/run.py runs one of them, or several."""

from __future__ import annotations

import os
import shutil
import sys
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import parts
from cores.releases_of_core import RELEASES
from programs import (
    FOUR_SIDE_BY_SIDE,
    REPOSITORY,
    RESULTS,
    THREE_SIDE_BY_SIDE,
    TWO_SIDE_BY_SIDE,
    Suite,
    call,
    call_quietly,
    pytest_suite,
    start,
)
from trainer_kinds import digits, tensorflow_check, trainer, trainer_long

SCENARIOS = ("el8",)
# Debian 12: NVIDIA's real packages from Debian's archive, about 1.8 GB; then NVIDIA's repository, in stand-ins.
REAL_SCENARIOS = ("debian12", "debian12-alternative", "debian13")
# EL 9, beside EL 8, EL 10 and Debian 13, in stand-ins.
SYSTEM_SCENARIOS = ("el9", "el10", "debian13-nvidia", "ubuntu")
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
    "sentences of the pages": ("python", "tools/prose.py"),
    "issue templates": (*SCHEMA, "vendor.github-issue-config", ".github/ISSUE_TEMPLATE/config.yml"),
}


def lint(suite: Suite) -> None:
    """Run two checks at a time: each has one core."""
    with ThreadPoolExecutor(2) as pool:
        for name, ok in zip(LINTERS, pool.map(call_quietly, LINTERS.values()), strict=True):
            suite.add(name, ok)


def unit(suite: Suite) -> None:
    left_out = [f"--ignore=tests/unit/{file}" for files in parts.PLAYS.values() for file in files]
    pytest_suite(suite, "unit", sys.executable, *THREE_SIDE_BY_SIDE, *left_out, "tests/unit")
    if not any(Path(os.environ.get("PYENV_ROOT", Path.home() / ".pyenv")).glob("versions/3.6*")) and not shutil.which(
        "python3.6"
    ):
        suite.notes.append("no python3.6 on this machine: the modules ran under the controller's Python only")


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


def tensorflow(suite: Suite) -> None:
    """What its check reads of a real one, then a node on which it is planned, locked, installed and used."""
    tensorflow_check(suite)
    run_scenarios(suite, ("tensorflow-alone",))


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
    "ubuntu": short_system("ubuntu"),
    "documented": short_system("documented"),
    "mixed": short_system("mixed"),
    "interruptions": interruptions,
    "plays-fleet": plays("plays-fleet"),
    "plays-node": plays("plays-node"),
    "trainer-long": trainer_long,
    "tensorflow": tensorflow,
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
    *(
        "molecule",
        "collection",
        "hardened",
        "el9",
        "el10",
        "debian13",
        "ubuntu",
        "documented",
        "mixed",
        "interruptions",
        "tensorflow",
    ),
    *(f"core-{minor}" for minor in RELEASES),
    *("faults", "world", "real", "systems", "container", "schedulers"),
)
