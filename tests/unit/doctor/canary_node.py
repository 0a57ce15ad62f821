"""A node on which everything that identifies it, its place or its people is a value found nowhere else."""

from __future__ import annotations

import json
from datetime import datetime, timedelta, timezone

import efi
import healthy_files
import healthy_node
import healthy_plan
import node_names
from gpuwright.verdict.report import TIME_FORMAT
from healthy_kernel import records
from host_tree import HostTree
from waiver_rows import entry, struck

# name: what may not be in a masked bundle. Letters count without their case.
CANARIES = {
    "serial": "1650123987654",
    "second serial": "1650123987655",
    "board serial": "0324718012345",
    "uuid": "5b1d7c3e-9f42-4a6b-8c17-d0e2f3a4b5c6",
    "second uuid": "6c2e8d4f-0a53-4b7c-9d28-e1f3a4b5c6d7",
    "MIG uuid": "7d3f9e5a-1b64-4c8d-ae39-f2a4b5c6d7e8",
    "start of a uuid": "9a8b7c6d",
    "chassis serial": "1822chas77",
    "slot": "7341",
    "tray": "8264",
    "fabric guid": "9d1f2a3b4c5d6e7f",
    "pdi": "427f47bdf3c96203",
    "cluster": "8e4a0f6b-2c75-4d9e-bf4a-03b5c6d7e8f9",
    "clique": "31415",
    "machine id": "a1b2c3d4e5f60718293a4b5c6d7e8f90",
    "boot id": "1f0c2d3e-4b5a-4978-8a9b-c0d1e2f30415",
    "short name": "zebrafish07",
    "domain": "aquarium.example-institute.org",
    "other host": "pelican-store",
    "host in a log": "nfs9.zoo-storage.net",
    "user": "qmarsupial",
    "second user": "wombat-k",
    "full name": "Quintus Marsupialis",
    "home": "/gpfs/people/b7/burrow",
    "user of a path": "platypus_x",
    "mail": "q.marsupialis@example-institute.org",
    "login": "mirroruser",
    "password": "s3cr3t-Pa55",
    "token": "tok_8f7e6d5c4b3a",
    "ipv4": "10.83.147.22",
    "public ipv4": "203.0.113.77",
    "ipv6": "fe80::5e26:aff:fe01:9b3d",
    "global ipv6": "2001:db8:77ab::4f:1",
    "mac": "5c:26:0a:01:9b:3d",
    "name of an interface": "enx5c260a019b3d",
    "infiniband guid": "0c42:a103:0057:9b3d",
    "device serial": "5c-26-0a-ff-ff-01-9b-3d",
    "root": "c0ffee11-2233-4455-6677-8899aabbccdd",
    "short disk": "4e3d2c1b-02",
    "label": "zoo-data-label",
    "wwn": "5000c500a1b2c3d4",
    "iscsi": "iqn.2024-05.org.example-institute:store",
    "signing key": "3a:91:c4:77:52:bd:0e:6f:18:a2:5c:d9:40:e7:83:1b:f6:2d:95:ce",
    "usb serial": "ZX81SPECTRUM9",
    "who acknowledged": "heron_admin",
    "host in a reason": "gannetbox4",
    "person in a reason": "Balthasar Pinguin",
    "serial in a reason": "7HQ-88-PELI",
    "who switched off": "ostrich-rack",
    "serial of a strike": "1650777000111",
    "uuid of a strike": "8b7d6c5e-4f3a-42b1-90c8-d7e6f5a4b3c2",
    "boot of a strike": "2a1d0c3e-5b6a-4879-9a8b-d1c0e3f20516",
}

