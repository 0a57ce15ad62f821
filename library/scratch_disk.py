#!/usr/bin/python
# SPDX-License-Identifier: Apache-2.0
"""Ansible module: makes a file system on an empty NVMe disk."""

DOCUMENTATION = r"""
module: scratch_disk
short_description: Make a file system on an NVMe disk that holds nothing
description:
  - Finds the disk by its serial number and makes an XFS on it, once. A later run recognises that file system by its
    UUID.
  - Refuses any disk with a partition, a signature, data, a mount, or a user such as LVM, RAID or ZFS, and says what it
    found. There is no option to override that.
options:
  serial:
    description: Serial number, as C(lsblk -d -o NAME,SERIAL) shows it.
    type: str
    required: true
attributes:
  check_mode:
    support: full
    description: Checks everything, refuses as usual, formats nothing.
  diff_mode:
    support: none
    description: There is nothing on the disk to compare with.
author: The gpuwright developers (@gpuwright)
"""

EXAMPLES = r"""
- name: Make the scratch file system
  gpuwright.node.scratch_disk:
    serial: S4J0NX0R123456
"""

RETURN = r"""
disk:
  description: Name of the disk, as in C(/sys/block).
  returned: always
  type: str
  sample: nvme1n1
uuid:
  description: UUID of the file system; in check mode, the one that it would get.
  returned: always
  type: str
"""

from ansible_collections.gpuwright.node.plugins.module_utils.operator.node_module import AnsibleModule
from ansible_collections.gpuwright.node.plugins.module_utils.tuning import scratch


def main() -> None:
    """Examine the disk; refuse or format it."""
    module = AnsibleModule(argument_spec={"serial": {"type": "str", "required": True}}, supports_check_mode=True)
    serial = module.params["serial"].strip()
    if not serial:
        module.fail_json(msg="serial is empty: expected the serial number of a disk. See: lsblk -d -o NAME,SERIAL,SIZE")
    try:
        disk = scratch.find_disk("/", serial)
        changed = not scratch.is_ours("/", disk, serial)
        if changed:
            scratch.refuse_unless_empty("/", disk, serial)
            if not module.check_mode:
                scratch.format_disk("/", disk, serial)
    except scratch.Refused as error:
        module.fail_json(msg=f"{error} [scratch.refused]")
    except OSError as error:
        module.fail_json(msg=f"the scratch file system was not made: {error}. Nothing mounts it [scratch.failed]")
    module.exit_json(changed=changed, disk=disk, uuid=scratch.uuid_for(serial))


if __name__ == "__main__":
    main()
