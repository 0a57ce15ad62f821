"""gpu-doctor as a program: the installed script on a made-up node."""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import healthy_files
import healthy_node
import node_names
import pytest
from conftest import installed_library
from gpuwright.checks import all as checks
from gpuwright.doctor import program as doctor_program
from gpuwright.training.smoke_history import busy_smoke, last_smoke
from gpuwright.verdict.check import DEEP, QUICK
from gpuwright.verdict.report import make_report
from host_tree import HostTree
from processor_time import processor_seconds
from warm_python import warm_python

REPOSITORY = Path(__file__).resolve().parents[3]
SCRIPT = REPOSITORY / "roles/system_runtime/files/gpu-doctor"
# Checks that say nothing of the made-up node: it has no ECC to read, and so on.
SKIPPED = len([check for check in checks.CHECKS if check.id in healthy_node.OTHER_NODES and check.level != DEEP])
THEN = "2026-01-05T10:00:00Z"
Done = subprocess.CompletedProcess
Run = Callable[..., Done]

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="files of the made-up node must belong to root")


@pytest.fixture
def folder(open_umask: int) -> Iterator[Path]:
    """Not pytest's own folder, into which an ordinary user cannot look."""
    with tempfile.TemporaryDirectory() as name:
        path = Path(name)
        path.chmod(0o755)
        yield path


@pytest.fixture
def node(folder: Path) -> HostTree:
    host = HostTree(folder / "node")
    healthy_files.put_node(host)
    (host.folder / "etc/shadow").chmod(0o600)
    put_report(host)
    return host


def put_report(host: HostTree, readings: dict | None = None, smoke: dict | None = healthy_node.SMOKE) -> None:
    record = make_report("a5-01", THEN, [], readings or healthy_node.readings(), healthy_node.expectations(), smoke)
    host.put("/var/lib/gpuwright/report.json", json.dumps(record))


@pytest.fixture
def doctor(folder: Path, node: HostTree, node_python: str, open_umask: int) -> Run:
    """The script as installed, but with a copy of this checkout's library, the interpreter under test and that node."""
    text = SCRIPT.read_text()
    for installed, here in {
        "/usr/local/lib/gpuwright": installed_library(node_python),
        "/usr/libexec/platform-python": node_python,
        "main()": f'main(root="{node.root}")',
    }.items():
        assert installed in text
        text = text.replace(installed, here)
    programs = folder / "bin"
    programs.mkdir()

    def write(name: str, script: str) -> None:
        (programs / name).write_text(script)
        (programs / name).chmod(0o755)

    healthy_files.put_commands(write)
    # Where an ordinary user can read it.
    shutil.copy(node_names.DATA / "nvidia_smi/580-v100.xml", folder)
    write("nvidia-smi", f"#!/bin/sh\ncat {folder}/580-v100.xml\n")
    write("gpu-doctor", text)

    program = f"import sys\nfrom gpuwright.doctor.program import main\nsys.exit(main(root={node.root!r}))"

    def run(*arguments: str, script: bool = False, user: int | None = None, **more: Any) -> Done:
        """What the script starts; `script`, or for another user, who is a number: the script itself."""
        command = [str(programs / "gpu-doctor"), *arguments]
        environment = {"PATH": f"{programs}:/usr/bin:/bin"}
        if not (script or more) and user is None:
            python = warm_python((node_python, "-I", "-S", "-B"), installed_library(node_python))
            return python.run(program, ["-c", *arguments], environment, umask=open_umask)
        more = {"env": environment, "umask": open_umask, **more}
        # An interpreter in root's home is not for others: the script takes the next one.
        if user is not None:
            more |= {"user": user, "group": user, "extra_groups": []}
        return subprocess.run(command, capture_output=True, text=True, timeout=60, cwd="/", **more)

    return run


def test_a_healthy_node(doctor):
    done = doctor(script=True)
    assert (done.returncode, done.stderr) == (0, ""), done.stdout
    lines = done.stdout.splitlines()
    assert ["STATUS", "CHECK", "VALUE", "EXPECTED"] in [line.split() for line in lines]
    # What was not looked at is one line, not two for each.
    assert done.stdout.count("SKIP") == 1 and f"{SKIPPED} checks do not apply to this node" in done.stdout
    everything = doctor("--all").stdout
    assert everything.count("SKIP ") == SKIPPED and "--all says why" not in everything
    judged = len([check for check in checks.CHECKS if check.level != DEEP]) - SKIPPED
    assert f": PASS ({judged} checks: {judged} PASS; {SKIPPED} skipped)" in lines[-1]


