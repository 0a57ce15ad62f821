#!/usr/bin/python
# SPDX-License-Identifier: Apache-2.0
"""Ansible module: finds obstacles to a plan on this node, before anything is changed."""

DOCUMENTATION = r"""
module: preflight_checks
short_description: Find what would stop or break an installation on this node
description:
  - Compares free space and inodes with the total for everything that is not yet installed, and the cards with those
    expected. Checks Secure Boot, the clock, the package manager, work on the GPUs, and whether a lock file exists.
  - If packages of a repository are missing, it requests the repository's metadata and key, through dnf's proxy, all
    addresses at once and for at most 20 s.
  - It never fails because of what it finds, and changes nothing; check mode makes no difference.
options:
  host:
    description: What M(gpuwright.node.gpu_probe) returned as C(gpu_node).
    type: dict
    required: true
  plan:
    description: What M(gpuwright.node.gpu_plan) returned as C(gpu_node_plan).
    type: dict
    required: true
  space:
    description: Rows C(space) of the matrix, in MiB and files.
    type: dict
    required: true
  space_percent:
    description: How much of that estimate must be free, in percent. 0 skips this check.
    type: int
    default: 120
  gpu_count:
    description: Number of GPUs that the node was bought with. If omitted, they are not counted.
    type: int
  gpu_model:
    description: Their name. Empty accepts any.
    type: str
    default: ""
  allow_missing_gpus:
    description: Whether fewer GPUs only cause a remark.
    type: bool
    default: false
  busy:
    description: What the run does if somebody works (C(gpuwright_busy)); C(later) is a rollout, which looks itself.
    type: str
    choices: [skip, wait, force, later]
    default: skip
  allow_unlocked:
    description: Whether a plan without a lock file only causes a remark.
    type: bool
    default: false
  packages:
    description: Packages beside those of the plan, as C(framework_pytorch_packages) lists them.
    type: list
    elements: str
    default: []
  packages_lock:
    description: Their lock file on the controller, as the lookup P(gpuwright.node.package_lock#lookup) tells it.
    type: dict
    default: {}
  allow_downgrade:
    description: Whether a driver older than the node's was asked for, by a variable or by a pin that names it.
    type: bool
    default: false
  allow_kernel_update:
    description: Whether the kernel may be updated, which takes more space in /boot.
    type: bool
    default: false
  prepare_secure_boot:
    description: Whether the run makes and stages a signing key if Secure Boot would refuse the module.
    type: bool
    default: false
  secure_boot_password_hash:
    description: Hash of the password for that; its format is checked, and it is never shown.
    type: str
    default: ""
  repositories:
    description: Repositories that will be configured, with C(name), C(url), C(variable) (with the address), C(key_url),
      C(key_variable), C(key_fingerprint), C(packages) wanted from it, C(user) and C(key_user) in place of logins.
    type: list
    elements: dict
    default: []
  relied:
    description: Repositories of which other sources are looked for, as P(gpuwright.node.asked#lookup) has them.
    type: list
    elements: dict
    default: []
  environment:
    description: Name of the folder of the plan's environment below /opt/gpuwright/venvs. Empty if it does not exist.
    type: str
    default: ""
  training_user:
    description: User that the model layer will create, "" for none; somebody else's account of that name is an error.
    type: str
    default: ""
  researchers:
    description: Accounts that the model layer will add to the group; they must already exist.
    type: list
    elements: str
    default: []
  passwords:
    description: Passwords of those users, by the variable that holds the address; never shown.
    type: dict
    default: {}
  controller_time:
    description: Seconds since 1970 on the controller when the task began. If omitted, the clock is not compared.
    type: float
author: The gpuwright developers (@gpuwright)
"""

EXAMPLES = r"""
- name: Look for problems
  gpuwright.node.preflight_checks:
    host: "{{ gpu_node }}"
    plan: "{{ gpu_node_plan }}"
    space: "{{ (role_path ~ '/files/matrix' | matrix).space }}"
    gpu_count: 1
  register: found
"""

