# SPDX-License-Identifier: Apache-2.0
"""Who carries out an action that cannot be typed (cables, parts, vendors), and how to tell that it is done.

An action that can be typed has its command after "Run: ", or is a run of ansible-playbook; it needs no row here.
"""

import re
from typing import Dict, List, NamedTuple, Sequence

from ..checks.all import CHECKS
from ..verdict.check import DEEP, POWER_CYCLE, REPLACE

PROGRAM = "gpu-doctor"

CONTROLLER = "the person who runs the playbooks"
MACHINE = "a person with access to the machine, or its vendor"
VENDOR = "the vendor of the server or card"
NODE = "root on the node"
CLUSTER = "the administrator of the cluster"
FABRIC = "the administrator of the fabric manager"
NETWORK = "the administrator of the network"
STORAGE = "the administrator of the storage"
GUESTS = "the administrator of the virtual machine's host"
OWNER = "the person who runs the program, or root on the node"


class Hand(NamedTuple):
    """Who acts by hand, and what is seen afterwards; the check's own PASS is also needed and not repeated here."""

    who: str
    seen: str


REPLACED = Hand(MACHINE, "the field diagnostic ends with PASS on the card, or another card is in its place")
COOL = Hand(MACHINE, "nvidia-smi -q -d TEMPERATURE,PERFORMANCE shows room below the limit under load")
RESEATED = Hand(MACHINE, "nvidia-smi -q | grep -A 12 'GPU Link Info' shows the slot's width and generation under load")
ROUTES = Hand(FABRIC, "nvidia-smi -q | grep -A 12 Fabric shows Completed, Success and Healthy")
FAST = Hand(MACHINE, "the card is not held down under load: nvidia-smi -q -d PERFORMANCE")
ERRORS_END = "no new line of this kind appears after the next boot"

