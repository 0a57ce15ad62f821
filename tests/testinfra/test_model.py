"""Model layer: user, trainer, service, and that it really trains."""

from __future__ import annotations

import json
import time

import pytest
from testinfra.host import Host

TRAIN_GAN = "/opt/gpuwright/venvs/current/bin/train-gan"


def test_training_user_has_no_password_no_shell_no_sudo(host: Host, trainer: str) -> None:
    user = host.user(trainer)
    assert user.shell in ("/sbin/nologin", "/usr/sbin/nologin")
    with host.sudo():
        assert host.check_output("getent shadow %s", trainer).split(":")[1].startswith(("!", "*"))
        assert "not allowed" in host.run("sudo -n -l -U %s", trainer).stdout


def test_dry_run_prints_the_resolved_configuration(as_trainer, wish: dict) -> None:
    name = next(iter(wish.get("model_trainer_configs", {"default": {}})))
    done = as_trainer(f"cd / && {TRAIN_GAN} --config /etc/gpuwright/train-gan/{name}.yml --dry-run")
    assert done.rc == 0, done.stderr
    assert f"{wish.get('model_trainer_runs_dir', '/srv/gan/runs')}/{name}" in done.stdout


def test_folders_belong_to_the_trainer(host: Host, trainer: str, wish: dict) -> None:
    for folder in (
        wish.get("model_trainer_data_dir", "/srv/gan/data"),
        wish.get("model_trainer_runs_dir", "/srv/gan/runs"),
    ):
        file = host.file(folder)
        assert (file.user, file.group) == (trainer, wish.get("system_training_group", "trainer"))
        assert file.mode == 0o2770


@pytest.mark.el8
def test_the_service_trains_and_leaves_a_checkpoint(host: Host) -> None:
    """The unit itself, in its sandbox, with a configuration small enough for a CPU."""
    small = {"image_size": 32, "channels": 8, "batch_size": 4, "steps": 2, "device": "cpu"}
    # JSON is YAML, and one line is easily handed to a shell.
    configuration = json.dumps({"run_dir": "/srv/gan/runs/trial", **small})
    with host.sudo():
        host.check_output("echo %s > /etc/gpuwright/train-gan/trial.yml", configuration)
        try:
            host.check_output("systemctl start train-gan@trial")
            for _ in range(90):
                state = host.run("systemctl is-active train-gan@trial").stdout.strip()
                if state in ("inactive", "failed"):
                    break
                time.sleep(1)
            journal = host.run("journalctl -u train-gan@trial --no-pager -n 30").stdout
            assert state == "inactive", journal
            assert host.check_output("ls /srv/gan/runs/trial/stats.jsonl")
            assert host.check_output("find /srv/gan/runs/trial -name '*.pt'")
        finally:
            host.run("systemctl stop train-gan@trial")
            host.run("rm -rf /srv/gan/runs/trial /etc/gpuwright/train-gan/trial.yml")


PROGRAM = """
import os, sys, time
import torch
rank = os.environ.get("RANK", "0")
with open(f"{sys.argv[1]}.{rank}", "w") as file:
    print(os.environ.get("WORLD_SIZE", "1"), os.environ["WORD"], torch.__version__, file=file)
time.sleep(600)
"""


@pytest.mark.el8
def test_a_program_of_somebody_else_runs_as_a_service_on_gpus_of_its_own(host: Host, trainer: str) -> None:
    """One process for each GPU; a second service is told who has them, and has them when the first has ended."""
    gpus = len(host.check_output("nvidia-smi -L").splitlines())
    runs = "/srv/gan/runs"

    def job(name: str) -> None:
        line = f"python {runs}/program.py {runs}/{name}"
        text = f'GPU_JOB_COMMAND="{line}"\nWORD="a \\"b\\" $HOME"\n'
        host.check_output("printf %s %s > %s", "%s", text, f"/etc/gpuwright/jobs/{name}.env")
        host.check_output("systemctl start gpu-job@%s", name)

    def wait_for(command: str, *words: str) -> bool:
        for _ in range(120):
            if host.run(command, *words).rc == 0:
                return True
            time.sleep(1)
        return False

    def journal(name: str) -> str:
        return host.run("journalctl -u gpu-job@%s --no-pager -n 30", name).stdout

    with host.sudo():
        host.check_output("printf %s %s > %s", "%s", PROGRAM, f"{runs}/program.py")
        try:
            job("first")
            for rank in range(gpus):
                assert wait_for("test -s %s", f"{runs}/first.{rank}"), journal("first")
                told = host.file(f"{runs}/first.{rank}")
                assert told.content_string.startswith(f'{gpus} a "b" $HOME ') and told.user == trainer
            job("second")
            assert wait_for("journalctl -u gpu-job@second | grep -q %s", "in use by gpu-job@first"), journal("second")
            assert not host.file(f"{runs}/second.0").exists
            host.check_output("systemctl stop gpu-job@first")
            # systemd asks again every 30 seconds.
            assert wait_for("test -s %s", f"{runs}/second.0"), journal("second")
        finally:
            host.run("systemctl stop gpu-job@first gpu-job@second")
            host.run(f"rm -f {runs}/program.py {runs}/first.* {runs}/second.* /etc/gpuwright/jobs/*.env")


