"""Settings of a host: set, kept, put back byte for byte; on a made-up host, under Python 3.6 too."""

from __future__ import annotations

import configparser
import json
import os
import re
import subprocess
from pathlib import Path

import pytest
from conftest import MODULE_UTILS
from gpuwright.tuning import apply as tuning
from gpuwright.tuning import knobs as tuning_knobs
from gpuwright.tuning import store as tuning_store
from gpuwright.tuning.catalogue import BY_NAME, CATALOGUE
from gpuwright.tuning.plan import make_plan
from hypothesis import given, settings
from hypothesis import strategies as st
from tuned_host import CPU, KERNEL_FILES, LIMITS, QUEUE, SWAPPINESS, WISHES, TunedHost, as_a_kernel_does, text, tune

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="files are given to root")


@pytest.fixture
def host(tmp_path, fake_bin, monkeypatch):
    host = TunedHost(tmp_path, fake_bin)
    monkeypatch.setenv("PATH", f"{tmp_path / 'fake_bin'}:/usr/bin:/bin")
    monkeypatch.setattr(tuning_knobs, "put_text", as_a_kernel_does(host.root))
    return host


def test_every_setting_of_a_bare_metal_host_is_set(host):
    changed, plan = tune(host)
    assert changed
    held = {row["name"]: row["wanted"] for row in plan.settings}
    assert held == {
        setting.name: {"disk_scheduler": "none"}.get(setting.name, setting.wanted)
        for setting in CATALOGUE
        if setting.wanted and setting.name != "tuned_profile"
    }
    assert [row["name"] for row in plan.skipped] == ["tuned_profile"]
    assert text(host, SWAPPINESS) == "10\n"
    assert text(host, "/proc/sys/vm/dirty_ratio") == "0\n"
    assert text(host, "/sys/kernel/mm/transparent_hugepage/enabled") == "always [madvise] never\n"
    assert [text(host, CPU.format(n) + "scaling_governor") for n in (0, 1)] == ["performance\n"] * 2
    assert text(host, QUEUE + "scheduler") == "mq-deadline kyber bfq [none]\n"
    assert (host.units / "irqbalance.service").read_text() == "enabled active\n"
    assert (host.units / "gpuwright-tuning.service").read_text() == "enabled active\n"
    calls = host.calls()
    assert calls.index("systemctl daemon-reload") < calls.index("systemctl enable gpuwright-tuning.service")


def test_files_say_what_they_should(host):
    tune(host)
    assert text(host, LIMITS).splitlines()[1:] == [
        "@trainer - memlock unlimited",
        "@trainer - nofile 1048576",
        "@trainer soft stack 65536",
        "@trainer - nproc unlimited",
    ]
    drop_in = text(host, "etc/systemd/system/train-gan@.service.d/50-gpuwright-limits.conf").splitlines()
    assert drop_in[1:] == [
        "[Service]",
        "LimitMEMLOCK=infinity",
        "LimitNOFILE=1048576",
        "LimitSTACK=65536K:infinity",
        "TasksMax=infinity",
    ]
    rule = text(host, "etc/udev/rules.d/61-gpuwright-data-disk.rules").splitlines()[1]
    assert 'ATTR{wwid}=="eui.0025388b01234567"' in rule and 'ATTR{queue/scheduler}="none"' in rule
    assert (host.folder / "usr/local/bin/gpu-tune").stat().st_mode & 0o777 == 0o755


def test_the_second_run_has_nothing_to_do_and_keeps_what_was_found_first(host):
    tune(host)
    before = (host.folder / "var/lib/gpuwright/tuning-before.json").read_bytes()
    everything = host.everything()
    assert tune(host)[0] is False
    assert tune(host, check=True)[0] is False
    assert host.everything() == everything
    host.put(SWAPPINESS, "99\n")
    assert tune(host)[0] is True
    assert (host.folder / "var/lib/gpuwright/tuning-before.json").read_bytes() == before
    assert json.loads(before)["knobs"][SWAPPINESS] == "60"


