"""Makes the faults of the table on a bare host of the fleet, and looks at what is left."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

from interrupt import record
from interrupt.host import REPO_ROOT, Host

from .row import Row

sys.path.append(str(REPO_ROOT / "tests"))
sys.path.append(str(REPO_ROOT / "tests/world"))

from gpuwright_world import packages
from gpuwright_world.done import FAPOLICYD_HOST
from gpuwright_world.refused import clock
from playbook_run import Run

# Of the fleet: those of the interruptions are numbered from 1.
WORKER = 9
SECONDS = 900
SCRIPTS = {"@CLOCK@": clock("+600").host, "@FAPOLICYD@": FAPOLICYD_HOST}
# How the names of playbooks begin, which a row with a working folder of its own needs in full.
PLAYBOOKS = ("site.yml", "playbooks/")


class Table:
    """A bare host with a mirror beside it."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.host = Host(WORKER)
        self.host.start()
        packages.bring(self.host.container)
        self._hashes = record.Hashes(folder / "hashes")

    def away(self) -> None:
        self.host.stop()

    def state(self) -> record.State:
        return record.read(self.host, self._hashes)

    def differences(self, before: record.State, after: record.State) -> list[str]:
        return list(record.differences(before, after))

    @contextmanager
    def harmed(self, row: Row) -> Iterator[None]:
        """The host with the row's fault, which is mended afterwards, whatever happens."""
        try:
            if row.harm:
                self.host.do("set -e\n" + SCRIPTS.get(row.harm, row.harm))
            yield
        finally:
            if row.mend:
                self.host.do(row.mend)

    def run(self, row: Row) -> Run:
        """The row's command, in its shell."""
        inventory = self._inventory(row)
        words = [str(REPO_ROOT / word) if word.startswith(PLAYBOOKS) else word for word in row.command]
        if row.hosts == "vault":
            words += ["--vault-password-file", str(self._password("another"))]
        if row.variables:
            words += ["-e", json.dumps(dict(row.variables))]
        return self._ansible(inventory, words, row.folder or str(REPO_ROOT), row.environment, row.umask)

    def plain(self, words: Sequence[str]) -> Run:
        """A command on the host as it is."""
        return self._ansible(self.host.inventory, words, str(REPO_ROOT), {}, 0o022)

    def _ansible(self, inventory: Path, words: Sequence[str], folder: str, more: Mapping[str, str], umask: int) -> Run:
        limit = [] if "--limit" in words else ["-l", "gpu_nodes"]
        environment = {
            **os.environ,
            **more,
            "ANSIBLE_NOCOLOR": "1",
            "ANSIBLE_CONFIG": str(REPO_ROOT / "ansible.cfg"),
            "ANSIBLE_SSH_CONTROL_PATH_DIR": str(self.host.sockets),
            "GPUWRIGHT_LOG_FOLDER": str(self.folder / "logs"),
        }
        done = subprocess.run(
            ["ansible-playbook", "-i", str(inventory), *limit, *words],
            cwd=folder, env=environment, umask=umask, stdin=subprocess.DEVNULL, timeout=SECONDS,
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, errors="replace",
        )  # fmt: skip
        return Run(done.returncode, done.stdout)

    def _password(self, text: str) -> Path:
        file = self.folder / f"password-{text}"
        file.write_text(f"{text}\n")
        return file

    def _inventory(self, row: Row) -> Path:
        if not row.hosts:
            return self.host.inventory
        file = self.folder / "hosts.yml"
        file.unlink(missing_ok=True)
        if row.hosts == "vault":
            words = ["ansible-vault", "encrypt_string", "--vault-password-file", str(self._password("one")), "x"]
            secret = subprocess.run(words, capture_output=True, text=True, check=True).stdout
            value = f"    system_kernel_secure_boot_password_hash: {secret}"
            file.write_text(self.host.inventory.read_text() + value)
        elif row.hosts != "missing":
            file.write_text(row.hosts)
        return file
