"""Hosts that carry NVIDIA's own repository file: it is taken over, named when it comes back, and brought back."""

from __future__ import annotations

import functools
import subprocess
from collections.abc import Iterator

import pytest
from conftest import FLEET, REPOSITORY, on_host, play
from image_files import keep_the_images_files
from interrupt.host import containers
from playbook_run import Run

KEYRING = "/usr/share/keyrings/cuda-archive-keyring.gpg"
LIST = "/etc/apt/sources.list.d/cuda-debian12-x86_64.list"
SOURCES = "/etc/apt/sources.list.d/cuda-debian12-x86_64.sources"
REPO = "/etc/yum.repos.d/cuda-rhel8.repo"
OURS = "/etc/yum.repos.d/cuda-rhel8-x86_64.repo"
# As NVIDIA's guide leaves it (dnf config-manager --add-repo), and unsigned.
SECTION = """[cuda-rhel8-x86_64]
name=cuda-rhel8-x86_64
baseurl=http://repo.fleet.test/cuda-rhel8-x86_64
enabled=1
gpgcheck=0
gpgkey=https://developer.download.nvidia.com/compute/cuda/repos/rhel8/x86_64/D42D0685.pub
"""
# A package as cuda-keyring is: the list belongs to it, and is none of its conffiles.
PACKAGE = f"""set -e
d=$(mktemp -d); mkdir -p $d/DEBIAN $d/etc/apt/sources.list.d $d/usr/share/keyrings
printf 'Package: cuda-keyring\\nVersion: 1.1-1\\nArchitecture: all\\n' > $d/DEBIAN/control
printf 'Maintainer: x <x@x>\\nDescription: x\\n' >> $d/DEBIAN/control
echo 'deb [signed-by={KEYRING}] http://repo.fleet.test/cuda-debian12-x86_64/ /' > $d{LIST}
touch $d{KEYRING}
chmod -R u=rwX,go=rX $d; chmod 640 $d{LIST}
dpkg-deb --build --root-owner-group $d /root/keyring.deb >/dev/null && dpkg -i /root/keyring.deb >/dev/null
rm -r $d /root/keyring.deb
"""


def fleet_of(name: str, host: str) -> Iterator[functools.partial[str]]:
    subprocess.run([*FLEET, "up", "--fleet", name, "--hosts", host], cwd=REPOSITORY, check=True)
    subprocess.run([*FLEET, "reset", "--fleet", name, "--hosts", host], cwd=REPOSITORY, check=True)
    yield functools.partial(on_host, fleet=name, host=host)
    subprocess.run([*FLEET, "down", "--fleet", name], cwd=REPOSITORY, check=True)


def run(fleet: str, playbook: str = "site.yml", *arguments: str, **variables: object) -> Run:
    return play(playbook, *arguments, fleet=fleet, system_reboot_policy="allowed", **variables)


def state(path: str) -> str:
    return f"stat -c '%a %U:%G' {path}; sha256sum < {path}"


@pytest.fixture(scope="module")
def el8(tmp_path_factory: pytest.TempPathFactory) -> Iterator[functools.partial[str]]:
    for host in fleet_of("repository-el8", "a5-21"):
        keep_the_images_files(containers.container_name("repository-el8", "a5-21"), tmp_path_factory.mktemp("el8"))
        yield host


@pytest.fixture(scope="module")
def debian12() -> Iterator[functools.partial[str]]:
    yield from fleet_of("repository-debian12", "deb12-11")


