# SPDX-License-Identifier: Apache-2.0
"""What an NVIDIA PCI device id (vendor 10de) says about a GPU, before any driver is there to be asked.

NVIDIA numbers its devices in blocks, one chip to a block, so a card without a name here still has its architecture.
Sources: the public pci.ids list, the lists of supported GPUs in NVIDIA's driver READMEs, and NVIDIA's CUDA GPU list for
the compute capabilities. Names are those that nvidia-smi prints.
"""

import collections

NVIDIA_VENDOR = "10de"

Device = collections.namedtuple("Device", "name architecture compute_capability")

# chip: (architecture, CUDA compute capability)
CHIPS = {
    "GK104": ("kepler", "3.0"),
    "GK106": ("kepler", "3.0"),
    "GK107": ("kepler", "3.0"),
    "GK110": ("kepler", "3.5"),
    "GK208": ("kepler", "3.5"),
    "GK210": ("kepler", "3.7"),
    "GM107": ("maxwell", "5.0"),
    "GM108": ("maxwell", "5.0"),
    "GM200": ("maxwell", "5.2"),
    "GM204": ("maxwell", "5.2"),
    "GM206": ("maxwell", "5.2"),
    "GP100": ("pascal", "6.0"),
    "GP102": ("pascal", "6.1"),
    "GP104": ("pascal", "6.1"),
    "GP106": ("pascal", "6.1"),
    "GP107": ("pascal", "6.1"),
    "GP108": ("pascal", "6.1"),
    "GV100": ("volta", "7.0"),
    "TU102": ("turing", "7.5"),
    "TU104": ("turing", "7.5"),
    "TU106": ("turing", "7.5"),
    "TU116": ("turing", "7.5"),
    "TU117": ("turing", "7.5"),
    "GA100": ("ampere", "8.0"),
    "GA102": ("ampere", "8.6"),
    "GA103": ("ampere", "8.6"),
    "GA104": ("ampere", "8.6"),
    "GA106": ("ampere", "8.6"),
    "GA107": ("ampere", "8.6"),
    "AD102": ("ada", "8.9"),
    "AD103": ("ada", "8.9"),
    "AD104": ("ada", "8.9"),
    "AD106": ("ada", "8.9"),
    "AD107": ("ada", "8.9"),
    "GH100": ("hopper", "9.0"),
    "GB100": ("blackwell", "10.0"),
    "GB102": ("blackwell", "10.0"),
    "GB110": ("blackwell", "10.3"),
    "GB112": ("blackwell", "10.3"),
    "GB202": ("blackwell", "12.0"),
    "GB203": ("blackwell", "12.0"),
    "GB205": ("blackwell", "12.0"),
    "GB206": ("blackwell", "12.0"),
    "GB207": ("blackwell", "12.0"),
}

# (first id, last id, chip)
BLOCKS = (
    (0x0FC0, 0x0FFF, "GK107"),
    (0x1000, 0x103F, "GK110"),
    (0x1180, 0x11BF, "GK104"),
    (0x11C0, 0x11FF, "GK106"),
    (0x1280, 0x12BF, "GK208"),
    (0x1340, 0x137F, "GM108"),
    (0x1380, 0x13BF, "GM107"),
    (0x13C0, 0x13FF, "GM204"),
    (0x1400, 0x143F, "GM206"),
    (0x15C0, 0x15FF, "GP100"),
    (0x1600, 0x167F, "GM204"),
    (0x1700, 0x173F, "GP100"),
    (0x1740, 0x177F, "GM108"),
    (0x1780, 0x17BF, "GM107"),
    (0x17C0, 0x17FF, "GM200"),
    (0x1B00, 0x1B7F, "GP102"),
    (0x1B80, 0x1BFF, "GP104"),
    (0x1C00, 0x1C7F, "GP106"),
    (0x1C80, 0x1CFF, "GP107"),
    (0x1D00, 0x1D7F, "GP108"),
    (0x1D80, 0x1DFF, "GV100"),
    (0x1E00, 0x1E7F, "TU102"),
    (0x1E80, 0x1EFF, "TU104"),
    (0x1F00, 0x1F7F, "TU106"),
    (0x1F80, 0x1FFF, "TU117"),
    (0x2080, 0x20FF, "GA100"),
    (0x2180, 0x21FF, "TU116"),
    (0x2200, 0x227F, "GA102"),
    (0x2300, 0x237F, "GH100"),
    (0x2400, 0x247F, "GA103"),
    (0x2480, 0x24FF, "GA104"),
    (0x2500, 0x257F, "GA106"),
    (0x2580, 0x25FF, "GA107"),
    (0x2680, 0x26FF, "AD102"),
    (0x2700, 0x277F, "AD103"),
    (0x2780, 0x27FF, "AD104"),
    (0x2800, 0x287F, "AD106"),
    (0x2880, 0x28FF, "AD107"),
    (0x2900, 0x297F, "GB100"),
    (0x2980, 0x29FF, "GB102"),
    (0x2B80, 0x2BFF, "GB202"),
    (0x2C00, 0x2C7F, "GB203"),
    (0x2D00, 0x2D7F, "GB206"),
    (0x2D80, 0x2DFF, "GB207"),
    (0x2F00, 0x2F7F, "GB205"),
    (0x3180, 0x31FF, "GB110"),
    (0x3200, 0x327F, "GB112"),
)

