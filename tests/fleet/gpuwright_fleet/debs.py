"""Stand-in packages for apt, and the flat repository that has them: control files, an index, its signature."""

from __future__ import annotations

import hashlib
import re
from email.utils import formatdate
from pathlib import Path

from .payload import make_payload
from .shell import run
from .specs import Package

# The kinds of relations that repositories.yml names, in the words of Debian's control files.
RELATIONS = {"requires": "Depends", "provides": "Provides", "conflicts": "Conflicts", "obsoletes": "Replaces"}
SCRIPTS = {"post": "postinst", "preun": "prerm"}
INDEX = "Packages"
LEGAL_NAME = re.compile(r"[a-z0-9][a-z0-9+.-]+")


def can_be_built(package: Package) -> bool:
    """Whether Debian allows the name: that of a kernel is this machine's, and RHEL's kernels have a _ in theirs."""
    return LEGAL_NAME.fullmatch(package.name) is not None


def deb_version(package: Package) -> str:
    epoch = f"{package.epoch}:" if package.epoch else ""
    return f"{epoch}{package.version}-{package.release}"


def deb_file(package: Package) -> str:
    return f"{package.name}_{package.version}-{package.release}.deb"


def control_text(package: Package) -> str:
    """The control file of a package; relations stand in repositories.yml as they stand here."""
    fields = {
        "Package": package.name,
        "Version": deb_version(package),
        "Architecture": "all" if package.noarch else "amd64",
        "Maintainer": "gpuwright tests <tests@gpuwright.invalid>",
        **{word: ", ".join(getattr(package, kind)) for kind, word in RELATIONS.items()},
        "Description": f"stand-in for {package.name} (gpuwright test fleet)",
    }
    return "".join(f"{key}: {value}\n" for key, value in fields.items() if value)


def build_deb(package: Package, deb_dir: Path, work: Path, out: Path) -> None:
    """One package, into the folder of its repository below `out`."""
    tree = work / package.repository / deb_file(package)
    make_payload(package, deb_dir, tree)
    (tree / "DEBIAN").mkdir()
    (tree / "DEBIAN/control").write_text(control_text(package))
    for kind, script in SCRIPTS.items():
        if text := getattr(package, kind):
            (tree / "DEBIAN" / script).write_text(f"#!/bin/sh\n{text}")
            (tree / "DEBIAN" / script).chmod(0o755)
    tree.chmod(0o755)
    folder = out / package.repository
    folder.mkdir(parents=True, exist_ok=True)
    run(["dpkg-deb", "--root-owner-group", "-Znone", "--build", tree, folder / deb_file(package)])


def index_entry(file: Path) -> str:
    """What a repository says of a package: its control file, its place, size and hash."""
    control = run(["dpkg-deb", "--field", file]).stdout
    content = file.read_bytes()
    return f"{control}Filename: ./{file.name}\nSize: {len(content)}\nSHA256: {hashlib.sha256(content).hexdigest()}\n"


def write_index(folder: Path) -> Path:
    """The index of a folder of packages, as apt reads it."""
    index = folder / INDEX
    index.write_text("\n".join(index_entry(file) for file in sorted(folder.glob("*.deb"))))
    return index


def release_text(index: Path, label: str) -> str:
    """The file that a repository signs: what its index must be."""
    content = index.read_bytes()
    digest = hashlib.sha256(content).hexdigest()
    return (
        f"Origin: {label}\nLabel: {label}\nDate: {formatdate(usegmt=True)}\nArchitectures: amd64\n"
        f"SHA256:\n {digest} {len(content)} {index.name}\n"
    )


def make_apt_repository(folder: Path, label: str, home: Path, fingerprint: str) -> None:
    """Index and signature of a folder of packages; `home`: GnuPG's, with the key of this fingerprint."""
    release = folder / "Release"
    release.write_text(release_text(write_index(folder), label))
    gpg = ["gpg", "--homedir", str(home), "--batch", "--yes", "--local-user", fingerprint]
    run([*gpg, "--output", folder / "InRelease", "--clearsign", release])
    release.unlink()