def test_json_is_the_report(doctor):
    done = doctor("--json")
    answer = json.loads(done.stdout)
    keys = {"schema", "host", "time", "verdict", "checks", "readings", "expectations", "smoke", "performance"}
    keys |= {"acknowledgements", "strikes"}
    assert (answer["acknowledgements"], answer["strikes"]) == ([], [])
    assert set(answer) == keys and answer["performance"] is None
    assert answer["verdict"] == "PASS"
    smoke = next(check for check in answer["checks"] if check["id"] == "smoke.amp")
    assert "days ago" in smoke["message"]
    assert answer["smoke"]["age_s"] > 0


def test_what_is_bad_stands_last_with_its_action(doctor, node):
    (node.folder / "usr/local/cuda").unlink()
    done = doctor()
    lines = done.stdout.splitlines()
    assert done.returncode == 1
    assert lines[-6] == "FAIL     cuda.link: /usr/local/cuda is a dangling link"
    assert lines[-5].strip() == "found none, expected /usr/local/cuda-12.9"
    assert lines[-4].strip() == "-> Run: ansible-playbook site.yml --tags system_cuda"
    assert lines[-3].strip() == "To see what changed it: alternatives --display cuda"
    assert lines[-2] == ""
    judged = len([check for check in checks.CHECKS if check.level != DEEP]) - SKIPPED
    assert f": FAIL ({judged} checks: 1 FAIL, {judged - 1} PASS; {SKIPPED} skipped)" in lines[-1]


def test_an_ordinary_user_is_told_what_only_root_sees(doctor, folder):
    done = doctor("--json", user=65534)
    answer = json.loads(done.stdout)
    found = {check["id"]: (check["status"], check["message"]) for check in answer["checks"]}
    status, message = found["host.training_user"]
    assert status == "SKIP" and message.startswith("only root can see this: sudo gpu-doctor (")
    assert "/etc/shadow is readable by root only" in message
    assert (done.returncode, answer["verdict"]) == (0, "PASS")
    told = doctor("--nagios", user=65534)
    assert (told.returncode, told.stdout.split(":")[0]) == (0, "GPU OK"), told.stdout


def as_verified(node: HostTree, doctor: Run, **changes: object) -> None:
    """The node as its verification leaves it: a report of root's, of this boot."""
    gated(node)
    answer = json.loads(doctor("--json").stdout)
    assert answer["readings"]["probe"]["kernel"]["boot_id"]
    node.put("/var/lib/gpuwright/report.json", json.dumps({**answer, **changes}))


def test_an_ordinary_user_is_told_what_root_saw_in_this_boot(doctor, node):
    as_verified(node, doctor)
    done = doctor("--json", user=65534)
    found = {check["id"]: check for check in json.loads(done.stdout)["checks"]}["host.training_user"]
    assert found["status"] == "PASS" and re.search(r"; seen by root [0-9]+ seconds ago$", found["message"])


def test_what_root_saw_to_be_bad_stays_bad(doctor, node):
    shadow = node.folder / "etc/shadow"
    shadow.write_text(shadow.read_text().replace("trainer:!!:", "trainer:$6$abc:"))
    as_verified(node, doctor)
    done = doctor("--json", user=65534)
    found = {check["id"]: check for check in json.loads(done.stdout)["checks"]}["host.training_user"]
    assert (done.returncode, found["status"]) == (1, "FAIL") and "seen by root" in found["message"]


def test_root_looks_for_itself(doctor, node):
    as_verified(node, doctor)
    (node.folder / "etc/shadow").write_text("trainer:$6$abc:19000::::::\n")
    assert "; seen by root" not in doctor("--json").stdout and doctor().returncode == 1


def test_a_log_that_only_root_reads_is_what_the_boot_check_recorded(doctor, node, folder):
    gated(node)
    assert doctor("--level", "quick", "--record", "900").returncode == 0
    (folder / "bin/journalctl").write_text("#!/bin/sh\necho 'Operation not permitted' >&2; exit 1\n")
    done = doctor("--level", "quick", "--json", user=65534)
    found = {check["id"]: check for check in json.loads(done.stdout)["checks"]}["kernel.xid"]
    assert found["status"] == "PASS" and "seen by root" in found["message"], found
    (node.folder / "var/lib/gpuwright/boot-check.json").unlink()
    done = doctor("--level", "quick", "--json", user=65534)
    found = {check["id"]: check for check in json.loads(done.stdout)["checks"]}["kernel.xid"]
    assert found["status"] == "SKIP" and "Operation not permitted" in found["message"], found
    asked_by_root = doctor("--level", "quick", "--json")
    found = {check["id"]: check for check in json.loads(asked_by_root.stdout)["checks"]}["kernel.xid"]
    assert found["status"] == "UNKNOWN"


