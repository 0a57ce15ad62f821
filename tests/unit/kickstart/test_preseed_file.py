"""Preseeds, read by debconf itself: every line is taken, and the values that come out are those that were meant."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest
from machines import DEBIAN_CASES, DISK, HASH, scripts, text

DATABASES = """\
Config: answers
Templates: questions

Name: answers
Driver: File
Filename: {folder}/config.dat

Name: questions
Driver: File
Filename: {folder}/templates.dat
"""


def debconf(program: str) -> str:
    """Where one of debconf's programs is. That there is none is a failure and no skip: nobody else reads the files."""
    found = shutil.which(program)
    if found is None:
        pytest.fail(f"{program} is missing: install the package debconf")
    return found


@pytest.fixture(scope="module")
def read(tmp_path_factory: pytest.TempPathFactory):
    """What debconf holds after it has read a preseed: {question: value}, of one owner of questions."""

    def values(content: str) -> dict[str, str]:
        folder = tmp_path_factory.mktemp("debconf")
        # Databases of its own: the questions of this machine stay as they are.
        (folder / "debconf.conf").write_text(DATABASES.format(folder=folder))
        environment = {"PATH": os.environ["PATH"], "DEBCONF_SYSTEMRC": str(folder / "debconf.conf")}
        environment |= {"DEBCONF_NOWARNINGS": "yes", "DEBIAN_FRONTEND": "noninteractive", "HOME": str(folder)}
        done = subprocess.run(
            [debconf("debconf-set-selections")], input=content, capture_output=True, text=True, env=environment
        )
        assert done.returncode == 0 and not done.stderr, done.stderr
        found: dict[str, str] = {}
        for block in (folder / "config.dat").read_text().split("\n\n"):
            lines = dict(line.split(": ", 1) for line in block.splitlines() if ": " in line)
            if "Name" in lines:
                found[lines["Name"]] = lines.get("Value", "")
        return found

    return values


@pytest.mark.parametrize(("system", "variant"), DEBIAN_CASES)
def test_debconf_takes_every_line(system: str, variant: str) -> None:
    done = subprocess.run(
        [debconf("debconf-set-selections"), "--checkonly"],
        input=text(system, variant),
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


def test_a_line_that_debconf_does_not_take_is_noticed() -> None:
    done = subprocess.run(
        [debconf("debconf-set-selections"), "--checkonly"], input="d-i mirror\n", capture_output=True, text=True
    )
    assert done.returncode != 0


@pytest.mark.parametrize(("system", "variant"), DEBIAN_CASES)
def test_the_scripts_arrive_word_for_word(tmp_path: Path, read, system: str, variant: str) -> None:
    """What the installer's shell makes of the values is the script, with every quote and sign in it."""
    values = read(text(system, variant))
    wanted = scripts(system, variant)
    (tmp_path / "root").mkdir()
    for question, name, runs in (
        ("partman/early_command", "/tmp/gpuwright-disk.sh", "sh -e /tmp/gpuwright-disk.sh"),
        ("preseed/late_command", "/target/root/gpuwright-post.sh", "in-target sh -e /root/gpuwright-post.sh"),
    ):
        command, _semicolon, last = values[question].rpartition("; ")
        assert last == runs and "\\" not in values[question]
        here = tmp_path / Path(name).name
        for shell in ("dash", "bash"):
            subprocess.run([shell, "-c", command.replace(name, str(here))], check=True, timeout=60)
            assert here.read_text() == wanted["disk" if "disk" in name else "post"]


@pytest.mark.parametrize("system", ["debian-12", "debian-13"])
def test_the_answers_are_those_of_the_host(read, system: str) -> None:
    values = read(text(system, "static"))
    assert values["netcfg/get_ipaddress"] == "192.0.2.10" and values["netcfg/get_netmask"] == "255.255.255.0"
    assert values["netcfg/choose_interface"] == "eno1" and values["netcfg/get_nameservers"] == "192.0.2.53 2001:db8::53"
    assert values["mirror/http/hostname"] == "mirror.example.com" and values["mirror/http/directory"] == "/debian"
    assert values["mirror/suite"] == {"debian-12": "bookworm", "debian-13": "trixie"}[system]
    # To which apt-setup adds /debian-security (generators/91security).
    assert values["apt-setup/security_host"] == "mirror.example.com/pub"
    # Root is locked; user-setup 1.107 takes "!" for a password that is missing, and asks.
    assert (values["passwd/root-password-crypted"], values["passwd/make-user"]) == ("!!", "false")
    # The script makes the account: user-setup refuses names such as admin (reserved-usernames).
    assert "passwd/username" not in values
    assert "usermod --password '!' admin\n" in scripts(system)["post"]
    assert f"usermod --password '{HASH}' admin\n" in scripts(system, "password")["post"]
    assert "netcfg/get_ipaddress" not in read(text(system))
    # netcfg finds the interface with this address (netcfg-common.c, parse_bootif).
    assert read(text(system, interface="0c:42:a1:00:00:01"))["netcfg/choose_interface"] == "0c:42:a1:00:00:01"


@pytest.mark.parametrize("system", ["debian-12", "debian-13"])
def test_no_disk_is_named_but_by_its_id(read, system: str) -> None:
    """The partitioner is told the disk by the script, which has found it; nothing else gives it one."""
    values = read(text(system))
    assert "partman-auto/disk" not in values
    # The script can set only a question that is known already, and grub-installer may not be loaded by then.
    assert values["grub-installer/bootdev"] == DISK
    # With a method and no disk, partman-auto takes a machine's only disk, whichever it is (display.d/10initial_auto).
    assert "partman-auto/method" not in values
    assert f"disk={DISK}" in scripts(system)["disk"] and "/dev/sd" not in text(system)


def recipe(values: dict[str, str]) -> dict[str, tuple[int, int, int, str]]:
    """{mount point or method: least size, priority, largest size, file system} of the partitioner's recipe, in MB."""
    found = {}
    name, _colons, rest = values["partman-auto/expert_recipe"].partition(" :: ")
    assert name == "gpuwright"
    for part in filter(None, (part.strip() for part in (rest + " ").split(" . "))):
        least, priority, largest, kind, *words = part.split()
        place = words[words.index("mountpoint{") + 1] if "mountpoint{" in words else words[words.index("method{") + 1]
        found[place] = (int(least), int(priority), int(largest), kind)
    return found


def test_the_layout_is_the_one_of_the_host(read) -> None:
    values = read(text("debian-12"))
    assert recipe(values) == {
        "efi": (600, 600, 600, "free"),
        "/boot": (1074, 1074, 1074, "ext4"),
        "swap": (8590, 8590, 8590, "linux-swap"),
        "/": (214749, 214749, 214749, "ext4"),
        "/scratch": (1024, 214749, -1, "xfs"),
    }
    assert list(recipe(read(text("debian-12", "bios"))))[0] == "biosgrub"
    assert recipe(read(text("debian-13", "no-scratch")))["/"] == (214749, 214749, -1, "ext4")
