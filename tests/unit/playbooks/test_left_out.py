"""One host's problem is one host's: what cannot go is left out, the rest goes through every layer of site.yml."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest
from left_out_site import LAYERS, Site, go_on, reached, summary

SEVEN = ["a5-01", "a5-02", "a5-04", "a5-05", "a5-06", "a5-08", "a5-10"]


@pytest.fixture
def site(tmp_path: Path) -> Site:
    return Site(tmp_path)


def test_ten_hosts_of_which_one_is_down_one_busy_and_one_refused(site: Site) -> None:
    for name in SEVEN:
        site.host(name)
    site.unreachable("a5-03")
    site.busy("a5-07")
    site.refused("a5-09")
    done = site.run("site.yml", "-f", "3")
    assert reached(done.stdout) == {name: list(LAYERS) for name in SEVEN}
    # Ansible's own code for a run that did not reach a host.
    assert done.returncode == 4, done.stdout
    end = summary(done.stdout)
    assert "Left out: 3 of 10 hosts. Nothing was changed on them." in end and "Done: 7 of 10 hosts." in end
    assert (
        "a5-03 unreachable The host cannot be reached: 127.0.0.1 port 1 refuses connections [reach.port] next: " in end
    )
    busy = "a5-07 busy The GPUs are in use and the driver would be replaced [host.busy] (seen: python3"
    assert f"{busy} (pid 77, alice)) next: Drain" in end
    assert "a5-09 refused CUDA 13.0 cannot compile for Tesla V100-PCIE-16GB" in end and "12.9" in end
    assert go_on(done.stdout) == "ansible-playbook -i hosts.yml site.yml -f 3 -l 'a5-03,a5-07,a5-09'"
    # Once each: the reason stands in the summary and nowhere else.
    whole = " ".join(done.stdout.split())
    for words in ("refuses connections", "would be replaced", "cannot compile for"):
        assert whole.count(words) == 1, words


def late(site: Site, kind: str) -> None:
    """A role that finds on `late` what stops it there, when others are through with preflight."""
    told = {"kind": kind, "reason": "alice began to train.", "next": "Wait for alice."}
    leave = {
        "ansible.builtin.include_role": {"name": "gpuwright.node.preflight", "tasks_from": "fail_as_left_out"},
        "vars": {"preflight_left_out": told},
        "when": "inventory_hostname == 'late'",
    }
    site.tasks("system_driver", [leave, site.mark("system")])


def test_busy_hosts_that_are_to_be_skipped_are_no_failure_and_stay_out_of_every_play(site: Site) -> None:
    site.host("fine")
    site.busy("busy")
    site.host("late")
    late(site, "busy")
    done = site.run("site.yml", "-e", "gpuwright_busy=skip")
    assert done.returncode == 0, done.stdout
    assert reached(done.stdout) == {"fine": list(LAYERS)}
    end = summary(done.stdout)
    assert "busy busy The GPUs are in use" in end and "late busy alice began to train. next: Wait for alice." in end
    assert go_on(done.stdout) == "ansible-playbook -i hosts.yml site.yml -e gpuwright_busy=skip -l 'busy,late'"


def test_a_role_leaves_a_host_out_between_the_layers(site: Site) -> None:
    site.host("fine")
    site.host("late")
    late(site, "locked")
    done = site.run("site.yml", "-e", "gpuwright_busy=skip")
    assert done.returncode == 2, done.stdout
    assert reached(done.stdout) == {"fine": list(LAYERS)}
    assert " ".join(done.stdout.split()).count("alice began to train") == 1
    assert "late locked alice began to train. next: Wait for alice." in summary(done.stdout)


def preflight(site: Site, *arguments: str) -> subprocess.CompletedProcess[str]:
    return site.run("playbooks/preflight.yml", *arguments)


def test_the_inventory_may_say_which_busy_hosts_are_skipped(site: Site) -> None:
    """wait and force go on, and only who said skip has no failure. What a node says of itself is no template."""
    for name, value in {"a": "wait", "b": "force", "c": "SKIP", "d": "", "e": None, "f": "skip"}.items():
        site.busy(name, "python{{ 7 * 7 }}", **({} if value is None else {"gpuwright_busy": value}))
    done = preflight(site)
    assert done.returncode == 2, done.stdout
    failed = dict(re.findall(r"^(\w) .* failed=(\d)", done.stdout, re.MULTILINE))
    assert failed == {**dict.fromkeys("cde", "1"), **dict.fromkeys("abf", "0")}
    end = summary(done.stdout)
    for name, value in {"c": "SKIP", "d": ""}.items():
        assert f"{name} refused gpuwright_busy: must be one of skip, wait, force (given: '{value}')" in end
    assert "e, f busy The GPUs are in use" in end and "a DONE" in end and "b DONE" in end
    assert "python{{ 7 * 7 }} (pid 77, alice)" in end and "python49" not in done.stdout
    # The roles ask again before a step; here it is a remark, with the word that the inventory has for the host.
    for value in ("wait", "force"):
        assert f"Nothing: as gpuwright_busy={value} says" in " ".join(done.stdout.split())


def test_a_default_skips_nobody_silently(site: Site) -> None:
    site.busy("busy")
    defaults = site.folder / "roles/preflight/defaults/main.yml"
    defaults.write_text(defaults.read_text() + "gpuwright_busy: skip\n")
    done = preflight(site)
    assert done.returncode == 2 and "busy busy" in summary(done.stdout), done.stdout


@pytest.mark.parametrize("other", ["refused", "unreachable"])
def test_a_run_that_skipped_another_host_too_fails(site: Site, other: str) -> None:
    site.busy("busy")
    getattr(site, other)("other")
    done = preflight(site, "-e", "gpuwright_busy=skip")
    assert done.returncode == {"refused": 2, "unreachable": 4}[other], done.stdout
    assert "Left out: 2 of 2 hosts." in summary(done.stdout)


def test_a_host_that_is_busy_and_refused_is_refused(site: Site) -> None:
    site.busy("both", verify_expected_gpu_count=2)
    done = preflight(site, "-e", "gpuwright_busy=skip")
    assert done.returncode == 2, done.stdout
    assert "both refused" in summary(done.stdout) and "are in use" in summary(done.stdout)


def test_one_host_may_stop_the_fleet(site: Site) -> None:
    site.host("a5-01")
    site.refused("a5-02")
    site.unreachable("a5-03")
    site.host("a5-04")
    done = site.run("site.yml", "-e", "preflight_on_problem=fleet", "--tags", "system,verify")
    assert done.returncode == 2, done.stdout
    assert reached(done.stdout) == {}
    end = summary(done.stdout)
    assert "Left out: 2 of 4 hosts. Nothing was changed on them. a5-03 unreachable The host cannot be reached" in end
    assert "a5-02 refused CUDA 13.0" in end and "a5-01, a5-04 STOPPED the run ended because of other hosts" in end
    command = "ansible-playbook -i hosts.yml site.yml -e preflight_on_problem=fleet --tags system,verify"
    assert f"To continue without a5-02, a5-03: {command} -l 'gpu_nodes:!a5-02:!a5-03'" in done.stdout
    assert f"To continue with all, once that is fixed: {command}\n" in done.stdout


def test_what_is_wrong_everywhere_is_said_once_before_a_host_is_contacted(site: Site) -> None:
    for number in range(3):
        site.unreachable(f"a5-0{number}")
    site.hosts["a5-02"]["verify_expected_gpu_count"] = "eight"
    done = site.run("site.yml", "-e", "system_driver_brnach=580")
    assert done.returncode == 2 and "UNREACHABLE" not in done.stdout
    assert done.stdout.count("system_driver_brnach") == 1 and done.stdout.count("did you mean") == 1, done.stdout
    assert "1 problem(s) on 3 host(s), the same on each" in " ".join(done.stdout.split())
    assert "GPU nodes: nothing was done on any of them" in done.stdout


def test_a_host_with_a_wrong_inventory_is_left_out_alone_and_not_contacted(site: Site) -> None:
    site.host("a5-01")
    site.unreachable("a5-02", verify_expected_gpu_count="eight", system_driver_brnach="580")
    done = preflight(site)
    assert done.returncode == 2 and "UNREACHABLE" not in done.stdout
    end = summary(done.stdout)
    assert end.count("a5-02 refused") == 2 and "system_driver_branch" in end and "Done: 1 of 2 hosts." in end
    assert " ".join(done.stdout.split()).count("did you mean") == 1
