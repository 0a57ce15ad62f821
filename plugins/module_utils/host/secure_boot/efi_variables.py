# SPDX-License-Identifier: Apache-2.0
"""The state of Secure Boot in firmware and shim, read from EFI variables; no program is run.

mokutil reads the same files, but needs to be installed, and its words and exit statuses differ between versions: those
up to 0.4.0 (RHEL 8 has 0.3.0) call a key enrolled that still waits for confirmation (mokutil.c, `test_key`). The lists
are EFI_SIGNATURE_LIST (UEFI specification 2.10, 32.4.1); shim splits one that is too large for one variable over
MokListRT, MokListRT1 ..., and the kernel shows shim's own copies in /sys/firmware/efi/mok-variables.
"""

import re
import struct
from typing import Dict, Iterable, List, Optional

from ..files import exists, names_in, read_bytes

EFI_FOLDER = "/sys/firmware/efi"
EFI_VARIABLES = EFI_FOLDER + "/efivars"
MOK_VARIABLES = EFI_FOLDER + "/mok-variables"
# State that the kernel's EFI stub found (struct boot_params, arch/x86/include/uapi/asm/bootparam.h); 1: not determined.
BOOT_PARAMETERS = "/sys/kernel/boot_params/data"
SECURE_BOOT_BYTE, STUB_DISABLED, STUB_ENABLED = 0x1EC, 2, 3
GLOBAL = "8be4df61-93ca-11d2-aa0d-00e098032b8c"
SECURITY = "d719b2cb-3d3a-4596-a3bc-dad00e67656f"
SHIM = "605dab50-e046-4300-abb6-3dd810dd8b23"
X509 = bytes.fromhex("a159c0a5e494a74a87b5ab155c2bf072")
ATTRIBUTES_BYTES = 4
LIST_HEAD = struct.Struct("<16sIII")
OWNER_BYTES = 16


def read_state(root: str = "/") -> Dict[str, str]:
    """`{state, because}`: enabled, disabled, unsupported (no UEFI, or firmware without it) or unknown, with the reason.

    The kernel uses the same state: setup mode, and validation that the owner switched off in shim, count as disabled.
    """
    if not exists(root, EFI_FOLDER):
        return _state("unsupported")
    names = names_in(root, EFI_VARIABLES)
    if not names:
        return _state_of_stub(root)
    if not any(name.startswith("SecureBoot-") for name in names):
        return _state("unsupported")
    flag = _flag(root, names, "SecureBoot-")
    if flag == 1 and 1 in (_flag(root, names, "SetupMode-"), _flag(root, names, "MokSBStateRT-")):
        return _state("disabled")
    if flag in (0, 1):
        return _state("enabled" if flag else "disabled")
    return _state("unknown", f"the variable {EFI_VARIABLES}/SecureBoot-{GLOBAL} does not hold 0 or 1")


def _state_of_stub(root: str) -> Dict[str, str]:
    data = read_bytes(root, BOOT_PARAMETERS) or b""
    found = data[SECURE_BOOT_BYTE] if len(data) > SECURE_BOOT_BYTE else None
    if found in (STUB_DISABLED, STUB_ENABLED):
        return _state("enabled" if found == STUB_ENABLED else "disabled")
    return _state(
        "unknown", f"{EFI_VARIABLES} is empty: efivarfs is not mounted, or the kernel runs with efi=noruntime"
    )


def _state(state: str, because: str = "") -> Dict[str, str]:
    return {"state": state, "because": because}


def _flag(root: str, names: Iterable[str], prefix: str) -> Optional[int]:
    """The one byte of an EFI variable that follows its attributes, or None."""
    for name in names:
        if name.startswith(prefix):
            data = read_bytes(root, EFI_VARIABLES + "/" + name)
            return data[-1] if data is not None and len(data) == ATTRIBUTES_BYTES + 1 else None
    return None


def read_variable(root: str, name: str, owner: str = SHIM) -> Optional[bytes]:
    """The bytes of one variable without its attributes; None if it does not exist, OSError if it cannot be read."""
    path = f"{EFI_VARIABLES}/{name}-{owner}"
    if not exists(root, path):
        return None
    data = read_bytes(root, path)
    if data is None or len(data) < ATTRIBUTES_BYTES:
        raise OSError(f"{path} cannot be read")
    return data[ATTRIBUTES_BYTES:]


def read_certificates(root: str, name: str, owner: str = SHIM) -> List[bytes]:
    """The certificates (DER) of one list and its continuations, each once; [] if there is none.

    Raises OSError if the variables cannot be read, ValueError if one is damaged.
    """
    names = names_in(root, EFI_VARIABLES)
    if not names:
        raise OSError(f"{EFI_VARIABLES} cannot be read")
    part = re.compile(re.escape(name) + r"[0-9]*")
    found = []
    for variable in names:
        label, _separator, end = variable.partition("-")
        if part.fullmatch(label) and end == owner:
            found += parse_signature_lists(read_variable(root, label, owner) or b"")
    for label in names_in(root, MOK_VARIABLES) if owner == SHIM else []:
        if part.fullmatch(label):
            data = read_bytes(root, MOK_VARIABLES + "/" + label)
            if data is None:
                raise OSError(f"{MOK_VARIABLES}/{label} cannot be read")
            found += parse_signature_lists(data)
    return sorted(set(found), key=found.index)


def parse_signature_lists(data: bytes) -> List[bytes]:
    """The X.509 certificates of a chain of EFI_SIGNATURE_LIST; lists of hashes are skipped."""
    found, place = [], 0
    while place < len(data):
        if place + LIST_HEAD.size > len(data):
            raise ValueError("a signature list ends within its header")
        kind, size, header, each = LIST_HEAD.unpack_from(data, place)
        start, end = place + LIST_HEAD.size + header, place + size
        if end > len(data) or start > end or each <= OWNER_BYTES or (end - start) % each:
            raise ValueError("a signature list has inconsistent sizes")
        if kind == X509:
            found += [data[entry + OWNER_BYTES : entry + each] for entry in range(start, end, each)]
        place = end
    return found
