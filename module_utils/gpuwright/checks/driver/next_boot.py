# SPDX-License-Identifier: Apache-2.0
"""Checks of what the next boot brings: a module for its kernel, a key that the firmware takes, a reboot that is due."""

from ...host.secure_boot.module_key import BLOCKED, ENROLLED, NONE, NOT_ENROLLED, STAGED
from ...verdict.check import DRAIN, FAIL, QUICK, REBOOT, Check, failed, passed, unknown, warned
from ...verdict.evidence import Unreadable
from .loaded import NO_SYSFS

NOT_TRUSTED = {
    NOT_ENROLLED: ("enabled, key not enrolled", "it is not enrolled"),
    STAGED: ("enabled, key not confirmed", "its import waits for the console, at the next boot"),
    BLOCKED: ("enabled, key revoked", "it is revoked (dbx or MokListX)"),
    NONE: ("enabled, no key", "DKMS has none"),
}


def module_for_next_kernel(readings, expected):
    """The kernel that boots next has a module file of the version of the libraries and of the planned flavour."""
    kernel = readings.text("probe", "kernel", "next_boot")
    flavour = expected.text("plan", "driver", "flavour")
    action = "Run: dkms autoinstall -k {} ; a failed build is explained in {}".format(
        kernel, "/var/lib/dkms/*/*/build/make.log"
    )
    if readings.absent("probe", "nvidia", "modules", kernel):
        return failed("none", flavour, "no module for kernel {}".format(kernel), action)
    module = readings.at("probe", "nvidia", "modules", kernel)
    version = module.version("version")
    if readings.absent("probe", "nvidia", "user_space"):
        return failed(version, None, "the driver's user space is not installed", action)
    wanted = "{} {}".format(readings.version("probe", "nvidia", "user_space"), flavour)
    found = "{} {}".format(version, module.text("flavour"))
    if found != wanted:
        return failed(found, wanted, "{} for kernel {} instead of {}".format(found, kernel, wanted), action)
    return passed(found, wanted, "built for {}".format(kernel))


def reboot_pending(readings, expected):
    """Nothing of what is installed waits for a reboot; computed from the state of the node, not from what a run did."""
    if not readings.flag("probe", "reboot", "required"):
        return passed("no", "no", "no reboot is needed")
    reasons = [str(reason.value) for reason in readings.each("probe", "reboot", "reasons")]
    return failed("yes", "no", "reboot required: {}".format("; ".join(reasons) or "no reason given"))


def secure_boot(readings, expected):
    """Secure Boot is off, or the key with which DKMS signs is enrolled; driver.module_signer looks at the module."""
    state = readings.text("probe", "secure_boot")
    if state == "unsupported" and not readings.each("probe", "gpus"):
        return unknown(NO_SYSFS)
    if state in ("disabled", "unsupported"):
        return passed(state, "off, or key enrolled", "Secure Boot is {}".format(state))
    if state != "enabled":
        return unknown("Secure Boot reads {!r}".format(state), state)
    key = _key_state(readings)
    if key == ENROLLED:
        return passed("enabled, key enrolled", "off, or key enrolled", "the key with which DKMS signs is enrolled")
    loaded = not readings.absent("probe", "nvidia", "loaded")
    if key == NONE and loaded:
        words = "DKMS has no key here; the module that runs is signed by another, see driver.module_signer"
        return passed("enabled, no key of DKMS", "off, or key enrolled", words)
    found, words = NOT_TRUSTED[key]
    if not loaded:
        return failed(found, "off, or key enrolled", "the firmware refuses the module's key: {}".format(words))
    # Another key signed what runs now; what DKMS builds at the next kernel update will not load.
    return warned(found, "off, or key enrolled", "the next module that DKMS builds will not load: {}".format(words))


def _key_state(readings):
    """What the firmware thinks of DKMS's key."""
    because = readings.wish("probe", "module_key", "because")
    if because:
        raise Unreadable("the state of DKMS's key: {}".format(because), "readings.probe.module_key")
    return readings.one_of((ENROLLED, *NOT_TRUSTED), "probe", "module_key", "state")


CHECKS = (
    Check(
        id="driver.module_for_next_kernel",
        layer="system",
        level=QUICK,
        severity=FAIL,
        remedy=DRAIN,
        question="Will the driver be there after the next boot?",
        judge=module_for_next_kernel,
        action="Run: dkms autoinstall ; a failed build is explained in /var/lib/dkms/*/*/build/make.log",
    ),
    Check(
        id="reboot.pending",
        layer="system",
        level=QUICK,
        severity=FAIL,
        remedy=REBOOT,
        question="Is what is installed also what runs?",
        judge=reboot_pending,
        needs_gpu=False,
        action="When nobody works on the node, run: systemctl reboot ; a run does so with system_driver_reboot=allowed",
    ),
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
            "key's import and prints what the console asks ; by hand: mokutil --import, reboot, confirm there."
        ),
    ),
)
