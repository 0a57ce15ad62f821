"""docs/images.md, word by word: a root by mmdebstrap, the driver in it for its own kernel, and nothing started."""

from __future__ import annotations

import os
import shlex
import shutil
import subprocess
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import nvidia
import pytest
import yaml
from gpuwright_fleet.base import controller_sources
from gpuwright_fleet.shell import step
from gpuwright_vm.machine import free_port
from gpuwright_vm.paths import REPOSITORY
from mirror import Mirror
from page_commands import blocks
from playbook_run import Run, run_playbook

PAGE = REPOSITORY / "docs/images.md"
STATE = REPOSITORY / ".fleet/image"
TAGS = "system_kernel,system_driver,system_cuda"
PLAY_SECONDS = 3600
MAKE, SERVE, FINISH = (block.text for block in blocks(PAGE.read_text()) if block.language == "sh")


@dataclass
class Image:
    """A root, its ssh server while that runs, and what Ansible is told of it."""

    root: Path
    inventory: Path
    variables: dict[str, str]

    def chroot(self, words: str) -> str:
        command = ["chroot", str(self.root), *shlex.split(words)]
        return subprocess.run(command, check=True, capture_output=True, text=True).stdout

    def play(self) -> Run:
        return run_playbook(self.inventory, PLAY_SECONDS, "playbooks/system.yml", "--tags", TAGS)


def shell(script: str, variables: dict[str, str]) -> None:
    environment = {**os.environ, **variables}
    done = subprocess.run(["sh", "-euc", script], capture_output=True, text=True, env=environment, cwd=STATE)
    assert done.returncode == 0, f"{script}\n{done.stdout[-2000:]}{done.stderr[-2000:]}"


@pytest.fixture(scope="module")
def image() -> Iterator[Image]:
    """As the page makes it, with the ssh server on."""
    shutil.rmtree(STATE, ignore_errors=True)
    STATE.mkdir(parents=True)
    (STATE / "sources.list").write_text("".join(f"{line}\n" for line in controller_sources()))
    key = STATE / "id_ed25519"
    subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", key], check=True)
    paths = {"ROOT": STATE / "root", "SOURCES": STATE / "sources.list", "KEY": key.with_suffix(".pub")}
    variables = {name: str(path) for name, path in paths.items()} | {"PORT": str(free_port())}
    with step("root (mmdebstrap)"):
        shell(MAKE, variables)
    fingerprint = nvidia.build_repository(STATE / "nvidia")
    mirror = Mirror({}, {"nvidia": STATE / "nvidia"}, STATE, 0)
    made = Image(STATE / "root", STATE / "inventory.yml", variables)
    address = f"http://127.0.0.1:{mirror.port}/nvidia"
    (kernel,) = (path.name for path in (made.root / "lib/modules").iterdir())
    host = {
        "ansible_host": "127.0.0.1",
        "ansible_port": int(variables["PORT"]),
        "ansible_user": "admin",
        "ansible_ssh_private_key_file": str(key),
        "ansible_ssh_common_args": f"-o UserKnownHostsFile={STATE}/known_hosts -o StrictHostKeyChecking=accept-new",
        "system_kernel_target": kernel,
        "verify_expected_gpu_model": nvidia.GPU["name"],
        "system_driver_repository_url": f"{address}/{nvidia.REPOSITORY}/",
        "system_driver_repository_key_url": f"{address}/keys/RPM-GPG-KEY-{nvidia.KEY}",
        "system_driver_repository_key_fingerprint": fingerprint,
    }
    made.inventory.write_text(yaml.safe_dump({"gpu_nodes": {"hosts": {"image": host}}}))
    server = subprocess.Popen(["sh", "-euc", f"exec {SERVE}"], env={**os.environ, **variables})
    time.sleep(2)
    yield made
    server.kill()
    server.wait()
    mirror.shutdown()


@pytest.fixture(scope="module")
def baked(image: Image) -> Run:
    with step("the driver in it (system.yml)"):
        return image.play()


def test_the_module_is_built_for_the_kernel_in_it(image: Image, baked: Run) -> None:
    assert baked.rc == 0, baked.output[-6000:]
    (kernel,) = (path.name for path in (image.root / "lib/modules").iterdir())
    assert kernel != os.uname().release
    assert f"{kernel}, x86_64: installed" in image.chroot("dkms status")
    fields = [image.chroot(f"modinfo -k {kernel} -F {field} nvidia").split()[0] for field in ("version", "vermagic")]
    assert fields[0].startswith(f"{nvidia.BRANCH}.") and fields[1] == kernel


def test_its_toolkit_is_there(image: Image, baked: Run) -> None:
    assert "release 12." in image.chroot("/usr/local/cuda/bin/nvcc --version")


def test_no_service_was_started_in_it(image: Image, baked: Run) -> None:
    """Whoever has the root for a root is the ssh server, or serves a connection to it."""
    inside = set()
    for process in Path("/proc").glob("[0-9]*"):
        try:
            if (process / "root").readlink() == image.root:
                inside.add((process / "comm").read_text().strip())
        except OSError:
            continue
    assert inside <= {"sshd"}, inside


def test_the_settings_of_this_machine_are_out_of_its_reach(image: Image, baked: Run) -> None:
    words = [
        "-i",
        str(STATE / "id_ed25519"),
        "-p",
        image.variables["PORT"],
        "-o",
        f"UserKnownHostsFile={STATE}/known_hosts",
    ]
    done = subprocess.run(
        ["ssh", *words, "admin@127.0.0.1", "sudo sysctl -w vm.swappiness=1"], capture_output=True, text=True
    )
    assert done.returncode != 0 and "Read-only file system" in done.stderr


def test_a_second_run_changes_nothing(image: Image, baked: Run) -> None:
    again = image.play()
    assert again.rc == 0 and again.changed == 0, again.output[-6000:]


def test_what_is_copied_has_nothing_of_its_making(image: Image, baked: Run) -> None:
    shell(FINISH, image.variables)
    names = subprocess.run(["tar", "-tf", STATE / "image.tar"], capture_output=True, text=True, check=True).stdout
    there = set(names.splitlines())
    assert not [
        name for name in there if "ssh_host_" in name or "policy-rc.d" in name or name.startswith("./home/admin/.ssh")
    ]
    assert "./etc/machine-id" in there and image.chroot("dpkg --audit") == ""