# Ids that do not carry the chip of their block.
CHIP_EXCEPTIONS = {"102d": "GK210"}

NAMES = {
    "1023": "Tesla K40m",
    "1024": "Tesla K40c",
    "102d": "Tesla K80",
    "118f": "Tesla K10",
    "13f2": "Tesla M60",
    "13bd": "Tesla M10",
    "1431": "Tesla M4",
    "17c2": "NVIDIA GeForce GTX TITAN X",
    "17c8": "NVIDIA GeForce GTX 980 Ti",
    "17fd": "Tesla M40",
    "15f0": "Quadro GP100",
    "15f7": "Tesla P100-PCIE-12GB",
    "15f8": "Tesla P100-PCIE-16GB",
    "15f9": "Tesla P100-SXM2-16GB",
    "1b00": "NVIDIA TITAN X (Pascal)",
    "1b02": "NVIDIA TITAN Xp",
    "1b06": "NVIDIA GeForce GTX 1080 Ti",
    "1b30": "Quadro P6000",
    "1b38": "Tesla P40",
    "1b80": "NVIDIA GeForce GTX 1080",
    "1b81": "NVIDIA GeForce GTX 1070",
    "1b82": "NVIDIA GeForce GTX 1070 Ti",
    "1bb0": "Quadro P5000",
    "1bb1": "Quadro P4000",
    "1bb3": "Tesla P4",
    "1bb4": "Tesla P6",
    "1d81": "NVIDIA TITAN V",
    "1db1": "Tesla V100-SXM2-16GB",
    "1db2": "Tesla V100-DGXS-16GB",
    "1db3": "Tesla V100-FHHL-16GB",
    "1db4": "Tesla V100-PCIE-16GB",
    "1db5": "Tesla V100-SXM2-32GB",
    "1db6": "Tesla V100-PCIE-32GB",
    "1db7": "Tesla V100-DGXS-32GB",
    "1db8": "Tesla V100-SXM3-32GB",
    "1dba": "Quadro GV100",
    "1df0": "Tesla PG500-216",
    "1df2": "Tesla PG503-216",
    "1df5": "Tesla V100-SXM2-16GB",
    "1df6": "Tesla V100S-PCIE-32GB",
    "1e02": "NVIDIA TITAN RTX",
    "1e04": "NVIDIA GeForce RTX 2080 Ti",
    "1e07": "NVIDIA GeForce RTX 2080 Ti",
    "1e30": "Quadro RTX 6000",
    "1e81": "NVIDIA GeForce RTX 2080 SUPER",
    "1e82": "NVIDIA GeForce RTX 2080",
    "1e84": "NVIDIA GeForce RTX 2070 SUPER",
    "1e87": "NVIDIA GeForce RTX 2080",
    "1eb0": "Quadro RTX 5000",
    "1eb1": "Quadro RTX 4000",
    "1eb4": "NVIDIA T4G",
    "1eb8": "Tesla T4",
    "1f02": "NVIDIA GeForce RTX 2070",
    "1f06": "NVIDIA GeForce RTX 2060 SUPER",
    "20b0": "NVIDIA A100-SXM4-40GB",
    "20b1": "NVIDIA A100-PCIE-40GB",
    "20b2": "NVIDIA A100-SXM4-80GB",
    "20b3": "NVIDIA A100-SXM-64GB",
    "20b5": "NVIDIA A100 80GB PCIe",
    "20b7": "NVIDIA A30",
    "20b8": "NVIDIA A100X",
    "20f1": "NVIDIA A100-PCIE-40GB",
    "20f3": "NVIDIA A800-SXM4-80GB",
    "20f5": "NVIDIA A800 80GB PCIe",
    "20f6": "NVIDIA A800 40GB PCIe",
    "2203": "NVIDIA GeForce RTX 3090 Ti",
    "2204": "NVIDIA GeForce RTX 3090",
    "2206": "NVIDIA GeForce RTX 3080",
    "2208": "NVIDIA GeForce RTX 3080 Ti",
    "2216": "NVIDIA GeForce RTX 3080",
    "2230": "NVIDIA RTX A6000",
    "2231": "NVIDIA RTX A5000",
    "2232": "NVIDIA RTX A4500",
    "2233": "NVIDIA RTX A5500",
    "2235": "NVIDIA A40",
    "2236": "NVIDIA A10",
    "2237": "NVIDIA A10G",
    "2238": "NVIDIA A10M",
    "2321": "NVIDIA H100 NVL",
    "2322": "NVIDIA H800 PCIe",
    "2324": "NVIDIA H800",
    "2329": "NVIDIA H20",
    "232c": "NVIDIA H20-3e",
    "2330": "NVIDIA H100 80GB HBM3",
    "2331": "NVIDIA H100 PCIe",
    "2335": "NVIDIA H200",
    "2336": "NVIDIA H100",
    "2339": "NVIDIA H100",
    "233a": "NVIDIA H800 NVL",
    "233b": "NVIDIA H200 NVL",
    "2342": "NVIDIA GH200",
    "2484": "NVIDIA GeForce RTX 3070",
    "2486": "NVIDIA GeForce RTX 3060 Ti",
    "24b0": "NVIDIA RTX A4000",
    "2503": "NVIDIA GeForce RTX 3060",
    "2504": "NVIDIA GeForce RTX 3060",
    "2531": "NVIDIA RTX A2000",
    "25b6": "NVIDIA A2 or A16",
    "2684": "NVIDIA GeForce RTX 4090",
    "2685": "NVIDIA GeForce RTX 4090 D",
    "26b1": "NVIDIA RTX 6000 Ada Generation",
    "26b2": "NVIDIA RTX 5000 Ada Generation",
    "26b3": "NVIDIA RTX 5880 Ada Generation",
    "26b5": "NVIDIA L40",
    "26b9": "NVIDIA L40S",
    "26ba": "NVIDIA L20",
    "2702": "NVIDIA GeForce RTX 4080 SUPER",
    "2704": "NVIDIA GeForce RTX 4080",
    "2705": "NVIDIA GeForce RTX 4070 Ti SUPER",
    "2782": "NVIDIA GeForce RTX 4070 Ti",
    "2786": "NVIDIA GeForce RTX 4070",
    "27b0": "NVIDIA RTX 4000 SFF Ada Generation",
    "27b2": "NVIDIA RTX 4000 Ada Generation",
    "27b6": "NVIDIA L2",
    "27b8": "NVIDIA L4",
    "2901": "NVIDIA B200",
    "2941": "NVIDIA GB200",
    "2b85": "NVIDIA GeForce RTX 5090",
    "2b87": "NVIDIA GeForce RTX 5090 D",
    "2bb1": "NVIDIA RTX PRO 6000 Blackwell Workstation Edition",
    "2bb4": "NVIDIA RTX PRO 6000 Blackwell Max-Q Workstation Edition",
    "2bb5": "NVIDIA RTX PRO 6000 Blackwell Server Edition",
    "2c02": "NVIDIA GeForce RTX 5080",
    "2c05": "NVIDIA GeForce RTX 5070 Ti",
    "2d04": "NVIDIA GeForce RTX 5060 Ti",
    "2f04": "NVIDIA GeForce RTX 5070",
    "3182": "NVIDIA B300",
}


