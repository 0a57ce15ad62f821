# SPDX-License-Identifier: Apache-2.0
"""Stage the import of the key with which DKMS signs; the firmware accepts it when a person confirms it.

MokManager removes a request before it asks (MokManager.c, `check_mok_request`): if a request is gone but its key is not
enrolled, it was refused, or nobody pressed a key in time; if a request outlives a boot, shim was not part of that boot.
"""

import os
import tempfile
from typing import Any, Callable, Dict, List, NamedTuple, Tuple

from ..bounded import Finished, run_bounded
from ..files import read_bytes, read_text
from ..written.aside import begin_anew
from ..written.state_file import Damaged, read_state, write_state
from .certificates import describe_certificate, digest, fingerprint
from .efi_variables import read_certificates, read_variable
from .module_key import BLOCKED, ENROLLED, NOT_ENROLLED, STAGED, KeyPlace, state_of
from .mok_password import made_with
from .signing_pair import Refused, make_pair, output

RECORD = "/var/lib/gpuwright/secure-boot.json"
FORM = {"schema": {1}, "sha256": str, "boot_id": str}
BOOT_ID = "/proc/sys/kernel/random/boot_id"
# The texts of MokManager.c, the same in shim 15 to 16.
DIALOGUE = (
    "Press any key to perform MOK management: press one within 10 s, or the boot continues and the request is lost",
    "Perform MOK management: Enroll MOK (the second line), Enter",
    "[Enroll MOK]: View key 0 shows the certificate, SHA1 fingerprint {fingerprint}; then Continue",
    "Enroll the key(s)?: Yes",
    "Password: the one whose hash was given; it is not shown, three attempts, keyboard layout US",
    "Perform MOK management: Reboot",
)


class Outcome(NamedTuple):
    """The result: state (enrolled, staged), changed, what was done, and anything unusual about the request."""

    state: str
    changed: bool
    done: List[str]
    remarks: List[str]


def prepare(
    root: str, place: KeyPlace, password_hash: str, check: bool = False, run: Callable[..., Finished] = run_bounded
) -> Outcome:
    """Bring the key to `staged`, or leave it `enrolled`; `Refused` if that is not possible.

    `password_hash` has passed `hash_problem`. `check` changes nothing and says what would be done.
    """
    lost = []  # type: List[str]
    try:
        done = make_pair(root, place, check, run)
        if done and check:
            return Outcome(STAGED, True, done + ["stage its import"], [])
        return _stage(root, place, password_hash, done, check, run, lost)
    except Refused as error:
        raise Refused(" ".join([str(error)] + lost))
    except (OSError, ValueError) as error:
        raise Refused(" ".join([f"The signing key cannot be prepared: {error}."] + lost))


def _stage(
    root: str,
    place: KeyPlace,
    password_hash: str,
    done: List[str],
    check: bool,
    run: Callable[..., Finished],
    lost: List[str],
) -> Outcome:
    """As `prepare`; what is said of a damaged record is added to `lost` at once."""
    certificate = read_bytes(root, place.certificate) or b""
    describe_certificate(certificate)
    state = state_of(root, certificate)
    if state == BLOCKED:
        raise Refused(
            f"The firmware has revoked {place.certificate} (dbx or MokListX): remove it and {place.private_key}, and "
            "run again with a new key."
        )
    if state == ENROLLED:
        return Outcome(ENROLLED, bool(done), done, [])
    others = [one for one in read_certificates(root, "MokNew") if one != certificate]
    record, said = _read_record(root, may_write=not check)
    lost += said
    boot_id = read_text(root, BOOT_ID) or ""
    remarks = lost + _remarks(state, record, certificate, others, boot_id)
    if state == STAGED and made_with(read_variable(root, "MokAuth") or b"", password_hash):
        return Outcome(STAGED, bool(done), done, remarks)
    if state == STAGED and others:
        raise Refused(
            f"Another key waits for confirmation besides {place.certificate}, so the password cannot be replaced: "
            "confirm or withdraw both (`sudo mokutil --revoke-import`), and run again."
        )
    # The same key with another password, or a key of ours that has been replaced since.
    withdraw = state == STAGED or (others and {digest(one) for one in others} == {record.get("sha256")})
    step = "staged the import again" if withdraw or record else "staged the import"
    if check:
        return Outcome(STAGED, True, done + ["would have " + step], remarks)
    if withdraw:
        output(run, ["mokutil", "--revoke-import"])
    _import(root, place.certificate, password_hash, run)
    if state_of(root, certificate) != STAGED:
        raise Refused(
            f"mokutil accepted {place.certificate}, but the request is not among the firmware's variables (MokNew): "
            "look at `mokutil --list-new` and at the free space of the firmware's store."
        )
    _write_record(root, {"schema": 1, "sha256": digest(certificate), "boot_id": boot_id})
    return Outcome(STAGED, True, done + [step], remarks)


def _remarks(state: str, record: Dict[str, str], certificate: bytes, others: List[bytes], boot_id: str) -> List[str]:
    """What an earlier run's record says about this state, as sentences."""
    found = []
    if record.get("boot_id") not in (None, "", boot_id):
        if record.get("sha256") != digest(certificate):
            found.append("The key is not the one that was staged before: it has been replaced since.")
        elif state == NOT_ENROLLED:
            found.append(
                "The earlier request was not confirmed: refused, a wrong password, or no key pressed within 10 s."
            )
        elif state == STAGED:
            found.append(
                "The request is still there after a boot: this node does not boot through shim, whose MokManager asks "
                "for it; look at `efibootmgr -v` (shimx64.efi) and for mmx64.efi beside it."
            )
    foreign = [one for one in others if digest(one) != record.get("sha256")]
    if foreign:
        found.append(f"{len(foreign)} other keys wait for confirmation, too: look at each before Continue.")
    return found


def _import(root: str, certificate: str, password_hash: str, run: Callable[..., Finished]) -> None:
    """Pass the hash in a file of root's that is then removed, since everybody can see a program's arguments."""
    folder = os.path.join(root, "run")
    handle, path = tempfile.mkstemp(prefix="gpuwright-", dir=folder if os.path.isdir(folder) else None)
    try:
        with os.fdopen(handle, "w", encoding="ascii") as file:
            file.write(password_hash)
        full = os.path.join(root, certificate.lstrip("/"))
        output(run, ["mokutil", "--import", full, "--hash-file", path])
    finally:
        os.unlink(path)


def _read_record(root: str, may_write: bool = False) -> Tuple[Dict[str, Any], List[str]]:
    """The last request that was staged here, and what to say of a damaged record; {} if there is none that counts."""
    path = os.path.join(root, RECORD.lstrip("/"))
    try:
        return read_state(path, FORM, shown=RECORD) or {}, []
    except Damaged as error:
        return {}, [begin_anew(path, error, "how the earlier request ended", may_write) + "."]
    except OSError:
        return {}, []


def _write_record(root: str, record: Dict[str, Any]) -> None:
    write_state(os.path.join(root, RECORD.lstrip("/")), record, FORM, 0o644)


def dialogue(root: str, certificate: str) -> List[str]:
    """What the console shows at the next boot, screen by screen, in MokManager's own words."""
    data = read_bytes(root, certificate)
    shown = fingerprint(data).replace(":", " ").upper() if data else ""
    shown = shown or "unknown"
    return [f"{number}. {line.format(fingerprint=shown)}" for number, line in enumerate(DIALOGUE, 1)]
