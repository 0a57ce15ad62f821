"""A program in a service's sandbox: which settings count, how systemd-run speaks, and never silently without."""

from __future__ import annotations

import os
import pwd
import signal
from pathlib import Path

import jinja2
import pytest
from gpuwright.host.as_user import find_account
from gpuwright.host.bounded import Finished
from gpuwright.training import sandbox, trainer_run
from gpuwright.training.sandbox import SandboxError, read_service, service_command
from gpuwright.training.trainer_run import RunError, run_program
from host_tree import HostTree

REPOSITORY = Path(__file__).resolve().parents[3]
TEMPLATE = REPOSITORY / "roles/model_trainer/templates/gpu-job@.service.j2"
UNIT = "/etc/systemd/system/train-gan@.service"
ME = pwd.getpwuid(os.geteuid()).pw_name


@pytest.fixture
def host(tmp_path):
    return HostTree(tmp_path / "node")


def put_unit(host: HostTree, text: str, path: str = UNIT) -> None:
    host.put(path, f"[Unit]\nDescription=x\nUser=nobody\n[Service]\nUser=trainer\n{text}\n[Install]\nWantedBy=a\n")


@pytest.mark.parametrize("compiler", ["", "/opt/rh/gcc-toolset-14/root/usr/bin/g++"])
def test_the_installed_service_is_read_as_it_is(host, compiler):
    variables = {
        "ansible_managed": "managed",
        "__model_trainer_user": "trainer",
        "__model_trainer_group": "trainer",
        "model_trainer_runs_dir": "/srv/gan/runs",
        "__model_trainer_venv": "/opt/gpuwright/venvs/current",
        "__model_trainer_compiler": compiler,
        "unit": "train-gan@",
    }
    environment = jinja2.Environment(undefined=jinja2.StrictUndefined, trim_blocks=True)
    text = environment.from_string(TEMPLATE.read_text()).render(variables)
    host.put(UNIT, text)
    service = read_service(UNIT, host.root)
    assert (service.name, service.user) == ("train-gan@.service", "trainer")
    wanted = {
        "CapabilityBoundingSet=",
        "NoNewPrivileges=true",
        "DeviceAllow=char-nvidia* rw",
        "SystemCallErrorNumber=EPERM",
    }
    assert wanted < set(service.settings)
    own = {f"Environment=CXX={compiler}", f'Environment="NVCC_PREPEND_FLAGS=-ccbin {compiler}"'} if compiler else set()
    assert {line for line in service.settings if "CXX" in line or "NVCC" in line} == own
    wanted = {"ProtectSystem=strict", "ReadWritePaths=/srv/gan/runs", "UMask=0027", "LimitMEMLOCK=infinity"}
    assert wanted < set(service.settings)
    # Every line of the section is either passed on or belongs to how a service starts, stops and is watched.
    lines = [line.partition("=")[0] for line in text.split("[Service]")[1].split("[Install]")[0].splitlines()]
    names = {name for name in lines if name and not name.startswith("#")}
    left = names - {setting.partition("=")[0] for setting in service.settings}
    assert {name for name in left if not sandbox.NOT_OF_THE_SANDBOX.fullmatch(name)} == {"User"}


@pytest.mark.parametrize(
    ("text", "settings"),
    [
        (
            "ExecStart=/bin/true\nExecCondition=/bin/x\nRestart=on-failure\nRestartSec=3\nType=notify\nTimeoutStopSec=9",
            [],
        ),
        ("# PrivateTmp=no\n; PrivateTmp=no\n PrivateTmp = true ", ["PrivateTmp=true"]),
        ("Environment=A=1 \\\n  B=2", ["Environment=A=1    B=2"]),
        ("DeviceAllow=\nDeviceAllow=char-nvidia rw", ["DeviceAllow=", "DeviceAllow=char-nvidia rw"]),
        ("ReadWritePaths=/runs/%i /a%%b", ["ReadWritePaths=/runs/gpuwright-smoke /a%b"]),
        ("CapabilityBoundingSet=", ["CapabilityBoundingSet="]),
        (
            "SystemCallFilter=~@clock @debug\nSystemCallFilter=@chown",
            ["SystemCallFilter=~@clock @debug", "SystemCallFilter=@chown"],
        ),
        ("DevicePolicy=closed\nDeviceAllow=char-nvidia* rw", ["DevicePolicy=closed", "DeviceAllow=char-nvidia* rw"]),
        ("[X-Other]\nPrivateTmp=true", []),
        ("no setting", []),
    ],
)
def test_settings(host, text, settings):
    put_unit(host, text)
    assert read_service(UNIT, host.root).settings == settings


