# SPDX-License-Identifier: Apache-2.0
"""Resolve packages for a bare system with dnf, download them with all that they need, and make repositories of them.

The system that does it is a connected one of the same release. Nothing is installed on it: dnf resolves for an empty
root, so that what this machine happens to have is not missing on another.
"""

import errno
import os
import re
import shutil
import subprocess
import tempfile
from typing import Any, Dict, List, Mapping, Sequence

from ..host.bounded import find_program, program_environment
from ..host.files import read_assignments
from ..host.whole_file import write_whole
from ..host.written.owning import own_path

MODULES = "modules"
PROGRAM_SECONDS = 900
PLATFORM = "PLATFORM_ID"
STAMP = re.compile(rb"<timestamp>[0-9]+</timestamp>")
# Every group of packages is resolved by itself: two hosts may want two branches of one module.
Group = Mapping[str, Sequence[str]]


class PackagesError(Exception):
    """What cannot be resolved, downloaded or written; the text says which, why, and what to do next."""

    def __init__(self, fault: str, text: str) -> None:
        super().__init__(f"{text}. Mend that on {os.uname().nodename} and run again; what is there is kept. [{fault}]")


class Resolver:
    """dnf with the repositories of this system, and those that are given, for an empty root below `work`."""

    def __init__(self, dnf: Any, work: str, repositories: Sequence[Mapping[str, str]], root: str = "/") -> None:
        self.dnf, self.work = dnf, work
        self.installroot = os.path.join(work, "root")
        self.repositories = repositories
        self.root = root

    def base(self) -> Any:
        """A new dnf that has read the metadata of all repositories."""
        shutil.rmtree(self.installroot, ignore_errors=True)
        os.makedirs(self.installroot)
        base = self.dnf.Base()
        base.conf.read()
        # Before the root changes: the release and the files of repositories are those of this system.
        base.conf.substitutions.update_from_etc(self.root)
        base.conf.substitutions["releasever"] = self.dnf.rpm.detect_releasever(self.root)
        base.conf.cachedir = os.path.join(self.work, "cache")
        base.conf.keepcache = True
        if not base.conf.module_platform_id:
            base.conf.module_platform_id = read_assignments(self.root, "/etc/os-release").get(PLATFORM, "")
        base.read_all_repos()
        base.conf.installroot = self.installroot
        base.conf.persistdir = os.path.join(self.installroot, "var/lib/dnf")
        given = {row["id"] for row in self.repositories}
        for repository in list(base.repos.iter_enabled()):
            if repository.id in given:
                repository.disable()
        for row in self.repositories:
            name = "gpuwright-" + row["id"]
            base.repos.add_new_repo(name, base.conf, baseurl=[row["url"]], gpgcheck=True, gpgkey=[row["key"]])
            base.repos[name].username, base.repos[name].password = row.get("user", ""), row.get("password", "")
        try:
            base.fill_sack(load_system_repo=False, load_available_repos=True)
        except self.dnf.exceptions.Error as error:
            raise PackagesError("bundle.repository", f"A repository of this machine cannot be read: {error}") from None
        return base

    def closure(self, base: Any, group: Group) -> List[Any]:
        """All packages that a bare system installs for a group. PackagesError names what is in no repository."""
        if group.get(MODULES):
            self.dnf.module.module_base.ModuleBase(base).enable(list(group[MODULES]))
        absent = []
        for spec in group["packages"]:
            try:
                base.install(spec)
            except self.dnf.exceptions.Error:
                absent.append(spec)
        if absent:
            text = "No repository of this machine has {}. Enable the one that has it here, and run again"
            raise PackagesError("bundle.packages", text.format(", ".join(absent)))
        try:
            base.resolve()
        except self.dnf.exceptions.Error as error:
            why = " ".join(str(error).split())
            raise PackagesError("bundle.packages", "dnf finds no set of packages: " + why) from None
        return sorted(base.transaction.install_set)


def own_id(repository: str) -> str:
    """The name of a repository in a bundle."""
    return repository[len("gpuwright-") :] if repository.startswith("gpuwright-") else repository


