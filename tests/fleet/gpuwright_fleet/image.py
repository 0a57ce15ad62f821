"""The container image of a bare server: base userland + identity + stand-in packages of the installer."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Callable
from pathlib import Path

from .interpreter import PYTHON_OF, copy_python, find_python
from .paths import CONTAINERFILE, DEBIAN_DIR, EL8_DIR, FLEET_DIR, UBUNTU_DIR, content_hash
from .podman import podman
from .shell import FleetError, step
from .ubuntu import RELEASES

# Shared by a Debian host and the RHEL stand-in: how it is reached, and its hardware.
SHARED_FILES = (
    "etc/ssh/sshd_config.d/10-fleet.conf",
    "etc/sudoers.d/admin",
    "etc/systemd/journald.conf.d/fleet.conf",
    "usr/lib/systemd/system/gpuwright-tuning.service.d/fleet.conf",
    "usr/lib/systemd/system/service.d/fleet.conf",
    "usr/libexec/fleet/hardware.py",
    "usr/libexec/fleet/init",
    "usr/libexec/fleet/python",
)
# The same, with a kernel that is simulated like theirs.
KERNEL_FILES = ("usr/lib/systemd/system/fleet-modules.service", "usr/libexec/fleet/kernel.py")
CA_BUNDLES = ("/etc/ssl/certs/ca-certificates.crt", "/etc/pki/tls/certs/ca-bundle.crt")


def ca_bundle() -> Path | None:
    candidates = [os.environ.get("SSL_CERT_FILE", ""), *CA_BUNDLES]
    return next((Path(name) for name in candidates if name and Path(name).is_file()), None)


def ca_fingerprint() -> str:
    bundle = ca_bundle()
    return content_hash([bundle]) if bundle else "none"


def split_certificates(bundle: str) -> list[str]:
    """The single certificates of a bundle: update-ca-certificates wants one per file."""
    end = "-----END CERTIFICATE-----"
    parts = [part[part.find("-----BEGIN CERTIFICATE-----") :] for part in bundle.split(end)[:-1]]
    return [f"{part}{end}\n" for part in parts]


def import_base(base: Path) -> str:
    """The image of a userland, imported once."""
    name = f"localhost/gpuwright-{base.name}:latest"
    if podman("image", "exists", name, check=False).returncode != 0:
        with step("import of the userland (podman import)"):
            podman("import", str(base / "base.tar"), name)
    return name


def build_el_image(base: Path, repositories: Path, platform: str = "el8") -> str:
    """RHEL on the Debian 12 userland, 8.8 also on what FLEET_EL8_IMAGE names; the image's name.

    platform  el8, or el8-python38 with another Python beside its own, or el9 or el10, whose folders have what differs
    """
    swapped = os.environ.get("FLEET_EL8_IMAGE", "") if platform == "el8" else ""
    own = FLEET_DIR / platform
    files = [EL8_DIR, *([own] if own.is_dir() and own != EL8_DIR else []), CONTAINERFILE, Path(__file__)]
    # They are made anew with an empty cache, and the host trusts them.
    files.append(repositories / "keys")
    version = PYTHON_OF.get(platform, "")
    python = find_python(version) if version else None
    key = content_hash(
        files, base.name, repositories.name, swapped, ca_fingerprint(), *([python.version] if python else [])
    )

    def fill(context: Path) -> None:
        copy_tree(EL8_DIR, context)
        if own.is_dir():
            copy_tree(own, context)
        if python:
            copy_python(python, version, context / "overlay")
        shutil.copytree(repositories / "keys", context / "keys")
        if not swapped:
            (context / "installed").mkdir()
            for line in (repositories / "installed.txt").read_text().split():
                shutil.copy(repositories / line, context / "installed")

    return build_image(f"localhost/gpuwright-{platform}:{key}", lambda: swapped or import_base(base), fill)


def build_debian_image(base: Path, repositories: Path | None, name: str) -> str:
    """Debian as its installer leaves it, with the simulated hardware; the image's name.

    With `repositories` its kernel is simulated, too: one of them has its packages, and the others a driver for it.
    """
    files = SHARED_FILES + (KERNEL_FILES if repositories else ())
    shared = [EL8_DIR / "overlay" / file for file in files]
    served = repositories.name if repositories else ""
    listed = (repositories / "installed-debs.txt").read_text().split() if repositories else []
    installed = [line for line in listed if line.startswith("debian-kernel/")]
    if repositories and f"linux-image-{os.uname().release}" not in "".join(installed):
        raise FleetError(f"No package of Debian can have the name of this machine's kernel, {os.uname().release}.")
    keys = [repositories / "keys"] if repositories else []
    key = content_hash([DEBIAN_DIR, CONTAINERFILE, *shared, *keys, Path(__file__)], base.name, served, ca_fingerprint())

    def fill(context: Path) -> None:
        copy_tree(DEBIAN_DIR, context)
        for file in files:
            (context / "overlay" / file).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(EL8_DIR / "overlay" / file, context / "overlay" / file)
        if repositories:
            shutil.copytree(repositories / "keys", context / "keys")
            (context / "installed").mkdir()
            for line in installed:
                shutil.copy(repositories / line, context / "installed")

    title = f"{name}-nvidia" if repositories else name
    return build_image(f"localhost/gpuwright-{title}:{key}", lambda: import_base(base), fill)


def build_ubuntu_image(base: Path, repositories: Path, archive: Path, platform: str) -> str:
    """Ubuntu as its installer leaves it, on Debian's userland: its identity, its archive, a simulated kernel, grub."""
    release, version = RELEASES[platform], PYTHON_OF[platform]
    python = find_python(version)
    shared = [*SHARED_FILES, *KERNEL_FILES, "usr/libexec/fleet/grub.py", "usr/libexec/fleet/firmware.py"]
    files = [DEBIAN_DIR / "setup", UBUNTU_DIR, CONTAINERFILE, Path(__file__)]
    files += [EL8_DIR / "overlay" / file for file in shared]
    key = content_hash(files, base.name, archive.name, python.version, ca_fingerprint())
    listed = (repositories / "installed-debs.txt").read_text().split()
    installed = [line for line in listed if line.startswith(platform + "/")]

    def fill(context: Path) -> None:
        copy_tree(UBUNTU_DIR / "overlay", context / "overlay")
        for file in shared:
            (context / "overlay" / file).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(EL8_DIR / "overlay" / file, context / "overlay" / file)
        copy_python(python, version, context / "overlay")
        shutil.copy(DEBIAN_DIR / "setup", context / "setup")
        shutil.copy(UBUNTU_DIR / "setup", context / "ubuntu-setup")
        shutil.copy(archive / "keyring.gpg", context)
        words = {"@VERSION@": release.version, "@CODENAME@": release.codename, "@TITLE@": release.title}
        text = (UBUNTU_DIR / "os-release").read_text()
        for word, value in words.items():
            text = text.replace(word, value)
        (context / "os-release").write_text(text)
        (context / "installed").mkdir()
        for line in installed:
            shutil.copy(repositories / line, context / "installed")

    return build_image(f"localhost/gpuwright-{platform}:{key}", lambda: import_base(base), fill)


