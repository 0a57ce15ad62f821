# SPDX-License-Identifier: Apache-2.0
"""Whether a Python environment is still as it was installed: the same judgement for the role and for the checks.

Every distribution lists its files with size and hash in RECORD (packaging.python.org, "Recording installed projects").
Nothing in the environment is run here.
"""

import base64
import csv
import hashlib
import os
import re
from typing import Dict, Iterator, List, NamedTuple, Optional, Tuple

from ..host.files import below, resolve
from ..host.tree_modes import closed_to_others

STAMP = "gpuwright.json"
LOCK = "lock.txt"
# Files that Python loads by itself; a cache beside them is never examined.
LOADED = (".py", ".so", ".pth")
CACHE = "__pycache__"
PINNED = re.compile(r"([A-Za-z0-9][A-Za-z0-9._-]*)(?:\[[^\]]*\])?\s*(?:==\s*([A-Za-z0-9.+!_-]+))?")
# A part of a path that leads nowhere or up.
DOTTED = re.compile(r"(?:^|/)\.{0,2}(?:/|$)")
HASHES = ("sha256", "sha384", "sha512")
CHUNK_BYTES = 1024 * 1024
# Enough to act on; the count gives the total.
EXAMPLES = 10
INTERPRETER = "the interpreter"
UNLISTED = "no package"


class Problem(NamedTuple):
    """What is wrong with one file (relative to the environment); `distribution` is the package that it belongs to."""

    distribution: str
    path: str
    problem: str


class Listed(NamedTuple):
    """A line of RECORD: the distribution, "algorithm=digest" or "", and bytes or None."""

    distribution: str
    digest: str
    size: Optional[int]


def read_environment(root: str, venv: str, all_hashes: bool = False) -> Optional[Dict]:
    """Compare the files of the environment with what was installed; null if there is no environment.

    `{distributions, files, hashed, problem_count, problems: [{distribution, path, problem}], damaged: [distribution],
    closed_count, closed: [path]}`; closed is what the training user may not use.
    Sizes are compared for all files, hashes for those that changed after the environment was complete, or for all
    (`all_hashes`, which reads 5 to 10 GB). OSError if the folders cannot be read.
    """
    top = resolve(root, venv)
    if top is None or not os.path.isdir(top):
        return None
    # Not resolved: the link to the interpreter leads to the host's own.
    python = resolve(root, "/" + os.path.relpath(top, below(root, "/")) + "/bin/python")
    problems = [] if python else [Problem(INTERPRETER, "bin/python", "points to no interpreter")]
    folders = packages_folders(top)
    if not folders:
        problems.append(Problem(INTERPRETER, "lib", "has no folder for packages"))
    listed, versions = {}, {}  # type: Dict[str, List[Listed]], Dict[str, str]
    for folder in folders:
        problems += _read_distributions(top, folder, listed, versions)
    since = _complete_since(top)
    hashed = 0
    for path in sorted(listed):
        problem, was_hashed = _judge_file(os.path.join(top, path), listed[path], since, all_hashes)
        hashed += was_hashed
        if problem:
            problems.append(Problem(listed[path][0].distribution, path, problem))
    problems += [
        Problem(UNLISTED, path, "was not installed by a package") for path in _unlisted(top, folders, listed, since)
    ]
    problems += _not_as_locked(top, versions)
    closed = closed_to_others(top, ["bin/python", STAMP, *sorted(listed)], below(root, "/"))
    return {
        "distributions": len(versions),
        "files": len(listed),
        "hashed": hashed,
        "problem_count": len(problems),
        "problems": [dict(problem._asdict()) for problem in problems[:EXAMPLES]],
        "damaged": sorted({problem.distribution for problem in problems}),
        "closed_count": len(closed),
        "closed": ["/" + os.path.relpath(path, below(root, "/")) for path in closed[:EXAMPLES]],
    }


def packages_folders(top: str) -> List[str]:
    """`lib/python3.11/site-packages` and the like, each only once if lib64 is a link to lib."""
    found = []
    for name in ("lib", "lib64"):
        folder = os.path.join(top, name)
        if os.path.isdir(folder) and not os.path.islink(folder):
            pythons = sorted(entry for entry in os.listdir(folder) if entry.startswith("python3"))
            found += [os.path.join(folder, python, "site-packages") for python in pythons]
    return [folder for folder in found if os.path.isdir(folder)]


def installed_packages(root: str, venv: str) -> List[str]:
    """Names of the distributions in an environment, [] if there is no environment."""
    top = resolve(root, venv)
    entries = [entry for folder in packages_folders(top) for entry in os.listdir(folder)] if top else []
    return sorted(found[0] for found in map(distribution, entries) if found)


def distribution(entry: str) -> Optional[Tuple[str, str]]:
    """Name and version in the name of a dist-info folder; None for others, and for what pip leaves after a removal."""
    name, _dash, version = entry[: -len(".dist-info")].rpartition("-")
    ours = entry.endswith(".dist-info") and name and not name.startswith("~")
    return (normal_name(name), version) if ours else None


def normal_name(name: str) -> str:
    """A distribution's name as indexes compare it (PEP 503)."""
    return re.sub(r"[-_.]+", "-", name).lower()


