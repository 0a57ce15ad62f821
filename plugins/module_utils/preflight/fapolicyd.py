# SPDX-License-Identifier: Apache-2.0
"""fapolicyd, which allows only programs from packages, and so not, for example, those of a Python environment.

Its rules deny everybody but root anything that is not trusted: shared libraries, Python files and programs. The trainer
would fail with "Operation not permitted". Sources: fapolicyd.rules(5), fapolicyd.conf(5), and its rules.d
(41-shared-obj, 70-trusted-lang, 90-deny-execute), https://github.com/linux-application-whitelisting/fapolicyd.
"""

import re
from typing import Any, Callable, Dict, List, Mapping, Optional

from ..host.files import exists, names_in, read_text
from .problem import (
    Problem,
    problem,
)

CONF = "/etc/fapolicyd/fapolicyd.conf"
SERVICE = "fapolicyd.service"
# Rules in the order in which they apply: files of a folder by their names (1.1 and newer), else one file.
RULES_FOLDER = "/etc/fapolicyd/rules.d"
ONE_FILE = "/etc/fapolicyd/fapolicyd.rules"
TRUST_FILE, TRUST_FOLDER = "/etc/fapolicyd/fapolicyd.trust", "/etc/fapolicyd/trust.d"
ENVIRONMENTS = "/opt/gpuwright/"
# Folder that gpuwright fills, which no package owns and only root can write.
FOLDERS = (ENVIRONMENTS, "/usr/local/lib/gpuwright/")
PROGRAMS = ("/usr/local/bin/gpu-run", "/usr/local/bin/gpu-doctor", "/usr/local/bin/gpu-tune")
# After the rule against ld.so (30), before the one against shared libraries (41).
OUR_RULES = RULES_FOLDER + "/35-gpuwright.rules"
ALLOW = re.compile(r"allow\s+perm=any\s+(?:all|trust=1)\s*:\s*(?:all|dir=(\S+))\s*$")
DENY_LIBRARIES = re.compile(r"deny\w*\s+perm=(?:any|open)\s+all\s*:\s*(?:all|.*ftype=application/x-sharedlib.*)\s*$")


def read_fapolicyd(ask: Callable[..., Any], root: str = "/") -> Optional[Dict[str, Any]]:
    """None if it does not run now or at the next boot; else `{permissive, allowed, listed, folder}`.

    allowed  whether a rule lets everybody use what is in /opt/gpuwright, before one that denies libraries
    listed   whether a trust list names files there             folder  whether rules are files in a folder
    """
    if not exists(root, CONF):
        return None
    states = [(ask(["systemctl", word, SERVICE]) or "").strip() for word in ("is-active", "is-enabled")]
    if states[0] not in ("active", "activating", "reloading") and states[1] != "enabled":
        return None
    permissive = re.search(r"(?m)^\s*permissive\s*=\s*(\d+)", read_text(root, CONF) or "")
    folder = exists(root, RULES_FOLDER)
    files = sorted(RULES_FOLDER + "/" + name for name in names_in(root, RULES_FOLDER) if name.endswith(".rules"))
    lists = [TRUST_FILE] + [TRUST_FOLDER + "/" + name for name in names_in(root, TRUST_FOLDER)]
    return {
        "permissive": permissive is not None and int(permissive.group(1)) != 0,
        "allowed": is_allowed("\n".join(read_text(root, path) or "" for path in (files if folder else [ONE_FILE]))),
        "listed": any(
            line.startswith(ENVIRONMENTS) for path in lists for line in (read_text(root, path) or "").splitlines()
        ),
        "folder": folder,
    }


def is_allowed(rules: str) -> bool:
    """Whether the first rule that decides on a shared library in /opt/gpuwright allows it to everybody."""
    for line in (line.strip() for line in rules.splitlines()):
        allow = ALLOW.match(line)
        if allow and (allow.group(1) is None or ENVIRONMENTS.startswith(allow.group(1))):
            return True
        if DENY_LIBRARIES.match(line):
            return False
    return False


def fapolicyd_problems(facts: Mapping[str, Any]) -> List[Problem]:
    """Reports that the environment would be installed but nobody except root could use it."""
    state = facts.get("fapolicyd")
    if not state or state["allowed"]:
        return []
    rules = [f"allow perm=any all : dir={name}" for name in FOLDERS]
    rules += [f"allow perm=any all : path={name}" for name in PROGRAMS]
    typed = "printf '%s\\n' {} ".format(" ".join(f"'{rule}'" for rule in rules))
    if state["folder"]:
        step = f"As root on the node: `{typed}> {OUR_RULES} && fagenrules --load`"
    else:
        step = (
            "As root on the node put these lines into {}, before those about ftype=application/x-sharedlib, and run "
            "`sudo systemctl restart fapolicyd`: {}"
        ).format(ONE_FILE, "; ".join(rules))
    text = "fapolicyd lets only root use files that no package has installed, such as the environment in /opt/gpuwright"
    seen = f"the service is on, permissive = {int(state['permissive'])}, and no rule allows /opt/gpuwright"
    step += ". Only root can write there. Then run again."
    if state["listed"]:
        seen += "; a trust list names files there, by their contents"
        step += (
            " Or keep to trust lists: after the run `sudo fapolicyd-cli --file add /opt/gpuwright/ --trust-file "
            "gpuwright` and `sudo fapolicyd-cli --update`, since each new environment has new files."
        )
    return [problem("fapolicyd.denied", text, seen, step, stops=not (state["permissive"] or state["listed"]))]