def test_drop_ins_come_after_the_file(host):
    put_unit(host, "PrivateTmp=true")
    host.put(UNIT + ".d/20-b.conf", "[Service]\nUser=other\n")
    host.put(UNIT + ".d/10-a.conf", "[Service]\nPrivateTmp=false\n")
    host.put(UNIT + ".d/note.txt", "[Service]\nNice=5\n")
    service = read_service(UNIT, host.root)
    assert (service.user, service.settings) == ("other", ["PrivateTmp=true", "PrivateTmp=false"])


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (None, "there is no /etc/systemd"),
        ("[Service]\nPrivateTmp=true\n", "has no User"),
        ("[Service]\nUser=a\nReadWritePaths=/run/%t\n", "uses the specifier %t"),
    ],
)
def test_a_service_that_cannot_be_carried_over(host, text, words):
    if text is not None:
        host.put(UNIT, text)
    with pytest.raises(SandboxError, match=words):
        read_service(UNIT, host.root)


def test_the_command(host):
    put_unit(host, "PrivateTmp=true\nNice=5")
    words = service_command(read_service(UNIT, host.root), ["gpu-run", "--", "$x"], 60.5, "gpuwright-run-7")
    assert words[:5] == ["systemd-run", "--pipe", "--wait", "--collect", "--unit=gpuwright-run-7"]
    assert words[5] == "--uid=trainer" and words[-4:] == ["--", "gpu-run", "--", "$$x"]
    given = [words[index + 1] for index, word in enumerate(words) if word == "-p"]
    assert given == ["PrivateTmp=true", "Nice=5", "RuntimeMaxSec=60", "TimeoutStopSec=5"]


# A stand-in for systemd-run, which behaves and speaks as systemd 239 and 252 do.
SYSTEMD_RUN = """#!/bin/sh
echo "$@" >> {folder}/calls
case " $* " in *" ProtectClock=true "*) echo "Unknown assignment: ProtectClock=true" >&2; exit 1;; esac
{before}
echo "Running as unit: gpuwright-run-1.service" >&2
while [ "$1" != -- ]; do shift; done
shift
"$@"
code=$?
{after}
echo "Finished with result: success" >&2
echo "Main processes terminated with: code=exited/status=$code" >&2
exit $code
"""


@pytest.fixture
def systemd(host, fake_bin, monkeypatch, tmp_path):
    """A node with systemd, on which root asks; `fake(before, after)` writes its systemd-run."""
    put_unit(host, "PrivateTmp=true\nProtectClock=true")
    monkeypatch.setattr(sandbox, "why_no_systemd", lambda: "")
    monkeypatch.setattr(sandbox, "read_service", lambda path: read_service(path, host.root)._replace(user=ME))

    def fake(before: str = "", after: str = "") -> Path:
        folder = fake_bin("systemd-run", SYSTEMD_RUN.format(folder=tmp_path, before=before, after=after)).parent
        fake_bin("systemctl", f"#!/bin/sh\necho systemctl $* >> {tmp_path}/calls\n")
        monkeypatch.setenv("PATH", f"{folder}:/usr/bin:/bin")
        return tmp_path / "calls"

    return fake