XML = f"""\
		<pdi>0x{CANARIES["pdi"]}</pdi>
		<platform_info>
			<chassis_serial_number>{CANARIES["chassis serial"]}</chassis_serial_number>
			<slot_number>{CANARIES["slot"]}</slot_number>
			<tray_index>{CANARIES["tray"]}</tray_index>
			<host_id>1</host_id>
			<gpu_fabric_guid>0x{CANARIES["fabric guid"]}</gpu_fabric_guid>
		</platform_info>
		<mig_note>MIG-{CANARIES["MIG uuid"]}</mig_note>
		<note>GPU-{CANARIES["start of a uuid"]}</note>
		<fabric_note>
			<cliqueId>{CANARIES["clique"]}</cliqueId>
			<clusterUuid>{CANARIES["cluster"]}</clusterUuid>
		</fabric_note>
"""
PROCESS = f"""<processes><process_info><pid>4711</pid><type>C</type>
			<process_name>/home/{CANARIES["user of a path"]}/venv/bin/python train.py --token={CANARIES["token"]}\
 --data {CANARIES["home"]}/images --mail {CANARIES["mail"]}</process_name>
			<used_memory>0 MiB</used_memory></process_info></processes>"""


def answer_xml() -> str:
    """The healthy card's answer with every field that identifies it filled in."""
    text = (node_names.DATA / "nvidia_smi/580-v100.xml").read_text()
    text = text.replace("0320000000001", CANARIES["serial"])
    text = text.replace("GPU-00000000-1111-2222-3333-000000000001", f"GPU-{CANARIES['uuid']}")
    begin, _found, rest = text.partition("<processes>")
    assert rest, "the recorded answer has no list of processes"
    rest = rest.partition("</processes>")[2]
    text = (begin + PROCESS + rest).replace("<current_link_width>16x<", "<current_link_width>8x<")
    return text.replace("\t\t<vbios_version>", XML + "\t\t<vbios_version>", 1)


QUERY_TEXT = f"""\
==============NVSMI LOG==============

Timestamp                                 : Mon Jan  5 10:00:00 2026
Driver Version                            : 580.95.05
GPU 00000000:3B:00.0
    Product Name                          : Tesla V100-PCIE-16GB
    Serial Number                         : {CANARIES["serial"]}
    GPU UUID                              : GPU-{CANARIES["uuid"]}
    GPU PDI                               : 0x{CANARIES["pdi"]}
    VBIOS Version                         : 88.00.48.00.02
    Board Part Number                     : 900-2G500-0000-000
    Hostname                              : {CANARIES["other host"]}
    Platform Info
        Chassis Serial Number             : {CANARIES["chassis serial"]}
        Slot Number                       : {CANARIES["slot"]}
        Tray Index                        : {CANARIES["tray"]}
        GPU Fabric GUID                   : 0x{CANARIES["fabric guid"]}
    Fabric
        CliqueId                          : {CANARIES["clique"]}
        ClusterUUID                       : {CANARIES["cluster"]}
    Processes
        Process ID                        : 4711
            Name                          : {CANARIES["home"]}/bin/python
"""
COMMAND_LINE = (
    f"BOOT_IMAGE=(hd0,gpt2)/vmlinuz root=UUID={CANARIES['root']} ro resume=PARTUUID={CANARIES['short disk']} "
    f"rd.lvm.lv=vg_{CANARIES['short name']}/root ip={CANARIES['ipv4']}::10.83.147.1:255.255.255.0:"
    f"{CANARIES['short name']}:eno1:none rd.iscsi.initiator={CANARIES['iscsi']} LABEL={CANARIES['label']} "
    "nvidia.NVreg_TemporaryFilePath=/var"
)
HOST = CANARIES["short name"]
KERNEL_LOG = f"""\
[    0.000000] {HOST} kernel: Linux version {node_names.KERNEL} (mockbuild@x86-vm) (gcc version 8.5.0)
[    0.000000] {HOST} kernel: Command line: {COMMAND_LINE}
[    1.100000] {HOST} kernel: usb 1-1: SerialNumber: {CANARIES["usb serial"]}
[    1.200000] {HOST} kernel: scsi 0:0:0:0: wwn-0x{CANARIES["wwn"]}
[    2.100000] {HOST} kernel: igb 0000:01:00.0 {CANARIES["name of an interface"]}: renamed from eth0
[    2.200000] {HOST} kernel: igb 0000:01:00.0: (PCIe:5.0Gb/s:Width x4) {CANARIES["mac"]}
[    2.300000] {HOST} kernel: mlx5_core 0000:02:00.0: node guid {CANARIES["infiniband guid"]}
[    3.100000] {HOST} kernel: IPv6: ADDRCONF(NETDEV_CHANGE): {CANARIES["ipv6"]} {CANARIES["global ipv6"]}%eno1
[    3.200000] {HOST} kernel: nfs: server {CANARIES["host in a log"]} ({CANARIES["public ipv4"]}) not responding
[    3.300000] {HOST} systemd[1]: Set hostname to <{HOST}.{CANARIES["domain"]}>.
[    5.123456] {HOST} kernel: NVRM: loading NVIDIA UNIX x86_64 Kernel Module  580.95.05  Tue Sep 23
[    6.000000] {HOST} kernel: NVRM: GPU at PCI:0000:3b:00: GPU-{CANARIES["second uuid"]}
[    6.000001] {HOST} kernel: NVRM: GPU Board Serial Number: {CANARIES["board serial"]}
[    6.100000] {HOST} kernel: integrity: Loaded X.509 cert '{CANARIES["full name"]}: Modules'
[    7.000000] {HOST} kernel: audit: type=1100 auid=1001 acct="{CANARIES["second user"]}" exe="/usr/bin/su"
[    8.000000] {HOST} kernel: CIFS: mount //{CANARIES["other host"]}/data user={CANARIES["user"]}
"""
PASSWD = (
    "root:x:0:0:root:/root:/bin/bash\n"
    "trainer:x:991:991::/var/lib/trainer:/sbin/nologin\n"
    f"{CANARIES['user']}:x:1001:1001:{CANARIES['full name']},Room 7:{CANARIES['home']}:/bin/bash\n"
    f"{CANARIES['second user']}:x:1002:1002::/home/{CANARIES['second user']}:/bin/bash\n"
)
HOSTS = (
    f"127.0.0.1 localhost\n{CANARIES['ipv4']} {HOST}.{CANARIES['domain']} {HOST}\n"
    f"10.83.147.9 {CANARIES['other host']}\n"
)
MIRROR = f"https://{CANARIES['login']}:{CANARIES['password']}@{CANARIES['other host']}.{CANARIES['domain']}/el8"


