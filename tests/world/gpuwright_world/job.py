"""The main job, run as an administrator runs it: from a copy of the tree, in a shell of their own, with no terminal."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from .condition import Condition, filled

REPOSITORY = Path(__file__).resolve().parents[3]
PARTS = (
    "site.yml",
    "ansible.cfg",
    "playbooks",
    "roles",
    "library",
    "plugins",
    "collections",
    "callback_plugins",
    "trainer",
)
PROGRAMS = Path(sys.executable).parent
RUN_SECONDS = 1500


@dataclass(frozen=True)
class Outcome:
    """How a run ended. `text` is the output as one line, as messages are wrapped anywhere."""

    rc: int
    output: str
    seconds: float

    @property
    def text(self) -> str:
        return re.sub(r"\s+", " ", self.output)

    @property
    def changed(self) -> int:
        """Changed tasks in the recap; 0 where no host was contacted."""
        return sum(map(int, re.findall(r"^\S+\s+: ok=\d+\s+changed=(\d+)", self.output, re.MULTILINE)))

    def sentence(self, words: str) -> str:
        """What was said from these words on, up to the table's next column."""
        start = self.text.find(words)
        return (
            re.split(r" (?:next|seen|\d+\.)(?::| )| PLAY RECAP| TASK \[| fatal:", self.text[start : start + 400])[0][
                :220
            ]
            if start >= 0
            else ""
        )


@dataclass(frozen=True)
class Shell:
    """A controller: its tree, working directory, environment and umask."""

    tree: Path
    folder: Path
    environment: Mapping[str, str]
    umask: int

    def call(self, command: Sequence[str], seconds: float, **environment: str) -> Outcome:
        """Run a program without a terminal, in a session of its own."""
        start = time.monotonic()
        done = subprocess.run(
            command,
            cwd=self.folder,
            env={**self.environment, **environment},
            umask=self.umask,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            start_new_session=True,
            timeout=seconds,
        )
        return Outcome(done.returncode, done.stdout.decode("utf-8", "replace"), time.monotonic() - start)


def copy_tree(folder: Path) -> Path:
    """The tree as a release has it, in a folder whose name has a space."""
    target = folder / "some where" / "gpu servers"
    target.mkdir(parents=True)
    for part in PARTS:
        source = REPOSITORY / part
        if source.is_dir() and not source.is_symlink():
            shutil.copytree(source, target / part, symlinks=True, ignore=shutil.ignore_patterns("__pycache__"))
        else:
            shutil.copy(source, target / part, follow_symlinks=False)
    return target


def shell_for(conditions: Sequence[Condition], tree: Path, folder: Path | None = None) -> Shell:
    """A shell with what the conditions say of the controller; `folder`: elsewhere, None: the tree itself."""
    environment = {name: text for name, text in os.environ.items() if not name.startswith(("ANSIBLE_", "LC_", "LANG"))}
    environment |= {"PATH": f"{PROGRAMS}:{os.environ['PATH']}", "ANSIBLE_NOCOLOR": "1"}
    umask = 0o022
    for condition in conditions:
        environment |= condition.environment
        umask = umask if condition.umask is None else condition.umask
    return Shell(tree, folder or tree, environment, umask)


def run_job(
    shell: Shell, inventory: Path, conditions: Sequence[Condition], words: Mapping[str, str], playbook: str = "site.yml"
) -> Outcome:
    """Run a playbook with the variables and words of the conditions; its log lies beside the inventory."""
    variables = {name: value for condition in conditions for name, value in condition.variables.items()}
    arguments = [filled(word, words) for condition in conditions for word in condition.words]
    command = ["ansible-playbook", "-i", str(inventory), str(shell.tree / playbook), *arguments]
    if variables:
        command += ["-e", filled(json.dumps(variables), words)]
    outcome = shell.call(command, RUN_SECONDS, ANSIBLE_SSH_CONTROL_PATH_DIR=words["SOCKETS"])
    with inventory.with_name("ansible.log").open("a", encoding="utf-8") as log:
        log.write(f"\n$ {' '.join(command)}\n{outcome.output}")
    return outcome
