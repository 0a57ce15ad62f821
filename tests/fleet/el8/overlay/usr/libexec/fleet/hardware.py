"""The simulated hardware of one boot, mounted over /sys and /proc before systemd starts.

Reads /etc/fleet/hardware.json (written by `fleet up` from hosts.yml). Runs on Python 3.6.
"""

import importlib
import json
import os
import shutil
import struct
import subprocess
import sys
import uuid

SIMULATED = "/run/fleet"
HARDWARE = "/etc/fleet/hardware.json"
FIRMWARE = "/usr/libexec/fleet/firmware.py"
KERNEL_KEY = (
    "1a2b3c4d I------     1 perm 1f030000     0     0 asymmetri Fleet kernel signing key: "
    "3b1c25e26fdc90bb7a3bd4d83a9f34d2d3c30d0f: X509.rsa d3c30d0f []\n"
)
DEFAULT_CMDLINE = "root=/dev/mapper/rhel-root ro crashkernel=auto rhgb quiet"
DEBIAN_CMDLINE = "root=/dev/mapper/debian-root ro quiet"
ENTRIES = "/boot/loader/entries"
GRUB_ENVIRONMENT = "/boot/grub2/grubenv"
GRUB_MENU = "/boot/grub/grub.cfg"
# Releases of kernels that panic when they start, one in each line.
PANICS = "/etc/fleet/panics"

# What else sits on the bus of such a server: (address, class, vendor, device, driver).
ORDINARY_DEVICES = [
    ("0000:00:00.0", "0x060000", "0x8086", "0x2020", None),
    ("0000:18:00.0", "0x020000", "0x8086", "0x1563", "ixgbe"),
    ("0000:3a:00.0", "0x060400", "0x8086", "0x2030", "pcieport"),
    ("0000:5e:00.0", "0x010802", "0x144d", "0xa808", "nvme"),
]


def write(path, text):
    os.makedirs(os.path.dirname(path), exist_ok=True)
    with open(path, "w") as stream:
        stream.write(text)


def cpu_list(cpus):
    """[0, 1, 2, 5] -> '0-2,5'"""
    ranges: list[list[int]] = []
    for cpu in sorted(cpus):
        if ranges and cpu == ranges[-1][1] + 1:
            ranges[-1][1] = cpu
        else:
            ranges.append([cpu, cpu])
    return ",".join(str(a) if a == b else "%d-%d" % (a, b) for a, b in ranges)


def cpu_map(cpus):
    return "%08x" % sum(1 << cpu for cpu in cpus)