def test_quick_looks_at_the_driver_only_and_costs_little(doctor, node):
    (node.folder / "usr/local/cuda").unlink()
    with processor_seconds() as used:
        answer = json.loads(doctor("--level", "quick", "--json").stdout)
    assert used() < 5
    assert answer["verdict"] == "PASS" and "venv" not in answer["readings"]
    assert [check["id"] for check in answer["checks"]] == [check.id for check in checks.CHECKS if check.level == QUICK]
    families = {check["id"].split(".")[0] for check in answer["checks"]}
    assert families >= {"gpu", "driver", "host"} and not families & {"cuda", "framework", "model", "smoke"}


def test_deep_measures_and_judges(doctor, folder):
    """The made-up node's gpu-run answers with the measurement of a sound V100."""
    expectations = healthy_node.expectations(training_user="root")
    (folder / "expectations.json").write_text(json.dumps(expectations))
    answer = json.loads(doctor("--level", "deep", "--json", "--expectations", str(folder / "expectations.json")).stdout)
    checks = {check["id"]: check for check in answer["checks"]}
    assert checks["performance.h2d"]["status"] == "PASS" and checks["performance.h2d"]["value"] == 12.3
    assert answer["performance"]["devices"][0]["measures"]["h2d_gb_s"]["floor"] == 9.0
    assert "performance" not in answer["readings"]


def test_deep_leaves_a_gpu_in_use_alone(doctor, folder, node):
    xml = (folder / "580-v100.xml").read_text()
    busy = "<processes><process_info><pid>4321</pid><type>C</type><process_name>python3</process_name>"
    busy += "<used_memory>900 MiB</used_memory></process_info></processes>"
    assert "<processes>" in xml
    (folder / "580-v100.xml").write_text(re.sub(r"<processes>.*?</processes>", busy, xml, flags=re.DOTALL))
    (node.folder / "usr/local/bin/gpu-run").write_text(f"#!/bin/sh\ntouch {folder}/started\n")
    answer = json.loads(doctor("--level", "deep", "--json").stdout)
    checks = {check["id"]: check for check in answer["checks"]}
    assert checks["performance.copy"]["status"] == "SKIP"
    assert "python3 (pid 4321)" in checks["performance.copy"]["message"]
    assert answer["performance"]["devices"] == [] and "in use" in answer["performance"]["because"]
    assert not (folder / "started").exists()


def test_nagios(doctor, node):
    done = doctor("--nagios", "--level", "standard")
    assert (done.returncode, done.stdout.split(":")[0]) == (0, "GPU OK") and done.stdout.count("\n") == 1
    (node.folder / "usr/local/cuda").unlink()
    assert doctor("--nagios").returncode == 0, "without --level, level quick"
    done = doctor("--nagios", "--level", "standard")
    assert done.returncode == 2
    assert done.stdout.startswith("GPU CRITICAL: cuda.link: /usr/local/cuda is a dangling link | fail=1 unknown=0")


def test_metrics_are_written_in_one_step(doctor, folder):
    target = folder / "gpuwright.prom"
    done = doctor("--level", "quick", "--prom", str(target))
    assert (done.returncode, done.stdout) == (0, "")
    assert 'gpuwright_check{id="driver.uvm",layer="system"} 0' in target.read_text()
    assert oct(target.stat().st_mode & 0o777) == "0o644"
    assert [path.name for path in folder.iterdir() if path.name.startswith(".")] == []
    assert "gpuwright_verdict 0\n" in doctor("--level", "quick", "--prom", "-").stdout
    assert "gpuwright_verdict 0\n" in doctor("--prom", "--level", "quick").stdout


def gated(node: HostTree) -> Path:
    """The node with monitoring installed; returns where the result is kept."""
    node.put("/etc/systemd/system/gpuwright-boot-check.service", "[Unit]\n")
    node.put("/proc/sys/kernel/random/boot_id", "7c9e6679-7425-40de-944b-e07fc1f90ae7\n")
    node.put("/proc/uptime", "100.00 200.00\n")
    return node.folder / "var/lib/gpuwright/boot-check.json"


