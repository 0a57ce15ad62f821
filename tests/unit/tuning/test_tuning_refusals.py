"""Settings of a host: what is refused, what is left alone with its reason, and what is read and applied later."""

from __future__ import annotations

import os

import pytest
from gpuwright.tuning import knobs as tuning_knobs
from gpuwright.tuning.plan import Refused, make_plan
from gpuwright.tuning.reading import read_tuning
from gpuwright.tuning.tool import main as gpu_tune
from tuned_host import CPU, LIMITS, QUEUE, SWAPPINESS, WISHES, TunedHost, as_a_kernel_does, text, tune

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="files are given to root")
MOUNTS_NFS = "22 1 259:2 / / rw - xfs /dev/nvme0n1p2 rw\n40 22 0:50 / /srv rw - nfs4 server:/share rw\n"


@pytest.fixture
def host(tmp_path, fake_bin, monkeypatch):
    host = TunedHost(tmp_path, fake_bin)
    monkeypatch.setenv("PATH", f"{tmp_path / 'fake_bin'}:/usr/bin:/bin")
    monkeypatch.setattr(tuning_knobs, "put_text", as_a_kernel_does(host.root))
    return host


def remove(host, path):
    (host.folder / path.lstrip("/")).unlink()


def two_disks(host):
    host.put("/sys/class/block/dm-0/slaves/sda")
    host.put("/sys/class/block/dm-0/slaves/sdb")
    host.link("/sys/dev/block/253:0", "../../class/block/dm-0")
    host.put("/proc/self/mountinfo", "22 1 253:0 / / rw - xfs /dev/dm-0 rw\n")


def flash_and_spinning(host):
    two_disks(host)
    host.put("/sys/block/sda/queue/rotational", "1\n")
    host.put("/sys/block/sdb/queue/rotational", "0\n")


SYSTEMCTL_FAILS = "#!/bin/sh\necho 'Failed to connect to bus' >&2\nexit 1\n"
# (setting, what is wrong with the host, words of the reason)
LACKING = [
    ("vm.swappiness", lambda host: remove(host, SWAPPINESS), "has no /proc/sys/vm/swappiness"),
    (
        "cpu_governor",
        lambda host: [remove(host, CPU.format(n) + "scaling_governor") for n in (0, 1)],
        "this host has no",
    ),
    (
        "cpu_governor",
        lambda host: host.put(CPU.format(1) + "scaling_available_governors", "powersave schedutil\n"),
        "offers powersave, schedutil, not performance",
    ),
    (
        "transparent_hugepage",
        lambda host: host.put("/sys/kernel/mm/transparent_hugepage/enabled", "[never]\n"),
        "offers never, not madvise",
    ),
    (
        "disk_scheduler",
        lambda host: host.put("/proc/self/mountinfo", MOUNTS_NFS),
        "on /srv (nfs4), which is not a disk",
    ),
    ("disk_scheduler", lambda host: host.put("/proc/self/mountinfo", ""), "names no file system"),
    ("disk_read_ahead_kb", two_disks, "there is no /sys/block/dm-0/queue/read_ahead_kb"),
    ("disk_scheduler", flash_and_spinning, "lies on flash and on spinning disks: sda, sdb"),
    ("disk_scheduler", lambda host: remove(host, QUEUE + "rotational"), "does not say whether nvme0n1 spins"),
    ("disk_read_ahead_kb", lambda host: remove(host, QUEUE + "read_ahead_kb"), "there is no /sys/block/nvme0n1"),
    ("irqbalance", lambda host: (host.units / "irqbalance.service").unlink(), "irqbalance.service is not installed"),
    ("irqbalance", lambda host: host.masked("irqbalance.service"), "is masked, so it stays switched off"),
    ("gpu_persistence", lambda host: host.fake_bin("systemctl", SYSTEMCTL_FAILS), "Failed to connect to bus"),
    ("gpu_persistence", lambda host: remove(host, "/proc/driver/nvidia/version"), "no NVIDIA module is loaded"),
]


@pytest.mark.parametrize(("name", "spoil", "words"), LACKING)
def test_what_a_host_lacks_is_left_alone_with_the_reason(host, name, spoil, words):
    spoil(host)
    plan = make_plan(host.root, WISHES, "x")
    assert words in {row["name"]: row["reason"] for row in plan.skipped}[name]
    assert name not in {row["name"] for row in plan.settings}


