# SPDX-License-Identifier: Apache-2.0
"""Who signed the module file that the next boot loads, and whose signatures this machine accepts.

modinfo names a certificate by the common name and the serial number of its issuer (kmod, libkmod-signature.c); older
signatures by the key's own identifier. Two keys may have the same name, for example if DKMS made a second one, so a
number decides if it is known. The kernel's own keys show their name and identifier in /proc/keys.
"""

import re
from typing import Any, Callable, Dict, List, Mapping, Optional, Sequence

from ..host.files import names_in, read_colon_lines, read_text
from ..host.patterns import lazily
from ..host.secure_boot.certificates import describe_certificate, plain
from ..host.secure_boot.efi_variables import EFI_VARIABLES, SECURITY, SHIM, read_certificates
from .kernel import Ask
from .nvidia import MODULE_NAMES

ENFORCED = "/sys/module/module/parameters/sig_enforce"
KEYS = "/proc/keys"
# "1a2b3c4d I------ 1 perm 1f030000 0 0 asymmetri NAME: IDENTIFIER: X509.rsa 8c3b0a6f []"
ASYMMETRIC = lazily(r"asymmetri\w* (?P<name>.+): (?P<id>[0-9a-f]{8,128}): X509\.")
NAME = lazily(r"^\s*Issuer:.*?\bCN ?= ?(?P<name>[^,\n/]+?)\s*$", re.MULTILINE)
# Short numbers are on the line, with their hexadecimal form in parentheses; long ones are on the next line.
SERIAL = lazily(
    r"Serial Number:(?:[^\n(]*\((?P<short>-?0x[0-9a-fA-F]+)\)|\s*(?P<long>[0-9a-fA-F]{2}(?::[0-9a-fA-F]{2})*))"
)
IDENTIFIER = lazily(r"Subject Key Identifier:\s*\n\s*(?P<id>[0-9a-fA-F:]{8,})")


def read_module_signature(root: str, ask: Ask, kernel: str) -> Optional[Dict[str, str]]:
    """`{signer, key}` of the nvidia module for a kernel, both "" if it has no signature; None if there is no module."""
    for name in MODULE_NAMES:
        fields = read_colon_lines(ask(["modinfo", "-k", kernel, name]))
        if fields.get("version"):
            signer, key = fields.get("signer", ""), plain(fields.get("sig_key", ""))
            if not (signer and key) and ("sig_id" in fields or "sig_hashalgo" in fields or signer or key):
                raise ValueError(
                    f"{fields.get('filename', name)} has a signature, but modinfo does not say whose it is"
                )
            return {"signer": signer, "key": key}
    return None


def read_enforced(root: str) -> bool:
    """Whether the kernel accepts only signed modules, with or without Secure Boot; False without such a parameter."""
    return read_text(root, ENFORCED) == "Y"


def read_enrolled_keys(root: str, ask: Ask) -> List[Dict[str, Any]]:
    """`[{name, numbers}]` of the keys that the owner has enrolled (MOK) and of those in the firmware (db).

    `numbers`: serial number and identifier, as far as they are known, as `plain` writes them. Read from the firmware's
    variables; if these are not shown, from mokutil.
    """
    names = names_in(root, EFI_VARIABLES)
    if any(name.startswith(("MokListRT-", "db-")) for name in names):
        found = read_certificates(root, "MokListRT", SHIM) + read_certificates(root, "db", SECURITY)
        return [describe_certificate(one) for one in found]
    return _ask_mokutil(ask)


def _ask_mokutil(ask: Ask) -> List[Dict[str, Any]]:
    found, problems = [], []
    for option in ("--list-enrolled", "--db"):
        answer = ask(["mokutil", option])
        if answer is None:
            problems.append(f"mokutil {option} gave no answer")
        elif "Certificate:" not in answer and not re.search(r"is empty|^\s*$|doesn't exist", answer):
            problems.append(f"mokutil {option}: {answer.strip()[:200]}")
        found += parse_certificates(answer or "")
    # One of the two lists is enough to find a key; to say that it is missing, both are needed.
    if problems and not found:
        raise OSError("; ".join(problems))
    return found


def parse_certificates(text: str) -> List[Dict[str, Any]]:
    """The keys in certificates as OpenSSL prints them."""
    found = []
    for block in text.split("Certificate:")[1:]:
        name, serial, identifier = NAME.search(block), SERIAL.search(block), IDENTIFIER.search(block)
        numbers = [serial and (serial.group("short") or serial.group("long")), identifier and identifier.group("id")]
        found.append({"name": name.group("name") if name else "", "numbers": [plain(text) for text in numbers if text]})
    return found


def read_kernel_keys(root: str) -> List[Dict[str, Any]]:
    """`[{name, numbers}]` of the certificates in the kernel's keyrings, which only root can see."""
    text = read_text(root, KEYS)
    found = [
        {"name": match.group("name"), "numbers": [plain(match.group("id"))]}
        for match in map(ASYMMETRIC.search, (text or "").splitlines())
        if match
    ]
    if not found:
        # Every kernel that checks signatures has at least its own key.
        raise PermissionError(f"{KEYS} shows no certificate")
    return found


def read_next_signature(root: str, ask: Ask, kernel: str, secure_boot: str) -> Optional[Dict[str, Any]]:
    """Whether the kernel that boots next will accept its nvidia module: `{kernel, signer, trusted, because}`.

    None if any module is accepted (no Secure Boot, nothing enforced), and if there is no module.
    trusted  None: this cannot be determined, and `because` says why
    """
    if secure_boot != "enabled" and not read_enforced(root):
        return None
    found: Dict[str, Any] = {"kernel": kernel, "signer": "", "trusted": None, "because": ""}
    try:
        file = read_module_signature(root, ask, kernel)
        if file is None:
            return None
        found["signer"] = file["signer"]
        found["trusted"] = bool(file["key"]) and is_trusted(
            file, read_enrolled_keys(root, ask), lambda: read_kernel_keys(root)
        )
    except (OSError, ValueError) as error:
        found["because"] = str(error)
    return found


def is_trusted(
    file: Mapping[str, str], enrolled: Sequence[Mapping[str, Any]], read_kernel: Callable[[], List[Dict[str, Any]]]
) -> bool:
    """Whether a signature `{signer, key}` was made by a key in `enrolled` or, checked last, by a kernel's own key."""
    if any(file["key"] in one["numbers"] for one in enrolled):
        return True
    # The kernel does not show serial numbers; an enrolled key of the same name was compared by its number above.
    same_name = any(one["name"] == file["signer"] for one in enrolled)
    return any(
        file["key"] in one["numbers"] or (one["name"] == file["signer"] and not same_name) for one in read_kernel()
    )
