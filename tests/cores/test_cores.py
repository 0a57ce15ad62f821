"""From bare to PASS under each ansible-core, in the order of a site's first day; the steps build on each other."""

from __future__ import annotations

from typing import Any

from conftest import BUILDER, DEBIAN, EL8, ELSEWHERE, NODE, NODES, Bundled, Run, Site, on_host
from releases_of_core import PINNED, RELEASES

LOCK = "/run/gpuwright/operator.json"
# What Ansible says where it goes on without one of the toolkit's callbacks, and of what it will no longer do.
UNWANTED = ("Callback dispatch", "Failure using method", "INJECT_FACTS_AS_VARS", "is undefined", "Traceback")


def whole(done: Run) -> Run:
    """The run, of which nothing was lost on the way."""
    assert [word for word in UNWANTED if word in done.output] == [], done.output[-6000:]
    return done


def rows(hosts: dict[str, Any]) -> dict[str, Any]:
    """What a record of drift says of each host, without what differs from one look to the next."""
    return {
        name: {
            "status": host["status"],
            "verdict": host["verdict"],
            "differences": sorted(str(sorted(row.items())) for row in host["differences"]),
            "unknown": sorted(str(sorted(row.items())) for row in host["unknown"]),
        }
        for name, host in hosts.items()
    }


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


def test_a_dry_run_on_bare_hosts(site: Site) -> None:
    done = whole(site.play("site", "--check", "-l", NODES))
    assert done.rc == 0 and {done.word(name) for name in (NODE, DEBIAN)} == {"CHECKED"}, done.output


def test_drift_of_bare_hosts_is_the_same_under_each_core(site: Site, pinned: Site) -> None:
    done, found = site.drift()
    assert whole(done).rc == 2 and {host["status"] for host in found.values()} == {"drift"}, done.output
    assert {host["verdict"] for host in found.values()} == {"FAIL"} and set(found) == {NODE, DEBIAN}
    _done, known = pinned.drift()
    assert rows(found) == rows(known)
    print(
        f"\n{site.core.version}: { ({name: len(host['differences']) for name, host in found.items()}) } rows of drift"
    )


def test_from_bare_to_pass_with_a_bundle_and_without(site: Site, bundled: Bundled) -> None:
    made = whole(site.play("bundle", "-l", f"{NODE},{BUILDER},localhost"))
    assert made.rc == 0 and bundled.signer in made.output.replace("\n", "").replace(" ", ""), made.output
    done = whole(site.play("site", "-l", NODES, *bundled.use))
    assert done.rc == 0 and {done.word(name) for name in (NODE, DEBIAN)} == {"PASS"}, done.output
    assert "file:///var/lib/gpuwright/bundle/" in on_host(NODE, "cat /etc/yum.repos.d/*.repo")
    assert locks() == {NODE: "", DEBIAN: ""}


def test_another_controller_finds_the_locks_released_and_nothing_to_do(site: Site, bundled: Bundled) -> None:
    done = whole(site.play("site", "-l", NODES, *bundled.use, prefix=ELSEWHERE))
    assert done.rc == 0 and {done.word(name) for name in (NODE, DEBIAN)} == {"PASS"}, done.output
    assert {done.count(name, "changed") for name in (NODE, DEBIAN)} == {0}
    assert locks() == {NODE: "", DEBIAN: ""}


def test_a_verification_in_check_mode(site: Site) -> None:
    done = whole(site.play("verify", "--check", "-l", NODES))
    assert done.rc == 0 and {done.word(name) for name in (NODE, DEBIAN)} == {"PASS"}, done.output


def test_a_finished_host_has_no_drift_under_any_core(site: Site, pinned: Site) -> None:
    done, found = site.drift("-l", DEBIAN)
    assert whole(done).rc == 0 and rows(found)[DEBIAN]["status"] == "no drift", done.output
    assert found[DEBIAN]["verdict"] == "PASS"
    _done, known = pinned.drift("-l", DEBIAN)
    assert rows(found) == rows(known)
