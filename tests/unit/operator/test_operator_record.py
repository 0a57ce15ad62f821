"""The record of the lock on a host: who gets it, what a boot, damage and full or read-only disks do to it."""

from __future__ import annotations

import fcntl
import json
import os
import stat
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from conftest import MODULE_UTILS, REPOSITORY
from gpuwright.operator import record as operator_record
from gpuwright.operator import runs as operator_runs
from gpuwright.operator.record import DAMAGED, GUARD, RECORD, look, read_lock, release, take
from gpuwright.operator.renewal import lost_to, renew

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="the record must belong to root, and mounts need it")
ALICE: dict[str, Any] = {
    "run": "ctl-1:4711:100", "who": "alice", "controller": "ctl-1", "machine": "m:b:1", "pid": 4711, "started": "100",
    "playbook": "site.yml",
}  # fmt: skip
BOB = {**ALICE, "run": "ctl-2:815:7", "who": "bob", "controller": "ctl-2", "pid": 815, "started": "7"}


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """A host with nothing but a boot, an uptime and /run."""
    (tmp_path / "proc/sys/kernel/random").mkdir(parents=True)
    (tmp_path / "run").mkdir()
    boot(tmp_path, "first-boot", 1000.5)
    return tmp_path


def boot(root: Path, boot_id: str, uptime_s: float) -> None:
    (root / "proc/sys/kernel/random/boot_id").write_text(f"{boot_id}\n")
    (root / "proc/uptime").write_text(f"{uptime_s} 900.00\n")


def put(root: Path, content: str | bytes) -> Path:
    path = root / RECORD[1:]
    path.parent.mkdir(exist_ok=True)
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    return path


def record(root: Path) -> dict:
    return json.loads((root / RECORD[1:]).read_text())


def test_the_first_gets_it_and_the_second_learns_who(root: Path) -> None:
    previous = os.umask(0o077)
    try:
        assert take(ALICE, "", str(root)).held
    finally:
        os.umask(previous)
    path = root / RECORD[1:]
    assert (stat.S_IMODE(path.stat().st_mode), stat.S_IMODE(path.parent.stat().st_mode)) == (0o644, 0o755)
    boot(root, "first-boot", 1060.5)
    answer = take(BOB, "", str(root))
    assert (answer.held, answer.damaged, answer.quiet_s) == (False, "", 60)
    assert answer.holder is not None
    assert {name: answer.holder[name] for name in ALICE} == ALICE
    assert look(BOB["run"], str(root)).holder == answer.holder
    assert look(ALICE["run"], str(root)).holder is None
    assert record(root)["run"] == ALICE["run"]


def test_a_reading_names_the_holder_whoever_asks(root: Path) -> None:
    assert read_lock(str(root)) == {"holder": None, "damaged": ""}
    take(ALICE, "", str(root))
    found = read_lock(str(root))
    assert found["holder"] == {name: value for name, value in record(root).items() if name != "schema"}
    assert found["holder"]["who"] == "alice" and found["damaged"] == ""
    put(root, "{")
    assert read_lock(str(root))["holder"] is None and RECORD in read_lock(str(root))["damaged"]
    (root / "proc/sys/kernel/random/boot_id").unlink()
    put(root, json.dumps({**record_of(ALICE), "boot_id": "first-boot"}))
    assert "boot_id" in read_lock(str(root))["damaged"]


def record_of(claim: dict[str, Any]) -> dict[str, Any]:
    return {**claim, "schema": 1, "since": "2026-01-05T10:00:00Z", "seen_s": 1.0}


def test_the_holder_keeps_it_and_gives_a_sign(root: Path) -> None:
    take(ALICE, "", str(root))
    record_before = {**record(root), "since": "2026-01-01T00:00:00Z"}
    put(root, json.dumps(record_before))
    boot(root, "first-boot", 2000.25)
    assert take(ALICE, "", str(root)).held
    assert record(root) == {**record_before, "seen_s": 2000.25}


def test_only_the_holder_gives_it_back(root: Path) -> None:
    assert not release(ALICE["run"], str(root))
    take(ALICE, "", str(root))
    assert not release(BOB["run"], str(root)) and record(root)["who"] == "alice"
    assert release(ALICE["run"], str(root))
    assert take(BOB, "", str(root)).held


