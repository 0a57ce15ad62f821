# SPDX-License-Identifier: Apache-2.0
"""Checks of the installed driver: its packages, who made them, who signed its module, and the initramfs."""

import collections
from typing import Dict, List, Sequence

from ...verdict.by_hand import MACHINE, Hand
from ...verdict.check import (
    DRAIN,
    FAIL,
    QUICK,
    STANDARD,
    Check,
    Outcome,
    failed,
    passed,
    skipped,
    unknown,
    warned,
)
from ...verdict.evidence import Evidence
from ..host.system import in_container
from .packages_reading import MAKERS, NVIDIA, UNNAMED

REINSTALL = "ansible-playbook site.yml --tags system"
UNINSTALL = (
    "Run on the node: nvidia-uninstall --silent (if it is missing: sh NVIDIA-Linux-*.run --uninstall) ; "
    "then " + REINSTALL
)
SYNC = {
    "rpm": "Run: dnf distro-sync -y '*nvidia*' 'cuda-drivers*' ; then " + REINSTALL,
    "dpkg": "Run: apt-get install -y --allow-downgrades {} ; then " + REINSTALL,
}
FOREIGN = ("negativo17", "RPM Fusion", "ELRepo", "graphics-drivers PPA")
DISTRIBUTION = "distribution"
NEXT_MODULE = "First do what driver.module_for_next_kernel says."
MOST_NAMES = 4
MAKER_NAMES = tuple(maker for maker, _sign in MAKERS) + (UNNAMED,)


def one_version(readings: Evidence, expected: Evidence) -> Outcome:
    """All packages of the driver have the same version: module, libraries, CUDA libraries, firmware, fabric manager.

    Tools that work with any driver (settings, modprobe, persistenced) count where NVIDIA packs them with the driver;
    distributions update them apart.
    """
    if in_container(readings):
        return skipped("in-container", in_container(readings))
    packages = [
        (package.text("name"), package.version("version"))
        for package in readings.each("driver_packages", "packages")
        if package.flag("bound")
    ]
    if not packages:
        return skipped(
            "no-package", "no package of this system contains the driver; driver.source says where it comes from"
        )
    # The most frequent version; if two are equally frequent, that of the libraries on disk.
    numbers = collections.Counter(version for _name, version in packages)
    most = max(numbers.values())
    wanted = sorted(version for version, number in numbers.items() if number == most)
    if len(wanted) > 1 and not readings.absent("probe", "nvidia", "user_space"):
        on_disk = readings.version("probe", "nvidia", "user_space")
        wanted = [on_disk] if on_disk in wanted else wanted
    odd = [f"{name} {version}" for name, version in packages if version != wanted[0]]
    if odd:
        words = f"{_few(odd)}; the other packages of the driver are {wanted[0]}"
        names = " ".join(f"{name}={wanted[0]}*" for name, version in packages if version != wanted[0])
        return failed("mixed-versions", len(odd), 0, words, _sync(readings).format(names))
    return passed(0, 0, f"{len(packages)} packages, all {wanted[0]}")


def _sync(readings: Evidence) -> str:
    """How to get to one version with this system's package manager, or with both if it is not known."""
    return SYNC["dpkg"] if readings.value.get("driver_packages", {}).get("manager") == "dpkg" else SYNC["rpm"]


def source(readings: Evidence, expected: Evidence) -> Outcome:
    """The driver's files belong to packages, of one maker, and of the one that the plan installs from.

    NVIDIA's own installer (.run) writes over what packages bring, and no update of packages changes what it wrote.
    """
    if in_container(readings):
        return skipped("in-container", in_container(readings))
    unowned = [path.text() for path in readings.each("driver_packages", "unowned")]
    traces = [path.text() for path in readings.each("driver_packages", "installer")]
    makers: Dict[str, str] = {}
    for package in readings.each("driver_packages", "packages"):
        makers.setdefault(package.one_of(MAKER_NAMES, "maker"), package.text("name"))
    known = [maker for maker in makers if maker != UNNAMED]
    if unowned:
        if traces:
            words = f"NVIDIA's installer (.run) installed {_few(unowned)} ({traces[0]} is left over from it)"
            return failed("installer", "installer", "packages", words, UNINSTALL)
        return failed("no-package", "no package", "packages", f"{_few(unowned)} belongs to no package")
    if not makers:
        return skipped("not-installed", "no driver is installed")
    foreign = [maker for maker in known if maker in FOREIGN]
    if foreign:
        words = f"{makers[foreign[0]]} comes from {foreign[0]}"
        return warned("unknown-source", ", ".join(known), NVIDIA, words)
    if len(known) > 1:
        words = ", ".join(f"{makers[maker]} from {maker}" for maker in known)
        return warned(
            "two-sources", ", ".join(known), "one source", f"the driver's packages come from two sources: {words}"
        )
    planned = _planned(expected)
    if planned and known and known[0] != planned:
        words = f"{makers[known[0]]} comes from {known[0]}, but the plan installs from {planned}"
        return warned("other-source", known[0], planned, words)
    left = [path for path in traces if not path.endswith(".log")]
    if left:
        return warned("left-over", "left over", "packages", f"{_few(left)} is left over from NVIDIA's installer (.run)")
    return passed("packages", "packages", f"the driver's files belong to packages{_of(known)}")


def _planned(expected: Evidence) -> str:
    """The maker that the plan's source implies; "" in a plan that installs no driver."""
    return {"nvidia": NVIDIA, "distribution": DISTRIBUTION}.get(expected.wish("plan", "driver", "source"), "")


def _of(known: Sequence[str]) -> str:
    return f" of {known[0]}" if known else ""


def _few(names: Sequence[str]) -> str:
    more = len(names) - MOST_NAMES
    return ", ".join(names[:MOST_NAMES]) + (f" and {more} more" if more > 0 else "")


