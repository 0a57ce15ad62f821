"""`.ci/run`: what `make test` runs, which parts of the slower tests follow, and what a short time leaves out."""

from __future__ import annotations

import hashlib
import json
import os
import re
import subprocess
import sys
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pytest
import yaml

TESTS = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(TESTS)]

import kinds as kinds_of_tests  # noqa: E402
import parts  # noqa: E402
import run  # noqa: E402
from cores.releases_of_core import RELEASES  # noqa: E402

ALL = {part.kind for part in parts.PARTS}
SHORT = ("el9", "el10", "debian13", "ubuntu")


@pytest.fixture
def kinds(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> list[str]:
    """tests/run.py with kinds that only note that they began; one whose name is in FAILS fails."""
    begun: list[str] = []

    def kind(name: str) -> Callable[[run.Suite], None]:
        def note(suite: run.Suite) -> None:
            begun.append(name)
            suite.add(name, name not in os.environ.get("FAILS", ""))

        return note

    umask = os.umask(0o022)
    os.umask(umask)
    monkeypatch.setenv("TZ", os.environ.get("TZ", "UTC"))
    monkeypatch.setattr(run, "SUITES", {name: kind(name) for name in run.SUITES})
    for name, value in {"RESULTS": tmp_path, "CACHE": tmp_path, "UMASK": umask, "ZONE": os.environ["TZ"]}.items():
        monkeypatch.setattr(run, name, value)
    for name in ("FLEET", "BEGUN"):
        monkeypatch.delenv(name, raising=False)
    return begun


def test_make_test_runs_what_computes_beside_what_has_hosts(
    kinds: list[str], capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(run, "run_apart", run.run_kind)
    assert run.main("all") == 0
    expected = {"lint", "unit", "molecule", "collection", "trainer"}
    assert set(kinds) == expected and len(kinds) == len(expected)
    with_hosts, others = run.CHAINS
    assert [kind for kind in kinds if kind in run.NEEDS_FLEET] == list(with_hosts)
    assert [kind for kind in kinds if kind not in run.NEEDS_FLEET] == list(others) and others[0] == "lint"
    told = capsys.readouterr().out
    assert all(f"\n{name} " in told for name in expected) and "5 passed, 0 failed, 0 skipped" in told


def test_a_kind_of_its_own_process_is_shown_in_one_piece(
    kinds: list[str], capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FLEET", "off")
    # This one would need hosts; the other is none of the kinds, so that the program ends before it counts.
    left_out, unknown = run.run_apart("container"), run.run_apart("nothing")
    assert (left_out.failed, left_out.notes) == (0, [run.NO_FLEET])
    assert (unknown.failed, unknown.notes) == (1, ["it ended without a result"])
    told = capfd.readouterr().out
    assert told.index("container has begun") < told.index(run.NO_FLEET) < told.index("nothing has begun")
    assert "KeyError: 'nothing'" in told


def test_a_part_is_none_of_what_make_test_runs_and_can_be_run_alone() -> None:
    in_make_test = {kind for chain in run.CHAINS for kind in chain}
    makefile = (TESTS.parent / "Makefile").read_text()
    targets = {word for line in makefile.splitlines() if line[:1].islower() for word in line.partition(":")[0].split()}
    assert not in_make_test & ALL and set(run.SUITES) > ALL and targets >= ALL


def test_each_target_is_known_as_one_that_makes_no_file() -> None:
    lines = (TESTS.parent / "Makefile").read_text().replace("\\\n", " ").splitlines()
    (phony,) = [line.partition(":")[2].split() for line in lines if line.startswith(".PHONY:")]
    heads = [line.partition(":")[0] for line in lines if re.match(r"[a-z0-9.\- ]+:( |$)", line)]
    assert sorted(phony) == sorted({word for head in heads for word in head.split()})


def test_each_release_of_ansible_core_that_is_claimed_is_a_part() -> None:
    assert {kind.removeprefix("core-") for kind in ALL if kind.startswith("core-")} == set(RELEASES)


def test_what_unit_leaves_out_is_in_one_part_and_is_there() -> None:
    files = [file for files in parts.PLAYS.values() for file in files]
    assert len(files) == len(set(files)) and set(parts.PLAYS) <= ALL
    assert [file for file in files if not (TESTS / "unit" / file).is_file()] == []


@pytest.mark.parametrize(
    ("commit", "first"), [("0" * 40, 0), ("0" * 39 + "1", 2), ("0" * 64, 0), ("", 0), ("f" * 40, None)]
)
def test_the_commit_chooses_two_neighbours(commit: str, first: int | None) -> None:
    one, two = parts.chosen(commit)
    place = parts.PARTS.index(one)
    assert place == (int("f" * 40, 16) * 2 % len(parts.PARTS) if first is None else first)
    assert two == parts.PARTS[(place + 1) % len(parts.PARTS)]


def test_a_few_commits_cover_all_and_none_is_preferred() -> None:
    ids = [hashlib.sha1(str(number).encode()).hexdigest() for number in range(3000)]
    counts = Counter(part.kind for commit in ids for part in parts.chosen(commit))
    assert set(counts) == ALL and max(counts.values()) < 1.4 * min(counts.values())
    assert {part.kind for commit in ids[: 5 * len(ALL)] for part in parts.chosen(commit)} == ALL


RING = (parts.Part("one", "One", 500, 900, 3000), parts.Part("two", "Two", 400))


@pytest.mark.parametrize(
    ("spent", "have_run", "run_now"),
    [
        (700, {"one", "two"}, [True, True]),  # warm: 700 + 500 + 400 of 1,800
        (1000, {"one", "two"}, [True, False]),
        (1350, {"one", "two"}, [False, True]),  # what is left out costs nothing
        (2000, {"one", "two"}, [False, False]),
        (2000, set(), [True, False]),  # cold: the first one's downloads, 1,400 s, of 3,600
        (2300, set(), [False, True]),
    ],
)
def test_what_does_not_fit_into_the_time_is_left_out(spent: float, have_run: set[str], run_now: list[bool]) -> None:
    assert [turn.run for turn in parts.turns("", spent, have_run, RING)] == run_now


def test_a_line_says_who_chose_what_it_costs_and_how_to_repeat_it() -> None:
    commit = "ab" * 20
    first, second = parts.turns(commit, 2300, set(), RING)
    said = parts.line(first, commit)
    assert said.startswith(
        "LEFT OUT: One: commit abababababab chooses it (about 1400 s after 2300 s, of 3600 s at most"
    )
    assert "3000 MB at first" in said and said.endswith("On any commit: make one")
    assert parts.line(second, "").startswith("Two: no commit is here")


def test_a_turn_runs_its_parts_and_knows_them_later(
    kinds: list[str], capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(parts, "commit_of", lambda repository: "0" * 40)
    monkeypatch.setenv("FAILS", parts.PARTS[1].kind)
    assert run.main("turn") == 1
    assert kinds == [part.kind for part in parts.PARTS[:2]]
    assert parts.HaveRun(tmp_path)() == {kinds[0]}, "a part that failed may lack its downloads"
    monkeypatch.setenv("BEGUN", "1000")
    assert run.main("turn") == 0
    assert len(kinds) == 2 and capsys.readouterr().out.count("LEFT OUT: ") == 4


def test_everything_goes_on_behind_what_has_passed(
    kinds: list[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(run, "state_of_tree", lambda: "one")
    monkeypatch.setenv("FAILS", "trainer")
    assert run.main("everything") == 1
    assert kinds == list(run.SUITES)
    kinds.clear()
    monkeypatch.delenv("FAILS")
    assert run.main("everything") == 0 and kinds == ["trainer"]
    kinds.clear()
    monkeypatch.setattr(run, "state_of_tree", lambda: "two")
    assert run.main("everything") == 0 and kinds == list(run.SUITES)
    assert json.loads((tmp_path / "everything.json").read_text())["state"] == "two"


def test_what_no_container_ran_for_has_not_passed(kinds: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(run, "state_of_tree", lambda: "one")
    monkeypatch.setenv("FLEET", "off")
    run.main("everything")
    assert not set(kinds) & set(run.NEEDS_FLEET)
    monkeypatch.delenv("FLEET")
    kinds.clear()
    run.main("everything")
    assert set(kinds) == set(run.NEEDS_FLEET)


def git(folder: Path, *words: str) -> str:
    command = ["git", "-C", str(folder), "-c", "user.name=a", "-c", "user.email=a@b.invalid", *words]
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout.strip()


def test_the_state_is_that_of_the_tree(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(run, "REPOSITORY", tmp_path)
    assert parts.commit_of(tmp_path) == ""
    git(tmp_path, "init", "--quiet")
    assert parts.commit_of(tmp_path) == ""
    (tmp_path / "file").write_text("one")
    git(tmp_path, "add", "file")
    git(tmp_path, "commit", "--quiet", "--message=one")
    assert parts.commit_of(tmp_path) == git(tmp_path, "rev-parse", "HEAD")
    states = [run.state_of_tree()]
    (tmp_path / "file").write_text("two")
    states.append(run.state_of_tree())
    (tmp_path / "file").write_text("three")
    states.append(run.state_of_tree())
    assert len(set(states)) == 3


@pytest.mark.parametrize("system", SHORT)
def test_the_short_scenario_has_a_host_and_the_variables_of_the_long_one(system: str) -> None:
    """From bare to verified, and a second run that changes nothing: Molecule's step idempotence."""

    def settings(scenario: str) -> dict:
        return yaml.safe_load((TESTS / "molecule" / scenario / "molecule.yml").read_text())

    def links(scenario: str) -> dict[str, Path]:
        found = settings(scenario)["provisioner"]["inventory"]["links"]
        return {key: (TESTS / "molecule" / scenario / path).resolve() for key, path in found.items()}

    fleets = yaml.safe_load((TESTS / "fleet/hosts.yml").read_text())["fleets"]
    short, long = f"{system}-alone", dict(zip(SHORT, kinds_of_tests.SYSTEM_SCENARIOS, strict=True))[system]
    (host,) = fleets[short]
    assert [platform["name"] for platform in settings(short)["platforms"]] == [host] and host in fleets[long]
    assert settings(short)["scenario"]["test_sequence"] == ["destroy", "create", "converge", "idempotence", "destroy"]
    assert links(short) == links(long)
