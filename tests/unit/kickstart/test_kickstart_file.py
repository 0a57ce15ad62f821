"""Kickstarts, read by pykickstart as Anaconda reads them: each release takes them, and they mean what was asked for."""

from __future__ import annotations

import re
import shlex
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from machines import ANACONDA_CASES, DISK, HASH, INSTALLERS, ODD_KEY, STATIC, key, row, scripts, text, variables
from pykickstart.base import DeprecatedCommand, RemovedCommand
from pykickstart.handlers.control import commandMap
from pykickstart.parser import KickstartParser
from pykickstart.version import makeVersion

KSVALIDATOR = Path(sys.executable).parent / "ksvalidator"
ON_DISK = DISK.removeprefix("/dev/")
ANACONDA = [entry for entry in INSTALLERS if entry["form"] == "anaconda"]


def validated(folder: Path, content: str, syntax: str) -> subprocess.CompletedProcess[str]:
    """ksvalidator, for which a deprecated command is an error, too."""
    assert KSVALIDATOR.exists(), "pykickstart is missing: make venv"
    file = folder / "ks.cfg"
    file.write_text(content)
    return subprocess.run([KSVALIDATOR, "-v", syntax, file], capture_output=True, text=True, timeout=60)


def parsed(content: str, syntax: str) -> Any:
    handler = makeVersion(syntax)
    KickstartParser(handler).readKickstartFromString(content)
    return handler


@pytest.mark.parametrize(("system", "variant"), ANACONDA_CASES)
def test_every_release_takes_its_file(tmp_path: Path, system: str, variant: str) -> None:
    done = validated(tmp_path, text(system, variant), row(variables(system))["syntax"])
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.parametrize(
    ("system", "syntax"), [("rhel-8.8", "RHEL10"), ("rhel-10.0", "RHEL8"), ("almalinux-9.6", "RHEL8")]
)
def test_another_release_would_not_take_it(tmp_path: Path, system: str, syntax: str) -> None:
    """Why there is a row for each: the validator finds the differences."""
    assert validated(tmp_path, text(system), syntax).returncode != 0


@pytest.mark.parametrize("entry", ANACONDA, ids=lambda entry: entry["syntax"])
def test_commands_of_the_past_are_those_of_pykickstart(entry: dict[str, Any]) -> None:
    commands = commandMap[makeVersion(entry["syntax"]).version]
    gone = {name for name, command in commands.items() if issubclass(command, (RemovedCommand, DeprecatedCommand))}
    assert sorted(gone) == entry["never"]


@pytest.mark.parametrize(("system", "variant"), ANACONDA_CASES)
def test_no_command_of_the_past_is_written(system: str, variant: str) -> None:
    words = {line.split(" ")[0] for line in text(system, variant).partition("%packages")[0].splitlines()}
    assert words.isdisjoint(row(variables(system))["never"]) and {"url", "part", "rootpw"} <= words


@pytest.mark.parametrize(("system", "variant"), ANACONDA_CASES)
def test_one_disk_is_wiped_and_all_is_on_it(system: str, variant: str) -> None:
    found = parsed(text(system, variant), row(variables(system))["syntax"])
    assert found.ignoredisk.onlyuse == [ON_DISK] and found.clearpart.drives == [ON_DISK]
    assert found.bootloader.bootDrive == ON_DISK and found.bootloader.appendLine == "rd.driver.blacklist=nouveau"
    parts = {part.mountpoint: part for part in found.partition.partitions}
    assert {part.disk for part in parts.values()} == {ON_DISK}
    assert not any(part.encrypted for part in parts.values())
    # The rest of the disk goes to exactly one of them.
    growing = [name for name, part in parts.items() if part.grow]
    assert growing == (["/"] if variant == "no-scratch" else ["/scratch"])
    assert ("swap" in parts) is (variant != "no-scratch")
    assert ("biosboot" in parts, "/boot/efi" in parts) == ((True, False) if variant == "bios" else (False, True))


