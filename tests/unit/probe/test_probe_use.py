"""Who would lose work in a reboot, on made-up hosts."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest
from conftest import MODULE_UTILS
from gpuwright.host.processes import why_hidden
from gpuwright.probe.use import read_ancestors, read_in_use
from gpuwright.readings.host import read_blocked_tasks
from host_tree import HostTree

GPU = ("/dev/null", "/dev/nvidiactl", "/dev/nvidia-uvm", "/dev/nvidia0")
# sshd's session leader, the shell and the Python that runs the module.
LEADER, SHELL, OWN = 900, 901, 902


@pytest.fixture
def host(tmp_path):
    tree = HostTree(tmp_path)
    tree.process(1, "systemd", parent=0)
    tree.process(LEADER, "sshd")
    tree.process(SHELL, "sh", parent=LEADER)
    tree.process(OWN, "python3", parent=SHELL)
    return tree


def in_use(host):
    return read_in_use(host.root, OWN)


def test_nobody(host):
    assert in_use(host) == {"gpu_processes": [], "users": [], "jobs": []}


def test_a_training_is_seen(host):
    host.process(4321, "python3.11", files=GPU)
    host.process(4322, "bash", files=("/dev/null", "/dev/pts/0"))
    assert in_use(host)["gpu_processes"] == [{"pid": 4321, "name": "python3.11", "user": None, "since": None}]


@pytest.mark.parametrize(
    "name", ["nvidia-persistenced", "nv-hostengine", "dcgm-exporter", "nvidia_gpu_exporter", "Xorg", "nvidia-smi"]
)
def test_programs_that_always_hold_the_gpu_lose_nothing(host, name):
    host.process(50, name, files=GPU)
    assert in_use(host)["gpu_processes"] == []


@pytest.mark.parametrize("file", ["/dev/nvidiactl", "/dev/nvidia-uvm", "/dev/nvidia-caps/nvidia-cap1", "/tmp/nvidia0"])
def test_other_files_are_no_gpu(host, file):
    host.process(50, "python3", files=(file,))
    assert in_use(host)["gpu_processes"] == []


def test_the_caller_itself_does_not_count(host):
    host.process(OWN, "python3", parent=SHELL, files=GPU)
    assert in_use(host)["gpu_processes"] == []


def test_a_process_that_ends_meanwhile_is_skipped(host):
    host.put("/proc/77/comm", "gone\n")
    host.link("/proc/78/fd", "/nonexistent")
    assert in_use(host)["gpu_processes"] == []


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give its rights away")
def test_processes_that_may_not_be_examined_count_as_work(host):
    host.process(50, "python3", files=GPU)
    folder = host.folder / "proc/50/fd"
    folder.chmod(0)
    host.folder.chmod(0o755)
    for parent in host.folder.parents:
        parent.chmod(parent.stat().st_mode | 0o055)
    pid = os.fork()
    if pid == 0:
        os.setuid(65534)
        answer = in_use(host)["gpu_processes"]
        os._exit(0 if len(answer) == 1 and answer[0]["pid"] is None and "root" in answer[0]["name"] else 1)
    assert os.waitpid(pid, 0)[1] == 0


@pytest.mark.parametrize(
    ("sessions", "expected"),
    [
        ([("1", "deploy", LEADER, "", "user")], []),
        ([("1", "deploy", LEADER, "pts/0", "user")], []),
        ([("1", "deploy", LEADER, "", "user"), ("2", "alice", 50, "pts/1", "user")], ["alice"]),
        ([("1", "deploy", LEADER, "", "user"), ("2", "alice", 50, "", "user")], ["alice"]),
        # Another connection of the same automation, and the same person at a terminal.
        ([("1", "deploy", LEADER, "", "user"), ("2", "deploy", 50, "", "user")], []),
        ([("1", "deploy", LEADER, "", "user"), ("2", "deploy", 50, "tty1", "user")], ["deploy"]),
        ([("2", "alice", 50, "tty1", "user-early"), ("3", "alice", 51, "tty2", "user")], ["alice"]),
        (
            [("c1", "gdm", 50, "tty1", "greeter"), ("4", "bob", 51, "", "background"), ("5", "bob", 52, "", "manager")],
            [],
        ),
    ],
)
def test_users(host, sessions, expected):
    for number, user, leader, tty, kind in sessions:
        host.session(number, user, leader, tty, kind)
    assert in_use(host)["users"] == expected


def test_a_damaged_session_file_is_no_user(host):
    host.put("/run/systemd/sessions/1", "\xff\0=\nLEADER=x\n")
    host.put("/run/systemd/sessions/1.ref", "")
    assert in_use(host)["users"] == []


def test_a_session_without_a_readable_leader_still_counts(host):
    host.put("/run/systemd/sessions/9", "USER=alice\nCLASS=user\nLEADER=\n")
    assert in_use(host)["users"] == ["alice"]


def test_utmp_knows_the_terminals_that_logind_of_rhel_8_does_not(host):
    host.process(60, "bash")
    host.session("1", "deploy", LEADER)
    host.session("2", "deploy", 60)
    host.utmp((7, "deploy", 60), (7, "deploy", SHELL), (8, "gone", 60), (7, "stale", 61), (2, "reboot", 0))
    assert in_use(host)["users"] == ["deploy"]


def test_the_callers_own_terminal_in_utmp_is_nobody(host):
    host.utmp((7, "deploy", SHELL))
    assert in_use(host)["users"] == []


@pytest.mark.parametrize("content", [b"", b"short", b"\0" * 384, b"\xff" * 1000])
def test_a_damaged_utmp_is_nobody(host, content):
    host.put("/run/utmp", content)
    assert in_use(host)["users"] == []


def test_slurm_jobs(host):
    host.put("/var/spool/slurmd/job00123/slurm_script")
    host.put("/var/spool/slurm/d/job77/slurm_script")
    host.put("/var/spool/slurmd/cred_state")
    assert in_use(host)["jobs"] == ["slurm job 123", "slurm job 77"]


def test_an_interactive_slurm_step_is_a_job(host):
    host.process(70, "slurmstepd")
    assert in_use(host)["jobs"] == ["slurm step, process 70"]


def test_ancestors(host):
    assert read_ancestors(host.root, OWN) == [OWN, SHELL, LEADER]
    host.put("/proc/5/stat", "5 (evil) S 6) (x) R 6 5 5")
    host.put("/proc/6/stat", "6 (a) S 5 5 5")  # a circle cannot be, and must not hang
    assert read_ancestors(host.root, 5) == [5, 6]
    assert read_ancestors(host.root, 999_999) == [999_999]


# --- /proc that hides the processes of others

MOUNT = "22 27 0:20 / /proc rw,nosuid,nodev,noexec,relatime shared:5 - proc proc rw{}\n"
USER = "Name:\tpython3\nCapEff:\t0000000000000000\n"


@pytest.fixture
def user_of(host):
    """The same host as an ordinary user sees it, mounted with these options."""

    def mount(options: str) -> HostTree:
        host.put("/proc/self/mountinfo", "21 27 0:19 / /sys rw - sysfs sysfs rw\n" + MOUNT.format(options))
        host.put("/proc/self/status", USER)
        return host

    return mount


@pytest.mark.parametrize(
    "options",
    [",hidepid=2", ",hidepid=1", ",hidepid=4", ",hidepid=invisible", ",hidepid=noaccess", ",hidepid=ptraceable",
     ",gid=4242,hidepid=2", ",hidepid=invisible,gid=4242"],
)  # fmt: skip
def test_a_proc_that_hides_processes_is_not_an_idle_host(user_of, options):
    host = user_of(options)
    host.utmp((7, "alice", 4711))
    found = in_use(host)
    assert [process["pid"] for process in found["gpu_processes"]] == [None]
    assert "hidepid" in found["gpu_processes"][0]["name"] and "root" in found["gpu_processes"][0]["name"]
    assert "hidepid" in found["jobs"][0]
    assert found["users"] == ["alice"]
    with pytest.raises(PermissionError, match="hidepid"):
        read_blocked_tasks(host.root)


@pytest.mark.parametrize("options", ["", ",hidepid=0", ",hidepid=off", ",gid=5"])
def test_a_proc_that_shows_all_is_believed(user_of, options):
    host = user_of(options)
    assert in_use(host) == {"gpu_processes": [], "users": [], "jobs": []}
    assert read_blocked_tasks(host.root) == {"nvidia": [], "others": []}


def test_the_mount_that_counts_is_the_last_one(user_of):
    host = user_of(",hidepid=2")
    host.put("/proc/self/mountinfo", MOUNT.format(",hidepid=2") + MOUNT.format(""))
    assert why_hidden(host.root) == ""


def test_a_group_may_be_let_in_and_root_always_is(user_of):
    host = user_of(",gid=23,hidepid=2")
    assert why_hidden(host.root, groups={23}) == ""
    assert why_hidden(host.root, groups={24}) != ""
    assert why_hidden(user_of(",gid=23,hidepid=ptraceable").root, groups={23}) != ""
    host.put("/proc/self/status", "CapEff:\t000001ffffffffff\n")
    assert why_hidden(host.root) == ""


def test_without_process_1_something_is_hidden(tmp_path):
    host = HostTree(tmp_path)
    host.process(OWN, "python3")
    assert "process 1" in why_hidden(host.root, privileged=False)
    assert why_hidden(host.root, privileged=True) == ""


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can mount")
def test_a_real_proc_that_hides_processes():
    """The kernel's own hidepid, in namespaces of this test, as a user without rights."""
    # Everything is imported as root: the interpreter itself may lie where others cannot read.
    program = (
        "import os, sys; sys.path.insert(0, sys.argv[1]); from gpuwright.probe.use import read_in_use\n"
        "os.setgroups([]); os.setgid(65534); os.setuid(65534); found = read_in_use()\n"
        "print(len(found['gpu_processes']), found['gpu_processes'][0]['name'])"
    )
    script = 'mount -t proc -o hidepid=2 proc /proc && exec "$@"'
    command = ["unshare", "--mount", "--pid", "--fork", "sh", "-c", script, "sh", sys.executable, "-S", "-c", program]
    done = subprocess.run([*command, str(MODULE_UTILS)], capture_output=True, text=True, timeout=60)
    if done.returncode and "unshare" in done.stderr + done.stdout:
        pytest.skip(f"this machine gives no namespaces: {done.stderr.strip()}")
    assert done.stdout.startswith("1 unknown: /proc is mounted with hidepid="), done.stderr


@pytest.mark.parametrize(
    ("user", "state", "expected"),
    [
        ("ansible", "closing", []),
        ("ansible", "active", ["ansible"]),
        ("alice", "closing", ["alice"]),
    ],
)
def test_a_lost_connection_of_the_automation_is_nobody(host, user, state, expected):
    """What it left running is looked for by itself; alice may have left a training behind."""
    host.put("/run/systemd/sessions/1", f"USER=ansible\nCLASS=user\nLEADER={LEADER}\nTTY=pts/0\nSTATE=active\n")
    host.put("/run/systemd/sessions/2", f"USER={user}\nCLASS=user\nLEADER=700\nTTY=pts/1\nSTATE={state}\n")
    assert in_use(host)["users"] == expected
