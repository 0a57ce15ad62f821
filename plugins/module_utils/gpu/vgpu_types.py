# SPDX-License-Identifier: Apache-2.0
"""Which subsystem ids mean that a virtual machine has a part of a card (vGPU), and not the card itself.

Source: NVIDIA/open-gpu-kernel-modules at 595.45.04, src/nvidia/generated/g_nv_name_released.h, the names of vGPU types;
checked 2026-11-28. Cards before Turing are not in it. No id below is one of a board.
"""

from typing import Dict

# Of the card and of NVIDIA as the subsystem's vendor, too: single ids and ranges, in hexadecimal digits.
VGPU_TYPES: Dict[str, str] = {
    "1e37": "1347-1349 136a-136c 13a4-13a9 180d 1820",
    "1eb8": "1309-1315 1345 1367-1369 1375 139a-139b",
    "20b0": "146f-1479 160c 1840",
    "20b2": "1523-152e 160d 1841",
    "20b5": "1591-159c 160f 183e",
    "20b7": "1589-1590 1610 183c",
    "20f1": "1493-149d 160e 183d",
    "20f3": "17b2-17be 1842",
    "20f5": "17bf-17cb 183f",
    "20f6": "17cc-17d7 1843",
    "2230": "14fa-151a 2203",
    "2231": "1562-157c 2205",
    "2233": "165c-1676 2204",
    "2235": "14d5-14ee 14f3-14f9 1684-1688 16e7 2206",
    "2236": "14b6-14cb 14d0-14d4 167e-1680 16e8 2207",
    "2237": "155a-1561 162a-163b 1810-1811",
    "2238": "16a3-16b9 16e6 2208",
    "2321": "1853-1860",
    "2322": "17e2-17ef 1845",
    "2324": "18d5-18e3",
    "2329": "2028-2035 2047-2048",
    "232c": "2108-2117",
    "2330": "187a-1888",
    "2331": "16d3-16de 1798 17f0 1844",
    "2335": "206e-207b 207e-207f",
    "2337": "18f2-18fd",
    "2339": "18e4-18f1",
    "233a": "1861-186e",
    "233b": "2081-2090",
    "2342": "18c2-18c9",
    "2348": "20c2-20c9",
    "25b6": "159d-159f 1600-160b 1646-1657 2209-220a",
    "26b1": "1708-172e 21fa",
    "26b2": "1821-1838 21fc",
    "26b3": "1958-197e 21fb",
    "26b5": "176d-1793 1818 181a 21fd",
    "26b8": "174e-176c 181c 181e 21ff",
    "26b9": "1889-18b1 21fe",
    "26ba": "1909-1931 2200",
    "27b6": "1938-1956 2202",
    "27b8": "172f-174d 2201",
    "2901": "21d7-21dd 21ea",
    "2941": "20cb-20d2",
    "2bb5": "2160-21a7 21ae-21c7 21f8-21f9",
    "2bb9": "2233-2236 2243-2246 226c-226f 22ee-22ef",
    "3182": "22cb-22d2",
}


def is_vgpu_type(device_id: str, subsystem_id: str) -> bool:
    """Whether a card with this PCI id shows NVIDIA's subsystem id of a vGPU type; both in four hexadecimal digits."""
    for span in VGPU_TYPES.get(device_id, "").split():
        first, _, last = span.partition("-")
        if first <= subsystem_id <= (last or first):
            return True
    return False
