"""The disk: Debian 12 by mmdebstrap, an older kernel than the newest, and grub that a first boot installs for real."""

from __future__ import annotations

import os
import shutil
from dataclasses import dataclass
from pathlib import Path

from gpuwright_fleet.base import SUITE, apt_options, controller_sources, words_of
from gpuwright_fleet.image import ca_bundle, ca_fingerprint
from gpuwright_fleet.paths import cache_dir, content_hash, is_complete
from gpuwright_fleet.shell import FleetError, readable, run, step

from .accelerator import choose
from .machine import Machine
from .paths import HOST, VM_DIR

DISK_BYTES = 24 << 30
# What the kernel does against leaks of real processors makes every system call of an emulated one slower: to make an
# initramfs took 111 s with it and 78 s without (one run each).
# A busy machine lets an emulated timer stand still for longer than the kernel waits for it, which then panics
# (no_timer_check).
KERNEL_ARGUMENTS = "console=ttyS0 mitigations=off no_timer_check"
# The one partition begins at 1 MiB: grub's core lies before it.
PARTITION_START = 1 << 20
BLOCK = 4096
# Drivers that this machine has no devices for, and that every update of the kernel or of its modules would go through.
UNUSED_DRIVERS = [
    *(f"drivers/media/{name}" for name in ("usb", "pci", "i2c", "dvb-frontends", "tuners")),
    *(f"drivers/{name}" for name in ("net/wireless", "net/ethernet", "infiniband", "staging", "iio", "hwmon")),
    *(f"drivers/gpu/drm/{name}" for name in ("amd", "radeon", "i915")),
    *("sound", "net/sctp", "net/openvswitch"),
]
LEFT_OUT = [
    *(f"path-exclude=/usr/share/{name}/*" for name in ("man", "locale", "doc")),
    *(f"path-exclude=/lib/modules/*/kernel/{name}/*" for name in UNUSED_DRIVERS),
]
SETUP = r"""
set -eu
useradd --create-home --shell /bin/bash admin
usermod --lock root
usermod --password '*' admin
install -d -m 0700 -o admin -g admin /home/admin/.ssh
mv /root/authorized_keys /home/admin/.ssh/ && chown admin:admin /home/admin/.ssh/authorized_keys
systemctl enable systemd-networkd.service ssh.service
systemctl mask apt-daily.timer apt-daily-upgrade.timer
: > /etc/machine-id
"""
FILES = {
    "etc/hostname": f"{HOST}\n",
    "etc/hosts": f"127.0.0.1 localhost\n127.0.1.1 {HOST}\n",
    # Not checked at boot: it is thrown away.
    "etc/fstab": "/dev/vda1 / ext4 errors=remount-ro 0 0\n",
    # Where qemu's own network has its name server.
    "etc/resolv.conf": "nameserver 10.0.2.3\n",
    "etc/systemd/network/10-dhcp.network": "[Match]\nName=e*\n[Network]\nDHCP=ipv4\n",
    # What the disk needs, so that nothing is looked for. It still takes an emulated processor more than a minute.
    "etc/initramfs-tools/conf.d/vm": "MODULES=list\nCOMPRESS=gzip\nCOMPRESSLEVEL=1\n",
    "etc/initramfs-tools/modules": "virtio_pci\nvirtio_blk\next4\n",
    # The disk of a machine that is thrown away need not survive a power cut.
    "etc/dpkg/dpkg.cfg.d/vm": "\n".join(["force-unsafe-io", *LEFT_OUT, ""]),
    # Half of what an emulated processor has to unpack of the package lists.
    "etc/apt/apt.conf.d/90languages": 'Acquire::Languages "none";\n',
    "etc/sudoers.d/admin": "admin ALL=(ALL) NOPASSWD: ALL\n",
    # A server without a display: with grub's graphical menu it would not get past it.
    "etc/default/grub.d/vm.cfg": f'GRUB_TIMEOUT=1\nGRUB_TERMINAL=serial\nGRUB_CMDLINE_LINUX="{KERNEL_ARGUMENTS}"\n',
}


@dataclass
class Image:
    """A finished disk (raw), the kernel in it, and the key of its user."""

    folder: Path

    @property
    def disk(self) -> Path:
        return self.folder / "disk.raw"

    @property
    def key(self) -> Path:
        return self.folder / "id_ed25519"

    @property
    def kernel(self) -> Path:
        return self.folder / "vmlinuz"

    @property
    def boot(self) -> tuple[str, ...]:
        """qemu's words to boot the kernel itself, past the boot loader."""
        arguments = f"root=/dev/vda1 {KERNEL_ARGUMENTS}"
        return ("-kernel", str(self.kernel), "-initrd", str(self.folder / "initrd.img"), "-append", arguments)

    @property
    def stamp(self) -> Path:
        """There when the disk is whole, with or without a boot loader."""
        return self.folder / "disk-complete"

    def overlay(self, path: Path) -> Path:
        """A disk of its own for one machine, bare as the image."""
        path.unlink(missing_ok=True)
        run(["qemu-img", "create", "-q", "-f", "qcow2", "-F", "raw", "-b", self.disk, path])
        return path


