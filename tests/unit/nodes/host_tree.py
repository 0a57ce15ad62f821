"""A made-up host: files and links below a folder, as /proc, /sys, /boot and the rest would show them."""

from __future__ import annotations

import struct
from pathlib import Path

RUNNING = "4.18.0-477.10.1.el8_8.x86_64"
OLDER = "4.18.0-80.el8.x86_64"
NEWER = "4.18.0-553.el8_10.x86_64"


class HostTree:
    """Write files with `put` and links with `link`; `root` is what the functions under test take."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.root = str(folder)

    def put(self, path: str, content: str | bytes = "") -> None:
        """What is new has the modes of a distribution, whatever the umask of the tests is."""
        file = self.folder / path.lstrip("/")
        new = [place for place in file.parents if not place.exists()]
        file.parent.mkdir(parents=True, exist_ok=True)
        modes = dict.fromkeys(new, 0o755) | ({} if file.exists() else {file: 0o644})
        file.write_bytes(content if isinstance(content, bytes) else content.encode())
        for place, mode in modes.items():
            place.chmod(mode)

    def link(self, path: str, target: str) -> None:
        link = self.folder / path.lstrip("/")
        link.parent.mkdir(parents=True, exist_ok=True)
        link.symlink_to(target)

    def running_kernel(self, release: str) -> None:
        self.put("/proc/sys/kernel/osrelease", release + "\n")

    def kernel(self, release: str, headers: bool = False) -> None:
        """An installed kernel as on RHEL 8, with its kernel-devel when asked for."""
        self.put(f"/lib/modules/{release}/modules.dep")
        self.put(f"/boot/vmlinuz-{release}", "image")
        # kernel-core brings the link, kernel-devel what it points to.
        self.link(f"/lib/modules/{release}/build", f"/usr/src/kernels/{release}")
        if headers:
            self.put(f"/usr/src/kernels/{release}/Makefile", "all:\n")

    def boot_entry(self, name: str, release: str) -> None:
        self.put(
            f"/boot/loader/entries/{name}.conf",
            f"title Red Hat Enterprise Linux ({release}) 8.8 (Ootpa)\nversion {release}\n"
            f"linux /vmlinuz-{release}\ninitrd /initramfs-{release}.img $tuned_initrd\n",
        )

    def pci_device(self, pci_id: str, **files: str) -> None:
        """A V100 unless `files` says otherwise; a value of "" leaves the file out."""
        values = {
            "vendor": "0x10de",
            "device": "0x1db4",
            "class": "0x030200",
            "numa_node": "0",
            "local_cpulist": "0-19",
            "current_link_speed": "8 GT/s",
            "max_link_speed": "8 GT/s",
            "current_link_width": "16",
            "max_link_width": "16",
            **files,
        }
        for name, value in values.items():
            if value:
                self.put(f"/sys/bus/pci/devices/{pci_id}/{name}", value + "\n")

    def bind(self, pci_id: str, driver: str) -> None:
        self.link(f"/sys/bus/pci/devices/{pci_id}/driver", f"../../../../bus/pci/drivers/{driver}")

    def process(self, pid: int, name: str, parent: int = 1, files: tuple[str, ...] = ()) -> None:
        self.put(f"/proc/{pid}/comm", name[:15] + "\n")
        self.put(f"/proc/{pid}/stat", f"{pid} ({name[:15]}) S {parent} {pid} {pid} 0 -1\n")
        (self.folder / f"proc/{pid}/fd").mkdir(parents=True, exist_ok=True)
        for number, file in enumerate(files):
            self.link(f"/proc/{pid}/fd/{number}", file)

    def session(self, number: str, user: str, leader: int, tty: str = "", kind: str = "user") -> None:
        lines = [f"UID=1000\nUSER={user}\nACTIVE=1\nSTATE=active\nREMOTE=1\nTYPE=tty\nCLASS={kind}\nLEADER={leader}\n"]
        self.put(f"/run/systemd/sessions/{number}", "".join(lines) + (f"TTY={tty}\n" if tty else ""))

    def utmp(self, *logins: tuple[int, str, int]) -> None:
        """Records (kind, user, pid) in the layout of utmp(5) on x86_64."""
        record = struct.Struct("=hxxi32s4s32s256shhiii16s20s")
        self.put(
            "/run/utmp",
            b"".join(
                record.pack(kind, pid, b"pts/0", b"ts/0", user.encode(), b"10.0.0.1", 0, 0, 0, 0, 0, b"", b"")
                for kind, user, pid in logins
            ),
        )


def answers(**texts: str):
    """A stand-in for `probe.host.ask`: what each program says, None for one that is not named."""

    def ask(command: list[str]) -> str | None:
        return texts.get(command[0])

    return ask