def acknowledged() -> dict:
    """That the card has half its lanes, since an hour ago; people write into a reason what they like."""
    hour = timedelta(hours=1)
    times = [(datetime.now(timezone.utc) + hour * hours).strftime(TIME_FORMAT) for hours in (-1, 24)]
    reason = "{host in a reason}: {person in a reason} swaps S/N {serial in a reason}".format(**CANARIES)
    who = {"user": CANARIES["who acknowledged"], "when": times[0], "until": times[1], "reason": reason}
    finding = {"message": f"{node_names.PCI_ID}: 8 of 16 lanes", "remedy": "power-cycle", "expected": "all"}
    place = {"boot_id": CANARIES["boot id"], "value": 8, "unit": "lanes"}
    return entry("gpu.link_width", **who, **finding, **place)


def put(host: HostTree) -> None:
    """Its files, over those of the healthy node."""
    plan = {**healthy_plan.PLAN, "repository": {"url": MIRROR}}
    off = {"host.cpu_governor": f"the firmware of {CANARIES['who switched off']} rules"}
    host.put("/etc/hostname", f"{HOST}.{CANARIES['domain']}\n")
    host.put("/etc/hosts", HOSTS)
    host.put("/etc/resolv.conf", f"search {CANARIES['domain']}\nnameserver 10.83.147.1\n")
    host.put("/etc/machine-id", CANARIES["machine id"] + "\n")
    host.put("/proc/sys/kernel/random/boot_id", CANARIES["boot id"] + "\n")
    host.put("/etc/passwd", PASSWD)
    host.put("/proc/cmdline", COMMAND_LINE)
    # DKMS signs with the key that MODINFO names, and the firmware has it; serial numbers of the same length.
    key = efi.KEY.replace(bytes.fromhex(node_names.MOK), bytes.fromhex(CANARIES["signing key"].replace(":", "")))
    host.put("/var/lib/dkms/mok.pub", key)
    efi.put_keys(host, "MokListRT", key)
    host.put("/etc/gpuwright/plan.json", json.dumps(plan))
    host.put("/etc/gpuwright/expectations.json", json.dumps(healthy_node.expectations(plan=plan, skip_checks=off)))
    folder = f"/proc/driver/nvidia/gpus/{node_names.PCI_ID}"
    host.put(f"{folder}/information", f"Model: Tesla V100\nGPU UUID: \t GPU-{CANARIES['uuid']}\nDevice Minor: \t 0\n")
    record = {"schema": 1, "boot_id": CANARIES["boot id"], "host": HOST, "note": CANARIES["machine id"]}
    host.put("/var/lib/gpuwright/boot-check.json", json.dumps(record))
    kept = {"schema": 1, "acknowledgements": [acknowledged()]}
    host.put("/var/lib/gpuwright/acknowledgements.json", json.dumps(kept))
    card = struck("2026-01-05T10:00:00Z", serial=CANARIES["serial of a strike"], pci_id="0000:5e:00")
    card["boots"][0]["boot_id"] = CANARIES["boot of a strike"]
    card["uuid"] = f"GPU-{CANARIES['uuid of a strike']}"
    slot = {name: card[name] for name in ("serial", "uuid", "name")}
    slots = {"0000:5e:00": {**slot, "boot_id": CANARIES["boot of a strike"]}}
    host.put("/var/lib/gpuwright/strikes.json", json.dumps({"schema": 1, "cards": [card], "slots": slots}))