def build_image() -> Image:
    """The image in the cache, with a boot loader, made when it is not there or its recipe has changed."""
    image = build_disk()
    if is_complete(image.folder):
        return image
    # What is interrupted from here on has changed the disk, which is then made anew.
    image.stamp.unlink()
    with step("first boot, which installs grub"):
        install_boot_loader(image)
    image.stamp.touch()
    (image.folder / "complete").touch()
    return image


def build_disk() -> Image:
    """The same as far as a machine needs it that qemu boots without a boot loader."""
    here = [VM_DIR / "packages.txt", Path(__file__)]
    image = Image(cache_dir() / f"vm-{content_hash(here, *controller_sources(), ca_fingerprint())}")
    if image.stamp.exists():
        # When it was last used.
        os.utime(image.folder)
        return image
    shutil.rmtree(image.folder, ignore_errors=True)
    root = image.folder / "root"
    root.mkdir(parents=True)
    with readable():
        with step("Debian 12 with the kernel of its last point release (mmdebstrap)"):
            bootstrap(root)
        configure(image, root)
    with step("disk (mke2fs)"):
        make_disk(image, root)
    shutil.rmtree(root)
    image.stamp.touch()
    return image


def bootstrap(root: Path) -> None:
    """Without the security archive, whose kernel is the newer one: the upgrade needs something to bring."""
    command: list[str | Path] = ["mmdebstrap", "--mode=root", "--variant=minbase", "--format=directory"]
    command += [f"--include={','.join(words_of(VM_DIR / 'packages.txt'))}"]
    command += [f"--aptopt={option}" for option in apt_options()]
    command += [f"--dpkgopt={option}" for option in LEFT_OUT]
    command += [SUITE, root, *(line for line in controller_sources() if f"{SUITE}-security" not in line)]
    run(command, timeout=1800)


def configure(image: Image, root: Path) -> None:
    """Who may log in, the network, and all package sources of the controller."""
    for key in (image.key, image.folder / "host_key"):
        run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-C", "gpuwright-vm", "-f", key])
    public = (image.folder / "host_key.pub").read_text()
    image.key.with_name("known_hosts").write_text(f"vm {public}")
    for key in (root / "etc/ssh").glob("ssh_host_*"):
        key.unlink()
    shutil.move(image.folder / "host_key", root / "etc/ssh/ssh_host_ed25519_key")
    (root / "etc/ssh/ssh_host_ed25519_key.pub").write_text(public)
    (root / "root/authorized_keys").write_text(image.key.with_suffix(".pub").read_text())
    for name, text in FILES.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(text)
    (root / "etc/sudoers.d/admin").chmod(0o440)
    if sources := controller_sources():
        (root / "etc/apt/sources.list").write_text("".join(f"{line}\n" for line in sources))
    if bundle := ca_bundle():
        shutil.copy(bundle, root / "etc/ssl/certs/ca-certificates.crt")
    run(["chroot", root, "sh", "-s"], stdin=SETUP)
    image.kernel.write_bytes(only(root, "vmlinuz"))
    (image.folder / "initrd.img").write_bytes(only(root, "initrd.img"))


def only(root: Path, name: str) -> bytes:
    """The content of the one kernel's file in /boot."""
    found = sorted((root / "boot").glob(f"{name}-*"))
    if len(found) != 1:
        raise FleetError(f"One {name} was expected in the image's /boot; there are {len(found)}.")
    return found[0].read_bytes()


def make_disk(image: Image, root: Path) -> None:
    """One ext4 partition, filled from the folder, without a loop device."""
    with image.disk.open("wb") as disk:
        disk.truncate(DISK_BYTES)
    run(["sfdisk", "--quiet", image.disk], stdin=f"start={PARTITION_START // 512}, type=83, bootable\n")
    blocks = (DISK_BYTES - PARTITION_START) // BLOCK
    run(["mke2fs", "-q", "-F", "-t", "ext4", "-b", str(BLOCK), "-d", root,
         "-E", f"offset={PARTITION_START}", image.disk, str(blocks)])  # fmt: skip


def install_boot_loader(image: Image) -> None:
    """qemu boots the kernel itself this once; from then on the disk does."""
    machine = Machine(image.disk, image.key, choose(image.kernel)[0])
    machine.start(*image.boot)
    try:
        machine.wait()
        machine.run("echo 'grub-pc grub-pc/install_devices multiselect /dev/vda' | debconf-set-selections\n"
                    "grub-install /dev/vda && update-grub")  # fmt: skip
        machine.power_off()
    finally:
        machine.stop()