def test_a_read_only_file_is_left_alone(host, monkeypatch):
    real = os.statvfs

    class ReadOnly:
        f_flag = os.ST_RDONLY

    monkeypatch.setattr(os, "statvfs", lambda path: ReadOnly if "/proc/" in str(path) else real(path))
    plan = make_plan(host.root, WISHES, "x")
    assert {"name": "vm.swappiness", "reason": "/proc/sys/vm/swappiness is read-only here"} in plan.skipped
    assert "transparent_hugepage" in {row["name"] for row in plan.settings}


@pytest.mark.parametrize(
    ("wishes", "words"),
    [
        ({"leave": ["vm.swapiness"]}, "the nearest is vm.swappiness"),
        ({"values": {"bananas": "1"}}, "there are: cpu_governor"),
        ({"values": {"vm.swappiness": "201"}}, "'201' is not a valid value"),
        ({"values": {"vm.swappiness": True}}, "True is not a valid value"),
        ({"values": {"vm.swappiness": "1; reboot"}}, "is not a valid value"),
        ({"values": {"vm.swappiness": "10\n"}}, "is not a valid value"),
        ({"values": {"transparent_hugepage": "sometimes"}}, "always|madvise|never"),
        ({"values": {"scratch": "enabled active"}}, "is not a valid value"),
        ({"values": {"gpu_power_limit": "99"}}, "GPU-1 accepts 100 to 250 W"),
        ({"values": {"gpu_power_limit": 251}}, "GPU-1 accepts 100 to 250 W"),
        ({"values": {"gpu_clocks": "877,1400"}}, "the nearest are 877,1380 877,1245"),
        ({"values": {"limits_nofile": "1048577"}}, "/proc/sys/fs/nr_open allows at most 1048576"),
        ({"limits_group": "a b"}, "expected the name of a group"),
        ({"limits_group": "root\n* - nofile 1"}, "expected the name of a group"),
        ({"limits_units": ["../../x.service"]}, "is not a name such as"),
        ({"limits_units": ["train-gan@"]}, "is not a name such as"),
        ({"data_dir": "srv"}, "expected an absolute path"),
        ({"tuned_parent": "../x"}, "expected the name of a profile"),
        ({"scratch_dir": "/usr"}, "expected a folder of its own"),
        ({"scratch_dir": "/a-b"}, "expected a folder of its own"),
        ({"scratch_dir": "/"}, "expected a folder of its own"),
    ],
)
def test_wishes_that_cannot_be_met_are_refused(host, wishes, words):
    everything = host.everything()
    with pytest.raises(Refused) as refused:
        tune(host, **wishes)
    assert words in str(refused.value)
    assert host.everything() == everything


@pytest.mark.parametrize(
    ("cards", "value", "words"),
    [
        ({"lowest": "N/A"}, {"gpu_power_limit": "200"}, "reports no range"),
        ({"supported": "N/A"}, {"gpu_clocks": "877,1380"}, "offers no application clocks"),
    ],
)
def test_a_card_without_that_ability_is_a_refusal(host, cards, value, words):
    host.gpu(**cards)
    with pytest.raises(Refused, match=words):
        tune(host, values=value)


def test_a_driver_that_does_not_answer_is_a_refusal_but_no_obstacle_to_a_preview(host):
    host.fake_bin("nvidia-smi", "#!/bin/sh\necho 'NVIDIA-SMI has failed'\nexit 9\n")
    with pytest.raises(Refused, match="NVIDIA-SMI has failed"):
        tune(host, values={"gpu_power_limit": "200"})
    assert tune(host, check=True, values={"gpu_power_limit": "200"})[0] is True
    # Nobody asked for anything of the GPUs.
    assert tune(host)[0] is True


def test_a_card_that_nvidia_smi_refuses_to_set_is_an_error_with_its_words(host):
    text_of = (host.state.parent / "fake_bin/nvidia-smi").read_text()
    refuses = text_of.replace("exit 0 ;;", 'echo "Insufficient Permissions"; exit 4 ;;')
    host.fake_bin("nvidia-smi", refuses)
    with pytest.raises(OSError, match="--power-limit=200 for GPU-1: Insufficient Permissions"):
        tune(host, values={"gpu_power_limit": "200"})


