# SPDX-License-Identifier: Apache-2.0
"""Which container engine is here, and which form of the GPUs' description it accepts."""

from typing import Any

from ...host.bounded import program_environment, run_bounded
from ...host.files import exists, resolve
from ...host.patterns import lazily
from ...host.versions import version_key

PROGRAMS = {"podman": "/usr/bin/podman", "docker": "/usr/bin/dockerd"}
# The first release with CDI at all, and the first that accepts CDI 0.7.0: podman's release notes of 4.1 and
# podman#22280 (5.1), docker/cli#3864 (25.0) and moby#47706 (26.1).
CDI_FROM = {"podman": "4.1", "docker": "25.0"}
CDI_07_FROM = {"podman": "5.1", "docker": "26.1"}
# podman version 4.9.4-rhel; Docker version 20.10.24+dfsg1, build 297e128
SAID = lazily(r"\bversion ([0-9]+(?:\.[0-9]+)+)")
SECONDS = 20


def read_version(root: str, program: str) -> Any:
    """The engine's own answer, such as "4.9.4"; null if it is not installed, `{unreadable: why}` without an answer."""
    full = resolve(root, program)
    if full is None:
        return None
    # podman looks for its user's home first, which an account of a service may not have.
    done = run_bounded([full, "--version"], SECONDS, environment=dict(program_environment(), HOME="/"))
    match = SAID.search(done.stdout)
    if done.rc != 0 or not match:
        words = " ".join((done.stdout + done.stderr).split())[:200]
        return {"unreadable": done.problem or f"{program} --version says {words!r}"}
    return match.group(1)


def knows_cdi(engine: str, version: str) -> bool:
    return version_key(version) >= version_key(CDI_FROM[engine])


def why_refused(engine: str, version: str, cdi: str, groups: bool) -> str:
    """Why the engine would not accept a description of this CDI version, with or without additionalGids; or "".

    An engine that does not know a field refuses the whole file, whatever version it claims (podman 4.3.1).
    """
    if not knows_cdi(engine, version):
        # Docker before 25 gives GPUs to containers by its runtime alone.
        return "" if engine == "docker" else f"podman {version} knows no CDI, which came with {CDI_FROM[engine]}"
    if version_key(version) >= version_key(CDI_07_FROM[engine]):
        return ""
    if version_key(cdi) >= version_key("0.7.0"):
        return f"{engine} {version} refuses CDI {cdi}; 0.7.0 needs {engine} {CDI_07_FROM[engine]}"
    if groups:
        return f"{engine} {version} refuses the field additionalGids, which needs {engine} {CDI_07_FROM[engine]}"
    return ""


def accept_groups(root: str) -> bool:
    """Whether every engine on the node accepts the newest form, CDI 0.7.0 with additionalGids: they read the same file.

    Without an engine, or with one that does not say its version, it is the form that all of them accept.
    """
    versions = {name: read_version(root, path) for name, path in PROGRAMS.items() if exists(root, path)}
    return bool(versions) and all(
        isinstance(version, str) and not why_refused(name, version, "0.7.0", True) for name, version in versions.items()
    )
