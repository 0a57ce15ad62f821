"""The PCI buses of real machines with several GPUs, as sysfs shows them; the ids are those of pci.ids."""

from __future__ import annotations

from host_tree import HostTree

SWITCH = {"class": "0x068000"}
# ConnectX-7: the same id as a network card; its vital product data tells (gpu-driver-container).
CX7 = {"vendor": "0x15b3", "device": "0x1021", "class": "0x020700"}
VPD_OF_A_BRIDGE = b"\x82\x2d\x00NVIDIA ConnectX-7\x90\x40\x00PN\x10MCX750500B-0D00SMDL=SW_MNG\x78"
VPD_OF_A_CARD = b"\x82\x2d\x00NVIDIA ConnectX-7\x90\x40\x00PN\x10MCX75310AAS-NEAT\xff\xfe\x78"


def devices(tree: HostTree, first: int, number: int, **files: str) -> None:
    for index in range(number):
        tree.pci_device(f"0000:{first + index:02x}:00.0", **files)


def connectx(tree: HostTree, first: int, number: int, product_data: bytes) -> None:
    devices(tree, first, number, **CX7)
    for index in range(number):
        tree.put(f"/sys/bus/pci/devices/0000:{first + index:02x}:00.0/vpd", product_data)


def dgx_a100(tree: HostTree) -> None:
    """Eight A100 SXM4 40 GB and six NVSwitches, of class 0680 as NCCL's dump of one shows (NVIDIA/nccl#1505)."""
    devices(tree, 0x07, 8, device="0x20b0")
    devices(tree, 0xC4, 6, device="0x1af1", **SWITCH)


def hgx_h100(tree: HostTree) -> None:
    """Eight H100 SXM5, four NVSwitches, and network cards of the kind that leads to switches in a B200."""
    devices(tree, 0x10, 8, device="0x2330")
    devices(tree, 0x05, 4, device="0x22a3", **SWITCH)
    connectx(tree, 0x40, 8, VPD_OF_A_CARD)


def hgx_h200(tree: HostTree) -> None:
    devices(tree, 0x10, 8, device="0x2335")
    devices(tree, 0x05, 4, device="0x22a3", **SWITCH)


def hgx_b200(tree: HostTree) -> None:
    """Eight B200, four ConnectX-7 functions that lead to the switches, and eight that are network cards."""
    devices(tree, 0x10, 8, device="0x2901")
    connectx(tree, 0x05, 4, VPD_OF_A_BRIDGE)
    connectx(tree, 0x40, 8, VPD_OF_A_CARD)


def hgx_b300(tree: HostTree) -> None:
    devices(tree, 0x10, 8, device="0x3182")
    connectx(tree, 0x05, 4, VPD_OF_A_BRIDGE)


def gb200(tree: HostTree) -> None:
    """A compute tray: four GPUs and no switch, for those are in other trays."""
    devices(tree, 0x10, 4, device="0x2941")
    connectx(tree, 0x40, 4, VPD_OF_A_CARD)


def a100_pcie(tree: HostTree) -> None:
    devices(tree, 0x3B, 2, device="0x20b5")


def v100_sxm2(tree: HostTree) -> None:
    """DGX-1: eight V100 that are linked to each other without switches."""
    devices(tree, 0x06, 8, device="0x1db5")


def hgx_a100_four(tree: HostTree) -> None:
    """The board with four A100, which are linked to each other without switches."""
    devices(tree, 0x01, 4, device="0x20b2")


def b200_in_a_vm(tree: HostTree) -> None:
    """A virtual machine with one B200: the host's own fabric manager sets up the switches."""
    devices(tree, 0x06, 1, device="0x2901")


def dgx_2(tree: HostTree) -> None:
    """Sixteen V100 SXM3 and twelve NVSwitches."""
    devices(tree, 0x10, 16, device="0x1db8")
    devices(tree, 0x60, 12, device="0x1ac2", **SWITCH)


def switches_of_an_unknown_id(tree: HostTree) -> None:
    devices(tree, 0x10, 16, device="0x1db8")
    devices(tree, 0x60, 12, device="0x1ac9", **SWITCH)


def b200_of_an_unknown_id(tree: HostTree) -> None:
    devices(tree, 0x10, 8, device="0x29fe")
    connectx(tree, 0x05, 4, VPD_OF_A_BRIDGE)


def hopper_behind_ampere_switches(tree: HostTree) -> None:
    devices(tree, 0x10, 8, device="0x2330")
    devices(tree, 0xC4, 6, device="0x1af1", **SWITCH)


def switches_without_gpus(tree: HostTree) -> None:
    """An HGX H100 whose GPUs have all fallen off the bus."""
    devices(tree, 0x05, 4, device="0x22a3", **SWITCH)
