"""The parts of tests/faults/interrupt: which results are kept, how states differ, which pairs there are, the page."""

from __future__ import annotations

import functools
import http.client
import sys
import threading
from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from conftest import REPOSITORY

sys.path.append(str(REPOSITORY / "tests/faults"))

from interrupt import choice, cli, holes, mirror, page, record, results
from interrupt.exercise import NotReached, Outcome, Pair, Reference, boundaries_of
from interrupt.faults import BY_NAME, FAULTS
from interrupt.run import Boundary
from interrupt.steps import BY_NAME as STEP
from interrupt.steps import STEPS, Inside, chain


def test_every_step_begins_where_another_ends() -> None:
    assert {step.after for step in STEPS} <= {"", *STEP}
    assert [each.name for each in chain(STEP["CUDA"])] == ["kernel headers", "driver", "CUDA"]


def test_a_folder_that_is_one_too_many_is_one_difference() -> None:
    wanted = {"file /a": "folder 0755 0:0", "file /a/x": "file 0644 0:0 1", "package b": "1"}
    found = {**wanted, "file /a/x": "file 0600 0:0 1", "file /b": "folder 0755 0:0", "file /b/c": "file 0644 0:0 2"}
    del found["package b"]
    assert record.differences(wanted, found) == [
        "file /a/x: file 0644 0:0 1, found file 0600 0:0 1",
        "file /b: is not there, found folder 0755 0:0",
        "package b: 1, found nothing",
    ]
    assert record.differences(wanted, dict(wanted)) == []


def test_a_state_has_kind_mode_owner_and_content(tmp_path: Path) -> None:
    root = tmp_path / "root"
    for name in ("etc/ssh", "var/log", "run", "opt"):
        (root / name).mkdir(parents=True)
    (root / "etc/plain").write_text("text")
    (root / "etc/plain").chmod(0o640)
    (root / "etc/link").symlink_to("plain")
    (root / "etc/ssh/ssh_host_x_key").write_text("differs lawfully")
    (root / "var/log/messages").write_text("not looked at")
    (root / "run/pid").write_text("not on a disk")
    hashes = record.Hashes(tmp_path / "hashes")
    found = record.files(str(root), hashes)
    owner = f"{(root / 'etc/plain').stat().st_uid}:{(root / 'etc/plain').stat().st_gid}"
    assert found["/etc/plain"].startswith(f"file 0640 {owner} ") and found["/etc/link"] == "link plain"
    assert found["/etc/ssh/ssh_host_x_key"].split() == ["file", found["/etc/ssh/ssh_host_x_key"].split()[1], owner]
    assert not {"/var/log/messages", "/var/log", "/run", "/run/pid"} & found.keys()
    before = found["/etc/plain"]
    hashes.save()
    (root / "etc/plain").write_text("next")
    assert record.files(str(root), record.Hashes(tmp_path / "hashes"))["/etc/plain"] != before


def test_a_signature_a_day_and_a_timer_that_runs_are_no_difference(tmp_path: Path) -> None:
    module = b"\x7fELF" + b"code" * 9
    signed = module + b"S" * 300 + bytes(8) + (300).to_bytes(4, "big") + record.SIGNED
    assert record.unsigned(signed) == record.unsigned(module) == module
    day, later = (b"trainer:!:%d:0:99999:7:::\nroot:x:1::::::\n" % number for number in (20780, 20781))
    assert record.undated(day) == record.undated(later) != record.undated(day.replace(b"!", b"$6$hash"))
    state = {"active a.timer": "waiting", "active b.service": "running"}
    assert record.differences(state, {**state, "active a.timer": "running"}) == []
    assert record.differences(state, {**state, "active gpuwright-check.service": "failed"}) == []
    assert record.differences(state, {**state, "active b.service": "failed"}) != []
    assert record.differences(state, {**state, "active dkms.service": "exited"}) == []
    assert record.differences(state, {**state, "active dkms.service": "failed"}) != []


