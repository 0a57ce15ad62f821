"""Security updates behind a lock: dnf's own answers, and a real apt with archives of its own."""

from __future__ import annotations

import os
import shutil
import time
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest
from gpuwright.checks.host.held_updates_reading import name_of_rpm, read_held_updates
from gpuwright.host.bounded import Finished, run_bounded
from host_tree import HostTree

LOCKS = "/etc/dnf/plugins/versionlock.list"
# As dnf 4.14 prints them.
ADVISORIES = """\
RHSA-2026:0001  Important/Sec. kernel-4.18.0-553.33.1.el8_10.x86_64
RHSA-2026:0001  Important/Sec. kernel-core-4.18.0-553.33.1.el8_10.x86_64
RHSA-2026:0007  Critical/Sec.  openssl-1:1.1.1k-14.el8_6.x86_64
FEDORA-EPEL-2026-12ab Unknown/Sec. dkms-3.1.0-2.el8.noarch
"""
needs_apt = pytest.mark.skipif(not shutil.which("apt-get"), reason="apt belongs to Debian")
MACHINE = "amd64"
EL: dict = {"os": {"family": "redhat"}}
DEBIAN: dict = {"os": {"family": "debian"}}


def answers(stdout: str = "", rc: int = 0, stderr: str = "") -> Callable[[Sequence[str], float], Finished]:
    return lambda words, seconds: Finished(rc, stdout, stderr, False, False, False, "")


@pytest.fixture
def host(tmp_path):
    tree = HostTree(tmp_path)
    tree.put(
        LOCKS,
        "gpuwright-BEGIN-kernel-0:0-0.*\nkernel-0:4.18.0-477.10.1.el8_8.*\n# END\n!openssl-1:1.1.1k-9.el8.*\ndkms*\n",
    )
    return tree


def test_only_packages_with_a_lock_are_named(host):
    assert read_held_updates(host.root, EL, answers(ADVISORIES)) == {
        "manager": "dnf",
        "updates": [
            {"package": "kernel-4.18.0-553.33.1.el8_10.x86_64", "advisory": "RHSA-2026:0001 (Important)"},
            {"package": "dkms-3.1.0-2.el8.noarch", "advisory": "FEDORA-EPEL-2026-12ab (Unknown)"},
        ],
        "days": None,
    }


def test_the_age_of_the_newest_list_is_read(host, tmp_path):
    now = time.time()
    for folder, days in (("baseos-1", 40.5), ("cuda-2", 3.9)):
        host.put(f"/var/cache/dnf/{folder}/repodata/repomd.xml", "")
        os.utime(host.folder / f"var/cache/dnf/{folder}/repodata/repomd.xml", (now, now - days * 86400))
    host.put("/var/cache/dnf/cuda-2/repodata/other.xml", "")
    assert (read_held_updates(host.root, EL, answers()) or {})["days"] == 3
    host.put("/var/lib/dpkg/status", package("z", "1", "hold"))
    host.put("/var/lib/apt/lists/archive_main_Packages", "")
    for name, days in (("archive_InRelease", -2), ("security_Release", 50)):
        host.put(f"/var/lib/apt/lists/{name}", "")
        os.utime(host.folder / f"var/lib/apt/lists/{name}", (now, now - days * 86400))
    assert (read_held_updates(host.root, DEBIAN, answers()) or {})["days"] == 0


def test_nothing_is_asked_where_nothing_is_held(host):
    host.put(LOCKS, "# empty\n")
    assert read_held_updates(host.root, EL, answers(rc=1)) is None


def test_lists_that_were_never_fetched_are_no_answer(host):
    error = "Error: Cache-only enabled but no cache for 'baseos'\n"
    assert read_held_updates(host.root, EL, answers(rc=1, stderr=error)) == {
        "manager": "dnf",
        "updates": None,
        "days": None,
    }


@pytest.mark.parametrize(("error", "words"), [("Error: no space\n", "no space"), ("", "status 1")])
def test_a_failure_is_not_nothing(host, error, words):
    with pytest.raises(OSError, match=words):
        read_held_updates(host.root, EL, answers(rc=1, stderr=error))


@pytest.mark.parametrize(
    ("package", "name"),
    [
        ("kernel-core-4.18.0-553.el8_10.x86_64", "kernel-core"),
        ("openssl-1:1.1.1k-14.el8_6.x86_64", "openssl"),
        ("python3.11-3.11.9-7.el8_10.1.x86_64", "python3.11"),
    ],
)
def test_the_name_of_a_package(package, name):
    assert name_of_rpm(package) == name


@pytest.mark.parametrize("family", ["suse", "unknown"])
def test_a_system_without_either_holds_nothing_with_them(host, family):
    host.put(LOCKS, "kernel-core-0:4.18.0-477.10.1.el8_8.*\n")
    assert read_held_updates(host.root, {"os": {"family": family}}, answers()) is None


@pytest.mark.parametrize("probe", [{"os": None}, {"unreadable": "no os-release"}])
def test_an_unknown_system_is_said(tmp_path, probe):
    with pytest.raises(OSError, match="which package manager"):
        read_held_updates(str(tmp_path), probe)


