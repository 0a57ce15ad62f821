# SPDX-License-Identifier: Apache-2.0
"""Whether the roles may rely on an existing environment: one sentence if not, or "" if it is intact."""

import re
from typing import Dict, Iterable, List, Optional

from ..host.as_user import ordinary_account, run_as
from ..host.bounded import run_bounded
from ..host.files import below
from .environment_files import installed_packages, normal_name, read_environment

IMPORT_SECONDS = 180
CHECK_SECONDS = 600
# What pip says of a package that is not there: which one needs it, and which one it is.
LACKS = re.compile(r" requires (?P<name>\S+), which is not installed")
# -I and -B as in the checks: nothing of the caller's is used, and nothing is written.
IMPORT = "import importlib, sys; importlib.import_module(sys.argv[1])"


def judge_environment(
    path: str, imports: List[str], user: str, all_hashes: bool, only: List[str], leave_out: List[str], root: str = "/"
) -> str:
    """Why the environment `path` is not intact, "" if it is; see the module python_environment for the parameters."""
    found = read_environment(root, path, all_hashes)
    if found is None:
        return f"there is no environment at {path}"
    missing = sorted(set(only) - set(installed_packages(root, path)))
    if missing:
        return f"{missing[0]} is not installed in {path}"
    concerned = [name for name in found["damaged"] if (name in only if only else name not in leave_out)]
    if concerned:
        return damage_words(found, concerned)
    for module in imports:
        problem = import_problem(root, path, module, user)
        if problem:
            return problem
    return ""


def disagreement(path: str, guests: Iterable[str], root: str = "/") -> str:
    """What the environment's packages lack of each other, "" if nothing; `guests` may be installed later."""
    done = run_bounded([below(root, path) + "/bin/python", "-B", "-m", "pip", "check"], CHECK_SECONDS)
    if done.rc == 0:
        return ""
    lines = done.stdout.strip().splitlines()
    later = set(map(normal_name, guests))
    apart = [line for line in lines if not (LACKS.search(line) and normal_name(_lacked(line)) in later)]
    if lines and not apart:
        return ""
    last = done.stderr.strip().splitlines()[-1:]
    words = "; ".join(apart) or done.problem or "".join(last) or f"pip check ended with {done.rc}"
    return f"the packages do not agree: {words[:600]}"


def _lacked(line: str) -> str:
    found = LACKS.search(line)
    return found.group("name") if found else ""


def damage_words(found: Dict, concerned: Optional[List[str]] = None) -> str:
    """What is wrong with the files of the `concerned` packages (of all, if none are given), in one sentence."""
    names = found["damaged"] if concerned is None else concerned
    first = next((problem for problem in found["problems"] if problem["distribution"] in names), None)
    words = "{path} {problem} ({distribution})".format(**first) if first else "files are damaged"
    more = found["problem_count"] - 1
    return words + (f", and {more} more in {', '.join(names[:5])}" if more > 0 else "")


def import_problem(root: str, path: str, module: str, user: str) -> str:
    """Why an ordinary user cannot import `module`, "" if they can."""
    try:
        account = ordinary_account(user, root)
    except ValueError as error:
        return f"the import of {module} cannot be tried: {error}"
    command = [below(root, path) + "/bin/python", "-I", "-B", "-c", IMPORT, module]
    done = run_as(command, account, IMPORT_SECONDS)
    if done.rc == 0:
        return ""
    lines = done.stderr.strip().splitlines() or [f"it ended with {done.rc} and printed nothing"]
    return f"import {module}: {done.problem or lines[-1][:300]}"