def test_boundaries_are_before_and_after_a_change() -> None:
    class Made:
        def records(self) -> list[dict[str, Any]]:
            order = [("look", 1), ("write", 1), ("look", 2), ("end", 1)]
            return [{"task": task, "time": time} for task, time in order] + [{"changed": "write", "time": 1}]

    assert boundaries_of(Made()) == (Boundary("write", 1), Boundary("look", 2))  # type: ignore[arg-type]


REFERENCES = {step.name: Reference({}, (Boundary("first"), Boundary("second", 2))) for step in STEPS}


def test_every_fault_has_a_place_and_every_step_most_faults() -> None:
    pairs = choice.each_kind(STEPS, REFERENCES, 7)
    assert {pair.fault.name for pair in pairs} == set(BY_NAME)
    for step in STEPS:
        mine = {pair.fault.name for pair in pairs if pair.step == step}
        left_out = {fault.name for fault in FAULTS} - mine
        assert left_out <= {fault.name for fault in FAULTS if fault.downloads or fault.at == "inside"}, step.name
        assert not (step.downloads and left_out & {fault.name for fault in FAULTS if fault.downloads})


def test_the_seed_decides_and_nothing_else() -> None:
    assert choice.each_kind(STEPS, REFERENCES, 1) == choice.each_kind(STEPS, REFERENCES, 1)
    assert choice.each_kind(STEPS, REFERENCES, 1) != choice.each_kind(STEPS, REFERENCES, 2)
    whole = choice.everything(STEPS, REFERENCES, 1)
    assert whole[: len(choice.each_kind(STEPS, REFERENCES, 1))] == choice.each_kind(STEPS, REFERENCES, 1)
    assert len({(pair.point, pair.fault.name) for pair in whole}) == len(whole)


def boundaries_at(step: str) -> list[Boundary]:
    """Before each task that a hole of this step is at."""
    return [Boundary(hole.place.split("'")[1]) for hole in holes.HOLES if hole.step == step and "'" in hole.place]


def test_each_hole_is_a_pair_and_a_point_that_is_gone_is_said() -> None:
    there = {hole.step: Reference({}, (Boundary("first"), *boundaries_at(hole.step))) for hole in holes.HOLES}
    found = list(holes.pairs(STEPS, {**REFERENCES, **there}))
    assert [(pair.step.name, pair.fault.name) for pair in found] == [(hole.step, hole.fault) for hole in holes.HOLES]
    tried = [result(point=pair.point, fault=pair.fault.name) for pair in found]
    assert [holes.result_of(hole, tried) for hole in holes.HOLES] == tried
    assert page.page(tried).count("| equal |\n") == len(tried) and "| none yet |" in page.page(tried[1:])
    with pytest.raises(ValueError, match="no point older driver: before 'Hold or release"):
        list(holes.pairs([STEP["older driver"]], REFERENCES))
    assert list(holes.pairs([STEP["tuning"]], REFERENCES)) == []


def test_what_is_short_inside_a_task_strikes_inside_one() -> None:
    inside, before = Inside("build", process="make"), Boundary("first")
    step = STEP["driver"]
    assert choice.fits(step, inside, BY_NAME["memory runs out"])
    assert not choice.fits(step, before, BY_NAME["memory runs out"])
    assert not choice.fits(step, inside, BY_NAME["/var full"])
    assert not choice.fits(STEP["tuning"], before, BY_NAME["mirror gone"])
    assert Pair(step, Boundary("x", 2), FAULTS[0]).point == "driver: before 'x' (2)"
    assert Pair(step, inside, FAULTS[0]).point == "driver: in the build"


def result(**changes: Any) -> results.Result:
    row: dict[str, Any] = {
        "point": "driver: in the build", "fault": "Ctrl-C", "seed": 1, "commit": "0123abcd",
        "interrupted": 99, "again": 0, "outcome": "equal", "differences": (), "seconds": 9,
    }  # fmt: skip
    return results.Result(**{**row, **changes})