def copy_tree(source: Path, target: Path) -> None:
    shutil.copytree(source, target, symlinks=True, dirs_exist_ok=True, ignore=shutil.ignore_patterns("__pycache__"))


def build_image(name: str, find_parent: Callable[[], str], fill: Callable[[Path], None]) -> str:
    """Build the image unless it is there: `fill` puts its files into the folder that the Containerfile copies."""
    if podman("image", "exists", name, check=False).returncode == 0:
        return name
    parent = find_parent()
    with tempfile.TemporaryDirectory(prefix="fleet-") as temporary:
        context = Path(temporary)
        shutil.copy(CONTAINERFILE, context)
        fill(context)
        bundle = ca_bundle()
        if bundle:
            (context / "ca").mkdir()
            for number, certificate in enumerate(split_certificates(bundle.read_text())):
                (context / "ca" / f"controller-{number:03}.crt").write_text(certificate)
        with step(f"image of the bare server (podman build, {name.partition('/')[2].partition(':')[0]})"):
            podman(
                "build", "--isolation", "chroot", "--network", "host", "--pull=never", "--layers=false",
                "--build-arg", f"BASE={parent}", "--tag", name, str(context),
            )  # fmt: skip
    remove_old_images(name)
    return name


def remove_old_images(newest: str) -> None:
    """Remove images of earlier builds; podman refuses to remove one that a container uses, which is fine."""
    names = podman("images", "--format", "{{.Repository}}:{{.Tag}}").stdout.split()
    for name in names:
        if name.startswith(newest.rpartition(":")[0] + ":") and name != newest:
            podman("image", "rm", name, check=False)
