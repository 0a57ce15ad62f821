"""The scripts of an installation: sh takes them, and on a made-up system they leave what was asked for."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from ansible.cli.pull import PullCLI
from machines import CASES, COMMIT, DISK, ODD_KEY, PULL, key, scripts, units, variables

BIN = Path(sys.executable).parent
# What the scripts call and what only an installed system has: each writes down how it was called.
CALLED = ("restorecon", "systemctl", "visudo", "update-initramfs", "chown", "getent", "useradd", "usermod")
ROOTS = r"(?<![\w./\"=])/(etc|home|lib/modules|scratch|sys|dev/disk)(?=[/\s\"'])"


@pytest.mark.parametrize(("system", "variant"), CASES)
@pytest.mark.parametrize("shell", ["dash", "bash"])
def test_every_script_is_one_for_sh(shell: str, system: str, variant: str) -> None:
    for script in scripts(system, variant).values():
        done = subprocess.run([shell, "-n"], input=script, capture_output=True, text=True, timeout=60)
        assert (done.returncode, done.stderr) == (0, "")


class System:
    """A folder that stands for the root of a freshly installed system."""

    def __init__(self, root: Path, release: str) -> None:
        self.root = root
        for folder in ("etc/ssh", "etc/yum.repos.d", "etc/pki/rpm-gpg", "etc/sudoers.d", "etc/systemd/system"):
            (root / folder).mkdir(parents=True)
        for folder in ("etc/chrony", "scratch", "home/admin", "bin", "lib/modules/4.18.0-477.10.1.el8_8.x86_64"):
            (root / folder).mkdir(parents=True)
        self.write("etc/os-release", f'ID=x\nVERSION_ID="{release}"\n')
        self.write("etc/ssh/sshd_config", "PermitRootLogin yes\nPasswordAuthentication yes\n")
        self.write("etc/yum.repos.d/rocky.repo", "[baseos]\nenabled=1\ngpgcheck=1\n[extras]\nenabled = 1\n")
        self.write("etc/pki/rpm-gpg/RPM-GPG-KEY-one", "")
        self.write("etc/pki/rpm-gpg/RPM-GPG-KEY-two", "")
        self.write("etc/chrony/chrony.conf", "pool 2.debian.pool.ntp.org iburst\nsourcedir /etc/chrony/sources.d\n")
        self.write("etc/fstab", "UUID=1 / ext4 errors=remount-ro 0 1\nUUID=2 /scratch xfs defaults 0 0\n")
        for name in CALLED:
            said = f"echo {name} \"$@\" >> '{root}/called'"
            also = f"echo admin:x:1000:1000::'{root}'/home/admin:/bin/bash" if name == "getent" else ":"
            self.write(f"bin/{name}", f"#!/bin/sh\n{said}\n{also}\n").chmod(0o755)

    def write(self, name: str, text: str) -> Path:
        file = self.root / name
        file.write_text(text)
        return file

    def read(self, name: str) -> str:
        return (self.root / name).read_text()

    def run(self, script: str) -> subprocess.CompletedProcess[str]:
        here = re.sub(ROOTS, lambda found: f"{self.root}{found[0]}", script)
        environment = {**os.environ, "PATH": f"{self.root}/bin:{os.environ['PATH']}"}
        # A machine that runs the tests has no block device.
        here = here.replace('[ ! -b "$disk" ]', '[ ! -e "$disk" ]')
        here = re.sub(r"^disk=", f"disk={self.root}", here, flags=re.MULTILINE)
        here = here.replace('"/sys/class', f'"{self.root}/sys/class')
        done = subprocess.run(["dash"], input=here, capture_output=True, text=True, env=environment, timeout=60)
        return done


@pytest.fixture
def system(tmp_path: Path) -> Callable[[str], System]:
    return lambda release: System(tmp_path / "root", release)


def test_a_node_of_el_after_its_installation(system: Callable[[str], System]) -> None:
    node = system("8.8")
    done = node.run(scripts("rhel-8.8", "keys")["post"])
    assert done.returncode == 0, done.stderr
    assert json.loads(node.read("etc/gpuwright/installed.json")) == {
        "schema": 1,
        "distribution": "rhel",
        "release": "8.8",
        "hostname": "a5-01",
        "disk": DISK,
        "firmware": "uefi",
        "first_boot": "wait",
    }
    assert "blacklist nouveau\n" in node.read("etc/modprobe.d/gpuwright-nouveau.conf")
    assert node.read("etc/sudoers.d/gpuwright-admin") == "admin ALL=(ALL) NOPASSWD: ALL\n"
    assert (node.root / "etc/sudoers.d/gpuwright-admin").stat().st_mode & 0o777 == 0o440
    # The first value of each name counts.
    assert node.read("etc/ssh/sshd_config").splitlines()[:2] == ["PermitRootLogin no", "PasswordAuthentication no"]
    assert node.read("home/admin/.ssh/authorized_keys") == f"{ODD_KEY}\n{key()}\n{key(comment='')}\n"
    assert (node.root / "home/admin/.ssh/authorized_keys").stat().st_mode & 0o777 == 0o600
    assert (node.root / "scratch").stat().st_mode & 0o7777 == 0o1777
    assert node.read("etc/yum.repos.d/rocky.repo").count("enabled=0") == 2
    mirror = node.read("etc/yum.repos.d/gpuwright-mirror.repo")
    assert f"baseurl={variables()['mirror']}\n" in mirror and mirror.count("gpgcheck=1\n") == 2
    keys = [f"file://{node.root}/etc/pki/rpm-gpg/RPM-GPG-KEY-{name}" for name in ("one", "two")]
    assert f"gpgkey= {' '.join(keys)}\n" in mirror
    assert "ansible-playbook site.yml -l a5-01" in node.read("etc/motd.d/gpuwright")
    assert node.read("called").splitlines()[-2:] == [
        "systemctl enable gpuwright-first-boot.path",
        f"restorecon -R {node.root}/etc {node.root}/home",
    ]


def test_the_script_makes_the_account_that_debians_installer_would_refuse(system: Callable[[str], System]) -> None:
    node = system("12")
    entry = f"admin:x:1000:1000::{node.root}/home/admin:/bin/bash"
    node.write("bin/useradd", f"#!/bin/sh\necho useradd \"$@\" >> '{node.root}/called'\n: > '{node.root}/made'\n")
    node.write("bin/getent", f"#!/bin/sh\n[ -e '{node.root}/made' ] && echo '{entry}'\n")
    done = node.run(scripts("debian-12")["post"])
    assert done.returncode == 0, done.stderr
    assert node.read("called").splitlines()[1:3] == [
        "useradd --create-home --shell /bin/bash --groups sudo admin",
        "usermod --password ! admin",
    ]


def test_labels_that_cannot_be_set_end_nothing(system: Callable[[str], System]) -> None:
    """The installation is otherwise finished; the log says it."""
    node = system("8.8")
    node.write("bin/restorecon", "#!/bin/sh\nexit 1\n")
    assert node.run(scripts("rhel-8.8")["post"]).returncode == 0


def test_a_node_that_keeps_the_distributions_repositories(system: Callable[[str], System]) -> None:
    node = system("8.8")
    assert node.run(scripts("rhel-8.8", "distribution")["post"]).returncode == 0
    assert node.read("etc/yum.repos.d/rocky.repo").count("enabled=0") == 0
    assert not (node.root / "etc/yum.repos.d/gpuwright-mirror.repo").exists()


def test_a_node_of_debian_after_its_installation(system: Callable[[str], System]) -> None:
    node = system("12")
    done = node.run(scripts("debian-12", "options", admin_keys=[ODD_KEY])["post"])
    assert done.returncode == 0, done.stderr
    assert node.read("home/admin/.ssh/authorized_keys") == f"{ODD_KEY}\n"
    assert "/scratch xfs noatime,logbsize=256k 0 0" in node.read("etc/fstab")
    assert node.read("etc/fstab").startswith("UUID=1 / ext4 errors=remount-ro 0 1\n")
    assert node.read("etc/chrony/chrony.conf").startswith("# pool 2.debian")
    assert (
        node.read("etc/chrony/sources.d/gpuwright.sources")
        == "server ntp1.example.com iburst\nserver 192.0.2.123 iburst\n"
    )
    assert "policy drop" in node.read("etc/nftables.conf") and "tcp dport 22 accept" in node.read("etc/nftables.conf")
    called = node.read("called").splitlines()
    assert "usermod --password ! admin" in called and not [line for line in called if line.startswith("useradd")]
    assert "update-initramfs -u" in called and "systemctl enable nftables.service chrony.service ssh.service" in called


def test_a_password_is_asked_for_where_there_is_one(system: Callable[[str], System]) -> None:
    node = system("8.8")
    assert node.run(scripts("rhel-8.8", "password")["post"]).returncode == 0
    assert node.read("etc/sudoers.d/gpuwright-admin") == "admin ALL=(ALL) ALL\n"


@pytest.mark.parametrize(
    ("release", "kernel", "said"),
    [
        ("8.10", "", "the mirror has release 8.10, expected 8.8"),
        ("8.8", "4.18.0-553.el8_10.x86_64", "the mirror has the kernel"),
    ],
)
def test_another_mirror_ends_the_installation(
    system: Callable[[str], System], release: str, kernel: str, said: str
) -> None:
    node = system(release)
    done = node.run(scripts("rhel-8.8", kernel=kernel)["post"])
    assert done.returncode != 0 and said in done.stdout
    assert not (node.root / "etc/gpuwright").exists()


def test_the_kernel_that_was_asked_for_is_enough(system: Callable[[str], System]) -> None:
    assert system("8.8").run(scripts("rhel-8.8", "kernel")["post"]).returncode == 0


# The least that the reference machine's layout needs: 600 + 1024 + 8192 + 204800 MiB, 1 GiB of /scratch, 8 MiB of GPT.
LEAST_SECTORS = (600 + 1024 + 8192 + 204800 + 1024 + 8) * 2048


def made_disk(node: System, partition: bool = False, uefi: bool = True, sectors: int = LEAST_SECTORS) -> None:
    (node.root / "dev").mkdir()
    (node.root / "dev/nvme1n1").touch()
    place = node.root / DISK.lstrip("/")
    place.parent.mkdir(parents=True)
    place.symlink_to(node.root / "dev/nvme1n1")
    entry = node.root / "sys/class/block/nvme1n1"
    entry.mkdir(parents=True)
    (entry / "size").write_text(f"{sectors}\n")
    if partition:
        (entry / "partition").write_text("1\n")
    if uefi:
        (node.root / "sys/firmware/efi").mkdir(parents=True)


@pytest.mark.parametrize(
    ("made", "firmware", "said"),
    [
        ({}, "uefi", ""),
        ({"uefi": False}, "bios", ""),
        (None, "uefi", "there is no disk"),
        ({"sectors": LEAST_SECTORS - 1}, "uefi", "is too small: it needs 215648 MiB"),
        ({"partition": True}, "uefi", "is a partition, not a disk"),
        ({"uefi": False}, "uefi", "was started by BIOS"),
        ({}, "bios", "was started by UEFI"),
    ],
)
def test_nothing_is_wiped_unless_the_disk_is_the_right_one(
    system: Callable[[str], System], made: dict[str, Any] | None, firmware: str, said: str
) -> None:
    node = system("8.8")
    if made is None:
        (node.root / "dev/disk/by-id").mkdir(parents=True)
        (node.root / "dev/disk/by-id/nvme-ANOTHER").touch()
    else:
        made_disk(node, **made)
    done = node.run(scripts("rhel-8.8", firmware=firmware)["disk"])
    assert (done.returncode != 0) is bool(said) and said in done.stdout, done
    assert ("nothing was wiped" in done.stdout) is bool(said)
    assert made is not None or "nvme-ANOTHER" in done.stdout


def test_debians_partitioner_is_told_nothing_of_a_wrong_disk(system: Callable[[str], System]) -> None:
    """Neither a disk nor a method: it does nothing by itself then."""
    node = system("12")
    made_disk(node, partition=True)
    node.write("bin/debconf-set", f"#!/bin/sh\necho \"$@\" >> '{node.root}/called'\n").chmod(0o755)
    assert node.run(scripts("debian-12")["disk"]).returncode != 0 and not (node.root / "called").exists()


def test_debians_partitioner_is_told_the_present_name(system: Callable[[str], System]) -> None:
    node = system("12")
    made_disk(node)
    node.write("bin/debconf-set", f"#!/bin/sh\necho \"$@\" >> '{node.root}/called'\n").chmod(0o755)
    assert node.run(scripts("debian-12")["disk"]).returncode == 0
    name = f"{node.root}/dev/nvme1n1"
    assert node.read("called").splitlines() == [
        f"partman-auto/disk {name}",
        f"grub-installer/bootdev {name}",
        "partman-auto/method regular",
    ]


@pytest.mark.parametrize("variant", ["plain", "pull"])
def test_systemd_takes_the_units(tmp_path: Path, variant: str) -> None:
    analyze = shutil.which("systemd-analyze")
    assert analyze, "systemd-analyze is missing: install the package systemd"
    for name, text in units("rhel-8.8", variant).items():
        # It is on the node; here it is in the environment of the tests.
        (tmp_path / name).write_text(text.replace("/usr/bin/ansible-pull", str(BIN / "ansible-pull")))
    done = subprocess.run(
        [analyze, "verify", "--man=no", *sorted(tmp_path.iterdir())], capture_output=True, text=True, timeout=120
    )
    said = [line for line in done.stderr.splitlines() if "gpuwright-first-boot" in line or str(tmp_path) in line]
    assert (done.returncode, said) == (0, []), done.stderr


def test_systemd_refuses_a_broken_unit(tmp_path: Path) -> None:
    """So that the test above can fail."""
    (tmp_path / "gpuwright-first-boot.service").write_text("[Service]\nType=oneshot\nExecStart=nothing\n")
    done = subprocess.run(
        ["systemd-analyze", "verify", "--man=no", tmp_path / "gpuwright-first-boot.service"],
        capture_output=True,
        text=True,
    )
    assert done.returncode != 0


def test_ansible_pull_takes_its_command() -> None:
    service = units("rhel-8.8", "pull")["gpuwright-first-boot.service"]
    (command,) = [line.partition("=")[2] for line in service.splitlines() if line.startswith("ExecStart=")]
    # systemd's % stands doubled in a unit.
    words = command.replace("%%", "%").split()
    assert "%%20" in command and words[0] == "/usr/bin/ansible-pull"
    program = PullCLI(["ansible-pull", *words[1:]])
    program.parse()
    from ansible import context

    given = context.CLIARGS
    assert (given["url"], given["checkout"], given["fullclone"]) == (PULL["pull_repository"], COMMIT, True)
    assert (given["subset"], list(given["args"])) == ("a5-01", ["site.yml"])
