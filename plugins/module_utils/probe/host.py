# SPDX-License-Identifier: Apache-2.0
"""Read the state of a host: hardware, kernels, driver and use. Changes nothing and needs no driver.

The format of the answer is the contract `gpu_node` in docs/parts/node.md.
"""

import os
import re
from typing import Any, Dict, Optional, Sequence

from ..host.bounded import run_bounded
from ..host.files import exists, names_in, read_assignments, read_text, resolve
from ..host.os_family import family_of
from ..host.secure_boot.efi_variables import read_state
from ..host.secure_boot.module_key import enrolled, read_module_key
from ..verdict.last import read_last_verdict
from .board import read_platform
from .hardware import read_cpu, read_disks, read_gpus, read_memory_mib, read_numa
from .kernel import Ask, read_kernel
from .module_signature import read_next_signature
from .nvidia import read_nvidia
from .plan_choices import read_kept_plan
from .reboot import reboot_reasons
from .use import read_in_use
from .vgpu import add_vgpus

SCHEMA = 1
VERIFIED_FILE = "/var/lib/gpuwright/verified.json"
PROGRAM_TIMEOUT_SECONDS = 20


def ask(command: Sequence[str]) -> Optional[str]:
    """A program's output, both streams together, or None if it is missing or does not finish in 20 s."""
    finished = run_bounded(command, PROGRAM_TIMEOUT_SECONDS)
    return None if finished.rc is None else finished.stdout + finished.stderr


def probe(
    root: str = "/",
    ask: Ask = ask,
    kernels: Sequence[str] = (),
    agents: Sequence[str] = (),
    owners: bool = True,
    dkms: bool = True,
) -> Dict[str, Any]:
    """Read the host below `root`; programs of the host are run through `ask(command)`.

    Module files are looked up for the running kernel, the next one, and also for `kernels`. `agents` are programs of
    the site that hold GPUs open and lose nothing. `owners`: whether the package manager is asked whose the kernels are,
    which takes longer than all else and only a plan needs to know. `dkms`: whether DKMS is asked what it has built.

    A value that cannot be read is None or "unknown", as the contract says for each; nothing is raised.
    """
    system, secure_boot = read_os(root), read_state(root)
    kernel = read_kernel(root, ask, system["family"] if owners else "", kernels)
    key = read_module_key(root, system["id"], kernel["next_boot"])
    machine, gpus = os.uname().machine, read_gpus(root)
    add_vgpus(root, gpus, ask if owners else None)
    host = {
        "schema": SCHEMA,
        "hostname": read_text(root, "/proc/sys/kernel/hostname") or "unknown",
        "os": system,
        "machine": machine,
        "kernel": kernel,
        "secure_boot": secure_boot["state"],
        "secure_boot_because": secure_boot["because"],
        "module_key": key,
        "module_key_enrolled": enrolled(key),
        "module_signature": read_next_signature(root, ask, kernel["next_boot"], secure_boot["state"]),
        "cpu": read_cpu(root),
        "memory_mib": read_memory_mib(root),
        "numa": read_numa(root),
        "gpus": gpus,
        "platform": read_platform(root, gpus, machine),
        "nvidia": read_nvidia(root, ask, sorted({kernel["running"], kernel["next_boot"], *kernels}), dkms),
        "nouveau_loaded": exists(root, "/sys/module/nouveau"),
        "pythons": read_pythons(root),
        "disks": read_disks(root),
        "in_use": read_in_use(root, agents=agents),
        "verified": exists(root, VERIFIED_FILE),
        "last_verdict": read_last_verdict(root),
        "kept_plan": read_kept_plan(root),
    }
    reasons = reboot_reasons(host)
    host["reboot"] = {
        "required": bool(reasons),
        "reasons": [words for _code, words in reasons],
        "codes": [code for code, _words in reasons],
    }
    return host


def read_os(root: str = "/") -> Dict[str, Any]:
    """The distribution; `major` is None if its version is not a number."""
    release = read_assignments(root, "/etc/os-release")
    names = {release.get("ID", "unknown"), *release.get("ID_LIKE", "").split()}
    version = release.get("VERSION_ID", "unknown")
    major = re.match(r"[0-9]{1,9}", version)
    return {
        "id": release.get("ID", "unknown"),
        "version": version,
        "major": int(major.group()) if major else None,
        "family": family_of(names),
        "name": release.get("PRETTY_NAME", "unknown"),
    }


def read_pythons(root: str = "/") -> Dict[str, str]:
    """Python 3 interpreters by version such as "3.11"; the distribution's own comes before one in /usr/local."""
    found: Dict[str, str] = {}
    for folder in ("/usr/bin", "/usr/local/bin"):
        for name in names_in(root, folder):
            match = re.match(r"python(3\.[0-9]+)$", name)
            path = f"{folder}/{name}"
            target = resolve(root, path) if match else None
            if match and target and os.access(target, os.X_OK):
                found.setdefault(match.group(1), path)
    return found
