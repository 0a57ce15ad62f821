# SPDX-License-Identifier: Apache-2.0
"""Change a module stream: compare it with what is wanted, decide, change, verify."""

from typing import Any, Dict, List, Mapping, NamedTuple

from ..host.versions import is_version
from .module_streams import (
    Dnf,
    Selection,
    StreamError,
    check_name,
    is_switch,
    plan_commands,
    read_selection,
    switch_refusal,
    unknown_stream,
)
from .stream_switch import describe_switch, foreign_packages, replace_packages, stream_put_back

LONGEST_SECONDS = 86400


class Change(NamedTuple):
    """The change that is asked for.

    name      the module                        selection     what dnf must have recorded for it afterwards
    packages  names (globs) of all packages that a switch removes or replaces
    install   what must be installed after a switch; [] if `packages` are only removed
    version   branch or version of all `packages` of the stream, "" without `install`
    allow_switch  whether another enabled stream may be replaced
    """

    name: str
    selection: Selection
    packages: List[str]
    install: List[str]
    version: str
    allow_switch: bool


def wanted_change(params: Mapping[str, Any]) -> Change:
    """The change that the parameters of the module dnf_module_stream ask for; StreamError if one is wrong."""
    check_name("name", params["name"])
    for package in params["packages"]:
        check_name("a member of packages", package.replace("*", "x").replace("?", "x"))
    for package in params["install"]:
        check_name("a member of install", package.replace("*", "x"))
    if params["install"] and not is_version(params["version"]):
        raise StreamError(f"version is {params['version']!r}: expected a branch such as 580 beside install")
    if not 0 < params["timeout"] <= LONGEST_SECONDS:
        raise StreamError(f"timeout is {params['timeout']}: expected seconds above 0 and up to {LONGEST_SECONDS}")
    return Change(
        name=params["name"],
        selection=_selection(params["state"], params["stream"]),
        packages=params["packages"],
        install=params["install"],
        version=params["version"],
        allow_switch=params["allow_switch"],
    )


def _selection(state: str, stream: Any) -> Selection:
    if state == "enabled":
        check_name("stream", stream)
        return Selection("enabled", stream)
    if stream:
        raise StreamError(f"stream is {stream}, but state {state} takes none")
    return Selection("disabled" if state == "disabled" else "", "")


def bring_about(change: Change, dnf: Dnf, check_mode: bool, result: Dict[str, Any]) -> None:
    """Make the change, if there is one and check mode does not forbid it.

    Fills in `result`, the module's answer, as it proceeds: a failure, too, carries what is known by then.
    """
    name, wanted, install = change.name, change.selection, change.install
    before = read_selection(name)
    result.update(stream_before=before.stream, stream_after=before.stream, available=None, packages_to_remove=[])
    if wanted != before and wanted.state == "enabled":
        result["available"] = dnf.available_streams(name)
        if wanted.stream not in result["available"]:
            raise StreamError(unknown_stream(name, wanted.stream, result["available"]))
    found = dnf.versions(change.packages) if install else {}
    replaced = found if is_switch(wanted, before) or foreign_packages(found, change.version) else {}
    if is_switch(wanted, before) and not install:
        result["packages_to_remove"] = dnf.installed(change.packages)
    commands = plan_commands(name, wanted, before, result["packages_to_remove"])
    words = [" ".join(command) for command in commands]
    if replaced:
        result["packages_to_remove"] = sorted(replaced)
        words.append(describe_switch(sorted(replaced), install))
    result["commands"] = words
    if (is_switch(wanted, before) or replaced) and not change.allow_switch:
        raise StreamError(switch_refusal(name, wanted, before, words))
    if not check_mode:
        _make_changes(change, commands, replaced, dnf, result)
    result.update(
        changed=bool(words),
        stream_after=wanted.stream,
        diff={"before": _describe(name, before), "after": _describe(name, wanted)},
    )


def _make_changes(change: Change, commands: Any, replaced: Any, dnf: Dnf, result: Dict[str, Any]) -> None:
    """Select the stream, then replace the packages; a failure before they are replaced leaves everything as it was."""
    names = change.packages if change.install else []
    with stream_put_back(change.name, dnf, names):
        for command in commands:
            dnf.change(command)
            result["changed"] = not change.install
        if commands:
            _prove(change.name, change.selection)
        if replaced:
            replace_packages(dnf, replaced, change.version, change.install)


def _prove(name: str, wanted: Selection) -> None:
    """Verify the change: dnf's exit status is not trusted, but what it recorded is."""
    after = read_selection(name)
    if after != wanted:
        raise StreamError(
            f"dnf reported success, but recorded {_describe(name, after).strip()!r} instead of "
            f"{_describe(name, wanted).strip()!r}. Next: dnf module list {name}"
        )


def _describe(name: str, selection: Selection) -> str:
    """One line for a diff."""
    words = " ".join(part for part in selection if part) or "not selected"
    return f"module {name}: {words}\n"
