# SPDX-License-Identifier: Apache-2.0
"""Checks of the cards and of the driver that runs them: rules, and the table `CHECKS` at the end.

Readings are those of `readings.collect`. Sources of the rules: the rows of the field's trusted checkers (DCGM, gpud,
Azure and AWS health checks), and NVIDIA's driver documentation; none of them is allowed its habit of passing `[N/A]`.
"""

import re

from .nvidia_smi_xml import DATA_CENTRE
from .verdict import Check, failed, passed, skipped, unknown, warned

RETIREMENT = ("retired_pages_pending", "remapped_rows_pending", "remapped_rows_failure")
# What is not in sysfs is absent only where sysfs can be read, and the GPUs themselves are the proof of that.
NO_SYSFS = "sysfs shows no GPU, so what else it does not show means nothing"
CARD_NODE = re.compile(r"/dev/nvidia[0-9]+")
SHARED_NODES = ("/dev/nvidiactl", "/dev/nvidia-uvm")


def count(readings, expected):
    """The PCI bus and nvidia-smi must both show exactly as many GPUs as the inventory expects."""
    wanted = expected.number("gpu_count")
    on_bus = [gpu.pci_id("pci_id") for gpu in readings.each("probe", "gpus")]
    if len(on_bus) != wanted:
        return failed(len(on_bus), wanted, "{} of {} expected on the PCI bus".format(len(on_bus), wanted))
    if wanted == 0:
        return passed(0, 0, "no GPU, as expected")
    if not readings.flag("nvidia_smi", "reachable"):
        return unknown("{} on the PCI bus, but the driver cannot be asked".format(wanted), wanted, wanted)
    seen = [gpu.pci_id("pci_id") for gpu in readings.each("nvidia_smi", "gpus")]
    missing = sorted(set(on_bus) - set(seen))
    if missing:
        action = "Look for Xid lines of {} in: dmesg | grep -i xid".format(missing[0])
        return failed(len(seen), wanted, "the driver does not show {}".format(", ".join(missing)), action)
    if len(seen) != wanted:
        return failed(len(seen), wanted, "nvidia-smi shows {} of {} expected".format(len(seen), wanted))
    return passed(wanted, wanted, "{} of {} expected".format(wanted, wanted))


def model(readings, expected):
    """All GPUs are the model that the inventory names; different models in one node fail even when it names none."""
    names = sorted({gpu.text("name") for gpu in readings.each("probe", "gpus")})
    unnamed = [name for name in names if name.lower().startswith("unknown")]
    value = ", ".join(names)
    wanted = expected.wish("gpu_model")
    if not names:
        return failed("none", wanted, "there is no GPU")
    if unnamed:
        return unknown("the device table has no name for {}".format(value), value, wanted)
    if len(names) > 1:
        return failed(value, wanted or "one model", "different models in one node")
    if not wanted:
        return skipped("the inventory names no model; this node has {}".format(value))
    if value.lower() != wanted.lower():
        return failed(value, wanted, "{} instead of {}".format(value, wanted))
    return passed(value, wanted, value)


def bound_driver(readings, expected):
    """Each GPU on the PCI bus is bound to the kernel driver `nvidia`."""
    gpus = readings.each("probe", "gpus")
    others = []
    for gpu in gpus:
        driver = "none" if gpu.absent("bound_driver") else gpu.text("bound_driver")
        if driver != "nvidia":
            others.append("{} has {}".format(gpu.pci_id("pci_id"), driver))
    if not gpus:
        return unknown("there is no GPU to look at", expected="nvidia")
    if others:
        return failed("; ".join(others), "nvidia", "not bound to nvidia: {}".format("; ".join(others)))
    return passed("nvidia", "nvidia", "bound to nvidia")


def reachable(readings, expected):
    """nvidia-smi answers within its deadline and with exit status 0."""
    status = readings.text("nvidia_smi", "status")
    smi = readings.at("nvidia_smi").value
    message = str(smi.get("message") or "nvidia-smi: {}".format(status))
    action = str(smi.get("action") or "")
    if status == "ok" and readings.flag("nvidia_smi", "reachable"):
        return passed("ok", "ok", "nvidia-smi answers")
    if status in ("ok", "unreadable"):
        return unknown(message, status, "ok", action)
    return failed(status, "ok", message, action)