def test_a_boot_ends_it_even_where_run_was_not_emptied(root: Path) -> None:
    take(ALICE, "", str(root))
    boot(root, "second-boot", 3.0)
    assert look(BOB["run"], str(root)).holder is None
    answer = take(BOB, "", str(root))
    assert (answer.held, answer.before) == (True, None)


def test_a_stale_record_is_replaced_only_while_it_is_the_one_that_was_judged(root: Path) -> None:
    take(ALICE, "", str(root))
    assert not take(BOB, "ctl-9:1:1", str(root)).held
    assert not take(BOB, DAMAGED, str(root)).held
    answer = take(BOB, ALICE["run"], str(root))
    assert answer.held and answer.before is not None and answer.before["who"] == "alice"
    carol = {**ALICE, "run": "ctl-3:3:3"}
    assert (take(carol, ALICE["run"], str(root)).holder or {})["who"] == "bob"


WRONG_RECORDS = {
    "empty": "",
    "blank": "\n",
    "half": '{"schema": 1, "run": "ctl-1:47',
    "list": "[]",
    "null": "null",
    "not-text": b"\xff\xfe\x00",
    "other-schema": json.dumps({**ALICE, "schema": 2, "boot_id": "first-boot", "since": "", "seen_s": 1.0}),
    "no-boot": json.dumps({**ALICE, "schema": 1, "since": "", "seen_s": 1.0}),
    "boot-is-a-number": json.dumps({**ALICE, "schema": 1, "boot_id": 1, "since": "", "seen_s": 1.0}),
    "pid-is-text": json.dumps(
        {**ALICE, "schema": 1, "boot_id": "first-boot", "pid": "4711", "since": "", "seen_s": 1.0}
    ),
    "never-seen": json.dumps({**ALICE, "schema": 1, "boot_id": "first-boot", "since": ""}),
    "too-long": '{"schema": 1, "x": "' + "x" * 1024 * 1024 + '"}',
}


@pytest.mark.parametrize("content", WRONG_RECORDS.values(), ids=WRONG_RECORDS)
def test_a_record_that_cannot_be_read_holds(root: Path, content: str | bytes) -> None:
    path = put(root, content)
    os.utime(path, (time.time() - 600, time.time() - 600))
    answer = take(BOB, "", str(root))
    assert not answer.held and answer.holder is None and RECORD in answer.damaged
    assert answer.quiet_s == pytest.approx(600, abs=60)
    assert not release(BOB["run"], str(root)) and path.exists()
    assert not take(BOB, ALICE["run"], str(root)).held
    assert take(BOB, DAMAGED, str(root)).held and record(root)["who"] == "bob"
    [aside] = path.parent.glob(path.name + ".damaged-*")
    assert aside.read_bytes() == (content.encode() if isinstance(content, str) else content)


def test_neither_a_link_nor_what_others_can_write_is_believed(root: Path) -> None:
    take(ALICE, "", str(root))
    path = root / RECORD[1:]
    path.chmod(0o666)
    assert "users other than root" in take(BOB, "", str(root)).damaged
    path.rename(path.with_name("elsewhere"))
    path.symlink_to("elsewhere")
    assert not take(BOB, "", str(root)).held
    assert take(BOB, DAMAGED, str(root)).held and not path.is_symlink()


def test_without_a_boot_id_nobody_gets_it(root: Path) -> None:
    (root / "proc/sys/kernel/random/boot_id").unlink()
    with pytest.raises(OSError, match="boot_id"):
        take(ALICE, "", str(root))
    assert not (root / RECORD[1:]).exists()


def test_who_keeps_the_guard_is_not_waited_for_without_end(root: Path) -> None:
    take(ALICE, "", str(root))
    with (root / GUARD[1:]).open() as guard:
        fcntl.flock(guard, fcntl.LOCK_EX)
        with pytest.raises(TimeoutError), operator_record._guarded(str(root), wait_s=0.2):
            pass
    assert stat.S_IMODE((root / GUARD[1:]).stat().st_mode) == 0o600


