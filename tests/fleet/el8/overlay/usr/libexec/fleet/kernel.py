"""The simulated kernel's choice at boot: nouveau, nvidia or nothing drives the GPUs.

Follows the real rules: nouveau takes the GPUs unless it is blacklisted; nvidia.ko is loaded only if a module was really
built for the running kernel and can drive the GPU. Runs on Python 3.6.
"""

import json
import os
import subprocess
from collections import namedtuple

SIMULATED = "/run/fleet"
HARDWARE = "/etc/fleet/hardware.json"

# PCI device id -> (architecture, first and last proprietary driver branch, open module can drive it)
ARCHITECTURES = {
    "1db": ("Volta", 384, 580, False),
    "1eb": ("Turing", 410, 999, True),
    "20b": ("Ampere", 450, 999, True),
    "233": ("Hopper", 520, 999, True),
}
MAJOR_NUMBER = 195
VARIABLES = "/sys/firmware/efi/efivars"
SECURE_BOOT = VARIABLES + "/SecureBoot-8be4df61-93ca-11d2-aa0d-00e098032b8c"
ENROLLED = VARIABLES + "/MokListRT-605dab50-e046-4300-abb6-3dd810dd8b23"

Module = namedtuple("Module", "version license")
Outcome = namedtuple("Outcome", "driver log")


def architecture(device):
    return ARCHITECTURES.get(device[:3], ("unknown", 0, 999, True))


def can_drive(module, device):
    _, first, last, by_open = architecture(device)
    if module.license != "NVIDIA" and not by_open:
        return False
    return first <= int(module.version.split(".")[0]) <= last


def refusal(module, gpu):
    """What NVRM writes when the module cannot drive the GPU."""
    lines = ["NVRM: The NVIDIA GPU %s (PCI ID: 10de:%s)" % (gpu["pci"], gpu["device"])]
    if module.license != "NVIDIA":
        lines += [
            "NVRM: installed in this system is not supported by open",
            "NVRM: nvidia.ko because it does not include the required GPU",
            "NVRM: System Processor (GSP).",
        ]
    else:
        lines += [
            "NVRM: installed in this system is not supported by the",
            "NVRM: NVIDIA %s driver release." % module.version,
        ]
    return lines + ["nvidia: probe of %s failed with error -1" % gpu["pci"]]


def is_signed(module_key, signer):
    """Whether Secure Boot takes a signature: off, the kernel's own, or the serial number of an enrolled certificate."""
    if not read_bytes(SECURE_BOOT).endswith(b"\x01"):
        return True
    if signer and signer in read("/proc/keys"):
        return True
    # A certificate in DER holds its serial number as these very bytes.
    return bool(module_key) and bytes.fromhex(module_key.replace(":", "")) in read_bytes(ENROLLED)


def read_bytes(path):
    try:
        with open(path, "rb") as stream:
            return stream.read()
    except OSError:
        return b""


def choose(gpus, module, nouveau_blacklisted):
    """Which driver takes the GPUs, and what the kernel log says about it."""
    if not gpus:
        return Outcome(None, [])
    if not nouveau_blacklisted:
        log = ["nouveau %s: NVIDIA GV100 (140000a1)" % gpu["pci"] for gpu in gpus]
        if module:
            log.append("NVRM: The NVIDIA probe routine was not called for %d device(s)." % len(gpus))
        return Outcome("nouveau", log)
    if not module:
        return Outcome(None, [])
    unsupported = [gpu for gpu in gpus if not can_drive(module, gpu["device"])]
    if unsupported:
        log = [line for gpu in unsupported for line in refusal(module, gpu)]
        return Outcome(None, log + ["NVRM: None of the NVIDIA devices were initialized."])
    return Outcome("nvidia", ["NVRM: loading %s" % version_line(module)])


def version_line(module):
    kind = "Open Kernel Module for x86_64" if module.license != "NVIDIA" else "x86_64 Kernel Module"
    return "NVIDIA UNIX %s  %s  Release Build  (fleet)" % (kind, module.version)


def output(*command):
    result = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
    return result.stdout.decode() if result.returncode == 0 else ""


def read(path):
    try:
        with open(path) as stream:
            return stream.read()
    except OSError:
        return ""


