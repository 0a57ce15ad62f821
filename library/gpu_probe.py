#!/usr/bin/python
# SPDX-License-Identifier: Apache-2.0

DOCUMENTATION = r"""
---
module: gpu_probe
short_description: Read the state of a GPU host, before and after its driver is installed
version_added: "0.1.0"
description:
  - Reads hardware, kernels, driver, disks and use of a host from sysfs, /proc and a few files. Needs no driver and
    starts no program that touches a GPU.
  - Runs C(grubby), C(modinfo) and C(dkms) if they are installed, and C(mokutil) if the firmware shows no key lists,
    each for at most 20 s.
  - Changes nothing. A value that cannot be read is null or C(unknown), never a guess.
  - Run it as root; otherwise, processes that only root may examine count as work.
options:
  kernels:
    description: More kernel releases whose headers and module files are looked up, besides those of the running and
      the next kernel.
    type: list
    elements: str
    default: []
  agents:
    description: Names of programs that hold GPUs open and lose nothing in a reboot, besides those that the toolkit
      knows (monitoring, device plugins, NVIDIA's daemons). A process with such a name is not counted as work.
      Names as C(ps -o comm) shows them; the first 15 characters count. An interpreter's name is refused.
    type: list
    elements: str
    default: []
  settled:
    description: Also look whether anything has changed since an earlier run had nothing to do, and who holds the lock
      of the host.
    type: bool
    default: false
extends_documentation_fragment: [gpuwright.node.read_only]
author: The gpuwright developers (@gpuwright)
"""

EXAMPLES = r"""
- name: Read the host
  gpuwright.node.gpu_probe:

- name: Use what was read
  ansible.builtin.debug:
    msg: "{{ gpu_node.gpus | length }} GPUs under kernel {{ gpu_node.kernel.running }}"
"""

RETURN = r"""
ansible_facts:
  description: The fact C(gpu_node), so that later tasks of the play see the newest reading under one name.
  returned: success
  type: dict
  contains:
    gpu_node:
      description: The host. Memory and disk space are in MiB, versions are strings. Every part with its units is in
        roles/preflight/files/gpu_node.schema.json of the collection.
      type: dict
      contains:
        schema:
          description: Version of this record's format.
          type: int
          sample: 1
        hostname:
          description: The kernel's host name.
          type: str
        os:
          description: Distribution with id, version, major, family (redhat, debian, unknown) and name.
          type: dict
          sample: {id: rhel, version: "8.8", major: 8, family: redhat, name: "Red Hat Enterprise Linux 8.8 (Ootpa)"}
        machine:
          description: Machine name, as uname prints it.
          type: str
          sample: x86_64
        kernel:
          description: Releases of the kernels running, next_boot, installed (oldest first) and with_headers, the
            boot_id and build, the boot_entry that grub starts by default, the owners of the images and the
            metapackages that bring them.
          type: dict
        secure_boot:
          description: enabled, disabled, unsupported (no UEFI) or unknown.
          type: str
        module_key_enrolled:
          description: Whether the key of DKMS is enrolled; null if there is no key or this cannot be determined.
          type: bool
        module_key:
          description: Where DKMS keeps its signing key (private_key, certificate), whether it has been made, its state
            (none, enrolled, staged, not_enrolled, blocked, unknown) and, if that is unknown, why (because).
          type: dict
        module_signature:
          description: Whether the nvidia module of the kernel that boots next is signed by a trusted key (kernel,
            signer, trusted, because); null if every module is accepted or there is none.
          type: dict
        secure_boot_because:
          description: What could not be read, if secure_boot is unknown.
          type: str
        cpu:
          description: Model, sockets, physical cores and logical CPUs; a count that cannot be read is null.
          type: dict
        memory_mib:
          description: Total memory in MiB.
          type: int
        numa:
          description: Per NUMA node its CPUs, in the kernel's list format, and its memory in MiB.
          type: dict
        gpus:
          description: NVIDIA GPUs on the PCI bus with pci_id, device_id, name, architecture, compute_capability,
            numa_node (the kernel writes -1 for unknown), local_cpus, link and bound_driver.
          type: list
          elements: dict
        platform:
          description: The board that connects the GPUs through NVSwitches, with id and name (a row of the matrix's
            platforms), needs (beside the driver), switches and bridges (what was seen), known and because.
          type: dict
        nvidia:
          description: loaded (version and flavour of the module in the kernel), uvm_loaded, device_nodes, modules
            (module files of the running, the next and the named kernels), dkms (rows of dkms status), user_space
            (version of the libraries), half_replaced (packages of the driver that an interrupted transaction left in
            two versions) and nouveau_unblocked (kernels whose boot entry lacks the argument that the driver's package
            sets).
          type: dict
        nouveau_loaded:
          description: Whether the nouveau module is loaded.
          type: bool
        pythons:
          description: Paths of Python 3 interpreters by version.
          type: dict
          sample: {"3.11": /usr/bin/python3.11}
        disks:
          description: Free MiB and free inodes per folder; a missing folder, or a number that does not exist, is null.
          type: dict
        in_use:
          description: gpu_processes (pid, name, user and since, a time in UTC), users logged in besides this
            connection, and jobs.
          type: dict
        verified:
          description: Whether this host has passed verification before.
          type: bool
        last_verdict:
          description: verdict and time (UTC) of the node's last report or check; null if there is none.
          type: dict
          sample: {verdict: FAIL, time: "2026-01-05T10:00:00Z"}
        kept_plan:
          description: What this host's recorded plan chose for each part; null if it has none.
          type: dict
          sample: {driver: 580 proprietary 580-dkms, cuDNN: 9.10.2}
        settled:
          description: The stamp of an earlier run that had nothing to do, with its inputs (a checksum) and which parts
            of the node have changed since; empty if there is none. Only with O(settled).
          type: dict
        lock:
          description: The record of the run that holds the lock of the host (C(holder), null for none), and why a
            record cannot be read (C(damaged)); only with O(settled).
          type: dict
        reboot:
          description: Whether a reboot is required, with one sentence for each reason; computed only from the host's
            state.
          type: dict
          sample: {required: true, reasons: [nouveau is loaded]}
"""

from ansible_collections.gpuwright.node.plugins.module_utils.first_record.stamp import read_stamp
from ansible_collections.gpuwright.node.plugins.module_utils.gpu.agents import agent_problem
from ansible_collections.gpuwright.node.plugins.module_utils.operator.node_module import AnsibleModule
from ansible_collections.gpuwright.node.plugins.module_utils.operator.record import read_lock
from ansible_collections.gpuwright.node.plugins.module_utils.probe.host import probe


def main() -> None:
    """Read the host and return it."""
    names = {"type": "list", "elements": "str", "default": []}
    spec = {"kernels": names, "agents": names, "settled": {"type": "bool", "default": False}}
    module = AnsibleModule(argument_spec=spec, supports_check_mode=True)
    agents = module.params["agents"]
    problems = [problem for problem in map(agent_problem, agents) if problem]
    if problems:
        module.fail_json(msg=f"agents: {'; '.join(problems)} [variable.value]")
    host = probe(kernels=[name for name in module.params["kernels"] if name], agents=agents)
    if module.params["settled"]:
        host["settled"] = read_stamp()
        host["lock"] = read_lock()
    module.exit_json(changed=False, ansible_facts={"gpu_node": host})


if __name__ == "__main__":
    main()
