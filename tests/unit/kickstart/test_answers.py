"""What is missing is said at once, and no value gets into a file with which it could say something else there."""

from __future__ import annotations

import re
from typing import Any

import pytest
from machines import (
    A5,
    DEFAULTS,
    HASH,
    INSTALLERS,
    ODD_KEY,
    PULL,
    RELEASES,
    STATIC,
    SYSTEM_OF,
    key,
    problems,
    variables,
)

# What ends a value, a line or a section, or begins a command, in one of the languages of the files.
SHARP = (
    "x\n%end",
    "x\n%post\nrm -rf /",
    "%end",
    "$(reboot)",
    "`reboot`",
    "x'; reboot; '",
    'x" --noverifyssl "',
    "{{ lookup('pipe', 'id') }}",
    "{% include 'x' %}",
    "x y",
    "x\\",
    "x\td",
    "x\r",
    "x\0",
    "x;y",
    "x|y",
    "x*",
    "x,y\u2028z",
    "é",
    "../../etc/passwd",
    "-x",
    " ",
)
LISTS = {name.removeprefix("kickstart_") for name, value in DEFAULTS.items() if isinstance(value, list)}
TEXTS = {name.removeprefix("kickstart_") for name, value in DEFAULTS.items() if isinstance(value, str)} - {
    # Ansible's own argument specs let only two values through, and a folder is no part of a file.
    *("folder", "repositories", "firmware", "first_boot", "distribution"),
}


@pytest.mark.parametrize("name", sorted({*TEXTS, *LISTS, "host"}))
@pytest.mark.parametrize("system", ["rhel-8.8", "debian-13"])
def test_a_value_that_could_say_something_else_is_refused(system: str, name: str) -> None:
    """In one line of printable text, whatever the value is."""
    begin = "the name of the host" if name == "host" else f"kickstart_{name}: "
    for value in SHARP:
        found = problems(variables(system, **{**PULL, name: [value] if name in LISTS else value}))
        assert [line for line in found if line.startswith(begin)], (value, found)
        assert all(line.isprintable() and re.search(r" \[kickstart\.[a-z]+\]\Z", line) for line in found), found


@pytest.mark.parametrize("system", SYSTEM_OF)
def test_the_servers_of_the_tests_are_good(system: str) -> None:
    """Without which the refusals above would prove nothing."""
    pull = {} if system == "debian-12" else PULL
    assert problems(variables(system, **pull)) == []


def test_all_that_is_missing_is_said_at_once() -> None:
    given = {name.removeprefix("kickstart_"): value for name, value in DEFAULTS.items()}
    found = problems({**given, "host": "a5-01", "hostname": "a5-01"})
    names = [line.split(" ")[0] for line in found]
    assert names == [
        "kickstart_distribution",
        "kickstart_release",
        "kickstart_mirror",
        "kickstart_mirror_appstream",
        "kickstart_mirror_security",
        "kickstart_disk",
        "kickstart_interface",
        "kickstart_admin",
        "kickstart_admin_keys",
        "kickstart_ntp_servers",
    ]
    assert all(" is not set: " in line for line in found)
    # Setting just these leads on to no further question.
    assert problems({**given, "host": "a5-01", "hostname": "a5-01", **A5}) == []
    assert set(A5) == {name.removeprefix("kickstart_") for name in names} - {"mirror_security"}