RETURN = r"""
problems:
  description: What was found, each with C(problem), C(evidence), C(next) (what to do), C(stops) (no for a remark).
  type: list
  elements: dict
  returned: always
read_only:
  description: Folders of the roles on read-only file systems, where no package manager can be queried.
  type: list
  elements: str
  returned: always
other_sources:
  description: Repositories of which other sources have to be taken over first; also as fact C(gpu_node_other_sources).
  type: list
  elements: str
  returned: always
own_repositories:
  description: The system's own repositories in dnf's files, by their ids, and whether each is enabled.
  type: dict
  returned: always
sources_refused:
  description: Why apt refuses all of its sources as they are now. Empty if it reads them.
  type: str
  returned: always
"""

from ansible_collections.gpuwright.node.plugins.module_utils.operator.node_module import AnsibleModule
from ansible_collections.gpuwright.node.plugins.module_utils.preflight.host_checks import find_problems, read_facts
from ansible_collections.gpuwright.node.plugins.module_utils.preflight.space import read_only_folders
from ansible_collections.gpuwright.node.plugins.module_utils.probe.host import ask
from ansible_collections.gpuwright.node.plugins.module_utils.sources.named import own_repositories


def main() -> None:
    """Read what the probe did not, and judge all of it."""
    module = AnsibleModule(
        argument_spec={
            "host": {"type": "dict", "required": True},
            "plan": {"type": "dict", "required": True},
            "space": {"type": "dict", "required": True},
            "space_percent": {"type": "int", "default": 120},
            "gpu_count": {"type": "int"},
            "gpu_model": {"type": "str", "default": ""},
            "allow_missing_gpus": {"type": "bool", "default": False},
            "busy": {"type": "str", "choices": ["skip", "wait", "force", "later"], "default": "skip"},
            "allow_unlocked": {"type": "bool", "default": False},
            "packages": {"type": "list", "elements": "str", "default": []},
            "packages_lock": {"type": "dict", "default": {}},
            "allow_kernel_update": {"type": "bool", "default": False},
            "prepare_secure_boot": {"type": "bool", "default": False},
            "secure_boot_password_hash": {"type": "str", "default": "", "no_log": True},
            "allow_downgrade": {"type": "bool", "default": False},
            "repositories": {"type": "list", "elements": "dict", "default": []},
            "relied": {"type": "list", "elements": "dict", "default": []},
            "environment": {"type": "str", "default": ""},
            "training_user": {"type": "str", "default": ""},
            "researchers": {"type": "list", "elements": "str", "default": []},
            "passwords": {"type": "dict", "default": {}, "no_log": True},
            "controller_time": {"type": "float"},
        },
        supports_check_mode=True,
    )
    wishes = dict(module.params, time=module.params["controller_time"])
    host, plan = module.params["host"], module.params["plan"]
    given = {name: module.params[name] for name in ("repositories", "passwords", "environment", "relied")}
    try:
        accounts = [name for name in [wishes["training_user"]] + wishes["researchers"] if name]
        facts = read_facts(plan, ask, system=host["os"], accounts=accounts, **given)
        problems = find_problems(host, plan, facts, wishes)
    except (OSError, ValueError) as error:
        module.fail_json(msg=f"The sources of packages cannot be read: {error}. Mend that first. [repository.sources]")
    except KeyError as error:
        module.fail_json(msg=f"{error} is missing in host, plan or space: gpu_node, gpu_node_plan expected")
    others = sorted({other.relied.id for other in facts["sources"]["others"]})
    answer = {"problems": problems, "read_only": read_only_folders(facts), "other_sources": others}
    answer.update(sources_refused=facts["sources"]["refused"], own_repositories=own_repositories())
    module.exit_json(changed=False, ansible_facts={"gpu_node_other_sources": others}, **answer)


if __name__ == "__main__":
    main()
