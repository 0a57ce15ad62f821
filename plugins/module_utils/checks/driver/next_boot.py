# SPDX-License-Identifier: Apache-2.0
"""Check of what the next boot brings: a module for its kernel."""

from ...verdict.check import (
    DRAIN,
    FAIL,
    QUICK,
    Check,
    Outcome,
    failed,
    passed,
)
from ...verdict.evidence import Evidence


def module_for_next_kernel(readings: Evidence, expected: Evidence) -> Outcome:
    """The kernel that boots next has a module file of the version of the libraries and of the planned flavour."""
    kernel = readings.text("probe", "kernel", "next_boot")
    flavour = expected.text("plan", "driver", "flavour")
    action = "Run: dkms autoinstall -k {} ; a failed build is explained in {}".format(
        kernel, "/var/lib/dkms/*/*/build/make.log"
    )
    if readings.absent("probe", "nvidia", "modules", kernel):
        return failed("no-module", "none", flavour, f"no module for kernel {kernel}", action)
    module = readings.at("probe", "nvidia", "modules", kernel)
    version = module.version("version")
    if readings.absent("probe", "nvidia", "user_space"):
        return failed("no-user-space", version, None, "the driver's user space is not installed", action)
    wanted = f"{readings.version('probe', 'nvidia', 'user_space')} {flavour}"
    found = f"{version} {module.text('flavour')}"
    if found != wanted:
        return failed("mixed-versions", found, wanted, f"{found} for kernel {kernel} instead of {wanted}", action)
    return passed(found, wanted, f"built for {kernel}")


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
)
