"""Debian's installer for the machine: kernel and initrd of its package, and what the archive has no udeb of.

It is the installer of Debian 13, which here installs Debian 12: an archive need not keep every installer part of an old
release, and its index need not have the kernel of the newest installer. So the kernel's modules, and the programs in
FROM_PACKAGES, are taken from the ordinary packages, and lie in the initrd as the installer itself would have put them.
The index of the other parts is signed again, with a key that the initrd has, since a cache of the archive may hold an
index of another day than its signature. What is installed is checked against Debian's own signature.
"""

from __future__ import annotations

import gzip
import hashlib
import shutil
import subprocess
import tempfile
import urllib.request
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from gpuwright_fleet.base import apt_options, controller_sources
from gpuwright_fleet.paths import cache_dir, content_hash, is_complete
from gpuwright_fleet.repositories import make_key
from gpuwright_fleet.shell import FleetError, run, step

SUITE = "trixie"
PACKAGE = "debian-installer-13-netboot-amd64"
IMAGES = "usr/lib/debian-installer/images/13/amd64/text/debian-installer/amd64"
STATUS = "var/lib/dpkg/status"
KEYRING = "usr/share/keyrings/debian-archive-keyring.pgp"
INDEX = "main/debian-installer/binary-amd64/Packages.xz"
# Part of the installer: the packages whose files take its place. Without files: nothing of it is used on this machine.
FROM_PACKAGES = {
    "e2fsprogs-udeb": ("e2fsprogs", "libext2fs2t64", "libcom-err2", "libss2"),
    "xfsprogs-udeb": ("xfsprogs", "libinih1", "liburcu8t64"),
    "libmount1-udeb": (),
    "ntfs-3g-udeb": (),
}
# Than any version in an index, whatever its epoch, so that the installer does not ask for it.
NEWER = "9:9999"
# Of the kernel: the drivers of the disk and of the file systems of a node, and what they need.
MODULES = (
    *("fs/ext4", "fs/jbd2", "fs/mbcache", "fs/xfs", "fs/fat", "fs/nls", "fs/efivarfs", "fs/jfs", "fs/btrfs"),
    *("drivers/block/virtio_blk", "drivers/md", "lib", "crypto"),
)
MODULE_PARTS = (
    *("ext2-modules", "ext3-modules", "ext4-modules", "xfs-modules", "fat-modules", "efi-modules"),
    *("scsi-modules", "ata-modules", "sata-modules", "md-modules", "jfs-modules", "btrfs-modules"),
)


@dataclass(frozen=True)
class Installer:
    """What a boot loader, or qemu in its place, starts."""

    folder: Path

    @property
    def kernel(self) -> Path:
        return self.folder / "linux"

    @property
    def initrd(self) -> Path:
        return self.folder / "initrd.gz"

    @property
    def index(self) -> dict[str, Path]:
        """{path on the mirror: file} of the index of the installer's parts, and of its signature."""
        names = {"Release": "Release", "Release.gpg": "Release.gpg", INDEX: "Packages.xz"}
        return {f"debian/dists/{SUITE}/{path}": self.folder / name for path, name in names.items()}


class Packages:
    """apt with lists of its own: the controller's archives, another release."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        (folder / "lists/partial").mkdir(parents=True)
        (folder / "sources.list").write_text("".join(f"{line}\n" for line in controller_sources(SUITE)))
        own = {
            "Dir::Etc::SourceList": folder / "sources.list",
            "Dir::Etc::SourceParts": "-",
            "Dir::State::Lists": folder / "lists",
            "Dir::Cache": folder,
            "APT::Sandbox::User": "root",
        }
        lines = [f'{key} "{value}";' for key, value in own.items()] + apt_options()
        (folder / "apt.conf").write_text("".join(f"{line}\n" for line in lines))
        self.command = ["apt-get", "-q", "--config-file", str(folder / "apt.conf")]
        run([*self.command, "update"], timeout=600)

    def unpack(self, target: Path, *names: str) -> None:
        """The files of packages, each with its newest version, into one folder."""
        with tempfile.TemporaryDirectory(dir=self.folder) as place:
            run([*self.command, "download", *names], cwd=Path(place), timeout=1800)
            for deb in sorted(Path(place).glob("*.deb")):
                run(["dpkg-deb", "-x", deb, target])


def build_installer(archive: str) -> Installer:
    """Kernel and initrd in the cache; `archive`: the address of Debian's."""
    target = cache_dir() / f"installer-{content_hash([Path(__file__)], *controller_sources(SUITE))}"
    if is_complete(target):
        return Installer(target)
    shutil.rmtree(target, ignore_errors=True)
    target.mkdir(parents=True)
    with step("Debian's installer (apt-get download)"), tempfile.TemporaryDirectory(dir=target) as name:
        work = Path(name)
        packages = Packages(work / "apt")
        packages.unpack(work / "netboot", PACKAGE)
        images = work / "netboot" / IMAGES
        shutil.copy(images / "linux", target)
        root = work / "root"
        root.mkdir()
        unpack_initrd(images / "initrd.gz", root)
        complete(root, packages, work)
        sign_index(target, archive, root / KEYRING, work)
        pack_initrd(root, target / "initrd.gz")
    (target / "complete").touch()
    return Installer(target)


