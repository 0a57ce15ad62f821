# SPDX-License-Identifier: Apache-2.0
"""Whether the kernel will accept the module that this run builds, or that the next boot loads."""

from typing import Any, List, Mapping

from ..host.secure_boot.module_key import BLOCKED, ENROLLED, NONE, STAGED, UNKNOWN
from ..host.secure_boot.mok_password import hash_problem
from ..host.versions import is_version, version_key
from .problem import (
    Problem,
    problem,
)

REFUSED = (
    "so the kernel would refuse the NVIDIA module and leave the node without a display driver. Nothing was removed"
)
PREPARE = (
    "Choose one: (1) set system_kernel_prepare_secure_boot: true and system_kernel_secure_boot_password_hash (made "
    "with `openssl passwd -6`): this run then makes the key, stages its import and prints what the console will ask; "
    "(2) switch Secure Boot off in the firmware."
)
# NVIDIA/yum-packaging-precompiled-kmod#59: for RHEL 10.1 and newer on x86_64, and cards that open modules drive.
BY_RED_HAT = (
    " Or, without a console: Red Hat signs open modules. `sudo subscription-manager repos "
    "--enable=rhel-10-for-x86_64-extensions-rpms`, `sudo dnf install kmod-nvidia nvidia-open`, a reboot, and "
    "system_driver_branch with the branch that this brings: a driver that is there is kept."
)
CONFIRM = (
    "Reboot the node with somebody at its console, who chooses Enroll MOK, Continue, Yes and types the password, then "
    "run again; with system_kernel_prepare_secure_boot: true this run prints every screen."
)
WORDS = {
    NONE: "DKMS has no signing key yet",
    STAGED: "the import of DKMS's signing key waits for its confirmation at the console",
    BLOCKED: "DKMS's signing key is revoked (dbx or MokListX)",
    UNKNOWN: "it is not known whether DKMS's signing key is enrolled",
}


def secure_boot_problems(host: Mapping[str, Any], plan: Mapping[str, Any], wishes: Mapping[str, Any]) -> List[Problem]:
    """Rows if the module would be refused, or if that cannot be determined; `find_problems` describes the parameters.

    A driver that is installed and loaded has been accepted, unless the next boot's module is signed by another key.
    """
    present = plan["driver"]["present"]
    if host["secure_boot"] == "unknown" and not present and not plan["driver"].get("signed"):
        step = (
            "Make it readable: `sudo mount -t efivarfs efivarfs /sys/firmware/efi/efivars`; for a container, look on "
            "its "
            "host. Otherwise look in the firmware setup."
        )
        text = "It is not known whether Secure Boot is on, which decides whether the NVIDIA module can be loaded"
        return [problem("secure_boot.unknown", text, host["secure_boot_because"] or "Secure Boot: unknown", step)]
    signed = host["module_signature"]
    if present:
        return _signer_problems(signed) if signed and signed["trusted"] is False else []
    # What the distribution has signed needs no key of the node's own.
    if plan["driver"].get("signed") or host["secure_boot"] != "enabled" or host["module_key"]["state"] == ENROLLED:
        return []
    return _key_problems(host["module_key"], wishes, BY_RED_HAT if _signed_by_red_hat(host, plan) else "")


def _signed_by_red_hat(host: Mapping[str, Any], plan: Mapping[str, Any]) -> bool:
    system = host.get("os", {})
    version = str(system.get("version", ""))
    newer = is_version(version) and version_key(version) >= (10, 1)
    return system.get("id") == "rhel" and newer and plan["driver"].get("flavour") == "open"


def _key_problems(key: Mapping[str, Any], wishes: Mapping[str, Any], more: str) -> List[Problem]:
    state = key["state"]
    text = "Secure Boot is on and {}, {}".format(WORDS.get(state, "DKMS's signing key is not enrolled"), REFUSED)
    seen = f"{key['certificate']}: {key['because'] or state.replace('_', ' ')}"
    if state == UNKNOWN:
        step = "Make it readable: `mokutil --list-enrolled` and `ls /sys/firmware/efi/efivars` on the node show why."
        return [problem("secure_boot.key", text, seen, step)]
    if state == BLOCKED:
        step = "On the node: `sudo rm {certificate} {private_key}`; a run makes a new key.".format(**key)
        return [problem("secure_boot.key", text, seen, step)]
    if not wishes["prepare_secure_boot"]:
        return [problem("secure_boot.key", text, seen, CONFIRM if state == STAGED else PREPARE + more)]
    wrong = hash_problem(wishes["secure_boot_password_hash"].strip())
    if wrong:
        step = "Set system_kernel_secure_boot_password_hash to the hash alone, preferably from a vault."
        return [
            problem(
                "secure_boot.hash",
                "Secure Boot cannot be prepared: " + wrong,
                "system_kernel_secure_boot_password_hash",
                step,
            )
        ]
    text = "Secure Boot is on: this run prepares DKMS's signing key and ends waiting for the console"
    return [
        problem(
            "secure_boot.console", text, seen, "Have somebody at the node's console for its next boot.", stops=False
        )
    ]


def _signer_problems(signed: Mapping[str, Any]) -> List[Problem]:
    by = "signed by {signer}, whose key is not trusted here" if signed["signer"] else "not signed"
    return [
        problem(
            "driver.signature",
            "The NVIDIA module for kernel {kernel} is {by}, so the next boot would end without a driver".format(
                kernel=signed["kernel"], by=by.format(**signed)
            ),
            f"modinfo -k {signed['kernel']} nvidia: signer {signed['signer'] or 'none'}",
            "Do not reboot; build and sign it again on the node: `sudo dkms uninstall`, `sudo dkms unbuild` and "
            "`sudo dkms install` "
            "of nvidia for this kernel; mokutil --list-enrolled shows whose keys are trusted.",
        )
    ]
