"""gpu-doctor --scan and gpu-doctor.pyz: any machine, no plan, the same checks."""

from __future__ import annotations

import functools
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import zipfile
from collections.abc import Callable, Iterator
from itertools import cycle
from pathlib import Path
from typing import Any

import foreign_host
import healthy_files
import healthy_node
import jsonschema
import pytest
from ansible_collections.gpuwright.node.plugins.plugin_utils import doctor_pyz
from conftest import MODULE_UTILS, REPOSITORY
from gpuwright.checks.all import CHECKS
from gpuwright.doctor.bundle.make import identity
from gpuwright.doctor.scan import examine, scope
from gpuwright.doctor.scan.words import Host, reworded
from gpuwright.verdict.check import DEEP, FAIL, SKIP, UNKNOWN, WARN, judge
from gpuwright.verdict.expectations import parse_expectations
from host_tree import HostTree
from test_checks_sad_paths import CASES
from warm_python import warm_python

SCHEMA = json.loads((REPOSITORY / "roles/verify/files/report.schema.json").read_text())
# What a machine that the toolkit has not set up cannot be told to do.
OF_THE_TOOLKIT = re.compile(
    r"ansible-playbook|\bplaybook|\binventory\b|\b(?:verify|system|framework|model)_\w+|site\.yml|roles/|--acknowledge"
)
MOST_BYTES = 1_000_000
MOST_SECONDS = 1.0
ROOM = (4096, 4096, 50_000_000, 40_000_000, 30_000_000, 10_000_000, 9_000_000, 8_000_000, 0, 255)
NOBODY: dict[str, Any] = {"user": 65534, "group": 65534, "extra_groups": []}
Run = Callable[..., subprocess.CompletedProcess]

needs_root = pytest.mark.skipif(os.geteuid() != 0, reason="files of the made-up machine must belong to root")


def scanned(readings: dict, gpu_count: int = 1) -> dict[str, dict]:
    """The records of a scan of a machine with these readings that is no node, by id."""
    expectations = {**scope.scan_expectations(readings, "root", "/nowhere"), "gpu_count": gpu_count}
    return {record["id"]: record for record in examine.scan_records(readings, expectations, DEEP)}


def broken(changes: dict) -> dict:
    record = {**healthy_node.readings(), "smoke": healthy_node.smoke()}
    for path, value in changes.items():
        healthy_node.put(record, path, value)
    record.pop("smoke")
    return record


# -- the same checks, limits and words


JUDGED = [check for check in CHECKS if not scope.is_left_out(check, {scope.KEY: scope.NOT_A_NODE})]


def rows_of(check_id: str) -> list[dict]:
    """What is broken in each row of a check for which the inventory has nothing to say."""
    return [changes for name, changes, wishes, _status, _words in CASES if name == check_id and not wishes]


@pytest.mark.parametrize("check", [c for c in JUDGED if c.id != "gpu.model"], ids=lambda check: check.id)
def test_what_needs_no_plan_is_judged_as_by_gpu_doctor(check):
    for changes in rows_of(check.id):
        readings = broken(changes)
        expectations = scope.scan_expectations({**healthy_node.readings(), **readings}, "trainer", "/nowhere")
        # A row may leave no trace of any card; how many there should be is then the inventory's word.
        expectations["gpu_count"] = 1
        assert judge(check, readings, expectations) == {
            **judge(check, readings, healthy_node.expectations()),
            "action": judge(check, readings, expectations)["action"],
        }, changes


@pytest.mark.parametrize("check", JUDGED, ids=lambda check: check.id)
@pytest.mark.parametrize("family", ["redhat", "debian", "unknown"])
def test_a_foreign_machine_is_not_told_to_run_a_playbook_or_what_its_system_has_not(check, family):
    for changes in [{}, *rows_of(check.id)]:
        readings = broken({**changes, ("tuning",): None, ("xid_policy",): []})
        expectations = scope.scan_expectations(healthy_node.readings(), "root", "/nowhere")
        record = reworded(
            judge(check, readings, expectations), expectations, Host(family, True), "python3 gpu-doctor.pyz"
        )
        assert not OF_THE_TOOLKIT.search(record["message"] + record["action"]), record
        assert bool(record["action"]) == (record["status"] in (FAIL, UNKNOWN, WARN)), record
        assert not record["action"].endswith((" ;", ",")) and "  " not in record["action"], record
        if family == "unknown":
            assert not re.search(r"\b(dnf|apt-get|rpm|dpkg)\b", record["action"]), record


