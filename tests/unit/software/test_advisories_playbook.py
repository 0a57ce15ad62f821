"""playbooks/software.yml with ansible-playbook itself, on a made-up node with the real plan and lock file."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from conftest import REPOSITORY
from left_out_site import Site

EVENTS = [{"introduced": "0"}, {"fixed": "9999"}]


@pytest.fixture
def site(tmp_path: Path) -> Site:
    made = Site(tmp_path)
    (tmp_path / "trainer").symlink_to(REPOSITORY / "trainer")
    made.host("a1")
    (tmp_path / "export").mkdir()
    return made


def advise(site: Site, name: str) -> None:
    package = {"ecosystem": "PyPI", "name": name}
    affected = [{"package": package, "ranges": [{"type": "ECOSYSTEM", "events": EVENTS}]}]
    text = json.dumps({"id": f"GHSA-{name}", "affected": affected, "database_specific": {"severity": "HIGH"}})
    (site.folder / f"export/{name}.json").write_text(text)


def test_what_is_known_is_printed_and_ends_with_an_error(site: Site) -> None:
    advise(site, "django")
    file = f"advisories_file={site.folder}/export"
    clean = site.run("playbooks/software.yml", "--tags", "advisories", "-e", file)
    assert clean.returncode == 0 and "No known vulnerability" in clean.stdout, clean.stdout
    advise(site, "torch")
    done = site.run("playbooks/software.yml", "--tags", "advisories", "-e", file)
    said = " ".join(done.stdout.split())
    assert done.returncode == 2 and "[advisories.found]" in said, done.stdout
    assert "torch 2.13.0+cpu: GHSA-torch (HIGH), fixed in 9999 [py3.11-torch2.13.0-cpu.txt]" in said
    assert "a1 has 1 known vulnerabilities, 0 unknown" in said


def test_without_a_route_and_a_file_nothing_is_called_clean(site: Site) -> None:
    done = site.run("playbooks/software.yml", "--tags", "advisories", https_proxy="http://127.0.0.1:1")
    said = " ".join(done.stdout.split())
    assert done.returncode == 2 and "[advisories.unreachable]" in said and "No known vulnerability" not in said


def test_a_node_with_cards_and_without_a_driver_is_not_called_clean(site: Site) -> None:
    site.host("g1", "T4")
    advise(site, "django")
    done = site.run(
        "playbooks/software.yml", "--tags", "advisories", "--limit", "g1", "-e", f"advisories_file={site.folder}/export"
    )
    said = " ".join(done.stdout.split())
    assert done.returncode == 2 and "[advisories.found]" in said and "No known vulnerability" not in said, done.stdout
    assert "UNKNOWN NVIDIA driver 535: none is installed, and the plan names no version" in said
    assert "NVIDIA's driver bulletins as of 2026-09-30" in said and "Not compared with anything here" in said


def test_a_pinned_driver_with_a_known_hole_is_told_with_its_fix(site: Site) -> None:
    site.host("g1", "T4", system_driver_source="nvidia", system_driver_version="580.159.03")
    advise(site, "django")
    done = site.run(
        "playbooks/software.yml", "--tags", "advisories", "--limit", "g1", "-e", f"advisories_file={site.folder}/export"
    )
    said = " ".join(done.stdout.split())
    assert done.returncode == 2 and "NVIDIA driver 580.159.03: NVIDIA-5861, CVE-2026-47489" in said, done.stdout
    assert "(HIGH), fixed in 580.178.04 [driver]" in said
