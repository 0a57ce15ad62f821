"""Who works on a host at this moment and from which environments, on made-up hosts and on this machine's own /proc."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import time
from pathlib import Path

import pytest
from conftest import MODULE_UTILS
from gpuwright.host.in_child import examine_each
from gpuwright.host.mount_places import place_of, read_mounts
from gpuwright.probe import workloads
from gpuwright.probe.workloads import describe_all, describe_workload, in_way, read_workloads
from host_tree import HostTree

VENVS = "/opt/gpuwright/venvs"
OLD, NEW = f"{VENVS}/0123456789abcdef", f"{VENVS}/fedcba9876543210"
TORCH = "/lib/python3.11/site-packages/torch/lib/libtorch_cpu.so"
GPU = ("/dev/null", "/dev/nvidiactl", "/dev/nvidia-uvm", "/dev/nvidia3")
OWN = 902
HOST_MOUNTS = "22 1 253:0 / / rw,relatime shared:1 - xfs /dev/mapper/root rw\n23 22 0:5 / /dev rw - devtmpfs udev rw\n"
BOOT = "cpu  1 2 3 4\nbtime 1767606000\n"
STAT = (
    "{pid} ({name}) {state} {parent} {pid} {pid} 0 -1 4194560 1 0 1 0 9 3 0 0 20 0 9 0 {start} 7225344000 2047 1844\n"
)


class Host(HostTree):
    """A host whose /proc can be filled process by process."""

    def run(
        self,
        pid: int,
        name: str = "python3.11",
        files: tuple[str, ...] = (),
        maps: tuple[str, ...] = (),
        command: str = "",
        exe: str = "/usr/bin/python3.11",
        cwd: str = "/",
        uid: int = 1001,
        parent: int = 1,
        group: str = "/user.slice/user-1001.slice/session-3.scope",
        state: str = "S",
        start: int = 360000,
        environ: str = "",
        mounts: str = "",
    ) -> None:
        self.process(pid, name, parent, files)
        self.put(f"/proc/{pid}/stat", STAT.format(pid=pid, name=name[:15], state=state, parent=parent, start=start))
        self.put(f"/proc/{pid}/status", f"Name:\t{name}\nUid:\t{uid}\t{uid}\t{uid}\t{uid}\n")
        lines = [f"7f00{n:04x}000-7f00{n:04x}fff r-xp 00000000 fd:00 {n}    {path}\n" for n, path in enumerate(maps)]
        self.put(f"/proc/{pid}/maps", "".join([*lines, "7ffd000-7ffe000 rw-p 00000000 00:00 0    [stack]\n"]))
        self.put(f"/proc/{pid}/cmdline", command.replace("|", "\0") + "\0" if command else "")
        self.put(f"/proc/{pid}/environ", environ.replace("|", "\0") + "\0")
        self.put(f"/proc/{pid}/cgroup", f"0::{group}\n")
        for link, target in (("exe", exe), ("cwd", cwd), ("root", "/")):
            self.link(f"/proc/{pid}/{link}", target)
        self.link(f"/proc/{pid}/ns/mnt", f"mnt:[{4026532000 + pid}]" if mounts else "mnt:[4026531840]")
        if mounts:
            self.put(f"/proc/{pid}/mountinfo", mounts)

    def look(self, *agents: str) -> dict:
        return read_workloads(self.root, OWN, agents)

    def rows(self, *agents: str) -> list[dict]:
        return self.look(*agents)["workloads"]


@pytest.fixture
def host(tmp_path: Path) -> Host:
    tree = Host(tmp_path)
    tree.put("/proc/stat", BOOT)
    tree.put("/etc/passwd", "root:x:0:0:root:/root:/bin/bash\nalice:x:1001:100::/home/alice:/bin/bash\n")
    tree.put("/proc/self/mountinfo", HOST_MOUNTS)
    tree.link("/proc/self/ns/mnt", "mnt:[4026531840]")
    tree.process(1, "systemd", parent=0)
    tree.process(900, "sshd")
    tree.process(OWN, "python3", parent=900)
    for path in (OLD, NEW):
        tree.put(f"{path}/gpuwright.json", "{}")
    tree.link(f"{VENVS}/current", OLD)
    return tree


def test_nobody(host: Host) -> None:
    host.run(50, "bash", exe="/usr/bin/bash", command="-bash")
    host.run(51, "kworker/0:1", exe="/nonexistent")
    assert host.look() == {"workloads": [], "users": [], "environments": {}}


def test_a_training_says_who_since_when_on_what_from_where(host: Host) -> None:
    host.run(4321, files=GPU, maps=("/usr/lib64/libc.so.6", OLD + TORCH), command=f"{VENVS}/current/bin/python|t.py")
    (row,) = host.rows()
    assert row["what"] == "python3.11" and row["user"] == "alice" and row["since"] == "2026-01-05T10:40:00Z"
    assert row["cards"] == ["nvidia3"] and row["environments"] == [OLD] and row["by_link"]
    assert describe_workload(row) == "python3.11 (pid 4321, alice, since 2026-01-05T10:40:00Z)"
    assert host.look()["environments"] == {OLD: describe_workload(row)}


@pytest.mark.parametrize(
    ("how", "by_link"),
    [
        # On the CPU, in a tmux: no card, no unit, only what it has mapped.
        ({"maps": (OLD + TORCH,)}, False),
        ({"maps": (OLD + TORCH + " (deleted)",)}, False),
        ({"maps": (f"{OLD}/lib/a name with spaces.so",)}, False),
        ({"maps": (f"{OLD}/lib/a\\012newline.so",)}, False),
        # Just started, or pure Python: nothing is mapped yet, and the interpreter is the system's.
        ({"command": f"{OLD}/bin/python3.11|{VENVS}/current/bin/train-gan|--config|x.yml"}, False),
        ({"command": f"{VENVS}/current/bin/python|-m|gan_trainer.smoke"}, True),
        ({"command": f"/usr/libexec/platform-python|-I|-c|import sys|--|{VENVS}/current/bin/train-gan",
          "exe": "/usr/libexec/platform-python3.6"}, False),
        ({"command": "python|train.py", "environ": f"HOME=/root|VIRTUAL_ENV={VENVS}/current|X=1"}, True),
        ({"command": "python|train.py", "environ": f"VIRTUAL_ENV={OLD}"}, False),
        # A program of the environment that is none of Python's.
        ({"command": f"{OLD}/bin/ninja|all", "exe": f"{OLD}/bin/ninja"}, False),
        ({"exe": f"{OLD}/bin/ninja (deleted)"}, False),
    ],
)  # fmt: skip
def test_who_runs_from_an_environment_uses_it(host: Host, how: dict, by_link: bool) -> None:
    host.run(70, **{"exe": "/usr/bin/python3.11", **how})
    (row,) = host.rows()
    assert row["environments"] == [OLD] and row["by_link"] is by_link and row["cards"] == []
    assert [who["pid"] for who in in_way(host.look(), "environment", OLD)] == [70]
    assert in_way(host.look(), "environment", NEW) == [] == in_way(host.look(), "gpu")
    assert in_way(host.look(), "host") == [row]


@pytest.mark.parametrize(
    "how",
    [
        {"command": f"vim|{OLD}/gpuwright.json", "exe": "/usr/bin/vim"},
        {"command": "python3|x.py", "environ": "VIRTUAL_ENV=/home/alice/venv"},
        {"command": "bash", "exe": "/usr/bin/bash", "environ": f"VIRTUAL_ENV={OLD}"},
        {"maps": (f"/home/alice{OLD}/lib/x.so", f"{VENVS}-old/lib/x.so", VENVS)},
        {"command": f"{VENVS}|x"},
    ],
)
def test_who_only_speaks_of_an_environment_does_not(host: Host, how: dict) -> None:
    host.run(70, "sh", **how)
    assert host.look() == {"workloads": [], "users": [], "environments": {}}


@pytest.mark.parametrize("how", [{"cwd": f"{OLD}/lib"}, {"files": (f"{OLD}/lock.txt",)}])
def test_who_stands_in_an_environment_keeps_it_and_does_no_work(host: Host, how: dict) -> None:
    host.run(70, "bash", exe="/usr/bin/bash", command="-bash", **how)
    found = host.look()
    assert found["workloads"] == [] and list(found["environments"]) == [OLD]
    assert "bash (pid 70, alice" in found["environments"][OLD]


def test_an_agent_keeps_its_environment_and_does_no_work(host: Host) -> None:
    host.run(70, "tensorboard", maps=(OLD + TORCH,), files=GPU)
    assert [row["name"] for row in host.rows()] == ["tensorboard"]
    found = host.look("tensorboard")
    assert found["workloads"] == [] and list(found["environments"]) == [OLD]


def test_a_link_to_the_folder_is_the_folder(host: Host) -> None:
    host.put("/data/gpuwright/venvs/0123456789abcdef/x")
    shutil.rmtree(host.folder / "opt")
    host.link("/opt/gpuwright", "/data/gpuwright")
    host.link("/data/gpuwright/venvs/current", "0123456789abcdef")
    host.run(70, maps=(f"/data/gpuwright/venvs/0123456789abcdef{TORCH}",))
    host.run(71, command=f"{VENVS}/current/bin/python|x.py")
    assert [row["environments"] for row in host.rows()] == [[OLD], [OLD]]


# --- services, jobs, containers

SERVICE = "/system.slice/system-train\\x2dgan.slice/train-gan@faces.service"


def test_a_service_is_one_row_with_all_its_processes(host: Host) -> None:
    for pid, parent in ((60, 1), (61, 60), (62, 60)):
        host.run(pid, "pt_data_worker" if parent == 60 else "train-gan", maps=(OLD + TORCH,), group=SERVICE,
                 parent=parent, files=GPU if pid == 60 else (), uid=990)  # fmt: skip
    (row,) = host.rows()
    assert row["what"] == "train-gan@faces.service" and row["processes"] == 3 and row["user"] == "uid 990"
    assert describe_workload(row).startswith("train-gan@faces.service (train-gan, pid 60, uid 990, since 2026")


@pytest.mark.parametrize(
    ("init", "group", "what"),
    [
        # The host itself is a container, and so is everything on it; its own containers are told apart.
        ("{outer}/init.scope", "{outer}" + SERVICE, "train-gan@faces.service"),
        ("{outer}/init.scope", "{outer}/user.slice/user-1001.slice/session-3.scope", "python3.11"),
        ("{outer}/init.scope", "{outer}/machine.slice/libpod-{digest}.scope/container", "container 0123456789ab"),
        ("/init.scope", "/system.slice/containerd.service/kubepods/pod1/{digest}", "container 0123456789ab"),
        ("/init.scope", "/user.slice/user-1001.slice/user@1001.service/app.slice/jupyter.service", "jupyter.service"),
        ("/init.scope", "/user.slice/user-1001.slice/user@1001.service/tmux-spawn-1.scope", "python3.11"),
        ("/", "/", "python3.11"),
    ],
)
def test_the_innermost_is_told(host: Host, init: str, group: str, what: str) -> None:
    words = {"outer": f"/machine.slice/libpod-{64 * 'f'}.scope/container", "digest": DIGEST}
    host.put("/proc/1/cgroup", f"0::{init.format(**words)}\n")
    host.run(60, files=GPU, group=group.format(**words))
    assert [row["what"] for row in host.rows()] == [what]


def test_control_groups_of_version_1(host: Host) -> None:
    host.run(60, files=GPU)
    lines = f"12:devices:/system.slice/docker-{DIGEST}.scope\n3:cpu,cpuacct:/\n1:name=systemd:/x\n0::/\nbroken\n"
    host.put("/proc/60/cgroup", lines)
    assert [row["what"] for row in host.rows()] == ["container 0123456789ab"]


def test_loaders_and_ranks_of_one_command_are_one_row(host: Host) -> None:
    host.run(60, "torchrun", command=f"{OLD}/bin/python|{OLD}/bin/torchrun")
    for pid in (61, 62):
        host.run(pid, "pt_main_thread", files=GPU, maps=(OLD + TORCH,), parent=60)
    host.run(90, "python3.11", files=GPU, maps=(NEW + TORCH,))
    found = {(row["pid"], row["processes"]) for row in host.rows()}
    assert found == {(61, 3), (90, 1)}


@pytest.mark.parametrize(
    "group",
    ["/slurm/uid_1001/job_123/step_0/task_0", "/system.slice/slurmstepd.scope/job_123/step_batch/user/task_0"],
)
def test_a_slurm_job_has_its_users_name(host: Host, group: str) -> None:
    host.put("/var/spool/slurmd/job00123/slurm_script")
    host.run(60, "slurmstepd", uid=0, group=group.rpartition("/")[0], exe="/usr/sbin/slurmstepd")
    host.run(61, "python", files=GPU, group=group, parent=60)
    (row,) = host.rows()
    assert row["what"] == "slurm job 123" and row["user"] == "alice" and row["cards"] == ["nvidia3"]
    assert in_way(host.look(), "cards") == in_way(host.look(), "gpu") == [row]
    # A job that has opened no card yet may have been given all of them.
    shutil.rmtree(host.folder / "proc/61")
    (row,) = host.rows()
    assert row["what"] == "slurm job 123" and in_way(host.look(), "cards") == [row]


def test_a_job_without_processes_counts(host: Host) -> None:
    host.put("/var/spool/slurmd/job00077/slurm_script")
    (row,) = host.rows()
    assert describe_workload(row) == "slurm job 77" and in_way(host.look(), "gpu") == [row]


IMAGE = "40 39 0:55 / / rw - overlay overlay rw\n41 40 0:56 / /dev rw - tmpfs tmpfs rw\n"
GIVEN = (
    IMAGE + "42 40 253:0 /usr/lib64/libcuda.so.580.95.05 /usr/lib/x86_64-linux-gnu/libcuda.so.580.95.05 ro - xfs x rw\n"
)
BOUND = IMAGE + "42 40 253:0 /opt/gpuwright /env ro - xfs /dev/mapper/root rw\n"
DIGEST = "0123456789ab" + 52 * "c"


@pytest.mark.parametrize(
    "group",
    [
        f"/machine.slice/libpod-{DIGEST}.scope/container",
        f"/system.slice/docker-{DIGEST}.scope",
        f"/docker/{DIGEST}",
        f"/kubepods.slice/kubepods-burstable.slice/kubepods-pod1.slice/cri-containerd-{DIGEST}.scope",
        f"/kubepods/burstable/pod11-22/{DIGEST}",
        f"/user.slice/user-1001.slice/user@1001.service/user.slice/libpod-{DIGEST}.scope/container",
    ],
)
def test_a_container_with_a_gpu(host: Host, group: str) -> None:
    host.run(60, "jupyter-lab", exe="/usr/bin/jupyter", group=group, mounts=GIVEN)
    (row,) = host.rows()
    # It has opened no card, so a smoke test hurts nobody; a new driver would take its libraries away.
    assert row["what"] == "container 0123456789ab" and row["given"]
    assert in_way(host.look(), "gpu") == [row] and in_way(host.look(), "cards") == []
    host.run(61, "python3", files=GPU, group=group, mounts=GIVEN, parent=60)
    (row,) = in_way(host.look(), "cards")
    assert row["processes"] == 2 and row["name"] == "python3"


def test_a_container_of_an_agent_is_no_work(host: Host) -> None:
    host.run(60, "dcgm-exporter", group=f"/docker/{DIGEST}", mounts=GIVEN, files=GPU)
    assert host.rows() == []


def test_a_containers_own_folder_of_that_name_is_not_the_hosts(host: Host) -> None:
    host.run(60, maps=(OLD + TORCH,), command=f"{OLD}/bin/python|x", group=f"/docker/{DIGEST}", mounts=IMAGE)
    assert host.look() == {"workloads": [], "users": [], "environments": {}}


def test_the_hosts_folder_under_another_name_in_a_container_is_the_hosts(host: Host) -> None:
    path = "/env/venvs/0123456789abcdef" + TORCH
    host.run(60, maps=(path,), group=f"/docker/{DIGEST}", mounts=BOUND)
    (row,) = host.rows()
    assert row["environments"] == [OLD]


def test_a_service_with_mounts_of_its_own_sees_the_hosts_folder(host: Host) -> None:
    sandbox = HOST_MOUNTS.replace("rw,relatime", "ro") + "50 22 253:0 /srv/my\\040runs /srv/my\\040runs rw - xfs x rw\n"
    host.run(60, "train-gan", maps=(OLD + TORCH,), group=SERVICE, mounts=sandbox)
    assert host.rows()[0]["environments"] == [OLD]
    shutil.rmtree(host.folder / "proc/60/mountinfo", ignore_errors=True)
    (host.folder / "proc/60/mountinfo").unlink()
    # Nobody can tell what it sees, so the words count.
    assert host.rows()[0]["environments"] == [OLD]


def test_mounts_with_odd_names_and_over_each_other(host: Host) -> None:
    lines = (
        "1 0 8:1 / / rw - x x x\n2 1 8:2 /a\\040b /m rw - x x x\n3 1 8:3 /c /m rw - x x x\nbroken\n4 1 8:4 /d /mm rw\n"
    )
    host.put("/proc/5/mountinfo", lines)
    mounts = read_mounts(host.root, 5)
    assert [row.root for row in mounts] == ["/", "/a b", "/c", "/d"]
    assert place_of(mounts, "/m/x") == ("8:3", "/c/x") and place_of(mounts, "/mm") == ("8:4", "/d")
    assert place_of(mounts, "/mx/y") == ("8:1", "/mx/y") and place_of([], "/m") is None
    assert read_mounts(host.root, 99) == []


# --- processes that end, hang, or cannot be examined


def test_a_process_that_ends_meanwhile_is_nobody(host: Host) -> None:
    host.put("/proc/77/comm", "gone\n")
    host.link("/proc/78/fd", "/nonexistent")
    (host.folder / "proc/79").mkdir()
    assert host.rows() == []


def test_a_zombie_is_nobody_and_its_living_threads_are_somebody(host: Host) -> None:
    host.run(60, state="Z", exe="/nonexistent", files=())
    assert host.rows() == []
    host.put("/proc/60/task/60/stat", STAT.format(pid=60, name="x", state="Z", parent=1, start=1))
    host.put("/proc/60/task/61/stat", STAT.format(pid=61, name="x", state="S", parent=1, start=1))
    host.link("/proc/60/task/61/fd/3", "/dev/nvidia0")
    assert host.rows()[0]["cards"] == ["nvidia0"]


@pytest.mark.parametrize("name", ["a) S 1 (b", "tmux: server", "new\nline", "x", "päckchen"])
def test_odd_names(host: Host, name: str) -> None:
    host.run(60, name, files=GPU)
    (row,) = host.rows()
    assert row["pid"] == 60 and row["since"] == "2026-01-05T10:40:00Z"


def test_bytes_that_are_no_text(host: Host) -> None:
    host.run(60, files=GPU)
    for file in ("comm", "cgroup", "cmdline", "environ"):
        host.put(f"/proc/60/{file}", b"\xff\xfe\0\xff|/slurm\n")
    host.put("/proc/60/maps", b"1-2 r-xp 0 fd:00 1 /opt/gpuwright/venvs/0123456789abcdef/\xff\xfe.so\n\xff\n\n")
    (row,) = host.rows()
    assert row["environments"] == [OLD]


def test_a_process_that_hangs_counts_as_using_everything(host: Host, monkeypatch: pytest.MonkeyPatch) -> None:
    host.run(60, "python3.11", maps=(OLD + TORCH,))
    host.run(61, "python3.11", files=GPU)
    host.run(62, "python3.11", maps=(NEW + TORCH,))
    real = workloads.read_use

    def hanging(folder, pid):
        if pid == 61:
            time.sleep(600)
        return real(folder, pid)

    monkeypatch.setattr(workloads, "read_use", hanging)
    monkeypatch.setattr(workloads, "SECONDS", 0.5)
    begun = time.monotonic()
    found = host.look()
    assert time.monotonic() - begun < 100
    assert {row["pid"] for row in found["workloads"]} == {60, 61, 62}
    assert {row["pid"] for row in in_way(found, "environment", OLD)} == {60, 61}
    assert [row["pid"] for row in in_way(found, "gpu")] == [61]
    assert "did not answer" in describe_all(in_way(found, "gpu"))


def test_what_hangs_is_left_and_the_rest_examined(tmp_path: Path) -> None:
    def examine(number):
        if number == 3:
            time.sleep(600)
        if number == 5:
            raise ValueError(number)
        if number == 7:
            os._exit(1)
        return {"number": number, "text": "x" * 100_000}

    found = examine_each(examine, list(range(10)), 0.5)
    assert [answer and answer["number"] for answer in found] == [0, 1, 2, None, 4, None, 6, None, 8, 9]
    begun = time.monotonic()
    assert examine_each(lambda _: time.sleep(600), list(range(1000)), 0.05) == [None] * 1000
    # One after another, they would take 50 s.
    assert time.monotonic() - begun < 40
    assert examine_each(examine, [], 1) == []


USER = "Name:\tpython3\nCapEff:\t0000000000000000\n"


def test_hidden_processes_are_somebody(host: Host) -> None:
    host.put("/proc/self/status", USER)
    host.put("/proc/self/mountinfo", HOST_MOUNTS + "24 22 0:20 / /proc rw - proc proc rw,hidepid=2\n")
    for touches in ("gpu", "cards", "environment", "host"):
        assert any("hidepid" in str(row["unreadable"]) for row in in_way(host.look(), touches, OLD))
    # Root sees all.
    host.put("/proc/self/status", "CapEff:\t000001ffffffffff\n")
    assert host.rows() == []


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give its rights away")
def test_processes_that_may_not_be_examined_are_somebody(host: Host) -> None:
    host.run(60, files=GPU)
    (host.folder / "proc/60/fd").chmod(0)
    host.folder.chmod(0o755)
    for parent in host.folder.parents:
        parent.chmod(parent.stat().st_mode | 0o055)
    pid = os.fork()
    if pid == 0:
        os.setuid(65534)
        found = host.look()
        good = all(in_way(found, touches, NEW) for touches in ("gpu", "environment", "host"))
        os._exit(0 if good and "only root" in describe_all(in_way(found, "gpu")) else 1)
    assert os.waitpid(pid, 0)[1] == 0


def test_who_has_files_that_may_not_be_looked_at_is_somebody(host: Host, monkeypatch: pytest.MonkeyPatch) -> None:
    """Root without CAP_SYS_PTRACE lists the descriptors of others and may not see where they lead."""
    host.run(60, files=GPU)
    real = os.readlink

    def readlink(path, *arguments, **words):
        if "/fd/" in str(path):
            raise PermissionError(13, "Permission denied")
        return real(path, *arguments, **words)

    monkeypatch.setattr(os, "readlink", readlink)
    assert in_way(host.look(), "gpu") and in_way(host.look(), "cards")


def test_the_caller_is_nobody(host: Host) -> None:
    host.run(OWN + 1, files=GPU, maps=(OLD + TORCH,))
    assert len(host.rows()) == 1
    assert read_workloads(host.root, OWN + 1)["workloads"] == []


def test_only_the_first_are_named(host: Host) -> None:
    for pid in range(60, 66):
        host.run(pid, files=GPU, start=360000 + pid * 100)
    text = describe_all(host.rows())
    assert text.count("pid ") == 3 and "pid 60" in text and text.endswith(" and 3 more")


def test_a_word_that_is_no_part_of_a_host_is_refused(host: Host) -> None:
    with pytest.raises(ValueError, match="touches is 'all', expected"):
        in_way(host.look(), "all")


# --- this machine


@pytest.fixture
def real_job(tmp_path: Path):
    """A real process of a real environment, called by its link `current`, on the CPU and without a library of it."""
    venvs = tmp_path / "opt/gpuwright/venvs"
    (venvs / "0123456789abcdef/bin").mkdir(parents=True)
    (venvs / "0123456789abcdef/bin/python").symlink_to(sys.executable)
    (venvs / "current").symlink_to("0123456789abcdef")
    command = [str(venvs / "current/bin/python"), "-S", "-c", "import time; print('up', flush=True); time.sleep(600)"]
    job = subprocess.Popen(command, stdout=subprocess.PIPE, start_new_session=True)
    assert job.stdout and job.stdout.readline()
    yield job, venvs
    job.kill()
    job.wait()


def test_the_module_sees_a_real_job(run_module, real_job) -> None:
    job, venvs = real_job
    arguments = {"touches": "environment", "environment": str(venvs / "current"), "venvs": str(venvs)}
    answer = run_module("workload_info", arguments, check=True)
    # A machine may have processes that not even root may examine, and they count.
    (row,) = [row for row in answer["in_way"] if row["pid"]]
    assert row["pid"] == job.pid and row["environments"] == [str(venvs / "0123456789abcdef")] and row["by_link"]
    assert f"pid {job.pid}" in answer["who"] and answer["msg"] == "in use by " + answer["who"]
    assert not answer["changed"] and answer["uptime_s"] > 0
    job.kill()
    job.wait()
    answer = run_module("workload_info", arguments)
    assert [row for row in answer["in_way"] if row["pid"]] == []
    assert bool(answer["in_way"]) is bool(answer["who"]) is bool(answer["msg"])


def test_the_module_refuses_an_interpreter_as_an_agent(run_module) -> None:
    answer = run_module("workload_info", {"agents": ["python3"]})
    assert answer["failed"] and "a name that training runs also have" in answer["msg"]


def test_a_file_that_is_mapped_from_a_real_environment(tmp_path: Path) -> None:
    venvs = tmp_path / "venvs"
    (venvs / "abc").mkdir(parents=True)
    (venvs / "abc/a file").write_bytes(b"x" * 4096)
    text = "import mmap, sys; f = open(sys.argv[1], 'rb'); m = mmap.mmap(f.fileno(), 0, access=1); f.close(); input()"
    command = [sys.executable, "-c", text, "a file"]
    job = subprocess.Popen(command, cwd=venvs / "abc", stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    try:
        time.sleep(0.5)
        (venvs / "abc/a file").unlink()
        found = read_workloads(venvs=str(venvs))
        mine = [row for row in found["workloads"] if row["environments"]]
        assert [row["environments"] for row in mine] == [[str(venvs / "abc")]]
    finally:
        job.kill()
        job.wait()


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can mount")
def test_real_containers_by_their_mounts(tmp_path: Path) -> None:
    """The host's folder bound elsewhere in other mount namespaces is known; another folder of its name is not."""
    venvs, other, elsewhere = tmp_path / "venvs", tmp_path / "other", tmp_path / "elsewhere"
    for folder in (venvs, other):
        (folder / "abc/bin").mkdir(parents=True)
        (folder / "abc/bin/python").symlink_to(sys.executable)
    elsewhere.mkdir()
    wait = "import time; time.sleep(600)"
    inside = f"mount --bind {venvs} {elsewhere} && exec {elsewhere}/abc/bin/python -S -c '{wait}'"
    hidden = f"mount --bind {other} {venvs} && exec {venvs}/abc/bin/python -S -c '{wait}'"
    jobs = [subprocess.Popen(["unshare", "--mount", "sh", "-c", script]) for script in (inside, hidden)]
    try:
        time.sleep(1)
        if any(job.poll() is not None for job in jobs):
            pytest.skip("this machine gives no mount namespaces")
        program = (
            "import sys, json; sys.path.insert(0, sys.argv[1]); from gpuwright.probe.workloads import read_workloads; "
        )
        program += "print(json.dumps([r['pid'] for r in read_workloads(venvs=sys.argv[2])['workloads']]))"
        done = subprocess.run(
            [sys.executable, "-c", program, str(MODULE_UTILS), str(venvs)], capture_output=True, text=True, check=True
        )
        pids = done.stdout.strip()
        assert str(jobs[0].pid) in pids and str(jobs[1].pid) not in pids
    finally:
        for job in jobs:
            job.kill()
            job.wait()
