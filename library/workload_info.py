#!/usr/bin/python
# SPDX-License-Identifier: Apache-2.0
"""Ansible module: finds who is working on this host at this moment."""

DOCUMENTATION = r"""
---
module: workload_info
short_description: Find who is working on a host right now, and whose work a step would harm
version_added: "0.1.0"
description:
  - Reads the processes, control groups and jobs of a host - who has a GPU open, which containers were given one, who
    runs from an environment below /opt/gpuwright/venvs, which Slurm jobs there are.
  - Meant to run right before a step that would disturb or end work. In case of doubt, somebody is working.
  - Changes nothing; check mode makes no difference. Run it as root; otherwise, what only root may see counts as work.
options:
  touches:
    description:
      - What the step would touch. C(gpu) is the driver and its modules, C(cards) is computing time and memory on the
        cards, C(environment) is the environment in I(environment), C(host) is everything.
    type: str
    choices: [gpu, cards, environment, host]
    default: host
  environment:
    description: Path of an environment, or of a link to one. With C(touches=environment), its users are looked for.
    type: path
    default: ""
  agents:
    description: Names of programs that hold GPUs open and lose nothing, besides those that the toolkit knows. Names as
      C(ps -o comm) shows them. An interpreter's name is refused.
    type: list
    elements: str
    default: []
  venvs:
    description: Folder of the environments.
    type: path
    default: /opt/gpuwright/venvs
extends_documentation_fragment: [gpuwright.node.read_only]
author: The gpuwright developers (@gpuwright)
"""

EXAMPLES = r"""
- name: Find work that would be lost
  gpuwright.node.workload_info:
    touches: gpu
  register: seen

- name: Say it
  ansible.builtin.debug:
    msg: "{{ seen.who or 'nobody' }}"
"""

RETURN = r"""
in_way:
  description: Those of C(workloads) whose work the step would harm.
  returned: success
  type: list
  elements: dict
who:
  description: The same in words, with user and start time; empty if the step would harm nobody's work.
  returned: success
  type: str
  sample: train-gan@default.service (python3.11, pid 4321, trainer, since 2026-01-05T10:40:00Z)
workloads:
  description: Everybody who is working - what (service, job, container or program), name, pid, processes (their
    number), user, since (UTC), cards, given (a container with a GPU), environments, by_link (started through a link to
    one, such as current), job (a batch job), unreadable (why it cannot be determined what it is).
  returned: success
  type: list
  elements: dict
users:
  description: Who is logged in besides this connection.
  returned: success
  type: list
  elements: str
environments:
  description: Every environment that somebody runs from, has open or has as working folder, and who; agents are
    included.
  returned: success
  type: dict
uptime_s:
  description: Time of this reading, in seconds since boot.
  returned: success
  type: float
"""

import os
import time

from ansible_collections.gpuwright.node.plugins.module_utils.gpu.agents import agent_problem
from ansible_collections.gpuwright.node.plugins.module_utils.host.process_use import VENVS
from ansible_collections.gpuwright.node.plugins.module_utils.operator.node_module import AnsibleModule
from ansible_collections.gpuwright.node.plugins.module_utils.probe.workloads import (
    TOUCHES,
    describe_all,
    in_way,
    read_workloads,
)


def main() -> None:
    """Find who is working, and return it."""
    module = AnsibleModule(
        argument_spec={
            "touches": {"type": "str", "choices": list(TOUCHES), "default": "host"},
            "environment": {"type": "path", "default": ""},
            "agents": {"type": "list", "elements": "str", "default": []},
            "venvs": {"type": "path", "default": VENVS},
        },
        supports_check_mode=True,
    )
    params = module.params
    problems = [problem for problem in map(agent_problem, params["agents"]) if problem]
    if problems:
        module.fail_json(msg=f"agents: {'; '.join(problems)} [variable.value]")
    environment = os.path.realpath(params["environment"]) if params["environment"] else ""
    if environment and os.path.dirname(environment) == os.path.realpath(params["venvs"]):
        environment = os.path.join(params["venvs"], os.path.basename(environment))
    found = read_workloads(agents=params["agents"], venvs=params["venvs"])
    rows = in_way(found, params["touches"], environment)
    who = describe_all(rows)
    # The summary shows `msg` while the task is repeated.
    module.exit_json(
        changed=False, in_way=rows, who=who, msg=f"in use by {who}" if who else "", uptime_s=uptime(), **found
    )


def uptime() -> float:
    """Seconds since boot; not affected if the clock is set meanwhile."""
    return time.monotonic()


if __name__ == "__main__":
    main()