def test_no_check_is_unknown_for_want_of_an_expectation():
    assert [r for r in scanned(healthy_node.readings()).values() if r["status"] == UNKNOWN] == []


def test_two_models_are_told_without_an_inventory():
    readings = healthy_node.readings()
    readings["probe"]["gpus"].append({**readings["probe"]["gpus"][0], "pci_id": "0000:5e:00.0", "name": "Tesla T4"})
    record = scanned(readings, 2)["gpu.model"]
    assert record["status"] == FAIL and record["action"] == "Take the foreign card out: lspci -nn -d 10de:"


@pytest.mark.parametrize(
    ("traces", "count"),
    [
        ({}, 0),
        ({("probe", "nvidia", "loaded"): {"version": "580.95.05", "flavour": "open"}}, 1),
        ({("probe", "nvidia", "device_nodes"): ["/dev/nvidia0", "/dev/nvidia1", "/dev/nvidiactl"]}, 2),
        ({("kernel_log", "xids"): [{"code": 79}]}, 1),
    ],
)
def test_a_card_that_is_gone_leaves_its_traces(traces, count):
    """Of the only card that fell off the bus nothing is on the bus; "no card" would be no finding at all."""
    readings = broken(
        {
            ("probe", "gpus"): [],
            ("probe", "nvidia", "loaded"): None,
            ("probe", "nvidia", "device_nodes"): [],
            ("kernel_log", "xids"): [],
            ("nvidia_smi", "reachable"): False,
            **traces,
        }
    )
    assert scope.scan_expectations(readings, "root", "/nowhere")["gpu_count"] == count


def test_the_expectations_of_a_scan_are_in_the_form_of_a_nodes():
    record = scope.scan_expectations(healthy_node.readings(), "root", "/nowhere")
    parse_expectations({**record, "venv": "/", "smoke_device": "cuda"})
    assert record["gpu_count"] == 1 and scope.is_scan(record) and scope.off_node(record)


# -- the one file


def oldest_and_newest() -> list[str]:
    """Each starts it and reads this machine (below); what it says does not depend on those between."""
    versions = sorted(pythons(), key=lambda version: int(version.partition(".")[2]))
    return sorted({versions[0], versions[-1]})


@functools.cache
def pythons() -> dict[str, str]:
    """Every Python 3.6 or newer of this machine, one of each version."""
    found: dict[str, str] = {}
    pyenv = Path(os.environ.get("PYENV_ROOT", Path.home() / ".pyenv"))
    places = [
        *pyenv.glob("versions/3.*/bin/python3"),
        *map(Path, filter(None, [shutil.which("python3")])),
        sys.executable,
    ]
    places += [Path("/usr/bin/python3.11"), Path("/usr/bin/python3")]
    asked = "import sys; print('%d.%d' % sys.version_info[:2])"
    for place in map(str, places):
        try:
            done = subprocess.run([place, "-c", asked], capture_output=True, text=True, timeout=30)
        except OSError:
            continue
        word = done.stdout.strip()
        if done.returncode == 0 and tuple(map(int, word.split("."))) >= (3, 6):
            found.setdefault(word, place)
    return found


def for_everybody() -> str:
    """An interpreter that an ordinary user may start; those in root's home are not."""
    for place in ["/usr/bin/python3.11", "/usr/bin/python3", *pythons().values()]:
        try:
            if subprocess.run([place, "-c", ""], cwd="/", **NOBODY).returncode == 0:
                return place
        except OSError:
            continue
    pytest.skip("no Python of this machine may be started by an ordinary user")


@pytest.fixture(scope="module")
def file() -> Iterator[Path]:
    """The built program where everybody may read it."""
    with tempfile.TemporaryDirectory() as name:
        Path(name).chmod(0o755)
        umask = os.umask(0o022)
        try:
            yield doctor_pyz.write(Path(name))
        finally:
            os.umask(umask)


@pytest.fixture
def folder(open_umask: int) -> Iterator[Path]:
    """Not pytest's own folder, into which an ordinary user cannot look."""
    with tempfile.TemporaryDirectory() as name:
        path = Path(name)
        path.chmod(0o755)
        yield path


@pytest.fixture
def machine(folder: Path) -> HostTree:
    host = HostTree(folder / "machine")
    foreign_host.put_foreign(host)
    (folder / "bin").mkdir()
    foreign_host.put_programs(folder / "bin")
    return host


