"""Faults at run time on a node that had passed, through gpu_verify, the playbook's exit code, gpu-doctor and the page.

The rows are those of tests/unit/nodes/fault_rows.py. What can be wrong together is played together, since each
run of the playbook costs some ten seconds. What a row breaks, it mends.
"""

from __future__ import annotations

import html
import json
import subprocess
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from conftest import HOST, STATE, on_host, play
from fault_rows import ROWS, SECOND_GPU, SWITCH, TOKEN_FIELDS
from real_nvidia_smi import fetch

pytestmark = pytest.mark.usefixtures("finished_host")
BY_NAME = {row.name: row for row in ROWS}
PCI, COPY = "/sys/bus/pci/devices", "/run/pci-of-a-test"
# The PCI bus as the kernel shows it, with something else on it, until the test ends.
CHANGE_PCI = f"rm -rf {COPY}; cp -a {PCI} {COPY}; cd {COPY}; %s; mount --bind {COPY} {PCI}; touch {COPY}.mounted"
# The simulated bus is itself a mount, which must not be taken away in the place of ours.
RESTORE_PCI = f"if [ -e {COPY}.mounted ]; then umount {PCI}; rm {COPY}.mounted; fi"
SECOND_CARD = (
    f"cp -a 0000:3b:00.0 {SECOND_GPU}; echo 0x20f1 > {SECOND_GPU}/device; "
    f"cp -a 0000:3b:00.0 {SWITCH}; echo 0x1af1 > {SWITCH}/device; echo 0x068000 > {SWITCH}/class"
)


@dataclass
class Scene:
    """Rows that are played together. `smi` replaces the rows' own; `broken` and `mended` are shell commands."""

    name: str
    rows: tuple[str, ...]
    smi: dict = field(default_factory=dict)
    broken: str = ":"
    mended: str = ":"
    variables: dict = field(default_factory=dict)
    more: tuple[tuple[str, str, str], ...] = ()

    @property
    def says(self) -> list[tuple[str, str, str]]:
        return [said for name in self.rows for said in BY_NAME[name].says] + list(self.more)

    @property
    def script(self) -> dict:
        """What nvidia-smi plays; values that are set come together."""
        script = {key: value for name in self.rows for key, value in BY_NAME[name].smi.items()}
        settings = [BY_NAME[name].smi.get("set", {}) for name in self.rows] + [self.smi.get("set", {})]
        script = {**script, **self.smi, "set": {path: text for record in settings for path, text in record.items()}}
        return script if script["set"] else {key: value for key, value in script.items() if key != "set"}


SCENES = (
    Scene(
        "states",
        (
            "driver-asks-for-a-reset",
            "page-waits-to-be-retired",
            "ecc-off",
            "throttled-by-hw_thermal_slowdown",
            "throttled-by-hw_power_brake_slowdown",
            "persistence-off",
            "uvm-node-missing",
        ),
        broken="systemctl stop nvidia-persistenced; mv /dev/nvidia-uvm /dev/hidden-uvm",
        mended="mv /dev/hidden-uvm /dev/nvidia-uvm; systemctl start nvidia-persistenced",
    ),
    Scene(
        "values-that-are-words",
        ("fewer-gpus", "mixed-models", "fabric-manager-down"),
        smi={"set": {**dict.fromkeys(TOKEN_FIELDS, "ERR!"), "ecc_mode/current_ecc": "[Unknown Error]"}},
        # The host is a container: with a device file for one card only, it would look like one that was given one.
        broken="cp -a /dev/nvidia0 /dev/nvidia1; " + CHANGE_PCI % SECOND_CARD,
        mended=f"rm -f /dev/nvidia1; {RESTORE_PCI}",
        variables={"verify_expected_gpu_count": 2, "verify_expected_gpu_model": ""},
        more=tuple((check, "UNKNOWN", "") for check in TOKEN_FIELDS.values()),
    ),
    Scene(
        "host-without-gpu",
        ("host-without-gpu",),
        broken=CHANGE_PCI % "rm -rf 0000:3b:00.0",
        mended=RESTORE_PCI,
    ),
    Scene("hangs", ("hangs-and-ignores-signals",)),
    Scene("reset-required", ("reset-required",)),
    Scene(
        "off-the-bus",
        (),
        smi=BY_NAME["off-the-bus"].smi,
        # The host's kernel log is the controller's, so the Xid itself is played in the unit tests only.
        more=BY_NAME["off-the-bus"].says[:1],
    ),
)


@pytest.fixture
def broken(host_file: Callable[[str, str], None]) -> Iterator[Callable[[Scene], None]]:
    """Break the host as a scene says; it is mended after the test."""
    mends: list[str] = []

    def run(scene: Scene) -> None:
        if scene.script:
            host_file("/etc/fleet/nvidia-smi.json", json.dumps(scene.script))
        mends.append(scene.mended)
        on_host(f"set -e; {scene.broken}")

    yield run
    for script in mends:
        on_host(script)


def doctor() -> tuple[int, dict]:
    """Exit status and report of gpu-doctor on the host."""
    command = ["ssh", "-F", str(STATE / "ssh_config"), HOST, "sudo gpu-doctor --level quick --json"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120)
    return done.returncode, json.loads(done.stdout)


