# SPDX-License-Identifier: Apache-2.0
"""Keep the exact packages of a driver on the node, and bring the node back to them; both prove what they did."""

import os
import shutil
import signal
import tempfile
import time
from typing import Any, Dict, List, Mapping, Sequence, Tuple

from ..host.bounded import Finished, run_bounded
from ..host.files import below
from ..host.owning import own_path
from . import kept
from .kept import KeptError, Package

FETCH_SECONDS = 1800
CHANGE_SECONDS = 3600
QUERY_SECONDS = 60
SHOWN_LINES = 12
OF_FILE = {
    "redhat": ["rpm", "-qp", "--nosignature", "--qf", kept.FORM["redhat"]],
    "debian": ["dpkg-deb", "--showformat", "installed ${Package} ${Version} ${Architecture}\\n", "--show"],
}
SUFFIX = {"redhat": ".rpm", "debian": ".deb"}


def installed(family: str, patterns: Sequence[str]) -> List[Package]:
    """KeptError if the package database does not answer."""
    done = run_bounded(kept.query(family, patterns), timeout=QUERY_SECONDS)
    # dpkg-query counts the patterns that find nothing.
    if done.rc not in (0, 1) or (done.rc == 1 and family == "redhat"):
        raise KeptError(f"What is installed cannot be read: {_words(done)} [upgrade.packages]")
    return kept.parse_packages(family, done.stdout)


def files_in(family: str, folder: str) -> Dict[Package, str]:
    """The packages that lie in a folder, each read from its own file: a damaged one is none."""
    found: Dict[Package, str] = {}
    for name in sorted(os.listdir(folder)) if os.path.isdir(folder) else []:
        path = os.path.join(folder, name)
        if name.endswith(SUFFIX[family]):
            done = run_bounded(OF_FILE[family] + [path], timeout=QUERY_SECONDS)
            if done.rc == 0:
                found.update((package, path) for package in kept.parse_packages(family, done.stdout))
    return found


def fetch(family: str, packages: Sequence[Package], folder: str) -> Finished:
    """Download exactly these versions, whatever newer ones there are; nothing is installed."""
    names = [package.spelled(family) for package in packages]
    if family == "redhat":
        # Of what is installed, `install` would download nothing.
        command = ["dnf", "-y", "reinstall", "--downloadonly", "--downloaddir", folder] + names
    else:
        command = ["sh", "-c", 'cd "$0" && exec apt-get -q download "$@"', folder] + names
    return run_bounded(command, timeout=FETCH_SECONDS, stop_signal=signal.SIGTERM)


def locate(family: str, packages: Sequence[Package]) -> Tuple[List[Package], str]:
    """Those that no repository has, found without downloading."""
    names = [package.spelled(family) for package in packages]
    if family == "redhat":
        form = kept.FORM["redhat"].replace("EPOCHNUM", "epoch").lower().replace("\\n", "")
        done = run_bounded(["dnf", "-q", "-y", "repoquery", "--available", "--qf", form] + names, timeout=FETCH_SECONDS)
    else:
        done = run_bounded(["apt-get", "-qq", "--print-uris", "download"] + names, timeout=FETCH_SECONDS)
        # It names all or fails.
        return ([] if done.rc == 0 else list(packages)), _words(done)
    found = set(kept.parse_packages(family, done.stdout)) if done.rc == 0 else set()
    return [package for package in packages if package not in found], _words(done)


def keep(params: Mapping[str, Any], packages: Sequence[Package], there: Sequence[Package]) -> Dict[str, Any]:
    """Bring the packages to the node, or prove that a mirror has them; then write the record. KeptError, OSError."""
    family, source = params["family"], params["source"]
    os.makedirs(below("/", kept.FOLDER), mode=0o700, exist_ok=True)
    bring = locate if source == kept.MIRROR else _bring
    missing, words = bring(family, packages)
    size = 0
    if source == kept.NODE:
        size = sum(os.path.getsize(path) for path in files_in(family, kept.FILES).values())
    if missing:
        raise KeptError(
            f"{_some(missing, family)} cannot be kept, so this host could not get its driver back: no repository has "
            f"exactly this version any more, or none answers. {words} Make them available (an older snapshot of "
            "the repository, your mirror), or upgrade without a way back: upgrade_keep: nothing [upgrade.packages]"
        )
    record = {
        "schema": kept.SCHEMA,
        "family": family,
        "source": source,
        "driver": params["driver"],
        "packages": [list(package) for package in packages],
        "patterns": list(params["patterns"]) + list(params["also"]),
        "there": sorted({package.name for package in there}),
        "files": kept.read_files(params["files"]),
        "links": [list(pair) for pair in kept.read_links(params["links"]).items()],
        "bytes": size,
        "time": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
        # Until the change that comes has passed: a second try must not keep what a broken one left.
        "open": True,
    }
    kept.write_record(record)
    return record


