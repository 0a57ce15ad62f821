"""From bare to PASS under each ansible-core, in the order of a site's first day; the steps build on each other."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from conftest import BUILDER, DEBIAN, EL8, NODE, NODES, TOLD, Bundled, Run, Site, on_host, rows
from kept_drift import KeptDrift
from releases_of_core import PINNED, RELEASES

LOCK = "/run/gpuwright/operator.json"
# What Ansible says where it goes on without one of the toolkit's callbacks, and of what it will no longer do.
UNWANTED = (
    "Callback dispatch",
    "DEPRECATION WARNING",
    "Failure using method",
    "INJECT_FACTS_AS_VARS",
    "is undefined",
    "Traceback",
)


def whole(done: Run) -> Run:
    """The run, of which nothing was lost on the way."""
    assert [word for word in UNWANTED if word in done.output] == [], done.output[-6000:]
    return done


def locks() -> dict[str, str]:
    return {name: on_host(name, f"cat {LOCK} 2>/dev/null || true") for name in (NODE, DEBIAN)}


def test_el8_is_managed_by_one_release_alone(site: Site) -> None:
    done = whole(site.play("preflight", "-l", EL8))
    if site.core.minor == PINNED:
        assert done.rc == 0 and done.word(EL8) == "DONE", done.output
    else:
        assert done.rc == 2 and done.word(EL8) == "refused", done.output
        assert f"ansible-core {site.core.version} cannot manage" in done.text and RELEASES[PINNED] in done.text
        assert "[plan.conflict]" in done.text


def test_a_plan_without_a_host(site: Site) -> None:
    """Without a system, for one that this release can manage."""
    done = whole(site.play("plan", "-e", "gpu=V100"))
    system = "rhel 8.10" if site.core.minor == PINNED else "ubuntu 24.04"
    assert done.rc == 0 and "cuda-toolkit-12-9" in done.output and system in done.text, done.output


def test_a_wrong_variable_is_told_with_its_place(site: Site, tmp_path: Path) -> None:
    (tmp_path / "wrong.yml").write_text("---\nverify_level: deeper\n")
    done = site.play("preflight", "-l", NODES, "-e", f"@{tmp_path}/wrong.yml")
    assert done.rc == 2 and f"set in {tmp_path}/wrong.yml:2" in done.text, done.output


def test_a_misspelt_start_is_no_success(site: Site) -> None:
    """Since 2.19, Ansible ends with a traceback of its own where --step has no input."""
    for words in (("--start-at-task", "No such task"), ("--step",)):
        done = site.play("preflight", "-l", NODES, *words)
        assert done.rc not in (0, None) and "nothing was done on any of them" in done.text, done.output
        assert "[run.no_task]" in done.text and "DONE" not in done.text


def test_drift_of_bare_hosts_is_the_same_under_each_core(site: Site, drift_of_bare_hosts: KeptDrift) -> None:
    """It enters every role in check mode, as a dry run of site.yml does."""
    done, found = site.drift()
    assert whole(done).rc == 2 and {host["status"] for host in found.values()} == {"drift"}, done.output
    assert {host["verdict"] for host in found.values()} == {"FAIL"} and set(found) == {NODE, DEBIAN}
    if site.core.minor == PINNED:
        drift_of_bare_hosts.keep(rows(found))
    assert rows(found) == drift_of_bare_hosts.beside(rows(found))


def test_from_bare_to_pass_with_a_bundle_and_without(site: Site, bundled: Bundled) -> None:
    made = whole(site.play("bundle", "-l", f"{NODE},{BUILDER},localhost"))
    assert made.rc == 0 and bundled.signer in made.output.replace("\n", "").replace(" ", ""), made.output
    done = whole(site.play("site", "-l", NODES, *bundled.use))
    assert done.rc == 0 and {done.word(name) for name in (NODE, DEBIAN)} == {"PASS"}, done.output
    # A bundle's packages are found by dnf's own Python, whatever Ansible has chosen; nodes have it from the start.
    newer = {name: bool(on_host(name, f"cat {TOLD} 2>/dev/null || true")) for name in (BUILDER, NODE, DEBIAN)}
    assert newer == {BUILDER: site.core.minor != PINNED, NODE: False, DEBIAN: False}
    assert "file:///var/lib/gpuwright/bundle/" in on_host(NODE, "cat /etc/yum.repos.d/*.repo")
    assert locks() == {NODE: "", DEBIAN: ""}


def test_another_controller_finds_the_locks_released_and_nothing_to_do(site: Site, bundled: Bundled) -> None:
    done = whole(site.play("site", "-l", NODES, *bundled.use, elsewhere=True))
    assert done.rc == 0 and {done.word(name) for name in (NODE, DEBIAN)} == {"PASS"}, done.output
    assert {done.count(name, "changed") for name in (NODE, DEBIAN)} == {0}
    assert locks() == {NODE: "", DEBIAN: ""}


def test_a_dry_run_of_the_verification(site: Site, bundled: Bundled) -> None:
    done = whole(site.play("verify", "--check", "-l", NODES, *bundled.use))
    assert done.rc == 0 and {done.word(name) for name in (NODE, DEBIAN)} == {"PASS"}, done.output
    assert done.text.count("nothing would change") == len((NODE, DEBIAN)), done.output


def test_finished_hosts_have_no_drift(site: Site, bundled: Bundled) -> None:
    """A dry run of site.yml, from the bundle and without, of which each difference would be named."""
    done, found = site.drift(*bundled.use)
    assert whole(done).rc == 0 and set(found) == {NODE, DEBIAN}, done.output
    nothing: list[Any] = []
    clean = {"status": "no drift", "verdict": "PASS", "differences": nothing, "unknown": nothing}
    assert rows(found) == {NODE: clean, DEBIAN: clean}
