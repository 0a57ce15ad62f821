# SPDX-License-Identifier: Apache-2.0
"""Run a program in the sandbox of an installed systemd service: its own settings, read from its file, and no others.

What a service may do decides whether CUDA works in it, so a test whose result is to apply to the service must run under
the same settings.
"""

import os
import re
from typing import Iterator, List, Match, NamedTuple, Optional, Sequence, Tuple

from ..host.files import below, exists, names_in, read_text
from ..host.patterns import lazily

# Settings for how a service starts, stops, is watched and finds its own files; they say nothing about what its program
# may do.
NOT_OF_THE_SANDBOX = lazily(
    r"(Exec|Restart|Timeout|Standard|Watchdog|StartLimit|Success)[A-Za-z]*"
    r"|RuntimeDirectory|RuntimeDirectoryPreserve|EnvironmentFile|WorkingDirectory"
    r"|Type|PIDFile|RemainAfterExit|RuntimeMaxSec|NotifyAccess|Sockets|BusName|SyslogIdentifier|FileDescriptorStoreMax"
)
INSTANCE = "gpuwright-smoke"
# Specifiers whose value does not depend on the service's name, written out; systemd-run does not expand any.
SPECIFIERS = {"%%": "%", "%i": INSTANCE, "%I": INSTANCE}
STOP_SECONDS = 5
# How systemd-run(1), in its release's words, reports a setting that this systemd lacks: the service runs without it.
UNKNOWN_SETTING = lazily(r"Unknown assignment:? '?([A-Za-z]+)=")
KILLED = lazily(r"code=(?:killed|dumped)[,/ ]+status=(?:[0-9]+/)?([A-Z0-9]+)")
OWN_WORDS = lazily(
    r"(Running as unit|Finished with result|Main processes terminated|Service runtime|CPU time consumed|Memory peak|"
    r"IO bytes|IP traffic|Memory swap)"
)


class Service(NamedTuple):
    """A service as a sandbox: its name, the user it runs as, and its settings as ["Name=value"] in their order."""

    name: str
    user: str
    settings: List[str]


class SandboxError(Exception):
    """The sandbox cannot be made; the message says why."""


def read_service(path: str, root: str = "/") -> Service:
    """The `Service` in a unit file and its drop-ins; SandboxError if there is none or it cannot be reproduced."""
    if not exists(root, path):
        raise SandboxError(f"there is no {path}")
    drop_ins = [name for name in names_in(root, path + ".d") if name.endswith(".conf")]
    settings, user = [], ""
    for file in [path] + [f"{path}.d/{name}" for name in drop_ins]:
        text = read_text(root, file)
        if text is None:
            raise SandboxError(f"{file} cannot be read")
        for name, value in service_lines(text):
            if name == "User":
                user = value
            elif not NOT_OF_THE_SANDBOX.fullmatch(name):
                settings.append(f"{name}={expanded(value, file)}")
    if not user:
        raise SandboxError(f"{path} has no User")
    return Service(os.path.basename(path), user, settings)


def service_lines(text: str) -> Iterator[Tuple[str, str]]:
    """(name, value) of each setting in the section [Service]; continued lines are one."""
    section = ""
    for line in text.replace("\\\n", " ").splitlines():
        line = line.strip()
        if line.startswith("["):
            section = line
        elif section == "[Service]" and line and line[0] not in "#;":
            name, separator, value = line.partition("=")
            if separator:
                yield name.strip(), value.strip()


def expanded(value: str, file: str) -> str:
    """The value without specifiers; SandboxError for one that only systemd could fill in."""

    def fill(match: Match[str]) -> str:
        if match.group(0) not in SPECIFIERS:
            raise SandboxError(f"{file} uses the specifier {match.group(0)}, which cannot be filled in here")
        return SPECIFIERS[match.group(0)]

    return re.sub(r"%.", fill, value)


def why_no_systemd(root: str = "/") -> str:
    """Why no service can be started, or ""."""
    if not os.path.isdir(below(root, "/run/systemd/system")):
        return "systemd does not run this node"
    if os.geteuid() != 0:
        return "only root can start a service"
    return ""


def service_command(service: Service, command: Sequence[str], seconds: float, unit: str) -> List[str]:
    """The systemd-run command line that waits for `command`, passes its output on, and ends it after `seconds`."""
    words = ["systemd-run", "--pipe", "--wait", "--collect", "--unit=" + unit]
    words += ["--uid=" + service.user, "--description=gpuwright in the sandbox of " + service.name]
    for setting in service.settings:
        words += ["-p", setting]
    # systemd itself ends what is left: the service is not our child.
    words += ["-p", f"RuntimeMaxSec={max(1, int(seconds)):d}", "-p", f"TimeoutStopSec={STOP_SECONDS}"]
    # systemd would expand variables in the words.
    return words + ["--"] + [word.replace("$", "$$") for word in command]


def without_unknown(service: Service, stderr: str) -> Optional[Service]:
    """The service without the setting that this systemd does not know, or None if it complains about something else."""
    match = UNKNOWN_SETTING.search(stderr)
    if not match:
        return None
    kept = [setting for setting in service.settings if not setting.startswith(match.group(1) + "=")]
    return service._replace(settings=kept) if len(kept) < len(service.settings) else None


def killed_by(stderr: str) -> str:
    """The name of the signal that ended the program, by systemd-run's words, or ""."""
    match = KILLED.search(stderr)
    return match.group(1) if match else ""


def ran_out_of_time(stderr: str) -> bool:
    return re.search(r"Finished with result: timeout", stderr) is not None


def started(stderr: str) -> bool:
    """Whether a service was started at all."""
    return "Running as unit" in stderr


def program_words(stderr: str) -> str:
    """The program's own output."""
    return "\n".join(line for line in stderr.splitlines() if not OWN_WORDS.match(line))