def test_el8_takes_the_vendors_file_over_and_brings_it_back(el8: functools.partial[str]) -> None:
    """Its section is the first that dnf reads, unsigned, and another one has the same address under another id."""
    el8(f"cat > {REPO} <<'END'\n{SECTION}\n{SECTION.replace('[cuda-rhel8-x86_64]', '[nvidia]')}END\nchmod 640 {REPO}")
    before = el8(state(REPO))
    fleet = "repository-el8"
    done = run(fleet, "playbooks/preflight.yml")
    assert done.rc == 0 and f"{REPO}:1" in done.text and f"{REPO}:8" in done.text, done.output
    assert "is taken over" in done.text and el8(state(REPO)) == before
    done = run(fleet, "site.yml", "--check")
    assert done.rc == 0 and el8(state(REPO)) == before, done.output
    done = run(fleet)
    assert done.rc == 0 and "PASS" in done.text, done.output
    said = el8("dnf config-manager --dump cuda-rhel8-x86_64")
    assert "gpgcheck = 1" in said and "repo_gpgcheck = 1" in said, said
    assert el8("dnf repolist --all 2>/dev/null | awk '$1 ~ /nvidia|cuda/ {print $1}'") == "cuda-rhel8-x86_64"
    assert el8(f"cat {REPO}").count("gpuwright has taken this source over") == 2
    done = run(fleet)
    assert (done.rc, done.changed) == (0, 0), done.output
    # Somebody adds a file to the finished node: one plain run takes it over.
    new = "/etc/yum.repos.d/new.repo"
    el8(f"cat > {new} <<'END'\n{SECTION.replace('[cuda-rhel8-x86_64]', '[new]')}END")
    added = el8(state(new))
    done = run(fleet)
    assert done.rc == 0 and "PASS" in done.text and "gpuwright has taken" in el8(f"cat {new}"), done.output
    # It comes back: the verification asks dnf and fails, level quick sees another file.
    el8(f"cp -p {REPO} /root/taken; cat > {REPO} <<'END'\n{SECTION}END")
    quick = el8("gpu-doctor --level quick --json || true")
    assert "host.repository_files" in quick and REPO in quick, quick
    done = run(fleet, "playbooks/verify.yml")
    assert done.rc != 0 and "host.repositories" in done.text and REPO in done.text, done.output
    # Whatever has written it would write it again.
    done = run(fleet)
    assert done.rc != 0 and "[repository.elsewhere]" in done.text and f"{REPO}:1" in done.text, done.output
    assert "has come back" in done.text
    el8(f"mv /root/taken {REPO}")
    done = run(fleet)
    assert done.rc == 0 and "PASS" in done.text, done.output
    done = run(fleet, "playbooks/uninstall.yml")
    assert done.rc == 0 and "0 differences from the first record of" in done.text, done.output
    assert el8(state(REPO)) == before and el8(state(new)) == added and el8(f"ls {OURS} 2>/dev/null", check=False) == ""


def test_debian12_takes_the_vendors_file_over_and_brings_it_back(debian12: functools.partial[str]) -> None:
    """Two keys for one address: apt would refuse all of its sources."""
    fleet = "repository-debian12"
    debian12(PACKAGE)
    before = debian12(state(LIST))
    done = run(fleet, "playbooks/preflight.yml")
    assert done.rc == 0 and f"{LIST}:1" in done.text and "is taken over" in done.text, done.output
    done = run(fleet)
    assert done.rc == 0 and "PASS" in done.text, done.output
    assert debian12(f"grep -c '^deb' {LIST} || true") == "0"
    assert debian12(
        "apt-get -q update >/dev/null && apt-get indextargets --format '$(SOURCESENTRY)' | grep cuda | sort -u"
    ) == (f"{SOURCES}:1")
    done = run(fleet)
    assert (done.rc, done.changed) == (0, 0), done.output
    # Somebody adds a file to the finished node: one plain run takes it over.
    first = "/etc/apt/sources.list.d/first.list"
    debian12(f"echo 'deb [arch=amd64] http://repo.fleet.test/cuda-debian12-x86_64 /' > {first}")
    added = debian12(state(first))
    done = run(fleet)
    assert done.rc == 0 and "PASS" in done.text and debian12(f"grep -c ^deb {first} || true") == "0", done.output
    # A package that is installed after the node was provisioned: apt is deaf, and the next run mends it.
    address = "http://repo.fleet.test/cuda-debian12-x86_64"
    debian12(f"echo 'deb [arch=amd64] {address} /' > /etc/apt/sources.list.d/new.list")
    stanza = f"Types: deb\\nURIs: {address}/\\nSuites: ./\\nSigned-By: {KEYRING}\\n"
    debian12(f"printf '{stanza}' > /etc/apt/sources.list.d/newer.sources")
    later = debian12(state("/etc/apt/sources.list.d/new.list"))
    done = run(fleet, "playbooks/verify.yml")
    assert done.rc != 0 and "host.repositories" in done.text and "new" in done.text, done.output
    done = run(fleet)
    assert done.rc == 0 and "PASS" in done.text, done.output
    done = run(fleet, "playbooks/uninstall.yml")
    assert done.rc == 0 and "0 differences from the first record of" in done.text, done.output
    assert (
        debian12(state(LIST)) == before
        and debian12(state(first)) == added
        and debian12(state("/etc/apt/sources.list.d/new.list")) == later
    )
    assert debian12(f"ls {SOURCES} 2>/dev/null", check=False) == ""