def test_a_sites_own_check_closes_the_gate_until_it_is_acknowledged(doctor, node):
    """The rows of what the timer records: for the gate, other users, and root's decision."""
    gated(node)
    own = node.folder / "etc/gpuwright/checks.d/scratch"
    node.put("/etc/gpuwright/checks.d/scratch", """#!/bin/sh\necho '{"status": "FAIL", "message": "no /scratch"}'\n""")
    for folder in (own.parent, own.parent.parent, own.parent.parent.parent):
        folder.chmod(0o755)
    own.chmod(0o755)
    assert "site.scratch" not in doctor("--level", "quick").stdout
    done = doctor("--level", "quick", "--record", "900")
    told = "FAIL site.scratch: no /scratch -> Run: sudo /etc/gpuwright/checks.d/scratch"
    assert done.returncode == 1 and told in done.stdout
    closed = doctor("--gate")
    assert closed.returncode == 1 and "verdict FAIL" in closed.stderr and "site.scratch" in closed.stderr
    seen = {row["id"]: row for row in json.loads(doctor("--json", user=65534).stdout)["checks"]}["site.scratch"]
    assert seen["status"] == "FAIL" and "no /scratch; seen by root" in seen["message"]
    accepted = doctor("--acknowledge", "site.scratch", "--reason", "until Monday", "--for", "2d")
    assert accepted.returncode == 0 and "gate open: verdict WARN" in accepted.stdout, accepted.stderr
    assert doctor("--acknowledge", "site.other", "--reason", "x").returncode == 2
    assert doctor("--explain", "site.scratch").returncode == 0


def test_the_kept_result_opens_the_gate(doctor, node, folder):
    kept = gated(node)
    closed = doctor("--gate")
    assert (closed.returncode, closed.stdout) == (1, "") and "No such file" in closed.stderr
    target = folder / "gpuwright.prom"
    done = doctor("--level", "quick", "--record", "900", "--prom", str(target))
    assert done.returncode == 0 and ": PASS (" in done.stdout
    assert "gpuwright_verdict 0\n" in target.read_text()
    assert json.loads(kept.read_text())["holds_s"] == 900
    opened = doctor("--gate")
    assert opened.returncode == 0 and opened.stdout.startswith("gpu-doctor: open: verdict PASS of ")


def test_an_ordinary_user_may_ask_the_gate(doctor, node):
    gated(node)
    assert doctor("--level", "quick", "--record", "900").returncode == 0
    assert doctor("--gate", user=65534).returncode == 0


def test_a_failure_closes_the_gate_and_is_named_in_the_journal(doctor, node):
    gated(node)
    (node.folder / "sys/module/nvidia_uvm/refcnt").unlink()
    (node.folder / "sys/module/nvidia_uvm").rmdir()
    done = doctor("--level", "quick", "--record", "900")
    assert done.returncode == 1 and done.stdout.startswith("FAIL driver.uvm: ")
    asked = doctor("--gate")
    assert asked.returncode == 1
    assert asked.stderr.startswith("gpu-doctor: closed: verdict FAIL of ") and "driver.uvm" in asked.stderr


def test_expectations_that_are_gone_close_the_gate(doctor, node):
    kept = gated(node)
    assert doctor("--level", "quick", "--record", "900").returncode == 0
    (node.folder / "etc/gpuwright/expectations.json").unlink()
    assert doctor("--level", "quick", "--record", "900").returncode == 3
    assert not kept.exists() and doctor("--gate").returncode == 1


def test_a_result_that_cannot_be_kept_is_no_success(doctor, node):
    kept = gated(node)
    kept.mkdir()
    done = doctor("--level", "quick", "--record", "900")
    assert done.returncode == 3 and "/var/lib/gpuwright/boot-check.json: " in done.stderr


@pytest.mark.parametrize("seconds", ["0", "soon", "1.5", ""])
def test_a_time_that_is_none_is_a_usage_error(doctor, seconds):
    done = doctor("--record", seconds)
    assert done.returncode == 2 and "a whole number above 0" in done.stderr


def test_metrics_that_cannot_be_written_are_no_success(doctor):
    done = doctor("--level", "quick", "--prom", "/nowhere/gpuwright.prom")
    assert done.returncode == 3 and "/nowhere/gpuwright.prom: No such file" in done.stderr