def built_module():
    release = read("/proc/sys/kernel/osrelease").strip() or os.uname().release
    version = output("modinfo", "-k", release, "-F", "version", "nvidia").strip()
    license_ = output("modinfo", "-k", release, "-F", "license", "nvidia").strip()
    signed = [output("modinfo", "-k", release, "-F", field, "nvidia").strip() for field in ("sig_key", "signer")]
    if version and not is_signed(*signed):
        print("Loading of module with unavailable key is rejected")
        return None
    return Module(version, license_) if version else None


def nouveau_blacklisted(modprobe_config, cmdline):
    words = cmdline.split()
    arguments = [
        w.partition("=")[2].split(",")
        for w in words
        if w.split("=")[0] in ("rd.driver.blacklist", "modprobe.blacklist")
    ]
    return "blacklist nouveau" in modprobe_config.splitlines() or any("nouveau" in names for names in arguments)


def companions(modprobe_config, modules_load):
    """Modules that are loaded along with nvidia: soft dependencies and modules-load.d, without what needs a display."""
    names = {"nvidia_modeset"}
    for line in modprobe_config.splitlines():
        words = line.split()
        if words[:3] == ["softdep", "nvidia", "post:"]:
            names.update(word.replace("-", "_") for word in words[3:])
    names.update(line.strip().replace("-", "_") for line in modules_load.splitlines() if line.startswith("nvidia"))
    return sorted(names - {"nvidia"})


def modules_load_text():
    texts = []
    for folder in ("/etc/modules-load.d", "/usr/lib/modules-load.d", "/run/modules-load.d"):
        if os.path.isdir(folder):
            texts += [read(os.path.join(folder, name)) for name in sorted(os.listdir(folder))]
    return "\n".join(texts)


def show_module(name, version=None):
    folder = os.path.join(SIMULATED, "module", name)
    os.makedirs(os.path.join(folder, "parameters"), exist_ok=True)
    for file, text in (("initstate", "live"), ("refcnt", "0"), ("version", version)):
        if text:
            with open(os.path.join(folder, file), "w") as stream:
                stream.write(text + "\n")
    with open(SIMULATED + "/modules", "a") as stream:
        stream.write("%s 16384 0 - Live 0x0000000000000000 (OE)\n" % name)


def bind_driver(gpus, driver):
    for gpu in gpus:
        os.symlink("../../../../bus/pci/drivers/" + driver, "%s/pci/%s/driver" % (SIMULATED, gpu["pci"]))


def device_node(name, major, minor):
    path = "/dev/" + name
    if not os.path.exists(path):
        subprocess.run(["mknod", "-m", "666", path, "c", str(major), str(minor)])


def load_nvidia(gpus, module, extra):
    show_module("nvidia", module.version)
    for name in extra:
        show_module(name, module.version)
    folder = SIMULATED + "/driver/nvidia"
    for number, gpu in enumerate(gpus):
        os.makedirs("%s/gpus/%s" % (folder, gpu["pci"]), exist_ok=True)
        with open("%s/gpus/%s/information" % (folder, gpu["pci"]), "w") as stream:
            stream.write(
                "Model: \t\t %s\nIRQ:   \t\t 32\nGPU UUID: \t %s\nBus Type: \t PCIe\nBus Location: \t %s\nDevice Minor: \t %d\n"
                % (gpu["name"], gpu["uuid"], gpu["pci"], number)
            )
        device_node("nvidia%d" % number, MAJOR_NUMBER, number)
    os.makedirs(folder, exist_ok=True)
    with open(folder + "/version", "w") as stream:
        stream.write("NVRM version: %s\nGCC version:  gcc version 8.5.0 (stand-in)\n" % version_line(module))
    device_node("nvidiactl", MAJOR_NUMBER, 255)
    if "nvidia_uvm" in extra:
        device_node("nvidia-uvm", 508, 0)
        device_node("nvidia-uvm-tools", 508, 1)


def main():
    gpus = json.loads(read(HARDWARE) or '{"gpus": []}')["gpus"]
    for name in os.listdir("/dev"):
        if name.startswith("nvidia") and not os.path.isdir("/dev/" + name):
            os.unlink("/dev/" + name)
    config = output("modprobe", "--showconfig")
    module = built_module()
    outcome = choose(gpus, module, nouveau_blacklisted(config, read("/proc/cmdline")))
    for line in outcome.log:
        print(line)
    if outcome.driver:
        bind_driver(gpus, outcome.driver)
    if outcome.driver == "nouveau":
        show_module("nouveau")
    elif outcome.driver == "nvidia":
        load_nvidia(gpus, module, companions(config, modules_load_text()))


if __name__ == "__main__":
    main()