# By check; the row of a check covers each of its actions that cannot be typed.
BY_HAND = {
    "gpu.count": Hand(MACHINE, "lspci -d 10de: and nvidia-smi -L list as many cards as the inventory expects"),
    "gpu.model": Hand(CONTROLLER, "lspci -nn -d 10de: lists only the model that the inventory names"),
    "driver.ecc": REPLACED,
    "driver.retired_pages": REPLACED,
    "driver.reachable": Hand(NODE, "nvidia-smi lists the cards and exits with 0"),
    "gpu.vgpu_license": Hand(GUESTS, "nvidia-smi -q | grep -i 'license status' shows Licensed"),
    "gpu.identity": Hand(MACHINE, "nvidia-smi -L lists as many different UUIDs as cards"),
    "gpu.vbios": Hand(VENDOR, "nvidia-smi -q | grep -i vbios shows one version for all cards of a model"),
    "gpu.inforom": Hand(VENDOR, "nvidia-smi prints no warning about an InfoROM"),
    "gpu.gsp_firmware": Hand(NODE, "nvidia-smi -q | grep -i gsp shows the driver's own version"),
    "gpu.memory_size": Hand(MACHINE, "nvidia-smi -q -d MEMORY shows the size that the model is sold with"),
    "gpu.ecc_corrected": Hand(NODE, "nvidia-smi -q -d ECC shows no growing count after the next boot"),
    "gpu.sram": REPLACED,
    "gpu.retired_pages_count": REPLACED,
    "gpu.remapped_rows_count": REPLACED,
    "gpu.unrepairable_memory": REPLACED,
    "gpu.dram_uncorrected": REPLACED,
    "gpu.spare_rows": REPLACED,
    "gpu.bar1": Hand(MACHINE, "nvidia-smi -q -d MEMORY shows a BAR1 as large as the other cards'"),
    "gpu.idle_memory": Hand(OWNER, "nvidia-smi shows no memory in use without a program that uses it"),
    "gpu.temperature": COOL,
    "gpu.memory_temperature": COOL,
    "gpu.fan": Hand(MACHINE, "nvidia-smi --query-gpu=fan.speed --format=csv shows more than 0 % under load"),
    "gpu.throttle": COOL,
    "gpu.throttle_history": Hand(MACHINE, "the counters of nvidia-smi -q -d PERFORMANCE do not grow under load"),
    "gpu.power_draw": Hand(VENDOR, "nvidia-smi -q -d POWER shows a draw below the limit"),
    "gpu.link_width": RESEATED,
    "gpu.link_generation": RESEATED,
    "gpu.link_limit": RESEATED,
    "gpu.pcie_replays": Hand(MACHINE, "nvidia-smi -q | grep -i replay stays as it is under load"),
    "gpu.c2c": Hand(MACHINE, "nvidia-smi c2c -s shows every link with its speed"),
    "gpu.addressing_mode": Hand(NODE, "nvidia-smi -q | grep -i 'addressing mode' shows ATS"),
    "gpu.numa": Hand(MACHINE, "lscpu | grep -i numa shows a node for each socket"),
    "gpu.fabric_summary": ROUTES,
    "gpu.fabric_bandwidth": ROUTES,
    "gpu.fabric_route_unhealthy": ROUTES,
    "gpu.fabric_route_recovery": ROUTES,
    "gpu.fabric_access_timeout": ROUTES,
    "gpu.fabric_configuration": ROUTES,
    "gpu.fabric_partition": Hand(FABRIC, "nvidia-smi -q | grep -A 12 Fabric shows the partition as assigned"),
    "driver.module_signer": Hand(MACHINE, "mokutil --list-enrolled lists the key that modinfo nvidia names"),
    "host.clock_source": Hand(MACHINE, "/sys/devices/system/clocksource/clocksource0/current_clocksource holds tsc"),
    "host.blocked_tasks": Hand(MACHINE, "ps -eo stat,comm | grep '^D' names no task of nvidia"),
    "host.disk_space": Hand(NODE, "df -h shows the space that the check expects"),
    "host.inodes": Hand(NODE, "df -i shows the inodes that the check expects"),
    "host.writable": Hand(NODE, "findmnt shows rw for it"),
    "host.size": Hand(MACHINE, "lscpu and free -m show what the inventory expects of the host"),
    "host.infiniband": Hand(NETWORK, "ibstat shows Active and LinkUp for every port"),
    "host.disks": Hand(MACHINE, "smartctl --health says PASSED for the disk in its place"),
    "kernel.xid": Hand(NODE, ERRORS_END),
    "kernel.sxid": Hand(NODE, ERRORS_END),
    "kernel.gpu_lost": Hand(MACHINE, "nvidia-smi -L lists the card after the power cycle, and " + ERRORS_END),
    "kernel.driver_start": Hand(NODE, ERRORS_END),
    "kernel.lockups": Hand(NODE, ERRORS_END),
    "kernel.stalls": Hand(MACHINE, ERRORS_END),
    "kernel.oops": Hand(NODE, ERRORS_END),
    "kernel.out_of_memory": Hand(OWNER, ERRORS_END),
    "kernel.hardware_errors": Hand(VENDOR, "ipmitool sel list shows no new event after the part was replaced"),
    "kernel.pcie_errors": Hand(MACHINE, ERRORS_END),
    "kernel.iommu": Hand(MACHINE, ERRORS_END),
    "kernel.nvme": Hand(MACHINE, "nvme smart-log shows no media errors, and " + ERRORS_END),
    "kernel.filesystem": Hand(NODE, "the check of the file system ends without errors, and " + ERRORS_END),
    "kernel.network": Hand(NETWORK, "ip -br link shows the adapter UP, and " + ERRORS_END),
    "kernel.remote_storage": Hand(STORAGE, "ls on the mount answers at once, and the log has the server's OK"),
    "kernel.log_whole": Hand(NODE, "journalctl -k -b begins with the kernel's own version line"),
    "gpu.nvlink": Hand(MACHINE, "nvidia-smi nvlink -s shows every link with its speed"),
    "gpu.nvlink_errors": Hand(MACHINE, "nvidia-smi nvlink -e shows counters that do not grow under load"),
    "gpu.topology": Hand(MACHINE, "nvidia-smi topo -m shows the paths that the server's manual describes"),
    "gpu.iommu": Hand(MACHINE, "cat /sys/kernel/iommu_groups/*/type shows identity, or nothing, after the boot"),
    "gpu.acs": Hand(MACHINE, "lspci -vvv | grep ACSCtl shows a minus after every word, once the node has booted"),
    "framework.architectures": Hand(CONTROLLER, "the run of site.yml with the changed inventory ends DONE or PASS"),
    "framework.cuda_build": Hand(CLUSTER, "nvidia-smi -L lists the GPUs inside the job or container"),
    "framework.matrix_product": Hand(NODE, "the product is correct on each GPU alone"),
    "smoke.amp": Hand(NODE, "the command, run by hand, exits with 0"),
    "smoke.speed_ratio": FAST,
    "smoke.parallel": Hand(MACHINE, "NCCL_DEBUG=INFO shows that the run over all GPUs reaches its end"),
    "performance.h2d": RESEATED,
    "performance.d2h": RESEATED,
    "performance.link": RESEATED,
    "performance.copy": FAST,
    "performance.matmul_fp16": FAST,
    "performance.matmul_bf16": FAST,
    "performance.matmul_tf32": FAST,
    "performance.matmul_fp32": FAST,
    "performance.spread": FAST,
    "performance.p2p": Hand(MACHINE, "nvidia-smi topo -m shows NV or PIX between the two"),
    "performance.all_reduce": Hand(MACHINE, "NCCL_DEBUG=INFO shows the path over NVLink"),
    "performance.numa": Hand(MACHINE, "nvidia-smi topo -m shows the card's NUMA node as the manual does"),
    "gpu.strikes": Hand(VENDOR, "the card is replaced: gpu-doctor --strikes counts by serial number"),
}

