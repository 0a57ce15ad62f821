#!/usr/bin/python
# SPDX-License-Identifier: Apache-2.0

DOCUMENTATION = r"""
---
module: report_page
short_description: One page for the fleet from saved reports
version_added: "1.0.0"
description:
  - Reads the reports of C(gpu_verify) in a folder of the controller and writes C(index.html) beside them.
  - The page is self-contained, needs no script and no network, and opens from the file.
  - A report of the same name in the subfolder C(previous) is what it is compared with.
  - Never reports a change. A report that cannot be read is shown as UNKNOWN with the reason.
options:
  folder:
    description: Folder with one JSON file for each host.
    type: path
    required: true
attributes:
  check_mode:
    support: full
    description: Makes the page and does not write it.
  diff_mode:
    support: none
    description: The page is no state of a node.
author: The gpuwright developers (@gpuwright)
"""

EXAMPLES = r"""
- name: Make the page
  report_page:
    folder: "{{ playbook_dir }}/reports"
  delegate_to: localhost
  become: false
  run_once: true
"""

RETURN = r"""
path:
  description: The page.
  returned: success
  type: str
hosts:
  description: How many hosts it shows.
  returned: success
  type: int
"""

import os

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.gpuwright.node.plugins.module_utils.page.fleet import make_page, read_folder
from ansible_collections.gpuwright.node.plugins.module_utils.verdict.report import now_utc, write_text


def main():
    module = AnsibleModule(argument_spec={"folder": {"type": "path", "required": True}}, supports_check_mode=True)
    folder = module.params["folder"]
    path = os.path.join(folder, "index.html")
    try:
        hosts = read_folder(folder)
        if not hosts:
            module.fail_json(msg="{}: no report there; expected the JSON files of gpu_verify".format(folder))
        page = make_page(hosts, now_utc())
        if not module.check_mode:
            write_text(path, page)
    except OSError as error:
        module.fail_json(msg="{}: {}".format(folder, error.strerror or error))
    module.exit_json(changed=False, path=path, hosts=len(hosts))


if __name__ == "__main__":
    main()