def test_a_later_result_takes_the_place_of_an_earlier_one(tmp_path: Path) -> None:
    file = tmp_path / "results.json"
    results.add(result(outcome="differs", differences=("file /a",)), file)
    results.add(result(fault="SIGTERM to the controller"), file)
    results.add(result(), file)
    assert [(each.fault, each.outcome) for each in results.read(file)] == [
        ("Ctrl-C", "equal"),
        ("SIGTERM to the controller", "equal"),
    ]


def test_results_of_another_commit_are_removed_and_the_rest_is_as_it_was(tmp_path: Path) -> None:
    file = tmp_path / "results.json"
    others = (result(point="CUDA: before 'x'", commit="old"), result(point="CUDA: before 'y'", commit="0123abcd+"))
    for each in (result(), *others):
        results.add(each, file)
    assert results.keep_only("0123abcd", file) == 2
    assert results.read(file) == [result()]
    written = file.stat().st_mtime_ns
    assert results.keep_only("0123abcd", file) == 0 and file.stat().st_mtime_ns == written


@pytest.mark.parametrize(("words", "tried"), [(["--record"], 2), ([], 3)])
def test_only_whoever_releases_keeps_results_and_goes_on(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, words: list[str], tried: int
) -> None:
    """One pair has ended equal on this commit, one has not, one has no result; another commit has one."""
    file = tmp_path / "results.json"
    pairs = [Pair(STEP["driver"], Boundary(name), BY_NAME["ssh connection cut"]) for name in ("a", "b", "c")]
    done = [result(point=pair.point, fault=pair.fault.name) for pair in pairs]
    for each in (done[0], replace(done[1], outcome="differs"), result(commit="old")):
        results.add(each, file)
    before = file.read_bytes()
    begun: list[str] = []

    class NoHost:
        def __init__(self, part: int) -> None:
            pass

        def start(self) -> None:
            pass

        stop = start

    def felt(host: object, pair: Pair, seed: int) -> Outcome:
        begun.append(pair.point)
        return Outcome(99, 0, (), 1.0, "", "")

    there = {name: functools.partial(getattr(results, name), file=file) for name in ("read", "add", "keep_only")}
    for name, stand_in in {
        "results": SimpleNamespace(Result=results.Result, **there),
        "commit": lambda: "0123abcd",
        "Host": NoHost,
        "remove_old": lambda: None,
        "chosen": lambda *_: pairs,
        "felt": felt,
        "CACHE": tmp_path,
    }.items():
        monkeypatch.setattr(cli, name, stand_in)
    assert cli.main(words) == 0
    assert len(begun) == tried and (file.read_bytes() == before) is not bool(words)
    equal = [each.point for each in results.read(file) if (each.outcome, each.commit) == ("equal", "0123abcd")]
    assert equal == [pair.point for pair in (pairs if words else pairs[:1])]


def test_a_fault_that_a_step_has_not_met_comes_first_wherever_its_point_is() -> None:
    driver, cuda = (Pair(STEP[name], Boundary("first"), BY_NAME["Ctrl-C"]) for name in ("driver", "CUDA"))
    later = Pair(STEP["driver"], Boundary("second"), BY_NAME["/opt full"])
    failed = result(fault="/opt full", outcome="differs")
    assert cli.new_kinds_first([driver, cuda, later], [result(), failed]) == [cuda, later, driver]


@pytest.mark.parametrize(
    ("fault", "interrupted", "again", "differences", "outcome"),
    [
        ("Ctrl-C", 99, 0, (), "equal"),
        ("Ctrl-C", 99, 0, ("file /a",), "differs"),
        ("Ctrl-C", 99, 2, (), "failed"),
        ("Ctrl-C", 0, 0, (), "unnoticed"),
        ("ssh connection cut", 0, 0, (), "equal"),
    ],
)
def test_a_fault_that_did_not_strike_proves_nothing(
    fault: str, interrupted: int, again: int, differences: tuple[str, ...], outcome: str
) -> None:
    pair = Pair(STEP["driver"], Boundary("first"), BY_NAME[fault])
    assert cli.outcome_of(pair, Outcome(interrupted, again, differences, 1.0, "", "")) == outcome


