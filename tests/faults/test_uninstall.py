"""A bare host is provisioned and uninstalled, and is what it was, by a snapshot that knows nothing of the record."""

from __future__ import annotations

import re
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from conftest import FLEET, REPOSITORY, Run, on_host, play
from image_files import keep_the_images_files
from interrupt import record
from interrupt.host import containers, podman

FLEET_NAME, HOST = "uninstall", "a5-51"
WORDS = ["--fleet", FLEET_NAME, "--hosts", HOST]
# The lock's folder in /run, which a boot empties.
PASSING = "run ./"
# Stand-ins own files and no folders, and of Python's modules not what it compiles them to: what they leave are empty
# folders, and such as hold nothing else, where no record looks.
LEFT_FOLDER = re.compile(r"file (/usr/\S+|/etc/sv/\S+): is not there, found folder 0755 0:0")
SITES = "/etc/yum.repos.d/site.repo"


class Seen:
    """The host as this machine sees it."""

    container = containers.container_name(FLEET_NAME, HOST)

    def root(self) -> Path:
        pid = podman("inspect", "--format", "{{.State.Pid}}", self.container).stdout.strip()
        return Path(f"/proc/{pid}/root")

    def do(self, script: str, check: bool = True) -> str:
        return podman("exec", self.container, "sh", "-c", script, check=check, timeout=120).stdout


class Bare:
    """What the host was at first."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.state = self.read()

    def read(self) -> record.State:
        return record.read(Seen(), record.Hashes(self.folder / "hashes"))

    def differences(self) -> list[str]:
        lines = [line for line in record.differences(self.state, self.read()) if not line.startswith(PASSING)]
        folders = {line: match.group(1) for line in lines if (match := LEFT_FOLDER.fullmatch(line))}
        used = {place for place in folders.values() if Seen().do(f"find {place} ! -type d ! -name '*.pyc'").strip()}
        return [line for line in lines if folders.get(line, line) in used or line not in folders]


def at_host(script: str) -> str:
    return on_host(script, fleet=FLEET_NAME, host=HOST)


def site(*arguments: str) -> Run:
    return play("site.yml", *arguments, fleet=FLEET_NAME)


def uninstall(*arguments: str) -> Run:
    return play("playbooks/uninstall.yml", *arguments, fleet=FLEET_NAME, system_reboot_policy="allowed")


@pytest.fixture(scope="module")
def bare(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Bare]:
    """A bare host, after a first login: that makes ssh's and sudo's own files."""
    subprocess.run([*FLEET, "up", *WORDS], cwd=REPOSITORY, check=True)
    subprocess.run([*FLEET, "reset", *WORDS], cwd=REPOSITORY, check=True)
    assert play("playbooks/preflight.yml", fleet=FLEET_NAME).rc == 0
    folder = tmp_path_factory.mktemp("uninstall")
    keep_the_images_files(Seen.container, folder)
    yield Bare(folder)
    subprocess.run([*FLEET, "down", "--fleet", FLEET_NAME], cwd=REPOSITORY, check=True)


def test_a_dry_run_writes_no_record(bare: Bare) -> None:
    assert site("--check").rc == 0
    assert bare.differences() == []


def test_a_provisioned_host_is_what_it_was_before(bare: Bare) -> None:
    done = site()
    assert done.rc == 0, done.output
    assert at_host("stat -c '%a %U' /var/lib/gpuwright/first-record.json") == "600 root"
    provisioned = bare.read()
    done = uninstall("--check")
    assert done.rc == 0 and "are to be undone" in done.text, done.output
    assert record.differences(provisioned, bare.read()) == []
    done = uninstall()
    assert done.rc == 0 and "0 differences from the first record of" in done.text, done.output
    assert bare.differences() == []


def test_a_second_uninstallation_changes_nothing(bare: Bare) -> None:
    done = uninstall()
    assert (done.rc, done.changed) == (0, 0) and "0 differences from the first record of" in done.text, done.output
    assert bare.differences() == []


def test_a_half_installed_host_is_what_it_was_before(bare: Bare) -> None:
    """The layers above are missing, and the driver was refused before it was installed."""
    done = play("playbooks/system.yml", "--tags", "system_kernel,system_runtime", fleet=FLEET_NAME)
    assert done.rc == 0 and done.changed > 0, done.output
    done = uninstall()
    assert done.rc == 0 and "0 differences from the first record of" in done.text, done.output
    assert bare.differences() == []


def test_what_an_administrator_added_and_changed_stays_and_is_named(bare: Bare) -> None:
    done = play("playbooks/system.yml", "--tags", "system_kernel,system_runtime", fleet=FLEET_NAME)
    assert done.rc == 0, done.output
    # A package of theirs that needs one of ours, one that needs none, a repository, and an edit.
    at_host("dnf -y -q install gcc-c++ && rpm -q gcc")
    at_host(f"printf '[site]\\nname=site\\nbaseurl=http://127.0.0.1:9/\\nenabled=0\\n' > {SITES}")
    at_host("echo '# by hand' >> /etc/gpuwright/runtime.json")
    done = uninstall()
    assert done.rc == 0, done.output
    for name in (SITES, "/etc/gpuwright/runtime.json"):
        assert f"{name} stays" in done.text, done.output
    assert re.search(r"gcc\.x86_64 stays .*gcc-c\+\+-\S+ needs it", done.text), done.output
    assert "# by hand" in at_host("cat /etc/gpuwright/runtime.json") and at_host(
        "cat /var/lib/gpuwright/first-record.json"
    )
    # Once they are gone, the same command finishes.
    at_host(f"rm {SITES} /etc/gpuwright/runtime.json; dnf -y -q remove gcc-c++")
    done = uninstall()
    assert done.rc == 0 and "0 differences" in done.text, done.output
    assert bare.differences() == []


def test_it_is_provisioned_again(bare: Bare) -> None:
    done = site()
    assert done.rc == 0 and "PASS" in done.text, done.output