TYPED = re.compile(r"\b[Rr]un(?: on the node)?: |\bansible-playbook ")
# The action of another check comes first, and that check itself shows when it is done.
ELSEWHERE = re.compile(r"^(?:First do what|See) [a-z_]+\.?[a-z_]* ?(?:says\.?)?$")
INVENTORY = re.compile(r"\b(inventory|verify_\w+|framework_\w+|system_\w+)\b")
AT_THE_MACHINE = re.compile(
    r"(?i)\b(reseat|cable|riser|firmware|bios|vendor|field diagnostic|power the node|exchange|swap|card out)\b"
)
GIVEN = re.compile(r"\b(allocation|pod|container) with |^Give the pod|^Start the container")
ROWS = {check.id: check for check in CHECKS}


def is_typed(action: str) -> bool:
    """Whether an action is a command, not something done by hand."""
    return TYPED.search(action) is not None


def who_acts(action: str, remedy: str = "", check_id: str = "") -> str:
    """Who can carry out an action; a playbook comes first, since running it can do no harm."""
    row = ROWS.get(check_id)
    hand = BY_HAND.get(check_id)
    if GIVEN.search(action):
        return CLUSTER
    first = TYPED.search(action)
    if first is not None:
        return CONTROLLER if "ansible-playbook" in action[first.start() : first.end() + 20] else NODE
    if hand is not None and row is not None and action == row.action:
        return hand.who
    if INVENTORY.search(action):
        return CONTROLLER
    if remedy in (REPLACE, POWER_CYCLE) or AT_THE_MACHINE.search(action):
        return MACHINE
    return hand.who if hand is not None else NODE


def proof(check_id: str, program: str = PROGRAM) -> str:
    """What finally shows that a finding is gone."""
    row = ROWS.get(check_id)
    if check_id.startswith("smoke.") or check_id == "model.limits":
        command = "ansible-playbook site.yml --tags verify"
    else:
        command = f"sudo {program}" + (" --level deep" if row is not None and row.level == DEEP else "")
    return f"{command} says PASS for {check_id}"


def done_by(check_id: str, action: str, remedy: str = "", program: str = PROGRAM) -> List[str]:
    """Parts of a sentence: who acts and, if the action cannot be typed, how to tell that it is done. A finding that
    another check explains is done when that one is."""
    parts = [f"to be done by {who_acts(action, remedy, check_id)}"]
    if not is_typed(action) and not ELSEWHERE.match(action):
        hand = BY_HAND.get(check_id)
        parts += [f"done when {', and '.join(([hand.seen] if hand else []) + [proof(check_id, program)])}"]
    return parts


def hand_note(record: Dict, program: str = PROGRAM) -> str:
    """The sentence below an action that is not a command; "" for a command, which the reader can type."""
    action = record["action"]
    if not action or is_typed(action) or ELSEWHERE.match(action):
        return ""
    return sentence_of(done_by(record["id"], action, record.get("remedy", ""), program))


def sentence_of(parts: Sequence[str]) -> str:
    """The parts as one sentence."""
    text = "; ".join(parts)
    return text[0].upper() + text[1:] + "."