def _read_distributions(top: str, folder: str, listed: Dict, versions: Dict) -> List[Problem]:
    problems = []
    for entry in sorted(os.listdir(folder)):
        known = distribution(entry)
        if known is None:
            continue
        name, versions[known[0]] = known
        record = os.path.join(folder, entry, "RECORD")
        try:
            lines = list(_record_lines(record))
        except (OSError, ValueError, csv.Error) as error:
            words = getattr(error, "strerror", None) or str(error)
            problems.append(Problem(name, os.path.relpath(record, top), f"cannot be read: {words}"))
            continue
        if not lines:
            problems.append(Problem(name, os.path.relpath(record, top), "lists no file"))
        for path, digest, size in lines:
            relative = _inside(top, folder, path)
            # Only files inside; a package may list a file of the system.
            if not relative.startswith(".."):
                listed.setdefault(relative, []).append(Listed(name, digest, size))
    return problems


def _inside(top: str, folder: str, path: str) -> str:
    """The path of RECORD, which counts from `folder`, from `top` on."""
    if DOTTED.search(path):
        return os.path.relpath(os.path.join(folder, path), top)
    # Of 20,000 files nearly all are written as they stand, and relpath takes as long as all else that is done with one.
    return folder[len(top) + 1 :] + "/" + path


def _record_lines(record: str) -> Iterator[Tuple[str, str, Optional[int]]]:
    with open(record, encoding="utf-8", newline="") as file:
        for row in csv.reader(file):
            if not row:
                continue
            if len(row) != 3 or (row[2] and not re.match("[0-9]{1,18}$", row[2])):
                raise ValueError(f"line {','.join(row)[:80]!r} is not path,hash,size")
            yield row[0], row[1], int(row[2]) if row[2] else None


def _complete_since(top: str) -> float:
    """When the environment was complete; without its stamp every file counts as changed after that."""
    try:
        return os.stat(os.path.join(top, STAMP)).st_mtime
    except OSError:
        return 0.0


def _judge_file(path: str, lines: List[Listed], since: float, all_hashes: bool) -> Tuple[str, bool]:
    """What is wrong with a file, "" if nothing is, and whether it was hashed.

    Two packages may list the same file, and the later one wrote it: it may match any of their lines.
    """
    # RECORD itself and compiled files have no hash, and Python recreates the latter. A wheel may list some, too, which
    # pip compiles anew (numpy 2.2 for Python 3.10).
    if not any(line.digest for line in lines) or os.path.basename(os.path.dirname(path)) == CACHE:
        return "", False
    try:
        status = os.stat(path)
    except FileNotFoundError:
        return "is missing", False
    except OSError as error:
        return f"cannot be read: {error.strerror}", False
    sizes = sorted({line.size for line in lines if line.size is not None})
    if sizes and status.st_size not in sizes:
        return f"has {status.st_size} bytes instead of {sizes[0]}", False
    if not (all_hashes or status.st_mtime > since):
        return "", False
    wanted = {line.digest for line in lines if line.digest}
    try:
        found = {_digest(path, name) for name in {digest.partition("=")[0] for digest in wanted} if name in HASHES}
    except OSError as error:
        return f"cannot be read: {error.strerror}", False
    return ("differs from the file that was installed" if found and not found & wanted else ""), True


def _digest(path: str, name: str) -> str:
    digest = hashlib.new(name)
    with open(path, "rb") as file:
        for chunk in iter(lambda: file.read(CHUNK_BYTES), b""):
            digest.update(chunk)
    return "{}={}".format(name, base64.urlsafe_b64encode(digest.digest()).rstrip(b"=").decode("ascii"))


def _unlisted(top: str, folders: List[str], listed: Dict, since: float) -> List[str]:
    """Files that Python would load and that belong to no package: they may hide a module of the same name.

    Only files that were added after the environment was complete: some wheels do not list all that they install.
    """
    found = []
    for folder in folders:
        for here, names, files in os.walk(folder):
            names[:] = [name for name in names if name != CACHE]
            within = here[len(top) + 1 :] + "/"
            paths = {within + name for name in files if name.endswith(LOADED)}
            found += [path for path in paths if path not in listed and _changed(os.path.join(top, path)) > since]
    return sorted(found)


def _changed(path: str) -> float:
    """When the file's name or modes changed last; the time of its content is preserved when a file is copied."""
    try:
        return os.lstat(path).st_ctime
    except OSError:
        return float("inf")


def _not_as_locked(top: str, versions: Dict[str, str]) -> List[Problem]:
    """The packages in the environment's lock file, and those that are missing or of another version."""
    try:
        with open(os.path.join(top, LOCK), encoding="utf-8") as file:
            lines = file.read().splitlines()
    except FileNotFoundError:
        return [Problem(INTERPRETER, LOCK, "is missing")]
    problems = []
    for line in lines:
        match = PINNED.match(line)
        # A marker limits a line to some systems; hashes and comments are on separate lines.
        if not match or ";" in line:
            continue
        name, version = normal_name(match.group(1)), match.group(2)
        if name not in versions:
            problems.append(Problem(name, LOCK, f"names {name}, which is not installed"))
        elif version and not fits(version, versions[name]):
            words = f"names {name} {version}, but {versions[name]} is installed"
            problems.append(Problem(name, LOCK, words))
    return problems


def fits(wanted: str, installed: str) -> bool:
    """Whether `installed` is what "==wanted" asks for: 2024.01 is 2024.1, and 1.0 may be 1.0+cu128 (PEP 440)."""
    public, local = _spelled(wanted)
    found, found_local = _spelled(installed)
    return public == found and local in ("", found_local)


def _spelled(version: str) -> Tuple[List[str], str]:
    public, _plus, local = version.lower().lstrip("v").partition("+")
    parts = [str(int(part)) if part.isdecimal() else part for part in re.findall(r"[0-9]+|[a-z]+", public)]
    while parts and parts[-1] == "0":
        parts.pop()
    return parts, re.sub(r"[-_.]", ".", local)