def felt(host: TunedHost, absent: bool = False, program: str = "#!/bin/sh\n", **changes: object) -> list[str]:
    """What running work would feel of the next run."""
    before = tuning_store.load(host.root)
    plan = tuning.NOTHING if absent else make_plan(host.root, {**WISHES, **changes}, program, can_wait=True)
    return tuning.turns(tuning.compare(host.root, plan, before))


def test_running_work_feels_values_and_no_files(host):
    host.tuned("virtual-guest")
    fresh = felt(host)
    assert SWAPPINESS in fresh and "tuned profile" in fresh and "unit irqbalance.service" in fresh
    assert not [key for key in fresh if "gpuwright-tuning" in key or key.startswith("etc")]
    tune(host)
    assert felt(host) == []
    # A newer gpu-tune, another group for the limits: files for later.
    assert felt(host, program="#!/bin/sh\n# newer\n", limits_group="others") == []
    host.put(SWAPPINESS, "99\n")
    assert felt(host) == [SWAPPINESS]
    assert "gpu GPU-1 power_limit" in felt(host, values={"gpu_power_limit": "200"})
    assert {SWAPPINESS, "tuned profile", "unit irqbalance.service"} <= set(felt(host, absent=True))


def test_check_mode_predicts_and_changes_nothing(host):
    everything = host.everything()
    assert tune(host, check=True)[0] is True
    assert host.everything() == everything
    assert not [call for call in host.calls() if " show " not in call]


OTHER_FILES = st.dictionaries(
    st.sampled_from(
        [
            LIMITS,
            "etc/tuned/gpuwright/tuned.conf",
            "etc/udev/rules.d/61-gpuwright-data-disk.rules",
            "etc/systemd/system/train-gan@.service.d/50-gpuwright-limits.conf",
            "etc/systemd/system/train-gan@.service.d/90-mine.conf",
            "usr/local/bin/gpu-tune",
            "etc/gpuwright/tuning.json",
        ]
    ),
    st.tuples(st.binary(max_size=20), st.sampled_from([0o600, 0o644, 0o755])),
)
LEAVES = st.lists(st.sampled_from(sorted(BY_NAME)), max_size=4, unique=True)


@settings(max_examples=15, deadline=None)
@given(
    files=OTHER_FILES,
    leaves=st.lists(LEAVES, min_size=1, max_size=3),
    swappiness=st.integers(0, 100),
    with_tuned=st.booleans(),
    dirty=st.sampled_from(["0", "12345678"]),
    units=st.sampled_from(["enabled active", "disabled inactive", "disabled active"]),
    gpu=st.booleans(),
)
def test_absent_puts_everything_back_byte_for_byte(
    tmp_path_factory, files, leaves, swappiness, with_tuned, dirty, units, gpu
):
    folder = tmp_path_factory.mktemp("host")

    def fake_bin(name: str, script: str) -> Path:
        path = folder / "fake_bin" / name
        path.parent.mkdir(exist_ok=True)
        path.write_text(script)
        path.chmod(0o755)
        return path

    host = TunedHost(folder, fake_bin)
    for path, (content, mode) in files.items():
        host.put(path, content)
        (host.folder / path).chmod(mode)
    host.put(SWAPPINESS, f"{swappiness}\n")
    host.put("/proc/sys/vm/dirty_bytes", f"{dirty}\n")
    host.put("/proc/sys/vm/dirty_ratio", "20\n" if dirty == "0" else "0\n")
    host.unit("irqbalance.service", units)
    # A unit that starts to exist is remembered by the stand-in for systemd, though not by systemd.
    host.unit("scratch.mount", "disabled inactive")
    if with_tuned:
        host.tuned("balanced")
    if gpu:
        (host.state / "gpu.power").write_text("250\n")
        (host.state / "gpu.clocks").write_text("877,1245\n")
    values = {"gpu_power_limit": "150", "gpu_clocks": "877,1380"} if gpu else {}
    (host.folder / "var/lib/gpuwright").mkdir(parents=True)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PATH", f"{folder}/fake_bin:/usr/bin:/bin")
        patch.setattr(tuning_knobs, "put_text", as_a_kernel_does(host.root))
        everything = host.everything()
        for number, leave in enumerate(leaves):
            tune(host, leave=leave, values=values, scratch_uuid="1234" if number % 2 else "")
        assert tune(host, absent=True)[0] is True
        assert host.everything() == everything
        assert tune(host, absent=True)[0] is False