def driver_version(readings, expected):
    """The loaded module is of the planned branch, and of exactly the planned version where the plan pins one."""
    branch = expected.version("plan", "driver", "branch")
    wanted = expected.wish("plan", "driver", "version") or branch + ".*"
    if readings.absent("probe", "nvidia", "loaded"):
        return failed("none", wanted, "no nvidia module is loaded")
    loaded = readings.version("probe", "nvidia", "loaded", "version")
    asked = readings.version("nvidia_smi", "driver_version") if readings.flag("nvidia_smi", "reachable") else loaded
    if asked != loaded:
        return failed(loaded, wanted, "the module is {} but nvidia-smi says {}".format(loaded, asked))
    fits = loaded.startswith(branch + ".") if wanted == branch + ".*" else loaded == wanted
    if not fits:
        return failed(loaded, wanted, "{} instead of {}".format(loaded, wanted))
    return passed(loaded, wanted, loaded)


def driver_flavour(readings, expected):
    """The loaded module is open or proprietary as planned: Volta and older run on the proprietary one only."""
    wanted = expected.text("plan", "driver", "flavour")
    if readings.absent("probe", "nvidia", "loaded"):
        return failed("none", wanted, "no nvidia module is loaded")
    flavour = readings.text("probe", "nvidia", "loaded", "flavour")
    if flavour != wanted:
        return failed(flavour, wanted, "the {} module is loaded instead of the {} one".format(flavour, wanted))
    return passed(flavour, wanted, "the {} module is loaded".format(flavour))


def module_matches_user_space(readings, expected):
    """The loaded module and the libraries on disk have one version; after an update without a reboot they differ."""
    if readings.absent("probe", "nvidia", "loaded"):
        return failed("none", None, "no nvidia module is loaded")
    loaded = readings.version("probe", "nvidia", "loaded", "version")
    if readings.absent("probe", "nvidia", "user_space"):
        return failed(loaded, None, "the driver's user space is not installed")
    on_disk = readings.version("probe", "nvidia", "user_space")
    if loaded != on_disk:
        return failed(loaded, on_disk, "module {} is loaded, libraries are {}".format(loaded, on_disk))
    return passed(loaded, on_disk, "both are {}".format(loaded))


