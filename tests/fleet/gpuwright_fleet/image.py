"""The container image of a bare server: base userland + identity + stand-in packages of the installer."""

from __future__ import annotations

import os
import shutil
import tempfile
from pathlib import Path

from .paths import EL8_DIR, content_hash
from .podman import podman
from .shell import step

CA_BUNDLES = ("/etc/ssl/certs/ca-certificates.crt", "/etc/pki/tls/certs/ca-bundle.crt")


def image_name(base: Path, repositories: Path) -> str:
    swapped = os.environ.get("FLEET_EL8_IMAGE", "")
    key = content_hash([EL8_DIR, Path(__file__)], base.name, repositories.name, swapped, ca_fingerprint())
    return f"localhost/gpuwright-el8:{key}"


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


def base_image(base: Path) -> str:
    """The image to build on: the imported Debian 12 userland, or what FLEET_EL8_IMAGE names."""
    swapped = os.environ.get("FLEET_EL8_IMAGE")
    if swapped:
        return swapped
    name = f"localhost/gpuwright-{base.name}:latest"
    if podman("image", "exists", name, check=False).returncode != 0:
        with step("import of the userland (podman import)"):
            podman("import", str(base / "base.tar"), name)
    return name


def build_image(base: Path, repositories: Path) -> str:
    name = image_name(base, repositories)
    if podman("image", "exists", name, check=False).returncode == 0:
        return name
    parent = base_image(base)
    with tempfile.TemporaryDirectory(prefix="fleet-") as temporary:
        context = Path(temporary)
        ignore = shutil.ignore_patterns("__pycache__")
        shutil.copytree(EL8_DIR, context, symlinks=True, dirs_exist_ok=True, ignore=ignore)
        shutil.copytree(repositories / "keys", context / "keys")
        if not os.environ.get("FLEET_EL8_IMAGE"):
            (context / "installed").mkdir()
            for line in (repositories / "installed.txt").read_text().split():
                shutil.copy(repositories / line, context / "installed")
        bundle = ca_bundle()
        if bundle:
            (context / "ca").mkdir()
            for number, certificate in enumerate(split_certificates(bundle.read_text())):
                (context / "ca" / f"controller-{number:03}.crt").write_text(certificate)
        with step("image of the bare server (podman build)"):
            podman(
                "build", "--isolation", "chroot", "--network", "host", "--pull=never", "--layers=false",
                "--build-arg", f"BASE={parent}", "--tag", name, str(context),
            )  # fmt: skip
    remove_old_images(name)
    return name


def remove_old_images(newest: str) -> None:
    """Images of former builds; podman refuses to remove one that a container uses, and that is fine."""
    names = podman("images", "--format", "{{.Repository}}:{{.Tag}}").stdout.split()
    for name in names:
        if name.startswith("localhost/gpuwright-el8:") and name != newest:
            podman("image", "rm", name, check=False)