def test_a_setting_that_is_left_later_goes_back_alone(host):
    tune(host)
    tune(host, leave=["vm.swappiness", "vm.dirty_bytes", "limits_nofile"])
    assert text(host, SWAPPINESS) == "60\n"
    assert (text(host, "/proc/sys/vm/dirty_bytes"), text(host, "/proc/sys/vm/dirty_ratio")) == ("0\n", "20\n")
    assert text(host, "/proc/sys/vm/max_map_count") == "1048576\n"
    assert "nofile" not in text(host, LIMITS)
    assert SWAPPINESS not in tuning_store.load(host.root)["knobs"]


def test_an_interrupted_run_is_repaired_by_the_next_and_forgets_nothing(host, monkeypatch):
    put = tuning_knobs.put_text

    def breaks(path: str, content: str) -> None:
        if path.endswith("max_map_count"):
            raise OSError(22, "Invalid argument", path)
        put(path, content)

    monkeypatch.setattr(tuning_knobs, "put_text", breaks)
    with pytest.raises(OSError, match="max_map_count"):
        tune(host)
    assert tuning_store.load(host.root)["knobs"][SWAPPINESS] == "60"
    monkeypatch.setattr(tuning_knobs, "put_text", put)
    tune(host)
    tune(host, absent=True)
    assert text(host, SWAPPINESS) == "60\n"


def test_a_container_gets_files_and_units_and_no_knob_of_its_hosts_kernel(host):
    host.put("/run/systemd/container", "podman\n")
    host.tuned("balanced")
    plan = tune(host)[1]
    held = {"gpu_persistence", "limits_memlock", "limits_nofile", "limits_stack", "limits_tasks"}
    assert {row["name"] for row in plan.settings} == held
    assert {row["reason"] for row in plan.skipped} == {"this node is a container (podman): its host sets that"}
    for path, content in KERNEL_FILES.items():
        assert text(host, path) == content
    assert (host.units / "irqbalance.service").read_text() == "disabled inactive\n"
    assert host.record()["skipped"] == plan.skipped


def test_gpus_get_power_limit_and_clocks_and_their_own_back(host):
    tune(host, values={"gpu_power_limit": "200", "gpu_clocks": "877,1380"})
    assert "nvidia-smi --id=GPU-1 --power-limit=200" in host.calls()
    assert "nvidia-smi --id=GPU-1 --applications-clocks=877,1380" in host.calls()
    assert (host.state / "gpu.power").read_text() == "200\n"
    tune(host)
    assert (host.state / "gpu.power").read_text() == "250\n"
    assert (host.state / "gpu.clocks").read_text() == "877,1245\n"


def test_tuned_gets_a_profile_that_agrees(host):
    host.tuned("balanced")
    plan = tune(host, values={"vm.swappiness": "1"})[1]
    assert not plan.skipped
    profile = text(host, "etc/tuned/gpuwright/tuned.conf")
    for line in ("include=virtual-guest", "vm.swappiness=1", "transparent_hugepages=madvise", "governor=performance"):
        assert line in profile.splitlines()
    assert "tuned-adm profile gpuwright" in host.calls()
    tune(host, absent=True)
    assert (host.state / "tuned").read_text() == "balanced\n"