# Two processes for all tries: both are told when to begin, and wait for that moment in a loop of their own.
RACE = """
import json, os, struct, sys, time
sys.path.insert(0, {folder!r})
from gpuwright.operator.record import RECORD, release, take
root, claims = {root!r}, {claims!r}
children = []
for claim in claims:
    told, tell = os.pipe()
    hear, say = os.pipe()
    if os.fork() == 0:
        while True:
            start, = struct.unpack("d", os.read(told, 8))
            if not start:
                os._exit(0)
            while time.monotonic() < start:
                pass
            answer = take(claim, {replaces!r}, root)
            os.write(say, json.dumps([answer.held, (answer.holder or {{}}).get("run")]).encode())
    children.append((tell, hear))
results = []
for attempt in range(200):
    start = time.monotonic() + 0.001
    for tell, _hear in children:
        os.write(tell, struct.pack("d", start))
    said = [json.loads(os.read(hear, 65536).decode()) for _tell, hear in children]
    winner = json.load(open(root + RECORD))["run"]
    results.append([said, winner])
    release(winner, root)
    {between}
for tell, _hear in children:
    os.write(tell, struct.pack("d", 0))
    os.wait()
print(json.dumps(results))
"""


@pytest.mark.parametrize("stale", [False, True], ids=["free", "stale"])
def test_of_two_at_once_one_gets_it(root: Path, node_python: str, stale: bool) -> None:
    """200 tries; on a free host, and on one whose record both have judged to be stale."""
    carol = {**ALICE, "run": "ctl-3:3:3"}
    between = f"take({carol!r}, '', root)" if stale else "pass"
    if stale:
        take(carol, "", str(root))
    script = RACE.format(
        folder=str(MODULE_UTILS), root=str(root), claims=[ALICE, BOB], replaces=carol["run"] if stale else "",
        between=between,
    )  # fmt: skip
    done = subprocess.run([node_python, "-c", script], capture_output=True, text=True, timeout=240)
    assert done.returncode == 0, done.stderr
    results = json.loads(done.stdout)
    assert len(results) == 200
    for said, winner in results:
        assert sorted(held for held, _holder in said) == [False, True], results
        names = [claim["run"] for claim in (ALICE, BOB)]
        assert winner == names[[held for held, _holder in said].index(True)]
        assert [holder for held, holder in said if not held] == [winner]


def module(node_python: str, ansible_path: Path, folder: Path, mounts: str, arguments: dict) -> dict:
    """The module under mounts of its own: a shell script that makes /run what a test wants.

    In a /proc of its own, too: it looks for what other runs have started, and tests beside this one start some.
    """
    (folder / "args.json").write_text(json.dumps({"ANSIBLE_MODULE_ARGS": arguments}))
    program = f"{node_python} {REPOSITORY}/library/operator_lock.py {folder}/args.json"
    environment = {"PATH": os.environ["PATH"], "PYTHONPATH": str(ansible_path), "PYTHONDONTWRITEBYTECODE": "1"}
    done = subprocess.run(
        ["unshare", "-m", "-p", "-f", "--mount-proc", "sh", "-ec", f"{mounts}\n{program}"],
        env=environment, capture_output=True, text=True, timeout=60,
    )  # fmt: skip
    return json.loads(done.stdout)


FULL = "mount -t tmpfs -o size=16k tmpfs /run; head -c 16384 /dev/zero > /run/x || true"
NO_INODES = "mount -t tmpfs -o nr_inodes=2 tmpfs /run; touch /run/x"
READ_ONLY = "mount -t tmpfs tmpfs /run; mount -o remount,ro /run"
READ_ONLY_LATER = "mount -t tmpfs tmpfs /run; mkdir /run/gpuwright; mount -o remount,ro /run"
IN_THE_WAY = "mount -t tmpfs tmpfs /run; touch /run/gpuwright"


@pytest.mark.parametrize("mounts", [FULL, NO_INODES, READ_ONLY, READ_ONLY_LATER, IN_THE_WAY])
def test_where_it_cannot_be_kept_nothing_goes_on(
    node_python: str, ansible_path: Path, tmp_path: Path, mounts: str
) -> None:
    answer = module(node_python, ansible_path, tmp_path, mounts, {"claim": ALICE})
    assert answer.get("failed"), answer
    assert "/run/gpuwright" in answer["msg"] and "run again" in answer["msg"]