def verify(folder: Path, says: list, **variables: Any) -> None:
    """Playbook, doctor and page all tell these findings, and none calls the node sound."""
    done = play(
        "playbooks/verify.yml",
        verify_report_dir=str(folder),
        verify_nvidia_smi_timeout=3,
        **variables,
    )
    verdict = "FAIL" if any(status == "FAIL" for _check, status, _words in says) else "UNKNOWN"
    assert done.rc == 2 and f"Verdict {verdict}" in done.text, done.output
    status, report = doctor()
    assert (status, report["verdict"]) == ({"FAIL": 1, "UNKNOWN": 3}[verdict], verdict)
    found = {check["id"]: check for check in report["checks"]}
    page = html.unescape((folder / f"hosts/{HOST}.html").read_text())
    to_do = page[page.index("What to do next") : page.index("<h2>Drift")]
    for check_id, expected, words in says:
        check = found[check_id]
        assert check["status"] == expected and words in check["message"].replace("30 s", "3 s"), check
        assert check_id in page and words in page, check_id
        # What follows from another finding is folded under that one.
        cause = found[check.get("caused_by", check_id)]
        assert cause["id"] in to_do and cause["action"] and cause["action"] in to_do, check_id
        assert cause is not check or words in to_do, check_id
        # A remark is for the page, not for the end of a play.
        if expected == "WARN":
            continue
        if cause is not check:
            assert f" {check_id}" in done.text.partition("because of these:")[2], check_id
        else:
            assert f"{expected} {check_id}:" in done.text and words in done.text, check_id
    assert f">{verdict}</span>" in page and HOST in page


def test_a_sound_host_passes_and_every_skip_has_its_reason(tmp_path: Path) -> None:
    done = play("playbooks/verify.yml", verify_report_dir=str(tmp_path))
    assert done.rc == 0, done.output
    report = json.loads((tmp_path / f"{HOST}.json").read_text())
    page = html.unescape((tmp_path / f"hosts/{HOST}.html").read_text())
    reasons = page[page.index("Not checked, and why") : page.index(f"All {len(report['checks'])} checks")]
    skipped = [check for check in report["checks"] if check["status"] == "SKIP"]
    assert report["verdict"] == "PASS" and skipped
    for check in skipped:
        assert check["message"] and f"{check['id']}: {check['message']}" in reasons


@pytest.mark.parametrize("scene", SCENES, ids=[scene.name for scene in SCENES])
def test_a_fault_is_told_by_playbook_doctor_and_page(broken, tmp_path: Path, scene: Scene) -> None:
    broken(scene)
    verify(tmp_path, scene.says, **scene.variables)


@pytest.fixture
def real_nvidia_smi(tmp_path: Path) -> Iterator[None]:
    """Debian's nvidia-smi and its library in the place of the stand-ins (the host's userland is Debian's), on a host as
    it is in truth: no GPU on the bus, no driver in the kernel, no device nodes."""
    for file, target in fetch(tmp_path).items():
        copy = ["scp", "-q", "-F", str(STATE / "ssh_config"), str(file), f"{HOST}:/tmp/{Path(target).name}"]
        subprocess.run(copy, check=True, timeout=60)
    on_host(
        "set -e; mkdir -p /root/stand-in; mv /usr/bin/nvidia-smi /usr/lib64/libnvidia-ml.so.1 /root/stand-in/\n"
        "install -m 755 /tmp/nvidia-smi /usr/bin/nvidia-smi; install /tmp/libnvidia-ml.so.535.261.03 /usr/lib64/\n"
        "ln -s libnvidia-ml.so.535.261.03 /usr/lib64/libnvidia-ml.so.1; ldconfig\n"
        "mkdir /dev/hidden; mv /dev/nvidia* /dev/hidden/\n"
        "mount -t tmpfs none /sys/module; mount -t tmpfs none /proc/driver\n" + CHANGE_PCI % "rm -rf 0000:3b:00.0"
    )
    yield
    on_host(
        f"{RESTORE_PCI}; umount /sys/module /proc/driver; mv /dev/hidden/* /dev/; rmdir /dev/hidden\n"
        "rm /usr/lib64/libnvidia-ml.so.535.261.03 /usr/lib64/libnvidia-ml.so.1 /usr/bin/nvidia-smi\n"
        "mv /root/stand-in/nvidia-smi /usr/bin/; mv /root/stand-in/libnvidia-ml.so.1 /usr/lib64/; ldconfig"
    )


@pytest.mark.usefixtures("real_nvidia_smi")
def test_the_real_nvidia_smi_without_a_gpu(tmp_path: Path) -> None:
    """NVIDIA's own program says exit 9, and everybody says what that means."""
    assert on_host("nvidia-smi -q -x; echo rc $?").endswith("rc 9")
    says = [("driver.reachable", "FAIL", "the NVIDIA driver is not loaded (exit status 9: NVIDIA-SMI has failed")]
    verify(tmp_path, says + [("gpu.count", "FAIL", "0 of 1 expected on the PCI bus")])