@pytest.fixture
def run(file: Path, machine: HostTree, folder: Path) -> Run:
    """The one file on the made-up machine; `python` says under which interpreter."""
    program = (
        "import os, sys\nfrom gpuwright.doctor.program import main\nsys.argv[0] = 'gpu-doctor.pyz'\n"
        # How full the disk is that the made-up machine lies on changes from run to run.
        f"room = os.statvfs_result({ROOM}); os.statvfs = lambda path: room\n"
        f"sys.exit(main(root={machine.root!r}, pyz_version='0.1.0'))\n"
    )

    def run(*arguments: str, python: str = sys.executable, user: int | None = None) -> subprocess.CompletedProcess:
        warm = warm_python((python, "-S", "-B"), str(file))
        return warm.run(program, ["gpu-doctor.pyz", *arguments], {"PATH": f"{folder}/bin:/usr/bin:/bin"}, user=user)

    return run


def test_the_file_is_small_and_the_same_to_the_byte_for_the_same_sources(file, tmp_path):
    again = doctor_pyz.write(tmp_path)
    assert file.read_bytes() == again.read_bytes() and file.stat().st_size < MOST_BYTES
    with zipfile.ZipFile(file) as archive:
        names = archive.namelist()
        assert names == sorted(names) and {info.date_time for info in archive.infolist()} == {doctor_pyz.MOMENT}
        text = b"".join(archive.read(name) for name in names)
    assert b"import ansible" not in text and b"from ansible" not in text


def test_its_version_is_the_collections(file, tmp_path):
    done = subprocess.run([sys.executable, file, "--version"], capture_output=True, text=True)
    assert done.stdout == f"gpu-doctor {doctor_pyz.version()}\n"
    installed = tmp_path / "installed"
    installed.mkdir()
    (installed / "MANIFEST.json").write_text('{"collection_info": {"version": "9.8.7"}}')
    assert doctor_pyz.version(installed) == "9.8.7"


@pytest.mark.parametrize("version", sorted(pythons()))
def test_it_starts_under_every_python_of_this_machine(file, version):
    """From an empty folder and without a home, as on a machine that nobody has prepared."""
    done = subprocess.run(
        [pythons()[version], "-S", file, "--json"],
        capture_output=True,
        text=True,
        timeout=60,
        cwd="/",
        env={"PATH": "/usr/bin"},
    )
    report = json.loads(done.stdout)
    assert done.stderr == "" and done.returncode in (0, 1, 3)
    jsonschema.validate(report, SCHEMA)


def test_a_python_that_is_too_old_is_told_so(file):
    with zipfile.ZipFile(file) as archive:
        text = archive.read("__main__.py").decode()
    text = text.replace("(3, 6)", "(9, 0)")
    done = subprocess.run([sys.executable, "-c", text], capture_output=True, text=True)
    assert done.returncode == 1 and "expected Python 3.6 or newer" in done.stderr


def test_its_start_takes_less_than_a_second_of_a_processor(file):
    spent = []
    # Of three: other programs of this machine share its caches and clocks.
    for _turn in range(3):
        before = os.times()
        done = subprocess.run([sys.executable, file, "--explain", "gpu.count"], capture_output=True)
        after = os.times()
        assert done.returncode == 0
        spent.append(after.children_user + after.children_system - before.children_user - before.children_system)
    assert min(spent) < MOST_SECONDS


def test_its_library_is_known_as_that_of_the_checkout(file):
    """A bundle that a scan has made is judged by what the scan itself saw."""
    code = f"import sys; sys.path.insert(0, {str(file)!r})\n"
    code += "from gpuwright.doctor.bundle.make import identity\nprint(identity())"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.stdout.strip() == identity(str(MODULE_UTILS / "gpuwright"))


# -- on a machine


@needs_root
@pytest.mark.parametrize("version", oldest_and_newest())
def test_a_healthy_machine_passes_without_a_plan(run, version):
    done = run(python=pythons()[version])
    assert (done.returncode, done.stderr) == (0, ""), done.stdout
    lines = done.stdout.splitlines()
    assert lines[0].split() == ["system", "Arch", "Linux,", "kernel", "4.18.0-477.10.1.el8_8.x86_64,", "x86_64"]
    assert "1 x Tesla V100-PCIE-16GB (1db4)" in lines[1] and "580.95.05 (proprietary), loaded" in lines[2]
    assert done.stdout.count(scope.NOT_A_NODE) == 1 and done.stdout.count("SKIP") == 2
    assert ": PASS (" in lines[-1]


