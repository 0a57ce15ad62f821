# SPDX-License-Identifier: Apache-2.0
"""The key with which DKMS signs modules on this host: where it is, and whether the firmware trusts it.

DKMS 3 signs with `mok_signing_key` and `mok_certificate` from its framework.conf, on Ubuntu with the key of
update-secureboot-policy (dkms, `prepare_signing`), and makes the key in the middle of the first build. A key that is
made earlier can be confirmed before a driver is touched.
"""

from typing import Any, Mapping, NamedTuple, Optional

from ..files import exists, names_in, read_assignments, read_bytes
from .efi_variables import EFI_VARIABLES, SECURITY, SHIM, read_certificates

DKMS_PLACE = ("/var/lib/dkms/mok.key", "/var/lib/dkms/mok.pub")
UBUNTU_PLACE = ("/var/lib/shim-signed/mok/MOK.priv", "/var/lib/shim-signed/mok/MOK.der")
FRAMEWORK = "/etc/dkms/framework.conf"

NONE, ENROLLED, STAGED = "none", "enrolled", "staged"
NOT_ENROLLED, BLOCKED, UNKNOWN = "not_enrolled", "blocked", "unknown"


class KeyPlace(NamedTuple):
    """Paths of private key (or a pkcs11: address) and certificate (DER)."""

    private_key: str
    certificate: str


def key_place(root: str, system: str, kernel: str) -> KeyPlace:
    """Where DKMS looks; `system`: id of os-release; `kernel`: the release that replaces $kernelver."""
    files = [FRAMEWORK] + [f"{FRAMEWORK}.d/{name}" for name in names_in(root, FRAMEWORK + ".d")]
    said = {}
    for file in files:
        if file == FRAMEWORK or file.endswith(".conf"):
            said.update(read_assignments(root, file))
    private, certificate = (said.get(name, "") for name in ("mok_signing_key", "mok_certificate"))
    default = UBUNTU_PLACE if system == "ubuntu" and not private else DKMS_PLACE
    if default is UBUNTU_PLACE:
        # DKMS uses Ubuntu's pair instead of both.
        certificate = ""
    paths = (private or default[0], certificate or default[1])
    return KeyPlace(*(path.replace("${kernelver}", kernel).replace("$kernelver", kernel) for path in paths))


def read_module_key(root: str, system: str, kernel: str) -> dict:
    """`{private_key, certificate, made, state, because}`.

    made   whether both files exist
    state  none (no certificate), enrolled, staged (waiting for confirmation at the console), not_enrolled, blocked
           (revoked in dbx or MokListX), unknown (and `because` says why)
    """
    place = key_place(root, system, kernel)
    made = exists(root, place.certificate) and (
        place.private_key.startswith("pkcs11:") or exists(root, place.private_key)
    )
    found = dict(place._asdict(), made=made, state=NONE, because="")
    if not exists(root, place.certificate):
        return found
    certificate = read_bytes(root, place.certificate)
    if not certificate:
        return dict(found, state=UNKNOWN, because=f"{place.certificate} cannot be read")
    if not exists(root, EFI_VARIABLES):
        return dict(found, state=UNKNOWN, because=f"there is no {EFI_VARIABLES}")
    try:
        return dict(found, state=state_of(root, certificate))
    except (OSError, ValueError) as error:
        return dict(found, state=UNKNOWN, because=str(error))


def state_of(root: str, certificate: bytes) -> str:
    """The firmware's state for a certificate (DER); OSError or ValueError if its variables cannot be read."""
    if certificate in read_certificates(root, "dbx", SECURITY) + read_certificates(root, "MokListXRT", SHIM):
        return BLOCKED
    if certificate in read_certificates(root, "MokListRT", SHIM) + read_certificates(root, "db", SECURITY):
        return ENROLLED
    return STAGED if certificate in read_certificates(root, "MokNew", SHIM) else NOT_ENROLLED


def enrolled(key: Mapping[str, Any]) -> Optional[bool]:
    """True, False, or None if there is no key or this cannot be determined."""
    return None if key["state"] in (NONE, UNKNOWN) else key["state"] == ENROLLED