def test_the_running_service_is_what_the_policy_says(host: Host, trainer: str, as_trainer, wish: dict) -> None:
    """CPUs, allocator, environment and limits of the process that trains, as its own user sees them in /proc."""
    policy = json.loads(host.file("/etc/gpuwright/runtime.json").content_string)
    runs = wish.get("model_trainer_runs_dir", "/srv/gan/runs")
    small = {"image_size": 32, "channels": 8, "batch_size": 4, "steps": 1000000, "device": "cpu"}
    with host.sudo():
        host.check_output(
            "echo %s > /etc/gpuwright/train-gan/seen.yml", json.dumps({"run_dir": f"{runs}/seen", **small})
        )
        # Root's umask may be 027, and the trainer reads it.
        host.check_output("chmod 0644 /etc/gpuwright/train-gan/seen.yml")
        host.check_output("echo GPU_JOB_PROCESSES=one > /etc/gpuwright/train-gan/seen.env")
        try:
            host.check_output("systemctl start train-gan@seen")
            for _ in range(90):
                pid = host.check_output("systemctl show -p MainPID --value train-gan@seen").strip()
                maps = as_trainer(f"cat /proc/{pid}/maps").stdout
                # gpu-run has become the trainer, and the trainer has loaded what it needs.
                if "libtorch_cpu" in maps:
                    break
                time.sleep(1)
            status = as_trainer(f"cat /proc/{pid}/status").stdout
            environment = as_trainer(f"tr '\\0' '\\n' < /proc/{pid}/environ").stdout.splitlines()
            limits = as_trainer(f"cat /proc/{pid}/limits").stdout
        finally:
            host.run("systemctl stop train-gan@seen")
            host.run("rm -rf %s /etc/gpuwright/train-gan/seen.yml /etc/gpuwright/train-gan/seen.env", f"{runs}/seen")
    assert "libtorch_cpu" in maps
    seen = dict(line.split(":", 1) for line in status.splitlines())
    assert seen["Uid"].split() == [host.check_output("id -u %s", trainer)] * 4
    variables = dict(line.split("=", 1) for line in environment if "=" in line)
    explained = json.loads(as_trainer("/usr/local/bin/gpu-run --json").stdout)
    assert seen["Cpus_allowed_list"].strip() == explained["cpus"]
    assert numbers_in(explained["cpus"]) == cpus_of_the_gpus(host)
    for name in ("jemalloc", "tcmalloc"):
        library = policy["libraries"][name]
        assert (library.rsplit("/", 1)[-1].split(".so")[0] in maps) == (policy["allocator"] == name)
        assert (variables.get("LD_PRELOAD") == library) == (policy["allocator"] == name)
    wanted = policy["omp_num_threads"] or physical_cores(host, explained["cpus"])
    assert variables["OMP_NUM_THREADS"] == str(wanted)
    assert variables["CUDA_DEVICE_ORDER"] == "PCI_BUS_ID"
    for name in ("PYTORCH_CUDA_ALLOC_CONF", "PYTORCH_ALLOC_CONF"):
        assert variables[name] == "expandable_segments:True"
    assert "GOMP_CPU_AFFINITY" not in variables
    with host.sudo():
        ceiling = limits_of(host.check_output("cat /proc/1/limits"))
    # Locked memory is asked for in KiB and told in bytes.
    values = wish.get("system_tuning_values", {})
    memory = values.get("limits_memlock", "unlimited")
    memory = memory if memory == "unlimited" else str(int(memory) * 1024)
    files = values.get("limits_nofile", "1048576")
    # A host in a container cannot go above its container's own hard limit, which is that of its first process.
    for name, asked in (("Max locked memory", memory), ("Max open files", files)):
        reachable = asked if ceiling[name][1] == "unlimited" else min(asked, ceiling[name][1], key=number)
        assert limits_of(limits)[name] == [reachable, reachable]


def limits_of(text: str) -> dict[str, list[str]]:
    """{name: [soft, hard]} of a file /proc/<pid>/limits."""
    return {line[:26].strip(): line[26:].split()[:2] for line in text.splitlines()}


def number(limit: str) -> float:
    return float("inf") if limit == "unlimited" else float(limit)


def cpus_of_the_gpus(host: Host) -> set[int]:
    """The CPUs that the kernel reports local to the NVIDIA devices, of all nodes that have one."""
    found = host.check_output("grep -l 0x10de /sys/bus/pci/devices/*/vendor").splitlines()
    lists = [host.check_output("cat %s", file.replace("/vendor", "/local_cpulist")) for file in found]
    return {cpu for cpus in lists for cpu in numbers_in(cpus)}


def numbers_in(cpus: str) -> set[int]:
    """The CPUs of a list such as 0-3,8."""
    parts = [part.split("-") for part in cpus.strip().split(",")]
    return {cpu for part in parts for cpu in range(int(part[0]), int(part[-1]) + 1)}


def physical_cores(host: Host, cpus: str) -> int:
    """Different sets of siblings among the CPUs of a list such as 0-3,8."""
    files = " ".join(f"/sys/devices/system/cpu/cpu{cpu}/topology/thread_siblings_list" for cpu in numbers_in(cpus))
    return len(set(host.check_output(f"cat {files}").split()))


def test_the_service_is_sandboxed(host: Host) -> None:
    """By systemd's own word on the unit as it understands it, not by the text of the file."""
    names = "ProtectSystem,NoNewPrivileges,CapabilityBoundingSet,DevicePolicy"
    shown = host.check_output("systemctl show --property=%s train-gan@x.service", names)
    found = dict(line.split("=", 1) for line in shown.splitlines())
    assert found == {
        "ProtectSystem": "strict",
        "NoNewPrivileges": "yes",
        "CapabilityBoundingSet": "",
        "DevicePolicy": "closed",
    }
