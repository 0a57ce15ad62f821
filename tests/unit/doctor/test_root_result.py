"""What root saw counts for others only in this boot, by these expectations, in a file that root alone writes."""

from __future__ import annotations

import json
import os

import healthy_node
import pytest
from gpuwright.checks.all import run_checks
from gpuwright.doctor.root_result import roots_results, with_roots_results
from gpuwright.readings.attempt import for_root, unreadable_for_users
from gpuwright.verdict.boot_check import BOOT_ID_PATH, RECORD_PATH, UPTIME_PATH, keep_record
from gpuwright.verdict.check import Check, Outcome, judge, passed
from gpuwright.verdict.evidence import Evidence
from gpuwright.verdict.report import REPORT_PATH, make_report
from host_tree import HostTree

BOOT = "7c9e6679-7425-40de-944b-e07fc1f90ae7"
THEN, NOW = "2026-01-05T10:00:00Z", "2026-01-05T10:03:00Z"
CHECK = "host.training_user"
needs_root = pytest.mark.skipif(os.geteuid() != 0, reason="the files must belong to root")


@pytest.fixture
def host(tmp_path):
    tree = HostTree(tmp_path)
    tree.put(BOOT_ID_PATH, BOOT + "\n")
    tree.put(UPTIME_PATH, "1000.00 3000.00\n")
    (tmp_path / "var/lib/gpuwright").mkdir(parents=True)
    return tree


def report(time=THEN, password="locked", boot_id=BOOT, **expectations) -> dict:
    readings = healthy_node.readings()
    readings["probe"]["kernel"]["boot_id"] = boot_id
    readings["training_user"]["password"] = password
    wanted = healthy_node.expectations(**expectations)
    checks = run_checks(readings, wanted, healthy_node.smoke())
    return make_report("a5-01", time, checks, readings, wanted, None)


def put_report(host, **changes) -> None:
    host.put(REPORT_PATH, json.dumps(report(**changes)))


def users_check(host) -> dict:
    """The check as an ordinary user's run ends it."""
    readings = healthy_node.readings()
    readings["training_user"]["password"] = {"unreadable": "/etc/shadow is readable by root only", "only_root": True}
    checks = run_checks(readings, healthy_node.expectations(), healthy_node.smoke())
    found = with_roots_results(checks, healthy_node.expectations(), NOW, host.root)
    assert [check["id"] for check in found] == [check["id"] for check in checks]
    assert [a for a, b in zip(found, checks, strict=True) if a != b and a["id"] != CHECK] == []
    return next(check for check in found if check["id"] == CHECK)


def test_without_a_result_it_is_skipped_and_says_why(host):
    found = users_check(host)
    assert found["status"] == "SKIP" and found["action"] == ""
    assert found["message"].startswith("only root can see this: sudo gpu-doctor (")


@needs_root
@pytest.mark.parametrize(("password", "status"), [("locked", "PASS"), ("set", "FAIL")])
def test_roots_result_of_this_boot_counts_with_its_age(host, password, status):
    put_report(host, password=password)
    found = users_check(host)
    assert found["status"] == status and found["message"].endswith("; seen by root 3 minutes ago")
    assert bool(found["remedy"]) == (status == "FAIL") == bool(found["action"])


@needs_root
@pytest.mark.parametrize(
    "changes",
    [
        {"boot_id": "00000000-0000-0000-0000-000000000000"},
        {"boot_id": None},
        {"time": "2026-01-05T10:03:01Z"},
        {"time": "soon"},
        {"training_user": "somebody"},
        {"gpu_count": 2},
    ],
)
def test_another_boot_time_or_expectation_does_not_count(host, changes):
    put_report(host, **changes)
    assert users_check(host)["status"] == "SKIP"


@needs_root
@pytest.mark.parametrize("mode", [0o646, 0o664, 0o666])
def test_a_file_that_others_may_write_does_not_count(host, mode):
    put_report(host)
    (host.folder / REPORT_PATH[1:]).chmod(mode)
    assert users_check(host)["status"] == "SKIP"


@needs_root
def test_a_file_of_somebody_else_or_a_link_does_not_count(host):
    put_report(host)
    path = host.folder / REPORT_PATH[1:]
    os.chown(path, 65534, 0)
    assert users_check(host)["status"] == "SKIP"
    os.chown(path, 0, 0)
    path.rename(host.folder / "elsewhere.json")
    path.symlink_to(host.folder / "elsewhere.json")
    assert users_check(host)["status"] == "SKIP"


@needs_root
@pytest.mark.parametrize(
    "text", ["", "[]", "{}", '{"readings": 5}', '{"readings": {"probe": {"kernel": {"boot_id": "x"}}}, "checks": 5}']
)
def test_a_damaged_file_does_not_count(host, text):
    host.put(REPORT_PATH, text)
    host.put(RECORD_PATH, text)
    assert users_check(host)["status"] == "SKIP"


@needs_root
@pytest.mark.parametrize("damage", [{"status": "GOOD"}, {"message": 5}, {"action": ...}])
def test_a_damaged_record_of_a_check_does_not_count(host, damage):
    record = report()
    for check in record["checks"]:
        for name, value in damage.items():
            check[name] = value
            if value is ...:
                del check[name]
    host.put(REPORT_PATH, json.dumps(record))
    assert roots_results(healthy_node.expectations(), NOW, host.root) == {}


@needs_root
@pytest.mark.parametrize(("report_at", "kept_at", "status"), [(1, 2, "FAIL"), (2, 1, "PASS")])
def test_the_newer_of_two_results_counts(host, report_at, kept_at, status):
    put_report(host, time=f"2026-01-05T10:0{report_at}:00Z")
    keep_record(report(time=f"2026-01-05T10:0{kept_at}:00Z", password="set"), "standard", 900, host.root)
    assert users_check(host)["status"] == status


@needs_root
def test_a_boot_check_of_an_older_release_has_no_checks(host):
    keep_record(report(), "standard", 900, host.root)
    path = host.folder / RECORD_PATH[1:]
    record = json.loads(path.read_text())
    assert users_check(host)["status"] == "PASS"
    for name in ("checks", "expectations_sha256"):
        path.write_text(json.dumps({key: value for key, value in record.items() if key != name}))
        assert users_check(host)["status"] == "SKIP"


def test_for_root_itself_an_unreadable_value_is_unknown(monkeypatch):
    def look(readings: Evidence, expected: Evidence) -> Outcome:
        return passed(readings.text("x"), "", "")

    check = Check("a.b", "system", "?", "do", look, "quick", "FAIL", "drain", needs_gpu=False)
    for uid, status in ((0, "UNKNOWN"), (1000, "SKIP")):
        monkeypatch.setattr(os, "geteuid", lambda uid=uid: uid)
        assert judge(check, {"x": unreadable_for_users("why")}, {})["status"] == status


def test_every_unreadable_value_below_a_reading_is_marked(monkeypatch):
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    reading = [{"name": "nvme0", "health": {"unreadable": "no"}}, {"unreadable": "why"}, 5, None, "x"]
    marked = [{"name": "nvme0", "health": {"unreadable": "no", "only_root": True}}]
    assert for_root(reading) == [*marked, {"unreadable": "why", "only_root": True}, 5, None, "x"]