@needs_root
def test_it_is_what_gpu_doctor_says_of_the_same_machine(run, machine):
    shutil.rmtree(machine.folder)
    healthy_files.put_node(machine)
    scan = json.loads(run("--json").stdout)
    doctor = json.loads(run("--json", "--expectations", machine.root + "/etc/gpuwright/expectations.json").stdout)
    assert scan["expectations"]["scan"] == scope.NO_PLAN
    theirs = {check["id"]: check for check in doctor["checks"]}
    shared = [check for check in scan["checks"] if check["message"] != scope.NO_PLAN]
    assert len(shared) > 100
    # The one is told a model, and asks for the training user; the other tells what it sees, and asks for itself.
    for check in shared:
        if check["id"] not in ("gpu.model", "driver.device_nodes"):
            assert check == theirs[check["id"]]
    assert scan["verdict"] == "PASS"


@needs_root
def test_the_json_is_a_report_with_the_facts_of_the_host(run):
    report = json.loads(run("--json").stdout)
    jsonschema.validate(report, SCHEMA)
    facts = report["readings"]["probe"]
    assert facts["os"]["id"] == "arch" and facts["gpus"][0]["device_id"] == "1db4"
    assert {"machine", "kernel", "nvidia", "pythons", "memory_mib"} <= set(facts)
    assert [check["id"] for check in report["checks"]] == [check.id for check in CHECKS if check.level != DEEP]


@needs_root
def test_two_scans_differ_in_their_time_alone(run):
    def told() -> str:
        text = run("--json").stdout
        moment = json.loads(text)
        return text.replace(moment["time"], "T").replace(moment["readings"]["moment"]["time"], "T")

    assert told() == told()


@needs_root
def test_nothing_is_written(run, machine, folder):
    def state() -> list[tuple[str, int]]:
        return sorted((str(path), path.lstat().st_mtime_ns) for path in folder.rglob("*"))

    before = state()
    assert run().returncode == 0
    assert state() == before


@needs_root
def test_an_ordinary_user_is_told_what_root_would_see(run, folder):
    refused = "#!/bin/sh\n[ $(id -u) = 0 ] || { echo 'not permitted' >&2; exit 1; }\n"
    for name in ("journalctl", "smartctl"):
        file = folder / "bin" / name
        answer = file.read_text().partition("\n")[2] if file.exists() else ""
        file.write_text(refused + answer)
        file.chmod(0o755)
    done = run(python=for_everybody(), user=65534)
    assert done.returncode == 0, done.stdout
    [line] = [line for line in done.stdout.splitlines() if "only root can see this" in line]
    assert line.endswith("only root can see this: sudo python3 gpu-doctor.pyz")
    # Nobody's scan stands for root's: what the toolkit recorded of another moment is not what is there.
    assert "seen by root" not in done.stdout


@needs_root
@pytest.mark.parametrize(
    ("state", "release"), list(zip(sorted(foreign_host.BROKEN), cycle(sorted(foreign_host.RELEASES))))
)
def test_no_machine_breaks_it(run, machine, folder, state, release):
    if foreign_host.RELEASES[release]:
        machine.put("/etc/os-release", foreign_host.RELEASES[release])
    foreign_host.BROKEN[state](machine)
    for name in foreign_host.WITHOUT[state]:
        (folder / "bin" / name).unlink()
    if "journalctl" in foreign_host.WITHOUT[state]:
        # A container is not shown the log of its host's kernel.
        (folder / "bin/journalctl").write_text("#!/bin/sh\necho Operation not permitted >&2\nexit 1\n")
        (folder / "bin/journalctl").chmod(0o755)
    done, as_json = run(), run("--json")
    assert done.stderr == as_json.stderr == "" and done.returncode == as_json.returncode
    report = json.loads(as_json.stdout)
    jsonschema.validate(report, SCHEMA)
    found = {check["id"]: check for check in report["checks"]}
    for check in report["checks"]:
        assert "this check ended with an error" not in check["message"], check
        assert not OF_THE_TOOLKIT.search(check["message"] + check["action"]), check
    if state == "no driver":
        assert found["driver.reachable"]["status"] == FAIL and report["verdict"] == FAIL
        assert found["driver.nouveau_absent"]["status"] == FAIL and "nouveau" in done.stdout
        # There is nothing to build a module from.
        assert found["driver.module_for_next_kernel"]["action"].startswith("Install NVIDIA's driver")
    if state == "no card":
        assert found["gpu.count"]["message"] == "no NVIDIA GPU is on the PCI bus: nothing is known of GPUs here"
        assert found["gpu.count"]["status"] == UNKNOWN == report["verdict"] and done.returncode == 3
        assert found["driver.reachable"] == {**found["driver.reachable"], "status": SKIP}
        assert found["driver.reachable"]["message"] == "this host has no NVIDIA GPU"
    if state == "lost card":
        assert found["gpu.count"]["status"] == FAIL and report["verdict"] == FAIL
    if state in ("bare container", "empty"):
        # That no bus can be seen is not that no card is there.
        assert found["gpu.count"]["status"] == UNKNOWN and done.returncode == 3