def test_the_environment_is_told(doctor):
    lines = doctor().stdout.splitlines()
    told = [
        "Python          3.11.2",
        "PyTorch         2.10.0+cu128",
        "CUDA runtime    cu128",
        "cuDNN           91002",
        "CUDA usable     yes",
        "GPU 0           Tesla V100-PCIE-16GB, capability 7.0, 16151 MiB, 80 multiprocessors, Tensor Cores",
        "matrix product  right on cpu, cuda:0",
    ]
    assert lines[lines.index(told[0]) :][: len(told)] == told


def in_a_job(node: HostTree, folder: Path, cgroup: str) -> None:
    """The node as a job without GPUs sees it: the driver answers that there is none."""
    node.put("/proc/self/cgroup", cgroup)
    words = "echo 'No devices were found'; exit 6\n"
    (folder / "bin/nvidia-smi").write_text(f"#!/bin/sh\n{words}")


@pytest.mark.parametrize(
    "cgroup",
    [
        "0::/system.slice/slurmstepd.scope/job_4711/step_0/user/task_0\n",
        "11:devices:/slurm/uid_1000/job_4711/step_batch\n1:name=systemd:/system.slice/slurmd.service\n",
    ],
)
def test_in_a_job_without_gpus_the_jobs_limit_is_the_reason(doctor, node, folder, cgroup):
    in_a_job(node, folder, cgroup)
    answer = json.loads(doctor("--level", "quick", "--json").stdout)
    found = next(check for check in answer["checks"] if check["id"] == "driver.reachable")
    assert found["status"] == "UNKNOWN" and "Slurm job (4711)" in found["message"]
    assert "--gres" in found["action"] and "--gpus" in found["action"] and "as root outside" in found["action"]
    assert [check["id"] for check in answer["checks"] if check["status"] == "FAIL"] == []


def test_outside_of_jobs_a_node_without_gpus_is_bad(doctor, node, folder):
    in_a_job(node, folder, "0::/system.slice/gpuwright-check.service\n")
    answer = json.loads(doctor("--level", "quick", "--json").stdout)
    found = next(check for check in answer["checks"] if check["id"] == "driver.reachable")
    assert found["status"] == "FAIL" and "lspci -nnk" in found["action"]


def test_a_node_that_was_never_verified(doctor, node):
    (node.folder / "var/lib/gpuwright/report.json").unlink()
    done = doctor()
    assert done.returncode == 3
    assert "this node has not been verified yet" in done.stdout


def test_explain(doctor):
    done = doctor("--explain", "driver.uvm")
    assert done.returncode == 0
    assert done.stdout.startswith("driver.uvm (system layer)\nquestion  Is the module that CUDA needs loaded?\nrule")
    assert "modprobe nvidia_uvm" in done.stdout


@pytest.mark.parametrize(
    ("word", "meant"),
    [
        ("training_user", "host.training_user"),
        ("disk", "host.disk_space or host.disks"),
        ("persistance", "driver.persistence"),
        ("driver.persistance", "driver.persistence"),
        ("XID", "kernel.xid"),
        ("trainer", "model.trainer_installed"),
        ("lockup", "kernel.lockups"),
        ("pytorch-version", "framework.pytorch_version"),
    ],
)
def test_explain_offers_what_was_meant(doctor, word, meant):
    done = doctor("--explain", word)
    assert (done.returncode, done.stdout) == (2, "") and done.stderr.endswith(f"did you mean {meant}?\n"), done.stderr


def test_the_help_names_every_exit_status(doctor):
    done = doctor("--help")
    for words in (
        "--nagios         0 PASS, 1 WARN",
        "--gate           0 open",
        "0 PASS or WARN, 1 FAIL, 2 usage error",
    ):
        assert words in done.stdout


