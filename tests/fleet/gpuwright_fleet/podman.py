"""Calling podman the way that also works on machines with hybrid cgroups and fixed ulimits."""

from __future__ import annotations

import os
import resource
import shutil
import subprocess
from functools import cache
from pathlib import Path

from .paths import cache_dir
from .shell import CannotRunHere, run


@cache
def containers_conf() -> Path:
    """A containers.conf whose default ulimits are not above the caller's (podman's defaults may not be raised)."""
    limits = {"nofile": (resource.RLIMIT_NOFILE, 65536), "nproc": (resource.RLIMIT_NPROC, 32768)}
    words = []
    for name, (number, enough) in limits.items():
        hard = resource.getrlimit(number)[1]
        value = enough if hard == resource.RLIM_INFINITY else min(hard, enough)
        words.append(f'"{name}={value}:{value}"')
    path = cache_dir() / "containers.conf"
    path.parent.mkdir(parents=True, exist_ok=True)
    text = f'[containers]\ndefault_ulimits = [{", ".join(words)}]\n[engine]\nruntime = "runc"\n'
    if not path.exists() or path.read_text() != text:
        path.write_text(text)
    return path


def podman(*words: str, check: bool = True, timeout: float | None = 900) -> subprocess.CompletedProcess[str]:
    """Run podman; runc, because crun refuses hybrid cgroups.

    A container's monitor, conmon, leaves a file `oom` in the folder where podman was started, once memory runs out.
    """
    own = containers_conf()
    environment = os.environ | {"CONTAINERS_CONF": str(own)}
    return run(["podman", "--runtime", "runc", *words], check=check, cwd=own.parent, env=environment, timeout=timeout)


def require_containers() -> None:
    """One sentence and exit code 3 when this machine cannot run the fleet."""
    if os.geteuid() != 0:
        raise CannotRunHere("The fleet needs root (systemd in containers); run it as root or with sudo.")
    missing = [name for name in ("podman", "runc", "ip") if not shutil.which(name)]
    if missing:
        raise CannotRunHere(f"Missing: {', '.join(missing)}; run tests/fleet/install-packages.")
    test = run(["unshare", "--mount", "--uts", "--ipc", "--pid", "--fork", "true"], check=False)
    if test.returncode != 0:
        raise CannotRunHere("This machine does not allow new namespaces, so containers cannot run here.")
    if run(["unshare", "--net", "true"], check=False).returncode != 0:
        raise CannotRunHere("This machine does not allow network namespaces, so containers cannot have a network here.")
    answer = podman("info", check=False, timeout=60)
    if answer.returncode != 0:
        last = (answer.stderr.strip() or "no message").splitlines()[-1]
        raise CannotRunHere(f"podman does not work on this machine: {last}")