def unpack_initrd(initrd: Path, root: Path) -> None:
    content = gzip.decompress(initrd.read_bytes())
    subprocess.run(["cpio", "--extract", "--make-directories", "--quiet"], input=content, cwd=root, check=True)


def pack_initrd(root: Path, target: Path) -> None:
    names = "".join(f"{path.relative_to(root)}\n" for path in sorted(root.rglob("*")))
    command = ["cpio", "--create", "--format=newc", "--owner=0:0", "--quiet"]
    done = subprocess.run(command, input=names.encode(), cwd=root, check=True, stdout=subprocess.PIPE)
    # For an emulated processor, little compression is unpacked no slower than much.
    target.write_bytes(gzip.compress(done.stdout, 1))


def complete(root: Path, packages: Packages, work: Path) -> None:
    """Into the initrd what the archive may have no udeb of, and into its list of packages that it is there."""
    release = only((root / "usr/lib/modules").iterdir()).name
    packages.unpack(work / "kernel", f"linux-image-{release}")
    modules = only((work / "kernel").glob(f"**/modules/{release}"))
    for module in sorted(modules.rglob("*.ko*")):
        name = str(module.relative_to(modules / "kernel"))
        if name.startswith(MODULES):
            place = root / "usr/lib/modules" / release / "kernel" / name
            place.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(module, place)
    run(["depmod", "--basedir", root / "usr", release])
    entries = [entry(f"modules-{release}", release, MODULE_PARTS)]
    for part, names in FROM_PACKAGES.items():
        if names:
            packages.unpack(work / part, *names)
            put_programs(work / part, root)
        entries.append(entry(part, NEWER))
    status = root / STATUS
    status.write_text(status.read_text().rstrip("\n") + "\n\n" + "\n".join(entries))


def sign_index(target: Path, archive: str, keyring: Path, work: Path) -> None:
    """The archive's index as it is, with a signature by a key that the installer's keyring then has."""
    with urllib.request.urlopen(f"{archive.rstrip('/')}/dists/{SUITE}/{INDEX}", timeout=300) as answer:
        content = answer.read()
    (target / "Packages.xz").write_bytes(content)
    digest = hashlib.sha256(content).hexdigest()
    head = f"Origin: Debian\nSuite: stable\nCodename: {SUITE}\nArchitectures: amd64\nComponents: main\n"
    (target / "Release").write_text(f"{head}SHA256:\n {digest} {len(content)} {INDEX}\n")
    home = work / "key"
    fingerprint = make_key(home, "installer")
    gpg = ["gpg", "--homedir", str(home), "--batch", "--local-user", fingerprint]
    run([*gpg, "--output", target / "Release.gpg", "--armor", "--detach-sign", target / "Release"])
    run([*gpg, "--output", work / "key.gpg", "--export", fingerprint])
    keyring.write_bytes(keyring.read_bytes() + (work / "key.gpg").read_bytes())
    run(["gpgconf", "--homedir", home, "--kill", "gpg-agent"], check=False)


def put_programs(package: Path, root: Path) -> None:
    """Programs and libraries at their places; no documentation."""
    for folder in ("sbin", "usr/sbin", "lib/x86_64-linux-gnu", "usr/lib/x86_64-linux-gnu"):
        for path in sorted((package / folder).glob("*")):
            place = root / "usr" / folder.removeprefix("usr/") / path.name
            place.parent.mkdir(parents=True, exist_ok=True)
            if path.is_symlink() or path.is_file():
                place.unlink(missing_ok=True)
                shutil.copy(path, place, follow_symlinks=False)


def entry(name: str, version: str, provides: tuple[str, ...] = ()) -> str:
    """A part that the installer takes for installed."""
    also = f"Provides: {', '.join(provides)}\n" if provides else ""
    return f"Package: {name}\nStatus: install ok installed\nVersion: {version}\nArchitecture: amd64\n{also}"


def only(paths: Iterable[Path]) -> Path:
    found = list(paths)
    if len(found) != 1:
        raise FleetError(f"One was expected in Debian's installer, there are {len(found)}: {found}")
    return found[0]
