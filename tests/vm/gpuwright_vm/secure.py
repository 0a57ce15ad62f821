"""A machine with real firmware (OVMF with Microsoft's keys), and Debian's shim, MokManager, grub and kernel.

The packages are unpacked and not installed: shim's would write to the controller's own boot loader.
"""

from __future__ import annotations

import gzip
import os
import re
import select
import shutil
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

from gpuwright_fleet.paths import cache_dir, content_hash, is_complete
from gpuwright_fleet.shell import run, step

from .flash import Flash
from .paths import REPOSITORY, STATE

PACKAGES = (
    "ovmf shim-signed shim-helpers-amd64-signed grub-efi-amd64-signed mokutil libefivar1 libkeyutils1 busybox-static"
)
WAIT_SECONDS = 300
ENTER, DOWN = "\r", "\x1b[B"
GRUB = "set timeout=0\nlinux /vmlinuz console=ttyS0 mitigations=off panic=-1 quiet\ninitrd /initrd\nboot\n"
SIGNATURE_END, SIGNATURE_HEAD = b"~Module signature appended~\n", 12
# What the system sees of Secure Boot, each file as a line; then whether it takes the module.
INIT = """#!/bin/busybox sh
/bin/busybox --install -s /bin
mount -t proc proc /proc; mount -t sysfs sysfs /sys
insmod /efivarfs.ko; mount -t efivarfs efivarfs /sys/firmware/efi/efivars
cd /sys/firmware/efi
for file in /proc/keys efivars/SecureBoot-* efivars/SetupMode-* efivars/Mok* efivars/db-* mok-variables/Mok*; do
    [ -e "$file" ] && echo "FILE $(readlink -f $file) $(base64 -w 0 "$file") END"
done
insmod /module.ko && echo 'MODULE taken' || { dmesg | tail -n 3; echo 'MODULE refused'; }
echo 'THE END'
poweroff -f
"""


def unpacked() -> Path:
    """Debian's packages and its newest kernel, in the cache."""
    depends = run(["apt-cache", "depends", "linux-image-amd64"]).stdout
    match = re.search(r"Depends: (linux-image-\S+)", depends)
    assert match, depends
    names = [*PACKAGES.split(), match.group(1)]
    target = cache_dir() / f"vm-secure-{content_hash([Path(__file__)], *names)}"
    if is_complete(target):
        return target
    shutil.rmtree(target, ignore_errors=True)
    (target / "debs").mkdir(parents=True)
    with step("firmware, shim and kernel (apt-get download)"):
        subprocess.run(["apt-get", "-q", "download", *names], cwd=target / "debs", check=True, capture_output=True)
        for deb in (target / "debs").iterdir():
            run(["dpkg-deb", "-x", deb, target])
    shutil.rmtree(target / "debs")
    (target / "complete").touch()
    return target


def archive(files: dict[str, tuple[int, bytes]]) -> bytes:
    """An initramfs (cpio, newc) of `{path: (mode, content)}`."""
    made = b""
    for number, (name, (mode, content)) in enumerate([*files.items(), ("TRAILER!!!", (0, b""))], 1):
        fields = [number, mode, 0, 0, 1, 0, len(content), 0, 0, 0, 0, len(name) + 1, 0]
        head = b"070701" + b"".join(b"%08x" % field for field in fields) + name.encode() + b"\0"
        made += head.ljust((len(head) + 3) & ~3, b"\0") + content.ljust((len(content) + 3) & ~3, b"\0")
    return gzip.compress(made, 1)


