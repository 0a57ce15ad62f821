# SPDX-License-Identifier: Apache-2.0
"""Sign a bundle's list, and say who signed it, with ssh-keygen.

OpenSSH and not GnuPG: Ansible's controller has it already, it needs no keyring and no agent's socket, and a key is
named by a fingerprint that an administrator reads with `ssh-keygen -l`. A signature holds the public key that made it;
that key counts only if it has the fingerprint of the inventory.
"""

from __future__ import annotations

import base64
import hashlib
import re
import shutil
import struct
import subprocess
import tempfile
from pathlib import Path

from .listing import BundleError

# What is signed for one purpose is worth nothing for another, such as a commit or a login.
NAMESPACE = "gpuwright-bundle"
SIGNER = "gpuwright-bundle-operator"
# Magic and version of the form, before the public key.
HEAD = b"SSHSIG" + struct.pack(">I", 1)
ARMOUR = re.compile(rb"-----BEGIN SSH SIGNATURE-----\s+([A-Za-z0-9+/=\s]+)-----END SSH SIGNATURE-----\s*")
FINGERPRINT = re.compile(r"SHA256:[A-Za-z0-9+/]{43}")
SECONDS = 60
HOW_TO_READ = "ssh-keygen -l -f KEY.pub"


def check_fingerprint(fingerprint: str) -> None:
    """BundleError if it is not one, as `ssh-keygen -l` prints it."""
    if not FINGERPRINT.fullmatch(fingerprint):
        raise BundleError(
            "bundle.signer_unknown",
            "gpuwright_bundle_signer must be the fingerprint of the key that signs bundles, since no key of a bundle "
            "is trusted by itself",
            f"gpuwright_bundle_signer: {fingerprint!r}",
            f"Read it where the key is ({HOW_TO_READ}) and set it in the inventory: SHA256: and 43 characters",
        )


def fingerprint_of(public_key: bytes) -> str:
    """As `ssh-keygen -l` prints it, of a key in SSH's own form."""
    return "SHA256:" + base64.b64encode(hashlib.sha256(public_key).digest()).decode().rstrip("=")


def public_key_in(signature: bytes) -> bytes:
    """The key that made the signature (PROTOCOL.sshsig). Raises ValueError for what is no signature."""
    found = ARMOUR.fullmatch(signature.strip() + b"\n")
    if not found:
        raise ValueError("it is no signature of ssh-keygen")
    data = base64.b64decode(b"".join(found.group(1).split()), validate=True)
    if not data.startswith(HEAD):
        raise ValueError("it is no signature of version 1")
    return _text(data, len(HEAD))


def _text(data: bytes, at: int) -> bytes:
    """A length and that many bytes."""
    if len(data) < at + 4:
        raise ValueError("it is cut off")
    (length,) = struct.unpack(">I", data[at : at + 4])
    if len(data) < at + 4 + length:
        raise ValueError("it is cut off")
    return data[at + 4 : at + 4 + length]


def signer_of(data: bytes, signature: bytes) -> str:
    """The fingerprint of the key that has signed these bytes; BundleError if it is no good signature."""
    try:
        fingerprint = fingerprint_of(public_key_in(signature))
    except ValueError as error:
        raise BundleError("bundle.signature", f"The bundle's signature cannot be read: {error}") from None
    verify(data, signature, fingerprint)
    return fingerprint


def public_fingerprint(key: Path) -> str:
    """The fingerprint of a key file, private or public; BundleError."""
    done = _ssh_keygen(["-l", "-f", str(key)], b"")
    found = FINGERPRINT.search(done.stdout.decode("utf-8", "replace"))
    if not found:
        raise _cannot_sign(key, done)
    return found.group()


def verify(data: bytes, signature: bytes, fingerprint: str) -> None:
    """BundleError unless the key with this fingerprint has signed these bytes as a bundle's list."""
    check_fingerprint(fingerprint)
    try:
        key = public_key_in(signature)
        kind = _text(key, 0).decode("ascii")
    except ValueError as error:
        raise BundleError("bundle.signature", f"The bundle's signature cannot be read: {error}") from None
    if fingerprint_of(key) != fingerprint:
        raise BundleError(
            "bundle.signer",
            "The bundle is signed by a key that the inventory does not name",
            f"signed by {fingerprint_of(key)}, gpuwright_bundle_signer is {fingerprint}",
            "Ask who made the bundle. If the operator has a new key, set its fingerprint in gpuwright_bundle_signer, "
            "read from the key itself and never from a bundle",
        )
    with tempfile.TemporaryDirectory() as name:
        allowed, signed = Path(name, "allowed"), Path(name, "signature")
        allowed.write_text(f'{SIGNER} namespaces="{NAMESPACE}" {kind} {base64.b64encode(key).decode()}\n')
        signed.write_bytes(signature)
        words = ["-Y", "verify", "-f", str(allowed), "-I", SIGNER, "-n", NAMESPACE, "-s", str(signed)]
        done = _ssh_keygen(words, data)
    if done.returncode != 0:
        raise BundleError(
            "bundle.signature",
            "The bundle's list is not the one that was signed",
            (done.stderr or done.stdout).decode("utf-8", "replace").strip(),
            "Copy the bundle again from where it was made; if that one is refused, too, make it again: "
            "ansible-playbook playbooks/bundle.yml",
        )


def signature_problem(data: bytes, signature: bytes, fingerprint: str) -> str:
    """Why these bytes are not signed by the key with this fingerprint, as one sentence; "" if they are."""
    try:
        verify(data, signature, fingerprint)
    except BundleError as error:
        return str(error)
    return ""


def sign(data: bytes, key: Path) -> bytes:
    """The signature of these bytes by a private key, or by an agent that has it if `key` is the public one."""
    with tempfile.TemporaryDirectory() as name:
        file = Path(name, "list")
        file.write_bytes(data)
        done = _ssh_keygen(["-Y", "sign", "-f", str(key), "-n", NAMESPACE, str(file)], b"")
        if done.returncode != 0:
            raise _cannot_sign(key, done)
        return Path(f"{file}.sig").read_bytes()


def _cannot_sign(key: Path, done: subprocess.CompletedProcess[bytes]) -> BundleError:
    return BundleError(
        "bundle.key",
        "The bundle cannot be signed",
        f"{key}: {done.stderr.decode('utf-8', 'replace').strip()}",
        "Name the operator's private key in bundle_key; for a key with a passphrase, load it into ssh-agent and name "
        "its .pub file. A new key: ssh-keygen -t ed25519 -f bundle_key",
    )


def _ssh_keygen(words: list[str], data: bytes) -> subprocess.CompletedProcess[bytes]:
    program = shutil.which("ssh-keygen")
    if program is None:
        raise BundleError("bundle.program", "The controller has no ssh-keygen", "", "Install OpenSSH's client there")
    return subprocess.run(
        [program, *words], input=data, capture_output=True, timeout=SECONDS, start_new_session=True, check=False
    )
