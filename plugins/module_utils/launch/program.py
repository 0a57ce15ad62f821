# SPDX-License-Identifier: Apache-2.0
"""Which program a command's name means: `gpu-run -- python train.py` is the Python that can import torch.

Loaded at every start of gpu-run, so it imports next to nothing.
"""

import os

# Importing typing would take a third of gpu-run's start time: its names are only for the type checker.
TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Iterable, Mapping, Tuple

    from .decision import Decision

ENVIRONMENT = "/opt/gpuwright/venvs/current/bin"
# Where a system keeps its own Python, which has no torch. A program from elsewhere was chosen on purpose.
SYSTEM = ("/usr/bin", "/bin", "/usr/local/bin", "/usr/sbin", "/sbin", "/usr/libexec")
# Set if the user has activated an environment.
OWN = ("VIRTUAL_ENV", "CONDA_PREFIX")
# Not worth listing to somebody who is looking for a program.
TOOLS = ("activate", "Activate", "pip", "f2py", "numpy-config", "isympy", "pyftmerge", "pyftsubset", "ttx", "wheel")
NAMED = 8


def find_in(folders: "Iterable[str]", name: str) -> str:
    """The first of `folders` that has an executable of that name, or ""."""
    for folder in folders:
        path = os.path.join(folder, name)
        if folder and os.path.isfile(path) and os.access(path, os.X_OK):
            return folder
    return ""


def environment_folder(name: str, environ: "Mapping[str, str]", root: str = "/") -> "Tuple[str, str]":
    """`(folder, why)`: the environment's bin if a bare `name` means a program in it, else ("", why)."""
    ours = os.path.join(root, ENVIRONMENT.lstrip("/"))
    if os.path.dirname(name) or not find_in([ours], name):
        return "", "as it was given"
    own = [variable for variable in OWN if environ.get(variable)]
    if own:
        return "", f"{own[0]} is set: your own environment"
    elsewhere = find_in(environ.get("PATH", "").split(os.pathsep), name)
    if elsewhere and elsewhere not in SYSTEM and elsewhere != ours:
        return "", f"your PATH has it in {elsewhere}"
    return ours, "of the current environment, since PATH has {}".format("the system's own" if elsewhere else "none")


def take_program(name: str, decision: "Decision", root: str = "/") -> None:
    """Let the `Decision` find a program of the environment first, and say so in a row."""
    folder, why = environment_folder(name, decision.environment, root)
    if not folder:
        return
    parts = [part for part in decision.environment.get("PATH", "").split(os.pathsep) if part != folder]
    path = os.pathsep.join([folder] + parts)
    decision.environment["PATH"] = decision.changed["PATH"] = path
    decision.note("program", os.path.join(folder, name), why)


def not_found(name: str, root: str = "/") -> str:
    """One sentence for a command that does not exist, with the programs that the environment has."""
    if os.path.dirname(name) or not name:
        return f"{name}: command not found"
    folder = os.path.join(root, ENVIRONMENT.lstrip("/"))
    try:
        there = sorted(entry for entry in os.listdir(folder) if not entry.startswith(TOOLS))
    except PermissionError:
        return f"{name}: command not found, and {folder} is closed to you: sudo gpu-doctor says how root opens it"
    except OSError:
        return f"{name}: command not found, and there is no environment at {os.path.dirname(folder)}"
    first = [entry for entry in ("python", "train-gan", "torchrun") if entry in there]
    named = (first + [entry for entry in there if entry not in first])[:NAMED]
    more = ", ..." if len(there) > len(named) else ""
    return f"{name}: command not found; {folder} has {', '.join(named) or 'nothing'}{more}"