def test_the_module_takes_and_in_check_mode_only_looks(node_python: str, ansible_path: Path, tmp_path: Path) -> None:
    fresh = "mount -t tmpfs tmpfs /run"
    taken = module(node_python, ansible_path, tmp_path, fresh, {"claim": ALICE})
    assert (taken["held"], taken["run"], taken["changed"]) == (True, ALICE["run"], False)
    seen = module(
        node_python, ansible_path, tmp_path, f"{fresh}; trap 'test ! -e /run/gpuwright' EXIT",
        {"claim": ALICE, "_ansible_check_mode": True},
    )  # fmt: skip
    assert (seen["held"], seen["run"], seen["holder"]) == (False, "", None)


def test_without_its_action_plugin_the_module_says_so(node_python: str, ansible_path: Path, tmp_path: Path) -> None:
    answer = module(node_python, ansible_path, tmp_path, ":", {})
    assert answer["failed"] and "gpuwright.node.operator_lock" in answer["msg"]


@pytest.fixture
def started() -> Iterator[Callable[..., int]]:
    """Start a program as a run would; it is killed after the test."""
    children: list[subprocess.Popen] = []

    def start(run: str, *command: str) -> int:
        child = subprocess.Popen(command, env={**os.environ, operator_runs.VARIABLE: run}, start_new_session=True)
        children.append(child)
        # The kernel shows a new program's environment a little after Popen has returned.
        for _attempt in range(200):
            if Path(f"/proc/{child.pid}/environ").read_bytes():
                break
            time.sleep(0.05)
        return child.pid

    yield start
    for child in children:
        child.kill()
        child.wait()


def test_what_a_run_has_started_is_found_by_its_environment(started, tmp_path: Path) -> None:
    pid = started("ctl-7:77:7", "sleep", "60")
    own = started("ctl-8:88:8", "sleep", "61")
    (tmp_path / "gpg-agent").symlink_to("/bin/sleep")
    lingering = started("ctl-7:77:7", str(tmp_path / "gpg-agent"), "62")
    empty = started("", "sleep", "63")
    found = {work.pid: work for work in operator_runs.work_of_others("ctl-8:88:8")}
    assert found[pid] == (pid, "sleep", "ctl-7:77:7")
    assert not found.keys() & {own, lingering, empty, os.getpid()}


def test_what_works_in_a_container_of_this_host_is_of_another_host(started) -> None:
    pid = started("ctl-7:77:7", "unshare", "--fork", "--pid", "sleep", "60")
    for _attempt in range(200):
        inside = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
        if inside and Path(f"/proc/{inside[0]}/comm").read_text() == "sleep\n":
            break
        time.sleep(0.05)
    assert inside, "unshare has started nothing"
    found = {work.pid for work in operator_runs.work_of_others("ctl-8:88:8")}
    assert pid in found and int(inside[0]) not in found


def test_the_lock_is_not_given_while_another_run_works(root: Path, started, monkeypatch: pytest.MonkeyPatch) -> None:
    pid = started(ALICE["run"], "sleep", "60")
    (root / f"proc/{pid}").mkdir()
    for name in ("environ", "comm"):
        (root / f"proc/{pid}/{name}").write_bytes(Path(f"/proc/{pid}/{name}").read_bytes())
    answer = take(BOB, "", str(root))
    assert (answer.held, answer.holder, [work.pid for work in answer.work]) == (False, None, [pid])
    assert take(ALICE, "", str(root)).held
    assert not take(BOB, ALICE["run"], str(root)).held, "the run is gone, and what it started is not"
    (root / f"proc/{pid}/environ").unlink()
    assert take(BOB, ALICE["run"], str(root)).held


# Reads nothing of what its program says, and keeps the pipe, as sshd does for a session that was cut off.
LISTENER = """#!{python}
import subprocess, sys
started = subprocess.Popen([sys.executable, "-c", sys.argv[1]], stderr=subprocess.PIPE)
print(started.pid, flush=True)
started.wait()
"""
SAYS_MUCH = "import os; os.write(2, bytes(900000))"
OF_ITS_OWN = "import subprocess, sys; subprocess.Popen([sys.executable, '-c', {!r}], stderr=subprocess.PIPE).wait()"