def test_a_setting_that_this_systemd_does_not_know_is_left_out_and_told(systemd):
    calls = systemd()
    run = run_program(["/bin/sh", "-c", "echo said; echo wrote >&2; exit 3"], ME, 20, UNIT)
    assert (run.finished.rc, run.finished.stdout, run.finished.stderr.strip()) == (3, "said\n", "wrote")
    assert run.sandbox == "train-gan@.service"
    assert run.because == "1 of 2 settings of train-gan@.service; this systemd does not know the others"
    first, second = calls.read_text().splitlines()
    assert "ProtectClock" in first and "ProtectClock" not in second and "PrivateTmp=true" in second


def test_all_settings_are_told_as_all(systemd, host):
    systemd()
    put_unit(host, "PrivateTmp=true\nNice=5")
    assert run_program(["/bin/true"], ME, 20, UNIT).because == "all 2 settings of train-gan@.service"


def test_a_sandbox_that_cannot_be_made_is_a_fault_and_no_reason_to_go_without(systemd):
    systemd(before='echo "Failed to start transient service unit: Access denied" >&2; exit 1')
    with pytest.raises(RunError, match="no program can be started in the sandbox of train-gan") as error:
        run_program(["/bin/true"], ME, 20, UNIT)
    assert "Access denied" in error.value.evidence


@pytest.mark.parametrize("words", ["code=killed, status=9/KILL", "code=killed/status=KILL", "code=dumped/status=KILL"])
def test_a_signal_is_told_as_one(systemd, words):
    systemd(after=f'echo "Main processes terminated with: {words}" >&2; exit 255')
    assert run_program(["/bin/true"], ME, 20, UNIT).finished.rc == -signal.SIGKILL


def test_systemds_deadline_is_a_timeout(systemd):
    systemd(after='echo "Finished with result: timeout" >&2; exit 1')
    finished = run_program(["/bin/true"], ME, 7, UNIT).finished
    assert finished.timed_out and finished.rc is None and "within 7 s" in finished.problem


def test_a_service_that_systemd_itself_cannot_end_is_left_to_it(systemd, monkeypatch):
    calls = systemd(before="sleep 30")
    monkeypatch.setattr(trainer_run, "GRACE_SECONDS", 0.1)
    finished = run_program(["/bin/true"], ME, 0.2, UNIT).finished
    assert finished.timed_out and "stop --no-block gpuwright-run-" in calls.read_text()


def test_another_user_than_the_services_is_a_fault(systemd, monkeypatch):
    systemd()
    monkeypatch.setattr(trainer_run, "find_account", lambda name: find_account(pwd.getpwuid(os.geteuid()).pw_name))
    with pytest.raises(RunError, match="runs as .*, but the test was supposed to run as someone"):
        run_program(["/bin/true"], "someone", 20, UNIT)


@pytest.mark.parametrize(
    ("unit", "reason", "because"),
    [
        ("", "", "no sandbox was asked for"),
        (UNIT, "systemd does not run this node", "systemd does not run this node"),
        ("/etc/systemd/system/no-such@.service", "", "there is no /etc/systemd/system/no-such@.service"),
    ],
)
def test_without_a_sandbox_the_reason_is_told(monkeypatch, unit, reason, because):
    monkeypatch.setattr(sandbox, "why_no_systemd", lambda: reason)
    run = run_program(["/bin/sh", "-c", "echo $HOME"], ME, 20, unit)
    assert (run.sandbox, run.because) == (None, because)
    assert run.finished.rc == 0 and "/gpuwright-" in run.finished.stdout


def test_systemd_is_looked_for_where_it_runs(tmp_path):
    assert sandbox.why_no_systemd(str(tmp_path)) == "systemd does not run this node"
    (tmp_path / "run/systemd/system").mkdir(parents=True)
    assert sandbox.why_no_systemd(str(tmp_path)) == ("" if os.geteuid() == 0 else "only root can start a service")


def test_what_the_program_wrote_is_kept():
    finished = Finished(0, "", "Running as unit: a.service\nmine\nCPU time consumed: 1ms\n", False, False, False, "")
    assert sandbox.program_words(finished.stderr) == "mine"
