"""playbooks/accept.yml on made-up nodes: who is named, what is written, and what is left on the nodes."""

from __future__ import annotations

from pathlib import Path

import pytest
from accept_site import AcceptSite


@pytest.fixture
def site(tmp_path: Path) -> AcceptSite:
    return AcceptSite(tmp_path)


def told(output: str) -> str:
    return " ".join(output.split())


def test_of_four_nodes_the_slow_one_is_named_and_the_others_are_accepted(site: AcceptSite) -> None:
    for name in ("a1", "a2", "a4"):
        site.node(name)
    site.node("a3", speed=0.5, alone=0.7)
    done = site.run("-e", "accept_minutes=1")
    assert done.returncode == 2, done.stdout
    assert {name: site.certificate(name)["verdict"] for name in site.nodes} == {
        "a1": "ACCEPTED", "a2": "ACCEPTED", "a3": "NOT ACCEPTED", "a4": "ACCEPTED"
    }  # fmt: skip
    assert {"accept.outlier", "accept.between"} <= set(site.findings("a3"))
    assert "[accept.refused]" in done.stdout and "a3 is not accepted" in told(done.stdout)
    assert "30 % below the median of 4 nodes" in told(done.stdout)
    assert site.left() == []
    # All of a group worked at the same time, each in its own place.
    places = [options["--node-rank"] for _host, what, options in site.calls() if what == "group"]
    assert places[:4] == sorted(places[:4]) or set(places[:4]) == {"0", "1", "2", "3"}
    assert "NOT ACCEPTED" in site.page("a3") and "Tesla V100" in site.page("a1")


def test_check_mode_says_what_would_be_run_and_runs_nothing(site: AcceptSite) -> None:
    site.node("a1")
    done = site.run("--check", "-e", "accept_minutes=480")
    assert done.returncode == 0, done.stdout
    assert "a1 would be loaded for 480 minutes on 1 GPUs" in told(done.stdout) and "Nothing was run." in told(
        done.stdout
    )
    assert site.calls() == [] and site.left() == [] and not (site.folder / "reports").exists()


def test_a_busy_node_is_refused_with_force_too(site: AcceptSite) -> None:
    site.site.tasks("system_busy", [{"ansible.builtin.set_fact": {"system_busy_held": "a1 is in use by alice."}}])
    site.node("a1")
    done = site.run("-e", "gpuwright_busy=force")
    assert done.returncode == 2 and "a1 is in use by alice. An acceptance needs the whole node" in told(done.stdout)
    assert "[accept.busy]" in done.stdout and site.calls() == [] and site.left() == []


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ("accept_minutes=0", 'accept_minutes is "0", expected 1 to 10080 minutes.'),
        ("accept_port=80", "accept_port is 80, expected 0 or 1024 to 65535"),
    ],
)
def test_a_value_outside_its_range_is_refused_before_anything_is_run(site: AcceptSite, given: str, words: str) -> None:
    site.node("a1")
    done = site.run("-e", given)
    assert done.returncode == 2 and words in told(done.stdout), done.stdout
    assert site.calls() == [] and not (site.folder / "reports").exists()
