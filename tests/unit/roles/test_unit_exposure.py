"""Each shipped service has the sandbox that docs/security.md promises, and leaves open what its program needs."""

from __future__ import annotations

import re
import shlex
import subprocess
from pathlib import Path

import pytest
import yaml
from gpuwright.training.sandbox import NOT_OF_THE_SANDBOX
from gpuwright.tuning.file_texts import UNIT_NAME, UNIT_TEXT
from jinja2 import Environment, StrictUndefined

REPOSITORY = Path(__file__).resolve().parents[3]
PAGE = (REPOSITORY / "docs/security.md").read_text()
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
    "__model_trainer_compiler": "/opt/rh/gcc-toolset-14/root/usr/bin/g++",
    "__model_trainer_venv": "/opt/gpuwright/venvs/current",
    "__system_containers_spec": "/var/run/cdi/nvidia.yaml",
    "__system_containers_engines": {"additional_groups": False},
    "__system_containers_flag": "NVIDIA_CTK_CDI_GENERATE_FEATURE_FLAGS=no-additional-gids-for-device-nodes",
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


def rows_below(head: str) -> list[list[str]]:
    """The cells of the page's table that begins with this line, without marks of code."""
    lines = PAGE.split(head + "\n")[1].splitlines()[1:]
    table = lines[: next(at for at, line in enumerate(lines) if not line.startswith("|"))]
    return [[cell.strip().replace("`", "") for cell in line.strip("|").split("|")] for line in table]


def named(cell: str) -> set[str]:
    """The services in a cell: names, "all", or "all but" and names."""
    but = cell.startswith("all but ")
    names = set() if cell == "all" else {f"{name}.service" for name in cell.removeprefix("all but ").split(", ")}
    assert names <= set(UNITS), cell
    return set(UNITS) - names if but or cell == "all" else names


def promised_figures() -> dict[str, float]:
    rows = rows_below("| service | exposure | runs as | what it may do beyond reading |")
    return {name: float(figure) for services, figure, *_ in rows for name in named(services)}


def promised(name: str) -> list[str]:
    """The settings that the page has for this service, sorted."""
    return sorted(setting for setting, services in rows_below("| setting | services |") if name in named(services))


def sandbox_of(text: str) -> list[str]:
    """The settings of a unit that decide what its program may do, sorted; one that is given twice is there twice."""
    lines = text.split("[Service]")[1].split("[Install]")[0].splitlines()
    found = [line for line in lines if line and not line.startswith("#")]
    names = [line.partition("=")[0] for line in found]
    left_out = [name == "Environment" or NOT_OF_THE_SANDBOX.fullmatch(name) is not None for name in names]
    return sorted(line for line, out in zip(found, left_out, strict=True) if not out)


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
    assert holders == {f"{name}.j2" for name in written} | {"file_texts.py"}
    assert set(promised_figures()) == set(UNITS)


@pytest.mark.parametrize("name", sorted(UNITS))
def test_the_sandbox_is_what_is_promised(name):
    assert sandbox_of(UNITS[name]) == promised(name)


@pytest.mark.parametrize("name", sorted(UNITS))
def test_exposure_is_what_is_promised(name, tmp_path):
    """The settings are compared above; this notices what takes their effect away, such as a setting beside them."""
    figure, told = exposure(tmp_path, name, UNITS[name])
    limit = promised_figures()[name]
    assert figure <= limit, told
    # Another systemd may count otherwise; the page names this one.
    version = subprocess.run(["systemd-analyze", "--version"], capture_output=True, text=True, check=True).stdout
    assert figure == limit or not version.startswith("systemd 252 "), told


@pytest.mark.parametrize("name", sorted(UNITS))
def test_exposure_comes_from_the_settings(name, tmp_path):
    """Without the settings that the page has, but as the same user, it is what the page says."""
    gone = {setting for setting in promised(name) if not setting.startswith(("User=", "Group="))}
    bare = "\n".join(line for line in UNITS[name].splitlines() if line not in gone)
    as_user, as_root = re.findall(r"([0-9.]+) for (?:the training user|root)", " ".join(PAGE.split()))
    assert exposure(tmp_path, name, bare)[0] >= float(as_user if name in (TRAINING, JOB) else as_root)


@pytest.mark.parametrize("name", sorted(UNITS))
def test_nothing_runs_outside_of_the_sandbox(name):
    """systemd.service(5): "+" and "!" before a command take its sandbox away; systemd-analyze does not say so."""
    assert not [command for command in commands(name) if re.match(r"[-@:|]*[+!]", command)]


def commands(name: str) -> list[str]:
    return [value for key, values in settings(name).items() if key.startswith("Exec") for value in values]


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


@pytest.mark.parametrize("name", sorted(set(UNITS) - {TRAINING, JOB}))
def test_root_looks_for_programs_in_the_systems_own_folders(name):
    """systemd.exec(5): by default /usr/local/sbin and /usr/local/bin come first."""
    assert "PATH=/usr/sbin:/usr/bin:/sbin:/bin" in settings(name)["Environment"]


@pytest.mark.parametrize("name", [TRAINING, JOB])
def test_the_gate_is_asked_twice(name):
    """Also by a systemd that does not know the first."""
    found = settings(name)
    (gate,) = found["ExecCondition"]
    assert gate.endswith("/usr/local/bin/gpu-doctor --gate") and found["ExecStartPre"] == [gate]


@pytest.mark.parametrize("name", [TRAINING, JOB])
def test_the_gate_gets_nothing_of_the_jobs_environment(name, tmp_path):
    """systemd.exec(5): variables of EnvironmentFile= are those of every command of the unit."""
    program = tmp_path / "gpu-doctor"
    program.write_text("#!/bin/sh\nexec /usr/bin/env\n")
    program.chmod(0o755)
    command = settings(name)["ExecCondition"][0].lstrip("+!-@:|").replace("/usr/local/bin/gpu-doctor", str(program))
    names = ("LD_LIBRARY_PATH", "LD_BIND_NOW", "PYTHONPATH", "PYTHONHOME", "GCONV_PATH", "BASH_ENV", "PATH", "ANY")
    job = dict.fromkeys(names, "/srv/job")
    done = subprocess.run(shlex.split(command), env=job, capture_output=True, text=True, check=True)
    assert "/srv/job" not in done.stdout


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


def test_the_module_that_a_user_cannot_load_is_loaded_at_boot():
    (task,) = yaml.safe_load((REPOSITORY / "roles/system_driver/tasks/boot.yml").read_text())
    entries = {entry["path"]: entry["content"] for entry in task["gpuwright.node.files"]["entries"]}
    assert "nvidia_uvm" in entries["/etc/modules-load.d/gpuwright-nvidia.conf"].splitlines()


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
