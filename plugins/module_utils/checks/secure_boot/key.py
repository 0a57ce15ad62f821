# SPDX-License-Identifier: Apache-2.0
"""Check of Secure Boot: whether the firmware accepts the key with which DKMS signs."""

from ...host.secure_boot.module_key import BLOCKED, ENROLLED, NONE, NOT_ENROLLED, STAGED
from ...verdict.check import (
    FAIL,
    QUICK,
    REBOOT,
    Check,
    Outcome,
    failed,
    passed,
    unknown,
    warned,
)
from ...verdict.evidence import (
    Evidence,
    Unreadable,
)
from ..driver.loaded import NO_SYSFS

NOT_TRUSTED = {
    NOT_ENROLLED: ("enabled, key not enrolled", "it is not enrolled"),
    STAGED: ("enabled, key not confirmed", "its import waits for the console, at the next boot"),
    BLOCKED: ("enabled, key revoked", "it is revoked (dbx or MokListX)"),
    NONE: ("enabled, no key", "DKMS has none"),
}


def secure_boot(readings: Evidence, expected: Evidence) -> Outcome:
    """Secure Boot is off, or the key with which DKMS signs is enrolled; driver.module_signer looks at the module."""
    state = readings.text("probe", "secure_boot")
    if state == "unsupported" and not readings.each("probe", "gpus"):
        return unknown("no-gpu", NO_SYSFS)
    if state in ("disabled", "unsupported"):
        return passed(state, "off, or key enrolled", f"Secure Boot is {state}")
    if state != "enabled":
        return unknown("unreadable", f"Secure Boot reads {state!r}", state)
    key = _key_state(readings)
    if key == ENROLLED:
        return passed("enabled, key enrolled", "off, or key enrolled", "the key with which DKMS signs is enrolled")
    loaded = not readings.absent("probe", "nvidia", "loaded")
    if key == NONE and loaded:
        words = "DKMS has no key here; the loaded module is signed with another key, see driver.module_signer"
        return passed("enabled, no key of DKMS", "off, or key enrolled", words)
    found, words = NOT_TRUSTED[key]
    if not loaded:
        return failed("refused", found, "off, or key enrolled", f"the firmware refuses the module's key: {words}")
    # A different key signed the running module; what DKMS builds at the next kernel update will not load.
    return warned(
        "next-module-refused", found, "off, or key enrolled", f"the next module that DKMS builds will not load: {words}"
    )


def _key_state(readings: Evidence) -> str:
    """The firmware's state for DKMS's key."""
    because = readings.wish("probe", "module_key", "because")
    if because:
        raise Unreadable(f"the state of DKMS's key: {because}", "readings.probe.module_key")
    return readings.one_of((ENROLLED, *NOT_TRUSTED), "probe", "module_key", "state")


CHECKS = (
    Check(
        id="secure_boot",
        layer="system",
        level=QUICK,
        severity=FAIL,
        remedy=REBOOT,
        question="Does the firmware accept the module?",
        judge=secure_boot,
        action=(
            "Run: ansible-playbook site.yml --tags system -e system_kernel_prepare_secure_boot=true ; it stages the "
            "key's import and prints what the console will ask ; by hand: mokutil --import, reboot, confirm at the "
            "console."
        ),
    ),
)
