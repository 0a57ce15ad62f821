#!/usr/bin/python
# SPDX-License-Identifier: Apache-2.0

DOCUMENTATION = r"""
---
module: sweep
short_description: Choose the nodes of a sweep, and judge and remember what one of them has told
version_added: "0.2.0"
description:
  - For the tasks of C(playbooks/sweep.yml). Reads and writes the history of the cards in the folder of reports.
  - Runs on the controller, and contacts no host.
options:
  state:
    description: C(looked) says whose turn it is, C(asked) whether it still is that of this host, C(begun) notes that
      its sweep has begun, C(told) adds what it has told to its history, and C(judged) judges that, once all nodes of
      the batch are there. C(left) judges a host that an earlier sweep has left out of service.
    type: str
    choices: [looked, asked, begun, told, judged, left]
    required: true
  folder:
    description: Folder of the reports.
    type: path
    required: true
  rules:
    description: The settings of the sweep, and how many nodes the fleet has. For C(looked) and
      C(asked).
    type: dict
    default: {}
  names:
    description: The name of each node in its scheduler, by host. For C(looked) and C(asked).
    type: dict
    default: {}
  who:
    description: Who works on each host that has answered, by host, where there is no scheduler. For C(looked) and
      C(asked).
    type: dict
  rows:
    description: What sinfo says of all nodes. For C(looked) and C(asked).
    type: str
    default: ""
  details:
    description: What scontrol says of all nodes. For C(looked) and C(asked).
    type: str
    default: ""
  answer:
    description: What the burn-in has printed. For C(told) and C(judged).
    type: raw
    default: ""
  expected:
    description: What the node must be, as for an acceptance. For C(told) and C(judged).
    type: dict
    default: {}
  seen:
    description: The host's boot and cards at this moment, of C(tasks/look.yml). For all but C(looked) and C(asked).
    type: dict
    default: {}
  troubles:
    description: What failed besides, in words; it counts where the verification has left no report. For C(told)
      and C(judged).
    type: list
    elements: str
    default: []
  share:
    description: Percentage by which a figure may be below its own first days, or below the fleet. For C(judged).
    type: int
    default: 10
attributes:
  check_mode:
    support: full
    description: C(looked) says whose turn it is, and writes nothing.
  diff_mode:
    support: none
    description: The history is not part of a node's state.
author: The gpuwright developers (@gpuwright)
"""

EXAMPLES = r"""
- name: Note that the sweep of this node has begun
  gpuwright.node.sweep:
    state: begun
    folder: reports
"""

RETURN = r"""
turns:
  description: Of each host, how many may be taken together with it (0 if it is not its turn), why not, and whether an
    earlier sweep has left it out of service.
  returned: state is looked
  type: dict
table:
  description: The same for people, each reason once.
  returned: state is looked
  type: list
  elements: str
problems:
  description: Histories that could not be read.
  returned: state is looked
  type: list
  elements: str
why:
  description: Why the host is not taken after all; empty if it is.
  returned: state is asked
  type: str
verdict:
  description: FAIL, UNKNOWN, WARN or PASS.
  returned: state is judged
  type: str
reason:
  description: Why the node is bad, for its scheduler; empty if it is not.
  returned: state is judged or left
  type: str
findings:
  description: All findings, each with its status and id.
  returned: state is judged
  type: list
  elements: str
"""

from ansible.module_utils.basic import AnsibleModule


def main() -> None:
    """The work is done by the action plug-in of this name, plugins/action/sweep.py."""
    module = AnsibleModule(
        argument_spec={
            "state": {
                "type": "str",
                "choices": ["looked", "asked", "begun", "told", "judged", "left"],
                "required": True,
            },
            "folder": {"type": "path", "required": True},
            "rules": {"type": "dict", "default": {}},
            "names": {"type": "dict", "default": {}},
            "who": {"type": "dict"},
            "rows": {"type": "str", "default": ""},
            "details": {"type": "str", "default": ""},
            "answer": {"type": "raw", "default": ""},
            "expected": {"type": "dict", "default": {}},
            "seen": {"type": "dict", "default": {}},
            "troubles": {"type": "list", "elements": "str", "default": []},
            "share": {"type": "int", "default": 10},
        },
        supports_check_mode=True,
    )
    module.fail_json(
        msg="sweep runs on the controller and not on a node: name it gpuwright.node.sweep in a task, so that Ansible "
        "finds the action plug-in of the collection."
    )


if __name__ == "__main__":
    main()
