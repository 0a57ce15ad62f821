"""Runs of ansible-playbook as an administrator starts them; what they say can be followed in a log."""

from __future__ import annotations

import json
import os
import re
import subprocess
from dataclasses import dataclass
from pathlib import Path

REPOSITORY = Path(__file__).resolve().parents[1]


@dataclass
class Run:
    """One run of ansible-playbook."""

    rc: int
    output: str

    @property
    def text(self) -> str:
        """The output as one line, so that a message may be looked for wherever it was wrapped."""
        return re.sub(r"\s+", " ", self.output)

    @property
    def changed(self) -> int:
        """Changed tasks of all hosts in the recap."""
        found = re.findall(r"^\S+\s+: ok=\d+\s+changed=(\d+)", self.output, re.MULTILINE)
        assert found, self.output
        return sum(map(int, found))


def run_playbook(inventory: Path, seconds: float, playbook: str, *arguments: str, **variables: object) -> Run:
    """Run a playbook on the hosts of an inventory; `variables` become extra variables.

    The command and its output are added to ansible.log beside the inventory. Raises TimeoutExpired after `seconds`.
    """
    words = ["ansible-playbook", "-i", str(inventory), playbook, *arguments]
    if variables:
        words += ["-e", json.dumps(variables)]
    environment = {**os.environ, "ANSIBLE_NOCOLOR": "1"}
    with inventory.with_name("ansible.log").open("ab+") as log:
        log.write(f"\n$ {' '.join(words)}\n".encode())
        log.flush()
        start = log.tell()
        done = subprocess.run(
            words, cwd=REPOSITORY, env=environment, timeout=seconds, stdin=subprocess.DEVNULL, stdout=log, stderr=log
        )
        log.seek(start)
        return Run(done.returncode, log.read().decode())