def test_an_ordinary_user_is_told_roots_last_check(doctor, node):
    """On a node that checks itself: its verdict with its age, UNKNOWN when it is too old, never for a closed file."""
    user = {"user": 65534, "group": 65534, "extra_groups": []}
    gated(node)
    before = doctor("--nagios", **user)
    assert (before.returncode, before.stdout[:7]) == (0, "GPU OK:") and "checked by root" not in before.stdout
    assert doctor("--level", "quick", "--record", "900").returncode == 0
    told = doctor("--nagios", **user)
    assert (told.returncode, told.stdout[:7]) == (0, "GPU OK:"), told.stdout
    by_root = doctor("--nagios")
    assert by_root.stdout.partition("checked by root")[1:] == told.stdout.partition("checked by root")[1:]
    assert "checked by root: PASS, " in told.stdout and "it is valid for 900 s | fail=0" in told.stdout
    assert "root's last check: PASS, " in doctor(**user).stdout
    path = node.folder / "var/lib/gpuwright/boot-check.json"
    good = json.loads(path.read_text())
    path.write_text(json.dumps({**good, "holds_s": 0, "uptime_s": 0}))
    old = doctor("--nagios", **user)
    assert old.returncode == 3 and "old and was valid for 0 s" in old.stdout and "sudo systemctl start" in old.stdout
    path.write_text(json.dumps({**good, "boot_id": "x"}))
    assert doctor("--nagios", **user).returncode == 3
    path.write_text(json.dumps({**good, "verdict": "FAIL"}))
    assert doctor("--nagios", **user).returncode == 2
    path.write_text(json.dumps(good))
    path.chmod(0o666)
    assert doctor("--nagios", **user).returncode == 3


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--explain", "driver.nothing"], "there is no check 'driver.nothing'; the checks are:\n"),
        (["--json", "--nagios"], "not allowed with argument"),
        (["--level", "deepest"], "invalid choice: 'deepest'"),
        (["--jsno"], "unrecognized arguments: --jsno"),
        (["--expectations", "/nowhere"], "/nowhere: No such file or directory"),
        (["--expectations", "/etc/passwd"], "/etc/passwd: Expecting value"),
    ],
)
def test_usage_errors(doctor, arguments, words):
    done = doctor(*arguments)
    assert (done.returncode, done.stdout) == (2, "")
    assert words in done.stderr and "Traceback" not in done.stderr


@pytest.mark.parametrize("content", [None, "", "{}", "[]", '{"schema": 1'])
def test_a_node_without_usable_expectations_is_unknown(doctor, node, content):
    path = node.folder / "etc/gpuwright/expectations.json"
    if content is None:
        path.unlink()
    else:
        path.write_text(content)
    done = doctor()
    assert (done.returncode, done.stdout) == (3, "")
    assert "expectations.json" in done.stderr and "ansible-playbook" in done.stderr and "Traceback" not in done.stderr


def test_nothing_is_written(doctor, folder):
    before = sorted(str(path) for path in folder.rglob("*") if "__pycache__" not in path.parts)
    doctor()
    assert sorted(str(path) for path in folder.rglob("*") if "__pycache__" not in path.parts) == before


def test_the_script_says_when_there_is_no_python(tmp_path):
    text = SCRIPT.read_text().replace("/usr/libexec/platform-python", "/no").replace("/usr/bin/python3", "/no")
    path = tmp_path / "gpu-doctor"
    path.write_text(text)
    done = subprocess.run(["/bin/sh", path], capture_output=True, text=True)
    assert done.returncode == 3
    assert "no Python found" in done.stderr


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({("probe", "nvidia", "loaded", "version"): "580.82.07"}, "the loaded driver has changed"),
        ({("probe", "nvidia", "loaded"): None}, "the loaded driver has changed"),
        ({("venv", "versions", "torch"): "2.9.0"}, "PyTorch has changed"),
        ({("venv",): {"unreadable": "x"}}, "PyTorch has changed"),
    ],
)
def test_an_old_smoke_test_counts_only_for_what_it_tested(tmp_path, change, words):
    host = HostTree(tmp_path)
    readings = healthy_node.readings()
    for path, value in change.items():
        healthy_node.put(readings, path, value)
    put_report(host, readings)
    found = last_smoke(f"{host.root}/var/lib/gpuwright/report.json", healthy_node.readings(), THEN)
    assert words in found["unreadable"]


@pytest.mark.parametrize(
    "content", ["", "[]", "{}", '{"smoke": 5}', '{"smoke": {"devices": []}, "readings": {}}', '{"smoke": null}']
)
def test_a_damaged_report_is_no_smoke_test(tmp_path, content):
    path = tmp_path / "report.json"
    path.write_text(content)
    assert "unreadable" in last_smoke(str(path), healthy_node.readings(), THEN)