def test_a_profile_that_tuned_does_not_have_is_refused(host):
    host.tuned("balanced")
    with pytest.raises(Refused, match="tuned has no profile 'hpc-compute'"):
        tune(host, tuned_parent="hpc-compute")


# --- what is read later


def test_readings_name_what_differs(host):
    assert read_tuning(host.root) is None
    tune(host)
    assert all(row["found"] == row["wanted"] and row["reason"] for row in read_tuning(host.root))
    host.put(SWAPPINESS, "60\n")
    host.put(CPU.format(1) + "scaling_governor", "powersave\n")
    host.put(QUEUE + "read_ahead_kb", "128\n")
    host.put(LIMITS, "@trainer - nofile 5\n")
    remove(host, "/proc/sys/vm/max_map_count")
    host.unit("irqbalance.service", "enabled failed")
    rows = {row["name"]: row["found"] for row in read_tuning(host.root)}
    assert rows["vm.swappiness"] == "60"
    assert rows["cpu_governor"] == "performance, powersave"
    assert rows["disk_read_ahead_kb"] == "128"
    assert rows["limits_nofile"] == "/etc/security/limits.d/95-gpuwright.conf changed by hand"
    assert rows["irqbalance"] == "enabled failed"
    assert rows["vm.max_map_count"] == {"unreadable": "this kernel has no /proc/sys/vm/max_map_count"}


@pytest.mark.parametrize("content", ["{", "[]", '{"schema": 2, "settings": []}', '{"schema": 1}', ""])
def test_a_record_that_cannot_be_used_is_unreadable(host, content):
    host.put("/etc/gpuwright/tuning.json", content)
    with pytest.raises(ValueError, match="tuning.json is (not|damaged)"):
        read_tuning(host.root)


def test_gpu_tune_shows_and_at_boot_applies(host, capsys):
    assert gpu_tune([], root=host.root) == 3
    tune(host, values={"gpu_power_limit": "200"})
    assert gpu_tune([], root=host.root) == 0
    host.put(SWAPPINESS, "60\n")
    host.put("/proc/sys/vm/dirty_bytes", "0\n")
    (host.state / "gpu.power").unlink()
    assert gpu_tune([], root=host.root) == 1
    shown = capsys.readouterr().out
    assert "DIFF vm.swappiness              10 | 60" in shown and "undo: system_tuning_leave: [vm.swappiness]" in shown
    assert gpu_tune(["--apply"], root=host.root) == 0
    assert text(host, SWAPPINESS) == "10\n"
    assert (host.state / "gpu.power").read_text() == "200\n"


def test_what_cannot_be_set_at_boot_does_not_stop_the_rest(host, capsys):
    tune(host)
    remove(host, "/proc/sys/vm/max_map_count")
    host.put("/proc/sys/kernel/numa_balancing", "1\n")
    assert gpu_tune(["--apply"], root=host.root) == 1
    assert "vm.max_map_count: this kernel has no" in capsys.readouterr().err
    assert text(host, "/proc/sys/kernel/numa_balancing") == "0\n"


# A machine of which systemd knows no unit.
NO_UNITS = "#!/bin/sh\nprintf 'LoadState=not-found\\nUnitFileState=\\nActiveState=inactive\\n'\n"


def test_what_work_would_feel_waits_for_whoever_asks(run_module, fake_bin, tmp_path):
    """On this machine, whatever it is: check mode only says what would be done."""
    fake_bin("systemctl", NO_UNITS)
    link = tmp_path / "gpu-tune"
    wish = {"program": "#!/bin/sh\n", "link": str(link)}
    foretold = run_module("host_tuning", wish, check=True)
    assert foretold["changed"] and foretold["diff"][-1] == {
        "before": {"path": str(link), "state": "absent"},
        "after": {"path": str(link), "state": "link"},
    }
    careful = run_module("host_tuning", {**wish, "only_unfelt": True}, check=True)
    assert careful["changed"] is not bool(careful["turns"]) and careful["turns"] == foretold["turns"]
    assert not link.exists()


def test_a_program_of_that_name_is_not_replaced(run_module, fake_bin, tmp_path):
    fake_bin("systemctl", NO_UNITS)
    (tmp_path / "gpu-tune").write_text("somebody's own")
    answer = run_module("host_tuning", {"program": "#!/bin/sh\n", "link": str(tmp_path / "gpu-tune")}, check=True)
    assert answer["failed"] and "is a file and should be a link: move it away" in answer["msg"]
