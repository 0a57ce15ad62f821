"""Ubuntu's archive as its hosts see it: suites, components, a signature; and the userland that stands in for Ubuntu's.

Free software in it is Debian's build of it. What Ubuntu alone has is a stand-in of ubuntu/repositories.yml.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import tempfile
from dataclasses import dataclass
from email.utils import formatdate
from pathlib import Path

import yaml

from . import debs
from .base import SUITE, build_base
from .paths import UBUNTU_DIR, UBUNTU_REPOSITORIES_FILE, cache_dir, content_hash, is_complete
from .repositories import make_key
from .shell import run, step
from .specs import Package, expand

COMPONENTS = ("main", "restricted", "universe", "multiverse")
# Beside the release itself. What is for a kernel that is newer than the one that runs is in both.
POCKETS = ("", "-updates", "-security")


@dataclass(frozen=True)
class Release:
    """A release of Ubuntu: its names, and the suite of Debian whose userland stands in for its own."""

    version: str
    codename: str
    title: str
    suite: str


RELEASES = {
    "ubuntu2204": Release("22.04", "jammy", "Jammy Jellyfish", SUITE),
    "ubuntu2404": Release("24.04", "noble", "Noble Numbat", "trixie"),
}


def build_archive(platform: str, base: Path, repositories: Path) -> Path:
    """A folder that is served as Ubuntu's mirror: pool/, dists/, and beside them keyring.gpg.

    base  the userland, with the packages of archive.txt       repositories  with the stand-ins of this platform
    """
    target = cache_dir() / f"archive_{platform}-{content_hash([Path(__file__)], base.name, repositories.name)}"
    if is_complete(target):
        return target
    shutil.rmtree(target, ignore_errors=True)
    (target / "pool").mkdir(parents=True)
    for file in [*(base / "debs").glob("*.deb"), *(repositories / platform).glob("*.deb")]:
        os.link(file, target / "pool" / file.name.replace("%3a", "."))
    listed = expand(yaml.safe_load(UBUNTU_REPOSITORIES_FILE.read_text()), os.uname().release)
    own = {debs.deb_file(package): package for package in listed if package.repository == platform}
    release = RELEASES[platform]
    with (
        step(f"archive of Ubuntu {release.version} (dpkg-deb, gpg)"),
        tempfile.TemporaryDirectory(prefix="fleet-") as made,
    ):
        home = Path(made) / "ubuntu"
        fingerprint = make_key(home, "ubuntu")
        gpg: list[str | Path] = ["gpg", "--homedir", home, "--batch", "--yes", "--local-user", fingerprint]
        run([*gpg, "--output", target / "keyring.gpg", "--export", fingerprint])
        places = {file: place_of(own.get(file.name)) for file in sorted((target / "pool").glob("*.deb"))}
        entries = {file: debs.index_entry(file).replace("Filename: ./", "Filename: pool/") for file in places}
        for pocket in POCKETS:
            here = {file: component for file, (pockets, component) in places.items() if pocket in pockets}
            folder = target / "dists" / (release.codename + pocket)
            write_suite(folder, release, pocket, {entries[file]: component for file, component in here.items()})
            run([*gpg, "--output", folder / "InRelease", "--clearsign", folder / "Release"])
            (folder / "Release").unlink()
        run(["gpgconf", "--homedir", home, "--kill", "gpg-agent"], check=False)
    (target / "complete").touch()
    return target


def place_of(package: Package | None) -> tuple[tuple[str, ...], str]:
    """(pockets, component) of a stand-in, or of a package of Debian's (None)."""
    words = package.words if package else {}
    return POCKETS[1:] if words.get("ROLE") == "newer" else POCKETS[:1], words.get("COMPONENT", "main")


def write_suite(folder: Path, release: Release, pocket: str, entries: dict[str, str]) -> None:
    """The indexes of one suite, and the file that is signed; `entries` of packages, with their components."""
    lines = [
        "Origin: Ubuntu", "Label: Ubuntu", f"Suite: {release.codename}{pocket}", f"Version: {release.version}",
        f"Codename: {release.codename}", f"Date: {formatdate(usegmt=True)}", "Architectures: amd64",
        f"Components: {' '.join(COMPONENTS)}", "SHA256:",
    ]  # fmt: skip
    for component in COMPONENTS:
        name = f"{component}/binary-amd64/Packages"
        (folder / name).parent.mkdir(parents=True)
        content = "\n".join(entry for entry, own in entries.items() if own == component).encode()
        (folder / name).write_bytes(content)
        lines.append(f" {hashlib.sha256(content).hexdigest()} {len(content)} {name}")
    (folder / "Release").write_text("\n".join(lines) + "\n")


def build_userland(platform: str) -> Path:
    return build_base(UBUNTU_DIR, RELEASES[platform].suite)
