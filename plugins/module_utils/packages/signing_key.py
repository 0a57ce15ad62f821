# SPDX-License-Identifier: Apache-2.0
"""The OpenPGP key that a server sends: only the key with the pinned fingerprint is accepted and kept.

Anybody who can change the file at an address can append a key to it, and apt and rpm trust every key in a file. GnuPG
reads the keys, checks that subkeys and names are the key's own, and exports only the pinned one.
"""

import os
import shutil
import tempfile
from typing import Callable, Collection, Dict, List, Optional, Tuple

from ..host.bounded import (
    Finished,
    run_bounded,
)

GPG_SECONDS = 60
# Larger than any vendor's key file; anything longer is an error page or an attempt to fill the disk.
MOST_BYTES = 1024 * 1024


def refusal(data: bytes, fingerprint: str, run: Callable[..., Finished] = run_bounded) -> str:
    """Why a key file that a server sent (bytes) is not accepted, one phrase; "" if it is only the pinned key.

    Raises OSError if GnuPG cannot be run.
    """
    try:
        others = pinned_key(data, fingerprint, run)[1]
    except ValueError as error:
        return str(error)
    if not others:
        return ""
    return "it holds {} primary keys, but only {} is expected; also in it: {}".format(
        len(others) + 1, fingerprint.replace(" ", "").upper(), ", ".join(others)
    )


def pinned_key(data: bytes, fingerprint: str, run: Callable[..., Finished] = run_bounded) -> Tuple[str, List[str]]:
    """The armoured text of the one key in `data` (bytes) that has `fingerprint` (40 hex digits), and what was left out.

    Returns `(text, [fingerprint of another key, ...])`. Raises ValueError with a sentence if the pinned key is not
    among them or is revoked, OSError if GnuPG cannot be run.
    """
    wanted = fingerprint.replace(" ", "").upper()
    if len(data) > MOST_BYTES:
        raise ValueError(f"it is larger than {MOST_BYTES // 1024 // 1024} MiB, which no key is")
    home = tempfile.mkdtemp(prefix="gpuwright-key-")
    try:
        keys = _imported(home, data, run)
        if wanted not in keys:
            seen = ", ".join(sorted(keys)) or "no key at all"
            raise ValueError(f"it holds {seen} instead of {wanted}")
        if keys[wanted] == "r":
            raise ValueError(f"its owner has revoked the key {wanted}")
        export = ["--armor", "--no-emit-version", "--export-options", "export-minimal", "--export", wanted]
        text = _finished(run(_gpg(home) + export, GPG_SECONDS)).stdout
    finally:
        shutil.rmtree(home, ignore_errors=True)
    return text, sorted(set(keys) - {wanted})


def key_fingerprints(data: bytes, run: Callable[..., Finished] = run_bounded) -> List[str]:
    """Fingerprints of all primary keys in `data` (bytes), sorted; OSError if GnuPG cannot be run."""
    home = tempfile.mkdtemp(prefix="gpuwright-key-")
    try:
        return sorted(_imported(home, data, run))
    finally:
        shutil.rmtree(home, ignore_errors=True)


def _gpg(home: str) -> List[str]:
    return ["gpg", "--homedir", home, "--batch", "--no-tty", "--no-autostart", "--quiet"]


def _imported(home: str, data: bytes, run: Callable[..., Finished]) -> Dict[str, str]:
    """The primary keys in `data` as parse_keys has them, brought into the keyring of `home`."""
    path = os.path.join(home, "fetched")
    with open(path, "wb") as file:
        file.write(data)
    # Anything in the file that is not a key makes gpg fail, but is left out nevertheless.
    _finished(run(_gpg(home) + ["--import", path], GPG_SECONDS), codes=None)
    return parse_keys(_finished(run(_gpg(home) + ["--with-colons", "--list-keys"], GPG_SECONDS)).stdout)


def parse_keys(text: str) -> Dict[str, str]:
    """`{fingerprint: validity}` of the primary keys in GnuPG's colon format (doc/DETAILS); subkeys are not listed."""
    found, validity = {}, None
    for line in text.splitlines():
        fields = line.split(":")
        if fields[0] == "pub":
            validity = fields[1]
        elif fields[0] == "fpr" and validity is not None:
            found[fields[9]] = validity
            validity = None
    return found


def _finished(done: Finished, codes: Optional[Collection[int]] = (0,)) -> Finished:
    if done.rc is None or (codes and done.rc not in codes):
        raise OSError("gpg: {}".format(done.problem or done.stderr.strip()[-300:] or f"exit status {done.rc}"))
    return done
