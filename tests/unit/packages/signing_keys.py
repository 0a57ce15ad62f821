"""Throwaway OpenPGP keys, made once in a process by the gpg that there is."""

from __future__ import annotations

import functools
import subprocess
import tempfile
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class SigningKey:
    """A key pair in a folder of its own."""

    home: str
    fingerprint: str

    def gpg(self, *arguments: str, data: bytes = b"") -> bytes:
        command = ["gpg", "--homedir", self.home, "--batch", "--quiet", "--no-tty", *arguments]
        return subprocess.run(command, input=data, capture_output=True, check=True).stdout

    @property
    def public(self) -> bytes:
        """The public key, armoured."""
        return self.gpg("--armor", "--export", self.fingerprint)

    def sign(self, text: str) -> bytes:
        """The text with a signature around it, as InRelease has it."""
        return self.gpg("--clearsign", "--local-user", self.fingerprint, data=text.encode())


@functools.cache
def signing_key(name: str) -> SigningKey:
    """The key of that name; its folder lasts as long as the process."""
    folder = tempfile.TemporaryDirectory(prefix="gpg-")
    _kept.append(folder)
    Path(folder.name).chmod(0o700)
    key = SigningKey(folder.name, "")
    key.gpg("--passphrase", "", "--quick-gen-key", f"{name} <{name}@example.test>", "rsa2048", "sign,cert", "never")
    lines = key.gpg("--with-colons", "--list-keys").decode().splitlines()
    return SigningKey(folder.name, next(line.split(":")[9] for line in lines if line.startswith("fpr")))


_kept: list[tempfile.TemporaryDirectory] = []
