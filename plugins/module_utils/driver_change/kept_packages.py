# SPDX-License-Identifier: Apache-2.0
"""Keep the exact packages of a driver on the node, and bring the node back to them; both prove what they did."""

import os
import signal
import tempfile
import time
from typing import Any, Dict, List, Mapping, Sequence

from ..gpu.driver_parts import is_foreign
from ..host.bounded import Finished, run_bounded
from ..host.files import below
from ..host.whole_file import sync_file
from . import kept_record
from .kept_record import KeptError, Package, Refused
from .way_back import trial
from .way_back.whole_packages import (
    FETCH_SECONDS,
    QUERY_SECONDS,
    bring,
    fetch,
    files_in,
    locate,
    some,
    sums_of,
    words_of,
)

CHANGE_SECONDS = 3600


def installed(family: str, patterns: Sequence[str]) -> List[Package]:
    """What fits and is a driver's or its toolkit's; KeptError if the package database does not answer."""
    done = run_bounded(kept_record.query(family, patterns), timeout=QUERY_SECONDS)
    # dpkg-query counts the patterns that find nothing.
    if done.rc not in (0, 1) or (done.rc == 1 and family == "redhat"):
        raise KeptError(f"What is installed cannot be read: {words_of(done)} [upgrade.packages]")
    return [package for package in kept_record.parse_packages(family, done.stdout) if not is_foreign(package.name)]


def complete(record: Mapping[str, Any]) -> None:
    """What an upgrade that has not passed kept is still whole, or is brought again; KeptError, OSError."""
    family, packages = record["family"], kept_record.packages_of(record)
    if record["source"] != kept_record.NODE or set(packages) <= set(
        files_in(family, kept_record.FILES, record.get("sums"))
    ):
        return
    missing, words = bring(family, packages, record.get("sums"))
    if missing:
        raise KeptError(
            f"{some(missing, family)} was kept in {kept_record.FILES} and is not whole any more, so this host could "
            f"not get the driver {record['driver']} back. {words} Put its file there, or upgrade without a way back: "
            "upgrade_keep: nothing [upgrade.packages]"
        )
    kept_record.write_record({**record, "sums": sums_of(files_in(family, kept_record.FILES).values())})


def keep(params: Mapping[str, Any], packages: Sequence[Package], there: Sequence[Package]) -> Dict[str, Any]:
    """Bring the packages to the node, or prove that a mirror has them; then write the record. KeptError, OSError."""
    family, source = params["family"], params["source"]
    os.makedirs(below("/", kept_record.FOLDER), mode=0o700, exist_ok=True)
    ask = locate if source == kept_record.MIRROR else bring
    missing, words = ask(family, packages)
    files = {} if source == kept_record.MIRROR or missing else files_in(family, kept_record.FILES)
    sums = sums_of(files.values())
    for folder in (kept_record.FILES, kept_record.FOLDER, os.path.dirname(kept_record.FOLDER)) if files else ():
        sync_file(folder)
    if missing:
        raise KeptError(
            f"{some(missing, family)} cannot be kept, so this host could not get its driver back: no repository has "
            f"exactly this version any more, or none answers. {words} Make them available (an older snapshot of "
            "the repository, your mirror), or upgrade without a way back: upgrade_keep: nothing [upgrade.packages]"
        )
    trial.prove_kept(family, files)
    record = {
        "schema": kept_record.SCHEMA,
        "family": family,
        "source": source,
        "driver": params["driver"],
        "packages": [list(package) for package in packages],
        "patterns": list(params["patterns"]) + list(params["also"]),
        "there": sorted({package.name for package in there}),
        "files": kept_record.read_files(params["files"]),
        "links": [list(pair) for pair in kept_record.read_links(params["links"]).items()],
        "bytes": sum(one["size"] for one in sums.values()),
        "sums": sums,
        "time": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
        # Until the change that comes has passed: a second try must not keep what a broken one left.
        "open": True,
    }
    kept_record.write_record(record)
    return record


def put_back_packages(record: Mapping[str, Any], install: Sequence[Package], gone: Sequence[str]) -> None:
    """One transaction from the kept files, or from a mirror's; KeptError before anything is removed, where it fails."""
    family, every = record["family"], kept_record.packages_of(record)
    with tempfile.TemporaryDirectory(prefix="gpuwright-") as folder:
        files = files_in(family, kept_record.FILES, record.get("sums"))
        absent = [package for package in install if package not in files]
        if absent and record["source"] == kept_record.MIRROR:
            _from_mirror(family, absent, folder)
            files.update(files_in(family, folder))
            absent = [package for package in install if package not in files]
        if absent:
            raise Refused(
                f"{some(absent, family)} is not whole in {kept_record.FILES}, where it was kept, so the driver "
                f"{record['driver']} cannot be put back. Put its file there, or install that driver with site.yml and "
                "system_driver_version [rollback.packages]"
            )
        trial.prove_put_back(family, [files[package] for package in install], gone, record["driver"])
        # Judged by what is installed then: dnf shell ends with 0 whatever happens in it, and calls much an error. The
        # second try is for something that the kept packages require, that is gone, and that only a repository has.
        for offline in (True, False):
            done = _transaction(family, [files[package] for package in install], gone, folder, offline)
            install, gone = kept_record.changes(installed(family, record["patterns"]), every, record["there"])
            if not install and not gone:
                return
    raise KeptError(
        f"The packages of driver {record['driver']} were not put back; missing: {some(install, family) or 'none'}, "
        f"too many: {', '.join(gone) or 'none'}. {words_of(done)} Next: install the files in {kept_record.FILES} by "
        "hand [rollback.packages]"
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
        command += ["-o", "Dpkg::Options::=--force-confold", "install"] + trial.apt_words(files, gone)
        return run_bounded(["env", "DEBIAN_FRONTEND=noninteractive"] + command, timeout=CHANGE_SECONDS)
    script = os.path.join(folder, "put-back.dnf")
    with open(script, "w", encoding="utf-8") as file:
        file.write("".join(f"remove {name}\n" for name in gone))
        file.write("install " + " ".join(files) + "\nrun\n" if files else "run\n")
    # Removing a package must not take with it what was there before and nobody needs any more.
    options = ["--allowerasing", "--setopt=clean_requirements_on_remove=0", "--setopt=localpkg_gpgcheck=1"]
    start = ["dnf", "-y", "-C", "--disablerepo=*"] if offline else ["dnf", "-y"]
    return run_bounded(start + options + ["shell", script], timeout=CHANGE_SECONDS, stop_signal=signal.SIGTERM)