class SecureMachine:
    """Switched off until `boot`; its variables outlive that."""

    def __init__(self, folder: Path) -> None:
        self.parts = unpacked()
        self.folder, self.esp = folder, folder / "esp"
        self.flash = Flash(folder / "variables.fd")
        shutil.copy(self.parts / "usr/share/OVMF/OVMF_VARS_4M.ms.fd", self.flash.file)
        self.seen = ""
        self.process: subprocess.Popen[bytes] | None = None
        boot = self.esp / "EFI/BOOT"
        boot.mkdir(parents=True)
        shutil.copy(self.parts / "usr/lib/shim/shimx64.efi.signed", boot / "BOOTX64.EFI")
        shutil.copy(self.parts / "usr/lib/shim/mmx64.efi.signed", boot / "mmx64.efi")
        shutil.copy(self.parts / "usr/lib/grub/x86_64-efi-signed/grubx64.efi.signed", boot / "grubx64.efi")
        (self.esp / "EFI/debian").mkdir()
        (self.esp / "EFI/debian/grub.cfg").write_text(GRUB)
        shutil.copy(next(self.parts.glob("boot/vmlinuz-*")), self.esp / "vmlinuz")

    def put_module(self, key: Path, certificate: Path) -> None:
        """A module of Debian's kernel, its signature replaced by one of this key, for the next boots to load."""
        module = self.folder / "module.ko"
        whole = next(self.parts.glob("lib/modules/*/kernel/drivers/net/dummy.ko")).read_bytes()
        assert whole.endswith(SIGNATURE_END)
        end = len(whole) - len(SIGNATURE_END) - SIGNATURE_HEAD
        size = int.from_bytes(whole[end + SIGNATURE_HEAD - 4 : end + SIGNATURE_HEAD], "big")
        module.write_bytes(whole[: end - size])
        sign = next((REPOSITORY / "tests/fleet/packages/kernel-devel").glob("usr/src/kernels/*/scripts/sign-file"))
        run([sign, "sha256", key, certificate, module])
        read = {
            "bin/busybox": next(
                path for path in (self.parts / "bin/busybox", self.parts / "usr/bin/busybox") if path.exists()
            ),
            "efivarfs.ko": next(self.parts.glob("lib/modules/*/kernel/fs/efivarfs/efivarfs.ko")),
            "module.ko": module,
        }
        folders = {name: (0o40755, b"") for name in ("bin", "proc", "sys", "dev")}
        files = {name: (0o100755, path.read_bytes()) for name, path in read.items()}
        (self.esp / "initrd").write_bytes(archive({**folders, **files, "init": (0o100755, INIT.encode())}))

    def boot(self) -> None:
        firmware = self.parts / "usr/share/OVMF/OVMF_CODE_4M.ms.fd"
        words = [
            *("nice", "qemu-system-x86_64", "-machine", "q35,smm=on", "-accel", "tcg", "-cpu", "max", "-m", "1024"),
            *("-nodefaults", "-display", "none", "-no-reboot", "-serial", "stdio"),
            *("-global", "driver=cfi.pflash01,property=secure,value=on"),
            *("-drive", f"if=pflash,format=raw,unit=0,file={firmware},readonly=on"),
            *("-drive", f"if=pflash,format=raw,unit=1,file={self.flash.file}"),
            *("-drive", f"file=fat:{self.esp},format=raw,if=none,id=esp,readonly=on"),
            *("-device", "virtio-blk-pci,drive=esp,bootindex=0"),
        ]  # fmt: skip
        STATE.mkdir(parents=True, exist_ok=True)
        self.seen = ""
        self.process = subprocess.Popen(
            words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, bufsize=0
        )
        assert self.process.stdout
        os.set_blocking(self.process.stdout.fileno(), False)

    def _chunks(self) -> Iterator[str]:
        """What the console shows, as it comes, without its colours and places."""
        assert self.process and self.process.stdout
        end = time.monotonic() + WAIT_SECONDS
        while time.monotonic() < end:
            over = self.process.poll() is not None
            select.select([self.process.stdout], [], [], 0.5)
            data = self.process.stdout.read()
            if data:
                with (STATE / "secure-boot-console.log").open("ab") as log:
                    log.write(data)
                yield re.sub(r"\x1b\[[0-9;=?]*[A-Za-z]", "", data.decode("utf-8", "replace"))
            elif over:
                return

    def wait_for(self, words: str) -> str:
        """What was shown until these words, and with them; what comes after is kept for the next."""
        if words not in self.seen:
            for text in self._chunks():
                self.seen += text
                if words in self.seen:
                    break
        assert words in self.seen, f"the console did not show {words!r}, but:\n{self.seen[-3000:]}"
        shown, _, self.seen = self.seen.partition(words)
        return shown + words

    def press(self, *keys: str) -> None:
        """As a person types: MokManager draws its boxes between two keys."""
        assert self.process and self.process.stdin
        for key in keys:
            time.sleep(0.7)
            self.process.stdin.write(key.encode())

    def wait_off(self) -> None:
        assert self.process
        self.process.wait(WAIT_SECONDS)

    def stop(self) -> None:
        if self.process and self.process.poll() is None:
            self.process.kill()
            self.process.wait()