@pytest.mark.parametrize(
    ("place", "statuses", "tried"),
    [
        (Inside("build", process="make"), [0, 2], 2),
        (Inside("build", process="make"), [0, 0, 0, 2], 3),
        (Inside("build", process="make"), [99], 1),
        (Boundary("first"), [0], 1),
    ],
)
def test_inside_a_task_another_moment_is_tried(
    monkeypatch: pytest.MonkeyPatch, place: Any, statuses: list[int], tried: int
) -> None:
    moments = []

    def exercised(host: object, pair: Pair, seed: int, attempt: int) -> Outcome:
        moments.append(attempt)
        return Outcome(statuses[attempt - 1], 0, (), 1.0, "", "")

    monkeypatch.setattr(cli, "exercise", exercised)
    found = cli.felt(None, Pair(STEP["driver"], place, BY_NAME["memory runs out"]), 7)  # type: ignore[arg-type]
    assert moments == list(range(1, tried + 1)) and found.interrupted == statuses[tried - 1]


def test_a_task_that_had_enough_memory_has_less_the_next_time() -> None:
    class Scarce:
        def __init__(self, attempt: int) -> None:
            self.attempt = attempt

        def short_of_memory(self, room_mb: int) -> None:
            room.append(room_mb)

    room: list[int] = []
    for attempt in range(1, cli.ATTEMPTS + 1):
        BY_NAME["memory runs out"].strike(Scarce(attempt), None, STEP["CUDA"])  # type: ignore[arg-type]
    assert room == [8, 2, 0]


@pytest.mark.parametrize(
    ("place", "tried"), [(Inside("build", process="make"), 3), (Boundary("first"), 1)], ids=["inside", "before"]
)
def test_a_task_that_was_over_is_tried_again_and_a_point_that_is_missing_is_said(
    monkeypatch: pytest.MonkeyPatch, place: Any, tried: int
) -> None:
    moments = []

    def over(host: object, pair: Pair, seed: int, attempt: int) -> Outcome:
        moments.append(attempt)
        raise NotReached("the point was not reached")

    monkeypatch.setattr(cli, "exercise", over)
    with pytest.raises(NotReached):
        cli.felt(None, Pair(STEP["driver"], place, BY_NAME["power cut"]), 7)  # type: ignore[arg-type]
    assert moments == list(range(1, tried + 1))


def test_near_a_bare_host_are_steps_that_still_feel_every_fault() -> None:
    steps = choice.near(STEPS, 3)
    names = ["kernel headers", "driver", "CUDA", "driver with CUDA", "launcher and training user", "another mirror"]
    assert [step.name for step in steps] == names
    assert all(step.after in ("", *(each.name for each in steps)) for step in steps)
    picked = [pair for seed in range(40) for pair in choice.sampled(steps, seed, 3)]
    assert {step.name for step, _fault in picked} == {step.name for step in steps}
    assert {fault.name for _step, fault in picked} == {fault.name for fault in FAULTS}


@pytest.mark.parametrize("count", [1, 3, 10, len(FAULTS), 60])
def test_a_sample_is_the_seeds_and_takes_every_fault_before_one_comes_again(count: int) -> None:
    picked = choice.sampled(STEPS, 7, count)
    assert picked == choice.sampled(STEPS, 7, count) and len(picked) == count
    times = Counter(fault.name for _step, fault in picked)
    assert max(times.values()) - min([times[name] for name in BY_NAME] if count >= len(FAULTS) else [1]) <= 1
    assert all(choice.may_strike(step, fault) for step, fault in picked)


def test_samples_of_many_seeds_reach_every_step_and_fault() -> None:
    picked = [pair for seed in range(60) for pair in choice.sampled(STEPS, seed, 10)]
    assert {step.name for step, _fault in picked} == set(STEP) and {fault.name for _step, fault in picked} == set(
        BY_NAME
    )


