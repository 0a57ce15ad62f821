# SPDX-License-Identifier: Apache-2.0
"""The pair of key and certificate with which DKMS signs: made as DKMS itself would, but earlier, if there is none."""

import os
import tempfile
from typing import Callable, List

from ..bounded import Finished
from ..whole_file import sync_file, sync_folder
from ..written.owning import make_folders, own_path
from .module_key import KeyPlace

SECONDS = 60
SUBJECT = "/CN=DKMS module signing key"
# codeSigning, which newer kernels may require, and shim's "modules only": boot loaders signed with it are refused.
USES = "codeSigning,1.3.6.1.4.1.2312.16.1.2"
CONFIGURATION = f"""[req]
distinguished_name = name
x509_extensions = extensions
[name]
[extensions]
basicConstraints = critical,CA:FALSE
keyUsage = digitalSignature
extendedKeyUsage = {USES}
subjectKeyIdentifier = hash
"""


class Refused(Exception):
    """Why nothing was staged, and what to do, in one sentence."""


def make_pair(root: str, place: KeyPlace, check: bool, run: Callable[..., Finished]) -> List[str]:
    """[] if key and certificate exist and belong together, else what was made."""
    private, certificate = (os.path.join(root, path.lstrip("/")) for path in place)
    if place.private_key.startswith("pkcs11:"):
        if not os.path.exists(certificate):
            raise Refused(
                f"There is no {place.certificate}, the certificate of the signing key {place.private_key}: put it "
                "there, in DER."
            )
        return []
    there = [path for path in place if os.path.exists(os.path.join(root, path.lstrip("/")))]
    if len(there) == 1:
        missing = next(path for path in place if path not in there)
        raise Refused(
            f"There is {there[0]} without {missing}, and DKMS would make a new pair that nobody has enrolled: put the "
            f"other half back, or remove {there[0]}, and run again."
        )
    if there:
        # In check mode openssl may not be installed yet.
        if not check:
            _compare(private, certificate, place, run)
        return []
    if check:
        return [f"make the key {place.private_key}"]
    _openssl_request(private, certificate, run)
    return [f"made the key {place.private_key}"]


def _compare(private: str, certificate: str, place: KeyPlace, run: Callable[..., Finished]) -> None:
    of_key = output(run, ["openssl", "pkey", "-in", private, "-pubout"])
    of_certificate = output(run, ["openssl", "x509", "-inform", "DER", "-in", certificate, "-noout", "-pubkey"])
    if of_key.split() != of_certificate.split():
        raise Refused(
            f"{place.private_key} is not the key of the certificate {place.certificate}, so the kernel would refuse "
            "what DKMS signs: put the matching half back, or remove both, and run again."
        )


def _openssl_request(private: str, certificate: str, run: Callable[..., Finished]) -> None:
    """Write both files beside their final places first, so that an interrupted run does not leave half of a pair."""
    for path in (private, certificate):
        make_folders(os.path.dirname(path))
    with tempfile.TemporaryDirectory(prefix="gpuwright-", dir=os.path.dirname(private)) as folder:
        wanted, key, public = (os.path.join(folder, name) for name in ("openssl.cnf", "key", "certificate"))
        with open(wanted, "w", encoding="ascii") as file:
            file.write(CONFIGURATION)
        command = ["openssl", "req", "-new", "-x509", "-nodes", "-sha256", "-days", "36500", "-newkey", "rsa:2048"]
        command += ["-outform", "DER", "-config", wanted, "-subj", SUBJECT, "-keyout", key, "-out", public]
        output(run, command)
        own_path(key, 0o600)
        own_path(public, 0o644)
        for path in (key, public):
            sync_file(path)
        os.rename(key, private)
        os.rename(public, certificate)
        for path in (private, certificate):
            sync_folder(path)


def output(run: Callable[..., Finished], command: List[str]) -> str:
    """What a program prints; `Refused` with its message if it fails."""
    finished = run(command, SECONDS)
    if finished.rc != 0:
        said = " ".join((finished.problem or finished.stderr or finished.stdout).split())[:300]
        raise Refused("{} {} failed: {}.".format(command[0], command[1], said or f"exit status {finished.rc}"))
    return finished.stdout