def _bring(family: str, packages: Sequence[Package]) -> Tuple[List[Package], str]:
    """Download what is not there into a folder beside, and replace the old folder by it."""
    have = files_in(family, kept.FILES)
    if set(have) == set(packages):
        return [], ""
    beside = tempfile.mkdtemp(prefix="packages.", dir=kept.FOLDER)
    try:
        own_path(beside, 0o755)
        for package, path in have.items():
            if package in packages:
                shutil.copy2(path, beside)
        wanted = [package for package in packages if package not in have]
        done = fetch(family, wanted, beside)
        found = files_in(family, beside)
        missing = [package for package in packages if package not in found]
        if not missing:
            shutil.rmtree(kept.FILES, ignore_errors=True)
            os.rename(beside, kept.FILES)
        return missing, _words(done)
    finally:
        shutil.rmtree(beside, ignore_errors=True)


def put_back_packages(record: Mapping[str, Any], install: Sequence[Package], gone: Sequence[str]) -> None:
    """One transaction from the kept files, or from a mirror's; KeptError before anything is removed, where it fails."""
    family, every = record["family"], kept.packages_of(record)
    with tempfile.TemporaryDirectory(prefix="gpuwright-") as folder:
        files = files_in(family, kept.FILES)
        absent = [package for package in install if package not in files]
        if absent and record["source"] == kept.MIRROR:
            _from_mirror(family, absent, folder)
            files.update(files_in(family, folder))
            absent = [package for package in install if package not in files]
        if absent:
            raise KeptError(
                f"{_some(absent, family)} is not in {kept.FILES}, where it was kept, so the driver {record['driver']} "
                "cannot be put back. Put its file there, or install that driver with site.yml and "
                "system_driver_version [rollback.packages]"
            )
        # Judged by what is installed then: dnf shell ends with 0 whatever happens in it, and calls much an error. The
        # second try is for something that the kept packages require, that is gone, and that only a repository has.
        for offline in (True, False):
            done = _transaction(family, [files[package] for package in install], gone, folder, offline)
            install, gone = kept.changes(installed(family, record["patterns"]), every, record["there"])
            if not install and not gone:
                return
    raise KeptError(
        f"The packages of driver {record['driver']} were not put back; missing: {_some(install, family) or 'none'}, "
        f"too many: {', '.join(gone) or 'none'}. {_words(done)} Next: install the files in {kept.FILES} by hand "
        "[rollback.packages]"
    )


def _from_mirror(family: str, packages: Sequence[Package], folder: str) -> None:
    names = [package.spelled(family) for package in packages]
    if family == "redhat":
        # They are not installed any more, so they can be asked for; their requirements come with them.
        command = ["dnf", "-y", "--allowerasing", "install", "--downloadonly", "--downloaddir", folder] + names
        run_bounded(command, timeout=FETCH_SECONDS, stop_signal=signal.SIGTERM)
    else:
        fetch(family, packages, folder)


def _transaction(family: str, files: Sequence[str], gone: Sequence[str], folder: str, offline: bool) -> Finished:
    if family == "debian":
        command = ["apt-get", "-y", "-q", "--allow-downgrades", "--no-install-recommends"]
        command += ["-o", "Dpkg::Options::=--force-confold", "install"] + list(files) + [name + "-" for name in gone]
        return run_bounded(["env", "DEBIAN_FRONTEND=noninteractive"] + command, timeout=CHANGE_SECONDS)
    script = os.path.join(folder, "put-back.dnf")
    with open(script, "w", encoding="utf-8") as file:
        file.write("".join(f"remove {name}\n" for name in gone))
        file.write("install " + " ".join(files) + "\nrun\n" if files else "run\n")
    # Removing a package must not take with it what was there before and nobody needs any more.
    options = ["--allowerasing", "--setopt=clean_requirements_on_remove=0", "--setopt=localpkg_gpgcheck=1"]
    start = ["dnf", "-y", "-C", "--disablerepo=*"] if offline else ["dnf", "-y"]
    return run_bounded(start + options + ["shell", script], timeout=CHANGE_SECONDS, stop_signal=signal.SIGTERM)


def _some(packages: Sequence[Package], family: str) -> str:
    names = [package.spelled(family) for package in packages]
    return ", ".join(names[:3]) + (f" and {len(names) - 3} more" if len(names) > 3 else "")


def _words(done: Finished) -> str:
    said = (done.problem or done.stderr.strip() or done.stdout.strip()).splitlines()[-SHOWN_LINES:]
    return "The package manager said: " + " / ".join(line.strip() for line in said) + "." if said else ""
