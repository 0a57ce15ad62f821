"""A node that goes bad after it had passed: the timer notices, and no training starts until it is good again."""

from __future__ import annotations

import time

import pytest
from conftest import on_host, play

pytestmark = pytest.mark.usefixtures("finished_host")
UNIT = "train-gan@gate"
METRICS = "/var/lib/node_exporter/textfile_collector/gpuwright.prom"
DROP_IN = f"/etc/systemd/system/{UNIT}.service.d/50-old.conf"
HOT = '{"set": {"temperature/gpu_temp": "95 C"}}'
NOT_LOADED = '{"exit": 9, "text": "NVIDIA-SMI has failed because it could not communicate with the driver"}'
SMALL = (
    '{"run_dir": "/srv/gan/runs/gate", "image_size": 32, "channels": 8, "batch_size": 4, "steps": 2, "device": "cpu"}'
)


@pytest.fixture(autouse=True)
def training():
    """A training that a CPU can do in seconds."""
    on_host(f"echo '{SMALL}' > /etc/gpuwright/train-gan/gate.yml")
    yield
    on_host(
        f"systemctl stop {UNIT}; systemctl reset-failed {UNIT}; "
        f"rm -rf /srv/gan/runs/gate /etc/gpuwright/train-gan/gate.yml {DROP_IN}; "
        "systemctl daemon-reload; systemctl start gpuwright-check.service || true",
        check=False,
    )


@pytest.fixture(params=["with ExecCondition", "without, as systemd 239"])
def systemd(request):
    """The two ways in which a systemd reads the unit: one from before 243 ignores ExecCondition."""
    if request.param != "with ExecCondition":
        drop_in("ExecCondition=\\n")
    return request.param


def drop_in(settings: str) -> None:
    on_host(f"mkdir -p $(dirname {DROP_IN}); printf '[Service]\\n{settings}' > {DROP_IN}; systemctl daemon-reload")


def check() -> str:
    """Check now; returns systemctl's exit status, 0 when nothing fails."""
    return on_host("systemctl start gpuwright-check.service; echo $?")


def start() -> tuple[str, str]:
    """Try to train; returns the unit's state and what the journal says of this attempt."""
    since = on_host("sleep 1; date '+%Y-%m-%d %H:%M:%S'")
    on_host(f"systemctl start {UNIT}", check=False)
    state = on_host(f"systemctl show -P ActiveState {UNIT}")
    return state, on_host(f"journalctl -u {UNIT} --no-pager -o cat --since '{since}'")


def has_trained() -> bool:
    return on_host("ls /srv/gan/runs/gate/stats.jsonl", check=False) != ""


@pytest.mark.parametrize(("fault", "words"), [(HOT, "gpu.temperature"), (NOT_LOADED, "driver.reachable")])
def test_a_bad_node_trains_nothing_and_says_why(host_file, systemd: str, fault: str, words: str) -> None:
    host_file("/etc/fleet/nvidia-smi.json", fault)
    assert check() == "1"
    state, journal = start()
    assert state == ("inactive" if systemd == "with ExecCondition" else "activating")
    assert "gpu-doctor: closed: verdict FAIL" in journal and words in journal and " -> " in journal
    assert not has_trained()
    assert "gpuwright_verdict 2" in on_host(f"cat {METRICS}").splitlines()


def test_a_training_that_was_held_back_starts_by_itself_under_an_old_systemd(host_file) -> None:
    drop_in("ExecCondition=\\nRestartSec=2\\n")
    host_file("/etc/fleet/nvidia-smi.json", HOT)
    check()
    assert start()[0] == "activating"
    on_host("rm /etc/fleet/nvidia-smi.json")
    check()
    for _ in range(90):
        if has_trained():
            return
        time.sleep(1)
    raise AssertionError(on_host(f"journalctl -u {UNIT} --no-pager -n 30"))


@pytest.mark.parametrize(
    ("spoil", "words"),
    [
        ("rm /var/lib/gpuwright/boot-check.json", "No such file"),
        ("echo '{' > /var/lib/gpuwright/boot-check.json", "damaged"),
        ('sed -i \'s/boot_id.*/boot_id": "another",/\' /var/lib/gpuwright/boot-check.json', "earlier boot"),
    ],
    ids=["missing", "damaged", "of another boot"],
)
def test_no_good_result_of_this_boot_is_no_yes(systemd: str, spoil: str, words: str) -> None:
    check()
    # The boot check has passed, so that starting a training does not ask again.
    on_host(f"systemctl start gpuwright-boot-check.service; {spoil}")
    state, journal = start()
    assert state != "active" and "gpu-doctor: closed: " in journal and words in journal
    assert not has_trained()


def test_a_node_that_was_not_checked_since_its_boot_is_checked_before_it_trains() -> None:
    on_host("systemctl stop gpuwright-boot-check.service; rm /var/lib/gpuwright/boot-check.json")
    state, journal = start()
    assert state in ("active", "inactive") and "gpu-doctor: open: verdict PASS" in journal, journal


def test_verification_is_followed_by_a_check() -> None:
    before = on_host(f"grep '^gpuwright_last_run_timestamp' {METRICS}")
    time.sleep(1)
    assert play("playbooks/verify.yml").rc == 0
    time.sleep(3)
    assert on_host(f"grep '^gpuwright_last_run_timestamp' {METRICS}") != before


def test_without_monitoring_nothing_is_left_and_nothing_is_gated(host_file) -> None:
    host_file("/etc/fleet/nvidia-smi.json", HOT)
    check()
    absent = {"system_monitor_state": "absent"}
    preview = play("playbooks/system.yml", "--check", "--tags", "system_monitor", **absent)
    assert preview.rc == 0 and preview.changed == 2, preview.output
    gone = play("playbooks/system.yml", "--tags", "system_monitor", **absent)
    assert gone.rc == 0, gone.output
    assert play("playbooks/system.yml", "--tags", "system_monitor", **absent).changed == 0
    assert on_host("systemctl list-unit-files 'gpuwright-*check*' --no-legend", check=False) == ""
    units = "/etc/systemd/system/gpuwright*check* /etc/systemd/system/*.wants/gpuwright*check*"
    assert on_host(f"ls {units} {METRICS} /var/lib/gpuwright/boot-check.json", check=False) == ""
    state, journal = start()
    assert state in ("active", "inactive") and "not gated: monitoring is not installed" in journal, journal
    on_host("rm /etc/fleet/nvidia-smi.json")
    back = play("playbooks/system.yml", "--tags", "system_monitor")
    assert back.rc == 0, back.output
    assert play("playbooks/system.yml", "--tags", "system_monitor").changed == 0