@pytest.mark.parametrize(
    ("name", "program", "ended"),
    [
        ("sshd", SAYS_MUCH, True),
        ("sshd-session", SAYS_MUCH, True),
        ("sshd", "import time; time.sleep(60)", False),
        # A program of the run reads it, as tar reads what gzip writes.
        ("sshd", OF_ITS_OWN.format(SAYS_MUCH), False),
        ("tee", SAYS_MUCH, False),
    ],
    ids=["cut off", "newer OpenSSH", "works", "heard by its own", "heard by another"],
)
def test_what_only_waits_for_ssh_to_listen_is_ended(tmp_path: Path, name: str, program: str, ended: bool) -> None:
    file = tmp_path / name
    file.write_text(LISTENER.format(python=sys.executable))
    file.chmod(0o755)
    listener = subprocess.Popen([str(file), program], stdout=subprocess.PIPE, text=True)
    try:
        assert listener.stdout is not None
        pid = int(listener.stdout.readline())
        time.sleep(1)
        pids = [pid, *map(int, Path(f"/proc/{pid}/task/{pid}/children").read_text().split())]
        operator_runs.end_unheard(operator_runs.Work(each, "python", "r") for each in pids)
        time.sleep(0.5)
        assert [each for each in pids if Path(f"/proc/{each}").exists()] == ([] if ended else pids)
    finally:
        for each in pids:
            subprocess.run(["kill", "-KILL", str(each)], check=False)
        listener.kill()
        listener.wait()


@pytest.mark.parametrize(
    ("holder", "replaces", "ended"),
    [(None, "", [1, 2]), (ALICE, "", []), (ALICE, ALICE["run"], [1]), (ALICE, BOB["run"], [])],
    ids=["no holder", "a holder", "a holder that is over", "another one"],
)
def test_only_what_a_run_that_is_over_has_left_is_ended(
    root: Path, monkeypatch: pytest.MonkeyPatch, holder: dict | None, replaces: str, ended: list[int]
) -> None:
    if holder:
        assert take(holder, root=str(root)).held
    works = [operator_runs.Work(1, "python3", ALICE["run"]), operator_runs.Work(2, "python3", BOB["run"])]
    given: list[int] = []
    monkeypatch.setattr(operator_record, "work_of_others", lambda *_arguments: works)
    monkeypatch.setattr(operator_record, "end_unheard", lambda some, _root: given.extend(each.pid for each in some))
    assert not take({**ALICE, "run": "ctl-3:9:9"}, replaces, root=str(root)).held
    assert given == ended


def test_a_process_that_hangs_in_the_kernel_keeps_nobody_waiting(root: Path) -> None:
    """Its environment cannot be read in time; here a pipe plays the kernel, which lets who opens it wait."""
    for pid, run in ((10, "ctl-7:77:7"), (30, "ctl-7:77:7")):
        (root / f"proc/{pid}").mkdir()
        (root / f"proc/{pid}/environ").write_bytes(f"A=b\0GPUWRIGHT_RUN={run}\0".encode())
    (root / "proc/20").mkdir()
    os.mkfifo(root / "proc/20/environ")
    start = time.monotonic()
    assert [work.pid for work in operator_runs.work_of_others("ctl-8:88:8", str(root))] == [10, 30]
    assert time.monotonic() - start < operator_runs.DEADLINE_S


@pytest.mark.parametrize(
    ("environment", "run"),
    [
        (b"", ""),
        (b"GPUWRIGHT_RUN=a:1:2\0", "a:1:2"),
        (b"X=1\0GPUWRIGHT_RUN=a:1:2", "a:1:2"),
        (b"GPUWRIGHT_RUN=\0", ""),
        (b"XGPUWRIGHT_RUN=a\0GPUWRIGHT_RUNS=b\0", ""),
        (b"A=GPUWRIGHT_RUN=a\0", ""),
        (b"GPUWRIGHT_RUN=\xff:1:2\0", "\ufffd:1:2"),
    ],
)
def test_the_run_that_an_environment_names(environment: bytes, run: str) -> None:
    assert operator_runs.run_of(environment) == run


def test_every_process_of_this_machine_is_read() -> None:
    """The test itself and its parents name no run, and a real /proc has processes of the kernel that cannot be read."""
    assert sys.platform == "linux"
    answered, hanging = operator_runs._ask_child("/", operator_runs.process_ids("/"), time.monotonic() + 10)
    assert hanging is None and len(answered) > 5


