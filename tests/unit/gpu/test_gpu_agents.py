"""Who works on a GPU, since when, and which programs only watch it; /proc in the shapes of kernels 4.18 to 6.x."""

from __future__ import annotations

import calendar
import os
import pwd
import subprocess
import time

import pytest
from gpuwright.gpu.agents import AGENTS, agent_problem, describe_process, is_agent
from gpuwright.probe.host import probe
from gpuwright.probe.use import read_in_use
from host_tree import HostTree, answers

# Kernel 6.1's, 52 fields; the tenth of a name with parentheses and spaces.
STAT = (
    "{pid} ({name}) S 1 {pid} {pid} 0 -1 4194560 1093 0 12 0 91 33 0 0 20 0 9 0 {start} 7225344000 2047 184467440737\n"
)
STATUS = (
    "Name:\t{name}\nUmask:\t0022\nState:\tS (sleeping)\nTgid:\t{pid}\nPid:\t{pid}\nUid:\t{uid}\t{uid}\t{uid}\t{uid}\n"
)
BOOT = "cpu  1 2 3 4\nintr 5 6\nctxt 77\nbtime 1767606000\nprocesses 4321\n"


@pytest.fixture
def host(tmp_path):
    tree = HostTree(tmp_path)
    tree.put("/proc/stat", BOOT)
    tree.put("/etc/passwd", "root:x:0:0:root:/root:/bin/bash\nalice:x:1001:100::/home/alice:/bin/bash\n")
    return tree


def run(host: HostTree, pid: int, name: str, uid: int = 1001, start: int = 360000) -> None:
    """A process that holds a card."""
    comm = name[:15]
    host.process(pid, name, files=("/dev/null", "/dev/nvidiactl", "/dev/nvidia-uvm", "/dev/nvidia3"))
    host.put(f"/proc/{pid}/stat", STAT.format(pid=pid, name=comm, start=start))
    host.put(f"/proc/{pid}/status", STATUS.format(pid=pid, name=comm, uid=uid))


def workers(host: HostTree, *agents: str) -> list[dict]:
    return read_in_use(host.root, 1, agents)["gpu_processes"]


def test_a_worker_has_a_name_a_user_and_a_start(host):
    run(host, 4321, "python3.11")
    # 360000 ticks of 1/100 s after the boot at 09:40.
    assert os.sysconf("SC_CLK_TCK") == 100
    assert workers(host) == [{"pid": 4321, "name": "python3.11", "user": "alice", "since": "2026-01-05T10:40:00Z"}]


@pytest.mark.parametrize("name", ["a) S 1 (b", "tmux: server", "pt_main_thread", "(sd-pam)", "x"])
def test_odd_names(host, name):
    run(host, 7, name)
    assert [(row["name"], row["since"]) for row in workers(host)] == [(name[:15], "2026-01-05T10:40:00Z")]


def test_a_user_without_a_name_is_a_number(host):
    run(host, 7, "python3", uid=990)
    assert workers(host)[0]["user"] == "uid 990"


@pytest.mark.parametrize("file", ["stat", "status"])
@pytest.mark.parametrize(
    "text", ["", "7", "7 (python3)", "Uid:\n", "Uid:\tx\n", "7 (python3) S 1 2 3 x x x x", "\0\xff"]
)
def test_what_cannot_be_read_is_null_and_the_worker_stays(host, file, text):
    run(host, 7, "python3")
    host.put(f"/proc/7/{file}", text)
    (row,) = workers(host)
    assert row["pid"] == 7 and row["name"] == "python3"
    assert row["since" if file == "stat" else "user"] is None


def test_without_a_boot_time_the_start_is_null(host):
    run(host, 7, "python3")
    host.put("/proc/stat", "cpu  1 2 3 4\n")
    assert workers(host)[0]["since"] is None


@pytest.mark.parametrize(
    "name", [*AGENTS, "nvidia-device-plugin", "gpud", "nv-fabricmanager", "telegraf", "node_exporter"]
)
def test_programs_that_watch_are_no_work(host, name):
    run(host, 50, name, uid=0)
    run(host, 51, "python3")
    assert [row["name"] for row in workers(host)] == ["python3"]


@pytest.mark.parametrize(
    "name",
    ["python3", "nvidia-smi2", "gpud-train", "Xvfb-run", "telegraph", "nvidia-cuda-mps-server", "gpu", "", "node"],
)
def test_other_names_are_work(host, name):
    run(host, 50, name)
    assert len(workers(host)) == 1 and not is_agent(name)


def test_the_inventory_names_more(host):
    run(host, 50, "site_gpu_exporter_with_a_long_name")
    run(host, 51, "nvitop")
    run(host, 52, "python3")
    assert [row["name"] for row in workers(host)] == ["site_gpu_export", "nvitop", "python3"]
    assert [row["name"] for row in workers(host, "nvitop", "site_gpu_exporter_with_a_long_name")] == ["python3"]


def test_the_probe_hands_them_on(host):
    run(host, 50, "nvitop")
    assert [row["name"] for row in probe(host.root, answers())["in_use"]["gpu_processes"]] == ["nvitop"]
    assert probe(host.root, answers(), agents=["nvitop"])["in_use"]["gpu_processes"] == []


@pytest.mark.parametrize(
    "name",
    [
        "python",
        "python3",
        "python3.11",
        "pt_main_thread",
        "bash",
        "sh",
        "torchrun",
        "train-gan",
        "java",
        "",
        " ",
        "a/b",
        " a",
    ],
)
def test_a_name_that_trainings_have_is_refused(name):
    assert agent_problem(name)


@pytest.mark.parametrize(
    "name", ["nvitop", "gpustat", "site.agent", "python-exporter", "shipper", "Rserve", "my agent"]
)
def test_other_names_may_be_given(name):
    assert agent_problem(name) == ""


def test_no_agent_has_a_name_of_trainings():
    assert not [name for name in AGENTS if agent_problem(name) or len(AGENTS[name]) < 8]


def test_the_module_takes_names_and_refuses_interpreters(run_module):
    answer = run_module("gpu_probe", {"agents": ["nvitop", "python3"]})
    assert answer["failed"] and "'python3' is a name that training runs also have" in answer["msg"]
    assert "in_use" in run_module("gpu_probe", {"agents": ["nvitop"]})["ansible_facts"]["gpu_node"]


def test_a_real_process():
    row = describe_process("/", os.getpid(), "pytest")
    assert row["user"] == pwd.getpwuid(os.getuid()).pw_name
    begun = calendar.timegm(time.strptime(str(row["since"]), "%Y-%m-%dT%H:%M:%SZ"))
    # ps asks the kernel in its own way.
    asked = ["ps", "-o", "etimes=", "-p", str(os.getpid())]
    age = int(subprocess.run(asked, capture_output=True, text=True, check=True).stdout)
    assert abs(time.time() - age - begun) <= 3
