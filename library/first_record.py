#!/usr/bin/python
# SPDX-License-Identifier: Apache-2.0
"""Ansible module: compare a node with its first record, and put files and accounts back to it."""

DOCUMENTATION = r"""
module: first_record
short_description: Compare a node with its state before the first change, and put it back
description:
  - The record is made with the node's lock, before the first change (M(gpuwright.node.operator_lock)), in
    /var/lib/gpuwright/first-record.json, which only root reads. What the toolkit's runs changed since is in
    changes.json beside it.
  - Results have names, versions, modes, owners and hashes, never the content of a file.
options:
  state:
    description:
      - C(compared) changes nothing.
      - C(restored) puts files, folders and accounts back; packages must be gone by then.
      - C(ended) compares again and removes the toolkit's own folder. The record goes if no difference is left.
      - C(since) says what others have changed since the last run of the toolkit. A drop-in of a unit that nobody is to
        extend is a change. Where the records cannot be read, it says so and does not fail.
    type: str
    choices: [compared, restored, ended, since]
    default: compared
attributes:
  check_mode:
    support: full
    description: Says what would change and changes nothing.
  diff_mode:
    support: partial
    description: The rows say what would change; the drop-ins of C(state=since) are a difference.
author: The gpuwright developers (@gpuwright)
"""

EXAMPLES = r"""
- name: See what an uninstallation would do
  gpuwright.node.first_record:
  register: node_before
"""

RETURN = r"""
time:
  description: When the record was made (UTC).
  returned: success
  type: str
late:
  description: Traces of an earlier installation that were there when the record was made; empty for a bare node.
  returned: success
  type: list
  elements: str
rows:
  description: The differences, each with kind, name, was, found, step (remove, restore, stays), why and ours.
  returned: success
  type: list
  elements: dict
undone:
  description: Names of what is to be undone.
  returned: success
  type: list
  elements: str
stays:
  description: A sentence for each difference that stays, with the reason.
  returned: success
  type: list
  elements: str
packages:
  description: What the package manager has to remove and install, and the ids of keys that rpm is to forget.
  returned: success
  type: dict
units:
  description: Units to stop and disable.
  returned: success
  type: list
  elements: str
trees:
  description: Folders of the toolkit that are there.
  returned: success
  type: list
  elements: str
differences:
  description: How many differences are to be undone.
  returned: success
  type: int
whole:
  description: Whether nothing that the toolkit changed is left; only with O(state=ended).
  returned: success
  type: bool
not_ours:
  description: Names of files, packages and accounts that changed since the last run; only with O(state=since).
  returned: success
  type: list
  elements: str
drop_ins:
  description: Drop-ins of units that a site may extend, each with its unit; only with O(state=since).
  returned: success
  type: dict
because:
  description: Why that is not known, empty if it is; only with O(state=since).
  returned: success
  type: str
"""

from typing import Any, Dict

from ansible_collections.gpuwright.node.plugins.module_utils.first_record import undo
from ansible_collections.gpuwright.node.plugins.module_utils.first_record.ledger import Damaged, Newer
from ansible_collections.gpuwright.node.plugins.module_utils.first_record.not_ours import changed_since
from ansible_collections.gpuwright.node.plugins.module_utils.host.placing import one_row
from ansible_collections.gpuwright.node.plugins.module_utils.operator.node_module import AnsibleModule

AGAIN = "What is done stays done; mend this and run the same playbook again"


def main() -> None:
    """Compare, and do what is asked."""
    choices = ["compared", "restored", "ended", "since"]
    module = AnsibleModule(
        argument_spec={"state": {"type": "str", "choices": choices, "default": "compared"}}, supports_check_mode=True
    )
    if module.params["state"] == "since":
        module.exit_json(**_since())
    try:
        module.exit_json(**_answer(module.params["state"], module.check_mode))
    except Newer as error:
        module.fail_json(msg=f"{error} [first_record.newer]")
    except Damaged as error:
        module.fail_json(msg=f"{error} [first_record.damaged]")
    except (undo.NotDone, OSError) as error:
        module.fail_json(msg=f"The node is not back at its first record: {error}. {AGAIN} [uninstall.failed]")


def _since() -> Dict[str, Any]:
    try:
        found = changed_since()
    except (Damaged, OSError) as error:
        return {"changed": False, "not_ours": [], "drop_ins": {}, "because": str(error)}
    diff = [one_row(path, f"drop-in of {unit}", "is there", "none") for path, unit in sorted(found["closed"].items())]
    more = {"not_ours": found["not_ours"], "drop_ins": found["open"], "because": ""}
    return dict(more, changed=bool(diff), diff=diff)


def _answer(state: str, check_mode: bool) -> Dict[str, Any]:
    found = undo.find()
    said = undo.describe(found)
    if state == "compared":
        return dict(said, changed=False)
    if state == "ended":
        return dict(said, changed=False, whole=check_mode or undo.finish(found))
    if not check_mode:
        undo.put_back(found)
    return dict(said, changed=said["differences"] > 0)


if __name__ == "__main__":
    main()
