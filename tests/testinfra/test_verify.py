"""Verification: the report, the doctor, and who may read what."""

from __future__ import annotations

import json

from testinfra.host import Host


def test_report_says_pass_and_where_the_smoke_test_ran(report: dict) -> None:
    assert report["verdict"] == "PASS"
    smoke = next(check for check in report["checks"] if check["id"] == "smoke.amp")
    assert smoke["status"] == "PASS" and "cpu" in smoke["message"].lower()


def test_smoke_test_ran_in_the_sandbox_of_the_training_service_and_over_two_processes(report: dict) -> None:
    smoke = report["smoke"]
    assert smoke["sandbox"] == "train-gan@.service" and smoke["sandbox_because"].startswith("all ")
    assert smoke["parallel"]["parameters_equal"] and smoke["parallel"]["ranks"] == 2


def test_every_skip_has_a_reason_and_nothing_is_unknown(report: dict) -> None:
    assert len(report["checks"]) >= 20
    for check in report["checks"]:
        assert check["status"] in ("PASS", "SKIP"), check
        assert check["status"] == "PASS" or check["message"], check


def test_doctor_agrees_as_root(host: Host) -> None:
    with host.sudo():
        done = host.run("/usr/local/bin/gpu-doctor --json")
    assert done.rc == 0, done.stdout
    assert json.loads(done.stdout)["verdict"] == "PASS"


def test_doctor_never_passes_for_the_trainer_what_it_cannot_read(as_trainer) -> None:
    done = as_trainer("cd / && /usr/local/bin/gpu-doctor --json")
    answer = json.loads(done.stdout)
    assert done.rc == {"PASS": 0, "WARN": 0, "FAIL": 1, "UNKNOWN": 3}[answer["verdict"]]
    assert answer["verdict"] != "FAIL", [check for check in answer["checks"] if check["status"] == "FAIL"]


def test_files_of_the_toolkit_belong_to_root(host: Host) -> None:
    for name in ("/usr/local/bin/gpu-run", "/usr/local/bin/gpu-doctor"):
        file = host.file(name)
        assert (file.user, file.group, file.mode) == ("root", "root", 0o755)
    for name in ("/etc/gpuwright/expectations.json", "/etc/gpuwright/runtime.json"):
        file = host.file(name)
        assert (file.user, file.group, file.mode) == ("root", "root", 0o644)


def test_sudo_finds_the_tools_wherever_it_looks(host: Host) -> None:
    """RHEL's sudo knows /usr/local/bin as little as its cron does."""
    for name in ("gpu-run", "gpu-doctor"):
        assert host.file(f"/usr/bin/{name}").linked_to == f"/usr/local/bin/{name}"
        done = host.run("sudo -n env PATH=/sbin:/bin:/usr/sbin:/usr/bin %s --help", name)
        assert done.rc == 0 and "usage" in done.stdout.lower(), done.stderr