def module_signer(readings: Evidence, expected: Evidence) -> Outcome:
    """Where only signed modules are taken, the next boot's nvidia module is signed by a key that this machine trusts.

    An enrolled key of DKMS says nothing about the key that signed this file: both may exist and differ.
    """
    if in_container(readings):
        return skipped("in-container", in_container(readings))
    state = readings.text("probe", "secure_boot")
    if state != "enabled" and not readings.flag("module_signature", "enforced"):
        if state in ("disabled", "unsupported"):
            return skipped("any-accepted", f"Secure Boot is {state}: any module is accepted")
        return unknown("unreadable", f"Secure Boot reads {state!r}", state)
    if readings.absent("module_signature", "file"):
        return unknown("no-module", "there is no module for the kernel that boots next", action=NEXT_MODULE)
    key = readings.wish("module_signature", "file", "key")
    if not key:
        return failed(
            "unsigned",
            "unsigned",
            "a trusted key",
            "the nvidia module is not signed, and only signed modules are accepted",
        )
    signer = readings.text("module_signature", "file", "signer")
    enrolled = readings.each("module_signature", "enrolled")
    if any(key in _numbers(one) for one in enrolled):
        return passed(signer, "a trusted key", f"signed by {signer}, whose key is enrolled")
    names = {one.wish("name") for one in enrolled}
    for one in readings.each("module_signature", "kernel"):
        # The kernel does not show a serial number; but an enrolled key of this name was compared by its own above.
        if key in _numbers(one) or (one.wish("name") == signer and signer not in names):
            return passed(signer, "a trusted key", f"signed by {signer}, whose key is built into the kernel")
    same = " (another key with this name is enrolled)" if signer in names else ""
    return failed(
        "not-trusted", signer, "a trusted key", f"signed by {signer}, whose key {key} is not trusted here{same}"
    )


def _numbers(one: Evidence) -> List[str]:
    return [number.text() for number in one.each("numbers")]


def _make_anew(image: str, kernel: str) -> str:
    """The command of the system to which the image's name belongs: initrd.img-<kernel> is Debian's."""
    command = "update-initramfs -u -k {}" if "/initrd.img-" in image else "dracut -f --kver {}"
    return f"Run: {command.format(kernel)} ; then reboot when nobody works on the node."


def initramfs(readings: Evidence, expected: Evidence) -> Outcome:
    """An nvidia module inside the initramfs of the kernel that boots next is the one on disk: it is loaded first.

    Most images have none, and then nothing can be stale.
    """
    if in_container(readings):
        return skipped("in-container", in_container(readings))
    kernel = readings.text("probe", "kernel", "next_boot")
    if readings.absent("initramfs"):
        return skipped("no-image", f"there is no initramfs of kernel {kernel}")
    image = readings.text("initramfs", "image")
    if kernel not in image:
        return unknown("other-kernel", f"{image} belongs to a kernel other than {kernel}", image)
    if readings.absent("initramfs", "version"):
        return passed("none", "none, or as on disk", f"{image} holds no nvidia module")
    inside = readings.version("initramfs", "version")
    if readings.absent("probe", "nvidia", "modules", kernel):
        return unknown("no-module", f"{image} holds {inside}, and there is none on disk", inside, action=NEXT_MODULE)
    on_disk = readings.version("probe", "nvidia", "modules", kernel, "version")
    if inside != on_disk:
        action = _make_anew(image, kernel)
        return failed("mixed-versions", inside, on_disk, f"{image} loads {inside}, but {on_disk} is on disk", action)
    return passed(inside, on_disk, f"{image} holds {inside}, as on disk")


CHECKS = (
    Check(
        id="driver.packages",
        layer="system",
        level=STANDARD,
        severity=FAIL,
        remedy=DRAIN,
        question="Do all packages of the driver have the same version?",
        judge=one_version,
        unit="packages",
        action=SYNC["rpm"],
        source="negativo17/nvidia-driver#167, #171, #180: module and libraries updated apart",
    ),
    Check(
        id="driver.source",
        layer="system",
        level=STANDARD,
        severity=FAIL,
        remedy=DRAIN,
        question="Was the driver installed from packages of one source?",
        judge=source,
        action=(
            "See whose they are: rpm -qa --qf '%{NAME} %{VERSION} %{VENDOR}\\n' '*nvidia*' (Debian: apt-cache policy) "
            "; remove those from other sources, then " + REINSTALL
        ),
        source="NVIDIA driver installation guide: remove what an earlier method installed before another is used",
    ),
    Check(
        id="driver.module_signer",
        layer="system",
        level=QUICK,
        severity=FAIL,
        remedy=DRAIN,
        question="Will the kernel accept the module's signature at the next boot?",
        judge=module_signer,
        action=(
            "Sign it with the enrolled key, or enrol the signer's: mokutil --import its certificate, reboot, and "
            "confirm at the console ; modinfo nvidia and mokutil --list-enrolled show both."
        ),
        source="Linux Documentation/admin-guide/module-signing.rst; kmod modinfo(8)",
    ),
    Check(
        id="driver.initramfs",
        layer="system",
        level=STANDARD,
        severity=FAIL,
        remedy=DRAIN,
        question="Does the initramfs load the driver that is installed?",
        judge=initramfs,
        action="Run: dracut -f (Debian: update-initramfs -u) ; then reboot when nobody works on the node.",
        source="dracut(8), initramfs-tools(7): modules in the image are loaded before the root file system's",
    ),
)

# By hand: who acts, and what is seen afterwards.
BY_HAND = {
    "driver.module_signer": Hand(MACHINE, "mokutil --list-enrolled lists the key that modinfo nvidia names"),
}
