# SPDX-License-Identifier: Apache-2.0
"""Packages in addition to the lock file of a plan: the versions that they and their dependencies get, with hashes.

The plan's lock file is never changed: its packages count as given. pip resolves, on the controller and for the
node's Python; a site's own wheel is a file on the controller. The result is a separate lock file whose name includes a
digest of everything that determines it, so that one made for something else is never used.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import subprocess
import sys
import tempfile
import zipfile
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import unquote, urlsplit

from ansible_collections.gpuwright.node.plugins.plugin_utils import trainer_wheel
from packaging.requirements import InvalidRequirement, Requirement
from packaging.utils import InvalidWheelFilename, canonicalize_name, parse_wheel_filename

PIN = re.compile(r"^([A-Za-z0-9][A-Za-z0-9._-]*)==([^\s\\;]+)", re.MULTILINE)
# The C libraries of the oldest supported node (RHEL 8: glibc 2.28); pip takes each name literally.
OLDEST_GLIBC, NEWEST_GLIBC = 5, 28
PLATFORMS = (
    *(f"manylinux_2_{minor}_x86_64" for minor in range(NEWEST_GLIBC, OLDEST_GLIBC - 1, -1)),
    *("manylinux2014_x86_64", "manylinux2010_x86_64", "manylinux1_x86_64", "linux_x86_64"),
)
FOLDER = "locks"
# The model layer installs it into every environment, from no index; a site's own package may need it.
TRAINER = "gan-trainer"
PIP_SECONDS = 900
CONFLICT = "The conflict is caused by:"
OF_PLAN = re.compile(r"The user requested \(constraint\) (\S+)")
UNHELPFUL = ("WARNING", "[notice]", "ERROR: ResolutionImpossible")
# Markers for systems other than a node's.
NODE = {"os_name": "posix", "sys_platform": "linux", "platform_system": "Linux", "platform_machine": "x86_64"}
IMPLEMENTATION = {"implementation_name": "cpython", "platform_python_implementation": "CPython"}


class LockError(Exception):
    """The packages cannot be locked; the text says which, why, and what to do next."""


class Wanted(NamedTuple):
    """What is asked for: requirements from an index, and wheels {path: SHA-256}."""

    requirements: list[Requirement]
    wheels: dict[Path, str]


class Index(NamedTuple):
    """Where pip looks on the controller: only `url`, or the indexes that it is configured for and `extra`."""

    url: str = ""
    extra: str = ""


PIPS_OWN = Index()


class Locked(NamedTuple):
    """A package that was found; `requires` are its own Requires-Dist."""

    name: str
    version: str
    sha256: str
    requires: list[str]


def read_wanted(packages: Iterable[str], folder: Path) -> Wanted:
    """`packages` in order, each a requirement ("lpips==0.1.4") or the path of a wheel, relative to `folder`.

    Raises LockError with one sentence that names the entry.
    """
    found = Wanted([], {})
    for text in packages:
        if text.endswith(".whl"):
            path = folder / Path(text).expanduser()
            try:
                parse_wheel_filename(path.name)
                found.wheels[path] = hashlib.sha256(path.read_bytes()).hexdigest()
            except InvalidWheelFilename:
                raise LockError(_bad(text, "is not the name of a wheel, such as mine-0.1.0-py3-none-any.whl")) from None
            except OSError as error:
                raise LockError(_bad(text, f"cannot be read at {path}: {error.strerror}")) from None
            continue
        try:
            requirement = Requirement(text)
        except InvalidRequirement:
            requirement = None
        if requirement is None or requirement.url:
            expected = "is neither a package of an index, such as lpips==0.1.4, nor the path of a wheel (.whl)"
            raise LockError(_bad(text, expected))
        found.requirements.append(requirement)
    return found


def _bad(entry: str, fault: str) -> str:
    return f"framework_pytorch_packages: {entry!r} {fault}"


def lock_name(base_name: str, base: str, python: str, wanted: Wanted) -> str:
    """The lock file's name: that of the plan's, and a digest of all that determines the content.

    Without a `base`, what is wanted is the whole environment of a plan, and the file is that of the plan.
    """
    if not base:
        return base_name
    names = sorted(f"{path.name} {digest}" for path, digest in wanted.wheels.items())
    words = [python, base.strip(), *sorted(map(str, wanted.requirements)), *names]
    digest = hashlib.sha256("\n".join(words).encode()).hexdigest()
    return f"{base_name.removesuffix('.txt')}+{digest[:12]}.txt"


def lock_path(wanted: Wanted, base_name: str, base: str, python: str, folder: str, locks: str = "") -> Path:
    """Path of the lock file, in `locks` (relative to the inventory's `folder`) or else in `FOLDER` there; it is kept
    in version control with the inventory."""
    return Path(folder, Path(locks or FOLDER).expanduser(), lock_name(base_name, base, python, wanted))


def pins(text: str) -> dict[str, str]:
    """{name: version} of a lock file."""
    return {canonicalize_name(name): version for name, version in PIN.findall(text)}


def lock_text(base_name: str, base: str, python: str, wanted: Wanted, index: Index = PIPS_OWN) -> str:
    """The lock file for the requested packages that are not already in `base`. Raises LockError.

    base_name  name of the plan's lock file      base   its text, "" where the whole environment is requested
    python     of the node, such as "3.11"       index  where packages come from
    """
    given = {**pins(base), TRAINER: trainer_wheel.version()}
    found = resolve(given, python, wanted, index)
    lines = [f"# {f'Beside {base_name}' if base else base_name}, written by gpuwright.node.lock. Asked for:"]
    lines += [f"# {text}" for text in sorted([*map(str, wanted.requirements), *(path.name for path in wanted.wheels)])]
    for package in sorted(found):
        lines += [f"{package.name}=={package.version} \\", f"    --hash=sha256:{package.sha256}"]
    return "\n".join(lines) + "\n"


def resolve(given: Mapping[str, str], python: str, wanted: Wanted, index: Index) -> list[Locked]:
    """The packages needed in addition to `given`. Raises LockError.

    pip evaluates the conditions of requirements (`; python_version < "3.11"`) for the Python that it runs under, which
    is the controller's; so they are evaluated again here, until nothing is missing on the node and nothing is surplus.
    """
    roots = [*map(str, wanted.requirements), *map(str, wanted.wheels)]
    asked = set(roots)
    while True:
        found = {package.name: package for package in run_pip(given, python, sorted(asked), index)}
        needed, missing = closure(found, given, python, wanted)
        if not missing - asked:
            return [package for name, package in found.items() if name in needed]
        asked |= missing


def closure(
    found: Mapping[str, Locked], given: Mapping[str, str], python: str, wanted: Wanted
) -> tuple[set[str], set[str]]:
    """(names of `found` that the node needs, requirements that neither `found` nor `given` has)."""
    ways: list[tuple[str, frozenset[str]]] = [
        (canonicalize_name(entry.name), frozenset(entry.extras)) for entry in wanted.requirements
    ]
    ways += [(canonicalize_name(parse_wheel_filename(path.name)[0]), frozenset()) for path in wanted.wheels]
    seen: set[tuple[str, frozenset[str]]] = set()
    missing: set[str] = set()
    while ways:
        name, extras = way = ways.pop()
        if way in seen or name not in found:
            continue
        seen.add(way)
        for text in found[name].requires:
            entry = Requirement(text)
            if not holds(entry, python, extras):
                continue
            own = canonicalize_name(entry.name)
            if own in found:
                ways.append((own, frozenset(entry.extras)))
            elif own not in given:
                entry.marker = None
                missing.add(str(entry))
    return {name for name, _ in seen}, missing


def holds(entry: Requirement, python: str, extras: Iterable[str]) -> bool:
    """Whether a requirement applies on a node with this Python, for a package requested with these extras."""
    if entry.marker is None:
        return True
    node = {**NODE, **IMPLEMENTATION, "python_version": python, "python_full_version": f"{python}.0"}
    return any(entry.marker.evaluate({**node, "extra": extra}) for extra in ("", *extras))


def run_pip(given: Mapping[str, str], python: str, asked: list[str], index: Index) -> list[Locked]:
    """What pip would install in addition to `given`; nothing is installed. Raises LockError."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        constraints, report = folder / "constraints.txt", folder / "report.json"
        constraints.write_text("".join(f"{package} @ {stub(folder, package, given[package])}\n" for package in given))
        command = [sys.executable, "-m", "pip", "install", "--dry-run", "--target", str(folder / "target")]
        command += ["--only-binary", ":all:", "--report", str(report), "--constraint", str(constraints)]
        command += ["--implementation", "cp", "--python-version", python]
        command += [word for platform in PLATFORMS for word in ("--platform", platform)]
        # In the environment, not in the command, since an address may have a login that ps would show.
        environment = {**os.environ, "PIP_DISABLE_PIP_VERSION_CHECK": "1", "PIP_NO_INPUT": "1"}
        if index.url:
            environment |= {"PIP_INDEX_URL": index.url, "PIP_EXTRA_INDEX_URL": "", "PIP_CONFIG_FILE": os.devnull}
            if index.url.startswith("http://"):
                environment["PIP_TRUSTED_HOST"] = urlsplit(index.url).hostname or ""
        elif index.extra:
            environment["PIP_EXTRA_INDEX_URL"] = f"{environment.get('PIP_EXTRA_INDEX_URL', '')} {index.extra}".strip()
        done = subprocess.run(
            [*command, *asked], env=environment, capture_output=True, text=True, timeout=PIP_SECONDS, check=False
        )
        if done.returncode != 0:
            raise LockError(refusal(done.stdout, done.stderr, asked, python, given))
        found = read_report(json.loads(report.read_text()))
        return [package for package in found if package.name not in given]


def stub(folder: Path, package: str, version: str) -> str:
    """The address of an empty wheel, made in `folder`, that represents a package of the plan.

    The plan has settled what such a package needs, and pip must not ask an index for the metadata of a torch that the
    index may not even have.
    """
    name = package.replace("-", "_")
    file, record = folder / f"{name}-{version}-py3-none-any.whl", f"{name}-{version}.dist-info"
    with zipfile.ZipFile(file, "w") as wheel:
        wheel.writestr(f"{record}/METADATA", f"Metadata-Version: 2.1\nName: {package}\nVersion: {version}\n")
        wheel.writestr(f"{record}/WHEEL", "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n")
        wheel.writestr(f"{record}/RECORD", "")
    return file.as_uri()


def read_report(report: Mapping[str, Any]) -> list[Locked]:
    """The packages of pip's installation report (pip.pypa.io, "Installation Report"). LockError without a hash."""
    found = []
    for item in report["install"]:
        name, version = canonicalize_name(item["metadata"]["name"]), item["metadata"]["version"]
        source = item["download_info"]
        digest = source.get("archive_info", {}).get("hashes", {}).get("sha256", "")
        if not digest and source["url"].startswith("file://"):
            # An address of a file has %2B for a +.
            digest = hashlib.sha256(Path(unquote(urlsplit(source["url"]).path)).read_bytes()).hexdigest()
        if not digest:
            raise LockError(
                f"The index gives no SHA-256 for {name} {version}, so it cannot be locked: use another index, or "
                "download the wheel and name its path in framework_pytorch_packages."
            )
        found.append(Locked(name, version, digest, item["metadata"].get("requires_dist") or []))
    return found


def refusal(stdout: str, stderr: str, asked: list[str], python: str, given: Mapping[str, str]) -> str:
    """pip's refusal as one message: what was asked for, why not, what to do."""
    _, _, conflict = stdout.partition(CONFLICT)
    lines = conflict.partition("\n\n")[0].splitlines() if conflict else stderr.splitlines()
    lines = [OF_PLAN.sub(lambda found: f"the plan has {found[1]} {given.get(found[1], '')}", line) for line in lines]
    lines = [line.strip() for line in lines]
    said = "; ".join(line for line in lines if line and not line.startswith(UNHELPFUL)) or "nothing"
    if set(given) <= {TRAINER}:
        return (
            f"The environment of the plan, {', '.join(asked)}, cannot be resolved for Python {python}. pip says: {said}"
            ". Next: start it where PyPI and the index of the plan can be reached, or choose other versions."
        )
    return (
        f"framework_pytorch_packages: {', '.join(asked)} cannot be resolved for Python {python} together with the "
        f"plan's lock file, whose versions stay as they are. pip says: {said}. Next: choose another version of the "
        "package, a plan with other versions (docs/compatibility.md), or take it out of the list."
    )


def lock_of(packages: list[str], **about: Any) -> dict[str, Any]:
    """The lock of these packages, as the lookup `package_lock` documents it; `about` are its options."""
    if not packages:
        return {"path": "", "found": True, "text": "", "wheels": [], "fault": ""}
    try:
        wanted = read_wanted(packages, Path(about["folder"]))
    except LockError as error:
        return {"path": "", "found": False, "text": "", "wheels": [], "fault": str(error)}
    path = lock_path(wanted, **about)
    text = path.read_text("utf-8") if path.is_file() else ""
    wheels = [str(wheel) for wheel in wanted.wheels]
    return {"path": str(path), "found": path.is_file(), "text": text, "wheels": wheels, "fault": ""}
