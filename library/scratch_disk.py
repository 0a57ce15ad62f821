#!/usr/bin/python
# SPDX-License-Identifier: Apache-2.0
"""Ansible module: makes a file system on an empty NVMe disk, or over several of them."""

DOCUMENTATION = r"""
module: scratch_disk
short_description: Make a file system on NVMe disks that hold nothing
description:
  - Finds the disks by their serial numbers and makes an XFS on the one, or on a RAID 0 of several, once. A later run
    recognises array and file system by their UUIDs.
  - Refuses any disk with a partition, a signature, data, a mount, or a user such as LVM, RAID or ZFS, and says what it
    found. There is no option to override that.
options:
  serial:
    description: Serial number of the one disk, as C(lsblk -d -o NAME,SERIAL) shows it.
    type: str
    default: ""
  serials:
    description: Those of several disks in place of it. None is touched before all have passed.
    type: list
    elements: str
    default: []
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
    serials: [S4J0NX0R123456, S4J0NX0R123457]
"""

RETURN = r"""
disks:
  description: Names of the disks, as in C(/sys/block).
  returned: always
  type: list
  elements: str
  sample: [nvme1n1]
uuid:
  description: UUID of the file system; in check mode, the one that it would get.
  returned: always
  type: str
"""

from ansible_collections.gpuwright.node.plugins.module_utils.operator.node_module import AnsibleModule
from ansible_collections.gpuwright.node.plugins.module_utils.tuning import scratch, scratch_array


def main() -> None:
    """Examine the disks; refuse or format them."""
    module = AnsibleModule(
        argument_spec={
            "serial": {"type": "str", "default": ""},
            "serials": {"type": "list", "elements": "str", "default": []},
        },
        mutually_exclusive=[("serial", "serials")],
        supports_check_mode=True,
    )
    serials = [serial.strip() for serial in module.params["serials"] or [module.params["serial"]]]
    if not all(serials):
        module.fail_json(msg="serial is empty: expected the serial number of a disk. See: lsblk -d -o NAME,SERIAL,SIZE")
    try:
        changed, disks, made = scratch_array.prepare("/", serials, module.check_mode)
    except scratch.Refused as error:
        module.fail_json(msg=f"{error} [scratch.refused]")
    except OSError as error:
        module.fail_json(msg=f"the scratch file system was not made: {error}. Nothing mounts it [scratch.failed]")
    module.exit_json(changed=changed, disks=disks, uuid=made)


if __name__ == "__main__":
    main()