def test_the_other_ones_package_manager_may_be_installed(host):
    """EPEL has dpkg."""
    host.put("/var/lib/dpkg/status", "")
    assert (read_held_updates(host.root, EL, answers(ADVISORIES)) or {})["manager"] == "dnf"


@pytest.mark.parametrize(
    ("preference", "held"),
    [
        ("Package: x\nPin: version 1.2*\nPin-Priority: 1001\n", True),
        ("Package: nodejs\nPin: origin deb.nodesource.com\nPin-Priority: 600\n", False),
        ("Package: *\nPin: release a=bookworm-backports\nPin-Priority: 100\n", False),
        ("# Pin: version 1\n", False),
    ],
)
def test_where_nothing_is_held_apt_is_not_asked(tmp_path, preference, held):
    tree = HostTree(tmp_path)
    tree.put("/etc/apt/preferences.d/site", preference)
    asked: list[Sequence[str]] = []

    def run(words: Sequence[str], seconds: float) -> Finished:
        asked.append(words)
        return Finished(0, "", "", False, False, False, "")

    tree.put("/var/lib/apt/lists/archive_Packages", "")
    assert (read_held_updates(tree.root, DEBIAN, run) is not None) == held == bool(asked)


def test_a_hold_of_the_last_of_many_packages(tmp_path):
    tree = HostTree(tmp_path)
    status = "".join(package(f"p{number}", "1", "install") for number in range(20_000)) + package("z", "1", "hold")
    assert len(status) > 1 << 20
    tree.put("/var/lib/dpkg/status", status)
    assert read_held_updates(tree.root, DEBIAN, answers()) == {"manager": "apt", "updates": None, "days": None}


def package(name: str, version: str, status: str = "") -> str:
    lines = [f"Package: {name}", f"Version: {version}", f"Architecture: {MACHINE}", "Maintainer: x", "Description: x"]
    lines += [f"Status: {status} ok installed"] if status else [f"Filename: {name}_{version}.deb", "Size: 1"]
    return "\n".join([*lines, *([] if status else [f"SHA256: {'0' * 64}"])]) + "\n\n"


class Debian:
    """A made-up system for a real apt: what is installed, and one archive for updates and one for their security."""

    def __init__(self, folder: Path) -> None:
        self.tree, self.folder = HostTree(folder), folder
        for name in ("etc/apt/preferences.d", "var/lib/apt/lists/partial", "var/cache/apt/archives/partial"):
            (folder / name).mkdir(parents=True)
        self.tree.put("/var/lib/dpkg/status", package("held", "1", "hold") + package("pinned", "1", "install"))
        for suite, packages in (
            ("stable", package("held", "2")),
            ("stable-security", package("held", "3") + package("pinned", "2") + package("other", "2")),
        ):
            place = folder / "archive" / suite
            place.mkdir(parents=True)
            (place / "Packages").write_text(packages)
            label = "Debian-Security" if suite.endswith("security") else "Debian"
            (place / "Release").write_text(
                f"Origin: Debian\nLabel: {label}\nSuite: {suite}\nArchitectures: {MACHINE}\n"
            )
        lines = [f"deb [trusted=yes] file:{folder}/archive {suite}/\n" for suite in ("stable", "stable-security")]
        self.tree.put("/etc/apt/sources.list", "".join(lines))

    def run(self, words: Sequence[str], seconds: float) -> Finished:
        state = ["-o", f"Dir::State::status={self.folder}/var/lib/dpkg/status", "-o", f"APT::Architecture={MACHINE}"]
        return run_bounded([words[0], "-o", f"Dir={self.folder}", *state, *words[1:]], seconds)

    def fetch(self) -> None:
        done = self.run(["apt-get", "-o", "APT::Sandbox::User=root", "update"], 60)
        assert done.rc == 0, done.stderr

    def pin(self) -> None:
        self.tree.put("/etc/apt/preferences.d/kernel", "Package: pinned\nPin: version 1\nPin-Priority: 1001\n")


@pytest.fixture
def debian(tmp_path):
    return Debian(tmp_path)


@needs_apt
def test_apt_is_asked_with_holds_and_preferences_and_without(debian):
    debian.fetch()
    debian.pin()
    assert read_held_updates(debian.tree.root, DEBIAN, debian.run) == {
        "manager": "apt",
        "updates": [
            {"package": "held 3", "advisory": "Debian-Security:stable-security"},
            {"package": "pinned 2", "advisory": "Debian-Security:stable-security"},
        ],
        "days": 0,
    }


@needs_apt
def test_an_update_that_nothing_holds_is_not_named(debian):
    """It comes with the next upgrade."""
    debian.fetch()
    found = read_held_updates(debian.tree.root, DEBIAN, debian.run) or {}
    assert [one["package"] for one in found["updates"]] == ["held 3"]


@needs_apt
def test_apt_without_lists_is_no_answer(debian):
    assert read_held_updates(debian.tree.root, DEBIAN, debian.run) == {"manager": "apt", "updates": None, "days": None}
