"""How exposed each shipped service is, as Debian 12's systemd computes it, and what its sandbox must leave open."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest
from gpuwright.tuning.files import UNIT_NAME, UNIT_TEXT
from jinja2 import Environment, StrictUndefined

REPOSITORY = Path(__file__).resolve().parents[3]
TRAINING = "train-gan@.service"
JOB = "gpu-job@.service"
# One template makes more than one service.
ALSO = {"gpuwright-check.service": ("gpuwright-boot-check.service",), JOB: (TRAINING,)}
VARIABLES = {
    "ansible_managed": "Ansible managed",
    "__model_trainer_user": "trainer",
    "__model_trainer_group": "trainer",
    "model_trainer_data_dir": "/srv/gan/data",
    "model_trainer_runs_dir": "/srv/gan/runs",
    "__model_trainer_venv": "/opt/gpuwright/venvs/current",
    "__system_containers_spec": "/var/run/cdi/nvidia.yaml",
    "system_monitor_interval_minutes": 5,
    "system_monitor_textfile_dir": "/var/lib/node_exporter/textfile_collector",
    "__system_monitor_metrics": "/var/lib/node_exporter/textfile_collector/gpuwright.prom",
    "__system_monitor_holds_seconds": 900,
}
# systemd.exec(5), systemd.resource-control(5): the release that brought a setting; older ones ignore it and warn.
NEWER_THAN_EL8 = {
    "ExecCondition": 243,
    "ProtectHostname": 242,
    "RestrictSUIDSGID": 242,
    "ProtectKernelLogs": 244,
    "ProtectClock": 245,
    "ProtectProc": 247,
}


def rendered() -> dict[str, str]:
    """Every service that the roles install: {name: text}."""
    environment = Environment(undefined=StrictUndefined, trim_blocks=True, keep_trailing_newline=True)
    environment.filters["regex_replace"] = lambda text, pattern, new: re.sub(pattern, new, text)
    found = {UNIT_NAME: UNIT_TEXT}
    for template in sorted(REPOSITORY.glob("roles/*/templates/*.service.j2")):
        name = template.name[: -len(".j2")]
        for item in (name, *ALSO.get(name, ())):
            found[item] = environment.from_string(template.read_text()).render(
                {**VARIABLES, "unit": item.removesuffix(".service"), "at_boot": "boot" in item}
            )
    return found


UNITS = rendered()


def settings(name: str) -> dict[str, list[str]]:
    """{setting: values} of the section [Service]."""
    text = UNITS[name].split("[Service]")[1].split("[Install]")[0]
    found: dict[str, list[str]] = {}
    for line in text.splitlines():
        if line and not line.startswith("#"):
            key, separator, value = line.partition("=")
            assert separator, line
            found.setdefault(key, []).append(value)
    return found


def exposure(folder: Path, name: str, text: str) -> tuple[float, str]:
    """The figure of `systemd-analyze security`, and what it says of each setting."""
    (folder / name).write_text(text)
    words = ["systemd-analyze", "security", "--offline=true", "--no-pager", str(folder / name)]
    done = subprocess.run(words, capture_output=True, text=True, timeout=30)
    match = re.search(r"Overall exposure level for \S+: ([0-9.]+)", done.stdout)
    assert done.returncode == 0 and match, done.stdout + done.stderr
    # An unknown setting, or a value that systemd does not understand, is told here and would otherwise not count.
    assert not re.search(r"Unknown|Failed to parse|Invalid|ignoring", done.stderr), done.stderr
    return float(match.group(1)), done.stdout


def test_every_service_is_looked_at():
    written = {re.sub(r"\.j2$", "", file.name) for file in REPOSITORY.glob("roles/*/templates/*.service*")}
    assert written | {UNIT_NAME}.union(*ALSO.values()) == set(UNITS)
    # Units may also stand as texts in tasks, files and modules; each has to come to the list above.
    texts = [*REPOSITORY.glob("roles/*/[tfhv]*/**/*"), *REPOSITORY.glob("plugins/**/*.py")]
    holders = {file.name for file in texts if file.is_file() and "\nExecStart=" in file.read_text(errors="replace")}
    assert holders == {f"{name}.j2" for name in written} | {"files.py"}


@pytest.mark.parametrize("name", sorted(UNITS))
def test_exposure_is_low(name, tmp_path):
    figure, told = exposure(tmp_path, name, UNITS[name])
    assert figure <= (3.0 if name in (TRAINING, JOB) else 2.0), told


@pytest.mark.parametrize("name", sorted(UNITS))
def test_exposure_would_notice(name, tmp_path):
    """The figure comes from the file: without its sandbox the same service is unsafe."""
    bare = re.sub(r"(?m)^(NoNew|Capab|Device|Protect|Private|Restrict|Lock|SystemCall|IPAddress).*\n", "", UNITS[name])
    assert exposure(tmp_path, name, bare)[0] > 6


@pytest.mark.parametrize("name", sorted(UNITS))
def test_the_devices_of_the_driver_stay_reachable(name):
    """ProtectClock= before systemd 252 allows the real-time clock alone where no device is named (systemd #18142)."""
    found = settings(name)
    assert found["DevicePolicy"] == ["closed"]
    assert any(re.fullmatch(r"char-nvidia\* rwm?", value) for value in found["DeviceAllow"])
    # Both would hide or empty /dev/nvidia*, the root's files or /proc/driver/nvidia.
    assert not {"PrivateDevices", "PrivateUsers", "ProcSubset"} & set(found)


@pytest.mark.parametrize("name", sorted(UNITS))
def test_a_forbidden_call_fails_instead_of_killing(name):
    found = settings(name)
    assert found["SystemCallErrorNumber"] == ["EPERM"]
    # A list of what is forbidden: a list of what is allowed would forbid calls that are younger than this systemd.
    assert found["SystemCallFilter"][0].startswith("~")
    assert found["SystemCallArchitectures"] == ["native"]


@pytest.mark.parametrize("name", sorted(UNITS))
def test_what_old_systemds_do_not_know_is_no_loss_of_the_service(name):
    """RHEL 8 has systemd 239: what it ignores may only be a protection, or has a second way (ExecCondition)."""
    known = set(settings(name)) & set(NEWER_THAN_EL8)
    assert all(setting.startswith(("Protect", "Restrict")) for setting in known - {"ExecCondition"})
    if "ExecCondition" in known:
        assert [value for value in settings(name)["ExecStartPre"] if "--gate" in value]


@pytest.mark.parametrize("name", [TRAINING, JOB])
def test_the_training_keeps_what_cuda_nccl_and_the_compiler_need(name):
    found = settings(name)
    assert found["CapabilityBoundingSet"] == [""] and found["NoNewPrivileges"] == ["true"]
    assert found["LimitMEMLOCK"] == ["infinity"]
    assert not {"MemoryDenyWriteExecute", "PrivateNetwork", "IPAddressDeny", "PrivateIPC", "RemoveIPC"} & set(found)
    assert set(found["RestrictAddressFamilies"][0].split()) == {"AF_UNIX", "AF_INET", "AF_INET6", "AF_NETLINK"}
    forbidden = " ".join(found["SystemCallFilter"])
    for needed in ("@resources", "@memlock", "@ipc", "@process", "@timer", "@io-event", "@aio"):
        assert needed not in forbidden


@pytest.mark.parametrize("name", [TRAINING, JOB])
def test_compiled_code_has_a_folder_that_can_be_written_and_run_from(name):
    """Triton's own place is the home folder, which ProtectSystem=strict closes, or ProtectHome= hides."""
    found = settings(name)
    assert found["CacheDirectory"] == ["gpuwright-training"] and found["CacheDirectoryMode"] == ["0700"]
    told = dict(value.split("=", 1) for value in found["Environment"] if value[0] != '"')
    for variable in ("TRITON_CACHE_DIR", "TORCHINDUCTOR_CACHE_DIR", "TORCH_EXTENSIONS_DIR"):
        assert told[variable].startswith("/var/cache/gpuwright-training/")


def test_nodes_are_made_before_a_service_that_cannot_make_them():
    for name in (TRAINING, JOB, "gpuwright-cdi.service"):
        head = UNITS[name].split("[Service]")[0]
        for key in ("After", "Wants"):
            line = next(line for line in head.splitlines() if line.startswith(key + "="))
            assert "gpuwright-devices.service" in line.split("=")[1].split(), (name, key)
    devices = settings("gpuwright-devices.service")
    assert devices["ExecStart"] == ["/usr/bin/nvidia-modprobe -u -c 0"]
    assert "CAP_MKNOD" in devices["CapabilityBoundingSet"][0].split() and "char-nvidia* rwm" in devices["DeviceAllow"]
    # Done anew for each service that wants it.
    assert "RemainAfterExit" not in devices


def test_a_check_can_read_what_it_judges():
    found = settings("gpuwright-check.service")
    # Processes of others, the log without a journal, modinfo's files.
    assert {"CAP_SYS_PTRACE", "CAP_SYSLOG", "CAP_DAC_OVERRIDE"} == set(found["CapabilityBoundingSet"][0].split())
    assert not {"ProtectKernelModules", "ProtectKernelLogs", "ProtectProc", "User"} & set(found)
    assert {**found, "RemainAfterExit": ["yes"]} == settings("gpuwright-boot-check.service")


def test_tuning_can_write_what_it_sets():
    found = settings(UNIT_NAME)
    assert "ProtectKernelTunables" not in found and found["CapabilityBoundingSet"] == ["CAP_SYS_ADMIN"]
    assert found["ProtectHome"] == ["read-only"]