# [section] option of RHEL 8's throughput-performance, and of one whose write-back is in [vm].
PARENTS = [
    {"sysctl": {"vm.dirty_ratio": "40", "vm.dirty_background_ratio": "10", "vm.swappiness": "10"}},
    {"vm": {"dirty_bytes": "40%", "dirty_background_bytes": "10%"}, "disk": {"readahead": ">4096"}},
    {"vm": {"dirty_ratio": "40", "dirty_background_ratio": "10"}, "disk": {"readahead": ">4096"}},
]


class CasedParser(configparser.ConfigParser):
    """Names of settings are not made lower case."""

    def optionxform(self, optionstr: str) -> str:
        return optionstr


@pytest.mark.parametrize("parent", PARENTS)
def test_tuned_verifies_its_own_profile(host, parent):
    """As tuned merges: options of the child go before, and `drop` takes the parent's away."""
    host.tuned("balanced")
    plan = tune(host)[1]
    child = CasedParser(delimiters=("=",))
    child.read_string(text(host, "etc/tuned/gpuwright/tuned.conf"))
    merged = {}
    for section, options in parent.items():
        own = dict(child[section]) if section in child else {}
        gone = own.pop("drop", "").split(",")
        merged.update({name: value for name, value in options.items() if name not in gone})
        merged.update(own)
    # What is left agrees with what is set.
    held = {row["name"]: row["wanted"] for row in plan.settings}
    for name, value in merged.items():
        assert "dirty" not in name or held.get(name) == value
        assert name != "readahead" and held.get(name, value) == value
    assert "vm.dirty_bytes" in child["sysctl"] and "drop" not in merged


def test_read_ahead_of_every_device_below_the_file_system(host):
    """An LVM volume on md, whose disks have partitions: the file system reads ahead as the volume says."""
    host.put("/proc/self/mountinfo", "22 1 253:2 / / rw - xfs /dev/mapper/vg-data rw\n")
    host.link("/sys/dev/block/253:2", "../../class/block/dm-2")
    host.put("/sys/class/block/dm-2/slaves/md0", "")
    host.put("/sys/block/dm-2/dm/uuid", "LVM-abc\n")
    for disk in ("sda", "sdb"):
        host.put(f"/sys/class/block/md0/slaves/{disk}1", "")
        host.put(f"/sys/devices/pci/{disk}/{disk}1/partition", "1\n")
        host.link(f"/sys/class/block/{disk}1", f"../../devices/pci/{disk}/{disk}1")
        host.put(f"/sys/block/{disk}/queue/rotational", "1\n")
        host.put(f"/sys/block/{disk}/queue/scheduler", "[none] mq-deadline\n")
        host.put(f"/sys/block/{disk}/wwid", f"naa.{disk}\n")
    paths = [f"sys/block/{device}/queue/read_ahead_kb" for device in ("dm-2", "md0", "sda", "sdb")]
    for path in paths:
        host.put("/" + path, "128\n")
    tune(host, data_dir="/srv/data")
    assert {text(host, f"sys/block/{device}/queue/read_ahead_kb") for device in ("dm-2", "md0", "sda", "sdb")} == {
        "4096\n"
    }
    assert text(host, "sys/block/sdb/queue/scheduler").startswith("mq-deadline")
    rules = text(host, "etc/udev/rules.d/61-gpuwright-data-disk.rules").splitlines()[1:]
    assert [rule.split(", ", 3)[3] for rule in rules] == [
        'ATTR{dm/uuid}=="LVM-abc", ATTR{queue/read_ahead_kb}="4096"',
        'KERNEL=="md0", ATTR{queue/read_ahead_kb}="4096"',
        'ATTR{wwid}=="naa.sda", ATTR{queue/read_ahead_kb}="4096", ATTR{queue/scheduler}="mq-deadline"',
        'ATTR{wwid}=="naa.sdb", ATTR{queue/read_ahead_kb}="4096", ATTR{queue/scheduler}="mq-deadline"',
    ]
    tune(host, data_dir="/srv/data", absent=True)
    assert {text(host, f"sys/block/{device}/queue/read_ahead_kb") for device in ("dm-2", "md0", "sda", "sdb")} == {
        "128\n"
    }