def test_a_report_without_a_time_is_no_smoke_test(tmp_path):
    host = HostTree(tmp_path)
    put_report(host)
    path = tmp_path / "var/lib/gpuwright/report.json"
    path.write_text(path.read_text().replace(THEN, "soon"))
    assert "unreadable" in last_smoke(str(path), healthy_node.readings(), THEN)


def test_a_node_without_a_driver_keeps_its_smoke_test_on_the_cpu(tmp_path):
    host = HostTree(tmp_path)
    readings = healthy_node.readings()
    readings["probe"]["nvidia"]["loaded"] = None
    put_report(host, readings)
    found = last_smoke(f"{host.root}/var/lib/gpuwright/report.json", readings, "2026-01-05T10:00:09Z")
    assert found["age_s"] == 9


WHO = "python3.11 (pid 7, alice, since 2026-01-05T10:40:00Z)"


def test_a_test_that_was_not_run_leaves_the_last_one_in_force(tmp_path):
    """Verified, then verified again on busy GPUs twice, then asked: the age is that of the one test that was run."""
    host = HostTree(tmp_path)
    path = f"{host.root}/var/lib/gpuwright/report.json"
    assert busy_smoke(WHO, path, healthy_node.readings(), THEN) == {"busy": WHO}
    put_report(host)
    report = json.loads(Path(path).read_text())
    for time_of_report in ("2026-01-05T11:00:00Z", "2026-01-05T12:00:00Z"):
        smoke = busy_smoke(WHO, path, healthy_node.readings(), time_of_report)
        assert smoke["busy"] == WHO and smoke["time"] == THEN
        assert {**smoke, **healthy_node.smoke()} == smoke
        Path(path).write_text(json.dumps({**report, "smoke": smoke, "time": time_of_report}))
    assert smoke["age_s"] == 7200
    found = last_smoke(path, healthy_node.readings(), "2026-01-05T13:00:00Z")
    assert found == {**healthy_node.smoke(), "age_s": 10800}


def test_without_an_earlier_test_nothing_is_known_and_nothing_is_wrong(tmp_path):
    host = HostTree(tmp_path)
    path = f"{host.root}/var/lib/gpuwright/report.json"
    put_report(host)
    report = json.loads(Path(path).read_text())
    Path(path).write_text(json.dumps({**report, "smoke": {"busy": WHO}}))
    assert last_smoke(path, healthy_node.readings(), THEN) == {"busy": WHO}
    assert busy_smoke("bob", path, healthy_node.readings(), THEN) == {"busy": "bob"}
    # A test of another driver says nothing of this one.
    readings = healthy_node.readings()
    readings["probe"]["nvidia"]["loaded"]["version"] = "580.82.07"
    Path(path).write_text(json.dumps(report))
    assert busy_smoke(WHO, path, readings, THEN) == {"busy": WHO}


HANGS = "#!/bin/sh\ntrap '' TERM INT\nsleep 60\n"


def test_quick_keeps_its_promise_when_nvidia_smi_hangs(doctor, folder):
    (folder / "bin/nvidia-smi").write_text(HANGS)
    begin = time.monotonic()
    done = doctor("--level", "quick", "--json")
    assert time.monotonic() - begin < 40
    found = next(check for check in json.loads(done.stdout)["checks"] if check["id"] == "driver.reachable")
    assert (done.returncode, found["status"]) == (1, "FAIL")
    assert found["message"] == "nvidia-smi did not answer in 3 s"
    assert "state D" in found["action"]


@pytest.mark.parametrize(("level", "recorded", "seconds"), [("quick", 0, 3), ("quick", 1, 30), ("standard", 0, 30)])
def test_how_long_nvidia_smi_may_take(monkeypatch, level, recorded, seconds):
    asked = []

    def collected(_expectations, _root, nvidia_smi_seconds, _level, site):
        assert site is (level != "quick" or bool(recorded))
        asked.append(nvidia_smi_seconds)
        return healthy_node.readings()

    monkeypatch.setattr(doctor_program, "collect", collected)
    doctor_program.examine(healthy_node.expectations(), "/nowhere", level, bool(recorded))
    assert asked == [seconds]


def test_a_reader_that_goes_away_ends_it_quietly(doctor, folder):
    command = [folder / "bin/gpu-doctor", "--json"]
    environment = {"PATH": f"{folder}/bin:/usr/bin:/bin"}
    with subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        assert process.stdout and process.stderr
        process.stdout.close()
        process.wait(60)
        assert process.stderr.read() == b""
        assert process.returncode == -signal.SIGPIPE
