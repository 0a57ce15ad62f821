#!/usr/bin/python
# SPDX-License-Identifier: Apache-2.0
"""Ansible module: sets up kernel, disk, limits, units and GPUs for training, and restores them."""

DOCUMENTATION = r"""
module: host_tuning
short_description: Settings of kernel, data disk, limits, units and GPUs, with rollback
description:
  - Applies the settings that docs/tuning.md lists, now and at each boot, and writes C(/etc/gpuwright/tuning.json), with
    which verification compares the host.
  - The values found before the first change are kept in C(/var/lib/gpuwright/tuning-before.json). O(state=absent)
    restores all of them; naming a setting in O(leave) restores that one.
  - Settings that this host does not have, or cannot change itself (a container's kernel), are skipped with the reason.
options:
  state:
    description: V(present) applies the settings, V(absent) restores everything to what was found.
    type: str
    choices: [present, absent]
    default: present
  leave:
    description: Names of settings that are left alone.
    type: list
    elements: str
    default: []
  values:
    description: Different values, by name of the setting.
    type: dict
    default: {}
  limits_group:
    description: Group whose members get the limits.
    type: str
    default: trainer
  limits_units:
    description: Services that get the same limits.
    type: list
    elements: str
    default: []
  data_dir:
    description: A folder on the data disk; it need not exist yet.
    type: path
    default: /srv
  tuned_parent:
    description: tuned profile to build on; empty takes the one that tuned recommends.
    type: str
    default: ""
  scratch_uuid:
    description: UUID of the scratch file system that M(gpuwright.node.scratch_disk) made; empty for none.
    type: str
    default: ""
  scratch_dir:
    description: Where it is mounted.
    type: path
    default: /scratch
  program:
    description: Text of gpu-tune, which applies the settings at boot.
    type: str
    default: ""
  link:
    description: A link to gpu-tune, which is removed with it. A file of that name is never replaced; empty for none.
    type: path
    default: ""
  only_unfelt:
    description:
      - Whether to change something only if running work feels nothing of it. If RV(turns) is not empty, nothing is
        changed then, and whoever asks can look for work first.
    type: bool
    default: false
attributes:
  check_mode:
    support: full
    description: Says what would change and changes nothing.
  diff_mode:
    support: full
    description: Shows values before and after.
author: The gpuwright developers (@gpuwright)
"""

EXAMPLES = r"""
- name: Tune the host, but leave its swappiness alone
  gpuwright.node.host_tuning:
    leave: [vm.swappiness]
    values: {disk_read_ahead_kb: "1024"}
    limits_group: trainer
    limits_units: [train-gan@.service]
    data_dir: /srv/gan/data
    program: "{{ lookup('file', 'gpu-tune') }}"
    link: /usr/bin/gpu-tune

- name: Put everything back
  gpuwright.node.host_tuning:
    state: absent
"""

RETURN = r"""
settings:
  description: The settings that are applied, as in tuning.json.
  returned: always
  type: list
  elements: dict
turns:
  description: Changes, made or in check mode only announced, that affect running work - settings of the kernel, of
    disks and of GPUs, the tuned profile, services and mounts. Files that are read at the next login or boot are not
    included.
  returned: always
  type: list
  elements: str
left_alone:
  description: Settings that this host lacks or cannot change itself, with name and reason.
  returned: always
  type: list
  elements: dict
"""

from ansible_collections.gpuwright.node.plugins.module_utils.host import placing
from ansible_collections.gpuwright.node.plugins.module_utils.operator.node_module import AnsibleModule
from ansible_collections.gpuwright.node.plugins.module_utils.tuning import apply as tuning
from ansible_collections.gpuwright.node.plugins.module_utils.tuning import store as tuning_store
from ansible_collections.gpuwright.node.plugins.module_utils.tuning.disk import NotHere
from ansible_collections.gpuwright.node.plugins.module_utils.tuning.plan import Refused, make_plan

AGAIN = f"What was found before is kept in {tuning_store.BEFORE}. Mend this and run again"


def say(module: AnsibleModule, lost: str) -> None:
    """What was lost with a damaged record, also where the run ends here."""
    if lost:
        module.warn(lost)


def main() -> None:
    """Compare, then apply."""
    module = AnsibleModule(
        argument_spec={
            "state": {"type": "str", "choices": ["present", "absent"], "default": "present"},
            "leave": {"type": "list", "elements": "str", "default": []},
            "values": {"type": "dict", "default": {}},
            "limits_group": {"type": "str", "default": "trainer"},
            "limits_units": {"type": "list", "elements": "str", "default": []},
            "data_dir": {"type": "path", "default": "/srv"},
            "tuned_parent": {"type": "str", "default": ""},
            "scratch_uuid": {"type": "str", "default": ""},
            "scratch_dir": {"type": "path", "default": "/scratch"},
            "program": {"type": "str", "default": ""},
            "link": {"type": "path", "default": ""},
            "only_unfelt": {"type": "bool", "default": False},
        },
        supports_check_mode=True,
    )
    if module.params["state"] == "present" and not module.params["program"].strip():
        module.fail_json(msg="program is empty: expected the text of gpu-tune, which applies the settings at boot")
    lost, plan = "", tuning.NOTHING
    try:
        if module.params["state"] == "absent":
            before, lost = tuning_store.load("/"), tuning_store.lost_before("/")
        else:
            before, lost = tuning_store.load_to_set("/", may_write=False)
            plan = make_plan("/", module.params, module.params["program"], can_wait=module.check_mode)
        work = tuning.compare("/", plan, before)
        link = tuning.wanted_link(module.params["link"], module.params["state"])
        found = placing.found_at(link.path) if link.path else placing.ABSENT
        differs = placing.differences(found, link) if link.path else []
        turns = tuning.turns(work)
        waits = bool(module.params["only_unfelt"] and turns)
        old, new = tuning.describe(work)
        diff = [{"before": old, "after": new}] if old or new else []
        diff += [placing.shown(found, link, differs)] if differs else []
        if not module.check_mode and not waits:
            damaged = bool(lost) and module.params["state"] == "present"
            if damaged and tuning.is_change(work):
                # Only now, and said at once: whatever comes next may fail.
                module.warn(tuning_store.load_to_set("/", may_write=True)[1])
                damaged, lost = False, ""
            if not damaged:
                # With nothing to change, the damaged record stays, and today's values are not put over it.
                tuning.apply("/", plan, work, before)
            placing.place(link, differs)
    except Refused as error:
        say(module, lost)
        module.fail_json(msg=f"{error}. Nothing was changed [tuning.refused]")
    except (NotHere, OSError, ValueError) as error:
        say(module, lost)
        module.fail_json(msg=f"the settings are not complete: {error}. {AGAIN} [tuning.incomplete]")
    say(module, lost)
    module.exit_json(
        changed=(tuning.is_change(work) or bool(differs)) and not waits,
        diff=[] if waits else diff,
        settings=plan.settings,
        turns=turns,
        # Not named "skipped", which Ansible uses for the task.
        left_alone=plan.skipped,
    )


if __name__ == "__main__":
    main()
