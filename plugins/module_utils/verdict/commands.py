# SPDX-License-Identifier: Apache-2.0
"""Commands in messages: as the toolkit was started (from its checkout or as a collection), and ready to be pasted.

An action that can be typed is "Run: COMMAND ; COMMAND # Words for the reader". A shell takes all of it as it stands;
whoever prints on more than one line puts the words on lines of their own (`lines_of`).
"""

import shlex
from typing import Any, List, Optional

from ..host.patterns import lazily

CHECKOUT, COLLECTION = STARTED_AS = ("checkout", "collection")
PLAYBOOK = lazily(
    r"\bansible-playbook (?:playbooks/)?(site|preflight|plan|system|framework|model|verify|scan|lock)\.yml\b"
)
UNLIMITED = lazily(r"\bansible-playbook (?:[\w/-]+\.yml|gpuwright\.node\.\w+)\b(?!.* -l )")
RUN = "Run: "
BETWEEN = " ; "
WORDS = " # "
# What only root can do, or sees more of; a part of an action that begins with another word is for the reader.
AS_ROOT = (
    "apt-get", "chmod", "chown", "dkms", "dnf", "dracut", "ldconfig", "modprobe", "mount", "mv", "nvidia-ctk",
    "nvidia-modprobe", "nvidia-smi", "perfquery", "rm", "sed", "setpci", "systemctl", "update-initramfs", "usermod",
)  # fmt: skip
CONTROLLERS = "ansible-playbook "
AS_WHO_ASKS = ("ansible-playbook", "cat", "getent", "gpu-doctor", "gpu-run", "ibstat", "ls", "sudo", "unset")
NEEDS_ROOT = lazily(r"(^|&& |\|\| )(?=(?:{})\b)".format("|".join(AS_ROOT)))
OTHER_FAMILY = lazily(r" \(Debian: (.+)\)$")


def as_started(text: str, started_as: Optional[str]) -> str:
    """The text; if the collection is used, with its names of playbooks: gpuwright.node.site instead of site.yml."""
    if started_as != COLLECTION:
        return text
    return PLAYBOOK.sub(r"ansible-playbook gpuwright.node.\1", text)


def on_this_node(text: str, name: Any) -> str:
    """The text with its playbooks limited to one host; without a name from the inventory, as it is."""
    if not isinstance(name, str) or not name:
        return text
    return UNLIMITED.sub(lambda found: found.group(0) + " -l " + shlex.quote(name), text)


def pasteable(action: str) -> str:
    """The action with its commands first, each as it is typed in a user's shell, and its words behind a `#`."""
    if not action.startswith(RUN) or WORDS in action:
        return action
    commands = []  # type: List[str]
    words = []  # type: List[str]
    for part in action[len(RUN) :].split(BETWEEN):
        command = part[len("then ") :] if part.startswith("then ") else part
        # The first part is what "Run:" means, whichever program it is.
        if words or commands and not is_command(command):
            words.append(part)
            continue
        if commands and command.startswith(CONTROLLERS) and not commands[0].startswith(CONTROLLERS):
            # Another machine's shell.
            words.append("then, on the controller: " + command)
            continue
        other = OTHER_FAMILY.search(command)
        if other is not None:
            command = command[: other.start()]
            words.append("on Debian: sudo " + other.group(1))
        commands.append(NEEDS_ROOT.sub(r"\1sudo ", command.rstrip(".")))
    told = BETWEEN.join(text[0].upper() + text[1:] for text in words if text)
    return RUN + BETWEEN.join(commands) + (WORDS + told if told else "")


def is_command(part: str) -> bool:
    """Whether a part of an action is typed; "modinfo x says why" and "its log: journalctl" are read."""
    first = part.split(" ")[0]
    return first in AS_ROOT or first in AS_WHO_ASKS or first.startswith("/")


def lines_of(action: str) -> List[str]:
    """The commands, and below them each of the words; an action that is not typed is one line."""
    commands, found, words = action.partition(WORDS)
    return [commands, *words.split(BETWEEN)] if found and action.startswith(RUN) else [action]
