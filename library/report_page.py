#!/usr/bin/python
# SPDX-License-Identifier: Apache-2.0

DOCUMENTATION = r"""
---
module: report_page
short_description: Make the pages of the fleet from saved reports
version_added: "0.1.0"
description:
  - Reads the reports of C(gpu_verify) in a folder of the controller and writes C(index.html) beside them, and a page
    for each host in the subfolder C(hosts). Pages of hosts that no longer have a report are removed.
  - The pages need no network and open from the file. The index has a script that searches, filters and sorts;
    without it, the whole table is shown.
  - Each report is compared with the one of the same name in the subfolder C(previous).
  - Runs on the controller, and contacts no host.
  - Never reports a change. A report that cannot be read is shown as UNKNOWN with the reason.
options:
  folder:
    description: Folder with one JSON file for each host.
    type: path
    required: true
attributes:
  check_mode:
    support: full
    description: Makes the pages, but writes and removes none.
  diff_mode:
    support: none
    description: The pages are not part of a node's state.
author: The gpuwright developers (@gpuwright)
"""

EXAMPLES = r"""
- name: Make the page
  gpuwright.node.report_page:
    folder: "{{ playbook_dir }}/reports"
  run_once: true
"""

RETURN = r"""
path:
  description: The index.
  returned: success
  type: str
hosts:
  description: How many hosts there are.
  returned: success
  type: int
"""

from ansible.module_utils.basic import AnsibleModule


def main() -> None:
    """The work is done by the action plug-in of this name, plugins/action/report_page.py."""
    module = AnsibleModule(argument_spec={"folder": {"type": "path", "required": True}}, supports_check_mode=True)
    module.fail_json(
        msg="report_page runs on the controller and not on a node: name it gpuwright.node.report_page in a task, so "
        "that Ansible finds the action plug-in of the collection."
    )


if __name__ == "__main__":
    main()
