# SPDX-License-Identifier: Apache-2.0
"""From the task itself: what of the node its module looked at. Kinds are those of module_utils/settled/watch.py."""

from __future__ import annotations

import json
import shlex
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from ansible_collections.gpuwright.node.plugins.module_utils.checks.containers.engine import PROGRAMS
from ansible_collections.gpuwright.node.plugins.module_utils.packages.repositories import DNF_CONF
from ansible_collections.gpuwright.node.plugins.module_utils.sources.apt_files import LIST, PARTS
from ansible_collections.gpuwright.node.plugins.module_utils.sources.dnf_files import FOLDERS

Thing = tuple[str, str]
Things = list[Thing]

ACCOUNTS = ("/etc/passwd", "/etc/shadow", "/etc/group", "/etc/gshadow", "/etc/subuid", "/etc/subgid")
# They change only the controller, ask nothing of the node, or their answer is among the settings or the probe's facts.
OF_NO_NODE = {
    "add_host", "assert", "debug", "fail", "gpu_plan", "gpu_probe", "group_by", "host_plan", "import_role",
    "import_tasks", "include_role", "include_tasks", "include_vars", "meta", "set_fact", "validate_argument_spec",
    "workload_info",
    # Of the verification, in every run.
    "amp_smoke_test", "fetch", "gpu_scan", "gpu_verify", "report_page",
}  # fmt: skip
# Commands that only ask the package manager's records.
OF_PACKAGES = ("rpm", "dpkg-query")
# Parameters of host_tuning that decide what it compares.
TUNING = (
    "state", "leave", "values", "limits_group", "limits_units", "data_dir", "tuned_parent", "scratch_uuid",
    "scratch_dir", "program",
)  # fmt: skip


def files(*names: str) -> Callable[[Mapping[str, Any]], Things]:
    """The files in these parameters."""
    return lambda args: [("file", str(args[name])) for name in names if args.get(name)]


def entries(args: Mapping[str, Any]) -> Things:
    found = [("file", str(entry["path"])) for entry in args.get("entries") or [] if entry["path"]]
    for wish in args.get("units") or []:
        found += unit(wish)
    found += [("tree", str(tree["dest"])) for tree in args.get("trees") or []]
    found += [("file", str(program)) for program in (args.get("prove") or [])[:1]]
    return found + (accounts(args) if args.get("missing_account") == "tell" else [])


def trees(name: str) -> Callable[[Mapping[str, Any]], Things]:
    """The folder in this parameter with all that is below it."""
    return lambda args: [("tree", str(args[name]))]


def packages(args: Mapping[str, Any]) -> Things:
    return [("packages", "")]


def held(args: Mapping[str, Any]) -> Things:
    return [*packages(args), ("file", str(args["path"]))]


def link(args: Mapping[str, Any]) -> Things:
    return [("file", f"{args['folder']}/current"), ("folder", str(args["folder"]))]


def accounts(args: Mapping[str, Any]) -> Things:
    return [("file", path) for path in ACCOUNTS]


def found(args: Mapping[str, Any]) -> Things:
    paths = args["paths"] if isinstance(args["paths"], list) else [args["paths"]]
    return [("tree" if args.get("recurse") else "folder", str(path)) for path in paths]


def user(args: Mapping[str, Any]) -> Things:
    return accounts(args) + ([("file", str(args["home"]))] if args.get("home") else [])


def unit(args: Mapping[str, Any]) -> Things:
    if not args.get("name"):
        return []
    return [("unit", str(args["name"])), *([("active", str(args["name"]))] if args.get("state") else [])]


def repository(args: Mapping[str, Any]) -> Things:
    key = [("file", str(args["key_file"])), *packages(args)] if args["key_wanted"] else []
    # Another file may name the same repository.
    folders = [args["reposdir"], *(folder for folder in FOLDERS if folder != args["reposdir"])]
    return [*(("folder", str(folder)) for folder in folders), ("file", DNF_CONF), *key]


def apt_repository(args: Mapping[str, Any]) -> Things:
    login = f"{args['logins']}/gpuwright-{args['id']}.conf"
    return [*files("key_file")(args), ("file", login), ("file", LIST), ("folder", str(args["sources"]))]


def all_repositories(args: Mapping[str, Any]) -> Things:
    """Of either package manager: what is not there has not changed."""
    places = [("file", LIST), ("folder", PARTS), ("file", DNF_CONF)]
    return places + [("folder", folder) for folder in FOLDERS]


def tuning(args: Mapping[str, Any]) -> Things:
    # Every other parameter has a default, which a module's invocation shows, too.
    asked = ("tuning", json.dumps({name: args[name] for name in TUNING}, sort_keys=True))
    return [asked, *files("link")(args)]


def engines(args: Mapping[str, Any]) -> Things:
    # A new release of an engine has another program; which engines there are shows, too.
    return [("file", program) for program in PROGRAMS.values()]


def command(args: Mapping[str, Any]) -> Things | None:
    words = args.get("argv") or shlex.split(str(args.get("_raw_params") or ""))
    if words and words[0] in OF_PACKAGES:
        return packages(args)
    # One of our own programs, asked about itself: its library and its policy are files of the same role.
    return [("file", words[0])] if words and words[0].startswith("/usr/local/bin/") else None


# By the module's short name; one that is not here leaves its role unsettled, so that a plain run always enters it.
RULES: dict[str, Callable[[Mapping[str, Any]], Things | None]] = {
    "apt": packages,
    "apt_repository": apt_repository,
    "blockinfile": files("path"),
    "command": command,
    "container_engines": engines,
    "copy": files("dest"),
    "current_environment": link,
    "dnf": packages,
    "dnf_module_stream": packages,
    "dnf_repository": repository,
    "file": files("path"),
    "file_tree": trees("dest"),
    "files": entries,
    "find": found,
    "getent": accounts,
    "gpu_expectations": files("path"),
    "group": accounts,
    "host_tuning": tuning,
    "lineinfile": files("path"),
    "missing_packages": packages,
    "package": packages,
    "python_environment": trees("path"),
    "repository_key": files("dest"),
    "replace": files("path"),
    "service_account": user,
    "slurp": files("src"),
    "stat": files("path"),
    "systemd": unit,
    "template": files("dest"),
    "tree_modes": trees("path"),
    "user": user,
    "version_hold": held,
}


# Facts with the answer to a question that another role of the run has asked: whoever takes one has looked at the same.
ANSWERS: dict[str, Callable[[Mapping[str, Any]], Things]] = {
    "system_packages_state": packages,
    "system_kernel_other_sources": all_repositories,
}


def things_of(action: str, result: Mapping[str, Any], loop: bool) -> Sequence[Thing] | None:
    """What the task looked at; None if that is not known. `result` is that of a task that was not skipped."""
    name = action.rpartition(".")[2]
    if name in OF_NO_NODE:
        taken = [rule for answer, rule in ANSWERS.items() if answer in (result.get("ansible_facts") or {})]
        return [thing for rule in taken for thing in rule({})]
    rule, seen = RULES.get(name), []
    if loop and "results" not in result:
        # no_log hides the whole of it.
        return None
    for one in result["results"] if loop else [result]:
        if one.get("skipped"):
            continue
        # Absent where no_log hides it, or where an action never asked the node.
        args = (one.get("invocation") or {}).get("module_args")
        here = rule(args) if rule and isinstance(args, Mapping) else None
        if here is None:
            return None
        seen += here
    return seen