def test_a_changed_profile_is_loaded_again(host):
    host.tuned("balanced")
    tune(host)
    calls = len(host.calls())
    tune(host, tuned_parent="accelerator-performance")
    assert "include=accelerator-performance" in text(host, "etc/tuned/gpuwright/tuned.conf")
    assert "tuned-adm profile gpuwright" in host.calls()[calls:]


def test_the_scratch_file_system_is_mounted_and_released(host):
    tune(host, scratch_uuid="1234-abcd", scratch_dir="/data/scratch")
    unit = text(host, "etc/systemd/system/data-scratch.mount")
    assert "What=/dev/disk/by-uuid/1234-abcd" in unit and "Where=/data/scratch" in unit and "nofail" in unit
    assert (host.units / "data-scratch.mount").read_text() == "enabled active\n"
    calls = host.calls()
    started = calls.index("systemctl start data-scratch.mount")
    assert started < calls.index("systemd-tmpfiles --create /etc/tmpfiles.d/gpuwright-scratch.conf")
    tune(host)
    assert not (host.folder / "etc/systemd/system/data-scratch.mount").exists()
    assert (host.units / "data-scratch.mount").read_text() == "disabled inactive\n"


def test_another_scratch_disk_is_mounted_in_its_place(host):
    tune(host, scratch_uuid="1234")
    tune(host, scratch_uuid="5678")
    assert host.calls().count("systemctl start scratch.mount") == 1
    assert host.calls().count("systemctl restart scratch.mount") == 1


def test_the_record_of_before_is_never_guessed(host):
    tune(host)
    host.put("/var/lib/gpuwright/tuning-before.json", "{")
    with pytest.raises(ValueError, match="holds the values to go back to and cannot be read"):
        tune(host)


@pytest.mark.parametrize("setting", CATALOGUE, ids=lambda setting: setting.name)
def test_every_setting_has_reason_source_sight_and_way_back(setting):
    assert all([setting.reason, setting.source, setting.see, setting.undo])
    assert setting.wanted == "" or re.fullmatch(setting.allowed, setting.wanted)


SCENARIO = """
import json, sys
sys.path.insert(0, sys.argv[1])
from gpuwright.tuning import reading as readings_tuning
from gpuwright.tuning import apply as tuning
from gpuwright.tuning import store as tuning_store
from gpuwright.tuning.plan import make_plan
root, wishes = sys.argv[2], json.loads(sys.argv[3])
for plan in (make_plan(root, wishes, "x"), tuning.NOTHING):
    before = tuning_store.load(root)
    tuning.apply(root, plan, tuning.compare(root, plan, before), before)
    print(json.dumps(readings_tuning.read_tuning(root)))
"""
# Settings whose files only a kernel keeps consistent.
KERNELS_OWN = ["vm.dirty_bytes", "vm.dirty_background_bytes", "transparent_hugepage", "disk_scheduler"]


def test_set_and_back_under_the_nodes_own_python(host, node_python):
    (host.folder / "var/lib/gpuwright").mkdir(parents=True)
    everything = host.everything()
    wishes = json.dumps({**WISHES, "leave": KERNELS_OWN})
    command = [node_python, "-B", "-c", SCENARIO, str(MODULE_UTILS), host.root, wishes]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    first, second = [json.loads(line) for line in done.stdout.splitlines()]
    assert second is None
    assert len(first) == len(make_plan(host.root, {**WISHES, "leave": KERNELS_OWN}, "x").settings)
    assert all(row["found"] == row["wanted"] for row in first)
    assert host.everything() == everything
