"""The files of a stand-in package: from Debian twins, from tests/fleet/packages and from repositories.yml."""

from __future__ import annotations

import shutil
from pathlib import Path

from .modules import write_signed_modules
from .paths import PACKAGES_DIR
from .shell import FleetError, run
from .specs import Package, fill

# Folders that Debian 12 and RHEL have merged into /usr; /lib/modules keeps its name, as in RHEL's packages.
MERGED = ("bin", "sbin", "lib", "lib64")
UNWANTED = ("usr/share/doc", "usr/share/man", "usr/share/lintian", "usr/share/apport", "usr/share/locale")


def merge_usr(root: Path) -> None:
    """Move /bin, /sbin, /lib of a Debian package under /usr."""
    for name in MERGED:
        old = root / name
        if old.is_dir() and not old.is_symlink():
            shutil.copytree(old, root / "usr" / name, symlinks=True, dirs_exist_ok=True)
            shutil.rmtree(old)


def unpack_twin(deb_dir: Path, name: str, root: Path) -> None:
    found = sorted(deb_dir.glob(f"{name}_*.deb"))
    if not found:
        raise FleetError(f"Debian package {name!r} of repositories.yml is not in tests/fleet/el8/twins.txt.")
    run(["dpkg-deb", "-x", found[0], root])


def copy_tree(source: Path, root: Path, package: Package) -> None:
    """Copy a folder; @NAME@ in paths and texts is replaced, executable bits are kept."""
    for file in sorted(p for p in source.rglob("*") if p.is_file() and "__pycache__" not in p.parts):
        target = root / fill(str(file.relative_to(source)), package.words)
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(fill(file.read_text(), package.words))
        target.chmod(0o755 if file.stat().st_mode & 0o100 else 0o644)


def keep_only(root: Path, prefixes: tuple[str, ...]) -> None:
    for file in [p for p in root.rglob("*") if p.is_symlink() or p.is_file()]:
        if not any(f"/{file.relative_to(root)}".startswith(prefix + "/") for prefix in prefixes):
            file.unlink()


def move_libraries(root: Path, folder: str) -> None:
    """Debian's multiarch libraries at their EL8 path."""
    target = root / folder.lstrip("/")
    target.mkdir(parents=True, exist_ok=True)
    for library in sorted((root / "usr/lib/x86_64-linux-gnu").glob("*.so*")):
        library.rename(target / library.name)


def make_payload(package: Package, deb_dir: Path, root: Path) -> list[str]:
    """Create the package's files below `root` and return the lines of its %files section."""
    root.mkdir(parents=True)
    for twin in package.twins:
        unpack_twin(deb_dir, twin, root)
    if package.twins:
        merge_usr(root)
        for folder in UNWANTED:
            shutil.rmtree(root / folder, ignore_errors=True)
    if package.twin_paths:
        keep_only(root, package.twin_paths)
    if package.libraries_to:
        move_libraries(root, package.libraries_to)
    for old, new in package.moves.items():
        target = root / new.lstrip("/")
        target.parent.mkdir(parents=True, exist_ok=True)
        (root / old.lstrip("/")).rename(target)
    if package.tree:
        copy_tree(PACKAGES_DIR / package.tree, root, package)
    for path, text in package.files.items():
        target = root / path.lstrip("/")
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(text)
    for path, link in package.links.items():
        target = root / path.lstrip("/")
        target.parent.mkdir(parents=True, exist_ok=True)
        target.symlink_to(link)
    if package.signed_modules:
        write_signed_modules(root / package.signed_modules.lstrip("/"), package.words)
    for path in package.dirs:
        (root / path.lstrip("/")).mkdir(parents=True, exist_ok=True)
    return [f"%dir {path}" for path in package.dirs] + file_lines(root)


def file_lines(root: Path) -> list[str]:
    """%files lines; folders are left to the base system, so that packages may share them."""
    lines = []
    for path in sorted(root.rglob("*")):
        if path.is_symlink() or path.is_file():
            name = "/" + str(path.relative_to(root))
            config = "%config(noreplace) " if name.startswith("/etc/") and not path.is_symlink() else ""
            lines.append(f'%attr(-,root,root) {config}"{name}"')
    return lines