@pytest.mark.parametrize(
    ("given", "said", "id"),
    [
        ({"disk": "/dev/sda"}, "can belong to another disk at the next start (given: '/dev/sda')", "disk"),
        ({"disk": "nvme0n1"}, "can belong to another disk", "disk"),
        ({"disk": f"{A5['disk']}-part1"}, "must be a whole disk by its id", "disk"),
        ({"disk": ""}, "is not set: the disk to install on, which will be wiped", "disk"),
        ({"admin_keys": []}, "is not set: your public ssh keys", "keys"),
        ({"admin_keys": ["-----BEGIN OPENSSH PRIVATE KEY-----"]}, "This is a private key", "keys"),
        ({"admin_keys": ['from="192.0.2.1" ' + key()]}, "must be a public key in one line", "keys"),
        ({"admin_keys": [key().replace("ed25519", "rsa", 1)]}, "must be a public key in one line", "keys"),
        ({"admin_keys": [key(comment="a\\nb")]}, "without backslashes", "keys"),
        ({"admin_keys": [key(comment="a\nb")]}, "printable", "keys"),
        ({"admin_keys": [7]}, "must be a public key", "keys"),
        ({"admin": "root"}, "an account other than root", "value"),
        ({"admin_password_hash": "secret"}, "never the password itself", "value"),
        ({"release": "8.42"}, "must be one of 8.6, 8.7, 8.8", "release"),
        ({"distribution": "ubuntu", "release": "24.04"}, "no installation file is made for Ubuntu", "release"),
        ({"mirror": "http://mirror.example.com/x/"}, "set kickstart_allow_http: true", "http"),
        ({"mirror": "https://me:word@mirror.example.com/x/"}, "an address without a login", "value"),
        ({"mirror_security": "https://mirror.example.com/x"}, "must be empty for this distribution", "value"),
        ({"interface": "link"}, "the name of a network interface", "value"),
        ({**STATIC, "address": "192.0.2.10"}, "an IPv4 address with its prefix", "value"),
        ({**STATIC, "address": "192.0.2.0/24"}, "of a host", "value"),
        ({**STATIC, "gateway": ""}, "kickstart_gateway is not set", "missing"),
        ({**STATIC, "name_servers": []}, "kickstart_name_servers is not set", "missing"),
        (
            {**STATIC, "gateway": "198.51.100.1"},
            "another address of the network of 192.0.2.10/24",
            "value",
        ),
        ({"gateway": "192.0.2.1"}, "must be empty without kickstart_address", "value"),
        ({"timezone": "Europe/Atlantis"}, "a name of the time zone database", "value"),
        ({"scratch_dir": "/usr/scratch"}, "a folder of its own", "value"),
        ({"scratch_dir": "/var"}, "a folder of its own", "value"),
        ({"root_mib": 100}, "must be 30720 or more, in MiB", "value"),
        ({**PULL, "pull_commit": "main"}, "the 40 digits of a commit", "pull"),
        ({**PULL, "pull_commit": ""}, "kickstart_pull_commit is not set", "pull"),
        ({**PULL, "pull_repository": "http://git.example.com/x.git"}, "must begin with https://", "pull"),
    ],
)
def test_a_wrong_value_is_one_line(given: dict[str, Any], said: str, id: str) -> None:
    (line,) = problems(variables(**given))
    assert said in line and line.endswith(f" [kickstart.{id}]")
    assert "word" not in line or "password" in line


def test_a_secret_is_not_repeated() -> None:
    lines = problems(variables(admin_password_hash="hunter2 is my password", admin_keys=["BEGIN PRIVATE KEY hunter2"]))
    assert len(lines) == 2 and "hunter2" not in "".join(lines)


@pytest.mark.parametrize("path", ["https://mirror.example.com/debian-security", "http://mirror.example.com/security"])
def test_debians_installer_asks_for_the_host_of_the_security_archive_alone(path: str) -> None:
    (line,) = problems(variables("debian-12", mirror_security=path))
    assert "kickstart_mirror_security: must be http://HOST/debian-security" in line


def test_debian_has_its_own_limits() -> None:
    (line,) = problems(variables("debian-12", **PULL))
    assert line == (
        "kickstart_first_boot: must be wait: Debian 12 has ansible-core 2.14, and gpuwright needs 2.16 [kickstart.pull]"
    )


def test_good_values_of_every_kind() -> None:
    good: dict[str, Any] = {
        "admin_password_hash": HASH,
        "admin_keys": [ODD_KEY],
        "interface": "0C:42:a1:00:00:01",
        "allow_http": True,
    }
    good |= {"mirror": "http://mirror.example.com:8080/x/", "timezone": "America/Argentina/Buenos_Aires"}
    good |= {"scratch_dir": "/srv/scratch", "hostname": "a5-01.example.com", "ntp_servers": ["2001:db8::7"]}
    assert problems(variables(**good)) == []


def test_every_release_of_the_matrix_is_installed_or_another_distribution() -> None:
    majors = {(name, row["major"]) for row in INSTALLERS for name in row["ids"]}
    asked = {tuple(one.partition(".")[0].split(" ")) for one in RELEASES}
    assert asked - majors == {("ubuntu", "22"), ("ubuntu", "24")} and majors <= asked
