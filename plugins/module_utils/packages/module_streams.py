# SPDX-License-Identifier: Apache-2.0
"""Module streams of dnf: which one is enabled, which ones exist, and the commands that change this.

The state is read from /etc/dnf/modules.d, where dnf itself keeps it, so that a host with nothing to change needs no
repository and no dnf. Everything else goes through the dnf command, whose output for modules is the same in dnf 4.7
(RHEL 8) and 4.14 (Debian 12).
"""

import configparser
import difflib
import re
import signal
from typing import Any, List, NamedTuple, Sequence

from ..host.bounded import (
    Finished,
    run_bounded,
)
from ..host.files import read_text
from ..host.patterns import lazily
from .installed import lock_holder

STATE_FILE = "/etc/dnf/modules.d/{}.module"
NAME = lazily(r"[A-Za-z0-9][A-Za-z0-9._+-]{0,99}$")
SHOWN_LINES = 6


class Selection(NamedTuple):
    """state: "enabled", "disabled" or "" (neither, so that the repository's default stream applies)"""

    state: str
    stream: str


class StreamError(Exception):
    """What went wrong and what to do next, in plain words."""


def check_name(what: str, text: str) -> None:
    """Refuse a name that dnf would take for an option or for more than one name. Raises `StreamError`."""
    if not NAME.match(text):
        raise StreamError(
            f"{what} is {text!r}: expected a name such as nvidia-driver or 580-dkms (letters, digits and . _ + -, "
            "starting with a letter or digit)"
        )


def read_selection(name: str, root: str = "/") -> Selection:
    """The `Selection` that dnf keeps for module `name`; raises `StreamError` if its file cannot be understood."""
    path = STATE_FILE.format(name)
    parser = configparser.ConfigParser(interpolation=None, strict=False)
    try:
        parser.read_string(read_text(root, path) or "")
    except configparser.Error as error:
        reason = " ".join(str(error).split())
        raise StreamError(f"{path} cannot be read: {reason}. Next: sudo dnf module reset {name}")
    section = parser[name] if parser.has_section(name) else {}
    state, stream = section.get("state", "").strip(), section.get("stream", "").strip()
    if state not in ("", "enabled", "disabled"):
        raise StreamError(f"{path} has the unknown state {state!r}. Next: sudo dnf module reset {name}")
    return Selection(state, stream if state == "enabled" else "")


def parse_module_list(name: str, text: str) -> List[str]:
    """Streams of module `name` in the table that `dnf module list` prints, in its order, each once.

    Rows look like "nvidia-driver  580-dkms [d][e]  default [d], fm  Summary"; several repositories may list the same
    stream, long cells continue on lines that begin with a space, and hints follow at the end.
    """
    row = re.compile(rf"{re.escape(name)}\s+(?P<stream>[^\s\[\]]+)(?:\s|\[|$)")
    streams = []
    for line in text.splitlines():
        match = row.match(line)
        if match and NAME.match(match.group("stream")) and match.group("stream") not in streams:
            streams.append(match.group("stream"))
    return streams


class Dnf(object):
    """The dnf and rpm commands, each with the same deadline in seconds."""

    def __init__(self, timeout: float) -> None:
        self.timeout = timeout

    def available_streams(self, name: str) -> List[str]:
        """Streams that the enabled repositories offer; raises `StreamError` if dnf cannot list them."""
        # -y: for a repository with signed metadata, dnf asks whether its configured key may be used.
        command = ["dnf", "-q", "-y", "module", "list", name]
        finished = self._run(command)
        if finished.rc == 0 or "No matching Modules to list" in finished.stderr:
            return parse_module_list(name, finished.stdout)
        raise StreamError(_failure(command, finished))

    def installed(self, names: Sequence[str]) -> List[str]:
        """Those of `names` (globs allowed) that are installed according to rpm, sorted."""
        if not names:
            return []
        command = ["rpm", "-qa", "--qf", "%{NAME}\\n"] + list(names)
        finished = self._run(command)
        if finished.rc != 0:
            raise StreamError(_failure(command, finished))
        return sorted(set(finished.stdout.split()))

    def versions(self, names: Sequence[str]) -> Any:
        """`{name: version}` of those of `names` (globs allowed) that rpm has."""
        if not names:
            return {}
        command = ["rpm", "-qa", "--qf", "%{NAME} %{VERSION}\\n"] + list(names)
        finished = self._run(command)
        if finished.rc != 0:
            raise StreamError(_failure(command, finished))
        return dict(line.split(" ", 1) for line in finished.stdout.splitlines() if " " in line)

    def offered(self, names: Sequence[str]) -> Any:
        """Those of `names` that the enabled repositories and streams offer."""
        command = ["dnf", "-q", "-y", "repoquery", "--available", "--qf", "%{name}"] + list(names)
        finished = self._run(command)
        if finished.rc != 0:
            raise StreamError(_failure(command, finished))
        return sorted(set(finished.stdout.split()) & set(names))

    def shell(self, command: str) -> Any:
        """Run dnf shell, whose exit status says nothing; raises `StreamError` if its output mentions an error."""
        finished = self._run(command)
        said = finished.stdout + "\n" + finished.stderr
        if finished.rc != 0 or re.search(r"(?m)^(Error|\s*Problem\b|Failed)", said):
            words = [line for line in said.splitlines() if re.match(r"(Error|\s*Problem\b|Failed|\s+- )", line)]
            raise StreamError(_failure(command, finished._replace(stderr="\n".join(words) or finished.stderr)))

    def change(self, command: Sequence[str]) -> Any:
        """Run one of the commands of `plan_commands`; raises `StreamError` with the last lines of dnf's output."""
        finished = self._run(command)
        if finished.rc != 0:
            raise StreamError(_failure(command, finished))

    def _run(self, command: Sequence[str]) -> Any:
        # SIGTERM: a running package transaction ends cleanly, one that is waiting for a lock ends at once.
        finished = run_bounded(command, self.timeout, stop_signal=signal.SIGTERM)
        if finished.missing:
            raise StreamError(f"{finished.problem}. This host does not use dnf, or PATH lacks /usr/bin")
        if finished.timed_out:
            raise StreamError(_late(command, self.timeout, finished))
        if finished.rc is None:
            raise StreamError(finished.problem)
        return finished