LSPCI = f"""\
3b:00.0 3D controller [0302]: NVIDIA Corporation GV100GL [Tesla V100 PCIe 16GB] [10de:1db4] (rev a1)
	Capabilities: [b4] Vendor Specific Information
	Capabilities: [100] Device Serial Number {CANARIES["device serial"]}
		[SN] Serial number: {CANARIES["second serial"]}
"""
MODINFO = f"""\
filename:       /lib/modules/x/extra/nvidia.ko.xz
version:        580.95.05
license:        NVIDIA
signer:         {HOST} Secure Boot Module Signature key
sig_key:        {CANARIES["signing key"].upper()}
"""


INSTALLED = ("kmod-nvidia-580.95.05-1.el8.x86_64", "libcudnn9-cuda-12-9.10.2.21-1.x86_64", "bash-5.1")


def commands(folder: str) -> dict[str, str]:
    """Programs of the node as shell scripts; `folder` holds the answers as files."""
    told = (
        'case "$*" in\n'
        f'"-q -x") cat {folder}/query.xml;;\n"-q") cat {folder}/query.txt;;\n'
        f'"-L") echo "GPU 0: Tesla V100-PCIE-16GB (UUID: GPU-{CANARIES["uuid"]})";;\n'
        'topo*) printf "\\tGPU0\\tCPU Affinity\\nGPU0\\t X \\t0-9\\n";;\n'
        f'*) echo "GPU 0: Tesla V100-PCIE-16GB (UUID: GPU-{CANARIES["uuid"]})"; echo "\tall links are inActive";;\nesac'
    )
    return {
        "nvidia-smi": told,
        "journalctl": f"case \"$*\" in *'-o json'*) cat {folder}/kernel.json;; *) cat {folder}/kernel.log;; esac",
        "lspci": f"cat {folder}/lspci.txt; echo 'lspci: no permission on {HOST}' >&2",
        "modinfo": f"cat {folder}/modinfo.txt",
        # The list of all packages is the bundle's; the check asks for the driver's alone, and in its own form.
        "rpm": f'[ "$*" = -qa ] && printf "%s\\n" {" ".join(INSTALLED)} && exit\n{healthy_files.RPM}',
        "mokutil": healthy_files.mokutil(
            healthy_files.ENROLLED.replace(healthy_files.COLONS.lower(), CANARIES["signing key"])
        ),
    }


def answers() -> dict[str, str]:
    """Files that those programs print."""
    return {
        "query.xml": answer_xml(),
        "query.txt": QUERY_TEXT,
        "kernel.log": KERNEL_LOG,
        "kernel.json": records(KERNEL_LOG),
        "lspci.txt": LSPCI,
        "modinfo.txt": MODINFO,
    }