def test_a_place_is_the_seeds_and_one_that_the_step_has() -> None:
    step, fault = STEP["driver"], BY_NAME["Ctrl-C"]
    there = Reference({}, (Boundary("a"), Boundary("b")))
    found = choice.at_a_place(step, fault, there, 5)
    assert (
        found and found == choice.at_a_place(step, fault, there, 5) and found.place in [*step.inside, *there.boundaries]
    )
    assert choice.at_a_place(STEP["tuning"], BY_NAME["mirror gone"], there, 5) is None


def test_the_page_shows_what_differed() -> None:
    text = page.page([result(), result(fault="/var full", outcome="differs", differences=("file /a: nothing",))])
    assert "2 pairs have been tried: 1 ended equal, 1 did not. Steps with a task that takes long have met 2 of " in text
    strikes = next(line for line in text.splitlines() if line.startswith("| memory runs out | "))
    assert strikes.split(" | ")[[step.name for step in STEPS].index("tuning") + 1] == "-"
    assert "| driver: in the build | /var full | 99 | 0 | **differs** | 1 | 0123abcd |" in text
    assert "* `file /a: nothing`" in text


def test_the_page_knows_every_fault() -> None:
    text = page.text()
    assert all(fault.how and f"| {fault.name} | {fault.how} |" in text for fault in FAULTS)


def test_every_result_is_of_a_step_and_a_fault_that_exist() -> None:
    for each in results.read():
        assert each.point.partition(": ")[0] in STEP, each
        assert each.fault in BY_NAME, each


@pytest.fixture
def mirrored(tmp_path: Path) -> Iterator[tuple[Path, int]]:
    (tmp_path / "wheels").mkdir()
    (tmp_path / "a.rpm").write_bytes(bytes(range(200)))
    (tmp_path / "repomd.xml").write_text("data")
    (tmp_path / "wheels/my_pkg-1.0-py3-none-any.whl").write_bytes(b"wheel")
    mood = tmp_path / "mood"
    mood.write_text("well")
    mirror.Mirror.repositories, mirror.Mirror.wheels, mirror.Mirror.mood_file = tmp_path, tmp_path / "wheels", mood
    server = mirror.Server(("127.0.0.1", 0), mirror.Mirror)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield mood, server.server_address[1]
    server.shutdown()
    server.server_close()


def ask(port: int, path: str) -> tuple[int, bytes]:
    """Status and body; status 0 where nothing was said, and -1 where the body was cut."""
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=10)
    try:
        connection.request("GET", path)
        answer = connection.getresponse()
        return answer.status, answer.read()
    except http.client.IncompleteRead as error:
        return -1, error.partial
    except (http.client.RemoteDisconnected, ConnectionError):
        return 0, b""
    finally:
        connection.close()


def test_the_mirror_has_moods(mirrored: tuple[Path, int]) -> None:
    mood, port = mirrored
    whole = bytes(range(200))
    assert ask(port, "/a.rpm") == (200, whole)
    assert b"my_pkg-1.0" in ask(port, "/py/simple/my-pkg/")[1]
    assert ask(port, "/py/wheels/my_pkg-1.0-py3-none-any.whl") == (200, b"wheel")
    mood.write_text("altered")
    status, body = ask(port, "/a.rpm")
    assert status == 200 and len(body) == 200 and sum(a != b for a, b in zip(body, whole, strict=True)) == 1
    assert ask(port, "/repomd.xml") == (200, b"data")
    mood.write_text("truncated")
    assert ask(port, "/a.rpm") == (-1, whole[:100]) == ask(port, "/a.rpm")
    mood.write_text("cut")
    assert ask(port, "/repomd.xml")[0] == 200 and ask(port, "/a.rpm") == (-1, whole[:100])
    assert ask(port, "/repomd.xml")[0] == 0
    mood.write_text("503")
    assert ask(port, "/repomd.xml")[0] == 503
    mood.write_text("gone")
    assert ask(port, "/repomd.xml")[0] == 0
    mood.write_text("well")
    assert ask(port, "/a.rpm") == (200, whole)