def module_for_next_kernel(readings, expected):
    """The kernel that boots next has a module file of the version of the libraries and of the planned flavour."""
    kernel = readings.text("probe", "kernel", "next_boot")
    flavour = expected.text("plan", "driver", "flavour")
    action = "Build it: dkms autoinstall -k {}; a failed build is explained in {}".format(
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


def nouveau_absent(readings, expected):
    """nouveau is not loaded: it would hold the GPU and keep NVIDIA's module from it."""
    if not readings.each("probe", "gpus"):
        return unknown(NO_SYSFS)
    if readings.flag("probe", "nouveau_loaded"):
        return failed("loaded", "not loaded", "nouveau is loaded")
    return passed("not loaded", "not loaded", "nouveau is not loaded")


def persistence(readings, expected):
    """nvidia-persistenced is active and each card says so; without it the driver forgets its settings when idle."""
    state = readings.text("persistenced")
    if state != "active":
        return warned(state, "active", "nvidia-persistenced is {}".format(state))
    if not readings.flag("nvidia_smi", "reachable"):
        return unknown("the daemon is active, but the driver cannot be asked", state, "active")
    modes = [(gpu.pci_id("pci_id"), gpu.text("persistence_mode")) for gpu in readings.each("nvidia_smi", "gpus")]
    off = [pci_id for pci_id, mode in modes if mode != "Enabled"]
    if off or not modes:
        return warned("off", "Enabled", "persistence mode is off on {}".format(", ".join(off) or "no GPU at all"))
    return passed("active", "active", "nvidia-persistenced is active")


def device_nodes(readings, expected):
    """The trainer user may read and write one /dev/nvidiaN for each GPU, /dev/nvidiactl and /dev/nvidia-uvm."""
    wanted = expected.number("gpu_count")
    user = expected.text("trainer_user")
    nodes = readings.at("device_nodes")
    names = nodes.names()
    usable = [name for name in names if nodes.flag(name, "readable") and nodes.flag(name, "writable")]
    shut = sorted(set(names) - set(usable))
    cards = [name for name in names if CARD_NODE.fullmatch(name)]
    missing = [name for name in SHARED_NODES if name not in names]
    value = "{} of {}".format(len(usable), len(names))
    if len(cards) < wanted:
        return failed(value, wanted, "{} of {} /dev/nvidiaN exist".format(len(cards), wanted))
    if missing:
        return failed(value, "all", "{} is missing".format(" and ".join(missing)))
    if shut:
        return failed(value, "all", "{} may not use {}".format(user, ", ".join(shut)))
    return passed(value, "all", "{} may use all {}".format(user, len(names)))


def uvm(readings, expected):
    """nvidia_uvm is loaded: CUDA cannot start without it, and an ordinary user cannot load it."""
    if readings.flag("probe", "nvidia", "uvm_loaded"):
        return passed("loaded", "loaded", "nvidia_uvm is loaded")
    return failed("not loaded", "loaded", "nvidia_uvm is not loaded")


def ecc(readings, expected):
    """ECC is on, and no uncorrected error was counted since boot; only cards that have no ECC are left out.

    Whether a card may say N/A is decided where its answer is read; here null means that the card has none.
    """
    gpus = answering_gpus(readings)
    if not gpus:
        return unknown("the driver cannot be asked", expected="Enabled")
    errors, off, without = [], [], []
    for gpu in gpus:
        pci_id = gpu.pci_id("pci_id")
        mode = None if gpu.absent("ecc_mode") else gpu.text("ecc_mode")
        if mode == "Enabled":
            number = gpu.number("ecc_uncorrected_volatile")
            errors += ["{} on {}".format(number, pci_id)] if number else []
        elif mode == "Disabled" and DATA_CENTRE.search(gpu.text("name")):
            off.append(pci_id)
        elif mode in (None, "Disabled"):
            # Workstation cards are delivered with ECC off, and whoever leaves it so gives nothing away.
            without.append(pci_id)
        else:
            return unknown("the ECC mode of {} reads {!r}".format(pci_id, mode), mode, "Enabled")
    if errors:
        action = "Stop using the card, run NVIDIA's field diagnostic, and have it replaced if errors come back."
        return failed(", ".join(errors), 0, "uncorrected memory errors: {}".format(", ".join(errors)), action)
    if off:
        return failed("off", "Enabled", "ECC is off on {}".format(", ".join(off)))
    if without:
        return skipped("no ECC, or delivered with it off: {}".format(", ".join(without)))
    return passed("Enabled", "Enabled", "ECC is on, no uncorrected error since boot")


def retired_pages(readings, expected):
    """No broken memory waits to be taken out of use, and none could not be: pages up to Turing, rows from Ampere on."""
    gpus = answering_gpus(readings)
    if not gpus:
        return unknown("the driver cannot be asked", expected="none")
    pending, broken, without = [], [], []
    for gpu in gpus:
        pci_id = gpu.pci_id("pci_id")
        answers = [name for name in RETIREMENT if not gpu.absent(name)]
        if not answers:
            # A card cut into MIG slices does not say; any other data-centre card must.
            mig = None if gpu.absent("mig_mode") else gpu.text("mig_mode")
            if DATA_CENTRE.search(gpu.text("name")) and mig != "Enabled":
                return unknown("{} says nothing about broken memory".format(pci_id), expected="none")
            without.append(pci_id)
        states = {name: gpu.flag(name) for name in answers}
        if states.get("remapped_rows_failure"):
            broken.append(pci_id)
        elif any(states.values()):
            pending.append(pci_id)
    if broken:
        action = "Stop using the card, run NVIDIA's field diagnostic, and have it replaced."
        return failed("failed", "none", "no spare memory left on {}".format(", ".join(broken)), action)
    if pending:
        return failed("pending", "none", "broken memory waits to be retired on {}".format(", ".join(pending)))
    if without:
        return skipped("no page retirement and no row remapping: {}".format(", ".join(without)))
    return passed("none", "none", "no broken memory waits to be retired")


def answering_gpus(readings):
    """The GPUs of nvidia-smi's answer; none when it cannot be reached."""
    return readings.each("nvidia_smi", "gpus") if readings.flag("nvidia_smi", "reachable") else []


def reboot_pending(readings, expected):
    """Nothing of what is installed waits for a reboot; computed from the state of the node, not from what a run did."""
    if not readings.flag("probe", "reboot", "required"):
        return passed("no", "no", "no reboot is needed")
    reasons = [str(reason.value) for reason in readings.each("probe", "reboot", "reasons")]
    return failed("yes", "no", "reboot required: {}".format("; ".join(reasons) or "no reason given"))


def secure_boot(readings, expected):
    """Secure Boot is off, or the key that signs DKMS modules is enrolled."""
    state = readings.text("probe", "secure_boot")
    if state == "unsupported" and not readings.each("probe", "gpus"):
        return unknown(NO_SYSFS)
    if state in ("disabled", "unsupported"):
        return passed(state, "off, or key enrolled", "Secure Boot is {}".format(state))
    if state != "enabled":
        return unknown("Secure Boot reads {!r}".format(state), state)
    if readings.flag("probe", "module_key_enrolled"):
        return passed("enabled, key enrolled", "off, or key enrolled", "the module's key is enrolled")
    if readings.absent("probe", "nvidia", "loaded"):
        return failed("enabled, key not enrolled", "off, or key enrolled", "the firmware refuses the module's key")
    # Another key signed what runs now; what DKMS builds at the next kernel update will not load.
    return warned("enabled, key not enrolled", "off, or key enrolled", "the next module that DKMS builds will not load")


CHECKS = (
    Check(
        "gpu.count",
        "system",
        "Does the node have as many GPUs as the inventory says?",
        "Compare lspci -d 10de: with the order; power off and reseat a missing card, or correct the expected number.",
        count,
        unit="GPUs",
        needs_gpu=False,
    ),
    Check(
        "gpu.model",
        "system",
        "Are they the GPUs that the inventory names?",
        "Correct the expected model in the inventory, or take the foreign card out: lspci -nn -d 10de:",
        model,
    ),
    Check(
        "gpu.bound_driver",
        "system",
        "Does NVIDIA's kernel driver hold every GPU?",
        "See who holds it: lspci -k -d 10de: then run ansible-playbook site.yml --tags system",
        bound_driver,
    ),
    Check(
        "driver.reachable",
        "system",
        "Does nvidia-smi answer?",
        "Run nvidia-smi on the node; its text and dmesg | grep -i nvrm say why.",
        reachable,
    ),
    Check(
        "driver.version",
        "system",
        "Is the planned driver loaded?",
        "Run ansible-playbook site.yml --tags system, then reboot if it says so.",
        driver_version,
    ),
    Check(
        "driver.flavour",
        "system",
        "Is the module open or proprietary as planned?",
        "Run ansible-playbook site.yml --tags system; the module stream must be switched.",
        driver_flavour,
    ),
    Check(
        "driver.module_matches_user_space",
        "system",
        "Do the loaded module and the driver's libraries belong together?",
        "Reboot the node, or install the missing part: ansible-playbook site.yml --tags system",
        module_matches_user_space,
    ),
    Check(
        "driver.module_for_next_kernel",
        "system",
        "Will the driver be there after the next boot?",
        "Build it: dkms autoinstall; a failed build is explained in /var/lib/dkms/*/*/build/make.log",
        module_for_next_kernel,
    ),
    Check(
        "driver.nouveau_absent",
        "system",
        "Is nouveau out of the way?",
        "Check that rd.driver.blacklist=nouveau is in /proc/cmdline (grubby --info=ALL), then reboot.",
        nouveau_absent,
    ),
    Check(
        "driver.persistence",
        "system",
        "Does the driver stay initialised when nobody uses it?",
        "Run: systemctl enable --now nvidia-persistenced",
        persistence,
    ),
    Check(
        "driver.device_nodes",
        "system",
        "May the trainer user open the GPU's device files?",
        "Run: nvidia-modprobe -u -c 0 and compare ls -l /dev/nvidia* with NVreg_DeviceFileMode.",
        device_nodes,
        unit="files",
    ),
    Check(
        "driver.uvm",
        "system",
        "Is the module that CUDA needs loaded?",
        "Run: modprobe nvidia_uvm; it must be listed in /etc/modules-load.d to be there after a boot.",
        uvm,
    ),
    Check(
        "driver.ecc",
        "system",
        "Is the GPU's memory protected and free of errors?",
        "Switch it on: nvidia-smi -e 1, then reboot.",
        ecc,
    ),
    Check(
        "driver.retired_pages",
        "system",
        "Does broken GPU memory wait to be taken out of use?",
        "Reboot once; if pages are pending again, run NVIDIA's field diagnostic.",
        retired_pages,
    ),
    Check(
        "reboot.pending",
        "system",
        "Is what is installed also what runs?",
        "Reboot the node when nobody works on it; system_driver_reboot=allowed lets a run do it.",
        reboot_pending,
        needs_gpu=False,
    ),
    Check(
        "secure_boot",
        "system",
        "Does the firmware accept the module?",
        "Run mokutil --import /var/lib/dkms/mok.pub, reboot, and confirm the key at the console.",
        secure_boot,
    ),
)