@pytest.mark.parametrize("system", ["rhel-8.8", "almalinux-9.6", "rhel-10.0"])
def test_nobody_gets_in_without_the_key(system: str) -> None:
    syntax = row(variables(system))["syntax"]
    found = parsed(text(system), syntax)
    (user,) = found.user.userList
    assert (user.name, user.groups, user.lock, user.password) == ("admin", ["wheel"], True, "")
    assert found.rootpw.lock and not found.rootpw.password
    assert [(each.username, each.key) for each in found.sshkey.sshUserList] == [("admin", key())]
    assert found.selinux.selinux == 1 and found.firewall.enabled and "ssh" in str(found.firewall)
    (user,) = parsed(text(system, "password"), syntax).user.userList
    assert user.isCrypted and user.password == HASH and not user.lock


@pytest.mark.parametrize("system", ["rhel-8.8", "almalinux-9.6", "rhel-10.0"])
def test_a_comment_of_a_key_is_only_text(system: str) -> None:
    found = parsed(text(system, "keys"), row(variables(system))["syntax"])
    # Anaconda takes one of an account; %post writes all (test_node_scripts.py).
    assert [each.key for each in found.sshkey.sshUserList] == [ODD_KEY]


def test_the_network_is_that_of_the_host() -> None:
    first, name = parsed(text("rhel-8.8", "static"), "RHEL8").network.network
    assert (first.bootProto, first.device, first.ip, first.netmask) == ("static", "eno1", "192.0.2.10", "255.255.255.0")
    assert (first.gateway, first.nameserver, name.hostname) == ("192.0.2.1", ",".join(STATIC["name_servers"]), "a5-01")
    dhcp = parsed(text("rhel-8.8", interface="0c:42:a1:00:00:01"), "RHEL8").network.network[0]
    assert (dhcp.bootProto, dhcp.device, dhcp.ip) == ("dhcp", "0c:42:a1:00:00:01", "")


@pytest.mark.parametrize("system", ["rhel-8.8", "almalinux-9.6", "rhel-10.0"])
def test_time_servers_stand_where_the_release_reads_them(system: str) -> None:
    found = parsed(text(system), row(variables(system))["syntax"])
    servers = ["ntp1.example.com", "192.0.2.123"]
    if system == "rhel-8.8":
        assert found.timezone.ntpservers == servers
    else:
        assert [source.ntp_server for source in found.timesource.dataList()] == servers
    assert found.timezone.timezone == "Etc/UTC" and found.timezone.isUtc


@pytest.mark.parametrize(("system", "variant"), ANACONDA_CASES)
def test_sections_end_where_they_should(system: str, variant: str) -> None:
    found = parsed(text(system, variant), row(variables(system))["syntax"])
    wanted = scripts(system, variant)
    assert [script.script for script in found.scripts] == [wanted["disk"], wanted["post"]]
    assert all(script.errorOnFail for script in found.scripts)


def test_packages_are_few_and_el8_needs_no_python() -> None:
    packages = {
        system: parsed(text(system), row(variables(system))["syntax"]).packages for system in ("rhel-8.8", "rhel-10.0")
    }
    assert packages["rhel-8.8"].environment == packages["rhel-10.0"].environment == "minimal-environment"
    assert set(packages["rhel-10.0"].packageList) - set(packages["rhel-8.8"].packageList) == {"python3"}
    assert "ansible-core" in parsed(text("rhel-8.8", "pull"), "RHEL8").packages.packageList


def test_no_address_but_the_given_ones() -> None:
    given = {variables()["mirror"], variables()["mirror_appstream"]}
    assert set(re.findall(r"https?://[^\s']+", text("rhel-8.8"))) == given


def test_a_login_and_a_password_are_nowhere() -> None:
    for system, variant in ANACONDA_CASES:
        words = shlex.split(text(system, variant).partition("%packages")[0], comments=True)
        assert not [word for word in words if word.startswith("--plaintext")]
        assert [word for word in words if word.startswith("--password=")] == (
            [f"--password={HASH}"] if variant == "password" else []
        )
