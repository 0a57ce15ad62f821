"""playbooks/advisories.yml with ansible-playbook itself, on a made-up node with the real plan and lock file."""

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
    clean = site.run("playbooks/advisories.yml", "-e", file)
    assert clean.returncode == 0 and "No known vulnerability" in clean.stdout, clean.stdout
    advise(site, "torch")
    done = site.run("playbooks/advisories.yml", "-e", file)
    said = " ".join(done.stdout.split())
    assert done.returncode == 2 and "[advisories.found]" in said, done.stdout
    assert "torch 2.13.0+cpu: GHSA-torch (HIGH), fixed in 9999 [py3.11-torch2.13.0-cpu.txt]" in said
    assert "a1 has 1 known vulnerabilities, 0 unknown" in said


def test_without_a_route_and_a_file_nothing_is_called_clean(site: Site) -> None:
    done = site.run("playbooks/advisories.yml", https_proxy="http://127.0.0.1:1")
    said = " ".join(done.stdout.split())
    assert done.returncode == 2 and "[advisories.unreachable]" in said and "No known vulnerability" not in said