def test_each_call_of_the_holder_renews_its_lease(root: Path) -> None:
    assert take(ALICE, "", str(root)).held
    before = record(root)
    boot(root, "first-boot", 1100.0)
    renew(ALICE["run"], str(root))
    assert record(root) == {**before, "seen_s": 1100.0}
    answer = take(BOB, "", str(root))
    assert not answer.held and answer.quiet_s == 0.0
    # Of many short calls not each one writes.
    boot(root, "first-boot", 1101.0)
    renew(ALICE["run"], str(root))
    assert record(root)["seen_s"] == 1100.0
    assert stat.S_IMODE((root / RECORD[1:]).stat().st_mode) == 0o644
    assert [path.name for path in (root / "run/gpuwright").iterdir()] and look(BOB["run"], str(root)).quiet_s == 1.0


def test_nobody_renews_the_lease_of_another_run(root: Path) -> None:
    renew(ALICE["run"], str(root))
    assert not (root / RECORD[1:]).exists()
    assert take(ALICE, "", str(root)).held
    boot(root, "first-boot", 2000.0)
    renew(BOB["run"], str(root))
    assert record(root)["seen_s"] == 1000.5
    release(ALICE["run"], str(root))
    renew(ALICE["run"], str(root))
    assert not (root / RECORD[1:]).exists()


@pytest.mark.parametrize(
    "content", ["", "{", "[]", '{"run": "ctl-1:4711:100"}', '{"run": "ctl-1:4711:100", "seen_s": "x"}']
)
def test_a_damaged_record_is_left_as_it_is_and_fails_no_call(root: Path, content: str) -> None:
    path = put(root, content)
    (root / GUARD[1:]).touch()
    renew(ALICE["run"], str(root))
    assert path.read_text() == content


def test_who_keeps_the_guard_is_not_waited_for(root: Path) -> None:
    assert take(ALICE, "", str(root)).held
    boot(root, "first-boot", 2000.0)
    with (root / GUARD[1:]).open() as guard:
        fcntl.flock(guard, fcntl.LOCK_EX)
        renew(ALICE["run"], str(root))
    assert record(root)["seen_s"] == 1000.5


def test_a_process_of_the_holder_renews_it_for_whoever_sees_it(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As dnf does for twenty minutes: the lease runs from when it was last seen, not from the call that started it."""
    assert take(ALICE, "", str(root)).held
    works = [operator_runs.Work(7, "dnf", ALICE["run"])]
    monkeypatch.setattr(operator_record, "work_of_others", lambda run, root: works)
    boot(root, "first-boot", 3000.0)
    assert take(BOB, "", str(root)).work == works
    works.clear()
    boot(root, "first-boot", 3060.0)
    assert take(BOB, "", str(root)).quiet_s == 60.0


def test_every_module_that_runs_on_nodes_renews_it() -> None:
    """The others document an action plugin, and do all their work on the controller."""
    own = "from ansible_collections.gpuwright.node.plugins.module_utils.operator.node_module import AnsibleModule"
    others = {path.stem for path in (REPOSITORY / "library").glob("*.py") if own not in path.read_text()}
    assert others == {"bundle_make", "gpu_plan", "host_plan", "installation_file", "package_lock", "reboot_node",
                      "report_page", "rollout", "sweep"}  # fmt: skip


def test_a_lease_that_was_renewed_since_it_was_judged_is_not_replaced(root: Path) -> None:
    take(ALICE, root=str(root))
    judged = look(BOB["run"], str(root)).holder
    assert judged is not None
    boot(root, "first-boot", judged["seen_s"] + 700)
    renew(ALICE["run"], str(root))
    assert not take(BOB, ALICE["run"], str(root), judged_s=judged["seen_s"]).held
    again = look(BOB["run"], str(root)).holder
    assert again is not None and take(BOB, ALICE["run"], str(root), judged_s=again["seen_s"]).held


def test_a_run_that_has_lost_its_lock_learns_to_whom(root: Path) -> None:
    assert lost_to(ALICE["run"], str(root)) == ""
    take(ALICE, root=str(root))
    assert lost_to(ALICE["run"], str(root)) == "" == lost_to("", str(root))
    take(BOB, ALICE["run"], str(root))
    assert lost_to(ALICE["run"], str(root)) == "bob"
