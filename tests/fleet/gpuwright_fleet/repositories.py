"""Builds the stand-in repositories: RPMs with signatures, metadata and module streams, and those for apt."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import yaml

from .debs import build_deb, can_be_built, deb_file, make_apt_repository
from .paths import (
    DEBIAN_REPOSITORIES_FILE,
    PACKAGES_DIR,
    REPOSITORIES_FILE,
    UBUNTU_REPOSITORIES_FILE,
    cache_dir,
    content_hash,
    is_complete,
)
from .payload import make_payload
from .shell import run, say, step
from .specs import Package, expand, module_documents, selected, spec_text

CODE = Path(__file__).resolve().parent
# Fast instead of small, and nothing that a stand-in does not need (debug packages, build ids, file checks).
RPM_MACROS = {
    "_binary_payload": "w1.gzdio",
    "__os_install_post": "%{nil}",
    "debug_package": "%{nil}",
    "_build_id_links": "none",
    "__check_files": "%{nil}",
    "_build_name_fmt": "%%{NAME}-%%{VERSION}-%%{RELEASE}.%%{ARCH}.rpm",
    "_buildhost": "fleet",
}


def repositories_key(base_key: str) -> str:
    code = [CODE / name for name in ("repositories.py", "debs.py", "payload.py", "modules.py", "specs.py")]
    lists = [REPOSITORIES_FILE, DEBIAN_REPOSITORIES_FILE, UBUNTU_REPOSITORIES_FILE]
    return content_hash([*lists, PACKAGES_DIR, *code], base_key, os.uname().release)


def build_rpm(package: Package, deb_dir: Path, work: Path, out: Path) -> None:
    name = f"{package.name}-{package.version}-{package.release}"
    payload = work / "payload" / name
    files = make_payload(package, deb_dir, payload)
    spec = work / f"{name}.spec"
    spec.write_text(spec_text(package, str(payload), files))
    (work / "rpmbuild" / name).mkdir(parents=True)  # two rpmbuilds at once must not create the same parent
    target = out / package.repository / "Packages"
    target.mkdir(parents=True, exist_ok=True)
    macros = RPM_MACROS | {"_topdir": str(work / "rpmbuild" / name), "_rpmdir": str(target)}
    defines = [word for key, value in macros.items() for word in ("--define", f"{key} {value}")]
    run(["rpmbuild", "-bb", "--nodeps", "--quiet", "--target", package.arch, *defines, spec])
    shutil.rmtree(payload)
    shutil.rmtree(work / "rpmbuild" / name)


def make_key(home: Path, name: str) -> str:
    """A throwaway signing key; returns its fingerprint."""
    home.mkdir(mode=0o700)
    gpg = ["gpg", "--homedir", str(home), "--batch", "--quiet"]
    owner = f"gpuwright stand-in {name} <{name}@repo.fleet.test>"
    run([*gpg, "--passphrase", "", "--quick-gen-key", owner, "rsa2048", "sign", "never"])
    listing = run([*gpg, "--with-colons", "--list-keys"]).stdout
    return next(line.split(":")[9] for line in listing.splitlines() if line.startswith("fpr:"))


def sign_packages(home: Path, fingerprint: str, folder: Path) -> None:
    gpg = shutil.which("gpg") or "/usr/bin/gpg"  # rpmsign does not search PATH
    defines = {"__gpg": gpg, "_gpg_name": fingerprint, "_gpg_path": str(home), "_gpg_digest_algo": "sha256"}
    words = [word for key, value in defines.items() for word in ("--define", f"{key} {value}")]
    rpms = sorted(folder.glob("*.rpm"))
    run(["rpmsign", "--addsign", *words, *rpms])


def make_metadata(folder: Path, modules: list[dict[str, Any]], home: Path, fingerprint: str) -> None:
    run(["createrepo_c", "--quiet", "--general-compress-type", "gz", "--compatibility", "--no-database", folder])
    if modules:
        text = folder / "modules.yaml"
        text.write_text(yaml.safe_dump_all(modules, explicit_start=True, sort_keys=False))
        run(["modifyrepo_c", "--mdtype=modules", "--compress-type", "gz", text, folder / "repodata"])
        text.unlink()
    gpg = ["gpg", "--homedir", str(home), "--batch", "--yes", "--local-user", fingerprint, "--armor"]
    run([*gpg, "--detach-sign", folder / "repodata/repomd.xml"])


def export_key(work: Path, key: str, target: Path) -> str:
    """Make a signing key in a folder of its own name, and offer its public half; returns its fingerprint."""
    fingerprint = make_key(work / key, key)
    (target / "keys").mkdir(exist_ok=True)
    exported = run(["gpg", "--homedir", work / key, "--batch", "--armor", "--export"]).stdout
    (target / "keys" / f"RPM-GPG-KEY-{key}").write_text(exported)
    return fingerprint


def build_repositories(base: Path, base_key: str) -> Path:
    """The folder that the repository server serves: <repository>/, keys/, and beside them fingerprints.yml.

    installed.txt and installed-debs.txt list the packages that are on a bare server.
    """
    target = cache_dir() / f"repositories-{repositories_key(base_key)}"
    if is_complete(target):
        return target
    shutil.rmtree(target, ignore_errors=True)
    sources = (REPOSITORIES_FILE, DEBIAN_REPOSITORIES_FILE, UBUNTU_REPOSITORIES_FILE)
    rpms, debs, ubuntu = (yaml.safe_load(path.read_text()) for path in sources)
    with tempfile.TemporaryDirectory(prefix="fleet-") as temporary:
        work = Path(temporary)
        installed = build_packages(rpms, [debs, ubuntu], base / "debs", work, target)
        entries = [*rpms["repositories"].values(), *debs["repositories"].values()]
        fingerprints = {key: export_key(work, key, target) for key in sorted({entry["key"] for entry in entries})}
        with step("signatures and metadata (rpmsign, createrepo_c, gpg)"):
            for name, entry in rpms["repositories"].items():
                home, fingerprint = work / entry["key"], fingerprints[entry["key"]]
                if "same_as" in entry:
                    copy_packages(rpms, entry, target, target / name, rpm_place)
                else:
                    sign_packages(home, fingerprint, target / name / "Packages")
                make_metadata(target / name, documents_of(rpms, name), home, fingerprint)
            for name, entry in debs["repositories"].items():
                if "same_as" in entry:
                    copy_packages(debs, entry, target, target / name, deb_file)
                make_apt_repository(target / name, entry["title"], work / entry["key"], fingerprints[entry["key"]])
        for key in fingerprints:
            run(["gpgconf", "--homedir", work / key, "--kill", "gpg-agent"], check=False)
    (target / "fingerprints.yml").write_text(yaml.safe_dump(fingerprints))
    for name, files in installed.items():
        (target / name).write_text("".join(f"{file}\n" for file in files))
    (target / "complete").touch()
    say(f"   repositories: {target}")
    return target


def build_packages(
    rpms: dict[str, Any], debs: list[dict[str, Any]], twins: Path, work: Path, target: Path
) -> dict[str, list[str]]:
    """Build everything that the lists name; the files of packages that a bare server has, by package manager."""
    for_dnf = expand(rpms, os.uname().release)
    for_apt = [package for data in debs for package in expand(data, os.uname().release) if can_be_built(package)]
    (work / "payload").mkdir()
    count = len(for_dnf) + len(for_apt)
    with step(f"{count} stand-in packages (rpmbuild, dpkg-deb)"), ThreadPoolExecutor(os.cpu_count()) as pool:
        list(pool.map(lambda package: build_rpm(package, twins, work, target), for_dnf))
        list(pool.map(lambda package: build_deb(package, twins, work / "payload", target), for_apt))
    return {
        "installed.txt": [f"{p.repository}/{rpm_place(p)}" for p in for_dnf if p.installed],
        "installed-debs.txt": [f"{p.repository}/{deb_file(p)}" for p in for_apt if p.installed],
    }


def rpm_file(package: Package) -> str:
    return f"{package.name}-{package.version}-{package.release}.{package.arch}.rpm"


def rpm_place(package: Package) -> str:
    """Where a repository for dnf has a package; one for apt has all in its own folder."""
    return f"Packages/{rpm_file(package)}"


def copy_packages(
    data: dict[str, Any], entry: dict[str, Any], target: Path, folder: Path, place: Callable[[Package], str]
) -> None:
    """The finished packages of another repository, without those that `entry` leaves out.

    place  of a package: its path in the folder of a repository
    """
    for package in expand(data, os.uname().release):
        if package.repository == entry["same_as"] and selected({"except": entry.get("except", {})}, package.words):
            (folder / place(package)).parent.mkdir(parents=True, exist_ok=True)
            os.link(target / entry["same_as"] / place(package), folder / place(package))


def documents_of(data: dict[str, Any], repository: str) -> list[dict[str, Any]]:
    """The modulemd documents of one repository."""
    packages = expand(data, os.uname().release)
    entry = data["repositories"][repository]
    if not entry.get("modules", True):
        return []
    modules = [module for module in data["modules"] if module["repository"] == entry.get("same_as", repository)]
    return [document for module in modules for document in module_documents(module, packages)]
