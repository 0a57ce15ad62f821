# SPDX-License-Identifier: Apache-2.0
"""The files of kept packages: where they come from, which of them are whole, and that they are on the disk."""

import os
import shutil
import signal
import tempfile
from typing import Any, Dict, Iterable, List, Mapping, Optional, Sequence, Tuple

from ...host.bounded import Finished, run_bounded
from ...host.whole_file import sync_file
from ...host.written.owning import own_path
from ...packages.bundle_files import digest_of, is_whole
from .. import kept_record
from ..kept_record import Package

FETCH_SECONDS = 1800
QUERY_SECONDS = 60
SHOWN_LINES = 12
OF_FILE = {
    "redhat": ["rpm", "-qp", "--nosignature", "--qf", kept_record.FORM["redhat"]],
    "debian": ["dpkg-deb", "--showformat", "installed ${Package} ${Version} ${Architecture}\\n", "--show"],
}
# The digests of header and payload; the list of all that is in the archive.
WHOLE = {"redhat": ["rpm", "-K", "--nosignature"], "debian": ["dpkg-deb", "--contents"]}
Sums = Mapping[str, Mapping[str, Any]]
SUFFIX = {"redhat": ".rpm", "debian": ".deb"}


def files_in(family: str, folder: str, sums: Optional[Sums] = None) -> Dict[Package, str]:
    """The packages that lie in a folder, each read from its own file: a damaged one is none.

    sums  size and SHA-256 of each file that counts, by its name; None: whatever the package itself says is whole
    """
    found: Dict[Package, str] = {}
    for name in sorted(os.listdir(folder)) if os.path.isdir(folder) else []:
        path = os.path.join(folder, name)
        if name.endswith(SUFFIX[family]) and _is_whole(family, path, sums):
            done = run_bounded(OF_FILE[family] + [path], timeout=QUERY_SECONDS)
            if done.rc == 0:
                found.update((package, path) for package in kept_record.parse_packages(family, done.stdout))
    return found


def _is_whole(family: str, path: str, sums: Optional[Sums]) -> bool:
    if sums is not None:
        name = os.path.basename(path)
        return name in sums and is_whole(path, sums[name])
    # Its name and version stand in its first bytes; this reads all of it.
    return run_bounded(WHOLE[family] + [path], timeout=QUERY_SECONDS).rc == 0


def sums_of(paths: Iterable[str]) -> Dict[str, Dict[str, Any]]:
    """Size and SHA-256 of the files, by their names; each is on the disk before. OSError."""
    found = {}
    for path in paths:
        sync_file(path)
        found[os.path.basename(path)] = {"size": os.path.getsize(path), "sha256": digest_of(path)}
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
        form = kept_record.FORM["redhat"].replace("EPOCHNUM", "epoch").lower().replace("\\n", "")
        done = run_bounded(["dnf", "-q", "-y", "repoquery", "--available", "--qf", form] + names, timeout=FETCH_SECONDS)
    else:
        done = run_bounded(["apt-get", "-qq", "--print-uris", "download"] + names, timeout=FETCH_SECONDS)
        # It names all or fails.
        return ([] if done.rc == 0 else list(packages)), words_of(done)
    found = set(kept_record.parse_packages(family, done.stdout)) if done.rc == 0 else set()
    return [package for package in packages if package not in found], words_of(done)


def bring(family: str, packages: Sequence[Package], sums: Optional[Sums] = None) -> Tuple[List[Package], str]:
    """Download what is not there into a folder beside, and replace the old folder by it."""
    have = files_in(family, kept_record.FILES, sums)
    if set(have) == set(packages):
        return [], ""
    beside = tempfile.mkdtemp(prefix="packages.", dir=kept_record.FOLDER)
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
            for path in found.values():
                sync_file(path)
            sync_file(beside)
            shutil.rmtree(kept_record.FILES, ignore_errors=True)
            os.rename(beside, kept_record.FILES)
            sync_file(kept_record.FOLDER)
        return missing, words_of(done)
    finally:
        shutil.rmtree(beside, ignore_errors=True)


def some(packages: Sequence[Package], family: str) -> str:
    names = [package.spelled(family) for package in packages]
    return ", ".join(names[:3]) + (f" and {len(names) - 3} more" if len(names) > 3 else "")


def words_of(done: Finished) -> str:
    said = (done.problem or done.stderr.strip() or done.stdout.strip()).splitlines()[-SHOWN_LINES:]
    return "The package manager said: " + " / ".join(line.strip() for line in said) + "." if said else ""