def plan_commands(name: str, wanted: Selection, before: Selection, installed: Sequence[str]) -> List[List[str]]:
    """The commands, in order, that lead from `before` to `wanted` (both `Selection`).

    A switch removes the old stream's packages first: after an interruption at that point, the next run finds the old
    stream still enabled and continues from there.
    """
    if wanted == before:
        return []
    reset = ["dnf", "-y", "module", "reset", name]
    if wanted.state == "":
        return [reset]
    if wanted.state == "disabled":
        return [["dnf", "-y", "module", "disable", name]]
    enable = ["dnf", "-y", "module", "enable", f"{name}:{wanted.stream}"]
    if not is_switch(wanted, before):
        return [enable]
    remove = [["dnf", "-y", "remove", *installed]] if installed else []
    return remove + [reset, enable]


def is_switch(wanted: Selection, before: Selection) -> bool:
    """Whether another stream is enabled now; dnf refuses to do that in one step, because packages of both would mix."""
    return wanted.state == before.state == "enabled" and wanted.stream != before.stream


def switch_refusal(name: str, wanted: Selection, before: Selection, commands: Sequence[str]) -> str:
    """Why a switch does not happen unless it is asked for, and all that it would do; `commands` are lines of text."""
    there = f"has stream {before.stream} enabled" if before.stream else "has no stream enabled"
    if before == wanted:
        there += ", with packages of another version,"
    return (
        "Module {name} {there}, but {new} is wanted. A switch replaces the driver that works now, so it is done only "
        "if it is allowed. To allow it, set system_driver_allow_stream_switch: true (allow_switch of this module). It "
        "runs: "
        "{commands}".format(name=name, there=there, new=wanted.stream, commands="; ".join(commands))
    )


def unknown_stream(name: str, stream: str, available: Sequence[str]) -> str:
    """The streams that exist instead of one that no repository offers."""
    if not available:
        return (
            f"No enabled repository offers module {name}. Next: dnf repolist; dnf module list {name} (is the "
            "repository that has it enabled and reachable?)"
        )
    near = difflib.get_close_matches(stream, available, n=3, cutoff=0.7)
    # Two names of the same branch count as close to each other, however different their endings are.
    branch = stream.split("-")[0]
    near += [other for other in available if other.split("-")[0] == branch and other not in near]
    hint = f" Did you mean {' or '.join(near)}?" if near else ""
    return f"Module {name} has no stream {stream}.{hint} Available: {', '.join(available)}"


def _failure(command: Any, finished: Finished) -> str:
    words = "\n".join((finished.stderr.strip() or finished.stdout.strip()).splitlines()[-SHOWN_LINES:])
    lock = re.search(r"(?i)lock.*|another copy is running.*", words)
    who = _holder_sentence(finished.stdout + finished.stderr) if lock else ""
    return f"{' '.join(command)} failed with exit status {finished.rc}.{who} Its last output: {words}"


def _late(command: Any, timeout: float, finished: Finished) -> str:
    text = finished.stdout + finished.stderr
    who = _holder_sentence(text) or " Look for what it waits for: ps -o pid,stat,etime,args -C dnf,yum,rpm"
    return f"{' '.join(command)} did not finish within {timeout:g} s and was stopped.{who}"


def _holder_sentence(text: str) -> str:
    """Who holds the package manager's lock, from dnf's own output or from its lock files; "" if nobody is found."""
    match = re.search(r"(?i)(?:process with pid|running as pid) ([0-9]+)", text)
    if match:
        pid = int(match.group(1))
        command = (read_text("/", f"/proc/{pid}/cmdline") or "unknown command").replace("\0", " ").strip()
    else:
        holder = lock_holder()
        if holder is None:
            return ""
        pid, command = holder["pid"], holder["command"]
    return f" The package manager is held by process {pid} ({command}); wait for it or stop it, then run again."
