"""The check for node-problem-detector and the pre-flight Job: what they say, and what the schemas accept."""

from __future__ import annotations

import json
import shutil
import subprocess
from pathlib import Path

import kubernetes_validate
import pytest
import yaml
from conftest import REPOSITORY
from gpuwright.verdict.boot_check import RECORD_PATH
from gpuwright.verdict.report import write_json
from test_verdict_program import check, record

FOLDER = REPOSITORY / "deploy/kubernetes"
DETECTOR = json.loads((FOLDER / "node-problem-detector/gpuwright.json").read_text())
JOB = yaml.safe_load((FOLDER / "preflight/job.yml").read_text())
POD = JOB["spec"]["template"]["spec"]
VERSIONS = ("1.31", kubernetes_validate.latest_version())


@pytest.mark.parametrize(
    ("content", "expected"),
    [
        (record("PASS"), (0, "gpu-doctor: PASS\n")),
        (record("WARN"), (0, "gpu-doctor: WARN\n")),
        (record("FAIL", check("kernel.xid", "FAIL", "Run: reboot")), (1, "gpuwright: kernel.xid: Run: reboot\n")),
        ({**record("PASS"), "boot_id": "x"}, (2, "gpu-doctor: UNKNOWN the last check is from an earlier boot\n")),
        (None, (2, "gpu-doctor: UNKNOWN there is no {record}: no check has finished on this node yet\n")),
    ],
)
def test_the_detector_gets_line_and_status(tmp_path: Path, content, expected) -> None:
    for name in ("kubernetes/node-problem-detector/gpuwright-npd", "gate/gpuwright-verdict"):
        shutil.copy(REPOSITORY / "deploy" / name, tmp_path)
    file = tmp_path / "record"
    if content:
        write_json(str(file), content)
    command = [str(tmp_path / "gpuwright-npd"), "--record", str(file)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=20, env={})
    assert (done.returncode, done.stdout) == (expected[0], expected[1].format(record=file)) and done.stderr == ""


def test_a_detector_without_the_verdicts_program_is_unknown(tmp_path: Path) -> None:
    shutil.copy(FOLDER / "node-problem-detector/gpuwright-npd", tmp_path)
    done = subprocess.run([str(tmp_path / "gpuwright-npd")], capture_output=True, text=True, timeout=20)
    assert done.returncode == 2 and "gpuwright-verdict" in done.stdout


def test_the_detectors_configuration_is_complete() -> None:
    """By its page custom_plugin_monitor.md; a rule without its condition is refused by the detector."""
    assert DETECTOR["plugin"] == "custom"
    assert {condition["type"] for condition in DETECTOR["conditions"]} == {
        rule["condition"] for rule in DETECTOR["rules"]
    }
    for rule in DETECTOR["rules"]:
        assert rule["type"] == "permanent" and rule["path"].endswith("/gpuwright-npd")
    # The reasons of gpuwright-verdict are not cut off.
    assert DETECTOR["pluginConfig"]["max_output_length"] >= 300


@pytest.mark.parametrize("version", VERSIONS)
def test_the_official_schema_accepts_the_job(version: str) -> None:
    kubernetes_validate.validate(JOB, version, strict=True)


def test_the_job_reads_the_record_and_has_no_rights() -> None:
    (container,) = POD["containers"]
    mounts = {mount["name"]: mount for mount in container["volumeMounts"]}
    volumes = {volume["name"]: volume for volume in POD["volumes"]}
    assert mounts["record"]["mountPath"] == volumes["record"]["hostPath"]["path"] == str(Path(RECORD_PATH).parent)
    assert all(mount["readOnly"] for mount in mounts.values()) and set(mounts) == set(volumes)
    assert container["command"] == ["sh", mounts["gate"]["mountPath"] + "/gpuwright-verdict"]
    assert container["securityContext"]["capabilities"] == {"drop": ["ALL"]}
    assert POD["securityContext"]["runAsNonRoot"] is True and POD["automountServiceAccountToken"] is False
    # A failed verdict fails the Job at once, since asking again changes nothing.
    assert JOB["spec"]["backoffLimit"] == 0 and POD["restartPolicy"] == "Never"


def test_the_jobs_command_runs_the_program_without_its_mode(tmp_path: Path) -> None:
    """A ConfigMap's files are not executable."""
    file = tmp_path / "record"
    write_json(str(file), record("PASS"))
    command = ["sh", str(REPOSITORY / "deploy/gate/gpuwright-verdict"), "--record", str(file)]
    assert subprocess.run(command, capture_output=True, text=True, timeout=20).stdout == "PASS\n"