@needs_root
@pytest.mark.parametrize("release", sorted(foreign_host.RELEASES))
def test_no_system_breaks_it(run, machine, release):
    machine.put("/etc/os-release", foreign_host.RELEASES[release])
    report = json.loads(run("--json").stdout)
    assert {check["status"] for check in report["checks"]} <= {"PASS", "SKIP", "WARN"}, report["checks"]
    name = (
        "unknown"
        if release == "none"
        else foreign_host.RELEASES[release].partition('PRETTY_NAME="')[2].partition('"')[0]
    )
    assert report["readings"]["probe"]["os"]["name"] == name


@needs_root
def test_the_other_forms(run, folder):
    nagios = run("--nagios")
    assert nagios.returncode == 0 and nagios.stdout.startswith("GPU OK: ")
    assert "gpuwright_verdict 0" in run("--prom").stdout
    written = folder / "scan.prom"
    assert run("--prom", str(written)).returncode == 0 and "gpuwright_gpus 1" in written.read_text()
    assert run("--prom", "/nowhere/scan.prom").returncode == 3
    assert run("--level", "quick").returncode == 0
    assert "gpu.count" in run("--explain", "gpu.count").stdout
    told = " ".join(run("--help").stdout.split())
    assert "--scan" in told and "--version" in told and "Say what is on this machine" in told
    assert "inventory expects" not in told


@needs_root
def test_a_bundle_of_a_scan_is_judged_elsewhere_as_there(run, folder):
    bundle = folder / "b.tar.gz"
    done = run("--bundle", str(bundle))
    assert done.returncode == 0 and bundle.is_file(), done.stderr
    again = run("--replay", str(bundle), "--json")
    [judged] = json.loads(again.stdout)["files"]
    assert (again.returncode, judged["verdict"], judged["node_verdict"]) == (0, "PASS", "PASS"), judged
    assert [check["id"] for check in judged["checks"] if check["message"] == scope.NOT_A_NODE]


@needs_root
@pytest.mark.parametrize(
    "arguments",
    [
        ["--gate"],
        ["--record", "60"],
        ["--acknowledge", "gpu.fan", "--reason", "x"],
        ["--withdraw", "gpu.fan"],
        ["--acknowledgements"],
        ["--strikes"],
        ["--level", "deep"],
        ["--scan", "--expectations", "/x"],
        ["--scan", "--replay", "/x"],
    ],
)
def test_what_a_scan_has_not_is_a_usage_error(run, arguments):
    done = run(*arguments)
    assert done.returncode == 2 and "--scan" in done.stderr and done.stdout == ""


@needs_root
def test_the_installed_program_scans_when_it_is_told_to(file, machine, folder):
    code = f"import sys; sys.path.insert(0, {str(file)!r})\nfrom gpuwright.doctor.program import main\n"
    code += f"sys.exit(main(['--scan'], root={machine.root!r}))"
    environment = {"PATH": f"{folder}/bin:/usr/bin:/bin"}
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, env=environment)
    assert done.returncode == 0 and scope.NOT_A_NODE in done.stdout
    assert "gpu-doctor --scan --all says why" in done.stdout


@needs_root
def test_no_monitor_is_told_that_a_gpu_is_fine_where_there_is_none(run, machine):
    for path in (machine.folder / "sys/bus/pci/devices").iterdir():
        path.unlink() if path.is_symlink() else shutil.rmtree(path)
    said = run("--nagios")
    assert "GPU OK" not in said.stdout and said.returncode != 0, said.stdout
