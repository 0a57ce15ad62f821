"""NVIDIA's own nvidia-smi as Debian 12 packages it, fetched by apt from the mirror that this machine is set up with."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

PACKAGES = ("nvidia-smi", "libnvidia-ml1")
FOLDER = "usr/lib/x86_64-linux-gnu/nvidia/current"
KEYRING = Path("/usr/share/keyrings/debian-archive-keyring.gpg")


def mirror() -> str:
    """Address of the configured mirror of Debian 12."""
    fields = "$(ORIGIN)|$(CODENAME)|$(REPO_URI)"
    for line in run("apt-get", "indextargets", "--format", fields, "Created-By: Packages").splitlines():
        origin, codename, address = line.split("|")
        if (origin, codename) == ("Debian", "bookworm"):
            return address
    pytest.fail("apt knows no Debian 12 mirror, from which Debian's nvidia-smi could come; this test needs one")


def run(*command: str, cwd: Path | None = None) -> str:
    done = subprocess.run(command, capture_output=True, text=True, timeout=300, cwd=cwd)
    if done.returncode != 0:
        words = " ".join((done.stdout + done.stderr).split())[-400:]
        pytest.fail(
            f"Debian's nvidia-smi (non-free) cannot be fetched; this test needs the mirror. {command[0]}: {words}"
        )
    return done.stdout


def fetch(folder: Path) -> dict[Path, str]:
    """{file here: path on the host} of the program and its library; a mirror out of reach fails the test."""
    state = folder / "apt"
    for name in ("lists/partial", "cache/archives/partial"):
        (state / name).mkdir(parents=True)
    sources, signed = state / "sources.list", f"[signed-by={KEYRING}] " if KEYRING.exists() else ""
    sources.write_text(f"deb {signed}{mirror()} bookworm non-free\n")
    options = [f"Dir::State::Lists={state}/lists", f"Dir::Cache={state}/cache", f"Dir::Etc::SourceList={sources}"]
    options += ["Dir::Etc::SourceParts=/dev/null", "APT::Sandbox::User=root"]
    apt = ["apt-get", "-q", *[word for option in options for word in ("-o", option)]]
    run(*apt, "update")
    run(*apt, "download", *PACKAGES, cwd=state)
    for package in state.glob("*.deb"):
        run("dpkg-deb", "-x", str(package), str(state / "files"))
    (library,) = (path for path in (state / "files" / FOLDER).glob("libnvidia-ml.so.*.*") if not path.is_symlink())
    program = state / "files/usr/lib/nvidia/current/nvidia-smi"
    return {program: "/usr/bin/nvidia-smi", library: f"/usr/lib64/{library.name}"}