def rows_of(packages: Sequence[Any]) -> List[Dict[str, Any]]:
    """What is told about packages: {repository, file, nevra, size, here: whether it need not be downloaded}."""
    return [
        {
            "repository": own_id(one.repo.id),
            "file": os.path.basename(one.location),
            "nevra": str(one),
            "size": int(one.downloadsize),
            "here": os.path.exists(one.localPkg()) and os.path.getsize(one.localPkg()) == one.downloadsize,
        }
        for one in packages
    ]


def download(resolver: Resolver, base: Any, packages: Sequence[Any]) -> None:
    """Download into dnf's cache, where a part of a file is continued; every package must have a good signature."""
    try:
        base.download_packages(packages)
    except resolver.dnf.exceptions.Error as error:
        text = " ".join(str(error).split())
        fault = "bundle.space" if os.strerror(errno.ENOSPC) in text else "bundle.download"
        raise PackagesError(fault, "Not all packages were downloaded; run again to continue: " + text) from None
    keys = {key for one in packages if one.repo.gpgcheck for key in one.repo.gpgkey}
    import_keys(resolver.installroot, sorted(keys))
    for one in packages:
        if not one.repo.gpgcheck:
            continue
        code, why = base.package_signature_check(one)
        if code:
            why = " ".join(str(why).split())
            text = f"{one} of {own_id(one.repo.id)} is not signed by a key of its repository: {why}"
            raise PackagesError("bundle.package_signature", text)


def import_keys(installroot: str, keys: Sequence[str]) -> None:
    """Trust keys in the empty root alone. Only files: a key is pinned before it comes here, or is the system's own."""
    for key in keys:
        if not key.startswith("file://"):
            text = (
                f"The key {key} of a repository is no file of this machine: write it to /etc/pki/rpm-gpg, and name that"
            )
            raise PackagesError("bundle.package_signature", text)
        run(["rpm", "--root", installroot, "--import", key[len("file://") :]])


def write_repository(base: Any, name: str, packages: Sequence[Any], folder: str) -> None:
    """A repository of these packages in `folder`, with the module metadata of the one that they come from."""
    packages_folder = os.path.join(folder, "Packages")
    os.makedirs(packages_folder, exist_ok=True)
    wanted = {os.path.basename(one.localPkg()): one.localPkg() for one in packages}
    for left in set(os.listdir(packages_folder)) - set(wanted):
        os.unlink(os.path.join(packages_folder, left))
    for file, source in wanted.items():
        target = os.path.join(packages_folder, file)
        if not os.path.exists(target):
            os.link(source, target)
        own_path(target, 0o644)
    repodata = os.path.join(folder, "repodata")
    shutil.rmtree(repodata, ignore_errors=True)
    # The same metadata for the same packages, so that a second run has nothing to fetch.
    run(
        [
            "createrepo_c",
            "--quiet",
            "--simple-md-filenames",
            "--no-database",
            "--revision",
            "1",
            "--set-timestamp-to-revision",
            folder,
        ]
    )
    modules = base.repos[name].get_metadata_path(MODULES)
    if modules:
        run(["modifyrepo_c", "--simple-md-filenames", "--mdtype", MODULES, modules, repodata])
        # It writes the present time, and has no option against that.
        index = os.path.join(repodata, "repomd.xml")
        with open(index, "rb") as file:
            data = file.read()
        write_whole(index, STAMP.sub(b"<timestamp>1</timestamp>", data))
    for place, _folders, files in os.walk(folder):
        own_path(place, 0o755)
        for file in files:
            own_path(os.path.join(place, file), 0o644)


def run(command: List[str]) -> None:
    """Run a program; PackagesError with its last words if it fails."""
    with tempfile.TemporaryFile() as said:
        whole = [find_program(command[0]) or command[0], *command[1:]]
        env = program_environment()
        done = subprocess.run(whole, stdout=said, stderr=said, timeout=PROGRAM_SECONDS, check=False, env=env)
        said.seek(0)
        words = said.read().decode("utf-8", "replace").split("\n")
    if done.returncode != 0:
        last = " ".join(line.strip() for line in words[-5:]).strip()
        fault = "bundle.space" if os.strerror(errno.ENOSPC) in last else "bundle.download"
        raise PackagesError(fault, f"{' '.join(command[:2])} failed: {last}")