def describe_device(device_id):
    """The `Device` of a PCI device id such as "1db4"; what the tables do not know is named unknown and never guessed.

    The name of an unlisted card is "unknown 10de:xxxx"; its architecture is known all the same when its block is.
    """
    device_id = device_id.lower()
    name = NAMES.get(device_id, "unknown {}:{}".format(NVIDIA_VENDOR, device_id))
    architecture, compute_capability = CHIPS.get(_chip(device_id), ("unknown", None))
    return Device(name, architecture, compute_capability)


def _chip(device_id):
    if device_id in CHIP_EXCEPTIONS:
        return CHIP_EXCEPTIONS[device_id]
    try:
        number = int(device_id, 16)
    except ValueError:
        return None
    for first, last, chip in BLOCKS:
        if first <= number <= last:
            return chip
    return None


def find_devices(text):
    """PCI ids that a person may mean, sorted: by an id ("1db4", "10de:1DB4") or a name, with or without its maker.

    An empty list means that the tables know no such card.
    """
    wanted = text.strip().lower()
    device_id = wanted.split(":")[-1].replace("0x", "")
    if wanted.startswith(NVIDIA_VENDOR + ":") or device_id in NAMES:
        return [device_id] if describe_device(device_id).architecture != "unknown" else []
    exact = [key for key, name in NAMES.items() if name.lower() == wanted]
    plain = [key for key, name in NAMES.items() if without_maker(name) == without_maker(wanted)]
    return sorted(exact or plain)


def without_maker(name):
    """ "NVIDIA GeForce RTX 4090" and "RTX 4090" are one card to a person."""
    words = [
        word for word in name.lower().replace("-", " ").split() if word not in ("nvidia", "geforce", "tesla", "quadro")
    ]
    return " ".join(words)