def split_cpus(cpus, nodes):
    """Give every NUMA node its share of the CPUs: the first half to node 0, the second to node 1."""
    size = max(1, len(cpus) // nodes)
    return [cpus[i * size : (i + 1) * size if i < nodes - 1 else len(cpus)] or cpus[-1:] for i in range(nodes)]


def gpu_files(gpu, cpus):
    """File name -> text of one GPU's folder in /sys/bus/pci/devices."""
    width = gpu.get("link_width", 16)
    address, device, subsystem = gpu["pci"], gpu["device"], gpu.get("subsystem", "1214")
    return {
        "vendor": "0x10de\n",
        "device": "0x%s\n" % device,
        "subsystem_vendor": "0x10de\n",
        "subsystem_device": "0x%s\n" % subsystem,
        "class": "0x030200\n",
        "revision": "0xa1\n",
        "numa_node": "%d\n" % gpu["numa_node"],
        "local_cpulist": cpu_list(cpus) + "\n",
        "local_cpus": cpu_map(cpus) + "\n",
        "current_link_speed": "%s\n" % gpu.get("link_speed", "8.0 GT/s PCIe"),
        "current_link_width": "%d\n" % width,
        "max_link_speed": "8.0 GT/s PCIe\n",
        "max_link_width": "16\n",
        "enable": "1\n",
        "modalias": "pci:v000010DEd0000%ssv000010DEsd0000%sbc03sc02i00\n" % (device.upper(), subsystem.upper()),
        "uevent": "PCI_CLASS=30200\nPCI_ID=10DE:%s\nPCI_SUBSYS_ID=10DE:%s\nPCI_SLOT_NAME=%s\n"
        % (device.upper(), subsystem.upper(), address),
    }


def ordinary_files(address, pci_class, vendor, device):
    return {
        "vendor": vendor + "\n",
        "device": device + "\n",
        "subsystem_vendor": vendor + "\n",
        "subsystem_device": "0x0000\n",
        "class": pci_class + "\n",
        "numa_node": "0\n",
        "uevent": "PCI_CLASS=%s\nPCI_SLOT_NAME=%s\n" % (pci_class[2:].lstrip("0"), address),
    }


def node_files(cpus, node, nodes, memory_kib):
    share = memory_kib // nodes
    return {
        "cpulist": cpu_list(cpus) + "\n",
        "cpumap": cpu_map(cpus) + "\n",
        "distance": " ".join("10" if other == node else "21" for other in range(nodes)) + "\n",
        "meminfo": "Node %d MemTotal:       %d kB\nNode %d MemFree:        %d kB\n" % (node, share, node, share // 2),
        "numastat": "numa_hit 0\nnuma_miss 0\nnuma_foreign 0\ninterleave_hit 0\nlocal_node 0\nother_node 0\n",
    }


def write_nodes(folder, shares, memory):
    """/sys/devices/system/node; `shares` are the CPUs of each node, which has its part of `memory` (kB)."""
    for node, share in enumerate(shares):
        write_tree("%s/node%d" % (folder, node), node_files(share, node, len(shares), memory))
        for cpu in share:
            os.symlink("../../cpu/cpu%d" % cpu, "%s/node%d/cpu%d" % (folder, node, cpu))
    for name in ("online", "possible", "has_cpu", "has_memory", "has_normal_memory"):
        write(folder + "/" + name, cpu_list(range(len(shares))) + "\n")


def pci_config(vendor, device, pci_class, subsystem):
    """The 64 bytes of configuration space that lspci reads; hexadecimal numbers."""
    number, header = int(pci_class, 16), 1 if pci_class.startswith("0x0604") else 0
    class_bytes = bytes([0xA1, number & 255, number >> 8 & 255, number >> 16 & 255])
    start = (
        struct.pack("<HHHH", int(vendor, 16), int(device, 16), 0x0406, 0x0010) + class_bytes + bytes([0, 0, header, 0])
    )
    return start + bytes(28) + struct.pack("<HH", int(vendor, 16), int(subsystem, 16)) + bytes(16)


def write_device(folder, files):
    """A PCI device: its text files, and what lspci wants besides."""
    write_tree(
        folder, dict(files, irq="0\n", resource="0x0000000000000000 0x0000000000000000 0x0000000000000000\n" * 13)
    )
    with open(folder + "/config", "wb") as stream:
        stream.write(pci_config(files["vendor"], files["device"], files["class"], files["subsystem_device"]))


def write_tree(folder, files):
    os.makedirs(folder, exist_ok=True)
    for name, text in files.items():
        write(os.path.join(folder, name), text)


def online_cpus():
    """The CPUs this machine may run on."""
    return sorted(os.sched_getaffinity(0))


def memory_kib():
    with open("/proc/meminfo") as stream:
        return int(stream.readline().split()[1])


def copy_names(source, target):
    """The visible shape of a /sys or /proc folder: its sub-folders (empty) and readable small files."""
    os.makedirs(target, exist_ok=True)
    for name in sorted(os.listdir(source)):
        path = os.path.join(source, name)
        if os.path.isdir(path):
            os.makedirs(os.path.join(target, name), exist_ok=True)
        else:
            shutil.copyfile(path, os.path.join(target, name))


def read_lines(path):
    try:
        with open(path) as stream:
            return stream.read().splitlines()
    except OSError:
        return []


def chosen_once():
    """The entry that grub2-reboot has chosen for this boot, "" for none; it is one boot's, so grub empties it at once."""
    lines = read_lines(GRUB_ENVIRONMENT)
    names = [line.partition("=")[2] for line in lines if line.startswith("next_entry=")]
    if names:
        kept = [line for line in lines if not line.startswith("next_entry=")]
        write(GRUB_ENVIRONMENT, "\n".join(kept + ["next_entry="]) + "\n")
    return names[-1] if names else ""


def grubby(*words):
    result = subprocess.run(("grubby",) + words, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
    return result.stdout.decode()


def told(answer, key):
    """The value of a line such as `args="ro quiet"`, "" where there is none."""
    found = [line.partition("=")[2].strip('"') for line in answer.splitlines() if line.startswith(key + "=")]
    return found[0] if found else ""


def boot_loader():
    """(release, arguments) of the kernel that starts, as grub chooses it; Debian has one set of arguments for all kernels.

    A kernel that panics reboots by itself where it has `panic=`, and then the default starts; without it, nothing does.
    """
    if os.path.isdir(ENTRIES):
        starts = loader_starts()
    elif os.path.isfile(GRUB_MENU):
        grub = importlib.import_module("grub")  # of Ubuntu alone

        starts = grub.starts()
    else:
        return os.uname().release, DEBIAN_CMDLINE
    for release, options in starts:
        if release not in read_lines(PANICS):
            return release or os.uname().release, options
        if not any(word.startswith("panic=") for word in options.split()):
            break
    raise SystemExit("Kernel panic - not syncing: stand-in of a kernel that does not start")


def loader_starts():
    """[(release, arguments)] of the boot loader's entries: what is chosen for one boot, then the default."""
    once = chosen_once()
    found = [answer for answer in grubby("--info=ALL").split("index=") if once and told(answer, "id") == once]
    starts = []
    for answer in found + [grubby("--info=DEFAULT")]:
        release = os.path.basename(told(answer, "kernel")).replace("vmlinuz-", "", 1)
        arguments = told(answer, "args")
        starts.append((release, "root=/dev/mapper/rhel-root " + arguments if arguments else DEFAULT_CMDLINE))
    return starts


def bind(source, target):
    subprocess.run(["mount", "--bind", source, target], check=True)


def main():
    with open(HARDWARE) as stream:
        hardware = json.load(stream)
    shutil.rmtree(SIMULATED, ignore_errors=True)
    shares = split_cpus(online_cpus(), hardware.get("numa_nodes", 1))

    devices = SIMULATED + "/pci"
    for address, pci_class, vendor, device, driver in ORDINARY_DEVICES:
        write_device(os.path.join(devices, address), ordinary_files(address, pci_class, vendor, device))
        if driver:
            os.symlink("../../../../bus/pci/drivers/" + driver, os.path.join(devices, address, "driver"))
    for gpu in hardware["gpus"]:
        write_device(os.path.join(devices, gpu["pci"]), gpu_files(gpu, shares[max(0, gpu["numa_node"])]))
    bind(devices, "/sys/bus/pci/devices")

    # Also where there is one: what a virtual machine's host lends it (a balloon) may change the size of the real node.
    folder = SIMULATED + "/node"
    write_nodes(folder, shares, memory_kib())
    bind(folder, "/sys/devices/system/node")

    if "secure_boot" in hardware:  # without the key: a machine that does not boot by EFI
        subprocess.run([sys.executable, FIRMWARE, "on" if hardware["secure_boot"] else "off"], check=True)
        bind("/var/lib/fleet/firmware", "/sys/firmware")
        write(SIMULATED + "/keys", KERNEL_KEY)
        bind(SIMULATED + "/keys", "/proc/keys")

    write(SIMULATED + "/boot_id", str(uuid.uuid4()) + "\n")
    bind(SIMULATED + "/boot_id", "/proc/sys/kernel/random/boot_id")
    release, options = boot_loader()
    write(SIMULATED + "/cmdline", "BOOT_IMAGE=(hd0,gpt2)/vmlinuz-%s %s\n" % (release, options))
    bind(SIMULATED + "/cmdline", "/proc/cmdline")
    if release != os.uname().release:  # the system call keeps its answer, and so does the program uname
        write(SIMULATED + "/osrelease", release + "\n")
        bind(SIMULATED + "/osrelease", "/proc/sys/kernel/osrelease")

    # Where the simulated kernel (kernel.py) shows loaded modules; PID 1 reads some of the real files there.
    copy_names("/sys/module", SIMULATED + "/module")
    bind(SIMULATED + "/module", "/sys/module")
    copy_names("/proc/driver", SIMULATED + "/driver")
    bind(SIMULATED + "/driver", "/proc/driver")
    if os.path.exists("/proc/modules"):  # a kernel without loadable modules does not have it
        shutil.copyfile("/proc/modules", SIMULATED + "/modules")
        bind(SIMULATED + "/modules", "/proc/modules")


if __name__ == "__main__":
    main()
